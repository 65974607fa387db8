/* An image from its registry: the engine pulls it, with our credentials, and we report the progress. Called by
 * docker/image.c. Invariants: the engine's stream is bounded line by line; no credential reaches an error text, a log
 * or a registry that is not its own. */
#include "base/base.h"
#include "backend/docker/docker.h"
#include "backend/docker/engine/client.h"
#include "backend/reference.h"
#include "base/json.h"
#include "base/url.h"
#include "http/client/foreign.h"

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
    const struct reference *image;
    struct buf line;
    char error[400]; /* from the engine's stream */
    bool bad;
    uint64_t reported_ms, reported; /* when, and how many bytes */
    struct pull_layer layers[PULL_LAYERS];
    size_t layer_count;
};

/* ---- credentials ---- */

/* The first line of a file, read anew for each image because it may have changed. */
static int pull_secret(const char *path, struct arena *arena, const char **ret_secret, struct err *err) {
    char text[PULL_SECRET_BYTES];
    if (!path)
        return 0;
    ssize_t len = fd_read_file(AT_FDCWD, path, text, sizeof text);
    if (len < 0)
        return err_errno(err, (int)-len, "docker_registries: %.200s", path);
    text[strcspn(text, "\r\n")] = 0;
    if (!text[0] || (size_t)len >= sizeof text - 1)
        return err_set(err, ERR_INVALID, "docker_registries: %.200s is empty or too long for a secret", path);
    *ret_secret = arena_strdup(arena, text);
    explicit_bzero(text, sizeof text);
    return 0;
}

/* The header X-Registry-Auth: URL-safe base64 of JSON. */
static int pull_credentials(const struct docker_registry *registry, struct arena *arena, const char **ret_header,
                            struct err *err) {
    const char *password = registry->password, *token = registry->token;
    TRY(pull_secret(registry->password_file, arena, &password, err)
            ?: pull_secret(registry->token_file, arena, &token, err));
    bool hub = strcmp(registry->host, REFERENCE_HUB) == 0;
    const char *const members[][2] = {{"username", registry->username},
                                      {"password", password},
                                      {"identitytoken", token},
                                      {"serveraddress", hub ? "https://index.docker.io/v1/" : registry->host}};
    autobuf text = buf_max(64 << 10), coded = buf_max(128 << 10);
    struct json json = json_begin(&text);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i][1])
            json_put_str(&json, members[i][0], members[i][1]);
    json_close(&json, '}');
    text_base64(&coded, text.data, text.len);
    for (size_t i = 0; i < coded.len; i++)
        coded.data[i] = coded.data[i] == '+' ? '-' : coded.data[i] == '/' ? '_' : coded.data[i];
    *ret_header = arena_printf(arena, "X-Registry-Auth: %.*s", (int)coded.len, (const char *)coded.data);
    return 0;
}

/* ---- progress ---- */

static struct pull_layer *pull_layer(struct pull *pull, const char *id) {
    for (size_t i = 0; i < pull->layer_count; i++)
        if (strcmp(pull->layers[i].id, id) == 0)
            return &pull->layers[i];
    if (pull->layer_count == PULL_LAYERS || strlen(id) >= sizeof pull->layers[0].id)
        return NULL;
    struct pull_layer *layer = &pull->layers[pull->layer_count++];
    snprintf(layer->id, sizeof layer->id, "%s", id);
    return layer;
}

static void pull_report(struct pull *pull, bool now) {
    const struct backend_env *env = pull->backend->env;
    uint64_t done = 0, total = 0, at = clock_ms();
    for (size_t i = 0; i < pull->layer_count; i++)
        done += pull->layers[i].done, total += pull->layers[i].total;
    if (!env->progress || (!now && (done == pull->reported || at - pull->reported_ms < PULL_NOTICE_MS)))
        return;
    pull->reported_ms = at;
    pull->reported = done;
    env->progress(env->progress_user, pull->spec, "pull", done, total, pull->image->full);
}

static uint64_t pull_number(const json_t *message, const char *key) {
    json_int_t number = json_integer_value(engine_value(message, "progressDetail", key));
    return number > 0 && number < (json_int_t)1 << 50 ? (uint64_t)number : 0;
}

