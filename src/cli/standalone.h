/* A box in this process, without a daemon: its state directory, and the runner. Called by run, mcp, doctor and
 * template. */
#ifndef CUBBY_CLI_STANDALONE_H
#define CUBBY_CLI_STANDALONE_H

#include "backend/backend.h"
#include "base/arena.h"
#include "box/box.h"
#include "box/policy.h"

/* One box of this process. Zeroed but for claim and box.pidfd, which are -1. */
struct standalone {
    struct arena *arena;
    struct backend_env env;
    struct box box; /* its wire is NULL until it is started */
    int claim;      /* a lock; while it is held, the box is in use */
};
#define STANDALONE_EMPTY                                                                                               \
    { .claim = -1, .box.pidfd = -1 }

/* Checks the request without making anything. INVALID: err says what is wrong. */
int standalone_plan(struct standalone *standalone, const struct box_request *request, const char *const *allow_weaker,
                    struct arena *arena, struct err *err);
/* A directory of this process, removed by standalone_stop or, after a kill, by the next run. */
int standalone_directory(struct standalone *standalone, const char **ret_path, struct err *err);
/* Starts the box, or starts it again on its files after it died. Removes leftovers of killed runs first. */
int standalone_start(struct standalone *standalone, struct err *err);
/* Cleans up; called on every exit path. What could not be removed is reported and left for the next run. */
void standalone_stop(struct standalone *standalone);

/* The state directory of boxes without a daemon (0700, ours; shared by all our runs, so that the skeleton of `host` is
 * made once): below /run/cubby for root, else $XDG_RUNTIME_DIR or /tmp. */
int standalone_state(struct arena *arena, const char **ret_dir, struct err *err);
/* Finds the runner: CUBBY_RUNNER, or next to this program, or in its ../libexec/cubby. */
int standalone_runner(struct arena *arena, const char **ret_path, struct err *err);

#endif
