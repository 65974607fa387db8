/* Which daemon the commands talk to: the environment, or a context that `cubby login` has kept. Called by remote.c and
 * by the commands about contexts. */
#ifndef CUBBY_CLI_CONTEXT_H
#define CUBBY_CLI_CONTEXT_H

#include <stddef.h>

#include "base/err.h"

struct arena;
struct json_t;
struct http_client;

#define CONTEXT_DEFAULT_URL "http://127.0.0.1:7070"

struct context {
    const char *name;             /* NULL: from the environment, or the default */
    const char *url, *token, *ca; /* token and ca may be NULL */
};

/* The daemon of this process, found at the first call. A file that cannot be read exits 125. */
const struct context *context_now(void);
void context_choose(const char *name); /* -C: before the first call of context_now */
/* Makes a client for it. */
int context_connect(const struct context *context, struct http_client **ret_client, struct err *err);

/* The kept ones: {"current": NAME, "contexts": {NAME: {"url", "token", "ca"}}}; release it with json_decref. */
struct json_t *context_load(void);
int context_save(const struct json_t *config, struct err *err); /* readable by this user alone */
const char *context_path(struct arena *arena, const char *variable, const char *below_home, const char *name);
int context_write(const char *path, const void *data, size_t len, struct err *err);

#endif
