/* WatchDir, CreateWatcher, GetWatcherEvents, RemoveWatcher. Called through e2b_filesystem_routes. A stream listens
 * while its client does; a watcher (front/watcher.c) keeps what changes for a client that comes and asks. Invariant:
 * the start message, or the answer with the id, is sent when the watch is armed: what happens after it is reported. */
#include "front/e2b/watch.h"

#include "front/e2b/connect.h"
#include "front/e2b/entry.h"
#include "front/trail.h"
#include "front/watcher.h"

enum { E2B_WATCH_EVENTS_MOST = 10000 };

#define E2B_WATCH_ROW(label, kind, member)                                                                             \
    .name = (label), .type = ROW_##kind, .offset = offsetof(struct e2b_watch_args, member)

const struct row e2b_watch_rows[] = {
    {E2B_WATCH_ROW("path", TEXT, path), .max = LIMIT_PATH_BYTES, .flags = ROW_AUDITED, .text = "the directory"},
    {E2B_WATCH_ROW("recursive", BOOL, recursive), .text = "all below it, too"},
    {E2B_WATCH_ROW("includeEntry", BOOL, include_entry), .text = "what the file is, with what happened to it"},
    {0},
};
const struct row e2b_watcher_rows[] = {
    {E2B_WATCH_ROW("watcherId", TEXT, watcher_id), .max = 64, .text = "from CreateWatcher"},
    {0},
};

/* The directory, by the rule for paths. NOT_FOUND; INVALID: it is something else. */
static int watch_path(struct connect *connect, const struct e2b_watch_args *args, const char **ret_path,
                      struct err *err) {
    struct arena *arena = http_arena(connect->request);
    struct file_stat stat;
    STEP(entry_path(arena, args->path.data ? args->path.data : "", &connect->account, ret_path, err));
    trail_quote(connect->request, *ret_path);
    int failed = entry_stat(connect->box, *ret_path, arena, &stat, err);
    if (!failed && stat.type != FILE_DIR && !(stat.type == FILE_SYMLINK && S_ISDIR(stat.resolved_mode)))
        failed = err_set(err, ERR_INVALID, "path '%.400s' is not a directory", *ret_path);
    return failed;
}

/* The watch itself reports no attributes. */
static struct file_rights watch_rights(const struct connect *connect) {
    return (struct file_rights){.root = box_has_root(connect->box)};
}

/* ---- events ---- */

struct e2b_watch {
    struct connect *connect;
    const char *path; /* that is watched */
    bool entries, armed;
    struct entry_names names;
    struct json *json; /* of a list; NULL: each event is a message */
    struct watch_sink sink;
    struct err *err;
};

static const char *watch_name(const struct e2b_watch *watch, const char *path) {
    size_t len = strlen(watch->path);
    if (!strcmp(watch->path, "/"))
        return path + 1;
    return !strncmp(path, watch->path, len) && path[len] == '/' ? path + len + 1 : "";
}

/* What it is now; gone by now: no entry. */
static void watch_put_entry(struct e2b_watch *watch, struct json *json, const char *path) {
    autoarena arena = ARENA_EMPTY;
    struct file_stat stat;
    struct err ignored;
    if (entry_stat(watch->connect->box, path, &arena, &stat, &ignored) < 0)
        return;
    json_key(json, "entry");
    entry_put(json, &watch->names, &stat);
}

static int watch_event(struct e2b_watch *watch, const char *path, const char *type, bool there) {
    const char *name = watch_name(watch, path);
    if (!*name) /* the directory itself */
        return 0;
    struct json *json = watch->json;
    if (json) {
        json_open(json, '{');
    } else {
        json = connect_open(watch->connect);
        json_put_open(json, "filesystem", '{');
    }
    json_put_str(json, "name", name);
    json_put_str(json, "type", type);
    if (there && watch->entries)
        watch_put_entry(watch, json, path);
    json_close(json, '}');
    return watch->json ? 0 : connect_send(watch->connect);
}

/* A rename is the end of one name and the beginning of another. A new file that we wrote is there at once with its
 * content: clients wait for the WRITE that would have followed. */
static int watch_change(void *user, const struct watched_change *change) {
    struct e2b_watch *watch = user;
    const char *path = change->path;
    switch (change->type) {
    case CHANGE_CREATE:
        return watch_event(watch, path, "EVENT_TYPE_CREATE", true)
                   ?: (change->dir ? 0 : watch_event(watch, path, "EVENT_TYPE_WRITE", true));
    case CHANGE_WRITE:
        return watch_event(watch, path, "EVENT_TYPE_WRITE", true);
    case CHANGE_REMOVE:
        return watch_event(watch, path, change->out ? "EVENT_TYPE_RENAME" : "EVENT_TYPE_REMOVE", false);
    case CHANGE_RENAME:
        return watch_event(watch, change->old_path, "EVENT_TYPE_RENAME", false)
                   ?: watch_event(watch, path, "EVENT_TYPE_CREATE", true);
    case CHANGE_CHMOD:
        return watch_event(watch, path, "EVENT_TYPE_CHMOD", true);
    default: /* changes were lost: there is no event for that */
        return 0;
    }
}

