/* Loop devices of the daemon. Called by store.c. Not to break: an image has one device: two of them would each have its
 * own idea of what is written where. It is looked for by the image's inode, because the name may be another one in the
 * mount namespace of whoever attached it. */
#include "backend/loopdev.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "wire/plan.h"

#define ATTACH_TRIES 100 /* another program may take the device we were told is free */
#define LOOPS_USUAL 8    /* the kernel makes so many by itself */

/* That very image behind this device? -1: no. */
static int open_if_ours(const char *name, const struct stat *image, char path[LOOPDEV_PATH_BYTES]) {
    struct loop_info64 info;
    snprintf(path, LOOPDEV_PATH_BYTES, "/dev/%.20s", name);
    autofd device = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (device < 0 || ioctl(device, LOOP_GET_STATUS64, &info) < 0 || info.lo_inode != image->st_ino ||
        info.lo_device != image->st_dev)
        return -1;
    return fd_take(&device);
}

int loopdev_find(int image, char path[LOOPDEV_PATH_BYTES], struct err *err) {
    struct stat status;
    if (fstat(image, &status) < 0)
        return err_errno(err, errno, "an image");
    int device = -1;
    DIR *dir = opendir("/sys/block");
    for (struct dirent *entry; dir && device < 0 && (entry = readdir(dir));) {
        char backing[300];
        if (strncmp(entry->d_name, "loop", 4) != 0)
            continue;
        snprintf(backing, sizeof backing, "%s/loop/backing_file", entry->d_name);
        if (faccessat(dirfd(dir), backing, F_OK, 0) == 0) /* it has one */
            device = open_if_ours(entry->d_name, &status, path);
    }
    if (dir)
        closedir(dir);
    return device < 0 ? -ERR_NOT_FOUND : device;
}

/* Noted beside those of boxes: whoever tidies removes the node when it is free. */
static void note(int number) {
    char path[64];
    if (number < LOOPS_USUAL)
        return;
    if (mkdir("/run/cubby", 0700) < 0 && errno != EEXIST)
        return;
    if (mkdir(PLAN_LOOPS_DIR, 0700) < 0 && errno != EEXIST)
        return;
    snprintf(path, sizeof path, PLAN_LOOPS_DIR "/%d", number);
    autofd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
}

/* Direct: what is in the memory for the files of boxes need not be there a second time for the image. */
int loopdev_attach(int image, char path[LOOPDEV_PATH_BYTES], struct err *err) {
    autofd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "/dev/loop-control cannot be opened; modprobe loop, and give it to this container if it is one");
    struct loop_config config = {
        .fd = (uint32_t)image, .block_size = 4096, .info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO};
    for (int tries = 0; tries < ATTACH_TRIES; tries++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        snprintf(path, LOOPDEV_PATH_BYTES, "/dev/loop%d", number);
        autofd device = number < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
        if (device < 0 && number >= 0 && errno == ENXIO)
            continue;
        if (device < 0)
            return err_set(err, ERR_UNSUPPORTED,
                           "no loop device can be opened ('%s'); give this container loop devices", path);
        if (ioctl(device, LOOP_CONFIGURE, &config) == 0) {
            note(number);
            return fd_take(&device);
        }
        if (errno != EBUSY)
            return err_errno(err, errno, "'%s'", path);
    }
    return err_set(err, ERR_BUSY, "other programs take every free loop device; try again");
}
