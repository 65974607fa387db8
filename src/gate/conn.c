/* Connections of boxes: accepted, named, judged, dialed (program.h). What the box aimed at matters only for addresses
 * that were pinned to a name and for networks that the policy names; with SNI or Host the name alone decides, and the
 * gate dials that name's own addresses. Invariant: connect() is called with an address that was judged in that turn. */
#include <netinet/in.h>
#include <linux/tcp.h>
#include <sys/socket.h>

#include "gate/hello.h"
#include "gate/program.h"
#include "gate/seal_wire.h"

enum { CONN_ACCEPTS = 32, CONN_LAST_MS = 2000, CONN_SEAL_MS = 10000 };
#define CONN_BURST 4 /* seconds' worth of new connections at once */

struct dial {
    struct dial *next;
    struct watch watch;
    struct conn *conn;
    struct address address;
};

static uint64_t conn_numbers;
static int conn_spare = -1; /* given up to accept and refuse one when there are no descriptors left */

static void conn_event(struct conn *conn, bool client, uint32_t events);
static void conn_named(struct conn *conn, const char *name);

/* ---- its end ---- */

static void conn_dials_end(struct conn *conn) {
    while (conn->dials) {
        struct dial *dial = conn->dials;
        conn->dials = dial->next;
        watch_close(&dial->watch);
        loop_free(dial);
    }
    timer_stop(&conn->next_try);
}

static void conn_free(struct conn *conn) {
    struct box *box = conn->box;
    resolve_cancel(box, conn);
    conn_dials_end(conn);
    timer_stop(&conn->timer);
    relay_done(conn);
    http1_done(conn);
    watch_close(&conn->client);
    watch_close(&conn->upstream);
    buf_done(&conn->in);
    box->count.active--;
    box->count.held -= conn->state == CONN_HELD;
    *(conn->prev ? &conn->prev->next : &box->conns) = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    loop_free(conn);
}

static void conn_row(struct conn *conn, enum gate_row_kind kind, bool denied, const char *why) {
    struct box *box = conn->box;
    struct gate_row row = report_row(kind, box);
    const struct address *shown = conn->dial_us ? &conn->dialed : &conn->aimed;
    row.denied = denied;
    row.observed = conn->observed;
    row.protocol = (uint8_t)conn->protocol;
    row.port = conn->port;
    row.cgroup = conn->cgroup;
    row.question = kind == GATE_ROW_ASK ? conn->question : 0;
    row.bytes_in = conn->bytes_in;
    row.bytes_out = conn->bytes_out;
    row.duration_us = clock_us() - conn->start_us;
    snprintf(row.name, sizeof row.name, "%s", conn->name);
    snprintf(row.why, sizeof row.why, "%s", why);
    address_shown(shown, row.address);
    box->count.denied += denied && kind == GATE_ROW_CONNECT;
    box->count.cut += kind == GATE_ROW_CUT;
    if (denied || kind != GATE_ROW_CONNECT || box->rules->log == GATE_LOG_ALL)
        report(box, &row);
}

