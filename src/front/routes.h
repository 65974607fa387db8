/* All dialects, and their joined route table. */
#ifndef CUBBY_FRONT_ROUTES_H
#define CUBBY_FRONT_ROUTES_H

#include "front/front.h"

extern const struct dialect *const dialects[]; /* NULL-terminated */
const struct route *routes_all(void);          /* ends with method NULL; lives as long as the program */
const struct dialect *routes_dialect(const struct route *route); /* of routes_all */
/* The dialect with that label: only it and admins may give the label to a box. NULL: anyone may. */
const struct dialect *routes_labels(const char *label);
/* The dialect of handed-over boxes: the one with a url. */
const struct dialect *routes_client(void);
/* http_config.refuse: writes a refusal in the shape of its dialect. */
int routes_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out);
/* openapi.c */
void openapi_write(const char *dialect, struct buf *out); /* NULL: of all dialects */
const struct dialect *routes_named(const char *name);     /* NULL: there is none */

#endif
