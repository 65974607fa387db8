/* The working directory of a thread, which outlives its calls and the daemon. Keyed by the box and the thread: a
 * sub-agent in its parent's box has its own. */
#ifndef CUBBY_TOOL_MEMO_H
#define CUBBY_TOOL_MEMO_H

#include "tool/tool.h"

/* Absolute; the workspace before the first cd. In the call's arena. Needs call->box. It may no longer exist. */
int memo_cwd(struct tool_call *call, const char **ret_path, struct err *err);
/* path: as tool_path gives it; its caller has seen that it is a directory. */
int memo_cd(struct tool_call *call, const char *path, struct err *err);
/* Where the thread last stopped reading the output of a background command (0, 0: never). started_ms distinguishes
 * it from a later one with the same pid. */
int memo_looked(struct tool_call *call, uint64_t pid, uint64_t started_ms, uint64_t ret_offsets[2], struct err *err);
int memo_look(struct tool_call *call, uint64_t pid, uint64_t started_ms, const uint64_t offsets[2], struct err *err);
/* After something failed in the thread's directory: true if that is because the directory no longer exists. Then the
 * workspace becomes the working directory, and err says so. */
bool memo_vanished(struct tool_call *call, const char *path, struct err *err);
/* Forgets everything of a deleted box. */
int memo_forget(struct tool_store *store, const char *box, uint64_t until_ms, struct err *err);

#endif
