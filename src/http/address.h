/* Internet addresses in one form for both families, and the classes that decide who may connect to them: network
 * policies, network `open`, and the daemon's own HTTP client. Pure. */
#ifndef CUBBY_HTTP_ADDRESS_H
#define CUBBY_HTTP_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

/* IPv6, or IPv4 as ::ffff:A.B.C.D. */
struct address {
    uint8_t bytes[16];
};

struct address_network {
    struct address address;
    uint8_t bits; /* of 128; those of an IPv4 network count from 96 */
};

enum address_class {
    ADDRESS_PUBLIC,
    ADDRESS_PRIVATE, /* only where a CIDR entry or `private` allows it, and open_networks has it */
    ADDRESS_NEVER,   /* no list opens it: this machine, its neighbours on the wire, metadata services, groups */
    ADDRESS_CLASSES,
};

#define ADDRESS_BYTES 48

/* What the address leads to: IPv4 inside of IPv6 (mapped, NAT64, 6to4) counts as that IPv4 address. */
enum address_class address_class(const struct address *address);
bool address_nowhere(const struct address *address); /* link-local, a group, or no address at all */
bool address_v4(const struct address *address);
bool address_text(const char *text, struct address *ret_address); /* as inet_pton reads it; false: neither */
const char *address_shown(const struct address *address, char text[ADDRESS_BYTES]);
/* From and to the kernel's form. port in host order. */
bool address_from(const struct sockaddr *address, struct address *ret_address, uint16_t *ret_port);
socklen_t address_to(const struct address *address, uint16_t port, struct sockaddr_storage *ret_address);

/* "A.B.C.D[/BITS]" or "IPv6[/BITS]". INVALID: malformed, or host bits are set, with the form to use. */
int address_network_text(const char *text, struct address_network *ret_network, struct err *err);
bool address_network_has(const struct address_network *network, const struct address *address);

/* The networks of a class and a family as text, NULL-terminated: what a packet filter needs. ADDRESS_PUBLIC has none. */
const char *const *address_networks(enum address_class class, bool v6);

#endif
