/* One box's place in the table, and how it gets a runner. Called by provider.c and housekeeping.c; the rules are at
 * the head of provider.c. Invariant: the disk has the state of a box, and it is read only under the box's lock
 * between daemons; so two daemons never start, stop or remove one box at the same time, and a runner is started only
 * if none is left. */
#include <sys/wait.h>

#include "base/base.h"
#include "base/counted.h"
#include "base/sync.h"
#include "base/log.h"
#include "box/network.h"
#include "box/policy.h"
#include "box/snapshot/snapshot.h"
#include "box/port_socket.h"
#include "box/secret/binding.h"
#include "box/provider/provider_private.h"

/* A daemon that is slower than that with one box hangs; the caller is asked to try again. */
enum { BOX_LOCK_MS = 30000, RETRY_MS = 5000 };

/* ---- boxes ---- */

struct box *box_make(const struct backend_ops *ops, struct backend *backend, const struct record *record) {
    struct box *box = xcalloc(1, sizeof *box);
    struct arena *arena = xcalloc(1, sizeof *arena);
    const struct spec *from = &record->spec;
    struct spec spec = *from;
    spec.user = box->user = arena_strdup(arena, from->user);
    spec.thread = box->thread = arena_strdup_or(arena, from->thread);
    spec.template_name = arena_strdup(arena, from->template_name);
    spec.shell = arena_strdup_or(arena, from->shell);
    spec.env = arena_list(arena, from->env, &spec.env_count);
    spec.layers = arena_list(arena, from->layers, &spec.layer_count);
    spec.agent = arena_strdup_or(arena, from->agent);
    spec.bindings = NULL;
    spec.machine = arena_strdup_or(arena, from->machine);
    spec.workspace = arena_strdup_or(arena, from->workspace);
    spec.policy = arena_strdup_or(arena, from->policy);
    spec.container = container_copy(&from->container, arena);
    struct mount *mounts = arena_alloc(arena, (from->mount_count + 1) * sizeof *mounts);
    for (size_t i = 0; i < from->mount_count; i++)
        mounts[i] = (struct mount){.source = arena_strdup(arena, from->mounts[i].source),
                                   .target = arena_strdup(arena, from->mounts[i].target),
                                   .read_only = from->mounts[i].read_only,
                                   .by_dialect = from->mounts[i].by_dialect};
    spec.mounts = mounts;
    box->spec = spec;
    attached_take(box, from);
    bindings_take(box, from->bindings);
    atomic_init(&box->trusts, from->trusts);
    memcpy(box->id, from->id, sizeof box->id);
    box->ops = ops;
    box->backend = backend;
    box->arena = arena;
    box->labels = (char **)(void *)arena_list(arena, (const char *const *)record->labels, NULL);
    box->created_ms = record->created_ms;
    box->idle_timeout_ms = record->idle_timeout_ms;
    box->temporary = record->temporary;
    box->note = record->note ? note_copy(record->note, arena) : NULL;
    box->pidfd = -1;
    pthread_mutex_init(&box->network_lock, NULL);
    box->state = BOX_STARTING;
    atomic_init(&box->refs, 1);
    atomic_init(&box->used_ms, clock_ms());
    return box;
}

struct record box_record(const struct box *box) {
    struct spec spec = box->spec;
    spec.trusts = atomic_load(&box->trusts);
    return (struct record){.backend = box->ops->name,
                           .spec = spec,
                           .labels = box->labels,
                           .created_ms = box->created_ms,
                           .idle_timeout_ms = box->idle_timeout_ms,
                           .temporary = box->temporary};
}

struct box *box_again(const struct box *box) {
    autoarena arena = ARENA_EMPTY;
    struct record record = box_record(box);
    record.spec.bindings = box_bindings(box, &arena);
    return box_make(box->ops, box->backend, &record);
}

/* Runners that another daemon ended while they were our children, and that had not ended yet when the last
 * reference to their box went: their parent, this daemon, has to wait for them. */
static struct orphans {
    pthread_mutex_t lock;
    int *pidfds;
    size_t count, size;
} orphans = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* true: it is not a process of ours that can still be waited for. */
static bool place_reap(int pidfd) {
    siginfo_t info = {0};
    return waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) < 0 || info.si_pid != 0;
}

