/* How the runner of a container gets its wires where it and its daemon are on one machine: it connects to a socket
 * that is mounted into the container, and is sent two messages of one byte, each with a descriptor, in this order.
 * Both sockets were made outside: neither has a name in the container's network namespace, and the connection itself
 * is closed. Shared by runner/container.c and backend/docker/wire.c. */
#ifndef CUBBY_WIRE_DIAL_H
#define CUBBY_WIRE_DIAL_H

#define DIAL_WIRE 'w'   /* one end of a socket pair: the first wire */
#define DIAL_LISTEN 'l' /* a listening socket that has a name outside of the container: further wires */
#define DIAL_WAIT_MS 60000u

#endif
