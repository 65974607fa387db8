/* Answers about skills, and the names of agents' base skills for catalogues (catalog.h, catalogs_public). */
#ifndef CUBBY_FRONT_NATIVE_SKILL_H
#define CUBBY_FRONT_NATIVE_SKILL_H

#include "skill/catalog/catalog.h"
#include "skill/own/own.h"
#include "skill/registry/registry.h"
#include "skill/registry/sync.h"

struct catalog_out { /* after its entries */
    const char *workspace, *const *bad;
};
struct entry_out {
    struct registry_entry entry;
    const char *sha256, *path; /* path: in the box where it was installed */
};
struct registry_out { /* after its entries */
    uint64_t total;
};
struct sync_out {
    struct sync_report report;
    const char *version, *error;
};

int native_skill_base(void *skills, const char *agent, struct arena *arena, const char ***ret_names, size_t *ret_count,
                      struct err *err);

#endif
