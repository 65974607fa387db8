/* How soon the kernel lets a process run after it was woken. */
#ifndef CUBBY_BASE_PROMPT_H
#define CUBBY_BASE_PROMPT_H

#include <stdbool.h>
#include <sys/types.h>

/* It runs soon after it was woken, for short turns, even where others keep the processors busy: short turns take
 * nothing from anybody. pid 0: this thread, and those it makes. first: before all others of its cgroup as well.
 * children: those it makes are like it; else they begin as any process does. Where the kernel refuses, it waits as
 * others do. */
void sched_prompt_set(pid_t pid, bool first, bool children);

#endif
