/* Opening and using an SQLite file of ours. Called by token, audit_db, tool/store and others. Invariant: an existing
 * file is never opened and closed outside SQLite (closing it would drop SQLite's locks), and whether a file is ours is
 * decided within one write transaction, so that two daemons do not both fill an empty one. */
#include <assert.h>
#include <inttypes.h>

#include "base/base.h"
#include "store/db.h"

enum { DB_BUSY_MS = 5000, DB_TURN_US = 20000 };

/* Returns the error that SQLite reported last. */
static int db_fail(const struct db *db, struct err *err) {
    const char *message = sqlite3_errmsg(db->handle);
    int code = sqlite3_errcode(db->handle) & 0xff, number = sqlite3_system_errno(db->handle);
    bool touched = code == SQLITE_IOERR || code == SQLITE_CANTOPEN; /* then errno belongs to this failure */
    if (code == SQLITE_FULL || (touched && (number == ENOSPC || number == EDQUOT)))
        return err_text(err, ENOSPC, "no space left on the disk of the state directory; free some");
    switch (code) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return err_set_why(err, ERR_IO, WHY_DAMAGED, "%s: the file is damaged (%s)", db->kind->what, message);
    case SQLITE_INTERRUPT:
        return err_set(err, ERR_TIMEOUT, "%s: the query took too long; ask for less", db->kind->what);
    case SQLITE_BUSY:
        return err_set(err, ERR_BUSY, "%s: %s", db->kind->what, message);
    default:
        return err_set(err, ERR_IO, "%s: %s", db->kind->what, message);
    }
}

/* ---- opening ---- */

/* The file is made here, because SQLite would make it 0644 and owned by root if `cubby token` runs as root. */
static int db_file(const char *directory, struct db *db, struct err *err) {
    struct stat status;
    autofd file = open(db->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0 && errno != EEXIST)
        return err_errno(err, errno, "cannot create the file");
    if (file >= 0 && geteuid() == 0 && (stat(directory, &status) < 0 || fchown(file, status.st_uid, status.st_gid) < 0))
        return err_errno(err, errno, "cannot set the owner of the file");
    if (lstat(db->path, &status) < 0)
        return err_errno(err, errno, "cannot open the file");
    if (!S_ISREG(status.st_mode) || (db->kind->closed && (status.st_mode & 077)))
        return err_set(err, ERR_DENIED, "only its owner may be able to read the file: chmod 600 it");
    db->device = status.st_dev;
    db->inode = status.st_ino;
    return 0;
}

static int db_connect(struct db *db, struct err *err) {
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    int code = sqlite3_open_v2(db->path, &db->handle, flags, NULL);
    xensure(db->handle);
    if (code != SQLITE_OK)
        return db_fail(db, err);
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_timeout(db->handle, DB_BUSY_MS);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return 0;
}

/* Another daemon may be creating the same file, and the switch to WAL does not wait for it. */
static int db_journal(struct db *db, struct err *err) {
    int r = 0;
    for (uint64_t end_ms = clock_ms() + DB_BUSY_MS; db->kind->wal; usleep(DB_TURN_US)) {
        r = db_exec(db, "PRAGMA journal_mode=WAL", err);
        if (r != -ERR_BUSY || clock_ms() > end_ms)
            break;
    }
    if (r == 0)
        r = db_exec(db, "PRAGMA cell_size_check=ON", err);
    return r == 0 && db->kind->pragmas ? db_exec(db, db->kind->pragmas, err) : r;
}

/* Writes a page even though nothing changes. */
int db_touch(struct db *db, struct err *err) {
    return db_exec(db,
                   text_make(96, "PRAGMA application_id=%" PRId32 ";PRAGMA user_version=%" PRId32,
                             db->kind->application, db->kind->version),
                   err);
}

/* Checks whose file it is: ours, of a known version, or an empty one that becomes ours. */
static int db_identify(struct db *db, struct err *err) {
    int64_t application = 0, version = 0, tables = 0;
    TRY(db_number(db, "PRAGMA application_id", &application, err)
            ?: db_number(db, "PRAGMA user_version", &version, err)
            ?: db_number(db, "SELECT count(*) FROM sqlite_master", &tables, err));
    const char *additions = db->kind->additions ? db->kind->additions : "";
    if (!tables && !application)
        return db_exec(db, db->kind->schema, err) ?: db_exec(db, additions, err) ?: db_touch(db, err);
    if (application != db->kind->application)
        return err_set(err, ERR_INVALID, "this is another program's database; move it away");
    if (version != db->kind->version)
        return err_set(err, ERR_INVALID,
                       "it was written by another version of cubby (format %" PRId64 ", not %" PRId32 "); move it away",
                       version, db->kind->version);
    return db_exec(db, additions, err);
}

int db_open(const struct db_kind *kind, const char *directory, struct db *ret_db, struct err *err) {
    struct db db = {.kind = kind, .path = xasprintf("%s/%s", directory, kind->name)};
    int r = db_file(directory, &db, err)
            ?: db_connect(&db, err)
            ?: db_journal(&db, err)
            ?: db_begin(&db, err)
            ?: db_end(&db, db_identify(&db, err), err);
    if (r < 0)
        db_close(&db);
    else
        *ret_db = db;
    return r;
}

int db_open_reading(const struct db_kind *kind, const char *directory, struct db *ret_db, struct err *err) {
    struct db db = {.kind = kind, .path = xasprintf("%s/%s", directory, kind->name)};
    /* opened for writing, because a reader of a WAL may have to make its index */
    int r = db_connect(&db, err) ?: db_exec(&db, "PRAGMA query_only=ON", err);
    if (r < 0)
        db_close(&db);
    else
        *ret_db = db;
    return r;
}

