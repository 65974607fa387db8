/* An SQLite file of ours below the state directory: made inaccessible to others, identified by its application number
 * and version, opened in the same way everywhere. Its content belongs to its owner: token, audit_db, tool/store. */
#ifndef CUBBY_STORE_DB_H
#define CUBBY_STORE_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct db_kind {
    const char *name;             /* of the file */
    const char *what;             /* its name in error texts; not the path, which clients would see */
    int32_t application, version; /* PRAGMA application_id, user_version */
    const char *additions;        /* SQL that an older file of the same version may lack; NULL: none */
    const char *schema;           /* run once, on an empty file */
    const char *pragmas;          /* run on every connection */
    bool wal;                     /* the file has a write-ahead log; else a rollback journal */
    bool closed;                  /* refuse a file that others can read */
};

/* A connection; used by one thread at a time. */
#define DB_KEPT 48
struct db {
    const struct db_kind *kind;
    sqlite3_stmt *kept[DB_KEPT]; /* prepared statements, reused */
    char *path;
    sqlite3 *handle;
    dev_t device;
    ino_t inode;
};

/* Makes the file if it does not exist, else checks it. INVALID: not ours, or another version's. */
int db_open(const struct db_kind *kind, const char *directory, struct db *ret_db, struct err *err);
/* Opens an existing file read-only; it is not checked. */
int db_open_reading(const struct db_kind *kind, const char *directory, struct db *ret_db, struct err *err);
/* Opens a zeroed one, and one whose file was removed or replaced, which is not written to any more. Returns 1 if it was
 * opened now. */
int db_ready(struct db *db, const struct db_kind *kind, const char *directory, struct err *err);
void db_close(struct db *db); /* may be zeroed; may be called twice */

int db_exec(struct db *db, const char *sql, struct err *err);
/* A statement with bound parameters, and its current row. `types` has a letter for each argument: t const char *, i
 * int64_t or uint64_t, n int or bool, h 32 bytes, b const void * and size_t; NULL binds NULL. Nothing is copied: the
 * arguments must not change until the query has ended. Arguments that the statement does not use are skipped.
 * Statements are reused by their text. */
struct query {
    struct db *db;
    sqlite3_stmt *row;
};
#define autoquery __attribute__((cleanup(query_end))) struct query
int db_query(struct db *db, struct query *ret_query, struct err *err, const char *sql, const char *types, ...);
int query_next(struct query *query, struct err *err);          /* 1: a row; 0 or negative: the query has ended */
void query_end(struct query *query);                           /* may be zeroed; may be called twice */
const char *query_text(const struct query *query, int column); /* valid until the next row; may be NULL */
int64_t query_int(const struct query *query, int column);
bool query_hash(const struct query *query, int column, uint8_t ret_hash[32]); /* false: wrong length */
/* Runs a statement that returns no rows. */
int db_do(struct db *db, struct err *err, const char *sql, const char *types, ...);
/* Reads the first row. After '>' in `types` each column has i int64_t * or uint64_t *, h uint8_t[32]. Returns 1, or 0
 * if there is no row or a hash has the wrong length. */
int db_get(struct db *db, struct err *err, const char *sql, const char *types, ...);
/* Reads the single number that a query returns. */
int db_number(struct db *db, const char *sql, int64_t *ret_number, struct err *err);
/* Begins a transaction that locks for writing at once. db_end commits if code is 0, else rolls back; it returns the
 * code, or why the commit failed. */
int db_begin(struct db *db, struct err *err);
int db_end(struct db *db, int code, struct err *err);
int db_touch(struct db *db, struct err *err); /* within a transaction: makes its commit write a page */

#endif
