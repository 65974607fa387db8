/* Secrets of users, in the store of cubby's own (box/secret). */
#ifndef CUBBY_FRONT_E2B_SECRET_H
#define CUBBY_FRONT_E2B_SECRET_H

#include "front/e2b/e2b.h"

struct secrets;
/* Takes over what an older daemon kept in STATE/e2b.db. secrets NULL: nothing. */
void e2b_secrets_begin(const char *directory, struct secrets *secrets);
extern const struct route e2b_secret_routes[];

#endif
