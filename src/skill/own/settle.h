/* What is left to do in a box. Private to own*.c. */
#ifndef CUBBY_SKILL_OWN_SETTLE_H
#define CUBBY_SKILL_OWN_SETTLE_H

#include "box/box.h"
#include "skill/own/own.h"

struct own_state {             /* of a box, in this daemon */
    pthread_mutex_t lock;      /* of the one place in it that own/change.c uses */
    atomic_uint look;          /* what is known of changes that wait in it */
    atomic_uint delay_ms;      /* how long after that; grows */
    _Atomic uint64_t retry_ms; /* its /skills could not be replaced; not tried again before (clock_ms) */
};
enum { LOOK_UNKNOWN, LOOK_NOTHING, LOOK_WAITING }; /* own_state.look */

static inline struct own_state *own_state(struct box *box) {
    return box_guest(box, sizeof(struct own_state));
}

/* Committed changes are done, by who has the box alone. */
int own_apply(struct skills *skills, struct box *box, struct err *err);
/* One was committed and could not be done: the last command does it. */
void own_settle_later(struct skills *skills, struct box *box);

/* Processes in the box use an older base than its agent has now. */
bool own_behind(struct skills *skills, struct box *box);
/* sha256 of what the box shows of a skill (digest.h). */
int own_hash(struct skills *skills, struct box *box, const char *skill, uint8_t ret_sha256[32], struct err *err);
/* Its layers are others than before, or it is looked at for the first time: own/based.c. */
void own_based(struct skills *skills, struct box *box);
/* The public version that lies below in a box that is behind; *ret_founded stays as it is where that is not known. */
struct own_founded;
void own_based_on(struct skills *skills, struct box *box, const char *skill, struct own_founded *ret_founded);

#endif
