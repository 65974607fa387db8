/* Extended attributes of files whose names begin with a prefix below "user.". What a call sets (WRITE) and what it asks
 * for (STAT, LIST) has one form: field ATTRS, "key NUL value NUL" for each, keys without the prefix. */
#ifndef CUBBY_RUNNER_ATTRS_H
#define CUBBY_RUNNER_ATTRS_H

#include "base/buf.h"
#include "base/err.h"
#include "wire/frame.h"

struct attrs {
    const char *prefix; /* "user.x."; NULL: the call is not about attributes */
    const char *pairs;  /* to set, replacing all with this prefix */
    size_t len;
};

/* Reads the arguments of a call: PATTERN is the prefix, ATTRS the pairs. INVALID: malformed. */
int attrs_args(const struct fields *args, struct attrs *ret_attrs, struct err *err);
/* Writes those of the file at path, following a final link, as field ATTRS; no field if there are none. Values that are
 * too long or contain a NUL are skipped. */
void attrs_put(struct buf *out, const char *path, const char *prefix);
/* Sets the pairs on a new file, and copies other attributes below "user." from the old one (-1: none). */
int attrs_set(int fd, int old_fd, const struct attrs *attrs, const char *shown, struct err *err);

#endif
