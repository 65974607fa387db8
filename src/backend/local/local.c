/* The local backend: a runner on this host, with its user's rights. No isolation: off unless the configuration allows
 * it; for trusted hosts and machines that allow nothing else. Called by the provider through backend_table. Invariant:
 * limits and walls that it does not have are refused.
 *
 * On disk: STATE/boxes/ID/{workspace/, sock (the runner's), local ("PID START" of the runner)}. */
#include <poll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/base.h"
#include "backend/backend.h"
#include "backend/boxsock.h"
#include "backend/ids.h"
#include "backend/spawn.h"
#include "backend/trash.h"

enum { LOCAL_HELLO_MS = 10000, LOCAL_TERM_MS = 5000, ARGS_MAX = 4096 };

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
    const char *path = text_make(4200, "%s/trash", env->state_dir);
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
        return err_set(err, ERR_UNSUPPORTED, "backend local cannot enforce limits; use backend jail");
    if (spec->network_asked)
        return err_set(err, ERR_UNSUPPORTED,
                       "backend local has the host's network and cannot change it; use backend jail");
    if (strcmp(spec->template_name, "host") != 0)
        return err_set(err, ERR_NOT_FOUND, "template '%s': backend local has only 'host'; use backend jail",
                       spec->template_name);
    return 0;
}

struct local_args {
    const char *list[ARGS_MAX + 1];
    size_t count;
};

static void local_arg(struct local_args *args, const char *flag, const char *value) {
    if (args->count + 2 > ARGS_MAX)
        return;
    args->list[args->count++] = flag;
    if (value)
        args->list[args->count++] = value;
}

/* Whether the workspace is a given directory, not the box's own. */
static bool local_maps_workspace(const struct backend_env *env, const struct spec *spec) {
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

static void local_args(const struct backend *backend, const struct spec *spec, const char *skills_dir,
                       struct local_args *args, struct arena *arena) {
    const char *state = backend->env->state_dir;
    const char *own = arena_printf(arena, "%s/boxes/%s/workspace", state, spec->id);
    const char *const defaults[][2] = {
        {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        {"HOME", spec->workspace ? spec->workspace : own},
        {"LANG", "C.UTF-8"},
        {"TERM", "xterm-256color"},
        {"USER", getenv("USER") ? getenv("USER") : "root"},
    };
    local_arg(args, "cubby-runner", "serve");
    local_arg(args, "--wire", "3");
    local_arg(args, "--listen", "4");
    local_arg(args, "--root", "/");
    local_arg(args, "--workspace", spec->workspace ? spec->workspace : WORKSPACE_PATH);
    if (spec->shell)
        local_arg(args, "--shell", spec->shell);
    if (!local_maps_workspace(backend->env, spec))
        local_arg(args, "--map", arena_printf(arena, "%s=%s", WORKSPACE_PATH, own));
    for (const char *const *map = backend->env->local_maps; map && *map; map++)
        local_arg(args, "--map", *map);
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct mount *mount = &spec->mounts[i];
        const char *target = strcmp(mount->target, mount->source) == 0 ? "" : mount->target;
        local_arg(args, "--map",
                  arena_printf(arena, "%s=%s%s", target, mount->source, mount->read_only ? ":ro" : ":rw"));
    }
    if (spec->agent)
        local_arg(args, "--map", arena_printf(arena, "%s=%s/boxes/%s/%s", SKILLS_PATH, state, spec->id, skills_dir));
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        size_t len = strlen(defaults[i][0]), k = 0;
        while (k < spec->env_count && !(strncmp(spec->env[k], defaults[i][0], len) == 0 && spec->env[k][len] == '='))
            k++;
        if (k == spec->env_count)
            local_arg(args, "--env", arena_printf(arena, "%s=%s", defaults[i][0], defaults[i][1]));
    }
    for (size_t i = 0; i < spec->env_count; i++)
        local_arg(args, "--env", spec->env[i]);
    args->list[args->count] = NULL;
}

/* The runner's pid, written so that it is whole or absent. */
static int local_note(int box_fd, pid_t pid, struct err *err) {
    const char *text = text_make(64, "%d %llu\n", (int)pid, pid ? (unsigned long long)process_start(pid) : 0ull);
    int r = fd_replace_file(box_fd, "local", text, strlen(text));
    return r < 0 ? err_errno(err, -r, "recording the runner's pid") : 0;
}

/* A pidfd of the recorded runner: -ERR_NOT_FOUND when none is recorded, -ERR_GONE when it has ended. */
static int local_runner(int box_fd) {
    char text[64];
    int pid;
    unsigned long long start;
    if (fd_read_file(box_fd, "local", text, sizeof text) <= 0 || sscanf(text, "%d %llu", &pid, &start) != 2 || pid <= 0)
        return -ERR_NOT_FOUND;
    int fd = process_pidfd(pid, start);
    return fd < 0 ? -ERR_GONE : fd;
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
    static char *const environment[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    autoarena arena = ARENA_EMPTY;
    struct local_args *args = arena_alloc(&arena, sizeof *args);
    /* Skills are copies, in the workspace where that is the box's own. */
    const char *skills_dir = local_maps_workspace(backend->env, spec) ? "skills" : "workspace/skills";
    if (spec->agent && mkdirat(box_fd, skills_dir, 0755) < 0 && errno != EEXIST)
        return err_errno(err, errno, "the box's skills");
    local_args(backend, spec, skills_dir, args, &arena);
    autofd listener = -1;
    int pair[2], r = boxsock_listen(box_fd, &listener, err);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "a socket pair");
    autofd ours = pair[0], theirs = pair[1];
    const struct spawn spawn = {.program = backend->env->runner_path,
                                .argv = args->list,
                                .env = environment,
                                .in = -1,
                                .out = -1,
                                .errors = -1,
                                .fds = {theirs, listener},
                                .fd_count = 2,
                                .session = true};
    pid_t pid;
    TRY(spawn_start(&spawn, &pid, err));
    fd_close(&theirs);
    autofd pidfd = pidfd_open(pid, 0);
    r = local_note(box_fd, pid, err) ?: wire_new(fd_take(&ours), WIRE_PASS_FILES, LOCAL_HELLO_MS, ret_wire, err);
    if (r < 0) {
        local_end(pidfd);
        return err_wrap(err, "the runner did not start");
    }
    *ret_pidfd = fd_take(&pidfd);
    return 0;
}

static int local_start(struct backend *backend, const struct spec *spec, struct wire **ret_wire, int *ret_pidfd,
                       struct err *err) {
    TRY(local_check(spec, err));
    bool fresh = mkdirat(backend->boxes_fd, spec->id, BACKEND_UNFINISHED_MODE) == 0;
    autofd box = openat(backend->boxes_fd, spec->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (box < 0 || (mkdirat(box, "workspace", 0755) < 0 && errno != EEXIST))
        return err_errno(err, errno, "the box's directory");
    int r = local_launch(backend, spec, box, ret_wire, ret_pidfd, err);
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
    TRY(local_reach(backend, id, &fd, &pidfd, err));
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

/* Not counted: its processes are among the host's own. */
static int local_usage(struct backend *backend, const char *id, struct usage *ret_usage, struct err *err) {
    (void)backend;
    (void)id;
    (void)err;
    *ret_usage = (struct usage){0};
    return 0;
}

static void local_info(const struct backend_env *env, struct backend *backend, struct json *json) {
    json_put_bool(json, "available", backend != NULL);
    static const char *const can[] = {"path mappings", "adoption after a restart", NULL};
    json_put_texts(json, "can", backend ? can : NULL);
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
    .host_network = true,
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
