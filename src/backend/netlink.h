/* Messages to the kernel's network: routes and addresses (rtnetlink), packet filters (nf_tables). A batch is written
 * into a buffer and sent at once; the kernel has done all of it, or refused it, when the send returns. */
#ifndef CUBBY_BACKEND_NETLINK_H
#define CUBBY_BACKEND_NETLINK_H

#include "base/buf.h"

struct netlink {
    struct buf out;
    size_t message;              /* where the last one begins */
    uint32_t sequence, answered; /* of the last one; of the last one that is answered */
};
#define autonetlink __attribute__((cleanup(netlink_done))) struct netlink

struct netlink netlink_new(void);
void netlink_done(struct netlink *link);
/* A message; flags: NLM_F_ besides REQUEST. head: what its kind begins with. */
void netlink_begin(struct netlink *link, uint16_t type, uint16_t flags, const void *head, size_t len);
void netlink_put(struct netlink *link, uint16_t type, const void *data, size_t len);
void netlink_text(struct netlink *link, uint16_t type, const char *text);
void netlink_be32(struct netlink *link, uint16_t type, uint32_t value); /* as nf_tables has its numbers */
size_t netlink_nest(struct netlink *link, uint16_t type);
void netlink_unnest(struct netlink *link, size_t at);
/* An address of an interface comes, or goes; in host order. */
void netlink_address(struct netlink *link, bool on, unsigned index, uint32_t address, uint8_t bits);
/* Sends all of it, and takes the answers: 0, or -errno of the first that failed. */
int netlink_send(struct netlink *link, int fd);

/* ---- nf_tables ----
 *
 * A batch of nf_begin ... nf_send is one transaction. Rules are made of expressions, each put after the other; a rule
 * ends with the next message. Register 1 holds what is compared. */

struct netlink nf_begin(void);
int nf_send(struct netlink *link, int fd);
/* What an object belongs to, wherever one is named. */
struct nf_table {
    uint8_t family; /* NFPROTO_ */
    const char *name;
};
void nf_table(struct netlink *link, const struct nf_table *table);      /* one that exists stays */
void nf_table_drop(struct netlink *link, const struct nf_table *table); /* with all in it; an absent one is fine */
struct nf_chain {
    const char *name, *type; /* type NULL: no hook */
    uint32_t hook;
    int32_t priority;
};
void nf_chain(struct netlink *link, const struct nf_table *table, const struct nf_chain *chain);
void nf_chain_flush(struct netlink *link, const struct nf_table *table, const char *chain);
void nf_chain_drop(struct netlink *link, const struct nf_table *table, const char *chain);
/* A map from names of interfaces to chains, and one of its elements. */
void nf_map(struct netlink *link, const struct nf_table *table, const char *map);
void nf_map_put(struct netlink *link, const struct nf_table *table, const char *map, const char *interface,
                const char *chain);
void nf_map_drop(struct netlink *link, const struct nf_table *table, const char *map, const char *interface);
/* A set with one element, which counts flows; a rate of packets. Both are used by several rules. */
void nf_counter(struct netlink *link, const struct nf_table *table, const char *set);
void nf_counter_drop(struct netlink *link, const struct nf_table *table, const char *set);
void nf_rate(struct netlink *link, const struct nf_table *table, const char *rate, uint64_t a_minute, uint32_t burst);
void nf_rate_drop(struct netlink *link, const struct nf_table *table, const char *rate);
/* Begins a rule; its expressions follow, then nf_rule_end. */
size_t nf_rule(struct netlink *link, const struct nf_table *table, const char *chain);
void nf_rule_end(struct netlink *link, size_t at);
enum nf_from { NF_NETWORK_HEADER = 1, NF_TRANSPORT_HEADER = 2 };
/* Bytes of a header, masked where mask is not NULL, are equal to value (or not). */
void nf_match(struct netlink *link, enum nf_from from, uint32_t offset, uint32_t len, const void *mask, bool equal,
              const void *value);
void nf_match_family(struct netlink *link, uint8_t family); /* in a table for both: before any of IPv4's header */
void nf_match_protocol(struct netlink *link, uint8_t protocol);
void nf_match_port(struct netlink *link, uint16_t first, uint16_t last); /* of the destination */
void nf_match_network(struct netlink *link, const char *network);        /* destination in "A.B.C.D[/BITS]" */
struct address_network;
void nf_match_address(struct netlink *link, const struct address_network *to); /* destination, of its family */
void nf_match_source(struct netlink *link, const char *network, bool equal);
void nf_match_user(struct netlink *link, uint32_t uid); /* whose socket sends it */
void nf_match_local(struct netlink *link); /* destination: this machine, a broadcast, a group (of the host's table) */
/* The name of the interface that it comes from (or goes to); one that ends with '*': its beginning. */
void nf_match_interface(struct netlink *link, bool from, const char *name, bool equal);
void nf_match_established(struct netlink *link); /* of a connection that both sides know, or of its errors */
void nf_match_new(struct netlink *link);         /* the first packet of a flow that is not in the table yet */
void nf_over_rate(struct netlink *link, const char *rate);
void nf_over_count(struct netlink *link, const char *set, uint32_t count);
void nf_accept(struct netlink *link);
void nf_drop(struct netlink *link);
void nf_goto(struct netlink *link, const char *chain);
void nf_jump(struct netlink *link, const char *chain);
void nf_goto_by_interface(struct netlink *link, const char *map);
void nf_masquerade(struct netlink *link);
void nf_reset(struct netlink *link);    /* refuses a TCP packet */
void nf_refuse(struct netlink *link);   /* refuses any other: port unreachable */
void nf_prohibit(struct netlink *link); /* the same of both families: prohibited by an administrator */
void nf_tproxy(struct netlink *link, uint32_t address, uint16_t port);

#endif
