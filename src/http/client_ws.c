/* The client's WebSocket: handshake and RFC 6455 frames over a connection that libcurl made (CURLOPT_CONNECT_ONLY), so
 * that TLS, proxies and unix sockets are libcurl's. Called by `cubby shell`. Not to break: every length from the server
 * meets SOCKET_MESSAGE_BYTES before it is used; what we send is masked. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "http/client_curl.h"

#define SOCKET_MESSAGE_BYTES (1u << 20)
#define SOCKET_INPUT_BYTES (4u << 20) /* read ahead while a send waits */
#define HANDSHAKE_TIMEOUT_MS 10000u

enum opcode {
    OPCODE_MORE = 0,
    OPCODE_TEXT = 1,
    OPCODE_BINARY = 2,
    OPCODE_CLOSE = 8,
    OPCODE_PING = 9,
    OPCODE_PONG = 10
};

struct http_socket {
    struct http_client *client;
    CURL *easy;
    int fd;
    struct buf input;   /* raw bytes not yet taken apart */
    struct buf message; /* the message being put together, or just handed out */
    uint8_t opcode;     /* of that message; 0: none begun */
    bool whole;         /* message was handed out: clear it at the next receive */
    bool closed;        /* a close frame came or went */
};

struct socket_frame {
    uint8_t opcode;
    bool last;
    const uint8_t *payload;
    size_t len, size; /* size: with its head */
};

static int socket_handshake(struct http_socket *socket, const char *path, struct err *err);
static int socket_fill(struct http_socket *socket, struct err *err);
static int socket_parse(const struct buf *input, struct socket_frame *ret_frame, struct err *err);
static int socket_take(struct http_socket *socket, const struct socket_frame *frame, struct err *err);
static int socket_put(struct http_socket *socket, uint8_t opcode, const void *data, size_t len, struct err *err);

