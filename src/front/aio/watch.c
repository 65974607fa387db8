/* The AIO dialect's file watch: create, list, poll, stream and end watchers (aio/watcher.c), and wait for one change. Called
 * through aio_watch_routes. Invariant: who waits holds its own thread for a bounded time, and leaves when its client or the
 * daemon does. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "front/aio/aio.h"
#include "front/aio/watcher.h"
#include "front/send.h"

enum {
    SLICE_MS = 250, /* how soon who waits notices that his client has gone or the daemon stops */
    STREAM_EVENTS = 1000,
    EVENT_BYTES = 32 * LIMIT_PATH_BYTES,
};

#define WATCH_LOOK ((AIO_FLAGS & ~ENDPOINT_WAKE) | ENDPOINT_LOOK) /* of what is there already: wakes no box */

/* Its client hung up, or the daemon stops. */
static bool nobody_waits(struct http_request *request) {
    struct pollfd client = {.fd = http_fd(request), .events = POLLRDHUP};
    return poll(&client, 1, 0) > 0 || http_server_stopping(front_of(request)->server);
}

/* ---- events ---- */

static const char *below(const char *root, const char *path) {
    size_t len = strlen(root);
    if (strncmp(root, path, len) != 0)
        return path;
    if (!path[len])
        return ".";
    return len && root[len - 1] == '/' ? path + len : path[len] == '/' ? path + len + 1 : path;
}

static void change_json(struct json *json, const char *root, const struct change *change) {
    bool known = change->known;
    json_open(json, '{');
    aio_members(json, AIO_MEMBERS(AIO_INT("seq", change->seq), AIO_STR("type", change_name(change->type)),
                                  AIO_STR("path", change->path), AIO_STR("relative_path", below(root, change->path)),
                                  AIO_STR("old_path", change->old_path), AIO_BOOL("is_dir", change->dir),
                                  AIO_REAL("timestamp", (double)change->wall_ms / 1000),
                                  AIO_REAL_IF(known, "mtime", (double)(change->mtime_ns / 1000000) / 1000),
                                  AIO_INT_IF(known, "size", change->size), AIO_INT_IF(known, "inode", change->inode)));
    json_close(json, '}');
}

/* ---- create, list, delete ---- */

struct watch_args {
    struct row_text path;
    bool recursive;
    const char **exclude, **include_patterns;
    struct row_number debounce;
};

static const struct row watch_body[] = {
    AIO_PATH_ROW("path", watch_args, path, "A directory or a file."),
    {AIO_ROW("recursive", BOOL, watch_args, recursive), .text = "What lies below a directory, too; true unless given."},
    {AIO_ROW("exclude", TEXTS, watch_args, exclude), .max = LIMIT_GLOBS,
     .text = "Globs: such names are not watched, nor what lies below; caches and leftovers unless given."},
    {AIO_ROW("debounce", INT, watch_args, debounce), .min = 50, .max = 5000, .fallback = 300,
     .text = "Milliseconds in which the same change is told once."},
    {AIO_ROW("include_patterns", TEXTS, watch_args, include_patterns), .max = LIMIT_GLOBS,
     .text = "Globs: only such are told; none: all."},
    {0},
};

#define INFO_MEMBERS(info)                                                                                             \
    AIO_STR("watcher_id", (info)->id), AIO_STR("path", (info)->path), AIO_BOOL("recursive", (info)->recursive),        \
        AIO_STR("status", (info)->running ? "running" : "stopped"),                                                    \
        AIO_REAL("created_at", (double)(info)->created_ms / 1000)

static int watch_create(struct http_request *request, struct box *box, struct err *err) {
    static const char *const usual[] = {".git",  "node_modules", "__pycache__", ".venv", "*.pyc",
                                        "*.pyo", ".DS_Store",    "*.swp",       "*.swo", NULL};
    struct watch_args args = {.recursive = true};
    struct watcher_info info;
    bool reused;
    int failed = detail_body(request, &args, err);
    if (failed)
        return failed;
    const char *path = front_path(request, box, &args.path, true, err);
    if (!path)
        return -err->code;
    const struct watcher_request watched = {.path = path,
                                            .recursive = args.recursive,
                                            .include = args.include_patterns,
                                            .exclude = args.exclude ? args.exclude : (const char **)usual,
                                            .debounce_ms = (unsigned)args.debounce.value};
    failed = watchers_add(aio_state(request)->watchers, box, &watched, http_fd(request), &info, &reused, err);
    if (failed)
        return failed;
    return aio_reply(
        request, NULL,
        AIO_MEMBERS(INFO_MEMBERS(&info), AIO_BOOL("reused", reused), AIO_INT("initial_cursor", info.latest_seq)), err);
}

