/* Addresses that a box may aim at, in one form for both families, and the classes that decide whether any policy can
 * open them. Pure. */
#ifndef CUBBY_GATE_GATE_ADDRESS_H
#define CUBBY_GATE_GATE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

/* IPv6, or IPv4 as ::ffff:A.B.C.D. */
struct gate_address {
    uint8_t bytes[16];
};

struct gate_network {
    struct gate_address address;
    uint8_t bits; /* of 128; those of an IPv4 network count from 96 */
};

enum gate_class {
    GATE_PUBLIC,
    GATE_PRIVATE, /* only where a CIDR entry or `private` allows it, and open_networks has it */
    GATE_NEVER,   /* no list opens it: this machine, its neighbours on the wire, metadata services, groups */
};

#define GATE_ADDRESS_BYTES 48

/* What the address leads to: IPv4 inside of IPv6 (mapped, NAT64, 6to4) counts as that IPv4 address. */
enum gate_class gate_address_class(const struct gate_address *address);
bool gate_address_v4(const struct gate_address *address);
bool gate_address_text(const char *text, struct gate_address *ret_address); /* as inet_pton reads it; false: neither */
const char *gate_address_shown(const struct gate_address *address, char text[GATE_ADDRESS_BYTES]);
/* From and to the kernel's form. port in host order. */
bool gate_address_from(const struct sockaddr *address, struct gate_address *ret_address, uint16_t *ret_port);
socklen_t gate_address_to(const struct gate_address *address, uint16_t port, struct sockaddr_storage *ret_address);

/* "A.B.C.D[/BITS]" or "IPv6[/BITS]". INVALID: malformed, or host bits are set, with the form to use. */
int gate_network_text(const char *text, struct gate_network *ret_network, struct err *err);
bool gate_network_has(const struct gate_network *network, const struct gate_address *address);

/* IPv4 networks of GATE_NEVER or GATE_PRIVATE as "A.B.C.D/BITS", NULL-terminated: what a packet filter needs of the list above. */
const char *const *gate_class_networks(enum gate_class class);

#endif
