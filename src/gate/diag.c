/* Which command a connection is of (program.h): the kernel is asked, on a socket of the box's own namespace, for the
 * box's end of it; its cgroup is the command's. A program cannot fake that, and no process is looked at. */
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "gate/program.h"

static void diag_address(__be32 out[4], const struct address *address) {
    bool v4 = address_v4(address);
    memset(out, 0, 16);
    memcpy(out, address->bytes + (v4 ? 12 : 0), v4 ? 4 : 16);
}

static uint64_t diag_ask(int fd, uint8_t family, bool udp, const struct inet_diag_sockid *id) {
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } question = {
        .head = {.nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = family, .sdiag_protocol = udp ? IPPROTO_UDP : IPPROTO_TCP, .idiag_states = ~0u},
    };
    union {
        struct nlmsghdr head;
        char bytes[4096];
    } answer;
    question.body.id = *id;
    if (send(fd, &question, sizeof question, MSG_DONTWAIT) != (ssize_t)sizeof question)
        return 0;
    ssize_t n = recv(fd, &answer, sizeof answer, MSG_DONTWAIT);
    const struct inet_diag_msg *found = NLMSG_DATA(&answer.head);
    if (n < (ssize_t)NLMSG_LENGTH(sizeof *found) || answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        answer.head.nlmsg_len > (size_t)n)
        return 0;
    const struct rtattr *part = (const struct rtattr *)(found + 1);
    for (size_t left = answer.head.nlmsg_len - NLMSG_LENGTH(sizeof *found); RTA_OK(part, left);
         part = RTA_NEXT(part, left)) {
        uint64_t cgroup;
        if (part->rta_type != INET_DIAG_CGROUP_ID || RTA_PAYLOAD(part) < sizeof cgroup)
            continue;
        memcpy(&cgroup, RTA_DATA(part), sizeof cgroup);
        return cgroup;
    }
    return 0;
}

uint64_t diag_cgroup(const struct box *box, bool udp, const struct address *from, uint16_t from_port,
                     const struct address *to, uint16_t to_port) {
    struct inet_diag_sockid id = {.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}};
    uint8_t family = address_v4(from) ? AF_INET : AF_INET6;
    if (box->diag < 0)
        return 0;
    /* Of UDP the kernel looks a socket up as for a packet that arrives: source and destination the other way round. */
    id.idiag_sport = htons(udp ? to_port : from_port);
    id.idiag_dport = htons(udp ? from_port : to_port);
    diag_address(id.idiag_src, udp ? to : from);
    diag_address(id.idiag_dst, udp ? from : to);
    return diag_ask(box->diag, family, udp, &id);
}
