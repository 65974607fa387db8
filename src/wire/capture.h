/* The sockets through which all traffic of a box with a network policy is caught. They are made inside the box's network
 * namespace, by whoever may enter it, and held outside: a listening socket belongs to the namespace it was made in,
 * whoever holds it. */
#ifndef CUBBY_WIRE_CAPTURE_H
#define CUBBY_WIRE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CAPTURE_ADDRESS 0x0acc0002u  /* 10.204.0.2: the box's own, on its loopback; the same in every box */
#define CAPTURE_LISTENER 0x7ffffffeu /* 127.255.255.254, port 1: taken by no program of the box */
#define CAPTURE_RESOLVER 0x7f000035u /* 127.0.0.53, port 53 */
#define CAPTURE_UDP_MAX 16

enum capture_socket {
    CAPTURE_TCP,     /* listens for every connection */
    CAPTURE_DNS_UDP, /* every datagram to port 53 */
    CAPTURE_DNS_TCP, /* listens at the resolver's address */
    CAPTURE_DIAG,    /* asks which command a connection belongs to */
    CAPTURE_ROUTE,   /* rtnetlink and nfnetlink: for the box's route and table */
    CAPTURE_NETFILTER,
    CAPTURE_UDP, /* and following: one for each UDP port of the policy */
    CAPTURE_MAX = CAPTURE_UDP + CAPTURE_UDP_MAX,
};

/* In the network namespace of the calling thread. All or nothing; the caller closes them. again: those before
 * CAPTURE_ROUTE are held already, and -1 here. BUSY: somebody else holds such sockets of this box, or a program of the
 * box has taken the port. */
int capture_make(bool again, const uint16_t *ports, size_t count, int ret_fds[CAPTURE_MAX], struct err *err);
void capture_close(int fds[CAPTURE_MAX]);

#endif
