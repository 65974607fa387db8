/* Updates a box before its use: pending uploads, and the current base. Called before a request uses the box (box_hooks)
 * and when the last sharer leaves it. Invariant: nothing blocks here, and an update that is not possible now does not
 * prevent the box's use. */
#include "base/clock.h"
#include "base/log.h"
#include "skill/own/private.h"
#include "skill/registry/sync.h"

/* A try costs a process. Background programs may use /skills for long, but a call's worker soon ends. */
enum { UPDATE_RETRY_FIRST_MS = 10, UPDATE_RETRY_MS = 1000 };

/* Clears the mark before it lists the changes, so that a change that arrives in between is found next time. */
int own_apply(struct skills *skills, struct box *box, struct err *err) {
    if (atomic_exchange(&own_state(box)->waiting, CHANGES_NONE) == CHANGES_NONE)
        return 0;
    autonames put = names_new();
    int r = change_apply(box, &put, err);
    if (r == -ERR_GONE || r == -ERR_BUSY)
        atomic_store(&own_state(box)->waiting, CHANGES_WAITING);
    else
        own_rows_update(skills, box, put.names);
    return r;
}

/* Attaches the current base, or notes when to try again. */
static void update_base(struct skills *skills, struct box *box) {
    struct own_state *state = own_state(box);
    struct err err;
    struct provider *provider = atomic_load(&skills->provider);
    int r = provider ? provider_attach(provider, box, 0, &err) : 0;
    unsigned delay_ms = 0;
    if (r < 0) {
        delay_ms = 2 * atomic_load(&state->delay_ms);
        delay_ms = delay_ms == 0 ? UPDATE_RETRY_FIRST_MS : delay_ms < UPDATE_RETRY_MS ? delay_ms : UPDATE_RETRY_MS;
        atomic_store(&state->retry_ms, clock_ms() + delay_ms);
    }
    atomic_store(&state->delay_ms, delay_ms);
    if (r < 0 && r != -ERR_BUSY && r != -ERR_GONE)
        log_warn("box %s keeps the skills it has: %s", box->id, err.text);
}

bool own_outdated(struct skills *skills, struct box *box) {
    return box_attaches(box) && atomic_load(&box->attached_generation) != base_generation(skills, box->spec.agent);
}

/* Returns 0 if nothing is left to do, BUSY if it is not possible now. */
static int update_now(struct skills *skills, struct box *box) {
    struct own_state *state = own_state(box);
    struct err err;
    bool outdated = own_outdated(skills, box) && clock_ms() >= atomic_load(&state->retry_ms);
    unsigned waiting = atomic_load(&state->waiting);
    if (waiting == CHANGES_UNKNOWN) {
        struct file_stat stat;
        autoarena arena = ARENA_EMPTY;
        own_rows_rebuild(skills, box);
        own_origin_check(skills, box);
        /* A box that never had changes has no such directory. */
        bool none = box_stat(box, CHANGES, &arena, &stat, &err) == -ERR_NOT_FOUND &&
                    atomic_compare_exchange_strong(&state->waiting, &waiting, CHANGES_NONE);
        waiting = none ? CHANGES_NONE : CHANGES_WAITING;
    }
    if (waiting == CHANGES_NONE && !outdated)
        return 0;
    TRY(box_alone(box, 0, &err));
    int r = own_apply(skills, box, &err);
    if (r < 0 && r != -ERR_GONE)
        log_warn("box %s: a pending change of its skills failed: %s", box->id, err.text);
    if (outdated) {
        update_base(skills, box);
        own_origin_check(skills, box);
    }
    box_alone_end(box);
    return 0;
}

static void update_when_free(void *user, struct box *box) {
    update_now(user, box);
}

void own_update_later(struct skills *skills, struct box *box) {
    atomic_store(&own_state(box)->waiting, CHANGES_WAITING);
    box_when_free(box, update_when_free, skills);
}

static int update_before_use(void *skills, struct box *box, struct err *err) {
    int r = sync_update(skills, box, err);
    if (r < 0 || !box->spec.agent)
        return r;
    if (update_now(skills, box) == -ERR_BUSY)
        box_when_free(box, update_when_free, skills);
    return 0;
}

struct box_hooks own_hooks(struct skills *skills) {
    return (struct box_hooks){.user = skills, .contribute = sync_contribute, .before_use = update_before_use};
}
