/* From the arguments of EXEC to a running child. Called by op_exec (prepare) and process.c (start).
 *
 * Between clone and exec the child shares the runner's memory (CLONE_VM: no page tables to copy, no faults afterwards),
 * on its own stack, with all signals blocked, while the runner continues. No CLONE_VFORK: a command that stops the
 * child must not stop PID 1 with it. Invariants:
 * 1. The child only makes raw system calls: errno, malloc and stdio belong to the runner.
 * 2. It reads only its own copy of struct spawn, and its arena, which lives until exec is known to have happened or
 *    failed.
 * 3. It opens its directory with the agent's rights, and exec closes everything of the runner's.
 * Below a keeper it is the same, but in the keeper's memory, which is a copy of the runner's. */
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sys/resource.h>

#include "base/base.h"
#include "base/sched_latency.h"
#include "runner/exec/process.h"
#include "runner/raw.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- in the runner ---- */

bool spawn_env_has(const char *const *rows, const char *row) {
    size_t len = strcspn(row, "=") + 1;
    for (; rows && *rows; rows++)
        if (strncmp(*rows, row, len) == 0)
            return true;
    return false;
}

static bool spawn_dropped(const struct fields *args, const char *row) {
    for (size_t i = 0; i < args->drop_count; i++)
        if (strncmp(row, args->drops[i], strlen(args->drops[i])) == 0)
            return true;
    return false;
}

/* A later variable replaces an earlier one of the same name. */
static int spawn_env_put(struct spawn *spawn, size_t *count, const char *row, struct err *err) {
    const char *equals = strchr(row, '=');
    if (!equals || equals == row)
        return err_set(err, ERR_INVALID, "variable '%.100s' is not NAME=VALUE", row);
    size_t at = 0, name = (size_t)(equals - row) + 1;
    while (at < *count && strncmp(row, spawn->env[at], name) != 0)
        at++;
    spawn->env[at] = (char *)(uintptr_t)row;
    *count += at == *count;
    return 0;
}

/* Makes the environment: the box's variables without those to drop, then the call's. */
static int spawn_env(struct spawn *spawn, const struct fields *args, struct arena *arena, struct err *err) {
    size_t base = 0, count = 0;
    int r = 0;
    while (spawn->config->env && spawn->config->env[base])
        base++;
    spawn->env = arena_alloc(arena, (base + args->env_count + args->secret_count + 1) * sizeof *spawn->env);
    for (size_t i = 0; r == 0 && i < base; i++)
        if (!spawn_dropped(args, spawn->config->env[i]))
            r = spawn_env_put(spawn, &count, spawn->config->env[i], err);
    for (size_t i = 0; r == 0 && i < args->env_count; i++)
        r = spawn_env_put(spawn, &count, arena_strdup(arena, args->env[i]), err);
    for (size_t i = 0; r == 0 && i < args->secret_count; i++)
        r = !strchr(args->secrets[i], '=') || args->secrets[i][0] == '='
                ? err_set(err, ERR_INVALID, "a secret is not NAME=VALUE") /* the text may be the value */
                : spawn_env_put(spawn, &count, arena_strdup(arena, args->secrets[i]), err);
    return r;
}

static char *spawn_mapped(const struct spawn *spawn, const char *text, struct arena *arena) {
    if (!spawn->config->maps)
        return arena_strdup(arena, text);
    char *real = maps_command(spawn->config, text);
    char *copy = arena_strdup(arena, real);
    free(real);
    return copy;
}

enum { SPAWN_ID_MOST = 65533 }; /* a jail has 65536 ids, the last ones of which are unused */

/* user: "agent", "root", or "UID:GID" of another user of the box. */
static int spawn_user(struct spawn *spawn, const char *user, struct err *err) {
    const struct runner_config *config = spawn->config;
    char number[16];
    uint64_t uid = config->agent_uid, gid = config->agent_gid;
    const char *colon = strchr(user, ':');
    spawn->root = strcmp(user, "root") == 0;
    if (spawn->root) {
        TRY(confine_may_root(config, err));
        uid = gid = 0;
    } else if (colon && (size_t)snprintf(number, sizeof number, "%.*s", (int)(colon - user), user) < sizeof number &&
               text_u64(number, SPAWN_ID_MOST, &uid) && text_u64(colon + 1, SPAWN_ID_MOST, &gid) && uid) {
        if (!config->jail || !config->can_root)
            return err_set(err, ERR_UNSUPPORTED,
                           "a user that is neither the agent nor root needs a jail, and cubby to run as root on the "
                           "host");
    } else if (strcmp(user, "agent") != 0) {
        return err_set(err, ERR_INVALID, "no user '%s': it must be \"agent\" or \"root\"", user);
    }
    spawn->uid = (uid_t)uid;
    spawn->gid = (gid_t)gid;
    return 0;
}

