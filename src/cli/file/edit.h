/* A file of a box, changed on this machine. Called by `cubby edit` and `cubby skill edit`. */
#ifndef CUBBY_CLI_EDIT_H
#define CUBBY_CLI_EDIT_H

#include "base/err.h"

struct buf;
struct cli;

/* Opens it in $VISUAL or $EDITOR, and writes it if it was changed. A file that does not exist is made. */
int edit_file(struct cli *cli, const char *id, const char *path, struct err *err);
/* Replaces it; only the version with that ETag, where one is given. */
int edit_put(struct cli *cli, const char *id, const char *path, const char *etag, const struct buf *text,
             struct err *err);
int edit_read(int fd, struct buf *text, struct err *err); /* to its end */

#endif
