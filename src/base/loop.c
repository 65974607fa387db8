/* Taking a loop device. Called by the daemon for its store and by stage one of the runner for a box's disk. Invariant: the
 * device clears itself with its last user, and is noted: free ones stay, 100 KB each, until somebody removes them. */
#include "base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/fd.h"

#define ATTACH_TRIES 100 /* another program may take the device we were told is free */
#define LOOPS_USUAL 8    /* the kernel makes so many by itself */

static void note(int number) {
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

int loop_attach(int image, unsigned flags, char path[LOOP_PATH_BYTES], struct err *err) {
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
            note(number);
            return fd_take(&device);
        }
        if (errno != EBUSY)
            return err_errno(err, errno, "'%s'", path);
    }
    return err_set(err, ERR_BUSY, "other programs take every free loop device; try again");
}
