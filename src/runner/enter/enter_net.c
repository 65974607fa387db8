/* The box's network: the loopback, its resolv.conf, and sockets of a policy. Called by the outer half, which is in the
 * box's network namespace (an ordinary user's inner half sets up its own loopback). Invariant: the daemon sets
 * addresses and routes; the box itself never does. */
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "base/base.h"
#include "wire/capture.h"
#include "runner/enter/enter.h"
#include "runner/runner.h"

static int net_interface_up(int socket_fd, const char *name) {
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    return ioctl(socket_fd, SIOCSIFFLAGS, &request);
}

int enter_loopback(struct enter *, struct err *err) {
    autofd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || net_interface_up(fd, "lo") < 0)
        return err_errno(err, errno, "lo");
    return 0;
}

/* Called inside, after the mounts. */
int enter_resolv(struct enter *enter, struct err *err) {
    if (!enter->resolv)
        return 0;
    autofd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    autofd dir = root < 0 ? -1 : path_open(root, "/etc", O_PATH | O_DIRECTORY, 0);
    if (dir < 0)
        return 0; /* a template without /etc cannot resolve names anyway */
    unlinkat(dir, "resolv.conf", 0);
    autofd fd = openat(dir, "resolv.conf", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    int r = fd < 0 ? -errno : fd_write_all(fd, enter->resolv, strlen(enter->resolv));
    return r < 0 ? err_errno(err, -r, "/etc/resolv.conf") : 0;
}

/* ---- sockets of a network policy, for a daemon of an ordinary user ---- */

static int capture_enter(int socket_fd, int fds[CAPTURE_MAX], struct err *err) {
    uint16_t message[1 + CAPTURE_UDP_MAX];
    ssize_t n = recv(socket_fd, message, sizeof message, 0);
    if (n < (ssize_t)sizeof *message)
        return err_set(err, ERR_PROTOCOL, "the daemon is gone");
    if (setns(PLAN_CAPTURE_USER_FD, CLONE_NEWUSER) < 0 || setns(PLAN_CAPTURE_NET_FD, CLONE_NEWNET) < 0)
        return err_errno(err, errno, "cannot enter the box's network namespace");
    return capture_make(message[0], message + 1, (size_t)n / sizeof *message - 1, fds, err);
}

/* `cubby-runner capture`: enters the namespaces of descriptors 4 and 5, makes the sockets of wire/capture.h there, and
 * sends them through 3: {number} and a descriptor each; then {0xff}, or {0xff, code, text}. */
int capture_main(void) {
    struct err err = {0};
    int fds[CAPTURE_MAX];
    char text[sizeof err.text + 2] = {(char)0xff};
    size_t len = 1;
    int r = capture_enter(PLAN_STAGE_FD, fds, &err);
    for (uint8_t i = 0; r >= 0 && i < CAPTURE_MAX; i++)
        if (fds[i] >= 0 && fd_send(PLAN_STAGE_FD, &i, 1, fds[i], 0) < 0)
            return 125;
    if (r < 0) {
        text[1] = (char)err.code;
        len = 2 + (size_t)snprintf(text + 2, sizeof text - 2, "%s", err.text);
    }
    return fd_send(PLAN_STAGE_FD, text, len, -1, 0) < 0 ? 125 : 0;
}
