/* A nameless file that something from outside is spooled into, before the box it is for can judge it. Its bytes count
 * as its user's (COUNTED_SPOOL) as they are written, until it is closed. */
#ifndef CUBBY_BASE_SCRATCH_H
#define CUBBY_BASE_SCRATCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"

struct scratch {
    int fd;                /* -1: none */
    uint64_t bytes, taken; /* that are in it; that scratch_read gave */
    uint64_t most;         /* that it may hold ... */
    const char *limit;     /* ... because of that option */
    char user[LIMIT_USER_BYTES + 1];
};
#define autoscratch __attribute__((cleanup(scratch_done))) struct scratch

void scratch_begin(struct scratch *scratch, int fd, const char *user, uint64_t most, const char *limit);
/* So many bytes more are allowed in it: TOO_LARGE. Nothing is counted. */
int scratch_fits(const struct scratch *scratch, uint64_t len, struct err *err);
/* So many bytes more are in it: TOO_LARGE beyond `most`, LIMIT when its user has spooled too much. */
int scratch_count(struct scratch *scratch, uint64_t len, struct err *err);
int scratch_write(struct scratch *scratch, const void *data, size_t len, struct err *err); /* counts, then writes */
/* The next bytes of it, from the beginning on: 0 at the end. A box_reader. */
ssize_t scratch_read(void *scratch, void *data, size_t size, struct err *err);
void scratch_done(struct scratch *scratch);

#endif