int spawn_prepare(struct spawn *spawn, const struct runner_config *config, const struct fields *args,
                  struct arena *arena, struct err *err) {
    const char *user = args->has[FIELD_USER] ? args->text[FIELD_USER] : "agent";
    *spawn = (struct spawn){.config = config, .stdio = {-1, -1, -1}, .ready_fd = -1, .cwd_root = -1};
    TRY(spawn_user(spawn, user, err));
    if (args->has[FIELD_COMMAND] == (args->argc > 0))
        return err_set(err, ERR_INVALID, "give either a command or argv");
    spawn->shell = args->has[FIELD_COMMAND];
    spawn->program = spawn->shell ? config->shell : args->argv[0];
    if (spawn->shell && args->has[FIELD_SHELL])
        spawn->program = args->text[FIELD_SHELL];
    if (spawn->shell && spawn->program[0] != '/')
        return err_set(err, ERR_INVALID, "shell '%s' is not an absolute path", spawn->program);
    if (!*spawn->program)
        return err_set(err, ERR_INVALID, "argv[0] is empty");
    struct place cwd;
    spawn->cwd = args->has[FIELD_CWD] ? args->text[FIELD_CWD] : config->workspace;
    TRY(runner_path(config, spawn->cwd, PATH_READ, &cwd, err));
    spawn->cwd_root = cwd.root;
    spawn->cwd_path = arena_strdup(arena, cwd.path);
    size_t count = spawn->shell ? 3 : args->argc;
    spawn->argv = arena_alloc(arena, (count + 1) * sizeof *spawn->argv);
    if (spawn->shell) {
        spawn->argv[0] = (char *)(uintptr_t)(strrchr(spawn->program, '/') + 1);
        spawn->argv[1] = (char *)(uintptr_t) "-c";
        spawn->argv[2] = spawn_mapped(spawn, args->text[FIELD_COMMAND], arena);
    }
    for (size_t i = 0; !spawn->shell && i < count; i++)
        spawn->argv[i] = spawn_mapped(spawn, args->argv[i], arena);
    return spawn_env(spawn, args, arena, err);
}

static void spawn_child_run(void *spawn) {
    spawn_child(spawn);
}

pid_t spawn_clone(struct spawn *spawn, struct leaf *leaf) {
    if (!leaf) {
        pid_t pid = fork();
        if (pid == 0)
            keeper_main(spawn);
        return pid < 0 ? -errno : pid;
    }
    struct clone_args how = {.flags = CLONE_INTO_CGROUP | CLONE_VM,
                             .exit_signal = SIGCHLD,
                             .cgroup = (uint64_t)leaf->dir_fd,
                             .stack = (uint64_t)(uintptr_t)spawn->stack,
                             .stack_size = SPAWN_STACK_BYTES};
    struct spawn *copy = spawn->stack; /* at the far end: the runner resets its descriptors while the child uses them */
    *copy = *spawn;
    return (pid_t)raw_clone3(&how, sizeof how, spawn_child_run, copy);
}

int spawn_error(const struct spawn *spawn, struct err *err) {
    const struct spawn_slot *slot = spawn->slot;
    int number = slot->number;
    switch ((enum spawn_stage)slot->stage) {
    case SPAWN_CWD:
        if (number == ENOENT)
            return err_set(err, ERR_NOT_FOUND, "no directory '%s' to run the command in", spawn->cwd);
        return err_errno(err, number, "cannot run the command in '%s'", spawn->cwd);
    case SPAWN_CONFINE:
        return err_set(err, ERR_INTERNAL, "cannot confine the command: %.200s", slot->text);
    case SPAWN_TERMINAL:
        return err_errno(err, number, "cannot give the command its terminal");
    case SPAWN_LIMIT:
        return err_errno(err, number, "cannot limit the command's open files");
    case SPAWN_EXEC:
        if (number == ENOENT && spawn->shell)
            return err_set_why(err, ERR_NOT_FOUND, WHY_NO_SHELL,
                               "the box has no shell '%s': use argv instead of command", spawn->program);
        if (number == ENOENT)
            return err_set_why(err, ERR_NOT_FOUND, WHY_NO_COMMAND, "no command '%s'", spawn->program);
        if (number == E2BIG)
            return err_set(err, ERR_TOO_LARGE, "the arguments and variables of '%s' are too long", spawn->program);
        return err_errno(err, number, "cannot execute '%s'", spawn->program);
    default:
        return process_fork_error(spawn->config, number, "start the command", err);
    }
}

/* ---- in the child ---- */

static _Noreturn void spawn_child_fail(struct spawn_slot *slot, enum spawn_stage stage, long number) {
    slot->number = (int)-number;
    slot->stage = stage;
    for (;;)
        raw(SYS_exit_group, 127);
}

