/* What the kernel gives when it is asked, as cubby-runner's `trial` found it. Called by probe.c. Invariant: a trial that
 * did not happen is not a yes: its rows fall back to what /proc tells, and say so. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/jail/probe.h"
#include "base/fd.h"

static const char *const names[TRIAL_COUNT] = {
    [TRIAL_USERNS] = "userns", [TRIAL_OVERLAY] = "overlay", [TRIAL_PROC] = "proc", [TRIAL_IDMAP] = "idmap"};

/* One line: NAME NUMBER */
static void take_line(const char *line, struct trial *trial) {
    char name[16];
    int number;
    if (sscanf(line, "%15s %d", name, &number) != 2)
        return;
    for (int i = 0; i < TRIAL_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            trial->number[i] = number;
}

static int trial_spawn(const struct backend_env *env, int out, pid_t *ret_pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    char *argv[] = {"cubby-runner", "trial", (char *)(uintptr_t)env->state_dir, NULL}, *envp[] = {NULL};
    int number = posix_spawn(ret_pid, env->runner_path, &actions, &attributes, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return number;
}

void trial_run(const struct backend_env *env, struct trial *ret_trial) {
    struct trial trial;
    int pair[2];
    pid_t pid;
    for (int i = 0; i < TRIAL_COUNT; i++)
        trial.number[i] = TRIAL_UNKNOWN;
    *ret_trial = trial;
    if (!env->runner_path || pipe2(pair, O_CLOEXEC) < 0)
        return;
    autofd in = pair[0], out = pair[1];
    if (trial_spawn(env, out, &pid) != 0)
        return;
    fd_close(&out);
    char text[512];
    ssize_t len = fd_read_full(in, text, sizeof text - 1);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    text[len < 0 ? 0 : len] = 0;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));)
        take_line(line, &trial);
    *ret_trial = trial;
}
