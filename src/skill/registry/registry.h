/* Skills and sub-agents that users share: published from a box, stored by content, installed into boxes. A published
 * version never changes. An entry that the asker may not see is answered as one that does not exist. Entries are in
 * STATE/registry.db, which cannot be rebuilt; trees are blobs (blob.h). */
#ifndef CUBBY_SKILL_REGISTRY_H
#define CUBBY_SKILL_REGISTRY_H

#include "skill/skill.h"

struct registry_entry {
    int64_t id;
    const char *type;                                                   /* "skill", "agent" */
    const char *name, *description, *author, *tags, *version, *sharing; /* sharing: "public", "private" */
    char sha256[65];                                                    /* of the blob */
    uint64_t bytes, files, created_ms, updated_ms;
};
struct registry_asker {
    const char *user; /* never NULL */
    bool admin;
};
/* wanted has type and name. Its description, tags, version and sharing may be NULL: they come from the skill's own
 * file, else the version is the next number and sharing is public. author NULL: the box's user. Publishing the same
 * content under the newest or the given version updates that entry. EXISTS: the version has other content, or another
 * user shares that name. DENIED: its file names another author. */
int registry_publish(struct skills *skills, const struct registry_asker *asker, struct box *box,
                     const struct registry_entry *wanted, struct arena *arena, struct registry_entry *ret_entry,
                     int watch, struct err *err);
/* entry: as below; without a version all versions are removed. Installed copies stay. */
int registry_unpublish(struct skills *skills, const struct registry_asker *asker, const char *type, const char *entry,
                       struct err *err);
/* entry: "7", "NAME" or "AUTHOR/NAME", the latter two with "@VERSION" or without (the newest). For NAME, the asker's
 * own entry comes before a shared one. type NULL: any. INVALID: several fit. */
int registry_find(struct skills *skills, const struct registry_asker *asker, const char *type, const char *entry,
                  struct arena *arena, struct registry_entry *ret_entry, struct err *err);
/* Installs to {workspace}/skills/NAME (/skills/NAME in a box with an agent) or {workspace}/agents/NAME.md, whole or not
 * at all. EXISTS: it is there, and replace is false. BUSY: commands use the old version. *ret_path is in the arena. */
int registry_install(struct skills *skills, struct box *box, const struct registry_entry *entry, bool replace,
                     struct arena *arena, const char **ret_path, int watch, struct err *err);
int registry_uninstall(struct skills *skills, struct box *box, const char *type, const char *name, int watch,
                       struct err *err); /* NOT_FOUND: it is not installed */
struct registry_query {
    const char *type, *text; /* NULL: any; text: searched in name, description and tags, ignoring ASCII case */
    bool mine, versions;     /* versions: include older ones */
    unsigned limit, offset;
};
/* Newest first. */
int registry_search(struct skills *skills, const struct registry_asker *asker, const struct registry_query *query,
                    int (*each)(void *user, const struct registry_entry *entry), void *user, uint64_t *ret_total,
                    struct err *err);

#endif
