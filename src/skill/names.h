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

#endif
