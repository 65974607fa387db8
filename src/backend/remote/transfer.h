/* Files on a channel of a link, both ends: pieces with a length before each, then the end, which says whether all of it
 * was sent, and the receiver's answer, whether it has taken it. The channel's socket is a local one: both sides wait in
 * read and write, and the end of the session closes it. */
#ifndef CUBBY_BACKEND_TRANSFER_H
#define CUBBY_BACKEND_TRANSFER_H

#include "backend/backend.h"

enum { TRANSFER_PIECE_BYTES = 256 << 10 };

struct transfer {
    int fd;
    const char *peer; /* for errors */
    uint64_t bytes;   /* of pieces so far */
};

/* As in struct backend_stream; user: a struct transfer. A piece has at most TRANSFER_PIECE_BYTES, and is got as one. */
int transfer_put(void *user, const uint8_t *data, size_t len, struct err *err);
ssize_t transfer_get(void *user, uint8_t *data, size_t len, struct err *err);
/* The end, or an answer. r: 0, or the failure in *why, which becomes the other end's. */
void transfer_end(struct transfer *transfer, int r, const struct err *why);
/* Waits for the answer to what was sent, its end included. */
int transfer_answered(struct transfer *transfer, struct err *err);

#endif
