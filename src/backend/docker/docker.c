/* The backend `docker`: a box is a container. Called by the provider through backend_table. Invariant: the three rules
 * at the head of docker.h. What is on the disk of a box is there before its container is, and goes after it: so a
 * container without a directory is a leftover, and a directory without a container has lost nothing but the container.
 *
 * state/boxes/ID/      0700
 *   docker             what is known of the container (struct docker_record)
 *   dial/              mounted into it, read-only: where its runner finds us while it starts
 *   sock               where its runner listens
 *   workspace/, skills/
 *   paused             it stands still */
#include "backend/docker/docker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/ids.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/url.h"

enum { PATH_BYTES = 4300, ROW_ANY_BYTES = 16 << 20, END_MS = 15000, END_STEP_MS = 20, LIST_MS = 5000, LOOK_MS = 3000 };

/* ---- open, close ---- */

static int home_read_locked(struct backend *backend) {
    char path[PATH_BYTES], text[64];
    snprintf(path, sizeof path, "%s/docker-home", backend->env->state_dir);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 32 || strspn(text, "0123456789abcdef") < 32)
        return -ENOENT;
    memcpy(backend->home, text, 32);
    return 0;
}

/* Another daemon may have made the first box here meanwhile. false: there never was one. */
static bool home_known(struct backend *backend) {
    pthread_mutex_lock(&backend->lock);
    bool known = backend->home[0] || home_read_locked(backend) == 0;
    pthread_mutex_unlock(&backend->lock);
    return known;
}

/* Made when the first box is: of two daemons that do it one is first, and both have what that one wrote. */
static int home_make_locked(struct backend *backend, struct err *err) {
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
    if (r == 0)
        r = home_read_locked(backend);
    return r < 0 ? err_errno(err, -r, "'%s'", path) : 0;
}

/* Its containers can be told from others', and their ends are heard of. */
static int docker_settle(struct backend *backend, struct err *err) {
    pthread_mutex_lock(&backend->lock);
    int r = home_make_locked(backend, err);
    if (r == 0 && !backend->events && !backend->env->one_shot)
        docker_end_watch_locked(backend);
    pthread_mutex_unlock(&backend->lock);
    return r;
}

static int open_dir(const char *state_dir, const char *name, int *ret_fd, struct err *err) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", state_dir, name);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%s'", path);
    *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd < 0 ? err_errno(err, errno, "'%s'", path) : 0;
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
    int r = open_dir(env->state_dir, "boxes", &backend->boxes_fd, err);
    if (r == 0)
        r = open_dir(env->state_dir, "layers", &backend->layers_fd, err);
    if (r == 0)
        r = engine_new(&where, &backend->engine, err);
    if (r < 0) {
        docker_close(backend);
        return r;
    }
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/trash", env->state_dir);
    backend->trash = trash_new(path);
    home_known(backend);
    *ret_backend = backend;
    return 0;
}

/* ---- the record ---- */

int docker_record_read(struct backend *backend, const char *id, struct docker_record *ret_record) {
    char path[40], text[256];
    struct docker_record record = {0};
    unsigned long long start;
    int pid, dialled, relayed;
    unsigned uid, gid;
    snprintf(path, sizeof path, "%.16s/docker", id);
    ssize_t n = fd_read_file(backend->boxes_fd, path, text, sizeof text);
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
    char path[40], text[256];
    snprintf(path, sizeof path, "%.16s/docker", id);
    snprintf(text, sizeof text, "%.64s %d %llu %u %u %d %d\n", record->container[0] ? record->container : "-",
             (int)record->pid, (unsigned long long)record->start, (unsigned)record->uid, (unsigned)record->gid,
             record->dialled, record->relayed);
    int r = fd_replace_file(backend->boxes_fd, path, text, strlen(text));
    return r < 0 ? err_errno(err, -r, "noting the container of box %.16s", id) : 0;
}

int docker_record_pidfd(const struct docker_record *record) {
    return process_pidfd(record->pid, record->start);
}

/* ---- the container ---- */

void docker_name(const struct backend *backend, char name[DOCKER_NAME_BYTES], const char *id) {
    snprintf(name, DOCKER_NAME_BYTES, DOCKER_NAME "%.8s-%.16s", backend->home, id);
}

