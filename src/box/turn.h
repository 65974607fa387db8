/* Turns on what is attached to a box. Commands and reads that must see one version of it share the box; who replaces it
 * has it alone. Who wants it alone goes before those who come later to share it; everybody waits a bounded time.
 *
 * A thread may ask again for what it has: sharing within sharing or within having it alone costs nothing and waits for
 * nobody. It may not ask to have alone what it shares (BUSY at once). What a thread began, the same thread ends. Holds within
 * this daemon; between daemons the kernel does, which unmounts nothing that is in use. */
#ifndef CUBBY_BOX_TURN_H
#define CUBBY_BOX_TURN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct box;

struct turn { /* all zero: free */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned sharing, waiting; /* who wants it alone waits */
    bool alone;
    void (*free_run)(void *user, struct box *box);
    void *free_user;
};

enum { TURN_WAIT_MS = 30000 }; /* of a command, while what is attached is replaced */

int box_share(struct box *box, uint64_t wait_ms, struct err *err); /* BUSY: somebody has it alone for longer */
void box_share_end(struct box *box);
int box_alone(struct box *box, uint64_t wait_ms, struct err *err); /* BUSY: commands go on for longer */
void box_alone_end(struct box *box);
/* Once, when nobody shares it any more: by the thread that shared it last, with nothing held; at once where nobody does.
 * A later one takes the place of an earlier one that has not run. */
void box_when_free(struct box *box, void (*run)(void *user, struct box *box), void *user);

#endif
