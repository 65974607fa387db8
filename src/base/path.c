/* Paths from clients. Called by the runner's file ops and by the daemon's read path (box_read_open). Invariant: no path
 * is ever opened other than through path_open. */
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/base.h"

enum {
    OPEN_TRIES = 8,
    BELOW_TRIES = 64,
    WALK_DIRS = 256, /* descriptors held on the way; a deeper path stays EAGAIN */
    WALK_LINKS = 40, /* as the kernel's own limit */
};

int path_check(const void *path, size_t len, struct err *err) {
    if (len == 0)
        return err_set(err, ERR_INVALID, "the path is empty");
    if (len > LIMIT_PATH_BYTES)
        return err_set(err, ERR_INVALID, "the path is %zu bytes long, the limit is %u", len, LIMIT_PATH_BYTES);
    if (memchr(path, 0, len))
        return err_set(err, ERR_INVALID, "the path holds a NUL byte");
    return 0;
}

int path_open(int root, const char *path, int flags, mode_t mode) {
    bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    unsigned long long all = (unsigned long long)(unsigned)(flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (flags & O_PATH) /* openat2 is strict: O_PATH takes only these */
        all = (unsigned long long)(unsigned)(flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW)) | O_CLOEXEC;
    struct open_how how = {
        .flags = all, .mode = creates ? mode : 0, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd;
    int tries = 0;
    do
        fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < OPEN_TRIES)));
    /* EAGAIN: a rename came between two steps, and one was "..". A rename anywhere on the machine: a box that renames
     * all day would stop the calls of the others. */
    if (fd < 0 && errno == EAGAIN)
        return path_walk(root, path, (int)all, mode);
    return fd < 0 ? -errno : fd;
}

