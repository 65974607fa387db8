/* The endpoint at which machines join: GET /runner/ws, and the paths of other runners. join/hello.c reads the message
 * with which a machine registers; its user and name come only from its token. */
#ifndef CUBBY_FRONT_RUNNER_H
#define CUBBY_FRONT_RUNNER_H

#include "backend/remote/machine.h"
#include "front/front.h"

extern const struct dialect join_dialect;
extern const struct route machine_routes[]; /* join/machines.c: /v1/machines */
extern const struct route worker_routes[];  /* join/workers.c: /v1/workers */
void workers_measure(const struct front *front, struct buf *out);
void join_measure(const struct front *front, struct buf *out);
#define RUNNER_USER "default" /* the user of a runner's token without one */

/* For machines_settings: each writes an audit row and sends an event. */
void runner_online(struct front *front, const char *user, const char *name, bool again);
void runner_offline(struct front *front, const char *user, const char *name, const char *why);
/* Ends its connection with that reason, which is sent to it; it does not reconnect by itself. NOT_FOUND: it is
 * offline. */
int runner_send_away(struct front *front, const char *user, const char *name, const char *why, struct err *err);

/* ---- join/hello.c: the first message ---- */

struct runner_hello {
    bool link;               /* it speaks the link; else the text form */
    bool nested;             /* its fields are below "body" */
    bool text;               /* the link, as text messages */
    const char *user, *name; /* these and all texts below: "" where the message has none */
    const char *token;       /* "": it came with the upgrade */
    const char *workspace, *shell, *version, *isolation, *platform, *can;
    const char *session; /* of the link */
    bool no_workspace;   /* of the text form: it did not name it */
    uint64_t received;
    bool worker;           /* it offers itself for boxes of all users */
    const char *templates; /* of a worker: names with a blank between */
    uint64_t boxes_max, memory_mb;
};
/* INVALID names the error; UNSUPPORTED: a link of another version. Texts in arena. */
int runner_hello_parse(const void *data, size_t len, struct arena *arena, struct runner_hello *ret_hello,
                       struct err *err);

#endif
