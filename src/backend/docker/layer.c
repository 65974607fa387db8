/* Files of a container box kept as a layer: an image at the engine, cubby-HOME8/layer:LAYER, with the container's
 * files, and STATE/layers/LAYER/{fs/workspace, fs/skills, image} with those of this machine. Called by box/ through
 * the backend's verbs, and by a start. Invariants: a layer counts once it has `fs`, which is made last; the box is
 * paused during the copy; the directory is made before the image and removed after it, so that nothing is left
 * unfound.
 *
 * A layer is complete, because an engine's images include their parents. So a box never lies on more than one, and
 * nothing ever moves: its container continues above the image it was made from, whatever was kept of it. */
#include <assert.h>

#include "base/base.h"
#include "tree/copytree.h"
#include "backend/docker/docker.h"

enum {
    SETTINGS_BYTES = 1 << 20,
    COMMIT_MS = 600000,
    DEPTH_MAX = 60 /* engines stack about 125; other images are built on these */
};

/* In a layer's fs, and in a box. Of skills only the upper layer: the kernel's work directory belongs to one mount. The
 * last one says that all are there. */
static const struct { const char *dir, *path; } layer_own[] = {{"skills", "skills/skills"}, {"workspace", "workspace"}};
enum { OWN_FILES = sizeof layer_own / sizeof *layer_own };

static int layer_open(int dir, const char *name, const char *what, struct err *err) {
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "%s '%.40s'", what, name) : fd;
}

void docker_layer_image(const struct backend *backend, const char *layer, char name[DOCKER_LAYER_BYTES]) {
    snprintf(name, DOCKER_LAYER_BYTES, DOCKER_REPOSITORY "%.8s/layer:%.16s", backend->home, layer);
}

bool docker_layer_top(struct backend *backend, const struct spec *spec, char ret_layer[17]) {
    for (size_t i = 0; i < spec->layer_count; i++)
        if (text_id(spec->layers[i]) && docker_exists(backend->layers_fd, spec->layers[i], "fs")) {
            text_id_copy(ret_layer, spec->layers[i]);
            return true;
        }
    return false;
}

/* ---- settings ---- */

/* In the engine's format, so that docker_image_settings reads both. */
static void layer_put_settings(struct json *json, const struct docker_image *image) {
    json_put_texts(json, "Entrypoint", image->entrypoint);
    json_put_texts(json, "Cmd", image->command);
    json_put_texts(json, "Env", image->env);
    json_put_str(json, "WorkingDir", image->working_dir);
}

/* Notes the settings of an image in STATE/layers/LAYER/image. */
static int layer_note(struct backend *backend, const char *layer, const struct docker_image *image, struct err *err) {
    autobuf text = buf_max(SETTINGS_BYTES);
    struct json json = json_begin(&text);
    layer_put_settings(&json, image);
    json_put_str(&json, "User", image->user);
    json_put_str(&json, "Image", image->reference);
    json_close(&json, '}');
    if (text.failed)
        return err_set(err, ERR_TOO_LARGE, "the settings of image '%.100s' are too long", image->reference);
    const char *path = text_make(32, "%.16s/image", layer);
    autofd fd = openat(backend->layers_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, text.data, text.len);
    return r < 0 ? err_errno(err, -r, "the layer %.16s", layer) : 0;
}

static int layer_read(struct backend *backend, const char *layer, struct arena *arena, struct docker_image *ret_image,
                      struct err *err) {
    char *text = xmalloc(SETTINGS_BYTES + 1);
    ssize_t n = fd_read_file(backend->layers_fd, text_make(32, "%.16s/image", layer), text, SETTINGS_BYTES);
    json_t *root = n < 0 ? NULL : json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    struct docker_image image = {.reference = arena_strdup(arena, engine_text(root, "Image"))};
    bool good = root && docker_image_settings(root, arena, &image);
    json_decref(root);
    if (!good)
        return err_set(err, ERR_IO, "the settings of layer %.16s cannot be read", layer);
    *ret_image = image;
    return 0;
}