static void conn_reset(int fd) {
    struct linger now = {.l_onoff = 1};
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

void conn_end(struct conn *conn, enum gate_row_kind kind, bool denied, const char *why) {
    if (conn->state != CONN_LAST)
        conn_row(conn, kind, denied, why);
    if (conn->state == CONN_HANDED) { /* the seal has copies of both */
        shutdown(conn->client.fd, SHUT_RDWR);
        shutdown(conn->upstream.fd, SHUT_RDWR);
    }
    conn_reset(conn->client.fd);
    conn_reset(conn->upstream.fd);
    conn_free(conn);
}

void conn_close(struct conn *conn) {
    conn_row(conn, GATE_ROW_CONNECT, false, conn->rule);
    conn_free(conn);
}

static void conn_last_due(struct timer *timer) {
    conn_free(container_of(timer, struct conn, timer));
}

void conn_end_after(struct conn *conn, const void *bytes, size_t len, bool denied, const char *why) {
    conn_row(conn, GATE_ROW_CONNECT, denied, why);
    conn->box->count.held -= conn->state == CONN_HELD;
    conn->state = CONN_LAST;
    resolve_cancel(conn->box, conn);
    conn_dials_end(conn);
    conn_reset(conn->upstream.fd);
    watch_close(&conn->upstream);
    send(conn->client.fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(conn->client.fd, SHUT_WR);
    watch_set(&conn->client, EPOLLIN);
    timer_set(&conn->timer, loop_now_ms() + CONN_LAST_MS, conn_last_due);
}

void conn_deny(struct conn *conn, const char *why) {
    static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 112}; /* fatal, unrecognized_name */
    if (conn->protocol == GATE_HTTP)
        http1_refuse(conn, 403, why);
    else if (conn->protocol == GATE_TLS)
        conn_end_after(conn, alert, sizeof alert, true, why);
    else
        conn_end(conn, GATE_ROW_CONNECT, true, why);
}

void conn_fail(struct conn *conn, const char *why) {
    conn->box->count.failed++;
    if (conn->protocol == GATE_HTTP)
        http1_refuse(conn, 502, why);
    else
        conn_end(conn, GATE_ROW_CONNECT, false, why);
}

/* ---- questions ---- */

static void conn_held_due(struct timer *timer) {
    conn_deny(container_of(timer, struct conn, timer), "ask:timeout");
}

void conn_hold(struct conn *conn) {
    static uint64_t questions;
    struct box *box = conn->box;
    if (conn->state == CONN_HELD)
        return;
    if (box->count.held >= LIMIT_GATE_HELD)
        return conn_deny(conn, "limit:held");
    for (struct conn *other = box->conns; other; other = other->next)
        if (other->state == CONN_HELD && other->port == conn->port && strcmp(other->name, conn->name) == 0 &&
            (conn->name[0] || memcmp(&other->aimed, &conn->aimed, sizeof conn->aimed) == 0))
            conn->question = other->question;
    conn->state = CONN_HELD;
    box->count.held++;
    watch_set(&conn->client, EPOLLRDHUP);
    timer_set(&conn->timer, loop_now_ms() + box->rules->ask_timeout_ms, conn_held_due);
    if (conn->question)
        return;
    conn->question = ++questions;
    conn_row(conn, GATE_ROW_ASK, false, "default");
}

static void conn_unhold(struct conn *conn) {
    conn->box->count.held -= conn->state == CONN_HELD;
    conn->question = 0;
    conn->state = CONN_PEEK;
    conn_dial(conn);
}

void conn_answered(struct box *box, uint64_t question, bool allow, uint64_t for_ms) {
    struct conn *next;
    bool noted = !for_ms || !allow;
    for (struct conn *conn = box->conns; conn; conn = next) {
        next = conn->next;
        if (conn->state != CONN_HELD || conn->question != question)
            continue;
        if (!noted && conn->name[0]) {
            struct grant *grant = xcalloc(1, sizeof *grant);
            memcpy(grant->name, conn->name, sizeof grant->name);
            grant->port = conn->port;
            grant->until_ms = loop_now_ms() + for_ms;
            list_push(box->grants, grant);
            noted = true;
        }
        conn->granted = allow;
        if (allow)
            conn_unhold(conn);
        else
            conn_deny(conn, "ask:denied");
    }
}

/* ---- judging ---- */

static bool conn_judge(struct conn *conn, const struct address *address, struct gate_verdict *verdict) {
    struct gate_subject subject = {.name = conn->name[0] ? conn->name : NULL, .address = address, .port = conn->port};
    box_judge(conn->box, &subject, verdict);
    if (verdict->ask && conn->granted) {
        verdict->ask = false;
        verdict->allowed = true;
    }
    return verdict->allowed;
}

bool conn_again(struct conn *conn) {
    struct gate_verdict verdict;
    bool host = strcmp(conn->name, GATE_HOST_NAME) == 0;
    if (conn->state == CONN_PEEK || conn->state == CONN_LAST || (conn->state == CONN_HTTP && !conn->name[0]))
        return false;
    conn_judge(conn,
               conn->name[0] && (!conn->dial_us || host) ? NULL
               : conn->dial_us                           ? &conn->dialed
                                                         : &conn->aimed,
               &verdict);
    if (conn->state == CONN_HELD) {
        if (verdict.allowed)
            conn_unhold(conn);
        else if (!verdict.ask)
            conn_deny(conn, verdict.why);
        return false;
    }
    if (verdict.allowed && (conn->protocol != GATE_TLS || verdict.inspect == conn->inspect))
        return false;
    conn_end(conn, GATE_ROW_CUT, true, verdict.allowed ? "inspect" : verdict.why);
    return true;
}

/* ---- dialing ---- */

static void conn_try(struct conn *conn);

static void conn_dial_due(struct timer *timer) {
    conn_fail(container_of(timer, struct conn, timer), "timeout");
}

static void conn_next_due(struct timer *timer) {
    conn_try(container_of(timer, struct conn, next_try));
}

static bool conn_hand(struct conn *conn) {
    struct box *box = conn->box;
    struct seal_connection head = {.version = SEAL_WIRE_VERSION,
                                   .port = conn->port,
                                   .host_len = (uint16_t)strlen(conn->name),
                                   .peeked_len = (uint16_t)conn->in.len,
                                   .cgroup = conn->cgroup,
                                   .connection = conn->number};
    struct iovec parts[] = {{&head, sizeof head}, {conn->name, head.host_len}, {conn->in.data, conn->in.len}};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.bytes = {0}};
    struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = 3, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    const int fds[] = {conn->client.fd, conn->upstream.fd};
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(rights), fds, sizeof fds);
    return sendmsg(box->seal.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

static void conn_seal_due(struct timer *timer) {
    conn_fail(container_of(timer, struct conn, timer), "seal");
}

static void conn_seal(struct conn *conn) {
    struct box *box = conn->box;
    watch_set(&conn->client, 0);
    watch_set(&conn->upstream, 0);
    if (box->seal.fd < 0) {
        conn->state = CONN_SEAL;
        timer_set(&conn->timer, loop_now_ms() + CONN_SEAL_MS, conn_seal_due);
        control_want_seal(box, conn->name);
    } else if (conn_hand(conn)) {
        conn->state = CONN_HANDED;
        timer_stop(&conn->timer);
        buf_done(&conn->in);
    } else {
        conn_fail(conn, "seal");
    }
}

static void conn_seal_ready(struct watch *watch, uint32_t events) {
    struct box *box = container_of(watch, struct box, seal);
    (void)events;
    conn_seal_lost(box);
    watch_close(&box->seal);
}

void conn_seal_lost(struct box *box) {
    struct conn *next;
    for (struct conn *conn = box->conns; conn; conn = next) {
        next = conn->next;
        if (conn->state == CONN_HANDED)
            conn_end(conn, GATE_ROW_CUT, true, "seal");
    }
}

void conn_seal_came(struct box *box) {
    struct conn *next;
    if (box->seal.fd >= 0)
        watch_add(&box->seal, box->seal.fd, EPOLLRDHUP, conn_seal_ready);
    for (struct conn *conn = box->conns; conn; conn = next) {
        next = conn->next;
        if (conn->state == CONN_SEAL && box->seal.fd >= 0)
            conn_seal(conn);
        else if (conn->state == CONN_SEAL)
            conn_fail(conn, "seal");
    }
}

static void conn_upstream_ready(struct watch *watch, uint32_t events) {
    conn_event(container_of(watch, struct conn, upstream), false, events);
}

/* What it does next with its upstream, which is watched for reading, begins in this turn. */
static void conn_connected(struct conn *conn, struct watch *dialed, const struct address *address) {
    const int on = 1, probe_s = 60, silent_ms = 120000, fd = dialed->fd;
    struct gate_verdict verdict;
    conn->dialed = *address;
    conn->box->count.dials++;
    conn->box->count.dial_us += clock_us() - conn->dial_us;
    conn_dials_end(conn);
    timer_stop(&conn->timer);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &probe_s, sizeof probe_s);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof silent_ms);
    watch_move(&conn->upstream, dialed, EPOLLIN, conn_upstream_ready);
    if (!conn_judge(conn, strcmp(conn->name, GATE_HOST_NAME) == 0 ? NULL : address, &verdict))
        return conn_deny(conn, verdict.why); /* the rules changed meanwhile */
    conn->inspect = verdict.inspect && conn->protocol == GATE_TLS && !verdict.by_network;
    conn->observed = verdict.observed;
    snprintf(conn->rule, sizeof conn->rule, "%s", verdict.why);
    if (conn->http)
        http1_dialed(conn);
    else if (conn->inspect)
        conn_seal(conn);
    else
        relay_begin(conn);
}

