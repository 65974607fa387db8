/* The provider's own life: opening backends, noticing deaths, idle time-outs, records reaching the disk. Called by
 * provider.c and by its own two threads. The rules are at the head of provider.c. Invariant: of several daemons only
 * the reaper evicts idle boxes and cleans what dead daemons left. */
#include "box/provider/provider_private.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"
#include "box/network.h"
#include "box/snapshot/layer.h"
#include "box/signame.h"

enum {
    KEEPER_TURN_MS = 1000,
    SYNC_AGE_MS = 1000,
    DEATH_WAIT_MS = 200,
    CLEAN_EVERY_MS = 60000,
};

/* ---- backends ---- */

int provider_backend(struct provider *provider, const char *name, const struct backend_ops **ret_ops,
                     struct backend **ret_backend, struct err *err) {
    int i = 0;
    while (backend_table[i] && strcmp(backend_table[i]->name, name) != 0)
        i++;
    if (!backend_table[i])
        return err_set(err, ERR_INVALID, "there is no backend '%.60s'", name);
    pthread_mutex_lock(&provider->backend_lock);
    if (!provider->backend_tried[i])
        backend_table[i]->open(provider->env, &provider->backends[i], &provider->backend_errors[i]);
    provider->backend_tried[i] = true;
    struct backend *backend = provider->backends[i];
    pthread_mutex_unlock(&provider->backend_lock);
    if (!backend)
        return err_set(err, (enum err_code)provider->backend_errors[i].code, "%s", provider->backend_errors[i].text);
    *ret_ops = backend_table[i];
    *ret_backend = backend;
    return 0;
}

/* ---- the configuration ---- */

struct policy *provider_policy(struct provider *provider) {
    autolock(&provider->lock);
    return policy_ref(provider->policy);
}

void provider_configure(struct provider *provider, struct policy *policy) {
    pthread_mutex_lock(&provider->lock);
    struct policy *old = provider->policy;
    provider->policy = policy_ref(policy);
    pthread_cond_signal(&provider->work);
    pthread_mutex_unlock(&provider->lock);
    policy_unref(old);
}

bool provider_crowded(struct provider *provider) {
    if (provider->env->one_shot)
        return false;
    /* A daemon that started after we were alone has counted itself before it did anything. */
    if (!atomic_load(&provider->stale) && statelock_visits(&provider->statelock) == atomic_load(&provider->visits))
        return false;
    atomic_store(&provider->stale, true);
    return true;
}

/* Alone again: the table is made like the disk, and can be believed. */
static void housekeeping_keeper_follow(struct provider *provider) {
    uint64_t visits = statelock_visits(&provider->statelock);
    if (!provider_crowded(provider) || statelock_crowded(&provider->statelock))
        return;
    if (!adoption_refresh(provider) || statelock_crowded(&provider->statelock) ||
        statelock_visits(&provider->statelock) != visits)
        return;
    atomic_store(&provider->visits, visits);
    atomic_store(&provider->stale, false);
}

/* ---- events ---- */

/* Actions of requests are in the audit log as such. */
static bool housekeeping_event_asked(const char *verb, const char *detail) {
    static const char *const asked[] = {"box_created", "box_ready",   "box_warm",
                                        "box_paused",  "box_resumed", "box_deleted"};
    static const char *const unasked[] = {EVENT_ELSEWHERE, EVENT_TEMPORARY, EVENT_DEADLINE, EVENT_BUSY};
    for (size_t i = 0; detail && i < sizeof unasked / sizeof *unasked; i++)
        if (strcmp(unasked[i], detail) == 0)
            return false;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (strcmp(asked[i], verb) == 0)
            return true;
    return false;
}

void provider_box_event(const struct provider *provider, const char *verb, const struct box *box, const char *detail) {
    if (provider->event && !box->spec.one_shot)
        provider->event(provider->event_user, &(struct box_event){.verb = verb,
                                                                  .id = box->id,
                                                                  .user = box->user,
                                                                  .thread = box->thread,
                                                                  .backend = box->ops->name,
                                                                  .machine = box->spec.machine,
                                                                  .detail = detail,
                                                                  .asked = housekeeping_event_asked(verb, detail)});
}

void provider_event(const struct provider *provider, const char *verb, const char *id, const char *user,
                    const char *detail) {
    if (provider->event)
        provider->event(provider->event_user,
                        &(struct box_event){.verb = verb, .id = id, .user = user, .detail = detail});
}

/* ---- deaths ---- */

