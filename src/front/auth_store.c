/* Tokens made while running: the store's rows as grants, and the thread that notices changes by other processes. Called
 * by the daemon (open, watch) and by native/token.c. Invariant: after auth_revoke a token admits no request; if another
 * process revoked it, at most WATCH_MS later. If the store cannot be read for PATIENCE_MS, none of its tokens admits a
 * request, because revoked ones are unknown. */
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"
#include "front/auth_table.h"

enum {
    WATCH_MS = 1000, /* without inotify, and to notice expired tokens */
    PATIENCE_MS = 10000,
    USED_MS = 60000, /* how often last_used_at is written */
};

/* ---- rows into grants ---- */

static struct grant *store_grant(struct auth *auth, const struct token *token) {
    struct grant *old = auth_lookup(auth, token->sha256);
    if (old && old->stored && old->expires_ms == token->expires_ms &&
        grant_same(old, token->user, token->runner, token->scope)) {
        atomic_fetch_add(&old->refs, 1);
        return old;
    }
    struct grant *grant = grant_new(auth, token->user, token->runner, token->scope);
    grant->stored = true;
    grant->expires_ms = token->expires_ms;
    grant->stored_ms = token->used_ms;
    atomic_init(&grant->used_ms, token->used_ms);
    memcpy(grant->sha256, token->sha256, sizeof grant->sha256);
    memcpy(grant->who.token, token->id, sizeof grant->who.token);
    return grant;
}

static int store_load_locked(struct auth *auth, const struct http_request *but, struct err *err) {
    struct token *tokens;
    size_t count;
    struct grants fresh = {0};
    autoarena arena = ARENA_EMPTY;
    TRY(token_list(auth->store, &arena, &tokens, &count, err));
    for (size_t i = 0; i < count; i++)
        if (!tokens[i].revoked_ms)
            grants_add(&fresh, store_grant(auth, &tokens[i]));
    auth_swap(auth, &auth->stored, &fresh, but);
    return 0;
}

int auth_open_store(struct auth *auth, const char *state_dir, struct err *err) {
    autolock(&auth->change);
    return token_store_open(state_dir, &auth->store, err) ?: store_load_locked(auth, NULL, err);
}

/* ---- watching ---- */

/* Admits no stored token after the store could not be read for a while. */
static void store_look_locked(struct auth *auth) {
    struct err err = {0};
    struct grants none = {0};
    bool changed = false;
    uint64_t now_ms = clock_ms();
    int r = token_changed(auth->store, &changed, &err);
    if (r == 0 && (changed || auth->failing_since_ms))
        r = store_load_locked(auth, NULL, &err);
    if (r == 0 && auth->failing_since_ms) {
        auth->failing_since_ms = 0;
        log_warn("the tokens can be read again");
    } else if (r < 0 && !auth->failing_since_ms) {
        auth->failing_since_ms = now_ms;
        log_error("cannot read the tokens: %s", err.text);
    } else if (r < 0 && now_ms - auth->failing_since_ms > PATIENCE_MS && auth->stored.count) {
        log_error("still cannot read the tokens: all of them are refused until they can be read");
        auth_swap(auth, &auth->stored, &none, NULL);
    }
}

/* Uses the current wall clock: setting it back makes an expired token valid again. */
static void store_expire_locked(struct auth *auth) {
    uint64_t now_ms = clock_wall_ms();
    for (size_t i = 0; i < auth->stored.count; i++) {
        struct grant *grant = auth->stored.items[i];
        bool expired = grant_expired(grant, now_ms);
        if (expired && !grant->expiry_cut)
            grant_cut(auth, grant, NULL);
        grant->expiry_cut = expired;
    }
}

static void store_used_locked(struct auth *auth) {
    struct token_use *uses = xcalloc(auth->stored.count + 1, sizeof *uses);
    size_t count = 0;
    struct err err;
    for (size_t i = 0; i < auth->stored.count; i++) {
        struct grant *grant = auth->stored.items[i];
        uint64_t used_ms = atomic_load(&grant->used_ms);
        if (used_ms <= grant->stored_ms)
            continue;
        grant->stored_ms = used_ms;
        uses[count++] = (struct token_use){.id = grant->who.token, .used_ms = used_ms};
    }
    if (count && token_used(auth->store, uses, count, &err) < 0)
        log_warn("cannot write when tokens were last used: %s", err.text);
    free(uses);
}

