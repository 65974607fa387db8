/* The file of tokens. Called by front/auth and `cubby token --state`, from any thread. Not to break:
 *
 * 1. store->lock guards the connection. SQLite waits for other processes at most BUSY_MS.
 * 2. A token that was answered is on disk, and so is a revocation (synchronous=FULL; there is no write-ahead log: writes
 *    are rare, and one file is one thing to watch, to copy and to close to others).
 * 3. `change` counts what matters to those who keep tokens in memory; that one was used does not. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "box/token.h"

enum {
    APPLICATION = 0x63756274, /* "cubt": PRAGMA application_id */
    VERSION = 1,
    BUSY_MS = 5000,
};
#define KEPT_MS (30ull * 86400000) /* one that ended longer ago is forgotten when the next one is made */

struct token_store {
    char *path;
    pthread_mutex_t lock; /* of what is below */
    sqlite3 *handle;
    dev_t device;
    ino_t inode;
    int64_t version; /* PRAGMA data_version at the last look: it moves when another connection writes */
    int64_t seen;    /* `change` at the last token_list */
};

static const char schema[] =
    "CREATE TABLE token (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32), label TEXT, user TEXT, scope TEXT NOT NULL, runner TEXT,"
    " created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL, revoked_ms INTEGER NOT NULL);"
    "CREATE TABLE change (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL);"
    "INSERT INTO change VALUES (1, 0);"
    "CREATE TRIGGER token_made AFTER INSERT ON token BEGIN UPDATE change SET number = number + 1; END;"
    "CREATE TRIGGER token_revoked AFTER UPDATE OF sha256, user, scope, runner, expires_ms, revoked_ms ON token"
    " BEGIN UPDATE change SET number = number + 1; END;"
    "CREATE TRIGGER token_gone AFTER DELETE ON token BEGIN UPDATE change SET number = number + 1; END;";

/* ---- small things of SQLite ---- */

static int db_fail(const struct token_store *store, struct err *err) {
    int code = sqlite3_errcode(store->handle) & 0xff;
    return err_set(err, code == SQLITE_BUSY ? ERR_BUSY : ERR_IO, "tokens in %s: %s", store->path,
                   sqlite3_errmsg(store->handle));
}

