/* How the runner of a container gets its wire where it and its daemon are on one machine: it connects to a socket that is
 * mounted into the container, and is sent one byte with a descriptor. Then the same connection is its first wire. Shared by runner/dial.c and backend/docker_wire.c. */
#ifndef CUBBY_WIRE_DIAL_H
#define CUBBY_WIRE_DIAL_H

#define DIAL_LISTEN 'l' /* a listening socket that has a name outside of the container: further wires */
#define DIAL_WAIT_MS 60000u

#endif
