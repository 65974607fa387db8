/* Files of a container box kept as a layer: an image at the engine, cubby-HOME8/layer:LAYER, of what the container has, and
 * STATE/layers/LAYER/{fs/workspace, fs/skills, image} of what lies on this machine. Called by box/ through the backend's
 * verbs, and by a start. Invariant: a layer counts once it has `fs`, which is made last; what it is made from stands
 * still meanwhile; the directory is there before the image and goes after it, so that nothing is left that nobody finds.
 *
 * A layer is whole: an engine's images know what they lie on by themselves. So a box never lies on more than one, and
 * nothing ever moves: its container goes on above the image it was made from, whatever of it was kept. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tree/copytree.h"
#include "backend/docker/docker.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    SETTINGS_BYTES = 1 << 20,
    COMMIT_MS = 600000,
    DEPTH_MAX = 60
}; /* engines stack about 125; others build on these */

/* In a layer's fs, and in a box: where from, where to. Of skills the upper layer alone: what the kernel works in is of one
 * mount. The last one says that all are there. */
static const struct { const char *dir, *path; } own_files[] = {{"skills", "skills/skills"}, {"workspace", "workspace"}};
enum { OWN_FILES = sizeof own_files / sizeof *own_files };

static int open_dir(int dir, const char *name, const char *what, struct err *err) {
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "%s '%.40s'", what, name) : fd;
}

