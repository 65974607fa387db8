/* Who asks: a token from the configuration or from STATE/tokens.db, or, on loopback and unix sockets where that is
 * allowed, the local user. */
#ifndef CUBBY_FRONT_AUTH_H
#define CUBBY_FRONT_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "store/token.h"
#include "front/tenant.h"
#include "http/server.h"

struct who {
    const char *user;   /* only this user's boxes are seen; NULL: everybody's */
    const char *runner; /* scope runner: the machine's name */
    enum scope scope;
    char token[TOKEN_ID_BYTES]; /* which one, for the audit log; "": none */
    struct tenant *tenant;      /* the user's share; NULL without a user */
};

/* How a request without a token is treated on loopback and on unix sockets. */
enum auth_mode {
    AUTH_OPEN, /* as an admin's, for every sender */
    AUTH_PEER, /* as one of the local user who sends it, by auth_add_peer; root and the daemon's own user are admins */
    AUTH_REQUIRED, /* refused */
};

struct auth;

struct auth *auth_new(enum auth_mode mode);
void auth_free(struct auth *auth); /* NULL is fine */
void auth_add(struct auth *auth, const uint8_t sha256[32], const char *user, enum scope scope);
/* "UID" or "NAME": an admin; "UID=USER" or "NAME=USER": acts as USER with scope user. */
int auth_add_peer(struct auth *auth, const char *text, struct err *err);
/* Mode, tokens and peers of fresh instead of those that were configured; fresh is freed. Requests of those that are
 * gone are cut off, all others continue. From any thread. */
void auth_replace(struct auth *auth, struct auth *fresh);
void auth_hash(const char *token, uint8_t ret_sha256[32]);
bool auth_scope(const char *name, enum scope *ret_scope); /* "admin", "user", "read": those of configured tokens */
const char *auth_scope_name(enum scope scope);
size_t auth_count(struct auth *auth); /* tokens, wherever from, that are neither revoked nor expired */

/* The sender of a request: for auth_release, whatever is returned once *ret_who is set. UNAUTHORIZED, or DENIED if
 * the scope is not enough for the route. */
#define AUTH_WRITES 0x1u /* it changes something, though the method is GET */
#define AUTH_ADMIN 0x2u  /* only for scope admin */
#define AUTH_RUNNER 0x4u /* the one kind of route for scope runner */
int auth_admit(struct auth *auth, struct http_request *request, unsigned needs, const struct who **ret_who,
               struct err *err);
/* The same by a token that did not come as Authorization: a runner may send it in its first message. */
int auth_admit_token(struct auth *auth, struct http_request *request, const char *token, unsigned needs,
                     const struct who **ret_who, struct err *err);
/* The same by where the request comes from, whatever its Authorization says: that is for somebody else. */
int auth_admit_local(struct auth *auth, struct http_request *request, unsigned needs, const struct who **ret_who,
                     struct err *err);
/* The same for a client that may act for this user by other means than a token. NULL: for all, as an admin. */
int auth_admit_user(struct auth *auth, struct http_request *request, const char *user, unsigned needs,
                    const struct who **ret_who, struct err *err);
/* A request from where this one comes needs no token at all. */
bool auth_is_open(struct auth *auth, const struct http_request *request);
void auth_release(const struct who *who); /* NULL is fine; it is gone then */

/* ---- tokens made while running (auth_store.c) ---- */

int auth_open_store(struct auth *auth, const char *state_dir, struct err *err);
/* From now on changes of the store by other processes are noticed within a second; a revoked token loses its
 * connections. */
int auth_watch(struct auth *auth, struct http_server *server, struct err *err);
void auth_unwatch(struct auth *auth);
int auth_create(struct auth *auth, struct token *token, char ret_text[TOKEN_TEXT_BYTES], struct err *err);
/* by: this request still gets its answer, even if it used that token. */
int auth_revoke(struct auth *auth, const char *id, const struct http_request *by, struct err *err);
/* Configured ones first; in arena. */
struct auth_listed {
    struct token token;
    bool configured;
};
int auth_list(struct auth *auth, struct arena *arena, struct auth_listed **ret_tokens, size_t *ret_count,
              struct err *err);

#endif
