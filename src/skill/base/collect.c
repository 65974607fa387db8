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
#include "base/text.h"
#include "skill/base/collect.h"
#include "skill/base/rows.h"
#include "skill/base/view.h"
#include "skill/garbage.h"

/* ---- names ---- */

struct names {
    char (*all)[LAYER_NAME_BYTES];
    size_t count, cap;
};

static void names_add(struct names *names, const char *name) {
    if (names->count == names->cap) {
        names->cap = names->cap ? names->cap * 2 : 64;
        names->all = xrealloc(names->all, names->cap * sizeof *names->all);
    }
    if (text_id(name))
        memcpy(names->all[names->count++], name, LAYER_NAME_BYTES);
}

static int by_name(const void *a, const void *b) {
    return strcmp(a, b);
}

static bool names_have(const struct names *names, const char *name) {
    return names->count && bsearch(name, names->all, names->count, sizeof *names->all, by_name);
}

static void names_sort(struct names *names) {
    if (names->count)
        qsort(names->all, names->count, sizeof *names->all, by_name);
}

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
        if (text_id(entry->d_name) && !names_have(&collecting->stacked, entry->d_name))
            names_add(&collecting->old, entry->d_name);
    closedir(dir);
    return 0;
}

/* ---- since when ---- */

static int left_since(struct db *db, const char *layer, uint64_t now_ms, uint64_t *ret_left_ms, struct err *err) {
    sqlite3_stmt *statement = NULL;
    int r = db_prepare(db,
                       "INSERT INTO layer_left VALUES (?1, ?2)"
                       " ON CONFLICT (layer) DO UPDATE SET left_ms = min(left_ms, ?2) RETURNING left_ms",
                       &statement, err);
    if (r < 0)
        return r;
    db_text(statement, 1, layer);
    sqlite3_bind_int64(statement, 2, (int64_t)now_ms);
    if (sqlite3_step(statement) == SQLITE_ROW)
        *ret_left_ms = (uint64_t)sqlite3_column_int64(statement, 0);
    else
        r = db_fail(db, err);
    sqlite3_finalize(statement);
    return r;
}

static int rows_forget(struct db *db, const char *layer, struct err *err) {
    static const char *const statements[] = {"DELETE FROM layer_left WHERE layer = ?1",
                                             "DELETE FROM base_version WHERE layer = ?1"};
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof statements / sizeof *statements; i++) {
        sqlite3_stmt *statement = NULL;
        if ((r = db_prepare(db, statements[i], &statement, err)) == 0) {
            db_text(statement, 1, layer);
            r = db_run(db, statement, err);
        }
    }
    return r;
}

static bool served(const struct skills *skills, const char *layer) {
    autofd dir = openat(skills->layers_dir, layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0;
}

static int judge(struct collecting *collecting, struct db *db, struct err *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < collecting->old.count; i++) {
        const char *layer = collecting->old.all[i];
        uint64_t left_ms = collecting->now_ms;
        r = left_since(db, layer, collecting->now_ms, &left_ms, err);
        if (r < 0 || collecting->now_ms - left_ms < collecting->age_ms || names_have(&collecting->boxed, layer) ||
            served(collecting->skills, layer))
            continue;
        names_add(&collecting->gone, layer);
        r = rows_forget(db, layer, err);
    }
    return r;
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
        skills_discard(skills, "layers", collecting->gone.all[i]);
    return r;
}

int base_collect(struct skills *skills, uint64_t age_ms, struct err *err) {
    struct collecting collecting = {.skills = skills, .age_ms = age_ms, .now_ms = clock_wall_ms()};
    int r = skills_lock(skills, err);
    if (r < 0)
        return r;
    r = collect_locked(&collecting, err);
    skills_unlock(skills);
    free(collecting.stacked.all);
    free(collecting.boxed.all);
    free(collecting.old.all);
    free(collecting.gone.all);
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
    struct timespec until;
    pthread_mutex_lock(&collector->lock);
    while (!collector->ends) {
        pthread_mutex_unlock(&collector->lock);
        if (base_collect(collector->skills, BASE_COLLECT_MS, &err) < 0)
            log_warn("layers of skills: %s", err.text);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += BASE_COLLECT_MS / 2 / 1000;
        pthread_mutex_lock(&collector->lock);
        if (!collector->ends)
            pthread_cond_timedwait(&collector->end, &collector->lock, &until);
    }
    pthread_mutex_unlock(&collector->lock);
    return NULL;
}

struct collector *collector_new(struct skills *skills) {
    struct collector *collector = xcalloc(1, sizeof *collector);
    collector->skills = skills;
    pthread_mutex_init(&collector->lock, NULL);
    pthread_cond_init(&collector->end, NULL);
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
