/* What machine.c gives to those who speak to machines: machine_link.c and text/text.c. */
#ifndef CUBBY_BACKEND_MACHINE_SEAT_H
#define CUBBY_BACKEND_MACHINE_SEAT_H

#include "backend/remote/machine.h"

/* The peer of a session: made by who serves its first connection, and freed by ops->free when nobody uses it any more.
 * machine_conn_begin tells the table that the machine is online now, spoken to through ops. GONE: another connection took
 * its place meanwhile, or the table closes; the peer is freed, and the conn is still to be ended. peer NULL: a session
 * that goes on has one already. socket: for the latency, until machine_conn_end. */
int machine_conn_begin(struct machine_conn *conn, const struct machine_ops *ops, void *peer,
                       const struct pump_socket *socket, struct err *err);
/* The connection is over, why is in err. lives: the session waits for the machine, else it ends with that reason. Frees the
 * conn; returns -why->code. */
int machine_conn_end(struct machine_conn *conn, bool lives, const struct err *why);

const char *machine_conn_user(const struct machine_conn *conn);
const char *machine_conn_name(const struct machine_conn *conn);
const char *machine_conn_workspace(const struct machine_conn *conn);
const char *machine_conn_shell(const struct machine_conn *conn);
const char *machine_conn_runner(const struct machine_conn *conn);         /* machines_settings.runner_path */
void machine_conn_move(struct machine_conn *conn, const char *workspace); /* before it begins: it lies elsewhere */
uint64_t machine_conn_received(const struct machine_conn *conn); /* what the machine said of the session that goes on */
void *machine_conn_peer(const struct machine_conn *conn);        /* of its session; NULL: none yet */

/* The peer of sessions with a link (machine_link.c). */
extern const struct machine_ops machine_link_ops;
void *machine_link_new(const char *name);
uint64_t machine_link_received(void *peer); /* nobody serves it */

#endif
