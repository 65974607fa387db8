/* Makes the sockets of capture.h. Called by the daemon's thread, or by the runner's process, that entered the box's
 * network namespace. Invariant: all are transparent, which nothing in the box can have: nothing in the box can take
 * their place. */
#include "wire/capture.h"

#include <linux/netlink.h>
#include <netinet/in.h>

#include "base/base.h"

static int capture_inet(int type, uint32_t address, uint16_t port, struct err *err) {
    autofd fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
    int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_IP, IP_TRANSPARENT, &on, sizeof on) < 0)
        return err_errno(err, errno, "socket of a captured network");
    if (type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        return err_errno(err, errno, "SO_REUSEADDR");
    if (type == SOCK_DGRAM && setsockopt(fd, SOL_IP, IP_PKTINFO, &on, sizeof on) < 0)
        return err_errno(err, errno, "IP_PKTINFO");
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 || (type == SOCK_STREAM && listen(fd, 1024) < 0))
        return errno == EADDRINUSE
                   ? err_set(err, ERR_BUSY,
                             "port %u of the box's network is taken: by a program in it, or by another daemon", port)
                   : err_errno(err, errno, "port %u of a captured network", port);
    return fd_take(&fd);
}

static int capture_netlink(int protocol, struct err *err) {
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    return fd >= 0 ? fd
                   : err_set(err, ERR_UNSUPPORTED, "the kernel has no %s: %s",
                             protocol == NETLINK_NETFILTER ? "nf_tables; modprobe nf_tables"
                                                           : "inet_diag; modprobe inet_diag",
                             strerror(errno));
}

void capture_close(int fds[CAPTURE_MAX]) {
    for (size_t i = 0; i < CAPTURE_MAX; i++)
        fd_close(&fds[i]);
}

int capture_make(bool again, const uint16_t *ports, size_t count, int ret_fds[CAPTURE_MAX], struct err *err) {
    int fds[CAPTURE_MAX], r = 0;
    for (size_t i = 0; i < CAPTURE_MAX; i++)
        fds[i] = -1;
    for (size_t i = again ? CAPTURE_ROUTE : 0; r >= 0 && i < CAPTURE_UDP + count && i < CAPTURE_MAX; i++) {
        switch ((enum capture_socket)i) {
        case CAPTURE_TCP:
            r = capture_inet(SOCK_STREAM, CAPTURE_LISTENER, 1, err);
            break;
        case CAPTURE_DNS_UDP:
            r = capture_inet(SOCK_DGRAM, CAPTURE_RESOLVER, 53, err);
            break;
        case CAPTURE_DNS_TCP:
            r = capture_inet(SOCK_STREAM, CAPTURE_RESOLVER, 53, err);
            break;
        case CAPTURE_DIAG:
            r = capture_netlink(NETLINK_SOCK_DIAG, err);
            break;
        case CAPTURE_ROUTE:
            r = capture_netlink(NETLINK_ROUTE, err);
            break;
        case CAPTURE_NETFILTER:
            r = capture_netlink(NETLINK_NETFILTER, err);
            break;
        default:
            r = capture_inet(SOCK_DGRAM, INADDR_ANY, ports[i - CAPTURE_UDP], err);
        }
        fds[i] = r;
    }
    if (r < 0) {
        capture_close(fds);
        return r;
    }
    memcpy(ret_fds, fds, sizeof fds);
    return 0;
}
