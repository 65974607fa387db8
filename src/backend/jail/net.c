/* Network `open`: a veth pair and NAT for one box. Called by jail.c as root. Invariant: from inside a box neither the
 * host's own services, nor other boxes, nor link-local addresses (cloud metadata) can be reached, nor private networks
 * but those the configuration names; a box has one address and cannot speak with another; all boxes of a user together
 * have a bounded part of the host's table of connections; all of it goes with the box. */
#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/file.h>

#include "base/base.h"
#include "backend/ids.h"
#include "backend/jail/jail.h"
#include "backend/netcapture.h"
#include "backend/netlink.h"
#include "http/address.h"
#include "base/counted.h"
#include "base/sha256.h"

/* A net of 4 addresses for every slot there can be. */
#define NET_ALL "10.204.0.0/14"
#define NET_FIRST 0x0acc0000u
#define NET_BASE(slot) (NET_FIRST + (slot)*4)
#define NET_NAME "cubby-%u"            /* of the slot: the host's end */
#define OWNER_PATH "/run/cubby/net-%u" /* of the slot: the owner of its flows */
_Static_assert(IDS_SLOTS * 4ull <= 1u << 18, "no two slots share a net");

struct net_resolvers {
    struct in_addr addresses[8];
    size_t count;
};

/* One table of ours for all boxes of all daemons: a chain of its own for each box, found by the name of its interface.
 * What has no chain, or goes where it may not, is refused and not dropped: a program inside fails at once instead of
 * hanging. Nothing reaches the host itself, on whatever address. */
static const struct nf_table net_table = {NFPROTO_INET, "cubby"};
#define NET_ALIKE "cubby-*"
/* Common to all boxes: `never` and `private` return what they do not refuse. */
static const struct nf_chain net_chains[] = {
    {"refuse", NULL, 0, 0},
    {"never", NULL, 0, 0},
    {"private", NULL, 0, 0},
    {"input", "filter", NF_INET_LOCAL_IN, -10},
    {"forward", "filter", NF_INET_FORWARD, -10},
    {"nat", "nat", NF_INET_POST_ROUTING, 100},
};

bool net_network_ok(const char *text) {
    struct in_addr address;
    char copy[20], *bits = NULL;
    uint64_t count = 32;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return false;
    if ((bits = strchr(copy, '/')))
        *bits++ = 0;
    return inet_pton(AF_INET, copy, &address) == 1 && (!bits || text_u64(bits, 32, &count));
}

/* ---- flows ---- */

/* Every connection of a box is a row of the host's conntrack table, which all share; a full one stops the host's own
 * connections. A user's boxes have `most` rows that are alive, and begin that many at once and then RENEWED of them a
 * minute: a closed TCP connection stays in the table for two minutes, and `ct count` does not count it. So it is never
 * more than 2 + 2 * RENEWED times `most`, an eleventh of the table. */
enum { FLOWS_PART = 64, FLOWS_LEAST = 64, RENEWED_A_MINUTE = 2, OWNER_BYTES = 17 };

static unsigned long long net_flows_most(void) {
    char text[32];
    uint64_t all = LIMIT_FLOWS, most = counted_most(COUNTED_FLOWS);
    if (fd_read_file(AT_FDCWD, "/proc/sys/net/netfilter/nf_conntrack_max", text, sizeof text) > 0) {
        text[strcspn(text, "\n")] = 0;
        text_u64(text, UINT32_MAX, &all);
    }
    all /= FLOWS_PART;
    all = all < FLOWS_LEAST ? FLOWS_LEAST : all;
    return all < most ? all : most;
}

/* The host's resolvers, as far as a box can reach them. */
static void net_resolve(struct net_resolvers *ret_resolvers, char *out, size_t size) {
    struct net_resolvers found = {.count = 0};
    char text[8192], word[64];
    size_t used = 0;
    if (fd_read_file(AT_FDCWD, "/etc/resolv.conf", text, sizeof text) < 0)
        text[0] = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) && found.count < sizeof found.addresses / sizeof *found.addresses) {
        struct in_addr *address = &found.addresses[found.count];
        if (sscanf(line, "nameserver %63s", word) != 1 || inet_pton(AF_INET, word, address) != 1 ||
            ntohl(address->s_addr) >> 24 == 127)
            continue;
        found.count++;
        used += (size_t)snprintf(out + used, size - used, "nameserver %s\n", word);
    }
    if (used == 0)
        snprintf(out, size,
                 "# The host's resolver listens on its loopback, which a box cannot reach:\n"
                 "# put a name server here, or mount a resolv.conf of your own.\n");
    *ret_resolvers = found;
}

