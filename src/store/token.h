/* Tokens made while running, in STATE/tokens.db: their rules, and the store. Used by front/auth and by `cubby token
 * --state` (a daemon's first token). Several processes may have the store open. */
#ifndef CUBBY_BOX_TOKEN_H
#define CUBBY_BOX_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

/* The rights of a token: everything; everything with its user's boxes; reading them (without a user: all boxes);
 * being the runner of a machine, or a worker of this server, and nothing else. */
enum scope { SCOPE_ADMIN, SCOPE_USER, SCOPE_READ, SCOPE_RUNNER, SCOPE_WORKER };
const char *scope_name(enum scope scope);
bool scope_find(const char *name, enum scope *ret_scope);
static inline bool scope_joins(enum scope scope) {
    return scope == SCOPE_RUNNER || scope == SCOPE_WORKER;
}

#define TOKEN_ID_BYTES 13   /* the first 12 digits of its SHA-256, as the audit log names it */
#define TOKEN_TEXT_BYTES 71 /* "cubby_" and 256 random bits in hex */

struct token {
    char id[TOKEN_ID_BYTES];
    uint8_t sha256[32];
    enum scope scope;
    const char *user, *runner, *label;                    /* NULL: none */
    uint64_t created_ms, expires_ms, used_ms, revoked_ms; /* wall clock; 0: never */
};

/* Checks a request for a token and fills in defaults (has_scope: a scope was given): with a runner's name it is a
 * runner's token, else of scope user; a token of scope user without a user is that of 'default'. A worker's has a runner's name and no user. */
int token_wish(struct token *wish, bool has_scope, struct err *err);
void token_hash(const char *text, uint8_t ret_sha256[32]);
void token_id(const uint8_t sha256[32], char ret_id[TOKEN_ID_BYTES]);
void token_members(const struct token *token, struct json *json); /* into an open object; never the secret */

struct token_store;
/* Makes the file (0600, of the directory's owner) if it does not exist. */
int token_store_open(const char *directory, struct token_store **ret_store, struct err *err);
void token_store_close(struct token_store *store); /* NULL is allowed */
const char *token_store_path(const struct token_store *store);
/* Makes a token: sets id, sha256 and created_ms; text is the only copy of the secret. LIMIT: more than LIMIT_TOKENS. */
int token_create(struct token_store *store, struct token *token, char ret_text[TOKEN_TEXT_BYTES], struct err *err);
/* Lists all tokens, oldest first, in arena. */
int token_list(struct token_store *store, struct arena *arena, struct token **ret_tokens, size_t *ret_count,
               struct err *err);
int token_revoke(struct token_store *store, const char *id, struct err *err); /* NOT_FOUND; may be repeated */
struct token_use {
    const char *id;
    uint64_t used_ms;
};
int token_used(struct token_store *store, const struct token_use *uses, size_t count, struct err *err);
/* Returns whether other processes made or ended tokens since token_list; cheap. A removed or replaced file also counts:
 * the file of that name, made if necessary, is used from then on. */
int token_changed(struct token_store *store, bool *ret_changed, struct err *err);

#endif
