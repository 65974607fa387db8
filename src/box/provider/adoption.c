/* Boxes that are on the disk and not in the table: of an earlier daemon, or of another one on the same state
 * directory; and leftovers of dead daemons. Called by the provider. Invariant: files are removed only if it is certain
 * that no client was ever given their box's id (record.h); a runner that hangs delays only its own box. */
#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"
#include "box/provider/provider_private.h"

enum { ADOPTION_WAIT_MS = 800 }; /* before serving; longer ones continue in the background */

/* ---- boxes on the disk ---- */

/* Is it otherwise than the table says: paused, released, or started elsewhere since its record was last looked at? */
static bool adoption_follow_differs(struct provider *provider, const char *id) {
    pthread_mutex_lock(&provider->lock);
    struct place *place = place_get_locked(provider, id);
    const struct box *box = place && !place_marked(place) && !place->box->spec.one_shot ? place->box : NULL;
    const struct backend_ops *ops = box ? box->ops : NULL;
    struct backend *backend = box ? box->backend : NULL;
    bool was = box && box->state == BOX_PAUSED, runs = box && place->runs && !box->died[0], touched = false;
    if (box && box->died[0] && box->wire) {
        touched = true; /* its end here has not been looked into */
    } else if (box && !place->runs) {
        uint64_t touched_ns = record_touched_ns(provider->boxes_fd, id);
        touched = touched_ns != place->touched_ns;
        place->touched_ns = touched_ns;
        place->elsewhere_ms = touched ? clock_ms() : place->elsewhere_ms;
    } else if (runs && !was) {
        touched = record_released(provider->boxes_fd, id) != (box->state == BOX_WARM);
    }
    pthread_mutex_unlock(&provider->lock);
    return touched || (runs && ops->paused && ops->paused(backend, id) != was);
}

/* Applies what another daemon did to a known box: removed it, paused it, resumed it, started it. false: a thread
 * works on it, and may or may not find out. */
static bool adoption_follow_others(struct provider *provider, const char *id) {
    struct err err;
    pthread_mutex_lock(&provider->lock);
    struct place *place = place_get_locked(provider, id);
    bool free = !place || !place_marked(place);
    if (place && !place_marked(place) && !place->box->spec.one_shot && !record_exists(provider->boxes_fd, id)) {
        if (place->box->wire)
            wire_kill(place->box->wire, "the box was deleted");
        provider_box_event(provider, "box_deleted", place->box, EVENT_ELSEWHERE);
        place_remove_locked(provider, place);
    }
    pthread_mutex_unlock(&provider->lock);
    if (!free || !adoption_follow_differs(provider, id))
        return free;
    pthread_mutex_lock(&provider->lock);
    place = place_get_locked(provider, id);
    free = !place || !place_marked(place);
    if (place && free)
        place_mark_locked(place, BOX_STARTING);
    pthread_mutex_unlock(&provider->lock);
    if (!place || !free)
        return free;
    int r = place_open(provider, place, PLACE_SETTLE, NULL, NULL, &err);
    if (r < 0 && r != -ERR_NOT_FOUND)
        log_warn("box %s: %s", id, err.text);
    return r == 0 || r == -ERR_NOT_FOUND;
}

static int adoption_load_record(struct provider *provider, const char *id, struct box **ret_box, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct record record;
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    int r = record_read(provider->boxes_fd, id, &arena, &record, err);
    if (r == 0 && (r = provider_backend(provider, record.backend, &ops, &backend, err)) < 0)
        err_wrap(err, "box %s", id);
    if (r == 0 && ops->settle) /* a daemon may have been killed while the box moved */
        r = ops->settle(backend, &record.spec, err);
    if (r < 0 && r != -ERR_NOT_FOUND)
        log_warn("%s", err->text);
    struct note note;
    if (r == 0 && note_read(provider->boxes_fd, id, &arena, &note))
        record.note = &note;
    if (r == 0)
        *ret_box = box_make(ops, backend, &record);
    return r;
}

/* false: it may still be otherwise than the table says. */
static bool provider_adoption_load(struct provider *provider, const char *id) {
    struct err err;
    struct box *box = NULL;
    pthread_mutex_lock(&provider->lock);
    bool known = place_get_locked(provider, id);
    pthread_mutex_unlock(&provider->lock);
    if (known)
        return !provider_crowded(provider) || adoption_follow_others(provider, id);
    if (adoption_load_record(provider, id, &box, &err) < 0)
        return true;
    pthread_mutex_lock(&provider->lock);
    struct place *place = place_get_locked(provider, id) ? NULL : place_add_locked(provider, box);
    if (place && place->note)
        deadline_changed_locked(provider);
    pthread_mutex_unlock(&provider->lock);
    if (!place) { /* another thread was faster */
        box_unref(box);
        return false;
    }
    int r = place_open(provider, place, PLACE_ADOPT, NULL, NULL, &err);
    if (r < 0 && r != -ERR_NOT_FOUND) /* not found: it has been deleted */
        log_warn("box %s: %s", id, err.text);
    return r == 0 || r == -ERR_NOT_FOUND;
}

