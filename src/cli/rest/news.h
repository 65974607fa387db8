/* A line on standard error about long work for a box (an image is pulled, a container exported) while a request waits
 * for it; only on a terminal. Called by commands that make or export boxes. */
#ifndef CUBBY_CLI_NEWS_H
#define CUBBY_CLI_NEWS_H

#include <stdint.h>

struct cli;
struct spec;
struct news;

/* The daemon's events of progress of this user's boxes, or of one box (both may be NULL), from another thread, and
 * only when the request takes long. NULL: not on a terminal. */
struct news *news_begin(struct cli *cli, const char *user, const char *box);
void news_end(struct news *news); /* takes the line away; NULL is fine */

/* The same without a daemon: backend_env.progress. */
void news_show(void *user, const struct spec *spec, const char *work, uint64_t done, uint64_t total,
               const char *detail);
void news_clear(void); /* takes that line away, if there is one */

#endif
