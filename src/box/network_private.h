/* Shared by network.c, network_report.c and network_seal.c. */
#ifndef CUBBY_BOX_NETWORK_PRIVATE_H
#define CUBBY_BOX_NETWORK_PRIVATE_H

#include "backend/gate/served.h"
#include "box/network.h"
#include "box/provider/provider_private.h"

enum {
    NETWORK_BUCKETS = 256,
    NETWORK_DENIALS = 64,
    NETWORK_COMMANDS = 64,
    NETWORK_SEEN = 256,
    NETWORK_QUESTIONS = 64,
    NETWORK_TO_BYTES = 272
};

struct network_denial {
    uint64_t number, group; /* counted up over all boxes */
    struct exec_denial denial;
};

struct network_command {
    uint64_t group, pid;
    char text[96]; /* its beginning */
};

struct network_seen { /* a destination that was reached or tried, for network_learned */
    char name[GATE_NAME_BYTES + 1], address[ADDRESS_BYTES];
    uint16_t port;
    bool udp;
};

/* One life of a box with a policy. */
struct network_life {
    struct network_life *next;
    struct networks *network;
    char id[17], *user;
    bool gone;
    struct served served;                           /* of a box on this machine */
    struct network_denial denials[NETWORK_DENIALS]; /* a ring */
    unsigned denial_count;
    uint64_t sealed_in, sealed_out; /* bytes of inspected connections */
    struct {
        uint64_t number;
        char to[NETWORK_TO_BYTES];
    } questions[NETWORK_QUESTIONS]; /* a ring */
    unsigned question_count;
    struct network_command commands[NETWORK_COMMANDS]; /* a ring */
    unsigned command_count;
    struct network_seen *seen;
    size_t seen_count, seen_size;
};

/* The gate of a machine that joined. */
struct network_far {
    struct network_far *next;
    const struct backend_ops *ops;
    struct backend *backend;
    char *user, *machine;
    struct gate *gate;
};

/* Everything under `lock`, which is never held while the gate is called. */
struct networks {
    struct provider *provider;
    pthread_mutex_t lock, gate_lock;
    struct gate *gate;       /* under gate_lock until it is set, then for good */
    struct network_far *far; /* likewise */
    struct network_life *lives[NETWORK_BUCKETS];
    uint64_t number;
};

/* ---- network_report.c ---- */

void network_event(void *user, const struct gate_row *row); /* gate_hooks.event; user: the networks */
/* What a question is about, as an entry; "": there is no such question. */
void network_question(struct networks *network, const char *id, uint64_t question, char ret_to[NETWORK_TO_BYTES]);
void network_sealed_bytes(struct networks *network, const char *id, uint64_t *ret_in, uint64_t *ret_out);
struct network_life *network_life(struct networks *network, const struct box *box);
bool network_life_end(struct network_life *life);

/* ---- network.c ---- */

struct gate *network_gate_of(struct networks *network, const struct box *box); /* NULL: none serves it yet */
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
