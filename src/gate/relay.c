/* Bytes between a box and the other side, spliced through pipes (program.h). A pipe belongs to a direction only while
 * it holds bytes. Fair by box: in one turn of the loop each box moves so much and no more, however many connections it
 * has. Invariant: an end of a stream is passed on only after everything before it. */
#include <sys/socket.h>

#include "gate/program.h"

enum {
    RELAY_PIPE_BYTES = 256 << 10,
    RELAY_TURN_BYTES = 256 << 10, /* of one box in one turn */
    RELAY_PIPES = 64,             /* kept for later */
    RELAY_LEAST = 16384,          /* fewer tokens than that are left to gather */
    RELAY_SMALL = 4096,           /* less than that was all there is: the loop says when more comes */
};

static int relay_pipes[RELAY_PIPES][2];
static size_t relay_pipe_count;

/* ---- pipes ---- */

static bool relay_pipe_take(struct flow *flow) {
    if (relay_pipe_count) {
        memcpy(flow->pipe, relay_pipes[--relay_pipe_count], sizeof flow->pipe);
        return true;
    }
    if (pipe2(flow->pipe, O_NONBLOCK | O_CLOEXEC) < 0) {
        flow->pipe[0] = -1;
        return false;
    }
    fcntl(flow->pipe[1], F_SETPIPE_SZ, RELAY_PIPE_BYTES);
    return true;
}

static void relay_pipe_give(struct flow *flow) {
    if (flow->pipe[0] < 0)
        return;
    if (!flow->held && relay_pipe_count < RELAY_PIPES) {
        memcpy(relay_pipes[relay_pipe_count++], flow->pipe, sizeof flow->pipe);
    } else {
        close(flow->pipe[0]);
        close(flow->pipe[1]);
    }
    flow->pipe[0] = -1;
}

void relay_done(struct conn *conn) {
    relay_pipe_give(&conn->up);
    relay_pipe_give(&conn->down);
}

/* ---- how much ---- */

static void relay_throttle_due(struct timer *timer) {
    relay_resume(container_of(timer, struct box, throttle));
}

size_t relay_allowance(struct box *box, size_t most) {
    double rate = (double)box->rules->limits.mbit * 125000, burst = rate / 20 > RELAY_LEAST ? rate / 20 : RELAY_LEAST;
    if (box->turn != loop_turn()) {
        box->turn = loop_turn();
        box->turn_bytes = 0;
    }
    size_t left = box->turn_bytes < RELAY_TURN_BYTES ? RELAY_TURN_BYTES - box->turn_bytes : 0;
    left = left < most ? left : most;
    if (!box->rules->limits.mbit)
        return left;
    bucket_take(&box->transfer, 0, rate, burst);
    double tokens = box->transfer.tokens;
    if (tokens < RELAY_LEAST / 4) {
        if (!box->throttle.place)
            timer_set(&box->throttle, loop_now_ms() + (uint64_t)((RELAY_LEAST - tokens) * 1000 / rate) + 1,
                      relay_throttle_due);
        return 0;
    }
    return tokens < (double)left ? (size_t)tokens : left;
}

void relay_moved(struct box *box, size_t bytes) {
    box->turn_bytes += bytes;
    if (box->rules->limits.mbit)
        box->transfer.tokens -= (double)bytes;
}

/* ---- one connection ---- */

static void relay_interest(struct conn *conn) {
    bool throttled = conn->box->throttle.place;
    uint32_t read_up = conn->up.ended || conn->up.held || conn->in.len || throttled ? 0u : EPOLLIN;
    uint32_t read_down = conn->down.ended || conn->down.held || throttled ? 0u : EPOLLIN;
    watch_set(&conn->client, read_up | (conn->down.held ? EPOLLOUT : 0u));
    watch_set(&conn->upstream, read_down | (conn->up.held || conn->in.len ? EPOLLOUT : 0u));
}

