/* The wiring of netcapture.h. Called by box/network. Invariant: a box without the table has no route, and a box whose
 * sockets nobody holds is refused by its own kernel: there is no order of failures in which something leaves. */
#include "backend/netcapture.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/wait.h>

#include "base/base.h"
#include "backend/box_entry.h"
#include "backend/netlink.h"
#include "http/address.h"

static const struct nf_table netcapture_of = {NFPROTO_IPV4, "cubby"};
#define CHAIN "capture"
#define PRIORITY -150 /* before any table of the box's own could be */
#define LOOPBACK 1    /* the index of `lo` in every namespace */
enum { PORT_RULES = 64 };

void netplace_close(struct netplace *place) {
    fd_close(&place->net);
    fd_close(&place->user);
    for (size_t i = 0; place->wired && i < CAPTURE_UDP; i++)
        fd_close(&place->sockets[i]);
    place->wired = false;
}

/* ---- inside ---- */

/* An ordinary user may enter a network namespace only through its user namespace, and a process with threads cannot. */
static int netcapture_by_runner(const struct netplace *place, bool again, const uint16_t *udp, size_t count,
                                int ret_fds[CAPTURE_MAX], struct err *err) {
    static const char *const argv[] = {"cubby-runner", "capture", NULL};
    int pair[2], fds[CAPTURE_MAX];
    for (size_t i = 0; i < CAPTURE_MAX; i++)
        fds[i] = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "socketpair");
    autofd ours = pair[0], theirs = pair[1], null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    uint16_t message[1 + CAPTURE_UDP_MAX] = {again};
    memcpy(message + 1, udp, count * sizeof *udp);
    pid_t pid = 0;
    int r = box_entry_spawn(place->program, null_fd, argv, (int[]){theirs, place->user, place->net}, 3, &pid, err);
    fd_close(&theirs);
    if (r < 0)
        return r;
    if (send(ours, message, (1 + count) * sizeof *message, MSG_NOSIGNAL) < 0)
        r = err_errno(err, errno, "cubby-runner capture");
    char text[sizeof err->text + 1];
    bool done = false;
    while (r == 0 && !done) { /* {index} with a descriptor, or {0xff} at the end, or {0xff, code, sentence} */
        int fd = -1;
        ssize_t n = fd_recv(ours, text, sizeof text - 1, &fd, 0);
        uint8_t index = (uint8_t)text[0];
        done = n == 1 && index == 0xff;
        if (n == 1 && fd >= 0 && index < CAPTURE_MAX && fds[index] < 0) {
            fds[index] = fd;
            continue;
        }
        fd_close(&fd);
        text[n > 0 ? n : 0] = 0;
        if (!done)
            r = n > 2 && index == 0xff ? box_entry_said(text + 1, n - 1, "", err)
                                       : err_set(err, ERR_INTERNAL, "cubby-runner capture ended without an answer");
    }
    waitpid(pid, NULL, 0);
    if (r < 0)
        capture_close(fds);
    else
        memcpy(ret_fds, fds, sizeof fds);
    return r;
}

/* The calling thread is in the box's network until netcapture_leave. Returns its own, or a failure. */
static int netcapture_enter(const struct netplace *place, struct err *err) {
    autofd own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (own < 0 || setns(place->net, CLONE_NEWNET) < 0)
        return err_errno(err, errno, "the box's network namespace");
    return fd_take(&own);
}

static void netcapture_leave(int own) {
    if (setns(own, CLONE_NEWNET) < 0)
        abort(); /* this thread would serve others from inside a box */
    close(own);
}

int netplace_route(const struct netplace *place, const char *interface, unsigned *ret_index, struct err *err) {
    int own = netcapture_enter(place, err);
    if (own < 0)
        return own;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), failed = errno;
    *ret_index = if_nametoindex(interface);
    netcapture_leave(own);
    return fd >= 0 ? fd : err_errno(err, failed, "rtnetlink");
}

int netcapture_sockets(const struct netplace *place, bool again, const uint16_t *udp, size_t count,
                       int ret_fds[CAPTURE_MAX], struct err *err) {
    if (count > CAPTURE_UDP_MAX)
        return err_set(err, ERR_INVALID, "network: at most %d UDP ports", CAPTURE_UDP_MAX);
    if (place->user >= 0)
        return netcapture_by_runner(place, again, udp, count, ret_fds, err);
    int own = netcapture_enter(place, err);
    if (own < 0)
        return own;
    int r = capture_make(again, udp, count, ret_fds, err);
    netcapture_leave(own);
    return r;
}

/* ---- the table ---- */

static size_t netcapture_rule(struct netlink *link) {
    return nf_rule(link, &netcapture_of, CHAIN);
}

static void netcapture_accept_network(struct netlink *link, const char *network) {
    size_t rule = netcapture_rule(link);
    nf_match_network(link, network);
    nf_accept(link);
    nf_rule_end(link, rule);
}

