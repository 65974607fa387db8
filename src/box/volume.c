/* Content of volumes. Called by dialects. Invariant: a volume is written by boxes at the same time, so every step goes
 * through a descriptor that the kernel resolved below the top, and nothing but regular files is opened. */
#include "box/volume.h"

#include "backend/quota/quota.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "tree/removal.h"
#include "tree/treewalk.h"

enum { VOLUME_USER = 1000 }; /* of boxes, on the disk */

/* ---- whole volumes ---- */

int volume_make(int dir, const char *id, uint64_t mb, struct err *err) {
    if (mkdirat(dir, id, 0755) < 0)
        return err_errno(err, errno, "a volume");
    int failed = 0;
    if (geteuid() == 0 && fchownat(dir, id, VOLUME_USER, VOLUME_USER, AT_SYMLINK_NOFOLLOW) < 0)
        failed = err_errno(err, errno, "a volume");
    autofd top = mb && !failed ? volume_open(dir, id, err) : -1;
    if (mb && !failed)
        failed = top < 0 ? top : quota_bind(top, mb, err);
    if (failed)
        unlinkat(dir, id, AT_REMOVEDIR);
    return failed;
}

int volume_open(int dir, const char *id, struct err *err) {
    int fd = openat(dir, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_errno(err, errno, "the volume") : fd;
}

int volume_remove(int dir, const char *id, struct err *err) {
    uint64_t count = 0;
    autofd top = volume_open(dir, id, ERR_IGNORED);
    if (top >= 0)
        quota_unbind(top);
    return removal_shared(dir, id, "the volume", &count, err);
}

/* ---- looking ---- */

static const char *volume_target(int dir, const char *name, struct arena *arena) {
    char target[LIMIT_PATH_BYTES + 1];
    ssize_t len = readlinkat(dir, name, target, sizeof target - 1);
    return arena_copy(arena, target, len > 0 ? (size_t)len : 0);
}

static const char *volume_path(struct arena *arena, const char *path) { /* "/a/b" of "a//b/" */
    char *clean = arena_alloc(arena, strlen(path) + 2), *out = clean;
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, "/");
        if (len && !(len == 1 && *at == '.')) {
            *out++ = '/';
            memcpy(out, at, len);
            out += len;
        }
        at += len + (at[len] == '/');
    }
    return *clean ? clean : "/";
}

static int volume_missing(struct err *err, int number, const char *path) {
    return number == ENOENT || number == ENOTDIR ? err_set(err, ERR_NOT_FOUND, "path '%.300s' not found", path)
                                                 : err_errno(err, number, "'%.300s'", path);
}

/* The entry itself, without following a last link. */
static int volume_at(int top, const char *path, int *ret_fd, struct err *err) {
    int fd = path_open(top, *path ? path : "/", O_PATH | O_NOFOLLOW, 0);
    if (fd < 0)
        return volume_missing(err, -fd, path);
    *ret_fd = fd;
    return 0;
}

int volume_stat(int top, const char *path, struct arena *arena, struct volume_entry *ret_entry, struct err *err) {
    autofd fd = -1;
    struct volume_entry entry = {.path = volume_path(arena, path)};
    TRY(volume_at(top, path, &fd, err));
    if (fstat(fd, &entry.status) < 0)
        return volume_missing(err, errno, path);
    if (S_ISLNK(entry.status.st_mode))
        entry.target = volume_target(fd, "", arena);
    entry.name = strrchr(entry.path, '/') + 1;
    *ret_entry = entry;
    return 0;
}

struct volume_listing {
    struct arena *arena;
    const char *base; /* the path of the directory, "" for the top */
    unsigned depth;
    struct volume_entry *entries;
    size_t count, cap;
};

static int volume_each(void *user, const struct tree_entry *found, struct err *err) {
    struct volume_listing *listing = user;
    unsigned depth = 1;
    if (!found->path)
        return TREE_SKIP;
    for (const char *at = found->path; (at = strchr(at, '/')); at++)
        depth++;
    if (listing->count >= VOLUME_ENTRIES)
        return err_set(err, ERR_TOO_LARGE, "the directory has more than %d entries: list parts of it", VOLUME_ENTRIES);
    const char *path = arena_printf(listing->arena, "%s/%s", listing->base, found->path);
    arena_add(listing->arena, listing->entries, listing->count, listing->cap) = (struct volume_entry){
        .path = path,
        .name = strrchr(path, '/') + 1,
        .target = S_ISLNK(found->status.st_mode) ? volume_target(found->dir, found->name, listing->arena) : NULL,
        .status = found->status,
    };
    return depth < listing->depth ? TREE_DESCEND : TREE_SKIP;
}

static int volume_order(const void *a, const void *b) {
    const struct volume_entry *x = a, *y = b;
    return strcmp(x->path, y->path);
}

int volume_list(int top, const char *path, unsigned depth, struct arena *arena, struct volume_entry **ret_entries,
                size_t *ret_count, struct err *err) {
    const char *base = volume_path(arena, path);
    struct volume_listing listing = {.arena = arena, .base = base[1] ? base : "", .depth = depth};
    autofd dir = path_open(top, base, O_RDONLY | O_DIRECTORY, 0);
    if (dir == -ENOTDIR)
        return err_set(err, ERR_INVALID, "'%.300s' is not a directory", path);
    if (dir < 0)
        return volume_missing(err, -dir, path);
    TRY(treewalk(dir, volume_each, &listing, err));
    if (listing.count)
        qsort(listing.entries, listing.count, sizeof *listing.entries, volume_order);
    *ret_entries = listing.entries;
    *ret_count = listing.count;
    return 0;
}

