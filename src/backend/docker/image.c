/* The source of a box: the image that its spec names, or the layer that holds its files. Called before a container
 * is made. Invariants: an engine gets the full form of a name, so that no name is taken for an id; an image made
 * from a user's box is used for no other user's. */
#include "base/base.h"
#include "backend/docker/docker.h"
#include "backend/reference.h"

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

bool docker_image_settings(const json_t *config, struct arena *arena, struct docker_image *ret_image) {
    struct docker_image image = *ret_image;
    image.user = arena_strdup(arena, engine_text(config, "User"));
    image.working_dir = arena_strdup(arena, engine_text(config, "WorkingDir"));
    if (!image_list(json_object_get(config, "Entrypoint"), arena, &image.entrypoint) ||
        !image_list(json_object_get(config, "Cmd"), arena, &image.command) ||
        !image_list(json_object_get(config, "Env"), arena, &image.env))
        return false;
    *ret_image = image;
    return true;
}

int docker_image_inspect(struct backend *backend, const char *name, json_t **ret_inspection, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    return engine_json(backend->engine, "GET", arena_printf(&arena, "/images/%s/json", name), NULL,
                       arena_printf(&arena, "image '%.100s'", name), ret_inspection, err);
}

static bool image_fits(const json_t *inspection, const char *platform) {
    const char *os = engine_text(inspection, "Os"), *arch = engine_text(inspection, "Architecture");
    const char *variant = engine_text(inspection, "Variant");
    char is[128];
    size_t len = (size_t)snprintf(is, sizeof is, "%.60s/%.60s", os, arch);
    return strncmp(platform, is, len) == 0 &&
           (!platform[len] || (platform[len] == '/' && (!*variant || strcmp(platform + len + 1, variant) == 0)));
}

/* Asks for it, and pulls it where that is needed and allowed. */
static int image_find(struct backend *backend, const struct spec *spec, const struct reference *image,
                      json_t **inspection, struct err *err) {
    const char *pull = spec->container.pull ? spec->container.pull : "missing";
    const char *platform = spec->container.platform;
    int r = strcmp(pull, "always") == 0 ? -ERR_NOT_FOUND : docker_image_inspect(backend, image->full, inspection, err);
    bool missing = r == -ERR_NOT_FOUND || (r == 0 && platform && !image_fits(*inspection, platform));
    if (missing && strcmp(pull, "never") != 0) {
        json_decref(*inspection);
        *inspection = NULL;
        r = docker_pull(backend, spec, image, err);
        return r < 0 ? r : docker_image_inspect(backend, image->full, inspection, err);
    }
    if (r == -ERR_NOT_FOUND)
        r = err_set(err, ERR_NOT_FOUND,
                    "image '%.100s' is not in the engine, and pull is 'never': load it there, or allow pulling",
                    spec->template_name);
    return r;
}

/* Whether this user may use it, and the engine can run it. */
static int image_check(struct backend *backend, const struct spec *spec, const json_t *inspection, struct err *err) {
    const char *name = spec->template_name, *platform = spec->container.platform;
    const char *os = engine_text(inspection, "Os"), *arch = engine_text(inspection, "Architecture");
    const json_t *labels = engine_value(inspection, "Config", "Labels");
    const char *home = engine_text(labels, DOCKER_LABEL_HOME);
    /* An image made from a box is its user's, under whatever name; of any daemon: the engine may serve several. */
    if (strlen(home) == 32 && strspn(home, "0123456789abcdef") == 32 &&
        strcmp(engine_text(labels, DOCKER_LABEL_USER), spec->user) != 0)
        return err_set(err, ERR_DENIED, "image '%.100s' was made from another user's box; fork that box instead", name);
    if (platform)
        return image_fits(inspection, platform)
                   ? 0
                   : err_set(err, ERR_NOT_FOUND, "image '%.100s' is for %.20s/%.20s, not for %s", name, os, arch,
                             platform);
    struct docker_facts facts;
    int r = docker_facts(backend, &facts, err);
    if (r < 0 || (strcmp(os, "linux") == 0 && strcmp(arch, facts.arch) == 0))
        return r;
    return err_set(err, ERR_UNSUPPORTED,
                   "image '%.100s' has a foreign architecture, %.20s/%.20s, and the engine runs linux/%s: use an image "
                   "for that, or set container.platform where the engine's machine can emulate the other",
                   name, os, arch, facts.arch);
}

int docker_image_get(struct backend *backend, const struct spec *spec, struct arena *arena,
                     struct docker_image *ret_image, struct err *err) {
    const char *name = spec->template_name;
    struct docker_image image = {.reference = arena_strdup(arena, name ? name : "")};
    struct reference reference;
    json_auto_t *inspection = NULL;
    char layer[17];
    if (docker_layer_top(backend, spec, layer))
        return docker_layer_get(backend, layer, arena, ret_image, err);
    if (!reference_parse(name, arena, &reference))
        return err_set(err, ERR_INVALID, "'%.100s' is not the name of an image", name);
    int r = image_find(backend, spec, &reference, &inspection, err) ?: image_check(backend, spec, inspection, err);
    const char *id = engine_text(inspection, "Id");
    size_t len = strlen(id);
    if (r == 0 && (len < 12 || len >= sizeof image.id || strspn(id, DOCKER_ID_CHARS) != len ||
                   !docker_image_settings(json_object_get(inspection, "Config"), arena, &image)))
        r = err_set(err, ERR_PROTOCOL, "the engine returned an invalid description of image '%.100s'", name);
    if (r == 0) {
        memcpy(image.id, id, len + 1);
        *ret_image = image;
    }
    return r;
}
