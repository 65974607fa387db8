/* Paths of clients, and a file of a box as the answer or in memory. Called by the handlers of all dialects. Invariant:
 * a file that is sent is never in the daemon's memory as a whole, whatever its size. */
#include "front/send.h"

#include "base/url.h"

#include "skill/own/own.h"

enum { LOAD_STEP_BYTES = 1 << 20 };

int front_path(struct http_request *request, struct box *box, const struct row_text *path, bool tree,
               const char **ret_path, struct err *err) {
    const char *given = path->data ? path->data : ".";
    size_t given_len = strlen(given), base_len = *given == '/' ? 0 : strlen(box_workspace(box));
    char *full = arena_alloc(http_arena(request), base_len + given_len + 2);
    memcpy(full, box_workspace(box), base_len);
    full[base_len] = '/';
    memcpy(full + base_len + (*given != '/'), given, given_len + 1);
    char *to = full;
    for (const char *from = full; *from;) {
        if (from[0] == '/' && from[1] == '/')
            from++;
        else if (from[0] == '/' && from[1] == '.' && (from[2] == '/' || (!from[2] && tree)))
            from += 2;
        else
            *to++ = *from++;
    }
    if (tree && to > full + 1 && to[-1] == '/')
        to--;
    if (to == full)
        *to++ = '/';
    *to = 0;
    if ((size_t)(to - full) > LIMIT_PATH_BYTES)
        return err_set(err, ERR_INVALID, "the path is longer than %u bytes", LIMIT_PATH_BYTES);
    *ret_path = full;
    return 0;
}

int front_target(struct http_request *request, struct box *box, const struct row_text *path, const char **ret_path,
                 struct err *err) {
    struct skills *skills = front_of(request)->skills;
    int failed = front_path(request, box, path, false, ret_path, err);
    if (failed || !skills || !box->spec.agent)
        return failed;
    const char *const *seen = skills_settings(skills)->paths;
    for (const char *top = SKILL_PATH; top; top = seen ? *seen++ : NULL) {
        size_t len = strlen(top);
        const char *below = *ret_path + len + 1;
        if (strncmp(*ret_path, top, len) != 0 || below[-1] != '/' || !*below)
            continue;
        const char *skill = arena_copy(http_arena(request), below, strcspn(below, "/"));
        struct err ignored;
        if (skill_id_check(skill, &ignored) == 0)
            own_touched(skills, box, skill);
        break;
    }
    return 0;
}

/* ---- a file as the answer ---- */

struct send_range {
    uint64_t offset, length;
    bool partial, impossible;
};

/* Parses "bytes=A-B", "bytes=A-", "bytes=-N"; ignores anything else (several ranges, other units), as RFC 9110
 * allows. */
static void send_range(const char *header, uint64_t size, struct send_range *range) {
    char from[24] = "", to[24] = "", rest[2] = "";
    uint64_t first, last;
    *range = (struct send_range){.length = size};
    if (!header || strncmp(header, "bytes=", 6) != 0)
        return;
    header += 6;
    bool open = *header == '-';
    if (open ? sscanf(header, "-%20[0-9]%1s", to, rest) < 1
             : sscanf(header, "%20[0-9]-%20[0-9]%1s", from, to, rest) < 1)
        return;
    if (*rest || (!open && header[strlen(from)] != '-') || (!open && !*to && header[strlen(from) + 1]))
        return;
    if (*to && !text_u64(to, INT64_MAX, &last))
        return;
    if (open) {
        range->impossible = !last || !size;
        range->offset = last < size ? size - last : 0;
    } else {
        if (!text_u64(from, INT64_MAX, &first) || (*to && last < first))
            return;
        range->impossible = first >= size;
        range->offset = first;
    }
    range->partial = true;
    range->length = range->impossible ? 0 : size - range->offset;
    if (!open && *to && !range->impossible && last - first + 1 < range->length)
        range->length = last - first + 1;
}

struct sending {
    struct http_request *request;
    const struct send_range *range;
    uint64_t size; /* of the file */
    bool begun;
};

static int send_begin(struct sending *sending) {
    const struct send_range *range = sending->range;
    char text[80];
    if (range->partial) {
        snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)range->offset,
                 (unsigned long long)(range->offset + range->length - 1), (unsigned long long)sending->size);
        http_reply_header(sending->request, "Content-Range", text);
    }
    sending->begun = true;
    return http_reply_begin(sending->request, range->partial ? 206 : 200, "application/octet-stream",
                            (int64_t)range->length);
}

/* Sends the head with the first bytes: until then it can still become an error. */
static int send_write(void *user, const uint8_t *data, size_t len) {
    struct sending *sending = user;
    return (sending->begun ? 0 : send_begin(sending)) ?: http_reply_write(sending->request, data, len);
}