/* ---- changing ---- */

/* Of a file or directory that was just made, or is meant: never the owner or mode of what a link leads to. */
static int volume_own(int fd, const struct volume_owner *owner, const struct stat *fallback, uint32_t mode,
                      struct err *err) {
    uid_t uid = owner->uid >= 0 ? (uid_t)owner->uid : fallback ? fallback->st_uid : (uid_t)-1;
    gid_t gid = owner->gid >= 0 ? (gid_t)owner->gid : fallback ? fallback->st_gid : (gid_t)-1;
    char path[32];
    if ((uid != (uid_t)-1 || gid != (gid_t)-1) && fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0 &&
        (geteuid() == 0 || owner->uid >= 0 || owner->gid >= 0))
        return err_errno(err, errno, "its owner");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    mode = owner->mode ? owner->mode & 0777 : mode;
    return mode && chmod(path, mode) < 0 ? err_errno(err, errno, "its mode") : 0;
}

int volume_change(int top, const char *path, const struct volume_owner *owner, struct err *err) {
    autofd fd = -1;
    struct stat status;
    TRY(volume_at(top, path, &fd, err));
    if (fstat(fd, &status) < 0 || (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
        return err_set(err, ERR_INVALID, "'%.300s' is neither a file nor a directory", path);
    return volume_own(fd, owner, NULL, 0, err);
}

static int volume_mkdir_one(int parent, const char *name, const struct volume_owner *owner, bool *ret_made,
                            struct err *err) {
    struct stat above;
    if (mkdirat(parent, name, 0700) < 0) {
        *ret_made = false;
        return errno == EEXIST ? 0 : err_errno(err, errno, "'%.255s'", name);
    }
    *ret_made = true;
    autofd made = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0 || fstat(parent, &above) < 0)
        return err_errno(err, errno, "'%.255s'", name);
    return volume_own(made, owner, &above, 0755, err);
}

/* The directory that `path` is in, and its last name; parents: missing ones are made. */
static int volume_parent(int top, const char *path, bool parents, const struct volume_owner *owner, int *ret_dir,
                         char name[256], struct err *err) {
    const struct volume_owner plain = {.uid = owner->uid, .gid = owner->gid};
    bool made;
    if (strlen(path) > LIMIT_PATH_BYTES)
        return err_set(err, ERR_INVALID, "a path has at most %u bytes", LIMIT_PATH_BYTES);
    char *copy = xstrdup(path);
    int failed = 0;
    for (char *slash = copy + 1; parents && !failed && *copy && (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        autofd there = path_open(top, copy, O_PATH | O_DIRECTORY, 0), dir = -1;
        if (there == -ENOENT && (failed = path_open_parent(top, "", copy, &dir, name, err)) == 0)
            failed = volume_mkdir_one(dir, name, &plain, &made, err);
        *slash = '/';
    }
    if (!failed)
        failed = path_open_parent(top, "", copy, ret_dir, name, err);
    free(copy);
    return failed == -ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND, "path '%.300s' not found", path) : failed;
}

int volume_mkdir(int top, const char *path, bool parents, const struct volume_owner *owner, struct err *err) {
    autofd dir = -1;
    char name[256];
    bool made;
    TRY(volume_parent(top, path, parents, owner, &dir, name, err) ?: volume_mkdir_one(dir, name, owner, &made, err));
    if (made)
        return 0;
    autofd there = path_open(top, path, O_PATH | O_DIRECTORY, 0);
    return parents && there >= 0 ? 0 : err_set(err, ERR_EXISTS, "'%.300s' exists already", path);
}

int volume_delete(int top, const char *path, struct err *err) {
    autofd dir = -1;
    char name[256];
    struct stat status;
    uint64_t count = 0;
    const struct volume_owner none = {.uid = -1, .gid = -1};
    TRY(volume_parent(top, path, false, &none, &dir, name, err));
    if (fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return volume_missing(err, errno, path);
    return removal_shared(dir, name, path, &count, err);
}

int volume_write_begin(int top, const char *path, bool parents, const struct volume_owner *owner,
                       struct volume_write *ret_write, struct err *err) {
    struct volume_write write = {.dir = -1, .fd = -1};
    struct stat above, there;
    uint64_t random;
    TRY(volume_parent(top, path, parents, owner, &write.dir, write.name, err));
    xrandom(&random, sizeof random);
    snprintf(write.temporary, sizeof write.temporary, ".cubby-%016llx", (unsigned long long)random);
    int failed = 0;
    uint32_t mode = 0644;
    autofd dir = openat(write.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fstatat(write.dir, write.name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        mode = S_ISREG(there.st_mode) ? there.st_mode & 0777 : mode;
        if (S_ISDIR(there.st_mode))
            failed = err_set(err, ERR_INVALID, "'%.300s' is a directory", path);
    }
    if (!failed)
        write.fd = openat(write.dir, write.temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (!failed && (write.fd < 0 || dir < 0 || fstat(dir, &above) < 0))
        failed = err_errno(err, errno, "'%.300s'", path);
    if (!failed)
        failed = volume_own(write.fd, owner, &above, mode, err);
    if (failed)
        return volume_write_end(&write, failed, err);
    *ret_write = write;
    return 0;
}

int volume_write_end(struct volume_write *write, int failed, struct err *err) {
    if (!failed && renameat(write->dir, write->temporary, write->dir, write->name) < 0)
        failed = err_errno(err, errno, "'%.255s'", write->name);
    if (failed && write->fd >= 0)
        unlinkat(write->dir, write->temporary, 0);
    fd_close(&write->fd);
    fd_close(&write->dir);
    return failed;
}
