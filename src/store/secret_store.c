/* Secrets in one SQLite file. Called by box/secret. Invariants:
 *
 * 1. A value is in the file only as AES-256-GCM under a nonce of its own. Name, user and version are authenticated with
 *    it, so that a row cannot be taken for another one, or an old value for the current one.
 * 2. No error text contains a value. Memory that held one is wiped before it is freed. */
#include "store/secret_store.h"

#include <openssl/evp.h>

#include "base/base.h"
#include "base/sha256.h"
#include "base/sync.h"
#include "store/db.h"
#include "store/state_secret.h"

enum { NONCE_BYTES = 12, TAG_BYTES = 16, KEY_BYTES = 32, KEY_FILE_BYTES = 4096 };

struct secret_store {
    char *directory;
    uint8_t key[KEY_BYTES];
    const char *origin;
    char *key_path;       /* NULL: a credential, which nobody else can change */
    pthread_mutex_t lock; /* of the connection */
    struct db db;
};

static const struct db_kind kind = {
    .name = "secrets.db",
    .what = "secrets",
    .application = 0x63756273, /* "cubs" */
    .version = 1,
    .schema = "CREATE TABLE secret(user TEXT NOT NULL, name TEXT NOT NULL, id TEXT NOT NULL UNIQUE,"
              " version INTEGER NOT NULL, meta TEXT NOT NULL, sealed BLOB, digest TEXT NOT NULL,"
              " created_us INTEGER NOT NULL, updated_us INTEGER NOT NULL, used_ms INTEGER NOT NULL,"
              " PRIMARY KEY(user, name))",
    .pragmas = "PRAGMA synchronous=FULL;PRAGMA secure_delete=ON",
    .closed = true,
};

/* ---- the key ---- */

/* Hashes 32 or more bytes of any kind: the file may have hex digits, base64 or random bytes. */
static int secret_key_read(const char *path, bool closed, uint8_t ret_key[KEY_BYTES], struct err *err) {
    uint8_t text[KEY_FILE_BYTES + 1];
    struct stat status;
    autofd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) < 0)
        return err_errno(err, errno, "cannot read the key of secrets, %.200s", path);
    if (!S_ISREG(status.st_mode) || (closed && status.st_mode & 077))
        return err_set(err, ERR_DENIED,
                       "the key of secrets, %.200s, must be a file that only its owner can read: chmod 600", path);
    ssize_t len = fd_read_full(fd, text, sizeof text);
    if (len < KEY_BYTES || len > KEY_FILE_BYTES)
        return err_set(err, ERR_INVALID,
                       "the key of secrets, %.200s, must have %d to %d bytes; make one with "
                       "`openssl rand -hex 32`",
                       path, KEY_BYTES, KEY_FILE_BYTES);
    sha256(text, (size_t)len, ret_key);
    explicit_bzero(text, sizeof text);
    return 0;
}

static int secret_key_find(struct secret_store *store, const char *key_file, struct err *err) {
    const char *credentials = getenv("CREDENTIALS_DIRECTORY");
    const char *path = credentials ? text_make(LIMIT_PATH_BYTES, "%s/cubby.key", credentials) : NULL;
    if (path && access(path, F_OK) == 0) {
        store->origin = "a systemd credential";
        return secret_key_read(path, false, store->key, err);
    }
    if (key_file) {
        store->origin = "secret_key_file";
        store->key_path = xstrdup(key_file);
        return secret_key_read(key_file, true, store->key, err);
    }
    struct state_secret secret;
    store->origin = "STATE/secrets.key";
    store->key_path = xasprintf("%s/secrets.key", store->directory);
    TRY(state_secret_open(store->directory, "secrets.key", &secret, err));
    state_secret_derive(&secret, "secrets.db", store->key);
    state_secret_done(&secret);
    return 0;
}

const char *secret_store_key(const struct secret_store *store) {
    return store->origin;
}

