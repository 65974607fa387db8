/* Calls on a wire: opening, the next event, input, cancelling. For the verbs (box/) and the backends alone. */
#ifndef CUBBY_WIRE_CALL_H
#define CUBBY_WIRE_CALL_H

#include <poll.h>

#include "wire/wire.h"

struct call;

/* While waiting for the runner: another descriptor to look at. fd -1: none. events POLLRDHUP for "client hung up",
 * POLLIN|POLLRDHUP for a terminal. deadline_ms: clock_ms() at which call_next gives up (0: never). */
struct call_wait {
    int fd;
    short events;
    struct pollfd *also; /* a second descriptor, its revents are set; NULL: no second one */
    uint64_t deadline_ms;
};

enum event_kind {
    EVENT_STAT,  /* data: fields; fd: descriptor or -1, now the caller's to close */
    EVENT_DATA,  /* data: bytes; stream */
    EVENT_ITEM,  /* data: records (item_next) */
    EVENT_END,   /* data: fields; the last event */
    EVENT_INPUT, /* the runner granted input credit after call_send took less than asked */
    EVENT_READY, /* a descriptor of call_wait has the awaited event; revents: that of fd */
};

struct event {
    enum event_kind kind;
    uint8_t stream;
    short revents;
    int fd;
    const uint8_t *data; /* valid until the next call_* on this call */
    size_t len;
};

/* args: fields of the op without OP itself. input/input_len: sent together with the CALL, at most one frame's payload
 * and credit; eof: and the input is complete. BUSY beyond LIMIT_CALLS_PER_WIRE. */
int call_open(struct wire *wire, enum op op, const struct buf *args, const void *input, size_t input_len, bool eof,
              struct call **ret_call, struct err *err);
/* A call whose result is not awaited: done before anything that is sent after it. */
int call_post(struct wire *wire, enum op op, const struct buf *args, struct err *err);
/* The next event. 0 and *ret_event; the runner's FAIL comes back as -its code and its sentence; -ERR_TIMEOUT at the
 * deadline (the call lives on); -ERR_GONE / -ERR_PROTOCOL when the wire died. Consuming returns credit. */
int call_next(struct call *call, const struct call_wait *wait, struct event *ret_event, struct err *err);
/* Input: how many bytes were taken now (0: no credit, EVENT_INPUT will come), or a negative code. */
ssize_t call_send(struct call *call, const void *data, size_t len, struct err *err);
int call_send_eof(struct call *call, struct err *err);
/* Ends a call early without freeing it: the runner is asked to stop; continue with call_next until END or an error. */
void call_cancel(struct call *call);
void call_close(struct call *call); /* frees; cancels first when not ended. NULL is fine */

#endif
