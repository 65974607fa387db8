/* What one user may do at once: requests running, boxes made a minute. One row a user who has tokens of his own (or a
 * uid that stands for him); who acts for everybody has none. */
#ifndef CUBBY_FRONT_TENANT_H
#define CUBBY_FRONT_TENANT_H

#include "base/err.h"

struct tenant;
struct tenants; /* by name; rows stay, so that a user's counters outlive his tokens */

struct tenant_limits {
    unsigned max_requests;     /* at once; 0: no limit */
    unsigned boxes_per_minute; /* that many at once, then one by one at this rate; 0: no limit */
};

struct tenants *tenants_new(void);
void tenants_free(struct tenants *tenants);
struct tenant *tenants_find(struct tenants *tenants, const char *user); /* made where there is none; from any thread */
/* LIMIT when there are too many; else tenant_leave must follow. */
int tenant_enter(struct tenant *tenant, const struct tenant_limits *limits, struct err *err);
void tenant_leave(struct tenant *tenant);
int tenant_make(struct tenant *tenant, const struct tenant_limits *limits, struct err *err); /* a box is wanted */

#endif
