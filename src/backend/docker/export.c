/* A container's files as one image of one layer: exported by the engine, read here, imported by the engine. Called by
 * box/snapshot/export.c through the backend's verb, and by docker/layer.c where a stack is too deep. Invariants: an
 * export that breaks off breaks off the import, so that an image is whole or not there; the container is paused from
 * before it is looked at until all is done, and then ends, so that nothing written is lost. */

#include "base/base.h"
#include "backend/docker/docker.h"
#include "base/sync.h"
#include "base/url.h"
#include "http/client/foreign.h"

enum {
    CHANGES_BYTES = 256 << 10, /* of settings, in the request's path */
    ANSWER_BYTES = 1 << 20,
    IDLE_MS = 600000, /* an engine unpacks its input before it answers */
    PROGRESS_MS = 250,
};

/* ---- the instructions of an import ---- */

/* One instruction of a Dockerfile. */
static void export_put(struct buf *path, struct buf *line) {
    const char *text = buf_cstr(line);
    buf_puts(path, "&changes=");
    if (text)
        url_put(path, text, strlen(text), URL_VALUE);
    else
        path->failed = true;
}

/* With `value` quoted so that nothing in it is expanded; podman takes the text between the quotes as it is. */
static void export_put_quoted(struct buf *path, const char *before, const char *value, bool podman) {
    autobuf line = buf_max(CHANGES_BYTES);
    buf_printf(&line, "%s\"", before);
    for (const char *c = value; *c; c++) {
        if (!podman && strchr("\\\"$", *c))
            buf_byte(&line, '\\');
        buf_byte(&line, (uint8_t)*c);
    }
    buf_puts(&line, "\"");
    export_put(path, &line);
}

static void export_put_list(struct buf *path, const char *word, const char *const *list) {
    if (!*list)
        return;
    autobuf line = buf_max(CHANGES_BYTES);
    buf_printf(&line, "%s ", word);
    struct json json = json_list(&line);
    for (; *list; list++)
        json_str(&json, *list);
    json_close(&json, ']');
    export_put(path, &line);
}

