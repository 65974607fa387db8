/* Programs started by the daemon, which never forks. */
#ifndef CUBBY_BACKEND_SPAWN_H
#define CUBBY_BACKEND_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

enum { SPAWN_FDS = 4 };
struct spawn {
    const char *program; /* a path, or a name to look for in PATH */
    const char *const *argv;
    char *const *env;    /* NULL: empty */
    int in, out, errors; /* -1: /dev/null */
    int fds[SPAWN_FDS];  /* further descriptors, from 3 on */
    size_t fd_count;
    bool session; /* of its own */
};
/* With all signals at their defaults and none blocked. NOT_FOUND: no such program. */
int spawn_start(const struct spawn *spawn, pid_t *ret_pid, struct err *err);
int spawn_wait(pid_t pid); /* its exit status; 128: killed */

#endif
