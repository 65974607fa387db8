/* Requests of dialects whose own servers are written with FastAPI: their leniency, and 422 {"detail":[...]}. */
#ifndef CUBBY_FRONT_DETAIL_H
#define CUBBY_FRONT_DETAIL_H

#include "front/front.h"

/* The body by the route's own rows (endpoint.body), as front_body, but: unknown and null members count as missing; a
 * body that does not fit is answered 422 here. 0, negative, or positive: answered, return it. */
int detail_body(struct http_request *request, void *ret_args, struct err *err);
/* The same of a text that the caller has read already. */
int detail_body_text(struct http_request *request, const char *text, size_t len, void *ret_args, struct err *err);
/* The same of a query (GET /v1/file/download?path=). */
int detail_query(struct http_request *request, void *ret_args, struct err *err);
/* 422 for a value that the rows cannot judge: the member, and a sentence. Positive, to be returned. */
int detail_unfit(struct http_request *request, const char *member, const char *text);
/* Seconds, a number with a fraction, as milliseconds; absent: fallback. INVALID: negative, not finite; clamped to
 * most. */
int detail_seconds(const struct row_real *seconds, uint64_t fallback_ms, uint64_t most_ms, const char *member,
                   uint64_t *ret_ms, struct err *err);

#endif
