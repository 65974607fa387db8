/* The request's body: pulled by the handler, counted or chunked, copied or spliced.
 *
 * Called by handlers through server.h. Invariant: never read past the body's end from the socket into the handler's
 * memory: the next request follows. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "base/base.h"
#include "http/internal.h"

enum { COPY_BYTES = 256 << 10, PIPE_BYTES = 1 << 20, SPLICE_BYTES = 64 << 10, DRAIN_MS = 1000 };

/* ---- reading ---- */

int64_t http_body_length(const struct http_request *request) {
    return request->body_length;
}

bool http_body_done(const struct http_request *request) {
    return request->body_kind == BODY_NONE || (request->body_kind == BODY_LENGTH && !request->body_left) ||
           (request->body_kind == BODY_CHUNKED && chunk_done(&request->chunk));
}

static int body_fail(struct http_request *request, enum err_code code, const char *text, struct err *err) {
    request->body_failed = true;
    return err_set(err, code, "%s", text);
}

int http_body_invite(struct http_request *request, struct err *err) {
    static char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!request->expect || request->status)
        return 0;
    request->expect = false;
    if (request->in_end > request->in_at) /* the client did not wait */
        return 0;
    struct iovec part = {line, sizeof line - 1};
    int result = conn_send(request->worker, request->conn, &part, 1, 0);
    return result < 0 ? body_fail(request, (enum err_code) - result, "the client went away before its body", err) : 0;
}

static int body_gone(struct http_request *request, struct err *err) {
    return body_fail(request, ERR_GONE, "the client went away in the middle of its body", err);
}

static int body_late(struct http_request *request, struct err *err) {
    request->body_late = true;
    return body_fail(request, ERR_TIMEOUT, "the client stopped in the middle of its body, or sends it too slowly", err);
}

bool http_body_ready(const struct http_request *request) {
    return request->in_at < request->in_end || (request->conn->tls && tls_pending(request->conn->tls));
}

void http_body_live(struct http_request *request) {
    request->pace_in.rate = 0;
}

/* Reads bytes from the socket, waiting within the patience. Returns > 0, or an error. */
static ssize_t body_recv(struct http_request *request, void *data, size_t len, struct err *err) {
    for (;;) {
        short events;
        ssize_t n = conn_recv(request->conn, data, len, &events);
        if (n > 0) {
            request->bytes_in += (uint64_t)n;
            pace_moved(&request->pace_in, (uint64_t)n);
            return n;
        }
        if (n != -EAGAIN)
            return body_gone(request, err);
        /* A client that sends its body separately and does not disable Nagle's algorithm waits for our kernel's
         * acknowledgement, which is delayed for 40 ms. */
        int on = 1;
        setsockopt(request->conn->fd, IPPROTO_TCP, TCP_QUICKACK, &on,
                   sizeof on); /* fails on a unix socket, which does not matter */
        int ready = conn_wait_paced(request->worker, request->conn, events, &request->pace_in);
        if (ready <= 0)
            return ready == 0 ? body_late(request, err) : body_gone(request, err);
    }
}

static ssize_t body_read_length(struct http_request *request, char *data, size_t len, struct err *err) {
    if (len > request->body_left)
        len = (size_t)request->body_left;
    size_t have = request->in_end - request->in_at;
    ssize_t n;
    if (have) {
        n = (ssize_t)(have < len ? have : len);
        memcpy(data, request->worker->scratch + request->in_at, (size_t)n);
        request->in_at += (size_t)n;
    } else {
        n = body_recv(request, data, len, err);
        if (n < 0)
            return n;
    }
    request->body_left -= (uint64_t)n;
    return n;
}

