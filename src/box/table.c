/* The provider's own life: opening backends, adopting boxes that outlived a daemon, noticing deaths, idle time-outs.
 * Called by provider.c and by its own two threads. The rules are at the head of provider.c. Not to break: only the
 * holder of the reaper's lock ends or cleans what it did not start itself. */
#include "box/table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"

/* A directory without a record may be a box another process is just starting; older ones are leftovers. */
enum { LEFTOVER_AGE_S = 60, KEEPER_TURN_MS = 1000 };

/* ---- backends ---- */

int table_backend(struct provider *provider, const char *name, const struct backend_ops **ret_ops,
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

/* ---- deaths ---- */

static uint64_t id_number(const char *id) {
    return strtoull(id, NULL, 16);
}

static bool fd_readable(int fd) {
    struct pollfd look = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&look, 1, 0) > 0;
}

/* Why the runner ended: its exit when it was our child, else what ended the wire. */
static void death_text(struct box *box, char *text, size_t size) {
    siginfo_t info = {0};
    struct err err;
    if (box->pidfd >= 0 && fd_readable(box->pidfd)) {
        if (waitid(P_PIDFD, (id_t)box->pidfd, &info, WEXITED | WNOHANG) == 0 && info.si_pid)
            snprintf(text, size,
                     info.si_code == CLD_EXITED ? "its runner ended with status %d"
                                                : "its runner was killed by signal %d",
                     info.si_status);
        else
            snprintf(text, size, "its runner ended");
    } else {
        snprintf(text, size, "%.100s", wire_error(box->wire, &err) < 0 ? err.text : "its runner hung up");
    }
}

static void box_check_locked(struct provider *provider, struct box *box) {
    if (!box->wire || box->died[0] || box->state == BOX_STARTING || box->state == BOX_CLOSING)
        return;
    if (!fd_readable(box->pidfd) && wire_alive(box->wire))
        return;
    death_text(box, box->died, sizeof box->died);
    wire_kill(box->wire, box->died);
    pthread_cond_signal(&provider->work);
}

static void *watcher_main(void *argument) {
    struct provider *provider = argument;
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(provider->epoll_fd, events, 64, -1);
        pthread_mutex_lock(&provider->lock);
        bool ending = provider->ending;
        for (int i = 0; i < count && !ending; i++) {
            char id[17];
            snprintf(id, sizeof id, "%016llx", (unsigned long long)events[i].data.u64);
            struct slot *slot = slot_get_locked(provider, id);
            if (slot)
                box_check_locked(provider, slot->box);
        }
        pthread_mutex_unlock(&provider->lock);
        if (ending)
            return NULL;
    }
}

/* ---- housekeeping ---- */

static bool box_idle_locked(const struct provider *provider, struct box *box, uint64_t now_ms) {
    return provider->reaper && box->idle_timeout_ms && box->wire && !box->died[0] &&
           (box->state == BOX_READY || box->state == BOX_WARM) && atomic_load(&box->refs) == 1 &&
           now_ms >= atomic_load(&box->last_used_ms) + box->idle_timeout_ms;
}

static bool box_dirty_locked(const struct slot *slot) {
    const struct box *box = slot->box;
    return box->died[0] && !slot->cleaned && box->state != BOX_STARTING && box->state != BOX_CLOSING;
}

static struct slot *keeper_pick_locked(struct provider *provider) {
    uint64_t now_ms = clock_wall_ms();
    for (size_t i = 0; i < SLOT_BUCKETS; i++)
        for (struct slot *slot = provider->buckets[i]; slot; slot = slot->next)
            if (box_dirty_locked(slot) || box_idle_locked(provider, slot->box, now_ms))
                return slot;
    return NULL;
}

/* Ends what is left of a box's processes; its files stay. Gives up the lock meanwhile. What stays in the slot is the
 * same box without a runner; the old struct lives on for those who hold it. */
static void keeper_stop_locked(struct provider *provider, struct slot *slot) {
    struct box *box = slot->box;
    struct err err;
    bool died = box->died[0];
    box->state = BOX_CLOSING;
    pthread_mutex_unlock(&provider->lock);
    if (!died)
        wire_kill(box->wire, "the box was idle for its time-out");
    int r = box->ops->stop(box->backend, box->id, true, &err);
    if (r < 0)
        log_warn("box %s: %s", box->id, err.text);
    struct box *rest = box_again(box);
    atomic_store(&rest->last_used_ms, atomic_load(&box->last_used_ms));
    rest->state = BOX_WARM;
    memcpy(rest->died, box->died, sizeof rest->died);
    pthread_mutex_lock(&provider->lock);
    slot->cleaned = true;
    slot->box = rest;
    pthread_cond_broadcast(&provider->changed);
    box_unref(box);
}

