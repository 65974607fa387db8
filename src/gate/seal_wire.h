/* One message of the gate to a box's seal, for each connection to an inspected host: SEQPACKET, this header, then the
 * host, then the bytes of the client that were read already (its ClientHello). With it two descriptors: the client's
 * connection, and the one to the host, which is connected. */
#ifndef CUBBY_GATE_SEAL_WIRE_H
#define CUBBY_GATE_SEAL_WIRE_H

#include <stdint.h>

enum { SEAL_WIRE_VERSION = 1, SEAL_PEEKED_BYTES = 20480, SEAL_HOST_BYTES = 253 };

struct seal_connection {
    uint16_t version, port, host_len, peeked_len;
    uint64_t cgroup;     /* inode of the cgroup of the command that connects; 0: not known */
    uint64_t connection; /* the gate's number of it, for rows that belong together */
};

#endif