int docker_layer_get(struct backend *backend, const char *layer, struct arena *arena, struct docker_image *ret_image,
                     struct err *err) {
    char name[DOCKER_LAYER_BYTES];
    struct docker_image image;
    json_auto_t *inspection = NULL;
    docker_layer_image(backend, layer, name);
    int r = layer_read(backend, layer, arena, &image, err) ?: docker_image_inspect(backend, name, &inspection, err);
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_GONE,
                       "the files of this box were kept as image %s, which the engine at %.200s no longer has: it was "
                       "removed there, or this is another engine",
                       name, engine_url(backend->engine));
    const char *id = engine_text(inspection, "Id");
    size_t len = strlen(id);
    if (r == 0 && (len < 12 || len >= sizeof image.id || strspn(id, DOCKER_ID_CHARS) != len))
        r = err_set(err, ERR_PROTOCOL, "the engine describes image '%.100s' without an id", name);
    if (r == 0) {
        memcpy(image.id, id, len + 1);
        *ret_image = image;
    }
    return r;
}

int docker_layer_settings(struct backend *backend, const struct spec *spec, const char *layer, const json_t *inspection,
                          struct arena *arena, struct docker_image *ret_image, size_t *ret_depth, struct err *err) {
    const char *from = engine_text(inspection, "Image");
    struct docker_image image = {.reference = spec->template_name};
    char top[17];
    json_t *made_from = NULL;
    if (strlen(from) < 12 || strlen(from) >= sizeof image.id || strspn(from, DOCKER_ID_CHARS) < strlen(from))
        return err_set(err, ERR_PROTOCOL, "the engine does not say what box %s was made from", spec->id);
    int r = docker_image_inspect(backend, from, &made_from, err);
    if (r < 0)
        return r;
    *ret_depth = json_array_size(engine_value(made_from, "RootFS", "Layers")); /* 0: not reported */
    if (docker_layer_top(backend, spec, top))
        r = layer_read(backend, top, arena, &image, err);
    else if (!docker_image_settings(json_object_get(made_from, "Config"), arena, &image))
        r = err_set(err, ERR_PROTOCOL, "the engine returned an invalid description of image '%.100s'", from);
    json_decref(made_from);
    if (r == 0)
        r = layer_note(backend, layer, &image, err);
    if (r == 0)
        *ret_image = image;
    return r;
}

int docker_layer_whole(const json_t *inspection, struct err *err) {
    const json_t *mount;
    size_t i;
    json_array_foreach(json_object_get(inspection, "Mounts"), i, mount) {
        const char *path = engine_text(mount, "Destination");
        if (*path && strcmp(engine_text(mount, "Type"), "volume") == 0 && strcmp(path, DOCKER_RUN) != 0)
            return err_set(err, ERR_UNSUPPORTED,
                           "'%.200s' is a volume (of the image, or because its root is read-only): data in volumes is "
                           "not part of an image and would be lost; use an image without VOLUME",
                           path);
    }
    return 0;
}

/* ---- kept ---- */

enum backend_files docker_files(struct backend *backend, const char *id) {
    struct err ignored;
    json_auto_t *inspection = NULL;
    bool has = docker_exists(backend->boxes_fd, id, "workspace") ||
               docker_inspect(backend, id, &inspection, &ignored) != -ERR_NOT_FOUND;
    return has ? FILES_BUSY : FILES_UNCHANGED;
}

/* Writes the image's settings, because the engine would write the container's own, which are the runner's. */
static int layer_commit(struct backend *backend, const struct spec *spec, const char *layer,
                        const struct docker_image *image, struct err *err) {
    const char *const none[] = {"-", NULL};
    struct docker_image said = *image;
    char name[DOCKER_NAME_BYTES];
    autobuf body = buf_max(SETTINGS_BYTES);
    if (!*said.entrypoint && !*said.command)
        said.command = none; /* an empty list would be filled with the runner's words */
    struct json json = json_begin(&body);
    layer_put_settings(&json, &said);
    json_put_str(&json, "User", *image->user ? image->user : "0");
    json_put_open(&json, "Labels", '{');
    json_put_str(&json, DOCKER_LABEL_HOME, backend->home);
    json_put_str(&json, DOCKER_LABEL_USER, spec->user);
    json_close(&json, '}');
    json_close(&json, '}');
    if (!buf_cstr(&body))
        return err_set(err, ERR_TOO_LARGE, "the settings of image '%.100s' are too long", image->reference);
    docker_name(backend, name, spec->id);
    const char *path = text_make(200, "/commit?container=%s&repo=" DOCKER_REPOSITORY "%.8s/layer&tag=%.16s&pause=0",
                                 name, backend->home, layer);
    const struct http_call call = {.method = "POST",
                                   .path = path,
                                   .body = (const char *)body.data,
                                   .body_len = strlen((const char *)body.data),
                                   .timeout_ms = COMMIT_MS};
    return engine_call(backend->engine, &call, "keeping the container's files", NULL, err);
}

