/* A box brought up to date before it is used: uploads that waited for its commands, and the newest base. Called before a
 * request uses it (box_hooks) and by whoever shared the box last. Invariant: nobody waits here, and what a box cannot have now does not
 * stop its use. */
#include "base/clock.h"
#include "base/log.h"
#include "skill/own/change.h"
#include "skill/own/rows.h"
#include "skill/own/settle.h"
#include "skill/skills.h"
#include "skill/registry/sync.h"

/* A try costs a process: what holds /skills in the background often stays, but a call's worker that ends just now does not. */
enum { RETRY_FIRST_MS = 10, RETRY_MS = 1000 };

/* Where nothing was ever left to do there is not even the directory. */
static bool look_nothing(struct box *box) {
    unsigned unknown = LOOK_UNKNOWN;
    struct file_stat stat;
    struct err err;
    autoarena arena = ARENA_EMPTY;
    if (box_stat(box, CHANGES, &arena, &stat, &err) != -ERR_NOT_FOUND)
        return false;
    return atomic_compare_exchange_strong(&own_state(box)->look, &unknown, LOOK_NOTHING);
}

/* The mark goes before the look, so that a change that comes during it is seen by the next. */
int own_apply(struct skills *skills, struct box *box, struct err *err) {
    if (atomic_exchange(&own_state(box)->look, LOOK_NOTHING) == LOOK_NOTHING)
        return 0;
    struct names put;
    names_init(&put);
    int r = change_apply(box, &put, err);
    if (r == -ERR_GONE || r == -ERR_BUSY)
        atomic_store(&own_state(box)->look, LOOK_WAITING);
    else
        own_rows_update(skills, box, put.names);
    names_done(&put);
    return r;
}

static void retry_later(struct box *box) {
    unsigned delay_ms = atomic_load(&own_state(box)->delay_ms);
    delay_ms = delay_ms == 0 ? RETRY_FIRST_MS : 2 * delay_ms < RETRY_MS ? 2 * delay_ms : RETRY_MS;
    atomic_store(&own_state(box)->delay_ms, delay_ms);
    atomic_store(&own_state(box)->retry_ms, clock_ms() + delay_ms);
}

/* The base. What cannot be had now is tried later. */
static void settle_base(struct skills *skills, struct box *box) {
    struct err err;
    struct provider *provider = atomic_load(&skills->provider);
    int r = provider ? provider_attach(provider, box, 0, &err) : 0;
    if (r < 0)
        retry_later(box);
    else
        atomic_store(&own_state(box)->delay_ms, 0);
    if (r < 0 && r != -ERR_BUSY && r != -ERR_GONE)
        log_warn("box %s keeps the skills it has: %s", box->id, err.text);
}

bool own_behind(struct skills *skills, struct box *box) {
    return box_attaches(box) && atomic_load(&box->attached_generation) != base_generation(skills, box->spec.agent);
}

static bool settle_behind(struct skills *skills, struct box *box) {
    return own_behind(skills, box) && clock_ms() >= atomic_load(&own_state(box)->retry_ms);
}

/* 0: there is nothing left to do, or it was done. BUSY: not now. */
static int settle_now(struct skills *skills, struct box *box) {
    struct err err;
    bool behind = settle_behind(skills, box);
    unsigned look = atomic_load(&own_state(box)->look);
    if (look == LOOK_UNKNOWN) {
        own_rows_rebuild(skills, box);
        own_based(skills, box);
        look = look_nothing(box) ? LOOK_NOTHING : LOOK_WAITING;
    }
    if (look == LOOK_NOTHING && !behind)
        return 0;
    int r = box_alone(box, 0, &err);
    if (r < 0)
        return r;
    r = own_apply(skills, box, &err);
    if (r < 0 && r != -ERR_GONE)
        log_warn("box %s: a change of its skills that waited was not done: %s", box->id, err.text);
    if (behind) {
        settle_base(skills, box);
        own_based(skills, box);
    }
    box_alone_end(box);
    return 0;
}

static void settle_free(void *user, struct box *box) {
    settle_now(user, box);
}

void own_settle_later(struct skills *skills, struct box *box) {
    atomic_store(&own_state(box)->look, LOOK_WAITING);
    box_when_free(box, settle_free, skills);
}

int own_settle(void *skills, struct box *box, struct err *err) {
    int r = sync_settle(skills, box, err);
    if (r < 0 || !box->spec.agent)
        return r;
    if (settle_now(skills, box) == -ERR_BUSY)
        box_when_free(box, settle_free, skills);
    return 0;
}

struct box_hooks own_hooks(struct skills *skills) {
    return (struct box_hooks){.user = skills, .contribute = sync_contribute, .before_use = own_settle};
}
