/* Tokens: their rules, and their file. Called by front/auth and `cubby token --state`, from any thread.
 * Invariant:
 *
 * 1. store->lock guards the connection. SQLite waits some seconds for other processes.
 * 2. A token or a revocation is on disk before it is answered (synchronous=FULL). The file has no write-ahead log:
 *    writes are rare, and a single file is easier to watch, to copy and to protect.
 * 3. `change` counts changes that matter to daemons that keep tokens in memory; the use of a token does not count. */
#include <inttypes.h>
#include <sys/random.h>

#include "base/base.h"
#include "store/token.h"
#include "base/sha256.h"
#include "base/sync.h"
#include "store/db.h"

static const char *const scopes[] = {"admin", "user", "read", "runner", "worker"};
#define SCOPES (sizeof scopes / sizeof *scopes)

const char *scope_name(enum scope scope) {
    return scopes[scope];
}

bool scope_find(const char *name, enum scope *ret_scope) {
    for (size_t i = 0; i < SCOPES; i++)
        if (!strcmp(name, scopes[i])) {
            *ret_scope = (enum scope)i;
            return true;
        }
    return false;
}

/* Plain SHA-256 is enough here, unlike for a password: 256 random bits cannot be guessed, so a slow or salted hash
 * would not help. */
void token_hash(const char *text, uint8_t ret_sha256[32]) {
    sha256(text, strlen(text), ret_sha256);
}

void token_id(const uint8_t sha256_of_it[32], char ret_id[TOKEN_ID_BYTES]) {
    text_hex(ret_id, sha256_of_it, (TOKEN_ID_BYTES - 1) / 2);
}

int token_wish(struct token *wish, bool has_scope, struct err *err) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    const char *runner = wish->runner;
    size_t len = runner ? strlen(runner) : 0;
    if (!has_scope)
        wish->scope = runner ? SCOPE_RUNNER : SCOPE_USER;
    if (runner && !scope_joins(wish->scope))
        return err_set(err, ERR_INVALID, "a runner's token has scope runner or worker: leave 'scope' or 'runner' out");
    if (scope_joins(wish->scope) && !runner)
        return err_set(err, ERR_INVALID, "a token of scope %s needs 'runner', the machine's name", scopes[wish->scope]);
    if (wish->scope == SCOPE_WORKER && wish->user)
        return err_set(err, ERR_INVALID, "a worker has boxes of all users: leave 'user' out");
    if (wish->scope == SCOPE_ADMIN && wish->user)
        return err_set(err, ERR_INVALID, "a token of scope admin sees every user's boxes: omit 'user'");
    if (wish->scope == SCOPE_USER && !wish->user)
        wish->user = "default";
    TRY(wish->user ? text_user(wish->user, err) : 0);
    if (runner &&
        (!len || len > LIMIT_RUNNER_BYTES || strspn(runner, allowed) != len || runner[0] == '.' || runner[0] == '-'))
        return err_set(err, ERR_INVALID, "a runner's name must have 1 to %u letters, digits and _.-, not '%.80s'",
                       LIMIT_RUNNER_BYTES, runner);
    if (wish->label && (strlen(wish->label) > LIMIT_TOKEN_LABEL_BYTES || !text_utf8(wish->label, strlen(wish->label))))
        return err_set(err, ERR_INVALID, "a label must be UTF-8 of at most %u bytes", LIMIT_TOKEN_LABEL_BYTES);
    return 0;
}

