/* Who may have one more box, and who has to go for it: quotas of users, replicas, memory, idle time-outs. Called by
 * provider.c for what requests start, and by the keeper of table.c. The rules are at the head of provider.c. Not to break:
 * an active box (READY) is never ended for another's sake, nor one that anybody holds a reference to; files always stay. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/counted.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "box/memory.h"
#include "box/table.h"

enum {
    EVICT_RETRY_MS = 1000,
    /* A look costs some 50 us, a twentieth of a box. The keeper looks once a turn; others only where it is getting short. */
    MEMORY_LOOK_MS = 100,
    MEMORY_AMPLE_MS = 2000,
    /* What another daemon uses it touches once a turn of its keeper, and we look once a turn of ours. */
    ELSEWHERE_MS = 3000
};

/* ---- quotas ---- */

static int quota_exceeded(const char *user, uint64_t has, uint64_t more, uint64_t most, const char *what,
                          const char *option, struct err *err) {
    return err_set(err, ERR_LIMIT, "user '%s' has %llu MiB of %s in boxes; %llu more are above the limit of %llu (%s)",
                   user, (unsigned long long)has, what, (unsigned long long)more, (unsigned long long)most, option);
}

/* A sum of limits says nothing of a box that has none. */
static int quota_uncounted(const struct box *box, const char *limit, const char *option, struct err *err) {
    return err_set(err, ERR_LIMIT, "box %s has no limit %s, which every box of user '%s' must have (%s)", box->id,
                   limit, box->user, option);
}

/* Whether it may run while others of its user have so much. */
static int quota_memory(const struct box *box, const struct share *share, uint64_t has, struct err *err) {
    uint64_t more = box->spec.limits.memory_mb;
    if (box->spec.machine) /* it is not this host's memory, nor its disk */
        return 0;
    if (share->memory_mb && !more)
        return quota_uncounted(box, "memory_mb", "user_memory_mb", err);
    if (share->memory_mb && (more > share->memory_mb || has > share->memory_mb - more))
        return quota_exceeded(box->user, has, more, share->memory_mb, "memory", "user_memory_mb", err);
    return 0;
}

int room_for_box_locked(const struct provider *provider, const struct box *box, struct err *err) {
    const struct share *share = policy_for(provider->policy, box->user);
    struct tally_sum has = tally_of(&provider->tally, box->user);
    unsigned all = provider->policy->max_boxes;
    uint64_t disk_mb = box->spec.limits.disk_mb;
    all = all && all < LIMIT_BOXES ? all : LIMIT_BOXES;
    if (provider->count >= all)
        return err_set(err, ERR_LIMIT, "there are %u boxes, which is the limit (max_boxes); delete some", all);
    if (share->max_boxes && has.boxes >= share->max_boxes)
        return err_set(err, ERR_LIMIT, "user '%s' has %u boxes, which is the limit (max_boxes_per_user); delete some",
                       box->user, share->max_boxes);
    /* One that may not run at all is not made; whether it may beside the others is asked when it is to run. */
    int r = quota_memory(box, share, 0, err);
    if (r < 0 || box->spec.machine)
        return r;
    if (share->disk_mb && !disk_mb)
        return quota_uncounted(box, "disk_mb", "user_disk_mb", err);
    if (share->disk_mb && (disk_mb > share->disk_mb || has.disk_mb > share->disk_mb - disk_mb))
        return quota_exceeded(box->user, has.disk_mb, disk_mb, share->disk_mb, "disk", "user_disk_mb", err);
    return 0;
}

int room_for_runner_locked(struct provider *provider, struct place *place, struct err *err) {
    const struct box *box = place->box;
    const struct share *share = policy_for(provider->policy, box->user);
    int r = place->runs ? 0 : quota_memory(box, share, tally_of(&provider->tally, box->user).memory_mb, err);
    if (r == 0)
        place_count_locked(provider, place, true);
    return r;
}

/* ---- terminals ---- */

