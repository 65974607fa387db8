/* Client paths, resolved by the kernel below a root descriptor, never by string prefix.
 *
 * "Below" means openat2 with RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS: "..", absolute links and races stay inside the
 * root, links through /proc/PID/{root,cwd,fd,exe} are refused. Nothing here allocates by a size from outside. */
#ifndef CUBBY_BASE_PATH_H
#define CUBBY_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Bytes from a client as a path: not empty, no NUL inside, at most LIMIT_PATH_BYTES. INVALID says which. */
int path_check(const void *path, size_t len, struct err *err);
/* open below root; flags get O_CLOEXEC | O_NOCTTY | O_NONBLOCK. Descriptor or -errno. */
int path_open(int root, const char *path, int flags, mode_t mode);
/* Opens a relative path ("": dir itself) below dir; no component may be a link, nothing may lead above, or with
 * one_mount into another mount. flags get O_CLOEXEC | O_NOCTTY | O_NONBLOCK. Descriptor or -errno. */
int path_below(int dir, const char *path, int flags, bool one_mount);
/* The fallback of path_open when renames never let the kernel finish: the same result, slower. flags as they are. */
int path_walk(int root, const char *path, int flags, mode_t mode);
/* The same for content: a regular file, not one that procfs makes up. A FIFO, socket, device or directory is INVALID at
 * once. O_NONBLOCK stays on: it means nothing to a regular file. Errors name `path` as the client gave it, after
 * `above`: the client's name of root, "" where root is "/". */
int path_open_file(int root, const char *above, const char *path, int flags, mode_t mode, int *ret_fd, struct err *err);
struct stat;
int path_open_stat(int root, const char *above, const char *path, int flags, mode_t mode, int *ret_fd,
                   struct stat *ret_stat, struct err *err); /* the same, and the file's stat */
/* The parent directory (O_PATH) and the last component. "/" and paths ending in "." or ".." are INVALID. */
int path_open_parent(int root, const char *above, const char *path, int *ret_dirfd, char name[256], struct err *err);
const char *path_kind(mode_t mode); /* "a directory", "a FIFO", ... */
/* Absolute, below /, without empty names, "." or "..", every name of a length that file systems take. */
bool path_normal(const char *path);
/* It is `top` or lies below it, by their names alone: both normal, top may end in '/'. */
bool path_within(const char *path, const char *top);
/* Joins cwd and path into out when path is relative. False when it does not fit. */
bool path_join(char *out, size_t size, const char *cwd, const char *path);
/* In place, as mountinfo writes a path: \040 for a space. */
void path_unescape(char *path);

bool path_program(const char *name, char *path, size_t size); /* found in the usual directories */

#endif
