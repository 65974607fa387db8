/* Read before write: which version of a file a thread has seen. A version is a file's inode, size and time of change
 * (its ETag), and its sha256 if a change could be hidden by the resolution of the clock. Kept in memory, bounded,
 * and written to tools.db in the background: a restarted daemon, or another one on the same state directory, finds
 * it there. */
#ifndef CUBBY_TOOL_SEEN_H
#define CUBBY_TOOL_SEEN_H

#include "tool/tool.h"

struct seen_version {
    uint64_t inode, size, mtime_ns;
    bool hashed;
    uint8_t sha256[32]; /* of the whole file; when hashed */
};

/* The model was shown (a part of) this version. path as tool_path gives it. A file that changed within the last tick of
 * the clock is hashed in the box; else it only costs memory. */
void seen_note(struct tool_call *call, const char *path, const struct file_stat *stat);
/* The thread wrote this version. sha256 NULL: not known. */
void seen_wrote(struct tool_call *call, const char *path, const struct file_stat *stat, const uint8_t *sha256);
/* The version the thread saw last; false: it never saw it. */
bool seen_last(struct tool_call *call, const char *path, struct seen_version *ret_version);
/* The same from the disk, where another daemon's note may be newer; false: there is nothing newer than *version. */
bool seen_newer(struct tool_call *call, const char *path, struct seen_version *version);

/* The memory of a store, made and ended by it. */
struct seen_table;
#define SEEN_SCHEMA                                                                                                    \
    "CREATE TABLE IF NOT EXISTS seen (box TEXT, key BLOB, inode INTEGER, size INTEGER, mtime_ns INTEGER, sha256 BLOB," \
    " at INTEGER, PRIMARY KEY (box, key)) WITHOUT ROWID;"
struct seen_table *seen_table_new(struct tool_store *store);
void seen_table_free(struct seen_table *table); /* NULL is fine; writes what waits first */
/* Forgets the files seen in a deleted box until then (wall clock): another box may have the same id by now. */
void seen_forget(struct tool_store *store, const char *box, uint64_t until_ms);

#endif
