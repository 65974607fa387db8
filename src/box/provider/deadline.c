/* Deadlines of boxes, and the notes that hold them. Called by dialects, and by threads of its own, which start with the
 * first deadline. Invariant: what happens at a deadline happens once; a note on the disk is never older than what a
 * caller got as its answer. */
#include "base/base.h"
#include "base/log.h"
#include "box/provider/provider_private.h"

enum { DEADLINE_LOOK_MS = 1000, DEADLINE_RETRY_MS = 5000 };

/* ---- notes ---- */

static struct place *deadline_place_locked(struct provider *provider, const char *id) {
    return text_id(id) ? place_get_locked(provider, id) : NULL;
}

static void deadline_put_locked(struct place *place, const struct note *note) {
    struct note *old = place->note;
    place->note = note_new(note); /* its text may be the old one's */
    note_free(old);
}

/* The note on the disk is the one to go by, where another daemon may have written it. Without the lock. */
static void deadline_refresh(struct provider *provider, const char *id) {
    autoarena arena = ARENA_EMPTY;
    struct note note;
    if (!provider_crowded(provider) || !note_read(provider->boxes_fd, id, &arena, &note))
        return;
    autolock(&provider->lock);
    struct place *place = deadline_place_locked(provider, id);
    if (place)
        deadline_put_locked(place, &note);
}

int provider_note(struct provider *provider, const char *id, struct arena *arena, struct note *ret_note,
                  struct err *err) {
    if (text_id(id)) {
        adoption_load(provider, id);
        deadline_refresh(provider, id);
    }
    autolock(&provider->lock);
    struct place *place = deadline_place_locked(provider, id);
    if (!place || !place->note)
        return err_set_why(err, ERR_NOT_FOUND, WHY_NO_BOX, "no box '%.40s'", id);
    *ret_note = *note_copy(place->note, arena);
    return 0;
}

bool provider_noted(struct provider *provider, const char *id) {
    autolock(&provider->lock);
    struct place *place = deadline_place_locked(provider, id);
    return place && place->note;
}

/* Under the provider's lock: two who change one note write it in the order in which the table has it. */
static int deadline_write_locked(struct provider *provider, struct place *place, const struct note *note,
                                 struct err *err) {
    TRY(note_write(provider->boxes_fd, place->id, note, err));
    deadline_put_locked(place, note);
    place->due = false;
    place->unsynced = !place->box->spec.one_shot;
    place->written_ms = clock_ms();
    deadline_changed_locked(provider);
    return 0;
}

int provider_note_set(struct provider *provider, const char *id, const struct note *note, struct err *err) {
    autolock(&provider->lock);
    struct place *place = deadline_place_locked(provider, id);
    if (!place)
        return err_set_why(err, ERR_NOT_FOUND, WHY_NO_BOX, "no box '%.40s'", id);
    struct note fresh = *note;
    fresh.held = place->note && place->note->held;
    return deadline_write_locked(provider, place, &fresh, err);
}

static int deadline_hold(struct provider *provider, const char *id, bool held, struct err *err) {
    autolock(&provider->lock);
    struct place *place = deadline_place_locked(provider, id);
    if (!place || (!place->note && !held))
        return 0;
    struct note fresh = place->note ? *place->note : (struct note){.text = "{}"};
    if (fresh.held == held)
        return 0;
    fresh.held = held;
    return deadline_write_locked(provider, place, &fresh, err);
}

/* ---- stopping ---- */

static int deadline_stop_run(void *, struct work *work, struct err *err) {
    return work->box->wire || work->state == BOX_PAUSED ? work_stop(work, "it was stopped", err) : 0;
}

int provider_stop(struct provider *provider, const char *user, const char *id, struct err *err) {
    struct box *box;
    TRY(provider_look(provider, user, id, &box, err));
    provider_look_end(provider, box);
    return deadline_hold(provider, id, true, err) ?: provider_work(provider, user, id, deadline_stop_run, NULL, err);
}

int deadline_release(struct provider *provider, const char *id, struct err *err) {
    return deadline_hold(provider, id, false, err);
}

/* ---- the time has come ---- */

