/* See spawn.h. Called by the backends, templates and disk quotas. Invariant: a program gets the descriptors that it is
 * given and no others, because all of the daemon's are close-on-exec. */
#include "backend/spawn.h"

#include <spawn.h>
#include <sys/wait.h>

#include "base/base.h"

int spawn_start(const struct spawn *spawn, pid_t *ret_pid, struct err *err) {
    const int streams[] = {spawn->in, spawn->out, spawn->errors};
    int copies[SPAWN_FDS], number = 0; /* above the numbers that they are copied to, so that no copy covers another */
    char *empty[] = {NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                  (spawn->session ? POSIX_SPAWN_SETSID : 0)));
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd <= 2; fd++)
        if (streams[fd] >= 0)
            posix_spawn_file_actions_adddup2(&actions, streams[fd], fd);
        else
            posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    for (size_t i = 0; i < spawn->fd_count; i++) {
        copies[i] = fcntl(spawn->fds[i], F_DUPFD_CLOEXEC, 3 + SPAWN_FDS);
        if (copies[i] < 0)
            number = errno;
        posix_spawn_file_actions_adddup2(&actions, copies[i], 3 + (int)i);
    }
    bool full = number != 0;
    if (number == 0)
        number = posix_spawnp(ret_pid, spawn->program, &actions, &attributes, (char *const *)(uintptr_t)spawn->argv,
                              spawn->env ? spawn->env : empty);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    for (size_t i = 0; i < spawn->fd_count; i++)
        fd_close(&copies[i]);
    if (full)
        return err_errno(err, number,
                         "the daemon has no file descriptors left (raise LimitNOFILE; a box needs about 3)");
    return number ? err_errno(err, number, "cannot start '%s'", spawn->program) : 0;
}

int spawn_wait(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
