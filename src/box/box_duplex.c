/* Streams both ways: terminals, connections to ports, commands whose standard input stays open. Called by the pumps of the
 * dialects, by MCP servers and by `cubby run`. Invariant: bytes of a port go over the wire as frames within credit; no
 * descriptor of a socket that was made in a box ever gets into the daemon (its options would be the box's: a lingering
 * close, a filter). */
#include "box/duplex.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "box/verb.h"

enum { CONNECT_MS = 10000, CONNECT_ANSWER_MS = CONNECT_MS + 5000, ATTACH_ANSWER_MS = 10000 };

static int duplex_open(struct box *box, struct box_duplex *duplex, enum op op, const struct buf *args,
                       struct err *err) {
    duplex->memory_bytes = box->spec.limits.memory_mb << 20;
    duplex->moved_ms = clock_ms();
    return call_open(box->wire, op, args, NULL, 0, false, &duplex->call, err);
}

/* The runner's word comes first, so that a process or a server that is not there is an answer of its own. */
static int duplex_answered(struct box *box, struct box_duplex *duplex, uint64_t answer_ms, struct err *err) {
    const struct call_wait wait = {
        .fd = duplex->client ? duplex->fd : -1, .events = POLLRDHUP, .deadline_ms = clock_ms() + answer_ms};
    struct event event;
    int r = call_next(duplex->call, &wait, &event, err);
    if (r == 0 && event.kind == EVENT_READY)
        r = err_set(err, ERR_GONE, "the client hung up");
    else if (r == 0 && (event.kind != EVENT_STAT || event.fd >= 0)) {
        fd_close(&event.fd);
        err_set(err, ERR_PROTOCOL, "the runner did not open a stream as it should");
        r = verb_broken(box, err);
    }
    if (r < 0)
        box_duplex_close(duplex);
    return r;
}

int box_exec_open(struct box *box, const struct exec_request *request, bool input, struct box_duplex *duplex,
                  struct err *err) {
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    int r = verb_exec_args(request, input ? CALL_STDIN : 0, &args, err);
    return r < 0 ? r : duplex_open(box, duplex, OP_EXEC, &args, err);
}

int box_attach(struct box *box, uint64_t pid, uint64_t offset, struct box_duplex *duplex, struct err *err) {
    autobuf args = buf_max(64);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_OFFSET, offset);
    int r = duplex_open(box, duplex, OP_ATTACH, &args, err);
    return r < 0 ? r : duplex_answered(box, duplex, ATTACH_ANSWER_MS, err);
}

int box_connect(struct box *box, uint16_t port, struct box_duplex *duplex, struct err *err) {
    autobuf args = buf_max(64);
    field_number(&args, FIELD_PORT, port);
    field_number(&args, FIELD_TIMEOUT_MS, CONNECT_MS);
    int r = duplex_open(box, duplex, OP_CONNECT, &args, err);
    return r < 0 ? r : duplex_answered(box, duplex, CONNECT_ANSWER_MS, err);
}

void box_duplex_close(struct box_duplex *duplex) {
    call_close(duplex->call);
    duplex->call = NULL;
    buf_done(&duplex->held);
}

int box_duplex_flush(struct box_duplex *duplex, struct err *err) {
    struct buf *held = &duplex->held;
    if (held->failed)
        return err_set(err, ERR_TOO_LARGE, "more input than %zu bytes waits for the box", held->max);
    if (held->len && !duplex->paused) {
        ssize_t taken = call_send(duplex->call, held->data, held->len, err);
        if (taken < 0)
            return (int)taken;
        if (taken)
            duplex->moved_ms = clock_ms();
        buf_consume(held, (size_t)taken);
    }
    return duplex->eof && !held->len ? call_send_eof(duplex->call, err) : 0;
}

int box_duplex_put(struct box_duplex *duplex, const void *data, size_t len, struct err *err) {
    buf_put(&duplex->held, data, len);
    return box_duplex_flush(duplex, err);
}

static bool duplex_wants(const struct box_duplex *duplex) {
    return duplex->fd >= 0 && !duplex->deaf && (duplex->held.len == 0 || duplex->held.len < duplex->room);
}

static int duplex_started(const struct event *event, const struct box_stream *hooks, void *user, struct err *err) {
    struct view view = view_of(event->data, event->len);
    struct field field;
    int r;
    while ((r = field_next(&view, &field, err)) > 0)
        if (field.id == FIELD_PID && hooks->started)
            return hooks->started(user, field.number, err);
    return r;
}

static int duplex_end(struct box_duplex *duplex, const struct event *event, const struct box_stream *hooks, void *user,
                      struct err *err) {
    struct exec_result result;
    int r = verb_exec_result(event, &result, err);
    result.memory_limit_bytes = duplex->memory_bytes;
    if (r == 0 && hooks->end)
        r = hooks->end(user, &result, err);
    return r < 0 ? r : 1;
}

static int duplex_ready(const struct box_duplex *duplex, bool wanted, short revents, bool woken,
                        const struct box_stream *hooks, void *user, struct err *err) {
    int r = woken ? hooks->wake(user, err) : 0;
    if (r != 0 || !revents)
        return r;
    if (wanted && (revents & POLLIN || !duplex->client))
        return hooks->input(user, true, err);
    if (!duplex->client || !(revents & (POLLRDHUP | POLLHUP | POLLERR)))
        return 0;
    return hooks->hangup ? hooks->hangup(user, err) : 1;
}

int box_duplex_turn(struct box_duplex *duplex, const struct box_stream *hooks, void *user, struct err *err) {
    bool wants = duplex_wants(duplex);
    struct pollfd wake = {.fd = duplex->wake_fd, .events = POLLIN};
    const struct call_wait wait = {
        .fd = wants || duplex->client ? duplex->fd : -1,
        .events = (short)((wants ? POLLIN : 0) | (duplex->client ? POLLRDHUP : 0)),
        .also = &wake,
        .deadline_ms = duplex->tick_ms,
    };
    struct event event;
    int r = call_next(duplex->call, &wait, &event, err);
    if (r == -ERR_TIMEOUT && duplex->tick_ms && clock_ms() >= duplex->tick_ms)
        return hooks->tick(user, err);
    if (r < 0)
        return r;
    autofd ignored = event.fd;
    switch (event.kind) {
    case EVENT_STAT:
        return duplex_started(&event, hooks, user, err);
    case EVENT_DATA:
        duplex->moved_ms = clock_ms();
        return hooks->data(user, event.stream, event.data, event.len, err);
    case EVENT_INPUT:
        r = box_duplex_flush(duplex, err);
        return r == 0 && duplex_wants(duplex) ? hooks->input(user, false, err) : r;
    case EVENT_READY:
        return duplex_ready(duplex, wants, event.revents, wake.revents != 0, hooks, user, err);
    case EVENT_END:
        return duplex_end(duplex, &event, hooks, user, err);
    case EVENT_ITEM:
        break;
    }
    return err_set(err, ERR_PROTOCOL, "the runner sent something that a stream does not have");
}

int box_duplex_run(struct box_duplex *duplex, const struct box_stream *hooks, void *user, struct err *err) {
    int r = 0;
    while (r == 0)
        r = box_duplex_turn(duplex, hooks, user, err);
    return r < 0 ? r : 0;
}
