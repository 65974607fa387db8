/* Tickets: what a browser uses where it cannot send Authorization. Private to the native API. */
#ifndef CUBBY_FRONT_NATIVE_TICKET_H
#define CUBBY_FRONT_NATIVE_TICKET_H

#include "front/native/native.h"

struct tickets *tickets_new(void);
void tickets_free(struct tickets *tickets); /* NULL is allowed */

/* dialect.admit for requests that carry a ticket, or the token of a login. Returns 1 if this one does not. */
int ticket_admit(struct http_request *request, unsigned needs, const struct who **ret_who, struct err *err);
/* Before a WebSocket is accepted: selects our protocol if the client offered it, as browsers demand. */
void ticket_protocol(struct http_request *request);

#endif