static void *keeper_main(void *argument) {
    struct provider *provider = argument;
    pthread_mutex_lock(&provider->lock);
    while (!provider->ending) {
        if (!provider->reaper && !provider->env->one_shot) /* the daemon that was it may have ended */
            provider->reaper = flock(provider->reaper_fd, LOCK_EX | LOCK_NB) == 0;
        struct slot *slot = keeper_pick_locked(provider);
        if (slot) {
            keeper_stop_locked(provider, slot);
            continue;
        }
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += KEEPER_TURN_MS / 1000;
        pthread_cond_timedwait(&provider->work, &provider->lock, &until);
    }
    pthread_mutex_unlock(&provider->lock);
    return NULL;
}

static void threads_start_locked(struct provider *provider) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    provider->threads = true;
    if (pthread_create(&provider->watcher, &attributes, watcher_main, provider) != 0 ||
        pthread_create(&provider->keeper, &attributes, keeper_main, provider) != 0)
        abort();
    pthread_attr_destroy(&attributes);
}

void table_watch_locked(struct provider *provider, struct box *box) {
    if (box->spec.one_shot)
        return;
    if (!provider->threads)
        threads_start_locked(provider);
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = id_number(box->id)};
    if (box->pidfd >= 0)
        epoll_ctl(provider->epoll_fd, EPOLL_CTL_ADD, box->pidfd, &event);
    event.events = EPOLLRDHUP | EPOLLONESHOT;
    epoll_ctl(provider->epoll_fd, EPOLL_CTL_ADD, wire_fd(box->wire), &event);
    box_check_locked(provider, box); /* it may have died before it was watched */
}

/* ---- boxes that were there before ---- */

/* The runner of a box that came from disk, when it is still there. */
static void box_adopt(struct provider *provider, struct box *box) {
    struct err err;
    struct wire *wire;
    int pidfd = -1;
    if (box->ops->discover(box->backend, box->id, &wire, &pidfd, &err) == 0) {
        box->wire = wire;
        box->pidfd = pidfd;
        return;
    }
    if (provider->reaper && box->ops->stop(box->backend, box->id, true, &err) < 0)
        log_warn("box %s: %s", box->id, err.text);
}

void table_load(struct provider *provider, const char *id) {
    pthread_mutex_lock(&provider->lock);
    bool known = slot_get_locked(provider, id);
    pthread_mutex_unlock(&provider->lock);
    autoarena arena;
    arena_init(&arena);
    struct record record;
    struct err err;
    if (known)
        return;
    int r = record_read(provider->boxes_fd, id, &arena, &record, &err);
    if (r == -ERR_INVALID)
        log_warn("%s", err.text);
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    if (r < 0 || table_backend(provider, record.backend, &ops, &backend, &err) < 0)
        return;
    struct box *box = box_make(ops, backend, &record);
    pthread_mutex_lock(&provider->lock);
    if (slot_get_locked(provider, id)) { /* somebody was faster */
        pthread_mutex_unlock(&provider->lock);
        box_unref(box);
        return;
    }
    slot_add_locked(provider, box);
    pthread_mutex_unlock(&provider->lock);
    box_adopt(provider, box);
    pthread_mutex_lock(&provider->lock);
    box->state = box->wire ? BOX_READY : BOX_WARM;
    pthread_cond_broadcast(&provider->changed);
    if (box->wire)
        table_watch_locked(provider, box);
    pthread_mutex_unlock(&provider->lock);
}

