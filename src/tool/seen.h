/* Read before write: which version of a file a thread has seen. A version is a file's ETag; where a change could hide
 * behind the clock's tick, its sha256 as well. */
#ifndef CUBBY_TOOL_SEEN_H
#define CUBBY_TOOL_SEEN_H

#include "tool/tool.h"

/* The model was shown (a part of) this version, or wrote it. path as tool_path gives it. Never waits for a disk. */
void seen_note(struct tool_call *call, const char *path, const struct file_stat *stat);
/* Whether path may be written: it is not there, or what is there was seen last. *ret_etag: what must still be there when it
 * is replaced (for if_match; in the arena), NULL: nothing is there. INVALID with the sentence for the model otherwise.
 * With settings->read_before_write off everything may; *ret_etag is NULL. */
int seen_check(struct tool_call *call, const char *path, const char **ret_etag, struct err *err);

#endif
