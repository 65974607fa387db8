/* CONNECT: a stream to a server in the box, on the loopback of the box's own network. Called by serve. The daemon's
 * DATA goes to the server, whose bytes come back as DATA within credit; EOF half-closes towards the server; the
 * server's end ends the call. Invariant: only 127.0.0.1 and ::1 are connected to, and nothing here blocks. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include "base/base.h"
#include "runner/ops/ops.h"
#include "runner/runner.h"

enum { READ_BYTES = 64 << 10, READS_A_TURN = 4 };

struct dial {
    struct source source;
    struct timer timer; /* limits connecting */
    struct rcall *call;
    struct buf out; /* for the server, not accepted yet; at most the credit */
    size_t out_at;
    uint16_t port;
    bool second; /* nothing listens on 127.0.0.1: tries ::1 */
    bool connected, shut;
};

static unsigned dial_count; /* one loop, one thread */

static void connect_dial_free(struct dial *dial) {
    struct runner *runner = dial->call->runner;
    dial_count--;
    timer_set(runner, &dial->timer, 0);
    source_close(runner, &dial->source);
    buf_done(&dial->out);
    later_free(runner, dial);
}

static void connect_dial_fail(struct dial *dial, const struct err *err) {
    struct rcall *call = dial->call;
    connect_dial_free(dial);
    reply_fail(call, err);
}

/* ---- connecting ---- */

