/* Work on a box other than starting or ending it: saving its files, restoring them, exporting, pausing. Called by
 * the files of box/ that do such work. Invariant: the result of the work is in the record on the disk, whenever it
 * fails; a box whose record changed has no runner that was started from the old one. */
#include "base/base.h"
#include "base/sync.h"
#include "box/snapshot/snapshot.h"
#include "box/provider/provider_private.h"

enum { WORK_LOCK_MS = 30000 };

int work_stop(struct work *work, const char *why, struct err *err) {
    struct box *box = work->box;
    bool ran = box->wire || work->state == BOX_PAUSED;
    if (box->wire)
        wire_kill(box->wire, why);
    int r = box->ops->stop(box->backend, box->id, true, err);
    if (r == 0 && ran && !work->changed)
        provider_box_event(work->provider, "box_evicted", box, why);
    if (r == 0)
        work->changed = true;
    return r;
}

void work_layers(struct work *work, const char **layers) {
    work->record.spec.layers = layers;
    work->record.spec.layer_count = text_list_count(layers);
    work->recorded = false;
}

int work_record(struct work *work, struct err *err) {
    struct box *box = box_make(work->box->ops, work->box->backend, &work->record);
    int r = record_write(work->provider->boxes_fd, box, err);
    box_unref(box);
    work->recorded = r == 0;
    return r;
}

/* After failed work: its changes of the record are void. */
static struct box *work_old(struct work *work) {
    struct provider *provider = work->provider;
    struct record record;
    if (record_read(provider->boxes_fd, work->box->id, work->arena, &record, ERR_IGNORED) < 0)
        return box_again(work->box);
    return box_make(work->box->ops, work->box->backend, &record);
}

/* Under the box's lock between daemons. *ret_after: what is in its place from now on, when that is another. */
static int work_run(struct work *work, int (*run)(void *argument, struct work *work, struct err *err), void *argument,
                    struct box **ret_after, struct err *err) {
    struct provider *provider = work->provider;
    struct box *box = work->box, *after = NULL;
    int r = record_read(provider->boxes_fd, box->id, work->arena, &work->record, err);
    work->changed = r == 0 && work->record.spec.discard;
    if (r == 0)
        r = snapshot_settle(provider, &work->record, err);
    if (r == 0)
        r = run(argument, work, err);
    if (!work->changed)
        return r;
    if (r >= 0) {
        struct err own;
        after = box_make(box->ops, box->backend, &work->record);
        int written = work->recorded ? 0 : record_write(provider->boxes_fd, after, &own);
        if (written < 0) {
            *err = own;
            r = written;
            box_unref(after);
        }
    }
    *ret_after = r < 0 ? work_old(work) : after;
    atomic_store(&(*ret_after)->used_ms, atomic_load(&box->used_ms));
    return r;
}

uint64_t work_processes(const struct box *box) {
    struct usage usage = {.brief = true};
    if (!box->wire || !box->ops->usage || box->ops->usage(box->backend, box->id, &usage, ERR_IGNORED) < 0)
        return 0;
    return usage.has_pids && usage.pids > 1 ? usage.pids - 1 : 0; /* the runner is not one of the box's */
}

/* The place, marked; NULL: no such box of that user, or it is being exported. */
static struct place *work_mark(struct provider *provider, const char *user, const char *id, enum box_state mark,
                               struct err *err) {
    err_set_why(err, ERR_NOT_FOUND, WHY_NO_BOX, "no box '%.40s'", id);
    if (!text_id(id))
        return NULL;
    adoption_load(provider, id);
    autolock(&provider->lock);
    struct place *place = place_settled_locked(provider, id);
    if (place && ((user && strcmp(place->box->user, user) != 0) || place->box->spec.one_shot))
        place = NULL;
    if (place && place->box->state == BOX_EXPORTING) {
        place_reach(place, err);
        place = NULL;
    }
    if (place)
        place_mark_locked(place, mark);
    return place;
}

static void work_end(struct provider *provider, struct place *place, const struct work *work, struct box *after) {
    struct box *box = place->box;
    autolock(&provider->lock);
    place->was = work->state;
    if (after) {
        place_count_locked(provider, place, false);
        after->state = BOX_STARTING;
        place->box = after;
        place->was = BOX_WARM;
        place->unsynced = true;
        place->written_ms = clock_ms();
        box_unref(box);
    }
    place_unmark_locked(provider, place);
}

static int work_as(struct provider *provider, const char *user, const char *id, enum box_state mark,
                   int (*run)(void *argument, struct work *work, struct err *err), void *argument, struct err *err) {
    struct place *place = work_mark(provider, user, id, mark, err);
    if (!place)
        return -err->code;
    autoarena arena = ARENA_EMPTY;
    struct work work = {.provider = provider, .box = place->box, .arena = &arena, .state = place->was};
    struct box *after = NULL;
    bool gone = false;
    int r = statelock_box(&provider->statelock, id, WORK_LOCK_MS, err);
    if (r == 0) {
        /* Another daemon may have ended its runner, and started another; or its end here has not been looked into. */
        if (provider_crowded(provider) || place->box->died[0]) {
            r = place_open(provider, place, PLACE_SETTLE | HOW_HELD, NULL, NULL, err);
            gone = r == -ERR_NOT_FOUND;
        }
        if (!gone) {
            work.box = place->box;
            work.box->state = mark; /* it may be another struct by now */
            work.state = place->was;
        }
        if (r == 0)
            r = work_run(&work, run, argument, &after, err);
        statelock_box_end(&provider->statelock, id);
    }
    if (!gone)
        work_end(provider, place, &work, after);
    return r;
}

int provider_work(struct provider *provider, const char *user, const char *id,
                  int (*run)(void *argument, struct work *work, struct err *err), void *argument, struct err *err) {
    return work_as(provider, user, id, BOX_STARTING, run, argument, err);
}

int provider_work_long(struct provider *provider, const char *user, const char *id,
                       int (*run)(void *argument, struct work *work, struct err *err), void *argument,
                       struct err *err) {
    return work_as(provider, user, id, BOX_EXPORTING, run, argument, err);
}

/* ---- pausing ---- */

static int work_pause_run(void *, struct work *work, struct err *err) {
    struct box *box = work->box;
    if (!box->ops->pause)
        return err_set(err, ERR_UNSUPPORTED, "boxes of backend '%s' cannot be paused", box->ops->name);
    TRY(box->ops->reach ? box->ops->reach(box->backend, &box->spec, err) : 0);
    if (work->state == BOX_PAUSED)
        return 0;
    if (box->died[0])
        return box_stopped(box, err);
    if (!box->wire)
        return err_set(err, ERR_INVALID, "box %s has no processes to pause", box->id);
    TRY(box->ops->pause(box->backend, box->id, true, err));
    work->state = BOX_PAUSED;
    provider_box_event(work->provider, "box_paused", box, NULL);
    return 0;
}

int provider_pause(struct provider *provider, const char *user, const char *id, struct err *err) {
    return provider_work(provider, user, id, work_pause_run, NULL, err);
}

int provider_resume(struct provider *provider, const char *user, const char *id, struct err *err) {
    struct place *place = work_mark(provider, user, id, BOX_STARTING, err);
    if (!place)
        return -err->code;
    int released = deadline_release(provider, id, err);
    if (released < 0) {
        autolock(&provider->lock);
        place_unmark_locked(provider, place);
        return released;
    }
    if (place->was == BOX_PAUSED || provider_crowded(provider))
        return place_open(provider, place, PLACE_RESUME, NULL, NULL, err);
    autolock(&provider->lock);
    place_unmark_locked(provider, place);
    return 0;
}