/* Moves what can be moved one way. false: broken. */
static bool relay_flow(struct conn *conn, struct flow *flow, int from, int to, uint64_t *bytes) {
    struct box *box = conn->box;
    bool small = false;
    while (!flow->shut) {
        if (flow->held) {
            ssize_t n = splice(flow->pipe[0], NULL, to, NULL, flow->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
            if (n <= 0)
                return n < 0 && (errno == EAGAIN || errno == EINTR);
            flow->held -= (size_t)n;
            *bytes += (uint64_t)n;
            continue;
        }
        relay_pipe_give(flow);
        if (flow->ended) {
            shutdown(to, SHUT_WR);
            flow->shut = true;
            break;
        }
        size_t most = small ? 0 : relay_allowance(box, RELAY_PIPE_BYTES);
        if (!most)
            break;
        if (!relay_pipe_take(flow))
            return false;
        ssize_t n = splice(from, NULL, flow->pipe[1], NULL, most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n < 0) {
            relay_pipe_give(flow);
            return errno == EAGAIN || errno == EINTR;
        }
        flow->held = (size_t)n;
        flow->ended = n == 0;
        small = n > 0 && n < RELAY_SMALL;
        relay_moved(box, (size_t)n);
        conn->last_ms = loop_now_ms();
    }
    return true;
}

static void relay_pump(struct conn *conn) {
    struct box *box = conn->box;
    uint64_t out = 0, in = 0;
    bool fine = true;
    while (conn->in.len && fine) { /* what was read to find the name */
        ssize_t n = send(conn->upstream.fd, conn->in.data, conn->in.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        fine = n > 0;
        buf_consume(&conn->in, fine ? (size_t)n : 0);
        out += fine ? (uint64_t)n : 0;
    }
    if (fine && !conn->in.len)
        fine = relay_flow(conn, &conn->up, conn->client.fd, conn->upstream.fd, &out);
    fine = fine && relay_flow(conn, &conn->down, conn->upstream.fd, conn->client.fd, &in);
    conn->bytes_in += in;
    conn->bytes_out += out;
    box->count.bytes_in += in;
    box->count.bytes_out += out;
    if (!fine)
        return conn_end(conn, GATE_ROW_CONNECT, false, "reset");
    if (conn->up.shut && conn->down.shut)
        return conn_close(conn);
    uint64_t most = box->rules->limits.bytes;
    if (most && box->count.bytes_in + box->count.bytes_out > most)
        return conn_end(conn, GATE_ROW_CUT, true, "limit:bytes");
    relay_interest(conn);
}

static void relay_idle_due(struct timer *timer) {
    struct conn *conn = container_of(timer, struct conn, timer);
    if (loop_now_ms() - conn->last_ms >= LIMIT_GATE_IDLE_MS)
        conn_end(conn, GATE_ROW_CUT, true, "idle");
    else
        timer_set(timer, conn->last_ms + LIMIT_GATE_IDLE_MS, relay_idle_due);
}

void relay_begin(struct conn *conn) {
    conn->state = CONN_RELAY;
    conn->last_ms = loop_now_ms();
    timer_set(&conn->timer, loop_now_ms() + LIMIT_GATE_IDLE_MS, relay_idle_due);
    relay_pump(conn);
}

void relay_event(struct conn *conn, bool client, uint32_t events) {
    if (events & EPOLLERR)
        return conn_end(conn, GATE_ROW_CONNECT, false, "reset");
    if (events & EPOLLHUP) /* nothing new comes from there; what is left is read when the other side takes it */
        watch_end(client ? &conn->client : &conn->upstream);
    relay_pump(conn);
}

void relay_resume(struct box *box) {
    struct conn *next;
    for (struct conn *conn = box->conns; conn; conn = next) {
        next = conn->next;
        if (conn->state == CONN_RELAY)
            relay_pump(conn);
        else if (conn->state == CONN_HTTP)
            http1_event(conn, true, 0);
    }
}
