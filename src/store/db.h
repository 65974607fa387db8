/* An SQLite file of ours below the state directory: made closed to others, known by its application number and version,
 * opened alike by everybody. What is in it is its owner's business: token_db, audit_db, tool/store. */
#ifndef CUBBY_BOX_DB_H
#define CUBBY_BOX_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct db_kind {
    const char *name;             /* of the file */
    const char *what;             /* in sentences; never the path, which clients would see */
    int32_t application, version; /* PRAGMA application_id, user_version */
    const char *schema;           /* run once, on an empty file */
    const char *pragmas;          /* run on every connection */
    bool wal;                     /* the file has a write-ahead log; else a rollback journal */
    bool closed;                  /* one that others could read is refused */
};

/* A connection; one thread's at a time. */
struct db {
    const struct db_kind *kind;
    char *path;
    sqlite3 *handle;
    dev_t device;
    ino_t inode;
};

/* Makes the file where there is none, checks it where there is one. INVALID: not ours, or another version's. */
int db_open(const struct db_kind *kind, const char *directory, struct db *ret_db, struct err *err);
/* One that is there, for looking: it is not checked, and nothing can be changed. */
int db_open_reading(const struct db_kind *kind, const char *directory, struct db *ret_db, struct err *err);
void db_close(struct db *db);          /* zeroed is fine, and twice */
bool db_replaced(const struct db *db); /* somebody took the file away: the connection writes to nobody's */

/* The error that SQLite reported last. */
int db_fail(const struct db *db, struct err *err);
int db_exec(struct db *db, const char *sql, struct err *err);
int db_prepare(struct db *db, const char *sql, sqlite3_stmt **ret_statement, struct err *err);
/* The one number that a query answers. */
int db_number(struct db *db, const char *sql, int64_t *ret_number, struct err *err);
/* Runs a statement that answers no rows, and frees it. */
int db_run(struct db *db, sqlite3_stmt *statement, struct err *err);
/* A transaction that writes, alone from its beginning; db_end commits when code is 0, takes everything back otherwise, and
 * returns the code or why the commit failed. */
int db_begin(struct db *db, struct err *err);
int db_end(struct db *db, int code, struct err *err);
void db_text(sqlite3_stmt *statement, int column, const char *text); /* a copy; NULL binds NULL */

#endif
