/* The backend `docker`: a box is a container. Called by the provider through backend_table. Invariants: the three rules
 * of docker.h. A box's directory is made before its container and goes after it: a container without a directory is a
 * leftover, and a directory without a container has lost only the container. */
#include "backend/netcapture.h"
#include "backend/cgroup.h"
#include "backend/docker/docker.h"

#include <poll.h>
#include <sys/pidfd.h>
#include <sys/random.h>

#include "base/base.h"
#include "backend/ids.h"
#include "base/sync.h"
#include "base/url.h"

enum { PATH_BYTES = 4300, ROW_ANY_BYTES = 16 << 20, END_MS = 15000, END_STEP_MS = 20, LIST_MS = 5000, LOOK_MS = 3000 };

/* ---- open, close ---- */

/* Reads STATE/docker-home; false: it does not exist, because there never was a box here. */
static bool docker_home_locked(struct backend *backend) {
    char path[PATH_BYTES], text[64];
    snprintf(path, sizeof path, "%s/docker-home", backend->env->state_dir);
    if (backend->home[0])
        return true;
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 32 || strspn(text, "0123456789abcdef") < 32)
        return false;
    memcpy(backend->home, text, 32);
    return true;
}

/* Another daemon may have made the first box here in the meantime. */
static bool docker_home_known(struct backend *backend) {
    autolock(&backend->lock);
    return docker_home_locked(backend);
}

/* Made with the first box. Of two daemons that do so one is first, and both read what that one wrote. */
static int docker_home_make_locked(struct backend *backend, struct err *err) {
    uint8_t bytes[16];
    char path[PATH_BYTES], temporary[PATH_BYTES + 16], text[33];
    if (backend->home[0])
        return 0;
    snprintf(path, sizeof path, "%s/docker-home", backend->env->state_dir);
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_errno(err, errno, "random bytes");
    text_hex(text, bytes, sizeof bytes);
    autofd fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : fd_write_all(fd, text, 32);
    if (r == 0 && link(temporary, path) < 0 && errno != EEXIST)
        r = -errno;
    unlink(temporary);
    if (r == 0 && !docker_home_locked(backend))
        r = -ENOENT;
    return r < 0 ? err_errno(err, -r, "'%s'", path) : 0;
}

/* From now on its containers are recognized, and their ends noticed. */
static int docker_settle(struct backend *backend, struct err *err) {
    autolock(&backend->lock);
    int r = docker_home_make_locked(backend, err);
    if (r == 0 && !backend->events && !backend->env->one_shot)
        docker_end_watch_locked(backend);
    return r;
}

static void docker_close(struct backend *backend) {
    engine_watch_end(backend->events);
    trash_free(backend->trash);
    engine_free(backend->engine);
    fd_close(&backend->boxes_fd);
    fd_close(&backend->layers_fd);
    free(backend->facts);
    free(backend->ends);
    pthread_mutex_destroy(&backend->lock);
    free(backend);
}

static int docker_open(const struct backend_env *env, struct backend **ret_backend, struct err *err) {
    if (!env->docker)
        return err_set(err, ERR_UNSUPPORTED, "backend docker is not configured");
    struct backend *backend = xcalloc(1, sizeof *backend);
    *backend =
        (struct backend){.env = env, .settings = env->docker, .root = geteuid() == 0, .boxes_fd = -1, .layers_fd = -1};
    pthread_mutex_init(&backend->lock, NULL);
    const struct engine_where where = {
        .url = env->docker->host, .cert_dir = env->docker->cert_dir, .tls = env->docker->tls};
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/boxes", env->state_dir);
    int r = backend->boxes_fd = backend_open_dir(AT_FDCWD, path, true, err);
    snprintf(path, sizeof path, "%s/layers", env->state_dir);
    if (r >= 0)
        r = backend->layers_fd = backend_open_dir(AT_FDCWD, path, true, err);
    if (r >= 0)
        r = engine_new(&where, &backend->engine, err);
    if (r < 0) {
        docker_close(backend);
        return r;
    }
    snprintf(path, sizeof path, "%s/trash", env->state_dir);
    backend->trash = trash_new(path);
    docker_home_known(backend);
    *ret_backend = backend;
    return 0;
}

