/* Servers in a box: HTTP and WebSocket by proxy. Called by the dialects that show ports. Invariants: a connection to
 * the server is reused only after an answer that ended where its head said, with nothing after it; a request that must
 * not be sent twice never uses an idle connection; no body is in memory as a whole; a client that hangs up is
 * noticed. */
#include "front/port_proxy.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "box/duplex.h"
#include "box/port_socket.h"
#include "front/front.h"
#include "http/tls_peer.h"

enum {
    PIECE_BYTES = 64 << 10,
    SPLICE_LEAST_BYTES = 64 << 10, /* copying less than this is cheaper */
    TICK_MS = 1000,                /* how soon a stopping daemon ends a stream */
    HEAD_MS = 300000,              /* a server's time for the head of its answer; the default of commands too */
    SILENCE_MS = 600000,           /* a stream that is silent for so long ends */
    KEPT_ANSWER_BYTES = 1 << 20,
    AGAIN_MS = 50, /* between two attempts to connect */
};

enum port_phase { PORT_HEAD, PORT_BODY, PORT_TUNNEL };

struct port_proxy {
    struct http_request *request;
    struct box *box;
    struct box_duplex duplex;
    const struct port_path *path;
    struct response *response;
    enum port_phase phase;
    bool websocket; /* requested */
    bool uploading; /* the client's body is not complete */
    bool events;    /* the answer is an event stream */
    bool left;      /* the client has gone */
    bool waits;     /* for the head of the answer: port_socket_wait */
    bool answered;  /* a byte of the answer has arrived */
    bool whole;     /* the answer has ended, and nothing followed it */
    bool flood;     /* a tunnel with large pieces */
    bool bytes;     /* a raw tunnel: either side may end before the other */
};

/* The query is dropped: it may contain secrets. */
void port_proxy_audit(struct http_request *request, uint16_t port, const char *tail) {
    static const struct row rows[] = {{.name = "what", .type = ROW_TEXT, .flags = ROW_AUDITED}, {.name = NULL}};
    char *text =
        arena_printf(http_arena(request), "%s %u%.*s", http_method(request), port, (int)strcspn(tail, "?"), tail);
    const struct row_text what = {.data = text, .len = strlen(text)};
    trail_fields(request, rows, &what);
}

bool port_proxy_upgrade(const struct http_request *request, const char *protocol) {
    const char *upgrade = http_header(request, "upgrade"), *connection = http_header(request, "connection");
    return upgrade && connection && !strcasecmp(upgrade, protocol) && http_list_has(connection, "upgrade") &&
           !strcmp(http_method(request), "GET") && !http_is_old(request) && http_body_done(request);
}

int port_proxy_fault(struct err *err) {
    err->code = ERR_PROTOCOL;
    return -ERR_PROTOCOL;
}

