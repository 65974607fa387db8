/* What a gate may reach at most, by the host's kernel: a table for its user alone. As root. */
#ifndef CUBBY_BACKEND_GATE_WALL_H
#define CUBBY_BACKEND_GATE_WALL_H

#include <sys/types.h>

#include "http/address.h"

/* Lists are NULL-terminated and may be NULL; slot: that the gate's user is of. 0, or -errno of the kernel. */
int wall_make(unsigned slot, uid_t uid, const char *const *resolvers, const char *const *open_networks,
              const char *const *host_ports);
void wall_drop(unsigned slot);

#endif
