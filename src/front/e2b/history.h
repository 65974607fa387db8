/* What was done to a sandbox, out of the audit log: for logs and events. */
#ifndef CUBBY_FRONT_E2B_HISTORY_H
#define CUBBY_FRONT_E2B_HISTORY_H

#include "front/e2b/e2b.h"

struct e2b_happened {
    uint64_t number, at_ms;
    const char *verb, *message, *box;
    unsigned status; /* of the answer; 0: not a request */
    bool failed;
};

struct e2b_history {
    const char *box;             /* NULL: all of the caller */
    uint64_t since_ms, until_ms; /* 0: any */
    uint64_t limit;              /* of rows that are looked at */
    bool backward;               /* the newest, not the oldest */
    struct e2b_happened *items;  /* the oldest first, in the request's arena */
    size_t count, cap;
};

int e2b_history_read(struct http_request *request, struct e2b_history *history, struct err *err);
extern const struct route e2b_event_routes[];

#endif
