/* A stream into a box and out of it: a command with its standard input, a terminal, a connection to a port. One loop
 * serves the box, the client's descriptor and the caller's clock, and calls hooks.
 *
 * Invariant: while the box has not taken what is held, no more of the client's input is asked for (back-pressure), and
 * output goes on. A stream belongs to one thread at a time. */
#ifndef CUBBY_BOX_DUPLEX_H
#define CUBBY_BOX_DUPLEX_H

#include "base/buf.h"
#include "box/box.h"

struct call;

/* Zero is a stream that is not open. The caller sets the members above the line, before it opens the stream and
 * whenever they change; fd and wake_fd are -1 without one. */
struct box_duplex {
    int fd;           /* where input comes from */
    bool client;      /* fd is a client's socket: its hang-up ends the stream, also while no input is wanted */
    bool deaf;        /* no input is wanted now */
    bool paused;      /* held bytes stay held for now */
    bool eof;         /* no input follows the held bytes: the box gets the end after the last byte */
    int wake_fd;      /* readable: hooks.wake */
    size_t room;      /* input is wanted while less than this is held; 0: while nothing is */
    struct buf held;  /* input that the box has not taken yet, with its bound: buf_max */
    uint64_t tick_ms; /* clock_ms of the next tick; 0: never */
    /* ---- */
    struct call *call; /* NULL: the stream is a socket of the daemon's own, or not open */
    struct box *box;   /* of a socket */
    int socket;        /* valid with box: a connection into the box's network (port_socket.c) */
    uint16_t port;
    bool shut; /* the server reads no more, or was sent the end of input */
    uint64_t memory_bytes;
    uint64_t moved_ms; /* clock_ms of the last byte either way */
    uint64_t first[2]; /* box_attach: the first byte of stdout and of stderr that will come */
};

enum { DUPLEX_READ = 2 };

/* Each returns 0: go on, 1: the stream is over, negative: it failed. Only those named "may be NULL" may be. */
struct box_stream {
    int (*started)(void *user, uint64_t pid, struct err *err); /* a command's process; may be NULL */
    int (*data)(void *user, int stream, const uint8_t *data, size_t len, struct err *err);
    /* Bytes, or the end, are there to be taken from the socket of a connection. DUPLEX_READ: they shall come as data.
     * May be NULL. */
    int (*splice)(void *user, int socket, struct err *err);
    /* There is space. ready: fd has data; else the box has just accepted the held bytes. May be NULL without an fd. */
    int (*input)(void *user, bool ready, struct err *err);
    int (*hangup)(void *user, struct err *err); /* of a client; NULL: the stream is over */
    int (*wake)(void *user, struct err *err);   /* may be NULL without a wake_fd */
    int (*tick)(void *user, struct err *err);   /* tick_ms has come; sets the next. May be NULL without a tick */
    int (*end)(void *user, const struct exec_result *result, struct err *err); /* the last; NULL: the stream is over */
};

/* A command; input: its standard input is the stream's, and request->input is not looked at. Closing the stream early
 * ends the command; with request->detach it goes on in the background, where box_attach finds it. UNSUPPORTED: an older
 * runner cannot detach. */
int box_exec_open(struct box *box, const struct exec_request *request, bool input, struct box_duplex *duplex,
                  struct err *err);
/* A background process, its output from `offset` on; it outlives the stream. Any number of streams read one process,
 * and it waits for the slowest of them: no stream loses a byte. What nobody read when it fell out of the last MiB is
 * skipped. */
int box_attach(struct box *box, uint64_t pid, uint64_t offset, struct box_duplex *duplex, struct err *err);
/* The same from an offset of each stream (stdout, stderr), UINT64_MAX: from now on. offsets NULL: from the first byte
 * that no stream was sent; older runners: from now on. */
int box_attach_from(struct box *box, uint64_t pid, const uint64_t offsets[2], struct box_duplex *duplex,
                    struct err *err);
/* A server that listens on a port of the box's loopback; eof half-closes. NOT_FOUND: no server listens; TIMEOUT:
 * none accepts; GONE: the client hung up, or the box ended. */
int box_connect(struct box *box, uint16_t port, struct box_duplex *duplex, struct err *err);
/* The same with an idle connection of a former stream, where there is one. True: it is that. */
bool box_connect_idle(struct box *box, uint16_t port, struct box_duplex *duplex);
static inline bool box_duplex_direct(const struct box_duplex *duplex) { /* bytes do not go through the runner */
    return duplex->box;
}
/* Closes the stream; nothing is under way on its connection, which the next box_connect_idle may have. */
void box_duplex_keep(struct box_duplex *duplex);
void box_duplex_close(struct box_duplex *duplex); /* also for a stream that is not open */

/* Sends the held bytes, then eof, as far as the box accepts them now. TOO_LARGE: held exceeds its bound. */
int box_duplex_flush(struct box_duplex *duplex, struct err *err);
int box_duplex_put(struct box_duplex *duplex, const void *data, size_t len, struct err *err); /* held, and flushed */
/* Waits for one thing and calls its hook. */
int box_duplex_turn(struct box_duplex *duplex, const struct box_stream *hooks, void *user, struct err *err);
/* Turns until a hook, the client or the box ends it: 0, or negative. */
int box_duplex_run(struct box_duplex *duplex, const struct box_stream *hooks, void *user, struct err *err);

#endif
