/* What every box gets: the global skills and sub-agents, merged once into an immutable tree, at {workspace}/.skills and
 * {workspace}/.agents: read-only mounts where the backend can mount (they are added to the box's spec), else copies by
 * difference of hashes. And, on backends without layers, the base of the box's agent at /skills, so that what its user
 * changed stays his. */
#ifndef CUBBY_SKILL_SYNC_H
#define CUBBY_SKILL_SYNC_H

#include "skill/base.h"

struct sync_report {
    const char *how;                                   /* "mount", "copy", "none": constant text */
    uint64_t at_ms, written, removed, kept, unchanged; /* files; kept: those the user had changed */
    char version[17];                                  /* of the global tree */
    char error[200];                                   /* empty: it worked */
};
/* The tree of now is made if the sources changed (by content). */
int sync_global(struct skills *skills, char ret_version[17], struct err *err);
/* Adds mounts, agent's layers to a spec before its box starts: the provider's contributor (policy.h dress). */
int sync_dress(void *skills, struct spec *spec, struct arena *arena, struct err *err);
/* After a start or a registration, into that very box. Idempotent. */
int sync_box(struct skills *skills, struct box *box, struct sync_report *ret_report, struct err *err);
bool sync_last(struct skills *skills, const char *box_id, struct sync_report *ret_report);

#endif
