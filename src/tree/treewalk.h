/* Every entry of a tree, directories before their entries; no link is followed. */
#ifndef CUBBY_TREE_TREEWALK_H
#define CUBBY_TREE_TREEWALK_H

#include <sys/stat.h>

#include "base/err.h"

struct tree_entry {
    int dir;          /* open, and holds it ... */
    const char *name; /* ... by this name */
    const char *path; /* from the top on, "a/b"; NULL: longer than LIMIT_PATH_BYTES */
    char kind;        /* 'd', 'f', 'x' (a file with an x bit), 'l'; 0: something else */
    struct stat status;
};
enum { TREE_DESCEND, TREE_SKIP }; /* into a directory; ignored for others. Negative: the traversal ends with it */

/* A tree that boxes have written and may be writing, of any depth and width: memory grows with the depth alone, by a
 * few words a level, and two descriptors are open. BUSY: directories are being moved at the same time. */
int treewalk(int top, int (*each)(void *user, const struct tree_entry *entry, struct err *err), void *user,
             struct err *err);
/* A tree that no other process changes: names in the order of their bytes, every path known. TOO_LARGE: one is
 * longer than LIMIT_PATH_BYTES or deeper than LIMIT_LIST_DEPTH. */
int treewalk_own(int top, int (*each)(void *user, const struct tree_entry *entry, struct err *err), void *user,
                 struct err *err);

#endif
