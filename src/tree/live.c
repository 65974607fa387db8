/* Copying the upper layers of a box while its programs write to them. Called by the jail's snapshots. Invariant: at the
 * end the copy is what the trees contained while the programs were stopped. Events only say where to look.
 *
 * 1. The copy is made while the programs run. Each directory is marked before it is read.
 * 2. Rounds: names that events mention are compared with the copy by inode and change time, and copied again where they
 *    differ, until a round is short.
 * 3. The programs are stopped, the events are read to their end, and the last names are compared. Then they run again.
 *
 * Sources of events: an overlay writes to its upper files without any, so written files are reported by the overlay
 * (group `writes`, with a descriptor each), names and attributes by the upper directories (group `names`, by file
 * handle). Stores through shared mappings raise none. They change the change time when they hit a clean page, so a file
 * that a program has open for writing is cleaned before it is copied, and compared again while the programs are
 * stopped, as is every file that a program has open for writing or mapped by then. Whatever cannot be attributed to a
 * directory makes the last comparison one of everything.
 *
 * The trees are hostile: every path is resolved below `from` without links, one directory at a time. The copy mirrors
 * the table of nodes at every step. A directory that leaves its place moves to `limbo`, a directory next to the copies,
 * from which it is taken back when it appears elsewhere. */
#include "tree/live.h"

#include <linux/openat2.h>
#include <sys/fanotify.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "base/base.h"
#include "tree/dent.h"
#include "tree/removal.h"

enum {
    LIVE_NODES = 2000000, /* of 150 bytes each */
    LIVE_DEPTH = 1000,
    LIVE_PATH = 4000,     /* longest path resolved in one call */
    LIVE_NAMES = 64,      /* of one directory; with more, all of it is compared */
    LIVE_ROUNDS = 12,     /* most rounds before the programs are stopped */
    LIVE_SHORT_US = 3000, /* after a round this short comes the last one */
    LIVE_DRAIN = 512,     /* entries copied between two reads of events */
    LIVE_HANDLE = 64,
    LIVE_BUCKETS = 1 << 18,
    LIVE_TICK_NS = 20000000,
    LIVE_PASSES = 100,
};

struct live_node {
    struct live_node *parent, *child, *next, *prev;
    struct live_node *by_inode, *by_name, *by_handle; /* hash chains */
    char *name;
    uint64_t inode;
    int64_t changed; /* its change time when it was copied; 0: compares as different */
    int64_t born;    /* distinguishes a reused inode */
    mode_t type;     /* S_IFMT */
    bool dirty;      /* in live->dirty: some names of this directory must be compared */
    bool all, seen;  /* all: all names must be compared */
    bool hot;        /* in live->hot */
    uint8_t part, handle_len;
    uint8_t *handle; /* of a marked directory */
    char **names;    /* names to compare, unless `all` */
    size_t name_count, name_cap;
};

struct live {
    struct live_part parts[LIVE_PARTS];
    size_t part_count;
    struct live_node *roots[LIVE_PARTS], *limbo;
    dev_t devices[LIVE_PARTS], below[LIVE_PARTS]; /* of the overlays, and of their upper layers */
    uint64_t mounts[LIVE_PARTS];
    int limbo_fd;
    char limbo_name[32];
    unsigned long limbo_count;
    int writes, names; /* fanotify groups */
    struct live_node **inodes, **by_name, **handles;
    size_t node_count;
    struct live_node **dirty;
    size_t dirty_count, dirty_cap;
    struct live_node **fresh; /* directories not read yet */
    size_t fresh_count, fresh_cap;
    struct live_node **later; /* for the next round */
    size_t later_count, later_cap;
    struct live_node **hot; /* directories of files that were open for writing when they were copied */
    size_t hot_count, hot_cap;
    struct copytree *copy;
    unsigned since_drain; /* entries copied */
    bool lost;            /* an event could not be attributed to a directory */
    bool stopped;         /* the programs are stopped */
};

/* What a name leads to at present. */
struct live_found {
    uint64_t inode;
    int64_t changed, born;
    mode_t mode;
    unsigned links;
};

