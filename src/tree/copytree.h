/* Copies of files that boxes have written, whatever they hold. */
#ifndef CUBBY_BACKEND_COPYTREE_H
#define CUBBY_BACKEND_COPYTREE_H

#include <stdint.h>

#include "base/err.h"

struct copied {
    const char *method; /* "reflink": no byte was copied; "copy" */
    uint64_t bytes;     /* that were */
    uint64_t files;     /* of any kind, directories too */
};

/* What is below `from` comes below `to`, an empty directory, with owners, modes, times, extended attributes, hard links,
 * holes and whiteouts; `to` itself gets those of `from`. Nobody writes to either meanwhile. On failure a part is left in
 * `to`. Any depth and width: memory and descriptors do not grow with the width. */
int copytree(int from, int to, struct copied *ret_copied, struct err *err);
/* The content of one regular file, into an empty one; both at offset 0, open for reading and for writing. */
int copytree_file(int from, int to, struct copied *ret_copied, struct err *err);

#endif
