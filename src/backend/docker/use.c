/* Resource usage of a container, and pausing. Called by the provider. Invariants: usage is read for every box of a
 * list, so it comes from the kernel if the container is on this machine, and from the engine only otherwise. A pause
 * is marked before it begins, and unmarked when it is certainly over: the mark outlives daemons and needs no engine. */
#include <poll.h>
#include <sys/pidfd.h>

#include "base/base.h"
#include "backend/cgroup.h"
#include "backend/docker/docker.h"
#include "backend/ids.h"

enum {
    CGROUP_FILE_BYTES = 8192,
    CGROUP_PATH_BYTES = 4096,
    STATS_MS = 5000,
    THAW_TURNS = 10,
    THAW_MS = 50,
    FREEZE_TURNS = 200,
    FREEZE_MS = 10
};

/* ---- by the kernel ---- */

/* The directory of a process in the hierarchy that has `controller`; "" is v2. */
static bool use_group(const char *lines, const char *controller, char *out, size_t size) {
    size_t want = strlen(controller);
    for (const char *line = lines; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            return false;
        bool found = want == 0 && path == names + 1;
        for (const char *at = names + 1; want && at < path; at += strcspn(at, ",:") + 1)
            found |= strcspn(at, ",:") == want && memcmp(at, controller, want) == 0;
        if (!found)
            continue;
        int len = (int)strcspn(path + 1, "\n");
        if (len < 2 || strncmp(path + 1, "/..", 3) == 0) /* the root, or out of our sight: all of a machine's */
            return false;
        return snprintf(out, size, "/sys/fs/cgroup%s%s%.*s", want ? "/" : "", controller, len, path + 1) < (int)size;
    }
    return false;
}

