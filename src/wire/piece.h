/* Two streams of bytes over a carrier that keeps each message whole but not their order: standard input and output
 * of a program on a machine whose runner is not ours (text/call.h). Each message is a piece that says where its
 * bytes lie in the stream and how much of the other stream has arrived. Shared by backend/remote/text/carry.c and
 * runner/container.c. Invariants: a side never has more than PIECES_WINDOW_BYTES in PIECES_MOST pieces in flight, so
 * the other side's buffer is bounded; and every violation of this rule is PROTOCOL. */
#ifndef CUBBY_WIRE_PIECE_H
#define CUBBY_WIRE_PIECE_H

#include "base/base.h"

#define PIECE_HEAD_BYTES 20u /* little endian: u64 place, u64 bytes of the other stream that arrived, u32 length */
#define PIECE_BYTES (96u << 10)
#define PIECES_WINDOW_BYTES (1u << 20)
#define PIECES_MOST 256u

struct piece; /* came before its turn */
struct pieces {
    uint64_t sent, arrived;     /* bytes that were sent, and of them those that arrived */
    uint64_t ends[PIECES_MOST]; /* of the pieces that are under way: a ring */
    unsigned first, count;      /* of it */
    uint64_t got, acked;        /* bytes that came in order; how many the other side knows of */
    unsigned unacked;           /* pieces since then */
    struct piece *held;         /* by place */
    unsigned held_count;
    struct buf raw, ready; /* not yet a whole piece; in order, for the caller to consume */
};

void pieces_init(struct pieces *pieces);
void pieces_done(struct pieces *pieces);
size_t pieces_room(const struct pieces *pieces); /* the most that the next piece may hold; 0: wait for the other side */
/* One piece, appended to out. len at most pieces_room; 0: it only says what arrived. */
void pieces_put(struct pieces *pieces, struct buf *out, const void *data, size_t len);
bool pieces_due(const struct pieces *pieces); /* the other side waits for an acknowledgement */
/* Bytes from the carrier. Bytes in order are in pieces->ready; pieces_take drops the first n of them. */
int pieces_feed(struct pieces *pieces, const void *data, size_t len, struct err *err);
void pieces_take(struct pieces *pieces, size_t n);

#endif
