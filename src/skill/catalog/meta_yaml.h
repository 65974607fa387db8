/* A small YAML, as people write it at the head of a SKILL.md: keys with plain, quoted, block and folded texts, lists
 * in both forms, and one level of nested keys. More lenient than YAML ("description: Use it when: ..." is a text), and
 * without anchors, tags or types. Pure. */
#ifndef CUBBY_SKILL_META_YAML_H
#define CUBBY_SKILL_META_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct yaml_value {
    const char *text;         /* never NULL; for a list: its items joined with ", " */
    const char *const *items; /* NULL-terminated; NULL: not a list */
};

/* Calls back for each key in order; parent is "" at the top. text: UTF-8, lines ended by \n, no NUL. */
void yaml_each(struct arena *arena, const char *text, size_t len,
               void (*each)(void *user, const char *parent, const char *key, const struct yaml_value *value),
               void *user);
/* Returns the length of the key that a line begins with ("name: x", "Name：x"), and where its value begins; 0: no
 * key. */
size_t yaml_key(const char *line, size_t len, size_t *ret_value);

#endif
