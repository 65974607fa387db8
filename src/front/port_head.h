/* Heads on their way through the door to a port: what the server in the box gets to see of a request, and what a client
 * gets to see of its answer. No I/O. */
#ifndef CUBBY_FRONT_PORT_HEAD_H
#define CUBBY_FRONT_PORT_HEAD_H

#include <stdint.h>

#include "base/buf.h"
#include "http/response.h"
#include "http/server.h"

struct port_path { /* one port of one box, as clients name it */
    char id[17];
    uint16_t port;
    char prefix[64];  /* "/v1/boxes/ID/ports/PORT" */
    char cookies[48]; /* what the names of its cookies begin with outside */
};
void port_path_init(struct port_path *path, const char *id, uint16_t port);

/* The request as the server in the box gets it, head only. websocket: the upgrade is asked for. */
void port_request_head(struct http_request *request, const struct port_path *path, bool websocket, struct buf *out);
/* The answer's headers into our answer, before it begins. */
void port_answer_head(struct http_request *request, const struct port_path *path, const struct response *response);

/* for the two above and their test */
void port_cookies_in(const struct port_path *path, const char *cookies, struct buf *out); /* "" when none is its own */
bool port_cookie_out(const struct port_path *path, const char *set_cookie, struct buf *out); /* false: none */
void port_location(const struct port_path *path, const char *location, struct buf *out);

#endif
