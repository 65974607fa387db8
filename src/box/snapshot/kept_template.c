/* Templates made of kept layers. Called by dialects, and by layer.c. Invariant: the layers are held before the file
 * names them, and let go of after it is gone; so a daemon that is killed in between leaves at worst a layer that the
 * next one sweeps. */
#include "box/snapshot/kept_template.h"

#include <pthread.h>

#include "base/base.h"
#include "base/sync.h"
#include "box/snapshot/layer.h"
#include "box/snapshot/snapshot.h"
#include "rows/write.h"

#define KEPT_FILE_BYTES (KEPT_TEXT_BYTES * 7)
enum { KEPT_MOST = 4096 };
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER; /* one that is held is not removed meanwhile */

/* ---- files ---- */

static int kept_dir(struct provider *provider, struct err *err) {
    char path[4200];
    snprintf(path, sizeof path, "%s/kept", provider->env->state_dir);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return record_errno(err, errno, "STATE/kept");
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_errno(err, errno, "STATE/kept") : fd;
}

static void kept_owner(char owner[LAYER_OWNER_BYTES], const char *id) {
    snprintf(owner, LAYER_OWNER_BYTES, KEPT_PREFIX "%.16s", id);
}

static const struct row kept_rows[] = {OUT_INT("created_ms", kept_template, created_ms, NULL),
                                       OUT_ROW("user", TEXT, kept_template, user, ROW_REQUIRED, NULL),
                                       OUT_ROW("backend", TEXT, kept_template, backend, ROW_REQUIRED, NULL),
                                       OUT_ROW("template", TEXT, kept_template, template_name, ROW_REQUIRED, NULL),
                                       OUT_ROW("text", TEXT, kept_template, text, ROW_REQUIRED, NULL),
                                       OUT_ROW("layers", TEXTS, kept_template, layers, ROW_REQUIRED, NULL),
                                       {0}};

static int kept_write(struct provider *provider, const struct kept_template *kept, struct err *err) {
    if (strlen(kept->text) > KEPT_TEXT_BYTES)
        return err_set(err, ERR_TOO_LARGE, "what is kept of a template has at most %u bytes", KEPT_TEXT_BYTES);
    autofd dir = kept_dir(provider, err);
    return dir < 0 ? dir
                   : record_file_write(dir, text_make(24, "%.16s.json", kept->id), kept_rows, kept, KEPT_FILE_BYTES,
                                       "a kept template", err);
}

int kept_template_read(struct provider *provider, const char *id, struct arena *arena, struct kept_template *ret_kept,
                       struct err *err) {
    struct kept_template kept = {0};
    const char *what = text_make(40, "STATE/kept/%.16s.json", id);
    autofd dir = text_id(id) ? kept_dir(provider, err) : -ERR_NOT_FOUND;
    int r = dir < 0
                ? dir
                : record_file_read(dir, strrchr(what, '/') + 1, kept_rows, &kept, KEPT_FILE_BYTES, what, arena, err);
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "no template '%.40s'", id);
    if (r == 0 && !record_ids(kept.layers, LIMIT_LAYERS))
        r = err_set(err, ERR_IO, "%s is damaged: its member 'layers' is not valid", what);
    text_id_copy(kept.id, id);
    if (r == 0)
        *ret_kept = kept;
    return r;
}

static int kept_newer(const void *a, const void *b) {
    const struct kept_template *x = a, *y = b;
    if (x->created_ms != y->created_ms)
        return x->created_ms > y->created_ms ? -1 : 1;
    return strcmp(y->id, x->id);
}

int kept_template_list(struct provider *provider, const char *user, struct arena *arena,
                       struct kept_template **ret_kept, size_t *ret_count, struct err *err) {
    struct kept_template *list = NULL;
    size_t count = 0, cap = 0;
    autofd fd = kept_dir(provider, err);
    if (fd < 0)
        return fd;
    autodir *dir = fd_opendir(fd, ".", 0);
    for (struct dirent *entry; (entry = fd_readdir(dir));) {
        char id[17];
        struct err ignored;
        struct kept_template kept;
        snprintf(id, sizeof id, "%.16s", entry->d_name);
        if (strlen(entry->d_name) != 21 || strcmp(entry->d_name + 16, ".json") != 0 || !text_id(id) ||
            kept_template_read(provider, id, arena, &kept, &ignored) < 0 || (user && strcmp(kept.user, user) != 0))
            continue;
        arena_add(arena, list, count, cap) = kept;
    }
    if (count)
        qsort(list, count, sizeof *list, kept_newer);
    *ret_kept = list;
    *ret_count = count;
    return 0;
}

int kept_template_change(struct provider *provider, const char *id, const char *text, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct kept_template kept;
    autolock(&kept_lock);
    TRY(kept_template_read(provider, id, &arena, &kept, err));
    kept.text = text;
    return kept_write(provider, &kept, err);
}

