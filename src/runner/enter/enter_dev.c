/* The box's /dev: its own tmpfs with its own device nodes. Made by the outer half, because only the host's root may
 * make device nodes, and before the filter, which forbids that for good; enter_root.c moves it into the box. Invariant:
 * no node is shared with the host or another box: its inode would carry locks, leases and watches between them. If
 * nodes cannot be made (an ordinary user, a container without that right), the host's are bound. */
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "base/base.h"
#include "runner/enter/enter.h"

static const struct {
    const char *name;
    unsigned major, minor;
} nodes[] = {{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
static const char *const links[][2] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};
#define NODES (sizeof nodes / sizeof *nodes)

/* Makes everything but the nodes. */
static int dev_fill(int dev, struct err *err) {
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (symlinkat(links[i][1], dev, links[i][0]) < 0)
            return err_errno(err, errno, "'%s'", links[i][0]);
    if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0 || fchmodat(dev, "shm", 01777, 0) < 0)
        return err_errno(err, errno, "directories");
    return 0;
}

/* ---- outer half, as the host's root ---- */

int enter_dev_make(struct enter *enter, struct err *err) {
    autofd context = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
    if (context < 0 || syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
        syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "size", "1m", 0) < 0 ||
        syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "nr_inodes", "128", 0) < 0 ||
        syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return err_errno(err, errno, "tmpfs");
    autofd dev = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID);
    if (dev < 0)
        return err_errno(err, errno, "tmpfs");
    mode_t mask = umask(0);
    bool may = true;
    for (size_t i = 0; may && i < NODES; i++)
        may = mknodat(dev, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) == 0;
    /* Made but unusable if the superblock belongs to another user namespace than the host's. */
    autofd node = may ? openat(dev, nodes[0].name, O_RDONLY | O_CLOEXEC) : -1;
    int r = node < 0 ? 0 : dev_fill(dev, err);
    umask(mask);
    if (node >= 0 && r == 0)
        enter->dev_fd = fd_take(&dev);
    return r;
}

int enter_dev_own(struct enter *enter, struct err *err) {
    uid_t root = enter->uid_base;
    if (enter->dev_fd >= 0 && (fchownat(enter->dev_fd, "", root, root, AT_EMPTY_PATH) < 0 ||
                               fchownat(enter->dev_fd, "shm", root, root, AT_SYMLINK_NOFOLLOW) < 0))
        return err_errno(err, errno, "chown");
    return 0;
}

/* ---- inner half ---- */

static int dev_bind_node(int dev, const char *name, unsigned major, unsigned minor, struct err *err) {
    char path[32];
    snprintf(path, sizeof path, "/dev/%s", name);
    autofd node = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    if (node < 0 || fstat(node, &status) < 0)
        return err_errno(err, errno, "'%s'", path);
    if (!S_ISCHR(status.st_mode) || status.st_rdev != makedev(major, minor))
        return err_set(err, ERR_UNSUPPORTED, "the host's '%s' is not that device", path);
    autofd tree = sys_open_tree(node, "", OPEN_TREE_CLONE);
    if (tree < 0)
        return err_errno(err, -tree, "'%s'", path);
    if (mknodat(dev, name, S_IFREG | 0666, 0) < 0)
        return err_errno(err, errno, "'%s'", path);
    int r = sys_mount_setattr(tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -1);
    if (r >= 0)
        r = sys_move_mount(tree, dev, name);
    return r < 0 ? err_errno(err, -r, "'%s'", path) : 0;
}

int enter_dev_attach(struct enter *enter, const char *target, struct err *err) {
    if (enter->dev_fd < 0) {
        if (mount("tmpfs", target, "tmpfs", MS_NOSUID, "mode=0755,size=1m,nr_inodes=128") < 0)
            return err_errno(err, errno, "tmpfs");
        autofd dev = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = dev < 0 ? err_errno(err, errno, "'%s'", target) : dev_fill(dev, err);
        for (size_t i = 0; r == 0 && i < NODES; i++)
            r = dev_bind_node(dev, nodes[i].name, nodes[i].major, nodes[i].minor, err);
        return r;
    }
    int r = sys_move_mount(enter->dev_fd, AT_FDCWD, target);
    fd_close(&enter->dev_fd);
    return r < 0 ? err_errno(err, -r, "'%s'", target) : 0;
}
