/* The table of boxes: acquire, get, release, pause, destroy. Called by the dialects.
 *
 * A box is in one of these states; ended and died are WARM without a runner (and `died` says why). A fork begins as
 * ended.
 *
 *   state     processes  acquire       get               by itself                        counted as running
 *   STARTING  starting   waits         waits             -> READY, or as before           yes, if it is to have some
 *   READY     yes        the box       the box           idle -> WARM, ended              yes
 *   WARM      yes        -> READY      -> READY          idle, replicas, memory -> ended  yes
 *   WARM      ended      starts them   starts them       -                                no
 *   WARM      died       starts them   by a thread: GONE -                                no
 *   PAUSED    frozen     the box       BUSY, or -> READY -                                yes
 *   EXPORTING frozen     BUSY          BUSY              -> WARM ended, or as before      yes
 *   CLOSING   ending     waits         waits             -> WARM ended, or no box         until they are gone
 *
 * READY is active: it was acquired or used, and not released since. WARM is released (the mark is on the disk, for
 * other daemons and the next one). Invariants, each with a test of its name (test/unit/box/provider/provider_test.c);
 * the randomised one checks them all together (provider_model_test.c):
 *
 *  1. One pair of user and thread is one box, for all threads, daemons, and the next daemon; and so is one id that a
 *     client chose, with its pair. Lookup goes from this table to the disk to the backend, and only then is a box made,
 *     under its lock between daemons.
 *  2. provider->lock guards the table, every place, and a box's fields below its line. A thread that works on a place
 *     without it has marked the box STARTING or CLOSING; all others wait. It takes the box's lock between daemons
 *     (statelock) and looks at the disk; other daemons do the same. So a backend never sees two calls for one id at
 *     once, and none under provider->lock.
 *  3. A struct box lives through one runner. Its wire is set before READY and stays until the last reference goes, so
 *     verbs use it without a lock; a new runner on the same files is a new struct box in the same place.
 *  4. Files and record go by destroy alone; whatever ends processes keeps them.
 *  5. An active box ends by its idle timeout, its owner or its own death, never for another's sake; nor does a box with
 *     a reference.
 *  6. At most `replicas` boxes run, or no released one does: the least recently used is evicted first.
 *  7. Below memory_reserve_mb released boxes are evicted, and with none left nothing is started: BUSY.
 *  8. No request brings a user above their limit of boxes, memory or disk: LIMIT; a box that could not be counted is
 *     refused.
 *  9. Counts are exact: boxes, running ones, and each user's sums are those of the places, whenever the lock is free.
 * 10. A paused box is reached by no call, ended by nothing but destroy, and paused for the next daemon too.
 * 11. A death is noticed without a call and reported with its reason. The next acquire or wake starts the box again,
 *     and remembers the reason (restarted). So does a get of a box without a thread, which has no other name than its
 *     id; for any other box a get answers GONE.
 * 12. The wall clock decides nothing.
 * 13. destroy and death never wait: wire_kill makes running verbs end.
 * 14. Reading starts, wakes and changes nothing.
 * 15. A failed start, stop or work leaves the place as it was, and nothing counted for it.
 * 16. While a box is exported, which takes long, calls that would use or change it fail at once (BUSY).
 * 17. A box on a machine is on that machine for ever. While it is offline the box is BUSY for every caller, and nothing
 *     is ended, started or forgotten for it but by destroy. It takes nothing of this host: it counts as one of its
 *     user's boxes and for nothing else. No thread but the caller's and the box's own waits for a machine's answer. */
#include "box/provider/provider.h"

#include "base/base.h"
#include "base/sync.h"
#include "box/network.h"
#include "box/policy.h"
#include "box/snapshot/snapshot.h"
#include "box/provider/provider_private.h"
#include "box/secret/binding.h"

/* Another daemon may delete a box between two looks, not for ever. */
enum { ACQUIRE_TURNS = 5, DESTROY_LOCK_MS = 30000 };

