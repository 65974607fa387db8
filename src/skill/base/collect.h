/* Layers that nobody needs any more go. Private to skill/. */
#ifndef CUBBY_SKILL_BASE_COLLECT_H
#define CUBBY_SKILL_BASE_COLLECT_H

#include "skill/skill.h"

enum { BASE_COLLECT_MS = 600000 }; /* how long a layer was in no stack before it goes */

int base_collect(struct skills *skills, uint64_t age_ms, struct err *err);

/* The thread that does it. The provider is there for as long as it runs. */
struct collector;
struct collector *collector_new(struct skills *skills);
void collector_free(struct collector *collector); /* NULL is fine */

#endif