void adoption_load(struct provider *provider, const char *id) {
    provider_adoption_load(provider, id);
}

static void adoption_ids_note(void *user, const char *id) {
    struct box_ids *ids = user;
    if (!text_id(id))
        return;
    vec_reserve(ids->list, ids->count, ids->cap, 1);
    text_id_copy(ids->list[ids->count++], id);
}

void adoption_ids(struct provider *provider, struct box_ids *ids) {
    autodir *dir = fd_opendir(provider->boxes_fd, ".", 0);
    for (struct dirent *entry; (entry = fd_readdir(dir));)
        adoption_ids_note(ids, entry->d_name);
}

bool adoption_refresh(struct provider *provider) {
    if (!provider_crowded(provider))
        return true; /* no other process makes or removes boxes here */
    struct box_ids ids = {0};
    bool whole = true;
    adoption_ids(provider, &ids);
    pthread_mutex_lock(&provider->lock);
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next)
            adoption_ids_note(&ids, place->id);
    pthread_mutex_unlock(&provider->lock);
    for (size_t i = 0; i < ids.count; i++)
        whole &= provider_adoption_load(provider, ids.list[i]);
    free(ids.list);
    return whole;
}

/* ---- an earlier daemon's ---- */

static void *adoption_adopter_main(void *argument) {
    struct provider *provider = argument;
    pthread_mutex_lock(&provider->lock);
    while (provider->adopt_next < provider->adopting.count && !provider->ending) {
        const char *id = provider->adopting.list[provider->adopt_next++];
        pthread_mutex_unlock(&provider->lock);
        adoption_load(provider, id);
        pthread_mutex_lock(&provider->lock);
        provider->adopt_done++;
        pthread_cond_broadcast(&provider->changed);
    }
    pthread_mutex_unlock(&provider->lock);
    return NULL;
}

void adoption_begin(struct provider *provider) {
    adoption_ids(provider, &provider->adopting);
    while (provider->adopter_count < ADOPTERS && provider->adopter_count < provider->adopting.count)
        provider->adopters[provider->adopter_count++] =
            thread_joined(adoption_adopter_main, provider, PROVIDER_STACK_BYTES);
}

void adoption_wait(struct provider *provider) {
    uint64_t until_ms = clock_ms() + ADOPTION_WAIT_MS;
    autolock(&provider->lock);
    while (provider->adopt_done < provider->adopting.count &&
           cond_wait_until(&provider->changed, &provider->lock, until_ms))
        ;
}

void adoption_end(struct provider *provider) {
    for (unsigned i = 0; i < provider->adopter_count; i++)
        pthread_join(provider->adopters[i], NULL);
    free(provider->adopting.list);
}

/* ---- leftovers ---- */

/* A box that is just being made has no record either, but its lock is held. */
static void adoption_clean_unrecorded(struct provider *provider, const struct backend_ops *ops, struct backend *backend,
                                      const char *id, bool first) {
    struct err err;
    if (record_exists(provider->boxes_fd, id) || statelock_box(&provider->statelock, id, 0, &err) < 0)
        return;
    int r = 0;
    if (record_unfinished(provider->boxes_fd, id)) {
        if ((r = ops->stop(backend, id, false, &err)) == 0) {
            log_info("box %s was never finished: removed", id);
            provider_event(provider, "box_cleaned", id, NULL, "it was never finished");
        }
    } else if (first && !record_exists(provider->boxes_fd, id)) {
        log_warn("boxes/%s has lost its record, its files are kept: ask for its user and thread again, or delete it "
                 "as admin",
                 id);
    }
    statelock_box_end(&provider->statelock, id);
    if (r < 0)
        log_warn("leftover box %s: %s", id, err.text);
}

static void adoption_clean_note(void *user, const char *what) {
    log_info("left by a daemon that died: %s", what);
    provider_event(user, "box_cleaned", NULL, NULL, what);
}

void adoption_clean(struct provider *provider, bool first) {
    for (size_t i = 0; backend_table[i]; i++) {
        struct box_ids ids = {0};
        const struct backend_ops *ops = NULL;
        struct backend *backend = NULL;
        struct err err;
        if (provider_backend(provider, backend_table[i]->name, &ops, &backend, &err) < 0)
            continue;
        if (ops->clean)
            ops->clean(backend, adoption_clean_note, provider);
        if (ops->list(backend, adoption_ids_note, &ids, &err) == 0)
            for (size_t j = 0; j < ids.count; j++)
                adoption_clean_unrecorded(provider, ops, backend, ids.list[j], first);
        free(ids.list);
    }
}