/* The path of an import that keeps the image's settings. */
static int export_path(struct backend *backend, const struct spec *spec, const char *layer,
                       const struct docker_image *image, struct buf *path, struct err *err) {
    static const char name[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    struct docker_facts facts;
    int r = docker_facts(backend, &facts, err);
    if (r < 0)
        return r;
    if (strpbrk(image->working_dir, "\r\n") || strpbrk(image->user, "\r\n\"\\$ "))
        return err_set(err, ERR_UNSUPPORTED, "an import cannot keep the image's user or working directory");
    buf_printf(path, "/images/create?fromSrc=-&repo=" DOCKER_REPOSITORY "%.8s/layer:%.16s", backend->home, layer);
    export_put_list(path, "ENTRYPOINT", image->entrypoint);
    export_put_list(path, "CMD", image->command);
    for (const char *const *env = image->env; *env; env++) {
        size_t len = strspn(*env, name);
        if (len == 0 || len > 200 || (*env)[len] != '=' || strpbrk(*env, "\r\n"))
            return err_set(err, ERR_UNSUPPORTED,
                           "an import cannot keep the image's variable '%.60s' (line breaks, or an unusual name)",
                           *env);
        export_put_quoted(path, text_make(256, "ENV %.*s=", (int)len, *env), *env + len + 1, facts.podman);
    }
    export_put_quoted(path, "LABEL " DOCKER_LABEL_HOME "=", backend->home, facts.podman);
    export_put_quoted(path, "LABEL " DOCKER_LABEL_USER "=", spec->user, facts.podman);
    if (*image->working_dir && !facts.podman)
        export_put_quoted(path, "WORKDIR ", image->working_dir, false);
    const char *const bare[][2] = {{"USER ", image->user}, {"WORKDIR ", facts.podman ? image->working_dir : ""}};
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (*bare[i][1]) {
            autobuf line = buf_max(CHANGES_BYTES);
            buf_printf(&line, "%s%s", bare[i][0], bare[i][1]);
            export_put(path, &line);
        }
    return path->failed ? err_set(err, ERR_TOO_LARGE, "the settings of image '%.100s' are too long", image->reference)
                        : 0;
}

/* ---- the stream ---- */

struct flow {
    struct backend *backend;
    const struct spec *spec;
    int in, out; /* a pair of sockets: the export writes, the import reads */
    atomic_bool whole, broken;
    uint64_t done, total, reported_ms;
    int r;
    struct err err; /* of the export */
};

static void export_flow_report(struct flow *flow, bool now) {
    const struct backend_env *env = flow->backend->env;
    uint64_t now_ms = clock_ms();
    if (!env->progress || (!now && now_ms < flow->reported_ms + PROGRESS_MS))
        return;
    flow->reported_ms = now_ms;
    env->progress(env->progress_user, flow->spec, "export", flow->done,
                  flow->done > flow->total ? flow->done : flow->total, NULL);
}

static int export_flow_write(void *user, const void *data, size_t len) {
    struct flow *flow = user;
    for (size_t at = 0; at < len;) {
        ssize_t n = send(flow->in, (const char *)data + at, len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        at += (size_t)n;
    }
    flow->done += len;
    export_flow_report(flow, false);
    return 0;
}

static ssize_t export_flow_read(void *user, void *data, size_t len) {
    struct flow *flow = user;
    ssize_t n;
    do
        n = recv(flow->out, data, len, 0);
    while (n < 0 && errno == EINTR);
    if (n == 0 && !atomic_load(&flow->whole)) { /* the export broke off */
        atomic_store(&flow->broken, true);
        return -1;
    }
    return n;
}

static void *export_flow_main(void *user) {
    struct flow *flow = user;
    char path[DOCKER_PATH_BYTES];
    struct http_call call = {.method = "GET",
                             .path = docker_path(flow->backend, flow->spec->id, "/export", path),
                             .write_body = export_flow_write,
                             .user = flow,
                             .timeout_ms = IDLE_MS};
    flow->r = engine_call(flow->backend->engine, &call, "exporting the container", NULL, &flow->err);
    atomic_store(&flow->whole, flow->r == 0);
    fd_close(&flow->in);
    return NULL;
}

static int export_flow_import(struct flow *flow, const char *path, struct err *err) {
    struct engine *engine = flow->backend->engine;
    autobuf answer = buf_max(ANSWER_BYTES);
    int status = 0;
    struct http_call call = {
        .method = "POST", .path = path, .read_body = export_flow_read, .user = flow, .timeout_ms = IDLE_MS};
    int r = engine_do(engine, &call, &status, &answer, err);
    if (r < 0 || status != 200)
        return r < 0 ? r : engine_answer(engine, status, &answer, "importing the image", NULL, err);
    /* A good answer is a series of JSON objects, and the last one may be an error nevertheless. */
    json_t *last = NULL;
    for (const char *at = buf_cstr(&answer); at && (at = strchr(at, '{'));) {
        json_error_t error;
        json_t *object = json_loads(at, JSON_DISABLE_EOF_CHECK, &error);
        if (!object)
            break;
        at += error.position;
        json_decref(last);
        last = object;
    }
    const char *why = engine_text(last, "error");
    if (*why)
        r = err_set(err, foreign_judge(FOREIGN_IMPORT, 0, why, NULL, NULL), "importing the image: %.400s", why);
    json_decref(last);
    return r;
}

static int export_flow_run(struct flow *flow, const char *path, struct err *err) {
    int pair[2];
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "socketpair");
    flow->in = pair[0];
    flow->out = pair[1];
    thread = thread_joined(export_flow_main, flow, 0);
    int r = export_flow_import(flow, path, err);
    fd_close(&flow->out); /* ends an export that is no longer read */
    pthread_join(thread, NULL);
    if (flow->r < 0 && (r == 0 || atomic_load(&flow->broken))) {
        *err = flow->err;
        r = flow->r;
    }
    export_flow_report(flow, true);
    return r;
}

/* ---- one image ---- */

static bool export_same(const char *const *a, const char *const *b) {
    for (; *a && *b; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return !*a && !*b;
}

/* Whether the new image has the settings of the old one: each engine reads the instructions of an import in its own
 * way. */
static int export_check(struct backend *backend, const char *name, const struct docker_image *old, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    json_auto_t *inspection = NULL;
    struct docker_image image = {.reference = name};
    TRY(docker_image_inspect(backend, name, &inspection, err));
    const char *wrong = NULL;
    if (!docker_image_settings(json_object_get(inspection, "Config"), &arena, &image))
        wrong = "everything";
    else if (!export_same(image.entrypoint, old->entrypoint) || !export_same(image.command, old->command))
        wrong = "CMD or ENTRYPOINT";
    else if (strcmp(image.user, old->user) != 0 || strcmp(image.working_dir, old->working_dir) != 0)
        wrong = "USER or WORKDIR";
    for (const char *const *env = old->env; !wrong && *env; env++) {
        const char *const *has = image.env;
        while (*has && strcmp(*has, *env) != 0)
            has++;
        wrong = *has ? NULL : *env;
    }
    return wrong ? err_set(err, ERR_UNSUPPORTED, "the engine does not keep a setting of the image: %.100s", wrong) : 0;
}

int docker_flatten(struct backend *backend, const struct spec *spec, const char *layer,
                   const struct docker_image *image, uint64_t total, uint64_t *ret_bytes, struct err *err) {
    struct flow flow = {.backend = backend, .spec = spec, .total = total};
    char name[DOCKER_LAYER_BYTES];
    autobuf path = buf_max(4 * CHANGES_BYTES);
    docker_layer_image(backend, layer, name);
    int r = export_path(backend, spec, layer, image, &path, err)
        ?: export_flow_run(&flow, buf_cstr(&path), err)
        ?: export_check(backend, name, image, err);
    if (r == 0)
        *ret_bytes = flow.done;
    return r;
}

/* ---- the verb ---- */

static int export_changed(void *user, const struct file_change *) {
    *(bool *)user = true;
    return 0;
}

/* Of a paused container. */
static int export_paused(struct backend *backend, const struct spec *spec, const char *layer, const json_t *inspection,
                         struct exported *exported, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct docker_image image;
    struct err ignored;
    json_t *sized = NULL;
    bool more;
    size_t depth;
    uint64_t left = 1;
    int r = docker_changes(backend, spec, &left, export_changed, &exported->changed, &more, err);
    if (r < 0 || !exported->changed)
        return r;
    TRY(docker_layer_settings(backend, spec, layer, inspection, &arena, &image, &depth, err));
    docker_ask(backend, spec->id, "GET", "/json?size=1", NULL, "measuring", &sized, &ignored);
    json_int_t size = json_integer_value(json_object_get(sized, "SizeRootFs"));
    json_decref(sized);
    TRY(docker_flatten(backend, spec, layer, &image, size > 0 ? (uint64_t)size : 0, &exported->bytes, err));
    char path[32];
    snprintf(path, sizeof path, "%.16s/fs", layer); /* from now on it counts; its workspace is the box's */
    return mkdirat(backend->layers_fd, path, 0755) < 0 ? err_errno(err, errno, "the layer %.16s", layer) : 0;
}

int docker_export(struct backend *backend, const struct spec *spec, const char *layer, struct exported *ret_exported,
                  struct err *err) {
    struct exported exported = {0};
    json_t *inspection = NULL;
    docker_layer_image(backend, layer, exported.image);
    docker_still_end(backend, spec->id); /* left by an engine that was away */
    int r = docker_inspect(backend, spec->id, &inspection, err);
    if (r == -ERR_NOT_FOUND) { /* it never ran, or was removed: nothing changed */
        *ret_exported = exported;
        return 0;
    }
    if (r == 0)
        r = docker_layer_whole(inspection, err);
    if (r == 0)
        r = docker_still(backend, spec->id, inspection, err);
    if (r == 0)
        r = export_paused(backend, spec, layer, inspection, &exported, err);
    if (r == 0 && exported.changed) {
        docker_still_kill(backend, spec->id);
        r = backend_docker.stop(backend, spec->id, true, err);
    }
    docker_still_end(backend, spec->id);
    json_decref(inspection);
    if (r == 0)
        *ret_exported = exported;
    return r;
}
