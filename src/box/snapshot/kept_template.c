/* Templates made of kept layers. Called by dialects, and by layer.c. Invariant: the layers are held before the file
 * names them, and let go of after it is gone; so a daemon that is killed in between leaves at worst a layer that the
 * next one sweeps. */
#include "box/snapshot/kept_template.h"

#include <jansson.h>
#include <pthread.h>

#include "base/base.h"
#include "base/json.h"
#include "base/sync.h"
#include "box/snapshot/layer.h"
#include "box/snapshot/snapshot.h"

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

static void kept_name(char name[24], const char *id) {
    snprintf(name, 24, "%.16s.json", id);
}

static void kept_owner(char owner[LAYER_OWNER_BYTES], const char *id) {
    snprintf(owner, LAYER_OWNER_BYTES, KEPT_PREFIX "%.16s", id);
}

static int kept_write(struct provider *provider, const struct kept_template *kept, struct err *err) {
    char name[24];
    struct json json;
    autobuf out = buf_max(KEPT_FILE_BYTES);
    if (strlen(kept->text) > KEPT_TEXT_BYTES)
        return err_set(err, ERR_TOO_LARGE, "what is kept of a template has at most %u bytes", KEPT_TEXT_BYTES);
    autofd dir = kept_dir(provider, err);
    if (dir < 0)
        return dir;
    json_init(&json, &out);
    json_open(&json, '{');
    json_put_uint(&json, "created_ms", kept->created_ms);
    json_put_str(&json, "user", kept->user);
    json_put_str(&json, "backend", kept->backend);
    json_put_str(&json, "template", kept->template_name);
    json_put_str(&json, "text", kept->text);
    json_put_open(&json, "layers", '[');
    for (const char **layer = kept->layers; *layer; layer++)
        json_str(&json, *layer);
    json_close(&json, ']');
    json_close(&json, '}');
    kept_name(name, kept->id);
    int r = out.failed ? -EFBIG : fd_replace_file(dir, name, out.data, out.len);
    return r < 0 ? record_errno(err, -r, "a kept template") : 0;
}

static bool kept_parse(const char *data, size_t len, struct arena *arena, struct kept_template *kept) {
    json_t *root = json_loadb(data, len, 0, NULL);
    const json_t *layers = json_object_get(root, "layers");
    const char *texts[] = {
        json_string_value(json_object_get(root, "user")), json_string_value(json_object_get(root, "backend")),
        json_string_value(json_object_get(root, "template")), json_string_value(json_object_get(root, "text"))};
    size_t count = json_array_size(layers);
    bool whole = texts[0] && texts[1] && texts[2] && texts[3] && count <= LIMIT_LAYERS;
    kept->layers = arena_alloc(arena, (count + 1) * sizeof *kept->layers);
    for (size_t i = 0; whole && i < count; i++) {
        const char *layer = json_string_value(json_array_get(layers, i));
        whole = layer && text_id(layer);
        kept->layers[i] = arena_strdup_or(arena, layer);
    }
    if (whole) {
        kept->created_ms = (uint64_t)json_integer_value(json_object_get(root, "created_ms"));
        kept->user = arena_strdup(arena, texts[0]);
        kept->backend = arena_strdup(arena, texts[1]);
        kept->template_name = arena_strdup(arena, texts[2]);
        kept->text = arena_strdup(arena, texts[3]);
    }
    json_decref(root);
    return whole;
}

