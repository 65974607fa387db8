/* Counting which boxes and snapshots need a layer. Called by snapshot.c and by the provider when it begins.
 * Invariant: the rules in layer.h; a layer that any record names is never removed. */
#include "box/snapshot/layer.h"

#include "base/base.h"
#include "base/log.h"
#include "box/policy.h"
#include "box/snapshot/kept_template.h"
#include "box/snapshot/snapshot.h"

struct layer_path {
    char text[17 + 6 + LAYER_OWNER_BYTES];
};

const char *layer_owner(const char *id, const char *snapshot, char text[LAYER_OWNER_BYTES]) {
    snprintf(text, LAYER_OWNER_BYTES, "%.16s%s%.64s", id, snapshot ? ":" : "", snapshot ? snapshot : "");
    return text;
}

/* A file of a layer: "fs", "bytes", "backend", "refs/OWNER". */
static struct layer_path layer_path(const char *layer, const char *directory, const char *name) {
    struct layer_path path;
    snprintf(path.text, sizeof path.text, "%.16s/%s%.81s", layer, directory, name);
    return path;
}

static bool layer_file(struct provider *provider, struct layer_path path) {
    return faccessat(provider->layers_fd, path.text, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int layer_write(struct provider *provider, struct layer_path path, const char *text) {
    autofd fd = openat(provider->layers_fd, path.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

/* Its owners. */
static DIR *layer_refs(struct provider *provider, const char *layer) {
    return fd_opendir(provider->layers_fd, layer_path(layer, "refs", "").text, O_NOFOLLOW);
}

int layer_new(struct provider *provider, const struct backend_ops *ops, const char *owner, char ret_layer[17],
              struct err *err) {
    char layer[17];
    policy_random_id(layer);
    if (mkdirat(provider->layers_fd, layer, 0700) < 0 ||
        mkdirat(provider->layers_fd, layer_path(layer, "refs", "").text, 0700) < 0)
        return record_errno(err, errno, "a new layer");
    /* The sweep has no box that would name the layer's backend. */
    int r = ops->far_layers ? layer_write(provider, layer_path(layer, "backend", ""), ops->name) : 0;
    r = r < 0 ? err_errno(err, -r, "a new layer") : layer_hold(provider, layer, owner, err);
    if (r == 0)
        memcpy(ret_layer, layer, sizeof layer);
    return r;
}

int layer_hold(struct provider *provider, const char *layer, const char *owner, struct err *err) {
    int r = layer_write(provider, layer_path(layer, "refs/", owner), "");
    return r < 0 ? record_errno(err, -r, "a layer") : 0;
}

bool layer_held(struct provider *provider, const char *layer, const char *owner) {
    return layer_file(provider, layer_path(layer, "refs/", owner));
}

bool layer_has_files(struct provider *provider, const char *layer) {
    return layer_file(provider, layer_path(layer, "fs", ""));
}

/* Unreferenced: it is removed, unless a reference was added or another process is just doing the same. */
static void layer_drop_unheld(struct provider *provider, const struct backend_ops *ops, struct backend *backend,
                              const char *layer) {
    struct err err;
    if (unlinkat(provider->layers_fd, layer_path(layer, "refs", "").text, AT_REMOVEDIR) == 0 &&
        ops->drop_layer(backend, layer, &err) < 0)
        log_warn("layer %s: %s", layer, err.text); /* the next daemon that is alone tries again */
}

void layer_release(struct provider *provider, const struct backend_ops *ops, struct backend *backend, const char *layer,
                   const char *owner) {
    unlinkat(provider->layers_fd, layer_path(layer, "refs/", owner).text, 0);
    layer_drop_unheld(provider, ops, backend, layer);
}

int layer_hold_all(struct provider *provider, const char *const *layers, const char *owner, struct err *err) {
    for (size_t i = 0; layers && layers[i]; i++)
        TRY(layer_hold(provider, layers[i], owner, err));
    return 0;
}

void layer_release_but(struct provider *provider, const struct backend_ops *ops, struct backend *backend,
                       const char *const *layers, const char *const *kept, const char *owner) {
    for (; layers && *layers; layers++)
        if (!text_list_has(kept, *layers))
            layer_release(provider, ops, backend, *layers, owner);
}

void layer_release_all(struct provider *provider, const struct backend_ops *ops, struct backend *backend,
                       const char *const *layers, const char *owner) {
    layer_release_but(provider, ops, backend, layers, NULL, owner);
}

/* ---- sizes ---- */

/* The backend of a layer, which may not be there any more: then it stays. */
static struct backend *layer_backend(struct provider *provider, const char *layer, const struct backend_ops **ret_ops) {
    char name[32] = "";
    struct backend *backend = NULL;
    struct err err;
    const struct layer_path path = layer_path(layer, "backend", "");
    bool noted = fd_read_file(provider->layers_fd, path.text, name, sizeof name - 1) > 0;
    for (size_t i = 0; backend_table[i] && !backend; i++) {
        const struct backend_ops *ops = backend_table[i];
        bool fits = noted ? strcmp(ops->name, name) == 0 : !ops->far_layers;
        if (fits && ops->drop_layer && provider_backend(provider, ops->name, ret_ops, &backend, &err) < 0)
            backend = NULL;
    }
    return backend;
}

int layer_note(struct provider *provider, const char *layer, uint64_t bytes, struct err *err) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    int r = layer_write(provider, layer_path(layer, "bytes", ""), text);
    return r < 0 ? record_errno(err, -r, "a layer") : 0;
}

/* One that was never measured is now; of a damaged or empty note nothing is known. */
static uint64_t layer_bytes(struct provider *provider, const char *layer) {
    char text[24] = "";
    uint64_t bytes = 0;
    struct err err;
    const struct backend_ops *ops = NULL;
    const struct layer_path path = layer_path(layer, "bytes", "");
    if (fd_read_file(provider->layers_fd, path.text, text, sizeof text - 1) > 0 &&
        text_u64(text, UINT64_MAX >> 1, &bytes))
        return bytes;
    struct backend *backend = layer_has_files(provider, layer) ? layer_backend(provider, layer, &ops) : NULL;
    if (!backend || !ops->measure || ops->measure(backend, layer, true, &bytes, &err) < 0)
        return 0;
    layer_note(provider, layer, bytes, &err);
    return bytes;
}

bool layer_only_held_by(struct provider *provider, const char *layer, const char *id) {
    autodir *refs = layer_refs(provider, layer);
    bool only = refs;
    for (struct dirent *entry; (entry = fd_readdir(refs));)
        only &= strcmp(entry->d_name, id) == 0;
    return only;
}

struct layer_sums layer_sum(struct provider *provider, const char *user, const char *id) {
    struct layer_sums sums = {0};
    autodir *layers = fd_opendir(provider->layers_fd, ".", 0);
    for (struct dirent *layer; (layer = fd_readdir(layers));) {
        autodir *refs = text_id(layer->d_name) ? layer_refs(provider, layer->d_name) : NULL;
        bool of_user = false, of_box = false;
        for (struct dirent *entry; (entry = fd_readdir(refs));) {
            autoarena arena = ARENA_EMPTY;
            struct kept_template kept;
            char owner[17];
            snprintf(owner, sizeof owner, "%.16s", entry->d_name);
            of_box |= id && strcmp(owner, id) == 0;
            pthread_mutex_lock(&provider->lock);
            const struct place *place = text_id(owner) ? place_get_locked(provider, owner) : NULL;
            of_user |= place && strcmp(place->box->user, user) == 0;
            pthread_mutex_unlock(&provider->lock);
            of_user |=
                strncmp(entry->d_name, KEPT_PREFIX, strlen(KEPT_PREFIX)) == 0 &&
                kept_template_read(provider, entry->d_name + strlen(KEPT_PREFIX), &arena, &kept, ERR_IGNORED) == 0 &&
                strcmp(kept.user, user) == 0;
        }
        uint64_t bytes = refs ? layer_bytes(provider, layer->d_name) : 0;
        sums.all += bytes;
        sums.box += of_box ? bytes : 0;
        sums.user += of_user || of_box ? bytes : 0;
    }
    return sums;
}

/* ---- the sweep ---- */

/* Whether the record of the owner says that it needs the layer. One that cannot be read might. */
static bool layer_needed(struct provider *provider, const char *owner, const char *layer) {
    autoarena arena = ARENA_EMPTY;
    struct kept_template kept = {0};
    struct snapshot snapshot = {0};
    struct record record = {0};
    char id[17];
    size_t len = strcspn(owner, ":");
    const char *const *layers;
    int r;
    snprintf(id, sizeof id, "%.*s", (int)(len < sizeof id ? len : sizeof id - 1), owner);
    if (strncmp(owner, KEPT_PREFIX, strlen(KEPT_PREFIX)) == 0) {
        r = kept_template_read(provider, owner + strlen(KEPT_PREFIX), &arena, &kept, ERR_IGNORED);
        layers = kept.layers;
    } else if (!text_id(id)) {
        return false;
    } else if (owner[len]) {
        r = snapshot_read(provider->boxes_fd, id, owner + len + 1, &arena, &snapshot, ERR_IGNORED);
        layers = snapshot.layers;
    } else {
        r = record_read(provider->boxes_fd, id, &arena, &record, ERR_IGNORED);
        layers = record.spec.layers;
    }
    return r == 0 ? text_list_has(layers, layer) : r != -ERR_NOT_FOUND;
}

void layer_sweep(struct provider *provider) {
    autodir *layers = fd_opendir(provider->layers_fd, ".", 0);
    for (struct dirent *layer; (layer = fd_readdir(layers));) {
        const struct backend_ops *ops = NULL;
        struct backend *backend = text_id(layer->d_name) ? layer_backend(provider, layer->d_name, &ops) : NULL;
        if (!backend)
            continue;
        autodir *refs = layer_refs(provider, layer->d_name);
        for (struct dirent *entry; (entry = fd_readdir(refs));)
            if (entry->d_name[0] != '.' && !layer_needed(provider, entry->d_name, layer->d_name))
                unlinkat(dirfd(refs), entry->d_name, 0);
        if (!refs) /* its last owner was let go of, and then the daemon ended */
            mkdirat(provider->layers_fd, layer_path(layer->d_name, "refs", "").text, 0700);
        layer_drop_unheld(provider, ops, backend, layer->d_name);
    }
}
