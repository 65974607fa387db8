/* Lists of names that grow. Private to skill/. */
#ifndef CUBBY_SKILL_NAMES_H
#define CUBBY_SKILL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct names {
    struct arena arena;
    const char **names; /* NULL behind them */
    size_t count, room;
};

void names_init(struct names *names);
void names_done(struct names *names);
void names_add(struct names *names, const char *name); /* a copy */
void names_sort(struct names *names);
bool names_has(const struct names *names, const char *name); /* of sorted ones */
/* A list that ends with NULL, in the arena. NULL stays NULL. */
const char *const *names_copy(struct arena *arena, const char *const *list);

#endif
