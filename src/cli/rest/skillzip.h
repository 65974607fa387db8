/* A directory of this machine as a ZIP with that directory as its one folder. Called by `cubby skill upload`. */
#ifndef CUBBY_CLI_SKILLZIP_H
#define CUBBY_CLI_SKILLZIP_H

#include "base/err.h"

/* Into fd. Sorted, so that the same files give the same bytes; `.git` is left out. A link to a file of the same
 * directory becomes that file; a link to elsewhere, and anything that is neither file nor directory, is an error
 * that names it. */
int skillzip_pack(const char *dir, int fd, struct err *err);

#endif
