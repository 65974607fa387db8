/* The server: listeners, start, ticking, stop and drain, and changes while it serves. Called by daemon/main.
 *
 * The thread in http_server_run serves no requests: it ticks (time limits of parked connections) and, at stop, drains.
 * Invariant: http_server_run returns only when no worker thread uses the server any more (or returns TIMEOUT). */
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/un.h>

#include "base/base.h"
#include "http/server.h"
#include "base/arena.h"
#include "base/sync.h"
#include "http/internal.h"

enum { BACKLOG = 4096, STUCK_MS = 5000, GOODBYE_MS = 2000 };

/* Whether a socket listens at this address. */
static bool server_listens_at(int fd, const struct sockaddr *address, socklen_t size) {
    struct sockaddr_storage own = {0};
    socklen_t own_size = sizeof own, flag_size = sizeof(int);
    int listens = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_size) < 0 || !listens ||
        getsockname(fd, (struct sockaddr *)&own, &own_size) < 0 || own.ss_family != address->sa_family)
        return false;
    if (own.ss_family == AF_UNIX)
        return strncmp(((struct sockaddr_un *)&own)->sun_path, ((const struct sockaddr_un *)address)->sun_path,
                       sizeof((struct sockaddr_un *)0)->sun_path) == 0;
    return own_size == size && memcmp(&own, address, size) == 0;
}

/* Takes the passed socket of this address for the listener. False: there is not one. */
static bool server_take_passed(const struct http_config *config, struct listener *listener,
                               const struct sockaddr *address, socklen_t size) {
    for (int i = 0; i < config->passed_count; i++) {
        int fd = config->passed[i];
        if (!server_listens_at(fd, address, size))
            continue;
        int on = 1;
        if (address->sa_family != AF_UNIX)
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        listener->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        listener->passed = listener->fd >= 0;
        return listener->passed;
    }
    return false;
}

static int server_listen_unix(const struct http_config *config, struct listener *listener, const char *path,
                              struct err *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof address.sun_path)
        return err_set(err, ERR_INVALID, "a socket path must have 1 to %zu bytes", sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path));
    listener->unix_socket = true;
    listener->path = xstrdup(path);
    if (server_take_passed(config, listener, (struct sockaddr *)&address, sizeof address))
        return 0;
    autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_errno(err, errno, "socket");
    struct stat status;
    if (lstat(path, &status) == 0) {
        if (!S_ISSOCK(status.st_mode))
            return err_set(err, ERR_EXISTS, "'%s' exists and is not a socket", path);
        autofd probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(probe, (struct sockaddr *)&address, sizeof address) == 0 || errno != ECONNREFUSED)
            return err_set(err, ERR_BUSY, "another server listens on '%s'", path);
        unlink(path);
    }
    fchmod(fd, 0600); /* before bind, so that the file never has other rights */
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, BACKLOG) < 0)
        return err_errno(err, errno, "cannot listen on '%s'", path);
    if (config->socket_group && config->socket_group != (gid_t)-1 && chown(path, (uid_t)-1, config->socket_group) < 0)
        return err_errno(err, errno, "cannot set the group of '%s'", path);
    if (config->socket_mode && chmod(path, config->socket_mode) < 0)
        return err_errno(err, errno, "cannot set the mode of '%s'", path);
    if (lstat(path, &status) == 0) {
        listener->device = status.st_dev;
        listener->inode = status.st_ino;
    }
    listener->fd = fd_take(&fd);
    return 0;
}

