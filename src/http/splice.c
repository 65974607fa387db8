/* Moves bytes of another socket into an answer or a tunnel through a pipe, without copying. Called by the port proxy
 * through server.h. Invariant: the pipe is empty between two calls; if it cannot be emptied, the connection is
 * reset. */
#include <poll.h>
#include <sys/socket.h>

#include "base/base.h"
#include "http/internal.h"

enum { SPLICE_PIPE_BYTES = 1 << 20, SPLICE_SEND_BUFFER_BYTES = 512 << 10 };

static bool splice_begin(struct http_request *request) {
    int room = SPLICE_SEND_BUFFER_BYTES;
    if (request->piped)
        return true;
    if (pipe2(request->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    fcntl(request->pipe[1], F_SETPIPE_SZ, SPLICE_PIPE_BYTES); /* a smaller one works too */
    if (request->conn->loopback && request->status != 101)    /* over a network the kernel's own tuning goes higher */
        setsockopt(request->conn->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    request->piped = true;
    return true;
}

void splice_end(struct http_request *request) {
    if (!request->piped)
        return;
    fd_close(&request->pipe[0]);
    fd_close(&request->pipe[1]);
    request->piped = false;
}

static int splice_send(struct http_request *request, size_t len, bool more) {
    struct conn *conn = request->conn;
    while (len) {
        ssize_t n = splice(request->pipe[0], NULL, conn->fd, NULL, len,
                           SPLICE_F_MOVE | SPLICE_F_NONBLOCK | (more ? SPLICE_F_MORE : 0));
        if (n > 0) {
            len -= (size_t)n;
            request->bytes_out += (uint64_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            int ready = conn_wait_paced(request->worker, conn, POLLOUT, &request->pace_out);
            if (ready <= 0)
                return ready == 0 ? -ERR_TIMEOUT : -ERR_GONE;
        } else if (n == 0 || errno != EINTR) {
            return -ERR_GONE;
        }
    }
    return 0;
}

/* A body of known length, or the connection after 101. */
static bool splice_possible(const struct http_request *request) {
    bool body = !request->no_body && request->reply_left >= 0 && !request->ended;
    return !request->conn->tls && (request->status == 101 || body);
}

ssize_t http_reply_splice(struct http_request *request, int fd, uint64_t len) {
    bool tunnel = request->status == 101;
    uint64_t moved = 0;
    bool ended = false;
    if (!request->status || request->aborted)
        return -ERR_GONE;
    if (!splice_possible(request) || !splice_begin(request))
        return -ERR_UNSUPPORTED;
    if (!tunnel && (uint64_t)request->reply_left < len)
        len = (uint64_t)request->reply_left;
    int result = tunnel ? 0 : http_reply_flush(request);
    while (result == 0 && moved < len) {
        uint64_t left = len - moved;
        ssize_t n =
            splice(fd, NULL, request->pipe[1], NULL, left < SPLICE_PIPE_BYTES ? (size_t)left : SPLICE_PIPE_BYTES,
                   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n < 0 && errno == EINTR)
            continue;
        ended = n == 0 || (n < 0 && errno != EAGAIN);
        if (n <= 0)
            break;
        moved += (uint64_t)n;
        if (!tunnel)
            request->reply_left -= n;
        result = splice_send(request, (size_t)n, !tunnel && moved < len);
    }
    if (result < 0) {
        http_reply_abort(request);
        splice_end(request);
    }
    return result < 0 ? result : ended && !moved ? -ERR_IO : (ssize_t)moved; /* the end is reported by the next call */
}
