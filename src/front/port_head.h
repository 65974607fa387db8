/* Heads on their way to a port of a box and back: the headers of a request that the server in the box sees, and
 * those of its answer that a client sees. No I/O. */
#ifndef CUBBY_FRONT_PORT_HEAD_H
#define CUBBY_FRONT_PORT_HEAD_H

#include <stdint.h>

#include "base/buf.h"
#include "http/response.h"
#include "http/server.h"

struct port_path { /* one port of one box, as clients name it */
    char id[17];
    uint16_t port;
    char prefix[64];  /* "/v1/boxes/ID/ports/PORT"; "": it has a host name of its own, and so an origin */
    char cookies[48]; /* what the names of its cookies begin with outside; "": they keep their names */
    const char *host; /* as the server gets it; NULL: "localhost:PORT" */
    bool tls;         /* the server speaks TLS */
    /* Of a port with an origin: */
    const char *own_cookie; /* proves to the daemon who looks: it goes neither in nor out; NULL: none does */
    const char *drops;      /* further headers that stay outside, in lower case: "a|b"; NULL: none */
};
void port_path_init(struct port_path *path, const char *id, uint16_t port);
void port_path_origin(struct port_path *path, const char *id, uint16_t port);

/* The request as the server in the box gets it, head only. websocket: the upgrade is asked for; keeps: the connection
 * may be used again. */
void port_request_head(struct http_request *request, const struct port_path *path, bool websocket, bool keeps,
                       struct buf *out);
/* The answer's headers into our answer, before it begins. */
void port_answer_head(struct http_request *request, const struct port_path *path, const struct response *response);

/* for the two above and their test */
void port_cookies_in(const struct port_path *path, const char *cookies, struct buf *out); /* "" when none is its own */
bool port_cookie_out(const struct port_path *path, const char *set_cookie, struct buf *out); /* false: none */
void port_location(const struct port_path *path, const char *location, struct buf *out);

#endif
