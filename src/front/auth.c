/* Tokens, local users and scopes. Called before every handler by front_admit; filled by the daemon at start and when
 * its configuration changes. Invariant: a request with an Authorization header is never treated as one without (a wrong
 * token is 401 even on loopback), a peer whose uid is unknown has no rights, and rules 1 to 3 of auth_table.h.
 *
 * Timing: a token is looked up by its SHA-256, and digests are compared in constant time. The time of a look-up may
 * show whether a bucket is in use: at most some bits of a digest, which do not lead to the token. */
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pwd.h>

#include "base/base.h"
#include "box/policy.h"
#include "front/auth_table.h"

#define AUTH_UNKNOWN "this token is not known here; check the Authorization header"
#define USED_STEP_MS 10000 /* resolution of used_ms, so that requests do not fight for its cache line */

struct grant_table {
    size_t mask;
    struct grant *places[]; /* open addressing: at most half are taken */
};

/* ---- grants ---- */

struct grant *grant_new(struct auth *auth, const char *user, const char *runner, enum scope scope) {
    struct grant *grant = xcalloc(1, sizeof *grant);
    atomic_init(&grant->refs, 1);
    grant->uid = (uid_t)-1;
    grant->who = (struct who){.user = user ? xstrdup(user) : NULL,
                              .runner = runner ? xstrdup(runner) : NULL,
                              .scope = scope,
                              .tenant = user ? tenants_find(auth->tenants, user) : NULL};
    return grant;
}

static void auth_grant_unref(struct grant *grant) {
    if (atomic_fetch_sub(&grant->refs, 1) > 1)
        return;
    free((char *)grant->who.user);
    free((char *)grant->who.runner);
    free(grant);
}

