/* Bytes that one end of a WebSocket sends, in pieces of any size, while the other end does not always take the answers. The
 * first byte: which end, and how the pieces are cut. Invariant: messages stay within their bound, text is UTF-8, and after
 * the first failure nothing changes any more. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "http/websocket.h"

#define MAX_MESSAGE 5000u

struct peer {
    const uint8_t *data;
    size_t len, step;
    unsigned turn;
};

static ssize_t peer_read(void *user, void *data, size_t len, struct err *err) {
    struct peer *peer = user;
    if (!peer->len)
        return err_set(err, ERR_GONE, "hung up");
    if (++peer->turn % 3 == 0)
        return 0;
    size_t n = peer->step < peer->len ? peer->step : peer->len;
    n = n < len ? n : len;
    memcpy(data, peer->data, n);
    peer->data += n;
    peer->len -= n;
    return (ssize_t)n;
}

static ssize_t peer_write(void *user, const struct iovec *parts, int count, struct err *err) {
    struct peer *peer = user;
    (void)count, (void)err;
    return ++peer->turn % 2 ? (ssize_t)(parts->iov_len < peer->step ? parts->iov_len : peer->step) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    struct peer peer = {.data = data + 1, .len = size - 1, .step = 1u + (data[0] >> 1)};
    const struct websocket_io io = {peer_read, peer_write, data[0] & 1, data[0] & 2, "the fuzzer"};
    struct websocket *websocket = websocket_new(&io, &peer, MAX_MESSAGE);
    struct err err = {0};
    for (unsigned round = 0;; round++) {
        bool text = false;
        const uint8_t *message = NULL;
        size_t len = 0;
        int code = websocket_recv(websocket, &text, &message, &len, &err);
        if (code < 0)
            break;
        if (code > 0 && (len > MAX_MESSAGE || (text && !text_utf8(message, len))))
            abort();
        if (round % 3 == 0)
            websocket_send(websocket, text, message, len, &err);
        if (round % 7 == 0)
            websocket_ping(websocket, &err);
        if (round % 11 == 0)
            websocket_ahead(websocket, &err);
    }
    struct err again = {0};
    bool text;
    const uint8_t *message;
    size_t len;
    if (websocket_recv(websocket, &text, &message, &len, &again) != -err.code || strcmp(again.text, err.text) != 0)
        abort();
    websocket_free(websocket);
    return 0;
}
