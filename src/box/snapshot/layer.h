/* Who needs which kept layer. A layer is STATE/layers/NAME (16 hex digits): `fs`, which is the backend's, and `refs`, a
 * directory with an entry for each owner: "BOX" (that box's record names the layer), "BOX:SNAPSHOT" or "kept:ID"
 * (kept_template.h); `backend`, whose it is (those of jails, the first there were, have none); `bytes`, what its files
 * take on the disk, measured once, when a limit first asks: they never change. Sums are derived from these two and
 * nothing else. Private to box/.
 *
 * Rules: 1. The entry is made before any record names the layer, and removed after no record of that owner does. 2.
 * Only a thread that holds a layer through another owner's record, under that box's lock, adds an owner. 3. The process
 * that removes the empty `refs` removes the layer: of two that release it at once just one does, and none can acquire a
 * layer that is being removed. */
#ifndef CUBBY_BOX_LAYER_H
#define CUBBY_BOX_LAYER_H

#include "base/limits.h"
#include "box/provider/provider_private.h"

#define LAYER_OWNER_BYTES (16 + 1 + LIMIT_SNAPSHOT_NAME + 1)

const char *layer_owner(const char *id, const char *snapshot, char text[LAYER_OWNER_BYTES]); /* snapshot may be NULL */
int layer_new(struct provider *provider, const struct backend_ops *ops, const char *owner, char ret_layer[17],
              struct err *err);
int layer_hold(struct provider *provider, const char *layer, const char *owner, struct err *err);
bool layer_held(struct provider *provider, const char *layer, const char *owner);
/* The last one to let go removes it, in the background. */
void layer_release(struct provider *provider, const struct backend_ops *ops, struct backend *backend, const char *layer,
                   const char *owner);
bool layer_has_files(struct provider *provider, const char *layer);
/* Records the size of the layer: before it has its files if that is known, so that others already count it. */
int layer_note(struct provider *provider, const char *layer, uint64_t bytes, struct err *err);
struct layer_sums {
    uint64_t user, box, all; /* bytes; each layer once */
};
/* Of the layers that boxes of `user` or the box `id` (NULL: none) need, in a record or in a snapshot. Reads
 * STATE/layers. */
struct layer_sums layer_sum(struct provider *provider, const char *user, const char *id);
/* Whether only the box itself needs the layer. */
bool layer_only_held_by(struct provider *provider, const char *layer, const char *id);
/* All or none: acquired references are released again on failure. NULL-terminated lists. */
int layer_hold_all(struct provider *provider, const char *const *layers, const char *owner, struct err *err);
void layer_release_all(struct provider *provider, const struct backend_ops *ops, struct backend *backend,
                       const char *const *layers, const char *owner);
/* Those of the first list that the second does not name. */
void layer_release_but(struct provider *provider, const struct backend_ops *ops, struct backend *backend,
                       const char *const *layers, const char *const *kept, const char *owner);
/* Before serving, by the only daemon: removes entries without a record, and unused layers. */
void layer_sweep(struct provider *provider);

/* ---- squash.c: deep stacks of kept layers made shallow, in the background ---- */

#define SQUASH_DEPTH 16 /* layers below a box; each costs a lookup for every name that is opened first */

/* The box lies on so many layers, or (more than SQUASH_DEPTH is passed) on some that may now be needed by nothing
 * else. Cheap; a thread does the work. */
void squash_want(struct provider *provider, const char *id, size_t depth);
bool squash_ready(struct provider *provider, const char *id); /* squash_swap would find something */
/* In the work on a box that does not run: merged layers replace the original ones. */
void squash_swap(struct work *work);
void squash_forget(struct provider *provider, const char *id); /* the box is gone */
void squash_end(struct provider *provider);                    /* before the backends are closed */

#endif
