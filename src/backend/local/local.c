/* The local backend: a runner on this host, with its user's rights. No isolation: off unless the configuration allows
 * it; for trusted hosts and machines that allow nothing else. Called by the provider through backend_table. Invariant:
 * what it cannot wall off it refuses to promise.
 *
 * On disk: STATE/boxes/ID/{workspace/, sock (the runner's), local ("PID START" of the runner)}. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/boxsock.h"
#include "backend/ids.h"
#include "backend/trash.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

enum { LOCAL_HELLO_MS = 10000, LOCAL_TERM_MS = 5000, CHILD_WIRE_FD = 3, CHILD_LISTEN_FD = 4, ARGS_MAX = 4096 };

struct backend {
    const struct backend_env *env;
    int boxes_fd; /* STATE/boxes */
    struct trash *trash;
};

static int local_open(const struct backend_env *env, struct backend **ret_backend, struct err *err) {
    if (!env->allow_local)
        return err_set(err, ERR_UNSUPPORTED,
                       "backend local has no isolation and is off; allow_local in the configuration "
                       "turns it on");
    autofd state = open(env->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (state < 0 || (mkdirat(state, "boxes", 0700) < 0 && errno != EEXIST))
        return err_errno(err, errno, "state directory '%s'", env->state_dir);
    autofd boxes = openat(state, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (boxes < 0)
        return err_errno(err, errno, "'%s/boxes'", env->state_dir);
    struct backend *backend = xcalloc(1, sizeof *backend);
    char path[4200];
    snprintf(path, sizeof path, "%s/trash", env->state_dir);
    *backend = (struct backend){.env = env, .boxes_fd = fd_take(&boxes), .trash = trash_new(path)};
    *ret_backend = backend;
    return 0;
}

static void local_close(struct backend *backend) {
    trash_free(backend->trash);
    close(backend->boxes_fd);
    free(backend);
}

/* ---- start ---- */

static int local_check(const struct spec *spec, struct err *err) {
    const struct limits *limits = &spec->limits;
    if (limits->memory_mb || limits->cpus > 0 || limits->pids || limits->disk_mb || limits->open_files)
        return err_set(err, ERR_UNSUPPORTED, "backend local cannot hold limits; use backend jail");
    if (spec->network_asked)
        return err_set(err, ERR_UNSUPPORTED,
                       "backend local has the host's network and cannot change it; use backend jail");
    if (strcmp(spec->template_name, "host") != 0)
        return err_set(err, ERR_NOT_FOUND, "template '%s': backend local has none but host; use backend jail",
                       spec->template_name);
    return 0;
}

struct args {
    struct arena *arena;
    char *list[ARGS_MAX + 1];
    size_t count;
};

static void arg(struct args *args, const char *flag, const char *value) {
    if (args->count + 2 > ARGS_MAX)
        return;
    args->list[args->count++] = arena_strdup(args->arena, flag);
    if (value)
        args->list[args->count++] = arena_strdup(args->arena, value);
}

/* Whether it is somebody's directory, and not the box's own. */
static bool maps_workspace(const struct backend_env *env, const struct spec *spec) {
    size_t len = strlen(WORKSPACE_PATH);
    if (spec->workspace)
        return true;
    for (const char *const *map = env->local_maps; map && *map; map++)
        if (strncmp(*map, WORKSPACE_PATH, len) == 0 && (*map)[len] == '=')
            return true;
    for (size_t i = 0; i < spec->mount_count; i++)
        if (strcmp(spec->mounts[i].target, WORKSPACE_PATH) == 0)
            return true;
    return false;
}

/* Skills of a box that has an agent: copies, in its workspace where that is its own. */
static const char *skills_dir(const struct backend *backend, const struct spec *spec) {
    return maps_workspace(backend->env, spec) ? "skills" : "workspace/skills";
}

static bool env_has(const struct spec *spec, const char *key) {
    for (size_t i = 0; i < spec->env_count; i++)
        if (strncmp(spec->env[i], key, strlen(key)) == 0 && spec->env[i][strlen(key)] == '=')
            return true;
    return false;
}

static void local_env(struct args *args, const struct spec *spec, const char *workspace) {
    const char *const defaults[][2] = {
        {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        {"HOME", workspace},
        {"LANG", "C.UTF-8"},
        {"TERM", "xterm-256color"},
        {"USER", getenv("USER") ? getenv("USER") : "root"},
    };
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (!env_has(spec, defaults[i][0]))
            arg(args, "--env", arena_printf(args->arena, "%s=%s", defaults[i][0], defaults[i][1]));
    for (size_t i = 0; i < spec->env_count; i++)
        arg(args, "--env", spec->env[i]);
}

static void local_args(const struct backend *backend, const struct spec *spec, struct args *args) {
    const char *workspace = spec->workspace
                                ? spec->workspace
                                : arena_printf(args->arena, "%s/boxes/%s/workspace", backend->env->state_dir, spec->id);
    arg(args, "cubby-runner", NULL);
    arg(args, "serve", NULL);
    arg(args, "--wire", "3");
    arg(args, "--listen", "4");
    arg(args, "--root", "/");
    arg(args, "--workspace", spec->workspace ? spec->workspace : WORKSPACE_PATH);
    if (spec->shell)
        arg(args, "--shell", spec->shell);
    if (!maps_workspace(backend->env, spec))
        arg(args, "--map", arena_printf(args->arena, "%s=%s", WORKSPACE_PATH, workspace));
    for (const char *const *map = backend->env->local_maps; map && *map; map++)
        arg(args, "--map", *map);
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct mount *mount = &spec->mounts[i];
        const char *target = strcmp(mount->target, mount->source) == 0 ? "" : mount->target;
        arg(args, "--map",
            arena_printf(args->arena, "%s=%s%s", target, mount->source, mount->read_only ? ":ro" : ":rw"));
    }
    if (spec->agent)
        arg(args, "--map",
            arena_printf(args->arena, "%s=%s/boxes/%s/%s", SKILLS_PATH, backend->env->state_dir, spec->id,
                         skills_dir(backend, spec)));
    local_env(args, spec, workspace);
    args->list[args->count] = NULL;
}

/* The runner's pid, written so that it is whole or absent. */
static int local_note(int box_fd, pid_t pid, struct err *err) {
    char text[64];
    snprintf(text, sizeof text, "%d %llu\n", (int)pid, pid ? (unsigned long long)process_start(pid) : 0ull);
    int r = fd_replace_file(box_fd, "local", text, strlen(text));
    return r < 0 ? err_errno(err, -r, "noting the runner's pid") : 0;
}

/* A pidfd of the runner that is noted: -ERR_NOT_FOUND when none is, -ERR_GONE when it has ended. */
static int local_runner(int box_fd) {
    char text[64];
    int pid;
    unsigned long long start;
    if (fd_read_file(box_fd, "local", text, sizeof text) <= 0 || sscanf(text, "%d %llu", &pid, &start) != 2 || pid <= 0)
        return -ERR_NOT_FOUND;
    int fd = process_pidfd(pid, start);
    return fd < 0 ? -ERR_GONE : fd;
}

static int local_spawn(const struct backend *backend, char *const *args, int wire_fd, int listen_fd, pid_t *ret_pid,
                       struct err *err) {
    /* Above the numbers they get in the child, so that one dup2 cannot close the other's source. */
    autofd wire = fcntl(wire_fd, F_DUPFD_CLOEXEC, 10), listener = fcntl(listen_fd, F_DUPFD_CLOEXEC, 10);
    char *const environment[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, 0, 1);
    posix_spawn_file_actions_adddup2(&actions, 0, 2);
    posix_spawn_file_actions_adddup2(&actions, wire, CHILD_WIRE_FD);
    posix_spawn_file_actions_adddup2(&actions, listener, CHILD_LISTEN_FD);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int number = wire < 0 || listener < 0
                     ? errno
                     : posix_spawn(ret_pid, backend->env->runner_path, &actions, &attributes, args, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return number ? err_errno(err, number, "starting '%s'", backend->env->runner_path) : 0;
}

static void local_end(int pidfd) {
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    pidfd_send_signal(pidfd, SIGTERM, NULL, 0);
    if (poll(&gone, 1, LOCAL_TERM_MS) <= 0) {
        pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
        poll(&gone, 1, LOCAL_TERM_MS);
    }
    siginfo_t info;
    waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG); /* ours or adopted; ECHILD is fine */
}

static int local_launch(struct backend *backend, const struct spec *spec, int box_fd, struct wire **ret_wire,
                        int *ret_pidfd, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct args *args = arena_alloc(&arena, sizeof *args);
    args->arena = &arena;
    if (spec->agent && mkdirat(box_fd, skills_dir(backend, spec), 0755) < 0 && errno != EEXIST)
        return err_errno(err, errno, "the box's skills");
    local_args(backend, spec, args);
    autofd listener = -1;
    int r = boxsock_listen(box_fd, &listener, err);
    if (r < 0)
        return r;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "a socket pair");
    autofd ours = pair[0], theirs = pair[1];
    pid_t pid;
    r = local_spawn(backend, args->list, theirs, listener, &pid, err);
    if (r < 0)
        return r;
    fd_close(&theirs);
    autofd pidfd = pidfd_open(pid, 0);
    r = local_note(box_fd, pid, err);
    if (r == 0)
        r = wire_new(fd_take(&ours), WIRE_PASS_FILES, LOCAL_HELLO_MS, ret_wire, err);
    if (r < 0) {
        local_end(pidfd);
        return err_wrap(err, "the runner did not start");
    }
    *ret_pidfd = fd_take(&pidfd);
    return 0;
}

static int local_start(struct backend *backend, const struct spec *spec, struct wire **ret_wire, int *ret_pidfd,
                       struct err *err) {
    int r = local_check(spec, err);
    if (r < 0)
        return r;
    bool fresh = mkdirat(backend->boxes_fd, spec->id, BACKEND_UNFINISHED_MODE) == 0;
    autofd box = openat(backend->boxes_fd, spec->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (box < 0 || (mkdirat(box, "workspace", 0755) < 0 && errno != EEXIST))
        return err_errno(err, errno, "the box's directory");
    r = local_launch(backend, spec, box, ret_wire, ret_pidfd, err);
    struct err ignored;
    if (r < 0 && fresh)
        trash_put(backend->trash, backend->boxes_fd, spec->id, &ignored);
    return r;
}

/* ---- found again, ended ---- */

/* A connection to the runner that is there, and the runner itself. */
static int local_reach(struct backend *backend, const char *id, int *ret_fd, int *ret_pidfd, struct err *err) {
    autofd box = openat(backend->boxes_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofd pidfd = box < 0 ? -ERR_NOT_FOUND : local_runner(box);
    if (pidfd < 0)
        return err_set(err, (enum err_code) - pidfd, "the runner of box %s is gone", id);
    if (boxsock_connect(box, ret_fd) < 0)
        return err_set(err, ERR_GONE, "the runner of box %s does not answer", id);
    *ret_pidfd = fd_take(&pidfd);
    return 0;
}

static int local_connect(struct backend *backend, const char *id, int *ret_fd, struct err *err) {
    autofd pidfd = -1;
    return local_reach(backend, id, ret_fd, &pidfd, err);
}

static int local_discover(struct backend *backend, const char *id, struct wire **ret_wire, int *ret_pidfd,
                          struct err *err) {
    autofd fd = -1, pidfd = -1;
    int r = local_reach(backend, id, &fd, &pidfd, err);
    if (r < 0)
        return r;
    if (wire_new(fd_take(&fd), WIRE_PASS_FILES, LOCAL_HELLO_MS, ret_wire, err) < 0)
        return err_set(err, ERR_GONE, "the runner of box %s does not answer", id);
    *ret_pidfd = fd_take(&pidfd);
    return 0;
}

static int local_stop(struct backend *backend, const char *id, bool keep_files, struct err *err) {
    autofd box = openat(backend->boxes_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (box < 0)
        return 0;
    autofd pidfd = local_runner(box);
    if (pidfd >= 0)
        local_end(pidfd);
    unlinkat(box, "sock", 0);
    return keep_files ? local_note(box, 0, err) : trash_put(backend->trash, backend->boxes_fd, id, err);
}

static void local_clean(struct backend *backend, void (*each)(void *user, const char *what), void *user) {
    if (trash_wake(backend->trash))
        each(user, "files in trash/");
}

static int local_list(struct backend *backend, void (*each)(void *user, const char *id), void *user, struct err *err) {
    return backend_list_boxes(backend->boxes_fd, "local", each, user, err);
}

/* The host counts nothing for it: its processes are among the host's own. */
static int local_usage(struct backend *backend, const char *id, struct usage *ret_usage, struct err *err) {
    (void)backend;
    (void)id;
    (void)err;
    *ret_usage = (struct usage){0};
    return 0;
}

static void local_info(const struct backend_env *env, struct backend *backend, struct json *json) {
    json_put_bool(json, "available", backend != NULL);
    json_put_open(json, "can", '[');
    if (backend) {
        json_str(json, "path mappings");
        json_str(json, "adoption after a restart");
    }
    json_close(json, ']');
    static const char *const missing[][2] = {
        {"isolation", "backend jail"}, {"limits", "backend jail"}, {"network rules", "backend jail"}};
    json_put_open(json, "missing", '[');
    for (size_t i = 0; i < sizeof missing / sizeof *missing + !env->allow_local; i++) {
        bool off = i == sizeof missing / sizeof *missing;
        json_open(json, '{');
        json_put_str(json, "what", off ? "permission" : missing[i][0]);
        json_put_str(json, "fix", off ? "allow_local in the configuration" : missing[i][1]);
        json_close(json, '}');
    }
    json_close(json, ']');
}

const struct backend_ops backend_local = {
    .name = "local",
    .no_limits = true,
    .open = local_open,
    .close = local_close,
    .start = local_start,
    .discover = local_discover,
    .connect = local_connect,
    .stop = local_stop,
    .list = local_list,
    .clean = local_clean,
    .usage = local_usage,
    .info = local_info,
};