static void list_each(void *user, const struct watcher_info *info) {
    struct json *json = user;
    json_open(json, '{');
    aio_members(json, AIO_MEMBERS(INFO_MEMBERS(info), AIO_INT("subscriber_count", info->readers),
                                  AIO_INT("event_count", info->events), AIO_INT("latest_seq", info->latest_seq)));
    json_close(json, '}');
}

static int watch_list(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, NULL);
    json_open(&answer.json, '[');
    watchers_each(aio_state(request)->watchers, box->id, list_each, &answer.json);
    json_close(&answer.json, ']');
    return aio_close(&answer, 0, err);
}

static int watch_delete(struct http_request *request, struct box *box, struct err *err) {
    const char *id = http_param(request, "watcher_id");
    bool running;
    int failed = watchers_remove(aio_state(request)->watchers, box->id, id, &running, err);
    if (failed)
        return failed;
    return aio_reply(request, NULL,
                     AIO_MEMBERS(AIO_STR("watcher_id", id), AIO_STR("status", running ? "running" : "stopped")), err);
}

/* ---- poll ---- */

struct poll_args {
    struct row_number cursor, limit, timeout;
};

static const struct row poll_body[] = {
    {AIO_ROW("cursor", INT, poll_args, cursor), .max = INT64_MAX,
     .text = "The cursor of the last answer; 0: all that is kept."},
    {AIO_ROW("limit", INT, poll_args, limit), .min = 1, .max = 1000, .fallback = 100,
     .text = "The most events to answer with."},
    {AIO_ROW("timeout", INT, poll_args, timeout), .max = 60, .text = "Seconds to wait for the first one."},
    {0},
};

struct poll_answer {
    struct answer *answer;
    const char *root;
    unsigned count;
};

static int poll_each(void *user, const struct change *change) {
    struct poll_answer *poll = user;
    if (change->type == CHANGE_LOST)
        return 0;
    poll->count++;
    change_json(&poll->answer->json, poll->root, change);
    return answer_spill(poll->answer);
}

static int watch_poll(struct http_request *request, struct box *box, struct err *err) {
    struct poll_args args = {0};
    struct watcher *watcher;
    struct watcher_info info;
    int failed = detail_body(request, &args, err);
    if (!failed)
        failed = watchers_hold(aio_state(request)->watchers, box->id, http_param(request, "watcher_id"), &watcher, err);
    if (failed)
        return failed;
    watcher_tell(watcher, &info);
    autoanswer answer;
    struct poll_answer poll = {.answer = &answer, .root = info.path};
    struct watcher_slice slice = {.cursor = args.cursor.value};
    uint64_t until_ms = clock_ms() + args.timeout.value * 1000;
    bool lost = false;
    aio_open(&answer, request, NULL);
    json_open(&answer.json, '{');
    json_put_open(&answer.json, "events", '[');
    for (;;) {
        uint64_t now_ms = clock_ms(), left_ms = now_ms < until_ms ? until_ms - now_ms : 0;
        failed = watcher_read(watcher, slice.cursor, (unsigned)args.limit.value,
                              left_ms < SLICE_MS ? left_ms : SLICE_MS, poll_each, &poll, &slice);
        lost |= slice.lost;
        if (failed || poll.count || lost || slice.ended || left_ms <= SLICE_MS || nobody_waits(request))
            break;
    }
    json_close(&answer.json, ']');
    aio_put(&answer, AIO_MEMBERS(AIO_INT("cursor", slice.cursor), AIO_BOOL("overflow", lost)));
    json_close(&answer.json, '}');
    watcher_put(watcher);
    return aio_close(&answer, failed, err);
}

/* ---- the stream ---- */

struct stream {
    struct http_request *request;
    const struct watcher_info *info;
    struct buf out;
};

/* What stands in out, or members, as an event. */
static int stream_put(struct stream *stream, const char *event, uint64_t seq, const struct aio_member *members) {
    char head[128];
    int len =
        snprintf(head, sizeof head, "event: %s\nid: %s:%llu\ndata: ", event, stream->info->id, (unsigned long long)seq);
    if (members) {
        struct json json;
        buf_clear(&stream->out);
        json_init(&json, &stream->out);
        json_open(&json, '{');
        aio_members(&json, members);
        json_close(&json, '}');
    }
    int failed = http_reply_write(stream->request, head, (size_t)len);
    if (!failed)
        failed = http_reply_write(stream->request, stream->out.data, stream->out.len);
    return failed ? failed : http_reply_write(stream->request, "\n\n", 2);
}

