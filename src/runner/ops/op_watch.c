/* Watch: changes of a directory, a tree or a file, reported until the call is cancelled. In a worker.
 *
 * Watched directories form a tree of (parent, name), so that a directory moved inside the tree keeps its watches and
 * gets its new path by one assignment. Our own hidden files of atomic writes are not reported: their rename is reported
 * as the user sees it, a file created or modified. Invariant: watches are bounded; names come only from the kernel. */
#include <poll.h>
#include <sys/inotify.h>

#include "base/base.h"
#include "runner/ops/op_file.h"
#include "runner/ops/replace.h"
#include "runner/search/walk.h"

enum { EVENTS_BYTES = 64 << 10, PAIR_WAIT_MS = 20 };

struct node {   /* a watched directory */
    int wd;     /* -1: free */
    int parent; /* index of its parent, -1 for the top */
    char *name;
};

struct moved { /* IN_MOVED_FROM waiting for its other half */
    uint32_t cookie;
    bool set, dir;
    int node;
    char name[LIMIT_NAME_BYTES + 1];
};

struct watch {
    struct worker *worker;
    int fd, top_fd;
    bool recursive, over;
    bool all; /* also report attributes and lost events, and describe the file */
    bool dir; /* the current event is about a directory */
    bool out; /* a removed file was moved out of the tree */
    struct glob include, exclude;
    const struct glob *only_these, *except; /* include and exclude, if given */
    char only[LIMIT_NAME_BYTES + 1];        /* a file: its name in the directory; "" otherwise */
    int parent_wd;                          /* of the top's parent, which shows its removal; -1: none */
    char name[LIMIT_NAME_BYTES + 1];        /* the top's name there */
    struct node *nodes;
    size_t count, live;
    struct moved moved;
    struct shown shown;
    char top[LIMIT_PATH_BYTES + 1];
    int last_node; /* of the last reported event, to drop repetitions */
    enum watch_event last_event;
    char last_name[LIMIT_NAME_BYTES + 1];
};

/* ---- paths of nodes ---- */

/* Writes the relative path of a node's directory with a final '/', "" for the top. Returns its length, or -1 if too
 * long. */
static int watch_node_path(const struct watch *watch, int node, char path[LIMIT_PATH_BYTES + 2]) {
    char *end = path + LIMIT_PATH_BYTES + 1, *at = end;
    *at = 0;
    for (; node > 0; node = watch->nodes[node].parent) {
        size_t len = strlen(watch->nodes[node].name);
        if ((size_t)(at - path) < len + 1)
            return -1;
        *--at = '/';
        at -= len;
        memcpy(at, watch->nodes[node].name, len);
    }
    memmove(path, at, (size_t)(end - at) + 1);
    return (int)(end - at);
}

static bool watch_node_text(struct watch *watch, int node, const char *name, char *out) {
    char dir[LIMIT_PATH_BYTES + 2];
    int len = watch_node_path(watch, node, dir);
    if (watch->only[0] || (node == 0 && !*name)) {
        memcpy(out, watch->top, sizeof watch->top);
        return true;
    }
    size_t whole = len < 0 ? 0 : shown_set(&watch->shown, dir, (size_t)len, name, strlen(name));
    if (whole == 0)
        return false;
    memcpy(out, watch->shown.text, whole + 1);
    return true;
}

/* Returns whether to report it. A watched file always is: it was named itself. */
static bool watch_node_wanted(const struct watch *watch, int node, const char *name) {
    char path[2 * LIMIT_PATH_BYTES + 4];
    if (watch->only[0] || !*name || (!watch->only_these && !watch->except))
        return true;
    int len = watch_node_path(watch, node, path);
    if (len < 0 || strlen(name) > LIMIT_PATH_BYTES)
        return false;
    memcpy(path + len, name, strlen(name) + 1);
    return !(watch->except && glob_covers(watch->except, path)) &&
           (!watch->only_these || glob_match(watch->only_these, path));
}

/* The same for a directory that could be watched: `include` does not apply. */
static bool watch_node_entered(const struct watch *watch, int node, const char *name) {
    char path[2 * LIMIT_PATH_BYTES + 4];
    int len = watch->except ? watch_node_path(watch, node, path) : 0;
    if (!watch->except || len < 0 || strlen(name) > LIMIT_PATH_BYTES)
        return len >= 0;
    memcpy(path + len, name, strlen(name) + 1);
    return !glob_covers(watch->except, path);
}

