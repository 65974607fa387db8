/* Tar streams: reads bytes into entries, and writes entries as bytes. The caller decides what an entry becomes. */
#ifndef CUBBY_TREE_TAR_H
#define CUBBY_TREE_TAR_H

#include "base/err.h"
#include "tree/tarfmt.h"

/* ---- reading ---- */

/* Receives entries. Each function returns 0 or a negative code, which ends the stream. */
struct tar_sink {
    int (*begin)(void *user, struct tar_entry *entry, struct err *err);           /* the name is not checked */
    int (*content)(void *user, const uint8_t *data, size_t len, struct err *err); /* NULL: not wanted */
    int (*end)(void *user, struct err *err);                                      /* ends the entry; may be NULL */
    int (*wrong)(void *user, const char *why, struct err *err);                   /* makes the error for a bad stream */
    /* The records of a pax head (tar_record_next), before the entry that they are about; may be NULL. */
    int (*extension)(void *user, const char *data, size_t len, struct err *err);
};

struct tar_in {
    const struct tar_sink *sink;
    void *user;
    struct tar_entry entry; /* the entry being read */
    bool inside;            /* an entry or an extension is incomplete */
    bool ended;             /* the end mark was read: padding follows */
    /* private */
    uint8_t block[TAR_BLOCK_BYTES]; /* an incomplete head */
    size_t block_len;
    uint64_t left;  /* bytes of the content left */
    size_t padding; /* bytes after the content */
    char *extension;
    size_t extension_len;
};
int tar_in_feed(struct tar_in *in, const uint8_t *data, size_t len,
                struct err *err); /* start with everything zeroed but the sink */
/* For a stream that can seek: the bytes of the current entry's content and padding, which are then not fed. */
int tar_in_skip(struct tar_in *in, uint64_t *ret_bytes, struct err *err);
void tar_in_done(struct tar_in *in);

/* ---- writing ---- */

struct tar_out {
    int (*put)(void *user, const uint8_t *data, size_t len, struct err *err);
    void *user;
    uint8_t *data; /* owned by the caller: bytes not put yet */
    size_t size, held;
    bool exact; /* a file that shrank is an error; else it is filled with zeros */
};
int tar_out_head(struct tar_out *out, const struct tar_entry *entry, uint32_t uid, uint32_t gid, struct err *err);
int tar_out_data(struct tar_out *out, const void *data, size_t len, struct err *err); /* a content, with its padding */
int tar_out_content(struct tar_out *out, int fd, uint64_t size, struct err *err);     /* cuts a file that grew */
/* Writes an entry without owner and time. kind: 'd', 'f' or 'x'. fd, size: its content; -1, 0: none. */
int tar_out_plain(struct tar_out *out, char kind, const char *name, int fd, uint64_t size, struct err *err);
int tar_out_end(struct tar_out *out, struct err *err); /* writes the end mark and puts everything */

#endif
