/* STATE/tools.db: the memory of tools between calls, for every daemon on the state directory: working directories,
 * files that a model has read, kept results. One SQLite file; the results themselves are files below STATE/offload. */
#ifndef CUBBY_TOOL_STORE_H
#define CUBBY_TOOL_STORE_H

#include "base/err.h"
#include "store/db.h"

struct tool_store;
struct seen_table;

/* directory: 0700, owned by the daemon. */
int tool_store_open(const char *directory, struct tool_store **ret_store, struct err *err);
void tool_store_close(struct tool_store *store); /* NULL is allowed; writes pending rows first */

/* Between these two only one thread runs; never call a box there. */
struct db *tool_store_lock(struct tool_store *store);
void tool_store_unlock(struct tool_store *store);
/* The directory of unnamed files and kept results. */
int tool_store_dir(const struct tool_store *store);
struct seen_table *tool_store_seen(const struct tool_store *store); /* files read */

/* Calls `each` for every box that has rows. */
int tool_store_boxes(struct tool_store *store, void (*each)(void *user, const char *box), void *user, struct err *err);

#endif
