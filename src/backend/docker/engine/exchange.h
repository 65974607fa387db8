/* One request and its answer over one connection. Called by engine.c (calls), engine/stream.c (connections that become
 * streams). Invariant: after a failure the connection is of no use to anybody else. */
#ifndef CUBBY_BACKEND_ENGINE_EXCHANGE_H
#define CUBBY_BACKEND_ENGINE_EXCHANGE_H

#include "backend/docker/engine/engine.h"
#include "backend/docker/engine/http.h"
#include "backend/docker/engine/link.h"

struct engine_exchange {
    const struct engine_place *place;
    const struct engine_call *call;
    struct engine_link *link;
    unsigned minor; /* of the API's version in the path; 0: none there */
    bool upgrade;   /* the connection becomes a stream of bytes */
    struct engine_wait wait;
    uint64_t timeout_ms;
    bool cut;      /* not all of the request was sent */
    bool answered; /* a byte of the answer came */
    bool reusable; /* afterwards: the connection is whole and idle */
    struct engine_head head;
};
int engine_exchange_ask(struct engine_exchange *exchange, struct err *err); /* request and its body */
int engine_exchange_head(struct engine_exchange *exchange, struct err *err);
int engine_exchange_body(struct engine_exchange *exchange, struct buf *out, struct err *err); /* out may be NULL */

/* ---- engine.c ---- */

const struct engine_place *engine_place(const struct engine *engine);
/* A connection nobody used before, for who keeps it. */
int engine_connect(struct engine *engine, const struct engine_wait *wait, struct engine_link **ret_link,
                   struct err *err);
/* engine_do with a descriptor that ends it when it becomes readable. */
int engine_do_until(struct engine *engine, const struct engine_call *call, int wake_fd, int *ret_status,
                    struct buf *out, struct err *err);

/* ---- engine/place.c ---- */

int engine_place_find(const struct engine_where *where, struct engine_place *ret_place, struct err *err);
void engine_place_done(struct engine_place *place);

#endif