bool provider_readable(int fd) {
    struct pollfd look = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&look, 1, 0) > 0;
}

/* PID 1 was killed, and the kernel killed something of the box for memory. */
static bool housekeeping_death_by_memory(struct box *box) {
    struct usage usage = {0};
    return !box->spec.machine && box->spec.limits.memory_mb && box_usage(box, &usage, ERR_IGNORED) == 0 &&
           usage.oom_kills > 0;
}

/* Why the runner ended: its exit when it was our child, else what ended the wire. *ret_final: no better reason will
 * follow. */
static void housekeeping_death_text(struct box *box, char *text, size_t size, bool *ret_final) {
    siginfo_t info = {0};
    struct err err = {0};
    char name[SIGNAME_BYTES];
    bool ended = provider_readable(box->pidfd), hung_up = wire_error(box->wire, &err) == -ERR_GONE;
    bool known = ended && waitid(P_PIDFD, (id_t)box->pidfd, &info, WEXITED | WNOHANG) == 0 && info.si_pid;
    *ret_final = ended || box->pidfd < 0;
    if ((known ? info.si_status == SIGKILL : ended || hung_up) && housekeeping_death_by_memory(box))
        snprintf(text, size, "its main process was killed: out of memory (limit %llu MiB)",
                 (unsigned long long)box->spec.limits.memory_mb);
    else if (known && info.si_code == CLD_EXITED)
        snprintf(text, size, "its main process ended with status %d", info.si_status);
    else if (known)
        snprintf(text, size, "its main process was killed by %s", signame_text(info.si_status, name));
    else if (ended)
        snprintf(text, size, "its main process ended");
    else
        snprintf(text, size, "%.100s", err.code ? err.text : "its main process hung up");
}

void place_dead_locked(struct provider *provider, struct place *place) {
    struct box *box = place->box;
    if (!box->died[0])
        housekeeping_death_text(box, box->died, sizeof box->died, &box->died_final);
    wire_kill(box->wire, box->died);
    pthread_cond_signal(&provider->work);
}

/* The backend may know more than the kernel reports to us: its status, or that it was removed. */
static bool housekeeping_death_asked(struct box *box, char *text, size_t size) {
    return box->ops->why && (box->pidfd < 0 || provider_readable(box->pidfd)) &&
           box->ops->why(box->backend, box->id, text, size);
}

void provider_death(struct provider *provider, struct box *box) {
    struct pollfd end = {.fd = box->pidfd, .events = POLLIN};
    char text[sizeof box->died];
    bool final = box->died_final;
    if (!box->died[0] || !box->wire)
        return;
    if (!final && poll(&end, 1, DEATH_WAIT_MS) == 1)
        housekeeping_death_text(box, text, sizeof text, &final);
    else
        memcpy(text, box->died, sizeof text);
    if (!housekeeping_death_asked(box, text, sizeof text) && final == box->died_final)
        return;
    autolock(&provider->lock);
    memcpy(box->died, text, sizeof box->died);
    box->died_final = true;
}

void provider_check_locked(struct provider *provider, struct place *place) {
    struct box *box = place->box;
    if (!box->wire || box->died[0] || box->spec.one_shot || place_marked(place))
        return;
    if (provider_readable(box->pidfd) || !wire_alive(box->wire))
        place_dead_locked(provider, place);
}

static void *housekeeping_watcher_main(void *argument) {
    struct provider *provider = argument;
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(provider->epoll_fd, events, 64, -1);
        pthread_mutex_lock(&provider->lock);
        bool ending = provider->ending;
        for (int i = 0; i < count && !ending; i++) {
            /* An id of 8 digits is the same number as one of 16 with zeros before it: both are checked. */
            char id[24];
            for (int digits = 16; digits >= 8; digits -= 8) {
                snprintf(id, sizeof id, "%0*llx", digits, (unsigned long long)(events[i].data.u64));
                struct place *place = place_get_locked(provider, id);
                if (place)
                    provider_check_locked(provider, place);
            }
        }
        pthread_mutex_unlock(&provider->lock);
        if (ending)
            return NULL;
    }
}

void provider_watch_locked(struct provider *provider, struct box *box) {
    if (box->spec.one_shot)
        return;
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = strtoull(box->id, NULL, 16)};
    if (box->pidfd >= 0)
        epoll_ctl(provider->epoll_fd, EPOLL_CTL_ADD, box->pidfd, &event);
    event.events = EPOLLRDHUP | EPOLLONESHOT;
    epoll_ctl(provider->epoll_fd, EPOLL_CTL_ADD, wire_fd(box->wire), &event);
    struct place *place = place_get_locked(provider, box->id);
    if (place && place->box == box)
        provider_check_locked(provider, place); /* it may have died before it was watched */
}

