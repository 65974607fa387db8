/* Removing a tree of any depth and width; no link is followed. For the runner, the backends and the engine of the
 * command line. */
#ifndef CUBBY_TREE_REMOVAL_H
#define CUBBY_TREE_REMOVAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

/* Removes dirfd/name and everything below it, with our rights, while others may write there. `shown` names it in
 * errors; adds the number of removed entries to *count. */
int removal_shared(int dirfd, const char *name, const char *shown, uint64_t *count, struct err *err);
/* A tree that no process writes to any more: modes that prevent it are changed, and mounts are not entered (-EBUSY).
 * 0 or -errno; a missing tree is 0. */
int removal_tree(int dirfd, const char *name);
/* The same for a background thread: it stops while requests are served (base/sync.h), until *hurry. */
int removal_tree_gently(int dirfd, const char *name, const atomic_bool *hurry);

#endif
