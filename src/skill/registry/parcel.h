/* A tree of a box, or of a layer, as a tar stream in a nameless file: taken while the box is shared, used when it no longer
 * has to be. A slow client holds up nobody. */
#ifndef CUBBY_SKILL_PARCEL_H
#define CUBBY_SKILL_PARCEL_H

#include "base/scratch.h"
#include "base/tarfmt.h"
#include "skill/skill.h"

struct parcel {
    struct scratch file;
    uint64_t at; /* of parcel_read */
};

/* Of what lies at path in the box. TOO_LARGE: more than unpacked_bytes of the settings. NOT_FOUND. */
int parcel_take(struct skills *skills, struct box *box, const char *path, int watch, struct parcel *ret_parcel,
                struct err *err);
/* Of a directory of ours, below `top` ("": its files themselves); modes 0644 and 0755 alone. */
int parcel_pack(struct skills *skills, const char *user, int dirfd, const char *top, struct parcel *ret_parcel,
                struct err *err);
/* The same without what an archive has in its place, `top` being one of its skills. */
struct zip;
int parcel_pack_below(struct skills *skills, const char *user, int dirfd, const char *top, struct zip *over,
                      struct parcel *ret_parcel, struct err *err);
void parcel_done(struct parcel *parcel);

/* Every entry in order: its name made safe, its content at `offset` of the parcel. A negative return ends it. */
int parcel_each(const struct parcel *parcel,
                int (*each)(void *user, const struct tar_entry *entry, uint64_t offset, struct err *err), void *user,
                struct err *err);
/* A content in pieces. */
int parcel_content(const struct parcel *parcel, uint64_t offset, uint64_t size,
                   int (*sink)(void *user, const void *data, size_t len, struct err *err), void *user, struct err *err);
ssize_t parcel_read(void *parcel, void *data, size_t size, struct err *err); /* all of it: a box_reader */
/* sha256 of the tree by the rule of digest.h. */
int parcel_hash(const struct parcel *parcel, size_t most, uint8_t ret_sha256[32], struct err *err);

#endif
