/* What nearly every file needs: the C library and POSIX, and from base errors, memory, buffers, text, paths,
 * descriptors, clocks and limits. So the list of includes in a file names what is special about that file. */
#ifndef CUBBY_BASE_BASE_H
#define CUBBY_BASE_BASE_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

#endif
