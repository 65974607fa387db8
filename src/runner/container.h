/* A runner that the daemon's own backends did not start: in a container of an engine (`serve --dial PATH [--stdio 1]`),
 * or on a machine with a foreign runner (`serve --pieces 1`). How it gets its first wire, and its settings. */
#ifndef CUBBY_RUNNER_CONTAINER_H
#define CUBBY_RUNNER_CONTAINER_H

#include "runner/runner.h"

/* Connects to the socket at `path` (may be NULL), else uses standard input and output: raw (stdio), or in pieces. */
int container_wire(struct runner_config *config, const char *path, bool stdio, bool pieces, struct err *err);
/* The image's variables (our own), our defaults, and `rows` over them; NULL-terminated, never freed. */
const char *const *container_env(const char *const *rows);
int container_oom(int root_fd); /* opens the counter of the container's oom kills; -1: not available */

bool relay_peer(int fd); /* the process that connected to the runner is a relay */
int relay_main(void);    /* carries 0 and 1 to the runner of this container; the exit status */

#endif