void provider_put(struct provider *, struct box *box) {
    if (!box)
        return;
    atomic_store(&box->used_ms, clock_ms()); /* it was used until now */
    box_unref(box);
}

struct box *provider_look_locked(struct box *box) {
    atomic_fetch_add(&box->refs, 1);
    box->looks++;
    return box;
}

void provider_look_end(struct provider *provider, struct box *box) {
    if (!box)
        return;
    autolock(&provider->lock);
    box->looks--;
    box_unref(box);
}

/* A reference for the caller, unless its runner has gone unnoticed: then the place says so, and the caller looks again.
 * Called with the lock, returns without it: asking the kernel is not done under it. */
static bool provider_use_running_locked(struct provider *provider, struct place *place, struct box **ret_box) {
    struct box *box = place_use_locked(provider, place);
    pthread_mutex_unlock(&provider->lock);
    if (wire_alive(box->wire)) {
        *ret_box = box;
        return true;
    }
    pthread_mutex_lock(&provider->lock);
    place = place_settled_locked(provider, box->id);
    if (place && place->box == box && !place_marked(place))
        place_dead_locked(provider, place);
    pthread_mutex_unlock(&provider->lock);
    box_unref(box);
    return false;
}

/* Evicts others if necessary, and opens it; the box is marked by the caller, who does not hold the lock. */
static int provider_use_open(struct provider *provider, struct place *place, enum place_how how, struct box **ret_box,
                             bool *ret_created, struct err *err) {
    int r = place->box->spec.machine ? 0 : eviction_make(provider, false, err);
    if (r == 0)
        return place_open(provider, place, how, ret_box, ret_created, err);
    autolock(&provider->lock);
    if (how & HOW_MAKES)
        place_remove_locked(provider, place);
    else
        place_unmark_locked(provider, place);
    return r;
}

/* The box of a settled place, in the way of `how`. 1: come again. Called with the lock, returns without it. */
static int provider_use_place_locked(struct provider *provider, struct place *place, enum place_how how,
                                     struct box **ret_box, bool *ret_created, struct err *err) {
    bool crowded = provider_crowded(provider), paused = place->box->state == BOX_PAUSED;
    int r = place_reach(place, err); /* at once: only what is under way waits for a machine that is offline */
    if (r == 0 && place->note && place->note->held)
        r = place_paused(place->id, err);
    if (r < 0) {
        pthread_mutex_unlock(&provider->lock);
        return r;
    }
    if (!crowded && place_runs(place))
        return provider_use_running_locked(provider, place, ret_box) ? 0 : 1;
    if (!crowded && paused && !provider->policy->wake_paused && !(how & HOW_STARTS))
        r = place_paused(place->id, err);
    if (!crowded && paused && (how & HOW_STARTS)) {
        *ret_box = place_use_locked(provider, place);
        pthread_mutex_unlock(&provider->lock);
        return 0;
    }
    /* Among several daemons only a look under the box's lock shows whether it is still running, released or paused. */
    bool starts = !place->runs;
    if (r == 0 && starts)
        r = eviction_for_runner_locked(provider, place, err);
    if (r == 0)
        place_mark_locked(place, BOX_STARTING);
    if (provider->policy->wake_paused && !(how & HOW_STARTS))
        how |= HOW_WAKES;
    pthread_mutex_unlock(&provider->lock);
    if (r < 0)
        return r;
    return starts ? provider_use_open(provider, place, how, ret_box, ret_created, err)
                  : place_open(provider, place, how, ret_box, ret_created, err);
}

/* ---- acquire ---- */

