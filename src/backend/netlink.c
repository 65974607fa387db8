/* The encoder of netlink.h. Called by capture of policies and by network `open`. Invariant: a batch that did not fit its
 * buffer is never sent. */
#include "backend/netlink.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/ip_icmp.h>

#include "base/base.h"
#include "http/address.h"

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

void netlink_address(struct netlink *link, bool on, unsigned index, uint32_t address, uint8_t bits) {
    const uint32_t value = htonl(address);
    const struct ifaddrmsg head = {
        .ifa_family = AF_INET, .ifa_prefixlen = bits, .ifa_flags = IFA_F_PERMANENT, .ifa_index = index};
    netlink_begin(link, on ? RTM_NEWADDR : RTM_DELADDR, NLM_F_ACK | (on ? NLM_F_CREATE | NLM_F_REPLACE : 0), &head,
                  sizeof head);
    netlink_put(link, IFA_LOCAL, &value, sizeof value);
    netlink_put(link, IFA_ADDRESS, &value, sizeof value);
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

/* Every message about an object begins with its table and its own name; the numbers of both attributes are the same
 * for all kinds. */
static void netlink_nf_object(struct netlink *link, uint16_t type, uint16_t flags, const struct nf_table *table,
                              const char *name) {
    netlink_nf_message(link, type, flags, table->family);
    netlink_text(link, 1, table->name);
    if (name)
        netlink_text(link, 2, name);
}
_Static_assert(NFTA_TABLE_NAME == 1 && NFTA_CHAIN_TABLE == 1 && NFTA_RULE_TABLE == 1 && NFTA_SET_TABLE == 1 &&
                   NFTA_OBJ_TABLE == 1 && NFTA_SET_ELEM_LIST_TABLE == 1 && NFTA_RULE_CHAIN == 2 && NFTA_SET_NAME == 2 &&
                   NFTA_OBJ_NAME == 2 && NFTA_SET_ELEM_LIST_SET == 2,
               "tables and names have the same attributes everywhere but in chains");

void nf_table(struct netlink *link, const struct nf_table *table) {
    netlink_nf_object(link, NFT_MSG_NEWTABLE, NLM_F_CREATE, table, NULL);
}

void nf_table_drop(struct netlink *link, const struct nf_table *table) {
    nf_table(link, table); /* deleting an absent one would be an error */
    netlink_nf_object(link, NFT_MSG_DELTABLE, 0, table, NULL);
}

void nf_chain(struct netlink *link, const struct nf_table *table, const struct nf_chain *chain) {
    netlink_nf_object(link, NFT_MSG_NEWCHAIN, NLM_F_CREATE, table, NULL);
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

void nf_chain_flush(struct netlink *link, const struct nf_table *table, const char *chain) {
    netlink_nf_object(link, NFT_MSG_DELRULE, 0, table, chain);
}

void nf_chain_drop(struct netlink *link, const struct nf_table *table, const char *chain) {
    netlink_nf_object(link, NFT_MSG_DELCHAIN, 0, table, NULL);
    netlink_text(link, NFTA_CHAIN_NAME, chain);
}

/* Numbers by which the program nft knows the types of keys; the kernel only keeps them. */
enum { NETLINK_NF_PROTOCOL_FAMILY = 2, NETLINK_NF_INTERFACE_NAME = 41 };

static void netlink_nf_set(struct netlink *link, const struct nf_table *table, const char *set, uint32_t flags,
                           uint32_t key_type, uint32_t key_len) {
    netlink_nf_object(link, NFT_MSG_NEWSET, NLM_F_CREATE, table, set);
    netlink_be32(link, NFTA_SET_FLAGS, flags);
    netlink_be32(link, NFTA_SET_KEY_TYPE, key_type);
    netlink_be32(link, NFTA_SET_KEY_LEN, key_len);
    netlink_be32(link, NFTA_SET_ID, link->sequence);
}

void nf_map(struct netlink *link, const struct nf_table *table, const char *map) {
    netlink_nf_set(link, table, map, NFT_SET_MAP, NETLINK_NF_INTERFACE_NAME, IFNAMSIZ);
    netlink_be32(link, NFTA_SET_DATA_TYPE, NFT_DATA_VERDICT);
}

void nf_counter(struct netlink *link, const struct nf_table *table, const char *set) {
    netlink_nf_set(link, table, set, NFT_SET_EVAL, NETLINK_NF_PROTOCOL_FAMILY, 1);
    size_t about = netlink_nest(link, NFTA_SET_DESC);
    netlink_be32(link, NFTA_SET_DESC_SIZE, 1);
    netlink_unnest(link, about);
}

void nf_counter_drop(struct netlink *link, const struct nf_table *table, const char *set) {
    netlink_nf_object(link, NFT_MSG_DELSET, 0, table, set);
}

static void netlink_be64(struct netlink *link, uint16_t type, uint64_t value) {
    value = htobe64(value);
    netlink_put(link, type, &value, sizeof value);
}

void nf_rate(struct netlink *link, const struct nf_table *table, const char *rate, uint64_t a_minute, uint32_t burst) {
    netlink_nf_object(link, NFT_MSG_NEWOBJ, NLM_F_CREATE, table, rate);
    netlink_be32(link, NFTA_OBJ_TYPE, NFT_OBJECT_LIMIT);
    size_t data = netlink_nest(link, NFTA_OBJ_DATA);
    netlink_be64(link, NFTA_LIMIT_RATE, a_minute);
    netlink_be64(link, NFTA_LIMIT_UNIT, 60);
    netlink_be32(link, NFTA_LIMIT_BURST, burst);
    netlink_be32(link, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
    netlink_be32(link, NFTA_LIMIT_FLAGS, NFT_LIMIT_F_INV);
    netlink_unnest(link, data);
}

void nf_rate_drop(struct netlink *link, const struct nf_table *table, const char *rate) {
    netlink_nf_object(link, NFT_MSG_DELOBJ, 0, table, rate);
    netlink_be32(link, NFTA_OBJ_TYPE, NFT_OBJECT_LIMIT);
}

size_t nf_rule(struct netlink *link, const struct nf_table *table, const char *chain) {
    netlink_nf_object(link, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, table, chain);
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

static void netlink_nf_meta(struct netlink *link, enum nft_meta_keys key) {
    struct netlink_nf_expression at = netlink_nf_expression(link, "meta");
    netlink_be32(link, NFTA_META_DREG, NFT_REG_1);
    netlink_be32(link, NFTA_META_KEY, key);
    netlink_nf_expression_end(link, at);
}

void nf_match_family(struct netlink *link, uint8_t family) {
    netlink_nf_meta(link, NFT_META_NFPROTO);
    netlink_nf_compare(link, NFT_CMP_EQ, &family, 1);
}

void nf_match_protocol(struct netlink *link, uint8_t protocol) {
    netlink_nf_meta(link, NFT_META_L4PROTO);
    netlink_nf_compare(link, NFT_CMP_EQ, &protocol, 1);
}

void nf_match_user(struct netlink *link, uint32_t uid) {
    netlink_nf_meta(link, NFT_META_SKUID);
    netlink_nf_compare(link, NFT_CMP_EQ, &uid, sizeof uid);
}

void nf_match_interface(struct netlink *link, bool from, const char *name, bool equal) {
    char whole[IFNAMSIZ] = "";
    size_t len = strcspn(name, "*");
    memcpy(whole, name, len < sizeof whole ? len : sizeof whole - 1);
    netlink_nf_meta(link, from ? NFT_META_IIFNAME : NFT_META_OIFNAME);
    netlink_nf_compare(link, equal ? NFT_CMP_EQ : NFT_CMP_NEQ, whole, name[len] ? len : sizeof whole);
}

void nf_match_local(struct netlink *link) {
    static const uint32_t others = RTN_UNICAST;
    struct netlink_nf_expression at = netlink_nf_expression(link, "fib");
    netlink_be32(link, NFTA_FIB_DREG, NFT_REG_1);
    netlink_be32(link, NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
    netlink_be32(link, NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
    netlink_nf_expression_end(link, at);
    netlink_nf_compare(link, NFT_CMP_NEQ, &others, sizeof others);
}

/* Some of these bits of a connection are set, or none. */
static void netlink_nf_connection(struct netlink *link, enum nft_ct_keys key, uint32_t bits, bool set) {
    static const uint32_t none;
    struct netlink_nf_expression at = netlink_nf_expression(link, "ct");
    netlink_be32(link, NFTA_CT_DREG, NFT_REG_1);
    netlink_be32(link, NFTA_CT_KEY, key);
    netlink_nf_expression_end(link, at);
    netlink_nf_mask(link, &bits, sizeof bits);
    netlink_nf_compare(link, set ? NFT_CMP_NEQ : NFT_CMP_EQ, &none, sizeof none);
}

void nf_match_established(struct netlink *link) {
    netlink_nf_connection(link, NFT_CT_STATE, NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED),
                          true);
}

void nf_match_new(struct netlink *link) {
    netlink_nf_connection(link, NFT_CT_STATE, NF_CT_STATE_BIT(IP_CT_NEW), true);
    netlink_nf_connection(link, NFT_CT_STATUS, IPS_CONFIRMED, false);
}

void nf_over_rate(struct netlink *link, const char *rate) {
    struct netlink_nf_expression at = netlink_nf_expression(link, "objref");
    netlink_be32(link, NFTA_OBJREF_IMM_TYPE, NFT_OBJECT_LIMIT);
    netlink_text(link, NFTA_OBJREF_IMM_NAME, rate);
    netlink_nf_expression_end(link, at);
}

void nf_over_count(struct netlink *link, const char *set, uint32_t count) {
    netlink_nf_meta(link, NFT_META_NFPROTO);
    struct netlink_nf_expression at = netlink_nf_expression(link, "dynset");
    netlink_text(link, NFTA_DYNSET_SET_NAME, set);
    netlink_be32(link, NFTA_DYNSET_OP, NFT_DYNSET_OP_ADD);
    netlink_be32(link, NFTA_DYNSET_SREG_KEY, NFT_REG_1);
    size_t counts = netlink_nest(link, NFTA_DYNSET_EXPR);
    netlink_text(link, NFTA_EXPR_NAME, "connlimit");
    size_t data = netlink_nest(link, NFTA_EXPR_DATA);
    netlink_be32(link, NFTA_CONNLIMIT_COUNT, count);
    netlink_be32(link, NFTA_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
    netlink_unnest(link, data);
    netlink_unnest(link, counts);
    netlink_nf_expression_end(link, at);
}

void nf_match_port(struct netlink *link, uint16_t first, uint16_t last) {
    const uint16_t low = htons(first), high = htons(last);
    netlink_nf_load(link, NF_TRANSPORT_HEADER, 2, 2);
    netlink_nf_compare(link, first == last ? NFT_CMP_EQ : NFT_CMP_GTE, &low, sizeof low);
    if (first != last)
        netlink_nf_compare(link, NFT_CMP_LTE, &high, sizeof high);
}

static void netlink_nf_match_network(struct netlink *link, uint32_t offset, const char *network, bool equal) {
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
    nf_match(link, NF_NETWORK_HEADER, offset, 4, &mask, equal, &address.s_addr);
}

void nf_match_network(struct netlink *link, const char *network) {
    netlink_nf_match_network(link, 16, network, true);
}

void nf_match_address(struct netlink *link, const struct address_network *to) {
    bool v4 = address_v4(&to->address);
    uint32_t len = v4 ? 4 : 16, bits = to->bits - (v4 ? 96 : 0);
    uint8_t mask[16] = {0};
    for (uint32_t i = 0; i < bits && i < len * 8; i++)
        mask[i / 8] |= (uint8_t)(0x80 >> i % 8);
    nf_match_family(link, v4 ? NFPROTO_IPV4 : NFPROTO_IPV6);
    nf_match(link, NF_NETWORK_HEADER, v4 ? 16 : 24, len, mask, true, to->address.bytes + 16 - len);
}

void nf_match_source(struct netlink *link, const char *network, bool equal) {
    netlink_nf_match_network(link, 12, network, equal);
}

static void netlink_nf_verdict(struct netlink *link, uint16_t type, int code, const char *chain) {
    size_t data = netlink_nest(link, type), verdict = netlink_nest(link, NFTA_DATA_VERDICT);
    netlink_be32(link, NFTA_VERDICT_CODE, (uint32_t)code);
    if (chain)
        netlink_text(link, NFTA_VERDICT_CHAIN, chain);
    netlink_unnest(link, verdict);
    netlink_unnest(link, data);
}

static void netlink_nf_end(struct netlink *link, int code, const char *chain) {
    struct netlink_nf_expression at = netlink_nf_expression(link, "immediate");
    netlink_be32(link, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    netlink_nf_verdict(link, NFTA_IMMEDIATE_DATA, code, chain);
    netlink_nf_expression_end(link, at);
}

void nf_accept(struct netlink *link) {
    netlink_nf_end(link, NF_ACCEPT, NULL);
}

void nf_drop(struct netlink *link) {
    netlink_nf_end(link, NF_DROP, NULL);
}

void nf_goto(struct netlink *link, const char *chain) {
    netlink_nf_end(link, NFT_GOTO, chain);
}

void nf_jump(struct netlink *link, const char *chain) {
    netlink_nf_end(link, NFT_JUMP, chain);
}

static void netlink_nf_element(struct netlink *link, const struct nf_table *table, const char *map,
                               const char *interface, const char *chain) {
    char key[IFNAMSIZ] = "";
    snprintf(key, sizeof key, "%s", interface);
    netlink_nf_object(link, chain ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM, chain ? NLM_F_CREATE : 0, table, map);
    size_t elements = netlink_nest(link, NFTA_SET_ELEM_LIST_ELEMENTS), element = netlink_nest(link, NFTA_LIST_ELEM);
    netlink_nf_data(link, NFTA_SET_ELEM_KEY, key, sizeof key);
    if (chain)
        netlink_nf_verdict(link, NFTA_SET_ELEM_DATA, NFT_GOTO, chain);
    netlink_unnest(link, element);
    netlink_unnest(link, elements);
}

void nf_map_put(struct netlink *link, const struct nf_table *table, const char *map, const char *interface,
                const char *chain) {
    netlink_nf_element(link, table, map, interface, chain);
}

void nf_map_drop(struct netlink *link, const struct nf_table *table, const char *map, const char *interface) {
    netlink_nf_element(link, table, map, interface, NULL);
}

void nf_goto_by_interface(struct netlink *link, const char *map) {
    netlink_nf_meta(link, NFT_META_IIFNAME);
    struct netlink_nf_expression at = netlink_nf_expression(link, "lookup");
    netlink_text(link, NFTA_LOOKUP_SET, map);
    netlink_be32(link, NFTA_LOOKUP_SREG, NFT_REG_1);
    netlink_be32(link, NFTA_LOOKUP_DREG, NFT_REG_VERDICT);
    netlink_nf_expression_end(link, at);
}

void nf_masquerade(struct netlink *link) {
    netlink_nf_expression_end(link, netlink_nf_expression(link, "masq"));
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

void nf_prohibit(struct netlink *link) {
    netlink_nf_reject(link, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
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
