/* WebSocket for handlers: the handshake is ours, frames are libwslay's. One thread per socket.
 *
 * wslay writes a frame's header and payload separately; they are gathered here and leave in one send. Not to break:
 * a message is only taken from the socket while none waits to be handed out, so a flood of messages is back-pressure on
 * the sender and never memory of ours. */
#include <errno.h>
#include <openssl/sha.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

#include "base/clock.h"
#include "base/text.h"
#include "http/internal.h"

enum { GATHER_BYTES = 256 << 10, CLOSE_MS = 1000, KEY_BYTES = 24, READ_ROUNDS = 100 };

struct message {
    struct message *next;
    enum ws_kind kind;
    size_t len;
    uint8_t data[];
};

struct ws {
    struct http_request *request;
    wslay_event_context_ptr context;
    struct buf out;
    struct message *first, **last, *given;
    bool broken;
    bool full; /* more may be there to read, but answers (pongs) must be sent first */
};

static ssize_t on_recv(wslay_event_context_ptr context, uint8_t *data, size_t len, int flags, void *user);
static ssize_t on_send(wslay_event_context_ptr context, const uint8_t *data, size_t len, int flags, void *user);
static void on_message(wslay_event_context_ptr context, const struct wslay_event_on_msg_recv_arg *arg, void *user);
static int ws_flush(struct ws *ws, struct err *err);
static int ws_shake(struct http_request *request, struct err *err);

int ws_accept(struct http_request *request, size_t max_message, struct ws **ret_ws, struct err *err) {
    int result = ws_shake(request, err);
    if (result < 0)
        return result;
    struct ws *ws = calloc(1, sizeof *ws);
    if (!ws)
        abort();
    ws->request = request;
    ws->last = &ws->first;
    buf_init(&ws->out, SIZE_MAX / 2); /* emptied at GATHER_BYTES */
    const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv, .send_callback = on_send, .on_msg_recv_callback = on_message};
    if (wslay_event_context_server_init(&ws->context, &callbacks, ws) != 0)
        abort();
    wslay_event_config_set_max_recv_msg_length(ws->context, max_message);
    *ret_ws = ws;
    return 0;
}

/* ---- handshake ---- */