uint64_t room_terminals(const char *user) {
    static const uint64_t steps[] = {DEFAULT_TERMINALS, FEWER_TERMINALS, 1};
    uint64_t has = counted_of(COUNTED_TERMINALS, user), most = counted_most(COUNTED_TERMINALS);
    size_t step = has < most / 2 ? 0 : has < most / 4 * 3 ? 1 : 2;
    struct err ignored;
    for (; step < sizeof steps / sizeof *steps; step++)
        if (counted_take(COUNTED_TERMINALS, user, steps[step], &ignored) == 0)
            return steps[step];
    return TERMINALS_NONE;
}

void room_terminals_end(const char *user, uint64_t terminals) {
    counted_give(COUNTED_TERMINALS, user, terminals == TERMINALS_NONE ? 0 : terminals);
}

uint64_t room_terminals_of(const struct box *box) {
    uint64_t terminals = box->spec.limits.terminals;
    return terminals > DEFAULT_TERMINALS ? 0 : terminals ? terminals : DEFAULT_TERMINALS; /* above: none */
}

static uint64_t terminals_read(const char *path, uint64_t fallback) {
    char text[32];
    uint64_t number;
    ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof text);
    if (n > 0)
        text[strcspn(text, "\n")] = 0;
    return n > 0 && text_u64(text, 1u << 20, &number) ? number : fallback;
}

void room_terminals_limit(void) {
    uint64_t all = terminals_read("/proc/sys/kernel/pty/max", 4096);
    uint64_t reserve = terminals_read("/proc/sys/kernel/pty/reserve", 1024); /* for the host itself, by the kernel */
    all = all > reserve ? all - reserve : 1;
    counted_limit(COUNTED_TERMINALS, all, all / 2 ? all / 2 : 1);
}

/* ---- eviction ---- */

bool room_idle_locked(const struct place *place, uint64_t now_ms) {
    const struct box *box = place->box;
    struct err ignored;
    return box->idle_timeout_ms && place_runs(place) && atomic_load(&box->refs) == 1 && now_ms >= place->later_ms &&
           now_ms >= atomic_load(&box->used_ms) + box->idle_timeout_ms && !place_is_machine(place) &&
           place_reach(place, &ignored) == 0;
}

/* The released box that was used longest ago. */
static struct place *room_victim_locked(struct provider *provider, uint64_t now_ms) {
    struct place *oldest = NULL;
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next)
            if (place_runs(place) && place->box->state == BOX_WARM && place->counts && !place->box->spec.one_shot &&
                atomic_load(&place->box->refs) == 1 && now_ms >= place->later_ms &&
                (!oldest || atomic_load(&place->box->used_ms) < atomic_load(&oldest->box->used_ms)))
                oldest = place;
    return oldest;
}

/* Under the box's lock between daemons: another one uses it, or has lately. */
static bool used_elsewhere(struct provider *provider, struct place *place, bool idle) {
    struct box *box = place->box;
    uint64_t now_ms = clock_ms(), touched_ns;
    if (!table_crowded(provider))
        return false;
    if (box->ops->paused && box->ops->paused(box->backend, box->id))
        return true;
    if ((touched_ns = record_touched_ns(provider->boxes_fd, box->id)) != place->touched_ns) {
        place->touched_ns = touched_ns;
        place->elsewhere_ms = now_ms;
        atomic_store(&box->used_ms, now_ms);
        return true;
    }
    if (place->elsewhere_ms &&
        now_ms < place->elsewhere_ms + ELSEWHERE_MS) /* or holds it: it shows that every second */
        return true;
    return !idle &&
           (!record_released(provider->boxes_fd, box->id) || now_ms < atomic_load(&box->used_ms) + ELSEWHERE_MS);
}

