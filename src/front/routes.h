/* All doors' routes as one table. */
#ifndef CUBBY_FRONT_ROUTES_H
#define CUBBY_FRONT_ROUTES_H

#include "front/front.h"

const struct route *routes_all(void); /* ends with method NULL; the same at every call */
/* http_config.refuse: a refusal in the shape of the door whose it is. */
int routes_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out);

#endif