static bool auth_text_same(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

bool grant_same(const struct grant *grant, const char *user, const char *runner, enum scope scope) {
    return grant->who.scope == scope && auth_text_same(grant->who.user, user) &&
           auth_text_same(grant->who.runner, runner);
}

bool grant_expired(const struct grant *grant, uint64_t now_ms) {
    return grant->expires_ms && now_ms >= grant->expires_ms;
}

void grant_cut(struct auth *auth, const struct grant *grant, const struct http_request *but) {
    if (auth->server)
        http_server_cut(auth->server, grant, but);
}

void grants_add(struct grants *grants, struct grant *grant) {
    vec_add(grants->items, grants->count, grants->room) = grant;
}

static void auth_grants_done(struct grants *grants) {
    for (size_t i = 0; i < grants->count; i++)
        auth_grant_unref(grants->items[i]);
    free(grants->items);
    *grants = (struct grants){0};
}

/* ---- the table ---- */

static size_t auth_table_place(const struct grant_table *table, const uint8_t sha256[32]) {
    uint64_t start;
    memcpy(&start, sha256, sizeof start);
    return (size_t)start & table->mask;
}

static struct grant *auth_table_find(const struct grant_table *table, const uint8_t sha256[32]) {
    struct grant *found = NULL;
    if (!table)
        return NULL;
    for (size_t at = auth_table_place(table, sha256); table->places[at]; at = (at + 1) & table->mask)
        if (!CRYPTO_memcmp(table->places[at]->sha256, sha256, 32))
            found = table->places[at];
    return found;
}

static struct grant_table *auth_table_new(const struct grants *lists[], size_t list_count) {
    size_t count = 0, size = 16;
    for (size_t i = 0; i < list_count; i++)
        count += lists[i]->count;
    while (size < count * 2)
        size *= 2;
    struct grant_table *table = xcalloc(1, sizeof *table + size * sizeof *table->places);
    table->mask = size - 1;
    for (size_t i = 0; i < list_count; i++)
        for (size_t j = 0; j < lists[i]->count; j++) {
            struct grant *grant = lists[i]->items[j];
            if (auth_table_find(table, grant->sha256)) /* the configuration wins */
                continue;
            size_t at = auth_table_place(table, grant->sha256);
            while (table->places[at])
                at = (at + 1) & table->mask;
            table->places[at] = grant;
        }
    return table;
}

struct grant *auth_lookup(const struct auth *auth, const uint8_t sha256[32]) {
    return auth_table_find(auth->table, sha256);
}

void auth_swap(struct auth *auth, struct grants *list, struct grants *fresh, const struct http_request *but) {
    struct grants old = *list;
    const struct grants *lists[] = {list == &auth->tokens ? fresh : &auth->tokens,
                                    list == &auth->stored ? fresh : &auth->stored};
    struct grant_table *table = auth_table_new(lists, 2), *old_table = auth->table;
    pthread_rwlock_wrlock(&auth->lock);
    *list = *fresh;
    auth->table = table;
    pthread_rwlock_unlock(&auth->lock);
    *fresh = (struct grants){0};
    free(old_table);
    auth->generation++;
    for (size_t i = 0; i < list->count; i++)
        list->items[i]->generation = auth->generation;
    for (size_t i = 0; i < old.count; i++) {
        if (old.items[i]->generation == auth->generation)
            continue;
        atomic_store(&old.items[i]->ended, true);
        grant_cut(auth, old.items[i], but);
    }
    auth_grants_done(&old);
}

/* ---- filling ---- */

struct auth *auth_new(enum auth_mode mode) {
    struct auth *auth = xcalloc(1, sizeof *auth);
    pthread_mutex_init(&auth->change, NULL);
    pthread_rwlock_init(&auth->lock, NULL);
    auth->mode = mode;
    auth->tenants = tenants_new();
    auth->inotify = auth->stop_event = -1;
    grants_add(&auth->admin, grant_new(auth, NULL, NULL, SCOPE_ADMIN));
    return auth;
}

void auth_free(struct auth *auth) {
    if (!auth)
        return;
    auth_unwatch(auth);
    token_store_close(auth->store);
    struct grants *lists[] = {&auth->admin, &auth->tokens, &auth->peers, &auth->stored};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        auth_grants_done(lists[i]);
    free(auth->table);
    tenants_free(auth->tenants);
    pthread_rwlock_destroy(&auth->lock);
    pthread_mutex_destroy(&auth->change);
    free(auth);
}

/* Called before anything is served: auth_replace or auth_open_store makes the table afterwards. */
void auth_add(struct auth *auth, const uint8_t sha256[32], const char *user, enum scope scope) {
    struct grant *grant = grant_new(auth, user, NULL, scope);
    memcpy(grant->sha256, sha256, sizeof grant->sha256);
    token_id(sha256, grant->who.token);
    grants_add(&auth->tokens, grant);
}

int auth_add_peer(struct auth *auth, const char *text, struct err *err) {
    char name[256];
    const char *user = strchr(text, '=');
    size_t len = user ? (size_t)(user++ - text) : strlen(text);
    if (!len || len >= sizeof name)
        return err_set(err, ERR_INVALID, "peer_uids: '%.100s' is not UID, NAME, UID=USER or NAME=USER", text);
    memcpy(name, text, len);
    name[len] = 0;
    if (user && text_user(user, err) < 0)
        return err_wrap(err, "peer_uids: '%.100s'", text);
    uint64_t number;
    const struct passwd *found = NULL;
    if (!text_u64(name, UINT32_MAX - 1, &number) && !(found = getpwnam(name)))
        return err_set(err, ERR_NOT_FOUND, "peer_uids: this machine has no user '%s'", name);
    struct grant *grant = grant_new(auth, user, NULL, user ? SCOPE_USER : SCOPE_ADMIN);
    grant->uid = found ? found->pw_uid : (uid_t)number;
    grants_add(&auth->peers, grant);
    return 0;
}

static struct grant *auth_grants_peer(const struct grants *peers, uid_t uid) {
    struct grant *found = NULL;
    for (size_t i = peers->count; i-- > 0;) /* the last row for a uid counts */
        if (peers->items[i]->uid == uid)
            found = found ? found : peers->items[i];
    return found;
}

/* An unchanged token keeps its grant, so that its requests continue. */
static void auth_replace_one(struct auth *auth, struct grant *old, const struct grant *wanted, struct grants *fresh) {
    const struct who *who = &wanted->who;
    if (old && !old->stored && grant_same(old, who->user, who->runner, who->scope)) {
        atomic_fetch_add(&old->refs, 1);
        grants_add(fresh, old);
        return;
    }
    struct grant *grant = grant_new(auth, who->user, who->runner, who->scope);
    memcpy(grant->sha256, wanted->sha256, sizeof grant->sha256);
    memcpy(grant->who.token, who->token, sizeof grant->who.token);
    grant->uid = wanted->uid;
    grants_add(fresh, grant);
}

void auth_replace(struct auth *auth, struct auth *fresh) {
    struct grants admin = {0}, tokens = {0}, peers = {0};
    pthread_mutex_lock(&auth->change);
    for (size_t i = 0; i < fresh->tokens.count; i++)
        auth_replace_one(auth, auth_lookup(auth, fresh->tokens.items[i]->sha256), fresh->tokens.items[i], &tokens);
    for (size_t i = 0; i < fresh->peers.count; i++)
        auth_replace_one(auth, auth_grants_peer(&auth->peers, fresh->peers.items[i]->uid), fresh->peers.items[i],
                         &peers);
    bool other_mode = auth->mode != fresh->mode;
    pthread_rwlock_wrlock(&auth->lock);
    auth->mode = fresh->mode;
    pthread_rwlock_unlock(&auth->lock);
    if (other_mode) { /* senders that were admins without a token may no longer be */
        grants_add(&admin, grant_new(auth, NULL, NULL, SCOPE_ADMIN));
        auth_swap(auth, &auth->admin, &admin, NULL);
    }
    auth_swap(auth, &auth->peers, &peers, NULL);
    auth_swap(auth, &auth->tokens, &tokens, NULL);
    pthread_mutex_unlock(&auth->change);
    auth_free(fresh);
}

void auth_hash(const char *token, uint8_t ret_sha256[32]) {
    SHA256((const unsigned char *)token, strlen(token), ret_sha256);
}

const char *auth_scope_name(enum scope scope) {
    return scope_name(scope);
}

bool auth_scope(const char *name, enum scope *ret_scope) {
    enum scope scope;
    if (!scope_find(name, &scope) || scope_joins(scope))
        return false;
    *ret_scope = scope;
    return true;
}

size_t auth_count(struct auth *auth) {
    size_t count = 0;
    uint64_t now_ms = clock_wall_ms();
    pthread_rwlock_rdlock(&auth->lock);
    for (size_t i = 0; i < auth->stored.count; i++)
        count += !grant_expired(auth->stored.items[i], now_ms);
    count += auth->tokens.count;
    pthread_rwlock_unlock(&auth->lock);
    return count;
}

/* ---- admitting ---- */

/* Finds the grant of a token. NULL: it is unknown or has expired. */
static struct grant *auth_token_locked(const struct auth *auth, const char *token, uint64_t now_ms) {
    uint8_t sha256[32];
    auth_hash(token, sha256);
    struct grant *grant = *token ? auth_lookup(auth, sha256) : NULL;
    return grant && !grant_expired(grant, now_ms) ? grant : NULL;
}

/* Finds the grant of a sender without a token. */
static struct grant *auth_local_locked(const struct auth *auth, struct http_request *request, struct err *err) {
    struct http_peer peer;
    http_peer(request, &peer);
    if (auth->mode == AUTH_REQUIRED || !(peer.loopback || peer.unix_socket)) {
        err_set(err, ERR_UNAUTHORIZED, "a token is needed: send 'Authorization: Bearer TOKEN'");
        return NULL;
    }
    if (auth->mode == AUTH_OPEN)
        return auth->admin.items[0];
    uid_t uid = http_peer_uid(request);
    if (uid == (uid_t)-1) {
        err_set(
            err, ERR_UNAUTHORIZED,
            "the local user of this connection is unknown: send 'Authorization: Bearer TOKEN', or use a unix socket");
        return NULL;
    }
    struct grant *grant = auth_grants_peer(&auth->peers, uid);
    if (grant || uid == 0 || uid == geteuid())
        return grant ? grant : auth->admin.items[0];
    err_set(err, ERR_UNAUTHORIZED,
            "uid %u is not among the peer_uids of this daemon: send 'Authorization: Bearer TOKEN'", uid);
    return NULL;
}

/* Takes over the reference. */
static int auth_enter(struct grant *grant, struct http_request *request, uint64_t now_ms, unsigned needs,
                      const struct who **ret_who, struct err *err) {
    http_own(request, grant);
    if (atomic_load(&grant->ended)) { /* revoked between the look-up and here */
        http_own(request, NULL);
        auth_grant_unref(grant);
        return err_set(err, ERR_UNAUTHORIZED, AUTH_UNKNOWN);
    }
    uint64_t used_ms = atomic_load_explicit(&grant->used_ms, memory_order_relaxed);
    if (now_ms - used_ms > USED_STEP_MS || now_ms < used_ms)
        atomic_store_explicit(&grant->used_ms, now_ms, memory_order_relaxed);
    const struct who *who = *ret_who = &grant->who;
    const char *method = http_method(request);
    bool reads = needs & AUTH_READS || (!(needs & AUTH_WRITES) && (!strcmp(method, "GET") || !strcmp(method, "HEAD")));
    if (scope_joins(who->scope) && !(needs & AUTH_RUNNER))
        return err_set(err, ERR_DENIED, "this is a runner's token, which may only join");
    if (who->scope != SCOPE_ADMIN && needs & AUTH_ADMIN)
        return err_set(err, ERR_DENIED, "this needs a token of scope admin");
    if (who->scope == SCOPE_READ && !reads)
        return err_set(err, ERR_DENIED, "this token may only read");
    return 0;
}

/* Admits by this token, or, if NULL, by where the request comes from. refusal: the text for an unknown token. */
static int auth_admit_as(struct auth *auth, struct http_request *request, const char *token, const char *refusal,
                         unsigned needs, const struct who **ret_who, struct err *err) {
    uint64_t now_ms = clock_wall_ms();
    pthread_rwlock_rdlock(&auth->lock);
    struct grant *grant = token ? auth_token_locked(auth, token, now_ms) : auth_local_locked(auth, request, err);
    if (grant)
        atomic_fetch_add(&grant->refs, 1);
    pthread_rwlock_unlock(&auth->lock);
    if (!grant)
        return token ? err_set(err, ERR_UNAUTHORIZED, "%s", refusal) : -ERR_UNAUTHORIZED;
    return auth_enter(grant, request, now_ms, needs, ret_who, err);
}

int auth_admit(struct auth *auth, struct http_request *request, unsigned needs, const struct who **ret_who,
               struct err *err) {
    const char *header = http_header(request, "authorization"), *token = header ? "" : NULL;
    if (header && strncasecmp(header, "Bearer ", 7) == 0)
        token = header + 7 + strspn(header + 7, " ");
    return auth_admit_as(auth, request, token, AUTH_UNKNOWN, needs, ret_who, err);
}

int auth_admit_token(struct auth *auth, struct http_request *request, const char *token, unsigned needs,
                     const struct who **ret_who, struct err *err) {
    return auth_admit_as(auth, request, token, "this token is not known here: it is wrong, was revoked or has expired",
                         needs, ret_who, err);
}

int auth_admit_local(struct auth *auth, struct http_request *request, unsigned needs, const struct who **ret_who,
                     struct err *err) {
    return auth_admit_as(auth, request, NULL, NULL, needs, ret_who, err);
}

int auth_admit_user(struct auth *auth, struct http_request *request, const char *user, unsigned needs,
                    const struct who **ret_who, struct err *err) {
    return auth_enter(grant_new(auth, user, NULL, user ? SCOPE_USER : SCOPE_ADMIN), request, clock_wall_ms(), needs,
                      ret_who, err);
}

int auth_admit_again(struct auth *, struct http_request *request, const struct who *who, unsigned needs,
                     const struct who **ret_who, struct err *err) {
    struct grant *grant = (struct grant *)(uintptr_t)who;
    uint64_t now_ms = clock_wall_ms();
    if (grant_expired(grant, now_ms))
        return err_set(err, ERR_UNAUTHORIZED, AUTH_UNKNOWN);
    return auth_enter((struct grant *)(uintptr_t)auth_hold(who), request, now_ms, needs, ret_who, err);
}

void auth_name(struct auth *auth, struct http_request *request, const struct who *who, char ret_name[AUTH_NAME_BYTES]) {
    if (who->token[0])
        snprintf(ret_name, AUTH_NAME_BYTES, "%s", who->token);
    else if (auth_is_open(auth, request))
        snprintf(ret_name, AUTH_NAME_BYTES, "open");
    else
        snprintf(ret_name, AUTH_NAME_BYTES, "uid:%u", http_peer_uid(request));
}

static struct grant *auth_named_locked(struct auth *auth, const struct http_request *request, const char *name) {
    const struct grants *lists[] = {&auth->tokens, &auth->stored};
    struct http_peer peer;
    uint64_t uid;
    http_peer(request, &peer);
    bool local = peer.loopback || peer.unix_socket;
    if (strcmp(name, "open") == 0)
        return local && auth->mode == AUTH_OPEN ? auth->admin.items[0] : NULL;
    if (strncmp(name, "uid:", 4) == 0) {
        if (!local || auth->mode != AUTH_PEER || !text_u64(name + 4, UINT32_MAX - 1, &uid))
            return NULL;
        struct grant *grant = auth_grants_peer(&auth->peers, (uid_t)uid);
        return grant ? grant : uid == 0 || uid == geteuid() ? auth->admin.items[0] : NULL;
    }
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < lists[i]->count; j++)
            if (!strcmp(lists[i]->items[j]->who.token, name))
                return lists[i]->items[j];
    return NULL;
}

