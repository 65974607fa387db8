/* Lists of names that grow. Private to skill/. */
#ifndef CUBBY_SKILL_NAMES_H
#define CUBBY_SKILL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

struct names {
    struct arena arena;
    const char **names; /* ends with NULL */
    size_t count, room;
};
#define autonames __attribute__((cleanup(names_done))) struct names

struct names names_new(void); /* an empty list; free it with names_done */
void names_done(struct names *names);
void names_add(struct names *names, const char *name); /* copies the name */
void names_sort(struct names *names);
bool names_has(const struct names *names, const char *name); /* the list must be sorted */
/* Adds the entries of a directory, without "." and "..". `what` names the directory in errors. */
int names_dir(struct names *names, int dir, const char *what, struct err *err);
/* Copies a NULL-terminated list into the arena. NULL stays NULL. */
const char *const *names_copy(struct arena *arena, const char *const *list);

#endif