static void accept_key(const char *key, char out[32]) {
    uint8_t digest[SHA_DIGEST_LENGTH];
    char joined[KEY_BYTES + 37];
    int len = snprintf(joined, sizeof joined, "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key); /* RFC 6455 1.3 */
    SHA1((const uint8_t *)joined, (size_t)len, digest);
    autobuf text = {0};
    buf_init(&text, 64);
    text_base64(&text, digest, sizeof digest);
    memcpy(out, text.data, 28);
    out[28] = 0;
}

static int ws_shake(struct http_request *request, struct err *err) {
    const char *upgrade = http_header(request, "upgrade"), *key = http_header(request, "sec-websocket-key");
    const char *version = http_header(request, "sec-websocket-version");
    if (strcmp(request->method, "GET") != 0 || request->http10 || !request->upgrade || !upgrade ||
        !http_list_has(upgrade, "websocket"))
        return err_set(err, ERR_INVALID, "this path wants a WebSocket: GET with Upgrade: websocket");
    if (!version || strcmp(version, "13") != 0)
        return err_set(err, ERR_INVALID, "Sec-WebSocket-Version must be 13");
    autobuf nonce = {0};
    buf_init(&nonce, 64);
    if (!key || strlen(key) != KEY_BYTES || !text_unbase64(&nonce, key, KEY_BYTES) || nonce.len != 16)
        return err_set(err, ERR_INVALID, "Sec-WebSocket-Key must be 16 bytes in base64");
    if (!body_done(request))
        return err_set(err, ERR_INVALID, "a WebSocket request has no body");
    if (request->status)
        return err_set(err, ERR_INTERNAL, "the request was answered before");
    char answer[32];
    accept_key(key, answer);
    http_reply_header(request, "Upgrade", "websocket");
    http_reply_header(request, "Connection", "Upgrade");
    http_reply_header(request, "Sec-WebSocket-Accept", answer);
    int result = http_reply_begin(request, 101, NULL, 0);
    if (result == 0)
        result = http_reply_end(request);
    reply_upgraded(request);
    return result < 0 ? err_set(err, ERR_GONE, "the client went away") : 0;
}

/* ---- wslay's side ---- */

static ssize_t on_recv(wslay_event_context_ptr context, uint8_t *data, size_t len, int flags, void *user) {
    (void)flags;
    struct ws *ws = user;
    ws->full = wslay_event_get_queued_msg_count(context) > 0; /* or a flood of pings would pile up pongs */
    if (ws->first || ws->full) {
        wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    ssize_t n = http_tunnel_read(ws->request, data, len);
    if (n > 0)
        return n;
    ws->broken = n < 0;
    wslay_event_set_error(context, ws->broken ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static int ws_send_out(struct ws *ws) {
    if (!ws->out.len)
        return 0;
    struct iovec part = {ws->out.data, ws->out.len};
    ws->request->bytes_out += ws->out.len;
    int result = conn_send(ws->request->worker, ws->request->conn, &part, 1, 0);
    ws->broken = ws->broken || result < 0;
    if (ws->out.cap > GATHER_BYTES)
        buf_done(&ws->out);
    else
        buf_clear(&ws->out);
    return result;
}

static ssize_t on_send(wslay_event_context_ptr context, const uint8_t *data, size_t len, int flags, void *user) {
    (void)flags;
    struct ws *ws = user;
    buf_put(&ws->out, data, len);
    if (ws->broken || (ws->out.len >= GATHER_BYTES && ws_send_out(ws) < 0)) {
        wslay_event_set_error(context, WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
    }
    return (ssize_t)len;
}

static void on_message(wslay_event_context_ptr context, const struct wslay_event_on_msg_recv_arg *arg, void *user) {
    (void)context;
    struct ws *ws = user;
    if (arg->opcode != WSLAY_TEXT_FRAME && arg->opcode != WSLAY_BINARY_FRAME && arg->opcode != WSLAY_CONNECTION_CLOSE)
        return;
    struct message *message = malloc(sizeof *message + arg->msg_length);
    if (!message)
        abort();
    message->next = NULL;
    message->kind = arg->opcode == WSLAY_TEXT_FRAME     ? WS_TEXT
                    : arg->opcode == WSLAY_BINARY_FRAME ? WS_BINARY
                                                        : WS_CLOSE;
    message->len = arg->msg_length;
    if (arg->msg_length)
        memcpy(message->data, arg->msg, arg->msg_length);
    *ws->last = message;
    ws->last = &message->next;
}

/* Lets wslay write what is queued (also pongs and close frames) and sends it at once. */
static int ws_flush(struct ws *ws, struct err *err) {
    int result = wslay_event_want_write(ws->context) ? wslay_event_send(ws->context) : 0;
    if (result != 0 || ws_send_out(ws) < 0 || ws->broken) {
        ws->broken = true;
        return err_set(err, ERR_GONE, "the WebSocket's client is gone or reads nothing");
    }
    return 0;
}

/* ---- the handler's side ---- */

static bool ws_take(struct ws *ws, enum ws_kind *ret_kind, const uint8_t **ret_data, size_t *ret_len) {
    struct message *message = ws->first;
    if (!message)
        return false;
    ws->first = message->next;
    if (!ws->first)
        ws->last = &ws->first;
    ws->given = message;
    *ret_kind = message->kind;
    *ret_data = message->data;
    *ret_len = message->len;
    return true;
}

/* Lets wslay read until a message is whole, nothing is left to read, or it has something to send. */
static int ws_read(struct ws *ws, struct err *err) {
    ws->full = false;
    int result = wslay_event_want_read(ws->context) ? wslay_event_recv(ws->context) : WSLAY_ERR_CALLBACK_FAILURE;
    int flushed = ws->broken ? -ERR_GONE : ws_flush(ws, err);
    if (result != 0 || flushed < 0 || !wslay_event_get_read_enabled(ws->context)) {
        ws->broken = true;
        return err_set(err, ERR_GONE, "the WebSocket is closed");
    }
    return 0;
}

int ws_recv(struct ws *ws, enum ws_kind *ret_kind, const uint8_t **ret_data, size_t *ret_len, struct err *err) {
    free(ws->given);
    ws->given = NULL;
    for (int round = 0; round < READ_ROUNDS; round++) {
        if (ws_take(ws, ret_kind, ret_data, ret_len))
            return 1;
        if (ws->broken)
            return err_set(err, ERR_GONE, "the WebSocket is closed");
        if (round && !ws->full)
            return 0;
        int result = ws_read(ws, err);
        if (result < 0 && !ws->first)
            return result;
    }
    return 0;
}

static int ws_queue(struct ws *ws, uint8_t opcode, const void *data, size_t len, struct err *err) {
    const struct wslay_event_msg message = {.opcode = opcode, .msg = data, .msg_length = len};
    if (ws->broken || wslay_event_queue_msg(ws->context, &message) != 0)
        return err_set(err, ERR_GONE, "the WebSocket is closed");
    return ws_flush(ws, err);
}

int ws_send(struct ws *ws, enum ws_kind kind, const void *data, size_t len, struct err *err) {
    if (kind == WS_CLOSE) {
        ws->broken = ws->broken || wslay_event_queue_close(ws->context, WSLAY_CODE_NORMAL_CLOSURE, data, len) != 0;
        return ws_flush(ws, err);
    }
    return ws_queue(ws, kind == WS_TEXT ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, data, len, err);
}

int ws_ping(struct ws *ws, struct err *err) {
    return ws_queue(ws, WSLAY_PING, NULL, 0, err);
}

static void ws_drop_messages(struct ws *ws) {
    free(ws->given);
    ws->given = NULL;
    while (ws->first) {
        struct message *next = ws->first->next;
        free(ws->first);
        ws->first = next;
    }
    ws->last = &ws->first;
}

void ws_close(struct ws *ws, unsigned code, const char *reason) {
    struct err err;
    size_t len = reason ? strlen(reason) : 0;
    len = len > 123 ? 123 : len;
    if (!ws->broken && !wslay_event_get_close_sent(ws->context))
        wslay_event_queue_close(ws->context, (uint16_t)code, (const uint8_t *)(reason ? reason : ""), len);
    bool alive = !ws->broken && ws_flush(ws, &err) == 0;
    uint64_t end_ms = clock_ms() + CLOSE_MS;
    while (alive && !wslay_event_get_close_received(ws->context)) { /* the peer's goodbye, for a while */
        ws_drop_messages(ws);
        alive = wslay_event_want_read(ws->context) && wslay_event_recv(ws->context) == 0 && !ws->broken;
        uint64_t now_ms = clock_ms();
        if (!alive || now_ms >= end_ms || wslay_event_get_close_received(ws->context))
            break;
        if (!ws->first)
            alive = conn_wait(ws->request->worker, ws->request->conn, POLLIN, (unsigned)(end_ms - now_ms)) > 0;
    }
    ws_drop_messages(ws);
    wslay_event_context_free(ws->context);
    buf_done(&ws->out);
    free(ws);
}
