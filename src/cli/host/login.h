/* Daemons whose address and token are kept. Called by `cubby up`. */
#ifndef CUBBY_CLI_LOGIN_H
#define CUBBY_CLI_LOGIN_H

#include "base/err.h"

struct cli;
struct context;
struct json_t;

/* Asks the daemon who we are there. UNAUTHORIZED: it wants a token, or another one. Release *ret_who. */
int login_check(struct cli *cli, const struct context *context, struct json_t **ret_who, struct err *err);
int login_keep(const struct context *context, struct err *err); /* and makes it the current one */

#endif