int http_client_ws(struct http_client *client, const char *path, struct http_socket **ret_socket, struct err *err) {
    const struct curl_api *api = &client->api;
    struct http_socket *socket = calloc(1, sizeof *socket);
    if (!socket)
        abort();
    *socket = (struct http_socket){.client = client, .easy = api->easy_init(), .fd = -1};
    buf_init(&socket->input, SOCKET_INPUT_BYTES);
    buf_init(&socket->message, SOCKET_MESSAGE_BYTES);
    if (!socket->easy)
        abort();
    client_prepare(client, socket->easy, client->base);
    api->easy_setopt(socket->easy, CURLOPT_CONNECT_ONLY, 1L);
    api->easy_setopt(socket->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    CURLcode result = api->easy_perform(socket->easy);
    int code = result == CURLE_OK ? 0 : client_failed(client, result, err);
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (code == 0 && (api->easy_getinfo(socket->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd < 0))
        code = err_set(err, ERR_INTERNAL, "libcurl gives no socket");
    socket->fd = fd;
    if (code == 0)
        code = socket_handshake(socket, path, err);
    if (code < 0) {
        socket->closed = true;
        http_socket_close(socket);
        return code;
    }
    *ret_socket = socket;
    return 0;
}

int http_socket_fd(const struct http_socket *socket) {
    return socket->fd;
}

int http_socket_recv(struct http_socket *socket, bool *ret_text, const uint8_t **ret_data, size_t *ret_len,
                     struct err *err) {
    if (socket->whole) {
        buf_clear(&socket->message);
        socket->whole = false;
        socket->opcode = 0;
    }
    for (;;) {
        struct socket_frame frame;
        int code = socket_parse(&socket->input, &frame, err);
        if (code > 0)
            code = socket_take(socket, &frame, err);
        else if (code == 0 && (code = socket_fill(socket, err)) == 0)
            return 0;
        if (code < 0)
            return code;
        if (socket->whole) {
            *ret_text = socket->opcode == OPCODE_TEXT;
            *ret_data = socket->message.data;
            *ret_len = socket->message.len;
            return 1;
        }
    }
}

int http_socket_send(struct http_socket *socket, bool text, const void *data, size_t len, struct err *err) {
    return socket_put(socket, text ? OPCODE_TEXT : OPCODE_BINARY, data, len, err);
}

void http_socket_close(struct http_socket *socket) {
    if (!socket)
        return;
    struct err ignored;
    if (!socket->closed)
        socket_put(socket, OPCODE_CLOSE, "\x03\xe8", 2, &ignored); /* 1000: done */
    socket->client->api.easy_cleanup(socket->easy);
    buf_done(&socket->input);
    buf_done(&socket->message);
    free(socket);
}

/* ---- bytes ---- */

/* Takes what is there: 1 something came, 0 nothing now, negative gone. */
static int socket_fill(struct http_socket *socket, struct err *err) {
    size_t got = 0;
    uint8_t *room = buf_reserve(&socket->input, 64 << 10);
    if (!room)
        return err_set(err, ERR_TOO_LARGE, "the daemon sends more than %u bytes unread", SOCKET_INPUT_BYTES);
    CURLcode result = socket->client->api.easy_recv(socket->easy, room, 64 << 10, &got);
    if (result == CURLE_AGAIN)
        return 0;
    if (result != CURLE_OK)
        return client_failed(socket->client, result, err);
    if (got == 0)
        return err_set(err, ERR_GONE, "the daemon hung up");
    socket->input.len += got;
    return 1;
}

/* While the server does not take our bytes, its own are read, or two full pipes would wait for each other. */
static int socket_wait_writable(struct http_socket *socket, struct err *err) {
    bool room = socket->input.max - socket->input.len > (64 << 10);
    struct pollfd wait = {.fd = socket->fd, .events = (short)(POLLOUT | (room ? POLLIN : 0))};
    if (poll(&wait, 1, -1) < 0 && errno != EINTR)
        return err_errno(err, errno, "poll");
    if (wait.revents & POLLIN)
        return socket_fill(socket, err);
    return 0;
}

static int socket_write(struct http_socket *socket, const uint8_t *data, size_t len, struct err *err) {
    while (len) {
        size_t sent = 0;
        CURLcode result = socket->client->api.easy_send(socket->easy, data, len, &sent);
        data += sent;
        len -= sent;
        if (result == CURLE_AGAIN) {
            int code = socket_wait_writable(socket, err);
            if (code < 0)
                return code;
        } else if (result != CURLE_OK) {
            return client_failed(socket->client, result, err);
        }
    }
    return 0;
}

/* ---- frames ---- */

static int socket_put(struct http_socket *socket, uint8_t opcode, const void *data, size_t len, struct err *err) {
    autobuf frame;
    buf_init(&frame, len + 16);
    uint8_t mask[4];
    if (getrandom(mask, sizeof mask, 0) != sizeof mask)
        return err_errno(err, errno, "getrandom");
    buf_byte(&frame, 0x80 | opcode);
    if (len < 126) {
        buf_byte(&frame, (uint8_t)(0x80 | len));
    } else {
        unsigned bytes = len < 65536 ? 2 : 8;
        buf_byte(&frame, bytes == 2 ? 0x80 | 126 : 0x80 | 127);
        while (bytes--)
            buf_byte(&frame, (uint8_t)((uint64_t)len >> (8 * bytes)));
    }
    buf_put(&frame, mask, sizeof mask);
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++)
        buf_byte(&frame, bytes[i] ^ mask[i & 3]);
    return socket_write(socket, frame.data, frame.len, err);
}

/* The first whole frame: 1, 0 when more bytes are needed, negative for what no server may send. */
static int socket_parse(const struct buf *input, struct socket_frame *ret_frame, struct err *err) {
    const uint8_t *p = input->data;
    if (input->len < 2)
        return 0;
    uint8_t opcode = p[0] & 15;
    bool control = opcode & 8;
    size_t head = 2;
    uint64_t len = p[1] & 0x7f;
    if ((p[0] & 0x70) || (p[1] & 0x80))
        return err_set(err, ERR_PROTOCOL, "the daemon sent a WebSocket frame with reserved bits or a mask");
    if (control && (len > 125 || !(p[0] & 0x80)))
        return err_set(err, ERR_PROTOCOL, "the daemon sent a malformed WebSocket control frame");
    if (len >= 126) {
        size_t bytes = len == 126 ? 2 : 8;
        head += bytes;
        if (input->len < head)
            return 0;
        len = 0;
        for (size_t i = 2; i < head; i++)
            len = len << 8 | p[i];
    }
    if (len > SOCKET_MESSAGE_BYTES)
        return err_set(err, ERR_TOO_LARGE, "the daemon sent a WebSocket frame above %u bytes", SOCKET_MESSAGE_BYTES);
    if (input->len - head < len)
        return 0;
    *ret_frame = (struct socket_frame){opcode, p[0] & 0x80, p + head, len, head + len};
    return 1;
}

static int socket_closed(struct http_socket *socket, const struct socket_frame *frame, struct err *err) {
    unsigned number = frame->len >= 2 ? frame->payload[0] << 8 | frame->payload[1] : 1005;
    int reason_len = frame->len > 2 ? (int)frame->len - 2 : 0;
    int code = err_set(err, ERR_GONE, "the daemon closed the terminal (%u%s%.*s)", number, reason_len ? ": " : "",
                       reason_len, (const char *)frame->payload + 2);
    struct err ignored;
    if (!socket->closed)
        socket_put(socket, OPCODE_CLOSE, frame->payload, frame->len >= 2 ? 2 : 0, &ignored);
    socket->closed = true;
    return code;
}

/* One frame into the message; 1 when it was dealt with. Consumes it. */
static int socket_take(struct http_socket *socket, const struct socket_frame *frame, struct err *err) {
    int code = 1;
    switch (frame->opcode) {
    case OPCODE_TEXT:
    case OPCODE_BINARY:
    case OPCODE_MORE:
        if ((frame->opcode == OPCODE_MORE) != (socket->opcode != 0))
            return err_set(err, ERR_PROTOCOL, "the daemon sent WebSocket fragments out of order");
        if (frame->opcode != OPCODE_MORE)
            socket->opcode = frame->opcode;
        buf_put(&socket->message, frame->payload, frame->len);
        socket->whole = frame->last;
        if (socket->message.failed)
            return err_set(err, ERR_TOO_LARGE, "the daemon sent a message above %u bytes", SOCKET_MESSAGE_BYTES);
        if (frame->last && socket->opcode == OPCODE_TEXT && !text_utf8(socket->message.data, socket->message.len))
            return err_set(err, ERR_PROTOCOL, "the daemon sent text that is not UTF-8");
        break;
    case OPCODE_CLOSE:
        return socket_closed(socket, frame, err);
    case OPCODE_PING: {
        uint8_t echo[125];
        size_t len = frame->len;
        memcpy(echo, frame->payload, len); /* sending may move the input */
        code = socket_put(socket, OPCODE_PONG, echo, len, err) < 0 ? -err->code : 1;
        break;
    }
    case OPCODE_PONG:
        break;
    default:
        return err_set(err, ERR_PROTOCOL, "the daemon sent an unknown WebSocket frame (%u)", frame->opcode);
    }
    buf_consume(&socket->input, frame->size);
    return code;
}

/* ---- handshake ---- */

static uint32_t sha1_left(uint32_t value, unsigned n) {
    return value << n | value >> (32 - n);
}

static void sha1_block(uint32_t state[5], const uint8_t *block) {
    uint32_t w[80], v[5];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = sha1_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 80; i++) {
        static const uint32_t constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
        uint32_t choose = (v[1] & v[2]) | (~v[1] & v[3]), parity = v[1] ^ v[2] ^ v[3];
        uint32_t majority = (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]);
        uint32_t mix = i < 20 ? choose : i >= 40 && i < 60 ? majority : parity;
        uint32_t next = sha1_left(v[0], 5) + mix + v[4] + constants[i / 20] + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = sha1_left(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (int i = 0; i < 5; i++)
        state[i] += v[i];
}

/* SHA-1 of a text of at most 119 bytes: all that the handshake needs, and the reason it is SHA-1. */
static void sha1_short(const char *text, uint8_t digest[20]) {
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t blocks[128] = {0};
    size_t len = strlen(text), total = len < 56 ? 64 : 128;
    memcpy(blocks, text, len);
    blocks[len] = 0x80;
    blocks[total - 2] = (uint8_t)(len * 8 >> 8);
    blocks[total - 1] = (uint8_t)(len * 8);
    for (size_t i = 0; i < total; i += 64)
        sha1_block(state, blocks + i);
    for (int i = 0; i < 20; i++)
        digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

static void socket_accept_key(const char *key, char ret_accept[32]) {
    char text[64];
    uint8_t digest[20];
    snprintf(text, sizeof text, "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    sha1_short(text, digest);
    autobuf out;
    buf_init(&out, 31);
    text_base64(&out, digest, sizeof digest);
    snprintf(ret_accept, 32, "%.*s", (int)out.len, (const char *)out.data);
}

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

/* Reads until the empty line; the head, NUL-terminated, in ret_head, what follows stays in input. */
static int socket_read_head(struct http_socket *socket, char *ret_head, size_t size, struct err *err) {
    uint64_t deadline = clock_ms() + HANDSHAKE_TIMEOUT_MS;
    for (;;) {
        const struct buf *input = &socket->input;
        const uint8_t *end = input->len ? memmem(input->data, input->len, "\r\n\r\n", 4) : NULL;
        if (end) {
            size_t len = (size_t)(end - input->data) + 4;
            if (len >= size)
                return err_set(err, ERR_TOO_LARGE, "the daemon's answer has a huge head");
            memcpy(ret_head, socket->input.data, len);
            ret_head[len] = 0;
            buf_consume(&socket->input, len);
            return 0;
        }
        if (socket->input.len >= size)
            return err_set(err, ERR_TOO_LARGE, "the daemon's answer has a huge head");
        uint64_t now = clock_ms();
        struct pollfd wait = {.fd = socket->fd, .events = POLLIN};
        int code = socket_fill(socket, err);
        if (code < 0)
            return code;
        if (code == 0 && (now >= deadline || poll(&wait, 1, (int)(deadline - now)) == 0))
            return err_set(err, ERR_TIMEOUT, "the daemon does not answer the WebSocket request");
    }
}

static int socket_refused(const struct http_socket *socket, const char *head, struct err *err) {
    unsigned status = 0;
    sscanf(head, "HTTP/1.%*1[01] %3u", &status);
    enum err_code code = status == 401   ? ERR_UNAUTHORIZED
                         : status == 403 ? ERR_DENIED
                         : status == 404 ? ERR_NOT_FOUND
                         : status == 410 ? ERR_GONE
                         : status == 429 ? ERR_LIMIT
                                         : ERR_PROTOCOL;
    size_t len = socket->input.len < 300 ? socket->input.len : 300;
    return err_set(err, code, "the daemon answered %u to the WebSocket request: %.*s", status, (int)len,
                   socket->input.data ? (const char *)socket->input.data : "");
}

static int socket_handshake(struct http_socket *socket, const char *path, struct err *err) {
    const struct http_client *client = socket->client;
    const char *host = strstr(client->base, "://") + 3, *prefix = strchrnul(host, '/');
    uint8_t random[16];
    char key[32] = "", accept[32];
    char head[LIMIT_HEAD_BYTES];
    autobuf request, encoded;
    buf_init(&request, 64 << 10);
    buf_init(&encoded, 31);
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
                              : socket_write(socket, request.data, request.len, err);
    if (code == 0)
        code = socket_read_head(socket, head, sizeof head, err);
    if (code < 0)
        return code;
    if (strncmp(head, "HTTP/1.1 101", 12) != 0)
        return socket_refused(socket, head, err);
    size_t len = 0;
    const char *value = socket_header(head, "Sec-WebSocket-Accept", &len);
    socket_accept_key(key, accept);
    if (!value || len != strlen(accept) || memcmp(value, accept, len) != 0)
        return err_set(err, ERR_PROTOCOL, "the server's WebSocket answer is not for this request");
    return 0;
}
