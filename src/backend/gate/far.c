/* Messages of a gate over a stream (far.h). */
#include "backend/gate/far.h"

#include <sys/socket.h>

#include "base/base.h"

static bool far_send_all(int socket, const uint8_t *bytes, size_t len) {
    while (len) {
        ssize_t n = send(socket, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

bool far_send(int socket, const struct gate_message *message, const void *more, size_t len) {
    autobuf out = buf_max(FAR_BYTES + 4);
    uint32_t size = (uint32_t)(sizeof *message + len);
    buf_put(&out, &size, sizeof size);
    buf_put(&out, message, sizeof *message);
    buf_put(&out, more, len);
    return !out.failed && far_send_all(socket, out.data, out.len);
}

size_t far_recv(int socket, uint8_t *bytes, size_t size) {
    uint32_t len;
    if (fd_read_full(socket, &len, sizeof len) != (ssize_t)sizeof len || len < sizeof(struct gate_message) ||
        len > size)
        return 0;
    return fd_read_full(socket, bytes, len) == (ssize_t)len ? len : 0;
}
