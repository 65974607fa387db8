/* Addresses and their classes (address.h). Invariant: the rows below are the only list of them; packet filters in the
 * kernel are made from the same rows. */
#include "http/address.h"

#include <arpa/inet.h>
#include <pthread.h>

#include "base/base.h"

static const uint8_t address_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* The first row that has an address counts. 168.63.129.16 is public: Azure's wire server. 100.100.100.200, 192.0.0.192,
 * fd00:ec2::254 and fd20:ce::254 are metadata services. 64:ff9b:1::/48 and Teredo hide an IPv4 address that cannot be
 * taken out of them for certain. */
static const struct {
    const char *network;
    enum address_class class;
    bool nowhere; /* of no use to anybody: not even where an administrator named the host */
} address_rows[] = {
    {"0.0.0.0/8", ADDRESS_NEVER, true},
    {"127.0.0.0/8", ADDRESS_NEVER, false},
    {"169.254.0.0/16", ADDRESS_NEVER, true},
    {"168.63.129.16/32", ADDRESS_NEVER, false},
    {"192.0.0.192/32", ADDRESS_NEVER, false},
    {"100.100.100.200/32", ADDRESS_NEVER, false},
    {"224.0.0.0/3", ADDRESS_NEVER, true},
    {"10.0.0.0/8", ADDRESS_PRIVATE, false},
    {"172.16.0.0/12", ADDRESS_PRIVATE, false},
    {"192.168.0.0/16", ADDRESS_PRIVATE, false},
    {"100.64.0.0/10", ADDRESS_PRIVATE, false},
    {"192.0.0.0/24", ADDRESS_PRIVATE, false},
    {"192.0.2.0/24", ADDRESS_PRIVATE, false},
    {"198.18.0.0/15", ADDRESS_PRIVATE, false},
    {"198.51.100.0/24", ADDRESS_PRIVATE, false},
    {"203.0.113.0/24", ADDRESS_PRIVATE, false},
    {"::/128", ADDRESS_NEVER, true},
    {"::1/128", ADDRESS_NEVER, false},
    {"fe80::/10", ADDRESS_NEVER, true},
    {"ff00::/8", ADDRESS_NEVER, true},
    {"fd00:ec2::254/128", ADDRESS_NEVER, false},
    {"fd20:ce::254/128", ADDRESS_NEVER, false},
    {"64:ff9b:1::/48", ADDRESS_NEVER, false},
    {"2001::/32", ADDRESS_NEVER, false},
    {"2001:db8::/32", ADDRESS_PRIVATE, false},
    {"fc00::/7", ADDRESS_PRIVATE, false},
    {"fec0::/10", ADDRESS_PRIVATE, false},
    {"100::/64", ADDRESS_NEVER, true},
    {"4000::/2", ADDRESS_PRIVATE, false}, /* this and the next: not assigned to anybody */
    {"8000::/1", ADDRESS_PRIVATE, false},
};
/* IPv4 inside of IPv6: where its four bytes begin. */
static const struct {
    const char *network;
    unsigned at;
} address_wraps[] = {{"64:ff9b::/96", 12}, {"2002::/16", 2}, {"::/96", 12}};
enum {
    ADDRESS_ROWS = sizeof address_rows / sizeof *address_rows,
    ADDRESS_WRAPS = sizeof address_wraps / sizeof *address_wraps
};

/* The same, parsed once. */
static struct address_network address_parsed[ADDRESS_ROWS], address_wrapped[ADDRESS_WRAPS];
static const char *address_lists[ADDRESS_CLASSES][2][ADDRESS_ROWS + 1]; /* of IPv4, of IPv6 */
static pthread_once_t address_once = PTHREAD_ONCE_INIT;

bool address_v4(const struct address *address) {
    return memcmp(address->bytes, address_mapped, sizeof address_mapped) == 0;
}

bool address_text(const char *text, struct address *ret_address) {
    struct address found;
    if (inet_pton(AF_INET, text, found.bytes + 12) == 1)
        memcpy(found.bytes, address_mapped, sizeof address_mapped);
    else if (inet_pton(AF_INET6, text, found.bytes) != 1)
        return false;
    *ret_address = found;
    return true;
}

