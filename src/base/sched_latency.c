/* Short time slices for processes that answer others. Called by the daemon for itself and for PID 1 of its boxes. */
#include <sched.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "base/sched_latency.h"

#define TURN_NS 100000u  /* the kernel's least; its default is some 3 ms. Kernels before 6.12 ignore it */
#define RESET_ON_FORK 1u /* SCHED_FLAG_RESET_ON_FORK */

const struct sched_turns sched_latency_command = {
    .size = sizeof(struct sched_turns), .policy = SCHED_OTHER, .flags = RESET_ON_FORK, .turn_ns = TURN_NS};

void sched_latency_set(pid_t pid, bool first, bool children) {
    struct sched_turns attributes = {.size = sizeof attributes,
                                     .policy = SCHED_OTHER,
                                     .flags = children ? 0 : RESET_ON_FORK,
                                     .nice = first ? -20 : 0,
                                     .turn_ns = TURN_NS};
    syscall(SYS_sched_setattr, pid, &attributes, 0);
}
