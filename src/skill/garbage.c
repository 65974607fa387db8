/* Trees that go. Called by whoever knows that nobody has them. */
#include "skill/garbage.h"

#include <stdio.h>

#include "tree/removal.h"
#include "skill/skills.h"

/* Out of sight first: nobody finds half of it, and what a killed daemon leaves is swept as any stage. */
void skills_discard(struct skills *skills, const char *part, const char *name) {
    char from[300], gone[300];
    snprintf(from, sizeof from, "%s/%s", part, name);
    snprintf(gone, sizeof gone, ".gone-%s", name);
    if (renameat(skills->dir, from, skills->staging_dir, gone) == 0)
        removal_tree(skills->staging_dir, gone);
}
