/* The verbs over trees: list, glob, grep, watch, tar. Called by the doors. Not to break: records are decoded one at a
 * time into memory of fixed size, whatever the tree holds, and a runner that sends more than was asked for is broken. */
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "box/file.h"

/* One record's texts, with the NUL the wire does not carry. */
struct texts {
    char name[LIMIT_NAME_BYTES + 1];
    char path[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2];
    char target[LIMIT_PATH_BYTES + 1];
};

static int text_take(char *out, size_t size, const struct field *field, struct err *err) {
    if (field->len >= size)
        return err_set(err, ERR_PROTOCOL, "the runner sent a name of %zu bytes", field->len);
    memcpy(out, field->data, field->len);
    out[field->len] = 0;
    return 0;
}

struct walk {
    void *user;
    uint64_t left; /* records that may still come */
    struct texts texts;
    int (*file)(void *user, const struct file_stat *stat);
    int (*path)(void *user, const char *path, size_t len);
    int (*match)(void *user, const struct grep_match *match);
    int (*change)(void *user, enum watch_event event, const char *path, const char *to);
    int (*sink)(void *user, const uint8_t *data, size_t len);
    int (*skipped)(void *user, const char *name, const char *why);
};

static int walk_count(struct walk *walk, struct err *err) {
    if (walk->left == 0)
        return err_set(err, ERR_PROTOCOL, "the runner sent more than was asked for");
    walk->left--;
    return 0;
}

/* bound_ms: as in struct verb */
static int walk_run(struct box *box, enum op op, const struct buf *args, uint64_t bound_ms, int watch,
                    const struct verb_sink *sink, struct walk *walk, struct fields *ret_end, struct err *err) {
    struct verb verb = {.op = op, .args = args, .watch = watch, .bound_ms = bound_ms, .sink = sink, .user = walk};
    autoarena arena;
    arena_init(&arena);
    int r = verb_run(box, &verb, &arena, ret_end, err);
    return r == -ERR_PROTOCOL ? verb_broken(box, err) : r;
}

/* ---- list ---- */

static int list_item(void *user, struct view view, struct err *err) {
    struct walk *walk = user;
    struct texts *texts = &walk->texts;
    struct file_stat stat = {.type = FILE_OTHER};
    struct field field;
    int r = walk_count(walk, err), next = 0;
    while (r == 0 && (next = field_next(&view, &field, err)) > 0) {
        if (file_field(&stat, &field))
            continue;
        if (field.id == FIELD_NAME) {
            r = text_take(texts->name, sizeof texts->name, &field, err);
            stat.name = texts->name;
        } else if (field.id == FIELD_PATH) {
            r = text_take(texts->path, sizeof texts->path, &field, err);
            stat.path = texts->path;
        } else if (field.id == FIELD_TARGET) {
            r = text_take(texts->target, sizeof texts->target, &field, err);
            stat.target = texts->target;
        }
    }
    r = r < 0 ? r : next;
    if (r == 0 && (!stat.name || !stat.path))
        r = err_set(err, ERR_PROTOCOL, "the runner listed a file without a name");
    return r < 0 ? r : walk->file(walk->user, &stat);
}

int box_list(struct box *box, const struct list_request *request, int watch,
             int (*each)(void *user, const struct file_stat *stat), void *user, bool *ret_truncated, struct err *err) {
    static const struct verb_sink sink = {.item = list_item};
    uint64_t limit = request->limit ? request->limit : DEFAULT_LIST_LIMIT;
    autobuf args;
    buf_init(&args, LIMIT_FRAME_PAYLOAD_BYTES);
    int r = verb_path(&args, FIELD_PATH, request->path, err);
    if (request->ignore)
        field_text(&args, FIELD_IGNORE, request->ignore);
    field_number(&args, FIELD_DEPTH, request->depth);
    field_number(&args, FIELD_LIMIT, limit);
    struct walk walk = {.user = user, .left = limit, .file = each};
    struct fields end;
    if (r == 0)
        r = walk_run(box, OP_LIST, &args, DEFAULT_WALK_TIMEOUT_MS, watch, &sink, &walk, &end, err);
    if (r == 0)
        *ret_truncated = end.number[FIELD_TRUNCATED];
    return r;
}

/* ---- glob ---- */

static int glob_item(void *user, struct view view, struct err *err) {
    struct walk *walk = user;
    struct field field;
    int r = walk_count(walk, err);
    while (r == 0 && (r = field_next(&view, &field, err)) > 0) {
        r = 0;
        if (field.id != FIELD_PATH)
            continue;
        r = text_take(walk->texts.path, sizeof walk->texts.path, &field, err);
        return r < 0 ? r : walk->path(walk->user, walk->texts.path, field.len);
    }
    return r < 0 ? r : err_set(err, ERR_PROTOCOL, "the runner sent a record without a path");
}

