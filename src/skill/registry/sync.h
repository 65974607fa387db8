/* The global skills and sub-agents that every box has at {workspace}/.skills and {workspace}/.agents. They are merged
 * once into an immutable tree, which is mounted read-only if the backend can mount (added to the box's spec), else
 * copied where hashes differ. On backends without layers the base of the box's agent is also copied to /skills; the
 * user's changes stay. */
#ifndef CUBBY_SKILL_SYNC_H
#define CUBBY_SKILL_SYNC_H

#include "skill/base/base.h"

struct sync_report {
    const char *how;                                   /* "mount", "copy", "none": constant text */
    uint64_t at_ms, written, removed, kept, unchanged; /* counts of files; kept: changed by the user */
    char version[17];                                  /* of the global tree; empty: no sources are configured */
    char error[200];                                   /* empty: it worked */
};

/* Adds mounts and the agent's layers to a spec before its box starts, if the backend can mount them (box_hooks). */
int sync_contribute(void *skills, bool mounts, struct spec *spec, struct arena *arena, struct err *err);
/* Updates one box: after a registration, or on request. Idempotent. A failure is also in the report. */
int sync_box(struct skills *skills, struct box *box, struct sync_report *ret_report, struct err *err);
/* sync_box before a box is used, unless the box has everything, which is cheap to find out. */
int sync_update(struct skills *skills, struct box *box, struct err *err);
/* The last report. For a box on a joined machine without its own: the machine's. */
bool sync_last(struct skills *skills, const struct box *box, struct sync_report *ret_report);
void sync_forget(struct skills *skills, const char *box_id); /* the box was deleted */

/* Copies into boxes whose backend cannot mount (sync_copy.c). report->version names the global tree; the counts are
 * filled. */
int sync_copy(struct skills *skills, struct box *box, struct sync_report *report, struct err *err);
void sync_copy_forget(struct skills *skills, const char *box_id);

#endif
