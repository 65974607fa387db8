/* Shared by the files of own/. */
#ifndef CUBBY_SKILL_OWN_PRIVATE_H
#define CUBBY_SKILL_OWN_PRIVATE_H

#include "box/box.h"
#include "skill/names.h"
#include "skill/own/own.h"
#include "skill/skills.h"

struct own_state {             /* of a box, in this daemon */
    pthread_mutex_t lock;      /* guards the directory that change.c moves trees through */
    atomic_uint waiting;       /* of pending changes in the box: CHANGES_ */
    atomic_uint delay_ms;      /* between tries to replace /skills; grows */
    _Atomic uint64_t retry_ms; /* when to try again to replace /skills (clock_ms) */
};
enum { CHANGES_UNKNOWN, CHANGES_NONE, CHANGES_WAITING }; /* own_state.waiting */

static inline struct own_state *own_state(struct box *box) {
    return box_guest(box, sizeof(struct own_state));
}

/* ---- change.c: changes of whole skills ---- */

/* A change is a transaction inside the box, next to the skills. So the box's quota bounds it, and snapshots, forks and
 * restarts include it. Below /skills/.cubby/changes, NAME.new is being written; NAME (16 hex digits that count up) is
 * complete and will be applied: put/SKILL replaces that skill, rm/SKILL names one to remove. Applying it twice has no
 * further effect. */
#define CHANGES SKILL_PATH "/" SKILLS_CHANGES "/changes"

struct skill_change {
    char path[64]; /* in the box; empty: no change */
};
struct change_source {  /* a tar stream */
    box_reader read_fn; /* NULL ends a list of sources */
    void *user;
    uint64_t max_entries;
};
/* Writes a complete change with those skills, from one stream each. The box need not be locked. */
int change_put(struct box *box, const char *const *skills, const struct change_source *sources, int watch,
               struct skill_change *ret_change, struct err *err);
int change_remove(struct box *box, const char *skill, struct skill_change *ret_change, struct err *err);
/* From now on the change will be applied by change_apply, here or in another daemon, whatever ends first. */
int change_commit(struct box *box, struct skill_change *change, struct err *err);
/* Applies the committed changes, the oldest first, and removes abandoned ones. The caller holds the box exclusively.
 * ret_put gets the names of replaced skills. A change that fails does not stop the others; err describes the first
 * failure. */
int change_apply(struct box *box, struct names *ret_put, struct err *err);
void change_drop(struct box *box, struct skill_change *change); /* abandons it and removes its files */

/* ---- update.c: a box brought up to date ---- */

/* Applies committed changes. The caller holds the box exclusively. */
int own_apply(struct skills *skills, struct box *box, struct err *err);
/* A committed change could not be applied yet: the last command to end applies it. */
void own_update_later(struct skills *skills, struct box *box);
/* Returns whether processes in the box use an older base than its agent has now. */
bool own_outdated(struct skills *skills, struct box *box);
/* sha256 of a skill as the box shows it (digest.h). */
int own_hash(struct skills *skills, struct box *box, const char *skill, uint8_t ret_sha256[32], struct err *err);

/* ---- rows.c: rows of users' skills; failures are logged, because the files decide and the rows follow ---- */

/* Updates the rows after a change of whole skills. added: skills that are the user's own now, NULL-terminated. */
void own_rows_update(struct skills *skills, struct box *box, const char *const *added);
/* Makes lost rows again, by comparing the box with the base. Cheap if skills.db was not lost. */
void own_rows_rebuild(struct skills *skills, struct box *box);

struct own_origin { /* the public version that a user's version started from */
    bool known;
    uint8_t sha256[32];
    uint64_t synced_ms; /* 0: never */
};
int own_origin_get(struct skills *skills, const struct box *box, const char *skill, struct own_origin *ret_origin,
                   struct err *err);
void own_origin_set(struct skills *skills, const struct box *box, const char *skill, const uint8_t sha256[32],
                    uint64_t synced_ms);
void own_origin_first(struct skills *skills, const struct box *box, const char *skill, const uint8_t sha256[32]);
void own_origin_drop(struct skills *skills, const struct box *box, const char *skill);
/* Called at a box's first use and when its layers may have changed: records the origin of skills that commands
 * changed. */
void own_origin_check(struct skills *skills, struct box *box);
/* Finds the public version below a skill of an outdated box. Leaves *ret_origin alone where that is not known. */
void own_origin_below(struct skills *skills, struct box *box, const char *skill, struct own_origin *ret_origin);

#endif