static ssize_t body_read_chunked(struct http_request *request, char *data, size_t len, struct err *err) {
    char *scratch = request->worker->scratch;
    for (;;) {
        size_t have = request->in_end - request->in_at, content;
        const char *from;
        /* Never decode more than fits: a chunk's data cannot be put back. */
        ssize_t used = chunk_take(&request->chunk, scratch + request->in_at, have < len ? have : len, &from, &content);
        if (used < 0)
            return body_fail(request, ERR_INVALID, "the body's chunked coding is malformed", err);
        if (content)
            memcpy(data, from, content);
        request->in_at += (size_t)used;
        if (content || chunk_done(&request->chunk))
            return (ssize_t)content;
        if (request->in_at < request->in_end)
            continue;
        request->in_at = request->in_end = request->head_end;
        ssize_t n = body_recv(request, scratch + request->in_end, HTTP_SCRATCH_BYTES - request->in_end, err);
        if (n < 0)
            return n;
        request->in_end += (size_t)n;
    }
}

ssize_t http_body_read(struct http_request *request, void *data, size_t len, struct err *err) {
    if (request->body_failed)
        return body_fail(request, ERR_GONE, "the body failed before", err);
    if (http_body_done(request) || !len)
        return 0;
    TRY(http_body_invite(request, err));
    return request->body_kind == BODY_LENGTH ? body_read_length(request, data, len, err)
                                             : body_read_chunked(request, data, len, err);
}

static int body_too_large(size_t max, struct err *err) {
    return err_set(err, ERR_TOO_LARGE, "the body is larger than %zu bytes", max);
}

/* Reads a body of known length directly into the arena. The kernel provides memory page by page as bytes arrive. */
static int body_all_length(struct http_request *request, char **ret_data, size_t *ret_len, struct err *err) {
    size_t len = (size_t)request->body_left, at = 0;
    char *data = arena_alloc(&request->arena, len + 1);
    while (at < len) {
        ssize_t n = http_body_read(request, data + at, len - at, err);
        if (n <= 0)
            return n < 0 ? (int)n : body_fail(request, ERR_GONE, "the body ended early", err);
        TRY(http_hold(request, (size_t)n * HTTP_BODY_COST, err));
        at += (size_t)n;
    }
    *ret_data = data;
    *ret_len = len;
    return 0;
}

int http_body_all(struct http_request *request, size_t max, char **ret_data, size_t *ret_len, struct err *err) {
    enum { STEP_BYTES = 16384 };
    if (request->body_kind == BODY_LENGTH)
        return request->body_left > max ? body_too_large(max, err) : body_all_length(request, ret_data, ret_len, err);
    autobuf data = buf_max(max + STEP_BYTES);
    while (!http_body_done(request)) {
        ssize_t n = http_body_read(request, buf_reserve(&data, STEP_BYTES), STEP_BYTES, err);
        if (n < 0)
            return (int)n;
        data.len += (size_t)n;
        if (data.len > max)
            return body_too_large(max, err);
        TRY(http_hold(request, (size_t)n * HTTP_BODY_COST, err));
    }
    *ret_data = arena_copy(&request->arena, data.data, data.len);
    *ret_len = data.len;
    return 0;
}

/* ---- splicing ---- */

static int body_write(struct http_request *request, int fd, const void *data, size_t len, struct err *err) {
    int result = fd_write_all(fd, data, len);
    if (result == 0)
        return 0;
    request->close = true;
    return err_errno(err, -result, "cannot write the body");
}

static ssize_t body_copy(struct http_request *request, int fd, size_t len, struct err *err) {
    size_t size = len < COPY_BYTES ? len : COPY_BYTES, moved = 0;
    char *data = xmalloc(size ? size : 1);
    ssize_t n = 0;
    while (moved < len) {
        n = http_body_read(request, data, len - moved < size ? len - moved : size, err);
        if (n <= 0)
            break;
        int result = body_write(request, fd, data, (size_t)n, err);
        if (result < 0) {
            n = result;
            break;
        }
        moved += (size_t)n;
    }
    free(data);
    return n < 0 ? n : (ssize_t)moved;
}

