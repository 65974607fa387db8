/* Halves of boxes kept ready by one thread, so that a start needs only what is special to its box. Called by jail.c.
 *
 * Rules: 1. `ready`, `count`, `limits`, `stop` and the times under `lock`. 2. The thread makes slots without the lock.
 * 3. A failure makes it wait for the next take: a machine at its limit is not hammered. 4. Whoever is just being served
 * goes first: refilling waits for a lull, or until the pool is nearly empty; once begun it goes on until it is full. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/jail.h"
#include "base/clock.h"

#define POOL_MAX 64
#define POOL_LULL_MS 20
#define POOL_AT_ONCE 3

struct pool {
    struct backend *backend;
    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    struct slot ready[POOL_MAX];
    unsigned count, size;
    struct limits limits; /* of the last box asked for: the next will probably have the same */
    uint64_t taken_ms;    /* when the last one was */
    bool stop, failed, filling;
};

static void *pool_main(void *arg);

struct pool *pool_new(struct backend *backend) {
    unsigned size = backend->env->pool_size;
    if (size == 0 || !backend->root)
        return NULL;
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        abort();
    pool->backend = backend;
    pool->limits = backend->env->limits;
    pool->size = size < POOL_MAX ? size : POOL_MAX;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->wanted, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pool->threaded = pthread_create(&pool->thread, NULL, pool_main, pool) == 0;
    return pool;
}

void pool_free(struct pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_signal(&pool->wanted);
    pthread_mutex_unlock(&pool->lock);
    if (pool->threaded)
        pthread_join(pool->thread, NULL);
    for (unsigned i = 0; i < pool->count; i++)
        slot_drop(pool->backend, &pool->ready[i]);
    free(pool);
}

/* Files keep the size they were made with; every other limit can be changed. */
static bool fits(const struct slot *slot, const struct limits *limits) {
    return slot->limits.disk_mb == limits->disk_mb;
}

static struct slot take_locked(struct pool *pool, unsigned at) {
    struct slot slot = pool->ready[at];
    pool->count--;
    memmove(pool->ready + at, pool->ready + at + 1, (pool->count - at) * sizeof *pool->ready);
    return slot;
}

bool pool_take(struct pool *pool, const struct template *template, const struct limits *limits, struct slot *ret_slot) {
    bool taken = false;
    struct slot stale = {0};
    if (!pool)
        return false;
    pthread_mutex_lock(&pool->lock);
    bool host = strstr(template->path, "/templates/.host-") != NULL;
    unsigned at = 0; /* the oldest first: it has had the longest time to get ready */
    while (at < pool->count && !fits(&pool->ready[at], limits))
        at++;
    if (at < pool->count && strcmp(pool->ready[at].template_path, template->path) == 0) {
        taken = true;
        *ret_slot = take_locked(pool, at);
    } else if (host && pool->count > 0 && (at < pool->count || pool->count == pool->size)) {
        /* made from an older state of the host; or none of a full pool is what is asked for now */
        stale = take_locked(pool, at < pool->count ? at : 0);
    }
    pool->limits = *limits;
    pool->taken_ms = clock_ms();
    pool->failed = false;
    pthread_cond_signal(&pool->wanted);
    pthread_mutex_unlock(&pool->lock);
    if (stale.outer_pid)
        slot_drop(pool->backend, &stale);
    return taken;
}

static int make_begin(struct backend *backend, const struct limits *limits, struct slot *ret_slot) {
    struct template template;
    struct err err;
    int r = template_find(backend->env, "host", &template, &err);
    struct slot_want want = {.template = &template, .limits = limits};
    return r < 0 ? r : slot_make(backend, &want, ret_slot, &err);
}

static int make_end(struct backend *backend, struct slot *slot) {
    struct err err;
    int r = slot_ready(backend, slot, &err);
    if (r == 0)
        r = slot_record(backend, slot, slot->dir, false, &err);
    slot->recorded = r == 0;
    if (r < 0)
        slot_drop(backend, slot);
    return r;
}

/* Mounting a disk of one's own is mostly waiting: the next one is begun meanwhile. Returns how many were made. */
static unsigned make_some(struct backend *backend, const struct limits *limits, unsigned want,
                          struct slot slots[POOL_AT_ONCE]) {
    unsigned begun = 0, made = 0;
    want = !limits->disk_mb ? 1 : want < POOL_AT_ONCE ? want : POOL_AT_ONCE;
    while (begun < want && make_begin(backend, limits, &slots[begun]) == 0)
        begun++;
    for (unsigned i = 0; i < begun; i++)
        if (make_end(backend, &slots[i]) == 0)
            slots[made++] = slots[i];
    return made;
}

/* Until there is something to make, and it is the time for it. */
static void pool_wait_locked(struct pool *pool) {
    while (!pool->stop) {
        if (pool->count >= pool->size || pool->failed) {
            pool->filling = false;
            pthread_cond_wait(&pool->wanted, &pool->lock);
            continue;
        }
        uint64_t at_ms = pool->taken_ms + POOL_LULL_MS;
        if (pool->filling || pool->count <= pool->size / 4 || clock_ms() >= at_ms)
            break;
        struct timespec at = {.tv_sec = (time_t)(at_ms / 1000), .tv_nsec = (long)(at_ms % 1000) * 1000000};
        pthread_cond_timedwait(&pool->wanted, &pool->lock, &at);
    }
    pool->filling = true;
}

static void *pool_main(void *arg) {
    struct pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        pool_wait_locked(pool);
        if (pool->stop)
            break;
        struct limits limits = pool->limits;
        unsigned want = pool->size - pool->count;
        pthread_mutex_unlock(&pool->lock);
        struct slot slots[POOL_AT_ONCE];
        unsigned made = make_some(pool->backend, &limits, want, slots);
        pthread_mutex_lock(&pool->lock);
        for (unsigned i = 0; i < made; i++)
            pool->ready[pool->count++] = slots[i];
        pool->failed = made == 0;
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}
