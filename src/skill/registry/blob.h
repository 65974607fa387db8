/* Published trees by content: STATE/skills/blobs/SHA256.tar. The tar is made by one rule (sorted, no times, no owners,
 * 0644 or 0755), so that the same files have the same name. Used by registry.c, under its database's write lock where a
 * name is given or removed: a row never names a blob that does not exist. */
#ifndef CUBBY_SKILL_BLOB_H
#define CUBBY_SKILL_BLOB_H

#include "skill/digest.h"
#include "skill/registry/bundle.h"

struct blob {
    struct skills *skills;
    char sha256[65];
    struct bundle_totals totals;
    char name[48]; /* its hidden name until it is kept; "": it has none */
};
/* Of all that lies below `tree`, a directory that does not change. */
int blob_make(struct skills *skills, int tree, struct blob *ret_blob, struct err *err);
int blob_keep(struct blob *blob, struct err *err); /* under its name, on disk; an existing one is the same */
void blob_drop(struct blob *blob);                 /* discards an unkept one; safe twice, and after blob_keep */

/* Reading hashes the bytes, and fails with IO at the end if the content differs. */
struct blob_reader {
    int fd;
    struct digest_sha sha;
    char sha256[65];
};
int blob_open(struct skills *skills, const char *sha256, struct blob_reader *ret_reader, struct err *err);
ssize_t blob_read(void *reader, void *data, size_t size, struct err *err); /* a box_reader */
void blob_close(struct blob_reader *reader);

/* Removes blobs that `named` does not know, and unfinished ones older than an hour. */
void blob_sweep(struct skills *skills, bool (*named)(void *user, const char *sha256), void *user);

#endif
