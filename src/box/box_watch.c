/* The verb that listens: changes of files, told as they come. Called by the doors. Invariant: only the wire is held, never
 * the box, so that who listens keeps no box awake; records are decoded one at a time into memory of fixed size. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "box/file.h"

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

static int watch_items(struct box_watch *watch, const struct event *event, struct err *err) {
    struct view view = view_of(event->data, event->len), record;
    int r;
    while ((r = item_next(&view, &record, err)) > 0) {
        err->code = 0;
        r = watch_item(watch, record, err);
        if (r < 0)
            break;
    }
    if (r == -ERR_PROTOCOL)
        wire_kill(watch->wire, err->text);
    return r;
}

static int watch_loop(struct box_watch *watch, int fd, struct err *err) {
    const struct watch_sink *sink = watch->sink;
    for (;;) {
        struct call_wait wait = {
            .fd = fd, .events = POLLRDHUP, .deadline_ms = sink->idle && sink->idle_ms ? clock_ms() + sink->idle_ms : 0};
        struct event event;
        int r = call_next(watch->call, &wait, &event, err);
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
        if (r < 0) {
            if (err->code != -r)
                err_set(err, (enum err_code) - r, "the receiver of the changes gave up");
            return r;
        }
    }
}

int box_watch_open(struct box *box, const struct watch_request *request, struct box_watch **ret_watch,
                   struct err *err) {
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    int r = verb_path(&args, FIELD_PATH, request->path, err), include = 0, exclude = 0;
    if (r == 0)
        r = include = verb_globs(&args, FIELD_INCLUDE, request->include, err);
    if (r >= 0)
        r = exclude = verb_globs(&args, FIELD_EXCLUDE, request->exclude, err);
    if (r < 0)
        return r;
    if ((request->all || include || exclude) && !(wire_features(box->wire) & FEATURE_SEARCH))
        return err_set(err, ERR_UNSUPPORTED, "the runner of box %s cannot watch like that", box->id);
    field_number(&args, FIELD_FLAGS, (request->recursive ? CALL_RECURSIVE : 0) | (request->all ? CALL_ALL : 0));
    struct box_watch *watch = xcalloc(1, sizeof *watch);
    watch->wire = wire_ref(box->wire);
    r = call_open(watch->wire, OP_WATCH, &args, NULL, 0, false, &watch->call, err);
    if (r < 0) {
        wire_unref(watch->wire);
        free(watch);
        return r;
    }
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
    int r = box_watch_open(box, request, &handle, err);
    return r < 0 ? r : box_watch_run(handle, sink, watch, err);
}