/* One line of the engine's stream. */
static void pull_line(void *user) {
    struct pull *pull = user;
    const char *data = (const char *)pull->line.data;
    size_t len = pull->line.len;
    while (len && (data[len - 1] == '\r' || data[len - 1] == ' '))
        len--;
    json_auto_t *message = len && json_measure(data, len, 8, 256) == JSON_FITS ? json_loadb(data, len, 0, NULL) : NULL;
    pull->bad |= len && !json_is_object(message);
    const char *error = engine_text(message, "error"), *status = engine_text(message, "status");
    const char *id = json_string_value(json_object_get(message, "id"));
    if (*error)
        snprintf(pull->error, sizeof pull->error, "%s", error);
    struct pull_layer *layer = *status && id ? pull_layer(pull, id) : NULL;
    if (layer) {
        uint64_t total = pull_number(message, "total");
        enum err_code state = foreign_judge(FOREIGN_PROGRESS, 0, status, NULL, NULL);
        if (total && state == ERR_BUSY) {
            layer->total = total;
            layer->done = pull_number(message, "current");
        } else if (state == ERR_EXISTS) {
            layer->done = layer->total;
        }
        pull_report(pull, false);
    }
}

static int pull_bytes(void *user, const void *data, size_t len) {
    struct pull *pull = user;
    pull->bad |= engine_lines(&pull->line, data, len, pull_line, pull);
    return pull->bad ? -1 : 0;
}

/* Why it failed: engines have one status for most failures, and words, which foreign_judge knows. */
static int pull_failed(const struct pull *pull, bool credentials, const char *why, struct err *err) {
    const char *name = pull->image->full;
    autobuf shown = buf_max(2048);
    text_shown(&shown, why, strlen(why));
    const char *text = buf_cstr(&shown) ? (const char *)shown.data : "?";
    enum err_code code = foreign_judge(FOREIGN_PULL, 0, why, NULL, NULL);
    if (code == ERR_DENIED)
        return err_set(err, code, "image '%.100s' cannot be pulled: registry %.80s %s (docker_registries): %.250s",
                       name, pull->image->registry,
                       credentials ? "refuses the configured credentials" : "may need credentials", text);
    if (code == ERR_NOT_FOUND)
        return err_set(err, code, "there is no image '%.100s': %.300s", name, text);
    return err_set(err, code, "image '%.100s' cannot be pulled%s: %.300s", name,
                   code == ERR_LIMIT         ? ", the engine's disk is full"
                   : code == ERR_UNSUPPORTED ? ", it does not exist for this architecture"
                                             : "",
                   text);
}

int docker_pull(struct backend *backend, const struct spec *spec, const struct reference *image, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    const struct docker_settings *settings = backend->settings;
    const char *platform = spec->container.platform, *header = NULL;
    int status = 0, r = 0;
    for (size_t i = 0; settings && !header && r == 0 && i < settings->registry_count; i++)
        if (strcasecmp(settings->registries[i].host, image->registry) == 0)
            r = pull_credentials(&settings->registries[i], &arena, &header, err);
    if (r < 0)
        return r;
    struct pull *pull = xcalloc(1, sizeof *pull);
    *pull = (struct pull){.backend = backend, .spec = spec, .image = image};
    buf_init(&pull->line, PULL_LINE_BYTES);
    autobuf out = buf_max(64 << 10);
    const char *const headers[] = {header, NULL};
    struct http_call call = {
        .method = "POST", .headers = headers, .write_body = pull_bytes, .user = pull, .timeout_ms = PULL_SILENT_MS};
    call.path =
        arena_printf(&arena, "/images/create?fromImage=%s&tag=%s%s%s", url_encode(&arena, image->name, URL_VALUE),
                     url_encode(&arena, image->digest ? image->digest : image->tag, URL_VALUE),
                     platform ? "&platform=" : "", platform ? url_encode(&arena, platform, URL_VALUE) : "");
    pull_report(pull, true);
    r = engine_do(backend->engine, &call, &status, &out, err);
    if (pull->bad) {
        r = err_set(err, ERR_PROTOCOL, "image '%.100s': the engine sent invalid progress messages", image->full);
    } else if (pull->error[0]) {
        r = pull_failed(pull, header, pull->error, err);
    } else if (r == 0 && (status < 200 || status >= 300)) {
        json_t *answer = json_loadb((const char *)out.data, out.len, 0, NULL);
        const char *message = engine_text(answer, "message");
        r = pull_failed(pull, header, *message ? message : "the engine gives no reason", err);
        json_decref(answer);
    } else if (r == 0) {
        pull_report(pull, true);
    }
    buf_done(&pull->line);
    free(pull);
    return r;
}
