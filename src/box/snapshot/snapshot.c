/* Snapshots, rollback, fork. Called by the dialects. A box's files are a template, kept layers above it (its record
 * names them, uppermost first) and its own on top. Invariant: at every step the disk says what is true, so that a
 * daemon which is killed between two of them leaves the old state or the new one, and at worst a layer that the next
 * one sweeps.
 *
 * Keeping by moving (nothing runs, or nothing but an idle runner):
 *   1. the layer is made, held by the snapshot and by the box      killed here: it is unnamed, it is swept
 *   2. the box's record begins with it                             a layer without files counts for nothing
 *   3. the files move there (one rename)                           the box is complete; the snapshot does not exist
 *   4. the snapshot's record is written                            it exists
 * By copying (something runs): the copy is begun in the box's own directory while others use the box; then 1, without
 * the box; the copy is finished and moved; 4. A snapshot of a box that wrote nothing since its last one is that one's
 * layers under another name. Rollback:
 *   1. the snapshot's layers are held by the box
 *   2. the record names them, and says that the box's own files are to be discarded: from here on it counts as done,
 *      whichever daemon finishes it
 *   3. the files are discarded; 4. the record no longer says so; 5. the layers that the box had before are let go of
 * Removing: the record goes, then the layers are let go of. A box: its directory goes, with its records, then the
 * layers. Fork: the new box holds the layers, under the old one's lock; then it is recorded. Its first use starts
 * it. */
#include "box/snapshot/snapshot.h"

#include <poll.h>

#include "base/base.h"
#include "base/log.h"
#include "box/snapshot/layer.h"
#include "box/provider/provider_private.h"
#include "box/secret/binding.h"

enum { BUSY_ELSEWHERE_MS = 3000, LET_GO_TURNS = 100 };

/* How the current files are kept. */
struct taking {
    const char *owner;   /* of the layers: a snapshot, or another box */
    const char *user;    /* whose quota they count against */
    const char **layers; /* what they are, NULL-terminated; in the work's arena */
    struct kept kept;
    bool stopped;
};

/* ---- helpers ---- */

static int snapshot_can_keep(const struct box *box, struct err *err) {
    return box->ops->keep ? 0
                          : err_set(err, ERR_UNSUPPORTED,
                                    "the backend '%s' keeps no snapshots: its boxes have no layers; use the backend "
                                    "jail or docker",
                                    box->ops->name);
}

/* The list with `first` before it (NULL: nothing), without layers that never got files, and without those that the
 * first one makes superfluous. */
static const char **snapshot_list_with(struct work *work, const char *first, const char *const *rest) {
    size_t count = text_list_count(rest), at = 0;
    const char **list = arena_alloc(work->arena, (count + 2) * sizeof *list);
    if (first)
        list[at++] = arena_strdup(work->arena, first);
    for (size_t i = 0; i < count && !(at && work->box->ops->whole_layers); i++)
        if (layer_has_files(work->provider, rest[i]))
            list[at++] = rest[i];
    return list;
}

/* ---- the files as they are ---- */

static void snapshot_process_note(void *user, const struct process *) {
    *(bool *)user = true;
}

/* Replacing its runner would not be noticed: it is not in use, here or through another daemon, and it holds no
 * output of commands that have ended. */
static bool snapshot_is_idle(struct work *work) {
    struct box *box = work->box;
    struct provider *provider = work->provider;
    bool some = false;
    if (!box->wire || work->state == BOX_PAUSED)
        return false;
    /* A request that was just answered lets go of the box a moment later. */
    for (int turn = 0; turn < LET_GO_TURNS && atomic_load(&box->refs) > 1; turn++)
        poll(NULL, 0, 1);
    if (atomic_load(&box->refs) > 1)
        return false;
    if (provider_crowded(provider) &&
        record_touched_ns(provider->boxes_fd, box->id) / 1000000 + BUSY_ELSEWHERE_MS > clock_wall_ms())
        return false;
    return box_processes(box, 0, snapshot_process_note, &some, ERR_IGNORED) == 0 && !some;
}