int box_glob(struct box *box, const struct glob_request *request, int watch,
             int (*each)(void *user, const char *path, size_t len), void *user, struct glob_result *ret_result,
             struct err *err) {
    static const struct verb_sink sink = {.item = glob_item};
    const char *pattern = request->pattern;
    uint64_t limit = request->limit ? request->limit : DEFAULT_GLOB_LIMIT;
    uint64_t bound_ms = request->timeout_ms ? request->timeout_ms : DEFAULT_WALK_TIMEOUT_MS;
    autobuf args;
    buf_init(&args, LIMIT_FRAME_PAYLOAD_BYTES);
    if (!*pattern || strlen(pattern) > LIMIT_PATTERN_BYTES)
        return err_set(err, ERR_INVALID, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    field_text(&args, FIELD_PATTERN, pattern);
    int r = request->path ? verb_path(&args, FIELD_PATH, request->path, err) : 0;
    field_number(&args, FIELD_LIMIT, limit);
    if (request->timeout_ms)
        field_number(&args, FIELD_TIMEOUT_MS, request->timeout_ms);
    if (request->ignore)
        field_text(&args, FIELD_IGNORE, request->ignore);
    field_number(&args, FIELD_FLAGS, request->dirs ? CALL_DIRS : 0);
    struct walk walk = {.user = user, .left = limit, .path = each};
    struct fields end;
    if (r == 0)
        r = walk_run(box, OP_GLOB, &args, bound_ms, watch, &sink, &walk, &end, err);
    if (r == 0)
        *ret_result = (struct glob_result){end.number[FIELD_TRUNCATED], end.number[FIELD_TIMED_OUT]};
    return r;
}

/* ---- grep ---- */

static int grep_item(void *user, struct view view, struct err *err) {
    struct walk *walk = user;
    struct grep_match match = {0};
    struct field field;
    int r = walk_count(walk, err), next = 0;
    while (r == 0 && (next = field_next(&view, &field, err)) > 0) {
        switch (field.id) {
        case FIELD_PATH:
            r = text_take(walk->texts.path, sizeof walk->texts.path, &field, err);
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
            match.before = field.data;
            match.before_len = field.len;
            break;
        case FIELD_AFTER:
            match.after = field.data;
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
    static const struct verb_sink sink = {.item = grep_item};
    uint64_t limit = request->limit ? request->limit : DEFAULT_GREP_LIMIT;
    uint64_t bound_ms = request->timeout_ms ? request->timeout_ms : DEFAULT_GREP_TIMEOUT_MS;
    autobuf args;
    buf_init(&args, LIMIT_FRAME_PAYLOAD_BYTES);
    if (!*request->pattern || strlen(request->pattern) > LIMIT_PATTERN_BYTES)
        return err_set(err, ERR_INVALID, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    field_text(&args, FIELD_PATTERN, request->pattern);
    int r = request->path ? verb_path(&args, FIELD_PATH, request->path, err) : 0;
    if (request->glob)
        field_text(&args, FIELD_GLOB, request->glob);
    if (request->ignore)
        field_text(&args, FIELD_IGNORE, request->ignore);
    field_number(&args, FIELD_LIMIT, limit);
    field_number(&args, FIELD_CONTEXT, request->context);
    field_number(&args, FIELD_TIMEOUT_MS, request->timeout_ms);
    field_number(&args, FIELD_FLAGS,
                 (request->literal ? CALL_LITERAL : 0) | (request->ignore_case ? CALL_IGNORE_CASE : 0));
    struct walk walk = {.user = user, .left = limit, .match = each};
    struct fields end;
    if (r == 0)
        r = walk_run(box, OP_GREP, &args, bound_ms, watch, &sink, &walk, &end, err);
    if (r == 0)
        *ret_result = (struct grep_result){.truncated = end.number[FIELD_TRUNCATED],
                                           .timed_out = end.number[FIELD_TIMED_OUT],
                                           .files_searched = end.number[FIELD_FILES],
                                           .gave_up = end.number[FIELD_LINES]};
    return r;
}

/* ---- watch ---- */

static int watch_item(struct walk *walk, struct view view, struct err *err) {
    uint64_t kind = 0;
    const char *path = NULL, *to = NULL;
    struct field field;
    int r = 0, next = 0;
    while (r == 0 && (next = field_next(&view, &field, err)) > 0) {
        if (field.id == FIELD_EVENT) {
            kind = field.number;
        } else if (field.id == FIELD_PATH) {
            r = text_take(walk->texts.path, sizeof walk->texts.path, &field, err);
            path = walk->texts.path;
        } else if (field.id == FIELD_TO) {
            r = text_take(walk->texts.target, sizeof walk->texts.target, &field, err);
            to = walk->texts.target;
        }
    }
    r = r < 0 ? r : next;
    if (r == 0 && (!path || kind < WATCH_CREATED || kind > WATCH_MOVED))
        r = err_set(err, ERR_PROTOCOL, "the runner sent a malformed change");
    return r < 0 ? r : walk->change(walk->user, (enum watch_event)kind, path, to);
}

static int watch_items(struct box *box, struct walk *walk, const struct event *event, struct err *err) {
    struct view view = view_of(event->data, event->len), record;
    int r;
    while ((r = item_next(&view, &record, err)) > 0) {
        err->code = 0;
        r = watch_item(walk, record, err);
        if (r < 0)
            break;
    }
    return r == -ERR_PROTOCOL ? verb_broken(box, err) : r;
}

static int watch_loop(struct box *box, struct call *call, struct walk *walk, int watch, uint64_t idle_ms,
                      int (*idle)(void *user), struct err *err) {
    for (;;) {
        struct call_wait wait = {
            .fd = watch, .events = POLLRDHUP, .deadline_ms = idle && idle_ms ? clock_ms() + idle_ms : 0};
        struct event event;
        int r = call_next(call, &wait, &event, err);
        if (r == -ERR_TIMEOUT && idle)
            r = idle(walk->user);
        else if (r == 0 && event.kind == EVENT_READY)
            return 0;
        else if (r == 0 && event.kind == EVENT_ITEM)
            r = watch_items(box, walk, &event, err);
        else if (r == 0 && event.kind == EVENT_END)
            return err_set(err, ERR_GONE, "what was watched is gone");
        if (r < 0) {
            if (err->code != -r)
                err_set(err, (enum err_code) - r, "the receiver of the changes gave up");
            return r;
        }
    }
}

int box_watch(struct box *box, const char *path, bool recursive, int watch, uint64_t idle_ms,
              int (*each)(void *user, enum watch_event event, const char *path, const char *to),
              int (*idle)(void *user), void *user, struct err *err) {
    autobuf args;
    buf_init(&args, LIMIT_FRAME_PAYLOAD_BYTES);
    int r = verb_path(&args, FIELD_PATH, path, err);
    field_number(&args, FIELD_FLAGS, recursive ? CALL_RECURSIVE : 0);
    struct call *call = NULL;
    if (r == 0)
        r = call_open(box->wire, OP_WATCH, &args, NULL, 0, false, &call, err);
    if (r < 0)
        return r;
    struct walk walk = {.user = user, .change = each};
    r = watch_loop(box, call, &walk, watch, idle_ms, idle, err);
    call_close(call);
    return r;
}

/* ---- tar ---- */

static int tar_data(void *user, int stream, const uint8_t *data, size_t len, struct err *err) {
    (void)stream;
    (void)err;
    struct walk *walk = user;
    return walk->sink(walk->user, data, len);
}

int box_tar_out(struct box *box, const char *path, int watch, int (*sink)(void *user, const uint8_t *data, size_t len),
                void *user, struct err *err) {
    static const struct verb_sink to_sink = {.data = tar_data};
    autobuf args;
    buf_init(&args, LIMIT_FRAME_PAYLOAD_BYTES);
    int r = verb_path(&args, FIELD_PATH, path, err);
    struct walk walk = {.user = user, .sink = sink};
    struct fields end;
    return r < 0 ? r : walk_run(box, OP_TAR_OUT, &args, 0, watch, &to_sink, &walk, &end, err);
}

static int unpack_item(void *user, struct view view, struct err *err) {
    struct walk *walk = user;
    struct field field;
    char why[256] = "";
    bool named = false;
    int r = walk_count(walk, err), next = 0;
    while (r == 0 && (next = field_next(&view, &field, err)) > 0) {
        if (field.id == FIELD_PATH)
            r = text_take(walk->texts.path, sizeof walk->texts.path, &field, err);
        else if (field.id == FIELD_MESSAGE)
            r = text_take(why, sizeof why, &field, err);
        named |= field.id == FIELD_PATH;
    }
    r = r < 0 ? r : next;
    if (r == 0 && !named)
        r = err_set(err, ERR_PROTOCOL, "the runner left out something without a name");
    return r < 0 ? r : walk->skipped(walk->user, walk->texts.path, why);
}

int box_tar_in(struct box *box, const struct unpack_request *request, box_reader read_fn, void *user, int watch,
               struct unpack_result *ret_result, struct err *err) {
    static const struct verb_sink sink = {.item = unpack_item};
    autobuf args;
    buf_init(&args, LIMIT_FRAME_PAYLOAD_BYTES);
    autoarena arena;
    arena_init(&arena);
    struct fields end;
    struct walk walk = {.user = request->user, .left = LIMIT_UNPACK_SKIPPED, .skipped = request->skipped};
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