static bool evict(struct provider *provider, struct place *place, const char *why) {
    struct box *box = place->box;
    struct err err;
    char text[64];
    bool stopped = false;
    if (statelock_box(&provider->statelock, box->id, 0, &err) < 0) /* another daemon is busy with it */
        return false;
    if (!used_elsewhere(provider, place, why[0] == 'i')) {
        snprintf(text, sizeof text, "the box was evicted: %s", why);
        wire_kill(box->wire, text);
        stopped = box->ops->stop(box->backend, box->id, true, &err) == 0;
        if (!stopped)
            log_warn("box %s: %s", box->id, err.text);
    }
    statelock_box_end(&provider->statelock, box->id);
    return stopped;
}

/* What stays in the place is the same box without a runner; the old struct lives on for those who hold it. */
void room_evict_locked(struct provider *provider, struct place *place, const char *why) {
    struct box *box = place->box;
    place_mark_locked(place, BOX_CLOSING);
    pthread_mutex_unlock(&provider->lock);
    struct box *rest = evict(provider, place, why) ? box_again(box) : NULL;
    if (rest)
        atomic_store(&rest->used_ms, atomic_load(&box->used_ms));
    pthread_mutex_lock(&provider->lock);
    if (rest) {
        table_event(provider, "box_evicted", box, why);
        place->box = rest;
        place->was = BOX_WARM;
        box_unref(box);
    } else {
        place->later_ms = clock_ms() + EVICT_RETRY_MS;
    }
    place_unmark_locked(provider, place);
}

/* ---- room ---- */

bool room_wanted_locked(struct provider *provider) {
    unsigned most = provider->policy->replicas;
    return most && provider->running > most && room_victim_locked(provider, clock_ms());
}

static uint64_t memory_look(struct provider *provider, bool again, uint64_t enough) {
    uint64_t now_ms = clock_ms(), seen_ms = atomic_load(&provider->memory_ms);
    bool ample = atomic_load(&provider->memory_bytes) >> 31 && atomic_load(&provider->memory_bytes) / 2 > enough;
    if (again || !seen_ms || now_ms >= seen_ms + (ample ? MEMORY_AMPLE_MS : MEMORY_LOOK_MS)) {
        atomic_store(&provider->memory_bytes, memory_available("", enough));
        atomic_store(&provider->memory_ms, now_ms);
    }
    return atomic_load(&provider->memory_bytes);
}

/* Why one has to go; NULL: nobody has to. */
static const char *room_short(struct provider *provider, bool again, uint64_t *ret_reserve, uint64_t *ret_free) {
    pthread_mutex_lock(&provider->lock);
    unsigned most = provider->policy->replicas;
    uint64_t reserve = provider->policy->memory_reserve_mb << 20;
    bool many = most && provider->running > most;
    pthread_mutex_unlock(&provider->lock);
    *ret_reserve = reserve;
    *ret_free = reserve ? memory_look(provider, again, reserve) : UINT64_MAX;
    return *ret_free < reserve ? "memory" : many ? "replicas" : NULL;
}

int room_make(struct provider *provider, bool look, struct err *err) {
    uint64_t reserve, left;
    const char *why = room_short(provider, look, &reserve, &left);
    if (!why)
        return 0;
    pthread_mutex_lock(&provider->room_lock);
    bool gone = true;
    while (gone && (why = room_short(provider, true, &reserve, &left))) {
        pthread_mutex_lock(&provider->lock);
        struct place *place = room_victim_locked(provider, clock_ms());
        gone = place != NULL;
        if (place) /* where that fails, it is not chosen again for a while */
            room_evict_locked(provider, place, why);
        pthread_mutex_unlock(&provider->lock);
    }
    pthread_mutex_unlock(&provider->room_lock);
    if (!why || why[0] == 'r') /* replicas is no wall: beyond it are only active boxes */
        return 0;
    return err_set(err, ERR_BUSY,
                   "%llu MiB of memory are free here, less than the %llu to be kept so (memory_reserve_mb), and no "
                   "released box is left to evict; try later",
                   (unsigned long long)(left >> 20), (unsigned long long)(reserve >> 20));
}