/* ---- housekeeping ---- */

static bool housekeeping_place_dirty_locked(const struct place *place, uint64_t now_ms) {
    if (place_marked(place) || now_ms < place->later_ms)
        return false;
    return (place->box->died[0] && place->box->wire) || (place->away && place_reach(place, ERR_IGNORED) == 0);
}

static struct place *housekeeping_keeper_pick_locked(struct provider *provider, uint64_t now_ms) {
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next)
            if (housekeeping_place_dirty_locked(place, now_ms) ||
                (provider->reaper && (eviction_idle_locked(place, now_ms) || eviction_over_locked(place, now_ms))))
                return place;
    return NULL;
}

static void housekeeping_settle(struct provider *provider, struct place *place) {
    struct err err;
    int r = place_open(provider, place, PLACE_SETTLE, NULL, NULL, &err);
    /* not found: another daemon deleted it, which is why its runner ended; busy: its machine went offline again */
    if (r < 0 && r != -ERR_NOT_FOUND && r != -ERR_BUSY)
        log_warn("%s", err.text);
}

struct settler {
    struct provider *provider;
    struct place *place;
};

static void *housekeeping_settler_main(void *argument) {
    struct settler settler = *(struct settler *)argument;
    free(argument);
    housekeeping_settle(settler.provider, settler.place);
    autolock(&settler.provider->lock);
    settler.provider->settlers--;
    pthread_cond_broadcast(&settler.provider->changed);
    return NULL;
}

/* Remaining processes of its runner are ended; its files stay. A machine or a container engine may answer late: no
 * other thread waits for that. */
static void housekeeping_keeper_settle_locked(struct provider *provider, struct place *place) {
    bool slow = place->box->spec.machine || place->box->ops->why;
    place_mark_locked(place, BOX_CLOSING);
    struct settler *settler = slow ? malloc(sizeof *settler) : NULL;
    if (settler) {
        *settler = (struct settler){.provider = provider, .place = place};
        provider->settlers++;
        pthread_detach(thread_joined(housekeeping_settler_main, settler, PROVIDER_STACK_BYTES));
        return;
    }
    pthread_mutex_unlock(&provider->lock);
    housekeeping_settle(provider, place);
    pthread_mutex_lock(&provider->lock);
}

/* Records of boxes that lived a while reach the disk; for others it would be wasted work. Gives up the lock. */
static void housekeeping_keeper_sync_locked(struct provider *provider) {
    uint64_t now_ms = clock_ms();
    for (size_t i = 0; i < PLACE_BUCKETS && !provider->ending; i++) {
        struct place *place = provider->buckets[i];
        while (place && !(place->unsynced && now_ms >= place->written_ms + SYNC_AGE_MS))
            place = place->next;
        if (!place)
            continue;
        char id[17];
        struct err err;
        memcpy(id, place->id, sizeof id);
        place->unsynced = false;
        pthread_mutex_unlock(&provider->lock);
        if (record_sync(provider->boxes_fd, id, &err) < 0)
            log_warn("%s", err.text);
        pthread_mutex_lock(&provider->lock);
        i--; /* that bucket again */
    }
}

/* Once a turn: whether others serve here too, and whether we are the one to clean up after those that died. */
static void housekeeping_keeper_others_locked(struct provider *provider) {
    bool was_reaper = provider->reaper, was_crowded = provider->crowded;
    if (provider->env->one_shot)
        return;
    if (!was_reaper) /* the daemon that was it may have ended */
        provider->reaper = statelock_reaper(&provider->statelock);
    provider->crowded = statelock_crowded(&provider->statelock);
    if (provider->crowded) {
        /* What is used here shows in the time of its record, for those who evict elsewhere; and what they use is
         * used. That the time changed counts, not what it says: clocks jump. */
        uint64_t now_ms = clock_ms();
        for (size_t i = 0; i < PLACE_BUCKETS; i++)
            for (struct place *place = provider->buckets[i]; place; place = place->next) {
                struct box *box = place->box;
                if (!box->wire)
                    continue;
                uint64_t touched_ns = record_touched_ns(provider->boxes_fd, place->id);
                if (touched_ns != place->touched_ns) {
                    atomic_store(&box->used_ms, now_ms);
                    place->elsewhere_ms = now_ms;
                }
                bool here = atomic_load(&box->refs) > 1 + box->looks;
                if (here)
                    record_touch(provider->boxes_fd, place->id);
                place->touched_ns = here ? record_touched_ns(provider->boxes_fd, place->id) : touched_ns;
            }
    }
    if (!provider->reaper)
        return;
    bool clean = !was_reaper || (was_crowded && !provider->crowded) || clock_ms() >= provider->clean_ms;
    bool crowded = provider->crowded;
    pthread_mutex_unlock(&provider->lock);
    housekeeping_keeper_follow(provider);
    if (clean)
        adoption_clean(provider, !was_reaper);
    if (crowded || !was_reaper)
        adoption_refresh(provider); /* the reaper cannot evict a box it does not know */
    pthread_mutex_lock(&provider->lock);
    if (clean)
        provider->clean_ms = clock_ms() + CLEAN_EVERY_MS;
}

