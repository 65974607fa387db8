/* Removes a tree of any depth and width; no link is followed. For the runner, the backends and the command line. */
#ifndef CUBBY_TREE_REMOVAL_H
#define CUBBY_TREE_REMOVAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

/* Removes dirfd/name and everything below it, with our rights, while others may write there. `shown` is its name in
 * errors. Adds the number of removed entries to *count. */
int removal_shared(int dirfd, const char *name, const char *shown, uint64_t *count, struct err *err);
/* Removes a tree that no process writes to: changes modes that prevent it, and does not enter mounts (-EBUSY). Returns
 * 0 or -errno; a missing tree is 0. */
int removal_tree(int dirfd, const char *name);
/* The same for a background thread: pauses while requests are served (base/sync.h), until *hurry. */
int removal_tree_gently(int dirfd, const char *name, const atomic_bool *hurry);

#endif