/* ---- the record ---- */

int docker_record_read(struct backend *backend, const char *id, struct docker_record *ret_record) {
    char text[256];
    struct docker_record record = {0};
    unsigned long long start;
    int pid, dialled, relayed;
    unsigned uid, gid;
    ssize_t n = fd_read_file(backend->boxes_fd, text_make(40, "%.16s/docker", id), text, sizeof text);
    if (n < 0)
        return (int)n;
    if (sscanf(text, "%64s %d %llu %u %u %d %d", record.container, &pid, &start, &uid, &gid, &dialled, &relayed) != 7)
        return -EBADMSG;
    record.pid = pid;
    record.start = start;
    record.uid = uid;
    record.gid = gid;
    record.dialled = dialled;
    record.relayed = relayed;
    *ret_record = record;
    return 0;
}

int docker_record_write(struct backend *backend, const char *id, const struct docker_record *record, struct err *err) {
    const char *path = text_make(40, "%.16s/docker", id);
    const char *text = text_make(256, "%.64s %d %llu %u %u %d %d\n", record->container[0] ? record->container : "-",
                                 (int)record->pid, (unsigned long long)record->start, (unsigned)record->uid,
                                 (unsigned)record->gid, record->dialled, record->relayed);
    int r = fd_replace_file(backend->boxes_fd, path, text, strlen(text));
    return r < 0 ? err_errno(err, -r, "recording the container of box %.16s", id) : 0;
}

int docker_record_pidfd(const struct docker_record *record) {
    return process_pidfd(record->pid, record->start);
}

/* ---- the container ---- */

void docker_name(const struct backend *backend, char name[DOCKER_NAME_BYTES], const char *id) {
    snprintf(name, DOCKER_NAME_BYTES, "cubby-%.8s-%.16s", backend->home, id);
}

const char *docker_path(const struct backend *backend, const char *id, const char *rest, char path[DOCKER_PATH_BYTES]) {
    char name[DOCKER_NAME_BYTES];
    docker_name(backend, name, id);
    snprintf(path, DOCKER_PATH_BYTES, "/containers/%s%s", name, rest);
    return path;
}

int docker_ask(struct backend *backend, const char *id, const char *method, const char *rest, const char *body,
               const char *doing, json_t **ret_json, struct err *err) {
    char path[DOCKER_PATH_BYTES], name[DOCKER_NAME_BYTES], what[96];
    docker_name(backend, name, id);
    snprintf(what, sizeof what, "%s container '%s'", doing, name);
    return engine_json(backend->engine, method, docker_path(backend, id, rest, path), body, what, ret_json, err);
}

