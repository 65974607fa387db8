/* Tools behind HTTP: what REST and MCP share. The door of a call is its HTTP request. */
#ifndef CUBBY_FRONT_TOOLBOX_H
#define CUBBY_FRONT_TOOLBOX_H

#include "front/front.h"
#include "tool/tool.h"

#define TOOLBOX_THREAD "mcp" /* of a client that names none */

extern const struct tool_host toolbox_functions; /* acquire and release; the daemon adds its store: front->tools */

/* Who asks, for which thread: box NULL: `thread`'s own (NULL: the header Cubby-Thread, else TOOLBOX_THREAD). The header
 * Cubby-Parent makes it a sub-agent's. INVALID: a name that cannot be one. toolbox_end gives everything back. */
int toolbox_begin(struct http_request *request, struct box *box, const char *thread, struct tool_call *call,
                  struct err *err);
/* tool_run, and what the audit log says about it. */
int toolbox_run(struct http_request *request, struct tool_call *call, const struct tool *tool, const char *args,
                size_t len, struct err *err);
/* The same with arguments that were read already. */
int toolbox_run_object(struct http_request *request, struct tool_call *call, const struct tool *tool,
                       struct json_t *args, struct err *err);
void toolbox_end(struct tool_call *call);

#endif
