/* Streams both ways: terminals, connections to ports, commands whose standard input stays open. Called by the pumps of
 * the dialects, by MCP servers and by `cubby run`. A connection to a port is a socket that the daemon itself makes in
 * the box's network; where it may not enter that, bytes go over the wire as frames within credit. Invariant: no
 * descriptor of a socket that was made in a box ever gets into the daemon (its options would be the box's: a lingering
 * close, a filter). */
#include "box/duplex.h"

#include <limits.h>
#include <sys/socket.h>

#include "base/base.h"
#include "box/port_socket.h"
#include "box/verb.h"

enum { SOCKET_READ_BYTES = 64 << 10 };
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
    struct view view = view_of(event.data, r < 0 ? 0 : event.len);
    struct field field;
    while (r == 0 && field_next(&view, &field, err) > 0)
        if (field.id == FIELD_OFFSET || field.id == FIELD_NEXT)
            duplex->first[field.id == FIELD_NEXT] = field.number;
    if (r < 0)
        box_duplex_close(duplex);
    return r;
}

int box_exec_open(struct box *box, const struct exec_request *request, bool input, struct box_duplex *duplex,
                  struct err *err) {
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    if (request->detach && !(wire_features(box->wire) & FEATURE_DETACH))
        return err_set(err, ERR_UNSUPPORTED, "the runner of this box is too old to let a command outlive its stream");
    return verb_exec_args(box, request, input ? CALL_STDIN : 0, &args, err)
               ?: duplex_open(box, duplex, OP_EXEC, &args, err);
}

int box_attach(struct box *box, uint64_t pid, uint64_t offset, struct box_duplex *duplex, struct err *err) {
    autobuf args = buf_max(64);
    return verb_put(&args, err, F_NUM(PID, pid), F_NUM(OFFSET, offset))
               ?: duplex_open(box, duplex, OP_ATTACH, &args, err)
               ?: duplex_answered(box, duplex, ATTACH_ANSWER_MS, err);
}

int box_attach_from(struct box *box, uint64_t pid, const uint64_t offsets[2], struct box_duplex *duplex,
                    struct err *err) {
    autobuf args = buf_max(128);
    bool both = offsets && wire_features(box->wire) & FEATURE_DETACH;
    return verb_put(&args, err, F_NUM(PID, pid), F_NUM(OFFSET, offsets ? offsets[0] : UINT64_MAX),
                    F_NUM(FLAGS, offsets ? 0 : CALL_UNREAD),
                    {.id = FIELD_NEXT, .number = both ? offsets[1] : 0, .always = both})
               ?: duplex_open(box, duplex, OP_ATTACH, &args, err)
               ?: duplex_answered(box, duplex, ATTACH_ANSWER_MS, err);
}

static void duplex_socket(struct box *box, uint16_t port, int fd, struct box_duplex *duplex) {
    duplex->box = box;
    duplex->port = port;
    duplex->socket = fd;
    duplex->shut = false;
    duplex->moved_ms = clock_ms();
}

bool box_connect_idle(struct box *box, uint16_t port, struct box_duplex *duplex) {
    int fd = port_socket_take(box, port);
    if (fd >= 0)
        duplex_socket(box, port, fd, duplex);
    return fd >= 0;
}

int box_connect(struct box *box, uint16_t port, struct box_duplex *duplex, struct err *err) {
    port_socket_clear(box, port);
    int fd, direct = port_socket_open(box, port, duplex->client ? duplex->fd : -1, &fd, err);
    if (direct == 0)
        duplex_socket(box, port, fd, duplex);
    if (direct <= 0)
        return direct;
    autobuf args = buf_max(64);
    return verb_put(&args, err, F_NUM(PORT, port), F_NUM(TIMEOUT_MS, CONNECT_MS))
               ?: duplex_open(box, duplex, OP_CONNECT, &args, err)
               ?: duplex_answered(box, duplex, CONNECT_ANSWER_MS, err);
}

void box_duplex_close(struct box_duplex *duplex) {
    call_close(duplex->call);
    duplex->call = NULL;
    if (duplex->box)
        port_socket_close(duplex->box, &duplex->socket);
    duplex->box = NULL;
    buf_done(&duplex->held);
}

void box_duplex_keep(struct box_duplex *duplex) {
    if (duplex->box && !duplex->shut && !duplex->held.len)
        port_socket_keep(duplex->box, duplex->port, fd_take(&duplex->socket));
    box_duplex_close(duplex);
}

