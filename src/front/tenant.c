/* Counters of one user's share. Rows are made by auth.c; front.c enters and leaves around every request; native_acquire
 * calls tenant_make. Invariant: one atomic operation per request, and no tenant can take what others need. */
#include "front/tenant.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

enum { TENANT_BUCKETS = 4096 };

struct tenant {
    struct tenant *next; /* in its bucket */
    atomic_uint requests;
    pthread_mutex_t lock; /* guards the members below */
    uint64_t full_at_ms;  /* when the share of new boxes will be full again */
    char user[];
};

struct tenants {
    pthread_mutex_t lock;
    struct tenant *buckets[TENANT_BUCKETS];
};

struct tenants *tenants_new(void) {
    struct tenants *tenants = xcalloc(1, sizeof *tenants);
    pthread_mutex_init(&tenants->lock, NULL);
    return tenants;
}

struct tenant *tenants_find(struct tenants *tenants, const char *user) {
    uint32_t hash = 2166136261u; /* FNV-1a; names are trusted: they come from tokens */
    for (const char *at = user; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    pthread_mutex_lock(&tenants->lock);
    struct tenant **at = &tenants->buckets[hash % TENANT_BUCKETS];
    while (*at && strcmp((*at)->user, user) != 0)
        at = &(*at)->next;
    if (!*at) {
        size_t size = strlen(user) + 1;
        *at = xcalloc(1, sizeof **at + size);
        pthread_mutex_init(&(*at)->lock, NULL);
        memcpy((*at)->user, user, size);
    }
    struct tenant *found = *at;
    pthread_mutex_unlock(&tenants->lock);
    return found;
}

void tenants_free(struct tenants *tenants) {
    if (!tenants)
        return;
    for (size_t i = 0; i < TENANT_BUCKETS; i++)
        for (struct tenant *tenant = tenants->buckets[i], *next; tenant; tenant = next) {
            next = tenant->next;
            pthread_mutex_destroy(&tenant->lock);
            free(tenant);
        }
    pthread_mutex_destroy(&tenants->lock);
    free(tenants);
}

int tenant_enter(struct tenant *tenant, const struct tenant_limits *limits, struct err *err) {
    if (!tenant)
        return 0;
    if (atomic_fetch_add(&tenant->requests, 1) < limits->max_requests || !limits->max_requests)
        return 0;
    atomic_fetch_sub(&tenant->requests, 1);
    return err_set(err, ERR_LIMIT,
                   "user '%s' has %u requests running, which is the limit (max_requests_per_user); try again later",
                   tenant->user, limits->max_requests);
}

void tenant_leave(struct tenant *tenant) {
    if (tenant)
        atomic_fetch_sub(&tenant->requests, 1);
}

/* A share is a minute of steps. Each box moves the time at which the share is full again by one step. */
int tenant_make(struct tenant *tenant, const struct tenant_limits *limits, struct err *err) {
    enum { MINUTE_MS = 60000 };
    if (!tenant || !limits->boxes_per_minute)
        return 0;
    uint64_t now_ms = clock_ms(), step_ms = MINUTE_MS / limits->boxes_per_minute;
    step_ms = step_ms ? step_ms : 1;
    pthread_mutex_lock(&tenant->lock);
    uint64_t full_at_ms = (tenant->full_at_ms > now_ms ? tenant->full_at_ms : now_ms) + step_ms;
    bool fits = full_at_ms <= now_ms + MINUTE_MS;
    if (fits)
        tenant->full_at_ms = full_at_ms;
    pthread_mutex_unlock(&tenant->lock);
    return fits ? 0
                : err_set(err, ERR_LIMIT,
                          "user '%s' has made %u boxes within a minute, which is the limit (box_rate_per_user); try "
                          "again later",
                          tenant->user, limits->boxes_per_minute);
}
