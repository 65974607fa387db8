/* The second wall (gate.h): a table on the host's output hook for the gate's user alone. Called by gate.c as root.
 * Invariant: a gate that was taken over reaches neither this machine, nor metadata services, nor private networks that
 * the configuration does not open, whatever it decides. */
#include "backend/gate/wall.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netlink.h>

#include "backend/netlink.h"
#include "base/base.h"

/* Packets of the kernel itself have no user: they match no rule, and pass. */
static const struct nf_chain wall_output = {"output", "filter", NF_INET_LOCAL_OUT, 0}, wall_chain = {.name = "gate"};

static void wall_refuse(struct netlink *link, const struct nf_table *table, const struct address_network *to) {
    for (int tcp = 1; tcp >= 0; tcp--) {
        size_t rule = nf_rule(link, table, wall_chain.name);
        if (to)
            nf_match_address(link, to);
        else
            nf_match_local(link);
        if (tcp)
            nf_match_protocol(link, IPPROTO_TCP);
        (tcp ? nf_reset : nf_prohibit)(link);
        nf_rule_end(link, rule);
    }
}

/* port 0: all. */
static void wall_accept(struct netlink *link, const struct nf_table *table, const struct address_network *to,
                        uint16_t port) {
    size_t rule = nf_rule(link, table, wall_chain.name);
    nf_match_address(link, to);
    if (port)
        nf_match_port(link, port, port);
    nf_accept(link);
    nf_rule_end(link, rule);
}

/* "ADDRESS", "ADDRESS:PORT" or "[ADDRESS]:PORT". */
static bool wall_resolver(const char *text, struct address_network *ret_network, uint16_t *ret_port) {
    char copy[ADDRESS_BYTES + 16];
    uint64_t port = 53;
    snprintf(copy, sizeof copy, "%s", text);
    char *colon = strrchr(copy, ':'), *begin = copy;
    if (!address_text(copy, &ret_network->address) && colon) {
        *colon = 0;
        if (!text_u64(colon + 1, UINT16_MAX, &port))
            return false;
        begin += *copy == '[';
        copy[strcspn(copy, "]")] = 0;
    }
    ret_network->bits = 128;
    *ret_port = (uint16_t)port;
    return address_text(begin, &ret_network->address);
}

static void wall_refuse_class(struct netlink *link, const struct nf_table *table, enum address_class class) {
    struct address_network network;
    for (int v6 = 0; v6 < 2; v6++)
        for (const char *const *text = address_networks(class, v6); *text; text++)
            if (address_network_text(*text, &network, ERR_IGNORED) == 0)
                wall_refuse(link, table, &network);
}

static int wall_send(struct netlink *link) {
    autofd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    return fd < 0 ? -errno : nf_send(link, fd);
}

static struct nf_table wall_table(char name[32], unsigned slot) {
    snprintf(name, 32, "cubby-gate-%u", slot);
    return (struct nf_table){NFPROTO_INET, name};
}

int wall_make(unsigned slot, uid_t uid, const char *const *resolvers, const char *const *open_networks,
              const char *const *host_ports) {
    char name[32];
    const struct nf_table table = wall_table(name, slot);
    struct address_network network;
    uint16_t port;
    uint64_t number;
    autonetlink link = nf_begin();
    nf_table_drop(&link, &table);
    nf_table(&link, &table);
    nf_chain(&link, &table, &wall_chain);
    nf_chain(&link, &table, &wall_output);
    size_t rule = nf_rule(&link, &table, wall_output.name);
    nf_match_user(&link, uid);
    nf_goto(&link, wall_chain.name);
    nf_rule_end(&link, rule);
    for (; resolvers && *resolvers; resolvers++)
        if (wall_resolver(*resolvers, &network, &port))
            wall_accept(&link, &table, &network, port);
    for (; host_ports && *host_ports; host_ports++)
        if (address_network_text("127.0.0.1", &network, ERR_IGNORED) == 0 && text_u64(*host_ports, UINT16_MAX, &number))
            wall_accept(&link, &table, &network, (uint16_t)number);
    wall_refuse(&link, &table, NULL);
    wall_refuse_class(&link, &table, ADDRESS_NEVER);
    for (; open_networks && *open_networks; open_networks++)
        if (address_network_text(*open_networks, &network, ERR_IGNORED) == 0)
            wall_accept(&link, &table, &network, 0);
    wall_refuse_class(&link, &table, ADDRESS_PRIVATE);
    return wall_send(&link);
}

void wall_drop(unsigned slot) {
    char name[32];
    const struct nf_table table = wall_table(name, slot);
    autonetlink link = nf_begin();
    nf_table_drop(&link, &table);
    wall_send(&link);
}
