/* Copies of skills in boxes whose backend cannot mount them. Private to sync.c. */
#ifndef CUBBY_SKILL_SYNC_COPY_H
#define CUBBY_SKILL_SYNC_COPY_H

#include "skill/registry/sync.h"

/* report: its version says which global tree; the counts are filled. */
int sync_copy(struct skills *skills, struct box *box, struct sync_report *report, struct err *err);
void sync_copy_forget(struct skills *skills, const char *box_id);

#endif
