/* Large files of a machine of the text form that serves them itself, at the address it announced: the door has made sure
 * that this is where it connects from. Called by machine_text_file.c. Not to break: nothing of what it answers is believed
 * beyond its bounds, and a machine that is slow or silent holds up its own call alone. */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/machine_text_call.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"

enum { CONNECT_MS = 10000, SILENT_MS = 60000, TURN_MS = 1000, HEAD_BYTES = 16 << 10, PIECE_BYTES = 64 << 10 };
#define BOUNDARY "cubby-5f0b9c1e7d2a4836"

struct exchange {
    struct text_call *call;
    int fd;
    struct buf in; /* what came and was not taken */
};

/* ---- the socket ---- */

/* Until it can be read or written; a call that is cancelled meanwhile ends it. */
static int exchange_wait(struct exchange *exchange, short events, uint64_t most_ms, struct err *err) {
    for (uint64_t until_ms = clock_ms() + most_ms; clock_ms() < until_ms;) {
        int r = text_cancelled(exchange->call, err);
        if (r < 0)
            return r;
        struct pollfd poll_fd = {.fd = exchange->fd, .events = events};
        if (poll(&poll_fd, 1, TURN_MS) > 0)
            return 0;
    }
    return err_set(err, ERR_TIMEOUT, "the file server of machine %s is silent", exchange->call->text->name);
}

