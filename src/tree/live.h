/* Copies trees that programs are writing to, as they are at one moment. The programs are stopped for only a small part
 * of the time. */
#ifndef CUBBY_TREE_LIVE_H
#define CUBBY_TREE_LIVE_H

#include <stdint.h>
#include <sys/types.h>

#include "tree/copytree.h"

enum { LIVE_PARTS = 4 };

/* One upper layer, and the overlay through which the programs see it. */
struct live_part {
    int from, to;   /* directories; `to` is empty */
    int overlay;    /* any descriptor on the overlay */
    const char *at; /* where it is mounted for the programs: "/", "/usr" */
};

struct live_programs {
    int (*stop)(void *user, struct err *err); /* none of them runs afterwards */
    int (*resume)(void *user, struct err *err);
    /* While they are stopped: calls look with "/proc/PID" of each. */
    void (*each)(void *user, void (*look)(void *copy, const char *process), void *copy);
    void *user;
};

/* Makes the copy while the programs run, and follows their changes. Takes over the descriptors, also on failure.
 * UNSUPPORTED: this kernel, these rights or these trees (too many entries, too deep) do not allow it. */
struct live;
int live_begin(const struct live_part *parts, size_t count, struct live **ret_live, struct err *err);
/* Stops the programs once, and completes all parts as of that moment. On failure the programs run. */
int live_finish(struct live *live, const struct live_programs *programs, struct copied *ret_copied,
                uint64_t *ret_stopped_us, struct err *err);
void live_end(struct live *live); /* NULL is allowed */

#endif
