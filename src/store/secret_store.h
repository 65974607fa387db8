/* Secrets at rest, in STATE/secrets.db: each value is sealed with AES-256-GCM under a key that is not in that file.
 * What a secret is for (hosts, slots) is its owner's text, stored unsealed. Used by box/secret. Callable from any
 * thread. */
#ifndef CUBBY_STORE_SECRET_STORE_H
#define CUBBY_STORE_SECRET_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct secret_store;

/* The key is in $CREDENTIALS_DIRECTORY/cubby.key, else in key_file (may be NULL), else in STATE/secrets.key, which is
 * made if missing. DENIED: others may read the key. */
int secret_store_open(const char *directory, const char *key_file, struct secret_store **ret_store, struct err *err);
void secret_store_close(struct secret_store *store); /* NULL is allowed */
/* Says where the key is, for people: "a systemd credential", "STATE/secrets.key". */
const char *secret_store_key(const struct secret_store *store);
/* DENIED, NOT_FOUND: the key's file is not as it was found: others may read it now, or it is gone. */
int secret_store_key_check(const struct secret_store *store, struct err *err);

struct secret_row {   /* texts in the caller's arena */
    const char *user; /* NULL: of all users */
    const char *name, *meta;
    const char *id; /* 16 hex digits, for dialects whose clients use one */
    char digest[9]; /* a keyed hash of 4 bytes that distinguishes values and reveals nothing */
    uint64_t version, created_us, updated_us, used_ms;
};

enum secret_how {
    SECRET_NEW,
    SECRET_ANY,
    SECRET_OLD
}; /* EXISTS if it exists; either; NOT_FOUND if it does not exist */
/* meta NULL: unchanged. value NULL: unchanged (SECRET_OLD only), or none if meta says where it comes from. LIMIT: the
 * user has too many. */
int secret_store_put(struct secret_store *store, const char *user, const char *name, enum secret_how how,
                     const char *meta, const void *value, size_t len, struct err *err);
/* Finds by name or id, only for that user. NOT_FOUND: no such secret. */
int secret_store_get(struct secret_store *store, const char *user, const char *name, struct arena *arena,
                     struct secret_row *ret_row, struct err *err);
/* Appends the value, which the caller wipes. INVALID: sealed with another key, or changed. NOT_FOUND: no such secret,
 * or no stored value. */
int secret_store_value(struct secret_store *store, const char *user, const char *name, struct buf *out,
                       struct err *err);
/* Lists the secrets of one user (NULL: those of all users in common), or all secrets, by name. */
int secret_store_list(struct secret_store *store, bool all, const char *user, struct arena *arena,
                      struct secret_row **ret_rows, size_t *ret_count, struct err *err);
int secret_store_remove(struct secret_store *store, const char *user, const char *name, struct err *err);
void secret_store_used(struct secret_store *store, const char *user,
                       const char *name); /* records its use; failures are ignored */

#endif
