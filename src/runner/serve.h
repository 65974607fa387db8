/* The runner's end of its wires. */
#ifndef CUBBY_RUNNER_SERVE_H
#define CUBBY_RUNNER_SERVE_H

#include "runner/runner.h"

void serve_open(struct runner *runner);                  /* the first wire and the listener */
void serve_flush(struct runner *runner);                 /* end of a turn: sends what is due, buries broken wires */
uint64_t serve_flush_at_ms(const struct runner *runner); /* when something small must go out; 0: nothing waits */
/* One whole ITEM frame of records (at most a frame's payload). False, and nothing sent, without credit or room. */
bool reply_items(struct rcall *call, const struct buf *records);
void reply_now(struct rcall *call); /* what was put for it so far goes out at the end of this turn */
/* A frame made elsewhere (a worker's), given this call's id. False, and nothing sent, without credit or room. */
bool reply_frame(struct rcall *call, const struct frame *frame);
void reply_end_with(struct rcall *call, uint8_t type, const struct buf *fields); /* END, or FAIL as fields */

#endif
