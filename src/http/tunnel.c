/* A connection after 101: bytes both ways, whatever they mean. Called by handlers that pass an upgrade on to somebody else.
 * Invariant: once 101 is sent nothing here takes the client's bytes for requests, and the connection ends with the
 * handler. */
#include <errno.h>
#include <string.h>

#include "http/internal.h"

int http_tunnel(struct http_request *request, struct err *err) {
    if (strcmp(request->method, "GET") != 0 || request->http10 || !request->upgrade || !body_done(request))
        return err_set(err, ERR_INVALID, "an upgrade is a GET of HTTP/1.1 without a body, with Connection: Upgrade");
    if (request->status)
        return err_set(err, ERR_INTERNAL, "the request was answered before");
    int result = http_reply_begin(request, 101, NULL, 0);
    if (result == 0)
        result = http_reply_end(request);
    reply_upgraded(request);
    return result < 0 ? err_set(err, ERR_GONE, "the client went away") : 0;
}

ssize_t http_tunnel_read(struct http_request *request, void *data, size_t len) {
    size_t have = request->in_end - request->in_at;
    if (have) { /* came with the request */
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
