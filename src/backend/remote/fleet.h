/* Workers: machines that have boxes of all users, and how one is chosen for a new box. Used by remote.c and, for
 * draining, by front/join. Any thread. Invariants:
 *
 * 1. A box is placed once, and changes its worker only by move.c. A worker that is away is offline for its boxes; none of
 *    them is placed elsewhere unasked.
 * 2. A draining worker gets no new box, also after this daemon has started again: STATE/draining/NAME. */
#ifndef CUBBY_BACKEND_FLEET_H
#define CUBBY_BACKEND_FLEET_H

#include "backend/remote/machine.h"

struct fleet;
struct fleet *fleet_new(struct machines *machines, const char *state_dir);
void fleet_free(struct fleet *fleet); /* NULL is fine */

/* The worker for a new box: online, not draining, with its template, below its number of boxes; of those the one with
 * the largest part of its room free. `but`: not this one; may be NULL. Its name in arena. BUSY, LIMIT or NOT_FOUND
 * says what is missing. */
int fleet_place(struct fleet *fleet, const struct spec *spec, const char *but, struct arena *arena,
                const char **ret_worker, struct err *err);
void fleet_count(struct fleet *fleet, const char *worker, int by); /* boxes that it has more than before */
void fleet_came(struct fleet *fleet, const char *worker);          /* it is online */

/* In the state directory, whichever daemon has the fleet open. */
int fleet_drain(struct machines *machines, const char *state_dir, const char *worker, bool drain, struct err *err);

#endif