/* Begins a rule about interfaces of boxes. */
static size_t net_rule(struct netlink *link, const char *chain, bool from, bool to) {
    size_t rule = nf_rule(link, &net_table, chain);
    if (from)
        nf_match_interface(link, true, NET_ALIKE, true);
    if (to)
        nf_match_interface(link, false, NET_ALIKE, true);
    return rule;
}

static void net_put_forward(struct netlink *link) {
    size_t rule = net_rule(link, "forward", true, true);
    nf_goto(link, "refuse");
    nf_rule_end(link, rule);
    rule = net_rule(link, "forward", true, false);
    nf_match_family(link, NFPROTO_IPV6);
    nf_goto(link, "refuse");
    nf_rule_end(link, rule);
    rule = net_rule(link, "forward", false, false);
    nf_goto_by_interface(link, "boxes");
    nf_rule_end(link, rule);
    rule = net_rule(link, "forward", true, false);
    nf_goto(link, "refuse");
    nf_rule_end(link, rule);
    rule = net_rule(link, "forward", false, true);
    nf_match_established(link);
    nf_accept(link);
    nf_rule_end(link, rule);
    rule = net_rule(link, "forward", false, true); /* no connection is opened into a box */
    nf_drop(link);
    nf_rule_end(link, rule);
}

static void net_put_class(struct netlink *link, const char *chain, enum address_class class) {
    for (const char *const *network = address_networks(class, false); *network; network++) {
        size_t rule = nf_rule(link, &net_table, chain);
        nf_match_network(link, *network);
        nf_goto(link, "refuse");
        nf_rule_end(link, rule);
    }
}

/* What all boxes share, anew. */
static void net_put_table(struct netlink *link) {
    nf_table(link, &net_table);
    nf_map(link, &net_table, "boxes");
    for (size_t i = 0; i < sizeof net_chains / sizeof *net_chains; i++) {
        nf_chain(link, &net_table, &net_chains[i]);
        nf_chain_flush(link, &net_table, net_chains[i].name);
    }
    size_t rule = nf_rule(link, &net_table, "refuse");
    nf_match_protocol(link, IPPROTO_TCP);
    nf_reset(link);
    nf_rule_end(link, rule);
    rule = nf_rule(link, &net_table, "refuse");
    nf_prohibit(link);
    nf_rule_end(link, rule);
    rule = net_rule(link, "input", true, false);
    nf_goto(link, "refuse");
    nf_rule_end(link, rule);
    net_put_forward(link);
    net_put_class(link, "never", ADDRESS_NEVER);
    net_put_class(link, "private", ADDRESS_PRIVATE);
    rule = nf_rule(link, &net_table, "nat");
    nf_match_family(link, NFPROTO_IPV4);
    nf_match_source(link, NET_ALL, true);
    nf_match_interface(link, false, NET_ALIKE, false);
    nf_masquerade(link);
    nf_rule_end(link, rule);
}

/* One counter and one rate for all boxes of an owner, which stay as they are when they exist: a set with one element,
 * since a rule cannot be shared. Only flows that the table does not have yet are checked. */
static void net_put_flows(struct netlink *link, const char *chain, const char *owner) {
    const char *flows = text_make(32, "flows-%s", owner), *begun = text_make(32, "begun-%s", owner);
    uint32_t most = (uint32_t)net_flows_most();
    nf_counter(link, &net_table, flows);
    nf_rate(link, &net_table, begun, RENEWED_A_MINUTE * (uint64_t)most, most);
    size_t rule = nf_rule(link, &net_table, chain);
    nf_match_new(link);
    nf_over_rate(link, begun);
    nf_goto(link, "refuse");
    nf_rule_end(link, rule);
    rule = nf_rule(link, &net_table, chain);
    nf_match_new(link);
    nf_over_count(link, flows, most);
    nf_goto(link, "refuse");
    nf_rule_end(link, rule);
}

static void net_put_accept(struct netlink *link, const char *chain, const char *network, uint8_t protocol) {
    size_t rule = nf_rule(link, &net_table, chain);
    if (network)
        nf_match_network(link, network);
    if (protocol) {
        nf_match_protocol(link, protocol);
        nf_match_port(link, 53, 53);
    }
    nf_accept(link);
    nf_rule_end(link, rule);
}

static void net_put_jump(struct netlink *link, const char *chain, const char *to) {
    size_t rule = nf_rule(link, &net_table, chain);
    nf_jump(link, to);
    nf_rule_end(link, rule);
}

