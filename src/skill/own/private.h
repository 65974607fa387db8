/* Shared by the files of own/. */
#ifndef CUBBY_SKILL_OWN_PRIVATE_H
#define CUBBY_SKILL_OWN_PRIVATE_H

#include "box/box.h"
#include "skill/names.h"
#include "skill/own/own.h"
#include "skill/skills.h"

struct own_state {             /* of a box, in this daemon */
    pthread_mutex_t lock;      /* of the one directory of the box that change.c moves trees through */
    atomic_uint waiting;       /* known state of changes that wait in the box: CHANGES_ */
    atomic_uint delay_ms;      /* before /skills is tried again; grows */
    _Atomic uint64_t retry_ms; /* its /skills could not be replaced; not tried again before (clock_ms) */
};
enum { CHANGES_UNKNOWN, CHANGES_NONE, CHANGES_WAITING }; /* own_state.waiting */

static inline struct own_state *own_state(struct box *box) {
    return box_guest(box, sizeof(struct own_state));
}

/* ---- change.c: changes of whole skills ---- */

/* A change is a transaction that lies in the box itself, next to the skills: so its quota bounds it, and snapshots,
 * forks and restarts find it. Below /skills/.cubby/changes, NAME.new is being written, NAME (16 hex digits that
 * count up) is complete and will be applied: put/SKILL replaces that skill, rm/SKILL names one to remove. Applying
 * it twice changes nothing. */
#define CHANGES SKILL_PATH "/" SKILLS_CHANGES "/changes"

struct skill_change {
    char path[64]; /* in the box; empty: none */
};
struct change_source {  /* a tar stream */
    box_reader read_fn; /* NULL ends a list of sources */
    void *user;
    uint64_t max_entries;
};
/* A change with the skills of those streams, by their names, complete. The box need not be held. */
int change_put(struct box *box, const char *const *skills, const struct change_source *sources, int watch,
               struct skill_change *ret_change, struct err *err);
int change_remove(struct box *box, const char *skill, struct skill_change *ret_change, struct err *err);
/* From now on the change will be done, whatever ends before: by change_apply here or in another daemon. */
int change_commit(struct box *box, struct skill_change *change, struct err *err);
/* Applies the committed changes, the oldest first; the caller has the box alone. Also removes uncommitted ones.
 * ret_put gets the names of skills that were put. A change that fails does not stop the others; err describes the
 * first failure. */
int change_apply(struct box *box, struct names *ret_put, struct err *err);
void change_drop(struct box *box, struct skill_change *change); /* gives one up; leaves nothing */

/* ---- update.c: a box brought up to date ---- */

/* Does committed changes; the caller has the box alone. */
int own_apply(struct skills *skills, struct box *box, struct err *err);
/* One was committed and could not be done: the last command to end does it. */
void own_update_later(struct skills *skills, struct box *box);
/* Processes in the box use an older base than its agent has now. */
bool own_outdated(struct skills *skills, struct box *box);
/* sha256 of a skill as the box shows it (digest.h). */
int own_hash(struct skills *skills, struct box *box, const char *skill, uint8_t ret_sha256[32], struct err *err);

/* ---- rows.c: rows of users' skills ---- */

/* Failures are logged: the files decide, the rows follow. */

/* After a change of whole skills: updates the rows. added: the user's own from now on, NULL-terminated. */
void own_rows_update(struct skills *skills, struct box *box, const char *const *added);
/* The same where skills.db was lost, by comparing all that is there with the base. Cheap where it was not. */
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
/* Called when the box's layers may have changed, or at its first use: records the origin of what commands changed. */
void own_origin_check(struct skills *skills, struct box *box);
/* The public version that lies below in an outdated box; *ret_origin stays as it is where that is not known. */
void own_origin_below(struct skills *skills, struct box *box, const char *skill, struct own_origin *ret_origin);

#endif