static int db_exec(struct token_store *store, const char *sql, struct err *err) {
    return sqlite3_exec(store->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(store, err);
}

static int db_prepare(struct token_store *store, const char *sql, sqlite3_stmt **ret_statement, struct err *err) {
    return sqlite3_prepare_v2(store->handle, sql, -1, ret_statement, NULL) == SQLITE_OK ? 0 : db_fail(store, err);
}

static int db_number(struct token_store *store, const char *sql, int64_t *ret_number, struct err *err) {
    sqlite3_stmt *statement = NULL;
    int r = db_prepare(store, sql, &statement, err);
    if (r < 0)
        return r;
    if (sqlite3_step(statement) == SQLITE_ROW)
        *ret_number = sqlite3_column_int64(statement, 0);
    else
        r = db_fail(store, err);
    sqlite3_finalize(statement);
    return r;
}

/* Runs a statement that answers no rows, and frees it. */
static int db_run(struct token_store *store, sqlite3_stmt *statement, struct err *err) {
    int r = sqlite3_step(statement) == SQLITE_DONE ? 0 : db_fail(store, err);
    sqlite3_finalize(statement);
    return r;
}

static int db_begin(struct token_store *store, struct err *err) {
    return db_exec(store, "BEGIN IMMEDIATE", err);
}

static int db_end(struct token_store *store, int r, struct err *err) {
    struct err ignored;
    if (r == 0)
        r = db_exec(store, "COMMIT", err);
    if (r < 0 && !sqlite3_get_autocommit(store->handle))
        db_exec(store, "ROLLBACK", &ignored);
    return r;
}

static void db_text(sqlite3_stmt *statement, int column, const char *text) {
    sqlite3_bind_text(statement, column, text, -1, SQLITE_TRANSIENT); /* NULL binds NULL */
}

/* ---- opening ---- */

/* SQLite would make it 0644 and root's. One that is there is not opened here: closing it again would drop the locks that
 * SQLite has on it. */
static int file_make(const char *directory, const char *path, struct err *err) {
    struct stat status;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return errno == EEXIST ? 0 : err_errno(err, errno, "%s cannot be made", path);
    int r = 0;
    if (geteuid() == 0 && (stat(directory, &status) < 0 || fchown(file, status.st_uid, status.st_gid) < 0))
        r = err_errno(err, errno, "the owner of %s", path);
    fd_close(&file);
    return r;
}

static int file_check(struct token_store *store, struct err *err) {
    struct stat status;
    if (lstat(store->path, &status) < 0)
        return err_errno(err, errno, "%s", store->path);
    if (!S_ISREG(status.st_mode) || (status.st_mode & 077))
        return err_set(err, ERR_DENIED, "%s must be a file that only its owner can read: chmod 600 it", store->path);
    store->device = status.st_dev;
    store->inode = status.st_ino;
    return 0;
}

/* Whose file it is: ours, of a version we know, or an empty one that becomes ours. */
static int db_identify(struct token_store *store, struct err *err) {
    int64_t application = 0, version = 0, tables = 0;
    int r = db_number(store, "PRAGMA application_id", &application, err);
    if (r == 0)
        r = db_number(store, "PRAGMA user_version", &version, err);
    if (r == 0)
        r = db_number(store, "SELECT count(*) FROM sqlite_master", &tables, err);
    if (r < 0)
        return r;
    if (!tables && !application) {
        char pragmas[96];
        snprintf(pragmas, sizeof pragmas, "PRAGMA application_id=%d;PRAGMA user_version=%d", APPLICATION, VERSION);
        r = db_exec(store, schema, err);
        return r < 0 ? r : db_exec(store, pragmas, err);
    }
    if (application != APPLICATION || version != VERSION)
        return err_set(err, ERR_INVALID, "%s was not written by this version of cubby; move it away", store->path);
    return 0;
}

static int db_open_locked(struct token_store *store, struct err *err) {
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    int code = sqlite3_open_v2(store->path, &store->handle, flags, NULL);
    if (!store->handle)
        abort();
    if (code != SQLITE_OK)
        return db_fail(store, err);
    sqlite3_busy_timeout(store->handle, BUSY_MS);
    sqlite3_db_config(store->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(store->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    int r = db_exec(store, "PRAGMA synchronous=FULL;PRAGMA cell_size_check=ON;PRAGMA secure_delete=ON", err);
    if (r == 0)
        r = db_begin(store, err);
    if (r == 0)
        r = db_end(store, db_identify(store, err), err);
    store->seen = store->version = -1;
    return r;
}

static int store_open_locked(struct token_store *store, struct err *err) {
    char directory[4096];
    snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(store->path, '/') - store->path), store->path);
    int r = file_make(directory, store->path, err);
    if (r == 0)
        r = file_check(store, err);
    return r == 0 ? db_open_locked(store, err) : r;
}

int token_store_open(const char *directory, struct token_store **ret_store, struct err *err) {
    struct token_store *store = calloc(1, sizeof *store);
    if (!store || asprintf(&store->path, "%s/tokens.db", directory) < 0)
        abort();
    pthread_mutex_init(&store->lock, NULL);
    int r = store_open_locked(store, err);
    if (r < 0) {
        token_store_close(store);
        return r;
    }
    *ret_store = store;
    return 0;
}

void token_store_close(struct token_store *store) {
    if (!store)
        return;
    sqlite3_close(store->handle);
    pthread_mutex_destroy(&store->lock);
    free(store->path);
    free(store);
}

/* A file that somebody took away or replaced is not written to any more: the one of that name is what counts. */
static int store_ready_locked(struct token_store *store, struct err *err) {
    struct stat status;
    if (store->handle && lstat(store->path, &status) == 0 && status.st_dev == store->device &&
        status.st_ino == store->inode)
        return 0;
    sqlite3_close(store->handle);
    store->handle = NULL;
    int r = store_open_locked(store, err);
    if (r < 0) {
        sqlite3_close(store->handle);
        store->handle = NULL;
    }
    return r;
}

const char *token_store_path(const struct token_store *store) {
    return store->path;
}

/* ---- making and ending ---- */

/* The id is a part of the digest: another token with the same one (2^-48) is simply not used. */
static int token_secret(struct token *token, char text[TOKEN_TEXT_BYTES], struct err *err) {
    uint8_t secret[32];
    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return err_errno(err, errno, "random bytes");
    memcpy(text, "cubby_", 6);
    text_hex(text + 6, secret, sizeof secret);
    explicit_bzero(secret, sizeof secret);
    token_hash(text, token->sha256);
    token_id(token->sha256, token->id);
    return 0;
}

static int token_insert_locked(struct token_store *store, const struct token *token, struct err *err) {
    sqlite3_stmt *statement = NULL;
    int r = db_prepare(store,
                       "INSERT INTO token (id, sha256, label, user, scope, runner, created_ms, expires_ms, used_ms,"
                       " revoked_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0)",
                       &statement, err);
    if (r < 0)
        return r;
    db_text(statement, 1, token->id);
    sqlite3_bind_blob(statement, 2, token->sha256, sizeof token->sha256, SQLITE_TRANSIENT);
    db_text(statement, 3, token->label);
    db_text(statement, 4, token->user);
    db_text(statement, 5, scope_name(token->scope));
    db_text(statement, 6, token->runner);
    sqlite3_bind_int64(statement, 7, (int64_t)token->created_ms);
    sqlite3_bind_int64(statement, 8, (int64_t)token->expires_ms);
    return db_run(store, statement, err);
}

static int token_forget_locked(struct token_store *store, uint64_t now_ms, struct err *err) {
    sqlite3_stmt *statement = NULL;
    int r = db_prepare(store,
                       "DELETE FROM token WHERE (revoked_ms AND revoked_ms < ?1) OR (expires_ms AND expires_ms < ?1)",
                       &statement, err);
    if (r < 0)
        return r;
    sqlite3_bind_int64(statement, 1, now_ms > KEPT_MS ? (int64_t)(now_ms - KEPT_MS) : 0);
    return db_run(store, statement, err);
}

static int token_create_locked(struct token_store *store, const struct token *token, struct err *err) {
    int64_t count = 0;
    int r = token_forget_locked(store, token->created_ms, err);
    if (r == 0)
        r = db_number(store, "SELECT count(*) FROM token", &count, err);
    if (r == 0 && count >= LIMIT_TOKENS)
        r = err_set(err, ERR_LIMIT, "there are %" PRId64 " tokens, which is the limit; revoked ones go after 30 days",
                    count);
    return r == 0 ? token_insert_locked(store, token, err) : r;
}

int token_create(struct token_store *store, struct token *token, char ret_text[TOKEN_TEXT_BYTES], struct err *err) {
    struct token made = *token;
    char text[TOKEN_TEXT_BYTES];
    int r = token_secret(&made, text, err);
    made.created_ms = clock_wall_ms();
    made.used_ms = made.revoked_ms = 0;
    if (r < 0)
        return r;
    pthread_mutex_lock(&store->lock);
    r = store_ready_locked(store, err);
    if (r == 0)
        r = db_begin(store, err);
    if (r == 0)
        r = db_end(store, token_create_locked(store, &made, err), err);
    pthread_mutex_unlock(&store->lock);
    if (r == 0) {
        *token = made;
        memcpy(ret_text, text, sizeof text);
    }
    explicit_bzero(text, sizeof text);
    return r;
}

static int token_revoke_locked(struct token_store *store, const char *id, struct err *err) {
    sqlite3_stmt *statement = NULL;
    int r = db_prepare(store,
                       "UPDATE token SET revoked_ms = CASE revoked_ms WHEN 0 THEN ?2 ELSE revoked_ms END"
                       " WHERE id = ?1",
                       &statement, err);
    if (r < 0)
        return r;
    db_text(statement, 1, id);
    sqlite3_bind_int64(statement, 2, (int64_t)clock_wall_ms());
    r = db_run(store, statement, err);
    if (r == 0 && !sqlite3_changes(store->handle))
        r = err_set(err, ERR_NOT_FOUND, "no token '%.40s'", id);
    return r;
}

int token_revoke(struct token_store *store, const char *id, struct err *err) {
    pthread_mutex_lock(&store->lock);
    int r = store_ready_locked(store, err);
    if (r == 0)
        r = token_revoke_locked(store, id, err);
    pthread_mutex_unlock(&store->lock);
    return r;
}

static int token_used_locked(struct token_store *store, const struct token_use *uses, size_t count, struct err *err) {
    sqlite3_stmt *statement = NULL;
    int r = db_prepare(store, "UPDATE token SET used_ms = ?2 WHERE id = ?1 AND used_ms < ?2", &statement, err);
    for (size_t i = 0; i < count && r == 0; i++) {
        db_text(statement, 1, uses[i].id);
        sqlite3_bind_int64(statement, 2, (int64_t)uses[i].used_ms);
        if (sqlite3_step(statement) != SQLITE_DONE)
            r = db_fail(store, err);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    return r;
}

int token_used(struct token_store *store, const struct token_use *uses, size_t count, struct err *err) {
    pthread_mutex_lock(&store->lock);
    int r = store_ready_locked(store, err);
    if (r == 0)
        r = db_begin(store, err);
    if (r == 0)
        r = db_end(store, token_used_locked(store, uses, count, err), err);
    pthread_mutex_unlock(&store->lock);
    return r;
}

/* ---- looking ---- */

static char *column_text(sqlite3_stmt *statement, int column, struct arena *arena) {
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? arena_strdup(arena, (const char *)text) : NULL;
}

/* False: a row that no version of ours wrote. It opens nothing. */
static bool token_row(sqlite3_stmt *statement, struct arena *arena, struct token *ret_token) {
    const char *id = (const char *)sqlite3_column_text(statement, 0);
    const void *digest = sqlite3_column_blob(statement, 1);
    const char *scope = (const char *)sqlite3_column_text(statement, 4);
    struct token token = {.label = column_text(statement, 2, arena),
                          .user = column_text(statement, 3, arena),
                          .runner = column_text(statement, 5, arena),
                          .created_ms = (uint64_t)sqlite3_column_int64(statement, 6),
                          .expires_ms = (uint64_t)sqlite3_column_int64(statement, 7),
                          .used_ms = (uint64_t)sqlite3_column_int64(statement, 8),
                          .revoked_ms = (uint64_t)sqlite3_column_int64(statement, 9)};
    struct err ignored;
    if (!id || strlen(id) != TOKEN_ID_BYTES - 1 || !digest || sqlite3_column_bytes(statement, 1) != 32 || !scope ||
        !scope_find(scope, &token.scope) || (token.scope == SCOPE_USER && !token.user) ||
        token_wish(&token, true, &ignored) < 0)
        return false;
    memcpy(token.id, id, TOKEN_ID_BYTES);
    memcpy(token.sha256, digest, sizeof token.sha256);
    *ret_token = token;
    return true;
}

static int token_list_locked(struct token_store *store, struct arena *arena, struct token **ret_tokens,
                             size_t *ret_count, struct err *err) {
    int64_t rows = 0, seen = 0;
    sqlite3_stmt *statement = NULL;
    int r = db_number(store, "SELECT number FROM change", &seen, err);
    if (r == 0)
        r = db_number(store, "SELECT count(*) FROM token", &rows, err);
    if (r == 0)
        r = db_prepare(store,
                       "SELECT id, sha256, label, user, scope, runner, created_ms, expires_ms, used_ms, revoked_ms"
                       " FROM token ORDER BY number",
                       &statement, err);
    if (r < 0)
        return r;
    struct token *tokens = arena_alloc(arena, ((size_t)rows + 1) * sizeof *tokens);
    size_t count = 0;
    int step;
    while ((step = sqlite3_step(statement)) == SQLITE_ROW && count < (size_t)rows)
        count += token_row(statement, arena, &tokens[count]);
    if (step != SQLITE_DONE && step != SQLITE_ROW)
        r = db_fail(store, err);
    sqlite3_finalize(statement);
    if (r == 0) {
        store->seen = seen;
        *ret_tokens = tokens;
        *ret_count = count;
    }
    return r;
}

int token_list(struct token_store *store, struct arena *arena, struct token **ret_tokens, size_t *ret_count,
               struct err *err) {
    pthread_mutex_lock(&store->lock);
    int r = store_ready_locked(store, err);
    if (r == 0)
        r = db_exec(store, "BEGIN", err); /* so that number and rows are of one moment */
    if (r == 0)
        r = db_end(store, token_list_locked(store, arena, ret_tokens, ret_count, err), err);
    pthread_mutex_unlock(&store->lock);
    return r;
}

static int token_changed_locked(struct token_store *store, bool *ret_changed, struct err *err) {
    int64_t version = 0, number = 0;
    int r = store_ready_locked(store, err);
    if (r == 0)
        r = db_number(store, "PRAGMA data_version", &version, err);
    if (r == 0 && version == store->version && store->seen >= 0) {
        *ret_changed = false;
        return 0;
    }
    if (r == 0)
        r = db_number(store, "SELECT number FROM change", &number, err);
    if (r == 0) {
        *ret_changed = number != store->seen;
        store->version = *ret_changed ? -1 : version; /* until token_list has seen it, every look says so */
    }
    return r;
}

int token_changed(struct token_store *store, bool *ret_changed, struct err *err) {
    pthread_mutex_lock(&store->lock);
    int r = token_changed_locked(store, ret_changed, err);
    pthread_mutex_unlock(&store->lock);
    return r;
}
