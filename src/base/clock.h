/* Time: monotonic for waiting, wall for showing. */
#ifndef CUBBY_BASE_CLOCK_H
#define CUBBY_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t clock_ms(void); /* CLOCK_MONOTONIC */
uint64_t clock_us(void);
uint64_t clock_wall_ms(void); /* since the epoch */
uint64_t clock_wall_us(void);
#define CLOCK_TEXT_BYTES 32
/* "2026-01-31T12:00:00.123Z" */
const char *clock_text(uint64_t wall_ms, char text[CLOCK_TEXT_BYTES]);
/* RFC 3339 with any offset, from 1970 to 9999; false: it is not that. Below milliseconds it is cut. */
bool clock_parse(const char *text, uint64_t *ret_wall_ms);

#endif
