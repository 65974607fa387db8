/* Work on a box that is neither starting nor ending it: keeping its files, putting them back. Called by the files of
 * box/ that do such work. Not to break: what the work leaves is what the record on the disk says, whatever fails when;
 * a box whose record changed has no runner that was started from the old one. */
#include <string.h>

#include "base/text.h"
#include "box/table.h"

enum { WORK_LOCK_MS = 30000 };

int work_stop(struct work *work, const char *why, struct err *err) {
    struct box *box = work->box;
    if (box->wire)
        wire_kill(box->wire, why);
    int r = box->ops->stop(box->backend, box->id, true, err);
    if (r == 0)
        work->changed = true;
    return r;
}

/* Under the box's lock between daemons. *ret_after: what is in its place from now on, when that is another. */
static int work_locked_box(struct work *work, int (*run)(void *argument, struct work *work, struct err *err),
                           void *argument, struct box **ret_after, struct err *err) {
    struct provider *provider = work->provider;
    struct box *box = work->box;
    int r = record_read(provider->boxes_fd, box->id, work->arena, &work->record, err);
    if (r == 0)
        r = run(argument, work, err);
    if (!work->changed)
        return r;
    struct box *after = box_make(box->ops, box->backend, &work->record);
    atomic_store(&after->last_used_ms, atomic_load(&box->last_used_ms));
    struct err own;
    int written = r < 0 ? 0 : record_write(provider->boxes_fd, after, &own);
    if (written < 0 && r >= 0) {
        *err = own;
        r = written;
    }
    *ret_after = after;
    return r;
}

/* The place, marked; NULL: no such box of that user. */
static struct place *work_mark(struct provider *provider, const char *user, const char *id, enum box_state *ret_was) {
    adoption_load(provider, id);
    pthread_mutex_lock(&provider->lock);
    struct place *place = place_settled_locked(provider, id);
    if (place && ((user && strcmp(place->box->user, user) != 0) || place->box->spec.one_shot))
        place = NULL;
    if (place) {
        *ret_was = place->box->state;
        place->box->state = BOX_STARTING;
    }
    pthread_mutex_unlock(&provider->lock);
    return place;
}

int provider_work(struct provider *provider, const char *user, const char *id,
                  int (*run)(void *argument, struct work *work, struct err *err), void *argument, struct err *err) {
    enum box_state was = BOX_WARM;
    struct place *place = text_id(id) ? work_mark(provider, user, id, &was) : NULL;
    if (!place)
        return err_set(err, ERR_NOT_FOUND, "no box '%.40s'", id);
    autoarena arena;
    arena_init(&arena);
    struct box *box = place->box, *after = NULL;
    struct work work = {.provider = provider, .box = box, .arena = &arena};
    int r = statelock_box(&provider->statelock, id, WORK_LOCK_MS, err);
    if (r == 0) {
        r = work_locked_box(&work, run, argument, &after, err);
        statelock_box_end(&provider->statelock, id);
    }
    pthread_mutex_lock(&provider->lock);
    if (after) {
        place->box = after;
        box_unref(box);
    }
    place->box->state = after ? BOX_WARM : was;
    place->unsynced |= after != NULL;
    pthread_cond_broadcast(&provider->changed);
    pthread_mutex_unlock(&provider->lock);
    return r;
}
