/* Published trees, named by content: STATE/skills/blobs/SHA256.tar. The tar is made by one rule (sorted, no times, no
 * owners, 0644 or 0755), so that the same files have the same name. Used by registry.c, which names and removes blobs
 * under its database's write lock: a row never names a blob that does not exist. */
#ifndef CUBBY_SKILL_BLOB_H
#define CUBBY_SKILL_BLOB_H

#include "skill/registry/bundle.h"
#include "skill/stage.h"

struct blob {
    char sha256[65];
    struct bundle_totals totals;
    struct stage stage; /* holds the tar until it is kept */
};
/* Packs everything below `tree`, a directory that does not change. */
int blob_make(struct skills *skills, int tree, struct blob *ret_blob, struct err *err);
int blob_keep(struct blob *blob, struct err *err); /* puts it on the disk under its name */
void blob_drop(struct blob *blob);                 /* discards it unless kept; may be called twice */

/* Opens the tar after comparing its bytes with its name. IO: they differ. */
int blob_open(struct skills *skills, const char *sha256, int *ret_fd, struct err *err);
ssize_t blob_read(void *fd, void *data, size_t size, struct err *err); /* a box_reader of an int */

/* Removes blobs for which `named` returns false. */
void blob_sweep(struct skills *skills, bool (*named)(void *user, const char *sha256), void *user);

#endif
