/* The table agent_skill_registry, kept true with the files. Private to skill/. */
#ifndef CUBBY_SKILL_BASE_ROWS_H
#define CUBBY_SKILL_BASE_ROWS_H

#include "skill/base/view.h"

/* Within a transaction: the public rows of an agent become what the view shows, which is what `stack` will say; the
 * creator's skill is nobody's. */
int base_rows_set(struct db *db, const char *agent, const struct base_view *view, const struct base_stack *stack,
                  struct err *err);
/* Rows that are behind their files are made anew: of one agent, or of all there are. */
int base_rows_check(struct skills *skills, const char *agent, struct err *err);
int base_rows_check_all(struct skills *skills, struct err *err);
/* Every agent that has a file. */
int base_agents(struct skills *skills, int (*each)(void *user, const char *agent, struct err *err), void *user,
                struct err *err);

#endif
