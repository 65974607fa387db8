/* Jails kept ready by one thread: blank ones, which serve already and only have to be bound, or halves, where boxes have
 * mounts or a network. Called by jail.c.
 *
 * Rules: 1. Everything but `backend` and `size` under `lock`. 2. The thread makes and drops slots without the lock.
 * 3. A failure makes it wait for the next take: a machine at its limit is not hammered. 4. Whoever is just being served
 * goes first: refilling waits for a lull, or until the pool is nearly empty; once begun it goes on until it is full.
 * 5. A slot that leaves `ready` is some box's or stale, and never comes back. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/jail/jail.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sync.h"

#define POOL_MAX 256
#define POOL_LULL_MS 20
#define POOL_AT_ONCE 3

struct shelf {
    struct slot *slots[POOL_MAX]; /* the oldest first: it has had the longest time to get ready */
    unsigned count;
};

struct pool {
    struct backend *backend;
    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    unsigned size;
    struct shelf ready, stale; /* stale: to be dropped */
    struct limits limits;      /* of the last box asked for: the next will probably have the same */
    bool blank;                /* and be as plain */
    uint64_t taken_ms;         /* when the last one was */
    bool stop, failed, filling;
};

static void *pool_main(void *arg);

struct pool *pool_new(struct backend *backend) {
    unsigned size = backend->env->pool_size;
    if (size == 0 || !backend->root)
        return NULL;
    struct pool *pool = xcalloc(1, sizeof *pool);
    pool->backend = backend;
    pool->limits = backend->env->limits;
    pool->limits.terminals = DEFAULT_TERMINALS;
    pool->blank = true;
    pool->size = size < POOL_MAX ? size : POOL_MAX;
    pthread_mutex_init(&pool->lock, NULL);
    cond_init(&pool->wanted);
    pool->threaded = pthread_create(&pool->thread, NULL, pool_main, pool) == 0;
    return pool;
}

static void shelf_put(struct shelf *shelf, struct slot *slot) {
    shelf->slots[shelf->count++] = slot;
}

static struct slot *shelf_take(struct shelf *shelf, unsigned at) {
    struct slot *slot = shelf->slots[at];
    shelf->count--;
    memmove(shelf->slots + at, shelf->slots + at + 1, (shelf->count - at) * sizeof *shelf->slots);
    return slot;
}

static void drop(struct pool *pool, struct slot *slot) {
    slot_drop(pool->backend, slot);
    free(slot);
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
    while (pool->ready.count > 0)
        drop(pool, shelf_take(&pool->ready, 0));
    while (pool->stale.count > 0)
        drop(pool, shelf_take(&pool->stale, 0));
    free(pool);
}

/* ---- taking ---- */

/* Files keep the size they were made with, and what PID 1 has bounded stays so: terminals, and what follows the box's
 * memory. Every other limit can be changed. */
static bool fits(const struct slot *slot, const struct template *template, const struct spec *spec) {
    if (slot->limits.disk_mb != spec->limits.disk_mb || strcmp(slot->template_path, template->path) != 0)
        return false;
    if (spec->agent && slot->form != QUOTA_DIRECTORY) /* it is told so from the beginning: PLAN_OWN_SHOWN */
        return false;
    return !slot->wire || (slot_plain(spec) && slot->limits.memory_mb == spec->limits.memory_mb &&
                           slot->limits.terminals == spec->limits.terminals);
}

/* The oldest that fits, a whole one before a half; NULL: none. One that ended while it waited is stale. */
static struct slot *choose_locked(struct pool *pool, const struct template *template, const struct spec *spec) {
    struct shelf *ready = &pool->ready;
    unsigned half = POOL_MAX;
    for (unsigned at = 0; at < ready->count;) {
        struct slot *slot = ready->slots[at];
        if (!slot_alive(slot) && pool->stale.count < POOL_MAX) {
            shelf_put(&pool->stale, shelf_take(ready, at));
            continue;
        }
        if (slot->wire && fits(slot, template, spec))
            return shelf_take(ready, at);
        if (half == POOL_MAX && fits(slot, template, spec))
            half = at;
        at++;
    }
    return half < POOL_MAX ? shelf_take(ready, half) : NULL;
}

