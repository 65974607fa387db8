/* One head of several on a state directory: which of them serves. Called by daemon_parts, before anything of the state
 * is used. Invariants: the head that serves holds the lock of STATE/head until its process ends; each time a head takes
 * it, the epoch in that file is one higher, and is on the disk before a worker sees it. */
#include "base/base.h"
#include "base/log.h"
#include "daemon/daemon.h"

enum { LEAD_LOOK_MS = 100 };

static bool lead_take(int fd) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &whole) == 0;
}

/* The lock ends with its process; nothing reports that, so it is tried again and again. */
static int lead_wait(struct daemon *daemon, int fd, struct err *err) {
    const struct timespec pause = {.tv_nsec = LEAD_LOOK_MS * 1000000l};
    bool waits = false;
    while (!lead_take(fd)) {
        if (errno != EAGAIN && errno != EACCES)
            return err_errno(err, errno, "cannot lock %s/head", daemon->state);
        if (!waits) {
            log_info("standing by: another head serves %s", daemon->state);
            notify_send(&daemon->notify, "READY=1\nSTATUS=standing by: another head serves");
        }
        waits = true;
        int number = sigtimedwait(&daemon->signals, NULL, &pause);
        if (number == SIGTERM || number == SIGINT)
            return err_set(err, ERR_GONE, "stopped while another head served");
    }
    return 0;
}

/* "": 0. */
static bool lead_number(char *text, uint64_t *ret_epoch) {
    text[strcspn(text, "\n")] = 0;
    return !*text || text_u64(text, UINT64_MAX / 2, ret_epoch);
}

int daemon_lead(struct daemon *daemon, struct err *err) {
    char text[24] = "";
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (daemon->first->standby ? O_CREAT : 0);
    autofd fd = open(text_make(PATH_MAX + 8, "%s/head", daemon->state), flags, 0600);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return err_errno(err, errno, "%s/head", daemon->state);
    if (daemon->first->standby)
        TRY(lead_wait(daemon, fd, err));
    if (pread(fd, text, sizeof text - 1, 0) < 0 || !lead_number(text, &daemon->epoch))
        return err_set(err, ERR_IO, "%s/head does not hold an epoch; remove it", daemon->state);
    if (!daemon->first->standby)
        return 0;
    int len = snprintf(text, sizeof text, "%llu\n", (unsigned long long)++daemon->epoch);
    if (pwrite(fd, text, (size_t)len, 0) != len || fdatasync(fd) < 0)
        return err_errno(err, errno, "%s/head", daemon->state);
    log_info("this head serves, epoch %llu", (unsigned long long)daemon->epoch);
    daemon->lead_fd = fd_take(&fd);
    return 0;
}
