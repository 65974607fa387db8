/* A request to a server in a box: its bytes there and back, for every dialect that shows ports. */
#ifndef CUBBY_FRONT_PORT_PROXY_H
#define CUBBY_FRONT_PORT_PROXY_H

#include "box/box.h"
#include "front/port_head.h"

/* As an endpoint's run, with http_tail as the target. NOT_FOUND: nobody listens on that port; other failures of the
 * server are PROTOCOL. patience_ms: how long a port that nobody listens on is tried again. */
int port_proxy(struct http_request *request, struct box *box, const struct port_path *path, unsigned patience_ms,
               struct err *err);
/* The bare connection, after an upgrade to PORT_BYTES: bytes both ways, in which either side may end before the other. */
#define PORT_BYTES "tcp"
int port_proxy_bytes(struct http_request *request, struct box *box, const struct port_path *path, struct err *err);
bool port_proxy_upgrade(const struct http_request *request, const char *protocol); /* it asks for that one */
int port_proxy_fault(struct err *err); /* a failure of the server in the box is a gateway's: 502 */
/* For the audit log: "GET 8080/path". */
void port_proxy_audit(struct http_request *request, uint16_t port, const char *tail);

#endif
