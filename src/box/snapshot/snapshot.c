/* Snapshots, rollback, fork. Called by the doors. A box's files are a template, kept layers above it (its record names
 * them, uppermost first) and its own on top. Invariant: at every step the disk says what is true, so that a daemon
 * which is killed between two of them leaves the old state or the new one, and at worst a layer that the next one sweeps.
 *
 * Keeping by moving (nothing runs, or nothing but an idle runner):
 *   1. the layer is made, held by the snapshot and by the box      killed here: nobody names it, it is swept
 *   2. the box's record begins with it                             a layer without files counts for nothing
 *   3. the files move there (one rename)                           the box is complete; the snapshot does not exist
 *   4. the snapshot's record is written                            it exists
 * By copying (something runs): 1, without the box; the copy; 4. A snapshot of a box that wrote nothing since its last one
 * is that one's layers under another name.
 * Rollback: 1. the snapshot's layers are held by the box; 2. the record names them, and says that the box's own files are to
 *   be thrown away: from here on it is done, whoever finishes it; 3. they are; 4. the record no longer says so; 5. the
 *   layers that the box had before are let go of.
 * Removing: the record goes, then the layers are let go of. A box: its directory goes, records and all, then the layers.
 * Fork: the layers are held by the new box under the old one's lock, then that box is recorded; its first use starts it. */
#include "box/snapshot/snapshot.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/snapshot/layer.h"
#include "box/snapshot/squash.h"
#include "box/provider/provider_private.h"

enum { BUSY_ELSEWHERE_MS = 3000 };

/* What becomes of the files as they are now. */
struct taking {
    const char *owner;   /* of the layers: a snapshot, or another box */
    const char *user;    /* who pays for them */
    const char **layers; /* what they are, NULL-terminated; in the work's arena */
    struct kept kept;
    bool stopped;
};

static int take_files(struct work *work, struct taking *taking, struct err *err);

/* ---- helpers ---- */

static int can_keep(const struct box *box, struct err *err) {
    return box->ops->keep
               ? 0
               : err_set(
                     err, ERR_UNSUPPORTED,
                     "the backend '%s' keeps no snapshots: its boxes have no layers; use the backend jail or docker",
                     box->ops->name);
}

static int check_name(const char *name, struct err *err) {
    return snapshot_name_ok(name)
               ? 0
               : err_set(err, ERR_INVALID, "a snapshot's name is 1 to %u letters, digits and _.- (and not '.' or '..')",
                         LIMIT_SNAPSHOT_NAME);
}

/* The list with `first` before it (NULL: nothing), without layers that never got files, and without those that the first
 * one makes superfluous. */
static const char **list_with(struct work *work, const char *first, const char *const *rest) {
    size_t count = 0, at = 0;
    while (rest && rest[count])
        count++;
    const char **list = arena_alloc(work->arena, (count + 2) * sizeof *list);
    if (first)
        list[at++] = arena_strdup(work->arena, first);
    for (size_t i = 0; i < count && !(at && work->box->ops->whole_layers); i++)
        if (layer_has_files(work->provider, rest[i]))
            list[at++] = rest[i];
    return list;
}

static size_t list_count(const char *const *list) {
    size_t count = 0;
    while (list && list[count])
        count++;
    return count;
}

static bool list_has(const char *const *list, const char *layer) {
    for (; list && *list; list++)
        if (strcmp(*list, layer) == 0)
            return true;
    return false;
}

static void set_layers(struct work *work, const char **layers) {
    work->record.spec.layers = layers;
    work->record.spec.layer_count = list_count(layers);
    work->recorded = false;
}

/* ---- the files as they are ---- */

static void process_note(void *user, const struct process *process) {
    (void)process;
    ++*(unsigned *)user;
}

/* Nobody would notice if its runner were another one: nobody is using it, here or through another daemon, and it holds no
 * output of commands that have ended. */
static bool is_idle(struct work *work) {
    struct box *box = work->box;
    struct provider *provider = work->provider;
    unsigned processes = 0;
    struct err ignored;
    if (!box->wire || atomic_load(&box->refs) > 1 || work->state == BOX_PAUSED)
        return false;
    if (table_crowded(provider) &&
        record_touched_ns(provider->boxes_fd, box->id) / 1000000 + BUSY_ELSEWHERE_MS > clock_wall_ms())
        return false;
    return box_processes(box, 0, process_note, &processes, &ignored) == 0 && processes == 0;
}

static int shm_note(void *user, const struct file_stat *stat) {
    (void)stat;
    *(bool *)user = true;
    return 0;
}

