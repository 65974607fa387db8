/* Called by the docker backend for what lies of a container on this machine. Invariant: the tree is hostile, and may
 * change under the walk: names are one component below an open directory, no link is followed, and who goes up must arrive
 * where he came from. */
#include "tree/treewalk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/dent.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"

enum { DENTS_BYTES = 16384 };

struct level {
    dev_t device;
    ino_t inode;
    int64_t offset; /* where it goes on */
    size_t path_len;
};

struct walk {
    int fd; /* the directory that is being read */
    struct level *levels;
    size_t depth, cap;
    char path[LIMIT_PATH_BYTES + 1];
    size_t path_len; /* of the directory with its slash; more than fits: not told */
    char dents[DENTS_BYTES];
    size_t dents_len, dents_at;
    int (*each)(void *user, const struct tree_entry *entry, struct err *err);
    void *user;
};

static int moved(struct err *err) {
    return err_set(err, ERR_BUSY, "directories are being moved");
}

static int go_down(struct walk *walk, const char *name, const struct stat *status, struct err *err) {
    int fd = openat(walk->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat opened, here;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return 0; /* gone meanwhile */
    autofd next = fd;
    if (next < 0 || fstat(next, &opened) < 0 || fstat(walk->fd, &here) < 0)
        return err_errno(err, errno, "a directory '%.100s'", name);
    if (opened.st_ino != status->st_ino || opened.st_dev != status->st_dev)
        return moved(err);
    if (walk->depth == walk->cap) {
        walk->cap = walk->cap ? 2 * walk->cap : 32;
        walk->levels = xrealloc(walk->levels, walk->cap * sizeof *walk->levels);
    }
    const struct dent *dent = (const void *)(walk->dents + walk->dents_at);
    walk->levels[walk->depth++] = (struct level){here.st_dev, here.st_ino, dent->offset, walk->path_len};
    size_t len = strlen(name);
    if (walk->path_len + len < LIMIT_PATH_BYTES) {
        memcpy(walk->path + walk->path_len, name, len);
        walk->path[walk->path_len + len] = '/';
    }
    walk->path_len += len + 1;
    walk->dents_len = walk->dents_at = 0;
    fd_close(&walk->fd);
    walk->fd = fd_take(&next);
    return 1;
}

static int go_up(struct walk *walk, struct err *err) {
    const struct level *level = &walk->levels[--walk->depth];
    struct stat status;
    autofd above = openat(walk->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0 || fstat(above, &status) < 0)
        return err_errno(err, errno, "a directory above");
    if (status.st_dev != level->device || status.st_ino != level->inode)
        return moved(err);
    if (lseek(above, level->offset, SEEK_SET) < 0)
        return err_errno(err, errno, "a directory above");
    walk->path_len = level->path_len;
    walk->dents_len = walk->dents_at = 0;
    fd_close(&walk->fd);
    walk->fd = fd_take(&above);
    return 0;
}

/* One name. 1: the walk went into it. */
static int meet(struct walk *walk, const char *name, struct err *err) {
    struct tree_entry entry = {.dir = walk->fd, .name = name};
    size_t len = strlen(name);
    if (dent_dots(name))
        return 0;
    if (fstatat(walk->fd, name, &entry.status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_errno(err, errno, "'%.100s'", name);
    if (walk->path_len + len <= LIMIT_PATH_BYTES) {
        memcpy(walk->path + walk->path_len, name, len + 1);
        entry.path = walk->path;
    }
    int r = walk->each(walk->user, &entry, err);
    return r == TREE_DESCEND && S_ISDIR(entry.status.st_mode) ? go_down(walk, name, &entry.status, err) : r < 0 ? r : 0;
}

static int read_on(struct walk *walk, struct err *err) {
    long n = syscall(SYS_getdents64, walk->fd, walk->dents, DENTS_BYTES);
    if (n < 0)
        return err_errno(err, errno, "a directory");
    walk->dents_len = (size_t)n;
    walk->dents_at = 0;
    return n > 0;
}

static int walk_run(struct walk *walk, struct err *err) {
    for (;;) {
        if (walk->dents_at == walk->dents_len) {
            int r = read_on(walk, err);
            if (r == 0 && walk->depth == 0)
                return 0;
            if (r == 0)
                r = go_up(walk, err);
            if (r < 0)
                return r;
            continue;
        }
        const struct dent *dent = (const void *)(walk->dents + walk->dents_at);
        char name[NAME_MAX + 1];
        strncpy(name, dent->name, NAME_MAX);
        name[NAME_MAX] = 0;
        size_t size = dent->size;
        int r = meet(walk, name, err);
        if (r < 0)
            return r;
        if (r == 0)
            walk->dents_at += size;
    }
}

int treewalk(int top, int (*each)(void *user, const struct tree_entry *entry, struct err *err), void *user,
             struct err *err) {
    struct walk *walk = xcalloc(1, sizeof *walk);
    walk->each = each;
    walk->user = user;
    walk->fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = walk->fd < 0 ? err_errno(err, errno, "the tree") : walk_run(walk, err);
    fd_close(&walk->fd);
    free(walk->levels);
    free(walk);
    return r;
}
