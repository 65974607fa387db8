/* Kept results: texts too long for a model's context, by an id for `recall`. Of one user and one box; they survive
 * restarts, and are removed by age and size, and with the box. */
#ifndef CUBBY_TOOL_OFFLOAD_H
#define CUBBY_TOOL_OFFLOAD_H

#include "tool/tool.h"

struct offload_row;

/* Keeps the result if it is too long for its tool, and puts summary, head, tail and the id in its place. False: it
 * stays as it is, to be cut. args: the tool's, shown in the summary; NULL when they were refused. */
bool offload_result(struct tool_call *call, const void *args);
/* For results that show a file: if it is kept, so is the file's sha256 in the box. stat: of the file as it was
 * opened; path as tool_path gives it. Costs nothing now. */
void offload_source(struct tool_call *call, const char *path, const struct file_stat *stat);

/* The box that a call's results belong to, also before it has one. */
void offload_box(const struct tool_call *call, char ret_id[17]);
/* The oldest that still counts: wall clock. */
uint64_t offload_since_ms(const struct tool_settings *settings);

/* Whether the file that a kept result shows has changed or was removed, as far as a running box knows. The row is
 * not marked: offload_refresh still reports it. */
bool offload_changed(struct tool_call *call, const struct offload_row *row);

/* Reports each result of this conversation (user, box, thread) whose file has changed, once. removed: the file was
 * removed. A box is acquired only if there is something to check. */
int offload_refresh(struct tool_call *call, void (*each)(void *user, const char *id, const char *path, bool removed),
                    void *user, struct err *err);

#endif
