/* All dialects, and the one route table that they make. */
#ifndef CUBBY_FRONT_ROUTES_H
#define CUBBY_FRONT_ROUTES_H

#include "front/front.h"

extern const struct dialect *const dialects[]; /* NULL-terminated */
const struct route *routes_all(void);          /* ends with method NULL; lives as long as the program */
const struct dialect *routes_dialect(const struct route *route); /* of routes_all */
/* The dialect whose label that is: only it and admins give it to a box. NULL: anybody may. */
const struct dialect *routes_labels(const char *label);
/* The dialect that a box which is handed over is spoken to in: the one with a url. */
const struct dialect *routes_client(void);
/* http_config.refuse: a refusal in the shape of the dialect whose it is. */
int routes_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out);
/* openapi.c */
void openapi_write(const struct route *routes, struct buf *out);

#endif
