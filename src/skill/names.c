/* Lists of names. Used by own and base. Invariant: there is a NULL behind them from the beginning. */
#include "base/mem.h"
#include "skill/names.h"

#include <stdlib.h>
#include <string.h>

void names_init(struct names *names) {
    *names = (struct names){.arena = ARENA_EMPTY};
    vec_reserve(names->names, 0, names->room, 1);
    names->names[0] = NULL;
}

void names_done(struct names *names) {
    free(names->names);
    arena_done(&names->arena);
}

void names_add(struct names *names, const char *name) {
    vec_reserve(names->names, names->count, names->room, 2);
    names->names[names->count++] = arena_strdup(&names->arena, name);
    names->names[names->count] = NULL;
}

static int by_name(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

void names_sort(struct names *names) {
    qsort(names->names, names->count, sizeof *names->names, by_name);
}

bool names_has(const struct names *names, const char *name) {
    return bsearch(&name, names->names, names->count, sizeof *names->names, by_name) != NULL;
}

const char *const *names_copy(struct arena *arena, const char *const *list) {
    size_t count = 0;
    while (list && list[count])
        count++;
    const char **copy = list ? arena_alloc(arena, (count + 1) * sizeof *copy) : NULL;
    for (size_t i = 0; i < count; i++)
        copy[i] = arena_strdup(arena, list[i]);
    return copy;
}
