/* How many boxes each user has. Kept by the provider under its lock. */
#ifndef CUBBY_BOX_TALLY_H
#define CUBBY_BOX_TALLY_H

struct tally_row;

struct tally {
    struct tally_row *buckets[256];
};

unsigned tally_count(const struct tally *tally, const char *user);
void tally_add(struct tally *tally, const char *user);
void tally_remove(struct tally *tally, const char *user);
void tally_done(struct tally *tally); /* frees what is left */

#endif