static int stream_each(void *user, const struct change *change) {
    struct stream *stream = user;
    struct json json;
    if (change->type == CHANGE_LOST)
        return 0;
    buf_clear(&stream->out);
    json_init(&json, &stream->out);
    change_json(&json, stream->info->path, change);
    return stream_put(stream, "file_change", change->seq, NULL);
}

/* Where a stream goes on: behind what its client says that it had; else from now on. */
static uint64_t stream_cursor(struct http_request *request, const struct watcher_info *info) {
    const char *last = http_header(request, "last-event-id"), *colon = last ? strchr(last, ':') : NULL;
    const char *query = http_query(request, "cursor", NULL);
    uint64_t cursor;
    if (query && text_u64(query, INT64_MAX, &cursor))
        return cursor;
    if (colon && (size_t)(colon - last) == strlen(info->id) && strncmp(last, info->id, strlen(info->id)) == 0 &&
        text_u64(colon + 1, INT64_MAX, &cursor))
        return cursor;
    return info->latest_seq;
}

static int watch_events(struct http_request *request, struct box *box, struct err *err) {
    struct watcher *watcher;
    struct watcher_info info;
    int failed = watchers_hold(aio_state(request)->watchers, box->id, http_param(request, "watcher_id"), &watcher, err);
    if (failed)
        return failed;
    watcher_tell(watcher, &info);
    struct stream stream = {.request = request, .info = &info};
    struct watcher_slice slice = {.cursor = stream_cursor(request, &info)};
    buf_init(&stream.out, EVENT_BYTES);
    failed = http_reply_events(request);
    if (!failed)
        failed = stream_put(&stream, "watch_started", slice.cursor,
                            AIO_MEMBERS(INFO_MEMBERS(&info), AIO_INT("cursor", slice.cursor)));
    while (!failed && !slice.ended && !nobody_waits(request)) {
        failed = watcher_read(watcher, slice.cursor, STREAM_EVENTS, SLICE_MS, stream_each, &stream, &slice);
        if (!failed && slice.lost)
            failed = stream_put(&stream, "overflow", slice.cursor, AIO_MEMBERS(AIO_INT("cursor", slice.cursor)));
        if (!failed)
            failed = http_reply_alive(request);
    }
    buf_done(&stream.out);
    watcher_put(watcher);
    return failed ? failed : http_reply_end(request);
}

/* ---- wait ---- */

struct wait_args {
    struct row_text path;
    struct row_number timeout;
    const char **event_types;
};

static const struct row wait_body[] = {
    AIO_PATH_ROW("path", wait_args, path, "What may change; it need not be there yet."),
    {AIO_ROW("timeout", INT, wait_args, timeout), .min = 1, .max = 300, .fallback = 30, .text = "Seconds to wait."},
    {AIO_ROW("event_types", TEXTS, wait_args, event_types), .max = CHANGE_TYPES,
     .text = "Which changes: create, write, remove, rename, chmod; all unless given."},
    {0},
};

struct waiting {
    struct http_request *request;
    struct box *box;
    const char *path;
    bool directory; /* it is one: what happens in it counts as well */
    bool wanted[CHANGE_TYPES];
    bool armed, expired;
    uint64_t until_ms;
    struct watch_sink sink;
    struct buf *found; /* the event, as JSON */
};

static int waiting_found(struct waiting *waiting, struct change *change) {
    struct json json;
    change->seq = 1;
    json_init(&json, waiting->found);
    change_json(&json, waiting->path, change);
    return -ERR_EXISTS; /* ends the watch */
}

/* Whether it is there, as a change. */
static bool waiting_look(struct waiting *waiting, struct change *ret_change) {
    struct file_stat stat;
    struct err ignored;
    if (box_stat(waiting->box, waiting->path, http_arena(waiting->request), &stat, &ignored) < 0)
        return false;
    *ret_change = (struct change){.type = CHANGE_CREATE,
                                  .path = waiting->path,
                                  .dir = stat.type == FILE_DIR,
                                  .known = true,
                                  .wall_ms = clock_wall_ms(),
                                  .size = stat.size,
                                  .mtime_ns = stat.mtime_ns,
                                  .inode = stat.inode};
    return true;
}

static int waiting_change(void *user, const struct watch_change *from) {
    struct waiting *waiting = user;
    struct change change;
    change_from(from, &change);
    bool it = strcmp(change.path, waiting->path) == 0 ||
              (change.old_path && strcmp(change.old_path, waiting->path) == 0) || waiting->directory;
    if (change.type == CHANGE_LOST || !it || !waiting->wanted[change.type])
        return 0;
    return waiting_found(waiting, &change);
}