int secret_store_key_check(const struct secret_store *store, struct err *err) {
    struct stat status;
    if (!store->key_path)
        return 0;
    if (stat(store->key_path, &status) < 0)
        return err_errno(err, errno, "%s", store->origin);
    return status.st_mode & 077
               ? err_set(err, ERR_DENIED, "%s can be read by others (mode %o)", store->origin, status.st_mode & 0777)
               : 0;
}

/* ---- sealing ---- */

/* Makes the data that a value is bound to. The parts have no NUL, so that no two of them look alike. */
static void secret_bound(struct buf *out, const char *user, const char *name, uint64_t version) {
    buf_put(out, name, strlen(name) + 1);
    buf_put(out, user, strlen(user) + 1);
    buf_u64(out, version);
}

/* Writes nonce, sealed bytes and tag to out, or opens them. Returns false for a wrong key or changed bytes. */
static bool secret_cipher(const struct secret_store *store, bool seal, const struct buf *bound, const uint8_t *nonce,
                          const uint8_t *data, size_t len, uint8_t *tag, struct buf *out) {
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    uint8_t *to = buf_reserve(out, len + TAG_BYTES);
    int n = 0, rest = 0;
    bool fine = context && to && EVP_CipherInit_ex(context, EVP_aes_256_gcm(), NULL, store->key, nonce, seal) == 1 &&
                EVP_CipherUpdate(context, NULL, &n, bound->data, (int)bound->len) == 1 &&
                EVP_CipherUpdate(context, to, &n, data, (int)len) == 1;
    if (fine && !seal)
        fine = EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1;
    fine = fine && EVP_CipherFinal_ex(context, to + n, &rest) == 1;
    if (fine && seal)
        fine = EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) == 1;
    if (fine)
        out->len += (size_t)n;
    else if (to)
        explicit_bzero(to, len + TAG_BYTES);
    EVP_CIPHER_CTX_free(context);
    return fine;
}

static int secret_seal(const struct secret_store *store, const char *user, const char *name, uint64_t version,
                       const void *value, size_t len, struct buf *out, struct err *err) {
    autobuf bound = buf_max(4096);
    uint8_t nonce[NONCE_BYTES], tag[TAG_BYTES];
    xrandom(nonce, sizeof nonce);
    secret_bound(&bound, user, name, version);
    buf_put(out, nonce, sizeof nonce);
    if (!secret_cipher(store, true, &bound, nonce, value, len, tag, out))
        return err_set(err, ERR_INTERNAL, "cannot seal the secret '%s'", name);
    buf_put(out, tag, sizeof tag);
    return 0;
}

static void secret_digest(const struct secret_store *store, const void *value, size_t len, char ret_digest[9]) {
    autobuf keyed = buf_max(KEY_BYTES + len);
    uint8_t hash[32];
    buf_put(&keyed, store->key, KEY_BYTES);
    buf_put(&keyed, value, len);
    sha256(keyed.data, keyed.len, hash);
    explicit_bzero(keyed.data, keyed.len);
    text_hex(ret_digest, hash, 4);
}

/* ---- the file ---- */

int secret_store_open(const char *directory, const char *key_file, struct secret_store **ret_store, struct err *err) {
    struct secret_store *store = xcalloc(1, sizeof *store);
    store->directory = xstrdup(directory);
    pthread_mutex_init(&store->lock, NULL);
    int failed = secret_key_find(store, key_file, err) ?: db_open(&kind, directory, &store->db, err);
    if (failed) {
        secret_store_close(store);
        return err_wrap(err, "STATE/secrets.db");
    }
    *ret_store = store;
    return 0;
}

void secret_store_close(struct secret_store *store) {
    if (!store)
        return;
    db_close(&store->db);
    pthread_mutex_destroy(&store->lock);
    free(store->directory);
    free(store->key_path);
    explicit_bzero(store, sizeof *store);
    free(store);
}

static int secret_ready_locked(struct secret_store *store, struct err *err) {
    int r = db_ready(&store->db, &kind, store->directory, err);
    return r < 0 ? r : 0;
}

static int secret_none(const char *name, struct err *err) {
    return err_set(err, ERR_NOT_FOUND, "no secret '%.128s'", name);
}

