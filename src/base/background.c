/* Which requests are under way, for work that gives way to them. Called by http/ around each request, and by threads
 * that remove files and take boxes apart. Invariant: background work always goes on, if slowly: no request, however
 * long, holds it for ever. */
#include "base/background.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    YOUNG_US = 50000,
    LOOK_US = 250
}; /* nice and I/O class do not keep a kernel that is not preemptible from
                                              delaying others by each step: the thread has to stop by itself */

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

static bool background_must_wait(void) {
    return atomic_load_explicit(&background_begun, memory_order_relaxed) !=
               atomic_load_explicit(&background_ended, memory_order_relaxed) &&
           clock_us() - atomic_load_explicit(&background_last_us, memory_order_relaxed) < YOUNG_US;
}

bool background_yield(unsigned most_ms) {
    for (uint64_t until_us = 0; background_must_wait();) {
        uint64_t now_us = clock_us();
        until_us = until_us ? until_us : now_us + most_ms * 1000ull;
        if (now_us >= until_us)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_US * 1000}, NULL);
    }
    return true;
}
