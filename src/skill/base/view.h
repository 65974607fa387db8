/* What an agent's base is at one moment: its layers and what is seen through them. Private to skill/. Counted, and never
 * changed: whoever holds one sees one version, whatever is put meanwhile. */
#ifndef CUBBY_SKILL_BASE_VIEW_H
#define CUBBY_SKILL_BASE_VIEW_H

#include "skill/base/base.h"
#include "skill/skills.h"

enum { BASE_LAYERS = 16 }; /* of a stack, before it is made one; the creator's is not counted */
enum { LAYER_NAME_BYTES = 17 };
enum { STACK_BYTES = (BASE_LAYERS + 2) * LAYER_NAME_BYTES };

/* The file agents/AGENT: names, uppermost first. */
struct base_stack {
    char names[BASE_LAYERS + 1][LAYER_NAME_BYTES];
    size_t count;
};
/* An agent that has none has an empty one. IO: it is not what we wrote. */
int base_stack_read(struct skills *skills, const char *agent, struct base_stack *ret_stack, struct err *err);
int base_stack_write(struct skills *skills, const char *agent, const struct base_stack *stack, struct err *err);
void base_stack_text(const struct base_stack *stack, char text[STACK_BYTES]); /* a name a line */

struct base_view {
    atomic_uint refs;
    struct arena arena;
    uint64_t generation;
    struct base_stack stack;
    char creator[LAYER_NAME_BYTES]; /* below all; "": none */
    struct base_skill *skills;      /* by name */
    size_t count;
};
int base_view_get(struct skills *skills, const char *agent, struct base_view **ret_view, struct err *err);
void base_view_put(struct base_view *view); /* NULL is fine */
/* The same for a stack that is not an agent's yet. */
int base_view_make(struct skills *skills, const struct base_stack *stack, struct base_view **ret_view, struct err *err);
const struct base_skill *base_view_find(const struct base_view *view, const char *skill); /* NULL: none */

/* What one layer has of a skill, by looking at all its files; then it is kept in skills.db. */
int base_version(int layer_dir, const char *layer, const char *skill, struct arena *arena, struct base_skill *ret_skill,
                 struct err *err);
int base_versions_keep(struct db *db, const struct base_skill *versions, size_t count, struct err *err);

#endif