/* By name and labels: an image that was made from a box has the labels, too, and so has whatever a stranger runs from it. */
static bool ours(const struct backend *backend, const json_t *inspection, const char *id, const char *name) {
    const json_t *labels = json_object_get(json_object_get(inspection, "Config"), "Labels");
    const char *home = json_string_value(json_object_get(labels, DOCKER_LABEL_HOME));
    const char *box = json_string_value(json_object_get(labels, DOCKER_LABEL_BOX));
    const char *named = json_string_value(json_object_get(inspection, "Name"));
    if (!home || !box || !named)
        return false;
    return strcmp(home, backend->home) == 0 && strcmp(box, id) == 0 && strcmp(named + (named[0] == '/'), name) == 0;
}

int docker_inspect_within(struct backend *backend, const char *id, unsigned timeout_ms, json_t **ret_inspection,
                          struct err *err) {
    char name[DOCKER_NAME_BYTES], path[64], doing[64];
    json_t *inspection = NULL;
    int status;
    autobuf answer = buf_max(ENGINE_ANSWER_BYTES);
    bool known = home_known(backend); /* its name has it */
    docker_name(backend, name, id);
    snprintf(path, sizeof path, "/containers/%s/json", name);
    snprintf(doing, sizeof doing, "looking at container '%s'", name);
    const struct http_call call = {.method = "GET", .path = path, .timeout_ms = timeout_ms};
    int r = engine_do(backend->engine, &call, &status, &answer, err);
    if (r == 0)
        r = engine_answer(backend->engine, status, &answer, doing, &inspection, err);
    if (r < 0)
        return r;
    if (!known || !ours(backend, inspection, id, name)) {
        json_decref(inspection);
        return err_set(err, ERR_EXISTS,
                       "there is a container '%s' that is not this server's; it is left alone: remove or rename it "
                       "(docker rm %s), or use another thread",
                       name, name);
    }
    *ret_inspection = inspection;
    return 0;
}

int docker_inspect(struct backend *backend, const char *id, json_t **ret_inspection, struct err *err) {
    return docker_inspect_within(backend, id, 0, ret_inspection, err);
}

bool docker_running(const json_t *inspection, pid_t *ret_pid) {
    const json_t *state = json_object_get(inspection, "State");
    json_int_t pid = json_integer_value(json_object_get(state, "Pid"));
    bool running = json_is_true(json_object_get(state, "Running"));
    if (ret_pid)
        *ret_pid = running && pid > 0 && pid < (1 << 30) ? (pid_t)pid : 0;
    return running;
}

static const char *container_id(const json_t *inspection) {
    const char *id = json_string_value(json_object_get(inspection, "Id"));
    return id && strlen(id) <= 64 && strspn(id, "0123456789abcdef") == strlen(id) ? id : "-";
}

/* Absent, or a stranger's: nothing of ours. */
static int inspect_ours(struct backend *backend, const char *id, json_t **ret_inspection, struct err *err) {
    *ret_inspection = NULL;
    int r = docker_inspect(backend, id, ret_inspection, err);
    return r == -ERR_NOT_FOUND || r == -ERR_EXISTS ? 0 : r;
}

static void step(uint64_t *waited_ms) {
    poll(NULL, 0, END_STEP_MS);
    *waited_ms += END_STEP_MS;
}

int docker_remove(struct backend *backend, const char *id, struct err *err) {
    for (uint64_t waited_ms = 0;;) {
        json_t *inspection;
        char path[128], doing[64];
        int r = inspect_ours(backend, id, &inspection, err);
        if (r < 0 || !inspection)
            return r;
        snprintf(path, sizeof path, "/containers/%s?force=1&v=1", container_id(inspection));
        snprintf(doing, sizeof doing, "removing the container of box %.16s", id);
        json_decref(inspection);
        r = engine_json(backend->engine, "DELETE", path, NULL, doing, NULL, err);
        if (r == 0 || r == -ERR_NOT_FOUND)
            return 0;
        if (r != -ERR_BUSY || waited_ms >= END_MS) /* it is just being removed */
            return r;
        step(&waited_ms);
    }
}

