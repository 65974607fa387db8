/* Workers seen from the loop. What an op's work() uses is in runner.h. */
#ifndef CUBBY_RUNNER_WORK_H
#define CUBBY_RUNNER_WORK_H

#include "runner/runner.h"

void worker_table_open(struct runner *runner);
bool worker_reap(struct runner *runner, pid_t pid, int status); /* false: not a worker */
bool worker_is_child(const struct runner *runner, pid_t pid);
/* The call's input, its end and its cancellation, for every op that has work() */
int worker_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err);
int worker_finish(struct rcall *call, struct err *err);
void worker_cancel(struct rcall *call);
bool worker_any(const struct runner *runner); /* one is at work, or waits for its turn */

#endif
