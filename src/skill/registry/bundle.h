/* A bundle: a tree of a box, or of a layer, as a tar stream in a nameless file. It is made while the box is shared and
 * used afterwards, so that a slow client does not delay other requests. */
#ifndef CUBBY_SKILL_BUNDLE_H
#define CUBBY_SKILL_BUNDLE_H

#include "base/scratch.h"
#include "skill/skill.h"
#include "tree/tarfmt.h"

struct skill_bundle {
    struct scratch file;
    uint64_t at; /* next offset of bundle_read */
};
struct zip;

/* Packs the tree at path in the box. TOO_LARGE: more than unpacked_bytes of the settings. NOT_FOUND: no such path. */
int bundle_take(struct skills *skills, struct box *box, const char *path, int watch, struct skill_bundle *ret_bundle,
                struct err *err);
/* Packs a directory of ours below `top` ("": its files themselves), with modes 0644 and 0755. over: an archive with a
 * skill `top`, whose entries are skipped; may be NULL. */
int bundle_pack(struct skills *skills, const char *user, int dirfd, const char *top, struct zip *over,
                struct skill_bundle *ret_bundle, struct err *err);
void bundle_done(struct skill_bundle *bundle);

/* Calls back for every entry in order: its name made safe, its content at `offset` of the bundle. A negative return
 * stops it. */
int bundle_each(const struct skill_bundle *bundle,
                int (*each)(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err), void *user,
                struct err *err);
ssize_t bundle_read(void *bundle, void *data, size_t size, struct err *err); /* a box_reader of the whole stream */
/* The hash of the tree as in digest.h. */
int bundle_hash(const struct skill_bundle *bundle, size_t most, uint8_t ret_sha256[32], struct err *err);
/* Sends it as a ZIP with entries SKILL/PATH. Always ends the bundle. */
int bundle_zip(struct skills *skills, struct skill_bundle *bundle, const char *skill,
               int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err);

/* Makes the tar stream of bundles and blobs: sorted, no times, no owners, 0644 or 0755. */
struct bundle_totals {
    uint64_t files, bytes; /* of regular files */
};
int bundle_tar(int dirfd, const char *top, struct zip *over,
               int (*put)(void *user, const uint8_t *data, size_t len, struct err *err), void *user,
               struct bundle_totals *ret_totals, struct err *err);

#endif