static int server_listen_tcp(const struct http_config *config, struct listener *listener, const char *text,
                             struct err *err) {
    char copy[300], *host = copy; /* "HOST:PORT" or "[HOST]:PORT" */
    snprintf(copy, sizeof copy, "%s", text);
    char *colon = strrchr(copy, ':');
    if (!colon || !colon[1])
        return err_set(err, ERR_INVALID, "'%s' is not HOST:PORT or unix:PATH", copy);
    uint64_t number;
    if (!text_u64(colon + 1, 65535, &number)) /* getaddrinfo would accept it modulo 65536 */
        return err_set(err, ERR_INVALID, "port '%s' is not a number up to 65535", colon + 1);
    *colon = 0;
    size_t len = strlen(copy);
    if (copy[0] == '[' && len > 2 && copy[len - 1] == ']') {
        copy[len - 1] = 0;
        host++;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    int code = getaddrinfo(*host ? host : NULL, colon + 1, &hints, &found);
    if (code)
        return err_set(err, ERR_INVALID, "listen address '%s': %s", text, gai_strerror(code));
    listener->host = xstrdup(host);
    if (server_take_passed(config, listener, found->ai_addr, found->ai_addrlen)) {
        freeaddrinfo(found);
        return 0;
    }
    autofd fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* accepted sockets inherit it */
    int failed = fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0 ? errno : 0;
    freeaddrinfo(found);
    if (failed)
        return err_errno(err, failed, "cannot listen on '%s'", text);
    listener->fd = fd_take(&fd);
    return 0;
}

static char *server_listener_address(const struct listener *listener) {
    char *text = NULL;
    if (listener->unix_socket)
        return asprintf(&text, "unix:%s", listener->path) < 0 ? NULL : text;
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getsockname(listener->fd, (struct sockaddr *)&address, &size) < 0 ||
        getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return NULL;
    return asprintf(&text, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port) < 0 ? NULL : text;
}

static int server_prepare(struct http_server *server, struct err *err) {
    uint8_t random[8];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_errno(err, errno, "cannot get random bytes");
    text_hex(server->id_prefix, random, sizeof random);
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    server->stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server->quit_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (server->epoll < 0 || server->stop_event < 0 || server->quit_event < 0 || server->reserve < 0)
        return err_errno(err, errno, "cannot make descriptors for the server");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &server->quit_kind}; /* wakes all: not one-shot */
    if (epoll_ctl(server->epoll, EPOLL_CTL_ADD, server->quit_event, &event) < 0)
        return err_errno(err, errno, "epoll");
    return 0;
}

/* Listens at each address of the text, on a passed socket where there is one; none of these may be left. */
static int server_listen(struct http_server *server, const char *text, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    char *rest = arena_strdup(&arena, text);
    int passed = 0;
    for (char *piece; (piece = strsep(&rest, ","));) {
        if (server->listener_count == HTTP_LISTENERS)
            return err_set(err, ERR_LIMIT, "at most %d listen addresses", HTTP_LISTENERS);
        struct listener *listener = &server->listeners[server->listener_count++];
        *listener = (struct listener){.kind = SOURCE_LISTENER, .fd = -1};
        if (strncmp(piece, "unix:", 5) == 0)
            TRY(server_listen_unix(&server->config, listener, piece + 5, err));
        else
            TRY(server_listen_tcp(&server->config, listener, piece, err));
        passed += listener->passed;
    }
    if (passed < server->config.passed_count)
        return err_set(
            err, ERR_INVALID,
            "%d of the %d sockets that the service manager passed are not at an address of listen (%s): give "
            "listen the addresses of the .socket unit",
            server->config.passed_count - passed, server->config.passed_count, text);
    return 0;
}

