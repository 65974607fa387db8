/* A count of boxes by user, so that a limit costs one look and not a walk over the table. Called by provider.c and table.c
 * with the provider's lock held. Not to break: a row goes with its last box, so users that come and go leave nothing. */
#include "box/tally.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct tally_row {
    struct tally_row *next;
    unsigned count;
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

unsigned tally_count(const struct tally *tally, const char *user) {
    const struct tally_row *row = *tally_find((struct tally *)(void *)tally, user);
    return row ? row->count : 0;
}

void tally_add(struct tally *tally, const char *user) {
    struct tally_row **row = tally_find(tally, user);
    if (!*row) {
        size_t size = strlen(user) + 1;
        *row = calloc(1, sizeof **row + size);
        if (!*row)
            abort();
        memcpy((*row)->user, user, size);
    }
    (*row)->count++;
}

void tally_remove(struct tally *tally, const char *user) {
    struct tally_row **at = tally_find(tally, user), *row = *at;
    assert(row);
    if (--row->count)
        return;
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
