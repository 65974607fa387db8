/* The AIO dialect's file watch: create, list, poll, stream and end watchers (front/watcher.c), and wait for one change.
 * Called through aio_watch_routes. Invariant: a waiting request holds its own thread for a bounded time, and ends with
 * its client or the daemon. */
#include <poll.h>

#include "front/aio/aio.h"
#include "front/watcher.h"
#include "front/send.h"

enum {
    SLICE_MS = 250, /* how soon a waiting request notices that its client has gone or the daemon stops */
    STREAM_EVENTS = 1000,
    EVENT_BYTES = 32 * LIMIT_PATH_BYTES,
};

#define WATCH_LOOK ((AIO_FLAGS & ~ENDPOINT_WAKE) | ENDPOINT_LOOK) /* only looks: does not start a box */

/* Returns whether its client hung up or the daemon stops. */
static bool watch_abandoned(struct http_request *request) {
    struct pollfd client = {.fd = http_fd(request), .events = POLLRDHUP};
    return poll(&client, 1, 0) > 0 || http_server_stopping(front_of(request)->server);
}

/* ---- events ---- */

static const char *watch_below(const char *root, const char *path) {
    size_t len = strlen(root);
    if (strncmp(root, path, len) != 0)
        return path;
    if (!path[len])
        return ".";
    return len && root[len - 1] == '/' ? path + len : path[len] == '/' ? path + len + 1 : path;
}

static void watch_change_json(struct json *json, const char *root, const struct watched_change *change) {
    bool known = change->known;
    json_open(json, '{');
    aio_members(json,
                AIO_MEMBERS(AIO_INT("seq", change->seq), AIO_STR("type", change_name(change->type)),
                            AIO_STR("path", change->path), AIO_STR("relative_path", watch_below(root, change->path)),
                            AIO_STR("old_path", change->old_path), AIO_BOOL("is_dir", change->dir),
                            AIO_REAL("timestamp", (double)change->wall_ms / 1000),
                            AIO_REAL_IF(known, "mtime", (double)(change->mtime_ns / 1000000) / 1000),
                            AIO_INT_IF(known, "size", change->size), AIO_INT_IF(known, "inode", change->inode)));
    json_close(json, '}');
}

/* ---- create, list, delete ---- */

static const struct row watch_body[] = {
    AIO_PATH_ROW(path, "A directory or a file."),
    {AIO_IN(recursive, BOOL), .text = "What lies below a directory, too; true unless given."},
    {AIO_IN(exclude, TEXTS), .max = LIMIT_GLOBS,
     .text = "Globs: such names are not watched, nor what lies below; caches and leftovers unless given."},
    {AIO_IN(debounce, INT), .min = 50, .max = 5000, .fallback = 300,
     .text = "Milliseconds in which the same change is reported once."},
    {AIO_IN(include_patterns, TEXTS), .max = LIMIT_GLOBS, .text = "Globs: only such paths are reported; none: all."},
    {0},
};

#define INFO_MEMBERS(info)                                                                                             \
    AIO_STR("watcher_id", (info)->id), AIO_STR("path", (info)->path), AIO_BOOL("recursive", (info)->recursive),        \
        AIO_STR("status", (info)->running ? "running" : "stopped"),                                                    \
        AIO_REAL("created_at", (double)(info)->created_ms / 1000)

static int watch_create(struct http_request *request, struct box *box, struct err *err) {
    static const char *const usual[] = {".git",  "node_modules", "__pycache__", ".venv", "*.pyc",
                                        "*.pyo", ".DS_Store",    "*.swp",       "*.swo", NULL};
    struct aio_args args = {.recursive = true};
    struct watcher_info info;
    bool reused;
    const char *path;
    STEP(detail_body(request, &args, err) ?: front_path(request, box, &args.path, true, &path, err));
    const struct watcher_request watched = {.path = path,
                                            .recursive = args.recursive,
                                            .include = args.include_patterns,
                                            .exclude = args.exclude ? args.exclude : (const char **)usual,
                                            .debounce_ms = (unsigned)args.debounce.value};
    STEP(watchers_add(aio_state(request)->watchers, box, &watched, http_fd(request), &info, &reused, err));
    return aio_reply(
        request, NULL,
        AIO_MEMBERS(INFO_MEMBERS(&info), AIO_BOOL("reused", reused), AIO_INT("initial_cursor", info.latest_seq)), err);
}

