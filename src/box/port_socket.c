/* Sockets in a box's network namespace, and those that are idle. Called by box_duplex.c, by the port proxy of the
 * dialects and at the end of a box. Invariants:
 *
 * 1. A thread is in a box's namespace only while it makes a socket; where it cannot come back the program ends.
 * 2. Only 127.0.0.1 and ::1 are ever connected to, and the socket is made here: its options are ours, not the
 *    box's.
 * 3. An idle connection belongs to one box and one port, is never used after an error, and ends with its box. */
#include "box/port_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"

/* Servers close idle connections after 5 seconds or more: here they end before that. */
enum { CONNECT_MS = 10000, IDLE_MS = 4000, IDLE_MOST = 256, IDLE_PER_PORT = 8, KEEPER_STACK_BYTES = 64 << 10 };

/* ---- entering ---- */

static pthread_once_t port_socket_once = PTHREAD_ONCE_INIT;
static int port_socket_home = -1; /* the daemon's own network namespace */

static void port_socket_find_home(void) {
    port_socket_home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* A socket of the box's network, or -errno. */
static int port_socket_make(const struct box *box, int family) {
    const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    int fd;
    if (box->ops->host_network) {
        fd = socket(family, type, 0);
        return fd < 0 ? -errno : fd;
    }
    pthread_once(&port_socket_once, port_socket_find_home);
    if (port_socket_home < 0 || box->pidfd < 0)
        return -EPERM;
    if (setns(box->pidfd, CLONE_NEWNET) < 0) {
        /* Whatever the reason is, the runner can still be asked. But out of memory is out of memory. */
        return errno == ENOMEM ? -ENOMEM : -EPERM;
    }
    fd = socket(family, type, 0);
    int number = errno;
    if (setns(port_socket_home, CLONE_NEWNET) < 0) {
        log_error("cannot leave the network of box %s: %m", box->id);
        abort();
    }
    return fd < 0 ? -number : fd;
}

/* ---- connecting ---- */

/* Until it is connected: 0, -errno; 1: the client hung up. */
static int port_socket_await(int fd, int client_fd, uint64_t end_ms) {
    for (;;) {
        uint64_t now_ms = clock_ms();
        if (now_ms >= end_ms)
            return -ETIMEDOUT;
        struct pollfd polls[2] = {{.fd = fd, .events = POLLOUT}, {.fd = client_fd, .events = POLLRDHUP}};
        int count = poll(polls, 2, (int)(end_ms - now_ms));
        if (count < 0 && errno != EINTR)
            return -errno;
        if (count > 0 && polls[0].revents == POLLOUT)
            return 0;
        if (count > 0 && polls[0].revents) {
            int number = 0;
            socklen_t size = sizeof number;
            return getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size) < 0 ? -errno : -number;
        }
        if (count > 0 && polls[1].revents)
            return 1;
    }
}

/* 0 and the descriptor, -errno; 1: the client hung up. */
static int port_socket_connect(const struct box *box, int family, uint16_t port, int client_fd, int *ret_fd) {
    const struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int on = 1;
    autofd fd = port_socket_make(box, family);
    if (fd < 0)
        return fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int r = family == AF_INET ? connect(fd, (const struct sockaddr *)&in, sizeof in)
                              : connect(fd, (const struct sockaddr *)&in6, sizeof in6);
    if (r < 0 && errno != EINPROGRESS)
        return -errno;
    r = r < 0 ? port_socket_await(fd, client_fd, clock_ms() + CONNECT_MS) : 0;
    if (r == 0)
        *ret_fd = fd_take(&fd);
    return r;
}

static bool port_socket_absent(int r) {
    return r == -ECONNREFUSED || r == -EADDRNOTAVAIL || r == -EAFNOSUPPORT || r == -ENETUNREACH;
}