int kept_template_read(struct provider *provider, const char *id, struct arena *arena, struct kept_template *ret_kept,
                       struct err *err) {
    char name[24];
    struct kept_template kept = {0};
    autofd dir = text_id(id) ? kept_dir(provider, err) : err_set(err, ERR_NOT_FOUND, "no template '%.40s'", id);
    if (dir < 0)
        return dir;
    kept_name(name, id);
    char *data = malloc(KEPT_FILE_BYTES);
    ssize_t len = data ? fd_read_file(dir, name, data, KEPT_FILE_BYTES) : -ENOMEM;
    bool whole = len > 0 && kept_parse(data, (size_t)len, arena, &kept);
    free(data);
    if (!whole)
        return len == -ENOENT ? err_set(err, ERR_NOT_FOUND, "no template '%.40s'", id)
                              : err_set(err, ERR_IO, "STATE/kept/%s is damaged", name);
    text_id_copy(kept.id, id);
    *ret_kept = kept;
    return 0;
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
    int r = kept_template_read(provider, id, &arena, &kept, err);
    if (r < 0)
        return r;
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
    int r = snapshot_take(work, owner, box->user, &kept.layers, err);
    if (r < 0)
        return r;
    r = kept_write(work->provider, &kept, err);
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
    int r = kept_template_list(provider, NULL, &arena, &all, &count, err);
    if (r == 0 && count >= KEPT_MOST)
        r = err_set(err, ERR_LIMIT, "there are %u kept templates, which is the limit; delete some", KEPT_MOST);
    return r;
}

int kept_template_create(struct provider *provider, const char *user, const char *box_id, const char *text,
                         struct arena *arena, struct kept_template *ret_kept, struct err *err) {
    struct keeping keeping = {.text = text, .arena = arena, .ret_kept = ret_kept};
    int r = kept_room(provider, err);
    if (r == 0)
        r = provider_work(provider, user, box_id, kept_create_work, &keeping, err);
    if (r == 0)
        squash_want(provider, box_id, text_list_count(ret_kept->layers));
    return r;
}

int kept_template_copy(struct provider *provider, const struct kept_template *like, const char *text,
                       struct arena *arena, struct kept_template *ret_kept, struct err *err) {
    static const char *none[] = {NULL};
    struct kept_template kept = *like;
    const struct backend_ops *ops;
    struct backend *backend;
    char owner[LAYER_OWNER_BYTES];
    autolock(&kept_lock);
    int r = kept_room(provider, err) ?: provider_backend(provider, like->backend, &ops, &backend, err);
    if (r == 0 && like->id[0])
        r = kept_template_read(provider, like->id, arena, &kept, err);
    if (r < 0)
        return r;
    kept.created_ms = clock_wall_ms();
    kept.text = text;
    if (!like->id[0])
        kept.layers = none;
    policy_random_id(kept.id);
    kept_owner(owner, kept.id);
    r = layer_hold_all(provider, kept.layers, owner, err);
    if (r < 0)
        return r;
    r = kept_write(provider, &kept, err);
    if (r < 0)
        layer_release_all(provider, ops, backend, kept.layers, owner);
    else
        *ret_kept = kept;
    return r;
}

int kept_template_remove(struct provider *provider, const char *id, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct kept_template kept;
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    char owner[LAYER_OWNER_BYTES], name[24];
    autolock(&kept_lock);
    int r = kept_template_read(provider, id, &arena, &kept, err);
    if (r == 0)
        r = provider_backend(provider, kept.backend, &ops, &backend, err);
    autofd dir = r == 0 ? kept_dir(provider, err) : r;
    if (dir < 0)
        return dir;
    kept_name(name, id);
    if (unlinkat(dir, name, 0) < 0)
        return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "no template '%.40s'", id)
                               : err_errno(err, errno, "STATE/kept/%s", name);
    kept_owner(owner, id);
    layer_release_all(provider, ops, backend, kept.layers, owner);
    return 0;
}

/* ---- using ---- */

int kept_template_hold(struct provider *provider, const char *id, const char *box_id, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct kept_template kept;
    autolock(&kept_lock);
    int r = kept_template_read(provider, id, &arena, &kept, err);
    return r < 0 ? r : layer_hold_all(provider, kept.layers, box_id, err);
}

void kept_template_let_go(struct provider *provider, const char *id, const char *box_id) {
    autoarena arena = ARENA_EMPTY;
    struct kept_template kept;
    const struct backend_ops *ops = NULL;
    struct backend *backend = NULL;
    struct err ignored;
    autolock(&kept_lock);
    if (kept_template_read(provider, id, &arena, &kept, &ignored) == 0 &&
        provider_backend(provider, kept.backend, &ops, &backend, &ignored) == 0)
        layer_release_all(provider, ops, backend, kept.layers, box_id);
}
