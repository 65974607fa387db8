/* Limits of one user: running requests, boxes made per minute. One row per user with tokens (or with a uid that acts
 * for them); admins have none. */
#ifndef CUBBY_FRONT_TENANT_H
#define CUBBY_FRONT_TENANT_H

#include "base/err.h"

struct tenant;
struct tenants; /* by name; rows are never removed, so counters outlive tokens */

struct tenant_limits {
    unsigned max_requests;     /* at once; 0: no limit */
    unsigned boxes_per_minute; /* a burst of so many, then at this rate; 0: no limit */
};

struct tenants *tenants_new(void);
void tenants_free(struct tenants *tenants);
struct tenant *tenants_find(struct tenants *tenants, const char *user); /* made if missing; from any thread */
/* LIMIT: too many requests. Else tenant_leave must follow. */
int tenant_enter(struct tenant *tenant, const struct tenant_limits *limits, struct err *err);
void tenant_leave(struct tenant *tenant);
int tenant_make(struct tenant *tenant, const struct tenant_limits *limits, struct err *err); /* LIMIT: too many boxes */

#endif
