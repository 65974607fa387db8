/* Skills and sub-agents that users share: published from a box, kept by content, installed into boxes. Through verbs
 * only. A published version never changes. An entry that the asker may not see is answered as one that does not
 * exist. Entries lie in STATE/registry.db, which cannot be rebuilt; trees in blob.h. */
#ifndef CUBBY_SKILL_REGISTRY_H
#define CUBBY_SKILL_REGISTRY_H

#include "skill/skill.h"

struct registry_entry {
    int64_t id;
    const char *type;                                                   /* "skill", "agent" */
    const char *name, *description, *author, *tags, *version, *sharing; /* sharing: "public", "private" */
    char sha256[65];                                                    /* of the blob: a tar made by one rule */
    uint64_t bytes, files, created_ms, updated_ms;
};
struct registry_asker {
    const char *user; /* never NULL */
    bool admin;
};
/* wanted: type and name; NULL: description, tags, version and sharing as in its own file, else the next number and
 * public; author the box's user. The same content under the newest version, or under the named one, is that entry
 * again. EXISTS: the version has another content, or another user shares that name. DENIED: its file names another
 * author. */
int registry_publish(struct skills *skills, const struct registry_asker *asker, struct box *box,
                     const struct registry_entry *wanted, struct arena *arena, struct registry_entry *ret_entry,
                     int watch, struct err *err);
/* entry as below, but without a version: all versions. Installed copies stay. */
int registry_unpublish(struct skills *skills, const struct registry_asker *asker, const char *type, const char *entry,
                       struct err *err);
/* entry: "7", "NAME", "AUTHOR/NAME", the latter two with "@VERSION" or without (the newest). A NAME is one's own before
 * a shared one. type NULL: any. INVALID: several fit. */
int registry_find(struct skills *skills, const struct registry_asker *asker, const char *type, const char *entry,
                  struct arena *arena, struct registry_entry *ret_entry, struct err *err);
/* To {workspace}/skills/NAME (in a box with an agent /skills/NAME), {workspace}/agents/NAME.md: whole or not at all.
 * EXISTS: it is there, and replace is false. BUSY: commands use the one to be replaced. *ret_path: where, in the
 * arena. */
int registry_install(struct skills *skills, struct box *box, const struct registry_entry *entry, bool replace,
                     struct arena *arena, const char **ret_path, int watch, struct err *err);
int registry_uninstall(struct skills *skills, struct box *box, const char *type, const char *name, int watch,
                       struct err *err); /* NOT_FOUND: it is not installed */
struct registry_query {
    const char *type, *text; /* NULL: any; text: in name, description, tags, as it is, in any case of A-Z */
    bool mine, versions;     /* versions: also those that are not the newest */
    unsigned limit, offset;
};
/* The newest first. */
int registry_search(struct skills *skills, const struct registry_asker *asker, const struct registry_query *query,
                    int (*each)(void *user, const struct registry_entry *entry), void *user, uint64_t *ret_total,
                    struct err *err);

#endif
