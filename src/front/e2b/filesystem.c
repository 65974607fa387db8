/* filesystem.Filesystem of envd: Stat, MakeDir, Move, ListDir, Remove. Called through e2b_filesystem_routes (watch.c
 * has the watching half). Invariant: a listing is held in memory only as far as http_hold allows. */

#include "base/mem.h"
#include "front/e2b/connect.h"
#include "front/e2b/entry.h"
#include "front/e2b/watch.h"
#include "front/trail.h"

enum { FILESYSTEM_LIST_MOST = 50000 };

struct filesystem_args {
    struct row_text path, source, destination;
    struct row_number depth;
};

#define FILESYSTEM_ROW(label, kind, member)                                                                            \
    .name = (label), .type = ROW_##kind, .offset = offsetof(struct filesystem_args, member)

static const struct row filesystem_path_rows[] = {
    {FILESYSTEM_ROW("path", TEXT, path), .max = LIMIT_PATH_BYTES, .flags = ROW_AUDITED,
     .text = "the file or directory"},
    {0},
};
static const struct row filesystem_list_rows[] = {
    {FILESYSTEM_ROW("path", TEXT, path), .max = LIMIT_PATH_BYTES, .flags = ROW_AUDITED, .text = "the directory"},
    {FILESYSTEM_ROW("depth", INT, depth), .max = UINT32_MAX, .text = "levels below it; 0 and absent: 1"},
    {0},
};
static const struct row filesystem_move_rows[] = {
    {FILESYSTEM_ROW("source", TEXT, source), .max = LIMIT_PATH_BYTES, .flags = ROW_AUDITED, .text = "the old path"},
    {FILESYSTEM_ROW("destination", TEXT, destination), .max = LIMIT_PATH_BYTES, .flags = ROW_AUDITED,
     .text = "the new path; what is there is replaced"},
    {0},
};

static int filesystem_path(struct connect *connect, const struct row_text *given, const char **ret_path,
                           struct err *err) {
    STEP(entry_path(http_arena(connect->request), given->data ? given->data : "", &connect->account, ret_path, err));
    trail_quote(connect->request, *ret_path);
    return 0;
}

static int filesystem_put(struct connect *connect, const char *path, struct err *err) {
    struct file_stat stat;
    STEP(entry_stat(connect->box, path, http_arena(connect->request), &stat, err));
    autonames names;
    entry_names_init(&names, connect->box);
    struct json *json = connect_open(connect);
    json_key(json, "entry");
    entry_put(json, &names, &stat);
    return connect_send(connect);
}

/* ---- stat, mkdir, move, remove ---- */

static int filesystem_stat(struct connect *connect, void *message, struct err *err) {
    const struct filesystem_args *args = message;
    const char *path;
    STEP(filesystem_path(connect, &args->path, &path, err));
    int failed = filesystem_put(connect, path, err);
    if (failed < 0 && err->number == ENOTDIR) /* a file lies on the way: `exists` of the clients is false then */
        failed = err_set(err, ERR_NOT_FOUND, "file not found: '%.400s'", path);
    return failed;
}

static int filesystem_mkdir(struct connect *connect, void *message, struct err *err) {
    const struct filesystem_args *args = message;
    const char *path;
    bool created = false;
    STEP(filesystem_path(connect, &args->path, &path, err));
    const struct file_rights rights = entry_rights(connect->box, &connect->account);
    STEP(box_mkdir_as(connect->box, path, 0755, &rights, &created, err));
    return created ? filesystem_put(connect, path, err)
                   : err_set(err, ERR_EXISTS, "directory already exists: %.400s", path);
}

static int filesystem_move(struct connect *connect, void *message, struct err *err) {
    const struct filesystem_args *args = message;
    const char *from, *to;
    STEP(filesystem_path(connect, &args->source, &from, err) ?: filesystem_path(connect, &args->destination, &to, err));
    const struct file_rights rights = entry_rights(connect->box, &connect->account);
    return box_move_as(connect->box, from, to, &rights, err) ?: filesystem_put(connect, to, err);
}

static int filesystem_remove(struct connect *connect, void *message, struct err *err) {
    const struct filesystem_args *args = message;
    const char *path;
    STEP(filesystem_path(connect, &args->path, &path, err));
    const struct file_rights rights = entry_rights(connect->box, &connect->account);
    int failed = box_remove_as(connect->box, path, &rights, http_fd(connect->request), err);
    return failed == -ERR_NOT_FOUND ? 0 : failed; /* the answer is {} */
}

/* ---- list ---- */

struct filesystem_entry {
    const char *key; /* to sort by: the path with 1 for '/', so that a directory's content follows it at once */
    struct file_stat stat;
};

struct filesystem_list {
    struct connect *connect;
    struct filesystem_entry *entries;
    size_t count, room;
    struct err *err;
};

static const char *filesystem_key(struct arena *arena, const char *path) {
    char *key = arena_strdup(arena, path);
    for (char *at = key; *at; at++)
        if (*at == '/')
            *at = 1;
    return key;
}

