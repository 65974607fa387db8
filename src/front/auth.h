/* Identifies the sender of a request: by a token from the configuration or from STATE/tokens.db or, where that is
 * allowed on loopback and unix sockets, as the local user. */
#ifndef CUBBY_FRONT_AUTH_H
#define CUBBY_FRONT_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "store/token.h"
#include "front/tenant.h"
#include "http/server.h"

struct who {
    const char *user;   /* whose boxes are visible; NULL: all users' */
    const char *runner; /* scope runner: the machine's name */
    enum scope scope;
    char token[TOKEN_ID_BYTES]; /* the token's id, for the audit log; "": none */
    struct tenant *tenant;      /* the user's share; NULL without a user */
};

/* How a request without a token is treated on loopback and on unix sockets. */
enum auth_mode {
    AUTH_OPEN,     /* every sender is an admin */
    AUTH_PEER,     /* the local user decides, by auth_add_peer; root and the daemon's own user are admins */
    AUTH_REQUIRED, /* refused */
};

struct auth;

struct auth *auth_new(enum auth_mode mode);
void auth_free(struct auth *auth); /* NULL is allowed */
void auth_add(struct auth *auth, const uint8_t sha256[32], const char *user, enum scope scope);
/* text: "UID" or "NAME" for an admin; "UID=USER" or "NAME=USER" to act as USER with scope user. */
int auth_add_peer(struct auth *auth, const char *text, struct err *err);
/* Replaces the configured mode, tokens and peers by those of fresh, which is freed. Connections of removed tokens and
 * peers are cut; all others continue. Callable from any thread. */
void auth_replace(struct auth *auth, struct auth *fresh);
void auth_hash(const char *token, uint8_t ret_sha256[32]);
bool auth_scope(const char *name, enum scope *ret_scope); /* "admin", "user" or "read" */
const char *auth_scope_name(enum scope scope);
size_t auth_count(struct auth *auth); /* tokens of any source that are neither revoked nor expired */

/* Identifies the sender of a request. If *ret_who is set, the caller must call auth_release, even on failure.
 * UNAUTHORIZED, or DENIED if the scope does not suffice for the route. */
#define AUTH_WRITES 0x1u /* it changes something, although the method is GET */
#define AUTH_ADMIN 0x2u  /* only for scope admin */
#define AUTH_RUNNER 0x4u /* the only routes for scope runner */
#define AUTH_READS 0x8u  /* it changes nothing, although the method is POST */
int auth_admit(struct auth *auth, struct http_request *request, unsigned needs, const struct who **ret_who,
               struct err *err);
/* The same by a token that is not in Authorization: a runner may send it in its first message. */
int auth_admit_token(struct auth *auth, struct http_request *request, const char *token, unsigned needs,
                     const struct who **ret_who, struct err *err);
/* The same by where the request comes from, ignoring its Authorization, which is for another party. */
int auth_admit_local(struct auth *auth, struct http_request *request, unsigned needs, const struct who **ret_who,
                     struct err *err);
/* The same for a client that may act for this user without a token. NULL: for all users, as an admin. */
int auth_admit_user(struct auth *auth, struct http_request *request, const char *user, unsigned needs,
                    const struct who **ret_who, struct err *err);
/* The same as a sender that was admitted before, and is still allowed here. */
int auth_admit_again(struct auth *auth, struct http_request *request, const struct who *who, unsigned needs,
                     const struct who **ret_who, struct err *err);
/* Names how the sender of a request was identified: a token's id, "uid:N" or "open". auth_admit_named admits by such a
 * name, as long as it is still worth something: the caller knows that the sender may use it. */
#define AUTH_NAME_BYTES 32
void auth_name(struct auth *auth, struct http_request *request, const struct who *who, char ret_name[AUTH_NAME_BYTES]);
int auth_admit_named(struct auth *auth, struct http_request *request, const char *name, unsigned needs,
                     const struct who **ret_who, struct err *err);
/* The same for a worker that backend_env.identify has named. */
int auth_admit_worker(struct auth *auth, struct http_request *request, const char *name, const struct who **ret_who,
                      struct err *err);
/* Returns whether a request from the same place needs no token at all. */
bool auth_is_open(struct auth *auth, const struct http_request *request);
const struct who *auth_hold(const struct who *who); /* one more reference, for auth_release */
void auth_release(const struct who *who);           /* NULL is allowed */

/* ---- tokens made while running (auth_store.c) ---- */

int auth_open_store(struct auth *auth, const char *state_dir, struct err *err);
/* From now on, changes of the store by other processes are noticed within a second. A revoked token loses its
 * connections. */
int auth_watch(struct auth *auth, struct http_server *server, struct err *err);
void auth_unwatch(struct auth *auth);
int auth_create(struct auth *auth, struct token *token, char ret_text[TOKEN_TEXT_BYTES], struct err *err);
/* by: the request that revokes, which still gets its answer even if it used that token. */
int auth_revoke(struct auth *auth, const char *id, const struct http_request *by, struct err *err);
/* Fills in what is known about the token of a sender, in arena; without one only its scope and user. */
int auth_describe(struct auth *auth, const struct who *who, struct arena *arena, struct token *ret_token,
                  struct err *err);
/* Configured tokens come first; in arena. */
struct auth_listed {
    struct token token;
    bool configured;
};
int auth_list(struct auth *auth, struct arena *arena, struct auth_listed **ret_tokens, size_t *ret_count,
              struct err *err);

#endif
