/* Tokens, local users and scopes. Called before every handler by front_admit; filled once at start by the daemon.
 * Not to break: a request that carries any Authorization is never taken for one without (a wrong token is 401 even
 * on loopback), comparing takes the same time whichever token is right, and a peer whose uid nobody can tell is nobody. */
#include "front/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/text.h"
#include "box/policy.h"

struct auth_token {
    struct auth_token *next;
    uint8_t sha256[32];
    struct who who;
};

struct auth_peer {
    struct auth_peer *next;
    uid_t uid;
    struct who who;
};

struct auth {
    enum auth_mode mode;
    struct auth_token *tokens;
    struct auth_peer *peers;
    struct tenant *tenants;
};

static const struct who auth_admin = {.user = NULL, .scope = SCOPE_ADMIN};

struct auth *auth_new(enum auth_mode mode) {
    struct auth *auth = calloc(1, sizeof *auth);
    if (!auth)
        abort();
    auth->mode = mode;
    return auth;
}

void auth_free(struct auth *auth) {
    if (!auth)
        return;
    for (struct auth_token *token = auth->tokens, *next; token; token = next) {
        next = token->next;
        free((char *)token->who.user);
        free(token);
    }
    for (struct auth_peer *peer = auth->peers, *next; peer; peer = next) {
        next = peer->next;
        free((char *)peer->who.user);
        free(peer);
    }
    tenant_free_all(auth->tenants);
    free(auth);
}

/* All tokens of a user share one row. */
static struct who auth_who(struct auth *auth, const char *user, enum scope scope) {
    if (!user)
        return (struct who){.scope = scope};
    struct tenant *tenant = tenant_find(auth->tenants, user);
    if (!tenant)
        tenant = auth->tenants = tenant_new(user, auth->tenants);
    return (struct who){.user = strdup(user), .scope = scope, .tenant = tenant};
}

void auth_add(struct auth *auth, const uint8_t sha256[32], const char *user, enum scope scope) {
    struct auth_token *token = calloc(1, sizeof *token);
    if (!token)
        abort();
    memcpy(token->sha256, sha256, sizeof token->sha256);
    token->who = auth_who(auth, user, scope);
    text_hex(token->who.token, sha256, sizeof token->who.token / 2);
    token->next = auth->tokens;
    auth->tokens = token;
}

int auth_add_peer(struct auth *auth, const char *text, struct err *err) {
    char name[256];
    const char *user = strchr(text, '=');
    size_t len = user ? (size_t)(user++ - text) : strlen(text);
    if (!len || len >= sizeof name)
        return err_set(err, ERR_INVALID, "peer_uids: '%.100s' is not UID, NAME, UID=USER or NAME=USER", text);
    memcpy(name, text, len);
    name[len] = 0;
    if (user && policy_user(user, err) < 0)
        return err_wrap(err, "peer_uids: '%.100s'", text);
    uint64_t number;
    const struct passwd *found = NULL;
    if (!text_u64(name, UINT32_MAX - 1, &number) && !(found = getpwnam(name)))
        return err_set(err, ERR_NOT_FOUND, "peer_uids: this machine has no user '%s'", name);
    struct auth_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        abort();
    peer->uid = found ? found->pw_uid : (uid_t)number;
    peer->who = auth_who(auth, user, user ? SCOPE_USER : SCOPE_ADMIN);
    peer->next = auth->peers;
    auth->peers = peer;
    return 0;
}

void auth_hash(const char *token, uint8_t ret_sha256[32]) {
    SHA256((const unsigned char *)token, strlen(token), ret_sha256);
}

static const char *const auth_scopes[] = {"admin", "user", "read"};

const char *auth_scope_name(enum scope scope) {
    return auth_scopes[scope];
}

bool auth_scope(const char *name, enum scope *ret_scope) {
    for (size_t i = 0; i < sizeof auth_scopes / sizeof *auth_scopes; i++)
        if (!strcmp(name, auth_scopes[i])) {
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

/* Somebody without a token. */
static const struct who *auth_local(const struct auth *auth, struct http_request *request, struct err *err) {
    struct http_peer peer;
    http_peer(request, &peer);
    if (auth->mode == AUTH_REQUIRED || !(peer.loopback || peer.unix_socket)) {
        err_set(err, ERR_UNAUTHORIZED, "a token is needed: send 'Authorization: Bearer TOKEN'");
        return NULL;
    }
    if (auth->mode == AUTH_OPEN)
        return &auth_admin;
    uid_t uid = http_peer_uid(request);
    if (uid == (uid_t)-1) {
        err_set(err, ERR_UNAUTHORIZED,
                "it cannot be told which local user this is: send 'Authorization: Bearer TOKEN', or use a unix socket");
        return NULL;
    }
    for (const struct auth_peer *row = auth->peers; row; row = row->next)
        if (row->uid == uid)
            return &row->who;
    if (uid == 0 || uid == geteuid())
        return &auth_admin;
    err_set(err, ERR_UNAUTHORIZED,
            "uid %u is not among the peer_uids of this daemon: send 'Authorization: Bearer TOKEN'", uid);
    return NULL;
}

int auth_admit(struct auth *auth, struct http_request *request, bool writes, const struct who **ret_who,
               struct err *err) {
    const char *header = http_header(request, "authorization");
    const char *method = http_method(request);
    const struct who *who = header ? auth_header(auth, header) : auth_local(auth, request, err);
    if (!who)
        return header ? err_set(err, ERR_UNAUTHORIZED, "this token is not known here; check the Authorization header")
                      : -ERR_UNAUTHORIZED;
    if (who->scope == SCOPE_READ && (writes || (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)))
        return *ret_who = who, err_set(err, ERR_DENIED, "this token may only read");
    *ret_who = who;
    return 0;
}
