/* Extended attributes of files, those of one family: names that begin with a prefix below "user.". What a call sets
 * (WRITE) and what it asks for (STAT, LIST) has one form: field ATTRS, "key NUL value NUL" for each, keys without the
 * prefix. */
#ifndef CUBBY_RUNNER_ATTRS_H
#define CUBBY_RUNNER_ATTRS_H

#include "base/buf.h"
#include "base/err.h"
#include "wire/frame.h"

struct attrs {
    const char *prefix; /* "user.x."; NULL: the call is not about attributes */
    const char *pairs;  /* to be set, instead of all that there are with this prefix */
    size_t len;
};

/* What a call says: PATTERN is the prefix, ATTRS the pairs. INVALID: malformed. */
int attrs_args(const struct fields *args, struct attrs *ret_attrs, struct err *err);
/* Those of the file at path, a link at its end followed, as field ATTRS; none: no field. Values that are longer than
 * fit, or hold a NUL, are left out. */
void attrs_put(struct buf *out, const char *path, const char *prefix);
/* The new file gets the pairs, and from the old one (-1: none) what else it has below "user.". */
int attrs_set(int fd, int old_fd, const struct attrs *attrs, const char *shown, struct err *err);

#endif