/* A box for the request, not yet started. */
static int request_box(struct provider *provider, const struct box_request *request, const char *id,
                       struct box **ret_box, struct err *err) {
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    autoarena arena = ARENA_EMPTY;
    struct record record = {.labels = (char **)(void *)request->labels, .created_ms = clock_wall_ms()};
    struct policy *policy = provider_policy(provider);
    const struct share *share = policy_for(policy, request->user ? request->user : "default");
    const char *name = NULL;
    struct box_request asked = *request;
    if (!asked.machine && !asked.backend && share->machine) { /* never on this server instead */
        asked.backend = "remote";
        asked.machine = strcmp(share->machine, POLICY_ACTIVE) == 0 ? NULL : share->machine;
    }
    int r = policy_backend(share, &asked, provider->default_backend, &name, err)
                ?: provider_backend(provider, name, &ops, &backend, err);
    if (r == 0 && ops->active && !asked.machine)
        r = ops->active(backend, asked.user ? asked.user : "default", &arena, &asked.machine, err);
    asked.no_limits = r == 0 && ops->no_limits;
    asked.images = r == 0 && ops->images;
    if (r == 0 && !ops->images)
        r = container_none(&request->container, ops->name, err);
    if (r == 0)
        r = policy_spec(policy, &asked, id, &arena, &record.spec, err)
                ?: network_refers(provider, record.spec.user, record.spec.policy, err);
    if (r == 0 && ops->place)
        r = ops->place(backend, &record.spec, &arena, &record.spec.machine, err);
    record.idle_timeout_ms = request->has_idle_timeout ? request->idle_timeout_ms : share->idle_timeout_ms;
    record.temporary = request->temporary;
    record.note = request->note;
    policy_unref(policy);
    if (r == 0 && record.temporary && !record.idle_timeout_ms)
        r = err_set(err, ERR_INVALID, "a temporary box is deleted when it is idle: idle_timeout_ms must not be 0");
    if (r < 0)
        return r;
    *ret_box = box_make(ops, backend, &record);
    return 0;
}

int provider_id(const struct box_request *request, char id[17], struct err *err) {
    TRY(text_user(request->user ? request->user : "default", err));
    if (request->thread && request->thread_len > LIMIT_THREAD_BYTES)
        return err_set(err, ERR_INVALID, "thread must be at most %u bytes", LIMIT_THREAD_BYTES);
    if (request->id && !text_id(request->id))
        return err_set(err, ERR_INVALID, "an id is 16 or 8 lower-case hexadecimal digits, not '%.40s'", request->id);
    if (request->id)
        text_id_copy(id, request->id);
    else if (request->thread)
        policy_id(request->user ? request->user : "default", request->thread, request->thread_len, id);
    else
        policy_random_id(id);
    return 0;
}

/* Whether it is the requested box. A thread's box is in one place for ever. */
static int provider_acquire_clash(const struct box *box, const struct box_request *request, const char *user,
                                  const char *thread, struct err *err) {
    const char *machine = box->spec.machine;
    autoarena arena = ARENA_EMPTY;
    struct record record = box_record(box);
    record.spec.bindings = box_bindings(box, &arena);
    if (!box_owned(box, user, thread))
        return err_set(err, ERR_EXISTS, "the id of this user and thread, %s, is already another box's", box->id);
    if (!request->machine || (machine && strcmp(machine, request->machine) == 0))
        return request->exact ? policy_same(request, &record, err) : 0;
    return err_set(err, ERR_EXISTS, "the box of this thread, %s, is %s%s, not on machine '%s'; delete it first",
                   box->id, machine ? "on machine " : "on the server", machine ? machine : "", request->machine);
}

/* An unknown box. The table takes it, or it still belongs to the caller: *box. 1: another thread was faster. */
static int provider_acquire_new(struct provider *provider, struct box **box, enum place_how how, struct box **ret_box,
                                bool *ret_created, struct err *err) {
    if (!(*box)->spec.one_shot)
        adoption_refresh(provider); /* quotas count what other daemons made */
    uint64_t kept_mb = eviction_kept_mb(provider, (*box)->user);
    pthread_mutex_lock(&provider->lock);
    struct place *place = NULL;
    int r = place_get_locked(provider, (*box)->id) ? 1 : eviction_for_box_locked(provider, *box, kept_mb, err);
    if (r == 0) {
        place = place_add_locked(provider, *box);
        if (place->note)
            deadline_changed_locked(provider);
        r = how & HOW_STARTS ? eviction_for_runner_locked(provider, place, err) : 0;
        *box = NULL;
        if (r < 0)
            place_remove_locked(provider, place);
    }
    pthread_mutex_unlock(&provider->lock);
    if (r != 0)
        return r;
    return how & HOW_STARTS ? provider_use_open(provider, place, how, ret_box, ret_created, err)
                            : place_open(provider, place, how, ret_box, ret_created, err);
}

