/* The lock on the trees attached to a box. Called by the verbs of commands, by skill/ and by provider_attach.
 * Invariant: a thread that holds a lock never waits for the same box again, or a waiting writer would stop both. */
#include "box/boxlock.h"

#include <assert.h>

#include "base/base.h"
#include "base/sync.h"
#include "box/box.h"

/* The boxes this thread holds. More at once is a bug of the caller. */
enum { HELD_MAX = 8 };
static _Thread_local struct held {
    const struct box *box;
    unsigned depth;
    bool alone;
} held_by_us[HELD_MAX];

static struct held *boxlock_held(const struct box *box) {
    for (size_t i = 0; i < HELD_MAX; i++)
        if (held_by_us[i].box == box)
            return &held_by_us[i];
    return NULL;
}

static void boxlock_hold(const struct box *box, bool alone) {
    struct held *held = boxlock_held(NULL);
    assert(held);
    *held = (struct held){.box = box, .depth = 1, .alone = alone};
}

/* true: it was the outermost, and is to be given back. */
static bool boxlock_drop(const struct box *box) {
    struct held *held = boxlock_held(box);
    assert(held);
    if (--held->depth > 0)
        return false;
    held->box = NULL;
    return true;
}

/* false: the time is over. */
static bool boxlock_wait_locked(struct boxlock *lock, uint64_t until_ms) {
    struct timespec until = {.tv_sec = (time_t)(until_ms / 1000), .tv_nsec = (long)(until_ms % 1000) * 1000000};
    return pthread_cond_clockwait(&lock->changed, &lock->mutex, CLOCK_MONOTONIC, &until) == 0 || clock_ms() < until_ms;
}

int box_share(struct box *box, uint64_t wait_ms, struct err *err) {
    struct boxlock *lock = &box->lock;
    struct held *held = boxlock_held(box);
    if (held) {
        held->depth++;
        return 0;
    }
    uint64_t until_ms = clock_ms() + wait_ms;
    pthread_mutex_lock(&lock->mutex);
    bool free = true;
    while (free && (lock->alone || lock->waiting))
        free = boxlock_wait_locked(lock, until_ms);
    lock->sharing += free;
    pthread_mutex_unlock(&lock->mutex);
    if (!free)
        return err_set(err, ERR_BUSY, "what is attached to box %s is being replaced; try again", box->id);
    boxlock_hold(box, false);
    return 0;
}

void box_share_end(struct box *box) {
    struct boxlock *lock = &box->lock;
    if (!boxlock_drop(box))
        return;
    void (*run)(void *user, struct box *box) = NULL;
    pthread_mutex_lock(&lock->mutex);
    void *user = lock->free_user;
    if (--lock->sharing == 0) {
        pthread_cond_broadcast(&lock->changed);
        run = lock->free_run;
        lock->free_run = NULL;
    }
    pthread_mutex_unlock(&lock->mutex);
    if (run)
        run(user, box);
}

int box_alone(struct box *box, uint64_t wait_ms, struct err *err) {
    struct boxlock *lock = &box->lock;
    struct held *held = boxlock_held(box);
    if (held && held->alone) {
        held->depth++;
        return 0;
    }
    uint64_t until_ms = clock_ms() + wait_ms;
    pthread_mutex_lock(&lock->mutex);
    bool free = !held;
    lock->waiting++;
    while (free && (lock->alone || lock->sharing))
        free = boxlock_wait_locked(lock, until_ms);
    lock->waiting--;
    lock->alone |= free;
    if (!free)
        pthread_cond_broadcast(&lock->changed); /* readers that let us go first */
    pthread_mutex_unlock(&lock->mutex);
    if (!free)
        return err_set(err, ERR_BUSY, "commands in box %s use what is attached to it; try again when they have ended",
                       box->id);
    boxlock_hold(box, true);
    return 0;
}

void box_alone_end(struct box *box) {
    struct boxlock *lock = &box->lock;
    if (!boxlock_drop(box))
        return;
    autolock(&lock->mutex);
    lock->alone = false;
    pthread_cond_broadcast(&lock->changed);
}

void box_when_free(struct box *box, void (*run)(void *user, struct box *box), void *user) {
    struct boxlock *lock = &box->lock;
    pthread_mutex_lock(&lock->mutex);
    bool now = lock->sharing == 0;
    lock->free_run = now ? NULL : run;
    lock->free_user = user;
    pthread_mutex_unlock(&lock->mutex);
    if (now)
        run(user, box);
}
