/* The working directory of a thread, which outlives its calls and the daemon. Keyed by the box and the thread: a
 * sub-agent in its parent's box has its own. */
#ifndef CUBBY_TOOL_MEMO_H
#define CUBBY_TOOL_MEMO_H

#include "tool/tool.h"

/* Returns an absolute path, in the call's arena: the workspace before the first cd. It may no longer exist. Needs
 * call->box. */
int memo_cwd(struct tool_call *call, const char **ret_path, struct err *err);
/* path: from tool_path; the caller has checked that it is a directory. */
int memo_cd(struct tool_call *call, const char *path, struct err *err);
/* Gets how far the thread has read the output of a background command (0, 0: never read). started_ms distinguishes it
 * from a later command with the same pid. */
int memo_looked(struct tool_call *call, uint64_t pid, uint64_t started_ms, uint64_t ret_offsets[2], struct err *err);
int memo_look(struct tool_call *call, uint64_t pid, uint64_t started_ms, const uint64_t offsets[2], struct err *err);
/* The last command of a person in this thread's chat (bang.c); NULL: none. */
int memo_last(struct tool_call *call, const char **ret_command, struct err *err);
int memo_ran(struct tool_call *call, const char *command, struct err *err);
/* Called after a failure in the thread's directory. Returns true if the directory no longer exists: then the workspace
 * becomes the working directory, and err says so. */
bool memo_vanished(struct tool_call *call, const char *path, struct err *err);
/* Forgets everything about a deleted box. */
int memo_forget(struct tool_store *store, const char *box, uint64_t until_ms, struct err *err);

#endif
