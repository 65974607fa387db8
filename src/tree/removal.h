/* Removing a tree that a box filled: any depth, any number of entries, nothing followed. For backend/ and the engine of the
 * command line. */
#ifndef CUBBY_BACKEND_REMOVAL_H
#define CUBBY_BACKEND_REMOVAL_H

#include <stdatomic.h>
#include <stdbool.h>

/* Removes dirfd/name and everything below it on the same file system. 0 or -errno; nothing there is 0. */
int removal_tree(int dirfd, const char *name);
/* The same in small steps with pauses between them, until *hurry. */
int removal_tree_gently(int dirfd, const char *name, const atomic_bool *hurry);

#endif
