/* One client connection: parked, reading a head, serving, lingering, gone. Called by worker.c with an event in hand.
 *
 *   IDLE   nothing of the next request has come             limit idle_timeout_ms, then closed
 *   HEAD   some of a head (or of a TLS handshake) has come  limit head_timeout_ms, then 408
 *   ACTIVE a worker serves a request                        no limit here: body and write limits apply
 *   LINGER refused while still sending: input is dropped    limit HTTP_LINGER_MS, then closed
 *
 * Invariant: rules 1 and 2 of internal.h. Each list has one time limit, so its order is the order of deadlines; a
 * connection in HEAD keeps its place while a worker reads more of it, so trickling bytes buy no time. */
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/base.h"
#include "base/sync.h"
#include "http/internal.h"

static void conn_close(struct http_server *server, struct conn *conn) {
    pthread_mutex_lock(&server->lock);
    conn->link.prev->next = conn->link.next;
    conn->link.next->prev = conn->link.prev;
    server->list_counts[conn->list]--;
    server->connections--;
    if (atomic_load(&server->stopping))
        pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    if (conn->reset) {
        struct linger now = {.l_onoff = 1, .l_linger = 0};
        setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    tls_free(conn->tls, !conn->reset);
    close(conn->fd);
    free(conn->partial);
    free(conn->peer);
    free(conn);
}

static unsigned conn_list_limit_ms(const struct http_server *server, enum conn_list list) {
    switch (list) {
    case LIST_IDLE:
        return server->config.idle_timeout_ms;
    case LIST_HEAD:
        return server->config.head_timeout_ms;
    default:
        return HTTP_LINGER_MS;
    }
}

static void conn_list_move_locked(struct http_server *server, struct conn *conn, enum conn_list list) {
    conn->link.prev->next = conn->link.next;
    conn->link.next->prev = conn->link.prev;
    server->list_counts[conn->list]--;
    conn->list = (uint8_t)list;
    server->list_counts[list]++;
    struct conn_link *head = &server->lists[list];
    conn->link.prev = head->prev;
    conn->link.next = head;
    head->prev->next = &conn->link;
    head->prev = &conn->link;
    if (list != LIST_ACTIVE)
        conn->deadline_ms = clock_ms() + conn_list_limit_ms(server, list);
}

struct conn *conn_new(struct http_server *server, int fd, bool unix_socket, bool loopback, bool tls) {
    struct conn *conn = xcalloc(1, sizeof *conn);
    *conn = (struct conn){.kind = SOURCE_CONN,
                          .fd = fd,
                          .list = LIST_IDLE,
                          .unix_socket = unix_socket,
                          .loopback = loopback,
                          .uid = (uid_t)-1};
    if (unix_socket) {
        struct ucred peer;
        socklen_t size = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
            conn->uid = peer.uid;
    }
    pthread_mutex_lock(&server->lock); /* the certificate may change at any time */
    struct ssl_ctx_st *context = tls ? tls_context_ref(server->tls) : NULL;
    pthread_mutex_unlock(&server->lock);
    conn->tls = context ? tls_new(context, fd) : NULL;
    tls_context_free(context);
    conn->link.prev = conn->link.next = &conn->link;
    pthread_mutex_lock(&server->lock);
    bool refuse = atomic_load(&server->stopping) || (tls && !conn->tls);
    server->connections++;
    server->list_counts[LIST_IDLE]++; /* counted as if there; conn_list_move_locked removes it */
    conn_list_move_locked(server, conn, LIST_IDLE);
    pthread_mutex_unlock(&server->lock);
    if (!refuse)
        return conn;
    conn_close(server, conn);
    return NULL;
}

void conn_leave(struct http_server *server, struct conn *conn) {
    int operation = conn->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    conn->watched = true; /* before: then it belongs to the next owner */
    if (conn_arm(server, conn, conn->fd, operation) < 0)
        conn_close(server, conn);
}

int conn_arm(struct http_server *server, void *source, int fd, int operation) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, .data.ptr = source};
    return epoll_ctl(server->epoll, operation, fd, &event) < 0 ? -errno : 0;
}

/* ---- serving ---- */

static void conn_park(struct http_server *server, struct conn *conn, enum conn_list list) {
    pthread_mutex_lock(&server->lock);
    if (conn->list != list)
        conn_list_move_locked(server, conn, list);
    /* Meanwhile the ticker may have expired it, or the server may be stopping: then an event is due at once. */
    if (conn->expired || atomic_load(&server->stopping)) {
        conn->expired = true;
        shutdown(conn->fd, SHUT_RD);
    }
    pthread_mutex_unlock(&server->lock);
    conn_leave(server, conn);
}