void box_reap(void) {
    autolock(&orphans.lock);
    for (size_t i = 0; i < orphans.count;) {
        if (!place_reap(orphans.pidfds[i])) {
            i++;
            continue;
        }
        fd_close(&orphans.pidfds[i]);
        orphans.pidfds[i] = orphans.pidfds[--orphans.count];
    }
}

void box_unref(struct box *box) {
    if (atomic_fetch_sub(&box->refs, 1) != 1)
        return;
    if (box->pidfd >= 0 && !wire_alive(box->wire) && !place_reap(box->pidfd)) { /* one whose wire lives outlives us */
        autolock(&orphans.lock);
        vec_add(orphans.pidfds, orphans.count, orphans.size) = fd_take(&box->pidfd);
    }
    network_end(box);
    port_socket_end(box);
    wire_unref(box->wire);
    fd_close(&box->pidfd);
    arena_done(box->arena);
    free(box->arena);
    if (box->attached_arena)
        arena_done(box->attached_arena);
    free(box->attached_arena);
    bindings_done(box);
    if (box->network_arena)
        arena_done(box->network_arena);
    free(box->network_arena);
    free(box->guest);
    free(box);
}

bool box_owned(const struct box *box, const char *user, const char *thread) {
    return strcmp(box->user, user) == 0 && (thread ? box->thread && strcmp(box->thread, thread) == 0 : !box->thread);
}

int box_stopped(const struct box *box, struct err *err) {
    return err_set(err, ERR_GONE,
                   "box %s stopped unexpectedly: %s. Its files are safe. Start it again: cubby start %s "
                   "(POST /v1/boxes/%s/start)",
                   box->id, box->died, box->id, box->id);
}

/* ---- places ---- */

static struct place **place_find_locked(struct provider *provider, const char *id) {
    struct place **place = &provider->buckets[strtoul((char[]){id[0], id[1], id[2], 0}, NULL, 16) % PLACE_BUCKETS];
    while (*place && strcmp((*place)->id, id) != 0)
        place = &(*place)->next;
    return place;
}

struct place *place_get_locked(struct provider *provider, const char *id) {
    return *place_find_locked(provider, id);
}

static void place_uncount_locked(struct provider *provider, struct place *place) {
    tally_change(&provider->tally, place->box->user, place->counted, (struct tally_sum){0});
    place->counted = (struct tally_sum){0};
    counted_give(COUNTED_TERMINALS, place->box->user, place->terminals);
    place->terminals = 0;
    provider->running -= place->counts;
    place->runs = place->counts = false;
}

void place_count_locked(struct provider *provider, struct place *place, bool runs) {
    const struct limits *limits = &place->box->spec.limits;
    bool here = !place->box->spec.machine; /* what it uses elsewhere is not taken from this host */
    struct tally_sum now = {
        .boxes = 1, .memory_mb = here && runs ? limits->memory_mb : 0, .disk_mb = here ? limits->disk_mb : 0};
    tally_change(&provider->tally, place->box->user, place->counted, now);
    place->counted = now;
    counted_give(COUNTED_TERMINALS, place->box->user, place->terminals);
    place->terminals = here && runs ? eviction_terminals_of(place->box) : 0;
    counted_hold(COUNTED_TERMINALS, place->box->user, place->terminals);
    provider->running = provider->running - place->counts + (here && runs);
    place->counts = here && runs;
    place->runs = runs;
}

int place_reach(const struct place *place, struct err *err) {
    const struct box *box = place->box;
    if (box->state == BOX_EXPORTING)
        return err_set(err, ERR_BUSY, "box %s is being exported; try again when that is done", box->id);
    return box->ops->reach ? box->ops->reach(box->backend, &box->spec, err) : 0;
}

int place_paused(const char *id, struct err *err) {
    return err_set(err, ERR_PAUSED, "box %s is paused; resume it first (POST /v1/boxes/%s/resume)", id, id);
}

bool place_is_machine(const struct place *place) {
    const struct box *box = place->box;
    size_t prefix = strlen(POLICY_MACHINE_THREAD);
    return box->spec.machine && box->thread && strncmp(box->thread, POLICY_MACHINE_THREAD, prefix) == 0 &&
           strcmp(box->thread + prefix, box->spec.machine) == 0;
}

