/* Secrets of users, in STATE/e2b.db. */
#ifndef CUBBY_FRONT_E2B_SECRET_H
#define CUBBY_FRONT_E2B_SECRET_H

#include "front/e2b/e2b.h"

struct e2b_secrets;
int e2b_secrets_open(const char *directory, struct e2b_secrets **ret_secrets, struct err *err);
void e2b_secrets_close(struct e2b_secrets *secrets); /* NULL is fine */
extern const struct route e2b_secret_routes[];

#endif
