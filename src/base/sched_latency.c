/* Short time slices for processes that answer others. Called by the daemon for itself and for PID 1 of its boxes. */
#include <sched.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "base/sched_latency.h"

#define TURN_NS 100000u  /* the kernel's least; its default is some 3 ms. Kernels before 6.12 ignore it */
#define RESET_ON_FORK 1u /* SCHED_FLAG_RESET_ON_FORK */

/* Of linux/sched/types.h, which does not go together with libc's sched.h. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t turn_ns, deadline_ns, period_ns;
};

void sched_prompt_set(pid_t pid, bool first, bool children) {
    struct attributes attributes = {.size = sizeof attributes,
                                    .policy = SCHED_OTHER,
                                    .flags = children ? 0 : RESET_ON_FORK,
                                    .nice = first ? -20 : 0,
                                    .turn_ns = TURN_NS};
    syscall(SYS_sched_setattr, pid, &attributes, 0);
}