static int deadline_act(struct provider *provider, const char *id, enum note_action action, struct err *err) {
    if (action == NOTE_KILL)
        return provider_destroy_for(provider, NULL, id, EVENT_DEADLINE, err);
    int r = action == NOTE_PAUSE ? provider_pause(provider, NULL, id, err) : -ERR_UNSUPPORTED;
    if (r < 0 && r != -ERR_NOT_FOUND) /* nothing runs, or nothing here can be paused: then nothing of it shall run */
        r = provider_stop(provider, NULL, id, err);
    return r;
}

/* The deadline has been met, or is to be tried again a little later. */
static void deadline_done(struct provider *provider, const char *id, uint64_t deadline_ms, bool again) {
    struct err err;
    autolock(&provider->lock);
    struct place *place = deadline_place_locked(provider, id);
    if (!place || !place->note)
        return;
    place->due = false;
    if (place->note->deadline_ms != deadline_ms) /* somebody gave it another one meanwhile */
        return;
    struct note fresh = *place->note;
    fresh.deadline_ms = again ? clock_wall_ms() + DEADLINE_RETRY_MS : 0;
    if (deadline_write_locked(provider, place, &fresh, &err) < 0)
        log_warn("box %s: %s", id, err.text);
}

/* Gives up the lock. */
static void deadline_meet_locked(struct provider *provider, struct place *place) {
    char id[17];
    struct err err;
    memcpy(id, place->id, sizeof id);
    place->due = true;
    pthread_mutex_unlock(&provider->lock);
    deadline_refresh(provider, id); /* another daemon may have put it off */
    pthread_mutex_lock(&provider->lock);
    place = deadline_place_locked(provider, id);
    bool due = place && place->note && place->note->deadline_ms && place->note->deadline_ms <= clock_wall_ms();
    enum note_action action = due ? place->note->action : NOTE_KILL;
    uint64_t deadline_ms = due ? place->note->deadline_ms : 0;
    if (place && !due)
        place->due = false;
    pthread_mutex_unlock(&provider->lock);
    if (due) {
        int r = deadline_act(provider, id, action, &err);
        if (r < 0 && r != -ERR_NOT_FOUND)
            log_warn("box %s: %s", id, err.text);
        deadline_done(provider, id, deadline_ms, r < 0 && r != -ERR_NOT_FOUND);
    }
    pthread_mutex_lock(&provider->lock);
}

static struct place *deadline_next_locked(struct provider *provider) {
    struct place *next = NULL;
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next)
            if (place->note && place->note->deadline_ms && !place->due &&
                (!next || place->note->deadline_ms < next->note->deadline_ms))
                next = place;
    return next;
}

static void *deadline_main(void *argument) {
    struct provider *provider = argument;
    autolock(&provider->lock);
    while (!provider->ending) {
        struct place *next = deadline_next_locked(provider);
        uint64_t now_ms = clock_wall_ms();
        if (next && next->note->deadline_ms <= now_ms) {
            deadline_meet_locked(provider, next);
            continue;
        }
        /* Not for long: the wall clock may jump. */
        uint64_t wait_ms = next ? next->note->deadline_ms - now_ms : DEADLINE_LOOK_MS;
        wait_ms = wait_ms < DEADLINE_LOOK_MS ? wait_ms : DEADLINE_LOOK_MS;
        if (next)
            cond_wait_until(&provider->due, &provider->lock, clock_ms() + wait_ms);
        else
            pthread_cond_wait(&provider->due, &provider->lock);
    }
    return NULL;
}

void deadline_changed_locked(struct provider *provider) {
    while (!provider->env->one_shot && !provider->ending && provider->timekeeper_count < TIMEKEEPERS)
        provider->timekeepers[provider->timekeeper_count++] =
            thread_joined(deadline_main, provider, PROVIDER_STACK_BYTES);
    pthread_cond_broadcast(&provider->due);
}

void deadline_end(struct provider *provider) {
    pthread_mutex_lock(&provider->lock);
    pthread_cond_broadcast(&provider->due);
    pthread_mutex_unlock(&provider->lock);
    for (unsigned i = 0; i < provider->timekeeper_count; i++)
        pthread_join(provider->timekeepers[i], NULL);
}
