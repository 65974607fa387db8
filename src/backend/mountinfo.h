/* The mounts of a process, according to the kernel. */
#ifndef CUBBY_BACKEND_MOUNTINFO_H
#define CUBBY_BACKEND_MOUNTINFO_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Whether `source`, a path here without links, is what process `pid` has at `target`: the same directory of the same
 * file system. NOT_FOUND: nothing is mounted there. */
int mountinfo_is(const char *source, pid_t pid, const char *target, bool *ret_is, struct err *err);

#endif
