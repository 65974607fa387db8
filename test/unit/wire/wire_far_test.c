/* A wire whose runner is far away: windows grow while they are used, and not beyond their bounds. */
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire_peer.h"

/* The next frame, whatever it is. */
static bool peer_skip(int fd) {
    struct peer *peer = calloc(1, sizeof *peer);
    peer->fd = fd;
    bool came = peer_read(peer);
    free(peer);
    return came;
}

/* Sends all that the window lets, takes it, and hears what more may be sent; until so many bytes went. Then nobody takes:
 * the largest window that it was given. */
static uint32_t far_window(int peer, struct call *call, uint32_t id, size_t bytes) {
    static uint8_t zero_bytes[LIMIT_FRAME_PAYLOAD_BYTES];
    struct peer *runner = calloc(1, sizeof *runner);
    runner->fd = peer;
    uint32_t window = LIMIT_CREDIT_BYTES, most = window;
    struct err err;
    for (size_t sent = 0; sent < bytes; sent += sizeof zero_bytes) {
        peer_send(peer, FRAME_DATA, id, STREAM_STDOUT, zero_bytes, sizeof zero_bytes);
        window -= sizeof zero_bytes;
        struct event event;
        must(call_next(call, NULL, &event, &err) == 0 && event.kind == EVENT_DATA, "data");
        struct call_wait now = {.fd = -1, .deadline_ms = 1}; /* the event is consumed, and no other is there */
        must(call_next(call, &now, &event, &err) == -ERR_TIMEOUT, "no more data");
        struct pollfd look = {.fd = peer, .events = POLLIN};
        while (poll(&look, 1, 0) > 0) {
            must(peer_read(runner) && runner->frame.type == FRAME_CREDIT && runner->frame.call == id, "credit");
            struct view view = view_of(runner->frame.payload, runner->frame.len);
            window += view_u32(&view);
        }
        most = window > most ? window : most;
    }
    free(runner);
    return most;
}

static void test_far(void) {
    int peer;
    struct call *call, *other;
    struct err err;
    struct wire *wire = wire_pair(true, &peer);
    must(call_open(wire, OP_READ, NULL, NULL, 0, false, &call, &err) == 0 && peer_skip(peer), "open");
    ok(far_window(peer, call, 1, 4u << 20) <= LIMIT_CREDIT_BYTES, "a runner on this machine has one window for ever");
    call_close(call);
    wire_unref(wire);
    close(peer);
    wire = wire_pair(false, &peer);
    must(call_open(wire, OP_READ, NULL, NULL, 0, false, &call, &err) == 0 && peer_skip(peer), "open");
    uint32_t most = far_window(peer, call, 1, 40u << 20);
    ok(most > LIMIT_CREDIT_MOST_BYTES / 2 && most <= LIMIT_CREDIT_MOST_BYTES,
       "a window to far away grows to its bound");
    must(call_open(wire, OP_READ, NULL, NULL, 0, false, &other, &err) == 0 && peer_skip(peer), "open");
    most = far_window(peer, other, 2, 40u << 20);
    ok(most <= 2 * LIMIT_CREDIT_BYTES, "what windows grow by has a bound for the whole wire");
    peer_send(peer, FRAME_END, 1, 0, NULL, 0);
    struct event event;
    ok(call_next(call, NULL, &event, &err) == 0 && event.kind == EVENT_END, "the first call ends");
    call_close(call);
    most = far_window(peer, other, 2, 40u << 20);
    ok(most > LIMIT_CREDIT_MOST_BYTES / 2, "then the second has its part");
    /* Credit ahead of what was sent, from the runner. */
    uint32_t ahead = LIMIT_CREDIT_MOST_BYTES - LIMIT_CREDIT_BYTES;
    uint8_t payload[4] = {(uint8_t)ahead, (uint8_t)(ahead >> 8), (uint8_t)(ahead >> 16), (uint8_t)(ahead >> 24)};
    peer_send(peer, FRAME_CREDIT, 2, 0, payload, sizeof payload);
    struct call_wait soon = {.fd = -1, .deadline_ms = clock_ms() + 50};
    ok(call_next(other, &soon, &event, &err) == -ERR_TIMEOUT && wire_alive(wire), "it may give credit ahead");
    peer_send(peer, FRAME_CREDIT, 2, 0, "\1\0\0\0", 4);
    ok(call_next(other, NULL, &event, &err) == -ERR_PROTOCOL, "but not a byte beyond the bound");
    call_close(other);
    wire_unref(wire);
    close(peer);
}

int main(void) {
    test_far();
    return tap_end();
}