static void watch_list_each(void *user, const struct watcher_info *info) {
    struct json *json = user;
    json_open(json, '{');
    aio_members(json, AIO_MEMBERS(INFO_MEMBERS(info), AIO_INT("subscriber_count", info->readers),
                                  AIO_INT("event_count", info->events), AIO_INT("latest_seq", info->latest_seq)));
    json_close(json, '}');
}

static int watch_list(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, NULL, '[');
    watchers_each(aio_state(request)->watchers, box->id, watch_list_each, &answer.json);
    return aio_close(&answer, ']', 0, err);
}

static int watch_delete(struct http_request *request, struct box *box, struct err *err) {
    const char *id = http_param(request, "watcher_id");
    bool running;
    return watchers_remove(aio_state(request)->watchers, box->id, id, &running, err)
               ?: (aio_reply(request, NULL,
                             AIO_MEMBERS(AIO_STR("watcher_id", id), AIO_STR("status", running ? "running" : "stopped")),
                             err));
}

/* ---- poll ---- */

static const struct row poll_body[] = {
    {AIO_IN(cursor, INT), .max = INT64_MAX, .text = "The cursor of the last answer; 0: all that is kept."},
    {AIO_IN(limit, INT), .min = 1, .max = 1000, .fallback = 100, .text = "The most events to answer with."},
    {AIO_ROW("timeout", INT, timeout_s), .max = 60, .text = "Seconds to wait for the first one."},
    {0},
};

struct poll_answer {
    struct answer *answer;
    const char *root;
    unsigned count;
};

static int watch_poll_each(void *user, const struct watched_change *change) {
    struct poll_answer *poll = user;
    if (change->type == CHANGE_LOST)
        return 0;
    poll->count++;
    watch_change_json(&poll->answer->json, poll->root, change);
    return answer_spill(poll->answer);
}

static int watch_poll(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct watcher *watcher;
    struct watcher_info info;
    STEP(detail_body(request, &args, err)
             ?: watchers_hold(aio_state(request)->watchers, box->id, http_param(request, "watcher_id"), &watcher, err));
    watcher_report(watcher, &info);
    autoanswer answer;
    struct poll_answer poll = {.answer = &answer, .root = info.path};
    struct watcher_slice slice = {.cursor = args.cursor.value};
    uint64_t until_ms = clock_ms() + args.timeout_s.value * 1000;
    bool lost = false;
    int failed;
    aio_open(&answer, request, NULL, '{');
    json_put_open(&answer.json, "events", '[');
    for (;;) {
        uint64_t now_ms = clock_ms(), left_ms = now_ms < until_ms ? until_ms - now_ms : 0;
        failed = watcher_read(watcher, slice.cursor, (unsigned)args.limit.value,
                              left_ms < SLICE_MS ? left_ms : SLICE_MS, watch_poll_each, &poll, &slice);
        lost |= slice.lost;
        if (failed || poll.count || lost || slice.ended || left_ms <= SLICE_MS || watch_abandoned(request))
            break;
    }
    json_close(&answer.json, ']');
    aio_put(&answer, AIO_MEMBERS(AIO_INT("cursor", slice.cursor), AIO_BOOL("overflow", lost)));
    watcher_put(watcher);
    return aio_close(&answer, '}', failed, err);
}

/* ---- the stream ---- */

struct watch_stream {
    struct http_request *request;
    const struct watcher_info *info;
    struct buf out;
};

/* Sends the content of out, or members, as an event. */
static int watch_stream_put(struct watch_stream *stream, const char *event, uint64_t seq,
                            const struct aio_member *members) {
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
    return http_reply_write(stream->request, head, (size_t)len)
               ?: http_reply_write(stream->request, stream->out.data, stream->out.len)
               ?: http_reply_write(stream->request, "\n\n", 2);
}

