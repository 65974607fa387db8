/* The ClientHello of TLS: which name does the client want? Pure. */
#ifndef CUBBY_GATE_HELLO_H
#define CUBBY_GATE_HELLO_H

#include "base/base.h"
#include "gate/gate_policy.h"

enum hello { HELLO_MORE, HELLO_NAME, HELLO_NONE /* whole, without a name */, HELLO_NOT_TLS, HELLO_BAD };

/* data: what the client has sent so far, from its first byte on, over as many records as it likes. HELLO_NAME: the name
 * as gate_name writes it. HELLO_BAD: not what a client sends, or a name that no policy can hold. */
enum hello hello_parse(const uint8_t *data, size_t len, char ret_name[GATE_NAME_BYTES + 1]);

#endif
