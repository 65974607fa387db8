/* Kept results on disk: a row in tools.db, and a file below STATE/offload that is named by its id. */
#ifndef CUBBY_TOOL_OFFLOAD_STORE_H
#define CUBBY_TOOL_OFFLOAD_STORE_H

#include "tool/offload/offload_index.h"
#include "tool/offload/spool.h"
#include "tool/store.h"

#define OFFLOAD_ID_BYTES 20 /* "ol_", 16 hex digits, a NUL */

struct offload_row {
    char id[OFFLOAD_ID_BYTES];
    const char *user, *box, *thread, *tool;
    const char *path; /* the file that it shows, or NULL */
    uint8_t sha256[32];
    bool stale; /* the file has changed or was removed */
    uint64_t made_ms;
    struct offload_index index;
};

bool offload_id(const char *text, size_t len); /* whether text has the form of an id */

/* Keeps a text and sets row->id and made_ms. Removes older results of the user until all have at most max_bytes (0: no
 * limit). LIMIT: this one alone is larger. */
int offload_add(struct tool_store *store, struct offload_row *row, struct spool *text, uint64_t max_bytes,
                struct err *err);
/* Finds a result of this user and box, not made before since_ms, and opens its file; texts in arena. NOT_FOUND does not
 * say why. */
int offload_find(struct tool_store *store, const char *user, const char *box, const char *id, uint64_t since_ms,
                 struct arena *arena, struct offload_row *ret_row, int *ret_fd, struct err *err);
/* Lists results that show a file and are not stale, sorted by path, with id, path and sha256. In arena. */
int offload_sources(struct tool_store *store, const char *user, const char *box, const char *thread, uint64_t since_ms,
                    struct arena *arena, struct offload_row **ret_rows, size_t *ret_count, struct err *err);
/* *ret_first: it was not marked before. */
int offload_mark_stale(struct tool_store *store, const char *id, bool *ret_first, struct err *err);

/* Forgets results of a deleted box made until then; a new box may have the same id. */
int offload_forget(struct tool_store *store, const char *box, uint64_t until_ms, struct err *err);
/* Forgets rows made before since_ms (0: none), then removes files without a row and rows without a file, left by any
 * daemon. */
int offload_sweep(struct tool_store *store, uint64_t since_ms, struct err *err);

#endif
