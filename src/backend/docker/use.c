/* What a container uses, and that it stands still. Called by the provider. Invariant: usage is asked for every box of a
 * list: the kernel tells it where the container is on this machine, and the engine only where it is not. That it stands
 * still is noted before it does, and forgotten when it surely does not: the note outlives daemons and needs no engine. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/docker/docker.h"
#include "backend/ids.h"
#include "base/fd.h"

enum {
    CGROUP_FILE_BYTES = 8192,
    CGROUP_PATH_BYTES = 4096,
    STATS_MS = 5000,
    STATS_BYTES = 1 << 20,
    THAW_TURNS = 10,
    THAW_MS = 50,
    FREEZERS = 2,
    FREEZE_TURNS = 200,
    FREEZE_MS = 10
};

/* ---- by the kernel ---- */

/* The directory of a process in the hierarchy that has `controller`; "" is v2. */
static bool group_of(const char *lines, const char *controller, char *out, size_t size) {
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
        if (len < 2 || strncmp(path + 1, "/..", 3) == 0) /* the root, or outside of what we see: all of a machine's */
            return false;
        return snprintf(out, size, "/sys/fs/cgroup%s%s%.*s", want ? "/" : "", controller, len, path + 1) < (int)size;
    }
    return false;
}

static bool number_in(const char *dir, const char *file, const char *key, uint64_t *ret_number) {
    char path[CGROUP_PATH_BYTES + 64], text[4096];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    const char *at = text;
    while (*key && at && strncmp(at, key, strlen(key)) != 0)
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    char *end;
    if (!at)
        return false;
    errno = 0;
    *ret_number = strtoull(at + strlen(key), &end, 10);
    return end != at + strlen(key) && errno == 0;
}