static void conn_dial_ready(struct watch *watch, uint32_t events) {
    struct dial *dial = container_of(watch, struct dial, watch);
    struct conn *conn = dial->conn;
    int number = 0;
    socklen_t size = sizeof number;
    if (events & (EPOLLERR | EPOLLHUP))
        getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &number, &size);
    if (number == EINPROGRESS || number == EAGAIN)
        return;
    list_remove(conn->dials, dial);
    loop_free(dial);
    if (number == 0) {
        struct address address = dial->address;
        return conn_connected(conn, watch, &address);
    }
    watch_close(watch);
    conn_try(conn);
}

/* The next address, if there is one; all have failed when none is under way any more. */
static void conn_try(struct conn *conn) {
    struct gate_verdict verdict;
    const char *why = "unreachable";
    bool denied = false;
    while (conn->try_at < conn->answer.count) {
        struct address address = conn->answer.addresses[conn->try_at++];
        struct sockaddr_storage to;
        bool host = strcmp(conn->name, GATE_HOST_NAME) == 0;
        if (!conn_judge(conn, host ? NULL : &address, &verdict)) {
            why = verdict.why;
            denied = true;
            continue;
        }
        socklen_t size = address_to(&address, conn->port, &to);
        int on = 1, fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd >= 0)
            setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        if (fd < 0 || (connect(fd, (struct sockaddr *)&to, size) < 0 && errno != EINPROGRESS)) {
            why = fd < 0 || errno == EADDRNOTAVAIL ? "busy" : "unreachable";
            fd_close(&fd);
            continue;
        }
        struct dial *dial = xcalloc(1, sizeof *dial);
        dial->conn = conn;
        dial->address = address;
        conn->dialed = address;
        conn->dial_us = conn->dial_us ? conn->dial_us : clock_us();
        list_push(conn->dials, dial);
        watch_add(&dial->watch, fd, EPOLLOUT, conn_dial_ready);
        timer_set(&conn->timer, loop_now_ms() + LIMIT_GATE_DIAL_ONE_MS, conn_dial_due);
        if (conn->try_at < conn->answer.count)
            timer_set(&conn->next_try, loop_now_ms() + LIMIT_GATE_DIAL_NEXT_MS, conn_next_due);
        return;
    }
    if (!conn->dials)
        denied ? conn_deny(conn, why) : conn_fail(conn, why);
}