/* Unparks the connection and puts a partial head back into the scratch. Returns false if it was handled. */
static bool conn_claim(struct worker *worker, struct conn *conn) {
    struct http_server *server = worker->server;
    pthread_mutex_lock(&server->lock);
    if (conn->list == LIST_IDLE)
        conn_list_move_locked(server, conn, LIST_ACTIVE);
    bool expired = conn->expired;
    pthread_mutex_unlock(&server->lock);
    if (conn->list == LIST_LINGER) {
        ssize_t n = 1;
        for (int i = 0; i < 16 && n > 0 && !expired; i++)
            n = recv(conn->fd, worker->scratch, sizeof worker->scratch, MSG_DONTWAIT);
        if (expired || n == 0 || (n < 0 && errno != EAGAIN))
            conn_close(worker->server, conn);
        else
            conn_park(worker->server, conn, LIST_LINGER);
        return false;
    }
    if (expired) {
        bool answer = conn->list == LIST_HEAD && (!conn->tls || tls_ready(conn->tls));
        if (answer && !atomic_load(&server->stopping))
            request_refuse(worker, conn, 408);
        conn_close(server, conn);
        return false;
    }
    worker->have = conn->partial_len;
    if (conn->partial) {
        memcpy(worker->scratch, conn->partial, conn->partial_len);
        free(conn->partial);
        conn->partial = NULL;
        conn->partial_len = 0;
    }
    return true;
}

/* Closing a socket with unread input makes the kernel send RST, which can destroy the answer on its way. So half-close,
 * drop the input, and close when the client does. */
static void conn_linger(struct http_server *server, struct conn *conn) {
    tls_free(conn->tls, true);
    conn->tls = NULL;
    shutdown(conn->fd, SHUT_WR);
    conn_park(server, conn, LIST_LINGER);
}

/* Reads until a whole head is in the scratch. Returns its end, or 0 if the connection was parked or closed. */
static int conn_read_head(struct worker *worker, struct conn *conn) {
    struct http_server *server = worker->server;
    for (;;) {
        int end = head_scan(&conn->scan, worker->scratch, worker->have);
        if (end > 0)
            return end;
        if (end < 0) {
            request_refuse(worker, conn, -end);
            conn_linger(server, conn);
            return 0;
        }
        short events;
        size_t room = sizeof worker->scratch - worker->have;
        ssize_t n = conn_recv(conn, worker->scratch + worker->have, room, &events);
        if (n == -EAGAIN) {
            bool begun = worker->have || (conn->tls && !tls_ready(conn->tls));
            if (worker->have) {
                conn->partial_len = (uint32_t)worker->have;
                conn->partial = xmalloc(worker->have);
                memcpy(conn->partial, worker->scratch, worker->have);
            }
            conn_park(server, conn, begun ? LIST_HEAD : LIST_IDLE);
            return 0;
        }
        if (n <= 0) {
            conn_close(server, conn);
            return 0;
        }
        worker->have += (size_t)n;
    }
}

void conn_event(struct worker *worker, struct conn *conn) {
    struct http_server *server = worker->server;
    if (!conn_claim(worker, conn))
        return;
    for (int served = 0;; served++) {
        if (served) /* a client that pipelines endlessly must not keep others waiting */
            worker_relieve(worker);
        int end = conn_read_head(worker, conn);
        if (!end)
            return;
        if (conn->list != LIST_ACTIVE) {
            autolock(&server->lock);
            conn_list_move_locked(server, conn, LIST_ACTIVE);
        }
        struct http_request *request = &worker->request;
        request_serve(worker, conn, conn->scan.start, (size_t)end - conn->scan.start);
        memset(&conn->scan, 0, sizeof conn->scan);
        if (request->aborted || request->close) {
            conn->reset = request->aborted;
            bool all_read = request->aborted || http_body_done(request);
            int unread = 0;
            if (all_read && (conn->reset || ioctl(conn->fd, FIONREAD, &unread) < 0 || !unread))
                conn_close(server, conn);
            else
                conn_linger(server, conn);
            return;
        }
        worker->have = request->in_end - request->in_at;
        memmove(worker->scratch, worker->scratch + request->in_at, worker->have);
        if (!worker->have && !(conn->tls && tls_pending(conn->tls))) {
            conn_park(server, conn, LIST_IDLE);
            return;
        }
    }
}

