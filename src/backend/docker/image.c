/* What a box is made from: the image that its spec names, or the layer that its files were kept in. Called by the
 * backend before a container is made. Invariant: an engine is asked for the full form of a name, so that no name is taken
 * for an id; an image that somebody's box became is used for nobody else's. */
#include <string.h>

#include "backend/docker/docker.h"
#include "backend/reference.h"
#include "base/limits.h"

enum { IMAGE_WORDS = 4096 }; /* of one list of its settings */

static bool image_list(const json_t *value, struct arena *arena, const char *const **ret_list) {
    size_t count = json_array_size(value);
    if ((value && !json_is_array(value) && !json_is_null(value)) || count > IMAGE_WORDS)
        return false;
    const char **list = arena_alloc(arena, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(value, i));
        if (!text)
            return false;
        list[i] = arena_strdup(arena, text);
    }
    *ret_list = list;
    return true;
}

static const char *image_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool image_root(const char *user) {
    size_t len = strcspn(user, ":");
    return len == 0 || (len == 1 && user[0] == '0') || (len == 4 && strncmp(user, "root", 4) == 0);
}

bool docker_image_settings(const json_t *config, struct arena *arena, struct docker_image *ret_image) {
    struct docker_image image = *ret_image;
    image.user = arena_strdup(arena, image_text(config, "User"));
    image.working_dir = arena_strdup(arena, image_text(config, "WorkingDir"));
    image.root_user = image_root(image.user);
    if (!image_list(json_object_get(config, "Entrypoint"), arena, &image.entrypoint) ||
        !image_list(json_object_get(config, "Cmd"), arena, &image.command) ||
        !image_list(json_object_get(config, "Env"), arena, &image.env))
        return false;
    *ret_image = image;
    return true;
}

static int image_read(const json_t *inspection, const char *name, const struct spec *spec, struct arena *arena,
                      struct docker_image *ret_image, struct err *err) {
    const char *id = image_text(inspection, "Id");
    struct docker_image image = {.reference = arena_strdup(arena, name)};
    size_t len = strlen(id);
    if (len < 12 || len >= sizeof image.id || strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789:") != len ||
        !docker_image_settings(json_object_get(inspection, "Config"), arena, &image))
        return err_set(err, ERR_PROTOCOL, "the engine describes image '%.100s' in a way that cannot be understood",
                       name);
    memcpy(image.id, id, len + 1);
    if (spec->container.user)
        image.root_user = image_root(spec->container.user);
    *ret_image = image;
    return 0;
}

static int image_inspect(struct backend *backend, const char *name, struct arena *arena, json_t **ret_inspection,
                         struct err *err) {
    return engine_json(backend->engine, "GET", arena_printf(arena, "/images/%s/json", name), NULL,
                       arena_printf(arena, "image '%.100s'", name), ret_inspection, err);
}

/* ---- platforms ---- */

static bool platform_fits(const json_t *inspection, const char *platform, struct arena *arena) {
    const char *variant = image_text(inspection, "Variant");
    const char *is = arena_printf(arena, "%s/%s", image_text(inspection, "Os"), image_text(inspection, "Architecture"));
    size_t len = strlen(is);
    return strncmp(platform, is, len) == 0 &&
           (!platform[len] || (platform[len] == '/' && (!*variant || strcmp(platform + len + 1, variant) == 0)));
}

static int platform_check(struct backend *backend, const json_t *inspection, const char *name, const char *platform,
                          struct arena *arena, struct err *err) {
    const char *os = image_text(inspection, "Os"), *architecture = image_text(inspection, "Architecture");
    struct docker_facts facts;
    if (platform && platform_fits(inspection, platform, arena))
        return 0;
    if (platform)
        return err_set(err, ERR_NOT_FOUND, "image '%.100s' is there for %.20s/%.20s, not for %s", name, os,
                       architecture, platform);
    int r = docker_facts(backend, &facts, err);
    if (r < 0 || (strcmp(os, "linux") == 0 && strcmp(architecture, facts.arch) == 0))
        return r;
    return err_set(
        err, ERR_UNSUPPORTED,
        "image '%.100s' is of a foreign architecture, %.20s/%.20s, and the engine runs linux/%s: name an image "
        "for that, or, where the engine's machine can emulate the other, container.platform",
        name, os, architecture, facts.arch);
}

/* ---- finding ---- */

/* An image that a box became is its user's, whoever gave it another name. */
static int image_private(const json_t *inspection, const struct spec *spec, struct err *err) {
    const json_t *labels = json_object_get(json_object_get(inspection, "Config"), "Labels");
    const char *home = image_text(labels, DOCKER_LABEL_HOME), *user = image_text(labels, DOCKER_LABEL_USER);
    bool ours =
        strlen(home) == 32 && strspn(home, "0123456789abcdef") == 32; /* of any daemon: the engine may have several */
    if (!ours || strcmp(user, spec->user) == 0)
        return 0;
    return err_set(err, ERR_DENIED, "image '%.100s' is what a box became; fork that box instead", spec->template_name);
}

static int image_fetch(struct backend *backend, const struct spec *spec, const struct reference *image,
                       struct arena *arena, json_t **inspection, struct err *err) {
    int r = docker_pull(backend, spec, image, err);
    if (r < 0)
        return r;
    json_decref(*inspection);
    *inspection = NULL;
    return image_inspect(backend, image->full, arena, inspection, err);
}

static int image_find(struct backend *backend, const struct spec *spec, const struct reference *image,
                      struct arena *arena, json_t **inspection, struct err *err) {
    const char *pull = spec->container.pull ? spec->container.pull : "missing";
    const char *platform = spec->container.platform;
    bool never = strcmp(pull, "never") == 0;
    int r = strcmp(pull, "always") == 0 ? -ERR_NOT_FOUND : image_inspect(backend, image->full, arena, inspection, err);
    bool missing = r == -ERR_NOT_FOUND || (r == 0 && platform && !platform_fits(*inspection, platform, arena));
    if (missing && !never)
        return image_fetch(backend, spec, image, arena, inspection, err);
    if (r == -ERR_NOT_FOUND)
        r = err_set(err, ERR_NOT_FOUND,
                    "image '%.100s' is not in the engine, and pull is 'never': load it there, or allow it to be pulled",
                    spec->template_name);
    return r;
}

int docker_image_get(struct backend *backend, const struct spec *spec, struct arena *arena,
                     struct docker_image *ret_image, struct err *err) {
    struct reference image;
    json_t *inspection = NULL;
    char layer[17];
    if (docker_layer_top(backend, spec, layer))
        return docker_layer_get(backend, layer, arena, ret_image, err);
    if (!reference_parse(spec->template_name, arena, &image))
        return err_set(err, ERR_INVALID, "'%.100s' is no name of an image", spec->template_name);
    int r = image_find(backend, spec, &image, arena, &inspection, err);
    if (r == 0)
        r = image_private(inspection, spec, err);
    if (r == 0)
        r = platform_check(backend, inspection, spec->template_name, spec->container.platform, arena, err);
    if (r == 0)
        r = image_read(inspection, spec->template_name, spec, arena, ret_image, err);
    json_decref(inspection);
    return r;
}
