/* Which commands the dialect runs, and what their arguments may contain. These rules refuse mistakes early, with the
 * error texts that clients of the dialect expect. They do not stop an attacker: the box does. Pure. */
#ifndef CUBBY_SKILL_COMMAND_H
#define CUBBY_SKILL_COMMAND_H

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

/* Succeeds if name is one of allowed (NULL-terminated) without a directory. */
int command_check(const char *name, const char *const *allowed, struct err *err);
/* Refuses ".." as a path component, and absolute paths outside all roots (NULL-terminated, absolute). Error texts never
 * show the first root. */
int command_check_args(const char *const *args, const char *const *roots, struct err *err);
/* Returns arg with every path that is `from`, or lies below it, moved to `to`. In the arena. */
const char *command_map_arg(struct arena *arena, const char *arg, const char *from, const char *to);
/* Splits a line at white space, without quoting or a shell. NULL-terminated, in the arena. */
const char **command_split(struct arena *arena, const char *line, size_t *ret_count);

#endif
