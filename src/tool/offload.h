/* Kept results: what is too long for a model's context, by an id for `recall`. The owner's only, bound to the box; they
 * survive restarts and go by age and size. */
#ifndef CUBBY_TOOL_OFFLOAD_H
#define CUBBY_TOOL_OFFLOAD_H

#include "tool/tool.h"

/* Keeps the result if it is too long for its tool, and puts summary, head, tail and the id in its place. False: it stays
 * as it is, to be cut. args: the tool's, shown in the summary. */
bool offload_result(struct tool_call *call, const void *args);
/* For results that show a file: its path and sha256 in the box are kept with it. */
void offload_source(struct tool_call *call, const char *path);

/* The ids of this user and thread (and of the threads below it) that no longer show what is in their files; each is told
 * once. The box need not run: it is started for it. */
int offload_refresh(struct tool_call *call, int (*each)(void *user, const char *id, const char *path), void *user,
                    struct err *err);

#endif
