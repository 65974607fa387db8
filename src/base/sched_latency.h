/* How soon the kernel lets a process run after it was woken. */
#ifndef CUBBY_BASE_PROMPT_H
#define CUBBY_BASE_PROMPT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* It runs soon after it was woken, for short turns, even where others keep the processors busy: short turns take
 * nothing from anybody. pid 0: this thread, and those it makes. first: before all others of its cgroup as well.
 * children: those it makes are like it; else they begin as any process does. Where the kernel refuses, it waits as
 * others do. */
void sched_latency_set(pid_t pid, bool first, bool children);

/* Of linux/sched/types.h, which does not go together with libc's sched.h: what SYS_sched_setattr takes. */
struct sched_turns {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t turn_ns, deadline_ns, period_ns;
};
/* For a command that is just started: as above, and whatever it starts itself begins as any process does. */
extern const struct sched_turns sched_latency_command;

#endif
