/* Templates: the read-only lowest layer of a box's root. `host` is a skeleton made from this machine, `base` the same
 * with another user (skeleton.h), the others were imported. */
#ifndef CUBBY_BACKEND_TEMPLATE_H
#define CUBBY_BACKEND_TEMPLATE_H

#include <sys/types.h>

#include "backend/backend.h"

#define TEMPLATE_NAME_BYTES 64
#define TEMPLATE_SYSTEM_MAX 8

struct template {
    char path[4096];
    const char *system[TEMPLATE_SYSTEM_MAX]; /* host directories laid over it (`host` only), NULL-terminated */
};

/* Where the template lies; `host` is made first when it is missing or older than the host's own files. */
int template_find(const struct backend_env *env, const char *name, struct template *ret_template, struct err *err);
/* A directory or a .tar, .tar.gz, .tgz, .tar.xz, .tar.zst becomes a template. EXISTS when the name is taken. */
int template_import(const struct backend_env *env, const char *name, const char *path, struct err *err);
/* The same from a stream: a tar archive, which may be compressed (gzip, xz, zstd, bzip2). read: 0 at the end. */
struct template_stream {
    ssize_t (*read)(void *user, void *data, size_t len, struct err *err);
    void *user;
};
int template_receive(const struct backend_env *env, const char *name, const struct template_stream *stream,
                     struct err *err);
int template_unpack(const struct template_stream *stream, const char *to, struct err *err); /* template_stream.c */
/* `host` and those that were imported; nothing is made for it. */
int template_list(const struct backend_env *env, void (*each)(void *user, const char *name), void *user,
                  struct err *err);
int template_remove(const struct backend_env *env, const char *name, struct err *err); /* boxes that use it keep it */
bool template_name_ok(const char *name);
struct trash;
void template_prune(const struct backend_env *env, struct trash *trash); /* old versions; only when no box exists */

#endif