/* What lies in the box's memory would end with its runner, which is asked. */
static bool is_shm_empty(struct box *box) {
    bool some = false, truncated;
    struct err ignored;
    struct list_request request = {.path = "/dev/shm", .depth = 1, .limit = 1};
    return box_list(box, &request, -1, shm_note, &some, &truncated, &ignored) == 0 && !some && !truncated;
}

/* The layer's size is noted while only its owners know it, and counted with all others: of two who come at once both count
 * both. A box's own files are measured before they move: nothing is left behind by one that is refused. */
static int keep_room(struct work *work, bool move, const struct taking *taking, const char *layer, struct err *err) {
    struct box *box = work->box;
    uint64_t bytes = 0, disk_mb = work->record.spec.limits.disk_mb;
    char id[17];
    snprintf(id, sizeof id, "%.16s", taking->owner);
    bool counts = box->ops->measure && (eviction_counts_layers(work->provider, taking->user, disk_mb) ||
                                        eviction_counts_layers(work->provider, box->user, disk_mb));
    int r = counts ? box->ops->measure(box->backend, box->id, false, &bytes, err) : 0;
    if (r == 0 && counts)
        r = layer_note(work->provider, layer, bytes, err);
    if (r == 0)
        r = eviction_for_layer(work->provider, taking->user, id, disk_mb, err);
    if (r == 0 && move && strcmp(id, box->id) != 0)
        r = eviction_for_layer(work->provider, box->user, box->id, disk_mb, err);
    return r;
}

/* Steps 1 to 3 of keeping. On failure all is as before. */
static int keep_layer(struct work *work, bool move, struct taking *taking, struct err *err) {
    struct provider *provider = work->provider;
    struct box *box = work->box;
    char layer[17];
    const char **before = work->record.spec.layers;
    int r = layer_new(provider, box->ops, taking->owner, layer, err);
    if (r < 0)
        return r;
    const char **layers = list_with(work, layer, before);
    r = layer_hold_all(provider, layers + 1, taking->owner, err);
    if (r == 0 && move)
        r = layer_hold(provider, layer, box->id, err);
    if (r == 0)
        r = keep_room(work, move, taking, layer, err);
    bool recorded = r == 0 && move;
    if (recorded) {
        set_layers(work, layers);
        r = work_record(work, err);
        work->changed = true; /* it may end in the next step, whatever comes of that */
    }
    bool ends = r == 0 && move && box->wire;
    if (r == 0)
        r = box->ops->keep(box->backend, &work->record.spec, layer, move, &taking->kept, err);
    if (ends) /* now, and not before: that would wake the runner up, which then had to be waited for */
        wire_kill(box->wire, "the box's files were kept");
    taking->layers = layers;
    if (r == 0)
        return 0;
    if (recorded) {
        struct err ignored;
        set_layers(work, before);
        work_record(work, &ignored);
    }
    if (move)
        layer_release(provider, box->ops, box->backend, layer, box->id);
    layer_release_all(provider, box->ops, box->backend, layers, taking->owner);
    return r;
}

static int take_files(struct work *work, struct taking *taking, struct err *err) {
    struct box *box = work->box;
    enum backend_files files = box->ops->files(box->backend, box->id);
    if (files == FILES_UNCHANGED) {
        taking->layers = list_with(work, NULL, work->record.spec.layers);
        taking->kept = (struct kept){.method = "layer"};
        int r = layer_hold_all(work->provider, taking->layers, taking->owner, err);
        if (r < 0)
            layer_release_all(work->provider, box->ops, box->backend, taking->layers, taking->owner);
        return r;
    }
    if (work->record.spec.layer_count >= LIMIT_LAYERS)
        return err_set(err, ERR_LIMIT,
                       "box %s lies on %u kept layers, which is the limit, and they could not be made fewer yet; try "
                       "again later",
                       box->id, LIMIT_LAYERS);
    bool quiet =
        (files == FILES_QUIET || files == FILES_ALONE) && is_idle(work) && (files == FILES_QUIET || is_shm_empty(box));
    bool move = files == FILES_STILL || quiet;
    taking->stopped = quiet;
    int r = keep_layer(work, move, taking, err);
    if (r == -ERR_LIMIT && move && squash_ready(work->provider, box->id)) { /* then less counts */
        r = quiet ? work_stop(work, "its kept layers were merged", err) : 0;
        if (r == 0) {
            squash_swap(work);
            r = keep_layer(work, move, taking, err);
        }
    }
    if (r == -ERR_LIMIT)
        squash_want(work->provider, box->id, SQUASH_DEPTH + 1);
    return r;
}

/* ---- create ---- */

