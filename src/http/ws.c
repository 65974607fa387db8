/* A connection after 101, for handlers: a tunnel, whose bytes are passed on to another server, or the server's end of a
 * WebSocket: the handshake, and sends that block within the server's limits. websocket.c has the messages. One thread
 * per socket. Invariants: 1. Once 101 is sent, the client's bytes are never taken for requests, and the connection ends
 * with the handler. 2. ws_close returns within CLOSE_MS, whatever the client does. */
#include <poll.h>

#include "base/base.h"
#include "http/internal.h"

enum { CLOSE_MS = 1000, KEY_BYTES = 24 };

/* Answers 101 with the headers that were put before. */
static int ws_switch(struct http_request *request, struct err *err) {
    if (request->status)
        return err_set(err, ERR_INTERNAL, "the request was already answered");
    int result = http_reply_begin(request, 101, NULL, 0) ?: http_reply_end(request);
    reply_upgraded(request);
    return result < 0 ? err_set(err, ERR_GONE, "the client went away") : 0;
}

int http_tunnel(struct http_request *request, struct err *err) {
    if (strcmp(request->method, "GET") != 0 || request->http10 || !request->upgrade || !http_body_done(request))
        return err_set(err, ERR_INVALID,
                       "an upgrade must be a GET of HTTP/1.1 without a body, with Connection: Upgrade");
    return ws_switch(request, err);
}

ssize_t http_tunnel_read(struct http_request *request, void *data, size_t len) {
    size_t have = request->in_end - request->in_at;
    if (have) { /* arrived with the request */
        size_t n = have < len ? have : len;
        memcpy(data, request->worker->scratch + request->in_at, n);
        request->in_at += n;
        return (ssize_t)n;
    }
    short events;
    ssize_t n = conn_recv(request->conn, data, len, &events);
    if (n == -EAGAIN)
        return 0;
    if (n <= 0)
        return -ERR_GONE;
    request->bytes_in += (uint64_t)n;
    return n;
}

int http_tunnel_write(struct http_request *request, const void *data, size_t len) {
    struct iovec part = {(void *)(uintptr_t)data, len};
    request->bytes_out += len;
    return conn_send(request->worker, request->conn, &part, 1, 0);
}

struct ws {
    struct http_request *request;
    struct websocket *websocket;
    short events; /* poll events that a write waits for */
};

static ssize_t ws_read(void *user, void *data, size_t len, struct err *err) {
    struct ws *ws = user;
    ssize_t got = http_tunnel_read(ws->request, data, len);
    return got < 0 ? err_set(err, ERR_GONE, "the client hung up without closing the WebSocket") : got;
}

static ssize_t ws_write(void *user, const struct iovec *parts, int count, struct err *err) {
    struct ws *ws = user;
    ssize_t sent = conn_send_some(ws->request->conn, parts, count, &ws->events);
    if (sent == -EAGAIN)
        return 0;
    if (sent <= 0)
        return err_set(err, ERR_GONE, "the client is gone");
    ws->request->bytes_out += (uint64_t)sent;
    return sent;
}

int ws_accept(struct http_request *request, size_t max_message, struct ws **ret_ws, struct err *err) {
    const char *upgrade = http_header(request, "upgrade"), *key = http_header(request, "sec-websocket-key");
    const char *version = http_header(request, "sec-websocket-version");
    if (strcmp(request->method, "GET") != 0 || request->http10 || !request->upgrade || !upgrade ||
        !http_list_has(upgrade, "websocket"))
        return err_set(err, ERR_INVALID, "this path needs a WebSocket: GET with Upgrade: websocket");
    if (!version || strcmp(version, "13") != 0)
        return err_set(err, ERR_INVALID, "Sec-WebSocket-Version must be 13");
    autobuf nonce = buf_max(64);
    if (!key || strlen(key) != KEY_BYTES || !text_unbase64(&nonce, key, KEY_BYTES) || nonce.len != 16)
        return err_set(err, ERR_INVALID, "Sec-WebSocket-Key must be 16 bytes in base64");
    if (!http_body_done(request))
        return err_set(err, ERR_INVALID, "a WebSocket request has no body");
    char answer[32];
    websocket_accept(key, answer);
    http_reply_header(request, "Upgrade", "websocket");
    http_reply_header(request, "Connection", "Upgrade");
    http_reply_header(request, "Sec-WebSocket-Accept", answer);
    TRY(ws_switch(request, err));
    struct ws *ws = xcalloc(1, sizeof *ws);
    const struct websocket_io io = {
        .read = ws_read, .write = ws_write, .gathers = request->conn->tls != NULL, .peer = "the client"};
    *ws = (struct ws){.request = request, .websocket = websocket_new(&io, ws, max_message), .events = POLLOUT};
    *ret_ws = ws;
    return 0;
}

struct websocket *ws_websocket(struct ws *ws) {
    return ws->websocket;
}

void ws_limit(struct ws *ws, size_t max_message) {
    websocket_limit(ws->websocket, max_message);
}

static int ws_wait(void *user, struct err *err) {
    struct ws *ws = user;
    struct http_request *request = ws->request;
    int ready = conn_wait_paced(request->worker, request->conn, ws->events, &request->pace_out);
    if (ready > 0)
        return 0;
    return ready == 0 ? err_set(err, ERR_TIMEOUT, "the WebSocket's client does not read")
                      : err_set(err, ERR_GONE, "the WebSocket's client is gone");
}

int ws_recv(struct ws *ws, enum ws_kind *ret_kind, const uint8_t **ret_data, size_t *ret_len, struct err *err) {
    bool text;
    int result = websocket_recv(ws->websocket, &text, ret_data, ret_len, err);
    if (result > 0)
        *ret_kind = text ? WS_TEXT : WS_BINARY;
    return result;
}

int ws_send(struct ws *ws, enum ws_kind kind, const void *data, size_t len, struct err *err) {
    return websocket_send_all(ws->websocket, kind == WS_TEXT, data, len, ws_wait, ws, err);
}

int ws_ping(struct ws *ws, struct err *err) {
    return websocket_ping(ws->websocket, err);
}

/* Waits a while for the close frames of both sides; messages that still arrive are dropped. */
static void ws_part(struct ws *ws, uint64_t end_ms) {
    struct http_request *request = ws->request;
    struct err err;
    for (;;) {
        bool text;
        const uint8_t *data;
        size_t len;
        int flushed = websocket_flush(ws->websocket, &err);
        int got = flushed < 0 ? flushed : websocket_recv(ws->websocket, &text, &data, &len, &err);
        uint64_t now_ms = clock_ms();
        if (now_ms >= end_ms || flushed < 0 || (got < 0 && flushed))
            return;
        short events = (short)((got < 0 ? 0 : POLLIN) | (flushed ? 0 : POLLOUT));
        if (got <= 0 && conn_wait(request->worker, request->conn, events, (unsigned)(end_ms - now_ms)) <= 0)
            return;
    }
}

void ws_close(struct ws *ws, unsigned code, const char *reason) {
    websocket_close(ws->websocket, code, reason);
    ws_part(ws, clock_ms() + CLOSE_MS);
    websocket_free(ws->websocket);
    free(ws);
}
