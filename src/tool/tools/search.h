/* Shared by ls, glob and grep: names that are left out, errors of a root, names as they are shown. */
#ifndef CUBBY_TOOL_SEARCH_H
#define CUBBY_TOOL_SEARCH_H

#include "tool/tool.h"

/* Names of what tools make rather than people, a glob; matched below the root of a search, never against the root's
 * own. */
extern const char search_ignored[];

/* The model's error for a root that cannot be searched; returns the tool's result. */
int search_failed(struct tool_call *call, const char *path, int code, struct err *err);
/* How many results: as requested, at most `most`; 0 or nothing: `usual`. */
uint64_t search_limit(const struct row_number *asked, uint64_t usual, uint64_t most);
/* "Found 3 matches under PATH (showing first 3)" and the lines, what: "matches under"; `none` without any. */
void search_found(struct tool_call *call, const char *path, const char *none, const char *what, uint64_t count,
                  bool cut, const struct buf *lines);
/* A name on one line: controls and bytes that are no UTF-8 are escaped. */
void search_show(struct buf *out, const char *path);

#endif
