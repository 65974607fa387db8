/* See sync.h. Invariant: no wait depends on the wall clock, which may be set. */
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>

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

/* ---- background: called by http/ around each request, and by threads that remove files and take boxes apart ----
 *
 * Nice and I/O class do not keep a kernel that is not preemptible from delaying others by each step: such a thread has
 * to stop by itself. Invariant: its work always continues, if slowly: no request, however long, holds it for ever. */

enum { YOUNG_US = 50000, LOOK_US = 250 };

static atomic_uint background_begun, background_ended;
static atomic_ullong background_last_us;

void background_hold(uint64_t now_us) {
    atomic_store_explicit(&background_last_us, now_us, memory_order_relaxed);
    atomic_fetch_add_explicit(&background_begun, 1, memory_order_relaxed);
}

void background_let_go(void) {
    atomic_fetch_add_explicit(&background_ended, 1, memory_order_relaxed);
}

void background_become(bool hurry) {
    enum { WHO_THREAD = 1, CLASS_IDLE = 3 << 13 }; /* of ioprio_set, which has no header */
    setpriority(PRIO_PROCESS, (id_t)gettid(), hurry ? 0 : 19);
    syscall(SYS_ioprio_set, WHO_THREAD, 0, CLASS_IDLE);
}

static bool sync_must_wait(void) {
    return atomic_load_explicit(&background_begun, memory_order_relaxed) !=
               atomic_load_explicit(&background_ended, memory_order_relaxed) &&
           clock_us() - atomic_load_explicit(&background_last_us, memory_order_relaxed) < YOUNG_US;
}

bool background_yield(unsigned most_ms) {
    for (uint64_t until_us = 0; sync_must_wait();) {
        uint64_t now_us = clock_us();
        until_us = until_us ? until_us : now_us + most_ms * 1000ull;
        if (now_us >= until_us)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_US * 1000}, NULL);
    }
    return true;
}
