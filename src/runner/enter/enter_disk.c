/* A box's files on a bounded file system of their own: an image behind a loop device (outer half, root), or a sized
 * tmpfs (inner half, whoever it is). Called by enter_tree.c and enter_root.c. Invariant: the mount is never attached
 * to the host's tree, and the loop device clears itself with its last user, so that nothing outlives the box's mount
 * namespace; and the image stays locked while it is mounted, because two mounts of one image destroy it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/loop.h"
#include "runner/enter/enter.h"

#define MOUNT_FLAGS (MS_NOSUID | MS_NODEV)

static int lock_image(const char *path, bool read_only, struct err *err);
static int mount_device(int device, bool sparse, bool read_only, struct err *err);

int enter_disk(const char *path, bool read_only, struct err *err) {
    autofd image = lock_image(path, read_only, err), device = -1;
    if (image < 0)
        return image;
    struct stat status;
    char name[LOOP_PATH_BYTES];
    if (fstat(image, &status) < 0)
        return err_errno(err, errno, "the box's disk");
    device = loop_attach(image, read_only ? LO_FLAGS_READ_ONLY : 0, name, err);
    return device < 0 ? device : mount_device(device, status.st_blocks * 512 < status.st_size, read_only, err);
}

/* The lock belongs to the open file, which the loop device holds: it goes when the last mount of the image goes. Many may
 * read one image: a kept layer. */
static int lock_image(const char *path, bool read_only, struct err *err) {
    autofd image = open(path, (read_only ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_CLOEXEC);
    if (image < 0)
        return err_errno(err, errno, "'%s'", path);
    if (flock(image, (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0)
        return err_set(err, ERR_BUSY, "'%s' is still in use; try again", path);
    return fd_take(&image);
}

static int set(int fs, const char *key, const char *value) {
    unsigned command = value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
    return syscall(SYS_fsconfig, fs, command, key, value, 0) < 0 ? -errno : 0;
}

/* noinit_itable: the image is a sparse file, its tables are zero as they are. nobarrier: with barriers each mount and
 * unmount would wait for the host's disk, those of deleted boxes too; the price is that fsync in the box ends in the
 * host's memory. errors: where the disk below is full, the box's files turn read-only rather than to rubbish. discard: what
 * the box deletes becomes a hole again, unless the space was reserved for it. */
static int mount_device(int device, bool sparse, bool read_only, struct err *err) {
    static const char *const options[][2] = {
        {"noinit_itable", NULL}, {"nobarrier", NULL}, {"errors", "remount-ro"}, {"discard", NULL}};
    const size_t count = read_only ? 0 : sizeof options / sizeof *options - !sparse;
    char source[64];
    snprintf(source, sizeof source, "/proc/self/fd/%d", device);
    autofd fs = (int)syscall(SYS_fsopen, "ext4", FSOPEN_CLOEXEC);
    if (fs < 0)
        return err_set(err, ERR_UNSUPPORTED, "this kernel has no ext4; modprobe ext4");
    int r = set(fs, "source", source);
    if (r == 0 && read_only)
        r = set(fs, "ro", NULL);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = set(fs, options[i][0], options[i][1]);
    if (r == 0 && syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        r = -errno;
    int tree = r < 0 ? r : (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
    return tree < 0 ? err_errno(err, r < 0 ? -r : errno, "the box's disk") : tree;
}

/* Same names and modes as the daemon gives the layers on a disk. */
int enter_tmpfs(struct enter *enter, const char *target, struct err *err) {
    static const char *const names[] = {"upper", "upper.work", "upper.0", "upper.0.work"};
    char options[96], path[64];
    snprintf(options, sizeof options, "mode=0755,size=%llu,nr_inodes=%llu", (unsigned long long)enter->tmpfs_bytes,
             (unsigned long long)enter->tmpfs_inodes);
    if (mount("tmpfs", target, "tmpfs", MOUNT_FLAGS, options) < 0)
        return err_errno(err, errno, "tmpfs");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", target, names[i]);
        if (mkdir(path, 0755) < 0)
            return err_errno(err, errno, "'%s'", path);
    }
    return 0;
}