static int wait_ended(struct backend *backend, const char *id, struct err *err) {
    for (uint64_t waited_ms = 0;; step(&waited_ms)) {
        json_t *inspection;
        int r = inspect_ours(backend, id, &inspection, err);
        bool running = r == 0 && inspection && docker_running(inspection, NULL);
        json_decref(inspection);
        if (r < 0 || !running)
            return r;
        if (waited_ms >= END_MS)
            return err_set(err, ERR_BUSY, "the processes of box %.16s do not end; try again", id);
    }
}

int docker_kill(struct backend *backend, const char *id, struct err *err) {
    json_t *inspection;
    char path[128], doing[64];
    int r = inspect_ours(backend, id, &inspection, err);
    bool running = r == 0 && inspection && docker_running(inspection, NULL);
    if (running) {
        snprintf(path, sizeof path, "/containers/%s/kill?signal=KILL", container_id(inspection));
        snprintf(doing, sizeof doing, "ending the container of box %.16s", id);
        r = engine_json(backend->engine, "POST", path, NULL, doing, NULL, err);
    }
    json_decref(inspection);
    struct err own; /* it may have ended meanwhile, which an engine calls a conflict */
    if (!running || wait_ended(backend, id, r < 0 ? &own : err) < 0)
        return r < 0 || !running ? r : -err->code;
    return 0;
}

/* ---- start ---- */

struct starting {
    struct backend *backend;
    const struct spec *spec;
    struct arena *arena;
    struct docker_facts facts;
    struct docker_way way;
    struct docker_image image;
    bool fresh; /* there was nothing of the box */
    bool made;  /* the container, by us */
    bool aside; /* an older one has given it its name */
};

static int start_body(struct starting *starting, struct buf *body, struct err *err) {
    buf_clear(body);
    return docker_spec_body(starting->backend, starting->spec, &starting->image, &starting->way, &starting->facts, body,
                            err);
}

static int start_create(struct starting *starting, const struct buf *body, struct docker_record *record,
                        struct err *err) {
    struct backend *backend = starting->backend;
    const struct spec *spec = starting->spec;
    char name[DOCKER_NAME_BYTES], doing[64];
    json_t *answer = NULL;
    docker_name(backend, name, spec->id);
    const char *platform = spec->container.platform;
    const char *path =
        arena_printf(starting->arena, "/containers/create?name=%s%s%s", name, platform ? "&platform=" : "",
                     platform ? url_encode(starting->arena, platform, URL_VALUE) : "");
    snprintf(doing, sizeof doing, "creating container '%s'", name);
    int r = engine_json(backend->engine, "POST", path, (const char *)body->data, doing, &answer, err);
    if (r == 0)
        snprintf(record->container, sizeof record->container, "%s", container_id(answer));
    json_decref(answer);
    return r;
}

static int start_make(struct starting *starting, struct docker_record *record, struct err *err) {
    struct backend *backend = starting->backend;
    autobuf body = buf_max(ROW_ANY_BYTES);
    int r = docker_image_get(backend, starting->spec, starting->arena, &starting->image, err);
    bool cleared = false;
    while (r == 0) {
        r = start_body(starting, &body, err);
        if (r == 0 && !buf_cstr(&body))
            r = err_set(err, ERR_TOO_LARGE, "the container's settings are too long");
        if (r == 0)
            r = start_create(starting, &body, record, err);
        if (r == 0) {
            starting->made = true;
            if (!starting->way.near)
                atomic_store(&backend->far, true);
            return 0;
        }
        struct err own;
        json_t *left = NULL;
        if (starting->way.near && err->why == WHY_UNSEEN) { /* it is elsewhere, behind a socket all the same */
            starting->way.near = false;
            starting->way.workspace_dir = NULL;
            r = 0;
        } else if (r == -ERR_EXISTS && !cleared) { /* a killed daemon left it, or a stranger has our name */
            cleared = true;
            r = docker_inspect(backend, starting->spec->id, &left, err);
            json_decref(left);
            if (r == 0 || r == -ERR_NOT_FOUND)
                r = docker_remove(backend, starting->spec->id, &own) < 0 ? err_set(err, ERR_BUSY, "%s", own.text) : 0;
        }
    }
    return r;
}