static void housekeeping_keeper_room_locked(struct provider *provider) {
    struct err ignored; /* a request that needs more memory reports that it is short */
    pthread_mutex_unlock(&provider->lock);
    eviction_make(provider, true, &ignored);
    pthread_mutex_lock(&provider->lock);
}

static void *housekeeping_keeper_main(void *argument) {
    struct provider *provider = argument;
    uint64_t turn_ms = 0;
    autolock(&provider->lock);
    while (!provider->ending) {
        if (clock_ms() >= turn_ms) {
            turn_ms = clock_ms() + KEEPER_TURN_MS;
            box_reap();
            housekeeping_keeper_others_locked(provider);
            housekeeping_keeper_sync_locked(provider);
            housekeeping_keeper_room_locked(provider); /* memory may have become short without us */
        }
        uint64_t now_ms = clock_ms();
        struct place *place = provider->ending ? NULL : housekeeping_keeper_pick_locked(provider, now_ms);
        if (place && housekeeping_place_dirty_locked(place, now_ms)) {
            housekeeping_keeper_settle_locked(provider, place);
        } else if (place && eviction_over_locked(place, now_ms)) {
            eviction_delete_locked(provider, place);
        } else if (place) {
            eviction_evict_locked(provider, place, "idle");
        } else if (!provider->ending && eviction_wanted_locked(provider)) {
            housekeeping_keeper_room_locked(provider);
        } else if (!provider->ending) {
            cond_wait_until(&provider->work, &provider->lock, turn_ms);
        }
    }
    return NULL;
}

/* ---- opening and closing ---- */