/* One try. box: made from the request, in case it does not exist; set to NULL when the table has taken it. Not in
 * use and not opened: 1, come again. */
static int provider_acquire_once(struct provider *provider, const struct box_request *request, const char *id,
                                 struct box **box, const char *user, const char *thread, struct box **ret_box,
                                 bool *ret_created, struct err *err) {
    pthread_mutex_lock(&provider->lock);
    struct place *place = place_settled_locked(provider, id);
    if (!place) {
        pthread_mutex_unlock(&provider->lock);
        return *box ? provider_acquire_new(provider, box, PLACE_FRESH, ret_box, ret_created, err) : 1;
    }
    int r = provider_acquire_clash(place->box, request, user, thread, err);
    if (r < 0) {
        pthread_mutex_unlock(&provider->lock);
        return r;
    }
    return provider_use_place_locked(provider, place, PLACE_AGAIN, ret_box, ret_created, err);
}

int provider_acquire(struct provider *provider, const struct box_request *wanted, struct box **ret_box,
                     bool *ret_created, struct err *err) {
    char id[17];
    autoarena arena = ARENA_EMPTY;
    struct box_request asked = *wanted, *request = &asked;
    TRY(policy_pair(request, &arena, err) ?: provider_id(request, id, err));
    const char *user = request->user ? request->user : "default";
    const char *thread = request->thread ? arena_copy(&arena, request->thread, request->thread_len) : NULL;
    struct box *box = NULL;
    bool created = false;
    int r = 1;
    for (int turn = 0; r == 1 && turn < ACQUIRE_TURNS; turn++) {
        r = provider_acquire_once(provider, request, id, &box, user, thread, ret_box, &created, err);
        if (r == 1 && turn == 0 && (thread || request->id))
            adoption_load(provider, id); /* it may be on the disk alone */
        if (r == 1 && !box) {            /* checking the request touches the disk: not under the lock */
            int made = request_box(provider, request, id, &box, err);
            r = made < 0 ? made : 1;
        }
    }
    if (box)
        box_unref(box);
    if (r == 1)
        return err_set(err, ERR_BUSY, "box %s is made and deleted again and again; try later", id);
    if (r == 0)
        *ret_created = created;
    return r;
}

int provider_make(struct provider *provider, const struct record *record, struct box **ret_box, struct err *err) {
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    TRY(provider_backend(provider, record->backend, &ops, &backend, err));
    adoption_load(provider, record->spec.id);
    struct box *box = box_make(ops, backend, record);
    int r = provider_acquire_new(provider, &box, PLACE_NEW, ret_box, NULL, err);
    if (box)
        box_unref(box);
    return r == 1 ? err_set(err, ERR_EXISTS, "there is a box %s already", record->spec.id) : r;
}

/* ---- get, release, destroy ---- */

static int no_box(const char *id, struct err *err) {
    return err_set_why(err, ERR_NOT_FOUND, WHY_NO_BOX, "no box '%.40s'", id);
}

static bool provider_owned(const struct place *place, const char *user) {
    return place && (!user || strcmp(place->box->user, user) == 0);
}

/* Another user's box is answered at once, after a look at the disk as for one that does not exist: the owner's
 * actions must not show in how long the answer takes. */
static bool provider_foreign(struct provider *provider, const char *user, const char *id) {
    if (!user)
        return false;
    pthread_mutex_lock(&provider->lock);
    struct place *place = place_get_locked(provider, id);
    bool yes = place && !provider_owned(place, user);
    pthread_mutex_unlock(&provider->lock);
    char path[32];
    snprintf(path, sizeof path, "%.16s/-", id);
    return yes && faccessat(provider->boxes_fd, path, F_OK, 0) != 0;
}

