/* Paths from clients. Called by the runner's file ops and by the daemon's read path (box_read). Not to break: no path
 * is ever opened other than through path_open. */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"

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
    do /* EAGAIN: a rename or mount raced with a ".." step; the kernel asks to try again */
        fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < 64)));
    return fd < 0 ? -errno : fd;
}

static const char *path_type(mode_t mode) {
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISLNK(mode)  ? "a symbolic link"
                            : "not a file";
}

int path_open_file(int root, const char *path, int flags, mode_t mode, int *ret_fd, struct err *err) {
    autofd fd = path_open(root, path, flags, mode);
    if (fd == -ENXIO)
        return err_set(err, ERR_INVALID, "'%s' is not a regular file", path);
    if (fd == -EISDIR)
        return err_set(err, ERR_INVALID, "'%s' is a directory", path);
    if (fd == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no file '%s'", path);
    if (fd < 0)
        return err_errno(err, -fd, "'%s'", path);
    struct stat status;
    if (fstat(fd, &status) < 0)
        return err_errno(err, errno, "'%s'", path);
    if (!S_ISREG(status.st_mode))
        return err_set(err, ERR_INVALID, "'%s' is %s, not a regular file", path, path_type(status.st_mode));
    struct statfs system; /* what procfs makes up when it is read has no size; some of it blocks */
    if (status.st_size == 0 && fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC)
        return err_set(err, ERR_INVALID, "'%s' is on procfs; read it with a command", path);
    *ret_fd = fd_take(&fd);
    return 0;
}

int path_open_parent(int root, const char *path, int *ret_dirfd, char name[256], struct err *err) {
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
        return err_set(err, ERR_INVALID, "'%s' does not name something in a directory", path);
    if (name_len > LIMIT_NAME_BYTES)
        return err_set(err, ERR_INVALID, "a name in the path is longer than %u bytes", LIMIT_NAME_BYTES);
    memcpy(name, path + start, name_len);
    name[name_len] = 0;
    memcpy(parent, path, start);
    parent[start] = 0;
    int fd = path_open(root, start ? parent : ".", O_PATH | O_DIRECTORY, 0);
    if (fd == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no directory '%s' (parents=1 makes it)", parent);
    if (fd < 0)
        return err_errno(err, -fd, "'%s'", start ? parent : ".");
    *ret_dirfd = fd;
    return 0;
}

bool path_join(char *out, size_t size, const char *cwd, const char *path) {
    int n = *path == '/' ? snprintf(out, size, "%s", path) : snprintf(out, size, "%s/%s", cwd, path);
    return n >= 0 && (size_t)n < size;
}
