/* Jails kept ready by one thread: blank ones, which serve already and only have to be bound, or halves, where boxes
 * have mounts or a network. Called by jail.c.
 *
 * Rules: 1. All but `backend` and `size` is used under `lock`. 2. The thread makes and drops slots without the lock. 3.
 * After a failure it waits for the next take, to spare a machine at its limit. 4. Requests go first: refilling waits
 * for a lull, or until the pool is nearly empty; once begun it continues until the pool is full. Only then are files of
 * later boxes prepared. 5. A slot that leaves `ready` belongs to a box or is stale, and never comes back. */

#include "base/base.h"
#include "backend/jail/jail.h"
#include "base/log.h"
#include "base/sync.h"

#define POOL_MAX 256
#define POOL_LULL_MS 20
#define POOL_AT_ONCE 3

struct pool_shelf {
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
    struct pool_shelf ready, stale; /* stale: to be dropped */
    struct limits limits;           /* of the last box asked for: the next will probably have the same */
    bool blank;                     /* and be as plain */
    char template[TEMPLATE_NAME_BYTES + 1], workspace[SLOT_WORKSPACE]; /* and have the same; workspace "": none */
    char net_user[LIMIT_USER_BYTES + 1]; /* and belong to the same user, if it has a network; "": it has none */
    uint64_t taken_ms;                   /* when the last one was */
    bool stop, failed, filling;
    bool unstocked; /* files for boxes after those that are ready can be prepared */
};

static bool pool_short_locked(const struct pool *pool) {
    return pool->ready.count < pool->size && !pool->failed;
}

/* Until there is something to make or to drop, and it is the time for it. */
static void pool_wait_locked(struct pool *pool) {
    while (!pool->stop) {
        bool needed = pool_short_locked(pool) || pool->stale.count > 0;
        if (!needed)
            pool->filling = false;
        if (!needed && !pool->unstocked) {
            pthread_cond_wait(&pool->wanted, &pool->lock);
            continue;
        }
        uint64_t at_ms = pool->taken_ms + POOL_LULL_MS;
        if ((needed && (pool->filling || pool->ready.count <= pool->size / 4)) || clock_ms() >= at_ms) {
            pool->filling = needed;
            return;
        }
        cond_wait_until(&pool->wanted, &pool->lock, at_ms);
    }
}

/* The likely next box: what the pool knows of the last one. */
struct pool_likely {
    struct limits limits;
    bool blank;
    char template[TEMPLATE_NAME_BYTES + 1], workspace[SLOT_WORKSPACE], net_user[LIMIT_USER_BYTES + 1];
};

static struct slot *pool_begin(struct backend *backend, const struct pool_likely *likely) {
    struct template template;
    struct err err;
    struct slot *slot = xcalloc(1, sizeof *slot);
    struct slot_want want = {.template = &template, .limits = &likely->limits};
    int r = template_find(backend->env, likely->template, &template, &err);
    if (r == 0)
        r = slot_make(backend, &want, slot, &err);
    memcpy(slot->workspace, likely->workspace, sizeof slot->workspace);
    memcpy(slot->net_user, likely->net_user, sizeof slot->net_user);
    if (r == 0 && likely->blank && (r = slot_plan_blank(backend, slot, &err)) < 0)
        slot_drop(backend, slot);
    if (r == 0)
        return slot;
    log_warn("cannot begin a jail for the pool: %s", err.text);
    free(slot);
    return NULL;
}

static bool pool_finish(struct backend *backend, bool blank, struct slot *slot) {
    struct err err;
    int r = blank ? slot_greet(backend, slot, slot->dir, &err) : slot_ready(backend, slot, &err);
    if (r == 0 && blank && !slot->net && atomic_load(&backend->policies))
        slot_wire_ahead(slot);
    if (r == 0 && blank)
        slot_part(backend, slot, false);
    else if (r == 0)
        r = slot_record(backend, slot, slot->dir, &err);
    if (r == 0)
        return true;
    log_warn("cannot make a jail for the pool: %s", err.text);
    slot_drop(backend, slot);
    free(slot);
    return false;
}

static void pool_put(struct pool_shelf *shelf, struct slot *slot) {
    shelf->slots[shelf->count++] = slot;
}

/* Mounting a disk is mostly waiting: the next ones are begun at the same time. */
static void pool_fill_locked(struct pool *pool) {
    struct slot *slots[POOL_AT_ONCE];
    struct pool_likely likely = {.limits = pool->limits, .blank = pool->blank};
    memcpy(likely.template, pool->template, sizeof likely.template);
    memcpy(likely.workspace, pool->workspace, sizeof likely.workspace);
    memcpy(likely.net_user, pool->net_user, sizeof likely.net_user);
    bool blank = likely.blank;
    unsigned want = pool->size - pool->ready.count, begun = 0, made = 0;
    pthread_mutex_unlock(&pool->lock);
    want = !likely.limits.disk_mb ? 1 : want < POOL_AT_ONCE ? want : POOL_AT_ONCE;
    while (begun < want && (slots[begun] = pool_begin(pool->backend, &likely)))
        begun++;
    for (unsigned i = 0; i < begun; i++) {
        bool whole = pool_finish(pool->backend, blank, slots[i]);
        pthread_mutex_lock(&pool->lock);
        if (whole)
            pool_put(&pool->ready, slots[i]);
        made += whole;
        pthread_mutex_unlock(&pool->lock);
    }
    pthread_mutex_lock(&pool->lock);
    pool->failed = made == 0;
}

static struct slot *pool_pop(struct pool_shelf *shelf, unsigned at) {
    struct slot *slot = shelf->slots[at];
    shelf->count--;
    memmove(shelf->slots + at, shelf->slots + at + 1, (shelf->count - at) * sizeof *shelf->slots);
    return slot;
}

