/* Tools over HTTP: shared by REST and MCP. The caller of a call is its HTTP request. */
#ifndef CUBBY_FRONT_TOOLBOX_H
#define CUBBY_FRONT_TOOLBOX_H

#include "front/front.h"
#include "tool/tool.h"

extern const struct tool_host toolbox_functions; /* the daemon adds its store: front->tools */

/* Fills in a new call from the request: the user, and the thread by the headers Cubby-Thread and Cubby-Parent. The
 * call is recorded in the audit log. */
void toolbox_fill(struct http_request *request, struct box *box, struct tool_call *call);
/* Begins a call in a box or for a thread, whichever is not NULL. INVALID: the name is too long. The caller always calls
 * tool_call_done. */
int toolbox_begin(struct http_request *request, struct box *box, const char *thread, struct tool_call *call,
                  struct err *err);
/* Writes all tools of the call, with those of its user's MCP servers, as a JSON array; mcp: with MCP's names. */
int toolbox_tools(struct http_request *request, struct box *box, const char *thread, bool mcp, struct buf *out,
                  struct err *err);
/* Runs a tool with the request's body. missing: error text for an unknown tool. The caller always calls
 * tool_call_done. */
int toolbox_run(struct http_request *request, struct box *box, const char *thread, const char *name,
                const char *missing, struct tool_call *call, const struct tool **ret_tool, struct err *err);

#endif