/* Describes its current state; for a removed one only whether it was a directory. */
static void watch_put_file(const struct watch *watch, enum watch_event event, int node, const char *name,
                           struct buf *item) {
    char path[LIMIT_PATH_BYTES + 2];
    struct stat status;
    name = watch->only[0] ? watch->only : name;
    if (event == WATCH_REMOVED) {
        field_number(item, FIELD_TYPE, watch->dir ? FILE_DIR : FILE_REGULAR);
        if (watch->out)
            field_number(item, FIELD_STATE, 1);
        return;
    }
    if (watch_node_path(watch, node, path) < 0)
        return;
    autofd fd = path_below(watch->top_fd, path, O_PATH | O_DIRECTORY, false);
    if (fd >= 0 && fstatat(fd, *name ? name : ".", &status, AT_SYMLINK_NOFOLLOW) == 0)
        runner_put_file(item, fd, name, &status);
}

/* A file is watched through its directory, so that a file renamed over it counts as the same. */
static bool watch_only_event(const struct watch *watch, enum watch_event *event, const char *name, const char **to) {
    bool from_it = strcmp(name, watch->only) == 0, to_it = *to && strcmp(*to, watch->only) == 0;
    if (*event == WATCH_MOVED)
        *event = to_it ? WATCH_MODIFIED : WATCH_REMOVED;
    *to = NULL;
    return from_it || to_it;
}

static int watch_report(struct watch *watch, enum watch_event event, int node, const char *name, int to_node,
                        const char *to, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1], target[LIMIT_PATH_BYTES + 1];
    if (watch->only[0] && !watch_only_event(watch, &event, name, &to))
        return 0;
    if (!watch_node_wanted(watch, node, name)) {
        if (!to || !watch_node_wanted(watch, to_node, to))
            return 0;
        return watch_report(watch, WATCH_CREATED, to_node, to, 0, NULL, err); /* it came from an excluded directory */
    }
    if (to && !watch_node_wanted(watch, to_node, to)) {
        event = WATCH_REMOVED;
        to = NULL;
    }
    bool same = event == WATCH_MODIFIED && watch->last_event == event && watch->last_node == node &&
                strcmp(watch->last_name, name) == 0;
    if (same || !watch_node_text(watch, node, name, path) || (to && !watch_node_text(watch, to_node, to, target)))
        return 0;
    watch->last_event = event;
    watch->last_node = node;
    snprintf(watch->last_name, sizeof watch->last_name, "%s", name);
    struct buf *item = worker_item(watch->worker);
    field_number(item, FIELD_EVENT, event);
    field_text(item, FIELD_PATH, path);
    if (to)
        field_text(item, FIELD_TO, target);
    if (watch->all)
        watch_put_file(watch, event, to ? to_node : node, to ? to : name, item);
    return worker_item_end(watch->worker, err);
}

/* ---- watches ---- */

static int watch_node_find(const struct watch *watch, int wd) {
    for (size_t i = 0; i < watch->count; i++)
        if (watch->nodes[i].wd == wd)
            return (int)i;
    return -1;
}

static int watch_node_child(const struct watch *watch, int parent, const char *name) {
    for (size_t i = 1; i < watch->count; i++)
        if (watch->nodes[i].wd >= 0 && watch->nodes[i].parent == parent && strcmp(watch->nodes[i].name, name) == 0)
            return (int)i;
    return -1;
}

static void watch_node_free(struct watch *watch, int node) {
    free(watch->nodes[node].name);
    watch->nodes[node] = (struct node){.wd = -1};
    watch->live--;
}

/* Stops watching a directory that left the tree, and everything below it. */
static void watch_node_drop(struct watch *watch, int node) {
    inotify_rm_watch(watch->fd, watch->nodes[node].wd);
    watch_node_free(watch, node);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 1; i < watch->count; i++) {
            if (watch->nodes[i].wd >= 0 && watch->nodes[watch->nodes[i].parent].wd < 0) {
                inotify_rm_watch(watch->fd, watch->nodes[i].wd);
                watch_node_free(watch, (int)i);
                more = true;
            }
        }
    }
}

static int watch_node_slot(struct watch *watch) {
    for (size_t i = 1; i < watch->count; i++)
        if (watch->nodes[i].wd < 0)
            return (int)i;
    return watch->count < LIMIT_WATCHES ? (int)watch->count++ : -1;
}

