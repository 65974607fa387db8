/* A line on standard error about long work for a box (pulling an image, exporting a container) while a request waits
 * for it; only on a terminal. Called by commands that make or export boxes. */
#ifndef CUBBY_CLI_NEWS_H
#define CUBBY_CLI_NEWS_H

#include <stdint.h>

struct cli;
struct spec;
struct news;

/* Shows progress events of this user's boxes or of one box (both may be NULL), from another thread, and only if the
 * request takes long. NULL: not on a terminal. */
struct news *news_begin(struct cli *cli, const char *user, const char *box);
void news_end(struct news *news); /* removes the line; NULL is allowed */

/* The same without a daemon: backend_env.progress. */
void news_show(void *user, const struct spec *spec, const char *work, uint64_t done, uint64_t total,
               const char *detail);
void news_clear(void); /* removes that line, if there is one */

#endif
