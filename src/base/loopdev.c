/* Taking and finding loop devices. Called by the daemon for its store and by stage one of the runner for a box's disk.
 * Invariants: a device is freed with its last user, and recorded: free ones stay, 100 KB each, until they are removed.
 * The daemon's image has one device, because two would cache different content. It is found by the image's inode,
 * because its name may differ in the mount namespace of the process that attached it. */
#include <linux/loop.h>
#include <sys/ioctl.h>

#include "base/base.h"
#include "base/loopdev.h"

#define ATTACH_TRIES 100 /* another program may take the device that the kernel named as free */
#define LOOPS_USUAL 8    /* the kernel makes so many by itself */

static void loopdev_note(int number) {
    char path[64];
    if (number < LOOPS_USUAL)
        return;
    snprintf(path, sizeof path, LOOP_NOTES_DIR "/%d", number);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 && errno == ENOENT) {
        mkdir("/run/cubby", 0700);
        mkdir(LOOP_NOTES_DIR, 0700);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    }
    fd_close(&fd);
}

int loopdev_attach(int image, unsigned flags, char path[LOOP_PATH_BYTES], struct err *err) {
    autofd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "/dev/loop-control cannot be opened; modprobe loop, and give it to this container if it is one");
    struct loop_config config = {
        .fd = (uint32_t)image, .block_size = 4096, .info.lo_flags = LO_FLAGS_AUTOCLEAR | flags};
    for (int tries = 0; tries < ATTACH_TRIES; tries++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        snprintf(path, LOOP_PATH_BYTES, "/dev/loop%d", number);
        autofd device = number < 0 ? -1 : open(path, (flags & LO_FLAGS_READ_ONLY ? O_RDONLY : O_RDWR) | O_CLOEXEC);
        if (device < 0 && number >= 0 && errno == ENXIO)
            continue;
        if (device < 0)
            return err_set(err, ERR_UNSUPPORTED,
                           "no loop device can be opened ('%s'); give this container loop devices", path);
        if (ioctl(device, LOOP_CONFIGURE, &config) == 0) {
            loopdev_note(number);
            return fd_take(&device);
        }
        if (errno != EBUSY)
            return err_errno(err, errno, "'%s'", path);
    }
    return err_set(err, ERR_BUSY, "other programs take every free loop device; try again");
}

/* Opens the device if it holds that very image; -1: it does not. */
static int loopdev_open_if(const char *name, const struct stat *image, char path[LOOP_PATH_BYTES]) {
    struct loop_info64 info;
    snprintf(path, LOOP_PATH_BYTES, "/dev/%.20s", name);
    autofd device = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (device < 0 || ioctl(device, LOOP_GET_STATUS64, &info) < 0 || info.lo_inode != image->st_ino ||
        info.lo_device != image->st_dev)
        return -1;
    return fd_take(&device);
}

int loopdev_find(int image, char path[LOOP_PATH_BYTES], struct err *err) {
    struct stat status;
    if (fstat(image, &status) < 0)
        return err_errno(err, errno, "an image");
    int device = -1;
    autodir *dir = fd_opendir(AT_FDCWD, "/sys/block", 0);
    for (struct dirent *entry; device < 0 && (entry = fd_readdir(dir));) {
        if (strncmp(entry->d_name, "loop", 4) != 0)
            continue;
        if (faccessat(dirfd(dir), text_make(300, "%s/loop/backing_file", entry->d_name), F_OK, 0) == 0) /* it has one */
            device = loopdev_open_if(entry->d_name, &status, path);
    }
    return device < 0 ? -ERR_NOT_FOUND : device;
}