/* Watches the directory open at fd. Returns the node, or negative; -ERR_NOT_FOUND: it cannot be watched. */
static int watch_node_add(struct watch *watch, int fd, int parent, const char *name, struct err *err) {
    uint32_t mask = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_EXCL_UNLINK | IN_ONLYDIR |
                    (watch->all ? IN_ATTRIB : 0);
    /* inotify needs a path; "." of a directory entered by descriptor cannot be redirected. */
    if (fchdir(fd) < 0)
        return err_errno(err, errno, "'%s'", name);
    int wd = inotify_add_watch(watch->fd, ".", mask);
    if (wd < 0 && errno == ENOSPC)
        return err_set(err, ERR_LIMIT, "the machine has no inotify watches left (fs.inotify.max_user_watches)");
    if (wd < 0)
        return err_errno(err, errno, "cannot watch '%s'", name);
    int there = watch_node_find(watch, wd), node = there >= 0 ? there : parent < 0 ? 0 : watch_node_slot(watch);
    if (there >= 0)
        return there;
    if (node < 0) {
        inotify_rm_watch(watch->fd, wd);
        return err_set(err, ERR_LIMIT, "more than %u directories below '%s'", LIMIT_WATCHES, watch->top);
    }
    watch->nodes[node] = (struct node){.wd = wd, .parent = parent, .name = strdup(name)};
    watch->live++;
    if (parent < 0)
        watch->count = 1;
    return node;
}

/* Watches everything below a watched directory. report_all: reports existing entries, because they came with the
 * directory. */
