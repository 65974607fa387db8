/* See sync.h. Invariant: no wait depends on the wall clock, which may be set. */
#include <time.h>

#include "base/base.h"
#include "base/sync.h"

pthread_mutex_t *mutex_acquire(pthread_mutex_t *mutex) {
    pthread_mutex_lock(mutex);
    return mutex;
}

void mutex_release(pthread_mutex_t **mutex) {
    pthread_mutex_unlock(*mutex);
}

void cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ms) {
    if (!deadline_ms)
        return pthread_cond_wait(cond, lock) == 0;
    struct timespec until = {.tv_sec = (time_t)(deadline_ms / 1000), .tv_nsec = (long)(deadline_ms % 1000) * 1000000};
    return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}

static int sync_thread_start(pthread_t *thread, int state, void *(*run)(void *), void *argument, size_t stack_bytes) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, state);
    if (stack_bytes)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    int error = pthread_create(thread, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    return error;
}

pthread_t thread_joined(void *(*run)(void *argument), void *argument, size_t stack_bytes) {
    pthread_t thread;
    xensure(sync_thread_start(&thread, PTHREAD_CREATE_JOINABLE, run, argument, stack_bytes) == 0);
    return thread;
}

int thread_detached(void *(*run)(void *argument), void *argument, size_t stack_bytes) {
    pthread_t thread;
    return sync_thread_start(&thread, PTHREAD_CREATE_DETACHED, run, argument, stack_bytes);
}
