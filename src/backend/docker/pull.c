/* An image from its registry: the engine pulls, we tell it with whose credentials and pass on how far it is. Called by
 * docker/image.c. Invariant: the engine's stream is bounded line by line, and no credential reaches a sentence, a log or
 * another registry than its own. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker/docker.h"
#include "backend/reference.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/url.h"

enum {
    PULL_LAYERS = 256,
    PULL_LINE_BYTES = 256 << 10,
    PULL_NOTICE_MS = 100,
    PULL_SILENT_MS = 300000,
    PULL_SECRET_BYTES = 16 << 10
};

struct pull_layer {
    char id[32];
    uint64_t done, total;
};

struct pull {
    struct backend *backend;
    const struct spec *spec;
    const char *image;
    struct buf line;
    char error[400]; /* that the engine told in the stream */
    bool bad;
    uint64_t told_ms, told; /* when, and how many bytes */
    struct pull_layer layers[PULL_LAYERS];
    size_t layer_count;
};

/* ---- credentials ---- */

static const struct docker_registry *pull_registry(const struct docker_settings *settings, const char *host) {
    for (size_t i = 0; settings && i < settings->registry_count; i++)
        if (strcasecmp(settings->registries[i].host, host) == 0)
            return &settings->registries[i];
    return NULL;
}

static void pull_member(struct json *json, const char *key, const char *text) {
    if (!text)
        return;
    json_put_str(json, key, text);
}

/* What a file holds, without the newline at its end: it may have changed since the last image. */
static int pull_secret(const char *path, struct arena *arena, const char **ret_secret, struct err *err) {
    char text[PULL_SECRET_BYTES];
    ssize_t len = path ? fd_read_file(AT_FDCWD, path, text, sizeof text) : 0;
    if (!path)
        return 0;
    if (len < 0)
        return err_errno(err, (int)-len, "docker_registries: %.200s", path);
    text[strcspn(text, "\r\n")] = 0;
    if (!text[0] || (size_t)len >= sizeof text - 1)
        return err_set(err, ERR_INVALID, "docker_registries: %.200s is empty or too long for a secret", path);
    *ret_secret = arena_strdup(arena, text);
    explicit_bzero(text, sizeof text);
    return 0;
}

/* Base64 for addresses, of JSON: what engines take as X-Registry-Auth. */
static int pull_credentials(const struct docker_registry *registry, struct arena *arena, char **ret_credentials,
                            struct err *err) {
    const char *password = registry->password, *token = registry->token;
    int r = pull_secret(registry->password_file, arena, &password, err);
    if (r == 0)
        r = pull_secret(registry->token_file, arena, &token, err);
    if (r < 0)
        return r;
    autobuf text, coded;
    struct json json;
    buf_init(&text, 64 << 10);
    buf_init(&coded, 128 << 10);
    json_init(&json, &text);
    bool hub = strcmp(registry->host, REFERENCE_HUB) == 0;
    json_open(&json, '{');
    pull_member(&json, "username", registry->username);
    pull_member(&json, "password", password);
    pull_member(&json, "identitytoken", token);
    pull_member(&json, "serveraddress", hub ? "https://index.docker.io/v1/" : registry->host);
    json_close(&json, '}');
    text_base64(&coded, text.data, text.len);
    for (size_t i = 0; i < coded.len; i++)
        coded.data[i] = coded.data[i] == '+' ? '-' : coded.data[i] == '/' ? '_' : coded.data[i];
    *ret_credentials = arena_copy(arena, coded.data, coded.len);
    return 0;
}

/* ---- what the engine tells meanwhile ---- */

static struct pull_layer *pull_layer(struct pull *pull, const char *id) {
    for (size_t i = 0; i < pull->layer_count; i++)
        if (strcmp(pull->layers[i].id, id) == 0)
            return &pull->layers[i];
    if (pull->layer_count == PULL_LAYERS || strlen(id) >= sizeof pull->layers[0].id)
        return NULL;
    struct pull_layer *layer = &pull->layers[pull->layer_count++];
    memcpy(layer->id, id, strlen(id) + 1);
    return layer;
}

static void pull_tell(struct pull *pull, bool now) {
    const struct backend_env *env = pull->backend->env;
    uint64_t done = 0, total = 0, at = clock_ms();
    for (size_t i = 0; i < pull->layer_count; i++)
        done += pull->layers[i].done, total += pull->layers[i].total;
    if (!env->progress || (!now && (done == pull->told || at - pull->told_ms < PULL_NOTICE_MS)))
        return;
    pull->told_ms = at;
    pull->told = done;
    env->progress(env->progress_user, pull->spec, "pull", done, total, pull->image);
}

static uint64_t pull_number(const json_t *detail, const char *key) {
    json_int_t number = json_integer_value(json_object_get(detail, key));
    return number > 0 && number < (json_int_t)1 << 50 ? (uint64_t)number : 0;
}

static void pull_message(struct pull *pull, const json_t *message) {
    const char *error = json_string_value(json_object_get(message, "error"));
    const char *status = json_string_value(json_object_get(message, "status"));
    const char *id = json_string_value(json_object_get(message, "id"));
    const json_t *detail = json_object_get(message, "progressDetail");
    if (error)
        snprintf(pull->error, sizeof pull->error, "%s", error);
    struct pull_layer *layer = status && id ? pull_layer(pull, id) : NULL;
    if (!layer)
        return;
    uint64_t total = pull_number(detail, "total");
    if (total && strcmp(status, "Downloading") == 0)
        *layer = (struct pull_layer){.total = total, .done = pull_number(detail, "current")},
        memcpy(layer->id, id, strlen(id) + 1);
    else if (strcmp(status, "Download complete") == 0 || strcmp(status, "Pull complete") == 0)
        layer->done = layer->total;
    pull_tell(pull, false);
}

