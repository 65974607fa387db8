/* A server that speaks TLS, for a proxy that sees plain bytes: we are its client. */
#ifndef CUBBY_HTTP_TLS_PEER_H
#define CUBBY_HTTP_TLS_PEER_H

#include "base/err.h"

/* *fd is connected to the server, in a box; afterwards it is a socket of plain bytes, and a thread of its own holds the other.
 * The certificate is not checked: it is the box's own, over the box's own loopback. PROTOCOL: the server does not
 * speak TLS. On failure *fd is as it was. */
int tls_peer_begin(int *fd, struct err *err);

#endif
