/* Changes of whole skills in a box, as transactions that lie in the box itself, beside the skills: so its quota bounds them,
 * and snapshots, forks and restarts find them. Below /skills/.cubby/changes, NAME.new is being written, NAME (16 hex digits,
 * they count up) is complete and will be done: put/SKILL takes the place of that skill, rm/SKILL names one to remove. Done
 * twice it is the same. Private to own*.c. */
#ifndef CUBBY_SKILL_OWN_CHANGE_H
#define CUBBY_SKILL_OWN_CHANGE_H

#include "skill/names.h"
#include "skill/own/own.h"

#define CHANGES SKILL_PATH "/" SKILLS_CHANGES "/changes"

struct change {
    char path[64]; /* in the box; empty: none */
};

struct change_source {  /* a tar stream */
    box_reader read_fn; /* NULL ends a list of them */
    void *user;
    uint64_t max_entries;
};
/* The skills of those streams, by their names, complete. Nobody needs to have the box for it. */
int change_put(struct box *box, const char *const *skills, const struct change_source *sources, int watch,
               struct change *ret_change, struct err *err);
int change_remove(struct box *box, const char *skill, struct change *ret_change, struct err *err);
/* From now on it will be done, whatever ends before: change_apply, or another daemon's. */
int change_commit(struct box *box, struct change *change, struct err *err);
/* The committed ones, the oldest first; by who has the box alone. Also forgets what was never committed. ret_put gets the
 * names of skills that were put; one change that fails does not stop the others, and err tells of the first. */
int change_apply(struct box *box, struct names *ret_put, struct err *err);
void change_drop(struct box *box, struct change *change); /* one that is not wanted after all; leaves nothing */

#endif
