/* Searching and editing over HTTP: glob, grep, hash, edit. Called through native_routes. Invariant: results are bounded
 * by limit, and the paths of a glob by GLOB_KEPT_BYTES. */
#include "front/native/native.h"

/* All paths share one "encoding", known only after the last path. So they are kept, each with a NUL. */
#define GLOB_KEPT_BYTES (64u << 20)

struct native_glob {
    struct buf kept;
    bool utf8;
};

static int native_glob_each(void *user, const char *path, size_t len) {
    struct native_glob *glob = user;
    if (glob->kept.len + len + 1 > GLOB_KEPT_BYTES) {
        glob->kept.failed = true;
        return -ERR_LIMIT;
    }
    buf_put(&glob->kept, path, len);
    buf_byte(&glob->kept, 0);
    glob->utf8 = glob->utf8 && text_utf8(path, len);
    return 0;
}

static int native_glob_answer(struct http_request *request, const struct native_glob *glob,
                              const struct glob_result *result, struct err *err) {
    autoanswer answer;
    answer_list(&answer, request, glob_answer);
    for (size_t at = 0; at < glob->kept.len;) {
        size_t len = strlen((const char *)glob->kept.data + at);
        json_bytes(&answer.json, glob->kept.data + at, len, glob->utf8);
        at += len + 1;
        if (answer_spill(&answer))
            break;
    }
    const struct glob_out out = {*result, glob->utf8 ? "utf-8" : "base64"};
    return answer_list_end(&answer, &out, 0, err);
}

int native_glob(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct native_glob glob = {.utf8 = true};
    struct glob_result result = {0};
    const char *path;
    STEP(front_body(request, &args, err) ?: front_path(request, box, &args.path, true, &path, err));
    buf_init(&glob.kept, GLOB_KEPT_BYTES);
    const struct glob_request search = {.pattern = args.pattern.data,
                                        .path = path,
                                        .dirs = args.include_dirs,
                                        .limit = args.limit.value,
                                        .timeout_ms = args.timeout_ms.value};
    int failed = box_glob(box, &search, http_fd(request), native_glob_each, &glob, &result, err);
    result.truncated |= glob.kept.failed;
    if (!failed || glob.kept.failed)
        failed = native_glob_answer(request, &glob, &result, err);
    buf_done(&glob.kept);
    return failed;
}

/* ---- grep ---- */

static void native_lines_json(struct json *json, const char *name, const uint8_t *data, size_t len, bool utf8) {
    json_put_open(json, name, '[');
    for (size_t at = 0; data && at <= len;) {
        const uint8_t *end = memchr(data + at, '\n', len - at);
        size_t n = end ? (size_t)(end - data) - at : len - at;
        json_bytes(json, data + at, n, utf8);
        at += n + 1;
    }
    json_close(json, ']');
}

static int native_grep_each(void *user, const struct grep_match *match) {
    struct answer *answer = user;
    struct json *json = &answer->json;
    bool utf8 = text_utf8(match->path, strlen(match->path)) && text_utf8(match->text, match->len) &&
                text_utf8(match->before, match->before_len) && text_utf8(match->after, match->after_len);
    json_open(json, '{');
    json_put_bytes(json, "path", match->path, strlen(match->path), utf8);
    json_put_uint(json, "line", match->line);
    json_put_bytes(json, "text", match->text, match->len, utf8);
    if (match->before)
        native_lines_json(json, "before", match->before, match->before_len, utf8);
    if (match->after)
        native_lines_json(json, "after", match->after, match->after_len, utf8);
    json_put_str(json, "encoding", utf8 ? "utf-8" : "base64");
    json_close(json, '}');
    return answer_spill(answer);
}

int native_grep(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct grep_result result = {0};
    autoanswer answer = {0};
    const char *path;
    STEP(front_body(request, &args, err) ?: front_path(request, box, &args.path, true, &path, err));
    const struct grep_request grep = {
        .pattern = args.pattern.data,
        .path = path,
        .glob = args.glob.data,
        .literal = args.literal,
        .ignore_case = args.ignore_case,
        .before = (unsigned)args.context.value,
        .after = (unsigned)args.context.value,
        .limit = args.limit.value,
        .timeout_ms = args.timeout_ms.value,
    };
    answer_list(&answer, request, grep_answer);
    int failed = box_grep(box, &grep, http_fd(request), native_grep_each, &answer, &result, err);
    return answer_list_end(&answer, &result, failed, err);
}

/* ---- one file ---- */

int native_hash(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    uint8_t sha256[32];
    char hex[65];
    uint64_t size;
    const char *path;
    STEP(front_query(request, &args, err)
                     ?: front_path(request, box, &args.path, false, &path, err)
                     ?: box_hash(box, path, http_fd(request), sha256, &size, err));
    text_hex(hex, sha256, sizeof sha256);
    return answer_rows(request, 200, hash_answer, &(const struct hash_out){hex, size}, err);
}

int native_edit(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct edit_result result;
    const char *path;
    STEP(front_body(request, &args, err) ?: front_target(request, box, &args.path, &path, err));
    const struct edit_request edit = {.path = path,
                                      .all = args.all,
                                      .old = args.old.data,
                                      .old_len = args.old.len,
                                      .new_text = args.new_text.data,
                                      .new_len = args.new_text.len};
    return box_edit(box, &edit, http_arena(request), http_fd(request), &result, err)
               ?: answer_rows(request, 200, edit_answer, &result, err);
}
