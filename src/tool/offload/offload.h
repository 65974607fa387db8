/* Kept results: texts too long for a model's context, found by an id (`recall`). A result belongs to one user and one
 * box. Results survive restarts and are removed by age, by size and with the box. */
#ifndef CUBBY_TOOL_OFFLOAD_H
#define CUBBY_TOOL_OFFLOAD_H

#include "tool/tool.h"

struct offload_row;

/* Keeps a result that is too long for its tool, and replaces it by summary, head, tail and the id. Returns false if it
 * was not kept and must be truncated. args: the tool's, for the summary; NULL if they were refused. */
bool offload_result(struct tool_call *call, const void *args);
/* For results that show a file: if the result is kept, so is the file's sha256. stat: from when the file was opened;
 * path: from tool_path. Costs nothing now. */
void offload_source(struct tool_call *call, const char *path, const struct file_stat *stat);

/* Gets the id of the box that a call's results belong to, even before the call has a box. */
void offload_box(const struct tool_call *call, char ret_id[17]);
/* Returns the time before which results have expired (wall clock). */
uint64_t offload_since_ms(const struct tool_settings *settings);

/* Returns whether the file that a kept result shows has changed or was removed, as far as a running box knows. Does not
 * mark the row, so offload_refresh still reports it. */
bool offload_changed(struct tool_call *call, const struct offload_row *row);

/* Reports each result of this conversation (user, box, thread) whose file has changed, once. removed: the file was
 * removed. A box is acquired only if there is something to check. */
int offload_refresh(struct tool_call *call, void (*each)(void *user, const char *id, const char *path, bool removed),
                    void *user, struct err *err);

#endif
