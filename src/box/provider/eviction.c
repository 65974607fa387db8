/* Whether a user may have one more box, and which box is evicted for it: quotas of users, replicas, memory, idle
 * timeouts. Called by provider.c for starts by requests, and by the keeper of housekeeping.c. The rules are at the
 * head of provider.c. Invariant: an active box (READY), or one with a reference, is never ended for another's sake;
 * files always stay. A box in which something runs in the background is not ended as idle, up to busy_timeout_ms
 * after its last call. It becomes WARM instead, so that unattended work takes no memory from others. */
#include <assert.h>
#include <sys/statvfs.h>

#include "base/base.h"
#include "base/counted.h"
#include "base/log.h"
#include "box/provider/memory.h"
#include "box/provider/provider_private.h"
#include "box/snapshot/layer.h"

enum {
    EVICT_RETRY_MS = 1000,
    BUSY_LOOK_MS = 1000, /* a runner reports what runs in its box, and may be hostile; evictions wait for it */
    BUSY_TURNS = 4,      /* in an idle time-out */
    /* A look costs some 50 us, a twentieth of a box. The keeper looks once a turn; others only where it is getting
     * short. */
    MEMORY_LOOK_MS = 100,
    MEMORY_AMPLE_MS = 2000,
    /* What another daemon uses it touches once a turn of its keeper, and we look once a turn of ours. */
    ELSEWHERE_MS = 3000
};

/* ---- quotas ---- */

static int eviction_quota_exceeded(const char *user, uint64_t has, uint64_t more, uint64_t most, const char *what,
                                   const char *option, struct err *err) {
    return err_set(err, ERR_LIMIT,
                   "user '%s' has %llu MiB of %s in boxes%s; %llu more are above the limit of %llu (%s)", user,
                   (unsigned long long)has, what, *what == 'd' ? " and kept layers" : "", (unsigned long long)more,
                   (unsigned long long)most, option);
}

/* A sum of limits says nothing of a box that has none. */
static int eviction_quota_uncounted(const struct box *box, const char *limit, const char *option, struct err *err) {
    return err_set(err, ERR_LIMIT, "box %s has no limit %s, which every box of user '%s' must have (%s)", box->id,
                   limit, box->user, option);
}

/* Whether it may run while others of its user have so much. */
static int eviction_quota_memory(const struct box *box, const struct share *share, uint64_t has, struct err *err) {
    uint64_t more = box->spec.limits.memory_mb;
    if (box->spec.machine) /* it is not this host's memory, nor its disk */
        return 0;
    if (share->memory_mb && !more)
        return eviction_quota_uncounted(box, "memory_mb", "user_memory_mb", err);
    if (share->memory_mb && (more > share->memory_mb || has > share->memory_mb - more))
        return eviction_quota_exceeded(box->user, has, more, share->memory_mb, "memory", "user_memory_mb", err);
    return 0;
}

static uint64_t eviction_mb(uint64_t bytes) {
    return (bytes + (1u << 20) - 1) >> 20;
}

static uint64_t eviction_share_mb(struct provider *provider, const char *user) {
    struct policy *policy = provider_policy(provider);
    uint64_t share_mb = policy_for(policy, user)->disk_mb;
    policy_unref(policy);
    return share_mb;
}

uint64_t eviction_kept_mb(struct provider *provider, const char *user) {
    return eviction_share_mb(provider, user) ? eviction_mb(layer_sum(provider, user, NULL).user) : 0;
}

bool eviction_counts_layers(struct provider *provider, const char *user, uint64_t disk_mb) {
    return disk_mb || provider->env->store_mb || eviction_share_mb(provider, user);
}