static void conn_resolved(void *user, const struct answer *answer) {
    struct conn *conn = user;
    conn->answer = *answer;
    conn->try_at = 0;
    for (size_t i = 1; i < answer->count; i++) { /* the one that the box aimed at first */
        if (memcmp(&conn->answer.addresses[i], &conn->aimed, sizeof conn->aimed) != 0)
            continue;
        conn->answer.addresses[i] = conn->answer.addresses[0];
        conn->answer.addresses[0] = conn->aimed;
    }
    if (answer->count) {
        conn->state = CONN_DIAL;
        return conn_try(conn);
    }
    if (answer->refused)
        return conn_deny(conn, "rebind");
    if (answer->budget)
        return conn_deny(conn, "limit:names");
    conn_fail(conn, answer->missing ? "no such name" : answer->failed ? "resolver" : "no address");
}

void conn_dial(struct conn *conn) {
    struct gate_verdict verdict;
    struct answer direct = {.count = 1};
    if (!conn_judge(conn, conn->name[0] ? NULL : &conn->aimed, &verdict))
        return verdict.ask ? conn_hold(conn) : conn_deny(conn, verdict.why);
    conn->state = CONN_RESOLVE;
    conn->observed = verdict.observed;
    conn->dial_us = 0;
    snprintf(conn->rule, sizeof conn->rule, "%s", verdict.why);
    watch_set(&conn->client, 0);
    timer_set(&conn->timer, loop_now_ms() + LIMIT_GATE_DIAL_MS, conn_dial_due);
    if (conn->name[0] && strcmp(conn->name, GATE_HOST_NAME) != 0)
        return resolve_name(conn->box, conn->name, verdict.star, conn_resolved, conn);
    direct.addresses[0] = conn->aimed;
    if (conn->name[0])
        address_text("127.0.0.1", &direct.addresses[0]);
    conn_resolved(conn, &direct);
}