static int secret_insert_locked(struct secret_store *store, const char *user, const char *name, const char *meta,
                                const struct buf *sealed, const char *digest, struct err *err) {
    autoquery query = {0};
    uint8_t random[8];
    char id[17];
    TRY(db_query(&store->db, &query, err, "SELECT count(*) FROM secret WHERE user=?1", "t", user));
    int row = query_next(&query, err);
    int64_t count = row > 0 ? query_int(&query, 0) : 0;
    query_end(&query);
    if (row < 0)
        return row;
    if (count >= LIMIT_STORED_SECRETS)
        return err_set(err, ERR_LIMIT, "a user has at most %u secrets; delete some", LIMIT_STORED_SECRETS);
    xrandom(random, sizeof random);
    text_hex(id, random, sizeof random);
    return db_do(&store->db, err, "INSERT INTO secret VALUES(?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?7, 0)", "ttttbti", user,
                 name, id, meta ? meta : "{}", sealed->len ? sealed->data : NULL, sealed->len, digest, clock_wall_us());
}

static int secret_put_locked(struct secret_store *store, const char *user, const char *name, enum secret_how how,
                             const char *meta, const void *value, size_t len, struct err *err) {
    autobuf sealed = buf_max(LIMIT_STORED_SECRET_BYTES + 64);
    char digest[9] = "";
    autoquery query = {0};
    TRY(db_query(&store->db, &query, err, "SELECT version, name FROM secret WHERE user=?1 AND (name=?2 OR id=?2)", "tt",
                 user, name));
    int row = query_next(&query, err);
    uint64_t version = row > 0 ? (uint64_t)query_int(&query, 0) : 0;
    const char *own = row > 0 ? text_make(256, "%s", query_text(&query, 1)) : name;
    query_end(&query);
    if (row < 0)
        return row;
    if (row > 0 && how == SECRET_NEW)
        return err_set(err, ERR_EXISTS, "a secret '%.128s' already exists", name);
    if (row == 0 && how == SECRET_OLD)
        return secret_none(name, err);
    if (value) {
        TRY(secret_seal(store, user, own, version + 1, value, len, &sealed, err));
        secret_digest(store, value, len, digest);
    }
    if (row == 0)
        return secret_insert_locked(store, user, own, meta, &sealed, digest, err);
    if (!value && how == SECRET_OLD) /* the value stays, and so does the version that it is sealed for */
        return db_do(&store->db, err,
                     "UPDATE secret SET meta=ifnull(?3, meta), updated_us=?4 WHERE user=?1 AND name=?2", "ttti", user,
                     own, meta, clock_wall_us());
    return db_do(&store->db, err,
                 "UPDATE secret SET version=version+1, meta=ifnull(?3, meta), sealed=?4, digest=?5, updated_us=?6"
                 " WHERE user=?1 AND name=?2",
                 "tttbti", user, own, meta, sealed.len ? sealed.data : NULL, sealed.len, digest, clock_wall_us());
}

int secret_store_put(struct secret_store *store, const char *user, const char *name, enum secret_how how,
                     const char *meta, const void *value, size_t len, struct err *err) {
    autolock(&store->lock);
    TRY(secret_ready_locked(store, err) ?: db_begin(&store->db, err));
    return db_end(&store->db, secret_put_locked(store, user ? user : "", name, how, meta, value, len, err), err);
}

#define SECRET_COLUMNS "SELECT user, name, id, version, meta, digest, created_us, updated_us, used_ms FROM secret "

static void secret_row_of(const struct query *query, struct arena *arena, struct secret_row *ret_row) {
    const char *user = query_text(query, 0);
    *ret_row = (struct secret_row){.user = user && *user ? arena_strdup(arena, user) : NULL,
                                   .name = arena_strdup(arena, query_text(query, 1)),
                                   .id = arena_strdup(arena, query_text(query, 2)),
                                   .version = (uint64_t)query_int(query, 3),
                                   .meta = arena_strdup(arena, query_text(query, 4)),
                                   .created_us = (uint64_t)query_int(query, 6),
                                   .updated_us = (uint64_t)query_int(query, 7),
                                   .used_ms = (uint64_t)query_int(query, 8)};
    snprintf(ret_row->digest, sizeof ret_row->digest, "%s", query_text(query, 5));
}