void front_saved_as(struct http_request *request, const char *path, const char *suffix) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *coded = url_encode(http_arena(request), *name ? name : "box", ".-_");
    http_reply_header(request, "Content-Disposition",
                      arena_printf(http_arena(request), "attachment; filename*=UTF-8''%s%s", coded, suffix));
}

int front_send(struct http_request *request, struct box *box, const char *path, struct err *err) {
    struct file_stat stat = {0};
    struct send_range range;
    char etag[ETAG_BYTES], text[48];
    autofd fd = -1;
    STEP(box_read_open(box, path, &fd, &stat, err));
    file_etag(&stat, etag);
    http_reply_header(request, "ETag", etag);
    http_reply_header(request, "Accept-Ranges", "bytes");
    /* If-None-Match: a list of tags or "*"; weak marks do not matter for GET. */
    const char *tags = http_header(request, "if-none-match"), *tag = tags ? strstr(tags, etag) : NULL;
    if (tags && (!strcmp(tags, "*") || (tag && strchr(", ", tag[strlen(etag)]))))
        return front_empty(request, 304);
    const char *if_range = http_header(request, "if-range");
    send_range(if_range && strcmp(if_range, etag) != 0 ? NULL : http_header(request, "range"), stat.size, &range);
    if (range.impossible) {
        snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)stat.size);
        http_reply_header(request, "Content-Range", text);
        static const char body[] = "{\"error\":{\"code\":\"INVALID\",\"message\":\"the range is past the end of the "
                                   "file\"}}";
        return http_reply(request, 416, "application/json", body, sizeof body - 1);
    }
    struct sending sending = {.request = request, .range = &range, .size = stat.size};
    bool content = range.length && strcmp(http_method(request), "HEAD") != 0, streams = fd < 0 && content;
    int failed =
        streams ? box_read_stream(box, path, range.offset, range.length, http_fd(request), send_write, &sending, err)
                : send_begin(&sending);
    if (!failed && streams && !sending.begun)
        return err_set(err, ERR_BUSY, "'%s' changed while it was read; try again", path);
    if (!failed && !streams && content)
        failed = http_reply_file(request, fd, range.offset, range.length);
    return failed ?: http_reply_end(request);
}

/* ---- a file in memory ---- */

struct send_loading {
    struct http_request *request;
    struct front_load *load;
    uint64_t line;
    size_t held;
    bool done; /* enough was read */
    struct err *err;
};

static int send_load_begin(void *user, const struct file_stat *stat) {
    struct send_loading *loading = user;
    struct front_load *load = loading->load;
    load->stat = *stat;
    return !load->ranged && stat->size > load->out->max ? err_set(loading->err, ERR_TOO_LARGE, "%s", load->too_large)
                                                        : 0;
}

/* Accounts for memory in advance: all requests together have a limit. */
static int send_load_put(struct send_loading *loading, const uint8_t *data, size_t len) {
    struct buf *out = loading->load->out;
    if (out->len + len > out->max)
        return err_set(loading->err, ERR_TOO_LARGE, "%s", loading->load->too_large);
    while (out->len + len > loading->held) {
        STEP(http_hold(loading->request, LOAD_STEP_BYTES, loading->err));
        loading->held += LOAD_STEP_BYTES;
    }
    buf_put(out, data, len);
    return 0;
}

static int send_load_take(void *user, const uint8_t *data, size_t len) {
    struct send_loading *loading = user;
    const struct front_load *load = loading->load;
    if (!load->ranged)
        return send_load_put(loading, data, len);
    while (len && loading->line < load->last) {
        const uint8_t *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) + 1 : len;
        STEP(loading->line >= load->first ? send_load_put(loading, data, n) : 0);
        data += n, len -= n;
        loading->line += end != NULL;
    }
    loading->done = loading->line >= load->last;
    return loading->done ? -ERR_GONE : 0;
}

int front_load(struct http_request *request, struct box *box, struct front_load *load, struct err *err) {
    struct send_loading loading = {.request = request, .load = load, .err = err};
    const struct read_sink sink = {.begin = send_load_begin, .data = send_load_take, .user = &loading};
    int failed =
        (load->root ? box_read_root_file : box_read_file)(box, load->path, 0, INT64_MAX, http_fd(request), &sink, err);
    if (failed && !loading.done)
        return failed;
    struct buf *out = load->out;
    if (load->ranged && out->len && out->data[out->len - 1] == '\n')
        out->len -= out->len > 1 && out->data[out->len - 2] == '\r' ? 2 : 1;
    return 0;
}
