/* The client's end of a WebSocket: handshake over a connection that libcurl made (CURLOPT_CONNECT_ONLY), so that TLS, proxies
 * and unix sockets are libcurl's; messages are websocket.c's. Called by `cubby shell`, `cubby port` and `cubby join`.
 * Invariant: what libcurl did not take is offered again from the same address with the same length. */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"
#include "http/client/client_curl.h"

#define SOCKET_MESSAGE_BYTES (1u << 20)
#define HANDSHAKE_TIMEOUT_MS 10000u
#define CLOSE_TIMEOUT_MS 1000u
#define WRITE_BYTES 16384u /* a record of TLS */
#define KEEPALIVE_S 30L

struct http_socket {
    struct http_client *client;
    CURL *easy;
    int fd;
    struct websocket *websocket;
    struct buf input; /* of the handshake */
};

static int socket_handshake(struct http_socket *socket, const char *path, struct err *err);
static ssize_t socket_read(void *user, void *data, size_t len, struct err *err);
static ssize_t socket_write(void *user, const struct iovec *parts, int count, struct err *err);
static void socket_free(struct http_socket *socket);
static int socket_unreached(struct http_socket *socket, CURLcode result, struct err *err);

int http_client_ws(struct http_client *client, const char *path, struct http_socket **ret_socket, struct err *err) {
    const struct curl_api *api = &client->api;
    struct http_socket *socket = xcalloc(1, sizeof *socket);
    *socket = (struct http_socket){.client = client, .easy = api->easy_init(), .fd = -1};
    buf_init(&socket->input, LIMIT_HEAD_BYTES * 2);
    if (!socket->easy)
        abort();
    client_prepare(client, socket->easy, client->base);
    api->easy_setopt(socket->easy, CURLOPT_CONNECT_ONLY, 1L);
    api->easy_setopt(socket->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    api->easy_setopt(socket->easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    api->easy_setopt(socket->easy, CURLOPT_TCP_KEEPALIVE, 1L);
    api->easy_setopt(socket->easy, CURLOPT_BUFFERSIZE, 256L << 10); /* or it reads 16 KiB at a time */
    api->easy_setopt(socket->easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
    api->easy_setopt(socket->easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_S);
    CURLcode result = api->easy_perform(socket->easy);
    int code = result == CURLE_OK ? 0 : socket_unreached(socket, result, err);
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (code == 0 && (api->easy_getinfo(socket->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd < 0))
        code = err_set(err, ERR_INTERNAL, "libcurl gives no socket");
    socket->fd = fd;
    if (code == 0)
        code = socket_handshake(socket, path, err);
    if (code < 0) {
        socket_free(socket);
        return code;
    }
    const struct websocket_io io = {
        .read = socket_read, .write = socket_write, .client = true, .gathers = true, .peer = "the daemon"};
    socket->websocket = websocket_new(&io, socket, SOCKET_MESSAGE_BYTES);
    websocket_begin(socket->websocket, socket->input.data, socket->input.len);
    buf_done(&socket->input);
    *ret_socket = socket;
    return 0;
}

/* A proxy that refused has a better reason than libcurl. */
static int socket_unreached(struct http_socket *socket, CURLcode result, struct err *err) {
    struct http_client *client = socket->client;
    long status = 0;
    client->api.easy_getinfo(socket->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    if (status == 407)
        return err_set(
            err, ERR_DENIED,
            "the proxy for %s wants another name or password (407): https_proxy=http://NAME:PASSWORD@HOST:PORT",
            client->base);
    if (status >= 300)
        return err_set(err, ERR_DENIED, "the proxy does not connect to %s: it answered %ld", client->base, status);
    return client_failed(client, socket->easy, result, err);
}

static void socket_free(struct http_socket *socket) {
    websocket_free(socket->websocket);
    socket->client->api.easy_cleanup(socket->easy);
    buf_done(&socket->input);
    free(socket);
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
static int socket_wait_writable(struct http_socket *socket, int timeout_ms, struct err *err) {
    struct pollfd wait = {.fd = socket->fd, .events = POLLOUT | POLLIN};
    int code = websocket_ahead(socket->websocket, err);
    if (code != 0)
        return code < 0 ? code : 0;
    if (poll(&wait, 1, timeout_ms) < 0 && errno != EINTR)
        return err_errno(err, errno, "poll");
    return 0;
}

int http_socket_send(struct http_socket *socket, bool text, const void *data, size_t len, struct err *err) {
    int taken, code = 0;
    while ((taken = websocket_send(socket->websocket, text, data, len, err)) == 0 && code == 0)
        code = socket_wait_writable(socket, -1, err);
    while (taken > 0 && code == 0 && (taken = websocket_flush(socket->websocket, err)) == 0) {
        code = socket_wait_writable(socket, -1, err);
        taken = 1;
    }
    return taken < 0 ? taken : code;
}

void http_socket_end(struct http_socket *socket, unsigned code, const char *reason) {
    if (!socket)
        return;
    struct err ignored;
    uint64_t end_ms = clock_ms() + CLOSE_TIMEOUT_MS, now_ms;
    websocket_close(socket->websocket, code, reason);
    while (websocket_flush(socket->websocket, &ignored) == 0 && (now_ms = clock_ms()) < end_ms &&
           socket_wait_writable(socket, (int)(end_ms - now_ms), &ignored) == 0)
        ;
    socket_free(socket);
}

void http_socket_close(struct http_socket *socket) {
    http_socket_end(socket, 1000, NULL);
}

/* ---- bytes ---- */

static ssize_t socket_read(void *user, void *data, size_t len, struct err *err) {
    struct http_socket *socket = user;
    size_t got = 0;
    CURLcode result = socket->client->api.easy_recv(socket->easy, data, len, &got);
    if (result == CURLE_AGAIN)
        return 0;
    if (result != CURLE_OK)
        return client_failed(socket->client, socket->easy, result, err);
    return got ? (ssize_t)got : err_set(err, ERR_GONE, "the daemon hung up");
}

static ssize_t socket_write(void *user, const struct iovec *parts, int count, struct err *err) {
    struct http_socket *socket = user;
    size_t sent = 0, len = parts->iov_len < WRITE_BYTES ? parts->iov_len : WRITE_BYTES;
    (void)count;
    CURLcode result = socket->client->api.easy_send(socket->easy, parts->iov_base, len, &sent);
    if (result == CURLE_AGAIN || (result == CURLE_OK && !sent))
        return 0;
    return result == CURLE_OK ? (ssize_t)sent : client_failed(socket->client, socket->easy, result, err);
}

/* ---- handshake ---- */

/* The value of a header in a head that ends in an empty line; NULL when absent. Points into head. */
static const char *socket_header(const char *head, const char *name, size_t *ret_len) {
    for (const char *line = strstr(head, "\r\n"); line && line[2] != '\r'; line = strstr(line + 2, "\r\n")) {
        size_t len = strlen(name);
        if (strncasecmp(line + 2, name, len) != 0 || line[2 + len] != ':')
            continue;
        const char *value = line + 2 + len + 1;
        value += strspn(value, " \t");
        *ret_len = strcspn(value, "\r\n");
        return value;
    }
    return NULL;
}

static int socket_wait(struct http_socket *socket, short events, uint64_t end_ms, struct err *err) {
    struct pollfd wait = {.fd = socket->fd, .events = events};
    uint64_t now_ms = clock_ms();
    if (now_ms >= end_ms || poll(&wait, 1, (int)(end_ms - now_ms)) == 0)
        return err_set(err, ERR_TIMEOUT, "%s does not answer the WebSocket request", socket->client->base);
    return 0;
}

static int socket_ask(struct http_socket *socket, const struct buf *request, uint64_t end_ms, struct err *err) {
    for (size_t at = 0; at < request->len;) {
        const struct iovec part = {request->data + at, request->len - at};
        ssize_t sent = socket_write(socket, &part, 1, err);
        int code = sent < 0 ? (int)sent : sent ? 0 : socket_wait(socket, POLLOUT, end_ms, err);
        if (code < 0)
            return code;
        at += (size_t)sent;
    }
    return 0;
}

/* Reads until the empty line; the head, NUL-terminated, in ret_head, what follows stays in input. */
static int socket_read_head(struct http_socket *socket, char *ret_head, size_t size, uint64_t end_ms, struct err *err) {
    struct buf *input = &socket->input;
    for (;;) {
        const uint8_t *end = input->len ? memmem(input->data, input->len, "\r\n\r\n", 4) : NULL;
        size_t len = end ? (size_t)(end - input->data) + 4 : 0;
        if (len >= size || (!end && input->len >= size))
            return err_set(err, ERR_TOO_LARGE, "the daemon's answer has a huge head");
        if (end) {
            memcpy(ret_head, input->data, len);
            ret_head[len] = 0;
            buf_consume(input, len);
            return 0;
        }
        ssize_t got = socket_read(socket, buf_reserve(input, 4096), 4096, err);
        int code = got < 0 ? (int)got : got ? 0 : socket_wait(socket, POLLIN, end_ms, err);
        if (code < 0 && code != -ERR_TIMEOUT && !input->len)
            return err_set(err, ERR_GONE, "%s hung up instead of answering%s", socket->client->base,
                           strncmp(socket->client->base, "https", 5) != 0 ? ": does it want https:// or wss://?" : "");
        if (code < 0)
            return code;
        input->len += (size_t)got;
    }
}

/* The sentence of the error in a body {"error":{"code","message"}}; false where the body is something else. */
static bool socket_reason(const struct buf *body, enum err_code code, struct err *err) {
    json_t *json = json_loadb((const char *)body->data, body->len, 0, NULL);
    const char *message = json_string_value(json_object_get(json_object_get(json, "error"), "message"));
    bool found = message;
    if (found)
        err_set(err, code, "%s", message);
    json_decref(json);
    return found;
}

/* The rest of an answer that is not the upgrade, as far as it says it is long. */
static void socket_read_body(struct http_socket *socket, const char *head, uint64_t end_ms) {
    struct buf *input = &socket->input;
    struct err ignored = {0};
    size_t len = 0;
    uint64_t wanted = 0;
    char digits[24];
    const char *value = socket_header(head, "Content-Length", &len);
    snprintf(digits, sizeof digits, "%.*s", (int)(value ? len : 0), value ? value : "");
    if (!text_u64(digits, LIMIT_HEAD_BYTES, &wanted))
        return;
    while (input->len < wanted) {
        ssize_t got = socket_read(socket, buf_reserve(input, 4096), 4096, &ignored);
        if (got < 0 || (got == 0 && socket_wait(socket, POLLIN, end_ms, &ignored) < 0))
            return;
        input->len += (size_t)got;
    }
}

static int socket_refused(struct http_socket *socket, const char *head, uint64_t end_ms, struct err *err) {
    unsigned status = 0;
    sscanf(head, "HTTP/1.%*1[01] %3u", &status);
    enum err_code code = status == 401   ? ERR_UNAUTHORIZED
                         : status == 403 ? ERR_DENIED
                         : status == 404 ? ERR_NOT_FOUND
                         : status == 410 ? ERR_GONE
                         : status == 429 ? ERR_LIMIT
                                         : ERR_PROTOCOL;
    socket_read_body(socket, head, end_ms);
    if (socket_reason(&socket->input, code, err))
        return -(int)code;
    size_t len = socket->input.len < 300 ? socket->input.len : 300;
    return err_set(err, code, "the daemon answered %u to the WebSocket request: %.*s", status, (int)len,
                   socket->input.data ? (const char *)socket->input.data : "");
}

static int socket_handshake(struct http_socket *socket, const char *path, struct err *err) {
    const struct http_client *client = socket->client;
    const char *host = strstr(client->base, "://") + 3, *prefix = strchrnul(host, '/');
    const char *login = memchr(host, '@', (size_t)(prefix - host)); /* NAME:PASSWORD@ is for libcurl alone */
    host = login ? login + 1 : host;
    uint8_t random[16];
    char key[32] = "", accept[32];
    char head[LIMIT_HEAD_BYTES];
    uint64_t end_ms = clock_ms() + HANDSHAKE_TIMEOUT_MS;
    autobuf request = buf_max(64 << 10);
    autobuf encoded = buf_max(31);
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_errno(err, errno, "getrandom");
    text_base64(&encoded, random, sizeof random);
    memcpy(key, encoded.data, encoded.len);
    buf_printf(&request,
               "GET %s%s HTTP/1.1\r\nHost: %.*s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n%s%s\r\n",
               prefix, path, (int)(prefix - host), host, key, client->token_header ? client->token_header : "",
               client->token_header ? "\r\n" : "");
    int code = request.failed ? err_set(err, ERR_TOO_LARGE, "the request is too long")
                              : socket_ask(socket, &request, end_ms, err);
    if (code == 0)
        code = socket_read_head(socket, head, sizeof head, end_ms, err);
    if (code < 0)
        return code;
    if (strncmp(head, "HTTP/1.1 101", 12) != 0)
        return socket_refused(socket, head, end_ms, err);
    size_t len = 0;
    const char *value = socket_header(head, "Sec-WebSocket-Accept", &len);
    websocket_accept(key, accept);
    if (!value || len != strlen(accept) || memcmp(value, accept, len) != 0)
        return err_set(err, ERR_PROTOCOL, "the server's WebSocket answer is not for this request");
    return 0;
}
