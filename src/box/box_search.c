/* The verbs over trees: list, glob, grep, tar. Called by the dialects. Invariant: records are decoded one at a time
 * into memory of fixed size, whatever the tree holds, and a runner that sends more than was asked for is broken. */
#include "base/base.h"
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
    struct search_walk walk = {.user = user, .left = limit, .file = each, .named = true};
    const struct verb verb = {.op = OP_LIST,
                              FIELDS(F_PATH(PATH, request->path), F_TEXT(IGNORE, request->ignore), F_NUM(LIMIT, limit),
                                     F_ALWAYS(DEPTH, request->depth)), /* absent it would be 1 */
                              .flags = (request->follow ? CALL_FOLLOW : 0) | (request->rights ? CALL_DETAILS : 0),
                              .rights = request->rights,
                              .bound_ms = DEFAULT_WALK_TIMEOUT_MS,
                              .watch = watch,
                              .sink = &search_files,
                              .user = &walk};
    struct fields end;
    TRY(verb_numbers(box, &verb, &end, err));
    *ret_truncated = end.number[FIELD_TRUNCATED];
    return 0;
}

/* ---- glob ---- */

/* sort 0: in the order of the tree. */
static int search_glob(struct box *box, const struct glob_request *request, uint64_t sort, uint64_t flags, int watch,
                       struct search_walk *walk, struct glob_result *ret_result, struct err *err) {
    const char *pattern = request->pattern;
    if (!*pattern || strlen(pattern) > LIMIT_PATTERN_BYTES)
        return err_set(err, ERR_INVALID, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    walk->left = request->limit ? request->limit : DEFAULT_GLOB_LIMIT;
    bool newer = walk->file || sort || request->visible || text_list_count(request->exclude);
    const struct verb verb = {.op = OP_GLOB,
                              FIELDS(F_TEXT(PATTERN, pattern), F_PATH(PATH, request->path),
                                     F_NUM(TIMEOUT_MS, request->timeout_ms), F_TEXT(IGNORE, request->ignore),
                                     F_NUM(LIMIT, walk->left), F_NUM(SORT, sort), F_GLOBS(EXCLUDE, request->exclude)),
                              .flags = flags | (request->dirs ? CALL_DIRS : 0) | (request->visible ? CALL_VISIBLE : 0),
                              .needs = newer ? FEATURE_SEARCH : 0,
                              .bound_ms = request->timeout_ms ? request->timeout_ms : DEFAULT_WALK_TIMEOUT_MS,
                              .watch = watch,
                              .sink = &search_files,
                              .user = walk};
    struct fields end;
    TRY(verb_numbers(box, &verb, &end, err));
    *ret_result = (struct glob_result){.truncated = end.number[FIELD_TRUNCATED],
                                       .timed_out = end.number[FIELD_TIMED_OUT],
                                       .matched = end.number[FIELD_FILES]};
    return 0;
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
    return search_glob(box, request, sort, descending ? CALL_DESCENDING : 0, watch, &walk, ret_result, err);
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
    bool uneven = request->before != request->after, sizes = wire_features(box->wire) & FEATURE_SEARCH;
    bool newer = request->multiline || request->flat || request->offset || uneven ||
                 text_list_count(request->include) || text_list_count(request->exclude);
    if (!*request->pattern || strlen(request->pattern) > LIMIT_PATTERN_BYTES)
        return err_set_why(err, ERR_INVALID, WHY_PATTERN, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    struct search_walk walk = {.user = user, .left = limit, .match = each};
    const struct verb verb = {
        .op = OP_GREP,
        FIELDS(F_TEXT(PATTERN, request->pattern), F_PATH(PATH, request->path), F_TEXT(GLOB, request->glob),
               F_TEXT(IGNORE, request->ignore), F_NUM(CONTEXT, request->before), F_NUM(OFFSET, request->offset),
               F_NUM(SIZE, sizes ? request->max_file_bytes : 0), F_NUM(DEPTH, request->flat),
               F_NUM(TIMEOUT_MS, request->timeout_ms), F_NUM(LIMIT, limit), F_GLOBS(INCLUDE, request->include),
               F_GLOBS(EXCLUDE, request->exclude),
               {.id = FIELD_CONTEXT_AFTER, .number = uneven ? request->after : 0, .always = uneven}),
        .flags = (request->literal ? CALL_LITERAL : 0) | (request->ignore_case ? CALL_IGNORE_CASE : 0) |
                 (request->multiline ? CALL_MULTILINE : 0) | (request->root ? CALL_ROOT : 0),
        .needs = newer ? FEATURE_SEARCH : 0,
        .bound_ms = request->timeout_ms ? request->timeout_ms : DEFAULT_GREP_TIMEOUT_MS,
        .watch = watch,
        .sink = &sink,
        .user = &walk};
    struct fields end;
    TRY(verb_numbers(box, &verb, &end, err));
    *ret_result = (struct grep_result){.truncated = end.number[FIELD_TRUNCATED],
                                       .timed_out = end.number[FIELD_TIMED_OUT],
                                       .files_searched = end.number[FIELD_FILES],
                                       .gave_up = end.number[FIELD_LINES]};
    return 0;
}

/* ---- tar ---- */

static int search_tar_data(void *user, int, const uint8_t *data, size_t len, struct err *) {
    struct search_walk *walk = user;
    return walk->sink(walk->user, data, len);
}

int box_tar_out(struct box *box, const char *path, int watch, int (*sink)(void *user, const uint8_t *data, size_t len),
                void *user, struct err *err) {
    static const struct verb_sink to_sink = {.data = search_tar_data};
    struct search_walk walk = {.user = user, .sink = sink};
    const struct verb verb = {
        .op = OP_TAR_OUT, FIELDS(F_PATH(PATH, path)), .watch = watch, .sink = &to_sink, .user = &walk};
    return verb_only(box, &verb, err);
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
    struct search_walk walk = {.user = request->user, .left = LIMIT_UNPACK_SKIPPED, .skipped = request->skipped};
    const struct verb verb = {.op = OP_TAR_IN,
                              FIELDS(F_PATH(PATH, request->path), F_ALWAYS(LIMIT, request->max_entries)),
                              .watch = watch,
                              .sink = &sink,
                              .user = &walk,
                              .read_fn = read_fn,
                              .read_user = user};
    struct fields end;
    TRY(verb_numbers(box, &verb, &end, err));
    *ret_result = (struct unpack_result){end.number[FIELD_FILES], end.number[FIELD_TRUNCATED]};
    return 0;
}
