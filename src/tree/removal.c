/* Removing a tree of any depth and width. Called by backends when a box is removed, and in the runner's workers by
 * removals and by moves between file systems. Invariant: the tree is hostile and may change at any time: names are one
 * component below an open directory, and no link is followed.
 *
 * 1. Iterative: a stack of levels; only the deepest FDS_KEPT levels keep their descriptor open.
 * 2. Above those, ".." of the child is opened and must be the directory we came from (device and inode), so a directory
 *    that was moved away is an error and never a way into another tree.
 * 3. A level remembers at most BATCH_BYTES of names of subdirectories; when they are done it is read again. An entry
 *    that cannot be removed ends the work, so reading again always makes progress. */
#include <sys/syscall.h>

#include "base/base.h"
#include "base/sync.h"
#include "tree/removal.h"
#include "tree/dent.h"

/* While requests keep coming: so much work, then a pause. */
enum { STEP_US = 1000, PAUSE_MS = 20 };
enum { FDS_KEPT = 64, BATCH_BYTES = 4096, DENTS_BYTES = 128 << 10, RETRIES_MAX = 100 };

struct removal_level {
    int fd; /* -1: closed; reopened by ".." */
    dev_t device;
    ino_t inode;
    char *batch; /* names of subdirectories, NUL-separated; NULL: read the directory (again) */
    size_t batch_len, at;
    bool read_all; /* the batch has all remaining names */
};

struct removal {
    struct removal_level *levels;
    size_t depth, cap;
    uint64_t count;
    const char *shown;
    char *dents;
    bool ours;                /* no other process writes */
    dev_t device;             /* if ours: anything on another device is mounted there */
    const atomic_bool *hurry; /* NULL: no pauses */
    uint64_t until_us;        /* until then it works even while requests are served */
    unsigned retries;         /* directories that were filled again since the last removal */
};

static int removal_level_push(struct removal *removal, int dirfd, const char *name, struct err *err);
static int removal_level_fill(struct removal *removal, struct removal_level *level, struct err *err);
static int removal_level_up(struct removal *removal, struct err *err);
static int removal_run(struct removal *removal, struct err *err);

static int removal_all(struct removal *removal, int dirfd, const char *name, struct err *err) {
    if (unlinkat(dirfd, name, 0) == 0) {
        removal->count++;
        return 0;
    }
    if (errno == ENOENT && removal->ours)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return err_errno(err, errno, "'%s'", removal->shown);
    removal->dents = xmalloc(DENTS_BYTES);
    err->code = 0;
    int r = 0;
    do {
        r = removal_level_push(removal, dirfd, name, err);
        if (r > 0)
            r = removal_run(removal, err);
        while (removal->depth > 0) {
            struct removal_level *level = &removal->levels[--removal->depth];
            fd_close(&level->fd);
            free(level->batch);
        }
        if (r == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            r = -errno;
    } while ((r == -ENOTEMPTY || r == -EEXIST) && ++removal->retries < RETRIES_MAX && !err->code);
    free(removal->levels);
    free(removal->dents);
    if (r < 0)
        return err->code ? -err->code : err_errno(err, -r, "'%s'", removal->shown);
    removal->count++;
    return 0;
}

int removal_shared(int dirfd, const char *name, const char *shown, uint64_t *count, struct err *err) {
    struct removal removal = {.shown = shown};
    int r = removal_all(&removal, dirfd, name, err);
    *count += removal.count;
    return r;
}

int removal_tree(int dirfd, const char *name) {
    return removal_tree_gently(dirfd, name, NULL);
}

int removal_tree_gently(int dirfd, const char *name, const atomic_bool *hurry) {
    struct removal removal = {.shown = name, .ours = true, .hurry = hurry};
    struct err err = {0};
    int r = removal_all(&removal, dirfd, name, &err);
    return r == 0 ? 0 : -(err.number ? err.number : EBUSY);
}

static void removal_count(struct removal *removal) {
    removal->count++;
    if (removal->hurry && !atomic_load_explicit(removal->hurry, memory_order_relaxed) &&
        (!removal->until_us || clock_us() >= removal->until_us))
        removal->until_us = background_yield(PAUSE_MS) ? 0 : clock_us() + STEP_US;
}

/* Empties the directory of the first level. */
static int removal_run(struct removal *removal, struct err *err) {
    for (;;) {
        struct removal_level *level = &removal->levels[removal->depth - 1];
        if (!level->batch)
            TRY(removal_level_fill(removal, level, err));
        if (level->at < level->batch_len) {
            const char *name = level->batch + level->at;
            int r = removal_level_push(removal, level->fd, name, err);
            TRY(r);
            if (r == 0) /* already gone */
                level->at += strlen(name) + 1;
            continue;
        }
        free(level->batch);
        level->batch = NULL;
        if (!level->read_all)
            continue;
        if (removal->depth == 1)
            return 0;
        TRY(removal_level_up(removal, err));
    }
}

/* What was a directory when it was read may have been replaced by something else, which is removed then. Returns a
 * descriptor or -errno; -ENOENT: nothing is left of the name. */
static int removal_open_or_unlink(int dirfd, const char *name) {
    for (int tries = 0; tries < RETRIES_MAX; tries++) {
        int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0 || (errno != ENOTDIR && errno != ELOOP))
            return fd >= 0 ? fd : -errno;
        if (unlinkat(dirfd, name, 0) == 0)
            return -ENOENT;
        if (errno != EISDIR)
            return -errno;
    }
    return -EBUSY;
}

