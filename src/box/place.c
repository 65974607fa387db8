/* One box's place in the table, and how it comes to a runner. Called by provider.c and table.c; the rules are at the head
 * of provider.c. Not to break: what a box is, the disk says, and it is looked at only under the box's lock between
 * daemons; so two daemons never start, stop or remove one box at the same time, and a runner is started only where none
 * is left. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "box/table.h"

/* A daemon that is slower than that with one box hangs; the caller is told to try again. */
enum { BOX_LOCK_MS = 30000, RETRY_MS = 5000 };

/* ---- boxes ---- */

static char **copy_list(struct arena *arena, const char *const *list, size_t *ret_count) {
    size_t count = 0;
    while (list && list[count])
        count++;
    char **copy = arena_alloc(arena, (count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = arena_strdup(arena, list[i]);
    *ret_count = count;
    return copy;
}

struct box *box_make(const struct backend_ops *ops, struct backend *backend, const struct record *record) {
    struct box *box = calloc(1, sizeof *box);
    struct arena *arena = calloc(1, sizeof *arena);
    if (!box || !arena)
        abort();
    const struct spec *from = &record->spec;
    struct spec spec = *from;
    size_t count;
    spec.user = box->user = arena_strdup(arena, from->user);
    spec.thread = box->thread = from->thread ? arena_strdup(arena, from->thread) : NULL;
    spec.template_name = arena_strdup(arena, from->template_name);
    spec.shell = from->shell ? arena_strdup(arena, from->shell) : NULL;
    spec.env = (const char **)(void *)copy_list(arena, from->env, &spec.env_count);
    spec.layers = (const char **)(void *)copy_list(arena, from->layers, &spec.layer_count);
    struct mount *mounts = arena_alloc(arena, (from->mount_count + 1) * sizeof *mounts);
    for (size_t i = 0; i < from->mount_count; i++)
        mounts[i] = (struct mount){.source = arena_strdup(arena, from->mounts[i].source),
                                   .target = arena_strdup(arena, from->mounts[i].target),
                                   .read_only = from->mounts[i].read_only};
    spec.mounts = mounts;
    box->spec = spec;
    memcpy(box->id, from->id, sizeof box->id);
    box->ops = ops;
    box->backend = backend;
    box->arena = arena;
    box->labels = copy_list(arena, (const char *const *)record->labels, &count);
    box->created_ms = record->created_ms;
    box->idle_timeout_ms = record->idle_timeout_ms;
    box->pidfd = -1;
    box->state = BOX_STARTING;
    atomic_init(&box->refs, 1);
    atomic_init(&box->last_used_ms, clock_wall_ms());
    return box;
}

struct box *box_again(const struct box *box) {
    struct record record = {.spec = box->spec,
                            .labels = box->labels,
                            .created_ms = box->created_ms,
                            .idle_timeout_ms = box->idle_timeout_ms};
    return box_make(box->ops, box->backend, &record);
}

void box_unref(struct box *box) {
    if (atomic_fetch_sub(&box->refs, 1) != 1)
        return;
    wire_unref(box->wire);
    fd_close(&box->pidfd);
    arena_done(box->arena);
    free(box->arena);
    free(box);
}

bool box_owned(const struct box *box, const char *user, const char *thread) {
    return strcmp(box->user, user) == 0 && (thread ? box->thread && strcmp(box->thread, thread) == 0 : !box->thread);
}

/* ---- places ---- */

static struct place **place_find_locked(struct provider *provider, const char *id) {
    struct place **place = &provider->buckets[strtoul((char[]){id[0], id[1], id[2], 0}, NULL, 16) % PLACE_BUCKETS];
    while (*place && strcmp((*place)->id, id) != 0)
        place = &(*place)->next;
    return place;
}

struct place *place_get_locked(struct provider *provider, const char *id) {
    return *place_find_locked(provider, id);
}

struct place *place_add_locked(struct provider *provider, struct box *box) {
    struct place **at = place_find_locked(provider, box->id);
    struct place *place = calloc(1, sizeof *place);
    if (!place)
        abort();
    memcpy(place->id, box->id, sizeof place->id);
    place->box = box;
    *at = place;
    provider->count++;
    tally_add(&provider->tally, box->user);
    return place;
}

void place_remove_locked(struct provider *provider, struct place *place) {
    struct place **at = place_find_locked(provider, place->id);
    *at = place->next;
    provider->count--;
    tally_remove(&provider->tally, place->box->user);
    box_unref(place->box);
    free(place);
    pthread_cond_broadcast(&provider->changed);
}

struct place *place_settled_locked(struct provider *provider, const char *id) {
    for (;;) {
        struct place *place = place_get_locked(provider, id);
        if (!place || (place->box->state != BOX_STARTING && place->box->state != BOX_CLOSING))
            return place;
        pthread_cond_wait(&provider->changed, &provider->lock);
    }
}

struct box *place_use_locked(struct provider *provider, struct place *place) {
    struct box *box = place->box;
    uint64_t now_ms = clock_wall_ms();
    if (provider->crowded && now_ms > atomic_load(&box->last_used_ms) + 1000)
        record_touch(provider->boxes_fd, box->id); /* the reaper may be just about to end it as idle */
    atomic_fetch_add(&box->refs, 1);
    atomic_store(&box->last_used_ms, now_ms);
    if (box->state == BOX_WARM)
        box->state = BOX_READY;
    return box;
}

/* ---- a runner for it ---- */

static int wire_start(struct box *box, struct err *err) {
    struct wire *wire;
    int pidfd = -1;
    int r = box->ops->start(box->backend, &box->spec, &wire, &pidfd, err);
    if (r < 0)
        return r;
    box->wire = wire;
    box->pidfd = pidfd;
    return 0;
}

/* Nothing is recorded. Files there may be all the same, of a box that lost its record: it goes on with them. */
static int open_fresh(struct provider *provider, struct box *box, struct err *err) {
    bool kept = faccessat(provider->boxes_fd, box->id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int r = kept ? box->ops->stop(box->backend, box->id, true, err) : 0; /* a runner may still live on them */
    if (r == 0)
        r = wire_start(box, err);
    if (r < 0 || box->spec.one_shot || (r = record_write(provider->boxes_fd, box, err)) == 0)
        return r;
    struct err ignored;
    wire_kill(box->wire, "the box could not be recorded");
    box->ops->stop(box->backend, box->id, kept, &ignored);
    return r;
}

static int wire_find(struct box *box, struct err *err) {
    struct wire *wire;
    int pidfd = -1;
    int r = box->ops->discover(box->backend, box->id, &wire, &pidfd, err);
    if (r < 0)
        return r;
    box->wire = wire;
    box->pidfd = pidfd;
    return 0;
}

/* One that lives though its wire ended has hung up or sent what no runner may send: it is not asked again, and ends. */
static bool runner_broke(const struct box *old) {
    struct err err;
    if (!old->died[0] || !old->wire)
        return false;
    return old->pidfd >= 0 ? !table_readable(old->pidfd) : wire_error(old->wire, &err) == -ERR_PROTOCOL;
}

/* A recorded box: the runner that is there, or what is left of one is ended, and then a new one where that is wanted. */
static int open_runner(struct provider *provider, struct box *old, struct box *box, enum place_how how,
                       struct err *err) {
    table_death(provider, old);
    bool broken = runner_broke(old);
    int r = broken ? -ERR_GONE : wire_find(box, err);
    if (r == 0)
        return 0;
    bool ended = r != -ERR_NOT_FOUND;
    if (ended && (r = box->ops->stop(box->backend, box->id, true, err)) < 0)
        return r;
    bool start = how == PLACE_FRESH || how == PLACE_AGAIN;
    if (ended && how != PLACE_ADOPT) {
        const char *why = old->died[0] ? old->died : "its runner ended";
        provider_event(provider, "box_died", box->id, box->user, why);
        if (!start)
            record_died(provider->boxes_fd, box->id, why);
    }
    if (!start)
        record_died_read(provider->boxes_fd, box->id, box->died, sizeof box->died);
    if (!start && (how != PLACE_GET || box->died[0]))
        return 0;
    r = wire_start(box, err);
    if (r == 0)
        record_died_clear(provider->boxes_fd, box->id);
    return r;
}

struct opened {
    struct box *box;       /* for the place */
    bool created, deleted; /* by us; by another daemon */
};

/* Under the box's lock between daemons. */
static int open_box(struct provider *provider, struct box *old, enum place_how how, struct opened *opened,
                    struct err *err) {
    autoarena arena;
    arena_init(&arena);
    struct record record;
    int r = old->spec.one_shot ? -ERR_NOT_FOUND : record_read(provider->boxes_fd, old->id, &arena, &record, err);
    if (r < 0 && how == PLACE_FRESH) { /* a damaged one, too: the id says whose it is */
        r = open_fresh(provider, old, err);
        *opened = (struct opened){.box = old, .created = true};
        return r;
    }
    opened->deleted = r == -ERR_NOT_FOUND;
    if (r < 0)
        return opened->deleted ? err_set(err, ERR_NOT_FOUND, "no box '%.40s'", old->id) : r;
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    r = table_backend(provider, record.backend, &ops, &backend, err);
    if (r < 0)
        return r;
    struct box *box = box_make(ops, backend, &record);
    atomic_store(&box->last_used_ms, atomic_load(&old->last_used_ms));
    if (how == PLACE_FRESH && !box_owned(box, old->user, old->thread))
        r = err_set(err, ERR_EXISTS, "the id of this user and thread, %s, is already another box's", box->id);
    else
        r = open_runner(provider, old, box, how, err);
    if (r < 0)
        box_unref(box);
    else
        opened->box = box;
    return r;
}

static void place_settle_locked(struct provider *provider, struct place *place, const struct opened *opened) {
    place->box = opened->box;
    place->box->state = place->box->wire ? BOX_READY : BOX_WARM;
    place->unsynced |= opened->created && !place->box->spec.one_shot;
    pthread_cond_broadcast(&provider->changed);
    if (place->box->wire)
        table_watch_locked(provider, place->box);
}

int place_open(struct provider *provider, struct place *place, enum place_how how, struct box **ret_box,
               bool *ret_created, struct err *err) {
    struct box *old = place->box;
    struct opened opened = {0};
    int r = statelock_box(&provider->statelock, place->id, BOX_LOCK_MS, err);
    if (r == 0) {
        r = open_box(provider, old, how, &opened, err);
        if (!old->spec.one_shot) /* for such a one the lock stands instead of a record */
            statelock_box_end(&provider->statelock, place->id);
    }
    pthread_mutex_lock(&provider->lock);
    if (r < 0 && (how == PLACE_FRESH || opened.deleted)) {
        place_remove_locked(provider, place);
    } else if (r < 0) {
        old->state = BOX_WARM;
        place->later_ms = clock_ms() + RETRY_MS;
        pthread_cond_broadcast(&provider->changed);
    } else {
        place_settle_locked(provider, place, &opened);
        if (how == PLACE_ADOPT && place->box->wire)
            provider_event(provider, "box_adopted", place->id, place->box->user, NULL);
        if (ret_box && place->box->wire)
            *ret_box = place_use_locked(provider, place);
        else if (ret_box)
            r = err_set(err, ERR_GONE, "box %s: %s; its files are kept", place->id, place->box->died);
        if (ret_created)
            *ret_created = opened.created;
        if (opened.box != old)
            box_unref(old);
    }
    pthread_mutex_unlock(&provider->lock);
    return r;
}
