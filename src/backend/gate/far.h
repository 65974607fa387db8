/* Messages of gate_wire.h over a stream, between a server and the machine that has the gate: each is a u32 length (little
 * endian), a struct gate_message, and what goes with it: the JSON of GATE_BOX, rows, counts. Both ends are of one
 * version. Neither end believes the other: lengths are bounded, kinds and texts are checked by the reader. */
#ifndef CUBBY_BACKEND_GATE_FAR_H
#define CUBBY_BACKEND_GATE_FAR_H

#include "gate/gate_wire.h"

enum { FAR_BYTES = GATE_JSON_BYTES + (int)sizeof(struct gate_message) };

/* False: the other end is gone, or did not read in time. */
bool far_send(int socket, const struct gate_message *message, const void *more, size_t len);
/* One message into bytes, of `size`; its length. 0: the end, or longer than that. */
size_t far_recv(int socket, uint8_t *bytes, size_t size);

#endif
