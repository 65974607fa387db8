/* The hash of a tree, the same for a layer and for a box's tar stream. Entries are sorted by path. Directories do not
 * count, so that an archive without entries for them gives the same hash. */
#ifndef CUBBY_SKILL_DIGEST_H
#define CUBBY_SKILL_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

/* SHA-256 of data that arrives in pieces. */
struct digest_sha {
    void *context;
};
void digest_sha_begin(struct digest_sha *sha);
void digest_sha_data(struct digest_sha *sha, const void *data, size_t len);
void digest_sha_end(struct digest_sha *sha, uint8_t ret_sha256[32]); /* and frees */

enum digest_kind { DIGEST_FILE = '-', DIGEST_PROGRAM = 'x', DIGEST_LINK = 'l' };

struct digest {
    struct arena arena;
    struct digest_entry *entries;
    size_t count, room, most;
    uint64_t files, bytes; /* files: set by digest_tree only */
};
void digest_init(struct digest *digest, size_t most);
/* path is relative to the tree. sha256 is the hash of the content, or of a link's target. TOO_LARGE: more than
 * `most`. */
int digest_add(struct digest *digest, const char *path, enum digest_kind kind, const uint8_t sha256[32], uint64_t size,
               struct err *err);
void digest_end(struct digest *digest, uint8_t ret_sha256[32]); /* call once, after the last digest_add */
void digest_done(struct digest *digest);                        /* may be called twice */
/* Hashes a file from its beginning. Returns 0 or -errno. */
int digest_fd(int fd, uint8_t ret_sha256[32], uint64_t *ret_size);
/* Hashes everything below a directory of this machine. */
int digest_tree(int fd, uint8_t ret_sha256[32], uint64_t *ret_files, uint64_t *ret_bytes, struct err *err);

#endif
