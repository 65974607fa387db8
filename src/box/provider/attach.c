/* Additions to a box's own spec (box_hooks.contribute): attached trees, and mounts. Called by place.c at each start,
 * and through provider_attach while it runs. Invariant: a layer that some box has mounted is named by its record
 * before it could count as unused. */
#include "base/base.h"
#include "base/log.h"
#include "box/network.h"
#include "box/provider/provider_private.h"

static bool attach_same(const char *const *a, const char *const *b) {
    size_t count = text_list_count(a);
    if (count != text_list_count(b))
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(a[i], b[i]) != 0)
            return false;
    return true;
}

/* Whether its programs must trust the seal: it has a secret, or an inspected host. */
static bool attach_trusts(struct provider *provider, const struct box *box, const struct spec *spec, bool secrets) {
    return provider->hooks.seal.mounts && !spec->machine && !box->ops->no_limits &&
           (secrets || (spec->network == NETWORK_POLICY && network_inspects(provider, spec->user, spec->policy)));
}

/* Such a box gets the files that make its programs trust the seal. */
static int attach_trust(struct provider *provider, const struct box *box, struct spec *spec, struct arena *arena,
                        struct err *err) {
    const struct seal_hooks *seal = &provider->hooks.seal;
    size_t count = 0, before = spec->mount_count;
    spec->trusts = attach_trusts(provider, box, spec, atomic_load(&box->bindings));
    if (!spec->trusts)
        return 0;
    struct mount *mounts = arena_alloc(arena, (before + SEAL_MOUNTS + 1) * sizeof *mounts);
    if (before)
        memcpy(mounts, spec->mounts, before * sizeof *mounts);
    TRY(seal->mounts(seal->user, spec, arena, mounts + before, &count, err));
    spec->mounts = mounts;
    spec->mount_count = before + count;
    return 0;
}

void attached_trust(struct work *work) {
    const struct seal_hooks *seal = &work->provider->hooks.seal;
    struct box *box = work->box;
    struct spec *spec = &work->record.spec;
    struct mount mounts[SEAL_MOUNTS];
    size_t count = 0;
    struct err err = {0};
    if (atomic_load(&box->trusts) || !box->wire || box->died[0] || !box->ops->mount ||
        !attach_trusts(work->provider, box, spec, spec->bindings && spec->bindings[0]))
        return;
    if (seal->mounts(seal->user, spec, work->arena, mounts, &count, &err) < 0 ||
        box->ops->mount(box->backend, box->id, mounts, count, &err) < 0) {
        log_info("box %s: %s", box->id, err.text);
        return;
    }
    spec->trusts = true;
    atomic_store(&box->trusts, true);
    if (work_record(work, &err) < 0)
        log_warn("box %s: %s", box->id, err.text);
}

int attached_spec(struct provider *provider, const struct box *box, const struct spec *from, struct arena *arena,
                  struct spec *ret_spec, struct err *err) {
    struct spec spec = *from;
    spec.attached.unsure = false;
    const struct box_hooks *hooks = &provider->hooks;
    bool mounts = backend_attaches(box->ops, box->backend, from);
    int r = hooks->contribute ? hooks->contribute(hooks->user, mounts, &spec, arena, err) : 0;
    spec.attached.count = text_list_count(spec.attached.layers);
    if (r == 0 &&
        (spec.attached.count > LIMIT_SKILL_LAYERS || text_list_count(spec.attached.paths) > LIMIT_SKILL_PATHS))
        r = err_set(err, ERR_LIMIT, "box %s: %zu layers are attached, more than %u", spec.id, spec.attached.count,
                    LIMIT_SKILL_LAYERS);
    if (r == 0)
        r = attach_trust(provider, box, &spec, arena, err);
    if (r == 0)
        *ret_spec = spec;
    return r;
}

bool attached_take(struct box *box, const struct spec *spec) {
    bool other = !attach_same(box->spec.attached.layers, spec->attached.layers) ||
                 !attach_same(box->spec.attached.paths, spec->attached.paths) ||
                 box->spec.attached.unsure != spec->attached.unsure;
    if (other || !box->attached_arena) {
        struct arena *arena = xcalloc(1, sizeof *arena), *before = box->attached_arena;
        box->spec.attached.layers = arena_list(arena, spec->attached.layers, &box->spec.attached.count);
        box->spec.attached.paths = arena_list(arena, spec->attached.paths, NULL);
        box->attached_arena = arena;
        box->spec.attached.unsure = spec->attached.unsure;
        if (before)
            arena_done(before);
        free(before);
    }
    atomic_store(&box->attached_generation, spec->attached.generation);
    return other;
}

