/* Files of ended boxes: renamed away at once, removed in the background by one thread. */
#ifndef CUBBY_BACKEND_TRASH_H
#define CUBBY_BACKEND_TRASH_H

#include <stdbool.h>

#include "base/err.h"

struct trash;

/* dir: made if missing. Remains of an earlier process in it are removed too. */
struct trash *trash_new(const char *dir);
void trash_free(struct trash *trash);           /* waits until everything is removed */
bool trash_is_large(const struct trash *trash); /* it is removing files that a box made, gently */
/* Starts removing what an earlier process left. false: nothing to remove. */
bool trash_wake(struct trash *trash);
/* Takes `name` of dirfd. Absent is fine. Waits when too much is queued, so that a storm cannot fill the disk. */
int trash_put(struct trash *trash, int dirfd, const char *name, struct err *err);

#endif
