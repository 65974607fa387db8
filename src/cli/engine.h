/* The engine inside this process: where a box of `cubby run` has its state, and where the runner is. Called by run,
 * doctor and template. */
#ifndef CUBBY_CLI_ENGINE_H
#define CUBBY_CLI_ENGINE_H

#include "backend/backend.h"
#include "base/arena.h"

/* A private directory (0700, ours) below $XDG_RUNTIME_DIR, /run/cubby or /tmp, locked as long as *ret_lock is open.
 * What earlier runs left there when they were killed is removed on the way. */
int engine_state(struct arena *arena, const struct backend_ops *ops, struct backend_env *env, int *ret_lock,
                 struct err *err);
/* Removes the state directory when its boxes are gone. */
void engine_state_remove(const char *state_dir);
/* The runner: CUBBY_RUNNER, or beside this program, or in its ../lib/cubby. */
int engine_runner(struct arena *arena, const char **ret_path, struct err *err);

#endif
