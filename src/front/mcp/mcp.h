/* MCP over Streamable HTTP: POST, GET and DELETE /mcp. */
#ifndef CUBBY_FRONT_MCP_H
#define CUBBY_FRONT_MCP_H

#include "front/front.h"

/* What is kept between requests: sessions, and the answers that are being waited for. */
struct mcp_door;
struct mcp_door *mcp_door_new(void);
void mcp_door_free(struct mcp_door *door); /* NULL is fine; no request runs any more */

int mcp_post(struct http_request *request, struct box *unused, struct err *err);
int mcp_delete(struct http_request *request, struct box *unused, struct err *err);

#endif
