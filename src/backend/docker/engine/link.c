/* Connections to an engine: see engine/link.h. Called by the engine client's files. Invariant: a connection that hangs
 * never holds its caller longer than it agreed to. */
#include "backend/docker/engine/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define CONNECT_MS 10000u
#define STOP_LOOK_MS 200 /* how often a caller's stop is looked at */
#define KEEP_ALIVE_S 30  /* a machine that vanished is noticed after about twice that */

static int link_connect_unix(const char *path, int *ret_fd);
static int link_connect_tcp(const struct engine_place *place, const struct engine_wait *wait, int *ret_fd,
                            struct err *err);

static int link_wait_fd(int fd, short events, const struct engine_wait *wait, struct err *err);

static int link_unreached(const struct engine_place *place, int number, struct err *err) {
    const char *fix = place->unix_path ? "start it (`systemctl start docker`, or `podman system service`)"
                                       : "is it running there, and does it listen on that port?";
    if (number == EACCES || number == EPERM)
        return err_set(err, ERR_DENIED,
                       "the container engine at %s: no permission to use its socket; be in its group (`docker`), or "
                       "name an engine of your own (DOCKER_HOST, docker_host)",
                       place->url);
    return err_set(err, ERR_BUSY,
                   "the container engine at %s cannot be reached (%s): %s, or name another one (DOCKER_HOST, "
                   "docker_host)",
                   place->url, strerror(number), fix);
}

int engine_link_open(const struct engine_place *place, const struct engine_wait *wait, struct engine_link **ret_link,
                     struct err *err) {
    int fd = -1, code = 0;
    struct engine_wait connecting = *wait;
    if (connecting.end_ms > clock_ms() + CONNECT_MS)
        connecting.end_ms = clock_ms() + CONNECT_MS;
    if (place->unix_path) {
        int number = link_connect_unix(place->unix_path, &fd);
        if (number)
            return link_unreached(place, number, err);
    } else if ((code = link_connect_tcp(place, &connecting, &fd, err)) < 0) {
        return code;
    }
    struct engine_link *link = xmalloc(sizeof *link); /* not zeroed: its input is large */
    link->fd = fd;
    link->tls = NULL;
    link->at = link->len = 0;
    link->read_events = POLLIN;
    link->write_events = POLLOUT;
    if (place->tls && (code = engine_tls_open(place, &connecting, link, err)) < 0) {
        engine_link_close(link);
        return code;
    }
    *ret_link = link;
    return 0;
}

void engine_link_close(struct engine_link *link) {
    if (!link)
        return;
    engine_tls_close(link->tls);
    fd_close(&link->fd);
    free(link);
}

/* A unix socket connects at once, or its listener's queue is full: then a little patience. */
static int link_connect_unix(const char *path, int *ret_fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path) + 1);
    autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    for (uint64_t end_ms = clock_ms() + CONNECT_MS;;) {
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
            *ret_fd = fd_take(&fd);
            return 0;
        }
        if (errno != EAGAIN && errno != EINTR)
            return errno;
        if (clock_ms() > end_ms)
            return ETIMEDOUT;
        poll(NULL, 0, 20);
    }
}

static void link_tune(int fd) {
    int on = 1, idle = KEEP_ALIVE_S, every = KEEP_ALIVE_S / 3, count = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/* 0 or an errno. */
static int link_try(const struct addrinfo *info, const struct engine_wait *wait, int *ret_fd, struct err *err) {
    autofd fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    if (connect(fd, info->ai_addr, info->ai_addrlen) < 0) {
        if (errno != EINPROGRESS)
            return errno;
        if (link_wait_fd(fd, POLLOUT, wait, err) < 0)
            return ETIMEDOUT;
        int number = 0;
        socklen_t len = sizeof number;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &len) < 0 || number)
            return number ? number : errno;
    }
    link_tune(fd);
    *ret_fd = fd_take(&fd);
    return 0;
}

static int link_connect_tcp(const struct engine_place *place, const struct engine_wait *wait, int *ret_fd,
                            struct err *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *found = NULL;
    int failed = getaddrinfo(place->host, place->port, &hints, &found);
    if (failed)
        return err_set(err, ERR_BUSY, "the container engine at %s: its host is not found (%s)", place->url,
                       gai_strerror(failed));
    int number = EHOSTUNREACH;
    for (const struct addrinfo *info = found; info && number; info = info->ai_next)
        number = link_try(info, wait, ret_fd, err);
    freeaddrinfo(found);
    return number ? link_unreached(place, number, err) : 0;
}

