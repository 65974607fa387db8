/* Turns on what is attached to a box. Called by the verbs of commands, by skill/ and by provider_attach. Invariant: a thread that
 * holds a turn never waits for the same box again, or a waiting writer would stop both. */
#include "box/turn.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "box/box.h"

/* What this thread holds. More boxes than that at once is a bug of the caller. */
enum { HELD_MAX = 8 };
static _Thread_local struct held {
    const struct box *box;
    unsigned depth;
    bool alone;
} held_by_us[HELD_MAX];

static struct held *held_find(const struct box *box) {
    for (size_t i = 0; i < HELD_MAX; i++)
        if (held_by_us[i].box == box)
            return &held_by_us[i];
    return NULL;
}

static void held_add(const struct box *box, bool alone) {
    struct held *held = held_find(NULL);
    if (!held)
        abort();
    *held = (struct held){.box = box, .depth = 1, .alone = alone};
}

/* true: it was the outermost, and is to be given back. */
static bool held_drop(const struct box *box) {
    struct held *held = held_find(box);
    if (!held)
        abort();
    if (--held->depth > 0)
        return false;
    held->box = NULL;
    return true;
}

/* false: the time is over. */
static bool turn_wait_locked(struct turn *turn, uint64_t until_ms) {
    struct timespec until = {.tv_sec = (time_t)(until_ms / 1000), .tv_nsec = (long)(until_ms % 1000) * 1000000};
    return pthread_cond_clockwait(&turn->changed, &turn->lock, CLOCK_MONOTONIC, &until) == 0 || clock_ms() < until_ms;
}

int box_share(struct box *box, uint64_t wait_ms, struct err *err) {
    struct turn *turn = &box->turn;
    struct held *held = held_find(box);
    if (held) {
        held->depth++;
        return 0;
    }
    uint64_t until_ms = clock_ms() + wait_ms;
    pthread_mutex_lock(&turn->lock);
    bool free = true;
    while (free && (turn->alone || turn->waiting))
        free = turn_wait_locked(turn, until_ms);
    turn->sharing += free;
    pthread_mutex_unlock(&turn->lock);
    if (!free)
        return err_set(err, ERR_BUSY, "what is attached to box %s is being replaced; try again", box->id);
    held_add(box, false);
    return 0;
}

void box_share_end(struct box *box) {
    struct turn *turn = &box->turn;
    if (!held_drop(box))
        return;
    void (*run)(void *user, struct box *box) = NULL;
    pthread_mutex_lock(&turn->lock);
    void *user = turn->free_user;
    if (--turn->sharing == 0) {
        pthread_cond_broadcast(&turn->changed);
        run = turn->free_run;
        turn->free_run = NULL;
    }
    pthread_mutex_unlock(&turn->lock);
    if (run)
        run(user, box);
}

int box_alone(struct box *box, uint64_t wait_ms, struct err *err) {
    struct turn *turn = &box->turn;
    struct held *held = held_find(box);
    if (held && held->alone) {
        held->depth++;
        return 0;
    }
    uint64_t until_ms = clock_ms() + wait_ms;
    pthread_mutex_lock(&turn->lock);
    bool free = !held;
    turn->waiting++;
    while (free && (turn->alone || turn->sharing))
        free = turn_wait_locked(turn, until_ms);
    turn->waiting--;
    turn->alone |= free;
    if (!free)
        pthread_cond_broadcast(&turn->changed); /* those who let us go first */
    pthread_mutex_unlock(&turn->lock);
    if (!free)
        return err_set(err, ERR_BUSY, "commands in box %s use what is attached to it; try again when they have ended",
                       box->id);
    held_add(box, true);
    return 0;
}

void box_alone_end(struct box *box) {
    struct turn *turn = &box->turn;
    if (!held_drop(box))
        return;
    pthread_mutex_lock(&turn->lock);
    turn->alone = false;
    pthread_cond_broadcast(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}

void box_when_free(struct box *box, void (*run)(void *user, struct box *box), void *user) {
    struct turn *turn = &box->turn;
    pthread_mutex_lock(&turn->lock);
    bool now = turn->sharing == 0;
    turn->free_run = now ? NULL : run;
    turn->free_user = user;
    pthread_mutex_unlock(&turn->lock);
    if (now)
        run(user, box);
}
