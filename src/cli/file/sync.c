/* `cubby sync`: sends what changed in a local directory to a box, once or as it changes. Invariant: only the box
 * changes, and what exists only there is removed only with --delete. */
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <sys/inotify.h>

#include "base/base.h"
#include "cli/archive.h"
#include "cli/cli.h"
#include "cli/rest/list.h"
#include "cli/terminal.h"
#include "cli/upload.h"

#define SYNC_SETTLE_MS 150 /* an editor writes several times */
#define SYNC_EVENTS (IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB)

struct sync_values {
    bool watch, remove, dry, quiet;
    struct row_texts exclude;
};

const struct row sync_options[] = {
    OPTION("watch", 'w', BOOL, struct sync_values, watch, NULL, "continue to send changes"),
    OPTION("delete", 0, BOOL, struct sync_values, remove, NULL, "remove what exists only in the box"),
    OPTION("exclude", 'x', TEXTS, struct sync_values, exclude, "NAME", "leave out files and directories of this name"),
    OPTION("dry-run", 'n', BOOL, struct sync_values, dry, NULL, "print what would be done"),
    OPTION("quiet", 'q', BOOL, struct sync_values, quiet, NULL, "print nothing"),
    {.name = NULL},
};

struct sync {
    struct cli *cli;
    const char *dir, *id, *target;
    struct sync_values values;
    json_t *here, *there; /* path: "kind size mtime" */
    struct buf names;     /* to send, each with a NUL after it */
    size_t sent, removed;
    int notify;
};

static bool sync_left_out(const struct sync *sync, const char *name) {
    for (size_t i = 0; i < sync->values.exclude.count; i++)
        if (strcmp(sync->values.exclude.items[i], name) == 0)
            return true;
    return false;
}

/* ---- what is where ---- */

