/* The verb move: a box goes to another machine of its backend. Called by the dialects, and by a thread that empties
 * machines which are draining. Invariant: the record says where the box is; it is written when all of it is at the other
 * machine, and not before (backend/remote/move.c has the steps). */
#include "base/base.h"
#include "base/log.h"
#include "base/sync.h"
#include "box/snapshot/snapshot.h"
#include "box/provider/provider_private.h"

enum { DRAIN_TURN_MS = 2000, DRAIN_AGAIN_MS = 10000 };

struct moving {
    const char *machine; /* NULL: any */
    bool stop;           /* end what runs */
    struct arena *arena;
    struct moved *ret_moved;
};

/* The layers that its snapshots need. */
static const char **move_kept(struct work *work) {
    struct snapshot *snapshots;
    size_t count, total = 0;
    snapshot_read_all(work->provider->boxes_fd, work->box->id, work->arena, &snapshots, &count);
    for (size_t i = 0; i < count; i++)
        total += text_list_count(snapshots[i].layers);
    const char **list = arena_alloc(work->arena, (total + 1) * sizeof *list);
    total = 0;
    for (size_t i = 0; i < count; i++)
        for (const char **layer = snapshots[i].layers; *layer; layer++)
            if (!text_list_has(list, *layer)) {
                list[total++] = *layer;
                list[total] = NULL;
            }
    return list;
}

static int move_work(void *argument, struct work *work, struct err *err) {
    struct moving *moving = argument;
    struct box *box = work->box;
    struct spec *spec = &work->record.spec;
    const char *from = spec->machine, *to = NULL;
    if (!box->ops->move)
        return err_set(err, ERR_UNSUPPORTED, "boxes of backend '%s' stay on this machine; only workers' boxes move",
                       box->ops->name);
    TRY(box->ops->reach(box->backend, &box->spec, err));
    enum backend_files files = box->ops->files(box->backend, box->id);
    bool busy = work->state == BOX_PAUSED || files == FILES_BUSY || atomic_load(&box->refs) > 1 + box->looks;
    if (busy && !moving->stop)
        return err_set(err, ERR_BUSY, "box %s is in use: a box moves when nothing runs in it, or with `stop`", box->id);
    moving->ret_moved->ended = work_processes(box);
    TRY(work_stop(work, "the box moves to another worker", err));
    int r = box->ops->move(box->backend, spec, move_kept(work), moving->machine, work->arena, &to, err);
    if (r == 0) {
        spec->machine = to;
        r = work_record(work, err);
    }
    if (r < 0)
        spec->machine = from;
    struct err own;
    if (box->ops->settle(box->backend, spec, &own) < 0)
        log_warn("box %s: %s", box->id, own.text); /* the next start of the daemon does it */
    if (r < 0)
        return r;
    moving->ret_moved->from = arena_strdup(moving->arena, from);
    moving->ret_moved->to = arena_strdup(moving->arena, to);
    provider_box_event(work->provider, "box_moved", box, arena_printf(work->arena, "from %s to %s", from, to));
    return 0;
}

int provider_move(struct provider *provider, const char *user, const char *id, const char *machine, bool stop,
                  struct arena *arena, struct moved *ret_moved, struct err *err) {
    struct moved moved = {0};
    struct moving moving = {.machine = machine, .stop = stop, .arena = arena, .ret_moved = &moved};
    uint64_t begin_ms = clock_ms();
    TRY(provider_work_long(provider, user, id, move_work, &moving, err));
    moved.duration_ms = clock_ms() - begin_ms;
    *ret_moved = moved;
    return 0;
}

/* ---- machines that are draining ---- */

/* The next box that is to leave its machine and was not tried lately. */
static bool move_due_locked(struct provider *provider, char ret_id[17]) {
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next) {
            const struct box *box = place->box;
            if (!box->ops->move || place_marked(place) || place->move_ms > clock_ms() ||
                !box->ops->leaving(box->backend, &box->spec))
                continue;
            place->move_ms = clock_ms() + DRAIN_AGAIN_MS;
            text_id_copy(ret_id, place->id);
            return true;
        }
    return false;
}

static void *move_main(void *argument) {
    struct provider *provider = argument;
    char id[17];
    autolock(&provider->lock);
    while (!provider->ending) {
        while (!provider->ending && move_due_locked(provider, id)) {
            autoarena arena = ARENA_EMPTY;
            struct moved moved;
            struct err err;
            pthread_mutex_unlock(&provider->lock);
            if (provider_move(provider, NULL, id, NULL, false, &arena, &moved, &err) < 0)
                log_info("box %s stays on its draining worker: %s", id, err.text);
            pthread_mutex_lock(&provider->lock);
        }
        if (!provider->ending)
            cond_wait_until(&provider->move, &provider->lock, clock_ms() + DRAIN_TURN_MS);
    }
    return NULL;
}

void move_begin(struct provider *provider) {
    provider->mover = thread_joined(move_main, provider, PROVIDER_STACK_BYTES);
}

void move_end(struct provider *provider) {
    pthread_mutex_lock(&provider->lock);
    pthread_cond_signal(&provider->move);
    pthread_mutex_unlock(&provider->lock);
    pthread_join(provider->mover, NULL);
}
