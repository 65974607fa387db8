/* MCP over Streamable HTTP, for the dialects that offer it: POST and DELETE. */
#ifndef CUBBY_FRONT_MCP_HTTP_H
#define CUBBY_FRONT_MCP_HTTP_H

#include "front/front.h"

/* The state between requests: sessions, and pending answers. */
struct mcp_http;
struct mcp_http *mcp_http_new(void);
void mcp_http_free(struct mcp_http *http); /* NULL is allowed; no request is running */

/* box: where the tools work; NULL: each thread has its own. */
int mcp_http_post(struct mcp_http *http, struct http_request *request, struct box *box, struct err *err);
int mcp_http_delete(struct mcp_http *http, struct http_request *request);

#endif
