/* Counters of one user's share. Rows are made at start by auth.c; entered and left by front.c around every request, asked
 * by native_acquire. Not to break: one atomic a request, and no tenant can take what others need to be served. */
#include "front/tenant.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct tenant {
    struct tenant *next;
    atomic_uint requests;
    pthread_mutex_t lock; /* of what is below */
    uint64_t full_at_ms;  /* when the share of new boxes would be whole again */
    char user[];
};

struct tenant *tenant_new(const char *user, struct tenant *next) {
    size_t size = strlen(user) + 1;
    struct tenant *tenant = calloc(1, sizeof *tenant + size);
    if (!tenant)
        abort();
    tenant->next = next;
    pthread_mutex_init(&tenant->lock, NULL);
    memcpy(tenant->user, user, size);
    return tenant;
}

struct tenant *tenant_find(struct tenant *list, const char *user) {
    while (list && strcmp(list->user, user) != 0)
        list = list->next;
    return list;
}

void tenant_free_all(struct tenant *list) {
    for (struct tenant *next; list; list = next) {
        next = list->next;
        pthread_mutex_destroy(&list->lock);
        free(list);
    }
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

/* Each box pushes the time at which the share is whole again one step on; a share is a minute of steps. */
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