/* ---- parking and closing ---- */

static struct conn *conn_of(struct conn_link *link) {
    return container_of(link, struct conn, link);
}

bool conn_evict_locked(struct http_server *server) {
    static const enum conn_list order[] = {LIST_LINGER, LIST_HEAD, LIST_IDLE};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        struct conn_link *head = &server->lists[order[i]];
        struct conn_link *at = head->next;
        while (at != head && conn_of(at)->expired) /* already being closed */
            at = at->next;
        if (at == head)
            continue;
        conn_of(at)->expired = true;
        shutdown(conn_of(at)->fd, SHUT_RD);
        return true;
    }
    return false;
}

/* Expired connections are only marked and shut down for reading: the owner gets an event, or finds the mark. */
void conn_expire(struct http_server *server, uint64_t now_ms) {
    autolock(&server->lock);
    for (int list = LIST_IDLE; list <= LIST_LINGER; list++) {
        for (struct conn_link *at = server->lists[list].next; at != &server->lists[list]; at = at->next) {
            struct conn *conn = conn_of(at);
            if (conn->deadline_ms > now_ms)
                break;
            if (conn->expired)
                continue;
            conn->expired = true;
            shutdown(conn->fd, SHUT_RD);
        }
    }
}

static void conn_cut_locked(struct conn *conn, int how) {
    atomic_store(&conn->cut, true);
    if (conn->leave)
        conn->leave(conn->leave_user);
    else
        shutdown(conn->fd, how);
}

void http_lasting(struct http_request *request, void (*leave)(void *user), void *user) {
    struct http_server *server = request->server;
    struct conn *conn = request->conn;
    if (leave)
        worker_rest(request->worker);
    autolock(&server->lock);
    server->lasting += (leave != NULL) - (conn->leave != NULL);
    conn->leave = leave;
    conn->leave_user = user;
    pthread_cond_broadcast(&server->changed);
}

void conn_shutdown_all(struct http_server *server, bool active_too) {
    autolock(&server->lock);
    for (int list = LIST_IDLE; list <= (active_too ? LIST_ACTIVE : LIST_HEAD); list++) {
        for (struct conn_link *at = server->lists[list].next; at != &server->lists[list]; at = at->next) {
            conn_of(at)->expired = true;
            if (list == LIST_ACTIVE) /* its handler sees a client that hung up, and can still answer */
                conn_cut_locked(conn_of(at), SHUT_RD);
            else
                shutdown(conn_of(at)->fd, SHUT_RD);
        }
    }
}

void conn_shutdown_lasting(struct http_server *server) {
    autolock(&server->lock);
    for (struct conn_link *at = server->lists[LIST_ACTIVE].next; at != &server->lists[LIST_ACTIVE]; at = at->next)
        shutdown(conn_of(at)->fd, SHUT_RDWR);
}

/* ---- owners ---- */

void http_own(struct http_request *request, const void *owner) {
    atomic_store(&request->conn->owner, owner);
}

void http_server_cut(struct http_server *server, const void *owner, const struct http_request *but) {
    autolock(&server->lock);
    for (struct conn_link *at = server->lists[LIST_ACTIVE].next; at != &server->lists[LIST_ACTIVE]; at = at->next)
        if (atomic_load(&conn_of(at)->owner) == owner && !(but && but->conn == conn_of(at)))
            conn_cut_locked(conn_of(at), SHUT_RDWR);
}

bool http_is_cut(const struct http_request *request) {
    return atomic_load(&request->conn->cut);
}

/* ---- bytes ---- */

ssize_t conn_recv(struct conn *conn, void *data, size_t len, short *ret_events) {
    *ret_events = POLLIN;
    if (conn->tls)
        return tls_recv(conn->tls, data, len, ret_events);
    ssize_t n;
    do
        n = recv(conn->fd, data, len, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static ssize_t conn_offer(struct conn *conn, const struct iovec *parts, int count, int flags, short *ret_events) {
    *ret_events = POLLOUT;
    if (conn->tls)
        return tls_send(conn->tls, parts[0].iov_base, parts[0].iov_len, ret_events);
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = (size_t)count};
    ssize_t n;
    do
        n = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t conn_send_some(struct conn *conn, const struct iovec *parts, int count, short *ret_events) {
    return conn_offer(conn, parts, count, 0, ret_events);
}

/* For TLS: joins small parts into one record. Returns how many parts there are now. */
static int conn_gather(char *to, size_t size, struct iovec *parts, int count) {
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += parts[i].iov_len;
    if (len > size)
        return count;
    len = 0;
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len)
            memcpy(to + len, parts[i].iov_base, parts[i].iov_len);
        len += parts[i].iov_len;
    }
    parts[0] = (struct iovec){to, len};
    return 1;
}

