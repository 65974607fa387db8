/* The door to servers in a box: HTTP and WebSocket by proxy, anything else as bytes over a WebSocket of our own. Called
 * through native_routes. Invariant: one request is one connection to the server in the box, never used again, so that
 * neither side can say anything to the other's next request; no body is held whole; who waits is watched for going away. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "front/native/native.h"
#include "front/port_head.h"
#include "front/ws_pump.h"
#include "front/trail.h"

enum {
    PIECE_BYTES = 64 << 10,
    TICK_MS = 1000,      /* how soon a stopping daemon lets a stream go */
    HEAD_MS = 300000,    /* a server's time for the head of its answer, as long as a command has by default */
    SILENCE_MS = 600000, /* nobody says anything for so long: the stream is over */
};

enum port_phase { PORT_HEAD, PORT_BODY, PORT_TUNNEL };

struct native_port {
    struct http_request *request;
    struct box *box;
    struct box_duplex duplex;
    struct port_path path;
    struct response *response;
    enum port_phase phase;
    bool websocket; /* asked for */
    bool uploading; /* of the client's body more is to come */
    bool events;    /* the answer is an event stream */
    bool left;      /* the client has gone */
};

static int native_port_path(struct http_request *request, struct box *box, struct port_path *ret_path, struct err *err);
static int native_port_open(struct box *box, const struct port_path *path, struct box_duplex *duplex, struct err *err);
static int native_port_pump(struct native_port *port, struct err *err);

/* For the audit log: "GET 8080/path". A query may hold what is nobody's business. */
static void native_port_told(struct http_request *request, const char *tail) {
    static const struct row rows[] = {{.name = "what", .type = ROW_TEXT, .flags = ROW_AUDITED}, {.name = NULL}};
    char *text = arena_printf(http_arena(request), "%s %.5s%.*s", http_method(request), http_param(request, "port"),
                              (int)strcspn(tail, "?"), tail);
    const struct row_text what = {.data = text, .len = strlen(text)};
    trail_fields(request, rows, &what);
}

/* A worker of the page's own would outlive the sandbox of the page. */
static int native_port_refuse(struct http_request *request, struct err *err) {
    const char *to = http_header(request, "sec-fetch-dest");
    if (http_header(request, "service-worker") || (to && !strcasecmp(to, "serviceworker")))
        return err_set(err, ERR_DENIED, "a page from a box may not register a service worker here");
    return 0;
}

static bool native_port_upgrade(const struct http_request *request) {
    const char *upgrade = http_header(request, "upgrade"), *connection = http_header(request, "connection");
    return upgrade && connection && !strcasecmp(upgrade, "websocket") && http_list_has(connection, "upgrade") &&
           !strcmp(http_method(request), "GET") && !http_is_old(request) && http_body_done(request);
}

int native_port(struct http_request *request, struct box *box, struct err *err) {
    struct native_port port = {.request = request, .box = box, .websocket = native_port_upgrade(request)};
    int result = native_port_refuse(request, err);
    if (result >= 0)
        result = native_port_path(request, box, &port.path, err);
    if (result >= 0)
        native_port_told(request, http_tail(request));
    port.uploading = !http_body_done(request);
    port.duplex = (struct box_duplex){
        .fd = http_fd(request),
        .client = true,
        .wake_fd = -1,
        .deaf = !port.uploading,
        .held = buf_max(LIMIT_HEAD_BYTES + 2 * PIECE_BYTES),
        .tick_ms = clock_ms() + TICK_MS,
    };
    if (result >= 0)
        result = native_port_open(box, &port.path, &port.duplex, err);
    if (result < 0)
        return result;
    port.response = response_new();
    port_request_head(request, &port.path, port.websocket, &port.duplex.held);
    result = port.duplex.held.failed ? err_set(err, ERR_TOO_LARGE, "the head of the request is too large for the box")
                                     : native_port_pump(&port, err);
    box_duplex_close(&port.duplex);
    response_free(port.response);
    return result;
}

/* What the server in the box does wrong is a gateway's failure: 502. */
static int native_port_fault(struct err *err) {
    err->code = ERR_PROTOCOL;
    return -ERR_PROTOCOL;
}

static int native_port_path(struct http_request *request, struct box *box, struct port_path *ret_path,
                            struct err *err) {
    uint64_t number;
    const char *text = http_param(request, "port");
    if (!text_u64(text, 65535, &number) || number == 0)
        return err_set(err, ERR_INVALID, "'%.40s' is no port: a number from 1 to 65535", text);
    port_path_init(ret_path, box->id, (uint16_t)number);
    return 0;
}

