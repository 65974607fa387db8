/* The tools of a user's MCP servers as tools of ours: NAME__TOOL. Called by tool.c and mcp.c. */
#ifndef CUBBY_TOOL_SERVED_H
#define CUBBY_TOOL_SERVED_H

#include "tool/tool.h"

/* One object per tool, into an open array. Servers that do not start are omitted. GONE: the client went away. */
int served_list_json(struct tool_call *call, struct json *json, bool mcp, struct err *err);
/* Finds a tool of one of the user's servers, running or not; in the arena. NULL: no such server. */
const struct tool *served_find(const struct tool_host *host, const char *user, const char *name, struct arena *arena);

#endif
