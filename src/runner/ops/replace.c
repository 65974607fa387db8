/* Atomic replacement of a file. Called by op_write, op_edit and op_move. Invariant: until the rename the old file is
 * untouched, and after a failure nothing of ours is left; only path_open follows links. */
#include <linux/fs.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "runner/ops/replace.h"
#include "runner/runner.h"

enum {
    LINKS_MAX = 40, /* the kernel's own limit */
    PUT_BACK_TRIES = 100,
};

/* Opens the parent of the path. Returns 1 if its last component is a link; then the path becomes the link's target. A
 * relative target is appended to the path's directory, so that the kernel itself resolves its "..". */
static int replace_follow_last(struct place *at, struct replace *replace, struct err *err) {
    fd_close(&replace->dirfd);
    if (at->path[strlen(at->path) - 1] == '/')
        return err_text(err, EISDIR, "'%s%s' names a directory", at->above, at->path);
    TRY(path_open_parent(at->root, at->above, at->path, &replace->dirfd, replace->name, err));
    char link[LIMIT_PATH_BYTES + 1];
    ssize_t len = readlinkat(replace->dirfd, replace->name, link, sizeof link - 1);
    if (len < 0)
        return 0;
    const char *slash = strrchr(at->path, '/');
    size_t head = link[0] == '/' || !slash ? 0 : (size_t)(slash - at->path) + 1;
    if (head + (size_t)len == 0 || head + (size_t)len > LIMIT_PATH_BYTES)
        return err_errno(err, ENAMETOOLONG, "cannot follow the link '%s%s'", at->above, at->path);
    memcpy(at->path + head, link, (size_t)len);
    at->path[head + (size_t)len] = 0;
    return 1;
}

int replace_resolve(struct replace *replace, const struct place *at, const char *shown, struct err *err) {
    *replace = (struct replace){.dirfd = -1, .fd = -1};
    struct place now = *at;
    for (int links = 0; links < LINKS_MAX; links++) {
        int r = replace_follow_last(&now, replace, err);
        if (r < 0)
            replace_done(replace);
        if (r <= 0)
            return r;
    }
    replace_done(replace);
    return err_errno(err, ELOOP, "'%s'", shown);
}