static void pool_drop(struct pool *pool, struct slot *slot) {
    slot_drop(pool->backend, slot);
    free(slot);
}

static void pool_stock_locked(struct pool *pool) {
    uint64_t disk_mb = pool->limits.disk_mb;
    pool->unstocked = false; /* until the next box is asked for */
    pthread_mutex_unlock(&pool->lock);
    bool more = quota_stock(&pool->backend->quota, disk_mb);
    pthread_mutex_lock(&pool->lock);
    pool->unstocked |= more;
}

static void *pool_main(void *arg) {
    struct pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        pool_wait_locked(pool);
        if (pool->stop)
            break;
        if (pool_short_locked(pool)) {
            pool_fill_locked(pool);
            continue;
        }
        if (pool->stale.count == 0) {
            pool_stock_locked(pool);
            continue;
        }
        struct slot *stale = pool_pop(&pool->stale, 0);
        pthread_mutex_unlock(&pool->lock);
        pool_drop(pool, stale);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

struct pool *pool_new(struct backend *backend) {
    unsigned size = backend->env->pool_size;
    if (size == 0 || !backend->root)
        return NULL;
    struct pool *pool = xcalloc(1, sizeof *pool);
    pool->backend = backend;
    pool->limits = backend->env->limits;
    pool->limits.terminals = DEFAULT_TERMINALS;
    pool->blank = true;
    snprintf(pool->template, sizeof pool->template, "%s", backend->env->template_name ?: "host");
    pool->size = size < POOL_MAX ? size : POOL_MAX;
    pthread_mutex_init(&pool->lock, NULL);
    cond_init(&pool->wanted);
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
    while (pool->ready.count > 0)
        pool_drop(pool, pool_pop(&pool->ready, 0));
    while (pool->stale.count > 0)
        pool_drop(pool, pool_pop(&pool->stale, 0));
    free(pool);
}

/* ---- taking ---- */

/* Files keep the size they were made with, and so do PID 1's own limits: terminals, and what depends on the box's
 * memory. Every other limit can be changed. */
static bool pool_fits(const struct slot *slot, const struct template *template, const struct spec *spec) {
    if (slot->limits.disk_mb != spec->limits.disk_mb || strcmp(slot->template_path, template->path) != 0)
        return false;
    if (spec->agent && slot->form != QUOTA_DIRECTORY) /* it needs PLAN_OWN_SHOWN from the beginning */
        return false;
    return !slot->wire || (slot_plain(spec) && slot->limits.memory_mb == spec->limits.memory_mb &&
                           slot->limits.terminals == spec->limits.terminals &&
                           strcmp(slot->workspace, spec->workspace ? spec->workspace : "") == 0 &&
                           strcmp(slot->net_user, spec->network == NETWORK_OPEN ? spec->user : "") == 0);
}

/* Those for boxes that are no longer asked for would keep the places of those that are. */
static void pool_retire_locked(struct pool *pool, const struct template *template, const struct spec *spec) {
    struct pool_shelf *ready = &pool->ready;
    for (unsigned at = 0; at < ready->count;) {
        struct slot *slot = ready->slots[at];
        slot->passed = pool_fits(slot, template, spec) ? 0 : slot->passed + 1;
        if (slot->passed < 2 * pool->size || pool->stale.count == POOL_MAX)
            at++;
        else
            pool_put(&pool->stale, pool_pop(ready, at));
    }
}

/* The oldest that fits, a whole one before a half; NULL: none. One that ended while it waited is stale. */
static struct slot *pool_choose_locked(struct pool *pool, const struct template *template, const struct spec *spec) {
    struct pool_shelf *ready = &pool->ready;
    unsigned half = POOL_MAX;
    for (unsigned at = 0; at < ready->count;) {
        struct slot *slot = ready->slots[at];
        if (!slot_alive(slot) && pool->stale.count < POOL_MAX) {
            pool_put(&pool->stale, pool_pop(ready, at));
            continue;
        }
        if (slot->wire && pool_fits(slot, template, spec))
            return pool_pop(ready, at);
        if (half == POOL_MAX && pool_fits(slot, template, spec))
            half = at;
        at++;
    }
    return half < POOL_MAX ? pool_pop(ready, half) : NULL;
}

bool pool_take(struct pool *pool, const struct template *template, const struct spec *spec, struct slot *ret_slot) {
    if (!pool)
        return false;
    pthread_mutex_lock(&pool->lock);
    pool_retire_locked(pool, template, spec);
    struct slot *slot = pool_choose_locked(pool, template, spec);
    bool host = strstr(template->path, "/templates/.host-") != NULL;
    if (!slot && host && pool->ready.count > 0 && pool->stale.count < POOL_MAX)
        pool_put(&pool->stale, pool_pop(&pool->ready, 0)); /* none fits: one place for one that would */
    pool->limits = spec->limits;
    pool->blank = slot_plain(spec);
    if (host) {
        snprintf(pool->template, sizeof pool->template, "%s", spec->template_name ? spec->template_name : "host");
        snprintf(pool->workspace, sizeof pool->workspace, "%s", pool->blank && spec->workspace ? spec->workspace : "");
        snprintf(pool->net_user, sizeof pool->net_user, "%s",
                 pool->blank && spec->network == NETWORK_OPEN ? spec->user : "");
    }
    pool->taken_ms = clock_ms();
    pool->failed = false;
    pool->unstocked = spec->limits.disk_mb != 0;
    pthread_cond_signal(&pool->wanted);
    pthread_mutex_unlock(&pool->lock);
    if (slot)
        *ret_slot = *slot;
    free(slot);
    return slot != NULL;
}