int path_below(int dir, const char *path, int flags, bool one_mount) {
    struct open_how how = {.flags = (unsigned long long)(unsigned)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    if (one_mount)
        how.resolve |= RESOLVE_NO_XDEV;
    if (!(flags & O_PATH))
        how.flags |= O_NONBLOCK | O_NOCTTY;
    for (int tries = 0;; tries++) {
        int fd = (int)syscall(SYS_openat2, dir, *path ? path : ".", &how, sizeof how);
        if (fd >= 0)
            return fd;
        if (errno != EINTR && (errno != EAGAIN || tries > BELOW_TRIES))
            return -errno;
    }
}

/* ---- the same without the kernel's scope: one name at a time, ".." is the directory we came from ---- */

struct path_walk {
    int dirs[WALK_DIRS]; /* dirs[0] is the root and not ours */
    size_t depth;
    unsigned links;
    char rest[2 * LIMIT_PATH_BYTES + 2]; /* the rest of the path */
};

static void path_walk_up(struct path_walk *walk, size_t to) {
    while (walk->depth > to)
        fd_close(&walk->dirs[walk->depth--]);
}

/* The text of a link replaces its name from now on. `after`: the rest after the name. */
static int path_walk_link(struct path_walk *walk, int link_fd, const char *name, const char *after) {
    char text[2 * LIMIT_PATH_BYTES + 2];
    struct statfs system;
    if (++walk->links > WALK_LINKS)
        return -ELOOP;
    if (fstatfs(link_fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC)
        return -ELOOP; /* it may be a magic one */
    ssize_t len = readlinkat(link_fd, name, text, LIMIT_PATH_BYTES + 1);
    if (len <= 0)
        return len < 0 ? -errno : -ENOENT;
    size_t more = strlen(after);
    if ((size_t)len + more > LIMIT_PATH_BYTES)
        return -ENAMETOOLONG;
    memcpy(text + len, after, more + 1);
    memcpy(walk->rest, text, (size_t)len + more + 1);
    if (text[0] == '/')
        path_walk_up(walk, 0);
    return 0;
}

/* A name on the way: a directory to enter or a link to follow. */
static int path_walk_enter(struct path_walk *walk, const char *name, const char *after) {
    char kept[LIMIT_PATH_BYTES + 1];
    autofd fd = openat(walk->dirs[walk->depth], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return -errno;
    snprintf(kept, sizeof kept, "%s", after);
    if (S_ISLNK(status.st_mode))
        return path_walk_link(walk, fd, "", kept);
    if (!S_ISDIR(status.st_mode))
        return -ENOTDIR;
    if (walk->depth + 1 == WALK_DIRS)
        return -EAGAIN;
    walk->dirs[++walk->depth] = fd_take(&fd);
    memmove(walk->rest, kept, strlen(kept) + 1);
    return 0;
}

/* The last name. Descriptor, or -errno; *ret_link: it was a link and resolution continues. */
static int path_walk_last(struct path_walk *walk, const char *name, int flags, mode_t mode, bool *ret_link) {
    int dir = walk->dirs[walk->depth];
    autofd fd = openat(dir, name, flags | O_NOFOLLOW, mode);
    int number = fd < 0 ? errno : 0;
    struct stat status;
    bool link = fd >= 0 && (flags & O_PATH) && fstat(fd, &status) == 0 && S_ISLNK(status.st_mode);
    if ((link || number == ELOOP || number == ENOTDIR) && !(flags & O_NOFOLLOW)) {
        autofd at = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        *ret_link = at >= 0 && fstat(at, &status) == 0 && S_ISLNK(status.st_mode);
        if (*ret_link)
            return path_walk_link(walk, at, "", "");
    }
    return number ? -number : fd_take(&fd);
}

int path_walk(int root, const char *path, int flags, mode_t mode) {
    struct path_walk walk = {.dirs = {root}};
    char name[LIMIT_NAME_BYTES + 1];
    if (strlen(path) > LIMIT_PATH_BYTES)
        return -ENAMETOOLONG;
    snprintf(walk.rest, sizeof walk.rest, "%s", path);
    int r = *path ? 0 : -ENOENT;
    bool link = true; /* there is more to resolve */
    while (r >= 0 && link) {
        char *at = walk.rest + strspn(walk.rest, "/");
        size_t len = strcspn(at, "/");
        const char *after = at + len;
        link = *after || !len;
        if (len > LIMIT_NAME_BYTES) {
            r = -ENAMETOOLONG;
            break;
        }
        memcpy(name, at, len);
        name[len] = 0;
        if (!strcmp(name, "..") || !strcmp(name, ".") || !len) {
            path_walk_up(&walk, !strcmp(name, "..") && walk.depth ? walk.depth - 1 : walk.depth);
            memmove(walk.rest, after, strlen(after) + 1);
            if (!walk.rest[strspn(walk.rest, "/")]) {
                r = openat(walk.dirs[walk.depth], ".", flags, mode);
                r = r < 0 ? -errno : r;
                break;
            }
            link = true;
        } else {
            r = *after ? path_walk_enter(&walk, name, after) : path_walk_last(&walk, name, flags, mode, &link);
        }
    }
    path_walk_up(&walk, 0);
    return r;
}

const char *path_kind(mode_t mode) {
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISLNK(mode)  ? "a symbolic link"
                            : "a file";
}

int path_open_file(int root, const char *above, const char *path, int flags, mode_t mode, int *ret_fd,
                   struct err *err) {
    struct stat ignored;
    return path_open_stat(root, above, path, flags, mode, ret_fd, &ignored, err);
}

int path_open_stat(int root, const char *above, const char *path, int flags, mode_t mode, int *ret_fd,
                   struct stat *ret_stat, struct err *err) {
    autofd fd = path_open(root, path, flags, mode);
    if (fd == -ENXIO)
        return err_text(err, ENXIO, "'%s%s' is not a regular file", above, path);
    if (fd == -EISDIR)
        return err_text(err, EISDIR, "'%s%s' is a directory", above, path);
    if (fd == -ENOENT)
        return err_text(err, ENOENT, "no file '%s%s'", above, path);
    if (fd < 0)
        return err_errno(err, -fd, "'%s%s'", above, path);
    struct stat status;
    if (fstat(fd, &status) < 0)
        return err_errno(err, errno, "'%s%s'", above, path);
    if (!S_ISREG(status.st_mode))
        return err_text(err, S_ISDIR(status.st_mode) ? EISDIR : EINVAL, "'%s%s' is %s, not a regular file", above, path,
                        path_kind(status.st_mode));
    struct statfs system; /* files of procfs have no size; some of them block */
    if (status.st_size == 0 && fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC)
        return err_set(err, ERR_INVALID, "'%s%s' is on procfs; read it with a command", above, path);
    *ret_stat = status;
    *ret_fd = fd_take(&fd);
    return 0;
}

int path_open_parent(int root, const char *above, const char *path, int *ret_dirfd, char name[256], struct err *err) {
    char parent[LIMIT_PATH_BYTES + 2];
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t start = len;
    while (start > 0 && path[start - 1] != '/')
        start--;
    size_t name_len = len - start;
    if (len == 0 || len > LIMIT_PATH_BYTES || name_len == 0 || (name_len == 1 && path[start] == '.') ||
        (name_len == 2 && path[start] == '.' && path[start + 1] == '.'))
        return err_set(err, ERR_INVALID, "'%s%s' does not name something in a directory", above, path);
    if (name_len > LIMIT_NAME_BYTES)
        return err_text(err, ENAMETOOLONG, "a name in the path is longer than %u bytes", LIMIT_NAME_BYTES);
    memcpy(name, path + start, name_len);
    name[name_len] = 0;
    memcpy(parent, path, start);
    parent[start] = 0;
    int fd = path_open(root, start ? parent : ".", O_PATH | O_DIRECTORY, 0);
    if (fd == -ENOENT)
        return err_text(err, ENOENT, "no directory '%s%s' (parents=1 makes it)", above, parent);
    if (fd < 0)
        return err_errno(err, -fd, "'%s%s'", above, start ? parent : ".");
    *ret_dirfd = fd;
    return 0;
}

bool path_join(char *out, size_t size, const char *cwd, const char *path) {
    int n = *path == '/' ? snprintf(out, size, "%s", path) : snprintf(out, size, "%s/%s", cwd, path);
    return n >= 0 && (size_t)n < size;
}

bool path_within(const char *path, const char *top) {
    size_t len = strlen(top);
    while (len > 1 && top[len - 1] == '/')
        len--;
    if (len == 1 && top[0] == '/')
        return path[0] == '/';
    return strncmp(path, top, len) == 0 && (path[len] == 0 || path[len] == '/');
}

bool path_normal(const char *path) {
    if (path[0] != '/' || path[1] == 0)
        return false;
    for (const char *at = path; *at;) {
        const char *name = at + 1;
        size_t len = strcspn(name, "/");
        if (len == 0 || len > LIMIT_NAME_BYTES || (len == 1 && name[0] == '.') ||
            (len == 2 && name[0] == '.' && name[1] == '.'))
            return false;
        at = name + len;
    }
    return true;
}

bool path_program(const char *name, char *path, size_t size) {
    static const char *const dirs[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        snprintf(path, size, "%s/%s", dirs[i], name);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

void path_unescape(char *path) {
    char *to = path;
    for (const char *from = path; *from; from++) {
        if (*from == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
            from[3] <= '7') {
            *to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 3;
        } else {
            *to++ = *from;
        }
    }
    *to = 0;
}
