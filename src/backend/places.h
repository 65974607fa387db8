/* Where cubby's own parts are on this machine: for the daemon and for the command line without one. */
#ifndef CUBBY_BACKEND_PLACES_H
#define CUBBY_BACKEND_PLACES_H

#include <limits.h>

#include "base/arena.h"
#include "base/err.h"

/* The runner: chosen, or (NULL) in the directory of this program, else in ../libexec/cubby. how: what to do where it
 * is not there, "set CUBBY_RUNNER". */
int places_runner(const char *chosen, const char *how, char ret_path[PATH_MAX], struct err *err);
/* The daemon's default state directory: /var/lib/cubby as root, else below $XDG_STATE_HOME or $HOME. NULL: neither is
 * set. */
const char *places_state(struct arena *arena);
/* Makes a directory of mode 0700, and those above it with mode `above`; existing ones are fine. */
int places_make(const char *path, unsigned above, struct err *err);

#endif
