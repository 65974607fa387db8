/* Signatures of file URLs: such a URL names no sandbox and carries no token. */
#ifndef CUBBY_FRONT_E2B_SIGN_H
#define CUBBY_FRONT_E2B_SIGN_H

#include "front/e2b/e2b.h"

/* The id of the sandbox whose token a target "/files?..." is signed with, in the request's arena; NULL: of none. */
const char *e2b_sign_find(struct http_request *request, const char *target);
/* Whether the query of a request to /files is signed with this token, and still valid. UNAUTHORIZED. */
int e2b_sign_judge(struct http_request *request, const char *token, struct err *err);

#endif
