/* The audit log on disk: one SQLite file that only grows at its end. It is cut at its beginning, or loses rows of the user
 * who has most; then a gap is noted. */
#ifndef CUBBY_BOX_AUDIT_DB_H
#define CUBBY_BOX_AUDIT_DB_H

#include "store/audit.h"
#include "store/db.h"

struct audit_db {
    struct db db;
    uint64_t last; /* the newest row that append wrote */
};

/* Makes the file where there is none, checks it where there is one. A connection is one thread's. */
int audit_db_open(const char *directory, struct audit_db *ret_db, struct err *err);
int audit_db_open_reading(const char *directory, struct audit_db *ret_db, struct err *err);
void audit_db_close(struct audit_db *db); /* zeroed is fine */
/* All rows of a batch (encodings one behind the other) in one transaction, or none. */
int audit_db_append(struct audit_db *db, const struct buf *batch, struct err *err);
/* Cuts rows that are older than before_ms, and, when there are too many for max_bytes, the oldest of the user who has most
 * (0: neither). A few thousand at a time; a row tells it. *ret_more: call again. */
int audit_db_trim(struct audit_db *db, uint64_t before_ms, uint64_t max_bytes, bool *ret_more, struct err *err);

/* for audit_read.c */
/* The columns of AUDIT_DB_COLUMNS into a row; texts are valid until the statement's next step. */
#define AUDIT_DB_COLUMNS                                                                                                \
    "id, at_ms, status, exit_code, signal, timed_out, oom_killed, bytes_in, bytes_out, duration_us, count, verb, box, " \
    "user, actor, scope, token, peer, outcome, detail, request_id, hash"
void audit_db_row(sqlite3_stmt *statement, struct audit_row *ret_row);
/* Where the chain begins: the newest row that was cut, 0 and zeros when none was. */
int audit_db_start(struct audit_db *db, uint64_t *ret_id, uint8_t ret_hash[32], struct err *err);
/* The hash of the last of rows that were cut, which are missing between others. IO: these are missing without a reason. */
int audit_db_gap(struct audit_db *db, uint64_t first, uint64_t last, uint8_t ret_hash[32], struct err *err);
bool audit_db_row_fits(const struct audit_row *row, const uint8_t before[32]); /* its hash is that of its content */

#endif
