/* A runner that the daemon's own backends did not start: in a container of an engine (`serve --dial PATH [--stdio
 * 1]`), or on a machine with a foreign runner (`serve --pieces 1`). How it gets its first wire, and the settings it
 * takes from there. */
#ifndef CUBBY_RUNNER_CONTAINER_H
#define CUBBY_RUNNER_CONTAINER_H

#include "runner/runner.h"

/* By the socket at `path` (NULL: none), else by standard input and output: as they are (stdio), or in pieces. */
int container_wire(struct runner_config *config, const char *path, bool stdio, bool pieces, struct err *err);
/* The image's variables (our own), additions to them, and over them `rows`; NULL-terminated, kept for good. */
const char *const *container_env(const char *const *rows);
int container_oom(int root_fd); /* the file that counts the container's oom kills; -1: not visible here */

bool relay_peer(int fd); /* the process that connected to the runner is a relay */
int relay_main(void);    /* carries 0 and 1 to the runner of this container; the exit status */

#endif
