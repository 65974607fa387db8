/* What nobody needs any more. Private to skill/. */
#ifndef CUBBY_SKILL_GARBAGE_H
#define CUBBY_SKILL_GARBAGE_H

#include "skill/skill.h"

/* skills/PART/NAME with all below it goes. */
void skills_discard(struct skills *skills, const char *part, const char *name);

#endif
