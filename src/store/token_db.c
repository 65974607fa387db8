/* The file of tokens. Called by front/auth and `cubby token --state`, from any thread. Invariant:
 *
 * 1. store->lock guards the connection. SQLite waits some seconds for other processes.
 * 2. A token that was answered is on disk, and so is a revocation (synchronous=FULL; there is no write-ahead log: writes
 *    are rare, and one file is one thing to watch, to copy and to close to others).
 * 3. `change` counts what matters to those who keep tokens in memory; that one was used does not. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "store/db.h"
#include "store/token.h"

#define KEPT_MS (30ull * 86400000) /* one that ended longer ago is forgotten when the next one is made */

struct token_store {
    char *directory, *path;
    pthread_mutex_t lock; /* of what is below */
    struct db db;         /* zeroed: the file could not be opened */
    int64_t version;      /* PRAGMA data_version at the last look: it moves when another connection writes */
    int64_t seen;         /* `change` at the last token_list */
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

static const struct db_kind kind = {
    .name = "tokens.db",
    .what = "tokens",
    .application = 0x63756274, /* "cubt" */
    .version = 1,
    .schema = schema,
    .pragmas = "PRAGMA synchronous=FULL;PRAGMA secure_delete=ON",
    .closed = true,
};

/* ---- opening ---- */

static int store_open_locked(struct token_store *store, struct err *err) {
    store->seen = store->version = -1;
    return db_open(&kind, store->directory, &store->db, err) < 0 ? err_wrap(err, "%.300s", store->path) : 0;
}

int token_store_open(const char *directory, struct token_store **ret_store, struct err *err) {
    struct token_store *store = calloc(1, sizeof *store);
    if (!store || !(store->directory = strdup(directory)) || asprintf(&store->path, "%s/%s", directory, kind.name) < 0)
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
    db_close(&store->db);
    pthread_mutex_destroy(&store->lock);
    free(store->path);
    free(store->directory);
    free(store);
}

/* A file that somebody took away or replaced is not written to any more: the one of that name is what counts. */
static int store_ready_locked(struct token_store *store, struct err *err) {
    if (store->db.handle && !db_replaced(&store->db))
        return 0;
    db_close(&store->db);
    return store_open_locked(store, err);
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
    int r = db_prepare(&store->db,
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
    return db_run(&store->db, statement, err);
}

static int token_forget_locked(struct token_store *store, uint64_t now_ms, struct err *err) {
    sqlite3_stmt *statement = NULL;
    int r = db_prepare(&store->db,
                       "DELETE FROM token WHERE (revoked_ms AND revoked_ms < ?1) OR (expires_ms AND expires_ms < ?1)",
                       &statement, err);
    if (r < 0)
        return r;
    sqlite3_bind_int64(statement, 1, now_ms > KEPT_MS ? (int64_t)(now_ms - KEPT_MS) : 0);
    return db_run(&store->db, statement, err);
}

static int token_create_locked(struct token_store *store, const struct token *token, struct err *err) {
    int64_t count = 0;
    int r = token_forget_locked(store, token->created_ms, err);
    if (r == 0)
        r = db_number(&store->db, "SELECT count(*) FROM token", &count, err);
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
        r = db_begin(&store->db, err);
    if (r == 0)
        r = db_end(&store->db, token_create_locked(store, &made, err), err);
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
    int r = db_prepare(&store->db,
                       "UPDATE token SET revoked_ms = CASE revoked_ms WHEN 0 THEN ?2 ELSE revoked_ms END"
                       " WHERE id = ?1",
                       &statement, err);
    if (r < 0)
        return r;
    db_text(statement, 1, id);
    sqlite3_bind_int64(statement, 2, (int64_t)clock_wall_ms());
    r = db_run(&store->db, statement, err);
    if (r == 0 && !sqlite3_changes(store->db.handle))
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
    int r = db_prepare(&store->db, "UPDATE token SET used_ms = ?2 WHERE id = ?1 AND used_ms < ?2", &statement, err);
    for (size_t i = 0; i < count && r == 0; i++) {
        db_text(statement, 1, uses[i].id);
        sqlite3_bind_int64(statement, 2, (int64_t)uses[i].used_ms);
        if (sqlite3_step(statement) != SQLITE_DONE)
            r = db_fail(&store->db, err);
        sqlite3_reset(statement);
    }
    sqlite3_finalize(statement);
    return r;
}

int token_used(struct token_store *store, const struct token_use *uses, size_t count, struct err *err) {
    pthread_mutex_lock(&store->lock);
    int r = store_ready_locked(store, err);
    if (r == 0)
        r = db_begin(&store->db, err);
    if (r == 0)
        r = db_end(&store->db, token_used_locked(store, uses, count, err), err);
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
    int r = db_number(&store->db, "SELECT number FROM change", &seen, err);
    if (r == 0)
        r = db_number(&store->db, "SELECT count(*) FROM token", &rows, err);
    if (r == 0)
        r = db_prepare(&store->db,
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
        r = db_fail(&store->db, err);
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
        r = db_exec(&store->db, "BEGIN", err); /* so that number and rows are of one moment */
    if (r == 0)
        r = db_end(&store->db, token_list_locked(store, arena, ret_tokens, ret_count, err), err);
    pthread_mutex_unlock(&store->lock);
    return r;
}

static int token_changed_locked(struct token_store *store, bool *ret_changed, struct err *err) {
    int64_t version = 0, number = 0;
    int r = store_ready_locked(store, err);
    if (r == 0)
        r = db_number(&store->db, "PRAGMA data_version", &version, err);
    if (r == 0 && version == store->version && store->seen >= 0) {
        *ret_changed = false;
        return 0;
    }
    if (r == 0)
        r = db_number(&store->db, "SELECT number FROM change", &number, err);
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
