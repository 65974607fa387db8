/* The answer: head and content, pushed by the handler.
 *
 * Called by handlers through server.h. The head waits in the worker's buffer until the first content, so that both are
 * sent in one segment. Invariant: exactly one answer per request; it is sent as announced, or the connection is reset
 * (http_reply_abort). */
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/sendfile.h>

#include "base/base.h"
#include "base/json.h"
#include "http/internal.h"

enum { ERROR_BYTES = 16384, TLS_COPY_BYTES = 128 << 10, SEND_BUFFER_BYTES = 512 << 10, EVENT_BYTES = 64 << 20 };

/* ---- the head ---- */

static const struct {
    int status;
    const char *text;
} reasons[] = {
    {200, "OK"},
    {101, "Switching Protocols"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

static const char *reply_reason_of(int status) {
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "Answer";
}

/* Decimal without printf: this runs in every answer. */
static void reply_put_number(struct buf *out, uint64_t value) {
    char text[24];
    size_t at = sizeof text;
    do
        text[--at] = (char)('0' + value % 10);
    while (value /= 10);
    buf_put(out, text + at, sizeof text - at);
}

void reply_reset(struct worker *worker) {
    enum { KEEP_BYTES = 128 << 10 };
    struct buf *bufs[] = {&worker->out, &worker->extra};
    for (size_t i = 0; i < 2; i++) {
        if (bufs[i]->cap > KEEP_BYTES)
            buf_done(bufs[i]);
        buf_clear(bufs[i]);
        bufs[i]->failed = false;
    }
}

void http_reply_header(struct http_request *request, const char *name, const char *value) {
    assert(!strpbrk(name, "\r\n: ") && !strpbrk(value, "\r\n"));
    struct buf *extra = &request->worker->extra;
    buf_puts(extra, name);
    buf_puts(extra, ": ");
    buf_puts(extra, value);
    buf_puts(extra, "\r\n");
}

static bool reply_status_has_body(int status) {
    return status >= 200 && status != 204 && status != 304;
}

/* Whether the connection is kept must be known before the head is sent. */
static bool reply_must_close(const struct http_request *request) {
    bool unread = !http_body_done(request);
    return request->close || !request->keep_alive || http_server_stopping(request->server) || request->body_failed ||
           (unread &&
            (request->expect || (request->body_kind == BODY_LENGTH && request->body_left > HTTP_DRAIN_BYTES)));
}

/* Bytes of others: a browser that is led to them saves them and runs nothing of them here. */
static void reply_untrusted(struct http_request *request) {
    const struct buf *extra = &request->worker->extra;
    struct buf *out = &request->worker->out;
    buf_puts(out, "Content-Security-Policy: sandbox\r\n");
    if (!extra->len || !memmem(extra->data, extra->len, "Content-Disposition:", 20))
        buf_puts(out, "Content-Disposition: attachment\r\n");
}

int http_reply_begin(struct http_request *request, int status, const char *type, int64_t length) {
    if (request->status)
        return -ERR_INTERNAL;
    struct buf *out = &request->worker->out;
    request->status = status;
    request->no_body = request->is_head || !reply_status_has_body(status);
    request->reply_left = length;
    request->chunked = length < 0 && !request->http10;
    request->close = reply_must_close(request) || (length < 0 && request->http10);
    buf_puts(out, "HTTP/1.1 ");
    reply_put_number(out, (uint64_t)status);
    buf_byte(out, ' ');
    buf_puts(out, reply_reason_of(status));
    buf_puts(out, "\r\n");
    time_t now = time(NULL);
    if (now != request->worker->date_s) {
        struct tm parts;
        request->worker->date_s = now;
        gmtime_r(&now, &parts);
        strftime(request->worker->date, sizeof request->worker->date, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
    }
    buf_puts(&request->worker->out, request->worker->date);
    if (type && reply_status_has_body(status)) {
        buf_puts(out, "Content-Type: ");
        buf_puts(out, type);
        buf_puts(out, "\r\nX-Content-Type-Options: nosniff\r\n");
        if (strcmp(type, "application/octet-stream") == 0)
            reply_untrusted(request);
    }
    if (reply_status_has_body(status) && length >= 0) {
        buf_puts(out, "Content-Length: ");
        reply_put_number(out, (uint64_t)length);
        buf_puts(out, "\r\n");
    } else if (reply_status_has_body(status) && request->chunked) {
        buf_puts(out, "Transfer-Encoding: chunked\r\n");
    }
    if (status != 101)
        buf_puts(out, request->close ? "Connection: close\r\n" : "");
    buf_puts(out, "X-Request-Id: ");
    buf_puts(out, request->id);
    buf_puts(out, "\r\n");
    buf_put(out, request->worker->extra.data, request->worker->extra.len);
    buf_puts(out, "\r\n");
    return out->failed || request->worker->extra.failed ? (http_reply_abort(request), -ERR_INTERNAL) : 0;
}

/* ---- the content ---- */

/* Sends parts[0] (the waiting head, maybe empty) and more. After a failure the connection is unusable. */
static int reply_send(struct http_request *request, struct iovec *parts, int count, int flags) {
    for (int i = 0; i < count; i++)
        request->bytes_out += parts[i].iov_len;
    int result = conn_send(request->worker, request->conn, parts, count, flags);
    buf_clear(&request->worker->out);
    if (result < 0)
        http_reply_abort(request);
    if (request->wrote_ms)
        request->wrote_ms = clock_ms();
    return result;
}

int http_reply_write(struct http_request *request, const void *data, size_t len) {
    if (!request->status || request->ended || request->aborted)
        return -ERR_GONE;
    if (request->no_body || !len)
        return 0;
    if (request->reply_left >= 0) {
        if ((uint64_t)request->reply_left < len) { /* surplus bytes would be read as the next answer */
            http_reply_abort(request);
            return -ERR_INTERNAL;
        }
        request->reply_left -= (int64_t)len;
    }
    struct buf *out = &request->worker->out;
    char size[24];
    int size_len = request->chunked ? snprintf(size, sizeof size, "%zx\r\n", len) : 0;
    struct iovec parts[] = {
        {out->data, out->len},
        {size, (size_t)size_len},
        {(void *)(uintptr_t)data, len},
        {(char[]){'\r', '\n'}, request->chunked ? 2 : 0},
    };
    return reply_send(request, parts, 4, 0);
}

static int reply_flush(struct http_request *request, int flags) {
    struct iovec part = {request->worker->out.data, request->worker->out.len};
    return part.iov_len ? reply_send(request, &part, 1, flags) : 0;
}

int http_reply_flush(struct http_request *request) {
    return !request->status || request->aborted ? -ERR_GONE : reply_flush(request, 0);
}

int http_reply_end(struct http_request *request) {
    if (!request->status || request->aborted)
        return -ERR_GONE;
    if (request->ended)
        return 0;
    if (!request->no_body && request->reply_left > 0) {
        http_reply_abort(request);
        return -ERR_INTERNAL;
    }
    request->ended = true;
    if (request->chunked && !request->no_body)
        buf_puts(&request->worker->out, "0\r\n\r\n");
    return reply_flush(request, 0);
}

int http_reply(struct http_request *request, int status, const char *type, const void *data, size_t len) {
    int result = http_reply_begin(request, status, type, (int64_t)len) ?: http_reply_write(request, data, len);
    return result < 0 ? result : http_reply_end(request);
}

bool http_replied(const struct http_request *request) {
    return request->status != 0;
}

void http_reply_abort(struct http_request *request) {
    request->aborted = true;
    request->close = true;
    if (!request->status)
        request->status = 500;
    buf_clear(&request->worker->out);
}

void reply_upgraded(struct http_request *request) {
    request->pace_out.rate = 0;
    request->ended = true;
    request->close = true;
}

/* ---- files ---- */

/* Sends a small file with the head in one segment: half the system calls of send and sendfile. */
static int reply_file_small(struct http_request *request, int fd, uint64_t offset, size_t len) {
    struct buf *out = &request->worker->out;
    uint8_t *at = buf_reserve(out, len);
    size_t got = 0;
    while (at && got < len) {
        ssize_t n = pread(fd, at + got, len - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    if (!at || got < len) {
        http_reply_abort(request);
        return -ERR_IO;
    }
    out->len += len;
    return reply_flush(request, 0);
}

static int reply_file_copied(struct http_request *request, int fd, uint64_t offset, uint64_t len) {
    size_t size = len < TLS_COPY_BYTES ? (size_t)len : TLS_COPY_BYTES;
    char *data = xmalloc(size);
    int result = reply_flush(request, 0);
    while (len && result == 0) {
        ssize_t n = pread(fd, data, len < size ? (size_t)len : size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) { /* the file became shorter than announced */
            result = -ERR_IO;
            break;
        }
        struct iovec part = {data, (size_t)n};
        result = reply_send(request, &part, 1, 0); /* changes part, so n is used */
        offset += (uint64_t)n;
        len -= (uint64_t)n;
    }
    free(data);
    return result;
}

static int reply_file_sent(struct http_request *request, int fd, uint64_t offset, uint64_t len) {
    struct conn *conn = request->conn;
    int result = reply_flush(request, MSG_MORE);
    while (len && result == 0) {
        off_t at = (off_t)offset;
        size_t most = len < (1u << 30) ? (size_t)len : 1u << 30;
        ssize_t n = sendfile(conn->fd, fd, &at, most);
        if (n > 0) {
            offset += (uint64_t)n;
            len -= (uint64_t)n;
            request->bytes_out += (uint64_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            int ready = conn_wait_paced(request->worker, conn, POLLOUT, &request->pace_out);
            result = ready > 0 ? 0 : ready == 0 ? -ERR_TIMEOUT : -ERR_GONE;
        } else if (n == 0) {
            result = -ERR_IO; /* the file became shorter */
        } else if (errno == EINVAL || errno == ENOSYS) {
            return reply_file_copied(request, fd, offset, len);
        } else if (errno != EINTR) {
            result = errno == EIO ? -ERR_IO : -ERR_GONE;
        }
    }
    return result;
}

int http_reply_file(struct http_request *request, int fd, uint64_t offset, uint64_t len) {
    if (!request->status || request->ended || request->aborted)
        return -ERR_GONE;
    if (request->no_body || !len)
        return 0;
    if (request->reply_left < 0 || (uint64_t)request->reply_left < len) { /* files are sent with a length */
        http_reply_abort(request);
        return -ERR_INTERNAL;
    }
    request->reply_left -= (int64_t)len;
    if (len <= HTTP_SMALL_FILE_BYTES)
        return reply_file_small(request, fd, offset, (size_t)len);
    int result, on = 1, off = 0, room = SEND_BUFFER_BYTES;
    bool cork = len >= HTTP_CORK_BYTES && !request->conn->tls && !request->conn->unix_socket;
    if (cork) { /* full segments and fewer wake-ups: 1.6 times as fast; slower for small files */
        setsockopt(request->conn->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
        if (request->conn->loopback) /* over a network the kernel's own tuning goes higher */
            setsockopt(request->conn->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    }
    result =
        request->conn->tls ? reply_file_copied(request, fd, offset, len) : reply_file_sent(request, fd, offset, len);
    if (cork)
        setsockopt(request->conn->fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
    if (result < 0)
        http_reply_abort(request);
    return result;
}

/* ---- errors and events ---- */

int reply_refusal(struct http_request *request, int status, const char *code, const char *text) {
    if (request->status) { /* too late for an error: a partial answer must not look complete */
        if (!request->ended)
            http_reply_abort(request);
        return -ERR_INTERNAL;
    }
    autobuf body = buf_max(ERROR_BYTES);
    struct json json;
    int (*refuse)(struct http_request *, int, const char *, const char *, struct buf *) =
        request->server->config.refuse;
    int shaped = refuse ? refuse(request, status, code, text, &body) : 0;
    if (!shaped) {
        json_init(&json, &body);
        json_failure(&json, code, text);
    }
    buf_byte(&body, '\n');
    if (status == 401)
        http_reply_header(request, "WWW-Authenticate", "Bearer");
    if (status == 429 || status == 503)
        http_reply_header(request, "Retry-After", "1");
    return http_reply(request, shaped ? shaped : status, "application/json", body.data, body.len);
}

int http_reply_error(struct http_request *request, const struct err *err) {
    request->why = err->why;
    int status = err->code == ERR_TIMEOUT && request->body_late ? 408 : err_http_status(err->code);
    return reply_refusal(request, status, err_name(err->code), err->text);
}

enum err_why http_why(const struct http_request *request) {
    return request->why;
}

bool http_alive_due(const struct http_request *request) {
    uint64_t since_ms = request->wrote_ms ? request->wrote_ms : request->start_us / 1000;
    return clock_ms() - since_ms >= request->server->config.alive_ms;
}

int http_reply_alive(struct http_request *request) {
    static const char comment[] = ": alive\n\n";
    return http_alive_due(request) ? http_reply_write(request, comment, sizeof comment - 1) : 0;
}

unsigned http_alive_tick_ms(const struct http_request *request) {
    return request->server->config.alive_ms / 3 + 1;
}

void http_reply_live(struct http_request *request) {
    request->pace_out.rate = 0;
}

int http_reply_events(struct http_request *request) {
    http_reply_live(request);
    request->wrote_ms = clock_ms();
    http_reply_header(request, "Cache-Control", "no-cache");
    http_reply_header(request, "X-Accel-Buffering", "no"); /* proxies must not hold events back */
    int result = http_reply_begin(request, 200, "text/event-stream", -1);
    return result < 0 ? result : reply_flush(request, 0);
}

int http_reply_event(struct http_request *request, const char *event, const void *data, size_t len) {
    if (len > EVENT_BYTES)
        return -ERR_TOO_LARGE;
    autobuf text = buf_max(len * 7 + 1024); /* in the worst case every byte is a newline and becomes "\ndata: " */
    if (event) {
        buf_puts(&text, "event: ");
        buf_puts(&text, event);
        buf_byte(&text, '\n');
    }
    const char *at = data, *end = at + len;
    do {
        const char *line = at;
        while (line < end && *line != '\n' && *line != '\r') /* CR ends a line too */
            line++;
        buf_puts(&text, "data: ");
        buf_put(&text, at, (size_t)(line - at));
        buf_byte(&text, '\n');
        at = line + 1;
    } while (at <= end);
    buf_byte(&text, '\n');
    return text.failed ? -ERR_TOO_LARGE : http_reply_write(request, text.data, text.len);
}
