/* A container's files made one image of one layer: exported by the engine, read here, imported by the engine. Called by
 * box/snapshot/export.c through the backend's verb, by docker/layer.c where a stack is too deep, and by a start that replaces a
 * container. Invariant: an export that breaks off breaks the import off, so that an image is whole or not there; the
 * container stands still from before it is looked at until all is there, and then ends: nothing written is lost; what takes
 * a container's place has run before that one goes. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/docker/docker.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"
#include "base/url.h"

enum {
    CHANGES_BYTES = 256 << 10, /* of settings, in the request's path */
    ANSWER_BYTES = 1 << 20,
    IDLE_MS = 600000, /* an engine unpacks what it got before it answers */
    PROGRESS_MS = 250,
};

/* ---- the words of an import ---- */

struct words {
    struct buf *path;
    bool podman; /* takes what is between the quotes as it is */
};

static void put_change(struct words *words, struct buf *line) {
    const char *text = buf_cstr(line);
    buf_puts(words->path, "&changes=");
    if (text)
        url_put(words->path, text, strlen(text), URL_VALUE);
    else
        words->path->failed = true;
}

/* One instruction of a Dockerfile: `value` quoted so that nothing in it is expanded. */
static void put_words(struct words *words, const char *before, const char *value) {
    autobuf line = buf_max(CHANGES_BYTES);
    buf_printf(&line, "%s\"", before);
    for (const char *c = value; *c; c++) {
        if (!words->podman && strchr("\\\"$", *c))
            buf_byte(&line, '\\');
        buf_byte(&line, (uint8_t)*c);
    }
    buf_puts(&line, "\"");
    put_change(words, &line);
}

static void put_list(struct words *words, const char *word, const char *const *list) {
    struct json json;
    if (!*list)
        return;
    autobuf line = buf_max(CHANGES_BYTES);
    buf_printf(&line, "%s ", word);
    json_init(&json, &line);
    json_open(&json, '[');
    for (; *list; list++)
        json_str(&json, *list);
    json_close(&json, ']');
    put_change(words, &line);
}

static bool plain(const char *text) {
    return !strpbrk(text, "\r\n");
}

