/* Skills and sub-agents that users share: published from a box, kept by content, installed into boxes. Through verbs only. */
#ifndef CUBBY_SKILL_REGISTRY_H
#define CUBBY_SKILL_REGISTRY_H

#include "skill/skill.h"

struct registry_entry {
    int64_t id;
    const char *type;                                                   /* "skill", "agent" */
    const char *name, *description, *author, *tags, *version, *sharing; /* sharing: "public", "private" */
    char sha256[65];
    uint64_t bytes, files, created_ms, updated_ms;
};
struct registry_asker {
    const char *user;
    bool admin;
};
int registry_publish(struct skills *skills, const struct registry_asker *asker, struct box *box,
                     const struct registry_entry *wanted, struct arena *arena, struct registry_entry *ret_entry,
                     int watch, struct err *err);
int registry_unpublish(struct skills *skills, const struct registry_asker *asker, int64_t id, struct err *err);
/* entry: "7", "NAME", "AUTHOR/NAME", each with "@VERSION" or without (the newest) */
int registry_find(struct skills *skills, const struct registry_asker *asker, const char *type, const char *entry,
                  struct arena *arena, struct registry_entry *ret_entry, struct err *err);
int registry_install(struct skills *skills, const struct registry_asker *asker, struct box *box,
                     const struct registry_entry *entry, bool replace, int watch, struct err *err);
int registry_uninstall(struct skills *skills, struct box *box, const char *type, const char *name, struct err *err);
struct registry_query {
    const char *type, *text; /* NULL: any */
    bool mine;
    unsigned limit, offset;
};
int registry_search(struct skills *skills, const struct registry_asker *asker, const struct registry_query *query,
                    int (*each)(void *user, const struct registry_entry *entry), void *user, uint64_t *ret_total,
                    struct err *err);

#endif