static int replace_check_old(struct replace *replace, const char *shown, const char *if_match, struct err *err) {
    struct stat *old = &replace->old;
    if (fstatat(replace->dirfd, replace->name, old, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            return err_errno(err, errno, "'%s'", shown);
        replace->existed = false;
        return if_match ? err_set(err, ERR_EXISTS, "no file '%s': If-Match needs an existing file", shown) : 0;
    }
    replace->existed = true;
    if (!S_ISREG(old->st_mode))
        return err_text(err, S_ISDIR(old->st_mode) ? EISDIR : EINVAL, "'%s' is %s, not a regular file", shown,
                        path_kind(old->st_mode));
    /* The rename needs no right on the file itself, so ask, or a read-only file would be written. The raw call, since
     * the file-system ids count here. */
    if (syscall(SYS_faccessat2, replace->dirfd, replace->name, W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0 &&
        errno != ENOSYS)
        return err_errno(err, errno, "'%s'", shown);
    char etag[ETAG_TEXT_BYTES];
    etag_text(old, etag);
    if (if_match && strcmp(if_match, "*") != 0 && strcmp(if_match, etag) != 0)
        return err_set(err, ERR_EXISTS, "'%s' has changed: its ETag is now %s", shown, etag);
    return 0;
}

int replace_find(struct replace *replace, const struct place *at, const char *shown, const char *if_match,
                 struct err *err) {
    TRY(replace_resolve(replace, at, shown, err));
    int r = replace_check_old(replace, shown, if_match, err);
    if (r < 0)
        replace_done(replace);
    return r;
}

int replace_open(struct replace *replace, const char *shown, struct err *err) {
    for (int tries = 0; tries < 16; tries++) {
        temp_name(replace->temp, replace->existed);
        replace->fd = openat(replace->dirfd, replace->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (replace->fd >= 0)
            return 0;
        if (errno != EEXIST && !confine_step_down(errno))
            break;
    }
    replace->temp[0] = 0;
    return err_errno(err, errno, "cannot create a new file for '%s'", shown);
}

int owner_args(const struct fields *args, struct owner *ret_owner, struct err *err) {
    *ret_owner = (struct owner){0};
    if (!args->has[FIELD_UID])
        return 0;
    uint64_t uid = args->number[FIELD_UID], gid = args->has[FIELD_GID] ? args->number[FIELD_GID] : uid;
    if (!(args->number[FIELD_FLAGS] & CALL_ROOT))
        return err_set(err, ERR_INVALID, "only a call with the rights of root may set another owner");
    if (uid > INT32_MAX || gid > INT32_MAX)
        return err_set(err, ERR_INVALID, "owner %llu:%llu is out of range", (unsigned long long)uid,
                       (unsigned long long)gid);
    *ret_owner = (struct owner){.given = true, .uid = (uid_t)uid, .gid = (gid_t)gid};
    return 0;
}

/* A mount with one owner has no other ids: there the file belongs to that owner, whatever was requested. */
static int replace_give(int fd, const struct owner *owner) {
    int r = fchown(fd, owner->uid, owner->gid);
    return r < 0 && (errno == EOVERFLOW || errno == EINVAL) ? 0 : r;
}

/* Sets owner and mode before the file is visible; the owner, if allowed, before the mode, because chown clears bits.
 * New content never runs with another user's rights: those bits are not copied. */
static int replace_attributes(struct replace *replace, const char *shown, mode_t mode, struct err *err) {
    if (replace->owner.given) {
        if (replace_give(replace->fd, &replace->owner) < 0)
            return err_errno(err, errno, "cannot set the owner of '%s'", shown);
    } else if (replace->existed && fchown(replace->fd, replace->old.st_uid, replace->old.st_gid) < 0)
        (void)!fchown(replace->fd, (uid_t)-1, replace->old.st_gid);
    if (replace->attrs.prefix) {
        autofd old = replace->existed
                         ? openat(replace->dirfd, replace->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                         : -1;
        TRY(attrs_set(replace->fd, old, &replace->attrs, shown, err));
    }
    mode_t final = mode ? mode : replace->existed ? replace->old.st_mode : 0644;
    return fchmod(replace->fd, final & 01777) < 0 ? err_errno(err, errno, "cannot set the mode of '%s'", shown) : 0;
}

static int replace_status(struct replace *replace, const char *shown, struct stat *ret_status, struct err *err) {
    return fstat(replace->fd, ret_status) < 0 ? err_errno(err, errno, "'%s'", shown) : 0;
}

int replace_commit(struct replace *replace, const char *shown, mode_t mode, const char *if_match,
                   struct stat *ret_status, struct err *err) {
    TRY(replace_check_old(replace, shown, if_match,
                          err)); /* checked again: the content may have taken long to arrive */
    if (if_match && strcmp(if_match, "*") != 0) {
        int r = replace_exchange(replace, shown, mode, &replace->old, ret_status, err);
        return r == 1 ? err_set(err, ERR_EXISTS, "'%s' has changed since it was read", shown) : r;
    }
    TRY(replace_attributes(replace, shown, mode, err));
    if (renameat(replace->dirfd, replace->temp, replace->dirfd, replace->name) < 0)
        return err_errno(err, errno, "'%s'", shown);
    replace->temp[0] = 0;
    return replace_status(replace, shown, ret_status, err);
}

int replace_look(struct replace *replace, const char *shown, struct err *err) {
    return replace_check_old(replace, shown, NULL, err);
}

int replace_create(struct replace *replace, const char *shown, mode_t mode, struct stat *ret_status, struct err *err) {
    TRY(replace_attributes(replace, shown, mode, err));
    int r = (int)syscall(SYS_renameat2, replace->dirfd, replace->temp, replace->dirfd, replace->name, RENAME_NOREPLACE);
    if (r < 0 && (errno == EINVAL || errno == ENOSYS)) /* not supported by the file system: we have just looked */
        r = renameat(replace->dirfd, replace->temp, replace->dirfd, replace->name);
    if (r < 0)
        return errno == EEXIST ? 1 : err_errno(err, errno, "'%s'", shown);
    replace->temp[0] = 0;
    return replace_status(replace, shown, ret_status, err);
}

/* ---- exchanging versions ---- */

static bool replace_same_version(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Exchanges the names. *ret_taken: what the target's name led to. Returns 0 or -errno. */
static int replace_swap_names(const struct replace *replace, struct stat *ret_taken) {
    if (syscall(SYS_renameat2, replace->dirfd, replace->temp, replace->dirfd, replace->name, RENAME_EXCHANGE) < 0)
        return -errno;
    return fstatat(replace->dirfd, replace->temp, ret_taken, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Another file was put in place between our look and our exchange, and now has the hidden name. Puts it back. If the
 * file that comes out then is not the one put in last, it is newer still and is put back in turn. */
static void replace_put_back(const struct replace *replace, struct stat taken) {
    struct stat last, next;
    if (fstat(replace->fd, &last) < 0)
        return;
    for (int tries = 0; tries < PUT_BACK_TRIES && replace_swap_names(replace, &next) == 0; tries++) {
        if (next.st_ino == last.st_ino && next.st_dev == last.st_dev)
            return;
        last = taken;
        taken = next;
    }
}

int replace_exchange(struct replace *replace, const char *shown, mode_t mode, const struct stat *read,
                     struct stat *ret_status, struct err *err) {
    struct stat now;
    if (fstatat(replace->dirfd, replace->name, &now, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, errno, "'%s'", shown);
    if (!replace_same_version(&now, read))
        return 1;
    TRY(replace_attributes(replace, shown, mode, err));
    int r = replace_swap_names(replace, &now);
    if (r == -EINVAL || r == -ENOSYS) { /* not supported by the file system: having just looked must do */
        r = renameat(replace->dirfd, replace->temp, replace->dirfd, replace->name) < 0 ? -errno : 0;
        now = *read;
        if (r == 0)
            replace->temp[0] = 0;
    }
    if (r < 0)
        return err_errno(err, -r, "'%s'", shown);
    if (!replace_same_version(&now, read)) {
        replace_put_back(replace, now);
        return 1;
    }
    return replace_status(replace, shown, ret_status, err); /* replace_done removes the old version */
}

void replace_done(struct replace *replace) {
    if (replace->temp[0])
        unlinkat(replace->dirfd, replace->temp, 0);
    replace->temp[0] = 0;
    fd_close(&replace->fd);
    fd_close(&replace->dirfd);
}

/* Makes one level: returns 1 if made, 0 if a directory exists. The path ends at the level. */
static int replace_mkdir_one(const struct place *at, const char *shown, mode_t mode, const struct owner *owner,
                             struct err *err) {
    autofd there = path_open(at->root, at->path, O_PATH | O_DIRECTORY, 0);
    if (there >= 0)
        return 0;
    if (there != -ENOENT)
        return err_errno(err, -there, "'%s'", shown);
    autofd dirfd = -1;
    char name[256];
    TRY(path_open_parent(at->root, at->above, at->path, &dirfd, name, err));
    /* The loop has one thread, and a worker makes directories before it starts any: the umask is not shared. */
    mode_t mask = umask(0);
    int r = mkdirat(dirfd, name, mode) < 0 ? -errno : 1;
    if (r < 0 && confine_step_down(-r))
        r = mkdirat(dirfd, name, mode) < 0 ? -errno : 1;
    umask(mask);
    if (r == -EEXIST) { /* another process made it first, or it is a dangling link */
        autofd again = path_open(at->root, at->path, O_PATH | O_DIRECTORY, 0);
        if (again >= 0)
            return 0;
    }
    if (r < 0)
        return err_errno(err, -r, "'%s'", shown);
    if (!owner || !owner->given)
        return 1;
    autofd made = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return made < 0 || replace_give(made, owner) < 0 ? err_errno(err, errno, "cannot set the owner of '%s'", shown) : 1;
}

int replace_mkdirs(const struct place *at, const char *shown, mode_t mode, bool parent, const struct owner *owner,
                   struct err *err) {
    const char *path = at->path;
    struct place part = *at;
    size_t len = strlen(path), end = 0;
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (parent)
        while (len > 0 && path[len - 1] != '/')
            len--;
    while (len > 1 && path[len - 1] == '/')
        len--;
    part.path[len] = 0;
    autofd whole = path_open(at->root, len ? part.path : ".", O_PATH | O_DIRECTORY, 0);
    if (whole >= 0 || len == 0)
        return 0;
    int made = 0;
    while (end < len) {
        while (end < len && path[end] == '/')
            end++;
        while (end < len && path[end] != '/')
            end++;
        memcpy(part.path, path, end);
        part.path[end] = 0;
        made = replace_mkdir_one(&part, shown, end == len && !parent ? mode : 0755, owner, err);
        if (made < 0)
            return made;
    }
    return made;
}

void etag_text(const struct stat *status, char text[ETAG_TEXT_BYTES]) {
    unsigned long long mtime_ns =
        (unsigned long long)status->st_mtim.tv_sec * 1000000000ull + (unsigned long long)status->st_mtim.tv_nsec;
    snprintf(text, ETAG_TEXT_BYTES, "\"%llx-%llx-%llx\"", (unsigned long long)status->st_ino,
             (unsigned long long)status->st_size, mtime_ns);
}

void temp_name(char name[REPLACE_NAME_BYTES], bool existed) {
    unsigned long long random = 0;
    while (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        continue;
    snprintf(name, REPLACE_NAME_BYTES, REPLACE_PREFIX "%c%016llx", existed ? 'r' : 'n', random);
}

bool temp_name_is(const char *name) {
    size_t prefix = sizeof REPLACE_PREFIX - 1;
    return strncmp(name, REPLACE_PREFIX, prefix) == 0 && strlen(name) == prefix + 17;
}
