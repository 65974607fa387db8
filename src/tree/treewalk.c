/* Traversing a tree on this machine. Called by backends for local files of a container, and by skills. Invariant: the
 * tree is hostile and may change at any time: names are one component below an open directory, no link is followed, and
 * going up must arrive at the directory that was left, by device and inode. */
#include <limits.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "tree/treewalk.h"
#include "tree/dent.h"

enum { DENTS_BYTES = 16384 };

struct treewalk_level {
    dev_t device;
    ino_t inode;
    int64_t offset; /* where to continue */
    size_t path_len;
    char **names; /* treewalk_own: sorted names; NULL: not read yet */
    size_t count, cap, at;
};

struct treewalk_walk {
    int fd; /* the directory being read */
    bool own;
    struct treewalk_level here, *levels; /* levels: the ancestors */
    size_t depth, cap;
    char path[LIMIT_PATH_BYTES + 1]; /* here.path_len: length with the slash; if larger, the path is unknown */
    char dents[DENTS_BYTES];
    size_t dents_len, dents_at;
    int (*each)(void *user, const struct tree_entry *entry, struct err *err);
    void *user;
};

static int treewalk_moved(struct err *err) {
    return err_set(err, ERR_BUSY, "directories are being moved");
}

/* ---- names ---- */

static int treewalk_read_on(struct treewalk_walk *walk, struct err *err) {
    long n = syscall(SYS_getdents64, walk->fd, walk->dents, DENTS_BYTES);
    if (n < 0)
        return err_errno(err, errno, "cannot read a directory");
    walk->dents_len = (size_t)n;
    walk->dents_at = 0;
    return n > 0;
}

/* Returns the next name. NULL and *ret_r: the end, or a failure. */
static const char *treewalk_name_read(struct treewalk_walk *walk, int *ret_r, struct err *err) {
    for (;;) {
        *ret_r = walk->dents_at < walk->dents_len ? 1 : treewalk_read_on(walk, err);
        if (*ret_r <= 0)
            return NULL;
        const struct dent *dent = (const void *)(walk->dents + walk->dents_at);
        walk->dents_at += dent->size;
        walk->here.offset = dent->offset;
        if (!dent_dots(dent->name))
            return dent->name;
    }
}

static int treewalk_by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *treewalk_name_sorted(struct treewalk_walk *walk, int *ret_r, struct err *err) {
    struct treewalk_level *here = &walk->here;
    *ret_r = 0;
    if (!here->names) {
        vec_reserve(here->names, here->count, here->cap, 1);
        for (const char *name; (name = treewalk_name_read(walk, ret_r, err));)
            vec_add(here->names, here->count, here->cap) = xstrdup(name);
        qsort(here->names, here->count, sizeof *here->names, treewalk_by_bytes);
    }
    return *ret_r < 0 || here->at == here->count ? NULL : here->names[here->at++];
}

static void treewalk_names_free(struct treewalk_level *level) {
    for (size_t i = 0; i < level->count; i++)
        free(level->names[i]);
    free(level->names);
}

/* ---- down and up ---- */

