/* Kept results: what is too long for a model's context, by an id for `recall`. Of one user and one box; they survive
 * restarts and go by age and size, and with the box. */
#ifndef CUBBY_TOOL_OFFLOAD_H
#define CUBBY_TOOL_OFFLOAD_H

#include "tool/tool.h"

struct offload_row;

/* Keeps the result if it is too long for its tool, and puts summary, head, tail and the id in its place. False: it stays
 * as it is, to be cut. args: the tool's, shown in the summary; NULL when they were refused. */
bool offload_result(struct tool_call *call, const void *args);
/* For results that show a file: if it is kept, so is the file's sha256 in the box. stat: of the file as it was opened; path
 * as tool_path gives it. Costs nothing now. */
void offload_source(struct tool_call *call, const char *path, const struct file_stat *stat);

/* The box that a call's results belong to, also before it has one. */
void offload_box(const struct tool_call *call, char ret_id[17]);
/* The oldest that still counts: wall clock. */
uint64_t offload_since_ms(const struct tool_settings *settings);

/* Whether the file that a kept result shows is another one now, or gone, as far as a box that runs can say; the row is not
 * marked: offload_refresh still tells it. */
bool offload_changed(struct tool_call *call, const struct offload_row *row);

/* What this conversation (user, box, thread) was shown of files and is no longer so; each is told once. removed: the file is
 * gone. A box is acquired only when there is something to look at. */
int offload_refresh(struct tool_call *call, void (*each)(void *user, const char *id, const char *path, bool removed),
                    void *user, struct err *err);

#endif
