/* Kept layers of jails: files of a box that became a thing of their own, STATE/layers/NAME/fs, in one of the forms of
 * quota.h. The verbs `files`, `keep`, `measure`, `fresh` and `drop_layer` of the backend. Who needs a layer is box/'s business. */
#ifndef CUBBY_BACKEND_LAYER_H
#define CUBBY_BACKEND_LAYER_H

#include "backend/backend.h"

enum backend_files layer_files(struct backend *backend, const char *id);
int layer_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
               struct err *err);
int layer_measure(struct backend *backend, const char *name, bool layer, uint64_t *ret_bytes, struct err *err);
int layer_fresh(struct backend *backend, const struct spec *spec, struct err *err);
int layer_squash(struct backend *backend, const char *layer, const char *const *layers, const atomic_bool *stop,
                 struct err *err);
int layer_drop(struct backend *backend, const char *layer, struct err *err);

#endif
