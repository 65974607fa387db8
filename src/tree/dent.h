/* One entry of a directory from getdents64, for traversals that read ahead, go back and continue, which readdir
 * cannot. */
#ifndef CUBBY_TREE_DENT_H
#define CUBBY_TREE_DENT_H

#include "base/base.h"

struct dent {
    uint64_t inode;
    int64_t offset; /* of the next one */
    uint16_t size;  /* of this one */
    uint8_t type;   /* DT_ */
    char name[];
};

static inline bool dent_dots(const char *name) { /* "." and ".." */
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

#endif