int secret_store_get(struct secret_store *store, const char *user, const char *name, struct arena *arena,
                     struct secret_row *ret_row, struct err *err) {
    autolock(&store->lock);
    autoquery query = {0};
    TRY(secret_ready_locked(store, err)
            ?: db_query(&store->db, &query, err, SECRET_COLUMNS "WHERE user=?1 AND (name=?2 OR id=?2)", "tt",
                        user ? user : "", name));
    int row = query_next(&query, err);
    if (row <= 0)
        return row < 0 ? row : secret_none(name, err);
    secret_row_of(&query, arena, ret_row);
    return 0;
}

int secret_store_value(struct secret_store *store, const char *user, const char *name, struct buf *out,
                       struct err *err) {
    autobuf bound = buf_max(4096), sealed = buf_max(LIMIT_STORED_SECRET_BYTES + 64);
    autolock(&store->lock);
    autoquery query = {0};
    TRY(secret_ready_locked(store, err)
            ?: db_query(&store->db, &query, err,
                        "SELECT name, version, sealed FROM secret WHERE user=?1 AND (name=?2 OR id=?2)", "tt",
                        user ? user : "", name));
    int row = query_next(&query, err);
    if (row <= 0)
        return row < 0 ? row : secret_none(name, err);
    buf_put(&sealed, sqlite3_column_blob(query.row, 2), (size_t)sqlite3_column_bytes(query.row, 2));
    secret_bound(&bound, user ? user : "", query_text(&query, 0), (uint64_t)query_int(&query, 1));
    if (!sealed.len)
        return err_set(err, ERR_NOT_FOUND, "secret '%.128s' has no stored value", name);
    if (sealed.len < NONCE_BYTES + TAG_BYTES || sealed.failed ||
        !secret_cipher(store, false, &bound, sealed.data, sealed.data + NONCE_BYTES,
                       sealed.len - NONCE_BYTES - TAG_BYTES, sealed.data + sealed.len - TAG_BYTES, out))
        return err_set(err, ERR_INVALID,
                       "secret '%.128s' was sealed with another key, or its row was changed: set its value again",
                       name);
    return 0;
}

int secret_store_list(struct secret_store *store, bool all, const char *user, struct arena *arena,
                      struct secret_row **ret_rows, size_t *ret_count, struct err *err) {
    struct secret_row *rows = NULL;
    size_t count = 0, cap = 0;
    autolock(&store->lock);
    autoquery query = {0};
    TRY(secret_ready_locked(store, err)
            ?: db_query(&store->db, &query, err, SECRET_COLUMNS "WHERE ?1 OR user=?2 ORDER BY user, name", "nt", all,
                        user ? user : ""));
    int row;
    while ((row = query_next(&query, err)) > 0)
        secret_row_of(&query, arena, &arena_add(arena, rows, count, cap));
    if (row < 0)
        return row;
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

int secret_store_remove(struct secret_store *store, const char *user, const char *name, struct err *err) {
    autolock(&store->lock);
    TRY(secret_ready_locked(store, err)
            ?: db_do(&store->db, err, "DELETE FROM secret WHERE user=?1 AND (name=?2 OR id=?2)", "tt", user ? user : "",
                     name));
    return sqlite3_changes(store->db.handle) ? 0 : secret_none(name, err);
}

void secret_store_used(struct secret_store *store, const char *user, const char *name) {
    autolock(&store->lock);
    if (secret_ready_locked(store, ERR_IGNORED) == 0)
        db_do(&store->db, ERR_IGNORED, "UPDATE secret SET used_ms=?3 WHERE user=?1 AND name=?2 AND used_ms<?3-1000",
              "tti", user ? user : "", name, clock_wall_ms());
}
