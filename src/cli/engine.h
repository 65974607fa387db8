/* The engine inside this process: where boxes of `cubby run` have their state, and where the runner is. Called by run,
 * doctor and template. */
#ifndef CUBBY_CLI_ENGINE_H
#define CUBBY_CLI_ENGINE_H

#include "backend/backend.h"
#include "base/arena.h"

/* The state directory of boxes without a daemon (0700, ours; shared by all our runs, so that the skeleton of `host` is
 * made once): below /run/cubby as root, else $XDG_RUNTIME_DIR or /tmp. */
int engine_state(struct arena *arena, const char **ret_dir, struct err *err);
/* The daemon's default state directory, where templates are imported. */
const char *engine_daemon_state(struct arena *arena);

/* Claims a box: as long as *ret_lock is open, nobody takes it for a leftover. Before start. */
int engine_claim(const char *state_dir, const struct backend_ops *ops, const char *id, int *ret_lock, struct err *err);
void engine_unclaim(const char *state_dir, const struct backend_ops *ops, const char *id); /* after stop */
/* Ends what runs that were killed have left: claimed, and nobody holds the claim. */
void engine_sweep(const char *state_dir, const struct backend_ops *ops, struct backend *backend);

/* The runner: CUBBY_RUNNER, or beside this program, or in its ../libexec/cubby. */
int engine_runner(struct arena *arena, const char **ret_path, struct err *err);

#endif
