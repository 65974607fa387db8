/* Published trees by content: STATE/skills/blobs/SHA256.tar. The tar is made by one rule (sorted, no times, no owners, 0644 or
 * 0755), so that the same files have the same name. Used by registry.c, under its data base's write lock where a name is
 * given or taken away: a row never names a blob that is not there. */
#ifndef CUBBY_SKILL_BLOB_H
#define CUBBY_SKILL_BLOB_H

#include "skill/digest.h"
#include "skill/skill.h"

struct blob {
    struct skills *skills;
    char sha256[65];
    uint64_t bytes, files; /* of the contents; regular files */
    char name[48];         /* the hidden name while it has no other; "": it has none */
};
/* Of all that lies below `tree`, a directory that nobody changes. */
int blob_make(struct skills *skills, int tree, struct blob *ret_blob, struct err *err);
int blob_keep(struct blob *blob, struct err *err); /* under its name, on disk; one that is there already is the same */
void blob_drop(struct blob *blob);                 /* what was not kept; safe twice, and after blob_keep */

/* Reading: compares while it reads, and ends with IO instead of the end where a byte is another. */
struct blob_reader {
    int fd;
    struct digest_sha sha;
    char sha256[65];
};
int blob_open(struct skills *skills, const char *sha256, struct blob_reader *ret_reader, struct err *err);
ssize_t blob_read(void *reader, void *data, size_t size, struct err *err); /* a box_reader */
void blob_close(struct blob_reader *reader);

/* Removes what `named` does not know, and what was left half made for an hour. */
void blob_sweep(struct skills *skills, bool (*named)(void *user, const char *sha256), void *user);

#endif
