/* The table of boxes. Called by the doors and by `cubby run`. Not to break, the rules of the table:
 *
 * 1. provider->lock guards the table, every slot, and a box's fields below its line. Backends are never called under it.
 * 2. Whoever works on a slot without the lock has marked its box STARTING or CLOSING first; everybody else waits on
 *    `changed` until that is over. So a backend never sees two calls for one id at once.
 * 3. A struct box lives through one runner. Its wire is set before READY and stays until the last reference goes, so
 *    verbs use it without a lock; a new runner on the same files is a new struct box in the same slot.
 * 4. The table holds one reference. A box without a runner (stopped for idleness, or died) stays in its slot: files and
 *    record are kept until destroy.
 * 5. destroy and death wait for nobody: wire_kill makes running verbs end. */
#include "box/provider.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "box/record.h"
#include "box/table.h"

/* ---- boxes ---- */

static char **copy_list(struct arena *arena, const char *const *list, size_t *ret_count) {
    size_t count = 0;
    while (list && list[count])
        count++;
    char **copy = arena_alloc(arena, (count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = arena_strdup(arena, list[i]);
    *ret_count = count;
    return copy;
}

struct box *box_make(const struct backend_ops *ops, struct backend *backend, const struct record *record) {
    struct box *box = calloc(1, sizeof *box);
    struct arena *arena = calloc(1, sizeof *arena);
    if (!box || !arena)
        abort();
    const struct spec *from = &record->spec;
    struct spec spec = *from;
    size_t count;
    spec.user = box->user = arena_strdup(arena, from->user);
    spec.thread = box->thread = from->thread ? arena_strdup(arena, from->thread) : NULL;
    spec.template_name = arena_strdup(arena, from->template_name);
    spec.shell = from->shell ? arena_strdup(arena, from->shell) : NULL;
    spec.env = (const char **)(void *)copy_list(arena, from->env, &spec.env_count);
    struct mount *mounts = arena_alloc(arena, (from->mount_count + 1) * sizeof *mounts);
    for (size_t i = 0; i < from->mount_count; i++)
        mounts[i] = (struct mount){.source = arena_strdup(arena, from->mounts[i].source),
                                   .target = arena_strdup(arena, from->mounts[i].target),
                                   .read_only = from->mounts[i].read_only};
    spec.mounts = mounts;
    box->spec = spec;
    memcpy(box->id, from->id, sizeof box->id);
    box->ops = ops;
    box->backend = backend;
    box->arena = arena;
    box->labels = copy_list(arena, (const char *const *)record->labels, &count);
    box->created_ms = record->created_ms;
    box->idle_timeout_ms = record->idle_timeout_ms;
    box->pidfd = -1;
    box->state = BOX_STARTING;
    atomic_init(&box->refs, 1);
    atomic_init(&box->last_used_ms, clock_wall_ms());
    return box;
}

struct box *box_again(const struct box *box) {
    struct record record = {.spec = box->spec,
                            .labels = box->labels,
                            .created_ms = box->created_ms,
                            .idle_timeout_ms = box->idle_timeout_ms};
    return box_make(box->ops, box->backend, &record);
}

void provider_put(struct provider *provider, struct box *box) {
    (void)provider;
    if (!box)
        return;
    atomic_store(&box->last_used_ms, clock_wall_ms()); /* it was used until now */
    box_unref(box);
}

void provider_look_end(struct provider *provider, struct box *box) {
    (void)provider;
    if (box)
        box_unref(box);
}

void box_unref(struct box *box) {
    if (atomic_fetch_sub(&box->refs, 1) != 1)
        return;
    wire_unref(box->wire);
    fd_close(&box->pidfd);
    arena_done(box->arena);
    free(box->arena);
    free(box);
}

/* ---- the table ---- */

static struct slot **slot_find_locked(struct provider *provider, const char *id) {
    struct slot **slot = &provider->buckets[strtoul((char[]){id[0], id[1], id[2], 0}, NULL, 16) % SLOT_BUCKETS];
    while (*slot && strcmp((*slot)->id, id) != 0)
        slot = &(*slot)->next;
    return slot;
}

struct slot *slot_get_locked(struct provider *provider, const char *id) {
    return *slot_find_locked(provider, id);
}

struct slot *slot_add_locked(struct provider *provider, struct box *box) {
    struct slot **at = slot_find_locked(provider, box->id);
    struct slot *slot = calloc(1, sizeof *slot);
    if (!slot)
        abort();
    memcpy(slot->id, box->id, sizeof slot->id);
    slot->box = box;
    *at = slot;
    provider->count++;
    return slot;
}

static void slot_remove_locked(struct provider *provider, const char *id) {
    struct slot **at = slot_find_locked(provider, id), *slot = *at;
    *at = slot->next;
    provider->count--;
    box_unref(slot->box);
    free(slot);
}

struct slot *slot_settled_locked(struct provider *provider, const char *id, bool died_is_settled) {
    for (;;) {
        struct slot *slot = *slot_find_locked(provider, id);
        if (!slot || (slot->box->state != BOX_STARTING && slot->box->state != BOX_CLOSING) ||
            (died_is_settled && slot->box->died[0]))
            return slot;
        pthread_cond_wait(&provider->changed, &provider->lock);
    }
}

static void slot_state_locked(struct provider *provider, struct slot *slot, enum box_state state) {
    slot->box->state = state;
    pthread_cond_broadcast(&provider->changed);
}

static struct box *slot_use_locked(struct slot *slot) {
    struct box *box = slot->box;
    atomic_fetch_add(&box->refs, 1);
    atomic_store(&box->last_used_ms, clock_wall_ms());
    if (box->state == BOX_WARM)
        box->state = BOX_READY;
    return box;
}

/* ---- starting ---- */

/* The slot's box is STARTING and ours; without the lock. fresh: there was nothing before. On failure the slot goes
 * (fresh) or stays as it was, without a runner. */
static int slot_start(struct provider *provider, struct slot *slot, bool fresh, struct box **ret_box, struct err *err) {
    struct box *old = slot->box, *box = fresh ? old : box_again(old);
    struct wire *wire = NULL;
    int pidfd = -1, r = 0;
    if (!fresh && old->died[0] && !slot->cleaned) /* mounts and processes of the runner that died */
        r = old->ops->stop(old->backend, old->id, true, err);
    if (r == 0)
        r = box->ops->start(box->backend, &box->spec, &wire, &pidfd, err);
    if (r == 0 && fresh && !box->spec.one_shot && (r = record_write(provider->boxes_fd, box, err)) < 0) {
        struct err ignored;
        wire_unref(wire);
        fd_close(&pidfd);
        box->ops->stop(box->backend, box->id, false, &ignored);
    }
    pthread_mutex_lock(&provider->lock);
    if (r == 0) {
        box->wire = wire;
        box->pidfd = pidfd;
        slot->box = box;
        slot->cleaned = false;
        slot_state_locked(provider, slot, BOX_READY);
        *ret_box = slot_use_locked(slot);
        table_watch_locked(provider, box);
    } else if (fresh) {
        pthread_cond_broadcast(&provider->changed);
        slot_remove_locked(provider, slot->id);
    } else {
        slot_state_locked(provider, slot, BOX_WARM);
    }
    pthread_mutex_unlock(&provider->lock);
    if (!fresh)
        box_unref(r == 0 ? old : box);
    return r;
}

static bool slot_runs_locked(const struct slot *slot) {
    return slot->box->wire && !slot->box->died[0];
}

/* ---- acquire ---- */

static bool same_owner(const struct box *box, const char *user, const char *thread) {
    return strcmp(box->user, user) == 0 && (thread ? box->thread && strcmp(box->thread, thread) == 0 : !box->thread);
}

/* A box for the request, not yet started. */
static int request_box(struct provider *provider, const struct box_request *request, const char *id,
                       struct box **ret_box, struct err *err) {
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    autoarena arena;
    arena_init(&arena);
    struct record record = {.labels = (char **)(void *)request->labels, .created_ms = clock_wall_ms()};
    const char *name = request->backend ? request->backend : provider->default_backend;
    int r = table_backend(provider, name, &ops, &backend, err);
    struct policy policy = provider->policy;
    if (r == 0 && ops->no_limits)
        policy.default_limits = (struct limits){.output_bytes = policy.default_limits.output_bytes};
    if (r == 0)
        r = policy_spec(&policy, request, id, &arena, &record.spec, err);
    if (r < 0)
        return r;
    record.idle_timeout_ms = request->has_idle_timeout ? request->idle_timeout_ms : provider->policy.idle_timeout_ms;
    *ret_box = box_make(ops, backend, &record);
    return 0;
}

static int request_id(const struct box_request *request, char id[17], struct err *err) {
    int r = policy_user(request->user ? request->user : "default", err);
    if (r < 0)
        return r;
    if (request->thread && request->thread_len > LIMIT_THREAD_BYTES)
        return err_set(err, ERR_INVALID, "thread must be at most %u bytes", LIMIT_THREAD_BYTES);
    if (request->thread)
        policy_id(request->user ? request->user : "default", request->thread, request->thread_len, id);
    else
        policy_random_id(id);
    return 0;
}

/* The box is there: hand it out, or give it a new runner. Called with the lock, returns without it. */
static int acquire_existing_locked(struct provider *provider, struct slot *slot, const struct box_request *request,
                                   struct box **ret_box, struct err *err) {
    struct box *box = slot->box;
    const char *user = request->user ? request->user : "default";
    autoarena arena;
    arena_init(&arena);
    const char *thread = request->thread ? arena_copy(&arena, request->thread, request->thread_len) : NULL;
    int r = 0;
    bool starts = false;
    if (!same_owner(box, user, thread)) {
        r = err_set(err, ERR_EXISTS, "the id of this user and thread, %s, is already another box's", box->id);
    } else if (slot_runs_locked(slot) && wire_alive(box->wire)) {
        *ret_box = slot_use_locked(slot);
    } else {
        if (!box->died[0] && box->wire)
            snprintf(box->died, sizeof box->died, "its runner is gone");
        box->state = BOX_STARTING;
        starts = true;
    }
    pthread_mutex_unlock(&provider->lock);
    return starts ? slot_start(provider, slot, false, ret_box, err) : r;
}

int provider_acquire(struct provider *provider, const struct box_request *request, struct box **ret_box,
                     bool *ret_created, struct err *err) {
    char id[17];
    int r = request_id(request, id, err);
    if (r < 0)
        return r;
    if (request->thread)
        table_load(provider, id); /* another daemon on the same state directory may have made it */
    struct box *box = NULL;
    pthread_mutex_lock(&provider->lock);
    struct slot *slot = slot_settled_locked(provider, id, false);
    if (!slot) { /* checking the request touches the disk: not under the lock */
        pthread_mutex_unlock(&provider->lock);
        r = request_box(provider, request, id, &box, err);
        if (r < 0)
            return r;
        pthread_mutex_lock(&provider->lock);
        slot = slot_settled_locked(provider, id, false);
    }
    if (slot) {
        r = acquire_existing_locked(provider, slot, request, ret_box, err);
        if (box)
            box_unref(box);
        *ret_created = r < 0 ? *ret_created : false;
        return r;
    }
    if (provider->count >= LIMIT_BOXES) {
        pthread_mutex_unlock(&provider->lock);
        box_unref(box);
        return err_set(err, ERR_LIMIT, "there are %u boxes, which is the limit; delete some", LIMIT_BOXES);
    }
    slot = slot_add_locked(provider, box);
    pthread_mutex_unlock(&provider->lock);
    r = slot_start(provider, slot, true, ret_box, err);
    *ret_created = r < 0 ? *ret_created : true;
    return r;
}

/* ---- get, release, destroy ---- */

static int no_box(const char *id, struct err *err) {
    return err_set(err, ERR_NOT_FOUND, "no box '%.40s'", id);
}

static bool owned(const struct slot *slot, const char *user) {
    return slot && (!user || strcmp(slot->box->user, user) == 0);
}

int provider_get(struct provider *provider, const char *user, const char *id, struct box **ret_box, struct err *err) {
    if (!text_id(id))
        return no_box(id, err);
    int r = 0;
    bool starts = false;
    pthread_mutex_lock(&provider->lock);
    struct slot *slot = slot_settled_locked(provider, id, true);
    if (!slot) {
        pthread_mutex_unlock(&provider->lock);
        table_load(provider, id);
        pthread_mutex_lock(&provider->lock);
        slot = slot_settled_locked(provider, id, true);
    }
    if (!owned(slot, user)) {
        r = no_box(id, err);
    } else if (slot->box->died[0]) {
        r = err_set(err, ERR_GONE, "box %s: %s; its files are kept", id, slot->box->died);
    } else if (slot->box->wire) {
        *ret_box = slot_use_locked(slot);
    } else { /* stopped for idleness, or not running when the daemon came: its files are there, it goes on */
        slot->box->state = BOX_STARTING;
        starts = true;
    }
    pthread_mutex_unlock(&provider->lock);
    return starts ? slot_start(provider, slot, false, ret_box, err) : r;
}

int provider_look(struct provider *provider, const char *user, const char *id, struct box **ret_box, struct err *err) {
    if (!text_id(id))
        return no_box(id, err);
    table_load(provider, id);
    pthread_mutex_lock(&provider->lock);
    struct slot *slot = slot_get_locked(provider, id);
    bool found = owned(slot, user);
    if (found) {
        *ret_box = slot->box;
        atomic_fetch_add(&slot->box->refs, 1);
    }
    pthread_mutex_unlock(&provider->lock);
    return found ? 0 : no_box(id, err);
}

int provider_release(struct provider *provider, struct box *box, struct err *err) {
    (void)err;
    pthread_mutex_lock(&provider->lock);
    if (box->state == BOX_READY)
        box->state = BOX_WARM;
    pthread_mutex_unlock(&provider->lock);
    return 0;
}

int provider_destroy(struct provider *provider, const char *user, const char *id, struct err *err) {
    if (!text_id(id))
        return no_box(id, err);
    table_load(provider, id);
    pthread_mutex_lock(&provider->lock);
    struct slot *slot = slot_settled_locked(provider, id, false);
    if (!owned(slot, user)) {
        pthread_mutex_unlock(&provider->lock);
        return no_box(id, err);
    }
    struct box *box = slot->box;
    slot_state_locked(provider, slot, BOX_CLOSING);
    pthread_mutex_unlock(&provider->lock);
    if (box->wire)
        wire_kill(box->wire, "the box was deleted");
    record_remove(provider->boxes_fd, id);
    int r = box->ops->stop(box->backend, id, false, err);
    pthread_mutex_lock(&provider->lock);
    if (r == 0) {
        pthread_cond_broadcast(&provider->changed);
        slot_remove_locked(provider, id);
    } else {
        snprintf(box->died, sizeof box->died, "it was deleted but something remains");
        slot->cleaned = true;
        slot_state_locked(provider, slot, BOX_WARM);
    }
    pthread_mutex_unlock(&provider->lock);
    return r;
}

/* ---- looking ---- */

int provider_each(struct provider *provider, int (*each)(void *user, struct box *box), void *user) {
    pthread_mutex_lock(&provider->lock);
    struct box **boxes = calloc(provider->count + 1, sizeof *boxes);
    if (!boxes)
        abort();
    size_t count = 0;
    for (size_t i = 0; i < SLOT_BUCKETS; i++)
        for (struct slot *slot = provider->buckets[i]; slot; slot = slot->next) {
            boxes[count++] = slot->box;
            atomic_fetch_add(&slot->box->refs, 1);
        }
    pthread_mutex_unlock(&provider->lock);
    int r = 0;
    for (size_t i = 0; i < count; i++) {
        if (r >= 0)
            r = each(user, boxes[i]);
        box_unref(boxes[i]); /* being listed is not being used: last_used stays */
    }
    free(boxes);
    return r;
}

void provider_count(struct provider *provider, struct provider_counts *ret_counts) {
    *ret_counts = (struct provider_counts){0};
    pthread_mutex_lock(&provider->lock);
    for (size_t i = 0; i < SLOT_BUCKETS; i++)
        for (struct slot *slot = provider->buckets[i]; slot; slot = slot->next)
            for (size_t b = 0; backend_table[b]; b++)
                if (backend_table[b] == slot->box->ops)
                    ret_counts->by_backend_state[b][slot->box->state]++;
    pthread_mutex_unlock(&provider->lock);
}

void provider_info(struct provider *provider, struct json *json) {
    json_open(json, '[');
    for (size_t i = 0; backend_table[i]; i++) {
        json_open(json, '{');
        json_key(json, "name");
        json_str(json, backend_table[i]->name);
        json_key(json, "default");
        json_bool(json, strcmp(backend_table[i]->name, provider->default_backend) == 0);
        const struct backend_ops *ops;
        struct backend *backend = NULL;
        struct err ignored; /* info tells what is missing */
        table_backend(provider, backend_table[i]->name, &ops, &backend, &ignored);
        if (backend_table[i]->info)
            backend_table[i]->info(provider->env, backend, json);
        json_close(json, '}');
    }
    json_close(json, ']');
}