static int sync_local(struct sync *sync, int dirfd, const char *above, struct err *err) {
    DIR *dir = fdopendir(dirfd);
    struct dirent *entry;
    struct stat status;
    int code = 0;
    if (!dir)
        return err_errno(err, errno, "%s/%s", sync->dir, above);
    if (sync->notify >= 0) {
        const char *path = arena_printf(&sync->cli->arena, "%s/%s", sync->dir, above);
        if (inotify_add_watch(sync->notify, path, SYNC_EVENTS | IN_ONLYDIR) < 0)
            code = err_errno(err, errno, "cannot watch %s (fs.inotify.max_user_watches)", path);
    }
    while (code == 0 && (entry = fd_readdir(dir))) {
        const char *path = arena_printf(&sync->cli->arena, "%s%s%s", above, *above ? "/" : "", entry->d_name);
        if (sync_left_out(sync, entry->d_name) || fstatat(dirfd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* gone in the meantime */
        bool is_dir = S_ISDIR(status.st_mode), is_file = S_ISREG(status.st_mode);
        if (!is_dir && !is_file && !S_ISLNK(status.st_mode))
            continue;
        char link[PATH_MAX] = "";
        if (!is_dir && !is_file && readlinkat(dirfd, entry->d_name, link, sizeof link - 1) < 0)
            continue;
        char time_text[CLOCK_TEXT_BYTES];
        clock_text((uint64_t)status.st_mtim.tv_sec * 1000, time_text);
        const char *mark =
            arena_printf(&sync->cli->arena, "%s %lld %.*s",
                         is_dir    ? "dir"
                         : is_file ? "file"
                                   : "symlink",
                         is_file ? (long long)status.st_size : 0, is_file ? 19 : INT_MAX, is_file ? time_text : link);
        json_object_set_new_nocheck(sync->here, path, json_string_nocheck(mark));
        int below = is_dir ? openat(dirfd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (below >= 0)
            code = sync_local(sync, below, path, err);
    }
    closedir(dir);
    return code;
}

static int sync_remote(struct sync *sync, struct err *err) {
    json_auto_t *answer = NULL, *top = NULL;
    size_t i;
    json_t *entry;
    const char *url = arena_printf(&sync->cli->arena, "%s&depth=%u&limit=%u",
                                   remote_path(sync->cli, sync->id, "/list", sync->target), 64, LIMIT_LIST_LIMIT);
    int code = remote_json(sync->cli, "GET", url, NULL, &answer, err);
    if (code == -ERR_NOT_FOUND)
        return 0; /* nothing is there yet */
    TRY(code);
    if (json_is_true(json_object_get(answer, "truncated")))
        return err_set(err, ERR_TOO_LARGE, "the box has more than %u files below %s; use `cubby cp`", LIMIT_LIST_LIMIT,
                       sync->target);
    TRY(remote_json(sync->cli, "GET", remote_path(sync->cli, sync->id, "/stat", sync->target), NULL, &top, err));
    size_t above = json_string_length(json_object_get(top, "path")) + 1; /* of "/workspace/" */
    json_array_foreach(json_object_get(answer, "entries"), i, entry) {
        const char *type = rest_text(entry, "type"), *mtime = rest_text(entry, "mtime");
        autobuf path = buf_max(64 << 10);
        if (!type || !mtime || !remote_bytes(entry, "path", &path))
            continue;
        const char *text = path.len > above ? buf_cstr(&path) + above : "", *name = strrchr(text, '/');
        if (!*text || sync_left_out(sync, name ? name + 1 : text))
            continue;
        bool file = strcmp(type, "file") == 0;
        autobuf link = buf_max(64 << 10);
        if (json_is_string(json_object_get(entry, "link_target")))
            remote_bytes(entry, "link_target", &link);
        const char *mark =
            arena_printf(&sync->cli->arena, "%s %lld %.*s", type,
                         file ? (long long)json_integer_value(json_object_get(entry, "size")) : 0, file ? 19 : INT_MAX,
                         file       ? mtime
                         : link.len ? buf_cstr(&link)
                                    : "");
        json_object_set_new_nocheck(sync->there, text, json_string_nocheck(mark));
    }
    return 0;
}

/* ---- sending ---- */

static void sync_say(const struct sync *sync, const char *what, const char *path) {
    if (!sync->values.quiet)
        printf("%s %s\n", what, rest_shown(sync->cli, path));
}

static int sync_send(struct sync *sync, struct err *err) {
    struct archive archive;
    TRY(archive_pack_names(sync->dir, &sync->names, &archive, err));
    struct upload upload = {.fd = archive.fd,
                            .length = -1,
                            .what = sync->dir,
                            .type = "application/x-tar",
                            .archive = &archive,
                            .quiet = sync->values.quiet};
    int code = upload_send(sync->cli, &upload, remote_path(sync->cli, sync->id, "/archive", sync->target), NULL, err);
    if (upload.archive)
        archive_end(&archive, ERR_IGNORED);
    return code;
}

static int sync_remove(struct sync *sync, const char *path, struct err *err) {
    const char *whole = arena_printf(&sync->cli->arena, "%s/%s", sync->target, path);
    const char *url =
        arena_printf(&sync->cli->arena, "%s&recursive=1", remote_path(sync->cli, sync->id, "/files", whole));
    int code = remote_call(sync->cli, "DELETE", url, NULL, NULL, err);
    return code == -ERR_NOT_FOUND ? 0 : code; /* with its directory */
}

static int sync_once(struct sync *sync, struct err *err) {
    const char *path;
    json_t *mark;
    sync->here = json_object();
    sync->there = json_object();
    buf_clear(&sync->names);
    sync->sent = sync->removed = 0;
    int fd = open(sync->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int code = fd < 0 ? err_errno(err, errno, "%s", sync->dir) : sync_local(sync, fd, "", err);
    if (code == 0)
        code = sync_remote(sync, err);
    json_object_foreach(sync->here, path, mark) {
        if (code < 0 || json_equal(mark, json_object_get(sync->there, path)))
            continue;
        sync_say(sync, "+", path);
        buf_put(&sync->names, path, strlen(path) + 1);
        sync->sent++;
    }
    json_object_foreach(sync->there, path, mark) {
        if (code < 0 || !sync->values.remove || json_object_get(sync->here, path))
            continue;
        sync_say(sync, "-", path);
        sync->removed++;
        if (!sync->values.dry)
            code = sync_remove(sync, path, err);
    }
    if (code == 0 && sync->sent && !sync->values.dry)
        code = sync_send(sync, err);
    json_decref(sync->here);
    json_decref(sync->there);
    return code;
}

/* ---- as it changes ---- */

/* Waits for a change, and until no other follows. Returns the signal that ended it, or 0. */
static int sync_wait(const struct sync *sync, int signal_fd) {
    struct pollfd wait[2] = {{.fd = sync->notify, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
    char events[16 << 10];
    for (int timeout = -1; poll(wait, 2, timeout) != 0; timeout = SYNC_SETTLE_MS) {
        int number = wait[1].revents ? terminal_signal(signal_fd) : 0;
        if (number && number != SIGWINCH)
            return number;
        while (read(sync->notify, events, sizeof events) > 0)
            ;
    }
    return 0;
}

static int sync_watch(struct sync *sync, int signal_fd, struct err *err) {
    for (;;) {
        struct arena kept = sync->cli->arena;
        fflush(stdout);
        int number = sync_wait(sync, signal_fd);
        if (number)
            return number == SIGINT ? 0 : 128 + number;
        arena_init(&sync->cli->arena);
        int code = sync_once(sync, err);
        arena_done(&sync->cli->arena);
        sync->cli->arena = kept;
        TRY(code);
    }
}

int command_sync(struct cli *cli, int argc, char **argv) {
    struct sync sync = {.cli = cli, .notify = -1};
    struct err err = {0};
    const char *path = "";
    argc = option_parse(cli, argc, argv, &sync.values);
    if (argc != 2)
        option_fail(cli, "missing DIR or box ID");
    if (!remote_split(cli, argv[1], &sync.id, &path))
        sync.id = argv[1];
    sync.id = remote_box(cli, sync.id);
    sync.dir = argv[0];
    sync.target = *path ? path : ".";
    buf_init(&sync.names, 256u << 20);
    autofd signal_fd = sync.values.watch ? terminal_signals(&err) : -1;
    if (sync.values.watch)
        sync.notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    autobuf body;
    REST_BODY(&body, {"path", sync.target});
    int code = sync.values.dry || strcmp(sync.target, ".") == 0
                   ? 0
                   : remote_call(cli, "POST", remote_path(cli, sync.id, "/mkdir", NULL), &body, NULL, &err);
    if (code == -ERR_EXISTS)
        code = 0;
    if (code == 0)
        code = sync_once(&sync, &err);
    if (code == 0 && sync.values.watch)
        code = sync_watch(&sync, signal_fd, &err);
    buf_done(&sync.names);
    fd_close(&sync.notify);
    return code < 0 ? cli_fail(&err) : code;
}