/* The container was removed: tags what the next one would be made from. */
static int layer_tag(struct backend *backend, const struct spec *spec, const char *layer, struct arena *arena,
                     struct err *err) {
    struct docker_image image;
    TRY(docker_image_get(backend, spec, arena, &image, err) ?: layer_note(backend, layer, &image, err));
    const char *path = arena_printf(arena, "/images/%s/tag?repo=" DOCKER_REPOSITORY "%.8s/layer&tag=%.16s", image.id,
                                    backend->home, layer);
    return engine_json(backend->engine, "POST", path, NULL, "keeping the box's image", NULL, err);
}

static int layer_copy(struct backend *backend, const char *id, int layer_dir, uint64_t *ret_bytes, struct err *err) {
    autofd box = layer_open(backend->boxes_fd, id, "the directory of box", err);
    if (box < 0)
        return box;
    if (mkdirat(layer_dir, "part", 0755) < 0)
        return err_errno(err, errno, "the layer");
    autofd part = layer_open(layer_dir, "part", "the layer", err);
    if (part < 0)
        return part;
    for (size_t i = 0; i < OWN_FILES; i++) {
        struct copied copied = {0};
        autofd from = openat(box, layer_own[i].path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (from < 0 && errno == ENOENT)
            continue;
        if (from < 0 || mkdirat(part, layer_own[i].dir, 0700) < 0)
            return err_errno(err, errno, "the box's files");
        autofd to = layer_open(part, layer_own[i].dir, "the layer's", err);
        TRY(to < 0 ? to : copytree(from, to, &copied, err));
        *ret_bytes += copied.bytes;
    }
    return renameat2(layer_dir, "part", layer_dir, "fs", RENAME_NOREPLACE) < 0 ? err_errno(err, errno, "the layer") : 0;
}

int docker_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
                struct err *err) {
    autoarena arena = ARENA_EMPTY;
    json_t *inspection = NULL;
    struct docker_image image;
    size_t depth = 0;
    uint64_t bytes = 0, ignored;
    assert(!move); /* docker_files never offers it */
    autofd dir = layer_open(backend->layers_fd, layer, "the layer", err);
    if (dir < 0)
        return dir;
    docker_still_end(backend, spec->id); /* left by an engine that was away */
    uint64_t begin_us = clock_us();
    int r = docker_inspect(backend, spec->id, &inspection, err);
    bool runs = r == 0 && docker_running(inspection);
    if (r == 0) {
        r = docker_layer_whole(inspection, err)
        ?: docker_layer_settings(backend, spec, layer, inspection, &arena, &image, &depth, err)
        ?: docker_still(backend, spec->id, inspection, err);
        if (r == 0) /* a deep stack becomes one layer, because an engine's stacks are limited */
            r = depth < DEPTH_MAX ? layer_commit(backend, spec, layer, &image, err)
                                  : docker_flatten(backend, spec, layer, &image, 0, &ignored, err);
    } else if (r == -ERR_NOT_FOUND) {
        r = layer_tag(backend, spec, layer, &arena, err);
    }
    if (r == 0)
        r = layer_copy(backend, spec->id, dir, &bytes, err);
    docker_still_end(backend, spec->id);
    json_decref(inspection);
    if (r == 0)
        *ret_kept = (struct kept){.method = "commit", .pause_us = runs ? clock_us() - begin_us : 0, .bytes = bytes};
    return r;
}