struct creating {
    const char *name; /* NULL: from the time */
    struct arena *arena;
    struct snapshot *ret_snapshot;
};

static int name_from_time(struct work *work, uint64_t now_ms, char name[], struct err *err) {
    char text[CLOCK_TEXT_BYTES];
    clock_text(now_ms, text); /* 2026-01-31T12:00:00.123Z */
    for (unsigned turn = 0; turn <= LIMIT_SNAPSHOTS; turn++) {
        size_t at = 0;
        for (const char *c = text; *c; c++)
            if (*c != '-' && *c != ':')
                name[at++] = *c;
        name[at] = 0;
        if (turn)
            snprintf(name + at, LIMIT_SNAPSHOT_NAME - at, "-%u", turn);
        if (!snapshot_exists(work->provider->boxes_fd, work->box->id, name))
            return 0;
    }
    return err_set(err, ERR_INTERNAL, "no name for the snapshot is free");
}

static int choose_name(struct work *work, const char *wanted, struct snapshot *snapshot, struct err *err) {
    if (wanted && snapshot_exists(work->provider->boxes_fd, work->box->id, wanted))
        return err_set(err, ERR_EXISTS, "box %s has a snapshot '%s' already", work->box->id, wanted);
    if (snapshot_count(work->provider->boxes_fd, work->box->id) >= LIMIT_SNAPSHOTS)
        return err_set(err, ERR_LIMIT, "box %s has %u snapshots, which is the limit; delete some", work->box->id,
                       LIMIT_SNAPSHOTS);
    snapshot->created_ms = clock_wall_ms();
    if (!wanted)
        return name_from_time(work, snapshot->created_ms, snapshot->name, err);
    snprintf(snapshot->name, sizeof snapshot->name, "%s", wanted);
    return 0;
}

