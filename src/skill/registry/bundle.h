/* A tree of a box, or of a layer, as a tar stream in a nameless file: taken while the box is shared, used when it no longer
 * has to be. A slow client holds up nobody. */
#ifndef CUBBY_SKILL_PARCEL_H
#define CUBBY_SKILL_PARCEL_H

#include "base/scratch.h"
#include "tree/tarfmt.h"
#include "skill/skill.h"

struct bundle {
    struct scratch file;
    uint64_t at; /* of bundle_read */
};

/* Of what lies at path in the box. TOO_LARGE: more than unpacked_bytes of the settings. NOT_FOUND. */
int bundle_take(struct skills *skills, struct box *box, const char *path, int watch, struct bundle *ret_bundle,
                struct err *err);
/* Of a directory of ours, below `top` ("": its files themselves); modes 0644 and 0755 alone. */
int bundle_pack(struct skills *skills, const char *user, int dirfd, const char *top, struct bundle *ret_bundle,
                struct err *err);
/* The same without what an archive has in its place, `top` being one of its skills. */
struct zip;
int bundle_pack_below(struct skills *skills, const char *user, int dirfd, const char *top, struct zip *over,
                      struct bundle *ret_bundle, struct err *err);
void bundle_done(struct bundle *bundle);

/* Every entry in order: its name made safe, its content at `offset` of the bundle. A negative return ends it. */
int bundle_each(const struct bundle *bundle,
                int (*each)(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err), void *user,
                struct err *err);
/* A content in pieces. */
int bundle_content(const struct bundle *bundle, uint64_t offset, uint64_t size,
                   int (*sink)(void *user, const void *data, size_t len, struct err *err), void *user, struct err *err);
ssize_t bundle_read(void *bundle, void *data, size_t size, struct err *err); /* all of it: a box_reader */
/* sha256 of the tree by the rule of digest.h. */
int bundle_hash(const struct bundle *bundle, size_t most, uint8_t ret_sha256[32], struct err *err);

#endif
