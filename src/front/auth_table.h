/* The inside of auth: grants, and the table that finds them. Only for auth.c and auth_store.c.
 *
 * Rules
 * 1. A grant is what a token or a local uid permits. It is reference-counted: by every list that contains it and by
 *    every request that it admitted. Its identity does not change.
 * 2. auth->change serializes changes of lists and table. Its holder may read them without auth->lock, which it takes
 *    only to swap. Requests read under auth->lock.
 * 3. A replacement first marks a grant (ended), then cuts its connections. An admitted request first registers the
 *    owner of its connection, then checks the mark. So one of them sees the other. */
#ifndef CUBBY_FRONT_AUTH_TABLE_H
#define CUBBY_FRONT_AUTH_TABLE_H

#include <pthread.h>
#include <stdatomic.h>

#include "front/auth.h"

struct grant {
    struct who who; /* must be first: auth_release casts it */
    atomic_uint refs;
    atomic_bool ended; /* revoked, or no longer configured */
    bool stored;       /* in tokens.db */
    uid_t uid;         /* of a peer; else sha256 */
    uint8_t sha256[32];
    uint64_t expires_ms; /* 0: never */
    atomic_uint_fast64_t used_ms;
    /* under auth->change: */
    uint64_t stored_ms;  /* the value of used_ms in the store */
    uint64_t generation; /* the last swap that kept it */
    bool expiry_cut;     /* its connections were cut at its expiry */
};

struct grants {
    struct grant **items;
    size_t count, room;
};

struct grant_table;

struct auth {
    pthread_mutex_t change;
    uint64_t generation;
    pthread_rwlock_t lock; /* guards the members below */
    enum auth_mode mode;
    struct grants admin; /* one grant, for senders that need no token */
    struct grants tokens, peers, stored;
    struct grant_table *table; /* finds tokens and stored */
    struct tenants *tenants;

    /* auth_store.c */
    struct token_store *store;
    struct http_server *server; /* NULL: nothing is served yet */
    pthread_t watcher;
    int inotify, stop_event;
    bool watching;
    uint64_t failing_since_ms; /* since when the store cannot be read; 0: it can */
};

struct grant *grant_new(struct auth *auth, const char *user, const char *runner, enum scope scope);
void grants_add(struct grants *grants, struct grant *grant); /* takes over the reference */
bool grant_same(const struct grant *grant, const char *user, const char *runner, enum scope scope);
bool grant_expired(const struct grant *grant, uint64_t now_ms);
void grant_cut(struct auth *auth, const struct grant *grant, const struct http_request *but);
/* Returns the grant of this digest without a reference. auth->change or the lock is held. */
struct grant *auth_lookup(const struct auth *auth, const uint8_t sha256[32]);
/* auth->change is held. Replaces *list, which is one of auth's, by *fresh. Grants that are then in no list end, and
 * their connections are cut, except that of `but`. */
void auth_swap(struct auth *auth, struct grants *list, struct grants *fresh, const struct http_request *but);

#endif
