/* Boxes that are on the disk and not in the table: of an earlier daemon, or of another one on the same state directory;
 * and what dead daemons left. Called by the provider. Invariant: files go only where it is certain that nobody was
 * ever told of their box (record.h); a runner that hangs delays nobody but its own box. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/sync.h"
#include "box/provider/provider_private.h"

enum { ADOPTION_WAIT_MS = 800 }; /* before serving; what takes longer goes on meanwhile */

/* ---- boxes on the disk ---- */

/* Is it otherwise than the table says: paused, released, or started elsewhere since its record was last looked at? */
static bool follow_differs(struct provider *provider, const char *id) {
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

/* What another daemon did to a box that is known here: removed it, paused it, let it go on, started it. false: somebody
 * works on it, and may or may not find out. */
static bool follow_others(struct provider *provider, const char *id) {
    struct err err;
    pthread_mutex_lock(&provider->lock);
    struct place *place = place_get_locked(provider, id);
    bool free = !place || !place_marked(place);
    if (place && !place_marked(place) && !place->box->spec.one_shot && !record_exists(provider->boxes_fd, id)) {
        if (place->box->wire)
            wire_kill(place->box->wire, "the box was deleted");
        table_event(provider, "box_deleted", place->box, EVENT_ELSEWHERE);
        place_remove_locked(provider, place);
    }
    pthread_mutex_unlock(&provider->lock);
    if (!free || !follow_differs(provider, id))
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

static int load_record(struct provider *provider, const char *id, struct box **ret_box, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct record record;
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    int r = record_read(provider->boxes_fd, id, &arena, &record, err);
    if (r == 0 && (r = table_backend(provider, record.backend, &ops, &backend, err)) < 0)
        err_wrap(err, "box %s", id);
    if (r < 0 && r != -ERR_NOT_FOUND)
        log_warn("%s", err->text);
    if (r == 0)
        *ret_box = box_make(ops, backend, &record);
    return r;
}

/* false: it may still be otherwise than the table says. */
static bool load(struct provider *provider, const char *id) {
    struct err err;
    struct box *box = NULL;
    pthread_mutex_lock(&provider->lock);
    bool known = place_get_locked(provider, id);
    pthread_mutex_unlock(&provider->lock);
    if (known)
        return !table_crowded(provider) || follow_others(provider, id);
    if (load_record(provider, id, &box, &err) < 0)
        return true;
    pthread_mutex_lock(&provider->lock);
    struct place *place = place_get_locked(provider, id) ? NULL : place_add_locked(provider, box);
    pthread_mutex_unlock(&provider->lock);
    if (!place) { /* somebody was faster */
        box_unref(box);
        return false;
    }
    int r = place_open(provider, place, PLACE_ADOPT, NULL, NULL, &err);
    if (r < 0 && r != -ERR_NOT_FOUND) /* not found: deleted meanwhile */
        log_warn("box %s: %s", id, err.text);
    return r == 0 || r == -ERR_NOT_FOUND;
}

void adoption_load(struct provider *provider, const char *id) {
    load(provider, id);
}

static void ids_note(void *user, const char *id) {
    struct box_ids *ids = user;
    if (!text_id(id))
        return;
    if ((ids->count & (ids->count - 1)) == 0) { /* grows to the next power of two */
        ids->list = xrealloc(ids->list, (ids->count ? ids->count * 2 : 1) * sizeof *ids->list);
    }
    text_id_copy(ids->list[ids->count++], id);
}

void adoption_ids(struct provider *provider, struct box_ids *ids) {
    int fd = openat(provider->boxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        ids_note(ids, entry->d_name);
    if (dir)
        closedir(dir);
}

static void ids_in_table(struct provider *provider, struct box_ids *ids) {
    pthread_mutex_lock(&provider->lock);
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next)
            ids_note(ids, place->id);
    pthread_mutex_unlock(&provider->lock);
}

bool adoption_refresh(struct provider *provider) {
    if (!table_crowded(provider))
        return true; /* nobody else makes or removes boxes here */
    struct box_ids ids = {0};
    bool whole = true;
    adoption_ids(provider, &ids);
    ids_in_table(provider, &ids);
    for (size_t i = 0; i < ids.count; i++)
        whole &= load(provider, ids.list[i]);
    free(ids.list);
    return whole;
}

/* ---- an earlier daemon's ---- */

static void *adopter_main(void *argument) {
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
        provider->adopters[provider->adopter_count++] = table_thread(adopter_main, provider);
}

void adoption_wait(struct provider *provider) {
    uint64_t until_ms = clock_ms() + ADOPTION_WAIT_MS;
    pthread_mutex_lock(&provider->lock);
    while (provider->adopt_done < provider->adopting.count &&
           cond_wait_until(&provider->changed, &provider->lock, until_ms))
        ;
    pthread_mutex_unlock(&provider->lock);
}

void adoption_end(struct provider *provider) {
    for (unsigned i = 0; i < provider->adopter_count; i++)
        pthread_join(provider->adopters[i], NULL);
    free(provider->adopting.list);
}

/* ---- leftovers ---- */

/* A box that is just being made has no record either, but its lock is held. */
static void clean_unrecorded(struct provider *provider, const struct backend_ops *ops, struct backend *backend,
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

static void clean_note(void *user, const char *what) {
    log_info("left by a daemon that died: %s", what);
    provider_event(user, "box_cleaned", NULL, NULL, what);
}

void adoption_clean(struct provider *provider, bool first) {
    for (size_t i = 0; backend_table[i]; i++) {
        struct box_ids ids = {0};
        const struct backend_ops *ops = NULL;
        struct backend *backend = NULL;
        struct err err;
        if (table_backend(provider, backend_table[i]->name, &ops, &backend, &err) < 0)
            continue;
        if (ops->clean)
            ops->clean(backend, clean_note, provider);
        if (ops->list(backend, ids_note, &ids, &err) == 0)
            for (size_t j = 0; j < ids.count; j++)
                clean_unrecorded(provider, ops, backend, ids.list[j], first);
        free(ids.list);
    }
}
