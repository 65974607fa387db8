/* The encoder of netlink.h. Called by capture of policies and by network `open`. Invariant: a batch that did not fit its
 * buffer is never sent. */
#include "backend/netlink.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

#include "base/base.h"

enum { NETLINK_MAX = 256 << 10 };

struct netlink netlink_new(void) {
    return (struct netlink){.out = buf_max(NETLINK_MAX), .message = SIZE_MAX};
}

void netlink_done(struct netlink *link) {
    buf_done(&link->out);
}

static void netlink_pad(struct netlink *link) {
    static const uint8_t zeros[NLMSG_ALIGNTO];
    buf_put(&link->out, zeros, NLMSG_ALIGN(link->out.len) - link->out.len);
}

/* Lengths are known when the next thing begins. */
static void netlink_finish(struct netlink *link) {
    if (link->message == SIZE_MAX || link->out.failed)
        return;
    uint32_t len = (uint32_t)(link->out.len - link->message);
    memcpy(link->out.data + link->message, &len, sizeof len);
}

void netlink_begin(struct netlink *link, uint16_t type, uint16_t flags, const void *head, size_t len) {
    netlink_finish(link);
    const struct nlmsghdr message = {
        .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | flags, .nlmsg_seq = ++link->sequence};
    if (flags & NLM_F_ACK)
        link->answered = link->sequence;
    link->message = link->out.len;
    buf_put(&link->out, &message, sizeof message);
    buf_put(&link->out, head, len);
    netlink_pad(link);
}

void netlink_put(struct netlink *link, uint16_t type, const void *data, size_t len) {
    const struct nlattr attr = {.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type};
    buf_put(&link->out, &attr, sizeof attr);
    buf_put(&link->out, data, len);
    netlink_pad(link);
}

void netlink_text(struct netlink *link, uint16_t type, const char *text) {
    netlink_put(link, type, text, strlen(text) + 1);
}

void netlink_be32(struct netlink *link, uint16_t type, uint32_t value) {
    value = htonl(value);
    netlink_put(link, type, &value, sizeof value);
}

size_t netlink_nest(struct netlink *link, uint16_t type) {
    size_t at = link->out.len;
    netlink_put(link, type | NLA_F_NESTED, NULL, 0);
    return at;
}

void netlink_unnest(struct netlink *link, size_t at) {
    uint16_t len = (uint16_t)(link->out.len - at);
    if (!link->out.failed)
        memcpy(link->out.data + at, &len, sizeof len);
}

/* The kernel answers before send returns, so nothing is waited for. */
static int netlink_answers(struct netlink *link, int fd) {
    char bytes[8192] __attribute__((aligned(NLMSG_ALIGNTO)));
    int failed = 0;
    for (;;) {
        ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0)
            return failed ? failed : errno == EAGAIN ? -EBADMSG : -errno;
        for (struct nlmsghdr *at = (void *)bytes; NLMSG_OK(at, (size_t)n); at = NLMSG_NEXT(at, n)) {
            if (at->nlmsg_type != NLMSG_ERROR || at->nlmsg_len < NLMSG_LENGTH(sizeof(struct nlmsgerr)))
                continue;
            int error = ((struct nlmsgerr *)NLMSG_DATA(at))->error;
            failed = failed ? failed : error;
            if (at->nlmsg_seq == link->answered)
                return failed;
        }
    }
}

int netlink_send(struct netlink *link, int fd) {
    netlink_finish(link);
    if (link->out.failed)
        return -ENOBUFS;
    int size = NETLINK_MAX;
    if (link->out.len > 64 << 10)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    if (send(fd, link->out.data, link->out.len, 0) < 0)
        return -errno;
    return netlink_answers(link, fd);
}

/* ---- nf_tables ---- */

static void netlink_nf_message(struct netlink *link, uint16_t type, uint16_t flags, uint8_t family) {
    const struct nfgenmsg head = {.nfgen_family = family, .version = NFNETLINK_V0};
    netlink_begin(link, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &head, sizeof head);
}

static void netlink_nf_edge(struct netlink *link, uint16_t type) {
    const struct nfgenmsg head = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
    netlink_begin(link, type, 0, &head, sizeof head);
}

struct netlink nf_begin(void) {
    struct netlink link = netlink_new();
    netlink_nf_edge(&link, NFNL_MSG_BATCH_BEGIN);
    return link;
}