/* Begins a connection. Returns 0 or -errno. */
static int connect_dial_begin(struct dial *dial) {
    const struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons(dial->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(dial->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int on = 1;
    dial->source.fd = socket(dial->second ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (dial->source.fd < 0)
        return -errno;
    setsockopt(dial->source.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int r = dial->second ? connect(dial->source.fd, (const struct sockaddr *)&in6, sizeof in6)
                         : connect(dial->source.fd, (const struct sockaddr *)&in, sizeof in);
    if (r < 0 && errno != EINPROGRESS)
        return -errno;
    source_set(dial->call->runner, &dial->source, EPOLLOUT);
    return 0;
}

/* Nothing listens: tries the other address, then fails. Negative: err is the answer. */
static int connect_dial_again(struct dial *dial, int number, struct err *err) {
    source_close(dial->call->runner, &dial->source);
    bool absent = number == ECONNREFUSED || number == EADDRNOTAVAIL || number == EAFNOSUPPORT || number == ENETUNREACH;
    if (absent && !dial->second) {
        dial->second = true;
        number = -connect_dial_begin(dial);
        if (number == 0)
            return 0;
        return connect_dial_again(dial, number, err);
    }
    if (absent)
        return err_set(err, ERR_NOT_FOUND, "nothing listens on port %u in the box", dial->port);
    return err_errno(err, number, "cannot connect to port %u in the box", dial->port);
}

static void connect_dial_late(struct timer *timer) {
    struct dial *dial = container_of(timer, struct dial, timer);
    struct err err;
    err_set(&err, ERR_TIMEOUT, "the server on port %u does not accept connections", dial->port);
    connect_dial_fail(dial, &err);
}

/* ---- bytes ---- */

/* Writes as much as the server accepts now. */
static void connect_dial_write(struct dial *dial) {
    struct rcall *call = dial->call;
    size_t before = dial->out_at;
    while (dial->out.len > dial->out_at) {
        ssize_t n = send(dial->source.fd, dial->out.data + dial->out_at, dial->out.len - dial->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) { /* it does not read any more, but its output may still be read */
            dial->out_at = dial->out.len;
            dial->shut = true;
            break;
        }
        if (n < 0)
            break;
        dial->out_at += (size_t)n;
    }
    uint32_t taken = (uint32_t)(dial->out_at - before);
    if (dial->out_at >= dial->out.len / 2) {
        buf_consume(&dial->out, dial->out_at);
        dial->out_at = 0;
    }
    if (taken)
        reply_credit(call, taken);
    if (call->input_eof && dial->out.len == 0 && !dial->shut) {
        dial->shut = true;
        shutdown(dial->source.fd, SHUT_WR);
    }
}

/* A few reads per turn, while they are full. Returns false if the server, and so the call, has ended. */
static bool connect_dial_read(struct dial *dial) {
    static uint8_t scratch[READ_BYTES]; /* one loop, one thread */
    struct rcall *call = dial->call;
    for (int i = 0; i < READS_A_TURN && call->credit_out && reply_room(call); i++) {
        size_t room = call->credit_out < READ_BYTES ? call->credit_out : READ_BYTES;
        ssize_t n = recv(dial->source.fd, scratch, room, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n == 0) {
            connect_dial_free(dial);
            reply_end(call, NULL);
            return false;
        }
        if (n < 0) {
            struct err err;
            err_set(&err, ERR_GONE, "the server on port %u broke the connection", dial->port);
            connect_dial_fail(dial, &err);
            return false;
        }
        reply_data(call, STREAM_STDOUT, scratch, (size_t)n);
        reply_now(call);
        if ((size_t)n < room)
            return true;
    }
    return true;
}

/* Watches only what can be handled: a hang-up without credit would spin the loop. */
static void connect_dial_watch(struct dial *dial) {
    struct rcall *call = dial->call;
    bool in = call->credit_out && reply_room(call), out = dial->out.len > 0;
    source_set(call->runner, &dial->source, (in ? EPOLLIN : 0u) | (out ? EPOLLOUT : 0u));
}

static void connect_dial_ready(struct source *source, uint32_t events) {
    struct dial *dial = (struct dial *)source;
    if (!dial->connected) {
        int number = 0;
        socklen_t size = sizeof number;
        struct err err;
        if (getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &number, &size) < 0)
            number = errno;
        if (number) {
            if (connect_dial_again(dial, number, &err) < 0)
                connect_dial_fail(dial, &err);
            return;
        }
        dial->connected = true;
        timer_set(dial->call->runner, &dial->timer, 0);
        reply_stat(dial->call, NULL, -1);
        reply_now(dial->call);
    }
    connect_dial_write(dial);
    if (!(events & ~(uint32_t)EPOLLOUT) || connect_dial_read(dial))
        connect_dial_watch(dial);
}

/* Credit or space is available again. */
static void connect_dial_resume(struct rcall *call) {
    struct dial *dial = call->state;
    if (dial->connected)
        connect_dial_watch(dial);
}

/* ---- the op ---- */

static int connect_begin(struct rcall *call, const struct fields *args, struct err *err) {
    uint64_t port = args->number[FIELD_PORT], timeout_ms = args->number[FIELD_TIMEOUT_MS];
    if (port < 1 || port > 65535)
        return err_set(err, ERR_INVALID, "a port must be a number from 1 to 65535");
    if (dial_count >= LIMIT_CONNECTS)
        return err_set(err, ERR_LIMIT, "the box has %u connections to its ports, which is the limit", LIMIT_CONNECTS);
    struct dial *dial = xcalloc(1, sizeof *dial);
    *dial = (struct dial){.source = {.fd = -1, .ready = connect_dial_ready},
                          .timer.fire = connect_dial_late,
                          .call = call,
                          .port = (uint16_t)port};
    buf_init(&dial->out, 2 * LIMIT_CREDIT_MOST_BYTES);
    dial_count++;
    call->state = dial;
    call->writable = connect_dial_resume;
    int r = connect_dial_begin(dial);
    if (r < 0)
        r = connect_dial_again(dial, -r, err);
    if (r < 0) {
        connect_dial_free(dial);
        return r;
    }
    if (timeout_ms)
        timer_set(call->runner, &dial->timer, timer_after(timeout_ms));
    return 0;
}

static int connect_input(struct rcall *call, const uint8_t *data, size_t len, struct err *) {
    struct dial *dial = call->state;
    if (dial->shut) { /* it does not read any more: input is dropped, and the sender is not blocked */
        reply_credit(call, (uint32_t)len);
        return 0;
    }
    buf_put(&dial->out, data, len);
    if (dial->connected) {
        connect_dial_write(dial);
        connect_dial_watch(dial);
    }
    return 0;
}

static int connect_finish(struct rcall *call, struct err *) {
    struct dial *dial = call->state;
    if (dial->connected) {
        connect_dial_write(dial);
        connect_dial_watch(dial);
    }
    return 0;
}

static void connect_cancel(struct rcall *call) {
    connect_dial_free(call->state);
}

const struct op_def op_connect = {.op = OP_CONNECT,
                                  .begin = connect_begin,
                                  .input = connect_input,
                                  .finish = connect_finish,
                                  .cancel = connect_cancel};
