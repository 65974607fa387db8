/* One thread removes the rows and results of deleted boxes, and results that are too old. */
#ifndef CUBBY_TOOL_UPKEEP_H
#define CUBBY_TOOL_UPKEEP_H

#include "tool/store.h"

struct upkeep;

struct upkeep_options {
    struct tool_store *store;                   /* outlives it */
    uint64_t days;                              /* how long a result is kept; 0: forever */
    bool (*alive)(void *user, const char *box); /* whether the box exists; called on the thread of upkeep */
    void *user;
};

int upkeep_start(const struct upkeep_options *options, struct upkeep **ret_upkeep, struct err *err);
/* Ends the thread after its work is finished. NULL is allowed, here and below. Later reports are left to the next
 * start. */
void upkeep_stop(struct upkeep *upkeep);
void upkeep_free(struct upkeep *upkeep); /* after upkeep_stop */
void upkeep_configure(struct upkeep *upkeep, uint64_t days);
void upkeep_forget(struct upkeep *upkeep, const char *box); /* never blocks */

#endif
