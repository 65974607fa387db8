/* Turns: calls that change one file in place (edit, append) run one after another, in order of arrival, whatever wire
 * they came by. A file is identified by its directory and its name there, because an edit gives it a new inode.
 *
 * The last writer of a file is also recorded: an edit may require the version that its author has seen, which includes
 * the author's own later writes. Only here is that known at the right moment. */
#ifndef CUBBY_RUNNER_TURN_H
#define CUBBY_RUNNER_TURN_H

#include "base/base.h"
#include "wire/frame.h"

struct runner_config;

struct turn {
    bool keyed; /* false: its file was not found, so no call waits for it */
    uint64_t device, directory, name;
    uint64_t author; /* 0: unknown */
};

struct turn_version {
    struct turn turn; /* of the call that wrote it */
    uint64_t inode, size, mtime_ns;
    bool hashed;
    uint8_t sha256[32];
};

/* Makes the turn of a call with PATH, AUTHOR and FLAGS (PARENTS: its directories are made). On the loop. */
void turn_of(const struct runner_config *config, const struct fields *args, struct turn *ret_turn);
bool turn_same(const struct turn *a, const struct turn *b);

/* The last few hundred files written; NULL: empty. */
struct turn_table;
/* Records the version in the END of a call that wrote. */
void turn_wrote(struct turn_table **table, const struct turn *turn, const uint8_t *end, size_t len);
const struct turn_version *turn_last(const struct turn_table *table, const struct turn *turn); /* NULL: unknown */

#endif