static void *store_watcher_main(void *argument) {
    struct auth *auth = argument;
    char events[4096];
    struct pollfd look[] = {{.fd = auth->stop_event, .events = POLLIN}, {.fd = auth->inotify, .events = POLLIN}};
    for (uint64_t next_ms = clock_ms() + USED_MS;;) {
        /* The file itself is watched. token_changed finds a file that replaces it, which is then watched. */
        while (auth->inotify >= 0 && read(auth->inotify, events, sizeof events) > 0)
            continue;
        if (auth->inotify >= 0)
            inotify_add_watch(auth->inotify, token_store_path(auth->store),
                              IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_DONT_FOLLOW);
        pthread_mutex_lock(&auth->change);
        store_look_locked(auth);
        store_expire_locked(auth);
        bool stop = look[0].revents;
        if (stop || clock_ms() >= next_ms) {
            store_used_locked(auth);
            next_ms = clock_ms() + USED_MS;
        }
        pthread_mutex_unlock(&auth->change);
        if (stop)
            return NULL;
        poll(look, 2, WATCH_MS);
    }
}

int auth_watch(struct auth *auth, struct http_server *server, struct err *err) {
    pthread_mutex_lock(&auth->change);
    auth->server = server;
    pthread_mutex_unlock(&auth->change);
    auth->stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (auth->stop_event < 0)
        return err_errno(err, errno, "descriptor");
    auth->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK); /* on failure the store is checked every second */
    int number = pthread_create(&auth->watcher, NULL, store_watcher_main, auth);
    if (number)
        return err_errno(err, number, "cannot start a thread");
    auth->watching = true;
    return 0;
}

void auth_unwatch(struct auth *auth) {
    if (auth->watching) {
        (void)!write(auth->stop_event, &(uint64_t){1}, sizeof(uint64_t));
        pthread_join(auth->watcher, NULL);
        auth->watching = false;
    }
    pthread_mutex_lock(&auth->change);
    auth->server = NULL;
    pthread_mutex_unlock(&auth->change);
    fd_close(&auth->inotify);
    fd_close(&auth->stop_event);
}

/* ---- requests of admins ---- */

int auth_create(struct auth *auth, struct token *token, char ret_text[TOKEN_TEXT_BYTES], struct err *err) {
    struct token made = *token;
    char text[TOKEN_TEXT_BYTES];
    pthread_mutex_lock(&auth->change);
    int r = token_create(auth->store, &made, text, err) ?: store_load_locked(auth, NULL, err);
    pthread_mutex_unlock(&auth->change);
    if (r == 0) {
        *token = made;
        memcpy(ret_text, text, sizeof text);
    }
    explicit_bzero(text, sizeof text);
    return r;
}

int auth_revoke(struct auth *auth, const char *id, const struct http_request *by, struct err *err) {
    autolock(&auth->change);
    int r = token_revoke(auth->store, id, err);
    for (size_t i = 0; r == -ERR_NOT_FOUND && i < auth->tokens.count; i++)
        if (!strcmp(auth->tokens.items[i]->who.token, id))
            r = err_set(err, ERR_DENIED, "token %s is in the configuration: remove it there and send SIGHUP", id);
    return r ?: store_load_locked(auth, by, err);
}

int auth_describe(struct auth *auth, const struct who *who, struct arena *arena, struct token *ret_token,
                  struct err *err) {
    struct token token = {.scope = who->scope, .user = who->user, .runner = who->runner};
    struct token *tokens;
    size_t count = 0;
    memcpy(token.id, who->token, sizeof token.id);
    if (who->token[0] && auth->store) {
        autolock(&auth->change);
        TRY(token_list(auth->store, arena, &tokens, &count, err));
    }
    for (size_t i = 0; i < count; i++)
        if (!strcmp(tokens[i].id, who->token))
            token = tokens[i];
    *ret_token = token;
    return 0;
}

int auth_list(struct auth *auth, struct arena *arena, struct auth_listed **ret_tokens, size_t *ret_count,
              struct err *err) {
    struct token *tokens;
    size_t count;
    autolock(&auth->change);
    TRY(token_list(auth->store, arena, &tokens, &count, err));
    size_t before = auth->tokens.count;
    struct auth_listed *list = arena_alloc(arena, (before + count + 1) * sizeof *list);
    for (size_t i = 0; i < before; i++) {
        const struct grant *grant = auth->tokens.items[i];
        struct token *token = &list[i].token;
        list[i].configured = true;
        token->scope = grant->who.scope;
        token->user = grant->who.user ? arena_strdup(arena, grant->who.user) : NULL;
        token->used_ms = atomic_load(&grant->used_ms);
        memcpy(token->id, grant->who.token, sizeof token->id);
    }
    for (size_t i = 0; i < count; i++) {
        const struct grant *grant = auth_lookup(auth, tokens[i].sha256);
        uint64_t used_ms = grant && grant->stored ? atomic_load(&grant->used_ms) : 0;
        list[before + i].token = tokens[i];
        list[before + i].token.used_ms = used_ms > tokens[i].used_ms ? used_ms : tokens[i].used_ms;
    }
    *ret_tokens = list;
    *ret_count = before + count;
    return 0;
}
