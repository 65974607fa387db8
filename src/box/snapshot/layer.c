/* Counting who needs a layer. Called by snapshot.c and by the provider when it begins. Invariant: the rules in layer.h;
 * a layer that any record names is never removed. */
#include "box/snapshot/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "box/policy.h"
#include "box/snapshot/snapshot.h"

enum { LAYER_PATH_BYTES = 17 + 6 + LAYER_OWNER_BYTES };

const char *layer_owner(const char *id, const char *snapshot, char text[LAYER_OWNER_BYTES]) {
    snprintf(text, LAYER_OWNER_BYTES, "%.16s%s%.64s", id, snapshot ? ":" : "", snapshot ? snapshot : "");
    return text;
}

static void put_path(char path[LAYER_PATH_BYTES], const char *layer, const char *owner) {
    snprintf(path, LAYER_PATH_BYTES, "%.16s/refs%s%.81s", layer, *owner ? "/" : "", owner);
}

/* Nobody's box says so of a layer that is swept. */
static int note_backend(struct provider *provider, const char *layer, const struct backend_ops *ops) {
    char path[40];
    if (!ops->whole_layers)
        return 0;
    snprintf(path, sizeof path, "%.16s/backend", layer);
    autofd fd = openat(provider->layers_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd_write_all(fd, ops->name, strlen(ops->name));
}

int layer_new(struct provider *provider, const struct backend_ops *ops, const char *owner, char ret_layer[17],
              struct err *err) {
    char layer[17], path[LAYER_PATH_BYTES];
    policy_random_id(layer);
    put_path(path, layer, "");
    if (mkdirat(provider->layers_fd, layer, 0700) < 0 || mkdirat(provider->layers_fd, path, 0700) < 0)
        return record_errno(err, errno, "a new layer");
    int r = note_backend(provider, layer, ops);
    r = r < 0 ? err_errno(err, -r, "a new layer") : layer_hold(provider, layer, owner, err);
    if (r == 0)
        memcpy(ret_layer, layer, sizeof layer);
    return r;
}

int layer_hold(struct provider *provider, const char *layer, const char *owner, struct err *err) {
    char path[LAYER_PATH_BYTES];
    put_path(path, layer, owner);
    int fd = openat(provider->layers_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return record_errno(err, errno, "a layer");
    close(fd);
    return 0;
}

bool layer_held(struct provider *provider, const char *layer, const char *owner) {
    char path[LAYER_PATH_BYTES];
    put_path(path, layer, owner);
    return faccessat(provider->layers_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool layer_has_files(struct provider *provider, const char *layer) {
    char path[32];
    snprintf(path, sizeof path, "%.16s/fs", layer);
    return faccessat(provider->layers_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Nobody holds it: it goes, unless somebody has come meanwhile or is just doing the same. */
static void remove_unheld(struct provider *provider, const struct backend_ops *ops, struct backend *backend,
                          const char *layer) {
    char path[LAYER_PATH_BYTES];
    struct err err;
    put_path(path, layer, "");
    if (unlinkat(provider->layers_fd, path, AT_REMOVEDIR) == 0 && ops->drop_layer(backend, layer, &err) < 0)
        log_warn("layer %s: %s", layer, err.text); /* the next daemon that is alone tries again */
}

void layer_release(struct provider *provider, const struct backend_ops *ops, struct backend *backend, const char *layer,
                   const char *owner) {
    char path[LAYER_PATH_BYTES];
    put_path(path, layer, owner);
    unlinkat(provider->layers_fd, path, 0);
    remove_unheld(provider, ops, backend, layer);
}

int layer_hold_all(struct provider *provider, const char *const *layers, const char *owner, struct err *err) {
    for (size_t i = 0; layers && layers[i]; i++) {
        int r = layer_hold(provider, layers[i], owner, err);
        if (r < 0)
            return r;
    }
    return 0;
}

void layer_release_all(struct provider *provider, const struct backend_ops *ops, struct backend *backend,
                       const char *const *layers, const char *owner) {
    for (size_t i = 0; layers && layers[i]; i++)
        layer_release(provider, ops, backend, layers[i], owner);
}

/* ---- sizes ---- */

/* The backend of a layer, which may not be there any more: then it stays. */
static struct backend *layer_backend(struct provider *provider, const char *layer, const struct backend_ops **ret_ops) {
    char path[40], name[32] = "";
    struct backend *backend = NULL;
    struct err err;
    snprintf(path, sizeof path, "%.16s/backend", layer);
    bool noted = fd_read_file(provider->layers_fd, path, name, sizeof name - 1) > 0;
    for (size_t i = 0; backend_table[i] && !backend; i++) {
        const struct backend_ops *ops = backend_table[i];
        bool fits = noted ? strcmp(ops->name, name) == 0 : !ops->whole_layers;
        if (fits && ops->drop_layer && table_backend(provider, ops->name, ret_ops, &backend, &err) < 0)
            backend = NULL;
    }
    return backend;
}

int layer_note(struct provider *provider, const char *layer, uint64_t bytes, struct err *err) {
    char path[32], text[24];
    snprintf(path, sizeof path, "%.16s/bytes", layer);
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    autofd fd = openat(provider->layers_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
    return r < 0 ? record_errno(err, -r, "a layer") : 0;
}

/* One that was never measured is now; of a damaged or empty note nothing is known. */
static uint64_t layer_bytes(struct provider *provider, const char *layer) {
    char path[32], text[24] = "";
    uint64_t bytes = 0;
    struct err err;
    const struct backend_ops *ops = NULL;
    snprintf(path, sizeof path, "%.16s/bytes", layer);
    if (fd_read_file(provider->layers_fd, path, text, sizeof text - 1) > 0 && text_u64(text, UINT64_MAX >> 1, &bytes))
        return bytes;
    struct backend *backend = layer_has_files(provider, layer) ? layer_backend(provider, layer, &ops) : NULL;
    if (!backend || !ops->measure || ops->measure(backend, layer, true, &bytes, &err) < 0)
        return 0;
    layer_note(provider, layer, bytes, &err);
    return bytes;
}

static DIR *refs_open(struct provider *provider, const char *layer) {
    char path[LAYER_PATH_BYTES];
    put_path(path, layer, "");
    int fd = openat(provider->layers_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? NULL : fdopendir(fd);
}

bool layer_lonely(struct provider *provider, const char *layer, const char *id) {
    DIR *dir = refs_open(provider, layer);
    bool lonely = dir;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        lonely &= entry->d_name[0] == '.' || strcmp(entry->d_name, id) == 0;
    if (dir)
        closedir(dir);
    return lonely;
}

struct layer_sums layer_sum(struct provider *provider, const char *user, const char *id) {
    struct layer_sums sums = {0};
    int fd = openat(provider->layers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *layers = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *layer; layers && (layer = readdir(layers));) {
        DIR *refs = text_id(layer->d_name) ? refs_open(provider, layer->d_name) : NULL;
        bool of_user = false, of_box = false;
        for (struct dirent *entry; refs && (entry = readdir(refs));) {
            char owner[17];
            snprintf(owner, sizeof owner, "%.16s", entry->d_name);
            of_box |= id && strcmp(owner, id) == 0;
            pthread_mutex_lock(&provider->lock);
            const struct place *place = text_id(owner) ? place_get_locked(provider, owner) : NULL;
            of_user |= place && strcmp(place->box->user, user) == 0;
            pthread_mutex_unlock(&provider->lock);
        }
        uint64_t bytes = refs ? layer_bytes(provider, layer->d_name) : 0;
        sums.all += bytes;
        sums.box += of_box ? bytes : 0;
        sums.user += of_user || of_box ? bytes : 0;
        if (refs)
            closedir(refs);
    }
    if (layers)
        closedir(layers);
    return sums;
}

/* ---- the sweep ---- */

static bool names_layer(const char *const *layers, const char *layer) {
    for (size_t i = 0; layers && layers[i]; i++)
        if (strcmp(layers[i], layer) == 0)
            return true;
    return false;
}

/* Whether the record of the owner says that it needs the layer. One that cannot be read might. */
static bool owner_needs(struct provider *provider, const char *owner, const char *layer) {
    autoarena arena = ARENA_EMPTY;
    char id[17];
    struct err err;
    size_t len = strcspn(owner, ":");
    snprintf(id, sizeof id, "%.*s", (int)(len < sizeof id ? len : sizeof id - 1), owner);
    if (!text_id(id))
        return false;
    if (owner[len]) {
        struct snapshot snapshot;
        int r = snapshot_read(provider->boxes_fd, id, owner + len + 1, &arena, &snapshot, &err);
        return r == 0 ? names_layer(snapshot.layers, layer) : r != -ERR_NOT_FOUND;
    }
    struct record record;
    int r = record_read(provider->boxes_fd, id, &arena, &record, &err);
    return r == 0 ? names_layer(record.spec.layers, layer) : record_exists(provider->boxes_fd, id);
}

static void sweep_layer(struct provider *provider, const char *layer) {
    const struct backend_ops *ops = NULL;
    struct backend *backend = layer_backend(provider, layer, &ops);
    char path[LAYER_PATH_BYTES];
    if (!backend)
        return;
    put_path(path, layer, "");
    int fd = openat(provider->layers_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && !owner_needs(provider, entry->d_name, layer))
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    else
        mkdirat(provider->layers_fd, path, 0700); /* its last owner was let go of, and then the daemon ended */
    remove_unheld(provider, ops, backend, layer);
}

void layer_sweep(struct provider *provider) {
    int fd = openat(provider->layers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (text_id(entry->d_name))
            sweep_layer(provider, entry->d_name);
    if (dir)
        closedir(dir);
}
