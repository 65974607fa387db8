/* Visits every entry of a tree, a directory before its entries; no link is followed. */
#ifndef CUBBY_TREE_TREEWALK_H
#define CUBBY_TREE_TREEWALK_H

#include <sys/stat.h>

#include "base/err.h"

struct tree_entry {
    int dir;          /* its open directory */
    const char *name; /* its name there */
    const char *path; /* from the top, "a/b"; NULL: longer than LIMIT_PATH_BYTES */
    char kind;        /* 'd', 'f', 'x' (a file with an x bit), 'l'; 0: something else */
    struct stat status;
};
enum { TREE_DESCEND, TREE_SKIP }; /* whether to enter a directory. A negative return ends the traversal */

/* Visits a tree that boxes have written and may be writing to, of any depth and width. Memory grows only with the
 * depth, by a few words per level; two descriptors are open. BUSY: directories are being moved at the same time. */
int treewalk(int top, int (*each)(void *user, const struct tree_entry *entry, struct err *err), void *user,
             struct err *err);
/* Visits a tree that no other process changes: names in byte order, every path known. TOO_LARGE: a path is longer than
 * LIMIT_PATH_BYTES or deeper than LIMIT_LIST_DEPTH. */
int treewalk_own(int top, int (*each)(void *user, const struct tree_entry *entry, struct err *err), void *user,
                 struct err *err);

#endif
