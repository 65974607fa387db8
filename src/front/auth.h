/* Who asks: a token from the configuration, or, on loopback and unix sockets where that is allowed, the local user. */
#ifndef CUBBY_FRONT_AUTH_H
#define CUBBY_FRONT_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "front/tenant.h"
#include "http/server.h"

enum scope { SCOPE_ADMIN, SCOPE_USER, SCOPE_READ };

struct who {
    const char *user; /* only this user's boxes are seen; NULL: everybody's */
    enum scope scope;
    char token[13];        /* which one, for the audit log: the first digits of its SHA-256; "": none */
    struct tenant *tenant; /* the user's share; NULL without a user */
};

/* What a request without a token is on loopback and on unix sockets. */
enum auth_mode {
    AUTH_OPEN, /* an admin's, whoever sends it */
    AUTH_PEER, /* that of the local user who sends it, as auth_add_peer says; root and the daemon's own are admins */
    AUTH_REQUIRED, /* refused */
};

struct auth;

struct auth *auth_new(enum auth_mode mode);
void auth_free(struct auth *auth); /* NULL is fine */
void auth_add(struct auth *auth, const uint8_t sha256[32], const char *user, enum scope scope);
/* "UID" or "NAME": an admin; "UID=USER" or "NAME=USER": acts as USER with scope user. */
int auth_add_peer(struct auth *auth, const char *text, struct err *err);
void auth_hash(const char *token, uint8_t ret_sha256[32]);
bool auth_scope(const char *name, enum scope *ret_scope); /* "admin", "user", "read" */
const char *auth_scope_name(enum scope scope);
/* Who it is, or UNAUTHORIZED, or DENIED for a read-only token (writes: whatever the method). */
int auth_admit(struct auth *auth, struct http_request *request, bool writes, const struct who **ret_who,
               struct err *err);

#endif