struct place *place_add_locked(struct provider *provider, struct box *box) {
    struct place **at = place_find_locked(provider, box->id);
    struct place *place = xcalloc(1, sizeof *place);
    memcpy(place->id, box->id, sizeof place->id);
    place->box = box;
    place->was = BOX_WARM;
    place->note = box->note ? note_new(box->note) : NULL;
    *at = place;
    provider->count++;
    place_count_locked(provider, place, false);
    return place;
}

void place_remove_locked(struct provider *provider, struct place *place) {
    struct place **at = place_find_locked(provider, place->id);
    *at = place->next;
    provider->count--;
    place_uncount_locked(provider, place);
    box_unref(place->box);
    note_free(place->note);
    free(place->usage);
    free(place);
    pthread_cond_broadcast(&provider->changed);
}

bool place_marked(const struct place *place) {
    enum box_state state = place->box->state;
    return state == BOX_STARTING || state == BOX_EXPORTING || state == BOX_CLOSING;
}

bool place_runs(const struct place *place) {
    const struct box *box = place->box;
    return box->wire && !box->died[0] && (box->state == BOX_READY || box->state == BOX_WARM);
}

void place_mark_locked(struct place *place, enum box_state mark) {
    place->was = place->box->state;
    place->box->state = mark;
}

void place_unmark_locked(struct provider *provider, struct place *place) {
    place->box->state = place->was;
    place_count_locked(provider, place, place->box->wire || place->was == BOX_PAUSED);
    provider_check_locked(provider, place); /* a marked box is not looked at when its runner ends */
    pthread_cond_broadcast(&provider->changed);
}

struct place *place_settled_locked(struct provider *provider, const char *id) {
    for (;;) {
        struct place *place = place_get_locked(provider, id);
        if (!place || !place_marked(place) || place->box->state == BOX_EXPORTING)
            return place;
        pthread_cond_wait(&provider->changed, &provider->lock);
    }
}

struct box *place_use_locked(struct provider *provider, struct place *place) {
    struct box *box = place->box;
    atomic_fetch_add(&box->refs, 1);
    atomic_store(&box->used_ms, clock_ms());
    if (box->state == BOX_WARM) {
        record_release(provider->boxes_fd, box->id, false);
        box->state = BOX_READY;
        provider_box_event(provider, "box_ready", box, NULL);
    }
    return box;
}

/* ---- a runner for it ---- */

struct opened {
    uint64_t terminals; /* for a runner that is started */
    struct box *box;    /* for the place */
    bool created;       /* by us, now */
    bool deleted;       /* by another daemon */
    bool started, paused, woken, released;
    bool away; /* its machine cannot be asked */
};

/* Where a box on a machine works is what the machine says, also when it cannot be asked. True: it is another place than
 * before. */
static bool place_note_workspace(struct box *box, const struct wire *wire) {
    const char *now = wire_workspace(wire);
    if (!box->spec.machine || (box->spec.workspace && strcmp(box->spec.workspace, now) == 0))
        return false;
    box->spec.workspace = arena_strdup(box->arena, now);
    return true;
}

static int place_wire_start(struct provider *provider, struct box *box, uint64_t terminals, bool *ret_other,
                            struct err *err) {
    struct wire *wire;
    int pidfd = -1;
    autoarena arena = ARENA_EMPTY;
    struct spec spec;
    bool dealt = box->spec.limits.terminals != terminals;
    box->spec.limits.terminals = terminals;
    TRY(network_possible(box, err)
            ?: attached_spec(provider, box, &box->spec, &arena, &spec, err)
            ?: box->ops->start(box->backend, &spec, &wire, &pidfd, err));
    *ret_other = attached_take(box, &spec) || dealt || spec.trusts != atomic_load(&box->trusts);
    atomic_store(&box->trusts, spec.trusts);
    *ret_other |= place_note_workspace(box, wire);
    box->pidfd = pidfd;
    box->wire = wire; /* last: a thread that sees it may use it */
    return 0;
}