bool engine_link_fresh(struct engine_link *link) {
    struct pollfd poller = {.fd = link->fd, .events = POLLIN | POLLRDHUP};
    return link->len == link->at && !engine_link_pending(link) && poll(&poller, 1, 0) == 0;
}

ssize_t engine_link_recv(struct engine_link *link, void *data, size_t len) {
    link->read_events = POLLIN;
    if (link->tls)
        return engine_tls_recv(link->tls, data, len, &link->read_events);
    ssize_t got;
    while ((got = recv(link->fd, data, len, 0)) < 0 && errno == EINTR)
        ;
    return got < 0 ? -errno : got;
}

ssize_t engine_link_send(struct engine_link *link, const void *data, size_t len) {
    link->write_events = POLLOUT;
    if (link->tls)
        return engine_tls_send(link->tls, data, len, &link->write_events);
    ssize_t sent;
    while ((sent = send(link->fd, data, len, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return sent < 0 ? -errno : sent;
}

bool engine_link_pending(struct engine_link *link) {
    return link->tls && engine_tls_pending(link->tls);
}

void engine_link_shut(struct engine_link *link) {
    if (link->tls)
        engine_tls_shut(link->tls);
    else
        shutdown(link->fd, SHUT_WR);
}

int engine_link_wait(struct engine_link *link, short events, const struct engine_wait *wait, struct err *err) {
    return link_wait_fd(link->fd, events, wait, err);
}

static int link_wait_fd(int fd, short events, const struct engine_wait *wait, struct err *err) {
    for (;;) {
        struct pollfd pollers[2] = {{.fd = fd, .events = events}, {.fd = wait->wake_fd, .events = POLLIN}};
        uint64_t now = clock_ms();
        uint64_t left = wait->end_ms > now ? wait->end_ms - now : 0;
        int slice = left > 3600000 ? 3600000 : (int)left;
        if (wait->stop && slice > STOP_LOOK_MS)
            slice = STOP_LOOK_MS;
        int ready = poll(pollers, wait->wake_fd > 0 ? 2 : 1, slice);
        if (ready < 0 && errno != EINTR)
            return err_errno(err, errno, "poll");
        if ((wait->stop && atomic_load(wait->stop)) || (ready > 0 && wait->wake_fd > 0 && pollers[1].revents))
            return err_set(err, ERR_GONE, "given up");
        if (ready > 0 && pollers[0].revents)
            return 0;
        if (clock_ms() >= wait->end_ms)
            return err_set(err, ERR_TIMEOUT, "no answer in time");
    }
}

int engine_link_failed(const struct engine_link *link, const char *doing, int number, struct err *err) {
    const char *reason = link->tls ? engine_tls_reason(link->tls) : NULL;
    if (reason && strstr(reason, "certificate"))
        return err_set(
            err, ERR_DENIED,
            "it refuses who we are (%s): cert.pem and key.pem of docker_cert_dir (DOCKER_CERT_PATH) have to be "
            "signed by whom it trusts",
            reason);
    return err_set(err, ERR_IO, "%s: %s", doing, reason ? reason : strerror(number));
}

ssize_t engine_link_fill(struct engine_link *link, const struct engine_wait *wait, struct err *err) {
    if (link->at == link->len)
        link->at = link->len = 0;
    if (link->len == sizeof link->input) {
        memmove(link->input, link->input + link->at, link->len - link->at);
        link->len -= link->at;
        link->at = 0;
    }
    if (link->len == sizeof link->input)
        return err_set(err, ERR_TOO_LARGE, "its answer's head is too long");
    for (;;) {
        ssize_t got = engine_link_recv(link, link->input + link->len, sizeof link->input - link->len);
        if (got >= 0) {
            link->len += (size_t)got;
            return got;
        }
        if (got != -EAGAIN)
            return engine_link_failed(link, "receiving", (int)-got, err);
        int code = engine_link_wait(link, link->read_events, wait, err);
        if (code < 0)
            return code;
    }
}
