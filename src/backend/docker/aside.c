/* Replacing a container: an older one steps aside under another name until the next one has run, or comes back. Called
 * by a start, a stop and by docker/layer.c. Invariant: the mark boxes/ID/aside is there before the older container is
 * renamed, and goes when none is left; a container is removed only when its replacement has run. */
#include "base/base.h"
#include "backend/docker/docker.h"

#define ASIDE_OLD ".old"

/* The name of the box's container, and with `old` that of the one that stepped aside; in arena. */
static const char *aside_name(const struct backend *backend, const char *id, const char *old, struct arena *arena) {
    char own[DOCKER_NAME_BYTES];
    docker_name(backend, own, id);
    return arena_printf(arena, "%s%s", own, old);
}

/* old_from, old_to: ASIDE_OLD, or "". */
static int aside_rename(struct backend *backend, const char *id, const char *old_from, const char *old_to,
                        struct err *err) {
    autoarena arena = ARENA_EMPTY;
    const char *path = arena_printf(&arena, "/containers/%s/rename?name=%s", aside_name(backend, id, old_from, &arena),
                                    aside_name(backend, id, old_to, &arena));
    return engine_json(backend->engine, "POST", path, NULL, "replacing the box's container", NULL, err);
}

static int aside_inspect(struct backend *backend, const char *id, json_t **ret_inspection, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    const char *name = aside_name(backend, id, ASIDE_OLD, &arena);
    json_t *inspection = NULL;
    TRY(engine_json(backend->engine, "GET", arena_printf(&arena, "/containers/%s/json", name), NULL, name, &inspection,
                    err));
    const json_t *labels = engine_value(inspection, "Config", "Labels");
    if (strcmp(engine_text(labels, DOCKER_LABEL_HOME), backend->home) != 0 ||
        strcmp(engine_text(labels, DOCKER_LABEL_BOX), id) != 0) {
        json_decref(inspection);
        return err_set(err, ERR_EXISTS, "container '%s' exists, but is not this box's: rename or remove it", name);
    }
    *ret_inspection = inspection;
    return 0;
}

int docker_aside_drop(struct backend *backend, const char *id, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    json_auto_t *inspection = NULL;
    if (!docker_exists(backend->boxes_fd, id, "aside"))
        return 0;
    const char *path = arena_printf(&arena, "/containers/%s?force=1&v=1", aside_name(backend, id, ASIDE_OLD, &arena));
    int r = aside_inspect(backend, id, &inspection, err)
                ?: engine_json(backend->engine, "DELETE", path, NULL, "removing the container that was replaced", NULL,
                               err);
    if (r < 0 && r != -ERR_NOT_FOUND && r != -ERR_EXISTS)
        return r;
    docker_unmark(backend, id, "aside");
    return 0;
}

int docker_aside(struct backend *backend, const char *id, struct err *err) {
    TRY(docker_aside_drop(backend, id, err) /* older than the one that has the name */
            ?: docker_mark(backend, id, "aside", err));
    int r = aside_rename(backend, id, "", ASIDE_OLD, err);
    if (r < 0)
        docker_unmark(backend, id, "aside");
    return r;
}

/* It gets its name back; the container that has it now is removed. */
static int aside_back(struct backend *backend, const char *id, const json_t *inspection, struct err *err) {
    struct docker_record record = {.container = "-"};
    TRY(docker_remove(backend, id, err) ?: aside_rename(backend, id, ASIDE_OLD, "", err));
    snprintf(record.container, sizeof record.container, "%s", engine_text(inspection, "Id"));
    int r = docker_record_write(backend, id, &record, err);
    docker_unmark(backend, id, "aside");
    return r;
}

int docker_aside_end(struct backend *backend, const char *id, bool runs, struct err *err) {
    json_auto_t *inspection = NULL;
    if (runs || !docker_exists(backend->boxes_fd, id, "aside"))
        return docker_aside_drop(backend, id, err);
    return aside_inspect(backend, id, &inspection, err) ?: aside_back(backend, id, inspection, err);
}

int docker_aside_settle(struct backend *backend, const char *id, const char *from, struct err *err) {
    json_auto_t *aside = NULL, *inspection = NULL;
    if (!docker_exists(backend->boxes_fd, id, "aside"))
        return 0;
    int r = aside_inspect(backend, id, &aside, err);
    if (r == -ERR_NOT_FOUND || r == -ERR_EXISTS) {
        docker_unmark(backend, id, "aside");
        return 0;
    }
    if (r < 0)
        return r;
    r = docker_inspect(backend, id, &inspection, err);
    bool fits = strcmp(engine_text(inspection, "Config", "Labels", DOCKER_LABEL_FROM), from) == 0;
    bool older_fits = strcmp(engine_text(aside, "Config", "Labels", DOCKER_LABEL_FROM), from) == 0;
    return r == -ERR_NOT_FOUND || (r == 0 && !fits && older_fits) ? aside_back(backend, id, aside, err) : r;
}