/* ---- naming ---- */

/* By name if that is allowed, else the address itself if the policy names its network and denies neither. */
static void conn_named(struct conn *conn, const char *name) {
    struct gate_verdict verdict, by_address;
    struct gate_subject both = {.name = name, .address = &conn->aimed, .port = conn->port};
    snprintf(conn->name, sizeof conn->name, "%s", name ? name : "");
    conn_judge(conn, name ? NULL : &conn->aimed, &verdict);
    if (name && !verdict.allowed && strcmp(verdict.why, "default") == 0) {
        box_judge(conn->box, &both, &by_address);
        if (by_address.allowed && by_address.by_network)
            conn->name[0] = 0;
    }
    conn_dial(conn);
}

/* Nothing to read a name from: one that this address was handed out for, the newest that is allowed. */
static void conn_opaque(struct conn *conn) {
    const char *names[PIN_NAMES + 1];
    struct gate_verdict verdict;
    size_t count = pin_names(conn->box, &conn->aimed, names), chosen = 0;
    for (size_t i = 0; i < count; i++) {
        snprintf(conn->name, sizeof conn->name, "%s", names[i]);
        if (conn_judge(conn, NULL, &verdict)) {
            chosen = i;
            break;
        }
        chosen = verdict.ask ? i : chosen;
    }
    conn_named(conn, count ? names[chosen] : NULL);
}

static void conn_hello(struct conn *conn) {
    char name[GATE_NAME_BYTES + 1];
    switch (hello_parse(conn->in.data, conn->in.len, name)) {
    case HELLO_MORE:
        if (conn->in.len >= SEAL_PEEKED_BYTES)
            conn_deny(conn, "hello");
        return;
    case HELLO_NAME:
        return conn_named(conn, name);
    case HELLO_NONE:
        return conn_named(conn, NULL);
    case HELLO_NOT_TLS:
        return conn_deny(conn, "not TLS");
    default:
        return conn_deny(conn, "hello");
    }
}

