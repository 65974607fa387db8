/* What the daemon tells catalogues of agents' bases (catalog.h, catalogs_public). */
#ifndef CUBBY_FRONT_NATIVE_SKILL_H
#define CUBBY_FRONT_NATIVE_SKILL_H

#include "base/arena.h"
#include "base/err.h"

int native_skill_base(void *skills, const char *agent, struct arena *arena, const char ***ret_names, size_t *ret_count,
                      struct err *err);

#endif
