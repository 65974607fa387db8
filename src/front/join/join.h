/* The door at which machines join: GET /runner/ws, and the paths of other runners. What a machine says when it registers
 * is read here (join/hello.c); who it is, its token says and nothing else. */
#ifndef CUBBY_FRONT_RUNNER_H
#define CUBBY_FRONT_RUNNER_H

#include "backend/remote/machine.h"
#include "front/front.h"

extern const struct dialect join_dialect;
extern const struct route machine_routes[]; /* join/machines.c: /v1/machines */
void join_measure(const struct front *front, struct buf *out);
#define RUNNER_USER "default" /* of a runner's token that names no user */

/* For machines_settings: a row of the audit log and an event each. */
void runner_online(struct front *front, const char *user, const char *name, bool again);
void runner_offline(struct front *front, const char *user, const char *name, const char *why);
/* Its connection ends with that reason, which it hears, and it does not come back by itself. NOT_FOUND: it is not online. */
int runner_send_away(struct front *front, const char *user, const char *name, const char *why, struct err *err);

/* ---- join/hello.c: the first message ---- */

struct runner_hello {
    bool link;             /* it speaks the link; else the text form */
    bool nested;           /* its fields are below "body" */
    bool text;             /* the link, as text messages */
    const char *user;      /* that it says it is; NULL: it does not say */
    const char *token;     /* NULL: it came with the upgrade */
    const char *name;      /* NULL: it does not say */
    const char *workspace; /* and all below: "" where nothing was said */
    const char *shell, *version, *isolation, *platform, *can;
    const char *session; /* of the link */
    bool no_workspace;   /* of the text form: it did not say where that is */
    uint64_t received;
};
/* INVALID names what is wrong with it; UNSUPPORTED: a link of another version. Texts in arena. */
int runner_hello_parse(const void *data, size_t len, struct arena *arena, struct runner_hello *ret_hello,
                       struct err *err);

#endif
