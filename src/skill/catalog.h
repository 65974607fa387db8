/* What skills and sub-agents a box has to offer, for a prompt and as data. Personal before the agent's before global, the
 * first of a name counts: {workspace}/skills, /skills, {workspace}/.skills; {workspace}/agents, {workspace}/.agents. Read
 * through verbs: one round trip tells whether what was parsed still holds; never fails because one file is bad. */
#ifndef CUBBY_SKILL_CATALOG_H
#define CUBBY_SKILL_CATALOG_H

#include "skill/meta.h"
#include "skill/skill.h"

struct catalog_entry {
    const char *id;     /* folder or file name without .md */
    const char *path;   /* folder, or file of a sub-agent, in the box */
    const char *source; /* "personal", "agent", "global" */
    struct meta meta;   /* body only where it was asked for */
};
struct catalog {
    const struct catalog_entry *entries; /* by name */
    size_t count;
    const char *const *bad; /* "PATH: why" of files that could not be read as what they should be */
};
int catalog_skills(struct skills *skills, struct box *box, struct arena *arena, struct catalog *ret_catalog, int watch,
                   struct err *err);
int catalog_agents(struct skills *skills, struct box *box, struct arena *arena, struct catalog *ret_catalog, int watch,
                   struct err *err);
/* The block for a system prompt, escaped; empty when there is nothing. */
void catalog_prompt_skills(const struct catalog *catalog, const char *workspace, struct buf *out);
void catalog_prompt_agents(const struct catalog *catalog, const char *workspace, struct buf *out);
void catalog_forget(struct skills *skills, const char *box_id); /* after a change of ours; NULL: every box */

#endif