static bool exists(int dir, const char *path) {
    return faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void docker_layer_image(const struct backend *backend, const char *layer, char name[DOCKER_LAYER_BYTES]) {
    snprintf(name, DOCKER_LAYER_BYTES, DOCKER_REPOSITORY "%.8s/layer:%.16s", backend->home, layer);
}

bool docker_layer_top(struct backend *backend, const struct spec *spec, char ret_layer[17]) {
    char path[32];
    for (size_t i = 0; i < spec->layer_count; i++) {
        snprintf(path, sizeof path, "%.16s/fs", spec->layers[i]);
        if (text_id(spec->layers[i]) && exists(backend->layers_fd, path)) {
            text_id_copy(ret_layer, spec->layers[i]);
            return true;
        }
    }
    return false;
}

/* ---- settings ---- */

static void put_list(struct json *json, const char *key, const char *const *list) {
    json_put_open(json, key, '[');
    for (; list && *list; list++)
        json_str(json, *list);
    json_close(json, ']');
}

/* The words of an engine, so that one function reads both. */
static void put_settings(struct json *json, const struct docker_image *image) {
    put_list(json, "Entrypoint", image->entrypoint);
    put_list(json, "Cmd", image->command);
    put_list(json, "Env", image->env);
    json_put_str(json, "WorkingDir", image->working_dir);
}

int docker_layer_note(struct backend *backend, const char *layer, const struct docker_image *image, struct err *err) {
    autobuf text;
    struct json json;
    char path[32];
    buf_init(&text, SETTINGS_BYTES);
    json_init(&json, &text);
    json_open(&json, '{');
    put_settings(&json, image);
    json_put_str(&json, "User", image->user);
    json_put_str(&json, "Image", image->reference);
    json_close(&json, '}');
    if (text.failed)
        return err_set(err, ERR_TOO_LARGE, "the settings of image '%.100s' are too long", image->reference);
    snprintf(path, sizeof path, "%.16s/image", layer);
    autofd fd = openat(backend->layers_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, text.data, text.len);
    return r < 0 ? err_errno(err, -r, "the layer %.16s", layer) : 0;
}

static int read_settings(struct backend *backend, const char *layer, struct arena *arena,
                         struct docker_image *ret_image, struct err *err) {
    char path[32];
    char *text = xmalloc(SETTINGS_BYTES + 1);
    snprintf(path, sizeof path, "%.16s/image", layer);
    ssize_t n = fd_read_file(backend->layers_fd, path, text, SETTINGS_BYTES);
    json_t *root = n < 0 ? NULL : json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    const char *reference = json_string_value(json_object_get(root, "Image"));
    struct docker_image image = {.reference = arena_strdup(arena, reference ? reference : "")};
    bool good = root && docker_image_settings(root, arena, &image);
    json_decref(root);
    if (!good)
        return err_set(err, ERR_IO, "what is noted of layer %.16s cannot be read", layer);
    *ret_image = image;
    return 0;
}

/* The id of an image, and how many layers it has (0: not told). */
static int look_image(struct backend *backend, const char *name, char ret_id[80], size_t *ret_depth,
                      json_t **ret_inspection, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    json_t *inspection = NULL;
    int r = engine_json(backend->engine, "GET", arena_printf(&arena, "/images/%s/json", name), NULL,
                        arena_printf(&arena, "image '%.100s'", name), &inspection, err);
    if (r < 0)
        return r;
    const char *id = json_string_value(json_object_get(inspection, "Id"));
    size_t len = id ? strlen(id) : 0;
    if (len < 12 || len >= 80 || strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789:") != len)
        r = err_set(err, ERR_PROTOCOL, "the engine describes image '%.100s' without an id", name);
    else
        memcpy(ret_id, id, len + 1);
    *ret_depth = json_array_size(json_object_get(json_object_get(inspection, "RootFS"), "Layers"));
    if (r == 0 && ret_inspection)
        *ret_inspection = json_incref(inspection);
    json_decref(inspection);
    return r;
}

int docker_layer_get(struct backend *backend, const char *layer, struct arena *arena, struct docker_image *ret_image,
                     struct err *err) {
    char name[DOCKER_LAYER_BYTES];
    struct docker_image image;
    size_t depth;
    docker_layer_image(backend, layer, name);
    int r = read_settings(backend, layer, arena, &image, err);
    if (r == 0)
        r = look_image(backend, name, image.id, &depth, NULL, err);
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_GONE,
                       "the files of this box were kept as image %s, which the engine at %.200s no longer has: "
                       "somebody removed it there, or this is another engine",
                       name, engine_url(backend->engine));
    if (r == 0)
        *ret_image = image;
    return r;
}

int docker_layer_settings(struct backend *backend, const struct spec *spec, const json_t *inspection,
                          struct arena *arena, struct docker_image *ret_image, size_t *ret_depth, struct err *err) {
    const char *from = json_string_value(json_object_get(inspection, "Image"));
    struct docker_image image = {.reference = spec->template_name};
    char layer[17];
    json_t *looked = NULL;
    if (!from || strlen(from) >= sizeof image.id ||
        strspn(from, "abcdefghijklmnopqrstuvwxyz0123456789:") < strlen(from))
        return err_set(err, ERR_PROTOCOL, "the engine does not tell what box %s was made from", spec->id);
    int r = look_image(backend, from, image.id, ret_depth, &looked, err);
    if (r == 0 && docker_layer_top(backend, spec, layer))
        r = read_settings(backend, layer, arena, &image, err);
    else if (r == 0 && !docker_image_settings(json_object_get(looked, "Config"), arena, &image))
        r = err_set(err, ERR_PROTOCOL, "the engine describes image '%.100s' in a way that cannot be understood", from);
    json_decref(looked);
    if (r == 0)
        *ret_image = image;
    return r;
}

int docker_layer_whole(const json_t *inspection, struct err *err) {
    const json_t *mounts = json_object_get(inspection, "Mounts"), *mount;
    size_t i;
    json_array_foreach(mounts, i, mount) {
        const char *type = json_string_value(json_object_get(mount, "Type"));
        const char *path = json_string_value(json_object_get(mount, "Destination"));
        if (type && path && strcmp(type, "volume") == 0 && strcmp(path, DOCKER_RUN) != 0)
            return err_set(err, ERR_UNSUPPORTED,
                           "'%.200s' is a volume (of the image, or because its root is read-only): what is in volumes "
                           "belongs to no image and would be lost; use an image without VOLUME",
                           path);
    }
    return 0;
}

/* ---- standing still ---- */

static void still_path(const char *id, char path[32]) {
    snprintf(path, 32, "%.16s/still", id);
}

static int set_paused(struct backend *backend, const char *id, bool pause, struct err *err) {
    char name[DOCKER_NAME_BYTES], path[80];
    docker_name(backend, name, id);
    snprintf(path, sizeof path, "/containers/%s/%s", name, pause ? "pause" : "unpause");
    return engine_json(backend->engine, "POST", path, NULL, pause ? "the box's processes" : "letting the box go on",
                       NULL, err);
}

int docker_still(struct backend *backend, const char *id, const json_t *inspection, struct err *err) {
    char path[32];
    if (!docker_running(inspection, NULL) ||
        json_is_true(json_object_get(json_object_get(inspection, "State"), "Paused")))
        return 0;
    still_path(id, path);
    autofd fd = openat(backend->boxes_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_errno(err, errno, "the directory of box '%.16s'", id);
    int r = set_paused(backend, id, true, err);
    if (r < 0 && err->why == WHY_PAUSED && docker_freeze(backend, id))
        return 0;
    if (r < 0) /* it may have been done all the same */
        docker_still_end(backend, id);
    return r;
}

void docker_still_end(struct backend *backend, const char *id) {
    char path[32];
    struct err ignored;
    json_t *inspection = NULL;
    still_path(id, path);
    if (!exists(backend->boxes_fd, path))
        return;
    int r = docker_inspect(backend, id, &inspection, &ignored);
    bool paused = r == 0 && json_is_true(json_object_get(json_object_get(inspection, "State"), "Paused"));
    if (paused)
        r = set_paused(backend, id, false, &ignored);
    json_decref(inspection);
    /* An engine that was killed meanwhile does not know, or is not there to be asked: then the mark stays, because it may
     * believe that the box stands still. */
    if (r < 0 || !paused)
        docker_thaw(backend, id, r < 0);
    if (r == 0 || r == -ERR_NOT_FOUND || r == -ERR_EXISTS)
        unlinkat(backend->boxes_fd, path, 0);
}

void docker_still_kill(struct backend *backend, const char *id) {
    struct docker_record record;
    autofd pidfd = docker_record_read(backend, id, &record) < 0 ? -1 : docker_record_pidfd(&record);
    if (pidfd >= 0) /* waits for it: nothing of it runs again */
        pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    docker_still_end(backend, id);
}

/* ---- kept ---- */

enum backend_files docker_files(struct backend *backend, const char *id) {
    char path[32];
    struct err ignored;
    json_t *inspection = NULL;
    snprintf(path, sizeof path, "%.16s/workspace", id);
    if (exists(backend->boxes_fd, path) || docker_inspect(backend, id, &inspection, &ignored) != -ERR_NOT_FOUND) {
        json_decref(inspection);
        return FILES_BUSY;
    }
    return FILES_UNCHANGED;
}

/* What the engine writes into the image besides: the container's own settings, which are the runner's and not the image's. */
static void put_commit(struct json *json, const struct backend *backend, const struct spec *spec,
                       const struct docker_image *image) {
    const char *const none[] = {"-", NULL};
    struct docker_image said = *image;
    if (!*said.entrypoint && !*said.command)
        said.command = none; /* an empty list would be filled with the runner's words */
    json_open(json, '{');
    put_settings(json, &said);
    json_put_str(json, "User", *image->user ? image->user : "0");
    json_put_open(json, "Labels", '{');
    json_put_str(json, DOCKER_LABEL_HOME, backend->home);
    json_put_str(json, DOCKER_LABEL_USER, spec->user);
    json_close(json, '}');
    json_close(json, '}');
}

static int commit(struct backend *backend, const struct spec *spec, const char *layer, const struct docker_image *image,
                  struct err *err) {
    char name[DOCKER_NAME_BYTES], path[200];
    autobuf body;
    struct json json;
    docker_name(backend, name, spec->id);
    buf_init(&body, SETTINGS_BYTES);
    json_init(&json, &body);
    put_commit(&json, backend, spec, image);
    snprintf(path, sizeof path, "/commit?container=%s&repo=" DOCKER_REPOSITORY "%.8s/layer&tag=%.16s&pause=0", name,
             backend->home, layer);
    const char *text = buf_cstr(&body);
    if (!text)
        return err_set(err, ERR_TOO_LARGE, "the settings of image '%.100s' are too long", image->reference);
    int status = 0;
    struct http_call call = {
        .method = "POST", .path = path, .body = text, .body_len = body.len, .timeout_ms = COMMIT_MS};
    autobuf answer = buf_max(SETTINGS_BYTES);
    int r = engine_do(backend->engine, &call, &status, &answer, err);
    return r < 0 ? r : engine_answer(backend->engine, status, &answer, "keeping the container's files", NULL, err);
}

/* There is no container: somebody removed it. What the next one would be made from, then. */
static int tag(struct backend *backend, const struct spec *spec, const char *layer, struct arena *arena,
               struct err *err) {
    struct docker_image image;
    int r = docker_image_get(backend, spec, arena, &image, err);
    if (r == 0)
        r = docker_layer_note(backend, layer, &image, err);
    if (r < 0)
        return r;
    const char *path = arena_printf(arena, "/images/%s/tag?repo=" DOCKER_REPOSITORY "%.8s/layer&tag=%.16s", image.id,
                                    backend->home, layer);
    return engine_json(backend->engine, "POST", path, NULL, "keeping the box's image", NULL, err);
}

static int copy_files(struct backend *backend, const char *id, int layer_dir, struct copied *ret_copied,
                      struct err *err) {
    autofd box = open_dir(backend->boxes_fd, id, "the directory of box", err);
    if (box < 0)
        return box;
    if (mkdirat(layer_dir, "part", 0755) < 0)
        return err_errno(err, errno, "the layer");
    autofd part = open_dir(layer_dir, "part", "the layer", err);
    if (part < 0)
        return part;
    for (size_t i = 0; i < OWN_FILES; i++) {
        struct copied copied = {0};
        autofd from = openat(box, own_files[i].path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (from < 0 && errno == ENOENT)
            continue;
        if (from < 0 || mkdirat(part, own_files[i].dir, 0700) < 0)
            return err_errno(err, errno, "the box's files");
        autofd to = open_dir(part, own_files[i].dir, "the layer's", err);
        int r = to < 0 ? to : copytree(from, to, &copied, err);
        if (r < 0)
            return r;
        ret_copied->bytes += copied.bytes;
    }
    return renameat2(layer_dir, "part", layer_dir, "fs", RENAME_NOREPLACE) < 0 ? err_errno(err, errno, "the layer") : 0;
}

/* Deep stacks are made one layer on the way: an engine takes no more than so many. */
static int keep_container(struct backend *backend, const struct spec *spec, const char *layer, json_t *inspection,
                          struct arena *arena, struct err *err) {
    struct docker_image image;
    size_t depth = 0;
    uint64_t bytes;
    int r = docker_layer_whole(inspection, err);
    if (r == 0)
        r = docker_layer_settings(backend, spec, inspection, arena, &image, &depth, err);
    if (r == 0)
        r = docker_layer_note(backend, layer, &image, err);
    if (r == 0)
        r = docker_still(backend, spec->id, inspection, err);
    if (r < 0)
        return r;
    return depth < DEPTH_MAX ? commit(backend, spec, layer, &image, err)
                             : docker_flatten(backend, spec, layer, &image, 0, &bytes, err);
}

int docker_keep(struct backend *backend, const struct spec *spec, const char *layer, bool move, struct kept *ret_kept,
                struct err *err) {
    autoarena arena = ARENA_EMPTY;
    json_t *inspection = NULL;
    struct copied copied = {0};
    assert(!move); /* docker_files never says that it could */
    autofd dir = open_dir(backend->layers_fd, layer, "the layer", err);
    if (dir < 0)
        return dir;
    docker_still_end(backend, spec->id); /* of an engine that was away */
    uint64_t begin_us = clock_us();
    int r = docker_inspect(backend, spec->id, &inspection, err);
    bool runs = r == 0 && docker_running(inspection, NULL);
    if (r == 0)
        r = keep_container(backend, spec, layer, inspection, &arena, err);
    else if (r == -ERR_NOT_FOUND)
        r = tag(backend, spec, layer, &arena, err);
    if (r == 0)
        r = copy_files(backend, spec->id, dir, &copied, err);
    docker_still_end(backend, spec->id);
    json_decref(inspection);
    if (r == 0)
        *ret_kept =
            (struct kept){.method = "commit", .pause_us = runs ? clock_us() - begin_us : 0, .bytes = copied.bytes};
    return r;
}

/* ---- given back ---- */

static int lay_one(int layer_fs, int stage, const char *dir, struct err *err) {
    struct copied copied;
    autofd from = layer_fs < 0 ? -1 : openat(layer_fs, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (mkdirat(stage, dir, 0755) < 0 ||
        fchmodat(stage, dir, 0755, 0) < 0) /* whatever our umask: others of the box pass */
        return err_errno(err, errno, "the box's %s", dir);
    autofd to = open_dir(stage, dir, "the box's", err);
    if (to < 0 || from < 0)
        return to < 0 ? to : 0;
    return copytree(from, to, &copied, err);
}

/* skills lies one deeper than its name says, beside what the kernel works in. */
static int lay_all(struct backend *backend, int layer_fs, int box_dir, struct err *err) {
    autofd stage = open_dir(box_dir, "lay", "the box's", err);
    int r = stage < 0 ? stage : 0;
    for (size_t i = 0; r == 0 && i < OWN_FILES; i++) {
        const char *dir = own_files[i].dir;
        bool last = i == OWN_FILES - 1;
        if (!last && (layer_fs < 0 || !exists(layer_fs, dir)))
            continue;
        r = lay_one(layer_fs, stage, dir, err);
        if (r == 0)
            r = trash_put(backend->trash, box_dir, dir, err);
        if (r == 0 && strcmp(dir, own_files[i].path) != 0 && mkdirat(box_dir, dir, 0700) < 0)
            r = err_errno(err, errno, "the box's %s", dir);
        if (r == 0 && renameat(stage, dir, box_dir, own_files[i].path) < 0)
            r = err_errno(err, errno, "the box's %s", dir);
    }
    return r;
}

int docker_layer_lay(struct backend *backend, const struct spec *spec, int box_dir, struct err *err) {
    char layer[17], path[32];
    autofd fs = -1;
    if (exists(box_dir, own_files[OWN_FILES - 1].path))
        return 0;
    int r = trash_put(backend->trash, box_dir, "lay", err); /* of one who was killed here */
    if (r < 0)
        return r;
    if (docker_layer_top(backend, spec, layer)) {
        snprintf(path, sizeof path, "%.16s/fs", layer);
        fs = open_dir(backend->layers_fd, path, "the layer", err);
        if (fs < 0)
            return fs;
    }
    if (mkdirat(box_dir, "lay", 0700) < 0)
        return err_errno(err, errno, "the directory of box '%s'", spec->id);
    r = lay_all(backend, fs, box_dir, err);
    if (r == 0)
        unlinkat(box_dir, "lay", AT_REMOVEDIR);
    return r;
}

/* ---- thrown away ---- */

int docker_fresh(struct backend *backend, const struct spec *spec, struct err *err) {
    autofd box = open_dir(backend->boxes_fd, spec->id, "the directory of box", err);
    if (box < 0)
        return box;
    struct docker_record record = {.container = "-"};
    int r = docker_record_read(backend, spec->id, &record) == -ENOENT
                ? 0
                : backend_docker.stop(backend, spec->id, true, err);
    if (r == 0)
        r = docker_remove(backend, spec->id, err);
    if (r == 0)
        r = docker_aside_drop(backend, spec->id, err);
    for (size_t i = 0; r == 0 && i < OWN_FILES; i++) /* the one that says that all are there first */
        r = trash_put(backend->trash, box, own_files[OWN_FILES - 1 - i].dir, err);
    return r == 0 ? docker_record_write(backend, spec->id, &(struct docker_record){.container = "-"}, err) : r;
}

int docker_drop_layer(struct backend *backend, const char *layer, struct err *err) {
    char name[DOCKER_LAYER_BYTES], path[96];
    if (!text_id(layer))
        return err_set(err, ERR_INVALID, "'%.40s' is no layer", layer);
    docker_layer_image(backend, layer, name);
    snprintf(path, sizeof path, "/images/%s", name);
    int r = backend->home[0] /* else there never was a box, nor an image of one */
                ? engine_json(backend->engine, "DELETE", path, NULL, "removing what was kept of a box", NULL, err)
                : 0;
    if (r < 0 && r != -ERR_NOT_FOUND)
        return r;
    return trash_put(backend->trash, backend->layers_fd, layer, err);
}