static void live_drain(struct live *live);

/* ---- the table ---- */

static uint64_t live_hash(const void *bytes, size_t len, uint64_t seed) {
    uint64_t hash = (seed + 1) * 0x9E3779B97F4A7C15ull;
    for (const uint8_t *at = bytes, *end = at + len; at < end; at++)
        hash = (hash ^ *at) * 1099511628211ull;
    return hash ^ hash >> 29;
}

static struct live_node **live_chain(struct live_node **table, const void *key, size_t len, uint64_t seed) {
    return &table[live_hash(key, len, seed) & (LIVE_BUCKETS - 1)];
}

static struct live_node **live_inode_chain(struct live *live, uint64_t inode) {
    return live_chain(live->inodes, &inode, sizeof inode, 0);
}

static struct live_node **live_name_chain(struct live *live, const struct live_node *parent, const char *name) {
    return live_chain(live->by_name, name, strlen(name), (uintptr_t)parent);
}

static void live_node_enter(struct live *live, struct live_node *node, struct live_node *parent) {
    struct live_node **chain = live_name_chain(live, parent, node->name);
    node->by_name = *chain;
    *chain = node;
    node->parent = parent;
    node->prev = NULL;
    node->next = parent ? parent->child : NULL;
    if (node->next)
        node->next->prev = node;
    if (parent)
        parent->child = node;
}

static void live_node_leave(struct live *live, struct live_node *node) {
    struct live_node **at = live_name_chain(live, node->parent, node->name);
    while (*at != node)
        at = &(*at)->by_name;
    *at = node->by_name;
    if (node->prev)
        node->prev->next = node->next;
    else if (node->parent)
        node->parent->child = node->next;
    if (node->next)
        node->next->prev = node->prev;
}

static struct live_node *live_node_new(struct live *live, struct live_node *parent, const char *name,
                                       const struct live_found *found) {
    struct live_node *node = xcalloc(1, sizeof *node);
    node->name = xstrdup(name);
    node->inode = found->inode;
    node->born = found->born;
    node->type = found->mode & S_IFMT;
    node->part = parent ? parent->part : 0;
    node->seen = true;
    struct live_node **chain = live_inode_chain(live, node->inode);
    node->by_inode = *chain;
    *chain = node;
    live_node_enter(live, node, parent);
    live->node_count++;
    return node;
}

/* Frees a node that is not a directory: directories stay in the table, in limbo, until the end. */
static void live_node_free(struct live *live, struct live_node *node) {
    struct live_node **at = live_inode_chain(live, node->inode);
    while (*at != node)
        at = &(*at)->by_inode;
    *at = node->by_inode;
    live_node_leave(live, node);
    free(node->name);
    free(node);
    live->node_count--;
}

static struct live_node *live_node_child(struct live *live, const struct live_node *dir, const char *name) {
    for (struct live_node *node = *live_name_chain(live, dir, name); node; node = node->by_name)
        if (node->parent == dir && strcmp(node->name, name) == 0)
            return node;
    return NULL;
}

static bool live_node_in_limbo(const struct live *live, const struct live_node *node) {
    while (node->parent)
        node = node->parent;
    return node == live->limbo;
}

static struct live_node *live_node_directory(struct live *live, unsigned part, uint64_t inode) {
    for (struct live_node *node = *live_inode_chain(live, inode); node; node = node->by_inode)
        if (node->inode == inode && node->part == part && S_ISDIR(node->type))
            return node;
    return NULL;
}

/* name NULL: all names of the directory; "": only its attributes, which are compared with any name. */
static void live_node_compare(struct live *live, struct live_node *dir, const char *name) {
    if (!dir->dirty && dir->handle)
        vec_add(live->dirty, live->dirty_count, live->dirty_cap) = dir;
    else if (!dir->dirty)
        vec_add(live->fresh, live->fresh_count, live->fresh_cap) = dir;
    dir->dirty = true;
    if (!name || dir->name_count == LIVE_NAMES)
        dir->all = true;
    if (dir->all || !*name)
        return;
    for (size_t i = 0; i < dir->name_count; i++)
        if (strcmp(dir->names[i], name) == 0)
            return;
    vec_add(dir->names, dir->name_count, dir->name_cap) = xstrdup(name);
}

