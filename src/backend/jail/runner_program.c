/* See runner_program.h. Called by jail.c and slot.c. As root it is a read-only mount of that one file, attached
 * nowhere; as an ordinary user, who may own the file and whose boxes have the same uid, a sealed copy in memory.
 * Neither has a name in any box. Invariant: no box is ever started from the file itself. */
#include "backend/jail/runner_program.h"

#include <linux/mount.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#include "base/base.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif

static int runner_program_mount(const char *path);
static int runner_program_copy(const char *path);

int runner_program_open(struct runner_program *program, const char *path, struct err *err) {
    int fd = geteuid() == 0 ? runner_program_mount(path) : -EPERM;
    if (fd < 0)
        fd = runner_program_copy(path);
    if (fd < 0)
        return err_errno(err, -fd, "cubby-runner '%s'", path);
    program->fd = fcntl(fd, F_DUPFD_CLOEXEC, 10); /* above the numbers that a child's descriptors are copied to */
    close(fd);
    if (program->fd < 0)
        return err_errno(err, errno,
                         "the daemon has no file descriptors left (raise LimitNOFILE; a box needs about 3)");
    snprintf(program->path, sizeof program->path, "/proc/self/fd/%d", program->fd);
    return 0;
}

void runner_program_close(struct runner_program *program) {
    fd_close(&program->fd);
}

static int runner_program_mount(const char *path) {
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    autofd tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -errno;
    return fd_take(&tree);
}

static int runner_program_copy(const char *path) {
    autofd from = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (from < 0 || fstat(from, &status) < 0)
        return -errno;
    autofd copy = memfd_create("cubby-runner", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (copy < 0 && errno == EINVAL) /* a kernel that does not know MFD_EXEC: all are executable */
        copy = memfd_create("cubby-runner", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    for (off_t left = status.st_size; copy >= 0 && left > 0;) {
        ssize_t n = sendfile(copy, from, NULL, (size_t)left);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        left -= n;
    }
    if (copy < 0 || fcntl(copy, F_ADD_SEALS, SEALS) < 0)
        return -errno;
    /* Opened again to read: a file that is open to be written cannot be executed. */
    char again[32];
    snprintf(again, sizeof again, "/proc/self/fd/%d", copy);
    int fd = open(again, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}
