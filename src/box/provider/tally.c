/* Sums by user, so that a quota costs one look and not a walk over the table. Called by place.c and room.c with the
 * provider's lock held. Invariant: a row goes with its last box, so users that come and go leave nothing. */
#include "box/provider/tally.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct tally_row {
    struct tally_row *next;
    struct tally_sum sum;
    char user[];
};

/* The row of user, or the place for it. */
static struct tally_row **tally_find(struct tally *tally, const char *user) {
    unsigned hash = 5381;
    for (const char *c = user; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    struct tally_row **row = &tally->buckets[hash % (sizeof tally->buckets / sizeof *tally->buckets)];
    while (*row && strcmp((*row)->user, user) != 0)
        row = &(*row)->next;
    return row;
}

struct tally_sum tally_of(const struct tally *tally, const char *user) {
    const struct tally_row *row = *tally_find((struct tally *)(void *)tally, user);
    return row ? row->sum : (struct tally_sum){0};
}

static void sum_change(uint64_t *sum, uint64_t was, uint64_t now) {
    assert(*sum >= was);
    *sum = *sum - was + now;
}

void tally_change(struct tally *tally, const char *user, struct tally_sum was, struct tally_sum now) {
    struct tally_row **at = tally_find(tally, user), *row = *at;
    if (!row) {
        size_t size = strlen(user) + 1;
        row = *at = xcalloc(1, sizeof *row + size);
        memcpy(row->user, user, size);
    }
    sum_change(&row->sum.boxes, was.boxes, now.boxes);
    sum_change(&row->sum.memory_mb, was.memory_mb, now.memory_mb);
    sum_change(&row->sum.disk_mb, was.disk_mb, now.disk_mb);
    if (row->sum.boxes)
        return;
    assert(!row->sum.memory_mb && !row->sum.disk_mb);
    *at = row->next;
    free(row);
}

void tally_done(struct tally *tally) {
    for (size_t i = 0; i < sizeof tally->buckets / sizeof *tally->buckets; i++)
        for (struct tally_row *row = tally->buckets[i], *next; row; row = next) {
            next = row->next;
            free(row);
        }
}
