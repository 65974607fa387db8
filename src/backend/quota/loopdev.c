/* Loop devices of the daemon. Called by store.c. Invariant: an image has one device: two of them would each have its
 * own idea of what is written where. It is looked for by the image's inode, because the name may be another one in the
 * mount namespace of whoever attached it. */
#include "backend/quota/loopdev.h"

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

/* That very image behind this device? -1: no. */
static int open_if_ours(const char *name, const struct stat *image, char path[LOOP_PATH_BYTES]) {
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