/* ---- to the server ---- */
/* Reads the next piece of the client's body, in the coding that our head announced. */
static int port_proxy_body(struct port_proxy *proxy, struct err *err) {
    bool chunked = http_body_length(proxy->request) < 0;
    struct buf *out = &proxy->duplex.held;
    uint8_t data[PIECE_BYTES / 4];
    ssize_t n = http_body_read(proxy->request, data, sizeof data, err);
    if (n < 0)
        return (int)n;
    proxy->uploading = !http_body_done(proxy->request);
    proxy->duplex.deaf = !proxy->uploading;
    if (n && chunked)
        buf_printf(out, "%zx\r\n", (size_t)n);
    buf_put(out, data, (size_t)n);
    if (chunked)
        buf_puts(out, n && proxy->uploading ? "\r\n" : n ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
    return box_duplex_flush(&proxy->duplex, err);
}

/* Sends what there is, as far as the box accepts it. ready: the client's socket is readable. 1: the client has
 * ended. */
static int port_proxy_feed(void *user, bool ready, struct err *err) {
    struct port_proxy *proxy = user;
    struct box_duplex *duplex = &proxy->duplex;
    int result = proxy->uploading && !duplex->held.len ? http_body_invite(proxy->request, err) : 0;
    while (result == 0 && !duplex->deaf && !duplex->held.len && (ready || http_body_ready(proxy->request))) {
        ready = false;
        if (proxy->phase != PORT_TUNNEL) {
            result = port_proxy_body(proxy, err);
            continue;
        }
        uint8_t data[PIECE_BYTES / 4];
        ssize_t n = http_tunnel_read(proxy->request, data, sizeof data);
        if (n < 0 && proxy->bytes)
            duplex->eof = duplex->deaf = true;
        result = n < 0 && !proxy->bytes ? 1 : box_duplex_put(duplex, data, n < 0 ? 0 : (size_t)n, err);
    }
    return result;
}

/* ---- to the client ---- */

static void port_proxy_waits(struct port_proxy *proxy, bool waits) {
    if (waits && !proxy->waits)
        port_socket_wait(proxy->box);
    else if (!waits && proxy->waits)
        port_socket_waited(proxy->box);
    proxy->waits = waits;
}

static int port_proxy_begin(struct port_proxy *proxy, struct err *err) {
    const struct response *response = proxy->response;
    const char *type = response_field(response, "content-type"), *upgrade = response_field(response, "upgrade");
    if (response->status < 200 && response->status != 101)
        return 0; /* an interim answer: ignored */
    port_proxy_waits(proxy, false);
    if (response->status == 101 && (!proxy->websocket || !upgrade || strcasecmp(upgrade, "websocket") != 0))
        return err_set(err, ERR_PROTOCOL, "the server in the box switched to a protocol that was not requested");
    port_answer_head(proxy->request, proxy->path, response);
    if (response->status == 101) {
        http_reply_header(proxy->request, "Upgrade", "websocket");
        http_reply_header(proxy->request, "Connection", "Upgrade");
        proxy->phase = PORT_TUNNEL;
        proxy->duplex.deaf = false;
        return http_tunnel(proxy->request, err);
    }
    proxy->phase = PORT_BODY;
    proxy->events = type && !strncasecmp(type, "text/event-stream", 17);
    int result = http_reply_begin(proxy->request, response->status, NULL, response->length);
    return result < 0 ? err_set(err, (enum err_code) - result, "cannot begin the answer") : 0;
}

static int port_proxy_hangup(void *user, struct err *err) {
    struct port_proxy *proxy = user;
    proxy->left = true;
    return err_set(err, ERR_GONE, "the client hung up");
}

/* Passes on content. Returns 1 when the answer is complete. */
static int port_proxy_content(struct port_proxy *proxy, const uint8_t *data, size_t len, struct err *err) {
    for (;;) {
        const void *content;
        size_t content_len;
        ssize_t used = response_body(proxy->response, data, len, &content, &content_len, err);
        if (used < 0)
            return (int)used;
        int result = content_len ? http_reply_write(proxy->request, content, content_len) : 0;
        proxy->left = result < 0;
        if (result < 0)
            return err_set(err, (enum err_code) - result, "the client went away or stopped reading");
        data += used;
        len -= (size_t)used;
        if (response_done(proxy->response)) {
            proxy->whole = len == 0;
            return http_reply_end(proxy->request), 1;
        }
        if (!used) /* sends the head even without content: a stream may begin slowly */
            return http_reply_flush(proxy->request) < 0 ? port_proxy_hangup(proxy, err) : 0;
    }
}

static int port_proxy_answer(struct port_proxy *proxy, const uint8_t *data, size_t len, struct err *err) {
    bool is_head = !strcmp(http_method(proxy->request), "HEAD");
    proxy->answered = true;
    while (proxy->phase == PORT_HEAD && len) {
        size_t used = 0;
        int result = response_head(proxy->response, data, len, is_head, &used, err);
        if (result < 0)
            return result;
        data += used;
        len -= used;
        if (result > 0)
            result = port_proxy_begin(proxy, err);
        if (result < 0)
            return result;
    }
    if (proxy->phase == PORT_HEAD)
        return 0;
    if (proxy->phase == PORT_BODY)
        return port_proxy_content(proxy, data, len, err);
    proxy->flood = len == PIECE_BYTES;
    return len && http_tunnel_write(proxy->request, data, len) < 0 ? 1 : 0;
}

/* Moves large content to the client without copying. */
static int port_proxy_splice(void *user, int socket, struct err *err) {
    struct port_proxy *proxy = user;
    bool tunnel = proxy->phase == PORT_TUNNEL;
    uint64_t left = proxy->phase == PORT_BODY ? response_left(proxy->response) : 0;
    if (tunnel ? !proxy->flood : left < SPLICE_LEAST_BYTES)
        return DUPLEX_READ;
    ssize_t moved = http_reply_splice(proxy->request, socket, tunnel ? PIECE_BYTES : left);
    if (moved == -ERR_UNSUPPORTED || moved == -ERR_IO) /* reading shows whether the connection ended */
        return DUPLEX_READ;
    proxy->left = moved < 0;
    if (moved < 0)
        return tunnel ? 1 : err_set(err, (enum err_code) - moved, "the client went away or stopped reading");
    proxy->flood = moved >= SPLICE_LEAST_BYTES;
    if (tunnel)
        return port_proxy_feed(proxy, false, err);
    response_skip(proxy->response, (uint64_t)moved);
    proxy->whole = response_done(proxy->response);
    return proxy->whole ? http_reply_end(proxy->request), 1 : port_proxy_feed(proxy, false, err);
}

static int port_proxy_data(void *user, int, const uint8_t *data, size_t len, struct err *err) {
    return port_proxy_answer(user, data, len, err)
               ?: port_proxy_feed(user, false, err); /* a tunnel may have begun, with input waiting */
}

static int port_proxy_end(void *user, const struct exec_result *, struct err *err) {
    struct port_proxy *proxy = user;
    if (proxy->phase == PORT_TUNNEL)
        return 1;
    if (proxy->phase == PORT_HEAD)
        return err_set(err, ERR_PROTOCOL, "the server on port %u closed the connection without an answer",
                       proxy->path->port);
    int result = response_end(proxy->response, err);
    if (result == 0)
        http_reply_end(proxy->request);
    return result < 0 ? result : 1;
}

/* ---- the loop ---- */

static int port_proxy_tick(void *user, struct err *err) {
    struct port_proxy *proxy = user;
    uint64_t now_ms = clock_ms(), patience_ms = proxy->phase == PORT_HEAD ? HEAD_MS : SILENCE_MS;
    proxy->duplex.tick_ms = now_ms + TICK_MS;
    if (http_server_stopping(front_of(proxy->request)->server) && (proxy->events || proxy->phase == PORT_TUNNEL)) {
        if (proxy->events)
            http_reply_end(proxy->request);
        return 1;
    }
    if (proxy->bytes && proxy->duplex.eof) { /* the client has sent its end: has it gone altogether? */
        struct pollfd client = {.fd = http_fd(proxy->request)};
        return poll(&client, 1, 0) > 0;
    }
    if (now_ms < proxy->duplex.moved_ms + patience_ms || proxy->bytes)
        return 0;
    return err_set(err, ERR_TIMEOUT, "the server on port %u did not answer within %u seconds", proxy->path->port,
                   (unsigned)(patience_ms / 1000));
}

/* ---- one request ---- */

static int port_proxy_secure(struct port_proxy *proxy, struct err *err) {
    if (!proxy->path->tls)
        return 0;
    if (!box_duplex_direct(&proxy->duplex))
        return err_set(err, ERR_UNSUPPORTED,
                       "this daemon cannot enter the network of the box, so it cannot use TLS to its servers");
    return tls_peer_begin(&proxy->duplex.socket, err);
}

/* Waits for a server that starts late. */
static int port_proxy_open(struct port_proxy *proxy, uint64_t until_ms, struct err *err) {
    for (;;) {
        int result = box_connect(proxy->box, proxy->path->port, &proxy->duplex, err);
        if (result == -ERR_IO)
            return port_proxy_fault(err);
        if (result != -ERR_NOT_FOUND || clock_ms() >= until_ms)
            return result ?: port_proxy_secure(proxy, err);
        struct pollfd client = {.fd = http_fd(proxy->request), .events = POLLRDHUP};
        if (poll(&client, 1, AGAIN_MS) > 0)
            return port_proxy_hangup(proxy, err);
    }
}

static const struct box_stream port_proxy_stream = {
    .data = port_proxy_data,
    .splice = port_proxy_splice,
    .input = port_proxy_feed,
    .hangup = port_proxy_hangup,
    .tick = port_proxy_tick,
    .end = port_proxy_end,
};

static int port_proxy_talk(struct port_proxy *proxy, struct err *err) {
    struct buf *held = &proxy->duplex.held;
    *held = buf_max(LIMIT_HEAD_BYTES + 2 * PIECE_BYTES);
    port_proxy_waits(proxy, true);
    port_request_head(proxy->request, proxy->path, proxy->websocket, box_duplex_direct(&proxy->duplex), held);
    int result = held->failed ? err_set(err, ERR_TOO_LARGE, "the head of the request is too large for the box")
                              : box_duplex_flush(&proxy->duplex, err);
    result = result ?: port_proxy_feed(proxy, false, err) ?: box_duplex_run(&proxy->duplex, &port_proxy_stream, proxy, err);
    port_proxy_waits(proxy, false);
    return result;
}

/* Tries an idle connection. Returns 1 if there is none, or its server has just closed it. */
static int port_proxy_idle(struct port_proxy *proxy, struct err *err) {
    const char *method = http_method(proxy->request);
    bool safe = !strcmp(method, "GET") || !strcmp(method, "HEAD") || !strcmp(method, "OPTIONS");
    if (!safe || proxy->uploading || proxy->websocket || proxy->path->tls ||
        !box_connect_idle(proxy->box, proxy->path->port, &proxy->duplex))
        return 1;
    int result = port_proxy_talk(proxy, err);
    if (result >= 0 || proxy->answered || proxy->left || http_replied(proxy->request) || !box_alive(proxy->box))
        return result < 0 ? result : 0;
    box_duplex_close(&proxy->duplex);
    return 1;
}

/* After a long answer the connection is not reused: its queues in the kernel are long, which makes the next answer
 * slower than a new connection. */
static void port_proxy_close(struct port_proxy *proxy, int result) {
    bool clean = result >= 0 && proxy->whole && !proxy->uploading && proxy->phase == PORT_BODY && !proxy->path->tls;
    if (clean && !proxy->response->last && proxy->response->length < KEPT_ANSWER_BYTES)
        box_duplex_keep(&proxy->duplex);
    else
        box_duplex_close(&proxy->duplex);
    response_free(proxy->response);
}

int port_proxy(struct http_request *request, struct box *box, const struct port_path *path, unsigned patience_ms,
               struct err *err) {
    struct port_proxy proxy = {.request = request,
                               .box = box,
                               .path = path,
                               .websocket = port_proxy_upgrade(request, "websocket"),
                               .uploading = !http_body_done(request),
                               .response = response_new()};
    proxy.duplex = (struct box_duplex){
        .fd = http_fd(request),
        .client = true,
        .wake_fd = -1,
        .deaf = !proxy.uploading,
        .tick_ms = clock_ms() + TICK_MS,
    };
    int result = port_proxy_idle(&proxy, err);
    if (result > 0)
        result = port_proxy_open(&proxy, clock_ms() + patience_ms, err) ?: port_proxy_talk(&proxy, err);
    if (result == -ERR_GONE && !proxy.left && box_alive(box))
        result = port_proxy_fault(err);
    if (result < 0 && proxy.phase == PORT_TUNNEL)
        result = err->code; /* already answered: the connection just ends */
    else if (result > 0)
        result = 0;
    port_proxy_close(&proxy, result);
    return result;
}

/* A client that has sent its end looks like one that is gone, so the kernel probes it regularly. */
static void port_proxy_alive(int fd) {
    int on = 1, idle_s = 15, step_s = 5, probes = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step_s, sizeof step_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

int port_proxy_bytes(struct http_request *request, struct box *box, const struct port_path *path, struct err *err) {
    struct port_proxy proxy = {.request = request, .box = box, .path = path, .phase = PORT_TUNNEL, .bytes = true};
    proxy.duplex = (struct box_duplex){.fd = http_fd(request), .wake_fd = -1, .tick_ms = clock_ms() + TICK_MS};
    TRY(port_proxy_open(&proxy, 0, err));
    proxy.duplex.held = buf_max(2 * PIECE_BYTES);
    port_proxy_alive(http_fd(request));
    http_reply_header(request, "Upgrade", PORT_BYTES);
    http_reply_header(request, "Connection", "Upgrade");
    int result = http_tunnel(request, err);
    if (result == 0) {
        result = port_proxy_feed(&proxy, false, err) ?: box_duplex_run(&proxy.duplex, &port_proxy_stream, &proxy, err);
        result = result < 0 ? (int)err->code : 0; /* already answered: the connection just ends */
    }
    box_duplex_close(&proxy.duplex);
    return result;
}
