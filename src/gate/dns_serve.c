/* The resolver of a box (program.h): UDP and TCP, whatever address it asks. Only names that the policy allows reach a
 * resolver outside, and only questions for addresses; everything else is answered here. */
#include <netinet/in.h>
#include <sys/socket.h>

#include "gate/dns.h"
#include "gate/program.h"

enum { DNS_READ_ONCE = 64, DNS_CONNECTIONS = 32, DNS_UDP_MOST = 1232 };

struct dns_pending {
    struct box *box;
    struct dns_conn *conn; /* NULL: UDP */
    struct dns_question question;
    struct sockaddr_in from;
    struct in_addr asked; /* the address that was asked: the answer comes from it */
};

struct dns_conn {
    struct dns_conn *next;
    struct watch watch;
    struct timer timer;
    struct box *box;
    struct buf in, out;
    bool waiting;
    struct dns_pending pending;
};

static void dns_conn_pump(struct dns_conn *conn);

/* ---- answers ---- */

/* The end of a question: it is answered and, over UDP, forgotten. */
static void dns_finish(struct dns_pending *pending, enum dns_code code, const struct address *addresses, size_t count,
                       unsigned ttl, bool blocked) {
    struct dns_conn *conn = pending->conn;
    autobuf message = buf_max(DNS_MESSAGE_BYTES);
    size_t most = conn ? DNS_MESSAGE_BYTES : pending->question.edns ? DNS_UDP_MOST : 512;
    dns_answer(&pending->question, code, addresses, count, ttl, blocked, most, &message);
    if (!conn) {
        datagram_answer(pending->box->dns_udp.fd, &pending->from, pending->asked, message.data, message.len);
        loop_free(pending);
        return;
    }
    buf_byte(&conn->out, (uint8_t)(message.len >> 8));
    buf_byte(&conn->out, (uint8_t)message.len);
    buf_put(&conn->out, message.data, message.len);
    conn->waiting = false;
}

/* Which command asks: looked up for those questions alone that become a row. */
static uint64_t dns_cgroup(const struct dns_pending *pending) {
    struct sockaddr_in from = pending->from, to = {.sin_family = AF_INET, .sin_addr = pending->asked};
    struct address source, target;
    socklen_t size = sizeof from;
    uint16_t from_port, to_port;
    to.sin_port = htons(53);
    if (pending->conn && (getpeername(pending->conn->watch.fd, (struct sockaddr *)&from, &size) < 0 ||
                          getsockname(pending->conn->watch.fd, (struct sockaddr *)&to, &size) < 0))
        return 0;
    if (!address_from((struct sockaddr *)&from, &source, &from_port) ||
        !address_from((struct sockaddr *)&to, &target, &to_port))
        return 0;
    return diag_cgroup(pending->box, !pending->conn, &source, from_port, &target, to_port);
}

static void dns_deny(struct dns_pending *pending, const char *why, bool denied, bool observed) {
    struct box *box = pending->box;
    char type[8];
    struct gate_row row = report_row(GATE_ROW_DNS, box);
    row.denied = denied;
    row.observed = observed;
    row.cgroup = dns_cgroup(pending);
    row.port = 53;
    row.udp = !pending->conn;
    snprintf(row.name, sizeof row.name, "%s", pending->question.name);
    snprintf(row.why, sizeof row.why, "%s", why);
    snprintf(row.method, sizeof row.method, "%s", dns_type_name(pending->question.type, type));
    report(box, &row);
}

static void dns_resolved(void *user, const struct answer *answer) {
    struct dns_pending *pending = user;
    struct box *box = pending->box;
    struct dns_conn *conn = pending->conn;
    struct address four[RESOLVE_ADDRESSES];
    size_t count = 0;
    for (size_t i = 0; i < answer->count; i++)
        if (address_v4(&answer->addresses[i]))
            four[count++] = answer->addresses[i];
    if (!count && answer->count) /* only IPv6: the gate dials that behind an address of its own */
        four[count++] = pin_stand_in(box, pending->question.name);
    for (size_t i = 0; i < count; i++)
        pin_add(box, &four[i], pending->question.name);
    if (answer->budget)
        dns_deny(pending, "limit:names", true, false);
    enum dns_code code = answer->budget || answer->failed ? DNS_SERVFAIL : answer->missing ? DNS_NXDOMAIN : DNS_NOERROR;
    dns_finish(pending, code, four, count, answer->ttl, false);
    if (conn)
        dns_conn_pump(conn);
}

/* A whole question. The answer may come at once. */
static void dns_question(struct dns_pending *pending, int code) {
    struct box *box = pending->box;
    struct dns_question *question = &pending->question;
    struct gate_subject subject = {.name = question->name};
    struct gate_verdict verdict;
    box->count.dns++;
    if (code != DNS_NOERROR)
        return dns_finish(pending, (enum dns_code)code, NULL, 0, 0, false);
    if (question->class != DNS_IN)
        return dns_finish(pending, DNS_NOTIMP, NULL, 0, 0, false);
    if (question->is_name)
        box_judge(box, &subject, &verdict);
    else
        verdict = (struct gate_verdict){.why = "default"};
    if (verdict.ask && question->type == DNS_A) { /* the question is put when it connects; until then nothing leaves */
        struct address stand_in = pin_stand_in(box, question->name);
        return dns_finish(pending, DNS_NOERROR, &stand_in, 1, 1, false);
    }
    if (!verdict.allowed && !verdict.ask) {
        box->count.dns_denied++;
        dns_deny(pending, verdict.why, true, false);
        return dns_finish(pending, DNS_NXDOMAIN, NULL, 0, 0, true);
    }
    if (question->type != DNS_A || verdict.ask)
        return dns_finish(pending, DNS_NOERROR, NULL, 0, 0, false);
    if (strcmp(question->name, GATE_HOST_NAME) == 0) {
        struct address stand_in = pin_stand_in(box, question->name);
        return dns_finish(pending, DNS_NOERROR, &stand_in, 1, 60, false);
    }
    if (verdict.observed)
        dns_deny(pending, verdict.why, false, true);
    resolve_name(box, question->name, verdict.star, dns_resolved, pending);
}

