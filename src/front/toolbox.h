/* Tools behind HTTP: what REST and MCP share. The door of a call is its HTTP request. */
#ifndef CUBBY_FRONT_TOOLBOX_H
#define CUBBY_FRONT_TOOLBOX_H

#include "front/front.h"
#include "tool/tool.h"

extern const struct tool_host toolbox_functions; /* acquire and release; the daemon adds its store: front->tools */

/* What of a fresh call the request tells: who asks, and by the headers Cubby-Thread and Cubby-Parent for which thread. What
 * becomes of the call stands in the audit log. */
void toolbox_door(struct http_request *request, struct box *box, struct tool_call *call);
/* A call in a box, or for a thread, whichever is not NULL. INVALID: a name that cannot be one. For tool_call_done either
 * way. */
int toolbox_begin(struct http_request *request, struct box *box, const char *thread, struct tool_call *call,
                  struct err *err);

#endif
