/* What a container's files have that its image has not, as its engine tells it. Called as the backend's verb and by
 * docker/export.c. Invariant: an answer may have a million rows, and is never held whole: one row at a time is taken out
 * of it, of bounded length. What the engine and we put into a container to mount something there is no change. */
#include <stdio.h>
#include <string.h>

#include "backend/docker/docker.h"
#include "base/limits.h"

enum { ROW_BYTES = 6 * LIMIT_PATH_BYTES + 64, ANSWER_BYTES = 64 << 10, IDLE_MS = 300000 };

struct changes {
    const char *const *mounts; /* paths; they and what they lie in are no changes */
    const char *working_dir;   /* the engine makes it */
    struct buf row;            /* one object, as far as it has come */
    unsigned depth;            /* of braces */
    bool text, escape;
    bool held; /* a directory is told as modified for what changed in it: only if nothing below it follows */
    char path[LIMIT_PATH_BYTES + 1];
    uint64_t left;
    bool truncated;
    int (*each)(void *user, const struct file_change *change);
    void *user;
    int r;
    struct err *err;
};

static bool below(const char *path, const char *dir) {
    size_t len = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
    return strncmp(path, dir, len) == 0 && path[len] == '/';
}

static bool mounted(const struct changes *changes, const char *path) {
    for (const char *const *mount = changes->mounts; *mount; mount++)
        if (strcmp(path, *mount) == 0 || below(*mount, path) || below(path, *mount))
            return true;
    return strcmp(path, changes->working_dir) == 0 || below(changes->working_dir, path);
}

static int give(struct changes *changes, const char *path, enum watch_event event) {
    struct file_change change = {.path = path, .event = event, .type = FILE_OTHER};
    if (changes->left == 0) {
        changes->truncated = true;
        return -1;
    }
    changes->left--;
    changes->r = changes->each(changes->user, &change);
    return changes->r;
}

static int give_held(struct changes *changes) {
    bool held = changes->held;
    changes->held = false;
    return held ? give(changes, changes->path, WATCH_MODIFIED) : 0;
}

static int take(struct changes *changes, const json_t *row) {
    static const enum watch_event events[] = {WATCH_MODIFIED, WATCH_CREATED, WATCH_REMOVED};
    const char *path = json_string_value(json_object_get(row, "Path"));
    json_int_t kind = json_integer_value(json_object_get(row, "Kind"));
    if (!path || *path != '/' || strlen(path) > LIMIT_PATH_BYTES || kind < 0 || kind > 2) {
        changes->r = err_set(changes->err, ERR_PROTOCOL, "the engine told of a change without its path or kind");
        return -1;
    }
    if (changes->held && below(path, changes->path))
        changes->held = false;
    if (give_held(changes) < 0)
        return -1;
    if (mounted(changes, path))
        return 0;
    if (kind != 0)
        return give(changes, path, events[kind]);
    snprintf(changes->path, sizeof changes->path, "%s", path);
    changes->held = true;
    return 0;
}

static int row_end(struct changes *changes) {
    json_t *row = changes->row.failed ? NULL : json_loadb((char *)changes->row.data, changes->row.len, 0, NULL);
    int r = row ? take(changes, row) : -1;
    if (!row)
        changes->r = err_set(changes->err, ERR_PROTOCOL, "the engine told of a change in no JSON");
    json_decref(row);
    buf_clear(&changes->row);
    return r;
}

/* Cuts the array into its objects. */
static int changes_write(void *user, const void *data, size_t len) {
    struct changes *changes = user;
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
        if (changes->depth == 0 && row_end(changes) < 0)
            return -1;
    }
    return 0;
}

/* What an engine mounts into every container: where its image has no such file, one is made in the container's own. */
static const char *const engines_own[] = {
    "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab", "/run/.containerenv", "/run/secrets", "/proc",
    "/sys",       "/dev"};
enum { ENGINES_OWN = sizeof engines_own / sizeof *engines_own };

/* Where something is mounted into the container, as far as that is no file of its own. */
static const char *const *mounts_of(const struct spec *spec, const json_t *inspection, struct arena *arena) {
    const json_t *mounts = json_object_get(inspection, "Mounts"), *mount;
    size_t paths = 0, i;
    while (spec->attached.paths && spec->attached.paths[paths])
        paths++;
    const char **list =
        arena_alloc(arena, (json_array_size(mounts) + spec->mount_count + paths + ENGINES_OWN + 3) * sizeof *list);
    size_t count = 0;
    list[count++] = DOCKER_RUN;
    for (i = 0; i < ENGINES_OWN; i++)
        list[count++] = engines_own[i];
    if (spec->agent)
        list[count++] = SKILLS_PATH;
    for (i = 0; i < paths; i++)
        list[count++] = spec->attached.paths[i];
    for (i = 0; i < spec->mount_count; i++)
        list[count++] = spec->mounts[i].target;
    json_array_foreach(mounts, i, mount) {
        const char *path = json_string_value(json_object_get(mount, "Destination"));
        if (path && *path == '/')
            list[count++] = arena_strdup(arena, path);
    }
    return list;
}

static int changes_ask(struct backend *backend, const char *id, struct changes *changes, struct err *err) {
    char name[DOCKER_NAME_BYTES], path[80];
    int status = 0;
    autobuf answer = buf_max(ANSWER_BYTES);
    docker_name(backend, name, id);
    snprintf(path, sizeof path, "/containers/%s/changes", name);
    struct http_call call = {
        .method = "GET", .path = path, .write_body = changes_write, .user = changes, .timeout_ms = IDLE_MS};
    int r = engine_do(backend->engine, &call, &status, &answer, err);
    if (changes->truncated)
        return 0;
    if (changes->r < 0 || r < 0)
        return changes->r < 0 ? changes->r : r;
    r = engine_answer(backend->engine, status, &answer, "asking what changed in the container", NULL, err);
    if (r < 0)
        return r;
    return give_held(changes) < 0 && !changes->truncated ? changes->r : 0;
}

int docker_changes(struct backend *backend, const struct spec *spec, uint64_t *left,
                   int (*each)(void *user, const struct file_change *change), void *user, bool *ret_truncated,
                   struct err *err) {
    autoarena arena = ARENA_EMPTY;
    json_t *inspection = NULL;
    int r = docker_inspect(backend, spec->id, &inspection, err);
    if (r < 0)
        return r;
    const char *working_dir = json_string_value(json_object_get(json_object_get(inspection, "Config"), "WorkingDir"));
    struct changes changes = {.working_dir = working_dir ? working_dir : "",
                              .mounts = mounts_of(spec, inspection, &arena),
                              .left = *left,
                              .each = each,
                              .user = user,
                              .err = err};
    buf_init(&changes.row, ROW_BYTES);
    r = changes_ask(backend, spec->id, &changes, err);
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
