/* Kept results on disk: a row in tools.db and a file of the same name as its id below STATE/offload. */
#ifndef CUBBY_TOOL_OFFLOAD_STORE_H
#define CUBBY_TOOL_OFFLOAD_STORE_H

#include "tool/offload/offload_index.h"
#include "tool/offload/spool.h"
#include "tool/store.h"

#define OFFLOAD_ID_BYTES 20 /* "ol_", 16 hex digits, a NUL */

struct offload_row {
    char id[OFFLOAD_ID_BYTES];
    const char *user, *box, *thread, *tool;
    const char *path; /* of the file that it shows; NULL: none */
    uint8_t sha256[32];
    bool stale; /* the file is another one now, or gone */
    uint64_t made_ms;
    struct offload_index index;
};

bool offload_id(const char *text, size_t len); /* it looks like one */

/* Keeps a text; row->id and made_ms are made here. Older results of the user go until all of them have at most
 * max_bytes (0: any number). LIMIT: this one alone is larger. */
int offload_add(struct tool_store *store, struct offload_row *row, struct spool *text, uint64_t max_bytes,
                struct err *err);
/* One of this user and box, not made before since_ms, with its file open; texts in arena. NOT_FOUND: none, whatever the
 * reason. */
int offload_find(struct tool_store *store, const char *user, const char *box, const char *id, uint64_t since_ms,
                 struct arena *arena, struct offload_row *ret_row, int *ret_fd, struct err *err);
/* Those that show a file and are not stale, by path; id, path and sha256 are set. In arena. */
int offload_sources(struct tool_store *store, const char *user, const char *box, const char *thread, uint64_t since_ms,
                    struct arena *arena, struct offload_row **ret_rows, size_t *ret_count, struct err *err);
/* *ret_first: it was not marked before. */
int offload_mark_stale(struct tool_store *store, const char *id, bool *ret_first, struct err *err);

/* Forgets all of a deleted box made until then: another box may have the same id by now. */
int offload_forget(struct tool_store *store, const char *box, uint64_t until_ms, struct err *err);
/* Forgets rows made before since_ms (0: none), then removes files without a row and rows without a file, whichever
 * daemon left them. */
int offload_sweep(struct tool_store *store, uint64_t since_ms, struct err *err);

#endif
