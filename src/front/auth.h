/* Who asks: tokens from the configuration, or admin on loopback and unix sockets where no token is demanded. */
#ifndef CUBBY_FRONT_AUTH_H
#define CUBBY_FRONT_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "http/server.h"

enum scope { SCOPE_ADMIN, SCOPE_USER, SCOPE_READ };

struct who {
    const char *user; /* only this user's boxes are seen; NULL: everybody's */
    enum scope scope;
};

struct auth;

struct auth *auth_new(bool required);
void auth_free(struct auth *auth); /* NULL is fine */
void auth_add(struct auth *auth, const uint8_t sha256[32], const char *user, enum scope scope);
void auth_hash(const char *token, uint8_t ret_sha256[32]);
bool auth_scope(const char *name, enum scope *ret_scope); /* "admin", "user", "read" */
/* Sets the request's struct who, or UNAUTHORIZED, or DENIED for a read-only token (writes: whatever the method). */
int auth_admit(struct auth *auth, struct http_request *request, bool writes, struct err *err);

#endif