/* The chain of one box. Its resolvers come first: they may be in a private network. */
static void net_put_box(struct netlink *link, unsigned slot, const char *owner, const char *const *networks,
                        const struct net_resolvers *resolvers) {
    struct in_addr own = {.s_addr = htonl(NET_BASE(slot) + 2)};
    char text[INET_ADDRSTRLEN];
    const char *chain = text_make(32, "box-%u", slot);
    nf_chain(link, &net_table, &(struct nf_chain){.name = chain});
    nf_chain_flush(link, &net_table, chain);
    size_t rule = nf_rule(link, &net_table, chain);
    nf_match_source(link, inet_ntop(AF_INET, &own, text, sizeof text), false);
    nf_drop(link);
    nf_rule_end(link, rule);
    net_put_flows(link, chain, owner);
    for (size_t i = 0; i < resolvers->count; i++) {
        inet_ntop(AF_INET, &resolvers->addresses[i], text, sizeof text);
        net_put_accept(link, chain, text, IPPROTO_UDP);
        net_put_accept(link, chain, text, IPPROTO_TCP);
    }
    net_put_jump(link, chain, "never");
    for (; networks && *networks; networks++)
        net_put_accept(link, chain, *networks, 0);
    net_put_jump(link, chain, "private");
    net_put_accept(link, chain, NULL, 0);
    nf_map_put(link, &net_table, "boxes", text_make(IFNAMSIZ, NET_NAME, slot), chain);
}

/* Between processes: rules are loaded and removed, and interfaces counted, by one at a time. */
static int net_lock(void) {
    int fd = open("/run/cubby/net.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        flock(fd, LOCK_EX);
    return fd;
}

static int net_filter(struct netlink *link) {
    autofd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    return fd < 0 ? -errno : nf_send(link, fd);
}

static int net_load(unsigned slot, const char *owner, const char *const *networks,
                    const struct net_resolvers *resolvers, struct err *err) {
    int r = -ENOENT;
    for (int whole = 0; whole < 2 && r == -ENOENT; whole++) { /* the table is there but for the first box */
        autonetlink link = nf_begin();
        if (whole)
            net_put_table(&link);
        net_put_box(&link, slot, owner, networks, resolvers);
        r = net_filter(&link);
    }
    if (r == -ENOBUFS)
        return err_set(err, ERR_TOO_LARGE, "open_networks: too many networks");
    return r == 0 ? 0
                  : err_set(err, ERR_UNSUPPORTED,
                            "network 'open' needs nf_tables with masquerade, limit and connlimit in the kernel: %s; "
                            "modprobe nf_tables nft_ct nft_masq nft_limit nft_connlimit nft_reject_inet",
                            strerror(-r));
}

/* ---- the interfaces ---- */

static int net_route_send(struct netlink *link, int inside) {
    autofd own = inside < 0 ? socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE) : -1;
    return inside < 0 && own < 0 ? -errno : netlink_send(link, inside < 0 ? own : inside);
}

static int net_add_veth(const char *name, int net_fd, struct err *err) {
    const struct ifinfomsg any = {0};
    const uint32_t place = (uint32_t)net_fd;
    autonetlink link = netlink_new();
    netlink_begin(&link, RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &any, sizeof any);
    netlink_text(&link, IFLA_IFNAME, name);
    size_t info = netlink_nest(&link, IFLA_LINKINFO);
    netlink_text(&link, IFLA_INFO_KIND, "veth");
    size_t data = netlink_nest(&link, IFLA_INFO_DATA), peer = netlink_nest(&link, VETH_INFO_PEER);
    buf_put(&link.out, &any, sizeof any);
    netlink_text(&link, IFLA_IFNAME, "eth0");
    netlink_put(&link, IFLA_NET_NS_FD, &place, sizeof place);
    netlink_unnest(&link, peer);
    netlink_unnest(&link, data);
    netlink_unnest(&link, info);
    int r = net_route_send(&link, -1);
    if (r == -EOPNOTSUPP)
        return err_set(err, ERR_UNSUPPORTED, "network 'open' needs the kernel module veth; modprobe veth");
    return r < 0 ? err_errno(err, -r, "cannot make the interface '%s'", name) : 0;
}