/* The last use of our descriptors, since some may have these numbers. First moves them above all, then down. */
static void spawn_child_pass(struct spawn *spawn) {
    int at = spawn->passed_at;
    long fds[SPAWN_PASSED];
    for (int i = 0; i < SPAWN_PASSED; i++)
        if ((fds[i] = raw(SYS_fcntl, spawn->passed[i], F_DUPFD_CLOEXEC, at + SPAWN_PASSED)) < 0)
            spawn_child_fail(spawn->slot, SPAWN_TERMINAL, fds[i]);
    for (int i = 0; i < SPAWN_PASSED; i++) {
        long number = raw(SYS_dup3, fds[i], at + i, 0);
        if (number < 0)
            spawn_child_fail(spawn->slot, SPAWN_TERMINAL, number);
    }
}

static long child_exec(struct spawn *spawn) {
    const char *program = spawn->shell ? spawn->program : spawn->argv[0];
    if (strchr(program, '/'))
        return raw(SYS_execve, program, spawn->argv, spawn->env);
    const char *search = DEFAULT_PATH;
    for (char **row = spawn->env; *row; row++)
        if (strncmp(*row, "PATH=", 5) == 0)
            search = *row + 5;
    char path[LIMIT_PATH_BYTES + 1];
    long number = -ENOENT;
    while (true) {
        size_t len = strcspn(search, ":");
        int n = snprintf(path, sizeof path, "%.*s%s%s", (int)len, search, len ? "/" : "", program);
        if (len < sizeof path && n > 0 && (size_t)n < sizeof path) {
            long result = raw(SYS_execve, path, spawn->argv, spawn->env);
            if (result != -ENOENT && result != -ENOTDIR && result != -EACCES)
                return result;
            if (result == -EACCES)
                number = -EACCES;
        }
        if (!search[len])
            break;
        search += len + 1;
    }
    return number;
}

_Noreturn void spawn_child(struct spawn *spawn) {
    struct spawn_slot *slot = spawn->slot;
    long number;
    raw(SYS_setsid);
    for (int i = 0; i < 3; i++)
        if ((number = raw(SYS_dup3, spawn->stdio[i], i, 0)) < 0)
            spawn_child_fail(slot, SPAWN_TERMINAL, number);
    if (spawn->pty && (number = raw(SYS_ioctl, spawn->passed_at ? spawn->passed[0] : 0, TIOCSCTTY, 0)) < 0)
        spawn_child_fail(slot, SPAWN_TERMINAL, number);
    /* Opened here with the command's ids, so that it reaches no directory that the command could not. */
    const struct runner_config *config = spawn->config;
    if (config->jail) /* so that a short command does not wait for other boxes' turns, if allowed */
        raw(SYS_sched_setattr, 0, &sched_latency_command, 0);
    if (config->jail && spawn->pty && !spawn->root && spawn->uid != config->agent_uid) { /* the runner may not */
        raw(SYS_setfsuid, 0);
        raw(SYS_fchown, spawn->passed_at ? spawn->passed[0] : 0, spawn->uid, -1);
    }
    if (config->jail) { /* confine sets all ids for good */
        raw(SYS_setfsgid, spawn->gid);
        raw(SYS_setfsuid, spawn->uid);
    }
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    long fd;
    do /* as path_open does, which would set errno */
        fd = raw(SYS_openat2, spawn->cwd_root, spawn->cwd_path, &how, sizeof how);
    while (fd == -EAGAIN || fd == -EINTR);
    number = fd < 0 ? fd : raw(SYS_fchdir, fd);
    if (number < 0)
        spawn_child_fail(spawn->slot, SPAWN_CWD, number);
    char path[LIMIT_PATH_BYTES + 64];
    number = raw(SYS_getcwd, path, sizeof path);
    if (number < 0 || path[0] != '/') /* deleted, or outside of our root */
        spawn_child_fail(spawn->slot, SPAWN_CWD, number < 0 ? number : -ENOENT);
    /* All of ours is already close-on-exec; this is a second line of defense. */
    raw(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
    struct err err;
    if (confine(spawn->config, spawn->root ? CONFINE_ROOT : CONFINE_AGENT, spawn->uid, spawn->gid, &err) < 0) {
        snprintf(slot->text, sizeof slot->text, "%.200s", err.text);
        spawn_child_fail(slot, SPAWN_CONFINE, -EPERM);
    }
    if (spawn->passed_at)
        spawn_child_pass(spawn);
    if (spawn->config->open_files) { /* last: our remaining descriptors may have higher numbers */
        uint64_t files[2] = {spawn->config->open_files, spawn->config->open_files};
        if ((number = raw(SYS_prlimit64, 0, RLIMIT_NOFILE, files, NULL)) < 0)
            spawn_child_fail(slot, SPAWN_LIMIT, number);
    }
    uint64_t none = 0;
    raw(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
    spawn_child_fail(slot, SPAWN_EXEC, child_exec(spawn));
}
