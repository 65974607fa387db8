/* Unused layers. Run now and then by a thread of the daemon, and by tests. Invariant: a layer is removed only when
 * no agent's file names it, no box's record does, no daemon serves with it as skill-creator's, and all that has been
 * so for a while: a process that read agents/AGENT a moment ago may be about to mount it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sync.h"
#include "base/text.h"
#include "skill/base/view.h"
#include "skill/stage.h"

static void collect_boxed(void *user, const char *layer) {
    names_add(user, layer);
}

/* Of `old` layers, which are in no stack, those that have been so for long enough and are not used. */
static int collect_judge(struct skills *skills, uint64_t age_ms, const struct names *old, const struct names *boxed,
                         struct names *gone, struct err *err) {
    uint64_t now_ms = clock_wall_ms();
    struct db *db;
    int r = skilldb_begin(skills, &db, err);
    if (r < 0)
        return r;
    for (size_t i = 0; r >= 0 && i < old->count; i++) {
        const char *layer = old->names[i];
        uint64_t left_ms = now_ms;
        r = db_get(db, err,
                   "INSERT INTO layer_left VALUES (?1, ?2)"
                   " ON CONFLICT (layer) DO UPDATE SET left_ms = min(left_ms, ?2) RETURNING left_ms",
                   "ti>i", layer, now_ms, &left_ms);
        if (r < 0 || now_ms - left_ms < age_ms || names_has(boxed, layer))
            continue;
        autofd dir = skills_dir(skills->layers_dir, layer);
        if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0)
            continue; /* a daemon serves with it */
        names_add(gone, layer);
        r = db_do(db, err, "DELETE FROM layer_left WHERE layer = ?1", "t", layer)
                ?: db_do(db, err, "DELETE FROM base_version WHERE layer = ?1", "t", layer);
    }
    return skilldb_end(skills, r < 0 ? r : 0, err);
}

int base_collect(struct skills *skills, uint64_t age_ms, struct err *err) {
    autonames agents = names_new(), stacked = names_new(), layers = names_new(), old = names_new(), boxed = names_new(),
              gone = names_new();
    struct provider *provider = atomic_load(&skills->provider);
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
        r = names_dir(&layers, skills->layers_dir, "the layers of skills", err);
    for (size_t i = 0; i < layers.count; i++)
        if (text_id(layers.names[i]) && !names_has(&stacked, layers.names[i]))
            names_add(&old, layers.names[i]);
    if (r == 0 && provider && old.count)
        r = provider_attached(provider, collect_boxed, &boxed, err);
    names_sort(&boxed);
    if (r == 0 && old.count)
        r = collect_judge(skills, age_ms, &old, &boxed, &gone, err);
    for (size_t i = 0; r == 0 && i < gone.count; i++)
        skills_discard(skills, "layers", gone.names[i]);
    skills_unlock(skills);
    return r;
}

/* ---- the thread ---- */

struct collector {
    struct skills *skills;
    pthread_t thread;
    pthread_mutex_t lock; /* of ends */
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
            log_warn("layers of skills: %s", err.text);
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
    free(collector); /* another daemon collects, or the next one */
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