static int snapshot_shm_note(void *user, const struct file_stat *) {
    *(bool *)user = true;
    return 0;
}

/* What lies in the box's memory would end with its runner, which is asked. */
static bool snapshot_is_shm_empty(struct box *box) {
    bool some = false, truncated;
    struct list_request request = {.path = "/dev/shm", .depth = 1, .limit = 1};
    return box_list(box, &request, -1, snapshot_shm_note, &some, &truncated, ERR_IGNORED) == 0 && !some && !truncated;
}

/* The layer's size is noted while only its owners know it, and counted with all others: of two requests at once both
 * count both. A box's own files are measured before they move: a refused one leaves nothing. */
static int snapshot_keep_room(struct work *work, bool move, const struct taking *taking, const char *layer,
                              struct err *err) {
    struct box *box = work->box;
    uint64_t bytes = 0, disk_mb = work->record.spec.limits.disk_mb;
    const char *id = text_make(17, "%.16s", taking->owner);
    if (box->ops->measure && (eviction_counts_layers(work->provider, taking->user, disk_mb) ||
                              eviction_counts_layers(work->provider, box->user, disk_mb)))
        TRY(box->ops->measure(box->backend, box->id, false, &bytes, err)
                ?: layer_note(work->provider, layer, bytes, err));
    TRY(eviction_for_layer(work->provider, taking->user, id, disk_mb, err));
    return move && strcmp(id, box->id) != 0 ? eviction_for_layer(work->provider, box->user, box->id, disk_mb, err) : 0;
}

/* Steps 1 to 3 of keeping. On failure all is as before. */
static int snapshot_keep_layer(struct work *work, bool move, struct taking *taking, struct err *err) {
    struct provider *provider = work->provider;
    struct box *box = work->box;
    char layer[17];
    const char **before = work->record.spec.layers;
    TRY(layer_new(provider, box->ops, taking->owner, layer, err));
    const char **layers = snapshot_list_with(work, layer, before);
    int r = layer_hold_all(provider, layers + 1, taking->owner, err);
    if (r == 0 && move)
        r = layer_hold(provider, layer, box->id, err);
    if (r == 0)
        r = snapshot_keep_room(work, move, taking, layer, err);
    bool recorded = r == 0 && move;
    if (recorded) {
        work_layers(work, layers);
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
        work_layers(work, before);
        work_record(work, ERR_IGNORED);
    }
    if (move)
        layer_release(provider, box->ops, box->backend, layer, box->id);
    layer_release_all(provider, box->ops, box->backend, layers, taking->owner);
    return r;
}

