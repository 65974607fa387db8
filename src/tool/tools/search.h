/* Shared by ls, glob and grep: ignored names, errors of a root, display of names. */
#ifndef CUBBY_TOOL_SEARCH_H
#define CUBBY_TOOL_SEARCH_H

#include "tool/tool.h"

/* A glob of names of generated directories. It is matched below the root of a search, never against the root itself. */
extern const char search_ignored[];

/* Reports to the model that a root cannot be searched. Returns the tool's result. */
int search_failed(struct tool_call *call, const char *path, int code, struct err *err);
/* Returns the number of results: as requested, at most `most`; `usual` for 0 or nothing. */
uint64_t search_limit(const struct row_number *asked, uint64_t usual, uint64_t most);
/* Writes "Found 3 matches under PATH (showing first 3)" and the lines; `none` if there are none. what: "matches
 * under". */
void search_found(struct tool_call *call, const char *path, const char *none, const char *what, uint64_t count,
                  bool cut, const struct buf *lines);
/* Writes a name on one line: control characters and bytes that are not UTF-8 are escaped. */
void search_show(struct buf *out, const char *path);

#endif
