/* One session between this server and one machine: records both ways, numbered and kept until the other end has
 * them, so that a new connection continues exactly where the old one broke. Both ends are this code
 * (backend/remote/pump.c drives it, in the daemon and in `cubby join`). No I/O here; PROTOCOL.md, "The link",
 * specifies the same.
 *
 * A record is one WebSocket message: u8 kind, u8 zero, u16 zero, u32 channel, bytes; all little endian. Messages are
 * binary by default; a connection that passes only text carries each as {"type":"link","data":"BASE64"}. Every
 * record but ACK counts: the n-th of a session has the number n, which is not sent. ACK carries the number of
 * records received. */
#ifndef CUBBY_BACKEND_LINK_H
#define CUBBY_BACKEND_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define LINK_HEAD_BYTES 8u
#define LINK_VERSION 1u

enum link_kind {
    LINK_ACK = 0,    /* channel 0; u64: records of yours that I have taken so far. Not counted itself */
    LINK_DATA = 1,   /* bytes of a channel, at most LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES, within its window */
    LINK_WINDOW = 2, /* u32: so many more bytes of DATA may come on this channel; LIMIT_CHANNEL_BYTES at its begin */
    LINK_ASK = 3,    /* server: a question, JSON; channel is its number and, where it opens one, the channel's */
    LINK_TELL = 4,   /* machine: the answer to that number, JSON */
    LINK_SHUT = 5,   /* either: this channel is over; bytes: why, as text, may be none. Answered by a SHUT, but for one
                      * that answers or crosses ours; the number is free when both were sent */
};

struct link_record {
    enum link_kind kind;
    uint32_t channel;
    const uint8_t *data; /* valid until the next call on this link */
    size_t len;
};

struct link;
struct link *link_new(void);
void link_free(struct link *link);

/* A record to go out. Always taken; sources of DATA check link_full first, and stop reading while it is true. */
void link_put(struct link *link, enum link_kind kind, uint32_t channel, const void *data, size_t len);
void link_put_window(struct link *link, uint32_t channel, uint32_t bytes);
/* The same without a copy: room for at most max bytes, to be filled and put; or given up. Nothing else between. */
uint8_t *link_reserve(struct link *link, size_t max);
void link_commit(struct link *link, enum link_kind kind, uint32_t channel, size_t len);
void link_release(struct link *link);
/* LIMIT_LINK_HELD_BYTES wait for the other end's ACK, or LIMIT_LINK_UNSENT_BYTES for the connection */
bool link_full(const struct link *link);
bool link_overdue(const struct link *link); /* twice that: never reached by an end that reads its messages */
/* The next message for the connection; it stays the same until link_out_done. False: nothing. */
bool link_out(struct link *link, const uint8_t **ret_data, size_t *ret_len);
void link_out_done(struct link *link); /* it was handed to the connection; kept until the other end has it */

/* A message was received. 1: a record for the caller; 0: nothing (ACK). PROTOCOL: a violation of the protocol. */
int link_in(struct link *link, const void *data, size_t len, struct link_record *ret_record, struct err *err);
/* The caller is about to wait: sends a pending ACK now rather than later. */
void link_idle(struct link *link);
bool link_owes(const struct link *link); /* a record came that no ACK has reported */

uint64_t link_received(const struct link *link); /* for register and its answer */
/* A new connection: the other end has `received` of ours. Those are forgotten, the rest is sent again, in order.
 * PROTOCOL: an impossible number. */
int link_resume(struct link *link, uint64_t received, struct err *err);

#endif