bool pool_take(struct pool *pool, const struct template *template, const struct spec *spec, struct slot *ret_slot) {
    if (!pool)
        return false;
    pthread_mutex_lock(&pool->lock);
    struct slot *slot = choose_locked(pool, template, spec);
    bool host = strstr(template->path, "/templates/.host-") != NULL;
    if (!slot && host && pool->ready.count == pool->size && pool->stale.count < POOL_MAX)
        shelf_put(&pool->stale, shelf_take(&pool->ready, 0)); /* of a full pool none is what is asked for now */
    pool->limits = spec->limits;
    pool->blank = slot_plain(spec);
    pool->taken_ms = clock_ms();
    pool->failed = false;
    pthread_cond_signal(&pool->wanted);
    pthread_mutex_unlock(&pool->lock);
    if (slot)
        *ret_slot = *slot;
    free(slot);
    return slot != NULL;
}

/* ---- making ---- */

static struct slot *make_begin(struct backend *backend, const struct limits *limits, bool blank) {
    struct template template;
    struct err err;
    struct slot *slot = xcalloc(1, sizeof *slot);
    struct slot_want want = {.template = &template, .limits = limits};
    int r = template_find(backend->env, "host", &template, &err);
    if (r == 0)
        r = slot_make(backend, &want, slot, &err);
    if (r == 0 && blank && (r = slot_tell_blank(backend, slot, &err)) < 0)
        slot_drop(backend, slot);
    if (r == 0)
        return slot;
    log_warn("no jail could be begun ahead: %s", err.text);
    free(slot);
    return NULL;
}

static bool make_end(struct backend *backend, bool blank, struct slot *slot) {
    struct err err;
    int r = blank ? slot_greet(backend, slot, slot->dir, &err) : slot_ready(backend, slot, &err);
    if (r == 0 && blank)
        slot_part(backend, slot, false);
    else if (r == 0)
        r = slot_record(backend, slot, slot->dir, &err);
    if (r == 0)
        return true;
    log_warn("no jail could be made ahead: %s", err.text);
    slot_drop(backend, slot);
    free(slot);
    return false;
}

/* Mounting a disk of one's own is mostly waiting: the next one is begun meanwhile. Returns how many were made. */
static unsigned make_some(struct backend *backend, const struct limits *limits, bool blank, unsigned want,
                          struct slot *slots[POOL_AT_ONCE]) {
    unsigned begun = 0, made = 0;
    want = !limits->disk_mb ? 1 : want < POOL_AT_ONCE ? want : POOL_AT_ONCE;
    while (begun < want && (slots[begun] = make_begin(backend, limits, blank)))
        begun++;
    for (unsigned i = 0; i < begun; i++)
        if (make_end(backend, blank, slots[i]))
            slots[made++] = slots[i];
    return made;
}

static bool short_locked(const struct pool *pool) {
    return pool->ready.count < pool->size && !pool->failed;
}

/* Until there is something to make or to drop, and it is the time for it. */
static void pool_wait_locked(struct pool *pool) {
    while (!pool->stop) {
        if (!short_locked(pool) && pool->stale.count == 0) {
            pool->filling = false;
            pthread_cond_wait(&pool->wanted, &pool->lock);
            continue;
        }
        uint64_t at_ms = pool->taken_ms + POOL_LULL_MS;
        if (pool->filling || pool->ready.count <= pool->size / 4 || clock_ms() >= at_ms)
            break;
        cond_wait_until(&pool->wanted, &pool->lock, at_ms);
    }
    pool->filling = true;
}

static void fill_locked(struct pool *pool) {
    struct limits limits = pool->limits;
    bool blank = pool->blank;
    unsigned want = pool->size - pool->ready.count;
    pthread_mutex_unlock(&pool->lock);
    struct slot *slots[POOL_AT_ONCE];
    unsigned made = make_some(pool->backend, &limits, blank, want, slots);
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < made; i++)
        shelf_put(&pool->ready, slots[i]);
    pool->failed = made == 0;
}

static void *pool_main(void *arg) {
    struct pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        pool_wait_locked(pool);
        if (pool->stop)
            break;
        if (short_locked(pool)) {
            fill_locked(pool);
            continue;
        }
        struct slot *stale = shelf_take(&pool->stale, 0);
        pthread_mutex_unlock(&pool->lock);
        drop(pool, stale);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}
