/* Which commands the dialect runs, and what their arguments may contain. The box is the wall: these rules keep the
 * error texts of an interface and refuse mistakes early; they do not stop an attacker. Pure. */
#ifndef CUBBY_SKILL_COMMAND_H
#define CUBBY_SKILL_COMMAND_H

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

/* The first word is one of allowed (NULL-terminated), as a bare name. */
int command_check(const char *name, const char *const *allowed, struct err *err);
/* Arguments: no ".." as a name in a path; every absolute path in them lies inside one of roots (NULL-terminated,
 * absolute, the first is named in no sentence). */
int command_check_args(const char *const *args, const char *const *roots, struct err *err);
/* An argument in which every path that is `from` or lies below it is one of `to` instead. In the arena. */
const char *command_map_arg(struct arena *arena, const char *arg, const char *from, const char *to);
/* A line cut at white space, NULL-terminated, in the arena; no quotes, no shell. */
const char **command_split(struct arena *arena, const char *line, size_t *ret_count);

#endif