static void live_node_compare_below(struct live *live, struct live_node *top) {
    struct live_node *node = top;
    while (node) {
        if (S_ISDIR(node->type))
            live_node_compare(live, node, NULL);
        if (node->child) {
            node = node->child;
            continue;
        }
        while (node != top && !node->next)
            node = node->parent;
        node = node == top ? NULL : node->next;
    }
}

static void live_later(struct live *live, struct live_node *dir) {
    vec_add(live->later, live->later_count, live->later_cap) = dir;
}

/* ---- places ---- */

static int64_t live_time(const struct statx_timestamp *time) {
    return time->tv_sec * 1000000000ll + time->tv_nsec;
}

/* name "": the directory itself. Returns -1 and sets errno on failure. */
static int live_find(int dir, const char *name, struct live_found *ret_found) {
    struct statx status;
    if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_BTIME,
              &status) < 0)
        return -1;
    *ret_found = (struct live_found){.inode = status.stx_ino,
                                     .changed = live_time(&status.stx_ctime),
                                     .born = status.stx_mask & STATX_BTIME ? live_time(&status.stx_btime) : 0,
                                     .mode = status.stx_mode,
                                     .links = status.stx_nlink};
    return 0;
}

static int live_open(int top, const char *path) {
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    return (int)syscall(SYS_openat2, top, path, &how, sizeof how);
}

/* Opens its directory in the tree, or in the copy. */
static int live_node_open(const struct live *live, const struct live_node *dir, bool copy) {
    const struct live_node *parts[LIVE_DEPTH + 1];
    size_t depth = 0;
    char path[LIVE_PATH];
    for (; dir->parent; dir = dir->parent)
        parts[depth++] = dir; /* live_directory bounds it */
    int top = dir == live->limbo ? live->limbo_fd : copy ? live->parts[dir->part].to : live->parts[dir->part].from;
    int at = depth == 0 ? live_open(top, ".") : top;
    while (depth > 0 && at >= 0) {
        size_t len = 0;
        for (size_t more; depth > 0 && (more = strlen(parts[depth - 1]->name)) + len + 1 < sizeof path; depth--) {
            memcpy(path + len, parts[depth - 1]->name, more);
            len += more;
            path[len++] = '/';
        }
        path[len - 1] = 0;
        int below = live_open(at, path);
        if (at != top)
            close(at);
        at = below;
    }
    return at;
}

static int live_fail(const char *name, struct err *err) {
    return err_errno(err, errno, "cannot copy '%.100s'", name);
}

static int live_cannot(const char *why, struct err *err) {
    return err_set(err, ERR_UNSUPPORTED, "the files cannot be copied while programs write to them: %s", why);
}

/* ---- one name of a directory ---- */

/* The name no longer exists. A directory may reappear elsewhere. */
static int live_evict(struct live *live, struct live_node *node, int to, struct err *err) {
    if (!S_ISDIR(node->type)) {
        if (unlinkat(to, node->name, 0) < 0)
            return live_fail(node->name, err);
        live_node_free(live, node);
        return 0;
    }
    char name[24];
    snprintf(name, sizeof name, "%lu", live->limbo_count++);
    if (renameat(to, node->name, live->limbo_fd, name) < 0)
        return live_fail(node->name, err);
    live_node_leave(live, node);
    free(node->name);
    node->name = xstrdup(name);
    live_node_enter(live, node, live->limbo);
    return 0;
}

/* Moves a directory of the copy to the name that the tree now has for it. */
static int live_move(struct live *live, struct live_node *node, struct live_node *dir, int to, const char *name,
                     struct err *err) {
    bool from_limbo = live_node_in_limbo(live, node);
    autofd old = live_node_open(live, node->parent, true);
    if (old < 0 || renameat(old, node->name, to, name) < 0)
        return live_fail(name, err);
    if (!from_limbo)
        live_node_compare(live, node->parent, "");
    live_node_leave(live, node);
    free(node->name);
    node->name = xstrdup(name);
    live_node_enter(live, node, dir);
    if (from_limbo) /* events were not tracked there */
        live_node_compare_below(live, node);
    live_node_compare(live, node, NULL);
    return 0;
}

