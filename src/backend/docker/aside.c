/* Replacing a container: an older one steps aside under another name until the next one has run, or comes back. Called
 * by a start, a stop and by docker/layer.c. Invariant: the mark boxes/ID/aside is there before the older container is
 * renamed, and goes when none is left; a container is removed only when its replacement has run. */
#include "base/base.h"
#include "backend/docker/docker.h"

enum { ASIDE_BYTES = DOCKER_NAME_BYTES + 8 };

static void aside_name(const struct backend *backend, const char *id, char name[ASIDE_BYTES]) {
    char own[DOCKER_NAME_BYTES];
    docker_name(backend, own, id);
    snprintf(name, ASIDE_BYTES, "%s.old", own);
}

static void aside_unmark(struct backend *backend, const char *id) {
    unlinkat(backend->boxes_fd, text_make(32, "%.16s/aside", id), 0);
}

static int aside_rename(struct backend *backend, const char *from, const char *to, struct err *err) {
    const char *path = text_make(128, "/containers/%s/rename?name=%s", from, to);
    return engine_json(backend->engine, "POST", path, NULL, "replacing the box's container", NULL, err);
}

static int aside_inspect(struct backend *backend, const char *id, json_t **ret_inspection, struct err *err) {
    char name[ASIDE_BYTES], path[80];
    json_t *inspection = NULL;
    aside_name(backend, id, name);
    snprintf(path, sizeof path, "/containers/%s/json", name);
    int r = engine_json(backend->engine, "GET", path, NULL, name, &inspection, err);
    const json_t *labels = engine_value(inspection, "Config", "Labels");
    if (r == 0 && (strcmp(engine_text(labels, DOCKER_LABEL_HOME), backend->home) != 0 ||
                   strcmp(engine_text(labels, DOCKER_LABEL_BOX), id) != 0)) {
        json_decref(inspection);
        return err_set(err, ERR_EXISTS, "container '%s' exists, but is not this box's: rename or remove it", name);
    }
    if (r == 0)
        *ret_inspection = inspection;
    return r;
}

int docker_aside_drop(struct backend *backend, const char *id, struct err *err) {
    char name[ASIDE_BYTES], path[96];
    json_t *inspection = NULL;
    if (!docker_exists(backend->boxes_fd, id, "aside"))
        return 0;
    int r = aside_inspect(backend, id, &inspection, err);
    json_decref(inspection);
    aside_name(backend, id, name);
    snprintf(path, sizeof path, "/containers/%s?force=1&v=1", name);
    if (r == 0)
        r = engine_json(backend->engine, "DELETE", path, NULL, "removing the container that was replaced", NULL, err);
    if (r < 0 && r != -ERR_NOT_FOUND && r != -ERR_EXISTS)
        return r;
    aside_unmark(backend, id);
    return 0;
}

int docker_aside(struct backend *backend, const char *id, struct err *err) {
    char name[DOCKER_NAME_BYTES], aside[ASIDE_BYTES], path[32];
    int r = docker_aside_drop(backend, id, err); /* older than the one that has the name */
    if (r < 0)
        return r;
    snprintf(path, sizeof path, "%.16s/aside", id);
    autofd fd = openat(backend->boxes_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_errno(err, errno, "the directory of box '%.16s'", id);
    docker_name(backend, name, id);
    aside_name(backend, id, aside);
    r = aside_rename(backend, name, aside, err);
    if (r < 0)
        aside_unmark(backend, id);
    return r;
}

/* It gets its name back; the container that has it now is removed. */
static int aside_back(struct backend *backend, const char *id, const json_t *inspection, struct err *err) {
    char name[DOCKER_NAME_BYTES], aside[ASIDE_BYTES];
    struct docker_record record = {.container = "-"};
    docker_name(backend, name, id);
    aside_name(backend, id, aside);
    TRY(docker_remove(backend, id, err) ?: aside_rename(backend, aside, name, err));
    snprintf(record.container, sizeof record.container, "%s", engine_text(inspection, "Id"));
    int r = docker_record_write(backend, id, &record, err);
    aside_unmark(backend, id);
    return r;
}

int docker_aside_end(struct backend *backend, const char *id, bool runs, struct err *err) {
    json_auto_t *inspection = NULL;
    if (runs || !docker_exists(backend->boxes_fd, id, "aside"))
        return docker_aside_drop(backend, id, err);
    return aside_inspect(backend, id, &inspection, err) ?: aside_back(backend, id, inspection, err);
}

int docker_aside_settle(struct backend *backend, const char *id, const char *from, struct err *err) {
    json_t *aside = NULL, *inspection = NULL;
    if (!docker_exists(backend->boxes_fd, id, "aside"))
        return 0;
    int r = aside_inspect(backend, id, &aside, err);
    if (r == -ERR_NOT_FOUND || r == -ERR_EXISTS) {
        aside_unmark(backend, id);
        return 0;
    }
    if (r < 0)
        return r;
    r = docker_inspect(backend, id, &inspection, err);
    bool fits = strcmp(engine_text(inspection, "Config", "Labels", DOCKER_LABEL_FROM), from) == 0;
    bool older_fits = strcmp(engine_text(aside, "Config", "Labels", DOCKER_LABEL_FROM), from) == 0;
    if (r == -ERR_NOT_FOUND || (r == 0 && !fits && older_fits))
        r = aside_back(backend, id, aside, err);
    json_decref(aside);
    json_decref(inspection);
    return r;
}