int http_server_new(const char *listen_text, const struct http_config *config, struct http_server **ret_server,
                    struct err *err) {
    struct http_server *server = xcalloc(1, sizeof *server);
    server->config = *config;
    const struct {
        unsigned *value, otherwise;
    } defaults[] = {
        {&server->config.head_timeout_ms, 10000},  {&server->config.body_timeout_ms, 30000},
        {&server->config.write_timeout_ms, 60000}, {&server->config.idle_timeout_ms, 75000},
        {&server->config.max_connections, 12000},  {&server->config.max_threads, 4096},
        {&server->config.alive_ms, 15000},
    };
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
        if (!*defaults[i].value)
            *defaults[i].value = defaults[i].otherwise;
    if (server->config.max_threads < 2)
        server->config.max_threads = 2; /* one waits, one works */
    server->epoll = server->stop_event = server->quit_event = server->reserve = -1;
    server->quit_kind = SOURCE_STOP;
    for (int i = 0; i < LIST_COUNT; i++)
        server->lists[i].prev = server->lists[i].next = &server->lists[i];
    pthread_mutex_init(&server->lock, NULL);
    cond_init(&server->changed);
    int result = route_tree_new(config->routes, &server->tree, err);
    if (result == 0 && config->tls_cert)
        result =
            tls_context_new(config->tls_cert, config->tls_key ? config->tls_key : config->tls_cert, &server->tls, err);
    if (result == 0)
        result = server_prepare(server, err);
    if (result == 0)
        result = server_listen(server, listen_text, err);
    if (result == 0 && !(server->address = server_listener_address(&server->listeners[0])))
        result = err_set(err, ERR_INTERNAL, "cannot read the listen address back");
    if (result < 0) {
        http_server_free(server);
        return result;
    }
    *ret_server = server;
    return 0;
}

const char *http_server_address(const struct http_server *server) {
    return server->address;
}

/* ---- running ---- */

/* Fine enough for the shortest limit, coarse enough to be cheap. */
static int server_tick_ms(const struct http_config *config) {
    unsigned shortest =
        config->head_timeout_ms < config->idle_timeout_ms ? config->head_timeout_ms : config->idle_timeout_ms;
    unsigned tick = shortest / 4;
    return tick > 1000 ? 1000 : tick < 10 ? 10 : (int)tick;
}

/* Waits until `what` is at most `but`, at most timeout_ms. */
static bool server_wait_gone(struct http_server *server, const unsigned *what, const unsigned *but,
                             uint64_t timeout_ms) {
    uint64_t end_ms = clock_ms() + timeout_ms;
    autolock(&server->lock);
    while (*what > *but && clock_ms() < end_ms)
        cond_wait_until(&server->changed, &server->lock, end_ms);
    return *what <= *but;
}

int http_server_run(struct http_server *server) {
    pthread_mutex_lock(&server->lock);
    int error = worker_start_locked(server);
    pthread_mutex_unlock(&server->lock);
    if (error < 0)
        return -(int)err_from_errno(-error);
    for (int i = 0; i < server->listener_count; i++)
        if (conn_arm(server, &server->listeners[i], server->listeners[i].fd, EPOLL_CTL_ADD) < 0)
            http_server_stop(server, 0);
    struct pollfd stop = {.fd = server->stop_event, .events = POLLIN};
    while (!atomic_load(&server->stopping)) {
        poll(&stop, 1, server_tick_ms(&server->config));
        conn_expire(server, clock_ms());
        if (server->config.tick)
            server->config.tick(server->config.context);
    }
    static const unsigned none = 0;
    for (int i = 0; i < server->listener_count; i++) {
        struct listener *listener = &server->listeners[i];
        struct stat status;
        if (listener->path && !listener->passed && lstat(listener->path, &status) == 0 &&
            status.st_ino == listener->inode && status.st_dev == listener->device)
            unlink(listener->path);
        if (listener->fd >= 0)
            epoll_ctl(server->epoll, EPOLL_CTL_DEL, listener->fd, NULL);
        if (!listener->passed) /* refuses new connections; closed later, because a worker may still use the number */
            shutdown(listener->fd, SHUT_RDWR);
    }
    conn_shutdown_all(server, false);
    server_wait_gone(server, &server->connections, &server->lasting, atomic_load(&server->drain_ms));
    conn_shutdown_all(server, true);
    if (!server_wait_gone(server, &server->connections, &none, GOODBYE_MS)) {
        conn_shutdown_lasting(server);
        server_wait_gone(server, &server->connections, &none, STUCK_MS);
    }
    atomic_store(&server->quit, true);
    (void)!write(server->quit_event, &(uint64_t){1}, sizeof(uint64_t));
    return server_wait_gone(server, &server->threads, &none, STUCK_MS) ? 0 : -ERR_TIMEOUT;
}

