/* The runner's end of a wire, played in this process for a machine that cannot run our runner: takes the frames of
 * calls, runs each call on a thread of its own, and answers within its credit. Called by text/few.c. Invariant:
 * nothing of a call is sent after its END or FAIL. */
#ifndef CUBBY_BACKEND_ENDPOINT_H
#define CUBBY_BACKEND_ENDPOINT_H

#include <pthread.h>

#include "base/arena.h"
#include "wire/frame.h"

struct endpoint_call;
struct wire_endpoint {
    int fd;
    void *user;
    pthread_mutex_t *lock; /* guards the calls; changed: one was cancelled, got input or credit, or ended */
    pthread_cond_t *changed;
    int (*run)(struct endpoint_call *call, struct err *err);
    struct endpoint_call *calls;
    pthread_mutex_t out; /* one frame at a time; never taken with lock held */
};

struct endpoint_call {
    struct endpoint_call *next;
    struct wire_endpoint *endpoint;
    uint32_t id;
    struct arena arena;
    struct buf raw, input, end; /* end: fields of the END frame */
    struct fields args;
    bool started, eof, cancelled;
    int64_t credit;
};

/* Serves until the other end closes the wire; every call has ended when it returns. */
void endpoint_serve(struct wire_endpoint *endpoint, const char *workspace);
void endpoint_frame(struct wire_endpoint *endpoint, uint8_t type, uint32_t call, uint8_t flags, const void *data,
                    size_t len);
/* Output, or (type ITEM) records that go as a whole. GONE: the call was cancelled. */
int endpoint_data(struct endpoint_call *call, uint8_t type, uint8_t flags, const struct buf *data, struct err *err);
/* Waits for all of the input. call->input.failed: there is more than LIMIT_TEXT_FILE_BYTES. */
void endpoint_collect(struct endpoint_call *call);

#endif