static int put_env(struct words *words, const char *const *env, struct err *err) {
    static const char name[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    for (; *env; env++) {
        char before[256];
        size_t len = strspn(*env, name);
        if (len == 0 || len > 200 || (*env)[len] != '=' || !plain(*env))
            return err_set(err, ERR_UNSUPPORTED,
                           "the image's variable '%.60s' cannot be kept by an import (line breaks, or such a name)",
                           *env);
        snprintf(before, sizeof before, "ENV %.*s=", (int)len, *env);
        put_words(words, before, *env + len + 1);
    }
    return 0;
}

static int put_import(struct backend *backend, const struct spec *spec, const char *layer,
                      const struct docker_image *image, struct buf *path, struct err *err) {
    struct docker_facts facts;
    int r = docker_facts(backend, &facts, err);
    if (r < 0)
        return r;
    struct words words = {.path = path, .podman = facts.podman};
    buf_printf(path, "/images/create?fromSrc=-&repo=" DOCKER_REPOSITORY "%.8s/layer:%.16s", backend->home, layer);
    if (!plain(image->user) || !plain(image->working_dir) || strpbrk(image->user, "\"\\$ "))
        return err_set(err, ERR_UNSUPPORTED, "the image's user or working directory cannot be kept by an import");
    put_list(&words, "ENTRYPOINT", image->entrypoint);
    put_list(&words, "CMD", image->command);
    r = put_env(&words, image->env, err);
    const struct {
        const char *before, *value;
    } rows[] = {{"LABEL " DOCKER_LABEL_HOME "=", backend->home}, {"LABEL " DOCKER_LABEL_USER "=", spec->user}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        put_words(&words, rows[i].before, rows[i].value);
    if (*image->working_dir && !facts.podman)
        put_words(&words, "WORKDIR ", image->working_dir);
    const char *const bare[][2] = {{"USER ", image->user}, {"WORKDIR ", facts.podman ? image->working_dir : ""}};
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (*bare[i][1]) {
            buf_puts(path, "&changes=");
            url_put(path, bare[i][0], strlen(bare[i][0]), URL_VALUE);
            url_put(path, bare[i][1], strlen(bare[i][1]), URL_VALUE);
        }
    if (r == 0 && path->failed)
        r = err_set(err, ERR_TOO_LARGE, "the settings of image '%.100s' are too long", image->reference);
    return r;
}

/* ---- the stream ---- */

struct flow {
    struct backend *backend;
    const struct spec *spec;
    int in, out; /* a pair of sockets: the export writes, the import reads */
    atomic_bool whole, broken;
    uint64_t done, total, told_ms;
    int r;
    struct err err; /* of the export */
};

static void tell(struct flow *flow, bool now) {
    const struct backend_env *env = flow->backend->env;
    uint64_t now_ms = clock_ms();
    if (!env->progress || (!now && now_ms < flow->told_ms + PROGRESS_MS))
        return;
    flow->told_ms = now_ms;
    env->progress(env->progress_user, flow->spec, "export", flow->done,
                  flow->done > flow->total ? flow->done : flow->total, NULL);
}

static int flow_write(void *user, const void *data, size_t len) {
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
    tell(flow, false);
    return 0;
}

static ssize_t flow_read(void *user, void *data, size_t len) {
    struct flow *flow = user;
    ssize_t n;
    do
        n = recv(flow->out, data, len, 0);
    while (n < 0 && errno == EINTR);
    if (n == 0 && !atomic_load(&flow->whole)) { /* the end of a part is no end */
        atomic_store(&flow->broken, true);
        return -1;
    }
    return n;
}

static void *flow_main(void *user) {
    struct flow *flow = user;
    char name[DOCKER_NAME_BYTES], path[80];
    int status = 0;
    autobuf answer = buf_max(ANSWER_BYTES);
    docker_name(flow->backend, name, flow->spec->id);
    snprintf(path, sizeof path, "/containers/%s/export", name);
    struct http_call call = {
        .method = "GET", .path = path, .write_body = flow_write, .user = flow, .timeout_ms = IDLE_MS};
    flow->r = engine_do(flow->backend->engine, &call, &status, &answer, &flow->err);
    if (flow->r == 0)
        flow->r = engine_answer(flow->backend->engine, status, &answer, "exporting the container", NULL, &flow->err);
    atomic_store(&flow->whole, flow->r == 0);
    fd_close(&flow->in);
    return NULL;
}

/* A good answer is a row of JSON objects, and the last one may be why it was not good after all. */
static int import_answer(struct engine *engine, int status, struct buf *answer, struct err *err) {
    json_t *last = NULL;
    if (status != 200)
        return engine_answer(engine, status, answer, "importing the image", NULL, err);
    for (const char *at = buf_cstr(answer); at && (at = strchr(at, '{'));) {
        json_error_t error;
        json_t *object = json_loads(at, JSON_DISABLE_EOF_CHECK, &error);
        if (!object)
            break;
        at += error.position;
        json_decref(last);
        last = object;
    }
    const char *why = json_string_value(json_object_get(last, "error"));
    int r =
        !why ? 0 : err_set(err, strstr(why, "no space left") ? ERR_LIMIT : ERR_IO, "importing the image: %.400s", why);
    json_decref(last);
    return r;
}

static int import_run(struct flow *flow, const char *path, struct err *err) {
    autobuf answer;
    int status = 0;
    buf_init(&answer, ANSWER_BYTES);
    struct http_call call = {
        .method = "POST", .path = path, .read_body = flow_read, .user = flow, .timeout_ms = IDLE_MS};
    int r = engine_do(flow->backend->engine, &call, &status, &answer, err);
    return r < 0 ? r : import_answer(flow->backend->engine, status, &answer, err);
}

static int flow_run(struct flow *flow, const char *path, struct err *err) {
    int pair[2];
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "socketpair");
    flow->in = pair[0];
    flow->out = pair[1];
    if (pthread_create(&thread, NULL, flow_main, flow) != 0)
        abort();
    int r = import_run(flow, path, err);
    fd_close(&flow->out); /* an export that nobody reads ends */
    pthread_join(thread, NULL);
    if (flow->r < 0 && (r == 0 || atomic_load(&flow->broken))) {
        *err = flow->err;
        r = flow->r;
    }
    tell(flow, true);
    return r;
}

/* ---- one image ---- */

static bool same_list(const char *const *a, const char *const *b) {
    for (; *a && *b; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return !*a && !*b;
}

static bool list_has(const char *const *list, const char *text) {
    for (; *list; list++)
        if (strcmp(*list, text) == 0)
            return true;
    return false;
}

/* Whether it says the same as the old one did: engines read the words of an import each in its own way. */
static int import_check(struct backend *backend, const char *name, const struct docker_image *old, struct arena *arena,
                        struct err *err) {
    json_t *inspection = NULL;
    struct docker_image image = {.reference = name};
    int r =
        engine_json(backend->engine, "GET", arena_printf(arena, "/images/%s/json", name), NULL, name, &inspection, err);
    if (r < 0)
        return r;
    const char *wrong = NULL;
    if (!docker_image_settings(json_object_get(inspection, "Config"), arena, &image))
        wrong = "everything";
    else if (!same_list(image.entrypoint, old->entrypoint) || !same_list(image.command, old->command))
        wrong = "CMD or ENTRYPOINT";
    else if (strcmp(image.user, old->user) != 0 || strcmp(image.working_dir, old->working_dir) != 0)
        wrong = "USER or WORKDIR";
    for (const char *const *env = old->env; !wrong && *env; env++)
        if (!list_has(image.env, *env))
            wrong = *env;
    json_decref(inspection);
    return wrong ? err_set(err, ERR_UNSUPPORTED, "the engine does not keep what the image has set: %.100s", wrong) : 0;
}

int docker_flatten(struct backend *backend, const struct spec *spec, const char *layer,
                   const struct docker_image *image, uint64_t total, uint64_t *ret_bytes, struct err *err) {
    struct flow flow = {.backend = backend, .spec = spec, .total = total};
    char name[DOCKER_LAYER_BYTES];
    autobuf path;
    autoarena arena = ARENA_EMPTY;
    buf_init(&path, 4 * CHANGES_BYTES);
    docker_layer_image(backend, layer, name);
    int r = put_import(backend, spec, layer, image, &path, err);
    if (r == 0)
        r = flow_run(&flow, buf_cstr(&path), err);
    if (r == 0)
        r = import_check(backend, name, image, &arena, err);
    if (r == 0)
        *ret_bytes = flow.done;
    return r;
}

/* ---- the verb ---- */

static int any_change(void *user, const struct file_change *change) {
    (void)change;
    *(bool *)user = true;
    return 0;
}

static uint64_t size_of(struct backend *backend, const char *id) {
    char name[DOCKER_NAME_BYTES], path[80];
    struct err ignored;
    json_t *inspection = NULL;
    docker_name(backend, name, id);
    snprintf(path, sizeof path, "/containers/%s/json?size=1", name);
    if (engine_json(backend->engine, "GET", path, NULL, name, &inspection, &ignored) < 0)
        return 0;
    json_int_t size = json_integer_value(json_object_get(inspection, "SizeRootFs"));
    json_decref(inspection);
    return size > 0 ? (uint64_t)size : 0;
}

/* The container stands still. */
static int export_still(struct backend *backend, const struct spec *spec, const char *layer, const json_t *inspection,
                        struct arena *arena, struct exported *exported, struct err *err) {
    struct docker_image image;
    bool more;
    size_t depth;
    uint64_t left = 1;
    int r = docker_changes(backend, spec, &left, any_change, &exported->changed, &more, err);
    if (r < 0 || !exported->changed)
        return r;
    r = docker_layer_settings(backend, spec, inspection, arena, &image, &depth, err);
    if (r == 0)
        r = docker_layer_note(backend, layer, &image, err);
    if (r == 0)
        r = docker_flatten(backend, spec, layer, &image, size_of(backend, spec->id), &exported->bytes, err);
    if (r < 0)
        return r;
    char path[32];
    snprintf(path, sizeof path, "%.16s/fs", layer); /* from now on it counts; its workspace is the box's */
    return mkdirat(backend->layers_fd, path, 0755) < 0 ? err_errno(err, errno, "the layer %.16s", layer) : 0;
}

int docker_export(struct backend *backend, const struct spec *spec, const char *layer, struct exported *ret_exported,
                  struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct exported exported = {0};
    json_t *inspection = NULL;
    docker_layer_image(backend, layer, exported.image);
    docker_still_end(backend, spec->id); /* of an engine that was away */
    int r = docker_inspect(backend, spec->id, &inspection, err);
    if (r == -ERR_NOT_FOUND) { /* it never ran, or somebody removed it: it is what it would be made from */
        *ret_exported = exported;
        return 0;
    }
    if (r == 0)
        r = docker_layer_whole(inspection, err);
    if (r == 0)
        r = docker_still(backend, spec->id, inspection, err);
    if (r == 0)
        r = export_still(backend, spec, layer, inspection, &arena, &exported, err);
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

/* ---- aside ---- */

static void aside_name(const struct backend *backend, const char *id, char name[48]) {
    char own[DOCKER_NAME_BYTES];
    docker_name(backend, own, id);
    snprintf(name, 48, "%s.old", own);
}

static bool aside_marked(struct backend *backend, const char *id) {
    char path[32];
    snprintf(path, sizeof path, "%.16s/aside", id);
    return faccessat(backend->boxes_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void aside_unmark(struct backend *backend, const char *id) {
    char path[32];
    snprintf(path, sizeof path, "%.16s/aside", id);
    unlinkat(backend->boxes_fd, path, 0);
}

static int rename_container(struct backend *backend, const char *from, const char *to, struct err *err) {
    char path[128];
    snprintf(path, sizeof path, "/containers/%s/rename?name=%s", from, to);
    return engine_json(backend->engine, "POST", path, NULL, "replacing the box's container", NULL, err);
}

static const char *label_of(const json_t *inspection, const char *label) {
    const json_t *labels = json_object_get(json_object_get(inspection, "Config"), "Labels");
    const char *text = json_string_value(json_object_get(labels, label));
    return text ? text : "";
}

static int aside_inspect(struct backend *backend, const char *id, json_t **ret_inspection, struct err *err) {
    char name[48], path[80];
    json_t *inspection = NULL;
    aside_name(backend, id, name);
    snprintf(path, sizeof path, "/containers/%s/json", name);
    int r = engine_json(backend->engine, "GET", path, NULL, name, &inspection, err);
    if (r == 0 && (strcmp(label_of(inspection, DOCKER_LABEL_HOME), backend->home) != 0 ||
                   strcmp(label_of(inspection, DOCKER_LABEL_BOX), id) != 0))
        r = err_set(err, ERR_EXISTS, "there is a container '%s' that is not this box's: rename or remove it", name);
    if (r == 0)
        *ret_inspection = inspection;
    else
        json_decref(inspection);
    return r;
}

int docker_aside_drop(struct backend *backend, const char *id, struct err *err) {
    char name[48], path[96];
    json_t *inspection = NULL;
    if (!aside_marked(backend, id))
        return 0;
    int r = aside_inspect(backend, id, &inspection, err);
    json_decref(inspection);
    aside_name(backend, id, name);
    snprintf(path, sizeof path, "/containers/%s?force=1&v=1", name);
    if (r == 0)
        r = engine_json(backend->engine, "DELETE", path, NULL, "removing the container that was replaced", NULL, err);
    if (r == -ERR_NOT_FOUND || r == -ERR_EXISTS)
        r = 0;
    if (r == 0)
        aside_unmark(backend, id);
    return r;
}

int docker_aside(struct backend *backend, const char *id, struct err *err) {
    char name[DOCKER_NAME_BYTES], aside[48], path[32];
    int r = docker_aside_drop(backend, id, err); /* older than what is in its place */
    if (r < 0)
        return r;
    snprintf(path, sizeof path, "%.16s/aside", id);
    autofd fd = openat(backend->boxes_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_errno(err, errno, "the directory of box '%.16s'", id);
    docker_name(backend, name, id);
    aside_name(backend, id, aside);
    r = rename_container(backend, name, aside, err);
    if (r < 0)
        aside_unmark(backend, id);
    return r;
}

/* It takes its place back; what is there now goes. */
static int aside_back(struct backend *backend, const char *id, const json_t *inspection, struct err *err) {
    char name[DOCKER_NAME_BYTES], aside[48];
    struct docker_record record = {.container = "-"};
    const char *container = json_string_value(json_object_get(inspection, "Id"));
    docker_name(backend, name, id);
    aside_name(backend, id, aside);
    int r = docker_remove(backend, id, err);
    if (r == 0)
        r = rename_container(backend, aside, name, err);
    if (r < 0)
        return r;
    if (container)
        snprintf(record.container, sizeof record.container, "%s", container);
    r = docker_record_write(backend, id, &record, err);
    aside_unmark(backend, id);
    return r;
}

int docker_aside_end(struct backend *backend, const char *id, bool runs, struct err *err) {
    json_t *inspection = NULL;
    if (runs || !aside_marked(backend, id))
        return docker_aside_drop(backend, id, err);
    int r = aside_inspect(backend, id, &inspection, err);
    if (r == 0)
        r = aside_back(backend, id, inspection, err);
    json_decref(inspection);
    return r;
}

int docker_aside_settle(struct backend *backend, const char *id, const char *from, struct err *err) {
    json_t *aside = NULL, *inspection = NULL;
    if (!aside_marked(backend, id))
        return 0;
    int r = aside_inspect(backend, id, &aside, err);
    if (r == -ERR_NOT_FOUND || r == -ERR_EXISTS) {
        aside_unmark(backend, id);
        return 0;
    }
    int there = r < 0 ? r : docker_inspect(backend, id, &inspection, err);
    bool fits = there == 0 && strcmp(label_of(inspection, DOCKER_LABEL_FROM), from) == 0;
    if (r == 0 &&
        (there == -ERR_NOT_FOUND || (there == 0 && !fits && strcmp(label_of(aside, DOCKER_LABEL_FROM), from) == 0)))
        r = aside_back(backend, id, aside, err);
    else if (there < 0)
        r = there;
    json_decref(aside);
    json_decref(inspection);
    return r;
}
