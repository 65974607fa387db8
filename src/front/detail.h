/* Requests of dialects whose original servers use FastAPI: their leniency, and 422 {"detail":[...]}. */
#ifndef CUBBY_FRONT_DETAIL_H
#define CUBBY_FRONT_DETAIL_H

#include "front/front.h"

/* Binds the body by the route's rows (endpoint.body), like front_body, but unknown and null members count as missing
 * and a body that does not fit is answered with 422. Returns 0, negative, or positive: answered; the handler returns
 * it. */
int detail_body(struct http_request *request, void *ret_args, struct err *err);
/* The same for a text that the caller has already read. */
int detail_body_text(struct http_request *request, const char *text, size_t len, void *ret_args, struct err *err);
/* The same for a query (GET /v1/file/download?path=). */
int detail_query(struct http_request *request, void *ret_args, struct err *err);
/* Answers 422 for a value that rows cannot check: the member, and why. Positive; the handler returns it. */
int detail_unfit(struct http_request *request, const char *member, const char *text);
/* Converts seconds with a fraction to milliseconds, at most most_ms; fallback_ms if absent. INVALID: negative, or not
 * finite. */
int detail_seconds(const struct row_real *seconds, uint64_t fallback_ms, uint64_t most_ms, const char *member,
                   uint64_t *ret_ms, struct err *err);

#endif