void http_server_stop(struct http_server *server, unsigned drain_ms) {
    atomic_store(&server->drain_ms, drain_ms);
    atomic_store(&server->stopping, true);
    (void)!write(server->stop_event, &(uint64_t){1}, sizeof(uint64_t));
}

bool http_server_stopping(const struct http_server *server) {
    return atomic_load(&server->stopping);
}

/* The names it answers to. Lists are read without a lock, so all are kept until the server is freed. */
struct host_list {
    struct host_list *before;
    const char **names;
};

static void server_hosts_free(struct http_server *server) {
    for (struct host_list *list = atomic_load(&server->hosts), *before; list; list = before) {
        before = list->before;
        for (const char **name = list->names; *name; name++)
            free((char *)(uintptr_t)*name);
        free(list->names);
        free(list);
    }
}

void http_server_free(struct http_server *server) {
    if (!server)
        return;
    if (server->threads) /* a handler that did not return still uses it, so it is leaked */
        return;
    for (int i = 0; i < server->listener_count; i++) {
        fd_close(&server->listeners[i].fd);
        free(server->listeners[i].host);
        free(server->listeners[i].path);
    }
    fd_close(&server->epoll);
    fd_close(&server->stop_event);
    fd_close(&server->quit_event);
    fd_close(&server->reserve);
    route_tree_free(server->tree);
    tls_context_free(server->tls);
    server_hosts_free(server);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->changed);
    free(server->address);
    free(server);
}

void http_server_count(struct http_server *server, struct http_counts *ret_counts) {
    pthread_mutex_lock(&server->lock);
    *ret_counts = (struct http_counts){
        .connections = server->connections,
        .parked = server->list_counts[LIST_IDLE] + server->list_counts[LIST_HEAD],
        .threads = server->threads,
    };
    pthread_mutex_unlock(&server->lock);
    ret_counts->requests = atomic_load(&server->requests);
    ret_counts->held_bytes = atomic_load(&server->held_bytes);
}

/* ---- changes while it serves ---- */

static struct host_list *server_host_list_new(const char *const *names, struct host_list *before) {
    struct host_list *list = xcalloc(1, sizeof *list);
    size_t count = text_list_count(names);
    list->names = xcalloc(count + 1, sizeof *list->names);
    for (size_t i = 0; i < count; i++)
        list->names[i] = xstrdup(names[i]);
    list->before = before;
    return list;
}

static bool server_same_names(const char *const *a, const char *const *b) {
    for (; a && *a && b && *b; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return !(a && *a) && !(b && *b);
}

const char *const *hosts_allowed(const struct http_server *server) {
    const struct host_list *list = atomic_load(&server->hosts);
    return list ? list->names : server->config.allowed_hosts;
}

/* Connections keep the certificate with which they began. */
int http_server_configure(struct http_server *server, const char *tls_cert, const char *tls_key,
                          const char *const *allowed_hosts, struct err *err) {
    struct ssl_ctx_st *fresh = NULL;
    if (tls_cert && server->tls)
        TRY(tls_context_new(tls_cert, tls_key, &fresh, err));
    if (fresh) {
        pthread_mutex_lock(&server->lock);
        struct ssl_ctx_st *old = server->tls;
        server->tls = fresh;
        pthread_mutex_unlock(&server->lock);
        tls_context_free(old);
    }
    if (!server_same_names(hosts_allowed(server), allowed_hosts))
        atomic_store(&server->hosts, server_host_list_new(allowed_hosts, atomic_load(&server->hosts)));
    return 0;
}

int http_tls_check(const char *cert, const char *key, struct err *err) {
    struct ssl_ctx_st *context = NULL;
    int result = tls_context_new(cert, key, &context, err);
    if (result == 0)
        tls_context_free(context);
    return result;
}