bool docker_exists(int dir, const char *id, const char *name) {
    return faccessat(dir, text_make(64, "%.16s/%s", id, name), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int docker_mark(struct backend *backend, const char *id, const char *name, struct err *err) {
    const char *path = text_make(64, "%.16s/%s", id, name);
    autofd fd = openat(backend->boxes_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? err_errno(err, errno, "the mark '%s' of box %.16s", name, id) : 0;
}

void docker_unmark(struct backend *backend, const char *id, const char *name) {
    unlinkat(backend->boxes_fd, text_make(64, "%.16s/%s", id, name), 0);
}

/* The owner of a container, by name and labels: an image that was made from a box has the labels, too, and so has
 * any container of another program that runs it. */
static bool docker_ours(const struct backend *backend, const json_t *labels, const char *id, const char *named) {
    char name[DOCKER_NAME_BYTES];
    docker_name(backend, name, id);
    return strcmp(engine_text(labels, DOCKER_LABEL_HOME), backend->home) == 0 &&
           strcmp(engine_text(labels, DOCKER_LABEL_BOX), id) == 0 && strcmp(named + (named[0] == '/'), name) == 0;
}

int docker_inspect_within(struct backend *backend, const char *id, unsigned timeout_ms, json_t **ret_inspection,
                          struct err *err) {
    char name[DOCKER_NAME_BYTES], path[DOCKER_PATH_BYTES], doing[64];
    json_t *inspection = NULL;
    bool known = docker_home_known(backend); /* the name includes it */
    docker_name(backend, name, id);
    snprintf(doing, sizeof doing, "inspecting container '%s'", name);
    const struct http_call call = {
        .method = "GET", .path = docker_path(backend, id, "/json", path), .timeout_ms = timeout_ms};
    TRY(engine_call(backend->engine, &call, doing, &inspection, err));
    if (!known ||
        !docker_ours(backend, engine_value(inspection, "Config", "Labels"), id, engine_text(inspection, "Name"))) {
        json_decref(inspection);
        return err_set(err, ERR_EXISTS,
                       "container '%s' exists, but is not this server's; it is left alone: remove or rename it "
                       "(docker rm %s), or use another thread",
                       name, name);
    }
    *ret_inspection = inspection;
    return 0;
}

int docker_inspect(struct backend *backend, const char *id, json_t **ret_inspection, struct err *err) {
    return docker_inspect_within(backend, id, 0, ret_inspection, err);
}

bool docker_running(const json_t *inspection) {
    return json_is_true(engine_value(inspection, "State", "Running"));
}

bool docker_is_paused(const json_t *inspection) {
    return json_is_true(engine_value(inspection, "State", "Paused"));
}

static const char *docker_container_id(const json_t *inspection) {
    const char *id = engine_text(inspection, "Id");
    return *id && strlen(id) <= 64 && strspn(id, "0123456789abcdef") == strlen(id) ? id : "-";
}

/* By the engine's id, which is never another container's. */
static int docker_act(struct backend *backend, const json_t *inspection, const char *method, const char *rest,
                      const char *doing, struct err *err) {
    const char *path = text_make(128, "/containers/%s%s", docker_container_id(inspection), rest);
    return engine_json(backend->engine, method, path, NULL, doing, NULL, err);
}

/* 0 and NULL: absent, or a foreign container. */
static int docker_inspect_ours(struct backend *backend, const char *id, json_t **ret_inspection, struct err *err) {
    *ret_inspection = NULL;
    int r = docker_inspect(backend, id, ret_inspection, err);
    return r == -ERR_NOT_FOUND || r == -ERR_EXISTS ? 0 : r;
}

int docker_remove(struct backend *backend, const char *id, struct err *err) {
    for (uint64_t until_ms = clock_ms() + END_MS;; poll(NULL, 0, END_STEP_MS)) {
        json_t *inspection;
        int r = docker_inspect_ours(backend, id, &inspection, err);
        if (r < 0 || !inspection)
            return r;
        r = docker_act(backend, inspection, "DELETE", "?force=1&v=1", "removing the box's container", err);
        const char *group = json_string_value(json_object_get(inspection, "Id"));
        if (group)
            cgroup_gauges_close(group);
        json_decref(inspection);
        if (r == 0 || r == -ERR_NOT_FOUND)
            return 0;
        if (r != -ERR_BUSY || clock_ms() >= until_ms) /* BUSY: it is just being removed */
            return r;
    }
}

/* When it returns 0, nothing runs. */
static int docker_kill(struct backend *backend, const char *id, struct err *err) {
    json_t *inspection;
    int r = docker_inspect_ours(backend, id, &inspection, err);
    bool running = r == 0 && docker_running(inspection);
    if (running)
        r = docker_act(backend, inspection, "POST", "/kill?signal=KILL", "ending the box's container", err);
    json_decref(inspection);
    struct err own; /* it may have ended by now, which an engine calls a conflict */
    for (uint64_t until_ms = clock_ms() + END_MS; running; poll(NULL, 0, END_STEP_MS)) {
        int looked = docker_inspect_ours(backend, id, &inspection, &own);
        running = looked == 0 && docker_running(inspection);
        json_decref(inspection);
        if (looked < 0 || (running && clock_ms() >= until_ms)) {
            if (r < 0) /* why it was not killed says more */
                return r;
            *err = own;
            return looked < 0 ? looked : err_set(err, ERR_BUSY, "the processes of box %.16s do not end; try again", id);
        }
        if (!running)
            return 0;
    }
    return r;
}

/* ---- start ---- */

/* Asks the engine to make it. */
static int docker_create(struct docker_start *start, struct docker_record *record, struct err *err) {
    const char *platform = start->spec->container.platform;
    char name[DOCKER_NAME_BYTES];
    json_t *answer = NULL;
    autobuf body = buf_max(ROW_ANY_BYTES);
    int r = docker_spec_body(start, &body, err);
    if (r == 0 && !buf_cstr(&body))
        r = err_set(err, ERR_TOO_LARGE, "the container's settings are too long");
    if (r < 0)
        return r;
    docker_name(start->backend, name, start->spec->id);
    const char *path = arena_printf(start->arena, "/containers/create?name=%s%s%s", name, platform ? "&platform=" : "",
                                    platform ? url_encode(start->arena, platform, URL_VALUE) : "");
    r = engine_json(start->backend->engine, "POST", path, (const char *)body.data,
                    arena_printf(start->arena, "creating container '%s'", name), &answer, err);
    if (r == 0)
        snprintf(record->container, sizeof record->container, "%s", docker_container_id(answer));
    json_decref(answer);
    start->made = r == 0;
    return r;
}

static int docker_make(struct docker_start *start, struct docker_record *record, struct err *err) {
    struct backend *backend = start->backend;
    int r = docker_image_get(backend, start->spec, start->arena, &start->image, err);
    bool cleared = false;
    while (r == 0 && (r = docker_create(start, record, err)) < 0) {
        struct err own;
        json_t *left = NULL;
        if (start->near && err->why == WHY_UNSEEN) { /* its socket is here, but it is elsewhere */
            start->near = false;
            start->workspace_dir = NULL;
            r = 0;
        } else if (r == -ERR_EXISTS && !cleared) { /* a killed daemon left it, or a foreign container has our name */
            cleared = true;
            r = docker_inspect(backend, start->spec->id, &left, err);
            json_decref(left);
            if (r == 0 || r == -ERR_NOT_FOUND)
                r = docker_remove(backend, start->spec->id, &own) < 0 ? err_set(err, ERR_BUSY, "%s", own.text) : 0;
        } else {
            break;
        }
    }
    if (r == 0 && !start->near)
        atomic_store(&backend->far, true);
    return r;
}

/* Starts a stopped container again if it is made from the right image; else it steps aside. 1: make a new one. */
static int docker_again(struct docker_start *start, struct docker_record *record, struct err *err) {
    struct backend *backend = start->backend;
    const char *id = start->spec->id;
    char from[65];
    json_t *inspection = NULL, *mount;
    size_t i;
    docker_spec_from(backend, start->spec, from);
    int r = docker_aside_settle(backend, id, from, err) ?: docker_inspect(backend, id, &inspection, err);
    if (r < 0)
        return r == -ERR_NOT_FOUND ? 1 : r;
    const char *image = engine_text(inspection, "Image");
    if (docker_running(inspection))
        r = docker_kill(backend, id, err);
    if (r == 0 && *image && strcmp(engine_text(inspection, "Config", "Labels", DOCKER_LABEL_FROM), from) == 0) {
        if (!docker_image_settings(json_object_get(inspection, "Config"), start->arena, &start->image))
            r = err_set(err, ERR_PROTOCOL, "the engine returned an invalid description of the container of box %s", id);
        snprintf(start->image.id, sizeof start->image.id, "%s", image);
        start->image.reference = start->spec->template_name;
        snprintf(record->container, sizeof record->container, "%s", docker_container_id(inspection));
        start->near = false;
        json_array_foreach(json_object_get(inspection, "Mounts"), i, mount) {
            start->near |= strcmp(engine_text(mount, "Destination"), DOCKER_RUN "/run") == 0;
        }
        if (!start->near)
            start->workspace_dir = NULL;
    } else if (r == 0) {
        r = docker_aside(backend, id, err);
        start->aside = r == 0;
        r = r == 0 ? 1 : r;
    }
    json_decref(inspection);
    return r;
}

/* From the box's directory to its wire. */
static int docker_run(struct docker_start *start, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    struct backend *backend = start->backend;
    const char *id = start->spec->id, *state_dir = backend->env->state_dir;
    struct docker_record record = {.container = "-"};
    start->near = engine_near(backend->engine) && !atomic_load(&backend->far);
    start->dial_dir = arena_printf(start->arena, "%s/boxes/%s/dial", state_dir, id);
    start->workspace_dir = start->near ? arena_printf(start->arena, "%s/boxes/%s/workspace", state_dir, id) : NULL;
    TRY(docker_record_write(backend, id, &record, err));
    if (mkdirat(start->box_fd, "dial", 0755) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%s'", start->dial_dir);
    if (fchmodat(start->box_fd, "dial", 0755, 0) < 0) /* whatever our umask: the box's user passes through it */
        return err_errno(err, errno, "'%s'", start->dial_dir);
    int r = docker_layer_lay(backend, start->spec, start->box_fd, err);
    if (r == 0)
        r = start->fresh ? 1 : docker_again(start, &record, err);
    if (r == 1)
        r = docker_make(start, &record, err);
    if (r == 0)
        r = docker_record_write(backend, id, &record, err);
    unlinkat(start->box_fd, "paused", 0);
    return r == 0 ? docker_wire_start(start, ret_wire, ret_pidfd, err) : r;
}

/* After a failure: leaves what existed before, and nothing else. */
static void docker_undo(struct docker_start *start) {
    struct backend *backend = start->backend;
    const char *id = start->spec->id;
    struct docker_record record = {.container = "-"};
    struct err ignored;
    if (start->made && !start->aside)
        docker_remove(backend, id, &ignored);
    else if (!start->made && !start->fresh)
        docker_kill(backend, id, &ignored);
    if (start->aside)
        docker_aside_end(backend, id, false, &ignored);
    if (start->fresh)
        trash_put(backend->trash, backend->boxes_fd, id, &ignored);
    else
        docker_record_write(backend, id, &record, &ignored);
}

static int docker_start(struct backend *backend, const struct spec *spec, struct wire **ret_wire, int *ret_pidfd,
                        struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct docker_start *start = arena_alloc(&arena, sizeof *start);
    start->backend = backend;
    start->spec = spec;
    start->arena = &arena;
    start->dial_dir_fd = start->dial_fd = start->listener_fd = start->stream_fd = -1;
    TRY(docker_settle(backend, err) ?: docker_facts(backend, &start->facts, err));
    start->fresh = mkdirat(backend->boxes_fd, spec->id, BACKEND_UNFINISHED_MODE) == 0;
    autofd box = openat(backend->boxes_fd, spec->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (box < 0)
        return err_errno(err, errno, "the box's directory");
    start->box_fd = box;
    docker_still_end(backend, spec->id);
    int r = docker_run(start, ret_wire, ret_pidfd, err);
    struct err ignored;
    if (r < 0)
        docker_undo(start);
    else if (!start->fresh) /* of this start, or of one whose daemon was killed */
        docker_aside_end(backend, spec->id, true, &ignored);
    return r;
}

/* ---- found again ---- */

/* Whether the kernel, or where it cannot know the engine, still has the runner that is recorded. */
static int docker_alive(struct backend *backend, const char *id, const struct docker_record *record, struct err *err) {
    autofd pidfd = docker_record_pidfd(record);
    if (pidfd >= 0)
        return 0;
    json_t *inspection = NULL;
    int r = record->pid ? 0 : docker_inspect(backend, id, &inspection, err);
    if (r == 0 && !docker_running(inspection))
        r = err_set(err, ERR_GONE, "the runner of box %s ended", id);
    json_decref(inspection);
    if (r == -ERR_NOT_FOUND || r == -ERR_EXISTS)
        return err_set(err, ERR_GONE, "the container of box %s was removed", id);
    return r;
}

static int docker_discover(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd,
                           struct err *err) {
    struct docker_record record;
    int r = docker_record_read(backend, id, &record);
    if (r == -ENOENT || (r == 0 && !record.dialled && !record.relayed))
        return err_set(err, ERR_NOT_FOUND, "no container of box %s runs", id);
    if (r < 0)
        return err_set(err, ERR_GONE, "the record of the container of box %s is damaged", id);
    r = docker_settle(backend, err);
    docker_still_end(backend, id);
    if (r == 0)
        r = docker_alive(backend, id, &record, err);
    if (r == 0)
        r = docker_wire_find(backend, id, ret_wire, ret_pidfd, err);
    return r;
}

static int docker_list(struct backend *backend, void (*each)(void *user, const char *id), void *user, struct err *err) {
    return backend_list_boxes(backend->boxes_fd, "docker", each, user, err);
}

/* ---- stop ---- */

/* Whether the recorded runner is the first process of its container: with it everything in there ends. */
static bool docker_is_init(pid_t pid) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    const char *line = fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 ? strstr(text, "\nNSpid:") : NULL;
    if (!line)
        return false;
    const char *end = strchr(line + 1, '\n'), *last = line;
    for (const char *at = line; at < end; at++)
        last = *at == '\t' ? at : last;
    return last > line && strtol(last + 1, NULL, 10) == 1 && strchr(line, '\t') != last;
}

/* By the kernel, which does not depend on an engine; by the engine where the kernel cannot. */
static int docker_end_processes(struct backend *backend, const char *id, const struct docker_record *record,
                                struct err *err) {
    autofd pidfd = docker_record_pidfd(record);
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    if (pidfd >= 0 && docker_is_init(record->pid) && !docker_paused(backend, id) &&
        pidfd_send_signal(pidfd, SIGKILL, NULL, 0) == 0 && poll(&end, 1, END_MS) == 1)
        return 0;
    /* The runner has ended. An image's own program may still run: it is ended now, or before the next start if the
     * engine does not answer. */
    json_auto_t *inspection = NULL;
    bool ended = record->pid && pidfd < 0 &&
                 (docker_inspect_within(backend, id, LOOK_MS, &inspection, err) < 0 || !docker_running(inspection));
    return ended ? 0 : docker_kill(backend, id, err);
}

static int docker_stop(struct backend *backend, const char *id, bool keep_files, struct err *err) {
    struct docker_record record = {0};
    if (!text_id(id))
        return err_set(err, ERR_INVALID, "'%.40s' is not a box id", id);
    autofd box = openat(backend->boxes_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (box < 0)
        return 0;
    bool recorded = docker_record_read(backend, id, &record) != -ENOENT; /* also where the record is damaged */
    int r = 0;
    if (recorded && keep_files)
        r = docker_end_processes(backend, id, &record, err);
    else if (recorded && (r = docker_remove(backend, id, err)) == 0)
        r = docker_aside_end(backend, id, true, err);
    if (r < 0)
        return r;
    unlinkat(box, "sock", 0);
    unlinkat(box, "dial/sock", 0);
    unlinkat(box, "paused", 0);
    if (!keep_files)
        return trash_put(backend->trash, backend->boxes_fd, id, err);
    record.pid = 0;
    record.start = 0;
    record.dialled = record.relayed = false;
    return recorded ? docker_record_write(backend, id, &record, err) : 0;
}

/* ---- leftovers ---- */

/* The engine's objects under a filter with one value. NULL: it does not answer. A starting daemon waits for it. */
static json_t *docker_list_by(struct backend *backend, const char *path, const char *filter, const char *value) {
    autoarena arena = ARENA_EMPTY;
    json_t *rows = NULL;
    struct err ignored;
    const char *text = arena_printf(&arena, "{\"%s\":[\"%s\"]}", filter, value);
    const char *whole = arena_printf(&arena, "%s?all=1&filters=%s", path, url_encode(&arena, text, URL_VALUE));
    const struct http_call call = {.method = "GET", .path = whole, .timeout_ms = LIST_MS};
    return engine_call(backend->engine, &call, "looking for leftovers", &rows, &ignored) < 0 ? NULL : rows;
}

/* Containers of ours whose directory is gone. A start makes the directory first. false: the engine does not answer. */
static bool docker_clean_containers(struct backend *backend, void (*each)(void *user, const char *what), void *user) {
    char label[80], text[64];
    json_t *row;
    size_t i;
    struct err ignored;
    snprintf(label, sizeof label, DOCKER_LABEL_HOME "=%s", backend->home);
    json_auto_t *rows = docker_list_by(backend, "/containers/json", "label", label);
    json_array_foreach(rows, i, row) {
        const json_t *labels = json_object_get(row, "Labels");
        const char *id = engine_text(labels, DOCKER_LABEL_BOX);
        const char *name = json_string_value(json_array_get(json_object_get(row, "Names"), 0));
        if (!text_id(id) || !name || !docker_ours(backend, labels, id, name) ||
            docker_exists(backend->boxes_fd, id, ".") || docker_remove(backend, id, &ignored) < 0)
            continue;
        snprintf(text, sizeof text, "container %s", name + (name[0] == '/'));
        each(user, text);
    }
    return rows != NULL;
}

/* Images of layers whose directory is gone; that is made first, too. */
static void docker_clean_images(struct backend *backend, void (*each)(void *user, const char *what), void *user) {
    char name[DOCKER_LAYER_BYTES], text[64];
    json_t *row, *tag;
    size_t i, j;
    struct err ignored;
    docker_layer_image(backend, "", name);
    name[strlen(name) - 1] = 0; /* without the colon before the tag */
    json_auto_t *rows = docker_list_by(backend, "/images/json", "reference", name);
    json_array_foreach(rows, i, row) json_array_foreach(json_object_get(row, "RepoTags"), j, tag) {
        const char *reference = json_string_value(tag), *layer = reference ? strrchr(reference, ':') : NULL;
        if (!layer || !text_id(layer + 1) || !strstr(reference, name) ||
            docker_exists(backend->layers_fd, layer + 1, ".") || docker_drop_layer(backend, layer + 1, &ignored) < 0)
            continue;
        snprintf(text, sizeof text, "the image of layer %s", layer + 1);
        each(user, text);
    }
}

static void docker_clean(struct backend *backend, void (*each)(void *user, const char *what), void *user) {
    if (trash_wake(backend->trash))
        each(user, "files in trash/");
    if (docker_home_known(backend) && docker_clean_containers(backend, each, user))
        docker_clean_images(backend, each, user);
}

/* Only the kernel's own network namespace can be wired: not that of another machine, nor of a kernel in user space. */
static int docker_netplace(struct backend *backend, const char *id, struct netplace *ret_place, struct err *err) {
    struct docker_record record;
    if (docker_record_read(backend, id, &record) < 0 || record.pid == 0 || geteuid() != 0)
        return err_set(
            err, ERR_UNSUPPORTED,
            "a network policy needs an engine on this machine, containers of this kernel (not runsc or kata), "
            "and a daemon that runs as root");
    autofd net = open(text_make(64, "/proc/%d/ns/net", record.pid), O_RDONLY | O_CLOEXEC);
    autofd own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    autofd pidfd = docker_record_pidfd(&record); /* and not another process with its number */
    struct stat there, here;
    if (net < 0 || pidfd < 0 || fstat(net, &there) < 0 || fstat(own, &here) < 0)
        return err_set(err, ERR_GONE, "box %s has ended", id);
    if (there.st_ino == here.st_ino)
        return err_set(err, ERR_UNSUPPORTED, "box %s has the network of this machine", id);
    *ret_place = (struct netplace){.net = fd_take(&net), .user = -1};
    return 0;
}

const struct backend_ops backend_docker = {
    .name = "docker",
    .images = true,
    .whole_layers = true,
    .far_layers = true,
    .open = docker_open,
    .close = docker_close,
    .start = docker_start,
    .discover = docker_discover,
    .connect = docker_wire_connect,
    .stop = docker_stop,
    .list = docker_list,
    .clean = docker_clean,
    .usage = docker_usage,
    .pause = docker_pause,
    .paused = docker_paused,
    .why = docker_why,
    .files = docker_files,
    .keep = docker_keep,
    .fresh = docker_fresh,
    .drop_layer = docker_drop_layer,
    .attach = docker_mount_skills,
    .attaches = docker_mount_enters,
    .netplace = docker_netplace,
    .export = docker_export,
    .diff = docker_diff,
    .info = docker_info,
};