/* ---- attach ---- */

static void attach_layers(struct work *work, const char **layers, bool unsure) {
    work->record.spec.attached.layers = layers;
    work->record.spec.attached.count = text_list_count(layers);
    work->record.spec.attached.unsure = unsure;
}

/* The record names the new ones before the box has them, and the old ones until it has not: a daemon that is killed
 * between leaves a record that says so, and the next one attaches again. */
static int attach_other(struct work *work, const struct spec *spec, struct err *err) {
    struct box *box = work->box;
    const char **before = work->record.spec.attached.layers;
    bool unsure = work->record.spec.attached.unsure;
    size_t count = text_list_count(before), more = spec->attached.count;
    const char **all = arena_alloc(work->arena, (count + more + 1) * sizeof *all);
    if (more)
        memcpy(all, spec->attached.layers, more * sizeof *all);
    if (count)
        memcpy(all + more, before, count * sizeof *all);
    attach_layers(work, all, true);
    int r = work_record(work, err) ?: box->ops->attach(box->backend, spec, err);
    if (r == 0)
        attach_layers(work, spec->attached.layers, false);
    else
        attach_layers(work, before, unsure);
    struct err own;
    if (work_record(work, &own) < 0 && r == 0) {
        *err = own;
        r = -own.code;
    }
    return r;
}

/* Under the box's lock between daemons: the record says what the box has, whichever daemon attached it. */
static int attach_work(void *argument, struct work *work, struct err *err) {
    struct provider *provider = work->provider;
    struct box *box = work->box, *caller = argument;
    const struct spec *now = &work->record.spec;
    struct spec spec;
    int r = attached_spec(provider, box, now, work->arena, &spec, err);
    if (r < 0)
        return r;
    bool running = box->wire && !box->died[0];
    if (box != caller || !running) /* its next start asks by itself */
        return 0;
    spec.attached.paths = now->attached.paths; /* where they are mounted was decided when it started */
    if (now->attached.unsure || !attach_same(now->attached.layers, spec.attached.layers))
        r = attach_other(work, &spec, err);
    if (r < 0)
        return r;
    autolock(&provider->lock);
    attached_take(box, &spec);
    return 0;
}

int provider_attach(struct provider *provider, struct box *box, uint64_t wait_ms, struct err *err) {
    if (!box->spec.agent)
        return err_set(err, ERR_INVALID, "box %s has no agent, and nothing is attached to it", box->id);
    if (!box_attaches(box))
        return err_set(err, ERR_UNSUPPORTED, "the backend '%s' mounts nothing", box->ops->name);
    TRY(box_alone(box, wait_ms, err));
    int r = provider_work(provider, NULL, box->id, attach_work, box, err);
    box_alone_end(box);
    return r;
}

/* ---- which layers boxes have ---- */

static int attach_each_recorded(struct provider *provider, const char *id, void (*each)(void *user, const char *layer),
                                void *user, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct record record;
    int r = record_read(provider->boxes_fd, id, &arena, &record, err);
    if (r == -ERR_NOT_FOUND) /* not made yet: then what it starts with is of now; or gone */
        return 0;
    for (size_t i = 0; r == 0 && i < record.spec.attached.count; i++)
        each(user, record.spec.attached.layers[i]);
    return r;
}

int provider_before_use(struct provider *provider, struct box *box, struct err *err) {
    const struct box_hooks *hooks = &provider->hooks;
    return hooks->before_use ? hooks->before_use(hooks->user, box, err) : 0;
}

int provider_attached(struct provider *provider, void (*each)(void *user, const char *layer), void *user,
                      struct err *err) {
    pthread_mutex_lock(&provider->lock);
    for (size_t i = 0; i < PLACE_BUCKETS; i++)
        for (struct place *place = provider->buckets[i]; place; place = place->next)
            for (size_t k = 0; !place_marked(place) && k < place->box->spec.attached.count; k++)
                each(user, place->box->spec.attached.layers[k]);
    pthread_mutex_unlock(&provider->lock);
    struct box_ids ids = {0};
    int r = 0;
    adoption_ids(provider, &ids);
    for (size_t i = 0; r == 0 && i < ids.count; i++)
        r = attach_each_recorded(provider, ids.list[i], each, user, err);
    free(ids.list);
    return r;
}