static int provider_provider_get(struct provider *provider, const char *user, const char *id, enum place_how how,
                                 struct box **ret_box, struct err *err) {
    if (!text_id(id) || provider_foreign(provider, user, id))
        return no_box(id, err);
    for (bool loaded = false;;) {
        pthread_mutex_lock(&provider->lock);
        struct place *place = place_settled_locked(provider, id);
        if (!place && !loaded) {
            pthread_mutex_unlock(&provider->lock);
            adoption_load(provider, id);
            loaded = true;
            continue;
        }
        if (!provider_owned(place, user)) {
            pthread_mutex_unlock(&provider->lock);
            return no_box(id, err);
        }
        /* The id is all the name that a box without a thread has: to use it is to acquire it. */
        bool named = place->box->thread && !place_is_machine(place);
        int r = provider_use_place_locked(provider, place, named ? how : how | HOW_REVIVES, ret_box, NULL, err);
        if (r != 1)
            return r;
    }
}

int provider_get(struct provider *provider, const char *user, const char *id, struct box **ret_box, struct err *err) {
    return provider_provider_get(provider, user, id, PLACE_GET, ret_box, err);
}

int provider_wake(struct provider *provider, const char *user, const char *id, struct box **ret_box, struct err *err) {
    return provider_provider_get(provider, user, id, PLACE_WAKE, ret_box, err);
}

int provider_look(struct provider *provider, const char *user, const char *id, struct box **ret_box, struct err *err) {
    if (!text_id(id) || provider_foreign(provider, user, id))
        return no_box(id, err);
    adoption_load(provider, id);
    autolock(&provider->lock);
    struct place *place = place_get_locked(provider, id);
    bool found = provider_owned(place, user);
    if (found && !place->box->spec.one_shot && provider_crowded(provider)) /* another thread may just be finding out */
        found = record_exists(provider->boxes_fd, id);
    if (found)
        *ret_box = provider_look_locked(place->box);
    return found ? 0 : no_box(id, err);
}

int provider_release(struct provider *provider, struct box *box, struct err *) {
    autolock(&provider->lock);
    if (box->state == BOX_READY) {
        if (!box->spec.one_shot)
            record_release(provider->boxes_fd, box->id, true);
        box->state = BOX_WARM;
        provider_box_event(provider, "box_warm", box, NULL);
        pthread_cond_signal(&provider->work); /* more may run than should */
    }
    return 0;
}

struct lost {
    const char *id;
    bool found;
};

static void provider_lost_note(void *user, const char *id) {
    struct lost *lost = user;
    lost->found |= strcmp(id, lost->id) == 0;
}

/* Files whose record is lost or damaged have no owner, so only an administrator removes them. */
static int provider_destroy_lost(struct provider *provider, const char *id, struct err *err) {
    TRY(statelock_box(&provider->statelock, id, DESTROY_LOCK_MS, err));
    int r = no_box(id, err);
    for (size_t i = 0; backend_table[i]; i++) {
        struct lost lost = {.id = id};
        const struct backend_ops *ops = NULL;
        struct backend *backend = NULL;
        struct err own;
        if (provider_backend(provider, backend_table[i]->name, &ops, &backend, &own) < 0 ||
            ops->list(backend, provider_lost_note, &lost, &own) < 0 || !lost.found)
            continue;
        r = ops->stop(backend, id, false, err);
        break;
    }
    statelock_box_end(&provider->statelock, id);
    return r;
}

/* Under the box's lock between daemons. */
static int destroy_locked_box(struct provider *provider, struct box *box, bool *ret_gone, struct err *err) {
    if (!box->spec.one_shot && !record_exists(provider->boxes_fd, box->id)) {
        *ret_gone = true; /* another daemon was faster */
        return no_box(box->id, err);
    }
    if (box->wire)
        wire_kill(box->wire, "the box was deleted");
    struct snapshot_holding *holding = snapshot_note(provider, box);
    int r = box->ops->stop(box->backend, box->id, false, err);
    *ret_gone = r == 0;
    snapshot_forget(provider, box, holding, r == 0);
    return r;
}

