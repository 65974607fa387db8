/* For every box: the global skills and sub-agents, merged once into an immutable tree, at {workspace}/.skills and
 * {workspace}/.agents: read-only mounts if the backend can mount (added to the box's spec), else copies by
 * difference of hashes. On backends without layers also the base of the box's agent at /skills; the user's changes
 * stay. */
#ifndef CUBBY_SKILL_SYNC_H
#define CUBBY_SKILL_SYNC_H

#include "skill/base/base.h"

struct sync_report {
    const char *how;                                   /* "mount", "copy", "none": constant text */
    uint64_t at_ms, written, removed, kept, unchanged; /* files; kept: those the user had changed */
    char version[17];                                  /* of the global tree; empty: no sources are configured */
    char error[200];                                   /* empty: it worked */
};

/* Adds mounts and the agent's layers to a spec before its box starts, where the backend can mount them (box_hooks). */
int sync_contribute(void *skills, bool mounts, struct spec *spec, struct arena *arena, struct err *err);
/* Into one box: after a registration, or on request. Idempotent; a failure is in the report too. */
int sync_box(struct skills *skills, struct box *box, struct sync_report *ret_report, struct err *err);
/* Before a box is used: sync_box, unless the box has everything already, which is cheap to see. */
int sync_update(struct skills *skills, struct box *box, struct err *err);
/* The last report; of a box on a joined machine that has none of its own: the machine's. */
bool sync_last(struct skills *skills, const struct box *box, struct sync_report *ret_report);
void sync_forget(struct skills *skills, const char *box_id); /* the box was deleted */

/* Copies in boxes whose backend cannot mount (sync_copy.c). report: its version names the global tree; counts are
 * filled. */
int sync_copy(struct skills *skills, struct box *box, struct sync_report *report, struct err *err);
void sync_copy_forget(struct skills *skills, const char *box_id);

#endif
