/* Locks between processes on one state directory: ranges of the file STATE/lock. A process that dies lets go of all of
 * them. Private to box/. A box's lock keeps threads of one process apart, too. */
#ifndef CUBBY_BOX_STATELOCK_H
#define CUBBY_BOX_STATELOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct statelock {
    int fd;
    const volatile uint64_t *visits; /* the file's content; NULL: not mapped */
    pthread_mutex_t held_lock;
    off_t *held; /* boxes' positions that threads of ours have: the kernel would give them to us again */
    size_t held_count, held_max;
};

/* -1 as fd: done. */
int statelock_open(struct statelock *lock, int state_fd, struct err *err);
void statelock_done(struct statelock *lock);

int statelock_serve(struct statelock *lock, struct err *err); /* together with others; BUSY while one is alone */
int statelock_alone(struct statelock *lock, struct err *err); /* BUSY while anybody serves */
bool statelock_crowded(struct statelock *lock);               /* others serve too */
/* How many have come to serve, ever; no system call once we serve. */
uint64_t statelock_visits(struct statelock *lock);
bool statelock_reaper(struct statelock *lock); /* true: we are it now, until we end */
/* One box: held while it is made, started, ended or removed. Waits; BUSY after wait_ms. */
int statelock_box(struct statelock *lock, const char *id, unsigned wait_ms, struct err *err);
void statelock_box_end(struct statelock *lock, const char *id);

#endif
