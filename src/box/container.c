/* From a request's image and container to a spec's. Called by policy. Invariant: an image is allowed by its
 * canonical name, not by its spelling, and no request can name the images made from other users' boxes. */
#include "box/policy.h"

#include "base/base.h"
#include "backend/reference.h"

enum { USER_BYTES = 64, PLATFORM_BYTES = 64, RUNTIME_BYTES = 64 };

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define LETTERS LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool container_word(const char *text, size_t len, size_t max, const char *letters) {
    return len > 0 && len <= max && text[0] != '-' && text[0] != '.' && strspn(text, letters) >= len;
}

bool container_user(const char *text) {
    static const char letters[] = LETTERS DIGITS "_.-";
    size_t user = strcspn(text, ":");
    const char *group = text[user] ? text + user + 1 : NULL;
    return container_word(text, user, USER_BYTES, letters) &&
           (!group || container_word(group, strlen(group), USER_BYTES, letters));
}

bool container_platform(const char *text) {
    if (strlen(text) > PLATFORM_BYTES || strncmp(text, "linux/", 6) != 0)
        return false;
    const char *architecture = text + 6;
    size_t len = strcspn(architecture, "/");
    const char *variant = architecture[len] ? architecture + len + 1 : NULL;
    return container_word(architecture, len, PLATFORM_BYTES, LOWER DIGITS "_") &&
           (!variant || container_word(variant, strlen(variant), PLATFORM_BYTES, LOWER DIGITS));
}

bool container_runtime(const char *text) {
    return container_word(text, strlen(text), RUNTIME_BYTES, LETTERS DIGITS "_.-");
}

bool container_pull(const char *text) {
    return strcmp(text, "always") == 0 || strcmp(text, "missing") == 0 || strcmp(text, "never") == 0;
}

int container_none(const struct container *container, const char *backend, struct err *err) {
    const struct {
        const char *field;
        bool has;
    } rows[] = {{"user", container->user}, {"runtime", container->runtime},     {"platform", container->platform},
                {"pull", container->pull}, {"read_only", container->read_only}, {"init", container->image_init}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].has)
            return err_set(err, ERR_INVALID, "container.%s: a box of backend '%s' is not a container", rows[i].field,
                           backend);
    return 0;
}

struct container container_copy(const struct container *container, struct arena *arena) {
    return (struct container){.user = arena_strdup_or(arena, container->user),
                              .runtime = arena_strdup_or(arena, container->runtime),
                              .platform = arena_strdup_or(arena, container->platform),
                              .pull = arena_strdup_or(arena, container->pull),
                              .read_only = container->read_only,
                              .image_init = container->image_init};
}

/* ---- the image ---- */

/* The share's own image, or one that a pattern of its list allows. */
static bool container_image_listed(const struct share *share, const struct reference *image, struct arena *arena) {
    struct reference own;
    if (share->image && reference_parse(share->image, arena, &own) && strcmp(own.full, image->full) == 0)
        return true;
    const char *const *pattern = share->images;
    while (*pattern && !reference_fits(*pattern, image, arena))
        pattern++;
    return *pattern;
}

/* Images that snapshots and exports made are their boxes' alone; whichever registry is written before them, it is not
 * one. */
static bool container_image_ours(const struct reference *image) {
    const char *path = image->path;
    size_t len = strcspn(path, "/");
    return len == 14 && strncmp(path, "cubby-", 6) == 0 && strspn(path + 6, DIGITS "abcdef") == 8;
}

static int container_spec_image(const struct share *share, const struct box_request *request, struct arena *arena,
                                struct spec *spec, struct err *err) {
    const char *asked = request->template_name, *name = asked ? asked : share->image;
    struct reference image;
    if (!name)
        return err_set(err, ERR_INVALID, "template: name an image; the configuration has no docker_image");
    if (!reference_parse(name, arena, &image))
        return err_set(
            err, ERR_INVALID,
            "template: '%.80s' is not the name of an image ([HOST/]NAME[:TAG][@sha256:DIGEST], at most %u bytes, no "
            "id)",
            name, REFERENCE_BYTES);
    if (asked && container_image_ours(&image))
        return err_set(err, ERR_DENIED, "template: '%.80s' is what a box became; fork that box instead", name);
    if (asked && share->images && !container_image_listed(share, &image, arena))
        return err_set(err, ERR_DENIED, "template: image '%.80s' is not allowed by the configuration (docker_images)",
                       name);
    spec->template_name = arena_strdup(arena, name);
    return 0;
}

/* ---- the container ---- */

static int container_check_words(const struct container *asked, struct err *err) {
    const struct {
        const char *field, *text, *grammar;
        bool (*fine)(const char *text);
    } rows[] = {
        {"user", asked->user, "NAME or UID, or the same with :GROUP or :GID", container_user},
        {"runtime", asked->runtime, "a word of letters, digits and _ . -", container_runtime},
        {"platform", asked->platform, "linux/ARCHITECTURE, e.g. linux/arm64", container_platform},
        {"pull", asked->pull, "always, missing or never", container_pull},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].text && !rows[i].fine(rows[i].text))
            return err_set(err, ERR_INVALID, "container.%s must be %s, not '%.60s'", rows[i].field, rows[i].grammar,
                           rows[i].text);
    return 0;
}

int container_spec(const struct share *share, const struct box_request *request, struct arena *arena, struct spec *spec,
                   struct err *err) {
    const struct container *asked = &request->container;
    const char *pull = share->pull ? share->pull : "missing", *runtime = share->runtime;
    TRY(container_spec_image(share, request, arena, spec, err) ?: container_check_words(asked, err));
    /* The configuration's `always` and `never` are rules, `missing` is what is usual. */
    if (asked->pull && strcmp(asked->pull, pull) != 0 && strcmp(pull, "missing") != 0)
        return err_set(err, ERR_DENIED, "container.pull '%s' is not allowed by the configuration (docker_pull: %s)",
                       asked->pull, pull);
    if (asked->runtime && !(runtime && strcmp(asked->runtime, runtime) == 0) &&
        !text_list_has(share->runtimes, asked->runtime) && !text_list_has(share->runtimes, "*"))
        return err_set(err, ERR_DENIED, "container.runtime '%s' is not allowed by the configuration (docker_runtimes)",
                       asked->runtime);
    struct container container = *asked;
    container.pull = asked->pull ? asked->pull : pull;
    container.runtime = asked->runtime ? asked->runtime : runtime;
    spec->container = container_copy(&container, arena);
    return 0;
}