int provider_destroy(struct provider *provider, const char *user, const char *id, struct err *err) {
    return provider_destroy_for(provider, user, id, NULL, err);
}

int provider_destroy_for(struct provider *provider, const char *user, const char *id, const char *why,
                         struct err *err) {
    if (!text_id(id) || provider_foreign(provider, user, id))
        return no_box(id, err);
    adoption_load(provider, id);
    pthread_mutex_lock(&provider->lock);
    struct place *place = place_settled_locked(provider, id);
    if (!provider_owned(place, user)) {
        pthread_mutex_unlock(&provider->lock);
        return place || user ? no_box(id, err) : provider_destroy_lost(provider, id, err);
    }
    struct box *box = place->box;
    int r = box->state == BOX_EXPORTING ? place_reach(place, err) : 0;
    if (r == 0)
        place_mark_locked(place, BOX_CLOSING);
    pthread_mutex_unlock(&provider->lock);
    if (r < 0)
        return r;
    bool gone = false, held = box->spec.one_shot; /* since it was made */
    r = held ? 0 : statelock_box(&provider->statelock, id, DESTROY_LOCK_MS, err);
    if (r == 0) {
        r = destroy_locked_box(provider, box, &gone, err);
        if (!held || gone)
            statelock_box_end(&provider->statelock, id);
    }
    pthread_mutex_lock(&provider->lock);
    if (gone) {
        if (box->wire)
            wire_kill(box->wire, "the box was deleted");
        provider_box_event(provider, "box_deleted", box, r < 0 ? EVENT_ELSEWHERE : why);
        place_remove_locked(provider, place);
    } else {
        place_unmark_locked(provider, place);
    }
    pthread_mutex_unlock(&provider->lock);
    return r;
}

/* ---- looking ---- */

static int provider_order(const void *a, const void *b) {
    return strcmp((*(const struct box *const *)a)->id, (*(const struct box *const *)b)->id);
}

int provider_each(struct provider *provider, int (*each)(void *user, struct box *box), void *user) {
    adoption_refresh(provider);
    pthread_mutex_lock(&provider->lock);
    struct box **boxes = xcalloc(provider->count + 1, sizeof *boxes);
    size_t count = 0;
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next)
            boxes[count++] = provider_look_locked(place->box);
    pthread_mutex_unlock(&provider->lock);
    qsort(boxes, count, sizeof *boxes, provider_order);
    int r = 0;
    for (size_t i = 0; i < count; i++) {
        if (r >= 0)
            r = each(user, boxes[i]);
        provider_look_end(provider, boxes[i]); /* being listed is not being used: last_used stays */
    }
    free(boxes);
    return r;
}

void provider_count(struct provider *provider, struct provider_counts *ret_counts) {
    *ret_counts = (struct provider_counts){0};
    autolock(&provider->lock);
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next)
            for (size_t b = 0; backend_table[b]; b++)
                if (backend_table[b] == place->box->ops)
                    ret_counts->by_backend_state[b][place->box->state]++;
}

void provider_info(struct provider *provider, struct json *json) {
    json_open(json, '[');
    for (size_t i = 0; backend_table[i]; i++) {
        json_open(json, '{');
        json_put_str(json, "name", backend_table[i]->name);
        json_put_bool(json, "default", strcmp(backend_table[i]->name, provider->default_backend) == 0);
        const struct backend_ops *ops;
        struct backend *backend = NULL;
        struct err ignored; /* info reports what is missing */
        provider_backend(provider, backend_table[i]->name, &ops, &backend, &ignored);
        if (backend_table[i]->info)
            backend_table[i]->info(provider->env, backend, json);
        json_close(json, '}');
    }
    json_close(json, ']');
}