/* ---- a stream ---- */

static int watch_stream_each(void *user, const struct watch_change *from) {
    struct e2b_watch *watch = user;
    struct watched_change change;
    change_from(from, &change);
    int failed = watch_change(watch, &change);
    watch->sink.idle_ms = connect_wait_ms(watch->connect);
    return failed ?: connect_idle(watch->connect, false, watch->err); /* its time may be over though much happens */
}

static int watch_stream_idle(void *user) {
    struct e2b_watch *watch = user;
    int failed = 0;
    if (!watch->armed) {
        struct json *json = connect_open(watch->connect);
        json_put_open(json, "start", '{');
        json_close(json, '}');
        failed = connect_send(watch->connect);
        watch->armed = true;
    } else {
        failed = connect_idle(watch->connect, false, watch->err);
    }
    watch->sink.idle_ms = connect_wait_ms(watch->connect);
    return failed;
}

int e2b_watch_dir(struct connect *connect, void *message, struct err *err) {
    const struct e2b_watch_args *args = message;
    struct e2b_watch watch = {.connect = connect, .err = err};
    STEP(watch_path(connect, args, &watch.path, err));
    const struct file_rights rights = watch_rights(connect);
    const struct watch_request request = {
        .path = watch.path, .recursive = args->recursive, .all = true, .rights = &rights};
    watch.entries = args->include_entry;
    watch.sink = (struct watch_sink){
        .each = watch_stream_each, .idle = watch_stream_idle, .idle_ms = connect_wait_ms(connect), .user = &watch};
    entry_names_init(&watch.names, connect->box);
    int failed = box_watch(connect->box, &request, &watch.sink, http_fd(connect->request), err);
    entry_names_done(&watch.names);
    return failed;
}

/* ---- watchers ---- */

int e2b_watch_create(struct connect *connect, void *message, struct err *err) {
    const struct e2b_watch_args *args = message;
    struct watcher_info info;
    const char *path;
    bool reused;
    STEP(watch_path(connect, args, &path, err));
    const struct file_rights rights = watch_rights(connect);
    const struct watcher_request request = {
        .path = path, .recursive = args->recursive, .own = true, .entries = args->include_entry, .rights = &rights};
    STEP(watchers_add(e2b_state(connect->request)->watchers, connect->box, &request, http_fd(connect->request), &info,
                      &reused, err));
    struct json *json = connect_open(connect);
    json_put_str(json, "watcherId", info.id);
    return connect_send(connect);
}

static int watch_take(struct connect *connect, struct watcher *watcher, struct err *err) {
    struct watcher_info info;
    watcher_report(watcher, &info);
    struct e2b_watch watch = {.connect = connect, .path = info.path, .entries = info.entries, .err = err};
    watch.json = connect_open(connect);
    entry_names_init(&watch.names, connect->box);
    json_put_open(watch.json, "events", '[');
    int failed = watcher_take(watcher, E2B_WATCH_EVENTS_MOST, watch_change, &watch);
    json_close(watch.json, ']');
    entry_names_done(&watch.names);
    return failed < 0 ? err_set(err, ERR_INTERNAL, "the changes could not be reported") : connect_send(connect);
}

int e2b_watch_events(struct connect *connect, void *message, struct err *err) {
    const struct e2b_watch_args *args = message;
    struct watcher *watcher;
    const char *id = args->watcher_id.data ? args->watcher_id.data : "";
    if (watchers_hold(e2b_state(connect->request)->watchers, connect->box->id, id, &watcher, err) < 0)
        return err_set(err, ERR_NOT_FOUND, "watcher with id %.64s not found", id);
    int failed = watch_take(connect, watcher, err);
    watcher_put(watcher);
    return failed;
}

int e2b_watch_remove(struct connect *connect, void *message, struct err *err) {
    const struct e2b_watch_args *args = message;
    bool running;
    const char *id = args->watcher_id.data ? args->watcher_id.data : "";
    if (watchers_remove(e2b_state(connect->request)->watchers, connect->box->id, id, &running, err) < 0)
        return err_set(err, ERR_NOT_FOUND, "watcher with id %.64s not found", id);
    return 0;
}
