/* Shared by network.c and network_seal.c. */
#ifndef CUBBY_BOX_NETWORK_PRIVATE_H
#define CUBBY_BOX_NETWORK_PRIVATE_H

#include "backend/gate/gate.h"
#include "box/network.h"
#include "box/provider/provider_private.h"

int network_parse(const char *text, struct gate_policy **ret_policy, struct buf *warnings, struct err *err);

/* The levels as one JSON array, and parsed. */
struct network_levels {
    struct gate_policy *policies[GATE_LEVELS];
    struct buf text;
    bool headers; /* set before: the text has the values of headers; for seals alone */
};
int network_levels(struct provider *provider, const char *user, const char *own, struct network_levels *levels,
                   struct err *err);
void network_levels_done(struct network_levels *levels);
#define autolevels __attribute__((cleanup(network_levels_done))) struct network_levels

/* gate_hooks.seal; user: the provider. */
int network_seal(void *user, const char *id, const char *host);
/* The hosts of its secrets as a JSON array, appended; nothing: none. With err each must be one that the policy allows. */
int network_inspect(struct provider *provider, const struct box *box, const struct network_levels *levels,
                    struct buf *ret_text, struct err *err);

/* A network whose headers have no values, for the gate and for logs; to be freed. NULL: it has none. */
char *network_without_headers(const char *text);

#endif