void token_members(const struct token *token, struct json *json) {
    json_put_str(json, "id", token->id);
    json_put_str(json, "user", token->user);
    json_put_str(json, "scope", scope_name(token->scope));
    json_put_str(json, "runner", token->runner);
    json_put_str(json, "label", token->label);
    const struct {
        const char *key;
        uint64_t ms;
    } times[] = {{"created_at", token->created_ms},
                 {"expires_at", token->expires_ms},
                 {"last_used_at", token->used_ms},
                 {"revoked_at", token->revoked_ms}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        json_put_time(json, times[i].key, times[i].ms);
}

/* ---- the file ---- */

#define KEPT_MS (30ull * 86400000) /* tokens that ended earlier are removed when the next one is made */

struct token_store {
    char *directory, *path;
    pthread_mutex_t lock; /* guards the members below */
    struct db db;         /* zeroed: the file could not be opened */
    int64_t version;      /* PRAGMA data_version at the last look; changes when another connection writes */
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

static int store_ready_locked(struct token_store *store, struct err *err) {
    int r = db_ready(&store->db, &kind, store->directory, err);
    if (r > 0)
        store->seen = store->version = -1;
    return r < 0 ? err_wrap(err, "%.300s", store->path) : 0;
}

int token_store_open(const char *directory, struct token_store **ret_store, struct err *err) {
    struct token_store *store = xcalloc(1, sizeof *store);
    store->directory = xstrdup(directory);
    store->path = xasprintf("%s/%s", directory, kind.name);
    pthread_mutex_init(&store->lock, NULL);
    int r = store_ready_locked(store, err);
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

const char *token_store_path(const struct token_store *store) {
    return store->path;
}

/* ---- making and ending ---- */

static int token_create_locked(struct token_store *store, const struct token *token, struct err *err) {
    int64_t count = 0;
    uint64_t until_ms = token->created_ms > KEPT_MS ? token->created_ms - KEPT_MS : 0;
    int r = db_do(&store->db, err,
                  "DELETE FROM token WHERE (revoked_ms AND revoked_ms < ?1) OR (expires_ms AND expires_ms < ?1)", "i",
                  until_ms)
                ?: db_number(&store->db, "SELECT count(*) FROM token", &count, err);
    if (r == 0 && count >= LIMIT_TOKENS)
        r = err_set(err, ERR_LIMIT,
                    "there are %" PRId64
                    " tokens, which is the limit; revoke some; revoked ones are removed after 30 days",
                    count);
    if (r < 0)
        return r;
    return db_do(&store->db, err,
                 "INSERT INTO token (id, sha256, label, user, scope, runner, created_ms, expires_ms, used_ms,"
                 " revoked_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0)",
                 "thttttii", token->id, token->sha256, token->label, token->user, scope_name(token->scope),
                 token->runner, token->created_ms, token->expires_ms);
}

/* The id is a part of the digest. A collision (2^-48) fails the insertion, and the token is not used. */
int token_create(struct token_store *store, struct token *token, char ret_text[TOKEN_TEXT_BYTES], struct err *err) {
    struct token made = *token;
    uint8_t secret[32];
    char text[TOKEN_TEXT_BYTES] = "cubby_";
    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return err_errno(err, errno, "cannot get random bytes");
    text_hex(text + strlen(text), secret, sizeof secret);
    explicit_bzero(secret, sizeof secret);
    token_hash(text, made.sha256);
    token_id(made.sha256, made.id);
    made.created_ms = clock_wall_ms();
    made.used_ms = made.revoked_ms = 0;
    pthread_mutex_lock(&store->lock);
    int r = store_ready_locked(store, err)
            ?: db_begin(&store->db, err)
            ?: db_end(&store->db, token_create_locked(store, &made, err), err);
    pthread_mutex_unlock(&store->lock);
    if (r == 0) {
        *token = made;
        memcpy(ret_text, text, sizeof text);
    }
    explicit_bzero(text, sizeof text);
    return r;
}

int token_revoke(struct token_store *store, const char *id, struct err *err) {
    autolock(&store->lock);
    int r =
        store_ready_locked(store, err)
            ?: db_do(&store->db, err,
                     "UPDATE token SET revoked_ms = CASE revoked_ms WHEN 0 THEN ?2 ELSE revoked_ms END WHERE id = ?1",
                     "ti", id, clock_wall_ms());
    if (r == 0 && !sqlite3_changes(store->db.handle))
        return err_set(err, ERR_NOT_FOUND, "no token '%.40s'", id);
    return r;
}

int token_used(struct token_store *store, const struct token_use *uses, size_t count, struct err *err) {
    autolock(&store->lock);
    TRY(store_ready_locked(store, err) ?: db_begin(&store->db, err));
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++)
        r = db_do(&store->db, err, "UPDATE token SET used_ms = ?2 WHERE id = ?1 AND used_ms < ?2", "ti", uses[i].id,
                  uses[i].used_ms);
    return db_end(&store->db, r, err);
}

/* ---- reading ---- */

static char *token_column_text(const struct query *row, int column, struct arena *arena) {
    const char *text = query_text(row, column);
    return text ? arena_strdup(arena, text) : NULL;
}

/* Returns false for a row that was not written by us, which grants nothing. */
static bool token_row(const struct query *row, struct arena *arena, struct token *ret_token) {
    const char *id = query_text(row, 0), *scope = query_text(row, 4);
    struct token token = {.label = token_column_text(row, 2, arena),
                          .user = token_column_text(row, 3, arena),
                          .runner = token_column_text(row, 5, arena),
                          .created_ms = (uint64_t)query_int(row, 6),
                          .expires_ms = (uint64_t)query_int(row, 7),
                          .used_ms = (uint64_t)query_int(row, 8),
                          .revoked_ms = (uint64_t)query_int(row, 9)};
    if (!id || strlen(id) != TOKEN_ID_BYTES - 1 || !query_hash(row, 1, token.sha256) || !scope ||
        !scope_find(scope, &token.scope) || (token.scope == SCOPE_USER && !token.user) ||
        token_wish(&token, true, ERR_IGNORED) < 0)
        return false;
    memcpy(token.id, id, TOKEN_ID_BYTES);
    *ret_token = token;
    return true;
}

int token_list(struct token_store *store, struct arena *arena, struct token **ret_tokens, size_t *ret_count,
               struct err *err) {
    int64_t rows = 0, seen = 0;
    size_t count = 0;
    struct token *tokens = NULL;
    autolock(&store->lock);
    autoquery query = {0};
    /* one transaction, so that number and rows belong together */
    TRY(store_ready_locked(store, err) ?: db_exec(&store->db, "BEGIN", err));
    int r = db_number(&store->db, "SELECT number FROM change", &seen, err)
            ?: db_number(&store->db, "SELECT count(*) FROM token", &rows, err)
            ?: db_query(&store->db, &query, err,
                        "SELECT id, sha256, label, user, scope, runner, created_ms, expires_ms, used_ms, revoked_ms"
                        " FROM token ORDER BY number",
                        "");
    if (r == 0)
        tokens = arena_alloc(arena, ((size_t)rows + 1) * sizeof *tokens);
    while (tokens && count < (size_t)rows && (r = query_next(&query, err)) > 0)
        count += token_row(&query, arena, &tokens[count]);
    query_end(&query);
    if ((r = db_end(&store->db, r < 0 ? r : 0, err)) < 0)
        return r;
    store->seen = seen;
    *ret_tokens = tokens;
    *ret_count = count;
    return 0;
}

int token_changed(struct token_store *store, bool *ret_changed, struct err *err) {
    autolock(&store->lock);
    int64_t version = 0, number = 0;
    int r = store_ready_locked(store, err) ?: db_number(&store->db, "PRAGMA data_version", &version, err);
    if (r == 0 && version == store->version && store->seen >= 0) {
        *ret_changed = false;
        return 0;
    }
    if (r == 0)
        r = db_number(&store->db, "SELECT number FROM change", &number, err);
    if (r == 0) {
        *ret_changed = number != store->seen;
        store->version = *ret_changed ? -1 : version; /* reported as changed until token_list is called */
    }
    return r;
}
