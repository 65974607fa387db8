/* Headers of a request as the server in a box sees them, and of its answer as a client sees them. No I/O. */
#ifndef CUBBY_FRONT_PORT_HEAD_H
#define CUBBY_FRONT_PORT_HEAD_H

#include <stdint.h>

#include "base/buf.h"
#include "http/response.h"
#include "http/server.h"

struct port_path { /* one port of one box, as clients name it */
    char id[17];
    uint16_t port;
    char prefix[64];  /* "/v1/boxes/ID/ports/PORT"; "": it has its own host name, and so its own origin */
    char cookies[48]; /* prefix of its cookies' names outside; "": names are kept */
    const char *host; /* Host for the server; NULL: "localhost:PORT" */
    bool tls;         /* the server speaks TLS */
    /* for a port with its own origin: */
    const char *own_cookie; /* identifies a viewer to the daemon: dropped both ways; may be NULL */
    const char *drops;      /* further headers to drop, in lower case: "a|b"; may be NULL */
};
void port_path_init(struct port_path *path, const char *id, uint16_t port);
void port_path_origin(struct port_path *path, const char *id, uint16_t port);

/* Writes the head of the request for the server in the box. websocket: asks for the upgrade. keeps: the connection may
 * be reused. */
void port_request_head(struct http_request *request, const struct port_path *path, bool websocket, bool keeps,
                       struct buf *out);
/* Copies the server's headers to our answer, before it begins. */
void port_answer_head(struct http_request *request, const struct port_path *path, const struct response *response);

/* parts of these, for tests */
void port_cookies_in(const struct port_path *path, const char *cookies,
                     struct buf *out); /* "" if none belongs to the port */
bool port_cookie_out(const struct port_path *path, const char *set_cookie, struct buf *out); /* false: dropped */
void port_location(const struct port_path *path, const char *location, struct buf *out);

#endif
