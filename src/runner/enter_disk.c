/* A box's files on a bounded file system of their own: an image behind a loop device (outer half, root), or a sized
 * tmpfs (inner half, whoever it is). Called by enter_tree.c and enter_root.c. Not to break: the mount is never attached
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
#include "runner/enter.h"

#define ATTACH_TRIES 100 /* another program may take the device we were told is free */
#define LOOPS_USUAL 8    /* the kernel makes so many by itself */
#define MOUNT_FLAGS (MS_NOSUID | MS_NODEV)

static int lock_image(const char *path, bool read_only, struct err *err);
static int attach_image(int image, bool read_only, int *ret_device, struct err *err);
static int mount_device(int device, bool sparse, bool read_only, struct err *err);

int enter_disk(const char *path, bool read_only, struct err *err) {
    autofd image = lock_image(path, read_only, err), device = -1;
    if (image < 0)
        return image;
    struct stat status;
    int r = fstat(image, &status) < 0 ? err_errno(err, errno, "the box's disk")
                                      : attach_image(image, read_only, &device, err);
    return r < 0 ? r : mount_device(device, status.st_blocks * 512 < status.st_size, read_only, err);
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

/* Told to the daemon: devices stay when they are free again, 100 KB each, until somebody removes them. */
static void note_device(int number) {
    char path[64];
    if (number < LOOPS_USUAL)
        return;
    snprintf(path, sizeof path, PLAN_LOOPS_DIR "/%d", number);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 && errno == ENOENT && mkdir(PLAN_LOOPS_DIR, 0700) == 0)
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    fd_close(&fd);
}

static int attach_image(int image, bool read_only, int *ret_device, struct err *err) {
    autofd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "/dev/loop-control cannot be opened; modprobe loop, and give it to this "
                       "container if it is one");
    struct loop_config config = {.fd = (uint32_t)image,
                                 .block_size = 4096,
                                 .info.lo_flags = LO_FLAGS_AUTOCLEAR | (read_only ? LO_FLAGS_READ_ONLY : 0)};
    for (int tries = 0; tries < ATTACH_TRIES; tries++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        char path[32];
        snprintf(path, sizeof path, "/dev/loop%d", number);
        autofd device = number < 0 ? -1 : open(path, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
        if (device < 0 && number >= 0 && errno == ENXIO)
            continue;
        if (device < 0)
            return err_set(err, ERR_UNSUPPORTED,
                           "no loop device can be opened ('%s'); give this container loop devices", path);
        if (ioctl(device, LOOP_CONFIGURE, &config) == 0) {
            note_device(number);
            *ret_device = fd_take(&device);
            return 0;
        }
        if (errno != EBUSY)
            return err_errno(err, errno, "'%s'", path);
    }
    return err_set(err, ERR_BUSY, "other programs take every free loop device; try again");
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