/* The last message of the transaction is answered when all of it is done. */
int nf_send(struct netlink *link, int fd) {
    struct nlmsghdr last;
    if (!link->out.failed) {
        memcpy(&last, link->out.data + link->message, sizeof last);
        last.nlmsg_flags |= NLM_F_ACK;
        link->answered = last.nlmsg_seq;
        memcpy(link->out.data + link->message, &last, sizeof last);
    }
    netlink_nf_edge(link, NFNL_MSG_BATCH_END);
    return netlink_send(link, fd);
}

void nf_table(struct netlink *link, uint8_t family, const char *table, bool remove) {
    netlink_nf_message(link, remove ? NFT_MSG_DELTABLE : NFT_MSG_NEWTABLE, remove ? 0 : NLM_F_CREATE, family);
    netlink_text(link, NFTA_TABLE_NAME, table);
}

void nf_chain(struct netlink *link, uint8_t family, const char *table, const struct nf_chain *chain) {
    netlink_nf_message(link, NFT_MSG_NEWCHAIN, NLM_F_CREATE, family);
    netlink_text(link, NFTA_CHAIN_TABLE, table);
    netlink_text(link, NFTA_CHAIN_NAME, chain->name);
    if (!chain->type)
        return;
    size_t hook = netlink_nest(link, NFTA_CHAIN_HOOK);
    netlink_be32(link, NFTA_HOOK_HOOKNUM, chain->hook);
    netlink_be32(link, NFTA_HOOK_PRIORITY, (uint32_t)chain->priority);
    netlink_unnest(link, hook);
    netlink_be32(link, NFTA_CHAIN_POLICY, NF_ACCEPT);
    netlink_text(link, NFTA_CHAIN_TYPE, chain->type);
}

size_t nf_rule(struct netlink *link, uint8_t family, const char *table, const char *chain) {
    netlink_nf_message(link, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, family);
    netlink_text(link, NFTA_RULE_TABLE, table);
    netlink_text(link, NFTA_RULE_CHAIN, chain);
    return netlink_nest(link, NFTA_RULE_EXPRESSIONS);
}

void nf_rule_end(struct netlink *link, size_t at) {
    netlink_unnest(link, at);
}

struct netlink_nf_expression {
    size_t element, data;
};

static struct netlink_nf_expression netlink_nf_expression(struct netlink *link, const char *name) {
    struct netlink_nf_expression at = {.element = netlink_nest(link, NFTA_LIST_ELEM)};
    netlink_text(link, NFTA_EXPR_NAME, name);
    at.data = netlink_nest(link, NFTA_EXPR_DATA);
    return at;
}

static void netlink_nf_expression_end(struct netlink *link, struct netlink_nf_expression at) {
    netlink_unnest(link, at.data);
    netlink_unnest(link, at.element);
}

static void netlink_nf_data(struct netlink *link, uint16_t type, const void *value, size_t len) {
    size_t data = netlink_nest(link, type);
    netlink_put(link, NFTA_DATA_VALUE, value, len);
    netlink_unnest(link, data);
}

static void netlink_nf_compare(struct netlink *link, enum nft_cmp_ops op, const void *value, size_t len) {
    struct netlink_nf_expression at = netlink_nf_expression(link, "cmp");
    netlink_be32(link, NFTA_CMP_SREG, NFT_REG_1);
    netlink_be32(link, NFTA_CMP_OP, op);
    netlink_nf_data(link, NFTA_CMP_DATA, value, len);
    netlink_nf_expression_end(link, at);
}

static void netlink_nf_load(struct netlink *link, enum nf_from from, uint32_t offset, uint32_t len) {
    struct netlink_nf_expression at = netlink_nf_expression(link, "payload");
    netlink_be32(link, NFTA_PAYLOAD_DREG, NFT_REG_1);
    netlink_be32(link, NFTA_PAYLOAD_BASE, from);
    netlink_be32(link, NFTA_PAYLOAD_OFFSET, offset);
    netlink_be32(link, NFTA_PAYLOAD_LEN, len);
    netlink_nf_expression_end(link, at);
}

static void netlink_nf_mask(struct netlink *link, const void *mask, uint32_t len) {
    static const uint8_t zeros[16];
    struct netlink_nf_expression at = netlink_nf_expression(link, "bitwise");
    netlink_be32(link, NFTA_BITWISE_SREG, NFT_REG_1);
    netlink_be32(link, NFTA_BITWISE_DREG, NFT_REG_1);
    netlink_be32(link, NFTA_BITWISE_LEN, len);
    netlink_nf_data(link, NFTA_BITWISE_MASK, mask, len);
    netlink_nf_data(link, NFTA_BITWISE_XOR, zeros, len);
    netlink_nf_expression_end(link, at);
}

