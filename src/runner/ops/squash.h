/* Merges many layers into one equivalent layer. `cubby-runner squash TARGET FS...`, started by the daemon on the
 * host. */
#ifndef CUBBY_RUNNER_SQUASH_H
#define CUBBY_RUNNER_SQUASH_H

#include "base/err.h"
#include "runner/enter/stack.h"

/* Writes the merged view of the stack below `target`, an empty directory on the disk of the layers or elsewhere: files
 * are linked if possible, else copied. No process may change either during the call. On failure a part is left in
 * target. */
int squash_merge(struct stack *stack, int target, struct err *err);
/* FS: a layer's directory, or its image; uppermost first. TARGET: an empty directory. Returns the exit status. */
int squash_main(int count, char **paths);

#endif
