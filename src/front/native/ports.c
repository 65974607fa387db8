/* The door to servers in a box: HTTP and WebSocket by proxy, anything else as bytes over a WebSocket of our own. Called
 * through native_routes. Invariant: one request is one connection to the server in the box, never used again, so that
 * neither side can say anything to the other's next request; no body is held whole; who waits is watched for going away. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "front/native/native.h"
#include "front/port_head.h"
#include "front/trail.h"

enum {
    PIECE_BYTES = 64 << 10,
    TICK_MS = 1000,         /* how soon a stopping daemon lets a stream go */
    HEAD_MS = 300000,       /* a server's time for the head of its answer, as long as a command has by default */
    SILENCE_MS = 600000,    /* nobody says anything for so long: the stream is over */
    PING_MS = 30000,        /* of a forward that is silent */
    MESSAGE_BYTES = 1 << 20 /* one message of a forward */
};

enum port_phase { PORT_HEAD, PORT_BODY, PORT_TUNNEL };

struct native_port {
    struct http_request *request;
    struct box *box;
    struct call *call;
    struct port_path path;
    struct response *response;
    struct buf out; /* for the server, not taken by it yet */
    enum port_phase phase;
    bool websocket; /* asked for */
    bool uploading; /* of the client's body more is to come */
    bool events;    /* the answer is an event stream */
    uint64_t moved_ms, tick_ms;
};

static int native_port_path(struct http_request *request, struct box *box, struct port_path *ret_path, struct err *err);
static int native_port_open(struct http_request *request, struct box *box, const struct port_path *path,
                            struct call **ret_call, struct err *err);
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
    if (result >= 0)
        result = native_port_open(request, box, &port.path, &port.call, err);
    if (result < 0)
        return result;
    buf_init(&port.out, LIMIT_HEAD_BYTES + 2 * PIECE_BYTES);
    port.response = response_new();
    port.uploading = !http_body_done(request);
    port.moved_ms = clock_ms();
    port_request_head(request, &port.path, port.websocket, &port.out);
    result = port.out.failed ? err_set(err, ERR_TOO_LARGE, "the head of the request is too large for the box")
                             : native_port_pump(&port, err);
    call_close(port.call);
    response_free(port.response);
    buf_done(&port.out);
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

static int native_port_open(struct http_request *request, struct box *box, const struct port_path *path,
                            struct call **ret_call, struct err *err) {
    int result = box_connect(box, path->port, http_fd(request), ret_call, err);
    return result == -ERR_NOT_FOUND || result == -ERR_IO ? native_port_fault(err) : result;
}

/* ---- to the server ---- */

