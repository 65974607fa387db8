/* A stream into a box and out of it at once: a command with its standard input, a terminal, a connection to a port. One
 * loop serves the box, the client's descriptor and the caller's clock; what it meets goes to hooks.
 *
 * Invariant: while the box has not taken what is held, no more of the client's input is asked for (back-pressure), and
 * output goes on. A stream belongs to one thread at a time. */
#ifndef CUBBY_BOX_DUPLEX_H
#define CUBBY_BOX_DUPLEX_H

#include "base/buf.h"
#include "box/box.h"

struct call;

/* Zero is a stream that is not open. The caller sets what is above the line, before it opens the stream and whenever it
 * changes; fd and wake_fd are -1 without one. */
struct box_duplex {
    int fd;           /* where input comes from */
    bool client;      /* fd is a client's socket: its hang-up ends the stream, also while no input is wanted */
    bool deaf;        /* no input is wanted now */
    bool paused;      /* what is held stays held for now */
    bool eof;         /* no input follows what is held: the box hears it after the last byte */
    int wake_fd;      /* readable: hooks.wake */
    size_t room;      /* input is wanted while less than this is held; 0: while nothing is */
    struct buf held;  /* input that the box has not taken yet, with its bound: buf_max */
    uint64_t tick_ms; /* clock_ms of the next tick; 0: never */
    /* ---- */
    struct call *call;
    uint64_t memory_bytes;
    uint64_t moved_ms; /* clock_ms of the last byte either way */
};

/* Each returns 0: go on, 1: the stream is over, negative: it failed. Only those named "may be NULL" may be. */
struct box_stream {
    int (*started)(void *user, uint64_t pid, struct err *err); /* a command's process; may be NULL */
    int (*data)(void *user, int stream, const uint8_t *data, size_t len, struct err *err);
    /* There is room. ready: fd has something; else the box has just taken what was held. May be NULL without an fd. */
    int (*input)(void *user, bool ready, struct err *err);
    int (*hangup)(void *user, struct err *err); /* of a client; NULL: the stream is over */
    int (*wake)(void *user, struct err *err);   /* may be NULL without a wake_fd */
    int (*tick)(void *user, struct err *err);   /* tick_ms has come; sets the next. May be NULL without a tick */
    int (*end)(void *user, const struct exec_result *result, struct err *err); /* the last; NULL: the stream is over */
};

/* A command; input: its standard input is the stream's, and request->input is not looked at. Closing the stream early
 * ends the command. */
int box_exec_open(struct box *box, const struct exec_request *request, bool input, struct box_duplex *duplex,
                  struct err *err);
/* A process in a terminal, its output from `offset` on; it outlives the stream. */
int box_attach(struct box *box, uint64_t pid, uint64_t offset, struct box_duplex *duplex, struct err *err);
/* A server that listens on a port of the box's loopback; eof half-closes. NOT_FOUND: nobody listens; TIMEOUT: nobody
 * accepts; GONE: the client hung up, or the box ended. */
int box_connect(struct box *box, uint16_t port, struct box_duplex *duplex, struct err *err);
void box_duplex_close(struct box_duplex *duplex); /* also of one that is not open */

/* Sends what is held, then eof, as far as the box takes them now. TOO_LARGE: more was put into held than its bound. */
int box_duplex_flush(struct box_duplex *duplex, struct err *err);
int box_duplex_put(struct box_duplex *duplex, const void *data, size_t len, struct err *err); /* held, and flushed */
/* Waits for one thing and calls its hook. */
int box_duplex_turn(struct box_duplex *duplex, const struct box_stream *hooks, void *user, struct err *err);
/* Turns until a hook, the client or the box ends it: 0, or negative. */
int box_duplex_run(struct box_duplex *duplex, const struct box_stream *hooks, void *user, struct err *err);

#endif
