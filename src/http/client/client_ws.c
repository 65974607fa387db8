/* The client's end of a WebSocket: handshake over a connection of client_raw.c; messages are websocket.c's. Called
 * by `cubby shell`, `cubby port` and `cubby join`. */
#include <jansson.h>
#include <poll.h>
#include <sys/random.h>

#include "base/base.h"
#include "http/client/client_curl.h"
#include "http/websocket.h"

#define SOCKET_MESSAGE_BYTES (1u << 20)
#define HANDSHAKE_TIMEOUT_MS 10000u
#define CLOSE_TIMEOUT_MS 1000u

struct http_socket {
    struct http_raw *raw;
    int fd;
    struct websocket *websocket;
};

/* The sentence of the error in a body {"error":{"code","message"}}; else the begin of what came. */
static int ws_socket_refused(struct http_raw *raw, int status, uint64_t end_ms, struct err *err) {
    enum err_code code = status == 401   ? ERR_UNAUTHORIZED
                         : status == 403 ? ERR_DENIED
                         : status == 404 ? ERR_NOT_FOUND
                         : status == 410 ? ERR_GONE
                         : status == 429 ? ERR_LIMIT
                                         : ERR_PROTOCOL;
    autobuf body = buf_max(LIMIT_HEAD_BYTES);
    http_raw_body(raw, end_ms, &body);
    json_t *json = json_loadb((const char *)body.data, body.len, 0, NULL);
    const char *message = json_string_value(json_object_get(json_object_get(json, "error"), "message"));
    if (message)
        err_set(err, code, "%s", message);
    else
        err_set(err, code, "the daemon answered %d to the WebSocket request: %.*s", status,
                (int)(body.len < 300 ? body.len : 300), body.data ? (const char *)body.data : "");
    json_decref(json);
    return -(int)code;
}

static int ws_socket_handshake(const struct http_client *client, struct http_raw *raw, const char *key, uint64_t end_ms,
                               struct err *err) {
    const char *base = client->base;
    int status = 0, code = http_raw_head(raw, end_ms, &status, err);
    if (code > 0)
        return err_set(err, ERR_GONE, "%s hung up instead of answering%s", base,
                       strncmp(base, "https", 5) != 0 ? ": does it want https:// or wss://?" : "");
    TRY(code);
    if (status != 101)
        return ws_socket_refused(raw, status, end_ms, err);
    char accept[32];
    size_t len = 0;
    const char *value = http_raw_header(raw, "Sec-WebSocket-Accept", &len);
    websocket_accept(key, accept);
    if (!value || len != strlen(accept) || memcmp(value, accept, len) != 0)
        return err_set(err, ERR_PROTOCOL, "the server's WebSocket answer is not for this request");
    return 0;
}

static ssize_t ws_socket_read(void *user, void *data, size_t len, struct err *err) {
    return http_raw_recv(((struct http_socket *)user)->raw, data, len, err);
}

static ssize_t ws_socket_write(void *user, const struct iovec *parts, int, struct err *err) {
    return http_raw_send(((struct http_socket *)user)->raw, parts->iov_base, parts->iov_len, err);
}

int http_client_ws(struct http_client *client, const char *path, struct http_socket **ret_socket, struct err *err) {
    uint8_t random[16];
    char key[32] = "", key_header[64];
    autobuf encoded = buf_max(31);
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_errno(err, errno, "getrandom");
    text_base64(&encoded, random, sizeof random);
    memcpy(key, encoded.data, encoded.len);
    snprintf(key_header, sizeof key_header, "Sec-WebSocket-Key: %s", key);
    const char *const headers[] = {"Upgrade: websocket", "Connection: Upgrade", key_header, "Sec-WebSocket-Version: 13",
                                   NULL};
    const struct http_call call = {.method = "GET", .path = path, .headers = headers};
    uint64_t end_ms = clock_ms() + HANDSHAKE_TIMEOUT_MS;
    struct http_raw *raw = NULL;
    int code = http_raw_open(client, &call, end_ms, &raw, err) ?: ws_socket_handshake(client, raw, key, end_ms, err);
    if (code < 0) {
        http_raw_close(raw);
        return code;
    }
    const struct websocket_io io = {
        .read = ws_socket_read, .write = ws_socket_write, .client = true, .gathers = true, .peer = "the daemon"};
    struct http_socket *socket = xcalloc(1, sizeof *socket);
    *socket = (struct http_socket){.raw = raw, .fd = http_raw_fd(raw)};
    socket->websocket = websocket_new(&io, socket, SOCKET_MESSAGE_BYTES);
    websocket_begin(socket->websocket, http_raw_input(raw)->data, http_raw_input(raw)->len);
    buf_done(http_raw_input(raw));
    *ret_socket = socket;
    return 0;
}

int http_socket_fd(const struct http_socket *socket) {
    return socket->fd;
}

struct websocket *http_socket_websocket(struct http_socket *socket) {
    return socket->websocket;
}

int http_socket_recv(struct http_socket *socket, bool *ret_text, const uint8_t **ret_data, size_t *ret_len,
                     struct err *err) {
    return websocket_recv(socket->websocket, ret_text, ret_data, ret_len, err);
}

/* While the server does not take our bytes, its own are read, or two full pipes would wait for each other. */
static int ws_socket_wait_until(struct http_socket *socket, int timeout_ms, struct err *err) {
    struct pollfd wait = {.fd = socket->fd, .events = POLLOUT | POLLIN};
    int code = websocket_ahead(socket->websocket, err);
    if (code != 0)
        return code < 0 ? code : 0;
    if (poll(&wait, 1, timeout_ms) < 0 && errno != EINTR)
        return err_errno(err, errno, "poll");
    return 0;
}

static int ws_socket_wait(void *socket, struct err *err) {
    return ws_socket_wait_until(socket, -1, err);
}

int http_socket_send(struct http_socket *socket, bool text, const void *data, size_t len, struct err *err) {
    return websocket_send_all(socket->websocket, text, data, len, ws_socket_wait, socket, err);
}

void http_socket_end(struct http_socket *socket, unsigned code, const char *reason) {
    if (!socket)
        return;
    uint64_t end_ms = clock_ms() + CLOSE_TIMEOUT_MS, now_ms;
    websocket_close(socket->websocket, code, reason);
    while (websocket_flush(socket->websocket, ERR_IGNORED) == 0 && (now_ms = clock_ms()) < end_ms &&
           ws_socket_wait_until(socket, (int)(end_ms - now_ms), ERR_IGNORED) == 0)
        ;
    websocket_free(socket->websocket);
    http_raw_close(socket->raw);
    free(socket);
}

void http_socket_close(struct http_socket *socket) {
    http_socket_end(socket, 1000, NULL);
}
