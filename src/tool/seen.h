/* Read before write: which version of a file a thread has seen. A version is a file's inode, size and time of change
 * (its ETag), and its sha256 if the resolution of the clock could hide a change. Kept in memory, bounded, and written
 * to tools.db in the background, where a restarted daemon, or another one on the same state directory, finds it. */
#ifndef CUBBY_TOOL_SEEN_H
#define CUBBY_TOOL_SEEN_H

#include "tool/tool.h"

struct seen_version {
    uint64_t inode, size, mtime_ns;
    bool hashed;
    uint8_t sha256[32]; /* of the whole file, if hashed */
};

/* The model was shown (a part of) this version. path: from tool_path. A file that changed within the last tick of the
 * clock is hashed in the box; otherwise this only costs memory. */
void seen_note(struct tool_call *call, const char *path, const struct file_stat *stat);
/* The thread wrote this version. sha256 NULL: not known. */
void seen_wrote(struct tool_call *call, const char *path, const struct file_stat *stat, const uint8_t *sha256);
/* Gets the version that the thread saw last. false: it never saw the file. */
bool seen_last(struct tool_call *call, const char *path, struct seen_version *ret_version);
/* The same from the disk, where another daemon may have a newer note. false: nothing newer than *version. */
bool seen_newer(struct tool_call *call, const char *path, struct seen_version *version);

/* The memory of a store, which makes and frees it. */
struct seen_table;
#define SEEN_SCHEMA                                                                                                    \
    "CREATE TABLE IF NOT EXISTS seen (box TEXT, key BLOB, inode INTEGER, size INTEGER, mtime_ns INTEGER, sha256 BLOB," \
    " at INTEGER, PRIMARY KEY (box, key)) WITHOUT ROWID;"
struct seen_table *seen_table_new(struct tool_store *store);
void seen_table_free(struct seen_table *table); /* NULL is allowed; writes pending notes first */
/* Forgets files seen in a deleted box until then (wall clock); a new box may have the same id. */
void seen_forget(struct tool_store *store, const char *box, uint64_t until_ms);

#endif