void db_close(struct db *db) {
    for (size_t i = 0; i < DB_KEPT; i++)
        sqlite3_finalize(db->kept[i]);
    sqlite3_close(db->handle);
    free(db->path);
    *db = (struct db){0};
}

int db_ready(struct db *db, const struct db_kind *kind, const char *directory, struct err *err) {
    struct stat status;
    if (db->handle && lstat(db->path, &status) == 0 && status.st_dev == db->device && status.st_ino == db->inode)
        return 0;
    db_close(db);
    int r = db_open(kind, directory, db, err);
    return r < 0 ? r : 1;
}

/* ---- statements ---- */

int db_exec(struct db *db, const char *sql, struct err *err) {
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(db, err);
}

/* Does not reuse a kept statement that a caller is still stepping through. */
static int db_statement_take(struct db *db, const char *sql, sqlite3_stmt **ret_statement, struct err *err) {
    size_t i = 0;
    for (; i < DB_KEPT && db->kept[i]; i++)
        if (!sqlite3_stmt_busy(db->kept[i]) && strcmp(sqlite3_sql(db->kept[i]), sql) == 0) {
            *ret_statement = db->kept[i];
            return 0;
        }
    if (sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, ret_statement, NULL) != SQLITE_OK)
        return db_fail(db, err);
    if (i < DB_KEPT)
        db->kept[i] = *ret_statement;
    return 0;
}

/* A read that stays open would block checkpoints of the write-ahead log. */
void query_end(struct query *query) {
    sqlite3_stmt *statement = query->row;
    query->row = NULL;
    for (size_t i = 0; statement && i < DB_KEPT; i++)
        if (query->db->kept[i] == statement) {
            sqlite3_reset(statement);
            sqlite3_clear_bindings(statement);
            return;
        }
    sqlite3_finalize(statement);
}

static void db_query_bind(sqlite3_stmt *statement, const char *types, va_list *values) {
    for (int at = 1; *types && *types != '>'; at++, types++) {
        const void *bytes;
        switch (*types) {
        case 't':
            sqlite3_bind_text(statement, at, va_arg(*values, const char *), -1, SQLITE_STATIC);
            break;
        case 'i':
            sqlite3_bind_int64(statement, at, va_arg(*values, int64_t));
            break;
        case 'n':
            sqlite3_bind_int(statement, at, va_arg(*values, int));
            break;
        case 'h':
            sqlite3_bind_blob(statement, at, va_arg(*values, const void *), 32, SQLITE_STATIC);
            break;
        case 'b':
            bytes = va_arg(*values, const void *);
            sqlite3_bind_blob64(statement, at, bytes, va_arg(*values, size_t), SQLITE_STATIC);
            break;
        default:
            assert(!"a known kind of value");
        }
    }
}

static int db_query_begin(struct db *db, struct query *ret_query, const char *sql, const char *types, va_list *values,
                          struct err *err) {
    *ret_query = (struct query){.db = db};
    int r = db_statement_take(db, sql, &ret_query->row, err);
    if (r == 0)
        db_query_bind(ret_query->row, types, values);
    return r;
}

int db_query(struct db *db, struct query *ret_query, struct err *err, const char *sql, const char *types, ...) {
    va_list values;
    va_start(values, types);
    int r = db_query_begin(db, ret_query, sql, types, &values, err);
    va_end(values);
    return r;
}

int query_next(struct query *query, struct err *err) {
    int step = sqlite3_step(query->row);
    if (step == SQLITE_ROW)
        return 1;
    int r = step == SQLITE_DONE ? 0 : db_fail(query->db, err);
    query_end(query);
    return r;
}

const char *query_text(const struct query *query, int column) {
    return (const char *)sqlite3_column_text(query->row, column);
}

int64_t query_int(const struct query *query, int column) {
    return sqlite3_column_int64(query->row, column);
}

bool query_hash(const struct query *query, int column, uint8_t ret_hash[32]) {
    const void *hash = sqlite3_column_blob(query->row, column);
    if (!hash || sqlite3_column_bytes(query->row, column) != 32)
        return false;
    memcpy(ret_hash, hash, 32);
    return true;
}

int db_do(struct db *db, struct err *err, const char *sql, const char *types, ...) {
    autoquery query;
    va_list values;
    va_start(values, types);
    int r = db_query_begin(db, &query, sql, types, &values, err);
    va_end(values);
    while (r == 0 && (r = query_next(&query, err)) > 0)
        r = 0;
    return r;
}

int db_get(struct db *db, struct err *err, const char *sql, const char *types, ...) {
    autoquery query;
    va_list values;
    va_start(values, types);
    int r = db_query_begin(db, &query, sql, types, &values, err) ?: query_next(&query, err);
    const char *column = strchr(types, '>') + 1;
    for (int at = 0; r > 0 && column[at]; at++)
        if (column[at] == 'h')
            r = query_hash(&query, at, va_arg(values, uint8_t *));
        else
            *va_arg(values, int64_t *) = query_int(&query, at);
    va_end(values);
    return r;
}

int db_number(struct db *db, const char *sql, int64_t *ret_number, struct err *err) {
    int r = db_get(db, err, sql, ">i", ret_number);
    return r > 0 ? 0 : r < 0 ? r : err_set(err, ERR_IO, "%s: a row is missing", db->kind->what);
}

int db_begin(struct db *db, struct err *err) {
    return db_exec(db, "BEGIN IMMEDIATE", err);
}

int db_end(struct db *db, int code, struct err *err) {
    if (code == 0)
        code = db_exec(db, "COMMIT", err);
    if (code < 0 && !sqlite3_get_autocommit(db->handle))
        db_exec(db, "ROLLBACK", ERR_IGNORED);
    return code;
}