/* Nothing is recorded. Files may still exist, of a box that lost its record: it continues with them. */
static int place_open_fresh(struct provider *provider, struct box *box, uint64_t terminals, struct err *err) {
    bool kept = faccessat(provider->boxes_fd, box->id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int r = kept ? box->ops->stop(box->backend, box->id, true, err) : 0; /* a runner may still live on them */
    bool other;
    if (r == 0)
        r = place_wire_start(provider, box, terminals, &other, err) ?: network_begin(provider->network, box, true, err);
    if (r == 0 && box->note && !box->spec.one_shot) /* before the record: a recorded box without it would be another */
        r = note_write(provider->boxes_fd, box->id, box->note, err);
    if (!box->wire || (r == 0 && box->spec.one_shot) ||
        (r == 0 && (r = record_write(provider->boxes_fd, box, err)) == 0))
        return r;
    wire_kill(box->wire, "the box could not be recorded");
    box->ops->stop(box->backend, box->id, kept, ERR_IGNORED);
    return r;
}

/* Nothing is recorded, and nothing is to run: the record, and no files of its own. Those of a box that lost its record
 * would cover what lies below. */
static int place_open_still(struct provider *provider, struct box *box, struct err *err) {
    TRY(record_unfinished(provider->boxes_fd, box->id) ? box->ops->stop(box->backend, box->id, false, err) : 0);
    if (mkdirat(provider->boxes_fd, box->id, BACKEND_UNFINISHED_MODE) < 0)
        return errno == EEXIST ? err_set(err, ERR_EXISTS,
                                         "there are files of a box %s that lost its record; an administrator can "
                                         "delete it",
                                         box->id)
                               : err_errno(err, errno, "'boxes/%s'", box->id);
    int r = box->ops->fresh(box->backend, &box->spec, err);
    if (r == 0 && box->note)
        r = note_write(provider->boxes_fd, box->id, box->note, err);
    if (r == 0)
        r = record_write(provider->boxes_fd, box, err);
    if (r < 0)
        box->ops->stop(box->backend, box->id, false, ERR_IGNORED);
    return r;
}

static int place_wire_find(struct provider *provider, struct box *box, struct err *err) {
    struct wire *wire;
    int pidfd = -1;
    TRY(box->ops->discover(box->backend, box->id, &wire, &pidfd, err));
    place_note_workspace(box, wire);
    box->pidfd = pidfd;
    struct err own;
    if (network_begin(provider->network, box, false, &own) < 0) /* it continues, refused by its own kernel */
        log_warn("%s", own.text);
    box->wire = wire; /* last: a thread that sees it may use it */
    return 0;
}

/* One that lives though its wire ended has hung up or sent what no runner may send: it is not asked again, and ends. */
static bool place_runner_broke(const struct box *old) {
    struct err err;
    if (!old->died[0] || !old->wire)
        return false;
    return old->pidfd >= 0 ? !provider_readable(old->pidfd) : wire_error(old->wire, &err) == -ERR_PROTOCOL;
}

/* The configuration may have been narrowed since the box was made. */
static int place_mounts_allowed(struct provider *provider, const struct box *box, struct err *err) {
    if (box->spec.mount_count == 0)
        return 0;
    struct policy *policy = provider_policy(provider);
    int r = mounts_again(policy, &box->spec, err);
    policy_unref(policy);
    return r;
}

/* A recorded box: finds its runner, or ends the rest of one and starts a new one if requested. */
static int place_open_runner(struct provider *provider, struct box *old, struct box *box, enum place_how how,
                             struct opened *opened, struct err *err) {
    provider_death(provider, old);
    bool broken = place_runner_broke(old);
    int r = broken ? -ERR_GONE : place_wire_find(provider, box, err);
    if (r == 0 || r == -ERR_BUSY) /* busy: its machine has gone offline */
        return r;
    bool left = r != -ERR_NOT_FOUND;
    if (left && (r = box->ops->stop(box->backend, box->id, true, err)) < 0)
        return r;
    /* A runner that ended while no daemon served has not died; with another daemon here, one did serve. */
    if (left && (!(how & HOW_ADOPTS) || provider_crowded(provider))) {
        const char *why = old->died[0] ? old->died : "its main process ended";
        provider_box_event(provider, "box_died", box, why);
        record_died(provider->boxes_fd, box->id, why);
    } else if (!left && old->wire) {
        provider_box_event(provider, "box_evicted", box, box->spec.machine ? "on its machine" : EVENT_ELSEWHERE);
    }
    record_died_read(provider->boxes_fd, box->id, box->died, sizeof box->died);
    if (!(how & (HOW_STARTS | HOW_REVIVES)) && (!(how & HOW_STOPPED) || box->died[0]))
        return 0;
    bool other = false;
    memcpy(box->restarted, box->died, sizeof box->restarted);
    atomic_store(&box->restart_news, box->died[0]);
    box->died[0] = 0;
    r = place_mounts_allowed(provider, box, err) ?: place_wire_start(provider, box, opened->terminals, &other, err);
    if (r == 0 && (r = network_begin(provider->network, box, true, err)
                           ?: other ? record_write(provider->boxes_fd, box, err)
                                    : 0) < 0) {
        wire_kill(box->wire, "what it started with could not be recorded");
        box->ops->stop(box->backend, box->id, true, ERR_IGNORED);
    }
    if (r == 0)
        record_died_clear(provider->boxes_fd, box->id);
    opened->started = r == 0;
    return r;
}

/* A frozen runner answers nothing, so it is not asked. One that a dead daemon froze for its own work is not paused. */
static int place_open_paused(struct box *box, enum place_how how, struct opened *opened, struct err *err) {
    int r = box->ops->let_go ? box->ops->let_go(box->backend, box->id, err) : 0;
    if (r < 0 && r != -ERR_GONE)
        return r;
    if (!box->ops->paused || !box->ops->paused(box->backend, box->id))
        return 0;
    opened->paused = !(how & HOW_WAKES);
    opened->woken = how & HOW_WAKES;
    return opened->paused ? 0 : box->ops->pause(box->backend, box->id, false, err);
}

/* What is recorded, in `record`. *ret_box: old, where its runner is still the box's, else a new struct. */
static int place_open_recorded(struct provider *provider, struct box *old, const struct record *record,
                               enum place_how how, struct opened *opened, struct err *err) {
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    int r = provider_backend(provider, record->backend, &ops, &backend, err);
    if (r < 0)
        return r;
    /* Stopping a runner waits for its exit under the lock that we hold, so a runner that answers belongs to this
     * box. */
    bool same = old->wire && !old->died[0] && wire_alive(old->wire);
    struct box *box = same ? old : box_make(ops, backend, record);
    if (!same)
        atomic_store(&box->used_ms, atomic_load(&old->used_ms));
    if ((how & HOW_MAKES) && !box_owned(box, old->user, old->thread))
        r = err_set(err, ERR_EXISTS, "the id of this user and thread, %s, is already another box's", box->id);
    int reached = r == 0 && ops->reach ? ops->reach(backend, &box->spec, err) : r;
    /* A caller that only checks the box comes again when the machine does. */
    opened->away = r == 0 && reached == -ERR_BUSY && !(how & (HOW_USES | HOW_STARTS));
    if (!opened->away)
        r = reached;
    if (r == 0 && opened->away)
        opened->paused = ops->paused && ops->paused(backend, box->id);
    else if (r == 0)
        r = place_open_paused(box, how, opened, err);
    if (r == 0 && !same && !opened->paused && !opened->away)
        r = place_open_runner(provider, old, box, how, opened, err);
    if (r < 0 && !same)
        box_unref(box);
    if (r == 0)
        opened->box = box;
    return r;
}

/* Under the box's lock between daemons. */
static int open_box(struct provider *provider, struct box *old, enum place_how how, struct opened *opened,
                    struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct record record;
    int r = old->spec.one_shot ? -ERR_NOT_FOUND : record_read(provider->boxes_fd, old->id, &arena, &record, err);
    if (r < 0 && (how & HOW_MAKES)) { /* a damaged one, too: the id says whose it is */
        r = how & HOW_STARTS ? place_open_fresh(provider, old, opened->terminals, err)
                             : place_open_still(provider, old, err);
        *opened = (struct opened){.box = old, .created = true, .started = how & HOW_STARTS};
        return r;
    }
    if (how & HOW_ALONE)
        return err_set(err, ERR_EXISTS, "there is a box %s already", old->id);
    opened->deleted = r == -ERR_NOT_FOUND;
    if (r < 0)
        return opened->deleted ? err_set_why(err, ERR_NOT_FOUND, WHY_NO_BOX, "no box '%.40s'", old->id) : r;
    TRY(snapshot_settle(provider, &record, err) ?: place_open_recorded(provider, old, &record, how, opened, err));
    opened->released = record_released(provider->boxes_fd, old->id);
    if (opened->released && opened->box->wire && !opened->paused && (how & HOW_USES))
        record_release(provider->boxes_fd, old->id, false);
    if (how & HOW_USES)
        record_touch(provider->boxes_fd, old->id);
    return 0;
}

/* Puts the opened box into its place. */
static void place_settle_locked(struct provider *provider, struct place *place, const struct opened *opened,
                                enum place_how how) {
    struct box *old = place->box, *box = opened->box;
    if (box != old)
        place_uncount_locked(provider, place); /* while the old one says whose it was */
    place->box = box;
    place_count_locked(provider, place, box->wire || opened->paused);
    place->away = opened->away;
    bool ready = box->wire && ((how & HOW_USES) || !opened->released);
    place->was = opened->paused ? BOX_PAUSED : ready ? BOX_READY : BOX_WARM;
    if (opened->created)
        provider_box_event(provider, "box_created", box, NULL);
    if (opened->started || (ready && (how & HOW_USES) && opened->released))
        provider_box_event(provider, "box_ready", box, NULL);
    if (opened->woken)
        provider_box_event(provider, "box_resumed", box, how & HOW_STOPPED ? "it was used" : NULL);
    if ((how & HOW_ADOPTS) && (box->wire || opened->paused))
        provider_box_event(provider, "box_adopted", box, NULL);
    if (opened->created && !box->spec.one_shot) {
        place->unsynced = true;
        place->written_ms = clock_ms();
    }
    if (!(how & HOW_HELD))
        box->state = place->was;
    pthread_cond_broadcast(&provider->changed);
    if (box->wire && (box != old || opened->created))
        provider_watch_locked(provider, box);
    provider_check_locked(provider, place);
    if (box != old)
        box_unref(old);
}

static int place_hand_locked(struct provider *provider, struct place *place, enum place_how how, struct box **ret_box,
                             struct err *err) {
    struct box *box = place->box;
    if (box->state == BOX_PAUSED && !(how & HOW_STARTS))
        return place_paused(box->id, err);
    if (!box->wire && (how & HOW_MAKES)) { /* new, and not to be started */
        atomic_fetch_add(&box->refs, 1);
        *ret_box = box;
        return 0;
    }
    if (!box->wire && box->state != BOX_PAUSED)
        return box_stopped(box, err);
    *ret_box = place_use_locked(provider, place);
    return 0;
}

int place_open(struct provider *provider, struct place *place, enum place_how how, struct box **ret_box,
               bool *ret_created, struct err *err) {
    struct box *old = place->box;
    const uint64_t dealt = eviction_terminals(old->user);
    struct opened opened = {.terminals = dealt};
    int r = how & HOW_HELD ? 0 : statelock_box(&provider->statelock, place->id, BOX_LOCK_MS, err);
    if (r == 0) {
        r = open_box(provider, old, how, &opened, err);
        if (!(how & HOW_HELD) && (!old->spec.one_shot || r < 0)) /* a one-shot box has the lock instead of a record */
            statelock_box_end(&provider->statelock, place->id);
    }
    autolock(&provider->lock);
    char user[LIMIT_USER_BYTES + 1]; /* the box may go with its place */
    snprintf(user, sizeof user, "%s", old->user);
    if (r < 0 && ((how & HOW_MAKES) || opened.deleted)) {
        if (opened.deleted && old->wire)
            wire_kill(old->wire, "the box was deleted");
        if (opened.deleted)
            provider_box_event(provider, "box_deleted", old, EVENT_ELSEWHERE);
        place_remove_locked(provider, place);
        if (opened.deleted && (how & HOW_STARTS))
            r = 1;
    } else if (r < 0) {
        place->later_ms = clock_ms() + RETRY_MS;
        if (!(how & HOW_HELD))
            place_unmark_locked(provider, place);
    } else {
        place_settle_locked(provider, place, &opened, how);
        if (ret_box)
            r = place_hand_locked(provider, place, how, ret_box, err);
        if (ret_created)
            *ret_created = opened.created;
    }
    eviction_terminals_end(user, dealt);
    return r;
}