static void conn_peek(struct conn *conn) {
    uint8_t data[4096];
    ssize_t n = recv(conn->client.fd, data, sizeof data, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        return conn_end(conn, GATE_ROW_CONNECT, false, "closed");
    buf_put(&conn->in, data, (size_t)n);
    conn->in.failed ? conn_deny(conn, "hello") : conn_hello(conn);
}

/* ---- events ---- */

static void conn_event(struct conn *conn, bool client, uint32_t events) {
    uint8_t dropped[16384];
    switch (conn->state) {
    case CONN_PEEK:
        return conn_peek(conn);
    case CONN_RELAY:
        return relay_event(conn, client, events);
    case CONN_HTTP:
        return http1_event(conn, client, events);
    case CONN_LAST:
        if (recv(conn->client.fd, dropped, sizeof dropped, MSG_DONTWAIT) <= 0)
            conn_free(conn);
        return;
    case CONN_HANDED: {
        struct tcp_info info;
        socklen_t size = sizeof info;
        memset(&info, 0, sizeof info);
        if (getsockopt(conn->client.fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
            conn->bytes_in = info.tcpi_bytes_acked;
            conn->bytes_out = info.tcpi_bytes_received;
        }
        conn_row(conn, GATE_ROW_CONNECT, false, conn->rule);
        shutdown(conn->client.fd, SHUT_RDWR);
        shutdown(conn->upstream.fd, SHUT_RDWR);
        return conn_free(conn);
    }
    default: /* the client has left while it waited */
        if (client ? events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP) : true)
            conn_end(conn, GATE_ROW_CONNECT, false, "closed");
    }
}

static void conn_client_ready(struct watch *watch, uint32_t events) {
    conn_event(container_of(watch, struct conn, client), true, events);
}

static void conn_peek_due(struct timer *timer) {
    conn_deny(container_of(timer, struct conn, timer), "silent");
}

/* ---- accepting ---- */

static const char *conn_over_limit(struct box *box) {
    const struct gate_limits *limits = &box->rules->limits;
    if (box->count.active > limits->connections)
        return "limit:connections";
    double rate = (double)limits->per_second;
    return bucket_take(&box->starts, 1, rate, rate * CONN_BURST) ? NULL : "limit:per_second";
}

static void conn_accepted(struct box *box, int fd, const struct sockaddr_storage *from) {
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    struct address aimed, peer;
    uint16_t port = 0, peer_port = 0;
    const char *names[PIN_NAMES + 1];
    if (getsockname(fd, (struct sockaddr *)&at, &size) < 0 || !address_from((struct sockaddr *)&at, &aimed, &port) ||
        !address_from((const struct sockaddr *)from, &peer, &peer_port) || address_class(&aimed) == ADDRESS_NEVER) {
        conn_reset(fd);
        close(fd);
        return;
    }
    if (port == 53)
        return dns_serve_connection(box, fd);
    struct conn *conn = xcalloc(1, sizeof *conn);
    conn->box = box;
    conn->aimed = aimed;
    conn->peer = peer;
    conn->port = port;
    conn->peer_port = peer_port;
    conn->number = ++conn_numbers;
    conn->start_us = clock_us();
    conn->upstream.fd = -1;
    conn->up.pipe[0] = conn->down.pipe[0] = -1;
    conn->next = box->conns;
    if (box->conns)
        box->conns->prev = conn;
    box->conns = conn;
    box->count.active++;
    box->count.connections++;
    pin_names(box, &aimed, names);
    conn->protocol = gate_policy_protocol((const struct gate_policy *const *)box->rules->levels, box->rules->count,
                                          port, names, &aimed);
    watch_add(&conn->client, fd, conn->protocol == GATE_OPAQUE ? 0 : EPOLLIN, conn_client_ready);
    const char *over = conn_over_limit(box);
    if (over)
        return conn_end(conn, GATE_ROW_CONNECT, true, over);
    conn->cgroup = diag_cgroup(box, false, &peer, peer_port, &aimed, port);
    buf_init(&conn->in, conn->protocol == GATE_HTTP ? 65536 : SEAL_PEEKED_BYTES + 4096);
    if (conn->protocol == GATE_OPAQUE)
        return conn_opaque(conn);
    timer_set(&conn->timer, loop_now_ms() + LIMIT_GATE_PEEK_MS, conn_peek_due);
    if (conn->protocol == GATE_HTTP)
        http1_begin(conn);
}

static void conn_tcp_ready(struct watch *watch, uint32_t events) {
    struct box *box = container_of(watch, struct box, tcp);
    (void)events;
    for (int i = 0; i < CONN_ACCEPTS && watch->fd >= 0; i++) {
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        int fd = accept4(watch->fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            fd_close(&conn_spare);
            fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC);
            conn_reset(fd);
            fd_close(&fd);
            conn_spare = fcntl(GATE_CONTROL_FD, F_DUPFD_CLOEXEC, 3);
            continue;
        }
        if (fd < 0)
            return;
        conn_accepted(box, fd, &from);
    }
}

void conn_begin(struct box *box) {
    const int on = 1;
    if (conn_spare < 0)
        conn_spare = fcntl(GATE_CONTROL_FD, F_DUPFD_CLOEXEC, 3);
    setsockopt(box->tcp.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* what it accepts inherits it */
    watch_add(&box->tcp, box->tcp.fd, EPOLLIN, conn_tcp_ready);
}

void conn_box_end(struct box *box) {
    while (box->conns)
        conn_end(box->conns, GATE_ROW_CUT, true, "removed");
}