/* As box_duplex_flush. What a server does not read any more is dropped: what it wrote before may still be read. */
static int duplex_socket_flush(struct box_duplex *duplex) {
    struct buf *held = &duplex->held;
    while (held->len && !duplex->paused && !duplex->shut) {
        ssize_t sent = send(duplex->socket, held->data, held->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN)
            return 0;
        if (sent < 0 && errno != EINTR)
            duplex->shut = true;
        if (sent > 0) {
            duplex->moved_ms = clock_ms();
            buf_consume(held, (size_t)sent);
        }
    }
    if (duplex->shut)
        buf_clear(held);
    if (duplex->eof && !held->len && !duplex->shut) {
        duplex->shut = true;
        shutdown(duplex->socket, SHUT_WR);
    }
    return 0;
}

int box_duplex_flush(struct box_duplex *duplex, struct err *err) {
    struct buf *held = &duplex->held;
    if (held->failed)
        return err_set(err, ERR_TOO_LARGE, "more input than %zu bytes waits for the box", held->max);
    if (duplex->box)
        return duplex_socket_flush(duplex);
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

/* The box can take more: what is held, then what the caller has. */
static int duplex_feed(struct box_duplex *duplex, const struct box_stream *hooks, void *user, struct err *err) {
    int r = box_duplex_flush(duplex, err);
    return r == 0 && duplex_wants(duplex) ? hooks->input(user, false, err) : r;
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

/* ---- sockets ---- */

/* Something came from the server: bytes, its end, an error. */
static int duplex_socket_read(struct box_duplex *duplex, const struct box_stream *hooks, void *user, struct err *err) {
    const struct exec_result none = {0};
    uint8_t data[SOCKET_READ_BYTES];
    int r = hooks->splice ? hooks->splice(user, duplex->socket, err) : DUPLEX_READ;
    if (r != DUPLEX_READ) {
        duplex->moved_ms = clock_ms();
        return r;
    }
    ssize_t got = recv(duplex->socket, data, sizeof data, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got < 0)
        return err_set(err, ERR_GONE, "the server on port %u broke the connection", duplex->port);
    if (got == 0) {
        r = hooks->end ? hooks->end(user, &none, err) : 1;
        return r < 0 ? r : 1;
    }
    duplex->moved_ms = clock_ms();
    return hooks->data(user, STREAM_STDOUT, data, (size_t)got, err);
}

/* The wire is watched too: a box that ends is not always one whose server ends. */
static int duplex_socket_turn(struct box_duplex *duplex, const struct box_stream *hooks, void *user, struct err *err) {
    bool wants = duplex_wants(duplex), holds = duplex->held.len && !duplex->paused;
    struct pollfd polls[4] = {
        {.fd = duplex->socket, .events = (short)(POLLIN | (holds ? POLLOUT : 0))},
        {.fd = wants || duplex->client ? duplex->fd : -1,
         .events = (short)((wants ? POLLIN : 0) | (duplex->client ? POLLRDHUP : 0))},
        {.fd = duplex->wake_fd, .events = POLLIN},
        {.fd = wire_fd(duplex->box->wire), .events = POLLRDHUP},
    };
    uint64_t now_ms = duplex->tick_ms ? clock_ms() : 0, left_ms = 0;
    if (duplex->tick_ms > now_ms)
        left_ms = duplex->tick_ms - now_ms;
    int count = poll(polls, 4, !duplex->tick_ms ? -1 : left_ms > INT_MAX ? INT_MAX : (int)left_ms);
    if (count < 0)
        return errno == EINTR ? 0 : err_errno(err, errno, "waiting for port %u", duplex->port);
    if (count == 0)
        return hooks->tick(user, err);
    int r = 0;
    if (polls[0].revents & POLLOUT && holds)
        r = duplex_feed(duplex, hooks, user, err);
    if (r == 0 && polls[0].revents & ~POLLOUT)
        r = duplex_socket_read(duplex, hooks, user, err);
    else if (r == 0 && polls[3].revents && !wire_alive(duplex->box->wire))
        return wire_error(duplex->box->wire, err) ?: err_set(err, ERR_GONE, "the box ended");
    if (r == 0 && (polls[1].revents || polls[2].revents))
        r = duplex_ready(duplex, wants && duplex_wants(duplex), polls[1].revents, polls[2].revents != 0, hooks, user,
                         err);
    if (r == 0 && duplex->tick_ms && clock_ms() >= duplex->tick_ms)
        r = hooks->tick(user, err);
    return r;
}

int box_duplex_turn(struct box_duplex *duplex, const struct box_stream *hooks, void *user, struct err *err) {
    if (duplex->box)
        return duplex_socket_turn(duplex, hooks, user, err);
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
        return duplex_feed(duplex, hooks, user, err);
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