void nf_match(struct netlink *link, enum nf_from from, uint32_t offset, uint32_t len, const void *mask, bool equal,
              const void *value) {
    netlink_nf_load(link, from, offset, len);
    if (mask)
        netlink_nf_mask(link, mask, len);
    netlink_nf_compare(link, equal ? NFT_CMP_EQ : NFT_CMP_NEQ, value, len);
}

void nf_match_protocol(struct netlink *link, uint8_t protocol) {
    struct netlink_nf_expression at = netlink_nf_expression(link, "meta");
    netlink_be32(link, NFTA_META_DREG, NFT_REG_1);
    netlink_be32(link, NFTA_META_KEY, NFT_META_L4PROTO);
    netlink_nf_expression_end(link, at);
    netlink_nf_compare(link, NFT_CMP_EQ, &protocol, 1);
}

void nf_match_port(struct netlink *link, uint16_t first, uint16_t last) {
    const uint16_t low = htons(first), high = htons(last);
    netlink_nf_load(link, NF_TRANSPORT_HEADER, 2, 2);
    netlink_nf_compare(link, first == last ? NFT_CMP_EQ : NFT_CMP_GTE, &low, sizeof low);
    if (first != last)
        netlink_nf_compare(link, NFT_CMP_LTE, &high, sizeof high);
}

void nf_match_network(struct netlink *link, const char *network) {
    char copy[32], *bits;
    struct in_addr address;
    uint64_t count = 32;
    snprintf(copy, sizeof copy, "%s", network);
    if ((bits = strchr(copy, '/')))
        *bits++ = 0;
    if (inet_pton(AF_INET, copy, &address) != 1 || (bits && !text_u64(bits, 32, &count))) {
        link->out.failed = true;
        return;
    }
    uint32_t mask = count ? htonl(UINT32_MAX << (32 - count)) : 0;
    address.s_addr &= mask;
    nf_match(link, NF_NETWORK_HEADER, 16, 4, &mask, true, &address.s_addr);
}

void nf_accept(struct netlink *link) {
    struct netlink_nf_expression at = netlink_nf_expression(link, "immediate");
    netlink_be32(link, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    size_t data = netlink_nest(link, NFTA_IMMEDIATE_DATA), verdict = netlink_nest(link, NFTA_DATA_VERDICT);
    netlink_be32(link, NFTA_VERDICT_CODE, NF_ACCEPT);
    netlink_unnest(link, verdict);
    netlink_unnest(link, data);
    netlink_nf_expression_end(link, at);
}

static void netlink_nf_reject(struct netlink *link, enum nft_reject_types type, uint8_t code) {
    struct netlink_nf_expression at = netlink_nf_expression(link, "reject");
    netlink_be32(link, NFTA_REJECT_TYPE, type);
    netlink_put(link, NFTA_REJECT_ICMP_CODE, &code, sizeof code);
    netlink_nf_expression_end(link, at);
}

void nf_reset(struct netlink *link) {
    netlink_nf_reject(link, NFT_REJECT_TCP_RST, 0);
}

void nf_refuse(struct netlink *link) {
    netlink_nf_reject(link, NFT_REJECT_ICMP_UNREACH, ICMP_PORT_UNREACH);
}

static void netlink_nf_register(struct netlink *link, enum nft_registers reg, const void *value, size_t len) {
    struct netlink_nf_expression at = netlink_nf_expression(link, "immediate");
    netlink_be32(link, NFTA_IMMEDIATE_DREG, reg);
    netlink_nf_data(link, NFTA_IMMEDIATE_DATA, value, len);
    netlink_nf_expression_end(link, at);
}

void nf_tproxy(struct netlink *link, uint32_t address, uint16_t port) {
    const uint32_t at_address = htonl(address);
    const uint16_t at_port = htons(port);
    netlink_nf_register(link, NFT_REG_1, &at_address, sizeof at_address);
    netlink_nf_register(link, NFT_REG_2, &at_port, sizeof at_port);
    struct netlink_nf_expression at = netlink_nf_expression(link, "tproxy");
    netlink_be32(link, NFTA_TPROXY_FAMILY, NFPROTO_IPV4);
    netlink_be32(link, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
    netlink_be32(link, NFTA_TPROXY_REG_PORT, NFT_REG_2);
    netlink_nf_expression_end(link, at);
    nf_accept(link);
}
