/* Addresses and their classes (gate_address.h). The tables here are the only list of them: filters in the kernel are
 * made from the same rows. */
#include "gate/gate_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>

#include "base/base.h"

static const uint8_t gate_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* 168.63.129.16 is a public address: Azure's wire server. 100.100.100.200 and 192.0.0.192 are metadata services. */
static const char *const gate_never4[] = {"0.0.0.0/8",        "127.0.0.0/8",        "169.254.0.0/16",
                                          "168.63.129.16/32", "192.0.0.192/32",     "224.0.0.0/4",
                                          "240.0.0.0/4",      "100.100.100.200/32", NULL};
static const char *const gate_private4[] = {
    "10.0.0.0/8",   "172.16.0.0/12", "192.168.0.0/16",  "100.64.0.0/10",  "192.0.0.0/24",
    "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", NULL};
/* 64:ff9b:1::/48 and Teredo hide an address that cannot be taken out of them for certain. */
static const char *const gate_never6[] = {"::/128",         "::1/128",           "fe80::/10",
                                          "ff00::/8",       "fd00:ec2::254/128", "fd20:ce::254/128",
                                          "64:ff9b:1::/48", "2001::/32",         NULL};
static const char *const gate_private6[] = {"fc00::/7", "2001:db8::/32", "fec0::/10", NULL};
/* IPv4 inside of IPv6: where its four bytes begin. */
static const struct {
    const char *network;
    unsigned at;
} gate_wraps[] = {{"::ffff:0:0/96", 12}, {"64:ff9b::/96", 12}, {"2002::/16", 2}, {"::/96", 12}};
#define GATE_WRAPS (sizeof gate_wraps / sizeof *gate_wraps)

/* The rows above as numbers: every decision looks at them. */
enum gate_list { NEVER4, PRIVATE4, NEVER6, PRIVATE6, GATE_LISTS, GATE_LIST_MOST = 12 };
static pthread_once_t gate_once = PTHREAD_ONCE_INIT;
static struct gate_network gate_lists[GATE_LISTS][GATE_LIST_MOST], gate_wrapped[GATE_WRAPS];
static size_t gate_list_counts[GATE_LISTS];

bool gate_address_v4(const struct gate_address *address) {
    return memcmp(address->bytes, gate_mapped, sizeof gate_mapped) == 0;
}

bool gate_address_text(const char *text, struct gate_address *ret_address) {
    struct gate_address found;
    if (inet_pton(AF_INET, text, found.bytes + 12) == 1)
        memcpy(found.bytes, gate_mapped, sizeof gate_mapped);
    else if (inet_pton(AF_INET6, text, found.bytes) != 1)
        return false;
    *ret_address = found;
    return true;
}

const char *gate_address_shown(const struct gate_address *address, char text[GATE_ADDRESS_BYTES]) {
    bool v4 = gate_address_v4(address);
    return inet_ntop(v4 ? AF_INET : AF_INET6, address->bytes + (v4 ? 12 : 0), text, GATE_ADDRESS_BYTES);
}

bool gate_address_from(const struct sockaddr *address, struct gate_address *ret_address, uint16_t *ret_port) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        memcpy(ret_address->bytes, gate_mapped, sizeof gate_mapped);
        memcpy(ret_address->bytes + 12, &in->sin_addr, 4);
        *ret_port = ntohs(in->sin_port);
        return true;
    }
    if (address->sa_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
    memcpy(ret_address->bytes, &in6->sin6_addr, 16);
    *ret_port = ntohs(in6->sin6_port);
    return true;
}

socklen_t gate_address_to(const struct gate_address *address, uint16_t port, struct sockaddr_storage *ret_address) {
    memset(ret_address, 0, sizeof *ret_address);
    if (gate_address_v4(address)) {
        struct sockaddr_in *in = (struct sockaddr_in *)ret_address;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, address->bytes + 12, 4);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_address;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    memcpy(&in6->sin6_addr, address->bytes, 16);
    return sizeof *in6;
}

