/* Every file of a tree that boxes have written, whatever it holds. */
#ifndef CUBBY_BACKEND_TREEWALK_H
#define CUBBY_BACKEND_TREEWALK_H

#include <sys/stat.h>

#include "base/err.h"

struct tree_entry {
    int dir;          /* open, and holds it ... */
    const char *name; /* ... by this name */
    const char *path; /* from the top on, "a/b"; NULL: longer than LIMIT_PATH_BYTES */
    struct stat status;
};
enum { TREE_SKIP, TREE_DESCEND }; /* into a directory; of others it does not matter. Negative: the walk ends with it */

/* Directories come before what is in them. Of any depth and width: memory grows with the depth alone, by a few words a level,
 * and two descriptors are open. BUSY: somebody moves directories meanwhile. */
int treewalk(int top, int (*each)(void *user, const struct tree_entry *entry, struct err *err), void *user,
             struct err *err);

#endif
