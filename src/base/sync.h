/* Threads and waiting: locks held to the end of a block, conditions on the monotonic clock, detached threads, and work
 * in the background. */
#ifndef CUBBY_BASE_SYNC_H
#define CUBBY_BASE_SYNC_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Holds the mutex to the end of the block. */
#define autolock(mutex)                                                                                                \
    __attribute__((cleanup(mutex_release), unused)) pthread_mutex_t *mutex_held_ = mutex_acquire(mutex)
pthread_mutex_t *mutex_acquire(pthread_mutex_t *mutex);
void mutex_release(pthread_mutex_t **mutex);

void cond_init(pthread_cond_t *cond); /* for cond_wait_until */
/* Waits for a signal, at most until deadline_ms of clock_ms() (0: for ever). False: that time has come. */
bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ms);

/* A thread to be joined; ends the program if none is available. stack_bytes as below. */
pthread_t thread_joined(void *(*run)(void *argument), void *argument, size_t stack_bytes);
/* Starts a detached thread; stack_bytes 0 is the default size. Returns 0 or an errno value. */
int thread_detached(void *(*run)(void *argument), void *argument, size_t stack_bytes);

/* ---- work that no one waits for gives way to requests ---- */

/* Around each request that a person or program waits for. now_us: clock_us() at its beginning. */
void background_hold(uint64_t now_us);
void background_let_go(void);

/* The calling thread works in the background from now on: last at the processor and at the disk. hurry: as any other
 * thread at the processor. */
void background_become(bool hurry);
/* Between two small steps of such work: returns when no request is under way, at the latest after most_ms (false: one
 * still is). A request that takes long counts only at its beginning. */
bool background_yield(unsigned most_ms);

#endif
