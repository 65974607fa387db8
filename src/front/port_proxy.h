/* Proxies a request to a server in a box, for every dialect that shows ports. */
#ifndef CUBBY_FRONT_PORT_PROXY_H
#define CUBBY_FRONT_PORT_PROXY_H

#include "box/box.h"
#include "front/port_head.h"

/* Like an endpoint's run, with http_tail as the target. NOT_FOUND: nothing listens on that port; other failures of the
 * server are PROTOCOL. patience_ms: how long to retry while nothing listens. */
int port_proxy(struct http_request *request, struct box *box, const struct port_path *path, unsigned patience_ms,
               struct err *err);
/* The bare connection, after an upgrade to PORT_BYTES: bytes both ways; either side may end before the other. */
#define PORT_BYTES "tcp"
int port_proxy_bytes(struct http_request *request, struct box *box, const struct port_path *path, struct err *err);
bool port_proxy_upgrade(const struct http_request *request, const char *protocol); /* it asks for that protocol */
int port_proxy_fault(struct err *err); /* turns a failure of the server in the box into 502 */
/* For the audit log: "GET 8080/path". */
void port_proxy_audit(struct http_request *request, uint16_t port, const char *tail);

#endif
