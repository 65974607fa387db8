/* The page in a browser. Called by `cubby up`. */
#ifndef CUBBY_CLI_OPEN_H
#define CUBBY_CLI_OPEN_H

#include "base/err.h"

struct cli;

/* Makes the URL of a place of the page ("boxes/ID"), with a ticket where the daemon requires tokens. */
int open_url(struct cli *cli, const char *place, const char **ret_url, struct err *err);
int open_browser(const char *url); /* 0 or -errno */

#endif