static struct gate_address gate_address_masked(const struct gate_address *address, unsigned bits) {
    struct gate_address masked = *address;
    for (unsigned i = 0; i < 16; i++)
        masked.bytes[i] &= bits >= (i + 1) * 8 ? 0xff : bits <= i * 8 ? 0 : (uint8_t)(0xff00 >> (bits - i * 8));
    return masked;
}

int gate_network_text(const char *text, struct gate_network *ret_network, struct err *err) {
    char copy[GATE_ADDRESS_BYTES + 8], shown[GATE_ADDRESS_BYTES];
    struct gate_network found;
    uint64_t bits = 0;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return err_set(err, ERR_INVALID, "'%.60s' is not an address", text);
    char *slash = strchr(copy, '/');
    if (slash)
        *slash++ = 0;
    if (!gate_address_text(copy, &found.address))
        return err_set(err, ERR_INVALID, "'%s' is not an address", copy);
    unsigned most = gate_address_v4(&found.address) && !strchr(copy, ':') ? 32 : 128;
    if (slash && !text_u64(slash, most, &bits))
        return err_set(err, ERR_INVALID, "'%s' is not a number of bits from 0 to %u", slash, most);
    found.bits = (uint8_t)((slash ? bits : most) + 128 - most);
    struct gate_address masked = gate_address_masked(&found.address, found.bits);
    if (memcmp(&masked, &found.address, sizeof masked) != 0)
        return err_set(err, ERR_INVALID, "'%s' has bits set after the first %u; write %s/%u", text, (unsigned)bits,
                       gate_address_shown(&masked, shown), (unsigned)bits);
    *ret_network = found;
    return 0;
}

bool gate_network_has(const struct gate_network *network, const struct gate_address *address) {
    struct gate_address masked = gate_address_masked(address, network->bits);
    return memcmp(&masked, &network->address, sizeof masked) == 0;
}

static void gate_lists_read(void) {
    static const char *const *const texts[GATE_LISTS] = {gate_never4, gate_private4, gate_never6, gate_private6};
    for (size_t i = 0; i < GATE_LISTS; i++)
        for (const char *const *text = texts[i]; *text; text++)
            gate_list_counts[i] += gate_network_text(*text, &gate_lists[i][gate_list_counts[i]], ERR_IGNORED) == 0;
    for (size_t i = 0; i < GATE_WRAPS; i++)
        gate_network_text(gate_wraps[i].network, &gate_wrapped[i], ERR_IGNORED);
}

static bool gate_address_listed(enum gate_list list, const struct gate_address *address) {
    for (size_t i = 0; i < gate_list_counts[list]; i++)
        if (gate_network_has(&gate_lists[list][i], address))
            return true;
    return false;
}

enum gate_class gate_address_class(const struct gate_address *address) {
    struct gate_address inner = *address;
    pthread_once(&gate_once, gate_lists_read);
    if (!gate_address_v4(&inner)) {
        if (gate_address_listed(NEVER6, &inner))
            return GATE_NEVER;
        if (gate_address_listed(PRIVATE6, &inner))
            return GATE_PRIVATE;
    }
    for (size_t i = 0; i < GATE_WRAPS; i++) {
        if (!gate_network_has(&gate_wrapped[i], &inner))
            continue;
        memmove(inner.bytes + 12, inner.bytes + gate_wraps[i].at, 4);
        memcpy(inner.bytes, gate_mapped, sizeof gate_mapped);
        return gate_address_listed(NEVER4, &inner)     ? GATE_NEVER
               : gate_address_listed(PRIVATE4, &inner) ? GATE_PRIVATE
                                                       : GATE_PUBLIC;
    }
    return GATE_PUBLIC;
}

const char *const *gate_class_networks(enum gate_class class) {
    return class == GATE_NEVER ? gate_never4 : gate_private4;
}
