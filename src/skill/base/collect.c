/* Layers that nobody needs any more. Run by a thread of the daemon's now and then, and by tests. Invariant: a layer goes
 * only when no agent's file names it, no box's record does, nobody serves with it as the creator's, and all that has been so
 * for a while: whoever read agents/AGENT a moment ago is still on his way to mount it. */
#include <dirent.h>
#include <errno.h>
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
#include "skill/base/collect.h"
#include "skill/base/rows.h"
#include "skill/base/view.h"
#include "skill/garbage.h"
#include "skill/names.h"

/* ---- who needs what ---- */

struct collecting {
    struct skills *skills;
    uint64_t age_ms, now_ms;
    struct names stacked, boxed, old, gone;
};

static int add_stack(void *user, const char *agent, struct err *err) {
    struct collecting *collecting = user;
    struct base_stack stack;
    int r = base_stack_read(collecting->skills, agent, &stack, err);
    for (size_t i = 0; r == 0 && i < stack.count; i++)
        names_add(&collecting->stacked, stack.names[i]);
    return r;
}

static void add_boxed(void *user, const char *layer) {
    names_add(user, layer);
}

static int list_layers(struct collecting *collecting, struct err *err) {
    int fd = openat(collecting->skills->layers_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return err_errno(err, errno, "the layers of skills");
    struct dirent *entry;
    while ((entry = readdir(dir)))
        if (text_id(entry->d_name) && !names_has(&collecting->stacked, entry->d_name))
            names_add(&collecting->old, entry->d_name);
    closedir(dir);
    return 0;
}

/* ---- since when ---- */

static bool served(const struct skills *skills, const char *layer) {
    autofd dir = openat(skills->layers_dir, layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0;
}

static int judge(struct collecting *collecting, struct db *db, struct err *err) {
    int r = 0;
    for (size_t i = 0; r >= 0 && i < collecting->old.count; i++) {
        const char *layer = collecting->old.names[i];
        uint64_t left_ms = collecting->now_ms;
        r = db_get(db, err,
                   "INSERT INTO layer_left VALUES (?1, ?2)"
                   " ON CONFLICT (layer) DO UPDATE SET left_ms = min(left_ms, ?2) RETURNING left_ms",
                   "ti>i", layer, collecting->now_ms, &left_ms);
        if (r < 0 || collecting->now_ms - left_ms < collecting->age_ms || names_has(&collecting->boxed, layer) ||
            served(collecting->skills, layer))
            continue;
        names_add(&collecting->gone, layer);
        r = db_do(db, err, "DELETE FROM layer_left WHERE layer = ?1", "t", layer);
        if (r == 0)
            r = db_do(db, err, "DELETE FROM base_version WHERE layer = ?1", "t", layer);
    }
    return r < 0 ? r : 0;
}

static int collect_locked(struct collecting *collecting, struct err *err) {
    struct skills *skills = collecting->skills;
    struct provider *provider = atomic_load(&skills->provider);
    struct db *db;
    int r = base_agents(skills, add_stack, collecting, err); /* one that cannot be read: nothing goes */
    names_sort(&collecting->stacked);
    if (r == 0)
        r = list_layers(collecting, err);
    if (r == 0 && provider && collecting->old.count)
        r = provider_attached(provider, add_boxed, &collecting->boxed, err);
    names_sort(&collecting->boxed);
    if (r == 0 && collecting->old.count && (r = skilldb_take(skills, &db, err)) == 0) {
        if ((r = db_begin(db, err)) == 0)
            r = db_end(db, judge(collecting, db, err), err);
        skilldb_give(skills);
    }
    for (size_t i = 0; r == 0 && i < collecting->gone.count; i++)
        skills_discard(skills, "layers", collecting->gone.names[i]);
    return r;
}

int base_collect(struct skills *skills, uint64_t age_ms, struct err *err) {
    struct collecting collecting = {.skills = skills, .age_ms = age_ms, .now_ms = clock_wall_ms()};
    struct names *const lists[] = {&collecting.stacked, &collecting.boxed, &collecting.old, &collecting.gone};
    int r = skills_lock(skills, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < 4; i++)
        names_init(lists[i]);
    r = collect_locked(&collecting, err);
    skills_unlock(skills);
    for (size_t i = 0; i < 4; i++)
        names_done(lists[i]);
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

static void *collector_main(void *arg) {
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
    if (pthread_create(&collector->thread, NULL, collector_main, collector) == 0)
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