static bool use_number(const char *dir, const char *file, const char *key, uint64_t *ret_number) {
    char path[CGROUP_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    return cgroup_number(path, key, ret_number);
}

static bool use_kernel(pid_t pid, struct usage *usage) {
    char path[64], lines[CGROUP_FILE_BYTES], dir[CGROUP_PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    if (fd_read_file(AT_FDCWD, path, lines, sizeof lines) <= 0)
        return false;
    if (use_group(lines, "memory", dir, sizeof dir)) {
        usage->has_memory = use_number(dir, "memory.usage_in_bytes", "", &usage->memory_bytes);
        if (!usage->brief) {
            use_number(dir, "memory.stat", "total_cache ", &usage->cache_bytes);
            use_number(dir, "memory.oom_control", "oom_kill ", &usage->oom_kills);
        }
    }
    if (use_group(lines, "pids", dir, sizeof dir))
        usage->has_pids = use_number(dir, "pids.current", "", &usage->pids);
    if (use_group(lines, "cpuacct", dir, sizeof dir) && use_number(dir, "cpuacct.usage", "", &usage->cpu_ms)) {
        usage->cpu_ms /= 1000000;
        usage->has_cpu = true;
    }
    if (!usage->has_memory && use_group(lines, "", dir, sizeof dir)) {
        usage->has_memory = use_number(dir, "memory.current", "", &usage->memory_bytes);
        if (!usage->brief) {
            use_number(dir, "memory.stat", "file ", &usage->cache_bytes);
            use_number(dir, "memory.events", "oom_kill ", &usage->oom_kills);
        }
        usage->has_pids = use_number(dir, "pids.current", "", &usage->pids);
        usage->has_cpu = use_number(dir, "cpu.stat", "usage_usec ", &usage->cpu_ms);
        usage->cpu_ms /= 1000;
    }
    return usage->has_memory;
}

/* ---- by the engine ---- */

static uint64_t use_integer(const json_t *value, bool *ret_has) {
    *ret_has = json_is_integer(value) && json_integer_value(value) >= 0;
    return *ret_has ? (uint64_t)json_integer_value(value) : 0;
}

static void use_engine(struct backend *backend, const char *id, struct usage *usage) {
    char path[DOCKER_PATH_BYTES];
    struct err ignored;
    json_auto_t *root = NULL;
    const struct http_call call = {.method = "GET",
                                   .path = docker_path(backend, id, "/stats?stream=false&one-shot=true", path),
                                   .timeout_ms = STATS_MS};
    if (engine_call(backend->engine, &call, "usage", &root, &ignored) < 0)
        return;
    usage->memory_bytes = use_integer(engine_value(root, "memory_stats", "usage"), &usage->has_memory);
    usage->cpu_ms = use_integer(engine_value(root, "cpu_stats", "cpu_usage", "total_usage"), &usage->has_cpu) / 1000000;
    usage->pids = use_integer(engine_value(root, "pids_stats", "current"), &usage->has_pids);
}

int docker_usage(struct backend *backend, const char *id, struct usage *ret_usage, struct err *err) {
    struct docker_record record;
    struct usage usage = {.brief = ret_usage->brief};
    if (docker_record_read(backend, id, &record) < 0)
        return err_set(err, ERR_NOT_FOUND, "no container of box %.16s", id);
    autofd pidfd = docker_record_pidfd(&record);
    bool runs = record.dialled || record.relayed;
    if (runs && !(pidfd >= 0 && use_kernel(record.pid, &usage)) && (pidfd >= 0 || !record.pid)) {
        usage = (struct usage){0};
        use_engine(backend, id, &usage);
    }
    *ret_usage = usage;
    return 0;
}

/* ---- pause ---- */

/* Freezes or thaws the box by the kernel. For an engine that refuses to pause a box, because a part of it that survived
 * its death believes that it is paused; or one that is away and cannot resume it. late: a dying engine may only now
 * freeze the box; keeps thawing for half a second. true: all processes are frozen. */
static bool use_freeze(struct backend *backend, const char *id, bool freeze, bool late) {
    static const struct {
        const char *controller, *file, *freeze, *thaw, *state, *frozen;
    } freezers[] = {{"freezer", "freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"},
                    {"", "cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"}}; /* of cgroup v1 and v2 */
    char path[CGROUP_PATH_BYTES + 32], lines[CGROUP_FILE_BYTES], dir[CGROUP_PATH_BYTES], text[256];
    struct docker_record record;
    autofd pidfd = docker_record_read(backend, id, &record) < 0 ? -1 : docker_record_pidfd(&record);
    snprintf(path, sizeof path, "/proc/%d/cgroup", pidfd < 0 ? 0 : (int)record.pid);
    if (pidfd < 0 || fd_read_file(AT_FDCWD, path, lines, sizeof lines) <= 0)
        return false; /* not known, or not on this machine */
    for (int turn = 0; turn < (late ? THAW_TURNS : 1); turn++) {
        for (size_t row = 0; row < sizeof freezers / sizeof *freezers; row++) {
            if (!use_group(lines, freezers[row].controller, dir, sizeof dir))
                continue;
            snprintf(path, sizeof path, "%s/%s", dir, freezers[row].file);
            bool set = fd_write_file(AT_FDCWD, path, freeze ? freezers[row].freeze : freezers[row].thaw) == 0;
            snprintf(path, sizeof path, "%s/%s", dir, freezers[row].state);
            for (int look = 0; freeze && set && look < FREEZE_TURNS; look++, poll(NULL, 0, FREEZE_MS))
                if (fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 && strstr(text, freezers[row].frozen))
                    return true;
            if (freeze && set)
                return false;
        }
        if (late)
            poll(NULL, 0, THAW_MS);
    }
    return false;
}

static int use_set_paused(struct backend *backend, const char *id, bool pause, struct err *err) {
    return docker_ask(backend, id, "POST", pause ? "/pause" : "/unpause", NULL, pause ? "pausing" : "resuming", NULL,
                      err);
}

int docker_pause(struct backend *backend, const char *id, bool pause, struct err *err) {
    json_auto_t *inspection = NULL;
    int r = docker_inspect(backend, id, &inspection, err);
    if (r == 0 && !docker_running(inspection))
        r = err_set(err, ERR_GONE, "the container of box %.16s does not run", id);
    if (r == 0 && pause)
        r = docker_mark(backend, id, "paused", err);
    if (r == 0 && docker_is_paused(inspection) != pause)
        r = use_set_paused(backend, id, pause, err);
    if (!pause && (r == -ERR_GONE || r == -ERR_NOT_FOUND)) /* it ended while it was paused */
        r = 0;
    bool unsure = r == -ERR_TIMEOUT || r == -ERR_BUSY; /* it may have been done */
    if (pause ? r < 0 && !unsure : r == 0)
        docker_unmark(backend, id, "paused");
    return r;
}

/* The mark of a box that has ended since, by its engine or by a signal, no longer counts. */
bool docker_paused(struct backend *backend, const char *id) {
    struct docker_record record;
    docker_still_end(backend, id);
    return docker_exists(backend->boxes_fd, id, "paused") &&
           (docker_record_read(backend, id, &record) < 0 || !record.pid || process_alive(record.pid, record.start));
}

/* ---- pauses while files are kept ---- */

int docker_still(struct backend *backend, const char *id, const json_t *inspection, struct err *err) {
    if (!docker_running(inspection) || docker_is_paused(inspection))
        return 0;
    TRY(docker_mark(backend, id, "still", err));
    int r = use_set_paused(backend, id, true, err);
    if (r < 0 && err->why == WHY_PAUSED && use_freeze(backend, id, true, false))
        return 0;
    if (r < 0) /* it may have been done nevertheless */
        docker_still_end(backend, id);
    return r;
}

void docker_still_end(struct backend *backend, const char *id) {
    json_auto_t *inspection = NULL;
    if (!docker_exists(backend->boxes_fd, id, "still"))
        return;
    int r = docker_inspect(backend, id, &inspection, ERR_IGNORED);
    bool paused = r == 0 && docker_is_paused(inspection);
    if (paused)
        r = use_set_paused(backend, id, false, ERR_IGNORED);
    /* An engine that was killed does not know, or does not answer: then the mark stays, because it may believe that
     * the box is paused. */
    if (r < 0 || !paused)
        use_freeze(backend, id, false, r < 0);
    if (r == 0 || r == -ERR_NOT_FOUND || r == -ERR_EXISTS)
        docker_unmark(backend, id, "still");
}

void docker_still_kill(struct backend *backend, const char *id) {
    struct docker_record record;
    autofd pidfd = docker_record_read(backend, id, &record) < 0 ? -1 : docker_record_pidfd(&record);
    if (pidfd >= 0) /* pending while it is paused, so that nothing of it runs again */
        pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    docker_still_end(backend, id);
}
