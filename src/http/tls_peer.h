/* TLS to a server, for a proxy that sees plain bytes. */
#ifndef CUBBY_HTTP_TLS_PEER_H
#define CUBBY_HTTP_TLS_PEER_H

#include "base/err.h"

/* *fd is connected to a server in a box. Replaces it by a socket of plain bytes; a thread holds the other end. The
 * certificate is not checked: it is the box's own, over the box's own loopback. PROTOCOL: the server does not speak
 * TLS. On failure *fd is unchanged. */
int tls_peer_begin(int *fd, struct err *err);

#endif