static int live_directory(struct live *live, struct live_node *dir, int to, const char *name,
                          const struct live_found *found, struct err *err) {
    struct live_node *known = live_node_directory(live, dir->part, found->inode);
    size_t depth = 0;
    bool above = false;
    for (const struct live_node *at = dir; at; at = at->parent, depth++)
        above |= at == known;
    if (known && known->born == found->born) {
        if (!above)
            return live_move(live, known, dir, to, name, err);
        live_later(live, dir); /* it was an ancestor: its new parent must move first */
        return 0;
    }
    if (depth >= LIVE_DEPTH)
        return live_cannot("they are nested too deeply", err);
    if (mkdirat(to, name, 0700) < 0)
        return live_fail(name, err);
    live_node_compare(live, live_node_new(live, dir, name, found), NULL);
    return 0;
}

/* Links another name of a file that the copy has. */
static bool live_link(struct live *live, const struct live_node *dir, int to, const char *name,
                      const struct live_found *found) {
    struct live_node *node = *live_inode_chain(live, found->inode);
    while (node && !(node->inode == found->inode && node->born == found->born && node->part == dir->part &&
                     node->type == (found->mode & S_IFMT) && node->parent))
        node = node->by_inode;
    autofd other = node ? live_node_open(live, node->parent, true) : -1;
    return other >= 0 && linkat(other, node->name, to, name, 0) == 0;
}

/* Returns whether a later change could leave the same time: kernels before 6.13 count it in ticks. */
static bool live_recent(int64_t changed) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec - changed < LIVE_TICK_NS;
}

static int live_file(struct live *live, struct live_node *dir, struct live_node *node, int from, int to,
                     const char *name, const struct live_found *found, struct err *err) {
    if (node && node->changed == found->changed)
        return 0;
    bool there = node || (found->links > 1 && !S_ISCHR(found->mode) && live_link(live, dir, to, name, found));
    struct stat status = {.st_ino = found->inode, .st_mode = found->mode};
    bool hot = false;
    int r = copytree_live(live->copy, from, to, name, there, &status, &hot, err);
    TRY(r);
    if (!node && (r == 0 || there))
        node = live_node_new(live, dir, name, found);
    int64_t changed = status.st_ctim.tv_sec * 1000000000ll + status.st_ctim.tv_nsec;
    if (node)
        node->changed = r > 0 || live_recent(changed) ? 0 : changed;
    if (r > 0) /* it is gone, or another file */
        live_later(live, dir);
    if (hot && !dir->hot) {
        dir->hot = true;
        vec_add(live->hot, live->hot_count, live->hot_cap) = dir;
    }
    return live->node_count > LIVE_NODES ? live_cannot("there are too many files", err) : 0;
}

static int live_entry(struct live *live, struct live_node *dir, int from, int to, const char *name, struct err *err) {
    struct live_node *node = live_node_child(live, dir, name);
    struct live_found found;
    if (++live->since_drain >= LIVE_DRAIN)
        live_drain(live);
    if (live_find(from, name, &found) < 0)
        return errno != ENOENT ? live_fail(name, err) : node ? live_evict(live, node, to, err) : 0;
    if (node && (node->inode != found.inode || node->born != found.born || node->type != (found.mode & S_IFMT))) {
        TRY(live_evict(live, node, to, err));
        node = NULL;
    }
    if (node)
        node->seen = true;
    if (!S_ISDIR(found.mode))
        return live_file(live, dir, node, from, to, name, &found, err);
    if (!node)
        return live_directory(live, dir, to, name, &found, err);
    if (node->changed != found.changed)
        live_node_compare(live, node, "");
    return 0;
}

/* ---- directories ---- */