static void copy_layers(struct arena *arena, struct snapshot *snapshot) {
    size_t count = list_count(snapshot->layers);
    const char **copy = arena_alloc(arena, (count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = arena_strdup(arena, snapshot->layers[i]);
    snapshot->layers = copy;
}

static int create_work(void *argument, struct work *work, struct err *err) {
    struct creating *creating = argument;
    struct box *box = work->box;
    struct snapshot snapshot = {0};
    char owner[LAYER_OWNER_BYTES];
    int r = can_keep(box, err);
    if (r == 0)
        r = choose_name(work, creating->name, &snapshot, err);
    if (r < 0)
        return r;
    struct taking taking = {.owner = layer_owner(box->id, snapshot.name, owner), .user = box->user};
    r = take_files(work, &taking, err);
    if (r < 0)
        return r;
    snapshot.method = taking.kept.method;
    snapshot.pause_us = taking.kept.pause_us;
    snapshot.bytes = taking.kept.bytes;
    snapshot.stopped = taking.stopped;
    snapshot.layers = taking.layers;
    r = snapshot_write(work->provider->boxes_fd, box->id, &snapshot, err);
    if (r < 0) { /* if the files moved, the box has them all the same */
        layer_release_all(work->provider, box->ops, box->backend, taking.layers, owner);
        return r;
    }
    copy_layers(creating->arena, &snapshot);
    *creating->ret_snapshot = snapshot;
    if (taking.kept.moved) /* it does not run now */
        squash_swap(work);
    return 0;
}

int snapshot_create(struct provider *provider, const char *user, const char *id, const char *name, struct arena *arena,
                    struct snapshot *ret_snapshot, struct err *err) {
    struct creating creating = {.name = name, .arena = arena, .ret_snapshot = ret_snapshot};
    int r = name ? check_name(name, err) : 0;
    adoption_refresh(provider); /* quotas count what other daemons made */
    if (r == 0)
        r = provider_work(provider, user, id, create_work, &creating, err);
    if (r == 0)
        squash_want(provider, id, list_count(ret_snapshot->layers));
    return r;
}

/* ---- list, remove ---- */

static int by_time(const void *a, const void *b) {
    const struct snapshot *x = a, *y = b;
    if (x->created_ms != y->created_ms)
        return x->created_ms < y->created_ms ? -1 : 1;
    return strcmp(x->name, y->name);
}

int snapshot_list(struct provider *provider, const char *user, const char *id, struct arena *arena,
                  struct snapshot **ret_snapshots, size_t *ret_count, struct err *err) {
    struct box *box;
    int r = provider_look(provider, user, id, &box, err);
    if (r < 0)
        return r;
    r = can_keep(box, err);
    provider_look_end(provider, box);
    if (r < 0)
        return r;
    snapshot_read_all(provider->boxes_fd, id, arena, ret_snapshots, ret_count);
    qsort(*ret_snapshots, *ret_count, sizeof **ret_snapshots, by_time);
    return 0;
}

static int remove_work(void *argument, struct work *work, struct err *err) {
    const char *name = argument;
    struct box *box = work->box;
    struct snapshot snapshot;
    char owner[LAYER_OWNER_BYTES];
    int r = can_keep(box, err);
    if (r == 0)
        r = snapshot_read(work->provider->boxes_fd, box->id, name, work->arena, &snapshot, err);
    if (r == 0)
        r = snapshot_unlink(work->provider->boxes_fd, box->id, name, err);
    if (r == 0)
        layer_release_all(work->provider, box->ops, box->backend, snapshot.layers, layer_owner(box->id, name, owner));
    return r;
}

int snapshot_remove(struct provider *provider, const char *user, const char *id, const char *name, struct err *err) {
    int r = provider_work(provider, user, id, remove_work, (void *)(uintptr_t)name, err);
    if (r == 0) /* what only the box needs now becomes one layer, without what later ones cover */
        squash_want(provider, id, SQUASH_DEPTH + 1);
    return r;
}

/* ---- rollback ---- */

struct rolling {
    const char *name;
    uint64_t ended;
};

static int rollback_work(void *argument, struct work *work, struct err *err) {
    struct rolling *rolling = argument;
    struct box *box = work->box;
    struct snapshot snapshot;
    const char **before = work->record.spec.layers;
    int r = can_keep(box, err);
    if (r == 0)
        r = snapshot_read(work->provider->boxes_fd, box->id, rolling->name, work->arena, &snapshot, err);
    if (r == 0)
        r = layer_hold_all(work->provider, snapshot.layers, box->id, err);
    if (r < 0)
        return r;
    set_layers(work, snapshot.layers);
    work->record.spec.discard = true;
    r = work_record(work, err);
    if (r < 0)
        return r;
    work->changed = true;
    rolling->ended = work_processes(box);
    if (box->wire)
        wire_kill(box->wire, "the box was rolled back");
    r = box->ops->fresh(box->backend, &work->record.spec, err);
    if (r < 0) /* its next use goes on with it */
        return r;
    work->record.spec.discard = false;
    r = work_record(work, err);
    for (size_t i = 0; r == 0 && before && before[i]; i++)
        if (!list_has(snapshot.layers, before[i]))
            layer_release(work->provider, box->ops, box->backend, before[i], box->id);
    return r;
}

int snapshot_rollback(struct provider *provider, const char *user, const char *id, const char *name,
                      uint64_t *ret_ended, struct err *err) {
    struct rolling rolling = {.name = name};
    int r = provider_work(provider, user, id, rollback_work, &rolling, err);
    if (r == 0)
        *ret_ended = rolling.ended;
    return r;
}

int snapshot_settle(struct provider *provider, struct record *record, struct err *err) {
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    if (!record->spec.discard)
        return 0;
    int r = table_backend(provider, record->backend, &ops, &backend, err);
    if (r == 0 && ops->fresh)
        r = ops->fresh(backend, &record->spec, err);
    if (r < 0)
        return r;
    record->spec.discard = false;
    struct box *box = box_make(ops, backend, record);
    r = record_write(provider->boxes_fd, box, err);
    box_unref(box);
    return r;
}

/* ---- fork ---- */

struct forking {
    const struct fork_request *request;
    char id[17];
    struct box *ret_box; /* not started, nobody's yet; its layers are held for it */
};

static int fork_layers(struct work *work, const struct forking *forking, struct taking *taking, struct err *err) {
    struct snapshot snapshot;
    if (!forking->request->snapshot)
        return take_files(work, taking, err);
    int r =
        snapshot_read(work->provider->boxes_fd, work->box->id, forking->request->snapshot, work->arena, &snapshot, err);
    if (r < 0)
        return r;
    taking->layers = snapshot.layers;
    r = layer_hold_all(work->provider, snapshot.layers, taking->owner, err);
    if (r == 0)
        r = eviction_for_layer(work->provider, taking->user, taking->owner, work->record.spec.limits.disk_mb, err);
    if (r < 0)
        layer_release_all(work->provider, work->box->ops, work->box->backend, snapshot.layers, taking->owner);
    return r;
}

static int fork_work(void *argument, struct work *work, struct err *err) {
    struct forking *forking = argument;
    const struct fork_request *request = forking->request;
    struct record record = work->record;
    record.created_ms = clock_wall_ms();
    memcpy(record.spec.id, forking->id, sizeof record.spec.id);
    record.spec.user = request->user ? request->user : record.spec.user;
    struct taking taking = {.owner = forking->id, .user = record.spec.user};
    record.spec.thread = request->thread ? arena_copy(work->arena, request->thread, request->thread_len) : NULL;
    const char *agent = policy_thread_agent(request->thread, request->thread_len, work->arena);
    record.spec.agent = agent ? agent : record.spec.agent;
    int r = can_keep(work->box, err);
    if (r == 0) { /* somebody else's variables and workspace are not his */
        struct policy *policy = table_policy(work->provider);
        r = policy_fork(policy, &work->record.spec, work->arena, &record.spec, err);
        policy_unref(policy);
    }
    if (r == 0)
        r = fork_layers(work, forking, &taking, err);
    if (r < 0)
        return r;
    record.spec.layers = taking.layers;
    record.spec.layer_count = list_count(taking.layers);
    forking->ret_box = box_make(work->box->ops, work->box->backend, &record);
    return 0;
}

/* Whose the new box is, and hence its id. */
static int fork_id(struct provider *provider, const char *user, const char *id, const struct fork_request *request,
                   char ret_id[17], struct err *err) {
    struct box *box;
    int r = provider_look(provider, user, id, &box, err);
    if (r < 0)
        return r;
    struct box_request wanted = {.user = request->user ? request->user : box->user,
                                 .thread = request->thread,
                                 .thread_len = request->thread_len};
    r = provider_id(&wanted, ret_id, err);
    provider_look_end(provider, box);
    return r;
}

/* Somebody who failed to make the same box has let go of its layers. */
static void fork_hold_again(struct provider *provider, const char *const *layers, const char *id) {
    struct err err;
    for (; layers && *layers; layers++)
        if (!layer_held(provider, *layers, id) && layer_hold(provider, *layers, id, &err) < 0)
            log_warn("box %s: %s", id, err.text);
}

int snapshot_fork(struct provider *provider, const char *user, const char *id, const struct fork_request *request,
                  struct box **ret_box, struct err *err) {
    struct forking forking = {.request = request};
    adoption_refresh(provider); /* quotas count what other daemons made */
    int r = fork_id(provider, user, id, request, forking.id, err);
    if (r == 0 && record_exists(provider->boxes_fd, forking.id)) /* sooner than files are copied for nothing */
        r = err_set(err, ERR_EXISTS, "there is a box %s already", forking.id);
    if (r == 0)
        r = provider_work(provider, user, id, fork_work, &forking, err);
    if (r < 0)
        return r;
    struct box *made = forking.ret_box;
    struct record record = {.backend = made->ops->name,
                            .spec = made->spec,
                            .labels = made->labels,
                            .created_ms = made->created_ms,
                            .idle_timeout_ms = made->idle_timeout_ms};
    r = provider_make(provider, &record, ret_box, err);
    if (r == 0)
        fork_hold_again(provider, made->spec.layers, forking.id);
    else if (r != -ERR_EXISTS) /* then they may be that one's as well; the sweep knows */
        layer_release_all(provider, made->ops, made->backend, made->spec.layers, forking.id);
    box_unref(made);
    return r;
}

/* ---- a box goes ---- */

struct snapshot_holding {
    struct arena arena;
    const char *const *layers;
    struct snapshot *snapshots;
    size_t count;
};

struct snapshot_holding *snapshot_note(struct provider *provider, const struct box *box) {
    char path[32];
    snprintf(path, sizeof path, "%s/snapshots", box->id);
    if (!box->ops->keep || (box->spec.layer_count == 0 && !table_crowded(provider) &&
                            faccessat(provider->boxes_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0))
        return NULL;
    struct snapshot_holding *holding = xcalloc(1, sizeof *holding);
    struct record record;
    struct err ignored;
    const char *id = box->id;
    arena_init(&holding->arena);
    if (record_read(provider->boxes_fd, id, &holding->arena, &record, &ignored) == 0)
        holding->layers = (const char *const *)record.spec.layers;
    snapshot_read_all(provider->boxes_fd, id, &holding->arena, &holding->snapshots, &holding->count);
    return holding;
}

void snapshot_forget(struct provider *provider, const struct box *box, struct snapshot_holding *holding, bool gone) {
    char owner[LAYER_OWNER_BYTES];
    if (!holding)
        return;
    if (gone)
        squash_forget(provider, box->id);
    if (gone)
        layer_release_all(provider, box->ops, box->backend, holding->layers, box->id);
    for (size_t i = 0; gone && i < holding->count; i++)
        layer_release_all(provider, box->ops, box->backend, holding->snapshots[i].layers,
                          layer_owner(box->id, holding->snapshots[i].name, owner));
    arena_done(&holding->arena);
    free(holding);
}