/* The next piece of the client's body, in the coding that our head has announced. */
static int native_port_body(struct native_port *port, struct err *err) {
    bool chunked = http_body_length(port->request) < 0;
    uint8_t data[PIECE_BYTES / 4];
    ssize_t n = http_body_read(port->request, data, sizeof data, err);
    if (n < 0)
        return (int)n;
    port->uploading = !http_body_done(port->request);
    if (n && chunked)
        buf_printf(&port->out, "%zx\r\n", (size_t)n);
    buf_put(&port->out, data, (size_t)n);
    if (chunked)
        buf_puts(&port->out, n && port->uploading ? "\r\n" : n ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
    return 0;
}

static int native_port_bytes(struct native_port *port) {
    uint8_t data[PIECE_BYTES / 4];
    ssize_t n = http_tunnel_read(port->request, data, sizeof data);
    if (n > 0)
        buf_put(&port->out, data, (size_t)n);
    return n < 0 ? 1 : 0;
}

/* True: the client may have something for the server, and there is room for it. */
static bool native_port_wants(const struct native_port *port) {
    return port->out.len == 0 && (port->uploading || port->phase == PORT_TUNNEL);
}

/* What is there, as far as the box takes it. ready: the client's socket has something. 1: the client has ended. */
static int native_port_feed(struct native_port *port, bool ready, struct err *err) {
    int result = port->uploading && port->out.len == 0 ? http_body_invite(port->request, err) : 0;
    while (result == 0) {
        if (port->out.len) {
            ssize_t taken = call_send(port->call, port->out.data, port->out.len, err);
            if (taken < 0)
                return (int)taken;
            port->moved_ms = taken ? clock_ms() : port->moved_ms;
            buf_consume(&port->out, (size_t)taken);
            if (port->out.len)
                return 0; /* EVENT_INPUT will come */
        }
        if (!native_port_wants(port) || !(ready || http_body_ready(port->request)))
            return 0;
        ready = false;
        result = port->phase == PORT_TUNNEL ? native_port_bytes(port) : native_port_body(port, err);
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

/* 1: the answer is whole. */
static int native_port_content(struct native_port *port, const uint8_t *data, size_t len, struct err *err) {
    for (;;) {
        const void *content;
        size_t content_len;
        ssize_t used = response_body(port->response, data, len, &content, &content_len, err);
        if (used < 0)
            return (int)used;
        int result = content_len ? http_reply_write(port->request, content, content_len) : 0;
        if (result < 0)
            return err_set(err, (enum err_code) - result, "the client went away or stopped reading");
        data += used;
        len -= (size_t)used;
        if (response_done(port->response))
            return http_reply_end(port->request), 1;
        if (!used) /* a head without content yet goes out too: who streams may take his time */
            return http_reply_flush(port->request) < 0 ? err_set(err, ERR_GONE, "the client went away") : 0;
    }
}

static int native_port_data(struct native_port *port, const uint8_t *data, size_t len, struct err *err) {
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

static int native_port_end(struct native_port *port, struct err *err) {
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

static int native_port_ready(struct native_port *port, short revents, struct err *err) {
    if (revents & POLLIN && native_port_wants(port))
        return native_port_feed(port, true, err);
    if (revents & (POLLRDHUP | POLLHUP | POLLERR))
        return err_set(err, ERR_GONE, "the client hung up");
    return 0;
}

/* 0 go on, 1 over, negative failed. */
static int native_port_event(struct native_port *port, const struct event *event, struct err *err) {
    switch (event->kind) {
    case EVENT_DATA:
        port->moved_ms = clock_ms();
        return native_port_data(port, event->data, event->len, err);
    case EVENT_END:
        return native_port_end(port, err);
    case EVENT_INPUT:
        return native_port_feed(port, false, err);
    case EVENT_READY:
        return native_port_ready(port, event->revents, err);
    default:
        return 0;
    }
}

static int native_port_tick(struct native_port *port, struct err *err) {
    uint64_t now_ms = clock_ms(), patience_ms = port->phase == PORT_HEAD ? HEAD_MS : SILENCE_MS;
    port->tick_ms = now_ms + TICK_MS;
    if (http_server_stopping(front_of(port->request)->server) && (port->events || port->phase == PORT_TUNNEL)) {
        if (port->events)
            http_reply_end(port->request);
        return 1;
    }
    if (now_ms < port->moved_ms + patience_ms)
        return 0;
    return err_set(err, ERR_TIMEOUT, "the server on port %u did not answer within %u seconds", port->path.port,
                   (unsigned)(patience_ms / 1000));
}

static int native_port_pump(struct native_port *port, struct err *err) {
    int result = native_port_feed(port, false, err);
    port->tick_ms = clock_ms() + TICK_MS;
    while (result == 0) {
        struct event event;
        struct call_wait wait = {.fd = http_fd(port->request), .deadline_ms = port->tick_ms};
        wait.events = native_port_wants(port) ? POLLIN | POLLRDHUP : POLLRDHUP;
        result = call_next(port->call, &wait, &event, err);
        if (result == -ERR_TIMEOUT && clock_ms() >= port->tick_ms)
            result = native_port_tick(port, err);
        else if (result == 0)
            result = native_port_event(port, &event, err);
        else if (result == -ERR_GONE && wire_alive(port->box->wire))
            result = native_port_fault(err);
        if (result == 0 && native_port_wants(port) && http_body_ready(port->request))
            result = native_port_feed(port, false, err);
    }
    if (result < 0 && port->phase == PORT_TUNNEL)
        return err->code; /* it was answered: the connection just ends */
    return result < 0 ? result : 0;
}

/* ---- any protocol: bytes in binary messages ---- */

struct native_forward {
    struct http_request *request;
    struct ws *ws;
    struct call *call;
    struct buf out;
    bool eof; /* the client has said all */
    uint64_t moved_ms, tick_ms;
};

static int native_forward_feed(struct native_forward *forward, struct err *err) {
    if (forward->out.len) {
        ssize_t taken = call_send(forward->call, forward->out.data, forward->out.len, err);
        if (taken < 0)
            return (int)taken;
        buf_consume(&forward->out, (size_t)taken);
    }
    return forward->eof && !forward->out.len ? call_send_eof(forward->call, err) : 0;
}

/* Takes messages while the box takes their bytes. 1: over. */
static int native_forward_client(struct native_forward *forward, struct err *err) {
    while (!forward->out.len) {
        enum ws_kind kind;
        const uint8_t *data;
        size_t len;
        int got = ws_recv(forward->ws, &kind, &data, &len, err);
        if (got < 0)
            return 1;
        if (!got)
            return 0;
        forward->moved_ms = clock_ms();
        forward->eof = forward->eof || (kind == WS_TEXT && len == 3 && !memcmp(data, "eof", 3));
        if (kind == WS_BINARY && !forward->eof)
            buf_put(&forward->out, data, len);
        int failed = native_forward_feed(forward, err);
        if (failed)
            return failed;
    }
    return 0;
}

static int native_forward_event(struct native_forward *forward, const struct event *event, struct err *err) {
    switch (event->kind) {
    case EVENT_DATA:
        forward->moved_ms = clock_ms();
        return ws_send(forward->ws, WS_BINARY, event->data, event->len, err) < 0 ? 1 : 0;
    case EVENT_END:
        return 1;
    case EVENT_INPUT: {
        int failed = native_forward_feed(forward, err);
        return failed ? failed : native_forward_client(forward, err);
    }
    case EVENT_READY:
        if (event->revents & POLLIN)
            return native_forward_client(forward, err);
        return event->revents & (POLLRDHUP | POLLHUP | POLLERR) ? 1 : 0;
    default:
        return 0;
    }
}

static int native_forward_tick(struct native_forward *forward, struct err *err) {
    uint64_t now_ms = clock_ms();
    forward->tick_ms = now_ms + TICK_MS;
    if (http_server_stopping(front_of(forward->request)->server))
        return 1;
    if (now_ms < forward->moved_ms + PING_MS)
        return 0;
    forward->moved_ms = now_ms; /* one who is gone does not take it for long */
    return ws_ping(forward->ws, err) < 0;
}

static int native_forward_pump(struct native_forward *forward, struct err *err) {
    int result = native_forward_client(forward, err); /* messages that came with the upgrade */
    while (!result) {
        struct event event;
        struct call_wait wait = {.fd = http_fd(forward->request), .deadline_ms = forward->tick_ms};
        wait.events = forward->out.len ? POLLRDHUP : POLLIN | POLLRDHUP;
        result = call_next(forward->call, &wait, &event, err);
        if (result == -ERR_TIMEOUT)
            result = native_forward_tick(forward, err);
        else if (!result)
            result = native_forward_event(forward, &event, err);
    }
    return result;
}

int native_forward(struct http_request *request, struct box *box, struct err *err) {
    struct native_forward forward = {.request = request, .moved_ms = clock_ms(), .tick_ms = clock_ms() + TICK_MS};
    struct port_path path;
    int result = native_port_path(request, box, &path, err);
    if (result < 0)
        return result;
    if (!native_port_upgrade(request)) {
        http_reply_header(request, "Location", arena_printf(http_arena(request), "%s/", path.prefix));
        return front_empty(request, 308);
    }
    native_port_told(request, "");
    result = native_port_open(request, box, &path, &forward.call, err);
    if (result < 0)
        return result;
    buf_init(&forward.out, MESSAGE_BYTES);
    result = ws_accept(request, MESSAGE_BYTES, &forward.ws, err);
    if (!result)
        result = native_forward_pump(&forward, err);
    if (forward.ws)
        ws_close(forward.ws, result < 0 ? 1011 : 1000, result < 0 ? "the server broke off" : "done");
    call_close(forward.call);
    buf_done(&forward.out);
    return forward.ws && result < 0 ? -result : result < 0 ? result : 0;
}
