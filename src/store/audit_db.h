/* The audit log on disk: one SQLite file that only grows at its end. It is cut at its beginning, or loses rows of
 * the user with the most; then a gap is recorded. */
#ifndef CUBBY_BOX_AUDIT_DB_H
#define CUBBY_BOX_AUDIT_DB_H

#include "store/audit.h"
#include "store/db.h"

struct audit_db {
    struct db db;
    uint64_t last; /* the newest row that append wrote */
};

/* Makes the file if it does not exist, else checks it. A connection belongs to one thread. */
int audit_db_open(const char *directory, struct audit_db *ret_db, struct err *err);
/* Writes all rows of a batch (consecutive encodings) in one transaction, or none. */
int audit_db_append(struct audit_db *db, const struct buf *batch, struct err *err);
/* Cuts rows older than before_ms and, if there are too many for max_bytes, the oldest of the user with the most (0:
 * neither), a few thousand at a time; a row records it. *ret_more: call again. */
int audit_db_trim(struct audit_db *db, uint64_t before_ms, uint64_t max_bytes, bool *ret_more, struct err *err);

#endif