static int housekeeping_open_state(struct provider *provider, struct err *err) {
    autofd state = open(provider->env->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (state < 0 || (mkdirat(state, "boxes", 0700) < 0 && errno != EEXIST))
        return err_errno(err, errno, "state directory '%s'", provider->env->state_dir);
    provider->boxes_fd = openat(state, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (provider->boxes_fd >= 0 && mkdirat(state, "layers", 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "state directory '%s'", provider->env->state_dir);
    provider->layers_fd = openat(state, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (provider->boxes_fd < 0 || provider->layers_fd < 0)
        return err_errno(err, errno, "state directory '%s'", provider->env->state_dir);
    int r = statelock_open(&provider->statelock, state, err) ?: statelock_serve(&provider->statelock, err);
    provider->reaper = r == 0 && !provider->env->one_shot && statelock_reaper(&provider->statelock);
    atomic_init(&provider->visits, r == 0 ? statelock_visits(&provider->statelock) : 0);
    provider->crowded = r == 0 && statelock_crowded(&provider->statelock); /* not before: one may come in between */
    atomic_init(&provider->stale, provider->crowded);
    return r;
}

int provider_new(const struct backend_env *env, struct policy *policy, const char *default_backend,
                 struct provider **ret_provider, struct err *err) {
    struct provider *provider = xcalloc(1, sizeof *provider);
    provider->env = env;
    provider->policy = policy_ref(policy);
    provider->event = policy->event;
    provider->event_user = policy->event_user;
    provider->hooks = policy->hooks;
    provider->default_backend = default_backend;
    provider->network = network_new(provider);
    provider->boxes_fd = provider->layers_fd = provider->statelock.fd = -1;
    eviction_terminals_limit();
    provider->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    provider->wake_fd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&provider->lock, NULL);
    pthread_mutex_init(&provider->backend_lock, NULL);
    pthread_mutex_init(&provider->room_lock, NULL);
    cond_init(&provider->changed);
    cond_init(&provider->work);
    cond_init(&provider->due);
    cond_init(&provider->measure);
    cond_init(&provider->move);
    int r = (provider->epoll_fd < 0 || provider->wake_fd < 0 ? err_errno(err, errno, "epoll") : 0)
                ?: housekeeping_open_state(provider, err);
    const struct backend_ops *ops;
    struct backend *backend;
    if (r == 0 && (r = provider_backend(provider, default_backend, &ops, &backend, err)) < 0)
        err_wrap(err, "backend %s", default_backend);
    if (r < 0) {
        provider_free(provider, false);
        return r;
    }
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(provider->epoll_fd, EPOLL_CTL_ADD, provider->wake_fd, &event);
    if (!env->one_shot) {
        provider->clean_ms = clock_ms() + CLEAN_EVERY_MS;
        if (provider->reaper && !provider->crowded)
            layer_sweep(provider);
        if (provider->reaper)
            adoption_clean(provider, true); /* first: it ends runners that no record leads to */
        adoption_begin(provider);
        provider->watcher = thread_joined(housekeeping_watcher_main, provider, PROVIDER_STACK_BYTES);
        provider->keeper = thread_joined(housekeeping_keeper_main, provider, PROVIDER_STACK_BYTES);
        usage_begin(provider);
        move_begin(provider);
        provider->threads = true;
        adoption_wait(provider);
    }
    *ret_provider = provider;
    return 0;
}

/* As idleness would end it: the next daemon starts it again when it is asked for. */
static void end_box(struct provider *provider, struct box *box) {
    struct err err;
    bool held = box->spec.one_shot; /* since it was made */
    int r = held ? 0 : statelock_box(&provider->statelock, box->id, KEEPER_TURN_MS, &err);
    if (r == 0) {
        if (box->wire)
            wire_kill(box->wire, "the daemon ends");
        r = box->ops->stop(box->backend, box->id, !box->spec.one_shot, &err);
        statelock_box_end(&provider->statelock, box->id);
    }
    if (r < 0)
        log_warn("box %s: %s", box->id, err.text);
    else
        provider_box_event(provider, "box_evicted", box, "shutdown");
}

void provider_free(struct provider *provider, bool end_boxes) {
    pthread_mutex_lock(&provider->lock);
    provider->ending = true;
    bool threads = provider->threads;
    pthread_cond_signal(&provider->work);
    pthread_mutex_unlock(&provider->lock);
    uint64_t one = 1;
    if (threads && write(provider->wake_fd, &one, sizeof one) == sizeof one) {
        pthread_join(provider->watcher, NULL);
        pthread_join(provider->keeper, NULL);
        usage_end(provider);
        move_end(provider);
    }
    deadline_end(provider);
    pthread_mutex_lock(&provider->lock);
    while (provider->settlers)
        pthread_cond_wait(&provider->changed, &provider->lock);
    pthread_mutex_unlock(&provider->lock);
    adoption_end(provider);
    squash_end(provider);
    if (end_boxes && statelock_crowded(&provider->statelock)) {
        log_info("another daemon serves this state directory: the boxes are left to it");
        end_boxes = false;
    }
    for (size_t i = 0; i < PLACE_BUCKETS; i++) {
        while (provider->buckets[i]) {
            struct place *place = provider->buckets[i];
            provider->buckets[i] = place->next;
            if (end_boxes && place->runs)
                end_box(provider, place->box);
            box_unref(place->box);
            note_free(place->note);
            free(place->usage);
            free(place);
        }
    }
    for (size_t i = 0; backend_table[i]; i++)
        if (provider->backends[i])
            backend_table[i]->close(provider->backends[i]);
    network_free(provider->network); /* after the boxes, which let go of it */
    tally_done(&provider->tally);
    policy_unref(provider->policy);
    fd_close(&provider->boxes_fd);
    fd_close(&provider->layers_fd);
    statelock_done(&provider->statelock);
    fd_close(&provider->epoll_fd);
    fd_close(&provider->wake_fd);
    pthread_mutex_destroy(&provider->lock);
    pthread_mutex_destroy(&provider->backend_lock);
    pthread_mutex_destroy(&provider->room_lock);
    pthread_cond_destroy(&provider->changed);
    pthread_cond_destroy(&provider->work);
    pthread_cond_destroy(&provider->due);
    pthread_cond_destroy(&provider->measure);
    pthread_cond_destroy(&provider->move);
    free(provider);
}
