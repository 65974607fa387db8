/* Distributes a runner's bytes to the calls they belong to. Private to wire/: no I/O, no threads, no locks, so that
 * it can be fuzzed. wire.c feeds it the bytes read, call.c takes the events out. */
#ifndef CUBBY_WIRE_SORT_H
#define CUBBY_WIRE_SORT_H

#include "base/buf.h"
#include "base/err.h"
#include "wire/call.h"

struct waiter;

/* One call. `in` is filled by the thread that demultiplexes, under the wire's lock; `out` belongs to the caller's
 * thread, which swaps the two under the lock when `out` is used up. Both hold records {u8 kind, u8 stream, u32
 * length, bytes}. */
struct call {
    struct call *next; /* in its bucket */
    struct wire *wire;
    uint32_t id;
    /* under the wire's lock */
    struct waiter *waiter;    /* its waiting follower; NULL: no thread waits */
    bool stat_seen, streamed; /* the grammar: STAT comes once, before DATA and ITEM */
    bool ended;               /* END or FAIL came */
    bool closed;              /* given up by its owner: late frames are legal and dropped */
    bool input_wanted, input_ready;
    uint32_t window; /* bytes of DATA and ITEM the runner may still send */
    uint32_t span;   /* that window in total, with bytes sent and not consumed yet */
    uint32_t credit; /* bytes of input we may still send */
    struct buf in;
    size_t tail; /* offset of the last record of in, SIZE_MAX: none */
    int stat_fd;
    int fail_code; /* FAIL came; the sentence is the record */
    /* the owner's thread */
    struct buf out;
    size_t taken;              /* offset in out of the next record */
    size_t piece;              /* of that record, which is DATA: so much was handed out */
    uint32_t used, unreturned; /* length of the record handed out last; consumed bytes not yet given back */
    unsigned since_look;       /* events since the caller's descriptor was looked at */
    bool cancelled, eof_sent;
};

enum { CALL_BUCKETS = 64, RECORD_HEAD_BYTES = 6 };

struct demux {
    struct call *buckets[CALL_BUCKETS];
    unsigned open, closed; /* calls with an owner, and given-up ones the runner has not ended yet */
    uint32_t last_id;
    enum wire_pass pass; /* WIRE_PASS_NOTHING: the runner is far away, and windows grow */
    uint32_t grown;      /* by which windows of all calls are larger than they were at first */
    bool greeted;        /* HELLO came: the fields below count */
    int root_fd;
    uint64_t features;
    char workspace[256];
    /* bytes read and not yet sorted: at most one frame */
    uint8_t *data;
    size_t len, cap;
    int pass_fd; /* came with the bytes, its frame is not whole yet */
    /* A call got an event, or ended: wake the thread that waits for it. */
    void (*notify)(struct call *call);
};

void demux_init(struct demux *demux, enum wire_pass pass, void (*notify)(struct call *call));
void demux_done(struct demux *demux);                       /* frees given-up calls too; there may be no open ones */
struct call *demux_add(struct demux *demux);                /* a new call; NULL when there are too many */
void demux_give_up(struct demux *demux, struct call *call); /* its owner goes: freed now or when the runner ends it */
void demux_forget(struct demux *demux, struct call *call);  /* its owner goes and the runner never heard of it */
/* The caller consumed so much: returns the credit for the runner, that and the growth of the window. Not after its
 * END. */
uint32_t demux_grant(struct demux *demux, struct call *call, uint32_t used);
/* Where the next bytes may be read to. */
uint8_t *demux_room(struct demux *demux, size_t *ret_size);
/* n bytes were put there, and pass_fd (or -1) came with them; it is the demux's now. -ERR_PROTOCOL: the runner broke
 * the rules, the wire must end. */
int demux_feed(struct demux *demux, size_t n, int pass_fd, struct err *err);
void demux_rest(struct demux *demux); /* nothing is going on: give memory back */

#endif