static int exchange_open(struct exchange *exchange, struct err *err) {
    const struct machine_text *text = exchange->call->text;
    const char *address = text->options.http_address, *colon = strrchr(address, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found = NULL;
    char host[64];
    size_t len = colon ? (size_t)(colon - address) : 0;
    bool bracket = len > 2 && address[0] == '[' && address[len - 1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(bracket ? len - 2 : len), address + bracket);
    if (!colon || getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return err_set(err, ERR_INVALID, "machine %s announced '%.60s' for its files, which is no address", text->name,
                       address);
    exchange->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = exchange->fd < 0 ? -1 : connect(exchange->fd, found->ai_addr, found->ai_addrlen);
    int number = r < 0 ? errno : 0;
    freeaddrinfo(found);
    if (number == EINPROGRESS) {
        r = exchange_wait(exchange, POLLOUT, CONNECT_MS, err);
        socklen_t size = sizeof number;
        if (r < 0)
            return r;
        getsockopt(exchange->fd, SOL_SOCKET, SO_ERROR, &number, &size);
    }
    return number ? err_errno(err, number, "the file server of machine %s at %s", text->name, address) : 0;
}

static int exchange_send(struct exchange *exchange, const void *data, size_t len, struct err *err) {
    for (const uint8_t *at = data; len > 0;) {
        ssize_t n = send(exchange->fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            int r = exchange_wait(exchange, POLLOUT, SILENT_MS, err);
            if (r < 0)
                return r;
            continue;
        }
        if (n < 0)
            return err_errno(err, errno, "sending to the file server of machine %s", exchange->call->text->name);
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Bytes that came, 0 at the end of the stream. */
static ssize_t exchange_receive(struct exchange *exchange, void *data, size_t size, struct err *err) {
    for (;;) {
        ssize_t n = recv(exchange->fd, data, size, 0);
        if (n >= 0)
            return n;
        if (errno != EAGAIN && errno != EINTR)
            return err_errno(err, errno, "reading from the file server of machine %s", exchange->call->text->name);
        int r = exchange_wait(exchange, POLLIN, SILENT_MS, err);
        if (r < 0)
            return r;
    }
}

/* ---- HTTP ---- */

static void put_encoded(struct buf *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~/", c))
            buf_byte(out, c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

static void put_request(const struct exchange *exchange, struct buf *out, const char *method, const char *version,
                        const char *path) {
    const struct machine_text *text = exchange->call->text;
    buf_printf(out, "%s /api/v1/files?path=", method);
    put_encoded(out, path);
    buf_puts(out, "&user_id=");
    put_encoded(out, text->user);
    buf_printf(out, " HTTP/%s\r\nHost: %s\r\nConnection: close\r\n", version, text->options.http_address);
    if (text->options.token)
        buf_printf(out, "X-Auth-Token: %s\r\n", text->options.token);
}

/* The head of the answer; *ret_length: of the body, UINT64_MAX when it is not said. What follows is left in exchange->in. */
static int exchange_head(struct exchange *exchange, const char *path, uint64_t *ret_length, struct err *err) {
    const char *name = exchange->call->text->name;
    struct buf *in = &exchange->in;
    char *end = NULL;
    while (!end) {
        uint8_t *room = buf_reserve(in, 4096);
        ssize_t n = room ? exchange_receive(exchange, room, 4096, err) : 0;
        if (n < 0)
            return (int)n;
        in->len += (size_t)n;
        char *text = buf_cstr(in);
        end = text ? strstr(text, "\r\n\r\n") : NULL;
        if (!end && (n == 0 || !text))
            return err_set(err, ERR_PROTOCOL, "the file server of machine %s does not speak HTTP", name);
    }
    *end = '\0';
    const char *head = (const char *)in->data;
    unsigned status = 0;
    *ret_length = UINT64_MAX;
    if (sscanf(head, "HTTP/1.%*1[01] %3u", &status) != 1 || strcasestr(head, "\r\ntransfer-encoding:"))
        return err_set(err, ERR_PROTOCOL, "the file server of machine %s does not speak HTTP/1.0", name);
    const char *length = strcasestr(head, "\r\ncontent-length:");
    if (length)
        *ret_length = strtoull(length + 17, NULL, 10);
    buf_consume(in, (size_t)(end - head) + 4);
    if (status >= 200 && status < 300)
        return 0;
    enum err_code code = status == 404                    ? ERR_NOT_FOUND
                         : status == 401 || status == 403 ? ERR_DENIED
                         : status == 413                  ? ERR_TOO_LARGE
                                                          : ERR_IO;
    return err_set(err, code, "the file server of machine %s answered %u for '%s'", name, status, path);
}

static void exchange_done(struct exchange *exchange) {
    fd_close(&exchange->fd);
    buf_done(&exchange->in);
}

static int get_body(struct exchange *exchange, uint64_t length,
                    int (*sink)(void *user, const uint8_t *data, size_t len, struct err *err), void *user,
                    struct err *err) {
    uint64_t max = exchange->call->text->options.max_file_bytes, came = exchange->in.len;
    uint8_t *piece = malloc(PIECE_BYTES);
    if (!piece)
        abort();
    ssize_t n = (ssize_t)exchange->in.len;
    memcpy(piece, exchange->in.data, exchange->in.len);
    int r = 0;
    while (r == 0) {
        if (came > max || came > length)
            r = err_set(err, ERR_TOO_LARGE, "the file is larger than the machine said or the limit of %" PRIu64, max);
        else if (n > 0)
            r = sink(user, piece, (size_t)n, err);
        if (r < 0 || came == length)
            break;
        n = exchange_receive(exchange, piece, PIECE_BYTES, err);
        if (n <= 0)
            break;
        came += (uint64_t)n;
    }
    free(piece);
    if (r == 0 && n < 0)
        return (int)n;
    if (r == 0 && length != UINT64_MAX && came != length)
        return err_set(err, ERR_IO, "the file server of machine %s broke off", exchange->call->text->name);
    return r;
}

int text_http_get(struct text_call *call, const char *path,
                  int (*sink)(void *user, const uint8_t *data, size_t len, struct err *err), void *user,
                  struct err *err) {
    struct exchange exchange = {.call = call, .fd = -1};
    buf_init(&exchange.in, HEAD_BYTES);
    autobuf out;
    buf_init(&out, 4 * LIMIT_PATH_BYTES + 4096);
    put_request(&exchange, &out, "GET", "1.0", path);
    buf_puts(&out, "\r\n");
    uint64_t length;
    int r = exchange_open(&exchange, err);
    if (r == 0)
        r = exchange_send(&exchange, out.data, out.len, err);
    if (r == 0)
        r = exchange_head(&exchange, path, &length, err);
    if (r == 0)
        r = get_body(&exchange, length, sink, user, err);
    exchange_done(&exchange);
    return r;
}

static int send_chunk(struct exchange *exchange, const void *data, size_t len, struct err *err) {
    char size[24];
    snprintf(size, sizeof size, "%zx\r\n", len);
    int r = len ? exchange_send(exchange, size, strlen(size), err) : 0;
    if (r == 0 && len)
        r = exchange_send(exchange, data, len, err);
    return r < 0 || !len ? r : exchange_send(exchange, "\r\n", 2, err);
}

static int post_body(struct exchange *exchange, const char *path, uint32_t mode, const struct buf *head,
                     const struct text_source *source, struct err *err) {
    static const char last[] = "\r\n--" BOUNDARY "--\r\n", end[] = "0\r\n\r\n";
    uint64_t max = exchange->call->text->options.max_file_bytes, given = head->len;
    autobuf part;
    buf_init(&part, 2 * LIMIT_PATH_BYTES + 1024);
    buf_printf(&part,
               "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"path\"\r\n\r\n%s\r\n--" BOUNDARY
               "\r\nContent-Disposition: form-data; name=\"perm\"\r\n\r\n%u\r\n--" BOUNDARY
               "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\nContent-Type: "
               "application/octet-stream\r\n\r\n",
               path, mode);
    uint8_t *piece = malloc(PIECE_BYTES);
    if (!piece)
        abort();
    int r = send_chunk(exchange, part.data, part.len, err);
    if (r == 0)
        r = send_chunk(exchange, head->data, head->len, err);
    while (r == 0) {
        ssize_t n = source->read(source->user, piece, PIECE_BYTES, err);
        if (n == 0)
            break;
        given += n > 0 ? (uint64_t)n : 0;
        r = n < 0         ? (int)n
            : given > max ? err_set(err, ERR_TOO_LARGE, "'%s' is larger than the limit of %" PRIu64 " bytes", path, max)
                          : send_chunk(exchange, piece, (size_t)n, err);
    }
    free(piece);
    if (r == 0)
        r = send_chunk(exchange, last, sizeof last - 1, err);
    return r < 0 ? r : exchange_send(exchange, end, sizeof end - 1, err);
}

int text_http_post(struct text_call *call, const char *path, uint32_t mode, const struct buf *head,
                   const struct text_source *source, struct err *err) {
    struct exchange exchange = {.call = call, .fd = -1};
    buf_init(&exchange.in, HEAD_BYTES);
    autobuf out;
    buf_init(&out, 4 * LIMIT_PATH_BYTES + 4096);
    put_request(&exchange, &out, "POST", "1.1", path);
    buf_puts(&out, "Transfer-Encoding: chunked\r\nContent-Type: multipart/form-data; boundary=" BOUNDARY "\r\n\r\n");
    uint64_t length;
    int r = exchange_open(&exchange, err);
    if (r == 0)
        r = exchange_send(&exchange, out.data, out.len, err);
    if (r == 0)
        r = post_body(&exchange, path, mode, head, source, err);
    if (r == 0)
        r = exchange_head(&exchange, path, &length, err);
    exchange_done(&exchange);
    return r;
}
