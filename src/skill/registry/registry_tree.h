/* What goes between boxes and blobs. Private to the registry. */
#ifndef CUBBY_SKILL_REGISTRY_TREE_H
#define CUBBY_SKILL_REGISTRY_TREE_H

#include "skill/registry/blob.h"
#include "skill/catalog/meta.h"

struct registry_kind {
    const char *type;          /* "skill", "agent" */
    const char *folder;        /* where it is installed, below the workspace */
    const char *suffix;        /* of its name there */
    const char *const *places; /* folders where one is looked for in a box, the first first; NULL-terminated */
};
const struct registry_kind *registry_kind(const char *type, struct err *err); /* NULL: INVALID */
int registry_name_check(const struct registry_kind *kind, const char *name, struct err *err);

/* What the box shows under that name, as a blob that is not kept yet, and what it says of itself. */
int registry_gather(struct skills *skills, struct box *box, const struct registry_kind *kind, const char *name,
                    struct arena *arena, struct blob *ret_blob, struct meta *ret_meta, int watch, struct err *err);

#endif
