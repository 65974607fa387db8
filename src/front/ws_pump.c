/* The loop between a WebSocket and a box. Called by the terminals, shells and ports of the dialects. Invariant: while
 * the box does not accept input, no more is read from the client, and output continues. */
#include "front/ws_pump.h"

#include <poll.h>

#include "front/front.h"

enum { WS_PUMP_TICK_MS = 1000 }; /* how soon a stopping daemon ends a stream */

int ws_pump_wanted(struct http_request *request, struct err *err) {
    const char *upgrade = http_header(request, "upgrade");
    if (upgrade && strcasestr(upgrade, "websocket"))
        return 0;
    return err_set(err, ERR_INVALID, "this route needs a WebSocket: send Upgrade: websocket");
}

void ws_pump_init(struct ws_pump *pump, struct http_request *request, size_t held, const struct ws_pump_hooks *hooks,
                  void *user) {
    *pump = (struct ws_pump){.request = request, .hooks = hooks, .user = user};
    pump->duplex = (struct box_duplex){
        .fd = http_fd(request),
        .client = true,
        .wake_fd = -1,
        .held = buf_max(held),
        .tick_ms = clock_ms() + WS_PUMP_TICK_MS,
    };
}

int ws_pump_accept(struct ws_pump *pump, struct err *err) {
    return ws_accept(pump->request, WS_PUMP_MESSAGE_BYTES, &pump->ws, err);
}

static bool ws_pump_stopping(const struct ws_pump *pump) {
    return http_server_stopping(front_of(pump->request)->server);
}

/* Takes messages until there are no more or the box's input is full. */
static int ws_pump_input(void *user, bool, struct err *err) {
    struct ws_pump *pump = user;
    struct buf *held = &pump->duplex.held;
    int result = 0;
    while (result == 0 && (held->len == 0 || held->len < pump->duplex.room)) {
        enum ws_kind kind;
        const uint8_t *data;
        size_t len;
        int got = ws_recv(pump->ws, &kind, &data, &len, err);
        if (got <= 0)
            return got < 0 ? 1 : 0;
        result = pump->hooks->message(pump->user, kind, data, len, err);
    }
    return result;
}

static int ws_pump_tick(void *user, struct err *err) {
    struct ws_pump *pump = user;
    uint64_t now_ms = clock_ms();
    pump->duplex.tick_ms = now_ms + WS_PUMP_TICK_MS;
    if (ws_pump_stopping(pump))
        return 1;
    if (pump->hooks->tick)
        return pump->hooks->tick(pump->user, err);
    if (now_ms < pump->duplex.moved_ms + WS_PUMP_PING_MS)
        return 0;
    pump->duplex.moved_ms = now_ms; /* a client that is gone will not accept it for long */
    return ws_ping(pump->ws, err) < 0;
}

/* Waits for a client that asked for a pause. The end of the pause may be behind input: input that the box does not take
 * ends the pause too, so that neither waits for the other. */
static int ws_pump_pause(struct ws_pump *pump, struct err *err) {
    struct pollfd client = {.fd = http_fd(pump->request), .events = POLLIN | POLLRDHUP};
    if (poll(&client, 1, WS_PUMP_TICK_MS) < 0 && errno != EINTR)
        return err_errno(err, errno, "poll");
    if (client.revents & (POLLRDHUP | POLLHUP | POLLERR))
        return 1;
    int result = client.revents ? ws_pump_input(pump, true, err) : ws_pump_tick(pump, err);
    if (result == 0)
        result = box_duplex_flush(&pump->duplex, err);
    if (pump->duplex.held.len > 0)
        pump->paused = false;
    return result;
}

static int ws_pump_data(void *user, int, const uint8_t *data, size_t len, struct err *err) {
    struct ws_pump *pump = user;
    int result = pump->hooks->data ? pump->hooks->data(pump->user, data, len, err)
                                   : ws_send(pump->ws, WS_BINARY, data, len, err) < 0;
    while (result == 0 && pump->paused)
        result = ws_pump_pause(pump, err);
    return result;
}

static int ws_pump_end(void *user, const struct exec_result *result, struct err *err) {
    struct ws_pump *pump = user;
    return pump->hooks->end ? pump->hooks->end(pump->user, result, err) : 1;
}

int ws_pump_run(struct ws_pump *pump, struct err *err) {
    static const struct box_stream stream = {
        .data = ws_pump_data, .input = ws_pump_input, .tick = ws_pump_tick, .end = ws_pump_end};
    int result = ws_pump_input(pump, false, err); /* messages that came with the upgrade */
    if (result == 0)
        result = box_duplex_run(&pump->duplex, &stream, pump, err);
    return result < 0 ? result : 0;
}

int ws_pump_close(struct ws_pump *pump, int result, const char *why) {
    if (pump->ws)
        ws_close(pump->ws, result < 0 ? 1011 : ws_pump_stopping(pump) ? 1001 : 1000, why);
    box_duplex_close(&pump->duplex);
    return pump->ws && result < 0 ? -result : result < 0 ? result : 0;
}