int auth_admit_named(struct auth *auth, struct http_request *request, const char *name, unsigned needs,
                     const struct who **ret_who, struct err *err) {
    uint64_t now_ms = clock_wall_ms();
    pthread_rwlock_rdlock(&auth->lock);
    struct grant *grant = auth_named_locked(auth, request, name);
    if (grant && !grant_expired(grant, now_ms))
        atomic_fetch_add(&grant->refs, 1);
    else
        grant = NULL;
    pthread_rwlock_unlock(&auth->lock);
    if (!grant)
        return err_set(err, ERR_UNAUTHORIZED, "what this login was made with was revoked or has expired; log in again");
    return auth_enter(grant, request, now_ms, needs, ret_who, err);
}

int auth_admit_worker(struct auth *auth, struct http_request *request, const char *name, const struct who **ret_who,
                      struct err *err) {
    return auth_enter(grant_new(auth, NULL, name, SCOPE_WORKER), request, clock_wall_ms(), AUTH_RUNNER | AUTH_WRITES,
                      ret_who, err);
}

bool auth_is_open(struct auth *auth, const struct http_request *request) {
    struct http_peer peer;
    http_peer(request, &peer);
    pthread_rwlock_rdlock(&auth->lock);
    bool open = auth->mode == AUTH_OPEN;
    pthread_rwlock_unlock(&auth->lock);
    return open && (peer.loopback || peer.unix_socket);
}

const struct who *auth_hold(const struct who *who) {
    atomic_fetch_add(&((struct grant *)(uintptr_t)who)->refs, 1);
    return who;
}

void auth_release(const struct who *who) {
    if (who)
        auth_grant_unref((struct grant *)(uintptr_t)who);
}
