/* Threads and waiting: locks held to the end of a block, conditions on the monotonic clock, and detached threads. */
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

#endif
