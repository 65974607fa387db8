/* Workers and placement. Called by remote.c under no lock, by front/join for draining. Invariant: fleet->lock guards
 * the counts; the table of machines has its own lock and a copy of the counts, for placing and showing. */
#include "backend/remote/fleet.h"

#include <pthread.h>

#include "base/base.h"
#include "base/sync.h"

enum { DRAIN_PATH_BYTES = 4300 };
#define FLEET_MEMORY_LEAST 0.05 /* a worker with less of its memory free takes no new box */

struct fleet_worker {
    struct fleet_worker *next;
    uint64_t boxes;
    char name[LIMIT_RUNNER_BYTES + 1];
};

struct fleet {
    struct machines *machines;
    char *state_dir;
    pthread_mutex_t lock;
    struct fleet_worker *workers;
};

struct fleet *fleet_new(struct machines *machines, const char *state_dir) {
    struct fleet *fleet = xcalloc(1, sizeof *fleet);
    fleet->machines = machines;
    fleet->state_dir = xstrdup(state_dir);
    pthread_mutex_init(&fleet->lock, NULL);
    return fleet;
}

void fleet_free(struct fleet *fleet) {
    if (!fleet)
        return;
    while (fleet->workers) {
        struct fleet_worker *worker = fleet->workers;
        list_remove(fleet->workers, worker);
        free(worker);
    }
    pthread_mutex_destroy(&fleet->lock);
    free(fleet->state_dir);
    free(fleet);
}

/* ---- draining ---- */

static const char *fleet_drain_path(char path[DRAIN_PATH_BYTES], const char *state_dir, const char *worker) {
    return text_format(path, DRAIN_PATH_BYTES, "%s/draining/%.*s", state_dir, LIMIT_RUNNER_BYTES, worker);
}

int fleet_drain(struct machines *machines, const char *state_dir, const char *worker, bool drain, struct err *err) {
    char text[DRAIN_PATH_BYTES];
    const char *path = fleet_drain_path(text, state_dir, worker);
    TRY(machine_drain(machines, MACHINE_WORKERS, worker, drain, err));
    if (mkdir(text_make(4200, "%s/draining", state_dir), 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "cannot note that a worker is draining");
    autofd mark = drain ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (drain ? mark < 0 : unlink(path) < 0 && errno != ENOENT)
        return err_errno(err, errno, "cannot note that a worker is draining");
    return 0;
}

/* ---- counting ---- */

static struct fleet_worker *fleet_worker_locked(struct fleet *fleet, const char *name) {
    struct fleet_worker *worker = list_find(fleet->workers, known, strcmp(known->name, name) == 0);
    if (!worker) {
        worker = xcalloc(1, sizeof *worker);
        snprintf(worker->name, sizeof worker->name, "%s", name);
        list_push(fleet->workers, worker);
    }
    return worker;
}

void fleet_count(struct fleet *fleet, const char *name, int by) {
    autolock(&fleet->lock);
    struct fleet_worker *worker = fleet_worker_locked(fleet, name);
    worker->boxes = by > 0 || worker->boxes ? worker->boxes + (uint64_t)(int64_t)by : 0;
    machine_boxes_set(fleet->machines, MACHINE_WORKERS, name, worker->boxes);
}

/* The table of machines may just have learnt of it. */
void fleet_came(struct fleet *fleet, const char *name) {
    char path[DRAIN_PATH_BYTES];
    bool draining = access(fleet_drain_path(path, fleet->state_dir, name), F_OK) == 0;
    fleet_count(fleet, name, 0);
    machine_drain(fleet->machines, MACHINE_WORKERS, name, draining, ERR_IGNORED);
}

/* ---- placing ---- */

struct fleet_wish {
    const char *template_name, *but;
    uint64_t memory_mb;
    unsigned known, online, open, fitting; /* workers: each of these is among those before it */
};

static bool fleet_has_word(const char *words, const char *word) {
    size_t len = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += len)
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
            return true;
    return false;
}

/* The part of its boxes, or of its memory, that is free: the smaller one. */
static double fleet_score(void *context, const struct machine_facts *worker) {
    struct fleet_wish *wish = context;
    const struct machine_hello *hello = &worker->hello;
    if (wish->but && strcmp(hello->name, wish->but) == 0)
        return -1;
    wish->known++;
    wish->online += worker->online;
    if (!worker->online || worker->draining)
        return -1;
    wish->open++;
    if (!fleet_has_word(hello->templates, wish->template_name))
        return -1;
    wish->fitting++;
    if (worker->boxes >= hello->boxes_max || wish->memory_mb > hello->memory_mb)
        return -1;
    double boxes = 1 - (double)worker->boxes / (double)hello->boxes_max;
    double memory = (double)worker->free_mb / (double)hello->memory_mb;
    if (memory < FLEET_MEMORY_LEAST)
        return -1;
    return boxes < memory ? boxes : memory;
}

int fleet_place(struct fleet *fleet, const struct spec *spec, const char *but, struct arena *arena,
                const char **ret_worker, struct err *err) {
    struct fleet_wish wish = {.template_name = spec->template_name, .but = but, .memory_mb = spec->limits.memory_mb};
    const char *other = but ? "other " : "";
    if (machines_pick(fleet->machines, MACHINE_WORKERS, fleet_score, &wish, arena, ret_worker))
        return 0;
    if (!wish.online)
        return err_set(err, ERR_BUSY,
                       "no %sworker is online (%u %s joined since this server started); start `cubby join "
                       "--worker` on one",
                       other, wish.known, wish.known == 1 ? "has" : "have");
    if (!wish.open)
        return err_set(err, ERR_BUSY, "every %sworker is draining; `cubby drain --off NAME` opens one again", other);
    if (!wish.fitting)
        return err_set(err, ERR_NOT_FOUND, "no %sworker that is online has template '%s'", other, spec->template_name);
    return err_set(err, ERR_LIMIT, "every %sworker is full: %u %s no place, or no memory, for a box with %llu MiB",
                   other, wish.fitting, wish.fitting == 1 ? "has" : "have", (unsigned long long)wish.memory_mb);
}