/* A box that is to start again needs a few blocks and names; one whose files were just moved would not get them. */
int provider_room(const struct provider *provider, struct err *err) {
    struct statvfs space;
    if (fstatvfs(provider->layers_fd, &space) < 0)
        return err_errno(err, errno, "the disk of the state directory");
    uint64_t least = space.f_blocks / 16, floor = LIMIT_DISK_FLOOR_BYTES / (space.f_frsize ? space.f_frsize : 1);
    least = least < floor ? least : floor;
    if (space.f_bavail >= least && (space.f_files == 0 || space.f_favail >= LIMIT_DISK_FLOOR_FILES))
        return 0;
    return err_set(err, ERR_FULL, "the disk of the state directory is full; delete boxes or snapshots");
}

int eviction_for_layer(struct provider *provider, const char *user, const char *id, uint64_t disk_mb, struct err *err) {
    TRY(provider_room(provider, err));
    if (!eviction_counts_layers(provider, user, disk_mb))
        return 0;
    uint64_t store_mb = provider->env->store_mb, most_mb = disk_mb * LIMIT_KEPT_TIMES;
    uint64_t share_mb = eviction_share_mb(provider, user);
    pthread_mutex_lock(&provider->lock);
    uint64_t has_mb = tally_of(&provider->tally, user).disk_mb;
    pthread_mutex_unlock(&provider->lock);
    struct layer_sums sums = layer_sum(provider, user, id);
    uint64_t user_mb = eviction_mb(sums.user), box_mb = eviction_mb(sums.box), all_mb = eviction_mb(sums.all);
    if (disk_mb && box_mb > most_mb)
        return err_set(err, ERR_LIMIT,
                       "the kept layers of box %s would take %llu MiB, above the limit of %llu (%u times its disk_mb); "
                       "delete snapshots of it",
                       id, (unsigned long long)box_mb, (unsigned long long)most_mb, LIMIT_KEPT_TIMES);
    if (share_mb && has_mb + user_mb > share_mb)
        return err_set(err, ERR_LIMIT,
                       "user '%s' has %llu MiB of disk in boxes, and kept layers would take %llu, together above the "
                       "limit of %llu (user_disk_mb); delete snapshots or boxes",
                       user, (unsigned long long)has_mb, (unsigned long long)user_mb, (unsigned long long)share_mb);
    if (store_mb && all_mb > store_mb / 2)
        return err_set(err, ERR_FULL,
                       "the kept layers of all boxes would take more than half of the store (store_mb: %llu); delete "
                       "snapshots",
                       (unsigned long long)store_mb);
    return 0;
}

int eviction_for_box_locked(const struct provider *provider, const struct box *box, uint64_t kept_mb, struct err *err) {
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
    /* A box that may never run is not made; whether it may run next to the others is checked when it starts. */
    int r = eviction_quota_memory(box, share, 0, err);
    if (r < 0 || box->spec.machine)
        return r;
    if (share->disk_mb && !disk_mb)
        return eviction_quota_uncounted(box, "disk_mb", "user_disk_mb", err);
    has.disk_mb += kept_mb;
    if (share->disk_mb && (disk_mb > share->disk_mb || has.disk_mb > share->disk_mb - disk_mb))
        return eviction_quota_exceeded(box->user, has.disk_mb, disk_mb, share->disk_mb, "disk", "user_disk_mb", err);
    return 0;
}

int eviction_for_runner_locked(struct provider *provider, struct place *place, struct err *err) {
    const struct box *box = place->box;
    const struct share *share = policy_for(provider->policy, box->user);
    int r = place->runs ? 0 : eviction_quota_memory(box, share, tally_of(&provider->tally, box->user).memory_mb, err);
    if (r == 0)
        place_count_locked(provider, place, true);
    return r;
}

/* ---- terminals ---- */

uint64_t eviction_terminals(const char *user) {
    static const uint64_t steps[] = {DEFAULT_TERMINALS, FEWER_TERMINALS, 1};
    uint64_t has = counted_of(COUNTED_TERMINALS, user), most = counted_most(COUNTED_TERMINALS);
    size_t step = has < most / 2 ? 0 : has < most / 4 * 3 ? 1 : 2;
    for (; step < sizeof steps / sizeof *steps; step++)
        if (counted_take(COUNTED_TERMINALS, user, steps[step], ERR_IGNORED) == 0)
            return steps[step];
    return TERMINALS_NONE;
}