/* Empties the pipe into fd; copies if the file does not support splice. */
static int body_pipe_empty(struct http_request *request, int pipe_fd, int fd, size_t len, struct err *err) {
    while (len) {
        ssize_t n = splice(pipe_fd, NULL, fd, NULL, len, SPLICE_F_MOVE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL) {
            char data[8192];
            n = read(pipe_fd, data, sizeof data < len ? sizeof data : len);
            TRY(n > 0 ? body_write(request, fd, data, (size_t)n, err) : 0);
        }
        if (n <= 0) {
            request->close = true;
            return err_errno(err, n < 0 ? errno : EIO, "cannot write the body");
        }
        len -= (size_t)n;
    }
    return 0;
}

static ssize_t body_pipe(struct http_request *request, const int ends[2], int fd, size_t len, struct err *err) {
    size_t moved = 0;
    while (moved < len) {
        ssize_t n = splice(request->conn->fd, NULL, ends[1], NULL, len - moved, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            int ready = conn_wait_paced(request->worker, request->conn, POLLIN, &request->pace_in);
            if (ready > 0)
                continue;
            return ready == 0 ? body_late(request, err) : body_gone(request, err);
        }
        if (n <= 0)
            return body_gone(request, err);
        request->bytes_in += (uint64_t)n;
        pace_moved(&request->pace_in, (uint64_t)n);
        request->body_left -= (uint64_t)n;
        TRY(body_pipe_empty(request, ends[0], fd, (size_t)n, err));
        moved += (size_t)n;
    }
    return (ssize_t)moved;
}

ssize_t http_body_splice(struct http_request *request, int fd, size_t len, struct err *err) {
    size_t moved = 0;
    /* Bytes that came with the head are in the scratch. */
    size_t have = request->in_end - request->in_at;
    if (request->body_kind == BODY_LENGTH && have && !request->body_failed) {
        size_t n = have < request->body_left ? have : (size_t)request->body_left;
        n = n < len ? n : len;
        TRY(body_write(request, fd, request->worker->scratch + request->in_at, n, err));
        request->in_at += n;
        request->body_left -= n;
        request->expect = false;
        moved = n;
    }
    if (moved == len || http_body_done(request))
        return (ssize_t)moved;
    uint64_t rest = request->body_left < len - moved ? request->body_left : len - moved;
    bool pipes = request->body_kind == BODY_LENGTH && !request->conn->tls && rest >= SPLICE_BYTES &&
                 !request->body_failed && !(fcntl(fd, F_GETFL) & O_APPEND); /* splice refuses append-only descriptors */
    int ends[2] = {-1, -1};
    ssize_t n;
    if (pipes && pipe2(ends, O_CLOEXEC) == 0) {
        fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
        int result = http_body_invite(request, err);
        n = result < 0 ? result : body_pipe(request, ends, fd, (size_t)rest, err);
        fd_close(&ends[0]);
        fd_close(&ends[1]);
    } else {
        n = body_copy(request, fd, len - moved, err);
    }
    return n < 0 ? n : n + (ssize_t)moved;
}

bool body_drain(struct http_request *request) {
    if (http_body_done(request))
        return true;
    if (request->expect || request->body_failed)
        return false;
    if (request->body_kind == BODY_LENGTH && request->body_left > HTTP_DRAIN_BYTES)
        return false;
    char data[4096];
    struct err err;
    uint64_t end_ms = clock_ms() + DRAIN_MS;
    size_t total = 0;
    while (!http_body_done(request) && total <= HTTP_DRAIN_BYTES) {
        if (request->in_at == request->in_end) { /* waits only for bytes that arrive soon */
            uint64_t now_ms = clock_ms();
            if (now_ms >= end_ms ||
                (!(request->conn->tls && tls_pending(request->conn->tls)) &&
                 conn_wait(request->worker, request->conn, POLLIN, (unsigned)(end_ms - now_ms)) <= 0))
                return false;
        }
        ssize_t n = http_body_read(request, data, sizeof data, &err);
        if (n < 0)
            return false;
        total += (size_t)n;
    }
    return http_body_done(request);
}
