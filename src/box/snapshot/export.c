/* The verb export: what a container has written since its image was made, and that image, become one image of one
 * layer, and the box continues from it. Called by the dialects. Invariant: at every step the disk says what is true;
 * and what the box was made from before goes when it has run from the new image, not earlier.
 *
 *   1. a layer is made, held by the box                      killed here: no record names it, it is swept
 *   2. the backend makes the image, and what runs has ended  the same; the box starts again from its container
 *   3. the box's record names that layer                     its next start is from the image
 *   4. the box is started                                    fails: the record names what it named before, and the old
 *                                                            container, which had stepped aside, continues
 *   5. the layers it lay on before are let go of             killed before: they are swept
 * Where there is no room to start it now (BUSY, LIMIT) it is left at 3. */
#include "box/snapshot/export.h"

#include "base/base.h"
#include "base/log.h"
#include "box/snapshot/layer.h"
#include "box/provider/provider_private.h"

struct export {
    struct export_result result;
    struct arena *arena;
    char layer[17];
    const char **before; /* what the box lay on, NULL-terminated; in arena */
    bool shelved;        /* it was released, or did not run */
};

/* Steps 1 to 3. */
static int export_work(void *argument, struct work *work, struct err *err) {
    struct export *export = argument;
    struct provider *provider = work->provider;
    struct box *box = work->box;
    if (!box->ops->export)
        return err_set(err, ERR_UNSUPPORTED,
                       "a box of backend '%s' has no image that it could be exported to; a snapshot keeps its files",
                       box->ops->name);
    TRY(work->state == BOX_PAUSED ? place_paused(box->id, err) : 0);
    TRY(layer_new(provider, box->ops, box->id, export->layer, err));
    export->before = arena_list(export->arena, work->record.spec.layers, NULL);
    export->shelved = work->state == BOX_WARM;
    uint64_t ended = work_processes(box);
    int r = box->ops->export(box->backend, &work->record.spec, export->layer, &export->result.exported, err);
    bool changed = r == 0 && export->result.exported.changed;
    if (changed) {
        export->result.ended = ended;
        if (box->wire)
            wire_kill(box->wire, "the box was exported");
        work->changed = true;
        record_died_clear(provider->boxes_fd, box->id);
        work_layers(work, (const char *[]){export->layer, NULL});
        r = work_record(work, err);
        work_layers(work, r == 0 ? arena_list(export->arena, work->record.spec.layers, NULL) : export->before);
        work->recorded = r == 0;
    }
    if (r < 0 || !changed)
        layer_release(provider, box->ops, box->backend, export->layer, box->id);
    return r;
}

/* Step 5; the box may have been put onto other layers. */
static int export_done_work(void *argument, struct work *work, struct err *) {
    const struct export *export = argument;
    layer_release_but(work->provider, work->box->ops, work->box->backend, export->before, work->record.spec.layers,
                      work->box->id);
    provider_box_event(work->provider, "box_exported", work->box, export->result.exported.image);
    return 0;
}

static int export_undo_work(void *argument, struct work *work, struct err *err) {
    const struct export *export = argument;
    struct box *box = work->box;
    if (box->wire || !text_list_has(work->record.spec.layers, export->layer))
        return 0; /* it runs after all, or was rolled back */
    work_layers(work, export->before);
    TRY(work_record(work, err));
    work->changed = true;
    layer_release(work->provider, box->ops, box->backend, export->layer, box->id);
    return 0;
}

/* Steps 4 and 5. */
static int export_start(struct provider *provider, const char *user, const char *id, struct export *export,
                        struct err *err) {
    struct box *box = NULL;
    struct err own;
    int r = provider_get(provider, user, id, &box, err);
    if (r == -ERR_BUSY || r == -ERR_LIMIT || r == -ERR_PAUSED)
        return 0;
    if (r == -ERR_NOT_FOUND) /* it has been deleted */
        return r;
    if (provider_work(provider, user, id, r == 0 ? export_done_work : export_undo_work, export, &own) < 0)
        log_warn("box %s: %s", id, own.text);
    if (r == 0 && export->shelved)
        provider_release(provider, box, err);
    provider_put(provider, box);
    return r < 0 ? err_wrap(err, "the box does not run from its new image and is as it was before") : 0;
}

int export_run(struct provider *provider, const char *user, const char *id, struct export_result *ret_result,
               struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct export export = {.arena = &arena};
    uint64_t begin_ms = clock_ms();
    TRY(provider_work_long(provider, user, id, export_work, &export, err));
    TRY(export.result.exported.changed ? export_start(provider, user, id, &export, err) : 0);
    export.result.duration_ms = clock_ms() - begin_ms;
    *ret_result = export.result;
    return 0;
}