static int waiting_idle(void *user) {
    struct waiting *waiting = user;
    struct change change;
    uint64_t now_ms = clock_ms();
    if (!waiting->armed) { /* it may have come before anybody looked */
        waiting->armed = true;
        if (waiting->wanted[CHANGE_CREATE] && waiting_look(waiting, &change))
            return waiting_found(waiting, &change);
    }
    waiting->expired = now_ms >= waiting->until_ms;
    if (waiting->expired || http_server_stopping(front_of(waiting->request)->server))
        return -ERR_TIMEOUT;
    uint64_t left_ms = waiting->until_ms - now_ms;
    waiting->sink.idle_ms = left_ms < SLICE_MS ? left_ms : SLICE_MS;
    return 0;
}

static int waiting_types(struct http_request *request, const struct wait_args *args, struct waiting *waiting) {
    for (size_t i = 0; i < CHANGE_TYPES; i++)
        waiting->wanted[i] = !args->event_types;
    for (size_t i = 0; args->event_types && args->event_types[i]; i++) {
        size_t type = 0;
        while (type < CHANGE_TYPES && strcmp(args->event_types[i], change_name((enum change_type)type)) != 0)
            type++;
        if (type == CHANGE_TYPES)
            return detail_unfit(request, "event_types",
                                "Input should be 'create', 'write', 'remove', 'rename' or 'chmod'");
        waiting->wanted[type] = true;
    }
    return 0;
}

/* A file is watched in its directory: so its coming and its new name are seen as well. */
static int waiting_run(struct waiting *waiting, struct err *err) {
    struct change there;
    waiting->directory = waiting_look(waiting, &there) && there.dir;
    char *parent = arena_printf(http_arena(waiting->request), "%s", waiting->path), *slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent] = 0;
    const struct watch_request watched = {.path = waiting->directory ? waiting->path : parent, .all = true};
    waiting->sink =
        (struct watch_sink){.each = waiting_change, .idle = waiting_idle, .idle_ms = SLICE_MS, .user = waiting};
    return box_watch(waiting->box, &watched, &waiting->sink, http_fd(waiting->request), err);
}

static int watch_wait(struct http_request *request, struct box *box, struct err *err) {
    struct wait_args args = {0};
    autobuf found;
    struct waiting waiting = {.request = request, .box = box, .found = &found};
    buf_init(&found, EVENT_BYTES);
    int failed = detail_body(request, &args, err);
    if (!failed)
        failed = waiting_types(request, &args, &waiting);
    if (failed)
        return failed;
    waiting.path = front_path(request, box, &args.path, true, err);
    if (!waiting.path)
        return -err->code;
    waiting.until_ms = clock_ms() + args.timeout.value * 1000;
    failed = waiting_run(&waiting, err);
    if (!found.len && failed == -ERR_TIMEOUT)
        return aio_fail(request, 503, ERR_TIMEOUT, "timed out waiting for file event");
    if (!found.len)
        return failed ? failed : -ERR_GONE;
    autoanswer answer;
    aio_open(&answer, request, NULL);
    json_open(&answer.json, '{');
    json_put_raw(&answer.json, "event", (const char *)found.data, found.len);
    json_close(&answer.json, '}');
    return aio_close(&answer, 0, err);
}

const struct route aio_watch_routes[] = {
    AIO_ROUTE("POST", "/file/watch", "aio_watch_create", "Keeps what changes, to be asked for", .run = watch_create,
              .body = watch_body),
    {"GET", "/aio/{id}/v1/file/watch", front_handle, 0, "aio_watch_list", "The watchers of a box",
     AIO_OTHER(.run = watch_list, .flags = WATCH_LOOK, .status = 200, .answer = aio_answer)},
    AIO_ROUTE("POST", "/file/watch/wait", "aio_watch_wait", "Waits until a path changes", .run = watch_wait,
              .body = wait_body),
    {"POST", "/aio/{id}/v1/file/watch/{watcher_id}/poll", front_handle, 0, "aio_watch_poll",
     "What changed since a cursor",
     AIO_OTHER(.run = watch_poll, .flags = WATCH_LOOK, .status = 200, .answer = aio_answer, .body = poll_body)},
    {"GET", "/aio/{id}/v1/file/watch/{watcher_id}/events", front_handle, 0, "aio_watch_events",
     "What changes, as an event stream",
     AIO_OTHER(.run = watch_events, .flags = WATCH_LOOK, .status = 200, .answer_media = "text/event-stream")},
    {"DELETE", "/aio/{id}/v1/file/watch/{watcher_id}", front_handle, 0, "aio_watch_delete", "Ends a watcher",
     AIO_OTHER(.run = watch_delete, .flags = WATCH_LOOK, .status = 200, .answer = aio_answer)},
    {0},
};
