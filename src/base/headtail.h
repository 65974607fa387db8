/* Output of which the first and the last part are kept: memory stays below a limit, counts stay true. */
#ifndef CUBBY_BASE_HEADTAIL_H
#define CUBBY_BASE_HEADTAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct headtail {
    struct buf head, tail;     /* tail becomes a ring once it is full */
    size_t head_max, tail_max; /* the two halves of the limit */
    size_t tail_at;            /* oldest byte of the ring */
    uint64_t total;            /* bytes that came */
    size_t gap;                /* of what finish gave: where bytes are missing */
};

void headtail_init(struct headtail *headtail, size_t limit);
void headtail_done(struct headtail *headtail);
void headtail_put(struct headtail *headtail, const void *data, size_t len);
bool headtail_truncated(const struct headtail *headtail);
/* The kept bytes in one piece: head, then tail; a UTF-8 sequence that the gap cuts is left out. The memory is
 * headtail's; nothing can be put afterwards. */
const uint8_t *headtail_finish(struct headtail *headtail, size_t *ret_len);

/* How many bytes at the end of data begin a UTF-8 sequence that is not complete (0 to 3). */
size_t headtail_partial(const uint8_t *data, size_t len);

#endif
