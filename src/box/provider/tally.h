/* What each user has. Kept by the provider under its lock. */
#ifndef CUBBY_BOX_TALLY_H
#define CUBBY_BOX_TALLY_H

#include <stdint.h>

struct tally_row;

struct tally {
    struct tally_row *buckets[256];
};

struct tally_sum {
    uint64_t boxes;
    uint64_t memory_mb; /* limits of those that run */
    uint64_t disk_mb;   /* limits of all */
};

struct tally_sum tally_of(const struct tally *tally, const char *user);
/* One box counted as `was` (nothing, when it comes) and counts as `now` (nothing, when it goes). */
void tally_change(struct tally *tally, const char *user, struct tally_sum was, struct tally_sum now);
void tally_done(struct tally *tally); /* frees what is left */

#endif
