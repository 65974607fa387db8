/* The clean-up. Called by the daemon's main instead of serving. Invariant: it works only while it is alone on the
 * state directory; it needs no valid record, because boxes on the disk are removed whatever their record says. */
#include "box/provider/provider.h"

#include "base/base.h"
#include "base/log.h"
#include "tree/removal.h"
#include "backend/quota/store.h"
#include "box/provider/statelock.h"

struct cleanup {
    const struct backend_env *env;
    void (*each)(void *user, const char *what);
    void *user;
    unsigned left;
    const struct backend_ops *ops; /* the one being cleaned, and its state */
    struct backend *backend;
    char (*layers)[17]; /* that were kept, of all boxes */
    size_t layer_count, layer_cap;
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

static void cleanup_clean_backend(struct cleanup *cleanup, const struct backend_ops *ops) {
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
    /* Whose a layer is, is not written on it: every backend drops what it has of each. */
    for (size_t i = 0; cleanup->ops->drop_layer && i < cleanup->layer_count; i++)
        if (cleanup->ops->drop_layer(cleanup->backend, cleanup->layers[i], &err) < 0)
            log_warn("layer %s: %s", cleanup->layers[i], err.text);
    if (ops->clean)
        ops->clean(cleanup->backend, cleanup->each, cleanup->user);
    ops->close(cleanup->backend); /* waits for the files */
}

/* The remaining content of a directory of the state. */
static void cleanup_clean_directory(struct cleanup *cleanup, int state, const char *name) {
    autodir *dir = fd_opendir(state, name, 0); /* a link leads into the store */
    for (struct dirent *entry; (entry = fd_readdir(dir));) {
        char text[320];
        snprintf(text, sizeof text, "%s/%s", name, entry->d_name);
        int r = removal_tree(dirfd(dir), entry->d_name);
        if (r == 0) {
            cleanup->each(cleanup->user, text);
            continue;
        }
        log_warn("%s cannot be removed: %s", text, strerror(-r));
        cleanup->left++;
    }
}

/* Its directory is closed again before the store, in which it lies, is unmounted. */
static void cleanup_list_layers(struct cleanup *cleanup, int state) {
    autodir *layers = fd_opendir(state, "layers", 0);
    for (struct dirent *entry; (entry = fd_readdir(layers));)
        if (text_id(entry->d_name)) {
            vec_reserve(cleanup->layers, cleanup->layer_count, cleanup->layer_cap, 1);
            text_id_copy(cleanup->layers[cleanup->layer_count++], entry->d_name);
        }
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
    int r = statelock_open(&lock, state, err) ?: statelock_alone(&lock, err);
    struct store *store = NULL;
    if (r == 0)
        r = store_open(env, &store, err);
    if (r == 0)
        cleanup_list_layers(&cleanup, state);
    for (size_t i = 0; r == 0 && backend_table[i]; i++)
        cleanup_clean_backend(&cleanup, backend_table[i]);
    if (r == 0) {
        cleanup_clean_directory(&cleanup, state, "boxes");
        cleanup_clean_directory(&cleanup, state, "layers");
        cleanup_clean_directory(&cleanup, state, "trash");
        if (!store || cleanup.left > 0)
            store_close(store);
        else if (store_remove(store))
            each(user, "the store");
        *ret_left = cleanup.left;
    }
    free(cleanup.layers);
    statelock_done(&lock);
    return r;
}