/* SYNs come to the gate's listener, or are refused; every later packet finds its socket by itself. */
static void netcapture_tcp(struct netlink *link, const struct netcapture_ports *ports) {
    static const struct gate_range all = {0, UINT16_MAX}, dns = {53, 53};
    static const uint8_t mask = TH_SYN | TH_ACK, syn = TH_SYN;
    size_t rule = netcapture_rule(link);
    nf_match_protocol(link, IPPROTO_TCP);
    nf_match(link, NF_TRANSPORT_HEADER, 13, 1, &mask, false, &syn);
    nf_accept(link);
    nf_rule_end(link, rule);
    for (const char *const *network = address_networks(ADDRESS_NEVER, false); *network; network++) {
        rule = netcapture_rule(link);
        nf_match_protocol(link, IPPROTO_TCP);
        nf_match_network(link, *network);
        nf_reset(link);
        nf_rule_end(link, rule);
    }
    bool listed = ports->tcp && ports->tcp_count < PORT_RULES; /* else the gate itself refuses the others */
    for (size_t i = 0; i <= (listed ? ports->tcp_count : 0); i++) {
        const struct gate_range *range = !listed ? &all : i == ports->tcp_count ? &dns : &ports->tcp[i];
        rule = netcapture_rule(link);
        nf_match_protocol(link, IPPROTO_TCP);
        nf_match_port(link, range->first, range->last);
        nf_tproxy(link, CAPTURE_LISTENER, 1);
        nf_rule_end(link, rule);
    }
    rule = netcapture_rule(link);
    nf_match_protocol(link, IPPROTO_TCP);
    nf_reset(link);
    nf_rule_end(link, rule);
}

static void netcapture_rest(struct netlink *link, const struct netcapture_ports *ports) {
    size_t rule = netcapture_rule(link);
    nf_match_protocol(link, IPPROTO_UDP);
    nf_match_port(link, 53, 53);
    nf_tproxy(link, CAPTURE_RESOLVER, 53);
    nf_rule_end(link, rule);
    for (size_t i = 0; i < ports->udp_count; i++) {
        rule = netcapture_rule(link);
        nf_match_protocol(link, IPPROTO_UDP);
        nf_match_port(link, ports->udp[i], ports->udp[i]);
        nf_accept(link);
        nf_rule_end(link, rule);
    }
    rule = netcapture_rule(link); /* also pings, which the route would answer for the whole internet */
    nf_refuse(link);
    nf_rule_end(link, rule);
}

int netcapture_table(const int fds[CAPTURE_MAX], const struct netcapture_ports *ports, bool fresh, struct err *err) {
    static const struct nf_chain chain = {CHAIN, "filter", NF_INET_PRE_ROUTING, PRIORITY};
    autonetlink link = nf_begin();
    if (!fresh)
        nf_table_drop(&link, &netcapture_of);
    nf_table(&link, &netcapture_of);
    nf_chain(&link, &netcapture_of, &chain);
    netcapture_accept_network(&link, "127.0.0.0/8");
    netcapture_accept_network(&link, "10.204.0.2/32");
    netcapture_tcp(&link, ports);
    netcapture_rest(&link, ports);
    int r = nf_send(&link, fds[CAPTURE_NETFILTER]);
    return r == 0 ? 0
                  : err_set(err, ERR_UNSUPPORTED,
                            "a network policy needs Linux 5.9 with nf_tables, nft_tproxy and nft_reject_inet: %s; "
                            "modprobe nft_tproxy nft_reject_inet",
                            strerror(-r));
}

int netcapture_prepare(struct netplace *place, struct err *err) {
    int fds[CAPTURE_MAX]; /* without UDP ports: those of place->sockets, the others -1 */
    TRY(netcapture_sockets(place, false, NULL, 0, fds, err));
    memcpy(place->sockets, fds, sizeof place->sockets);
    place->wired = true;
    return 0;
}

/* ---- the route ---- */

static void netcapture_put_route(struct netlink *link, bool on) {
    const uint32_t address = htonl(CAPTURE_ADDRESS), loopback = LOOPBACK;
    const struct rtmsg head = {.rtm_family = AF_INET,
                               .rtm_table = RT_TABLE_LOCAL,
                               .rtm_protocol = RTPROT_STATIC,
                               .rtm_scope = on ? RT_SCOPE_HOST : RT_SCOPE_NOWHERE,
                               .rtm_type = RTN_LOCAL};
    netlink_begin(link, on ? RTM_NEWROUTE : RTM_DELROUTE, NLM_F_ACK | (on ? NLM_F_CREATE | NLM_F_REPLACE : 0), &head,
                  sizeof head);
    netlink_put(link, RTA_OIF, &loopback, sizeof loopback);
    if (on)
        netlink_put(link, RTA_PREFSRC, &address, sizeof address);
}

int netcapture_route(const int fds[CAPTURE_MAX], bool on, struct err *err) {
    autonetlink link = netlink_new();
    if (on) { /* a route names an address that is there */
        netlink_address(&link, true, LOOPBACK, CAPTURE_ADDRESS, 32);
        netcapture_put_route(&link, true);
    } else {
        netcapture_put_route(&link, false);
        netlink_address(&link, false, LOOPBACK, CAPTURE_ADDRESS, 32);
    }
    int r = netlink_send(&link, fds[CAPTURE_ROUTE]);
    if (r < 0 && !(!on && (r == -ESRCH || r == -EADDRNOTAVAIL)))
        return err_errno(err, -r, "the route of a captured network");
    if (on)
        return 0;
    autonetlink table = nf_begin();
    nf_table_drop(&table, &netcapture_of);
    r = nf_send(&table, fds[CAPTURE_NETFILTER]);
    return r < 0 ? err_errno(err, -r, "the table of a captured network") : 0;
}