static int live_mark(struct live *live, struct live_node *dir, int fd, struct err *err) {
    struct {
        struct file_handle head;
        uint8_t bytes[LIVE_HANDLE];
    } handle = {.head.handle_bytes = LIVE_HANDLE};
    int mount;
    if (name_to_handle_at(fd, "", &handle.head, &mount, AT_EMPTY_PATH) < 0 ||
        fanotify_mark(live->names, FAN_MARK_ADD | FAN_MARK_ONLYDIR,
                      FAN_CREATE | FAN_DELETE | FAN_MOVED_FROM | FAN_MOVED_TO | FAN_ATTRIB | FAN_MODIFY | FAN_ONDIR |
                          FAN_EVENT_ON_CHILD,
                      fd, NULL) < 0)
        return live_cannot("the kernel does not report changes of this file system", err);
    dir->handle_len = (uint8_t)handle.head.handle_bytes;
    dir->handle = xmalloc(dir->handle_len);
    memcpy(dir->handle, handle.head.f_handle, dir->handle_len);
    struct live_node **chain = live_chain(live->handles, dir->handle, dir->handle_len, 1);
    dir->by_handle = *chain;
    *chain = dir;
    return 0;
}

static int live_all_names(struct live *live, struct live_node *dir, int from, int to, struct err *err) {
    char dents[16384];
    long len;
    for (struct live_node *child = dir->child; child; child = child->next)
        child->seen = false;
    while ((len = syscall(SYS_getdents64, from, dents, sizeof dents)) > 0)
        for (long at = 0; at < len;) {
            const struct dent *dent = (const void *)(dents + at);
            at += dent->size;
            TRY(dent_dots(dent->name) ? 0 : live_entry(live, dir, from, to, dent->name, err));
        }
    if (len < 0)
        return live_fail(dir->name, err);
    for (struct live_node *child = dir->child, *next; child; child = next) {
        next = child->next;
        if (child->seen)
            continue;
        if (faccessat(from, child->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
            live_later(live, dir); /* it reappeared */
        } else {
            TRY(errno == ENOENT ? live_evict(live, child, to, err) : live_fail(child->name, err));
        }
    }
    return 0;
}

/* The directory is not where it was: its parent is compared first. */
static int live_gone(struct live *live, struct live_node *dir, struct err *err) {
    if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != EXDEV)
        return live_fail(dir->name, err);
    if (!dir->parent)
        return err_set(err, ERR_IO, "the files were removed while they were copied");
    live_node_compare(live, dir->parent, dir->name);
    live_later(live, dir);
    return 0;
}

static int live_scan(struct live *live, struct live_node *dir, struct err *err) {
    char **names = dir->names;
    size_t count = dir->name_count;
    bool all = dir->all || !dir->handle;
    struct live_found found;
    int r = 0;
    dir->names = NULL;
    dir->name_count = dir->name_cap = 0;
    dir->dirty = dir->all = false;
    bool limbo = live_node_in_limbo(live, dir); /* compared as a whole when it is taken back */
    autofd from = limbo ? -1 : live_node_open(live, dir, false);
    autofd to = from < 0 ? -1 : live_node_open(live, dir, true);
    errno = from < 0 || to < 0 ? errno : ENOENT;
    if (!limbo && (to < 0 || live_find(from, "", &found) < 0 || found.inode != dir->inode || found.born != dir->born)) {
        r = live_gone(live, dir, err);
    } else if (!limbo) {
        r = dir->handle ? 0 : live_mark(live, dir, from, err);
        if (r == 0 && all)
            r = live_all_names(live, dir, from, to, err);
        for (size_t i = 0; r == 0 && !all && i < count; i++)
            r = live_entry(live, dir, from, to, names[i], err);
        if (r == 0)
            r = copytree_directory(live->copy, from, to, err);
        dir->changed = live_recent(found.changed) ? 0 : found.changed;
    }
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return r;
}

/* ---- events ---- */

