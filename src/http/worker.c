/* The threads: all wait in one epoll; the one that gets an event serves it completely and returns. No hand-off between
 * threads.
 *
 * Rules
 * 1. server->waiting counts threads in epoll_wait or about to be. A thread that leaves and may block first
 *    calls worker_relieve, which starts a thread if none is left. So a thread is always waiting, except when
 *    max_threads are all blocked: then requests queue in the kernel, and after HTTP_STARVED_MS the last thread
 *    answers 503.
 * 2. A thread takes a few events at once and serves them in turn. worker_relieve gives the unserved ones back by
 *    arming them again, so that none waits for a blocked thread.
 * 3. Waiting threads beyond HTTP_KEEP_THREADS exit when idle. The kernel wakes the last to wait first, so some do
 *    become idle. */
#include <netinet/in.h>
#include <sys/mman.h>

#include "base/base.h"
#include "base/sync.h"
#include "http/internal.h"

static void worker_accept(struct worker *worker, struct listener *listener);

/* Returns true if this thread, idle for a while, is surplus; then it is no longer counted as waiting. */
static bool worker_surplus(struct http_server *server) {
    int waiting = atomic_load(&server->waiting);
    while (waiting > HTTP_KEEP_THREADS)
        if (atomic_compare_exchange_weak(&server->waiting, &waiting, waiting - 1))
            return true;
    return false;
}

static void worker_loop(struct worker *worker) {
    struct http_server *server = worker->server;
    for (;;) {
        int n = epoll_wait(server->epoll, worker->events, worker->batch, HTTP_THREAD_IDLE_MS);
        if (n == 0 && !atomic_load(&server->quit)) {
            if (worker_surplus(server))
                return;
            continue;
        }
        atomic_fetch_sub(&server->waiting, 1);
        if (atomic_load(&server->quit))
            return;
        worker->relieved = false;
        worker->batch = worker->batch * 2 < HTTP_EVENTS ? worker->batch * 2 : HTTP_EVENTS;
        worker->event_at = 0;
        worker->event_count = n < 0 ? 0 : n;
        while (worker->event_at < worker->event_count) {
            void *source = worker->events[worker->event_at++].data.ptr;
            switch (*(uint8_t *)source) {
            case SOURCE_CONN:
                conn_event(worker, source);
                break;
            case SOURCE_LISTENER:
                worker_accept(worker, source);
                break;
            default:
                break;
            }
        }
        atomic_fetch_add(&server->waiting, 1);
        if (atomic_load(&server->starved_since_ms)) {
            autolock(&server->lock);
            atomic_store(&server->starved_since_ms, 0);
            pthread_cond_broadcast(&server->changed);
        }
    }
}

static void *worker_main(void *argument) {
    struct worker *worker = argument;
    struct http_server *server = worker->server;
    sigset_t pipe_signal; /* sendfile and OpenSSL have no MSG_NOSIGNAL */
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL);
    worker_loop(worker);
    buf_done(&worker->out);
    buf_done(&worker->extra);
    munmap(worker, sizeof *worker);
    tls_thread_end(); /* before the count changes: then the process may exit */
    autolock(&server->lock);
    server->threads--;
    pthread_cond_broadcast(&server->changed);
    return NULL;
}

int worker_start_locked(struct http_server *server) {
    if (server->threads >= server->config.max_threads)
        return -EAGAIN;
    /* Own pages: most of the scratch is never touched, and thousands of workers may wait for machines. */
    struct worker *worker =
        mmap(NULL, sizeof *worker, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (worker == MAP_FAILED)
        return -ENOMEM;
    worker->server = server;
    worker->batch = 1;
    buf_init(&worker->out, HTTP_OUT_BYTES);
    buf_init(&worker->extra, HTTP_OUT_BYTES / 2);
    server->threads++;
    atomic_fetch_add(&server->waiting, 1);
    int error = thread_detached(worker_main, worker, HTTP_STACK_BYTES);
    if (error) {
        server->threads--;
        atomic_fetch_sub(&server->waiting, 1);
        munmap(worker, sizeof *worker);
    }
    return -error;
}

void worker_rest(struct worker *worker) {
    size_t used = offsetof(struct worker, scratch) +
                  (worker->have > worker->request.in_end ? worker->have : worker->request.in_end);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), from = (used + page - 1) / page * page;
    if (from < sizeof *worker)
        madvise((char *)worker + from, sizeof *worker - from, MADV_DONTNEED);
}