static int watch_stream_each(void *user, const struct watched_change *change) {
    struct watch_stream *stream = user;
    struct json json;
    if (change->type == CHANGE_LOST)
        return 0;
    buf_clear(&stream->out);
    json_init(&json, &stream->out);
    watch_change_json(&json, stream->info->path, change);
    return watch_stream_put(stream, "file_change", change->seq, NULL);
}

static int watch_events(struct http_request *request, struct box *box, struct err *err) {
    struct watcher *watcher;
    struct watcher_info info;
    STEP(watchers_hold(aio_state(request)->watchers, box->id, http_param(request, "watcher_id"), &watcher, err));
    watcher_report(watcher, &info);
    struct watch_stream stream = {.request = request, .info = &info};
    struct watcher_slice slice = {.cursor = info.latest_seq};
    /* A stream continues after the last event that its client has seen; else it begins now. */
    const char *last = http_header(request, "last-event-id"), *query = http_query(request, "cursor", NULL);
    size_t len = strlen(info.id);
    if ((!query || !text_u64(query, INT64_MAX, &slice.cursor)) && last && !strncmp(last, info.id, len) &&
        last[len] == ':')
        text_u64(last + len + 1, INT64_MAX, &slice.cursor);
    buf_init(&stream.out, EVENT_BYTES);
    int failed = http_reply_events(request)
                     ?: watch_stream_put(&stream, "watch_started", slice.cursor,
                                         AIO_MEMBERS(INFO_MEMBERS(&info), AIO_INT("cursor", slice.cursor)));
    while (!failed && !slice.ended && !watch_abandoned(request)) {
        failed = watcher_read(watcher, slice.cursor, STREAM_EVENTS, SLICE_MS, watch_stream_each, &stream, &slice);
        if (!failed && slice.lost)
            failed = watch_stream_put(&stream, "overflow", slice.cursor, AIO_MEMBERS(AIO_INT("cursor", slice.cursor)));
        if (!failed)
            failed = http_reply_alive(request);
    }
    buf_done(&stream.out);
    watcher_put(watcher);
    return failed ?: http_reply_end(request);
}

/* ---- wait ---- */

static const struct row wait_body[] = {
    AIO_PATH_ROW(path, "What may change; it need not be there yet."),
    {AIO_ROW("timeout", INT, timeout_s), .min = 1, .max = 300, .fallback = 30, .text = "Seconds to wait."},
    {AIO_IN(event_types, TEXTS), .max = CHANGE_TYPES,
     .text = "Which changes: create, write, remove, rename, chmod; all unless given."},
    {0},
};

struct waiting {
    struct http_request *request;
    struct box *box;
    const char *path;
    bool directory; /* it is a directory: changes in it count too */
    bool wanted[CHANGE_TYPES];
    bool armed, expired;
    uint64_t until_ms;
    struct watch_sink sink;
    struct buf *found; /* the event, as JSON */
};

static int watch_waiting_found(struct waiting *waiting, struct watched_change *change) {
    struct json json;
    change->seq = 1;
    json_init(&json, waiting->found);
    watch_change_json(&json, waiting->path, change);
    return -ERR_EXISTS; /* ends the watch */
}

/* Checks whether the path exists, as a change. */
static bool watch_waiting_look(struct waiting *waiting, struct watched_change *ret_change) {
    struct file_stat stat;
    if (box_stat(waiting->box, waiting->path, http_arena(waiting->request), &stat, ERR_IGNORED) < 0)
        return false;
    *ret_change = (struct watched_change){.type = CHANGE_CREATE,
                                          .path = waiting->path,
                                          .dir = stat.type == FILE_DIR,
                                          .known = true,
                                          .wall_ms = clock_wall_ms(),
                                          .size = stat.size,
                                          .mtime_ns = stat.mtime_ns,
                                          .inode = stat.inode};
    return true;
}