/* ---- UDP ---- */

static bool dns_receive(struct box *box) {
    uint8_t data[DNS_MESSAGE_BYTES];
    struct sockaddr_in from;
    struct in_addr asked = {htonl(INADDR_LOOPBACK)};
    ssize_t n = datagram_receive(box->dns_udp.fd, data, sizeof data, &from, &asked);
    if (n < 0)
        return false;
    struct dns_pending *pending = xcalloc(1, sizeof *pending);
    int code = dns_parse(data, (size_t)n, &pending->question);
    if (code < 0 || from.sin_family != AF_INET) {
        free(pending);
        return true;
    }
    pending->box = box;
    pending->from = from;
    pending->asked = asked;
    dns_question(pending, code);
    return true;
}

static void dns_udp_ready(struct watch *watch, uint32_t events) {
    struct box *box = container_of(watch, struct box, dns_udp);
    (void)events;
    for (int i = 0; i < DNS_READ_ONCE && dns_receive(box); i++)
        ;
}

/* ---- TCP ---- */

static void dns_conn_end(struct dns_conn *conn) {
    struct box *box = conn->box;
    list_remove(box->dns_conns, conn);
    box->dns_conn_count--;
    resolve_cancel(box, &conn->pending);
    timer_stop(&conn->timer);
    watch_close(&conn->watch);
    buf_done(&conn->in);
    buf_done(&conn->out);
    loop_free(conn);
}

static void dns_conn_due(struct timer *timer) {
    dns_conn_end(container_of(timer, struct dns_conn, timer));
}

/* Whole messages, one after the other; then what is to be sent. */
static void dns_conn_pump(struct dns_conn *conn) {
    while (!conn->waiting && conn->in.len >= 2) {
        size_t len = (size_t)conn->in.data[0] << 8 | conn->in.data[1];
        if (len < DNS_HEADER_BYTES || len > DNS_MESSAGE_BYTES)
            return dns_conn_end(conn);
        if (conn->in.len < len + 2)
            break;
        conn->waiting = true;
        conn->pending = (struct dns_pending){.box = conn->box, .conn = conn};
        int code = dns_parse(conn->in.data + 2, len, &conn->pending.question);
        buf_consume(&conn->in, len + 2);
        if (code < 0)
            return dns_conn_end(conn);
        timer_set(&conn->timer, loop_now_ms() + LIMIT_GATE_PEEK_MS, dns_conn_due);
        dns_question(&conn->pending, code);
    }
    while (conn->out.len) {
        ssize_t n = send(conn->watch.fd, conn->out.data, conn->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0)
            break;
        buf_consume(&conn->out, (size_t)n);
    }
    if (conn->out.failed)
        return dns_conn_end(conn);
    watch_set(&conn->watch, (conn->waiting ? 0u : EPOLLIN) | (conn->out.len ? EPOLLOUT : 0u));
}

static void dns_conn_ready(struct watch *watch, uint32_t events) {
    struct dns_conn *conn = container_of(watch, struct dns_conn, watch);
    uint8_t data[DNS_MESSAGE_BYTES + 2];
    if (events & (EPOLLERR | EPOLLHUP))
        return dns_conn_end(conn);
    if (events & EPOLLIN) {
        ssize_t n = recv(watch->fd, data, sizeof data, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return dns_conn_end(conn);
        if (n > 0)
            buf_put(&conn->in, data, (size_t)n);
        if (conn->in.failed)
            return dns_conn_end(conn);
    }
    dns_conn_pump(conn);
}

void dns_serve_connection(struct box *box, int fd) {
    if (box->dns_conn_count >= DNS_CONNECTIONS) {
        close(fd);
        return;
    }
    struct dns_conn *conn = xcalloc(1, sizeof *conn);
    conn->box = box;
    buf_init(&conn->in, 2 * DNS_MESSAGE_BYTES + 4);
    buf_init(&conn->out, 4 * DNS_MESSAGE_BYTES);
    list_push(box->dns_conns, conn);
    box->dns_conn_count++;
    watch_add(&conn->watch, fd, EPOLLIN, dns_conn_ready);
    timer_set(&conn->timer, loop_now_ms() + LIMIT_GATE_PEEK_MS, dns_conn_due);
}

static void dns_tcp_ready(struct watch *watch, uint32_t events) {
    struct box *box = container_of(watch, struct box, dns_tcp);
    (void)events;
    for (int i = 0; i < DNS_READ_ONCE; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        dns_serve_connection(box, fd);
    }
}

void dns_serve_begin(struct box *box) {
    int on = 1;
    setsockopt(box->dns_udp.fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    watch_add(&box->dns_udp, box->dns_udp.fd, EPOLLIN, dns_udp_ready);
    if (box->dns_tcp.fd >= 0)
        watch_add(&box->dns_tcp, box->dns_tcp.fd, EPOLLIN, dns_tcp_ready);
}

void dns_serve_end(struct box *box) {
    while (box->dns_conns)
        dns_conn_end(box->dns_conns);
}