static bool kernel_usage(pid_t pid, struct usage *usage) {
    char path[64], lines[CGROUP_FILE_BYTES], dir[CGROUP_PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    if (fd_read_file(AT_FDCWD, path, lines, sizeof lines) <= 0)
        return false;
    if (group_of(lines, "memory", dir, sizeof dir)) {
        usage->has_memory = number_in(dir, "memory.usage_in_bytes", "", &usage->memory_bytes);
        number_in(dir, "memory.oom_control", "oom_kill ", &usage->oom_kills);
    }
    if (group_of(lines, "pids", dir, sizeof dir))
        usage->has_pids = number_in(dir, "pids.current", "", &usage->pids);
    if (group_of(lines, "cpuacct", dir, sizeof dir) && number_in(dir, "cpuacct.usage", "", &usage->cpu_ms)) {
        usage->cpu_ms /= 1000000;
        usage->has_cpu = true;
    }
    if (!usage->has_memory && group_of(lines, "", dir, sizeof dir)) {
        usage->has_memory = number_in(dir, "memory.current", "", &usage->memory_bytes);
        number_in(dir, "memory.events", "oom_kill ", &usage->oom_kills);
        usage->has_pids = number_in(dir, "pids.current", "", &usage->pids);
        usage->has_cpu = number_in(dir, "cpu.stat", "usage_usec ", &usage->cpu_ms);
        usage->cpu_ms /= 1000;
    }
    return usage->has_memory;
}

/* ---- by the engine ---- */

static uint64_t number_at(const json_t *root, const char *one, const char *two, const char *three, bool *ret_has) {
    const json_t *value = json_object_get(json_object_get(root, one), two);
    if (three)
        value = json_object_get(value, three);
    *ret_has = json_is_integer(value) && json_integer_value(value) >= 0;
    return *ret_has ? (uint64_t)json_integer_value(value) : 0;
}

static void engine_usage(struct backend *backend, const char *id, struct usage *usage) {
    char name[DOCKER_NAME_BYTES], path[96];
    int status = 0;
    struct err ignored;
    autobuf answer = buf_max(STATS_BYTES);
    docker_name(backend, name, id);
    snprintf(path, sizeof path, "/containers/%s/stats?stream=false&one-shot=true", name);
    const struct http_call call = {.method = "GET", .path = path, .timeout_ms = STATS_MS};
    if (engine_do(backend->engine, &call, &status, &answer, &ignored) < 0 || status != 200)
        return;
    json_t *root = json_loadb((const char *)answer.data, answer.len, 0, NULL);
    usage->memory_bytes = number_at(root, "memory_stats", "usage", NULL, &usage->has_memory);
    usage->cpu_ms = number_at(root, "cpu_stats", "cpu_usage", "total_usage", &usage->has_cpu) / 1000000;
    usage->pids = number_at(root, "pids_stats", "current", NULL, &usage->has_pids);
    json_decref(root);
}

int docker_usage(struct backend *backend, const char *id, struct usage *ret_usage, struct err *err) {
    struct docker_record record;
    struct usage usage = {0};
    if (docker_record_read(backend, id, &record) < 0)
        return err_set(err, ERR_NOT_FOUND, "no container of box %.16s", id);
    autofd pidfd = docker_record_pidfd(&record);
    bool runs = record.dialled || record.relayed;
    if (runs && !(pidfd >= 0 && kernel_usage(record.pid, &usage)) && (pidfd >= 0 || !record.pid)) {
        usage = (struct usage){0};
        engine_usage(backend, id, &usage);
    }
    *ret_usage = usage;
    return 0;
}

/* ---- standing still ---- */

/* In each hierarchy: how it is told, and where the kernel says that it is so. */
static const struct {
    const char *controller, *file, *freeze, *thaw, *state, *frozen;
} freezers[] = {{"freezer", "freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"},
                {"", "cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"}};

/* The groups of the box's runner; false: it is not known, or not of this machine. */
static bool groups_of(struct backend *backend, const char *id, char lines[CGROUP_FILE_BYTES]) {
    char path[64];
    struct docker_record record;
    autofd pidfd = docker_record_read(backend, id, &record) < 0 ? -1 : docker_record_pidfd(&record);
    snprintf(path, sizeof path, "/proc/%d/cgroup", pidfd < 0 ? 0 : (int)record.pid);
    return pidfd >= 0 && fd_read_file(AT_FDCWD, path, lines, CGROUP_FILE_BYTES) > 0;
}

static bool tell_freezer(const char *lines, size_t row, const char *text) {
    char dir[CGROUP_PATH_BYTES], file[CGROUP_PATH_BYTES + 32];
    if (!group_of(lines, freezers[row].controller, dir, sizeof dir))
        return false;
    snprintf(file, sizeof file, "%s/%s", dir, freezers[row].file);
    return fd_write_file(AT_FDCWD, file, text) == 0;
}

static bool is_frozen(const char *lines, size_t row) {
    char dir[CGROUP_PATH_BYTES], file[CGROUP_PATH_BYTES + 32], text[256];
    if (!group_of(lines, freezers[row].controller, dir, sizeof dir))
        return false;
    snprintf(file, sizeof file, "%s/%s", dir, freezers[row].state);
    return fd_read_file(AT_FDCWD, file, text, sizeof text) > 0 && strstr(text, freezers[row].frozen);
}

bool docker_freeze(struct backend *backend, const char *id) {
    char lines[CGROUP_FILE_BYTES];
    size_t row = 0;
    if (!groups_of(backend, id, lines))
        return false;
    while (row < FREEZERS && !tell_freezer(lines, row, freezers[row].freeze))
        row++;
    for (int turn = 0; row < FREEZERS && turn < FREEZE_TURNS; turn++) {
        if (is_frozen(lines, row))
            return true;
        poll(NULL, 0, FREEZE_MS);
    }
    return false;
}

void docker_thaw(struct backend *backend, const char *id, bool late) {
    char lines[CGROUP_FILE_BYTES];
    if (!groups_of(backend, id, lines))
        return;
    for (int turn = 0; turn < (late ? THAW_TURNS : 1); turn++) {
        for (size_t row = 0; row < FREEZERS; row++)
            tell_freezer(lines, row, freezers[row].thaw);
        if (late)
            poll(NULL, 0, THAW_MS);
    }
}

int docker_pause(struct backend *backend, const char *id, bool pause, struct err *err) {
    char name[DOCKER_NAME_BYTES], mark[40], path[96], doing[80];
    json_t *inspection = NULL;
    snprintf(mark, sizeof mark, "%.16s/paused", id);
    int r = docker_inspect(backend, id, &inspection, err);
    if (r == 0 && !docker_running(inspection, NULL))
        r = err_set(err, ERR_GONE, "the container of box %.16s does not run", id);
    bool stands = r == 0 && json_is_true(json_object_get(json_object_get(inspection, "State"), "Paused"));
    json_decref(inspection);
    autofd fd = r == 0 && pause ? openat(backend->boxes_fd, mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (r == 0 && pause && fd < 0)
        r = err_errno(err, errno, "noting that box %.16s stands still", id);
    if (r == 0 && stands != pause) {
        docker_name(backend, name, id);
        snprintf(path, sizeof path, "/containers/%s/%s", name, pause ? "pause" : "unpause");
        snprintf(doing, sizeof doing, "%s container '%s'", pause ? "pausing" : "resuming", name);
        r = engine_json(backend->engine, "POST", path, NULL, doing, NULL, err);
    }
    if (!pause && (r == -ERR_GONE || r == -ERR_NOT_FOUND)) /* it ended while it stood still: nothing stands */
        r = 0;
    bool unsure = r == -ERR_TIMEOUT || r == -ERR_BUSY; /* it may have been done */
    if (pause ? r < 0 && !unsure : r == 0)
        unlinkat(backend->boxes_fd, mark, 0);
    return r;
}

/* What was noted of one that has ended since, by its engine or by a signal, is so no more. */
bool docker_paused(struct backend *backend, const char *id) {
    char mark[40];
    struct docker_record record;
    docker_still_end(backend, id);
    snprintf(mark, sizeof mark, "%.16s/paused", id);
    if (faccessat(backend->boxes_fd, mark, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    return docker_record_read(backend, id, &record) < 0 || !record.pid || process_alive(record.pid, record.start);
}