static void pull_line(struct pull *pull) {
    size_t len = pull->line.len;
    while (len && (pull->line.data[len - 1] == '\r' || pull->line.data[len - 1] == ' '))
        len--;
    if (len) {
        json_error_t where;
        bool fits = json_measure((const char *)pull->line.data, len, 8, 256) == JSON_FITS;
        json_t *message = fits ? json_loadb((const char *)pull->line.data, len, 0, &where) : NULL;
        if (json_is_object(message))
            pull_message(pull, message);
        else
            pull->bad = true;
        json_decref(message);
    }
    buf_clear(&pull->line);
}

static int pull_bytes(void *user, const void *data, size_t len) {
    struct pull *pull = user;
    const char *at = data;
    while (len && !pull->bad) {
        const char *end = memchr(at, '\n', len);
        size_t part = end ? (size_t)(end - at) : len;
        buf_put(&pull->line, at, part);
        pull->bad |= pull->line.failed;
        if (end && !pull->bad)
            pull_line(pull);
        part += end != NULL;
        at += part;
        len -= part;
    }
    return pull->bad ? -1 : 0;
}

/* ---- how it ended ---- */

static bool has_any(const char *text, const char *const *words) {
    while (*words && !strcasestr(text, *words))
        words++;
    return *words;
}

/* Engines have one status for most of what can go wrong, and words. */
static int pull_failed(const struct pull *pull, const struct reference *image, bool credentials, const char *why,
                       struct err *err) {
    static const char *const denied[] = {
        "unauthorized", "denied", "authentication required", "forbidden", "no basic auth", "401 ", "403 ", NULL};
    static const char *const absent[] = {"not found", "manifest unknown", "name unknown", "does not exist", NULL};
    static const char *const foreign[] = {"no matching manifest", "no image found in", NULL};
    static const char *const full[] = {"no space left", "disk quota", NULL};
    autobuf shown = buf_max(2048);
    text_shown(&shown, why, strlen(why));
    const char *text = buf_cstr(&shown) ? (const char *)shown.data : "?";
    if (has_any(why, full))
        return err_set(err, ERR_LIMIT, "image '%.100s' cannot be pulled, the engine's disk is full: %.300s",
                       pull->image, text);
    if (has_any(why, foreign))
        return err_set(err, ERR_UNSUPPORTED, "image '%.100s' is not there for this architecture: %.300s", pull->image,
                       text);
    if (has_any(why, denied))
        return err_set(err, ERR_DENIED,
                       "image '%.100s' cannot be pulled: registry %.80s %s (docker_registries): %.250s", pull->image,
                       image->registry,
                       credentials ? "refuses the credentials of the configuration" : "may want credentials", text);
    if (has_any(why, absent))
        return err_set(err, ERR_NOT_FOUND, "there is no image '%.100s': %.300s", pull->image, text);
    return err_set(err, ERR_BUSY, "image '%.100s' cannot be pulled: %.300s", pull->image, text);
}

static int pull_answer(struct pull *pull, const struct reference *image, bool credentials, int status, struct buf *out,
                       struct err *err) {
    if (pull->bad)
        return err_set(err, ERR_PROTOCOL, "image '%.100s': the engine's progress cannot be understood", pull->image);
    if (pull->error[0])
        return pull_failed(pull, image, credentials, pull->error, err);
    if (status >= 200 && status < 300)
        return 0;
    json_error_t where;
    json_t *answer = json_loadb((const char *)out->data, out->len, 0, &where);
    const char *message = json_string_value(json_object_get(answer, "message"));
    int r = pull_failed(pull, image, credentials, message ? message : "the engine does not say why", err);
    json_decref(answer);
    return r;
}

static const char *pull_path(const struct reference *image, const char *platform, struct arena *arena) {
    const char *name = url_encode(arena, image->name, URL_VALUE);
    const char *version = url_encode(arena, image->digest ? image->digest : image->tag, URL_VALUE);
    return arena_printf(arena, "/images/create?fromImage=%s&tag=%s%s%s", name, version, platform ? "&platform=" : "",
                        platform ? url_encode(arena, platform, URL_VALUE) : "");
}

int docker_pull(struct backend *backend, const struct spec *spec, const struct reference *image, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    const struct docker_registry *registry = pull_registry(backend->settings, image->registry);
    char *credentials = NULL;
    int r = registry ? pull_credentials(registry, &arena, &credentials, err) : 0;
    if (r < 0)
        return r;
    struct pull *pull = xcalloc(1, sizeof *pull);
    pull->backend = backend;
    pull->spec = spec;
    pull->image = image->full;
    buf_init(&pull->line, PULL_LINE_BYTES);
    autobuf out = buf_max(64 << 10);
    const char *const headers[] = {credentials ? arena_printf(&arena, "X-Registry-Auth: %s", credentials) : NULL, NULL};
    struct http_call call = {.method = "POST",
                             .path = pull_path(image, spec->container.platform, &arena),
                             .headers = headers,
                             .write_body = pull_bytes,
                             .user = pull,
                             .timeout_ms = PULL_SILENT_MS};
    int status = 0;
    pull_tell(pull, true);
    r = engine_do(backend->engine, &call, &status, &out, err);
    if (r == 0 || pull->bad || pull->error[0])
        r = pull_answer(pull, image, registry != NULL, status, &out, err);
    if (r == 0)
        pull_tell(pull, true);
    buf_done(&pull->line);
    free(pull);
    return r;
}
