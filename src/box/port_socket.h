/* Connections to servers in a box that the daemon makes itself: a socket of the box's network namespace, connected to
 * its loopback. A socket keeps its namespace, so bytes move between two descriptors, without frames and without the
 * runner. Idle connections are kept for a moment, for the next request to the same port. */
#ifndef CUBBY_BOX_PORT_SOCKET_H
#define CUBBY_BOX_PORT_SOCKET_H

#include "box/box.h"

/* A connection; client_fd: given up when that client hangs up, -1: nobody's. 1: this daemon may not enter the box's
 * network, and the runner has to connect. NOT_FOUND: nobody listens; TIMEOUT: nobody accepts; LIMIT: the box has too
 * many; GONE: the client hung up. */
int port_socket_open(struct box *box, uint16_t port, int client_fd, int *ret_fd, struct err *err);
/* An idle connection on which the server has neither ended nor sent anything; -1: none. */
int port_socket_take(struct box *box, uint16_t port);
/* Closes the idle connections to that port (0: any): a server that serves one connection at a time would wait for
 * them. */
void port_socket_clear(const struct box *box, uint16_t port);
/* The connection is idle: kept where there is room, and nobody waits for an answer of a server in this box; else
 * closed. Takes fd. */
void port_socket_keep(struct box *box, uint16_t port, int fd);
void port_socket_close(struct box *box, int *fd); /* one in use */
/* Somebody waits for the head of an answer, from here to the other call. */
void port_socket_wait(struct box *box);
void port_socket_waited(struct box *box);
void port_socket_end(struct box *box); /* of the box itself: closes what is idle */

#endif