/* Entries of a directory without r, w or x cannot be read or removed; root can do it anyway. */
static int removal_open_forced(int dirfd, const char *name) {
    autofd closed = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (closed < 0 || chmod(text_make(64, "/proc/self/fd/%d", closed), 0700) < 0)
        return -errno;
    int fd = openat(closed, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int removal_level_check(struct removal *removal, int fd, struct stat *ret_status) {
    if (fstat(fd, ret_status) < 0)
        return -errno;
    if (removal->depth == 0)
        removal->device = ret_status->st_dev;
    if (removal->ours && ret_status->st_dev != removal->device)
        return -EBUSY; /* something is mounted here */
    if (removal->ours && (ret_status->st_mode & 0700) != 0700)
        fchmod(fd, 0700);
    return 0;
}

/* Returns 1 if entered, 0 if it does not exist (any more). */
static int removal_level_push(struct removal *removal, int dirfd, const char *name, struct err *err) {
    int fd = removal_open_or_unlink(dirfd, name);
    if (fd == -EACCES && removal->ours)
        fd = removal_open_forced(dirfd, name);
    if (fd == -ENOENT && (removal->ours || removal->depth > 0))
        return 0;
    struct stat status;
    int r = fd < 0 ? fd : removal_level_check(removal, fd, &status);
    if (r < 0) {
        fd_close(&fd);
        return err_errno(err, -r, "cannot remove '%s' below '%s'", name, removal->shown);
    }
    vec_add(removal->levels, removal->depth, removal->cap) =
        (struct removal_level){.fd = fd, .device = status.st_dev, .inode = status.st_ino};
    if (removal->depth > FDS_KEPT)
        fd_close(&removal->levels[removal->depth - 1 - FDS_KEPT].fd);
    return 1;
}

/* Returns to the parent and removes the emptied child. */
static int removal_level_up(struct removal *removal, struct err *err) {
    struct removal_level *child = &removal->levels[removal->depth - 1], *level = child - 1;
    if (level->fd < 0) {
        struct stat status;
        level->fd = openat(child->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
        if (level->fd < 0 || fstat(level->fd, &status) < 0)
            return err_errno(err, errno, "cannot open a directory below '%s'", removal->shown);
        if (status.st_dev != level->device || status.st_ino != level->inode)
            return err_set(err, ERR_BUSY, "a directory below '%s' was moved while it was removed", removal->shown);
    }
    fd_close(&child->fd);
    removal->depth--;
    const char *name = level->batch + level->at;
    if (unlinkat(level->fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
        if ((errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) && ++removal->retries < RETRIES_MAX)
            return 0; /* an entry was added, replaced or skipped: try again */
        return err_errno(err, errno, "cannot remove '%s' below '%s'", name, removal->shown);
    }
    removal_count(removal);
    removal->retries = 0;
    level->at += strlen(name) + 1;
    return 0;
}

/* Returns 1 if removed or gone, 0 for a directory that must be entered. */
static int removal_remove_entry(struct removal *removal, struct removal_level *level, const struct dent *dent,
                                struct err *err) {
    if (dent->type == DT_DIR)
        return 0;
    if (unlinkat(level->fd, dent->name, 0) == 0) {
        removal_count(removal);
        return 1;
    }
    if (errno == ENOENT)
        return 1;
    if (errno == EISDIR)
        return 0;
    return err_errno(err, errno, "cannot remove '%s' below '%s'", dent->name, removal->shown);
}

/* Keeps only the names of a level, since a tree may be very deep. */
static void removal_level_keep(struct removal_level *level, const char *names) {
    level->batch = xmalloc(level->batch_len + 1);
    memcpy(level->batch, names, level->batch_len);
}

static int removal_level_fill(struct removal *removal, struct removal_level *level, struct err *err) {
    char names[BATCH_BYTES];
    level->batch_len = level->at = 0;
    level->read_all = false;
    if (lseek(level->fd, 0, SEEK_SET) < 0)
        return err_errno(err, errno, "cannot read a directory below '%s'", removal->shown);
    for (;;) {
        long n = syscall(SYS_getdents64, level->fd, removal->dents, (size_t)DENTS_BYTES);
        if (n < 0)
            return err_errno(err, errno, "cannot read a directory below '%s'", removal->shown);
        if (n == 0) {
            level->read_all = true;
            removal_level_keep(level, names);
            return 0;
        }
        for (long at = 0; at < n;) {
            const struct dent *dent = (const void *)(removal->dents + at);
            at += dent->size;
            if (dent_dots(dent->name))
                continue;
            int r = removal_remove_entry(removal, level, dent, err);
            size_t size = strlen(dent->name) + 1;
            TRY(r);
            if (r == 0 && level->batch_len + size > BATCH_BYTES) {
                removal_level_keep(level, names);
                return 0;
            }
            if (r == 0) {
                memcpy(names + level->batch_len, dent->name, size);
                level->batch_len += size;
            }
        }
    }
}