static int conn_send_parts(struct worker *worker, struct conn *conn, struct iovec *parts, int count, int flags) {
    while (count > 0) {
        if (!parts->iov_len) {
            parts++;
            count--;
            continue;
        }
        short events;
        ssize_t n = conn_offer(conn, parts, count, flags, &events);
        if (n == -EAGAIN) {
            int ready = conn_wait_paced(worker, conn, events, &worker->request.pace_out);
            if (ready <= 0)
                return ready == 0 ? -ERR_TIMEOUT : -ERR_GONE;
            continue;
        }
        if (n <= 0)
            return -ERR_GONE;
        while (count > 0 && (size_t)n >= parts->iov_len) {
            n -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + n;
            parts->iov_len -= (size_t)n;
        }
    }
    return 0;
}

static __attribute__((noinline)) int conn_send_tls(struct worker *worker, struct conn *conn, struct iovec *parts,
                                                   int count) {
    char record[16384];
    return conn_send_parts(worker, conn, parts, conn_gather(record, sizeof record, parts, count), 0);
}

int conn_send(struct worker *worker, struct conn *conn, struct iovec *parts, int count, int flags) {
    if (conn->tls && count > 1)
        return conn_send_tls(worker, conn, parts, count);
    return conn_send_parts(worker, conn, parts, count, flags);
}

int conn_wait(struct worker *worker, struct conn *conn, short events, unsigned timeout_ms) {
    worker_relieve(worker);
    uint64_t end_ms = clock_ms() + timeout_ms;
    for (;;) {
        uint64_t now_ms = clock_ms();
        if (now_ms >= end_ms)
            return 0;
        struct pollfd ready = {.fd = conn->fd, .events = events};
        int n = poll(&ready, 1, (int)(end_ms - now_ms));
        if (n > 0)
            return ready.revents & (events | POLLHUP) ? 1 : -1;
        if (n < 0 && errno != EINTR)
            return -1;
    }
}

/* ---- patience ---- */

void pace_init(struct pace *pace, unsigned full_ms, unsigned rate) {
    *pace = (struct pace){.left_us = full_ms * 1000ull, .full_us = full_ms * 1000ull, .rate = rate};
}

void pace_moved(struct pace *pace, uint64_t bytes) {
    if (!bytes)
        return;
    uint64_t room = pace->full_us - pace->left_us;
    uint64_t more = pace->rate && bytes < pace->full_us ? bytes * 1000000 / pace->rate : room;
    pace->left_us += more < room ? more : room;
}

/* Returns the bytes that the client has not received yet. */
static int conn_queued(const struct conn *conn) {
    int queued = 0;
    return ioctl(conn->fd, SIOCOUTQ, &queued) < 0 ? 0 : queued;
}

int conn_wait_paced(struct worker *worker, struct conn *conn, short events, struct pace *pace) {
    enum { LOOK_MS = 1000 }; /* a socket becomes writable only when a third of a large queue was sent */
    bool out = events & POLLOUT;
    worker_relieve(worker);
    for (int queued = out ? conn_queued(conn) : 0; pace->left_us;) {
        struct pollfd ready = {.fd = conn->fd, .events = events};
        uint64_t most_ms = pace->left_us / 1000 + 1, start_us = clock_us();
        int n = poll(&ready, 1, out && most_ms > LOOK_MS ? LOOK_MS : (int)most_ms);
        int number = errno;
        uint64_t waited_us = clock_us() - start_us;
        pace->left_us -= waited_us < pace->left_us ? waited_us : pace->left_us;
        if (out) {
            int now = conn_queued(conn);
            pace_moved(pace, now < queued ? (uint64_t)(queued - now) : 0);
            queued = now;
        }
        if (n > 0)
            return ready.revents & (events | POLLHUP) ? 1 : -1;
        if (n < 0 && number != EINTR)
            return -1;
    }
    return 0;
}
