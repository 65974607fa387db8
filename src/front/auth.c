/* Tokens and scopes. Called before every handler by front_admit; filled once at start by the daemon.
 * Not to break: a request that carries any Authorization is never taken for one without (a wrong token is 401 even
 * on loopback), and comparing takes the same time whichever token is right. */
#include "front/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct auth_token {
    struct auth_token *next;
    uint8_t sha256[32];
    struct who who;
};

struct auth {
    bool required;
    struct auth_token *tokens;
};

static const struct who auth_nobody_else = {.user = NULL, .scope = SCOPE_ADMIN};

struct auth *auth_new(bool required) {
    struct auth *auth = calloc(1, sizeof *auth);
    if (!auth)
        abort();
    auth->required = required;
    return auth;
}

void auth_free(struct auth *auth) {
    for (struct auth_token *token = auth ? auth->tokens : NULL, *next; token; token = next) {
        next = token->next;
        free((char *)token->who.user);
        free(token);
    }
    free(auth);
}

void auth_add(struct auth *auth, const uint8_t sha256[32], const char *user, enum scope scope) {
    struct auth_token *token = calloc(1, sizeof *token);
    if (!token)
        abort();
    memcpy(token->sha256, sha256, sizeof token->sha256);
    token->who = (struct who){.user = user ? strdup(user) : NULL, .scope = scope};
    token->next = auth->tokens;
    auth->tokens = token;
}

void auth_hash(const char *token, uint8_t ret_sha256[32]) {
    SHA256((const unsigned char *)token, strlen(token), ret_sha256);
}

bool auth_scope(const char *name, enum scope *ret_scope) {
    static const char *const names[] = {"admin", "user", "read"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) {
            *ret_scope = (enum scope)i;
            return true;
        }
    return false;
}

static const struct who *auth_find(const struct auth *auth, const char *text) {
    uint8_t sha256[32];
    const struct who *found = NULL;
    auth_hash(text, sha256);
    for (const struct auth_token *token = auth->tokens; token; token = token->next)
        if (!CRYPTO_memcmp(token->sha256, sha256, sizeof sha256))
            found = &token->who;
    return found;
}

static const struct who *auth_header(const struct auth *auth, const char *header) {
    if (strncasecmp(header, "Bearer ", 7) != 0)
        return NULL;
    header += 7;
    header += strspn(header, " ");
    return *header ? auth_find(auth, header) : NULL;
}

int auth_admit(struct auth *auth, struct http_request *request, bool writes, struct err *err) {
    const char *header = http_header(request, "authorization");
    const char *method = http_method(request);
    struct http_peer peer;
    http_peer(request, &peer);
    const struct who *who = NULL;
    if (header)
        who = auth_header(auth, header);
    else if (!auth->required && (peer.loopback || peer.unix_socket))
        who = &auth_nobody_else;
    if (!who)
        return err_set(err, ERR_UNAUTHORIZED,
                       header ? "this token is not known here; check the Authorization header"
                              : "a token is needed: send 'Authorization: Bearer TOKEN'");
    if (who->scope == SCOPE_READ && (writes || (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)))
        return err_set(err, ERR_DENIED, "this token may only read");
    http_set_user_data(request, (void *)who);
    return 0;
}