static int watch_tree(struct watch *watch, int node, bool report_all, struct err *err) {
    char path[LIMIT_PATH_BYTES + 2];
    if (watch_node_path(watch, node, path) < 0)
        return 0;
    autofd fd = path_below(watch->top_fd, path, O_RDONLY | O_DIRECTORY, false);
    if (fd < 0)
        return 0; /* already gone */
    static struct walk walk;
    walk_init(&walk, fd);
    int r = 0;
    while (r >= 0 && walk_next(&walk) > 0) {
        int here = node;
        char *save = NULL;
        if (walk.path_len > 0) { /* finds the node of this directory, name by name */
            char copy[LIMIT_PATH_BYTES + 2];
            memcpy(copy, walk.path, walk.path_len + 1);
            char *last = NULL;
            for (char *part = strtok_r(copy, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
                if (last && here >= 0)
                    here = watch_node_child(watch, here, last);
                last = part;
            }
            if (here < 0)
                continue;
            r = here = watch_node_add(watch, walk.dirfd, here, last, err);
            if (r == -ERR_NOT_FOUND)
                r = 0;
        }
        for (size_t i = 0; r >= 0 && here >= 0 && i < walk.count; i++) {
            const char *name = walk_name(&walk, &walk.entries[i]);
            if (walk.entries[i].descend && !watch_node_entered(watch, here, name))
                walk.entries[i].descend = false;
            if (report_all && !temp_name_is(name))
                r = watch_report(watch, WATCH_CREATED, here, name, 0, NULL, err);
        }
    }
    walk_done(&walk);
    return r < 0 ? r : 0;
}

/* ---- events ---- */

static int watch_dir_arrived(struct watch *watch, int node, const char *name, struct err *err) {
    if (!watch->recursive || !watch_node_entered(watch, node, name))
        return 0;
    char path[2 * LIMIT_PATH_BYTES + 4];
    int len = watch_node_path(watch, node, path);
    if (len < 0 || (size_t)len + strlen(name) > LIMIT_PATH_BYTES)
        return 0;
    memcpy(path + len, name, strlen(name) + 1);
    autofd fd = path_below(watch->top_fd, path, O_RDONLY | O_DIRECTORY, false);
    if (fd < 0)
        return 0;
    int child = watch_node_add(watch, fd, node, name, err);
    if (child < 0)
        return child == -ERR_LIMIT ? child : 0;
    return watch_tree(watch, child, true, err);
}

/* The other half did not arrive: it left the tree. */
static int watch_moved_alone(struct watch *watch, struct err *err) {
    struct moved *moved = &watch->moved;
    if (!moved->set)
        return 0;
    moved->set = false;
    int child = moved->dir ? watch_node_child(watch, moved->node, moved->name) : -1;
    if (child > 0)
        watch_node_drop(watch, child);
    watch->dir = moved->dir;
    watch->out = true;
    int r = temp_name_is(moved->name) ? 0 : watch_report(watch, WATCH_REMOVED, moved->node, moved->name, 0, NULL, err);
    watch->out = false;
    return r;
}

static int watch_moved_to(struct watch *watch, int node, const struct inotify_event *event, struct err *err) {
    struct moved *moved = &watch->moved;
    bool dir = event->mask & IN_ISDIR;
    if (temp_name_is(event->name)) { /* the old version of an exchanged file, which will be removed */
        moved->set = false;
        return 0;
    }
    if (!moved->set || moved->cookie != event->cookie) {
        int r = watch_report(watch, WATCH_CREATED, node, event->name, 0, NULL, err);
        return r < 0 || !dir ? r : watch_dir_arrived(watch, node, event->name, err);
    }
    moved->set = false;
    if (temp_name_is(moved->name)) {
        bool fresh = moved->name[sizeof REPLACE_PREFIX - 1] == 'n';
        int r = watch_report(watch, fresh ? WATCH_CREATED : WATCH_MODIFIED, node, event->name, 0, NULL, err);
        return r < 0 || !dir ? r : watch_dir_arrived(watch, node, event->name, err);
    }
    int r = watch_report(watch, WATCH_MOVED, moved->node, moved->name, node, event->name, err);
    int child = dir ? watch_node_child(watch, moved->node, moved->name) : -1;
    if (r >= 0 && dir && child < 0) /* it was not watched before */
        return watch_dir_arrived(watch, node, event->name, err);
    if (child > 0 && !watch_node_entered(watch, node, event->name)) {
        watch_node_drop(watch, child);
    } else if (child > 0) {
        free(watch->nodes[child].name);
        watch->nodes[child].name = strdup(event->name);
        watch->nodes[child].parent = node;
    }
    return r;
}

static int watch_handle(struct watch *watch, const struct inotify_event *event, struct err *err) {
    if (event->mask & IN_Q_OVERFLOW) /* events were lost: the client must list again */
        return watch_report(watch, watch->all ? WATCH_OVERFLOW : WATCH_MODIFIED, 0, "", 0, NULL, err);
    const char *name = event->len ? event->name : "";
    watch->dir = true;
    if (event->wd == watch->parent_wd) {
        /* In the top's parent directory only the top's end matters. (Its own IN_DELETE_SELF would not come while we
         * hold it open.) */
        if (!(event->mask & (IN_DELETE | IN_MOVED_FROM)) || strcmp(name, watch->name) != 0)
            return 0;
        watch->over = true;
        return watch_report(watch, WATCH_REMOVED, 0, "", 0, NULL, err);
    }
    int node = watch_node_find(watch, event->wd);
    if (node < 0)
        return 0;
    if (!(event->mask & IN_MOVED_TO) || event->cookie != watch->moved.cookie)
        TRY(watch_moved_alone(watch, err));
    watch->dir = event->mask & IN_ISDIR;
    if (event->mask & IN_IGNORED && node > 0)
        watch_node_free(watch, node);
    if (!*name)
        return 0;
    if (event->mask & IN_MOVED_FROM) {
        int r = watch_moved_alone(watch, err);
        watch->moved =
            (struct moved){.cookie = event->cookie, .set = true, .dir = event->mask & IN_ISDIR, .node = node};
        snprintf(watch->moved.name, sizeof watch->moved.name, "%s", event->name);
        return r;
    }
    if (event->mask & IN_MOVED_TO)
        return watch_moved_to(watch, node, event, err);
    if (temp_name_is(name))
        return 0;
    if (event->mask & IN_DELETE) {
        int child = event->mask & IN_ISDIR ? watch_node_child(watch, node, event->name) : -1;
        if (child > 0)
            watch_node_drop(watch, child);
        return watch_report(watch, WATCH_REMOVED, node, event->name, 0, NULL, err);
    }
    if (event->mask & IN_MODIFY)
        return event->mask & IN_ISDIR ? 0 : watch_report(watch, WATCH_MODIFIED, node, name, 0, NULL, err);
    if (event->mask & IN_ATTRIB)
        return watch_report(watch, WATCH_ATTRIBUTES, node, name, 0, NULL, err);
    int r = watch_report(watch, WATCH_CREATED, node, name, 0, NULL, err);
    return r < 0 || !(event->mask & IN_ISDIR) ? r : watch_dir_arrived(watch, node, name, err);
}

/* Handles one read. The second half of a move may be in the next one, and is waited for shortly. */
static int watch_events(struct watch *watch, struct err *err) {
    static union {
        char bytes[EVENTS_BYTES];
        struct inotify_event align;
    } events;
    struct pollfd ready = {.fd = watch->fd, .events = POLLIN};
    if (watch->moved.set && poll(&ready, 1, PAIR_WAIT_MS) == 0) {
        TRY(watch_moved_alone(watch, err));
        TRY(worker_flush(watch->worker, err));
    }
    ssize_t n = read(watch->fd, events.bytes, sizeof events.bytes);
    if (n < 0)
        return errno == EINTR ? 0 : err_errno(err, errno, "inotify");
    for (ssize_t at = 0; at < n && !watch->over;) {
        const struct inotify_event *event = (const struct inotify_event *)(const void *)(events.bytes + at);
        TRY(watch_handle(watch, event, err));
        at += (ssize_t)(sizeof *event + event->len);
    }
    watch->last_event = 0; /* repetitions are only dropped within one read */
    return worker_flush(watch->worker, err);
}

/* A file is watched through its directory; the parent of a directory is watched for its removal. */
static int watch_open_parent(struct watch *watch, const struct place *at, bool is_dir, struct err *err) {
    struct replace replace;
    int r = replace_resolve(&replace, at, watch->top, err);
    if (r < 0)
        return is_dir ? 0 : r; /* "/" has none, and needs none */
    if (is_dir) {
        memcpy(watch->name, replace.name, sizeof replace.name);
        if (fchdir(replace.dirfd) == 0)
            watch->parent_wd = inotify_add_watch(watch->fd, ".", IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR);
        replace_done(&replace);
    } else {
        memcpy(watch->only, replace.name, sizeof replace.name);
        watch->top_fd = fd_take(&replace.dirfd);
    }
    return 0;
}

static int watch_open(struct watch *watch, const struct fields *args, struct err *err) {
    struct place at;
    TRY(op_path(watch->worker->config, args, FIELD_PATH, PATH_READ, &at, err));
    snprintf(watch->top, sizeof watch->top, "%s", args->text[FIELD_PATH]);
    watch->all = args->number[FIELD_FLAGS] & CALL_ALL;
    shown_init(&watch->shown, watch->top);
    watch->fd = inotify_init1(IN_CLOEXEC);
    if (watch->fd < 0)
        return err_errno(err, errno, "cannot use inotify (see fs.inotify.max_user_instances)");
    watch->top_fd = path_open(at.root, at.path, O_RDONLY | O_DIRECTORY, 0);
    bool is_dir = watch->top_fd >= 0;
    if (watch->top_fd == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no file '%s'", watch->top);
    if (watch->top_fd < 0 && watch->top_fd != -ENOTDIR)
        return err_errno(err, -watch->top_fd, "'%s'", watch->top);
    TRY(watch_open_parent(watch, &at, is_dir, err) ?: watch_node_add(watch, watch->top_fd, -1, "", err));
    watch->recursive = is_dir && (args->number[FIELD_FLAGS] & CALL_RECURSIVE);
    TRY(op_globs(args->include, args->include_count, "include", &watch->include, &watch->only_these, err)
            ?: op_globs(args->exclude, args->exclude_count, "exclude", &watch->exclude, &watch->except, err));
    return watch->recursive ? watch_tree(watch, 0, false, err) : 0;
}

static int watch_work(struct worker *worker, const struct fields *args, struct err *err) {
    static struct watch watch;
    watch = (struct watch){.worker = worker, .fd = -1, .top_fd = -1, .parent_wd = -1};
    watch.nodes = xcalloc(LIMIT_WATCHES, sizeof *watch.nodes);
    for (size_t i = 0; i < LIMIT_WATCHES; i++)
        watch.nodes[i].wd = -1;
    TRY(watch_open(&watch, args, err) ?: worker_stat(worker, NULL, err));
    while (!watch.over)
        TRY(watch_events(&watch, err));
    return 0;
}

const struct op_def op_watch = {.op = OP_WATCH, .looks = true, .lasts = true, .work = watch_work, .root = &op_watch};
