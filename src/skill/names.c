/* Lists of names. Used by own, base and stage. Invariant: the list always ends with NULL, also when empty. */
#include "skill/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"

struct names names_new(void) {
    struct names names = {.arena = ARENA_EMPTY};
    vec_reserve(names.names, 0, names.room, 1);
    names.names[0] = NULL;
    return names;
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

static int names_order(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

void names_sort(struct names *names) {
    qsort(names->names, names->count, sizeof *names->names, names_order);
}

bool names_has(const struct names *names, const char *name) {
    return bsearch(&name, names->names, names->count, sizeof *names->names, names_order) != NULL;
}

int names_dir(struct names *names, int dir, const char *what, struct err *err) {
    autodir *list = fd_opendir(dir, ".", 0);
    if (!list)
        return err_errno(err, errno, "cannot read %s", what);
    for (const struct dirent *entry; (entry = fd_readdir(list));)
        names_add(names, entry->d_name);
    return 0;
}

const char *const *names_copy(struct arena *arena, const char *const *list) {
    size_t count = text_list_count(list);
    const char **copy = list ? arena_alloc(arena, (count + 1) * sizeof *copy) : NULL;
    for (size_t i = 0; i < count; i++)
        copy[i] = arena_strdup(arena, list[i]);
    return copy;
}
