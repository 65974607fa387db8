/* Work that no one waits for, which gives way to requests. */
#ifndef CUBBY_BASE_BACKGROUND_H
#define CUBBY_BASE_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

/* Around each request that a person or program waits for. now_us: clock_us() at its beginning. */
void background_hold(uint64_t now_us);
void background_let_go(void);

/* The calling thread works in the background from now on: last at the processor and at the disk. hurry: as any other
 * thread at the processor. */
void background_become(bool hurry);
/* Between two small steps of such work: returns when no request is under way, at the latest after most_ms (false: one
 * still is). A request that takes long counts only at its beginning. */
bool background_yield(unsigned most_ms);

#endif