/* Notes the name of a path, as the programs see it, for comparison. */
static void live_path(struct live *live, char *path, bool linked) {
    size_t len = strlen(path), part = 0, longest = 0;
    if (path[0] != '/')
        return;
    if (len > 10 && strcmp(path + len - 10, " (deleted)") == 0) {
        live->lost |= linked; /* it has another name */
        return;
    }
    for (size_t i = 0; i < live->part_count; i++) {
        size_t most = strlen(live->parts[i].at);
        if (most > 1 && most > longest && strncmp(path, live->parts[i].at, most) == 0 && path[most] == '/') {
            part = i;
            longest = most;
        } else if (most == 1 && longest == 0) {
            part = i;
        }
    }
    char *base = strrchr(path + longest, '/'), *below = path + longest + 1;
    *base++ = 0;
    autofd dir = live_open(live->parts[part].from, base > below ? below : ".");
    struct stat status;
    if (dir < 0 || fstat(dir, &status) < 0) {
        live->lost |= !live->stopped; /* it has moved, or belongs to the template or another mount */
        return;
    }
    struct live_node *node = live_node_directory(live, (unsigned)part, status.st_ino);
    if (node) /* else it is new and will be copied as a whole */
        live_node_compare(live, node, base);
}

static void live_write_event(struct live *live, const struct fanotify_event_metadata *event) {
    char path[PATH_MAX + 16];
    struct stat status;
    if (event->fd < 0) { /* too many events, or the file cannot be opened */
        live->lost = true;
        return;
    }
    ssize_t n = readlink(text_make(40, "/proc/self/fd/%d", event->fd), path, sizeof path - 1);
    bool linked = fstat(event->fd, &status) < 0 || status.st_nlink > 0;
    close(event->fd);
    path[n > 0 ? n : 0] = 0;
    if (n <= 0 || n == (ssize_t)sizeof path - 1)
        live->lost = true;
    else
        live_path(live, path, linked);
}

static void live_name_event(struct live *live, const struct fanotify_event_metadata *event, const char *more) {
    struct fanotify_event_info_header head;
    struct file_handle handle;
    const char *bytes = more + offsetof(struct fanotify_event_info_fid, handle);
    if ((event->mask & FAN_Q_OVERFLOW) || event->event_len < sizeof *event + sizeof(struct fanotify_event_info_fid)) {
        live->lost = true;
        return;
    }
    memcpy(&head, more, sizeof head);
    memcpy(&handle, bytes, sizeof handle);
    bytes += offsetof(struct file_handle, f_handle);
    const char *name = bytes + handle.handle_bytes;
    struct live_node *dir = *live_chain(live->handles, bytes, handle.handle_bytes, 1);
    while (dir && (dir->handle_len != handle.handle_bytes || memcmp(dir->handle, bytes, handle.handle_bytes) != 0))
        dir = dir->by_handle;
    if (head.info_type != FAN_EVENT_INFO_TYPE_DFID_NAME)
        live->lost = true;
    else if (dir)
        live_node_compare(live, dir, dent_dots(name) ? "" : name);
}

static void live_drain(struct live *live) {
    live->since_drain = 0;
    for (int group = 0; group < 2; group++) {
        char events[16384];
        ssize_t len;
        while ((len = read(group ? live->names : live->writes, events, sizeof events)) > 0) {
            struct fanotify_event_metadata event;
            for (const char *at = events; at + sizeof event <= events + len; at += event.event_len) {
                memcpy(&event, at, sizeof event);
                if (group)
                    live_name_event(live, &event, at + sizeof event);
                else
                    live_write_event(live, &event);
            }
        }
    }
}

/* ---- while the programs are stopped ---- */

