/* The verbs over trees: list, glob, grep, tar. Called by the dialects. Invariant: records are decoded one at a time
 * into memory of fixed size, whatever the tree holds, and a runner that sends more than was asked for is broken. */
#include <string.h>

#include "base/limits.h"
#include "box/verb.h"

/* One record's texts, with the NUL the wire does not carry. */
struct texts {
    char name[LIMIT_NAME_BYTES + 1];
    char path[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2];
    char target[LIMIT_PATH_BYTES + 1], resolved[LIMIT_PATH_BYTES + 1];
    char attributes[LIMIT_ATTRIBUTES_BYTES];
};

struct search_walk {
    void *user;
    uint64_t left; /* records that may still come */
    bool named;    /* each file must have a name of its own in addition to its path */
    struct texts texts;
    int (*file)(void *user, const struct file_stat *stat);
    int (*path)(void *user, const char *path, size_t len);
    int (*match)(void *user, const struct grep_match *match);
    int (*sink)(void *user, const uint8_t *data, size_t len);
    int (*skipped)(void *user, const char *name, const char *why);
};

static int search_walk_count(struct search_walk *walk, struct err *err) {
    if (walk->left == 0)
        return err_set(err, ERR_PROTOCOL, "the runner sent more than was asked for");
    walk->left--;
    return 0;
}

/* bound_ms: as in struct verb */
static int search_walk_run(struct box *box, enum op op, const struct buf *args, uint64_t bound_ms, int watch,
                           const struct verb_sink *sink, struct search_walk *walk, struct fields *ret_end,
                           struct err *err) {
    struct verb verb = {.op = op, .args = args, .watch = watch, .bound_ms = bound_ms, .sink = sink, .user = walk};
    autoarena arena = ARENA_EMPTY;
    int r = verb_run(box, &verb, &arena, ret_end, err);
    return r == -ERR_PROTOCOL ? verb_broken(box, err) : r;
}

/* ---- list ---- */

/* One file of list or glob. */
static int search_file(void *user, struct view view, struct err *err) {
    struct search_walk *walk = user;
    struct texts *texts = &walk->texts;
    struct file_stat stat = {.type = FILE_OTHER};
    struct field field;
    size_t len = 0;
    int r = search_walk_count(walk, err), next = 0;
    while (r == 0 && (next = field_next(&view, &field, err)) > 0) {
        if (file_field(&stat, &field))
            continue;
        if (field.id == FIELD_NAME) {
            r = verb_text(texts->name, sizeof texts->name, &field, err);
            stat.name = texts->name;
        } else if (field.id == FIELD_PATH) {
            r = verb_text(texts->path, sizeof texts->path, &field, err);
            stat.path = texts->path;
            len = field.len;
        } else if (field.id == FIELD_TARGET) {
            r = verb_text(texts->target, sizeof texts->target, &field, err);
            stat.target = texts->target;
        } else if (field.id == FIELD_RESOLVED) {
            r = verb_text(texts->resolved, sizeof texts->resolved, &field, err);
            stat.resolved = texts->resolved;
        } else if (field.id == FIELD_ATTRS) {
            if (field.len > sizeof texts->attributes || (field.len && field.data[field.len - 1]))
                r = err_set(err, ERR_PROTOCOL, "the runner sent malformed attributes");
            else
                stat.attributes = memcpy(texts->attributes, field.data, stat.attributes_len = field.len);
        }
    }
    r = r < 0 ? r : next;
    if (r == 0 && (!stat.path || (walk->named && !stat.name)))
        r = err_set(err, ERR_PROTOCOL, "the runner sent a file without a path or name");
    if (r < 0)
        return r;
    if (walk->path)
        return walk->path(walk->user, stat.path, len);
    const char *slash = strrchr(stat.path, '/');
    if (!walk->named)
        stat.name = slash ? slash + 1 : stat.path;
    return walk->file(walk->user, &stat);
}

static const struct verb_sink search_files = {.item = search_file};

int box_list(struct box *box, const struct list_request *request, int watch,
             int (*each)(void *user, const struct file_stat *stat), void *user, bool *ret_truncated, struct err *err) {
    uint64_t limit = request->limit ? request->limit : DEFAULT_LIST_LIMIT;
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    uint64_t flags = (request->follow ? CALL_FOLLOW : 0) | (request->rights ? CALL_DETAILS : 0);
    int r = verb_rights(box, request->rights, false, &args, &flags, err);
    if (r == 0)
        r = verb_put(&args, err, F_PATH(PATH, request->path), F_TEXT(IGNORE, request->ignore), F_NUM(LIMIT, limit),
                     F_NUM(FLAGS, flags));
    field_number(&args, FIELD_DEPTH, request->depth); /* absent it would be 1 */
    struct search_walk walk = {.user = user, .left = limit, .file = each, .named = true};
    struct fields end;
    if (r == 0)
        r = search_walk_run(box, OP_LIST, &args, DEFAULT_WALK_TIMEOUT_MS, watch, &search_files, &walk, &end, err);
    if (r == 0)
        *ret_truncated = end.number[FIELD_TRUNCATED];
    return r;
}