static int native_port_open(struct box *box, const struct port_path *path, struct box_duplex *duplex, struct err *err) {
    int result = box_connect(box, path->port, duplex, err);
    return result == -ERR_NOT_FOUND || result == -ERR_IO ? native_port_fault(err) : result;
}

/* ---- to the server ---- */

/* The next piece of the client's body, in the coding that our head has announced. */
static int native_port_body(struct native_port *port, struct err *err) {
    bool chunked = http_body_length(port->request) < 0;
    struct buf *out = &port->duplex.held;
    uint8_t data[PIECE_BYTES / 4];
    ssize_t n = http_body_read(port->request, data, sizeof data, err);
    if (n < 0)
        return (int)n;
    port->uploading = !http_body_done(port->request);
    port->duplex.deaf = !port->uploading;
    if (n && chunked)
        buf_printf(out, "%zx\r\n", (size_t)n);
    buf_put(out, data, (size_t)n);
    if (chunked)
        buf_puts(out, n && port->uploading ? "\r\n" : n ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
    return box_duplex_flush(&port->duplex, err);
}

static int native_port_bytes(struct native_port *port, struct err *err) {
    uint8_t data[PIECE_BYTES / 4];
    ssize_t n = http_tunnel_read(port->request, data, sizeof data);
    return n < 0 ? 1 : box_duplex_put(&port->duplex, data, (size_t)n, err);
}

/* What is there, as far as the box takes it. ready: the client's socket has something. 1: the client has ended. */
static int native_port_feed(void *user, bool ready, struct err *err) {
    struct native_port *port = user;
    struct box_duplex *duplex = &port->duplex;
    int result = port->uploading && !duplex->held.len ? http_body_invite(port->request, err) : 0;
    while (result == 0 && !duplex->deaf && !duplex->held.len && (ready || http_body_ready(port->request))) {
        ready = false;
        result = port->phase == PORT_TUNNEL ? native_port_bytes(port, err) : native_port_body(port, err);
    }
    return result;
}

/* ---- to the client ---- */

static int native_port_tunnel(struct native_port *port, struct err *err) {
    const char *upgrade = response_field(port->response, "upgrade");
    if (!port->websocket || !upgrade || strcasecmp(upgrade, "websocket") != 0)
        return err_set(err, ERR_PROTOCOL, "the server in the box switched to a protocol nobody asked for");
    port_answer_head(port->request, &port->path, port->response);
    http_reply_header(port->request, "Upgrade", "websocket");
    http_reply_header(port->request, "Connection", "Upgrade");
    port->phase = PORT_TUNNEL;
    port->duplex.deaf = false;
    return http_tunnel(port->request, err);
}

static int native_port_begin(struct native_port *port, struct err *err) {
    const struct response *response = port->response;
    const char *type = response_field(response, "content-type");
    if (response->status == 101)
        return native_port_tunnel(port, err);
    if (response->status < 200)
        return 0; /* an interim answer: ours to ignore */
    port_answer_head(port->request, &port->path, response);
    port->phase = PORT_BODY;
    port->events = type && !strncasecmp(type, "text/event-stream", 17);
    int result = http_reply_begin(port->request, response->status, NULL, response->length);
    return result < 0 ? err_set(err, (enum err_code) - result, "the answer could not be begun") : 0;
}

static int native_port_hangup(void *user, struct err *err) {
    struct native_port *port = user;
    port->left = true;
    return err_set(err, ERR_GONE, "the client hung up");
}

/* 1: the answer is whole. */
static int native_port_content(struct native_port *port, const uint8_t *data, size_t len, struct err *err) {
    for (;;) {
        const void *content;
        size_t content_len;
        ssize_t used = response_body(port->response, data, len, &content, &content_len, err);
        if (used < 0)
            return (int)used;
        int result = content_len ? http_reply_write(port->request, content, content_len) : 0;
        port->left = result < 0;
        if (result < 0)
            return err_set(err, (enum err_code) - result, "the client went away or stopped reading");
        data += used;
        len -= (size_t)used;
        if (response_done(port->response))
            return http_reply_end(port->request), 1;
        if (!used) /* a head without content yet goes out too: who streams may take his time */
            return http_reply_flush(port->request) < 0 ? native_port_hangup(port, err) : 0;
    }
}

static int native_port_answer(struct native_port *port, const uint8_t *data, size_t len, struct err *err) {
    bool is_head = !strcmp(http_method(port->request), "HEAD");
    while (port->phase == PORT_HEAD && len) {
        size_t used = 0;
        int result = response_head(port->response, data, len, is_head, &used, err);
        if (result < 0)
            return result;
        data += used;
        len -= used;
        if (result > 0)
            result = native_port_begin(port, err);
        if (result < 0)
            return result;
    }
    if (port->phase == PORT_HEAD)
        return 0;
    if (port->phase == PORT_BODY)
        return native_port_content(port, data, len, err);
    return len && http_tunnel_write(port->request, data, len) < 0 ? 1 : 0;
}

static int native_port_data(void *user, int stream, const uint8_t *data, size_t len, struct err *err) {
    (void)stream;
    int result = native_port_answer(user, data, len, err);
    return result ? result : native_port_feed(user, false, err); /* a tunnel may have begun, and more be at hand */
}

static int native_port_end(void *user, const struct exec_result *ended, struct err *err) {
    struct native_port *port = user;
    (void)ended;
    if (port->phase == PORT_TUNNEL)
        return 1;
    if (port->phase == PORT_HEAD)
        return err_set(err, ERR_PROTOCOL, "the server on port %u closed the connection without an answer",
                       port->path.port);
    int result = response_end(port->response, err);
    if (result == 0)
        http_reply_end(port->request);
    return result < 0 ? result : 1;
}

/* ---- the loop ---- */

static int native_port_tick(void *user, struct err *err) {
    struct native_port *port = user;
    uint64_t now_ms = clock_ms(), patience_ms = port->phase == PORT_HEAD ? HEAD_MS : SILENCE_MS;
    port->duplex.tick_ms = now_ms + TICK_MS;
    if (http_server_stopping(front_of(port->request)->server) && (port->events || port->phase == PORT_TUNNEL)) {
        if (port->events)
            http_reply_end(port->request);
        return 1;
    }
    if (now_ms < port->duplex.moved_ms + patience_ms)
        return 0;
    return err_set(err, ERR_TIMEOUT, "the server on port %u did not answer within %u seconds", port->path.port,
                   (unsigned)(patience_ms / 1000));
}

static int native_port_pump(struct native_port *port, struct err *err) {
    static const struct box_stream stream = {
        .data = native_port_data,
        .input = native_port_feed,
        .hangup = native_port_hangup,
        .tick = native_port_tick,
        .end = native_port_end,
    };
    int result = box_duplex_flush(&port->duplex, err);
    if (result == 0)
        result = native_port_feed(port, false, err);
    if (result == 0)
        result = box_duplex_run(&port->duplex, &stream, port, err);
    if (result == -ERR_GONE && !port->left && box_alive(port->box))
        result = native_port_fault(err);
    if (result < 0 && port->phase == PORT_TUNNEL)
        return err->code; /* it was answered: the connection just ends */
    return result < 0 ? result : 0;
}

/* ---- any protocol: bytes in binary messages ---- */

static int native_forward_message(void *user, enum ws_kind kind, const uint8_t *data, size_t len, struct err *err) {
    struct box_duplex *duplex = user;
    duplex->eof = duplex->eof || (kind == WS_TEXT && len == 3 && !memcmp(data, "eof", 3));
    duplex->moved_ms = clock_ms();
    return box_duplex_put(duplex, data, kind == WS_BINARY && !duplex->eof ? len : 0, err);
}

int native_forward(struct http_request *request, struct box *box, struct err *err) {
    static const struct ws_pump_hooks hooks = {.message = native_forward_message};
    struct ws_pump pump;
    struct port_path path;
    int result = native_port_path(request, box, &path, err);
    if (result < 0)
        return result;
    if (!native_port_upgrade(request)) {
        http_reply_header(request, "Location", arena_printf(http_arena(request), "%s/", path.prefix));
        return front_empty(request, 308);
    }
    native_port_told(request, "");
    ws_pump_init(&pump, request, WS_PUMP_MESSAGE_BYTES, &hooks, &pump.duplex);
    result = native_port_open(box, &path, &pump.duplex, err);
    if (result == 0)
        result = ws_pump_accept(&pump, err);
    if (result == 0)
        result = ws_pump_run(&pump, err);
    return ws_pump_close(&pump, result, result < 0 ? "the server broke off" : "done");
}