static void load_all(struct provider *provider) {
    DIR *dir = fdopendir(openat(provider->boxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return;
    struct dirent *entry;
    while ((entry = readdir(dir)))
        if (text_id(entry->d_name))
            table_load(provider, entry->d_name);
    closedir(dir);
}

struct leftovers {
    struct provider *provider;
    char (*ids)[17];
    size_t count;
};

static void leftover_note(void *user, const char *id) {
    struct leftovers *list = user;
    struct stat status;
    bool known = slot_get_locked(list->provider, id);
    char record[32];
    snprintf(record, sizeof record, "%.16s/box.json", id);
    if (known || !text_id(id) || faccessat(list->provider->boxes_fd, record, F_OK, 0) == 0)
        return;
    if (fstatat(list->provider->boxes_fd, id, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        status.st_mtime + LEFTOVER_AGE_S > (time_t)(clock_wall_ms() / 1000))
        return;
    list->ids = realloc(list->ids, (list->count + 1) * sizeof *list->ids);
    if (!list->ids)
        abort();
    memcpy(list->ids[list->count++], id, 17);
}

/* What has no record was never acknowledged to anybody. A runner that still answers belongs to a `cubby run`. */
static void clean_leftovers(struct provider *provider, const char *name) {
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    struct leftovers list = {.provider = provider};
    struct err err;
    if (table_backend(provider, name, &ops, &backend, &err) < 0 || ops->list(backend, leftover_note, &list, &err) < 0)
        return;
    for (size_t i = 0; i < list.count; i++) {
        struct wire *wire;
        int pidfd = -1;
        if (ops->discover(backend, list.ids[i], &wire, &pidfd, &err) == 0) {
            wire_unref(wire);
            fd_close(&pidfd);
        } else if (ops->stop(backend, list.ids[i], false, &err) < 0) {
            log_warn("leftover box %s: %s", list.ids[i], err.text);
        }
    }
    free(list.ids);
}

/* ---- opening and closing ---- */

static int open_state(struct provider *provider, struct err *err) {
    autofd state = open(provider->env->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (state < 0 || (mkdirat(state, "boxes", 0700) < 0 && errno != EEXIST))
        return err_errno(err, errno, "state directory '%s'", provider->env->state_dir);
    provider->boxes_fd = openat(state, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    provider->reaper_fd = openat(state, "reaper.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (provider->boxes_fd < 0 || provider->reaper_fd < 0)
        return err_errno(err, errno, "state directory '%s'", provider->env->state_dir);
    provider->reaper = !provider->env->one_shot && flock(provider->reaper_fd, LOCK_EX | LOCK_NB) == 0;
    return 0;
}

static void open_locks(struct provider *provider) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&provider->lock, NULL);
    pthread_mutex_init(&provider->backend_lock, NULL);
    pthread_cond_init(&provider->changed, NULL);
    pthread_cond_init(&provider->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int provider_new(const struct backend_env *env, const struct policy *policy, const char *default_backend,
                 struct provider **ret_provider, struct err *err) {
    struct provider *provider = calloc(1, sizeof *provider);
    if (!provider)
        abort();
    provider->env = env;
    provider->policy = *policy;
    provider->default_backend = default_backend;
    provider->boxes_fd = provider->reaper_fd = -1;
    provider->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    provider->wake_fd = eventfd(0, EFD_CLOEXEC);
    open_locks(provider);
    int r = provider->epoll_fd < 0 || provider->wake_fd < 0 ? err_errno(err, errno, "epoll") : 0;
    if (r == 0)
        r = open_state(provider, err);
    const struct backend_ops *ops;
    struct backend *backend;
    if (r == 0 && (r = table_backend(provider, default_backend, &ops, &backend, err)) < 0)
        err_wrap(err, "backend %s", default_backend);
    if (r < 0) {
        provider_free(provider, false);
        return r;
    }
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(provider->epoll_fd, EPOLL_CTL_ADD, provider->wake_fd, &event);
    if (!env->one_shot)
        load_all(provider);
    for (size_t i = 0; backend_table[i] && provider->reaper; i++)
        clean_leftovers(provider, backend_table[i]->name);
    *ret_provider = provider;
    return 0;
}

static void threads_end(struct provider *provider) {
    pthread_mutex_lock(&provider->lock);
    provider->ending = true;
    bool threads = provider->threads;
    pthread_cond_signal(&provider->work);
    pthread_mutex_unlock(&provider->lock);
    uint64_t one = 1;
    if (threads && write(provider->wake_fd, &one, sizeof one) == sizeof one) {
        pthread_join(provider->watcher, NULL);
        pthread_join(provider->keeper, NULL);
    }
}

void provider_free(struct provider *provider, bool end_boxes) {
    threads_end(provider);
    for (size_t i = 0; i < SLOT_BUCKETS; i++) {
        while (provider->buckets[i]) {
            struct slot *slot = provider->buckets[i];
            struct box *box = slot->box;
            struct err err;
            provider->buckets[i] = slot->next;
            if (end_boxes && box->wire) {
                wire_kill(box->wire, "the daemon ends");
                if (box->ops->stop(box->backend, box->id, !box->spec.one_shot, &err) < 0)
                    log_warn("box %s: %s", box->id, err.text);
            }
            box_unref(box);
            free(slot);
        }
    }
    for (size_t i = 0; backend_table[i]; i++)
        if (provider->backends[i])
            backend_table[i]->close(provider->backends[i]);
    fd_close(&provider->boxes_fd);
    fd_close(&provider->reaper_fd);
    fd_close(&provider->epoll_fd);
    fd_close(&provider->wake_fd);
    pthread_mutex_destroy(&provider->lock);
    pthread_mutex_destroy(&provider->backend_lock);
    pthread_cond_destroy(&provider->changed);
    pthread_cond_destroy(&provider->work);
    free(provider);
}