int port_socket_open(struct box *box, uint16_t port, int client_fd, int *ret_fd, struct err *err) {
    if (box->ops->host_network && !box_alive(box))
        return 1; /* the call says why; other boxes' networks end with them */
    if (atomic_fetch_add(&box->port_sockets, 1) >= LIMIT_CONNECTS) {
        atomic_fetch_sub(&box->port_sockets, 1);
        return err_set(err, ERR_LIMIT, "the box has %u connections to its ports, which is the limit", LIMIT_CONNECTS);
    }
    int r = port_socket_connect(box, AF_INET, port, client_fd, ret_fd);
    if (port_socket_absent(r))
        r = port_socket_connect(box, AF_INET6, port, client_fd, ret_fd);
    if (r == 0)
        return 0;
    atomic_fetch_sub(&box->port_sockets, 1);
    if (r == -EPERM)
        return 1;
    if (r == 1)
        return err_set(err, ERR_GONE, "the client hung up");
    if (port_socket_absent(r))
        return err_set(err, ERR_NOT_FOUND, "nothing listens on port %u in the box", port);
    if (r == -ETIMEDOUT)
        return err_set(err, ERR_TIMEOUT, "the server on port %u does not take connections", port);
    return err_errno(err, -r, "connecting to port %u in the box", port);
}

void port_socket_close(struct box *box, int *fd) {
    if (*fd < 0)
        return;
    fd_close(fd);
    atomic_fetch_sub(&box->port_sockets, 1);
}

void port_socket_wait(struct box *box) {
    atomic_fetch_add(&box->port_waits, 1);
}

void port_socket_waited(struct box *box) {
    atomic_fetch_sub(&box->port_waits, 1);
}

/* ---- idle ---- */

struct port_idle {
    struct box *box; /* not a reference: port_socket_end comes before its end */
    uint16_t port;
    int fd;
    uint64_t until_ms;
};

static struct port_idles {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct port_idle list[IDLE_MOST]; /* the oldest first */
    size_t count;
    bool kept; /* a thread waits for the oldest one's time */
} port_idles = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int port_socket_remove_locked(size_t i) {
    int fd = port_idles.list[i].fd;
    port_idles.count--;
    for (; i < port_idles.count; i++)
        port_idles.list[i] = port_idles.list[i + 1];
    return fd;
}

/* Nothing has come, and the server has not ended. */
static bool port_socket_quiet(int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

int port_socket_take(struct box *box, uint16_t port) {
    autolock(&port_idles.lock);
    for (size_t i = port_idles.count; i-- > 0;) {
        if (port_idles.list[i].box != box || port_idles.list[i].port != port)
            continue;
        int fd = port_socket_remove_locked(i);
        if (port_socket_quiet(fd)) {
            atomic_fetch_add(&box->port_sockets, 1);
            return fd;
        }
        fd_close(&fd);
    }
    return -1;
}

void port_socket_clear(const struct box *box, uint16_t port) {
    autolock(&port_idles.lock);
    for (size_t i = port_idles.count; i-- > 0;)
        if (port_idles.list[i].box == box && (!port || port_idles.list[i].port == port)) {
            int fd = port_socket_remove_locked(i);
            fd_close(&fd);
        }
}

void port_socket_end(struct box *box) {
    if (atomic_load(&box->port_used))
        port_socket_clear(box, 0);
}

static void port_socket_begin(void) {
    cond_init(&port_idles.changed);
}

/* Closes what has been idle for too long; ends when nothing is. */
static void *port_socket_keeper(void *) {
    pthread_mutex_lock(&port_idles.lock);
    while (port_idles.count) {
        uint64_t until_ms = port_idles.list[0].until_ms;
        if (clock_ms() < until_ms) {
            cond_wait_until(&port_idles.changed, &port_idles.lock, until_ms);
            continue;
        }
        int fd = port_socket_remove_locked(0);
        fd_close(&fd);
    }
    port_idles.kept = false;
    pthread_mutex_unlock(&port_idles.lock);
    return NULL;
}

static bool port_socket_room_locked(const struct box *box, uint16_t port) {
    size_t same = 0;
    for (size_t i = 0; i < port_idles.count; i++)
        same += port_idles.list[i].box == box && port_idles.list[i].port == port;
    return same < IDLE_PER_PORT && port_idles.count < IDLE_MOST;
}

void port_socket_keep(struct box *box, uint16_t port, int fd) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    autofd left = fd;
    atomic_fetch_sub(&box->port_sockets, 1);
    atomic_store(&box->port_used, true);
    if (atomic_load(&box->port_waits) || !port_socket_quiet(fd))
        return;
    pthread_once(&once, port_socket_begin);
    autolock(&port_idles.lock);
    if (!port_socket_room_locked(box, port))
        return;
    if (!port_idles.kept && thread_detached(port_socket_keeper, NULL, KEEPER_STACK_BYTES) != 0)
        return;
    port_idles.kept = true;
    port_idles.list[port_idles.count++] = (struct port_idle){box, port, fd_take(&left), clock_ms() + IDLE_MS};
}
