/* What was done to a sandbox, out of the audit log: for logs and events. */
#ifndef CUBBY_FRONT_E2B_HISTORY_H
#define CUBBY_FRONT_E2B_HISTORY_H

#include "front/e2b/e2b.h"

struct e2b_happened {
    uint64_t number, at_ms;
    const char *verb, *message, *box, *user;
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
struct e2b_happened e2b_happened(const struct audit_row *row, struct arena *arena);
/* "created" and so on: what a row means to E2B; NULL: nothing. */
const char *e2b_event_kind(const struct e2b_happened *happened);
/* One that means something, as an object. team: whose it is. */
void e2b_event_put(struct provider *provider, struct arena *arena, struct json *json,
                   const struct e2b_happened *happened, const char *team);
extern const struct route e2b_event_routes[];

#endif
