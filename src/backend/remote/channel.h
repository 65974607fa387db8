/* The channels of one link: bytes between records and local stream sockets. Private to backend/remote/pump.c, whose
 * lock is held. Invariants:
 *
 * 1. Bytes that a channel's socket does not accept yet are kept, bounded by the channel's window; the window is
 *    returned only for bytes that the socket accepted. So a slow reader stops its own channel, and the connection is
 *    always read.
 * 2. A channel is forgotten when a SHUT was sent and one was received. Until then its number means this channel
 *    only. */
#ifndef CUBBY_BACKEND_CHANNEL_H
#define CUBBY_BACKEND_CHANNEL_H

#include "backend/remote/link.h"
#include "base/buf.h"

struct channel {
    struct channel *next;
    uint32_t number;
    int fd;      /* -1: not open here, not yet or no more */
    bool opened; /* channels_open was called */
    bool shut_sent, shut_came;
    size_t slot;           /* the pump's, this round; 0: none */
    uint32_t send_window;  /* bytes we may send */
    uint32_t receive_left; /* bytes they may send */
    uint32_t window;       /* of theirs, in total: left, pending and accepted */
    uint32_t taken;        /* by the socket, and not given back yet */
    struct buf pending;    /* came, and the socket has not taken it */
    size_t pending_at;
    char *why; /* theirs */
};

struct channels {
    struct link *link;
    bool server;          /* the end that gives out numbers; the machine learns of them */
    uint32_t last_number; /* server: given out so far */
    struct channel *list,
        *over;      /* over: shut by the other end, all delivered; the owner is to be notified, then channel_free */
    unsigned count; /* of list */
};

void channels_free(struct channels *channels); /* all of them, sockets closed */
void channel_free(struct channel *channel);
void channels_open(struct channels *channels, uint32_t number, int fd);
void channels_shut(struct channels *channels, uint32_t number, const char *why);
/* DATA, WINDOW or SHUT was received. PROTOCOL: a violation of the protocol. */
int channels_take(struct channels *channels, const struct link_record *record, struct err *err);
/* Its socket can be read: that becomes records, as far as the window and the link let it. May free the channel. */
void channel_read(struct channels *channels, struct channel *channel);
/* Its socket can be written, and something is pending. False: the channel was freed. */
bool channel_flush(struct channels *channels, struct channel *channel);

#endif
