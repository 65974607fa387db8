/* How a container's files differ from its image, as its engine reports it. Called as the backend's verb and by
 * docker/export.c. Invariants: an answer may have a million rows and is never held whole, but read one bounded row
 * at a time; mount points that the engine and we make in a container are not changes. */
#include "base/base.h"
#include "backend/docker/docker.h"

enum { ROW_BYTES = 6 * LIMIT_PATH_BYTES + 64, IDLE_MS = 300000 };

struct container_changes {
    const char *const *mounts; /* paths; they and the directories above them are not changes */
    const char *working_dir;   /* the engine makes it */
    struct buf row;            /* one object, as far as it has come */
    unsigned depth;            /* of braces */
    bool text, escape;
    bool held; /* a directory is reported as modified for changes in it: only if nothing below it follows */
    char path[LIMIT_PATH_BYTES + 1];
    uint64_t left;
    bool truncated;
    int (*each)(void *user, const struct file_change *change);
    void *user;
    int r;
    struct err *err;
};

static bool changes_below(const char *path, const char *dir) {
    size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
    return strncmp(path, dir, len) == 0 && path[len] == '/';
}

static bool changes_mounted(const struct container_changes *changes, const char *path) {
    for (const char *const *mount = changes->mounts; *mount; mount++)
        if (strcmp(path, *mount) == 0 || changes_below(*mount, path) || changes_below(path, *mount))
            return true;
    return strcmp(path, changes->working_dir) == 0 || changes_below(changes->working_dir, path);
}

static int changes_give(struct container_changes *changes, const char *path, enum watch_event event) {
    struct file_change change = {.path = path, .event = event, .type = FILE_OTHER};
    if (changes->left == 0) {
        changes->truncated = true;
        return -1;
    }
    changes->left--;
    changes->r = changes->each(changes->user, &change);
    return changes->r;
}

static int changes_give_held(struct container_changes *changes) {
    bool held = changes->held;
    changes->held = false;
    return held ? changes_give(changes, changes->path, WATCH_MODIFIED) : 0;
}

/* One object of the engine's list is complete. */
static int changes_row(struct container_changes *changes) {
    static const enum watch_event events[] = {WATCH_MODIFIED, WATCH_CREATED, WATCH_REMOVED};
    json_t *row = changes->row.failed ? NULL : json_loadb((char *)changes->row.data, changes->row.len, 0, NULL);
    const char *path = engine_text(row, "Path");
    json_int_t kind = json_integer_value(json_object_get(row, "Kind"));
    int r = 0;
    buf_clear(&changes->row);
    if (*path != '/' || strlen(path) > LIMIT_PATH_BYTES || kind < 0 || kind > 2) {
        changes->r = err_set(changes->err, ERR_PROTOCOL, "the engine reported a change without a valid path or kind");
        r = -1;
    }
    if (r == 0 && changes->held && changes_below(path, changes->path))
        changes->held = false;
    if (r == 0)
        r = changes_give_held(changes);
    if (r >= 0 && !changes_mounted(changes, path)) {
        if (kind != 0)
            r = changes_give(changes, path, events[kind]);
        snprintf(changes->path, sizeof changes->path, "%s", path);
        changes->held = kind == 0;
    }
    json_decref(row);
    return r;
}

/* Cuts the array into its objects. */
static int changes_write(void *user, const void *data, size_t len) {
    struct container_changes *changes = user;
    for (const char *c = data, *end = c + len; c < end; c++) {
        if (changes->depth == 0 && *c != '{')
            continue;
        buf_byte(&changes->row, (uint8_t)*c);
        if (changes->text) {
            changes->text = changes->escape || *c != '"';
            changes->escape = !changes->escape && *c == '\\';
            continue;
        }
        changes->text = *c == '"';
        changes->depth += *c == '{';
        changes->depth -= *c == '}';
        if (changes->depth == 0 && changes_row(changes) < 0)
            return -1;
    }
    return 0;
}

/* Where something is mounted into the container: by us, and by the engine, which makes such files where the image has
 * none. */
static const char *const *changes_mounts(const struct spec *spec, const json_t *inspection, struct arena *arena) {
    static const char *const engines_own[] = {DOCKER_RUN,      "/etc/hosts",
                                              "/etc/hostname", "/etc/resolv.conf",
                                              "/etc/mtab",     "/run/.containerenv",
                                              "/run/secrets",  "/proc",
                                              "/sys",          "/dev"};
    const char **list = NULL;
    size_t count = 0, cap = 0, i;
    json_t *mount;
    for (i = 0; i < sizeof engines_own / sizeof *engines_own; i++)
        arena_add(arena, list, count, cap) = engines_own[i];
    if (spec->agent)
        arena_add(arena, list, count, cap) = SKILLS_PATH;
    for (i = 0; spec->attached.paths && spec->attached.paths[i]; i++)
        arena_add(arena, list, count, cap) = spec->attached.paths[i];
    for (i = 0; i < spec->mount_count; i++)
        arena_add(arena, list, count, cap) = spec->mounts[i].target;
    json_array_foreach(json_object_get(inspection, "Mounts"), i, mount) {
        const char *path = engine_text(mount, "Destination");
        if (*path == '/')
            arena_add(arena, list, count, cap) = path;
    }
    arena_add(arena, list, count, cap) = NULL;
    return list;
}

int docker_changes(struct backend *backend, const struct spec *spec, uint64_t *left,
                   int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                   struct err *err) {
    autoarena arena = ARENA_EMPTY;
    json_t *inspection = NULL;
    char path[DOCKER_PATH_BYTES];
    TRY(docker_inspect(backend, spec->id, &inspection, err));
    struct err own = {0};
    struct container_changes changes = {.working_dir = engine_text(inspection, "Config", "WorkingDir"),
                                        .mounts = changes_mounts(spec, inspection, &arena),
                                        .left = *left,
                                        .each = each,
                                        .user = user,
                                        .err = &own};
    buf_init(&changes.row, ROW_BYTES);
    struct http_call call = {.method = "GET",
                             .path = docker_path(backend, spec->id, "/changes", path),
                             .write_body = changes_write,
                             .user = &changes,
                             .timeout_ms = IDLE_MS};
    int r = engine_call(backend->engine, &call, "asking what changed in the container", NULL, err);
    if (r == 0)
        changes_give_held(&changes);
    if (changes.truncated) {
        r = 0;
    } else if (changes.r < 0) {
        r = changes.r;
        if (own.code)
            *err = own;
    }
    buf_done(&changes.row);
    json_decref(inspection);
    if (r == 0) {
        *ret_truncated = changes.truncated;
        *left = changes.left;
    }
    return r;
}

int docker_diff(struct backend *backend, const struct spec *spec, uint64_t limit,
                int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                struct err *err) {
    bool truncated = false;
    int r = docker_changes(backend, spec, &limit, each, user, &truncated, err);
    if (r == 0 && !truncated)
        r = docker_own_changes(backend, spec, limit, each, user, &truncated, err);
    if (r == 0)
        *ret_truncated = truncated;
    return r;
}
