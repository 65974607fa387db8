/* A lock of many readers or one writer, on the trees attached to a box. Commands and reads that must see one version
 * share the box; a thread that replaces them has the box alone. A waiting writer comes before later readers. Every
 * wait is bounded.
 *
 * A thread may ask again for what it holds: sharing within either costs nothing and does not wait. Asking to have
 * alone what the thread shares is BUSY at once. The thread that began a hold ends it. The lock holds within this
 * daemon; between daemons the kernel protects what is in use, since it does not unmount it. */
#ifndef CUBBY_BOX_BOXLOCK_H
#define CUBBY_BOX_BOXLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct box;

struct boxlock { /* all zero: free */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned sharing, waiting; /* waiting: writers */
    bool alone;
    void (*free_run)(void *user, struct box *box);
    void *free_user;
};

enum { SHARE_WAIT_MS = 30000 }; /* of a command, while the attached trees are replaced */

int box_share(struct box *box, uint64_t wait_ms, struct err *err); /* BUSY: another thread has it alone for longer */
void box_share_end(struct box *box);
int box_alone(struct box *box, uint64_t wait_ms, struct err *err); /* BUSY: commands go on for longer */
void box_alone_end(struct box *box);
/* Runs once, when no thread shares it any more: by the thread that shared it last, with nothing held; at once if no
 * thread shares it. A later call replaces an earlier one that has not run. */
void box_when_free(struct box *box, void (*run)(void *user, struct box *box), void *user);

#endif
