/* Functions of machine.c for the kinds of connections: machine_link.c and text/text.c. */
#ifndef CUBBY_BACKEND_MACHINE_CONN_H
#define CUBBY_BACKEND_MACHINE_CONN_H

#include "backend/remote/machine.h"

struct machine_conn {
    struct machines *machines;
    struct machine *machine;
    const struct machine_hello *hello; /* the machine's */
    const char *runner_path;           /* machines_settings.runner_path */
    struct machine_session *session;
    uint64_t received; /* records of ours that the machine has, of the resumed session */
    /* Under the table's lock: */
    const struct pump_socket *socket; /* while it is served */
    bool resumed;
    bool displaced; /* it is asked to go: begin fails */
    char why[200];
};

/* The connection of a session is made by the thread that serves it first, and freed by ops->free with the last
 * reference to the session. machine_conn_begin marks the machine online, reached through ops. GONE: another
 * connection has replaced it, or the table closes; the conn must still be ended. connection NULL: a resumed session
 * has one already. socket: for the latency, until machine_conn_end. */
int machine_conn_begin(struct machine_conn *conn, const struct machine_ops *ops, void *connection,
                       const struct pump_socket *socket, struct err *err);
/* The connection is over, why is in err. lives: the session waits for the machine, else it ends with that reason.
 * Frees the conn; returns -why->code. */
int machine_conn_end(struct machine_conn *conn, bool lives, const struct err *why);

void machine_conn_move(struct machine_conn *conn, const char *workspace); /* before it begins: it is another */

/* Sessions with a link (machine_link.c). */
uint64_t machine_link_received(void *connection); /* no thread serves it */

#endif