void eviction_terminals_end(const char *user, uint64_t terminals) {
    counted_give(COUNTED_TERMINALS, user, terminals == TERMINALS_NONE ? 0 : terminals);
}

uint64_t eviction_terminals_of(const struct box *box) {
    uint64_t terminals = box->spec.limits.terminals;
    return terminals > DEFAULT_TERMINALS ? 0 : terminals ? terminals : DEFAULT_TERMINALS; /* above: none */
}

static uint64_t eviction_terminals_read(const char *path, uint64_t fallback) {
    char text[32];
    uint64_t number;
    ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof text);
    if (n > 0)
        text[strcspn(text, "\n")] = 0;
    return n > 0 && text_u64(text, 1u << 20, &number) ? number : fallback;
}

void eviction_terminals_limit(void) {
    uint64_t all = eviction_terminals_read("/proc/sys/kernel/pty/max", 4096);
    uint64_t reserve =
        eviction_terminals_read("/proc/sys/kernel/pty/reserve", 1024); /* for the host itself, by the kernel */
    all = all > reserve ? all - reserve : 1;
    counted_limit(COUNTED_TERMINALS, all, all / 2 ? all / 2 : 1);
}

/* ---- eviction ---- */

/* Of a box in which something runs in the background: when that is looked at again. What it has printed is there for a
 * while after it has ended. */
static uint64_t eviction_busy_turn_ms(const struct box *box) {
    return box->idle_timeout_ms / BUSY_TURNS + 1;
}

bool eviction_idle_locked(const struct place *place, uint64_t now_ms) {
    const struct box *box = place->box;
    return box->idle_timeout_ms && place_runs(place) && atomic_load(&box->refs) == 1 && now_ms >= place->later_ms &&
           now_ms >= atomic_load(&box->used_ms) + box->idle_timeout_ms &&
           (!place->busy_ms || now_ms >= place->busy_ms + eviction_busy_turn_ms(box)) && !place_is_machine(place) &&
           place_reach(place, ERR_IGNORED) == 0;
}

/* A temporary box is not used any more, whether it runs or not. */
bool eviction_over_locked(const struct place *place, uint64_t now_ms) {
    const struct box *box = place->box;
    return box->temporary && !place_marked(place) && box->state != BOX_PAUSED && atomic_load(&box->refs) == 1 &&
           now_ms >= place->later_ms && now_ms >= atomic_load(&box->used_ms) + box->idle_timeout_ms &&
           place_reach(place, ERR_IGNORED) == 0;
}