static int filesystem_each(void *user, const struct file_stat *stat) {
    struct filesystem_list *list = user;
    struct arena *arena = http_arena(list->connect->request);
    size_t texts = 2 * strlen(stat->path) + strlen(stat->name) + stat->attributes_len +
                   (stat->resolved ? strlen(stat->resolved) : 0) + 8;
    STEP(http_hold(list->connect->request, 3 * sizeof *list->entries + 2 * texts, list->err));
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 256;
        list->entries = xrealloc(list->entries, list->room * sizeof *list->entries);
    }
    struct filesystem_entry *entry = &list->entries[list->count++];
    *entry = (struct filesystem_entry){.key = filesystem_key(arena, stat->path), .stat = *stat};
    entry->stat.path = arena_strdup(arena, stat->path);
    entry->stat.name = arena_strdup(arena, stat->name);
    entry->stat.target = NULL;
    entry->stat.resolved = stat->resolved ? arena_strdup(arena, stat->resolved) : NULL;
    entry->stat.attributes = stat->attributes_len ? arena_copy(arena, stat->attributes, stat->attributes_len) : NULL;
    return 0;
}

/* A directory before what is in it, names by their bytes. */
static int filesystem_order(const void *a, const void *b) {
    return strcmp(((const struct filesystem_entry *)a)->key, ((const struct filesystem_entry *)b)->key);
}

static int filesystem_list_send(struct filesystem_list *list) {
    autonames names;
    entry_names_init(&names, list->connect->box);
    if (list->count)
        qsort(list->entries, list->count, sizeof *list->entries, filesystem_order);
    struct json *json = connect_open(list->connect);
    json_put_open(json, "entries", '[');
    for (size_t i = 0; i < list->count; i++)
        entry_put(json, &names, &list->entries[i].stat);
    json_close(json, ']');
    return connect_send(list->connect);
}

static int filesystem_list(struct connect *connect, void *message, struct err *err) {
    const struct filesystem_args *args = message;
    struct list_request request = {.limit = FILESYSTEM_LIST_MOST};
    struct filesystem_list list = {.connect = connect, .err = err};
    bool truncated = false;
    STEP(filesystem_path(connect, &args->path, &request.path, err));
    const struct file_rights rights = entry_rights(connect->box, &connect->account);
    request.rights = &rights;
    request.depth = args->depth.value > LIMIT_LIST_DEPTH ? LIMIT_LIST_DEPTH
                    : args->depth.value                  ? (unsigned)args->depth.value
                                                         : 1;
    int failed = box_list(connect->box, &request, http_fd(connect->request), filesystem_each, &list, &truncated, err);
    if (failed && err->number == ELOOP)
        connect->code = "failed_precondition";
    if (!failed && truncated) {
        connect->code = "out_of_range"; /* a limit would be tried again by the clients */
        failed =
            err_set(err, ERR_LIMIT, "'%.300s' holds more than %d entries, or took too long to list: ask for less depth",
                    request.path, FILESYSTEM_LIST_MOST);
    }
    failed = failed ?: filesystem_list_send(&list);
    free(list.entries);
    return failed;
}

/* ---- routes ---- */

#define FILESYSTEM_RPC(path, label, summary, function, rows)                                                           \
    CONNECT_RPC("/filesystem.Filesystem/" path, label, "E2B: " summary, 0, rows, .call = (function),                   \
                .args = sizeof(struct filesystem_args))
#define WATCH_RPC(path, label, summary, function, rows, ...)                                                           \
    CONNECT_RPC("/filesystem.Filesystem/" path, label, "E2B: " summary, 0, rows, .call = (function),                   \
                .args = sizeof(struct e2b_watch_args), __VA_ARGS__)

const struct route e2b_filesystem_routes[] = {
    FILESYSTEM_RPC("Stat", "e2b_stat", "what a file is", filesystem_stat, filesystem_path_rows),
    FILESYSTEM_RPC("MakeDir", "e2b_make_dir", "makes a directory", filesystem_mkdir, filesystem_path_rows),
    FILESYSTEM_RPC("Move", "e2b_move", "renames a file", filesystem_move, filesystem_move_rows),
    FILESYSTEM_RPC("ListDir", "e2b_list_dir", "lists a directory", filesystem_list, filesystem_list_rows),
    FILESYSTEM_RPC("Remove", "e2b_remove", "removes a file or a tree", filesystem_remove, filesystem_path_rows),
    WATCH_RPC("WatchDir", "e2b_watch_dir", "changes below a directory, as they come", e2b_watch_dir, e2b_watch_rows,
              .kind = CONNECT_STREAM),
    WATCH_RPC("CreateWatcher", "e2b_create_watcher", "keeps changes below a directory", e2b_watch_create,
              e2b_watch_rows),
    WATCH_RPC("GetWatcherEvents", "e2b_watcher_events", "takes the changes that were kept", e2b_watch_events,
              e2b_watcher_rows),
    WATCH_RPC("RemoveWatcher", "e2b_remove_watcher", "ends a watcher", e2b_watch_remove, e2b_watcher_rows),
    {0},
};
