/* The clean-up. Called by the daemon's main instead of serving. Invariant: it works only while it is alone on the state
 * directory; it needs no record to be right, because what is on the disk goes whatever its record says. */
#include "box/provider/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "tree/removal.h"
#include "backend/quota/store.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "box/provider/statelock.h"

struct cleanup {
    const struct backend_env *env;
    void (*each)(void *user, const char *what);
    void *user;
    unsigned left;
    const struct backend_ops *ops; /* the one being cleaned, and its state */
    struct backend *backend;
    char (*layers)[17]; /* that were kept, whoever's */
    size_t layer_count;
};

static void end_box(void *user, const char *id) {
    struct cleanup *cleanup = user;
    struct err err;
    char text[64];
    if (cleanup->ops->stop(cleanup->backend, id, false, &err) < 0) {
        log_warn("box %s: %s", id, err.text);
        cleanup->left++;
        return;
    }
    snprintf(text, sizeof text, "box %s", id);
    cleanup->each(cleanup->user, text);
}

/* Whose a layer is, is not written on it: every backend drops what it has of each. */
static void clean_layers(struct cleanup *cleanup) {
    struct err err;
    for (size_t i = 0; cleanup->ops->drop_layer && i < cleanup->layer_count; i++)
        if (cleanup->ops->drop_layer(cleanup->backend, cleanup->layers[i], &err) < 0)
            log_warn("layer %s: %s", cleanup->layers[i], err.text);
}

static void clean_backend(struct cleanup *cleanup, const struct backend_ops *ops) {
    struct err err;
    cleanup->ops = ops;
    int failed = ops->open(cleanup->env, &cleanup->backend, &err);
    if (failed < 0) {                   /* then what it may have left is looked for below */
        if (failed != -ERR_UNSUPPORTED) /* it has nothing on this machine */
            log_warn("backend %s: %s", ops->name, err.text);
        return;
    }
    if (ops->list(cleanup->backend, end_box, cleanup, &err) < 0)
        log_warn("backend %s: %s", ops->name, err.text);
    clean_layers(cleanup);
    if (ops->clean)
        ops->clean(cleanup->backend, cleanup->each, cleanup->user);
    ops->close(cleanup->backend); /* waits for the files */
}

static void list_layers(struct cleanup *cleanup, int state) {
    int fd = openat(state, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (!text_id(entry->d_name))
            continue;
        if ((cleanup->layer_count & (cleanup->layer_count - 1)) == 0) { /* grows to the next power of two */
            size_t room = cleanup->layer_count ? cleanup->layer_count * 2 : 1;
            cleanup->layers = xrealloc(cleanup->layers, room * sizeof *cleanup->layers);
        }
        text_id_copy(cleanup->layers[cleanup->layer_count++], entry->d_name);
    }
    if (dir)
        closedir(dir);
}

/* What is in a directory of the state after all that. */
static void clean_directory(struct cleanup *cleanup, int state, const char *name) {
    int fd = openat(state, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a link leads into the store */
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char text[320];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(text, sizeof text, "%s/%s", name, entry->d_name);
        int r = removal_tree(dirfd(dir), entry->d_name);
        if (r == 0) {
            cleanup->each(cleanup->user, text);
            continue;
        }
        log_warn("%s cannot be removed: %s", text, strerror(-r));
        cleanup->left++;
    }
    if (dir)
        closedir(dir);
}

int cleanup_run(const struct backend_env *env, void (*each)(void *user, const char *what), void *user,
                unsigned *ret_left, struct err *err) {
    struct cleanup cleanup = {.env = env, .each = each, .user = user};
    struct statelock lock = {.fd = -1};
    autofd state = open(env->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return err_errno(err, errno, "state directory '%s'", env->state_dir);
    if (faccessat(state, "live", F_OK, 0) == 0) /* they lock their boxes in another way, and clean up themselves */
        return err_set(err, ERR_INVALID, "'%s' holds the boxes of `cubby run`, not a daemon's", env->state_dir);
    int r = statelock_open(&lock, state, err);
    if (r == 0)
        r = statelock_alone(&lock, err);
    struct store *store = NULL;
    if (r == 0)
        r = store_open(env, &store, err);
    if (r == 0)
        list_layers(&cleanup, state);
    for (size_t i = 0; r == 0 && backend_table[i]; i++)
        clean_backend(&cleanup, backend_table[i]);
    if (r == 0) {
        clean_directory(&cleanup, state, "boxes");
        clean_directory(&cleanup, state, "layers");
        clean_directory(&cleanup, state, "trash");
        if (store && cleanup.left == 0 && store_remove(store))
            each(user, "the store");
        else
            store_close(store);
        *ret_left = cleanup.left;
    }
    free(cleanup.layers);
    statelock_done(&lock);
    return r;
}
