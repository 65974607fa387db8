/* The verbs of changes: watch reports them as they come, diff what differs from the template. Called by the dialects.
 * Invariant: a watch holds the wire alone and never the box, so that it keeps no box awake. Records are decoded one
 * at a time into memory of fixed size, and a runner that sends more than was asked for is broken.
 *
 * In a container the runner cannot know what differs. There the engine is asked, which reports names alone, and
 * nothing of a workspace that is mounted into the container. The rest is looked up through the box where the
 * workspace is its own. */

#include "base/base.h"
#include "box/verb.h"

struct box_watch {
    struct wire *wire;
    struct call *call;
    const struct watch_sink *sink;
    char path[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2], to[LIMIT_PATH_BYTES + LIMIT_NAME_BYTES + 2];
};

static int watch_item(struct box_watch *watch, struct view view, struct err *err) {
    uint64_t kind = 0;
    struct watch_change change = {0};
    struct file_stat stat = {0};
    struct field field;
    int r = 0, next = 0;
    while (r == 0 && (next = field_next(&view, &field, err)) > 0) {
        if (file_field(&stat, &field)) {
            change.known |= field.id == FIELD_INODE;
        } else if (field.id == FIELD_EVENT) {
            kind = field.number;
        } else if (field.id == FIELD_STATE) {
            change.out = field.number;
        } else if (field.id == FIELD_PATH) {
            r = verb_text(watch->path, sizeof watch->path, &field, err);
            change.path = watch->path;
        } else if (field.id == FIELD_TO) {
            r = verb_text(watch->to, sizeof watch->to, &field, err);
            change.to = watch->to;
        }
    }
    r = r < 0 ? r : next;
    if (r == 0 && (!change.path || kind < WATCH_CREATED || kind > WATCH_OVERFLOW))
        r = err_set(err, ERR_PROTOCOL, "the runner sent a malformed change");
    if (r < 0)
        return r;
    change.event = (enum watch_event)kind;
    change.dir = stat.type == FILE_DIR;
    change.size = stat.size;
    change.mtime_ns = stat.mtime_ns;
    change.inode = stat.inode;
    return watch->sink->each(watch->sink->user, &change);
}

/* The records of one event. */
static int watch_items(struct box_watch *watch, const struct event *event, struct err *err) {
    struct view view = view_of(event->data, event->len), record;
    int r;
    while ((r = item_next(&view, &record, err)) > 0) {
        err->code = 0;
        if ((r = watch_item(watch, record, err)) < 0)
            break;
    }
    if (r == -ERR_PROTOCOL)
        wire_kill(watch->wire, err->text);
    return r;
}

static int watch_loop(struct box_watch *watch, int fd, struct err *err) {
    const struct watch_sink *sink = watch->sink;
    for (int r = 0; r >= 0;) {
        struct call_wait wait = {
            .fd = fd, .events = POLLRDHUP, .deadline_ms = sink->idle && sink->idle_ms ? clock_ms() + sink->idle_ms : 0};
        struct event event;
        r = call_next(watch->call, &wait, &event, err);
        if (r == 0 && event.kind == EVENT_STAT)
            fd_close(&event.fd);
        if (sink->idle && (r == -ERR_TIMEOUT || (r == 0 && event.kind == EVENT_STAT)))
            r = sink->idle(sink->user);
        else if (r == 0 && event.kind == EVENT_READY)
            return 0;
        else if (r == 0 && event.kind == EVENT_ITEM)
            r = watch_items(watch, &event, err);
        else if (r == 0 && event.kind == EVENT_END)
            return err_set(err, ERR_GONE, "what was watched is gone");
        if (r < 0 && err->code != -r)
            err_set(err, (enum err_code) - r, "the receiver of the changes gave up");
    }
    return -err->code;
}

int box_watch_open(struct box *box, const struct watch_request *request, struct box_watch **ret_watch,
                   struct err *err) {
    bool newer = request->all || text_list_count(request->include) || text_list_count(request->exclude);
    const struct verb verb = {
        .op = OP_WATCH,
        FIELDS(F_PATH(PATH, request->path), F_GLOBS(INCLUDE, request->include), F_GLOBS(EXCLUDE, request->exclude)),
        .flags = (request->recursive ? CALL_RECURSIVE : 0) | (request->all ? CALL_ALL : 0),
        .needs = newer ? FEATURE_SEARCH : 0,
        .rights = request->rights};
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    struct call *call;
    TRY(verb_args(box, &verb, &args, err) ?: call_open(box->wire, OP_WATCH, &args, NULL, 0, false, &call, err));
    struct box_watch *watch = xcalloc(1, sizeof *watch);
    watch->wire = wire_ref(box->wire);
    watch->call = call;
    *ret_watch = watch;
    return 0;
}