bool worker_relieve(struct worker *worker) {
    struct http_server *server = worker->server;
    if (worker->relieved)
        return true;
    if (worker->event_at < worker->event_count)
        worker->batch = 1; /* handlers block here: giving events back costs more than fetching one at a time */
    while (worker->event_at < worker->event_count) {
        void *source = worker->events[worker->event_at++].data.ptr;
        if (*(uint8_t *)source == SOURCE_CONN)
            conn_arm(worker->server, source, ((struct conn *)source)->fd, EPOLL_CTL_MOD);
        else if (*(uint8_t *)source == SOURCE_LISTENER)
            conn_arm(worker->server, source, ((struct listener *)source)->fd, EPOLL_CTL_MOD);
    }
    worker->relieved = true;
    if (atomic_load(&server->waiting) <= 0) {
        autolock(&server->lock);
        if (atomic_load(&server->waiting) <= 0)
            worker->relieved = worker_start_locked(server) == 0;
    }
    return worker->relieved;
}

bool worker_relieve_wait(struct worker *worker) {
    struct http_server *server = worker->server;
    if (worker_relieve(worker))
        return true;
    autolock(&server->lock);
    /* Set before reading `waiting`; a returning thread does it in the other order, so one of the two sees the other. */
    if (!atomic_load(&server->starved_since_ms))
        atomic_store(&server->starved_since_ms, clock_ms());
    uint64_t end_ms = atomic_load(&server->starved_since_ms) + HTTP_STARVED_MS;
    while (atomic_load(&server->waiting) <= 0 && clock_ms() < end_ms)
        cond_wait_until(&server->changed, &server->lock, end_ms);
    worker->relieved = atomic_load(&server->waiting) > 0;
    return worker->relieved;
}

static const char refusal[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                              "Content-Length: 76\r\nConnection: close\r\nX-Request-Id: none\r\nRetry-After: 1\r\n\r\n"
                              "{\"error\":{\"code\":\"BUSY\",\"message\":\"too many connections; try again later\"}}\n";

/* Without a free descriptor not even a refusal can be sent. Closing the reserve allows accepting and dropping one, so
 * that the listener does not stay readable forever and burn a core. */
static bool worker_accept_starved(struct worker *worker, struct listener *listener) {
    struct http_server *server = worker->server;
    autolock(&server->lock);
    fd_close(&server->reserve);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    bool more = fd >= 0;
    fd_close(&fd);
    server->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return more;
}

static bool worker_address_loopback(const struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    if (address->ss_family != AF_INET6)
        return false;
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
}

/* The first request of a new connection is usually there already. This thread serves the connection that it accepted
 * first, without waking another one; TLS waits for its first bytes, because the limit for heads begins with them. */
static void worker_accept(struct worker *worker, struct listener *listener) {
    struct http_server *server = worker->server;
    struct conn *own = NULL;
    for (int i = 0; i < 64 && !atomic_load(&server->stopping); i++) {
        struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
        socklen_t size = sizeof address;
        int fd = accept4(listener->fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
            if (!worker_accept_starved(worker, listener))
                break;
            continue;
        }
        if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
            continue;
        if (fd < 0)
            break;
        pthread_mutex_lock(&server->lock);
        bool full = server->connections >= server->config.max_connections && !conn_evict_locked(server);
        pthread_mutex_unlock(&server->lock);
        if (full) {
            if (!server->tls || listener->unix_socket)
                (void)!send(fd, refusal, sizeof refusal - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            shutdown(fd, SHUT_WR);
            (void)!recv(fd, worker->scratch, sizeof worker->scratch,
                        MSG_DONTWAIT); /* unread input would cause a reset */
            close(fd);
            continue;
        }
        struct conn *conn = conn_new(server, fd, listener->unix_socket, worker_address_loopback(&address),
                                     server->tls && !listener->unix_socket);
        if (conn && !own && !conn->tls)
            own = conn;
        else if (conn)
            conn_leave(server, conn);
    }
    conn_arm(server, listener, listener->fd, EPOLL_CTL_MOD);
    if (own)
        conn_event(worker, own);
}