static void net_put_end(struct netlink *link, unsigned index, uint32_t address) {
    const struct ifinfomsg up = {.ifi_index = (int)index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    netlink_begin(link, RTM_NEWLINK, NLM_F_ACK, &up, sizeof up);
    netlink_address(link, true, index, address, 30);
}

/* Both ends are up and have the addresses of a net of 4, and the box has a way out. */
static int net_addresses(unsigned slot, const char *name, const struct netplace *place, struct err *err) {
    const uint32_t gateway = htonl(NET_BASE(slot) + 1);
    const struct rtmsg head = {.rtm_family = AF_INET,
                               .rtm_table = RT_TABLE_MAIN,
                               .rtm_protocol = RTPROT_STATIC,
                               .rtm_scope = RT_SCOPE_UNIVERSE,
                               .rtm_type = RTN_UNICAST};
    unsigned index = 0;
    autonetlink here = netlink_new(), there = netlink_new();
    autofd inside = netplace_route(place, "eth0", &index, err);
    if (inside < 0)
        return inside;
    net_put_end(&here, if_nametoindex(name), NET_BASE(slot) + 1);
    int r = net_route_send(&here, -1);
    if (r < 0)
        return err_errno(err, -r, "address of '%s'", name);
    net_put_end(&there, index, NET_BASE(slot) + 2);
    netlink_begin(&there, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE, &head, sizeof head);
    netlink_put(&there, RTA_GATEWAY, &gateway, sizeof gateway);
    r = net_route_send(&there, inside);
    return r < 0 ? err_errno(err, -r, "address of eth0") : 0;
}

static bool net_last(void) {
    struct if_nameindex *links = if_nameindex();
    bool last = links != NULL;
    for (size_t i = 0; links && links[i].if_index; i++)
        last &= strncmp(links[i].if_name, "cubby-", 6) != 0;
    if (links)
        if_freenameindex(links);
    return last;
}

/* Deleting one end deletes the pair; an absent one is fine. The table goes with the last box. */
void net_detach(unsigned slot) {
    const struct ifinfomsg any = {0};
    char path[64], owner[OWNER_BYTES];
    const char *name = text_make(IFNAMSIZ, NET_NAME, slot), *chain = text_make(32, "box-%u", slot);
    autofd lock = net_lock();
    autonetlink pair = netlink_new(), rules = nf_begin(), counts = nf_begin();
    netlink_begin(&pair, RTM_DELLINK, NLM_F_ACK, &any, sizeof any);
    netlink_text(&pair, IFLA_IFNAME, name);
    net_route_send(&pair, -1);
    bool last = net_last();
    if (last) {
        nf_table_drop(&rules, &net_table);
    } else { /* each is added first: deleting what is absent would be an error */
        nf_chain(&rules, &net_table, &(struct nf_chain){.name = chain});
        nf_map_put(&rules, &net_table, "boxes", name, chain);
        nf_map_drop(&rules, &net_table, "boxes", name);
        nf_chain_drop(&rules, &net_table, chain);
    }
    net_filter(&rules);
    /* The owner's counter goes with the last box that names it; before, the kernel refuses. */
    snprintf(path, sizeof path, OWNER_PATH, slot);
    if (fd_read_file(AT_FDCWD, path, owner, sizeof owner) != OWNER_BYTES - 1)
        return;
    unlink(path);
    nf_counter_drop(&counts, &net_table, text_make(32, "flows-%s", owner));
    nf_rate_drop(&counts, &net_table, text_make(32, "begun-%s", owner));
    if (!last)
        net_filter(&counts);
}

int net_attach(unsigned slot, pid_t pid, const char *user, const char *const *networks,
               char ret_resolv[NET_RESOLV_BYTES], struct err *err) {
    char path[64], text[8], owner[OWNER_BYTES];
    const char *name = text_make(IFNAMSIZ, NET_NAME, slot);
    struct net_resolvers resolvers;
    uint8_t hash[32];
    if (fd_read_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", text, sizeof text) < 0 || text[0] != '1')
        return err_set(err, ERR_UNSUPPORTED, "network 'open' needs forwarding; sysctl -w net.ipv4.ip_forward=1");
    autonetplace place = {.net = open(text_make(64, "/proc/%d/ns/net", pid), O_RDONLY | O_CLOEXEC), .user = -1};
    if (place.net < 0)
        return err_errno(err, errno, "the box's network namespace");
    net_resolve(&resolvers, ret_resolv, NET_RESOLV_BYTES);
    sha256(user, strlen(user), hash); /* the user's name as part of the names of nftables' objects */
    text_hex(owner, hash, (OWNER_BYTES - 1) / 2);
    autofd lock = net_lock();
    snprintf(path, sizeof path, OWNER_PATH, slot);
    fd_replace_file(AT_FDCWD, path, owner, sizeof owner - 1);
    int r = net_load(slot, owner, networks, &resolvers, err)
                ?: net_add_veth(name, place.net, err) ?: net_addresses(slot, name, &place, err);
    fd_close(&lock);
    if (r < 0)
        net_detach(slot);
    return r;
}

bool net_attached(unsigned slot) {
    return if_nametoindex(text_make(IFNAMSIZ, NET_NAME, slot)) != 0;
}