/* Notes files that a process has mapped for writing, or could have mapped. */
static void live_look(void *copy, const char *process) {
    struct live *live = copy;
    char path[PATH_MAX + 256];
    snprintf(path, sizeof path, "%s/fd", process);
    autodir *list = fd_opendir(AT_FDCWD, path, 0);
    for (struct dirent *entry; (entry = fd_readdir(list));) {
        struct stat link;
        struct statx file;
        int fd = dirfd(list);
        if (fstatat(fd, entry->d_name, &link, AT_SYMLINK_NOFOLLOW) < 0 || !(link.st_mode & S_IWUSR) ||
            statx(fd, entry->d_name, 0, STATX_TYPE | STATX_MNT_ID | STATX_NLINK, &file) < 0)
            continue;
        ssize_t n = readlinkat(fd, entry->d_name, path, sizeof path - 1);
        path[n > 0 ? n : 0] = 0;
        for (size_t i = 0; S_ISREG(file.stx_mode) && i < live->part_count; i++)
            if (file.stx_mnt_id == live->mounts[i])
                live_path(live, path, file.stx_nlink > 0);
    }
    snprintf(path, sizeof path, "%s/maps", process);
    FILE *maps = fopen(path, "re");
    while (maps && fgets(path, sizeof path, maps)) {
        char rights[8];
        unsigned high, low;
        int at = 0;
        if (sscanf(path, "%*s %7s %*s %x:%x %*s %n", rights, &high, &low, &at) < 3 || !at || rights[3] != 's')
            continue;
        path[strcspn(path, "\n")] = 0;
        for (size_t i = 0; i < live->part_count; i++)
            if (makedev(high, low) == live->devices[i] || makedev(high, low) == live->below[i]) {
                live_path(live, path + at, false);
                break;
            }
    }
    if (maps)
        fclose(maps);
}

/* ---- the whole ---- */

/* Compares the noted names and new directories as they are found, but not names of later events. */
static int live_round(struct live *live, struct err *err) {
    struct live_node **batch = live->dirty;
    size_t count = live->dirty_count, later = live->later_count;
    int r = 0;
    live->dirty = NULL;
    live->dirty_count = live->dirty_cap = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = live_scan(live, batch[i], err);
    while (r == 0 && live->fresh_count > 0)
        r = live_scan(live, live->fresh[--live->fresh_count], err);
    free(batch);
    for (size_t i = 0; i < later; i++)
        live_node_compare(live, live->later[i], NULL);
    live->later_count -= later;
    if (live->later_count)
        memmove(live->later, live->later + later, live->later_count * sizeof *live->later);
    return r;
}

static void live_compare_all(struct live *live) {
    live->lost = false;
    for (size_t i = 0; i < live->part_count; i++)
        live_node_compare_below(live, live->roots[i]);
}

static int live_last(struct live *live, const struct live_programs *programs, struct err *err) {
    live->stopped = true;
    live_drain(live);
    programs->each(programs->user, live_look, live);
    for (size_t i = 0; i < live->hot_count; i++)
        live_node_compare(live, live->hot[i], NULL);
    if (live->lost)
        live_compare_all(live);
    for (unsigned pass = 0; pass < LIVE_PASSES; pass++) {
        TRY(live_round(live, err));
        if (live->dirty_count + live->fresh_count + live->later_count == 0)
            return 0;
    }
    return err_set(err, ERR_INTERNAL, "the copy did not become equal to the files");
}

/* Runs rounds until one is short. */
static int live_follow(struct live *live, struct err *err) {
    int r = live_round(live, err);
    for (unsigned round = 0; r == 0 && round < LIVE_ROUNDS; round++) {
        uint64_t begin_us = clock_us();
        live_drain(live);
        if (live->lost)
            live_compare_all(live);
        r = live_round(live, err);
        if (clock_us() - begin_us < LIVE_SHORT_US)
            break;
    }
    return r;
}