static bool mounts_dial(const json_t *inspection) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(inspection, "Mounts"), i, row) {
        const char *target = json_string_value(json_object_get(row, "Destination"));
        if (target && strcmp(target, DOCKER_RUN "/run") == 0)
            return true;
    }
    return false;
}

/* One that was stopped goes on where it is from what it should be; else it steps aside. 1: there is none to go on with. */
static int start_again(struct starting *starting, struct docker_record *record, struct err *err) {
    struct backend *backend = starting->backend;
    const char *id = starting->spec->id;
    char from[65];
    json_t *inspection = NULL;
    docker_spec_from(backend, starting->spec, from);
    int r = docker_aside_settle(backend, id, from, err);
    if (r == 0)
        r = docker_inspect(backend, id, &inspection, err);
    if (r < 0)
        return r == -ERR_NOT_FOUND ? 1 : r;
    const json_t *config = json_object_get(inspection, "Config");
    const char *made_from = json_string_value(json_object_get(json_object_get(config, "Labels"), DOCKER_LABEL_FROM));
    const char *image = json_string_value(json_object_get(inspection, "Image"));
    if (docker_running(inspection, NULL))
        r = docker_kill(backend, id, err);
    if (r == 0 && made_from && image && strcmp(made_from, from) == 0) {
        if (!docker_image_settings(config, starting->arena, &starting->image))
            r = err_set(err, ERR_PROTOCOL, "the engine tells nonsense of the container of box %s", id);
        snprintf(starting->image.id, sizeof starting->image.id, "%s", image);
        starting->image.reference = starting->spec->template_name;
        snprintf(record->container, sizeof record->container, "%s", container_id(inspection));
        starting->way.near = mounts_dial(inspection);
        if (!starting->way.near)
            starting->way.workspace_dir = NULL;
    } else if (r == 0) {
        r = docker_aside(backend, id, err);
        starting->aside = r == 0;
        r = r == 0 ? 1 : r;
    }
    json_decref(inspection);
    return r;
}

static int start_place(struct starting *starting, int box_fd, struct err *err) {
    struct backend *backend = starting->backend;
    const struct spec *spec = starting->spec;
    const char *box_dir = arena_printf(starting->arena, "%s/boxes/%s", backend->env->state_dir, spec->id);
    bool near = engine_near(backend->engine) && !atomic_load(&backend->far);
    starting->way = (struct docker_way){
        .near = near,
        .runner_path = backend->env->runner_path,
        .dial_dir = arena_printf(starting->arena, "%s/dial", box_dir),
        .workspace_dir = near ? arena_printf(starting->arena, "%s/workspace", box_dir) : NULL,
    };
    if (mkdirat(box_fd, "dial", 0755) < 0 && errno != EEXIST)
        return err_errno(err, errno, "'%s'", starting->way.dial_dir);
    if (fchmodat(box_fd, "dial", 0755, 0) < 0) /* whatever our umask: its user walks through */
        return err_errno(err, errno, "'%s'", starting->way.dial_dir);
    return docker_layer_lay(backend, spec, box_fd, err);
}

static int start_run(struct starting *starting, int box_fd, struct wire **ret_wire, int *ret_pidfd, struct err *err) {
    struct backend *backend = starting->backend;
    const char *id = starting->spec->id;
    struct docker_record record = {.container = "-"};
    int r = docker_record_write(backend, id, &record, err);
    if (r == 0)
        r = start_place(starting, box_fd, err);
    if (r == 0)
        r = starting->fresh ? 1 : start_again(starting, &record, err);
    if (r == 1)
        r = start_make(starting, &record, err);
    if (r == 0)
        r = docker_record_write(backend, id, &record, err);
    unlinkat(box_fd, "paused", 0);
    return r == 0
               ? docker_wire_start(backend, starting->spec, &starting->way, &starting->image, ret_wire, ret_pidfd, err)
               : r;
}

/* What was there before is there still, and nothing else. */
static void start_undo(struct starting *starting) {
    struct backend *backend = starting->backend;
    const char *id = starting->spec->id;
    struct docker_record record = {.container = "-"};
    struct err ignored;
    if (starting->made && !starting->aside)
        docker_remove(backend, id, &ignored);
    else if (!starting->made && !starting->fresh)
        docker_kill(backend, id, &ignored);
    if (starting->aside)
        docker_aside_end(backend, id, false, &ignored);
    if (starting->fresh)
        trash_put(backend->trash, backend->boxes_fd, id, &ignored);
    else
        docker_record_write(backend, id, &record, &ignored);
}

