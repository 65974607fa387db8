/* UDP where the policy names a port (program.h): each pair of a box's socket and a destination is an association with a
 * connected socket outside; answers come back from the address that was asked. */
#include <netinet/in.h>
#include <sys/socket.h>

#include "gate/program.h"

enum { UDP_READ_ONCE = 64, UDP_BYTES = 65536, UDP_EARLY = 8 };

struct association {
    struct association *next;
    struct box *box;
    struct box_udp *socket;
    struct watch watch;
    struct timer timer;
    struct sockaddr_in from;
    struct address asked, dialed;
    char name[GATE_NAME_BYTES + 1], rule[GATE_WHY_BYTES];
    uint64_t cgroup, start_us, bytes_in, bytes_out;
    bool resolving, observed;
    struct buf early; /* the first datagram, until there is an address */
};

static uint8_t udp_data[UDP_BYTES];

static void udp_row(struct box *box, const struct association *association, bool denied, const char *why) {
    struct gate_row row = report_row(GATE_ROW_CONNECT, box);
    row.denied = denied;
    row.observed = association->observed;
    row.udp = true;
    row.port = association->socket->port;
    row.cgroup = association->cgroup;
    row.bytes_in = association->bytes_in;
    row.bytes_out = association->bytes_out;
    row.duration_us = clock_us() - association->start_us;
    snprintf(row.name, sizeof row.name, "%s", association->name);
    snprintf(row.why, sizeof row.why, "%s", why);
    address_shown(&association->asked, row.address);
    box->count.denied += denied;
    if (denied || box->rules->log == GATE_LOG_ALL)
        report(box, &row);
}

static void udp_end(struct association *association, bool denied, const char *why) {
    struct box *box = association->box;
    udp_row(box, association, denied, why);
    list_remove(box->associations, association);
    box->association_count--;
    resolve_cancel(box, association);
    timer_stop(&association->timer);
    watch_close(&association->watch);
    buf_done(&association->early);
    loop_free(association);
}

static void udp_due(struct timer *timer) {
    struct association *association = container_of(timer, struct association, timer);
    udp_end(association, false, association->rule);
}

static bool udp_judge(struct association *association, const struct address *address, struct gate_verdict *verdict) {
    struct gate_subject subject = {.name = association->name[0] ? association->name : NULL,
                                   .address = address,
                                   .port = association->socket->port,
                                   .udp = true};
    box_judge(association->box, &subject, verdict);
    return verdict->allowed;
}

/* ---- datagrams of a box, whatever address they were sent to ---- */

ssize_t datagram_receive(int fd, void *data, size_t size, struct sockaddr_in *ret_from, struct in_addr *ret_asked) {
    char control[256];
    struct iovec part = {data, size};
    struct msghdr header = {.msg_name = ret_from,
                            .msg_namelen = sizeof *ret_from,
                            .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &header, MSG_DONTWAIT);
    if (n < 0)
        return n;
    if (header.msg_namelen != sizeof *ret_from)
        ret_from->sin_family = AF_UNSPEC;
    for (struct cmsghdr *info = CMSG_FIRSTHDR(&header); info; info = CMSG_NXTHDR(&header, info)) {
        struct in_pktinfo packet;
        if (info->cmsg_level != IPPROTO_IP || info->cmsg_type != IP_PKTINFO)
            continue;
        memcpy(&packet, CMSG_DATA(info), sizeof packet);
        *ret_asked = packet.ipi_addr;
    }
    return n;
}