void box_watch_close(struct box_watch *watch) {
    call_close(watch->call);
    wire_unref(watch->wire);
    free(watch);
}

int box_watch_run(struct box_watch *watch, const struct watch_sink *sink, int fd, struct err *err) {
    watch->sink = sink;
    int r = watch_loop(watch, fd, err);
    box_watch_close(watch);
    return r;
}

int box_watch(struct box *box, const struct watch_request *request, const struct watch_sink *sink, int watch,
              struct err *err) {
    struct box_watch *handle;
    return box_watch_open(box, request, &handle, err) ?: box_watch_run(handle, sink, watch, err);
}

/* ---- diff ---- */

struct diff {
    int (*each)(void *user, const struct file_change *change);
    void *user;
    uint64_t left;
    char path[LIMIT_PATH_BYTES + 1];
};

static int watch_diff_item(void *user, struct view view, struct err *err) {
    struct diff *diff = user;
    struct file_change change = {.type = FILE_OTHER};
    struct field field;
    int r = diff->left-- ? 0 : err_set(err, ERR_PROTOCOL, "the runner sent more than was asked for"), next = 0;
    while (r == 0 && (next = field_next(&view, &field, err)) > 0) {
        if (field.id == FIELD_EVENT)
            change.event = (enum watch_event)field.number;
        else if (field.id == FIELD_TYPE)
            change.type = (enum file_type)field.number;
        else if (field.id == FIELD_SIZE)
            change.size = field.number;
        else if (field.id == FIELD_PATH) {
            r = verb_text(diff->path, sizeof diff->path, &field, err);
            change.path = diff->path;
        }
    }
    TRY(r < 0 ? r : next);
    if (!change.path || change.event < WATCH_CREATED || change.event > WATCH_REMOVED)
        return err_set(err, ERR_PROTOCOL, "the runner reported a change without its name or kind");
    return diff->each(diff->user, &change);
}

/* ---- what an engine knows ---- */

struct engine_diff {
    struct box *box;
    struct diff *diff;
    bool workspace; /* the engine reported some of it, so it reports all of it */
};

static int watch_engine_change(void *user, const struct file_change *change) {
    struct engine_diff *engine = user;
    struct file_change whole = *change;
    struct file_stat stat;
    autoarena arena = ARENA_EMPTY;
    engine->workspace |= path_within(change->path, box_workspace(engine->box));
    if (change->event != WATCH_REMOVED && change->type == FILE_OTHER &&
        box_stat(engine->box, change->path, &arena, &stat, ERR_IGNORED) == 0) {
        whole.type = stat.type;
        whole.size = stat.type == FILE_DIR ? 0 : stat.size;
    }
    engine->diff->left--;
    return engine->diff->each(engine->diff->user, &whole);
}

static int watch_engine_file(void *user, const struct file_stat *stat) {
    struct engine_diff *engine = user;
    struct file_change change = {.path = stat->path,
                                 .event = WATCH_CREATED,
                                 .type = stat->type,
                                 .size = stat->type == FILE_DIR ? 0 : stat->size};
    engine->diff->left--;
    return engine->diff->each(engine->diff->user, &change);
}

static int watch_diff_by_engine(struct box *box, struct diff *diff, int watch, bool *ret_truncated, struct err *err) {
    struct engine_diff engine = {.box = box, .diff = diff};
    bool truncated = false, own = true; /* own: the workspace is not mounted into the container */
    TRY(box->ops->diff(box->backend, &box->spec, diff->left, watch_engine_change, &engine, &truncated, err));
    for (size_t i = 0; i < box->spec.mount_count; i++)
        own &= strcmp(box->spec.mounts[i].target, box_workspace(box)) != 0;
    if (!truncated && !engine.workspace && own) {
        struct list_request list = {.path = box_workspace(box), .depth = LIMIT_LIST_DEPTH, .limit = diff->left};
        truncated = !diff->left;
        TRY(diff->left ? box_list(box, &list, watch, watch_engine_file, &engine, &truncated, err) : 0);
    }
    *ret_truncated = truncated;
    return 0;
}

int box_diff(struct box *box, uint64_t limit, int watch, int (*each)(void *user, const struct file_change *change),
             void *user, bool *ret_truncated, struct err *err) {
    static const struct verb_sink sink = {.item = watch_diff_item};
    struct diff diff = {.each = each, .user = user, .left = limit};
    if (box->ops->diff)
        return watch_diff_by_engine(box, &diff, watch, ret_truncated, err);
    const struct verb verb = {
        .op = OP_DIFF, FIELDS(F_ALWAYS(LIMIT, limit)), .watch = watch, .sink = &sink, .user = &diff};
    struct fields end;
    TRY(verb_numbers(box, &verb, &end, err));
    *ret_truncated = end.number[FIELD_TRUNCATED];
    return 0;
}