static int docker_start(struct backend *backend, const struct spec *spec, struct wire **ret_wire, int *ret_pidfd,
                        struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct starting *starting = arena_alloc(&arena, sizeof *starting);
    *starting = (struct starting){.backend = backend, .spec = spec, .arena = &arena};
    int r = docker_settle(backend, err);
    if (r == 0)
        r = docker_facts(backend, &starting->facts, err);
    if (r < 0)
        return r;
    starting->fresh = mkdirat(backend->boxes_fd, spec->id, BACKEND_UNFINISHED_MODE) == 0;
    autofd box = openat(backend->boxes_fd, spec->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (box < 0)
        return err_errno(err, errno, "the box's directory");
    docker_still_end(backend, spec->id);
    r = start_run(starting, box, ret_wire, ret_pidfd, err);
    struct err ignored;
    if (r < 0) {
        start_undo(starting);
    } else if (!starting->fresh) { /* of this start, or of one whose daemon was killed */
        docker_aside_end(backend, spec->id, true, &ignored);
    }
    return r;
}

/* ---- found again ---- */

/* Whether the engine, or where it says nothing the kernel, still has what the record tells of. */
static int found_alive(struct backend *backend, const char *id, const struct docker_record *record, struct err *err) {
    autofd pidfd = docker_record_pidfd(record);
    if (pidfd >= 0)
        return 0;
    if (record->pid)
        return err_set(err, ERR_GONE, "the runner of box %s ended", id);
    json_t *inspection = NULL;
    int r = docker_inspect(backend, id, &inspection, err);
    if (r == 0 && !docker_running(inspection, NULL))
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
        return err_set(err, ERR_GONE, "what is noted of the container of box %s is damaged", id);
    r = docker_settle(backend, err);
    docker_still_end(backend, id);
    if (r == 0)
        r = found_alive(backend, id, &record, err);
    if (r == 0)
        r = docker_wire_find(backend, id, ret_wire, ret_pidfd, err);
    return r;
}

static int docker_list(struct backend *backend, void (*each)(void *user, const char *id), void *user, struct err *err) {
    return backend_list_boxes(backend->boxes_fd, "docker", each, user, err);
}

/* ---- stop ---- */

/* Whether the recorded runner is the first process of its container: with it everything in there ends. */
static bool is_init(pid_t pid) {
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

/* By the kernel, which waits for no engine and works without one; by the engine where the kernel cannot. */
static int end_processes(struct backend *backend, const char *id, const struct docker_record *record, struct err *err) {
    autofd pidfd = docker_record_pidfd(record);
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    if (pidfd >= 0 && is_init(record->pid) && !docker_paused(backend, id) &&
        pidfd_send_signal(pidfd, SIGKILL, NULL, 0) == 0 && poll(&end, 1, END_MS) == 1)
        return 0;
    /* It ended. What may still run beside it, an image's own program, is ended now, or before the next start where the
     * engine cannot be asked. */
    json_t *inspection = NULL;
    bool ended =
        record->pid && pidfd < 0 &&
        (docker_inspect_within(backend, id, LOOK_MS, &inspection, err) < 0 || !docker_running(inspection, NULL));
    json_decref(inspection);
    return ended ? 0 : docker_kill(backend, id, err);
}

static int docker_stop(struct backend *backend, const char *id, bool keep_files, struct err *err) {
    struct docker_record record = {0};
    if (!text_id(id))
        return err_set(err, ERR_INVALID, "'%.40s' is no id of a box", id);
    autofd box = openat(backend->boxes_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (box < 0)
        return 0;
    bool noted = docker_record_read(backend, id, &record) != -ENOENT; /* a damaged note is one, too */
    int r = !noted ? 0 : keep_files ? end_processes(backend, id, &record, err) : docker_remove(backend, id, err);
    if (r == 0 && noted && !keep_files)
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
    return noted ? docker_record_write(backend, id, &record, err) : 0;
}

/* ---- leftovers ---- */

/* The box that a container's name and labels say it is; NULL: it is no box's. */
static const char *box_of(const struct backend *backend, const json_t *row) {
    const json_t *labels = json_object_get(row, "Labels");
    const char *home = json_string_value(json_object_get(labels, DOCKER_LABEL_HOME));
    const char *box = json_string_value(json_object_get(labels, DOCKER_LABEL_BOX));
    const char *name = json_string_value(json_array_get(json_object_get(row, "Names"), 0));
    char expected[DOCKER_NAME_BYTES];
    if (!home || !box || !name || strcmp(home, backend->home) != 0 || !text_id(box))
        return NULL;
    docker_name(backend, expected, box);
    return strcmp(name + (name[0] == '/'), expected) == 0 ? box : NULL;
}

/* What the engine has under a filter with one value. NULL: it cannot be asked now. A daemon that starts waits for it. */
static json_t *list_by(struct backend *backend, const char *path, const char *filter, const char *value) {
    autoarena arena = ARENA_EMPTY;
    json_t *rows = NULL;
    int status;
    struct err ignored;
    autobuf answer = buf_max(ENGINE_ANSWER_BYTES);
    const char *text = arena_printf(&arena, "{\"%s\":[\"%s\"]}", filter, value);
    const char *whole = arena_printf(&arena, "%s?all=1&filters=%s", path, url_encode(&arena, text, URL_VALUE));
    const struct http_call call = {.method = "GET", .path = whole, .timeout_ms = LIST_MS};
    int r = engine_do(backend->engine, &call, &status, &answer, &ignored);
    if (r == 0)
        r = engine_answer(backend->engine, status, &answer, "looking for what is left", &rows, &ignored);
    return r < 0 ? NULL : rows;
}

/* Containers of ours whose directory is gone. A start makes the directory first. */
static bool clean_containers(struct backend *backend, void (*each)(void *user, const char *what), void *user) {
    char label[80], name[DOCKER_NAME_BYTES], text[64];
    json_t *row;
    size_t i;
    struct err ignored;
    snprintf(label, sizeof label, DOCKER_LABEL_HOME "=%s", backend->home);
    json_t *rows = list_by(backend, "/containers/json", "label", label);
    json_array_foreach(rows, i, row) {
        const char *id = box_of(backend, row);
        if (!id || faccessat(backend->boxes_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
            docker_remove(backend, id, &ignored) < 0)
            continue;
        docker_name(backend, name, id);
        snprintf(text, sizeof text, "container %s", name);
        each(user, text);
    }
    bool asked = rows != NULL;
    json_decref(rows);
    return asked;
}

/* Images of layers whose directory is gone; that, too, is there first. */
static void clean_images(struct backend *backend, void (*each)(void *user, const char *what), void *user) {
    char name[DOCKER_LAYER_BYTES], text[64];
    json_t *row, *tag;
    size_t i, j;
    struct err ignored;
    docker_layer_image(backend, "", name);
    name[strlen(name) - 1] = 0; /* without the colon before the tag */
    json_t *rows = list_by(backend, "/images/json", "reference", name);
    json_array_foreach(rows, i, row) json_array_foreach(json_object_get(row, "RepoTags"), j, tag) {
        const char *reference = json_string_value(tag), *layer = reference ? strrchr(reference, ':') : NULL;
        if (!layer || !text_id(layer + 1) || !strstr(reference, name) ||
            faccessat(backend->layers_fd, layer + 1, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
            docker_drop_layer(backend, layer + 1, &ignored) < 0)
            continue;
        snprintf(text, sizeof text, "the image of layer %s", layer + 1);
        each(user, text);
    }
    json_decref(rows);
}

static void docker_clean(struct backend *backend, void (*each)(void *user, const char *what), void *user) {
    if (trash_wake(backend->trash))
        each(user, "files in trash/");
    if (!home_known(backend))
        return;
    if (clean_containers(backend, each, user))
        clean_images(backend, each, user);
}

const struct backend_ops backend_docker = {
    .name = "docker",
    .images = true,
    .whole_layers = true,
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
    .export = docker_export,
    .diff = docker_diff,
    .info = docker_info,
};