void datagram_answer(int fd, const struct sockaddr_in *to, struct in_addr asked, const void *data, size_t len) {
    char control[CMSG_SPACE(sizeof(struct in_pktinfo))] = {0};
    struct iovec part = {(void *)(uintptr_t)data, len};
    struct msghdr header = {.msg_name = (void *)(uintptr_t)to,
                            .msg_namelen = sizeof *to,
                            .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof control};
    struct cmsghdr *info = CMSG_FIRSTHDR(&header);
    struct in_pktinfo packet = {.ipi_spec_dst = asked};
    info->cmsg_level = IPPROTO_IP;
    info->cmsg_type = IP_PKTINFO;
    info->cmsg_len = CMSG_LEN(sizeof packet);
    memcpy(CMSG_DATA(info), &packet, sizeof packet);
    sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- back ---- */

static void udp_answer(struct association *association, size_t len) {
    struct in_addr asked;
    memcpy(&asked, association->asked.bytes + 12, sizeof asked);
    datagram_answer(association->socket->watch.fd, &association->from, asked, udp_data, len);
    association->bytes_in += len;
    association->box->count.bytes_in += len;
}

static void udp_upstream_ready(struct watch *watch, uint32_t events) {
    struct association *association = container_of(watch, struct association, watch);
    (void)events;
    for (int i = 0; i < UDP_READ_ONCE; i++) {
        ssize_t n = recv(watch->fd, udp_data, sizeof udp_data, MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return udp_end(association, false, "unreachable");
        if (n < 0)
            break;
        udp_answer(association, (size_t)n);
    }
    timer_set(&association->timer, loop_now_ms() + LIMIT_GATE_UDP_IDLE_MS, udp_due);
}

/* ---- out ---- */

static void udp_send(struct association *association, const void *data, size_t len) {
    if (!relay_allowance(association->box, len ? len : 1))
        return; /* over its rate: lost, as datagrams are */
    relay_moved(association->box, len);
    if (send(association->watch.fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return;
    association->bytes_out += len;
    association->box->count.bytes_out += len;
    timer_set(&association->timer, loop_now_ms() + LIMIT_GATE_UDP_IDLE_MS, udp_due);
}

static void udp_resolved(void *user, const struct answer *answer) {
    struct association *association = user;
    struct gate_verdict verdict = {.why = "unreachable"};
    struct sockaddr_storage to;
    association->resolving = false;
    for (size_t i = 0; i < answer->count; i++) {
        if (!udp_judge(association, &answer->addresses[i], &verdict))
            continue;
        socklen_t size = address_to(&answer->addresses[i], association->socket->port, &to);
        int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&to, size) < 0) {
            fd_close(&fd);
            continue;
        }
        association->dialed = answer->addresses[i];
        watch_add(&association->watch, fd, EPOLLIN, udp_upstream_ready);
        if (association->early.len)
            udp_send(association, association->early.data, association->early.len);
        buf_done(&association->early);
        return;
    }
    udp_end(association, answer->count > 0 || answer->refused, answer->refused ? "rebind" : verdict.why);
}

static void udp_new(struct box_udp *socket, const struct sockaddr_in *from, const struct address *asked, size_t len) {
    struct box *box = socket->box;
    const char *names[PIN_NAMES + 1];
    struct gate_verdict verdict;
    struct address source;
    uint16_t port;
    struct association *association = xcalloc(1, sizeof *association);
    association->box = box;
    association->socket = socket;
    association->from = *from;
    association->asked = *asked;
    association->start_us = clock_us();
    association->watch.fd = -1;
    list_push(box->associations, association);
    box->association_count++;
    box->count.udp++;
    address_from((const struct sockaddr *)from, &source, &port);
    association->cgroup = diag_cgroup(box, true, &source, port, asked, socket->port);
    size_t count = pin_names(box, asked, names);
    bool allowed = false;
    for (size_t i = 0; i < count && !allowed; i++) {
        snprintf(association->name, sizeof association->name, "%s", names[i]);
        allowed = udp_judge(association, NULL, &verdict);
    }
    if (!allowed) {
        association->name[0] = 0;
        allowed = udp_judge(association, asked, &verdict);
    }
    if (box->association_count > LIMIT_GATE_UDP)
        return udp_end(association, true, "limit:udp");
    if (!allowed)
        return udp_end(association, true, verdict.why);
    association->observed = verdict.observed;
    snprintf(association->rule, sizeof association->rule, "%s", verdict.why);
    timer_set(&association->timer, loop_now_ms() + LIMIT_GATE_UDP_IDLE_MS, udp_due);
    buf_init(&association->early, UDP_BYTES);
    buf_put(&association->early, udp_data, len);
    association->resolving = true;
    if (association->name[0])
        return resolve_name(box, association->name, verdict.star, udp_resolved, association);
    struct answer direct = {.count = 1};
    direct.addresses[0] = *asked;
    udp_resolved(association, &direct);
}

static bool udp_receive(struct box_udp *socket) {
    struct sockaddr_in from, to = {.sin_family = AF_INET};
    struct address asked;
    uint16_t none;
    ssize_t n = datagram_receive(socket->watch.fd, udp_data, sizeof udp_data, &from, &to.sin_addr);
    if (n < 0)
        return false;
    address_from((struct sockaddr *)&to, &asked, &none);
    if (from.sin_family != AF_INET)
        return true;
    struct association *known = list_find(socket->box->associations, item,
                                          item->socket == socket && item->from.sin_port == from.sin_port &&
                                              item->from.sin_addr.s_addr == from.sin_addr.s_addr &&
                                              memcmp(&item->asked, &asked, sizeof asked) == 0);
    if (!known)
        udp_new(socket, &from, &asked, (size_t)n);
    else if (!known->resolving)
        udp_send(known, udp_data, (size_t)n);
    return true;
}

static void udp_ready(struct watch *watch, uint32_t events) {
    struct box_udp *socket = container_of(watch, struct box_udp, watch);
    (void)events;
    for (int i = 0; i < UDP_READ_ONCE && udp_receive(socket); i++)
        ;
}

void udp_begin(struct box *box) {
    const int on = 1;
    for (size_t i = 0; i < box->udp_count; i++) {
        struct sockaddr_storage at;
        struct address none;
        socklen_t size = sizeof at;
        struct box_udp *socket = &box->udp[i];
        socket->box = box;
        if (getsockname(socket->watch.fd, (struct sockaddr *)&at, &size) == 0)
            address_from((struct sockaddr *)&at, &none, &socket->port);
        setsockopt(socket->watch.fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
        watch_add(&socket->watch, socket->watch.fd, EPOLLIN, udp_ready);
    }
}

void udp_again(struct box *box) {
    struct association *next;
    struct gate_verdict verdict;
    for (struct association *association = box->associations; association; association = next) {
        next = association->next;
        const struct address *address = association->watch.fd >= 0 ? &association->dialed : NULL;
        if (!udp_judge(association, association->name[0] ? address : &association->asked, &verdict))
            udp_end(association, true, verdict.why);
    }
}

void udp_box_end(struct box *box) {
    while (box->associations)
        udp_end(box->associations, true, "removed");
    for (size_t i = 0; i < box->udp_count; i++)
        watch_close(&box->udp[i].watch);
    if (box->udp)
        loop_free(box->udp);
    box->udp = NULL;
    box->udp_count = 0;
}
