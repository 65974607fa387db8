/* What every box gets: the global skills and sub-agents, merged once into an immutable tree, at {workspace}/.skills and
 * {workspace}/.agents: read-only mounts where the backend can mount (they are added to the box's spec), else copies by
 * difference of hashes. And, on backends without layers, the base of the box's agent at /skills, so that what its user
 * changed stays his. */
#ifndef CUBBY_SKILL_SYNC_H
#define CUBBY_SKILL_SYNC_H

#include "skill/base/base.h"

struct sync_report {
    const char *how;                                   /* "mount", "copy", "none": constant text */
    uint64_t at_ms, written, removed, kept, unchanged; /* files; kept: those the user had changed */
    char version[17];                                  /* of the global tree; empty: there is none */
    char error[200];                                   /* empty: it worked */
};

/* The tree of now: made if the sources changed. The version is empty when there are no sources. */
int sync_global(struct skills *skills, char ret_version[17], struct err *err);
/* What a spec gets before its box starts: mounts and its agent's layers, where the backend can mount them. The provider's
 * contributor (box_hooks). */
int sync_contribute(void *skills, bool mounts, struct spec *spec, struct arena *arena, struct err *err);
/* Into that very box: after a registration, or when somebody asks. Idempotent; a failure is in the report too. */
int sync_box(struct skills *skills, struct box *box, struct sync_report *ret_report, struct err *err);
/* Before a box is used: sync_box, unless the box has all of it already. Cheap then. */
int sync_settle(struct skills *skills, struct box *box, struct err *err);
/* What came of it last; of a box on a machine where nothing was placed for it alone: what came of the machine's. */
bool sync_last(struct skills *skills, const struct box *box, struct sync_report *ret_report);
void sync_forget(struct skills *skills, const char *box_id); /* it was deleted */

#endif