static int treewalk_go_down(struct treewalk_walk *walk, const char *name, const struct stat *status, struct err *err) {
    autofd next = openat(walk->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat opened, here;
    if (next < 0 && !walk->own && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return 0; /* already gone */
    if (next < 0 || fstat(next, &opened) < 0 || fstat(walk->fd, &here) < 0)
        return err_errno(err, errno, "cannot open the directory '%.100s'", name);
    if (opened.st_ino != status->st_ino || opened.st_dev != status->st_dev)
        return treewalk_moved(err);
    walk->here.device = here.st_dev;
    walk->here.inode = here.st_ino;
    vec_add(walk->levels, walk->depth, walk->cap) = walk->here;
    size_t len = strlen(name), at = walk->here.path_len;
    if (at + len < LIMIT_PATH_BYTES) {
        memcpy(walk->path + at, name, len);
        walk->path[at + len] = '/';
    }
    walk->here = (struct treewalk_level){.path_len = at + len + 1};
    walk->dents_len = walk->dents_at = 0;
    fd_close(&walk->fd);
    walk->fd = fd_take(&next);
    return 0;
}

static int treewalk_go_up(struct treewalk_walk *walk, struct err *err) {
    const struct treewalk_level *level = &walk->levels[walk->depth - 1];
    struct stat status;
    autofd above = openat(walk->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0 || fstat(above, &status) < 0)
        return err_errno(err, errno, "cannot open a parent directory");
    if (status.st_dev != level->device || status.st_ino != level->inode)
        return treewalk_moved(err);
    if (!walk->own && lseek(above, level->offset, SEEK_SET) < 0)
        return err_errno(err, errno, "cannot read a parent directory");
    treewalk_names_free(&walk->here);
    walk->here = *level;
    walk->depth--;
    walk->dents_len = walk->dents_at = 0;
    fd_close(&walk->fd);
    walk->fd = fd_take(&above);
    return 0;
}

static char treewalk_kind_of(mode_t mode) {
    return S_ISDIR(mode) ? 'd' : S_ISREG(mode) && (mode & 0111) ? 'x' : S_ISREG(mode) ? 'f' : S_ISLNK(mode) ? 'l' : 0;
}

static int treewalk_meet(struct treewalk_walk *walk, const char *name, struct err *err) {
    struct tree_entry entry = {.dir = walk->fd, .name = name};
    size_t len = strlen(name), at = walk->here.path_len;
    if (at + len <= LIMIT_PATH_BYTES) {
        memcpy(walk->path + at, name, len + 1);
        entry.path = walk->path;
    }
    if (walk->own && (!entry.path || walk->depth > LIMIT_LIST_DEPTH))
        return err_set(err, ERR_TOO_LARGE, "'%.200s' is too deep", walk->path);
    if (fstatat(walk->fd, name, &entry.status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT && !walk->own ? 0 : err_errno(err, errno, "'%.200s'", name);
    entry.kind = treewalk_kind_of(entry.status.st_mode);
    int r = walk->each(walk->user, &entry, err);
    return r == TREE_DESCEND && entry.kind == 'd' ? treewalk_go_down(walk, name, &entry.status, err) : r < 0 ? r : 0;
}

static int treewalk_walk_run(struct treewalk_walk *walk, struct err *err) {
    for (;;) {
        int r;
        const char *next = walk->own ? treewalk_name_sorted(walk, &r, err) : treewalk_name_read(walk, &r, err);
        if (next) {
            char name[NAME_MAX + 1]; /* the buffer is freed with the directory */
            strncpy(name, next, NAME_MAX);
            name[NAME_MAX] = 0;
            r = treewalk_meet(walk, name, err);
        } else if (r == 0 && walk->depth == 0) {
            return 0;
        } else if (r == 0) {
            r = treewalk_go_up(walk, err);
        }
        TRY(r);
    }
}

static int treewalk_walk_all(bool own, int top,
                             int (*each)(void *user, const struct tree_entry *entry, struct err *err), void *user,
                             struct err *err) {
    struct treewalk_walk *walk = xcalloc(1, sizeof *walk);
    walk->own = own;
    walk->each = each;
    walk->user = user;
    walk->fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = walk->fd < 0 ? err_errno(err, errno, "cannot open the tree") : treewalk_walk_run(walk, err);
    fd_close(&walk->fd);
    treewalk_names_free(&walk->here);
    while (walk->depth > 0)
        treewalk_names_free(&walk->levels[--walk->depth]);
    free(walk->levels);
    free(walk);
    return r;
}

int treewalk(int top, int (*each)(void *user, const struct tree_entry *entry, struct err *err), void *user,
             struct err *err) {
    return treewalk_walk_all(false, top, each, user, err);
}

int treewalk_own(int top, int (*each)(void *user, const struct tree_entry *entry, struct err *err), void *user,
                 struct err *err) {
    return treewalk_walk_all(true, top, each, user, err);
}