static int snapshot_take_files(struct work *work, struct taking *taking, struct err *err) {
    struct box *box = work->box;
    enum backend_files files = box->ops->files(box->backend, box->id);
    if (files == FILES_UNCHANGED) {
        taking->layers = snapshot_list_with(work, NULL, work->record.spec.layers);
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
    bool quiet = (files == FILES_QUIET || files == FILES_ALONE) && snapshot_is_idle(work) &&
                 (files == FILES_QUIET || snapshot_is_shm_empty(box));
    bool move = files == FILES_STILL || quiet;
    taking->stopped = quiet;
    int r = snapshot_keep_layer(work, move, taking, err);
    if (r == -ERR_LIMIT && move && squash_ready(work->provider, box->id)) { /* then less counts */
        r = quiet ? work_stop(work, "its kept layers were merged", err) : 0;
        if (r == 0) {
            squash_swap(work);
            r = snapshot_keep_layer(work, move, taking, err);
        }
    }
    if (r == -ERR_LIMIT)
        squash_want(work->provider, box->id, SQUASH_DEPTH + 1);
    return r;
}

/* What can be copied of a box that runs before anybody has to wait for it. */
struct snapshot_ahead {
    struct box *box;
    struct kept_ahead *kept;
};

static void snapshot_ahead_begin(struct provider *provider, const char *user, const char *id,
                                 struct snapshot_ahead *ret_ahead) {
    struct box *box;
    struct err ignored;
    *ret_ahead = (struct snapshot_ahead){0};
    if (provider_look(provider, user, id, &box, &ignored) < 0)
        return;
    bool busy = box->wire && box->ops->keep_ahead && box->ops->files(box->backend, id) == FILES_BUSY;
    if (busy && provider_room(provider, &ignored) == 0 &&
        box->ops->keep_ahead(box->backend, id, &ret_ahead->kept, &ignored) < 0)
        log_debug("box %s: %s", id, ignored.text); /* then all of it is copied while it is stopped */
    if (ret_ahead->kept)
        ret_ahead->box = box;
    else
        provider_look_end(provider, box);
}

static void snapshot_ahead_end(struct provider *provider, struct snapshot_ahead *ahead) {
    if (!ahead->kept)
        return;
    ahead->box->ops->keep_ahead_end(ahead->box->backend, ahead->kept);
    provider_look_end(provider, ahead->box);
}

int snapshot_take(struct work *work, const char *owner, const char *user, const char ***ret_layers, struct err *err) {
    struct taking taking = {.owner = owner, .user = user};
    TRY(snapshot_can_keep(work->box, err) ?: snapshot_take_files(work, &taking, err));
    *ret_layers = taking.layers;
    if (taking.kept.moved) /* it does not run now */
        squash_swap(work);
    return 0;
}

/* ---- create ---- */

struct creating {
    const char *name; /* NULL: from the time */
    struct snapshot_ahead ahead;
    struct arena *arena;
    struct snapshot *ret_snapshot;
};

/* As wanted, or made from the time. */
static int snapshot_choose_name(struct work *work, const char *wanted, struct snapshot *snapshot, struct err *err) {
    int boxes_fd = work->provider->boxes_fd;
    const char *id = work->box->id;
    char text[CLOCK_TEXT_BYTES], *name = snapshot->name;
    if (wanted && snapshot_exists(boxes_fd, id, wanted))
        return err_set(err, ERR_EXISTS, "box %s has a snapshot '%s' already", id, wanted);
    if (snapshot_count(boxes_fd, id) >= LIMIT_SNAPSHOTS)
        return err_set(err, ERR_LIMIT, "box %s has %u snapshots, which is the limit; delete some", id, LIMIT_SNAPSHOTS);
    snapshot->created_ms = clock_wall_ms();
    snprintf(name, sizeof snapshot->name, "%s", wanted ? wanted : "");
    if (wanted)
        return 0;
    clock_text(snapshot->created_ms, text); /* 2026-01-31T12:00:00.123Z */
    size_t at = 0;
    for (const char *c = text; *c; c++)
        if (*c != '-' && *c != ':')
            name[at++] = *c;
    name[at] = 0;
    for (unsigned turn = 1; snapshot_exists(boxes_fd, id, name); turn++)
        snprintf(name + at, sizeof snapshot->name - at, "-%u", turn);
    return 0;
}

static int snapshot_create_work(void *argument, struct work *work, struct err *err) {
    struct creating *creating = argument;
    struct box *box = work->box;
    struct snapshot snapshot = {0};
    char owner[LAYER_OWNER_BYTES];
    TRY(snapshot_can_keep(box, err) ?: snapshot_choose_name(work, creating->name, &snapshot, err));
    struct taking taking = {.owner = layer_owner(box->id, snapshot.name, owner),
                            .user = box->user,
                            .kept = {.ahead = creating->ahead.kept}};
    TRY(snapshot_take_files(work, &taking, err));
    snapshot.method = taking.kept.method;
    snapshot.pause_us = taking.kept.pause_us;
    snapshot.bytes = taking.kept.bytes;
    snapshot.stopped = taking.stopped;
    snapshot.layers = taking.layers;
    int r = snapshot_write(work->provider->boxes_fd, box->id, &snapshot, err);
    if (r < 0) { /* if the files moved, the box has them all the same */
        layer_release_all(work->provider, box->ops, box->backend, taking.layers, owner);
        return r;
    }
    snapshot.layers = arena_list(creating->arena, snapshot.layers, NULL);
    *creating->ret_snapshot = snapshot;
    if (taking.kept.moved) /* it does not run now */
        squash_swap(work);
    return 0;
}

int snapshot_create(struct provider *provider, const char *user, const char *id, const char *name, struct arena *arena,
                    struct snapshot *ret_snapshot, struct err *err) {
    struct creating creating = {.name = name, .arena = arena, .ret_snapshot = ret_snapshot};
    if (name && !snapshot_name_ok(name))
        return err_set(err, ERR_INVALID, "a snapshot's name is 1 to %u letters, digits and _.- (and not '.' or '..')",
                       LIMIT_SNAPSHOT_NAME);
    adoption_refresh(provider); /* quotas count what other daemons made */
    snapshot_ahead_begin(provider, user, id, &creating.ahead);
    int r = provider_work(provider, user, id, snapshot_create_work, &creating, err);
    snapshot_ahead_end(provider, &creating.ahead);
    if (r == 0)
        squash_want(provider, id, text_list_count(ret_snapshot->layers));
    return r;
}

/* ---- list, remove ---- */

static int snapshot_by_time(const void *a, const void *b) {
    const struct snapshot *x = a, *y = b;
    if (x->created_ms != y->created_ms)
        return x->created_ms < y->created_ms ? -1 : 1;
    return strcmp(x->name, y->name);
}

int snapshot_list(struct provider *provider, const char *user, const char *id, struct arena *arena,
                  struct snapshot **ret_snapshots, size_t *ret_count, struct err *err) {
    struct box *box;
    TRY(provider_look(provider, user, id, &box, err));
    int r = snapshot_can_keep(box, err);
    provider_look_end(provider, box);
    if (r < 0)
        return r;
    snapshot_read_all(provider->boxes_fd, id, arena, ret_snapshots, ret_count);
    qsort(*ret_snapshots, *ret_count, sizeof **ret_snapshots, snapshot_by_time);
    return 0;
}

static int snapshot_remove_work(void *argument, struct work *work, struct err *err) {
    const char *name = argument;
    struct box *box = work->box;
    struct snapshot snapshot;
    char owner[LAYER_OWNER_BYTES];
    TRY(snapshot_can_keep(box, err)
            ?: snapshot_read(work->provider->boxes_fd, box->id, name, work->arena, &snapshot, err)
            ?: snapshot_unlink(work->provider->boxes_fd, box->id, name, err));
    layer_release_all(work->provider, box->ops, box->backend, snapshot.layers, layer_owner(box->id, name, owner));
    return 0;
}

int snapshot_remove(struct provider *provider, const char *user, const char *id, const char *name, struct err *err) {
    int r = provider_work(provider, user, id, snapshot_remove_work, (void *)(uintptr_t)name, err);
    if (r == 0) /* what only the box needs now becomes one layer, without what later ones cover */
        squash_want(provider, id, SQUASH_DEPTH + 1);
    return r;
}

/* ---- rollback ---- */

struct rolling {
    const char *name;
    uint64_t ended;
};

static int snapshot_rollback_work(void *argument, struct work *work, struct err *err) {
    struct rolling *rolling = argument;
    struct box *box = work->box;
    struct snapshot snapshot;
    const char **before = work->record.spec.layers;
    TRY(snapshot_can_keep(box, err)
            ?: snapshot_read(work->provider->boxes_fd, box->id, rolling->name, work->arena, &snapshot, err)
            ?: layer_hold_all(work->provider, snapshot.layers, box->id, err));
    work_layers(work, snapshot.layers);
    work->record.spec.discard = true;
    TRY(work_record(work, err));
    work->changed = true;
    rolling->ended = work_processes(box);
    if (box->wire)
        wire_kill(box->wire, "the box was rolled back");
    TRY(box->ops->fresh(box->backend, &work->record.spec, err)); /* where that fails, its next use continues with it */
    work->record.spec.discard = false;
    TRY(work_record(work, err));
    layer_release_but(work->provider, box->ops, box->backend, before, snapshot.layers, box->id);
    return 0;
}

int snapshot_rollback(struct provider *provider, const char *user, const char *id, const char *name,
                      uint64_t *ret_ended, struct err *err) {
    struct rolling rolling = {.name = name};
    TRY(provider_work(provider, user, id, snapshot_rollback_work, &rolling, err));
    *ret_ended = rolling.ended;
    return 0;
}

int snapshot_settle(struct provider *provider, struct record *record, struct err *err) {
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    if (!record->spec.discard)
        return 0;
    TRY(provider_backend(provider, record->backend, &ops, &backend, err));
    TRY(ops->fresh ? ops->fresh(backend, &record->spec, err) : 0);
    record->spec.discard = false;
    struct box *box = box_make(ops, backend, record);
    int r = record_write(provider->boxes_fd, box, err);
    box_unref(box);
    return r;
}

/* ---- fork ---- */

struct forking {
    const struct fork_request *request;
    struct snapshot_ahead ahead;
    char id[17];
    struct box *ret_box; /* not started, not visible yet; its layers are held for it */
};

static int snapshot_fork_layers(struct work *work, const struct forking *forking, struct taking *taking,
                                struct err *err) {
    struct snapshot snapshot;
    const char *name = forking->request->snapshot;
    if (!name)
        return snapshot_take_files(work, taking, err);
    TRY(snapshot_read(work->provider->boxes_fd, work->box->id, name, work->arena, &snapshot, err));
    taking->layers = snapshot.layers;
    int r =
        layer_hold_all(work->provider, snapshot.layers, taking->owner, err)

            ?: eviction_for_layer(work->provider, taking->user, taking->owner, work->record.spec.limits.disk_mb, err);
    if (r < 0)
        layer_release_all(work->provider, work->box->ops, work->box->backend, snapshot.layers, taking->owner);
    return r;
}

/* The request's variables take the place of those of their names. */
static void snapshot_fork_env(struct spec *spec, const char *const *env, struct arena *arena) {
    size_t more = text_list_count(env);
    const char **list = arena_alloc(arena, (spec->env_count + more + 1) * sizeof *list);
    for (size_t i = 0; i < spec->env_count; i++)
        list[i] = spec->env[i];
    for (; env && *env; env++) {
        size_t at = 0, name = strcspn(*env, "=") + 1;
        while (at < spec->env_count && strncmp(list[at], *env, name) != 0)
            at++;
        list[at] = *env;
        spec->env_count += at == spec->env_count;
    }
    spec->env = list;
}

static int snapshot_fork_work(void *argument, struct work *work, struct err *err) {
    struct forking *forking = argument;
    const struct fork_request *request = forking->request;
    struct record record = work->record;
    record.created_ms = clock_wall_ms();
    memcpy(record.spec.id, forking->id, sizeof record.spec.id);
    record.spec.user = request->user ? request->user : record.spec.user;
    struct taking taking = {.owner = forking->id, .user = record.spec.user, .kept = {.ahead = forking->ahead.kept}};
    record.spec.thread = request->thread ? arena_copy(work->arena, request->thread, request->thread_len) : NULL;
    const char *agent = policy_thread_agent(request->thread, request->thread_len, work->arena);
    record.spec.agent = agent ? agent : record.spec.agent;
    TRY(snapshot_can_keep(work->box, err));
    struct policy *policy = provider_policy(work->provider); /* another user's variables and workspace are not theirs */
    int r = policy_fork(policy, &work->record.spec, work->arena, &record.spec, err);
    policy_unref(policy);
    if (r < 0)
        return r;
    snapshot_fork_env(&record.spec, request->env, work->arena);
    record.spec.bindings = bindings_again((const char *const *)work->record.spec.bindings, work->arena);
    TRY(snapshot_fork_layers(work, forking, &taking, err));
    record.spec.layers = taking.layers;
    record.spec.layer_count = text_list_count(taking.layers);
    forking->ret_box = box_make(work->box->ops, work->box->backend, &record);
    return 0;
}

/* Whose the new box is, and hence its id. */
static int snapshot_fork_id(struct provider *provider, const char *user, const char *id,
                            const struct fork_request *request, char ret_id[17], struct err *err) {
    struct box *box;
    TRY(provider_look(provider, user, id, &box, err));
    struct box_request wanted = {.user = request->user ? request->user : box->user,
                                 .thread = request->thread,
                                 .thread_len = request->thread_len,
                                 .id = request->id};
    int r = provider_id(&wanted, ret_id, err);
    provider_look_end(provider, box);
    return r;
}

/* Another request that failed to make the same box has let go of its layers. */
static void snapshot_fork_hold_again(struct provider *provider, const char *const *layers, const char *id) {
    struct err err;
    for (; layers && *layers; layers++)
        if (!layer_held(provider, *layers, id) && layer_hold(provider, *layers, id, &err) < 0)
            log_warn("box %s: %s", id, err.text);
}

int snapshot_fork(struct provider *provider, const char *user, const char *id, const struct fork_request *request,
                  struct box **ret_box, struct err *err) {
    struct forking forking = {.request = request};
    adoption_refresh(provider); /* quotas count what other daemons made */
    int r = snapshot_fork_id(provider, user, id, request, forking.id, err);
    if (r == 0 && record_exists(provider->boxes_fd, forking.id)) /* sooner than files are copied for nothing */
        r = err_set(err, ERR_EXISTS, "there is a box %s already", forking.id);
    if (r == 0 && !request->snapshot)
        snapshot_ahead_begin(provider, user, id, &forking.ahead);
    if (r == 0)
        r = provider_work(provider, user, id, snapshot_fork_work, &forking, err);
    snapshot_ahead_end(provider, &forking.ahead);
    if (r < 0)
        return r;
    struct box *made = forking.ret_box;
    struct record record = box_record(made);
    autoarena arena = ARENA_EMPTY;
    record.note = request->note;
    record.spec.bindings = box_bindings(made, &arena);
    record.temporary = false;
    r = provider_make(provider, &record, ret_box, err);
    if (r == 0)
        snapshot_fork_hold_again(provider, made->spec.layers, forking.id);
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
    if (!box->ops->keep || (box->spec.layer_count == 0 && !provider_crowded(provider) &&
                            faccessat(provider->boxes_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0))
        return NULL;
    struct snapshot_holding *holding = xcalloc(1, sizeof *holding);
    struct record record;
    const char *id = box->id;
    arena_init(&holding->arena);
    if (record_read(provider->boxes_fd, id, &holding->arena, &record, ERR_IGNORED) == 0)
        holding->layers = (const char *const *)record.spec.layers;
    snapshot_read_all(provider->boxes_fd, id, &holding->arena, &holding->snapshots, &holding->count);
    return holding;
}

void snapshot_forget(struct provider *provider, const struct box *box, struct snapshot_holding *holding, bool gone) {
    char owner[LAYER_OWNER_BYTES];
    if (!holding)
        return;
    if (gone) {
        squash_forget(provider, box->id);
        layer_release_all(provider, box->ops, box->backend, holding->layers, box->id);
    }
    for (size_t i = 0; gone && i < holding->count; i++)
        layer_release_all(provider, box->ops, box->backend, holding->snapshots[i].layers,
                          layer_owner(box->id, holding->snapshots[i].name, owner));
    arena_done(&holding->arena);
    free(holding);
}
