/* Bounds for what the kernel counts for the whole machine or does not free with its processes, and for the disk. Called
 * by stage one in PID 1, when the plan is known; the disk by enter_tree.c and enter_root.c.
 *
 * Memory that outlives its processes: files in /dev/shm, System V segments, queues and semaphores. A box full of it
 * would leave the kernel only PID 1 to kill. Each gets a part of the box's memory; a quarter is left.
 *
 * Terminals: all boxes share kernel.pty.max, so each has a fixed share. */
#include <linux/loop.h>
#include <linux/mount.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "base/loopdev.h"
#include "runner/enter/enter.h"
#include "wire/spec.h"

enum {
    PAGE_BYTES = 4096,
    FILES_PART = 2,      /* /dev/shm: a half, the default of a tmpfs */
    INODE_BYTES = 16384, /* bytes per file: size= does not count empty files */
    SEGMENTS_PART = 8,
    QUEUES_PART = 32,
    QUEUE_BYTES = 16384, /* kernel.msgmnb, a queue's default size */
    SEMAPHORES_PART = 32,
    SEMAPHORE_BYTES = 128,
};

static void bounds_set(const struct enter *enter, const char *name, const char *text) {
    fd_write_file(enter->sysctl_fd, name, text); /* may fail: the box can only exhaust its own memory */
}

int enter_pts(const struct enter *enter, const char *path, unsigned long flags, uint64_t terminals, struct err *err) {
    char options[96];
    snprintf(options, sizeof options, "newinstance,ptmxmode=0666,mode=0620,max=%llu%s", (unsigned long long)terminals,
             enter->ranged ? ",gid=5" : "");
    if (mount("devpts", path, "devpts", flags | MS_NOSUID | MS_NOEXEC, options) < 0)
        return err_errno(err, errno, "devpts");
    return 0;
}

/* max=0 would mean no limit, so a box without terminals does not have this file system. */
static int bound_terminals(const struct enter *enter, struct err *err) {
    uint64_t terminals = enter->terminals;
    if (terminals == TERMINALS_NONE)
        return umount2("/dev/pts", MNT_DETACH) < 0 ? err_errno(err, errno, "/dev/pts") : 0;
    bool dealt = terminals && terminals != DEFAULT_TERMINALS;
    return dealt ? enter_pts(enter, "/dev/pts", MS_REMOUNT, terminals, err) : 0;
}

int enter_bounds(struct enter *enter, struct err *err) {
    unsigned long long memory = enter->memory_bytes, files = memory / FILES_PART;
    char text[128];
    int r = bound_terminals(enter, err);
    if (r < 0 || memory == 0)
        return r;
    snprintf(text, sizeof text, "size=%llu,nr_inodes=%llu", files, files / INODE_BYTES);
    if (mount(NULL, "/dev/shm", NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, text) < 0)
        return err_errno(err, errno, "/dev/shm");
    if (enter->sysctl_fd < 0)
        return 0;
    snprintf(text, sizeof text, "%llu", memory / SEGMENTS_PART / PAGE_BYTES);
    bounds_set(enter, "shmall", text);
    snprintf(text, sizeof text, "%llu", memory / QUEUES_PART / QUEUE_BYTES);
    bounds_set(enter, "msgmni", text);
    snprintf(text, sizeof text, "250 %llu 100 %llu", memory / SEMAPHORES_PART / SEMAPHORE_BYTES,
             memory / SEMAPHORES_PART / PAGE_BYTES);
    bounds_set(enter, "sem", text);
    return 0;
}

/* ---- the disk: an image behind a loop device (outer half, root), or a sized tmpfs (inner half) ----
 *
 * Invariant: the mount is never attached to the host's tree, and the loop device is freed with its last user, so
 * nothing outlives the box's mount namespace. The image stays locked while mounted: two mounts would destroy it. */

#define MOUNT_FLAGS (MS_NOSUID | MS_NODEV)

static int bounds_mount_device(int device, bool sparse, bool read_only, struct err *err);

/* The lock belongs to the open file, which the loop device holds, so it ends with the last mount of the image. Many may
 * read one image: a kept layer. */
int enter_disk(const char *path, bool read_only, struct err *err) {
    struct stat status;
    char name[LOOP_PATH_BYTES];
    autofd image = open(path, (read_only ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_CLOEXEC);
    if (image < 0 || fstat(image, &status) < 0)
        return err_errno(err, errno, "'%s'", path);
    if (flock(image, (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0)
        return err_set(err, ERR_BUSY, "'%s' is still in use; try again", path);
    autofd device = loopdev_attach(image, read_only ? LO_FLAGS_READ_ONLY : 0, name, err);
    return device < 0 ? device : bounds_mount_device(device, status.st_blocks * 512 < status.st_size, read_only, err);
}

static int bounds_disk_set(int fs, const char *key, const char *value) {
    unsigned command = value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
    return syscall(SYS_fsconfig, fs, command, key, value, 0) < 0 ? -errno : 0;
}

/* noinit_itable: the image is a sparse file, whose tables are already zero. nobarrier: with barriers each mount and
 * unmount would wait for the host's disk, even for deleted boxes; in exchange fsync in the box only reaches the host's
 * memory. errors: if the host's disk is full, the box's files become read-only instead of corrupt. discard: space that
 * the box frees becomes a hole again, unless it was reserved. */
static int bounds_mount_device(int device, bool sparse, bool read_only, struct err *err) {
    static const char *const options[][2] = {
        {"noinit_itable", NULL}, {"nobarrier", NULL}, {"errors", "remount-ro"}, {"discard", NULL}};
    const size_t count = read_only ? 0 : sizeof options / sizeof *options - !sparse;
    char source[64];
    snprintf(source, sizeof source, "/proc/self/fd/%d", device);
    autofd fs = (int)syscall(SYS_fsopen, "ext4", FSOPEN_CLOEXEC);
    if (fs < 0)
        return err_set(err, ERR_UNSUPPORTED, "this kernel has no ext4; modprobe ext4");
    int r = bounds_disk_set(fs, "source", source);
    if (r == 0 && read_only)
        r = bounds_disk_set(fs, "ro", NULL);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = bounds_disk_set(fs, options[i][0], options[i][1]);
    if (r == 0 && syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        r = -errno;
    int tree = r < 0 ? r : (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
    return tree < 0 ? err_errno(err, r < 0 ? -r : errno, "cannot mount the box's disk") : tree;
}

/* The same names and modes as the daemon gives the layers on a disk. */
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
