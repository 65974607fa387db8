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
/* Sends all of it, and takes the answers: 0, or -errno of the first that failed. */
int netlink_send(struct netlink *link, int fd);

/* ---- nf_tables ----
 *
 * A batch of nf_begin ... nf_send is one transaction. Rules are made of expressions, each put after the other; a rule
 * ends with the next message. Register 1 holds what is compared. */

struct netlink nf_begin(void);
int nf_send(struct netlink *link, int fd);
void nf_table(struct netlink *link, uint8_t family, const char *table, bool remove);
struct nf_chain {
    const char *name, *type; /* type NULL: no hook */
    uint32_t hook;
    int32_t priority;
};
void nf_chain(struct netlink *link, uint8_t family, const char *table, const struct nf_chain *chain);
/* Begins a rule; its expressions follow, then nf_rule_end. */
size_t nf_rule(struct netlink *link, uint8_t family, const char *table, const char *chain);
void nf_rule_end(struct netlink *link, size_t at);
enum nf_from { NF_NETWORK_HEADER = 1, NF_TRANSPORT_HEADER = 2 };
/* Bytes of a header, masked where mask is not NULL, are equal to value (or not). */
void nf_match(struct netlink *link, enum nf_from from, uint32_t offset, uint32_t len, const void *mask, bool equal,
              const void *value);
void nf_match_protocol(struct netlink *link, uint8_t protocol);
void nf_match_port(struct netlink *link, uint16_t first, uint16_t last); /* of the destination */
void nf_match_network(struct netlink *link, const char *network);        /* destination in "A.B.C.D[/BITS]" */
void nf_accept(struct netlink *link);
void nf_reset(struct netlink *link);  /* refuses a TCP packet */
void nf_refuse(struct netlink *link); /* refuses any other: port unreachable */
void nf_tproxy(struct netlink *link, uint32_t address, uint16_t port);

#endif