static int live_open_groups(struct live *live, struct err *err) {
    uint64_t random;
    live->writes = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY | O_CLOEXEC | O_LARGEFILE);
    live->names = fanotify_init(
        FAN_CLASS_NOTIF | FAN_REPORT_DFID_NAME | FAN_CLOEXEC | FAN_NONBLOCK | FAN_UNLIMITED_MARKS, O_RDONLY);
    if (live->writes < 0 || live->names < 0)
        return live_cannot("the kernel does not report changes to this daemon", err);
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return live_fail("limbo", err);
    snprintf(live->limbo_name, sizeof live->limbo_name, ".limbo-%llx", (unsigned long long)random);
    if (mkdirat(live->parts[0].to, live->limbo_name, 0700) < 0 ||
        (live->limbo_fd = live_open(live->parts[0].to, live->limbo_name)) < 0)
        return live_fail("limbo", err);
    live->limbo = live_node_new(live, NULL, "", &(struct live_found){.mode = S_IFDIR});
    for (size_t i = 0; i < live->part_count; i++) {
        const struct live_part *part = &live->parts[i];
        struct stat from, overlay;
        struct statx mount;
        struct live_found found;
        if (fstat(part->from, &from) < 0 || live_find(part->from, "", &found) < 0 ||
            fstat(part->overlay, &overlay) < 0 || statx(part->overlay, "", AT_EMPTY_PATH, STATX_MNT_ID, &mount) < 0)
            return live_fail(part->at, err);
        if (fanotify_mark(live->writes, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_MODIFY | FAN_CLOSE_WRITE, part->overlay,
                          ".") < 0)
            return live_cannot("the kernel does not report writes to these files", err);
        live->devices[i] = overlay.st_dev;
        live->below[i] = from.st_dev;
        live->mounts[i] = mount.stx_mnt_id;
        live->roots[i] = live_node_new(live, NULL, "", &found);
        live->roots[i]->part = (uint8_t)i;
        live_node_compare(live, live->roots[i], NULL);
    }
    return 0;
}

void live_end(struct live *live) {
    struct stat status;
    if (!live)
        return;
    fd_close(&live->writes);
    fd_close(&live->names);
    if (live->limbo_fd >= 0) {
        bool known = fstat(live->parts[0].to, &status) == 0;
        fd_close(&live->limbo_fd);
        removal_tree(live->parts[0].to, live->limbo_name);
        if (known)
            futimens(live->parts[0].to, (struct timespec[]){status.st_atim, status.st_mtim});
    }
    for (size_t i = 0; i < LIVE_BUCKETS; i++)
        for (struct live_node *node = live->inodes[i], *next; node; node = next) {
            next = node->by_inode;
            for (size_t k = 0; k < node->name_count; k++)
                free(node->names[k]);
            free(node->names);
            free(node->handle);
            free(node->name);
            free(node);
        }
    for (size_t i = 0; i < live->part_count; i++) {
        fd_close(&live->parts[i].from);
        fd_close(&live->parts[i].to);
        fd_close(&live->parts[i].overlay);
    }
    void *const tables[] = {live->inodes, live->by_name, live->handles, live->dirty,
                            live->fresh,  live->later,   live->hot};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        free(tables[i]);
    copytree_end(live->copy);
    free(live);
}

int live_begin(const struct live_part *parts, size_t count, struct live **ret_live, struct err *err) {
    struct live *live = xcalloc(1, sizeof *live);
    *live = (struct live){.limbo_fd = -1, .writes = -1, .names = -1};
    live->inodes = xcalloc(LIVE_BUCKETS, sizeof *live->inodes);
    live->by_name = xcalloc(LIVE_BUCKETS, sizeof *live->by_name);
    live->handles = xcalloc(LIVE_BUCKETS, sizeof *live->handles);
    live->copy = copytree_begin(-1, NULL);
    live->part_count = count;
    memcpy(live->parts, parts, count * sizeof *parts);
    int r = live_open_groups(live, err) ?: live_follow(live, err);
    if (r < 0)
        live_end(live);
    else
        *ret_live = live;
    return r;
}

int live_finish(struct live *live, const struct live_programs *programs, struct copied *ret_copied,
                uint64_t *ret_stopped_us, struct err *err) {
    struct err other;
    TRY(live_follow(live, err)); /* changes since live_begin */
    uint64_t begin_us = clock_us();
    TRY(programs->stop(programs->user, err));
    int r = live_last(live, programs, err);
    int resumed = programs->resume(programs->user, r < 0 ? &other : err);
    *ret_stopped_us = clock_us() - begin_us;
    copytree_count(live->copy, ret_copied);
    return r < 0 ? r : resumed;
}
