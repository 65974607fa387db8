/* Tar streams: bytes into entries, and entries into bytes. The caller decides what an entry becomes. */
#ifndef CUBBY_TREE_TAR_H
#define CUBBY_TREE_TAR_H

#include "base/err.h"
#include "tree/tarfmt.h"

/* ---- in ---- */

/* Where entries go. Each returns 0 or a negative code, which ends the stream. */
struct tar_sink {
    int (*begin)(void *user, struct tar_entry *entry, struct err *err);           /* the name is as the stream has it */
    int (*content)(void *user, const uint8_t *data, size_t len, struct err *err); /* NULL: not wanted */
    int (*end)(void *user, struct err *err);                    /* of the entry; NULL: nothing to do */
    int (*wrong)(void *user, const char *why, struct err *err); /* the sentence for a bad stream */
};

struct tar_in {
    const struct tar_sink *sink;
    void *user;
    struct tar_entry entry; /* the part being read */
    bool inside;            /* an entry or an extension that is not whole yet */
    bool ended;             /* the end mark was read: padding follows */
    /* private */
    uint8_t block[TAR_BLOCK_BYTES]; /* a head that is not whole yet */
    size_t block_len;
    uint64_t left;  /* of the content */
    size_t padding; /* after it */
    char *extension;
    size_t extension_len;
};
int tar_in_feed(struct tar_in *in, const uint8_t *data, size_t len,
                struct err *err); /* begins with all zero but the sink */
/* For a stream that can seek: the bytes of the current entry's content and padding, which are not fed then. */
int tar_in_skip(struct tar_in *in, uint64_t *ret_bytes, struct err *err);
void tar_in_done(struct tar_in *in);

/* ---- out ---- */

struct tar_out {
    int (*put)(void *user, const uint8_t *data, size_t len, struct err *err);
    void *user;
    uint8_t *data; /* the caller's: bytes not put yet */
    size_t size, held;
    bool exact; /* a file that is shorter than its head says is an error; else it is filled with zeros */
};
int tar_out_head(struct tar_out *out, const struct tar_entry *entry, uint32_t uid, uint32_t gid, struct err *err);
int tar_out_content(struct tar_out *out, int fd, uint64_t size, struct err *err); /* a file that grew is cut */
/* An entry without owner and time, by its kind: 'd', 'f' or 'x'. fd, size: its content; -1, 0: none. */
int tar_out_plain(struct tar_out *out, char kind, const char *name, int fd, uint64_t size, struct err *err);
int tar_out_end(struct tar_out *out, struct err *err); /* the end mark; all is put then */

#endif