/* ---- glob ---- */

/* For runners with FEATURE_SEARCH only. */
static int search_known(struct box *box, bool needed, struct err *err) {
    if (needed && !(wire_features(box->wire) & FEATURE_SEARCH))
        return err_set(err, ERR_UNSUPPORTED, "the runner of box %s cannot search like that", box->id);
    return 0;
}

static int search_glob(struct box *box, const struct glob_request *request, uint64_t sort, uint64_t flags, int watch,
                       struct search_walk *walk, struct glob_result *ret_result, struct err *err) {
    const char *pattern = request->pattern;
    if (!*pattern || strlen(pattern) > LIMIT_PATTERN_BYTES)
        return err_set(err, ERR_INVALID, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    walk->left = request->limit ? request->limit : DEFAULT_GLOB_LIMIT;
    flags |= (request->dirs ? CALL_DIRS : 0) | (request->visible ? CALL_VISIBLE : 0);
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    int r = verb_put(&args, err, F_TEXT(PATTERN, pattern), F_PATH(PATH, request->path),
                     F_NUM(TIMEOUT_MS, request->timeout_ms), F_TEXT(IGNORE, request->ignore), F_NUM(LIMIT, walk->left),
                     F_NUM(SORT, sort), F_NUM(FLAGS, flags))
                ?: verb_globs(&args, FIELD_EXCLUDE, request->exclude, err);
    if (r >= 0)
        r = search_known(box, sort || request->visible || r > 0, err);
    uint64_t bound_ms = request->timeout_ms ? request->timeout_ms : DEFAULT_WALK_TIMEOUT_MS;
    struct fields end;
    if (r == 0)
        r = search_walk_run(box, OP_GLOB, &args, bound_ms, watch, &search_files, walk, &end, err);
    if (r == 0)
        *ret_result = (struct glob_result){.truncated = end.number[FIELD_TRUNCATED],
                                           .timed_out = end.number[FIELD_TIMED_OUT],
                                           .matched = end.number[FIELD_FILES]};
    return r;
}

int box_glob(struct box *box, const struct glob_request *request, int watch,
             int (*each)(void *user, const char *path, size_t len), void *user, struct glob_result *ret_result,
             struct err *err) {
    struct search_walk walk = {.user = user, .path = each};
    return search_glob(box, request, 0, 0, watch, &walk, ret_result, err);
}

int box_glob_sorted(struct box *box, const struct glob_request *request, enum search_sort sort, bool descending,
                    int watch, int (*each)(void *user, const struct file_stat *stat), void *user,
                    struct glob_result *ret_result, struct err *err) {
    struct search_walk walk = {.user = user, .file = each};
    int r = search_known(box, true, err);
    return r < 0 ? r : search_glob(box, request, sort, descending ? CALL_DESCENDING : 0, watch, &walk, ret_result, err);
}

/* ---- grep ---- */

static int search_grep_item(void *user, struct view view, struct err *err) {
    struct search_walk *walk = user;
    struct grep_match match = {0};
    struct field field;
    int r = search_walk_count(walk, err), next = 0;
    while (r == 0 && (next = field_next(&view, &field, err)) > 0) {
        switch (field.id) {
        case FIELD_PATH:
            r = verb_text(walk->texts.path, sizeof walk->texts.path, &field, err);
            match.path = walk->texts.path;
            break;
        case FIELD_LINE:
            match.line = field.number;
            break;
        case FIELD_TEXT:
            match.text = field.data;
            match.len = field.len;
            break;
        case FIELD_BEFORE:
            match.before = field.len ? field.data : (const uint8_t *)"";
            match.before_len = field.len;
            break;
        case FIELD_AFTER:
            match.after = field.len ? field.data : (const uint8_t *)"";
            match.after_len = field.len;
            break;
        default:
            break;
        }
    }
    r = r < 0 ? r : next;
    if (r == 0 && (!match.path || !match.text))
        r = err_set(err, ERR_PROTOCOL, "the runner sent a match without path or text");
    return r < 0 ? r : walk->match(walk->user, &match);
}

int box_grep(struct box *box, const struct grep_request *request, int watch,
             int (*each)(void *user, const struct grep_match *match), void *user, struct grep_result *ret_result,
             struct err *err) {
    static const struct verb_sink sink = {.item = search_grep_item};
    uint64_t limit = request->limit ? request->limit : DEFAULT_GREP_LIMIT;
    uint64_t bound_ms = request->timeout_ms ? request->timeout_ms : DEFAULT_GREP_TIMEOUT_MS;
    uint64_t flags = (request->literal ? CALL_LITERAL : 0) | (request->ignore_case ? CALL_IGNORE_CASE : 0) |
                     (request->multiline ? CALL_MULTILINE : 0) | (request->root ? CALL_ROOT : 0);
    bool newer = request->multiline || request->flat || request->offset || request->before != request->after;
    bool sizes = wire_features(box->wire) & FEATURE_SEARCH;
    int include = 0, exclude = 0;
    if (!*request->pattern || strlen(request->pattern) > LIMIT_PATTERN_BYTES)
        return err_set_why(err, ERR_INVALID, WHY_PATTERN, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    int r = verb_put(&args, err, F_TEXT(PATTERN, request->pattern), F_PATH(PATH, request->path),
                     F_TEXT(GLOB, request->glob), F_TEXT(IGNORE, request->ignore), F_NUM(CONTEXT, request->before),
                     F_NUM(OFFSET, request->offset), F_NUM(SIZE, sizes ? request->max_file_bytes : 0),
                     F_NUM(DEPTH, request->flat), F_NUM(TIMEOUT_MS, request->timeout_ms), F_NUM(FLAGS, flags),
                     F_NUM(LIMIT, limit));
    if (request->after != request->before)
        field_number(&args, FIELD_CONTEXT_AFTER, request->after); /* absent it would be as many as before */
    if (r == 0)
        r = include = verb_globs(&args, FIELD_INCLUDE, request->include, err);
    if (r >= 0)
        r = exclude = verb_globs(&args, FIELD_EXCLUDE, request->exclude, err);
    if (r >= 0)
        r = search_known(box, newer || include || exclude, err);
    if (r == 0 && request->root)
        r = verb_root(box, err);
    struct search_walk walk = {.user = user, .left = limit, .match = each};
    struct fields end;
    if (r == 0)
        r = search_walk_run(box, OP_GREP, &args, bound_ms, watch, &sink, &walk, &end, err);
    if (r == 0)
        *ret_result = (struct grep_result){.truncated = end.number[FIELD_TRUNCATED],
                                           .timed_out = end.number[FIELD_TIMED_OUT],
                                           .files_searched = end.number[FIELD_FILES],
                                           .gave_up = end.number[FIELD_LINES]};
    return r;
}

/* ---- tar ---- */

static int search_tar_data(void *user, int, const uint8_t *data, size_t len, struct err *) {
    struct search_walk *walk = user;
    return walk->sink(walk->user, data, len);
}

int box_tar_out(struct box *box, const char *path, int watch, int (*sink)(void *user, const uint8_t *data, size_t len),
                void *user, struct err *err) {
    static const struct verb_sink to_sink = {.data = search_tar_data};
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    int r = verb_path(&args, FIELD_PATH, path, err);
    struct search_walk walk = {.user = user, .sink = sink};
    struct fields end;
    return r < 0 ? r : search_walk_run(box, OP_TAR_OUT, &args, 0, watch, &to_sink, &walk, &end, err);
}

static int search_unpack_item(void *user, struct view view, struct err *err) {
    struct search_walk *walk = user;
    struct field field;
    char why[256] = "";
    bool named = false;
    int r = search_walk_count(walk, err), next = 0;
    while (r == 0 && (next = field_next(&view, &field, err)) > 0) {
        if (field.id == FIELD_PATH)
            r = verb_text(walk->texts.path, sizeof walk->texts.path, &field, err);
        else if (field.id == FIELD_MESSAGE)
            r = verb_text(why, sizeof why, &field, err);
        named |= field.id == FIELD_PATH;
    }
    r = r < 0 ? r : next;
    if (r == 0 && !named)
        r = err_set(err, ERR_PROTOCOL, "the runner left out something without a name");
    return r < 0 ? r : walk->skipped(walk->user, walk->texts.path, why);
}

int box_tar_in(struct box *box, const struct unpack_request *request, box_reader read_fn, void *user, int watch,
               struct unpack_result *ret_result, struct err *err) {
    static const struct verb_sink sink = {.item = search_unpack_item};
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    struct search_walk walk = {.user = request->user, .left = LIMIT_UNPACK_SKIPPED, .skipped = request->skipped};
    int r = verb_path(&args, FIELD_PATH, request->path, err);
    field_number(&args, FIELD_LIMIT, request->max_entries);
    struct verb verb = {.op = OP_TAR_IN,
                        .args = &args,
                        .watch = watch,
                        .sink = &sink,
                        .user = &walk,
                        .read_fn = read_fn,
                        .read_user = user};
    if (r == 0)
        r = verb_run(box, &verb, &arena, &end, err);
    if (r == -ERR_PROTOCOL)
        return verb_broken(box, err);
    if (r == 0)
        *ret_result = (struct unpack_result){end.number[FIELD_FILES], end.number[FIELD_TRUNCATED]};
    return r;
}