/* ---- making ---- */

struct keeping {
    const char *text;
    struct arena *arena;
    struct kept_template *ret_kept;
};

static int kept_create_work(void *argument, struct work *work, struct err *err) {
    struct keeping *keeping = argument;
    struct box *box = work->box;
    char owner[LAYER_OWNER_BYTES];
    struct kept_template kept = {.created_ms = clock_wall_ms(),
                                 .user = box->user,
                                 .backend = box->ops->name,
                                 .template_name = work->record.spec.template_name,
                                 .text = keeping->text};
    policy_random_id(kept.id);
    kept_owner(owner, kept.id);
    TRY(snapshot_take(work, owner, box->user, &kept.layers, err));
    int r = kept_write(work->provider, &kept, err);
    if (r < 0) {
        layer_release_all(work->provider, box->ops, box->backend, kept.layers, owner);
        return r;
    }
    kept.user = arena_strdup(keeping->arena, kept.user);
    kept.template_name = arena_strdup(keeping->arena, kept.template_name);
    kept.layers = arena_list(keeping->arena, kept.layers, NULL);
    *keeping->ret_kept = kept;
    return 0;
}

static int kept_room(struct provider *provider, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct kept_template *all;
    size_t count;
    TRY(kept_template_list(provider, NULL, &arena, &all, &count, err));
    if (count >= KEPT_MOST)
        return err_set(err, ERR_LIMIT, "there are %u kept templates, which is the limit; delete some", KEPT_MOST);
    return 0;
}

int kept_template_create(struct provider *provider, const char *user, const char *box_id, const char *text,
                         struct arena *arena, struct kept_template *ret_kept, struct err *err) {
    struct keeping keeping = {.text = text, .arena = arena, .ret_kept = ret_kept};
    TRY(kept_room(provider, err) ?: provider_work(provider, user, box_id, kept_create_work, &keeping, err));
    squash_want(provider, box_id, text_list_count(ret_kept->layers));
    return 0;
}

int kept_template_copy(struct provider *provider, const struct kept_template *like, const char *text,
                       struct arena *arena, struct kept_template *ret_kept, struct err *err) {
    static const char *none[] = {NULL};
    struct kept_template kept = *like;
    const struct backend_ops *ops;
    struct backend *backend;
    char owner[LAYER_OWNER_BYTES];
    autolock(&kept_lock);
    TRY(kept_room(provider, err) ?: provider_backend(provider, like->backend, &ops, &backend, err));
    TRY(like->id[0] ? kept_template_read(provider, like->id, arena, &kept, err) : 0);
    kept.created_ms = clock_wall_ms();
    kept.text = text;
    if (!like->id[0])
        kept.layers = none;
    policy_random_id(kept.id);
    kept_owner(owner, kept.id);
    TRY(layer_hold_all(provider, kept.layers, owner, err));
    int r = kept_write(provider, &kept, err);
    if (r < 0)
        layer_release_all(provider, ops, backend, kept.layers, owner);
    else
        *ret_kept = kept;
    return r;
}

/* ---- using ---- */

/* The owner lets go of the layers. */
static int kept_release(struct provider *provider, const struct kept_template *kept, const char *owner,
                        struct err *err) {
    const struct backend_ops *ops;
    struct backend *backend;
    TRY(provider_backend(provider, kept->backend, &ops, &backend, err));
    layer_release_all(provider, ops, backend, kept->layers, owner);
    return 0;
}

int kept_template_remove(struct provider *provider, const char *id, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct kept_template kept;
    const struct backend_ops *ops;
    struct backend *backend;
    char owner[LAYER_OWNER_BYTES];
    autolock(&kept_lock);
    TRY(kept_template_read(provider, id, &arena, &kept, err)
            ?: provider_backend(provider, kept.backend, &ops, &backend, err));
    autofd dir = kept_dir(provider, err);
    if (dir < 0)
        return dir;
    if (unlinkat(dir, text_make(24, "%.16s.json", id), 0) < 0)
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "no template '%.40s'", id)
                               : err_errno(err, errno, "STATE/kept/%.16s.json", id);
    kept_owner(owner, id);
    return kept_release(provider, &kept, owner, err);
}

int kept_template_hold(struct provider *provider, const char *id, const char *box_id, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct kept_template kept;
    autolock(&kept_lock);
    return kept_template_read(provider, id, &arena, &kept, err) ?: layer_hold_all(provider, kept.layers, box_id, err);
}

void kept_template_let_go(struct provider *provider, const char *id, const char *box_id) {
    autoarena arena = ARENA_EMPTY;
    struct kept_template kept;
    autolock(&kept_lock);
    if (kept_template_read(provider, id, &arena, &kept, ERR_IGNORED) == 0)
        kept_release(provider, &kept, box_id, ERR_IGNORED);
}
