/* Threads and waiting: conditions on the monotonic clock, and threads that nobody joins. */
#ifndef CUBBY_BASE_SYNC_H
#define CUBBY_BASE_SYNC_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void cond_init(pthread_cond_t *cond); /* for cond_wait_until */
/* Waits for a signal, at most until deadline_ms of clock_ms() (0: for ever). False: that time has come. */
bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ms);

/* Starts a detached thread; stack_bytes 0 is the default size. Returns 0 or an errno value. */
int thread_detached(void *(*run)(void *argument), void *argument, size_t stack_bytes);

#endif
