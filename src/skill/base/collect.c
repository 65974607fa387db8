/* Removes unused layers. Run regularly by a thread of the daemon, and by tests. Invariant: a layer is removed only when
 * no agent's file and no box's record names it and no daemon uses it for skill-creator, and all this has been so for a
 * while: a process that has just read agents/AGENT may be about to mount the layer. */
#include <sys/file.h>

#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"
#include "skill/base/view.h"
#include "skill/stage.h"

struct collecting {
    struct skills *skills;
    uint64_t age_ms;
    struct names *stacked, *boxed; /* layers named by agents' files; by boxes' records */
    bool asked;                    /* boxed is filled */
    int failed;                    /* an error code; nothing more is removed then */
    struct err *err;
};

static void collect_boxed(void *user, const char *layer) {
    names_add(user, layer);
}

/* Returns whether no stack and no box's record has named a layer for age_ms. Boxes are read once, and only if some
 * layer may be removed. */
static bool collect_unused(void *user, const char *layer, int *ret_held) {
    struct collecting *collect = user;
    struct provider *provider = atomic_load(&collect->skills->provider);
    uint64_t now_ms = clock_wall_ms(), left_ms = now_ms;
    struct db *db;
    if (collect->failed < 0 || !text_id(layer) || names_has(collect->stacked, layer))
        return false;
    if (!collect->asked && provider)
        collect->failed = provider_attached(provider, collect_boxed, collect->boxed, collect->err);
    if (!collect->asked)
        names_sort(collect->boxed);
    collect->asked = true;
    *ret_held = skills_dir(collect->skills->layers_dir, layer);
    if (collect->failed < 0 || names_has(collect->boxed, layer) || *ret_held < 0 ||
        flock(*ret_held, LOCK_EX | LOCK_NB) < 0 || /* a daemon uses it */
        (collect->failed = skilldb_take(collect->skills, &db, collect->err)) < 0)
        return false;
    int r = db_get(db, collect->err,
                   "INSERT INTO layer_left VALUES (?1, ?2)"
                   " ON CONFLICT (layer) DO UPDATE SET left_ms = min(left_ms, ?2) RETURNING left_ms",
                   "ti>i", layer, now_ms, &left_ms);
    bool goes = r > 0 && now_ms - left_ms >= collect->age_ms;
    if (goes)
        r = db_do(db, collect->err, "DELETE FROM layer_left WHERE layer = ?1", "t", layer)
                ?: db_do(db, collect->err, "DELETE FROM base_version WHERE layer = ?1", "t", layer);
    skilldb_give(collect->skills);
    collect->failed = r < 0 ? r : 0;
    return goes && r == 0;
}

int base_collect(struct skills *skills, uint64_t age_ms, struct err *err) {
    autonames agents = names_new(), stacked = names_new(), boxed = names_new();
    struct collecting collect = {.skills = skills, .age_ms = age_ms, .stacked = &stacked, .boxed = &boxed, .err = err};
    TRY(skills_lock(skills, err));
    int r = base_agents(skills, &agents, err);
    for (size_t i = 0; r == 0 && i < agents.count; i++) { /* if one cannot be read, nothing is removed */
        struct base_stack stack;
        r = base_stack_read(skills, agents.names[i], &stack, err);
        for (size_t j = 0; r == 0 && j < stack.count; j++)
            names_add(&stacked, stack.names[j]);
    }
    names_sort(&stacked);
    if (r == 0)
        r = skills_sweep(skills, skills->layers_dir, collect_unused, &collect, err) ?: collect.failed;
    skills_unlock(skills);
    return r;
}

/* ---- the thread ---- */

struct collector {
    struct skills *skills;
    pthread_t thread;
    pthread_mutex_t lock; /* guards ends */
    pthread_cond_t end;
    bool ends;
};

static void *collect_collector_main(void *arg) {
    struct collector *collector = arg;
    struct err err;
    pthread_mutex_lock(&collector->lock);
    while (!collector->ends) {
        pthread_mutex_unlock(&collector->lock);
        if (base_collect(collector->skills, BASE_COLLECT_MS, &err) < 0)
            log_warn("cannot remove unused layers of skills: %s", err.text);
        pthread_mutex_lock(&collector->lock);
        if (!collector->ends)
            cond_wait_until(&collector->end, &collector->lock, clock_ms() + BASE_COLLECT_MS / 2);
    }
    pthread_mutex_unlock(&collector->lock);
    return NULL;
}

struct collector *collector_new(struct skills *skills) {
    struct collector *collector = xcalloc(1, sizeof *collector);
    collector->skills = skills;
    pthread_mutex_init(&collector->lock, NULL);
    cond_init(&collector->end);
    if (pthread_create(&collector->thread, NULL, collect_collector_main, collector) == 0)
        return collector;
    free(collector);
    return NULL;
}

void collector_free(struct collector *collector) {
    if (!collector)
        return;
    pthread_mutex_lock(&collector->lock);
    collector->ends = true;
    pthread_cond_signal(&collector->end);
    pthread_mutex_unlock(&collector->lock);
    pthread_join(collector->thread, NULL);
    free(collector);
}