/* ---- given back ---- */

/* Makes one of layer_own in box_dir, with the layer's files. Skills lie one deeper, next to the kernel's work
 * directory. */
static int layer_lay_one(struct backend *backend, int layer_fs, int stage, int box_dir, size_t i, struct err *err) {
    const char *dir = layer_own[i].dir;
    struct copied copied;
    autofd from = layer_fs < 0 ? -1 : openat(layer_fs, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 && i != OWN_FILES - 1) /* only the last one is made without files */
        return 0;
    if (mkdirat(stage, dir, 0755) < 0 ||
        fchmodat(stage, dir, 0755, 0) < 0) /* whatever our umask: the box's users pass */
        return err_errno(err, errno, "the box's %s", dir);
    autofd to = layer_open(stage, dir, "the box's", err);
    int r = to < 0 ? to : from < 0 ? 0 : copytree(from, to, &copied, err);
    if (r == 0)
        r = trash_put(backend->trash, box_dir, dir, err);
    if (r < 0)
        return r;
    if ((strcmp(dir, layer_own[i].path) != 0 && mkdirat(box_dir, dir, 0700) < 0) ||
        renameat(stage, dir, box_dir, layer_own[i].path) < 0)
        return err_errno(err, errno, "the box's %s", dir);
    return 0;
}

int docker_layer_lay(struct backend *backend, const struct spec *spec, int box_dir, struct err *err) {
    char layer[17], path[32];
    autofd fs = -1;
    if (faccessat(box_dir, layer_own[OWN_FILES - 1].path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    int r = trash_put(backend->trash, box_dir, "lay", err); /* of a daemon that was killed here */
    if (r < 0)
        return r;
    if (docker_layer_top(backend, spec, layer)) {
        snprintf(path, sizeof path, "%.16s/fs", layer);
        fs = layer_open(backend->layers_fd, path, "the layer", err);
        if (fs < 0)
            return fs;
    }
    if (mkdirat(box_dir, "lay", 0700) < 0)
        return err_errno(err, errno, "the directory of box '%s'", spec->id);
    autofd stage = layer_open(box_dir, "lay", "the box's", err);
    r = stage < 0 ? stage : 0;
    for (size_t i = 0; r == 0 && i < OWN_FILES; i++)
        r = layer_lay_one(backend, fs, stage, box_dir, i, err);
    if (r == 0)
        unlinkat(box_dir, "lay", AT_REMOVEDIR);
    return r;
}

/* ---- thrown away ---- */

int docker_fresh(struct backend *backend, const struct spec *spec, struct err *err) {
    autofd box = layer_open(backend->boxes_fd, spec->id, "the directory of box", err);
    if (box < 0)
        return box;
    struct docker_record record = {.container = "-"}, ignored;
    int r = docker_record_read(backend, spec->id, &ignored) == -ENOENT
                ? 0
                : backend_docker.stop(backend, spec->id, true, err);
    if (r == 0)
        r = docker_remove(backend, spec->id, err);
    if (r == 0)
        r = docker_aside_drop(backend, spec->id, err);
    for (size_t i = 0; r == 0 && i < OWN_FILES; i++) /* first the one whose presence says that all are there */
        r = trash_put(backend->trash, box, layer_own[OWN_FILES - 1 - i].dir, err);
    return r == 0 ? docker_record_write(backend, spec->id, &record, err) : r;
}

int docker_drop_layer(struct backend *backend, const char *layer, struct err *err) {
    char name[DOCKER_LAYER_BYTES], path[96];
    if (!text_id(layer))
        return err_set(err, ERR_INVALID, "'%.40s' is not a layer", layer);
    docker_layer_image(backend, layer, name);
    snprintf(path, sizeof path, "/images/%s", name);
    int r = 0;
    if (backend->home[0]) /* else there never was a box, nor an image of one */
        r = engine_json(backend->engine, "DELETE", path, NULL, "removing the image of a layer", NULL, err);
    return r < 0 && r != -ERR_NOT_FOUND ? r : trash_put(backend->trash, backend->layers_fd, layer, err);
}