static int watch_waiting_change(void *user, const struct watch_change *from) {
    struct waiting *waiting = user;
    struct watched_change change;
    change_from(from, &change);
    bool it = strcmp(change.path, waiting->path) == 0 ||
              (change.old_path && strcmp(change.old_path, waiting->path) == 0) || waiting->directory;
    if (change.type == CHANGE_LOST || !it || !waiting->wanted[change.type])
        return 0;
    return watch_waiting_found(waiting, &change);
}

static int watch_waiting_idle(void *user) {
    struct waiting *waiting = user;
    struct watched_change change;
    uint64_t now_ms = clock_ms();
    if (!waiting->armed) { /* it may exist already */
        waiting->armed = true;
        if (waiting->wanted[CHANGE_CREATE] && watch_waiting_look(waiting, &change))
            return watch_waiting_found(waiting, &change);
    }
    waiting->expired = now_ms >= waiting->until_ms;
    if (waiting->expired || http_server_stopping(front_of(waiting->request)->server))
        return -ERR_TIMEOUT;
    uint64_t left_ms = waiting->until_ms - now_ms;
    waiting->sink.idle_ms = left_ms < SLICE_MS ? left_ms : SLICE_MS;
    return 0;
}

static int watch_waiting_types(struct http_request *request, const struct aio_args *args, struct waiting *waiting) {
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

static int watch_wait(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    autobuf found = buf_max(EVENT_BYTES);
    struct waiting waiting = {.request = request, .box = box, .found = &found};
    STEP(detail_body(request, &args, err) ?: watch_waiting_types(request, &args, &waiting)
                     ?: front_path(request, box, &args.path, true, &waiting.path, err));
    waiting.until_ms = clock_ms() + args.timeout_s.value * 1000;
    struct watched_change there;
    waiting.directory = watch_waiting_look(&waiting, &there) && there.dir;
    /* A file is watched through its directory, so that its creation and renames are seen too. */
    char *parent = arena_strdup(http_arena(request), waiting.path), *slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent] = 0;
    const struct watch_request watched = {.path = waiting.directory ? waiting.path : parent, .all = true};
    waiting.sink = (struct watch_sink){
        .each = watch_waiting_change, .idle = watch_waiting_idle, .idle_ms = SLICE_MS, .user = &waiting};
    int failed = box_watch(box, &watched, &waiting.sink, http_fd(request), err);
    if (!found.len && failed == -ERR_TIMEOUT)
        return aio_fail(request, 503, ERR_TIMEOUT, "timed out waiting for file event");
    if (!found.len)
        return failed ?: -ERR_GONE;
    autoanswer answer;
    aio_open(&answer, request, NULL, '{');
    json_put_raw(&answer.json, "event", (const char *)found.data, found.len);
    return aio_close(&answer, '}', 0, err);
}

const struct route aio_watch_routes[] = {
    AIO_ROUTE("POST", "/file/watch", "aio_watch_create", "Keeps what changes, to be asked for", .run = watch_create,
              .body = watch_body),
    {"GET", "/aio/{id}/v1/file/watch", front_handle, 0, "aio_watch_list", "The watchers of a box",
     ENDPOINT(.run = watch_list, .flags = WATCH_LOOK, .status = 200, .answer = aio_answer)},
    AIO_ROUTE("POST", "/file/watch/wait", "aio_watch_wait", "Waits until a path changes", .run = watch_wait,
              .body = wait_body),
    {"POST", "/aio/{id}/v1/file/watch/{watcher_id}/poll", front_handle, 0, "aio_watch_poll",
     "What changed since a cursor",
     ENDPOINT(.run = watch_poll, .flags = WATCH_LOOK, .status = 200, .answer = aio_answer, .body = poll_body)},
    {"GET", "/aio/{id}/v1/file/watch/{watcher_id}/events", front_handle, 0, "aio_watch_events",
     "What changes, as an event stream",
     ENDPOINT(.run = watch_events, .flags = WATCH_LOOK, .status = 200, .answer_media = "text/event-stream")},
    {"DELETE", "/aio/{id}/v1/file/watch/{watcher_id}", front_handle, 0, "aio_watch_delete", "Ends a watcher",
     ENDPOINT(.run = watch_delete, .flags = WATCH_LOOK, .status = 200, .answer = aio_answer)},
    {0},
};
