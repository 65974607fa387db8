/* What a thread's tools remember of it: its working directory, and what it has read. Keyed by the box and the thread: a
 * sub-agent in its parent's box has its own. Survives restarts. */
#ifndef CUBBY_TOOL_SESSION_H
#define CUBBY_TOOL_SESSION_H

#include "tool/tool.h"

/* Absolute; the workspace when there was no cd. In the call's arena. Needs call->box. */
int session_cwd(struct tool_call *call, const char **ret_path, struct err *err);
int session_cd(struct tool_call *call, const char *path, struct err *err);

#endif