/* The released box that was used longest ago. */
static struct place *eviction_victim_locked(struct provider *provider, uint64_t now_ms) {
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
static bool eviction_used_elsewhere(struct provider *provider, struct place *place, bool idle) {
    struct box *box = place->box;
    uint64_t now_ms = clock_ms(), touched_ns;
    if (!provider_crowded(provider))
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

/* Whether an idle box is kept for what runs in it. A runner that does not answer runs nothing. */
static bool eviction_busy(struct provider *provider, struct place *place, const struct running *running) {
    struct policy *policy = provider_policy(provider);
    uint64_t busy_timeout_ms = policy_for(policy, place->box->user)->busy_timeout_ms, now_ms = clock_ms();
    policy_unref(policy);
    uint64_t used_ms = atomic_load(&place->box->used_ms);
    if (now_ms >= used_ms + busy_timeout_ms)
        return false;
    if (running->count)
        place->busy_ms = now_ms;
    return running->count || (place->busy_ms > used_ms && now_ms < place->busy_ms + place->box->idle_timeout_ms);
}

static bool eviction_evict(struct provider *provider, struct place *place, const char *why, bool *ret_busy, char *said,
                           size_t size) {
    struct box *box = place->box;
    struct running running = {0};
    struct err err;
    char text[64];
    bool stopped = false, idle = why[0] == 'i';
    if (statelock_box(&provider->statelock, box->id, 0, &err) < 0) /* another daemon is busy with it */
        return false;
    bool used = eviction_used_elsewhere(provider, place, idle);
    if (!used && (!box->spec.machine || box->ops->place)) /* a user's machine may answer late: it is not waited for */
        box_running(box, BUSY_LOOK_MS, &running, &err);
    *ret_busy = !used && idle && eviction_busy(provider, place, &running);
    if (!used && !*ret_busy) {
        snprintf(said, size, running.count ? "%s; ended what ran: %s" : "%s", why, running.text);
        snprintf(text, sizeof text, "the box was evicted: %s", why);
        wire_kill(box->wire, text);
        stopped = box->ops->stop(box->backend, box->id, true, &err) == 0;
        if (!stopped)
            log_warn("box %s: %s", box->id, err.text);
    }
    statelock_box_end(&provider->statelock, box->id);
    return stopped;
}

/* The place keeps the same box without a runner; the old struct stays valid for its holders. */
void eviction_evict_locked(struct provider *provider, struct place *place, const char *why) {
    struct box *box = place->box;
    char said[sizeof box->ended];
    bool busy = false;
    place_mark_locked(place, BOX_CLOSING);
    pthread_mutex_unlock(&provider->lock);
    struct box *rest = eviction_evict(provider, place, why, &busy, said, sizeof said) ? box_again(box) : NULL;
    if (rest) {
        atomic_store(&rest->used_ms, atomic_load(&box->used_ms));
        memcpy(rest->ended, said, sizeof rest->ended);
    }
    pthread_mutex_lock(&provider->lock);
    if (rest) {
        provider_box_event(provider, "box_evicted", box, said);
        place->box = rest;
        place->was = BOX_WARM;
        place->busy_ms = 0;
        box_unref(box);
    } else if (busy) { /* its owner has let go of it, and may find it again: as if it had been released */
        place->later_ms = clock_ms() + eviction_busy_turn_ms(box);
        if (place->was == BOX_READY) {
            record_release(provider->boxes_fd, box->id, true);
            provider_box_event(provider, "box_warm", box, EVENT_BUSY);
            place->was = BOX_WARM;
        }
    } else {
        place->later_ms = clock_ms() + EVICT_RETRY_MS;
    }
    place_unmark_locked(provider, place);
}

void eviction_delete_locked(struct provider *provider, struct place *place) {
    char id[17];
    struct err err;
    memcpy(id, place->id, sizeof id);
    place_mark_locked(place, BOX_CLOSING);
    pthread_mutex_unlock(&provider->lock);
    bool used = statelock_box(&provider->statelock, id, 0, &err) < 0;
    if (!used) {
        used = eviction_used_elsewhere(provider, place, true);
        statelock_box_end(&provider->statelock, id);
    }
    pthread_mutex_lock(&provider->lock);
    place->later_ms = clock_ms() + EVICT_RETRY_MS;
    place_unmark_locked(provider, place);
    if (used)
        return;
    pthread_mutex_unlock(&provider->lock);
    if (provider_destroy_for(provider, NULL, id, EVENT_TEMPORARY, &err) < 0 && err.code != ERR_NOT_FOUND)
        log_warn("box %s: %s", id, err.text);
    pthread_mutex_lock(&provider->lock);
}

/* ---- memory ---- */

bool eviction_wanted_locked(struct provider *provider) {
    unsigned most = provider->policy->replicas;
    return most && provider->running > most && eviction_victim_locked(provider, clock_ms());
}

static uint64_t eviction_memory_look(struct provider *provider, bool again, uint64_t enough) {
    uint64_t now_ms = clock_ms(), seen_ms = atomic_load(&provider->memory_ms);
    bool ample = atomic_load(&provider->memory_bytes) >> 31 && atomic_load(&provider->memory_bytes) / 2 > enough;
    if (again || !seen_ms || now_ms >= seen_ms + (ample ? MEMORY_AMPLE_MS : MEMORY_LOOK_MS)) {
        atomic_store(&provider->memory_bytes, memory_available("", enough));
        atomic_store(&provider->memory_ms, now_ms);
    }
    return atomic_load(&provider->memory_bytes);
}

/* Why a box has to go; NULL: no box has to. */
static const char *eviction_short(struct provider *provider, bool again, uint64_t *ret_reserve, uint64_t *ret_free) {
    pthread_mutex_lock(&provider->lock);
    unsigned most = provider->policy->replicas;
    uint64_t reserve = provider->policy->memory_reserve_mb << 20;
    bool many = most && provider->running > most;
    pthread_mutex_unlock(&provider->lock);
    *ret_reserve = reserve;
    *ret_free = reserve ? eviction_memory_look(provider, again, reserve) : UINT64_MAX;
    return *ret_free < reserve ? "memory" : many ? "replicas" : NULL;
}

int eviction_make(struct provider *provider, bool look, struct err *err) {
    uint64_t reserve, left;
    const char *why = eviction_short(provider, look, &reserve, &left);
    if (!why)
        return 0;
    pthread_mutex_lock(&provider->room_lock);
    bool gone = true;
    while (gone && (why = eviction_short(provider, true, &reserve, &left))) {
        pthread_mutex_lock(&provider->lock);
        struct place *place = eviction_victim_locked(provider, clock_ms());
        gone = place != NULL;
        if (place) /* where that fails, it is not chosen again for a while */
            eviction_evict_locked(provider, place, why);
        pthread_mutex_unlock(&provider->lock);
    }
    pthread_mutex_unlock(&provider->room_lock);
    if (!why || why[0] == 'r') /* replicas is not a hard limit: only active boxes are above it */
        return 0;
    return err_set(err, ERR_BUSY,
                   "%llu MiB of memory are free here, less than the %llu to be kept so (memory_reserve_mb), and no "
                   "released box is left to evict; try later",
                   (unsigned long long)(left >> 20), (unsigned long long)(reserve >> 20));
}

/* ---- sums by user, so that a quota costs one lookup; a row goes with its last box ---- */

struct tally_row {
    struct tally_row *next;
    struct tally_sum sum;
    char user[];
};

/* The row of user, or the place for it. */
static struct tally_row **eviction_tally_find(struct tally *tally, const char *user) {
    unsigned hash = 5381;
    for (const char *c = user; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    struct tally_row **row = &tally->buckets[hash % (sizeof tally->buckets / sizeof *tally->buckets)];
    while (*row && strcmp((*row)->user, user) != 0)
        row = &(*row)->next;
    return row;
}

struct tally_sum tally_of(const struct tally *tally, const char *user) {
    const struct tally_row *row = *eviction_tally_find((struct tally *)(void *)tally, user);
    return row ? row->sum : (struct tally_sum){0};
}

static void eviction_sum_change(uint64_t *sum, uint64_t was, uint64_t now) {
    assert(*sum >= was);
    *sum = *sum - was + now;
}

void tally_change(struct tally *tally, const char *user, struct tally_sum was, struct tally_sum now) {
    struct tally_row **at = eviction_tally_find(tally, user), *row = *at;
    if (!row) {
        size_t size = strlen(user) + 1;
        row = *at = xcalloc(1, sizeof *row + size);
        memcpy(row->user, user, size);
    }
    eviction_sum_change(&row->sum.boxes, was.boxes, now.boxes);
    eviction_sum_change(&row->sum.memory_mb, was.memory_mb, now.memory_mb);
    eviction_sum_change(&row->sum.disk_mb, was.disk_mb, now.disk_mb);
    if (row->sum.boxes)
        return;
    assert(!row->sum.memory_mb && !row->sum.disk_mb);
    *at = row->next;
    free(row);
}

void tally_done(struct tally *tally) {
    for (size_t i = 0; i < sizeof tally->buckets / sizeof *tally->buckets; i++)
        for (struct tally_row *row = tally->buckets[i], *next; row; row = next) {
            next = row->next;
            free(row);
        }
}