const char *address_shown(const struct address *address, char text[ADDRESS_BYTES]) {
    bool v4 = address_v4(address);
    return inet_ntop(v4 ? AF_INET : AF_INET6, address->bytes + (v4 ? 12 : 0), text, ADDRESS_BYTES);
}

bool address_from(const struct sockaddr *address, struct address *ret_address, uint16_t *ret_port) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        memcpy(ret_address->bytes, address_mapped, sizeof address_mapped);
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

socklen_t address_to(const struct address *address, uint16_t port, struct sockaddr_storage *ret_address) {
    memset(ret_address, 0, sizeof *ret_address);
    if (address_v4(address)) {
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

static struct address address_masked(const struct address *address, unsigned bits) {
    struct address masked = *address;
    for (unsigned i = 0; i < 16; i++)
        masked.bytes[i] &= bits >= (i + 1) * 8 ? 0xff : bits <= i * 8 ? 0 : (uint8_t)(0xff00 >> (bits - i * 8));
    return masked;
}

int address_network_text(const char *text, struct address_network *ret_network, struct err *err) {
    char copy[ADDRESS_BYTES + 8], shown[ADDRESS_BYTES];
    struct address_network found;
    uint64_t bits = 0;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return err_set(err, ERR_INVALID, "'%.60s' is not an address", text);
    char *slash = strchr(copy, '/');
    if (slash)
        *slash++ = 0;
    if (!address_text(copy, &found.address))
        return err_set(err, ERR_INVALID, "'%s' is not an address", copy);
    unsigned most = address_v4(&found.address) && !strchr(copy, ':') ? 32 : 128;
    if (slash && !text_u64(slash, most, &bits))
        return err_set(err, ERR_INVALID, "'%s' is not a number of bits from 0 to %u", slash, most);
    found.bits = (uint8_t)((slash ? bits : most) + 128 - most);
    struct address masked = address_masked(&found.address, found.bits);
    if (memcmp(&masked, &found.address, sizeof masked) != 0)
        return err_set(err, ERR_INVALID, "'%s' has bits set after the first %u; write %s/%u", text, (unsigned)bits,
                       address_shown(&masked, shown), (unsigned)bits);
    *ret_network = found;
    return 0;
}

bool address_network_has(const struct address_network *network, const struct address *address) {
    struct address masked = address_masked(address, network->bits);
    return memcmp(&masked, &network->address, sizeof masked) == 0;
}

static void address_parse_rows(void) {
    size_t counts[ADDRESS_CLASSES][2] = {0};
    for (size_t i = 0; i < ADDRESS_ROWS; i++) {
        enum address_class class = address_rows[i].class;
        if (address_network_text(address_rows[i].network, &address_parsed[i], ERR_IGNORED) < 0)
            abort();
        bool v6 = !address_v4(&address_parsed[i].address);
        address_lists[class][v6][counts[class][v6]++] = address_rows[i].network;
    }
    for (size_t i = 0; i < ADDRESS_WRAPS; i++)
        if (address_network_text(address_wraps[i].network, &address_wrapped[i], ERR_IGNORED) < 0)
            abort();
}

static size_t address_row(const struct address *address) {
    size_t row = 0;
    while (row < ADDRESS_ROWS && !address_network_has(&address_parsed[row], address))
        row++;
    return row;
}

/* The row of what the address leads to; ADDRESS_ROWS: none. */
static size_t address_find(const struct address *address) {
    pthread_once(&address_once, address_parse_rows);
    size_t row = address_row(address);
    for (size_t i = 0; row == ADDRESS_ROWS && i < ADDRESS_WRAPS; i++) {
        if (!address_network_has(&address_wrapped[i], address))
            continue;
        struct address inner;
        memcpy(inner.bytes, address_mapped, sizeof address_mapped);
        memcpy(inner.bytes + 12, address->bytes + address_wraps[i].at, 4);
        return address_row(&inner);
    }
    return row;
}

enum address_class address_class(const struct address *address) {
    size_t row = address_find(address);
    return row < ADDRESS_ROWS ? address_rows[row].class : ADDRESS_PUBLIC;
}

bool address_nowhere(const struct address *address) {
    size_t row = address_find(address);
    return row < ADDRESS_ROWS && address_rows[row].nowhere;
}

const char *const *address_networks(enum address_class class, bool v6) {
    pthread_once(&address_once, address_parse_rows);
    return address_lists[class][v6];
}
