/* The inside of a wire, shared by wire.c and call.c only. */
#ifndef CUBBY_WIRE_LEAD_H
#define CUBBY_WIRE_LEAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "wire/demux.h"

/* A thread that waits while another leads. On its own stack, in the wire's list. */
struct waiter {
    struct waiter *next, **prev;
    struct call *call; /* NULL: waits to send */
    int wake_fd;
};

struct wire {
    atomic_uint refs;
    int fd;
    uint64_t patience_ms; /* set once, before anybody else has the wire */
    uid_t uid;
    gid_t gid;
    pthread_mutex_t send_lock; /* one frame after the other; taken before `lock`, never the other way round */
    pthread_mutex_t lock;      /* everything below */
    struct demux demux;        /* its read buffer: the leader's, without the lock */
    bool leading;
    struct waiter *followers, *heir;
    bool dead;
    struct err death;
    struct wire_reason *reason; /* NULL: none knows better */
};

/* 0, or why it died, as every call on it reports it. With the lock held. */
int wire_death_locked(const struct wire *wire, struct err *err);
/* Sends whole frames; waits while the socket is full, and demultiplexes input in the meantime. GONE when the wire is
 * dead. */
int wire_send(struct wire *wire, const void *data, size_t len, struct err *err);
/* Waits once, leading or following, until something may have changed. With the lock held, before and after. True: a
 * descriptor of wait has an event, *ret_revents that of fd; at the deadline just returns. call: the call whose
 * events are awaited. */
bool wire_wait_locked(struct wire *wire, struct call *call, const struct call_wait *wait, short *ret_revents);
/* Before the first call on an idle wire: a runner that has spoken without being asked would answer it before it is
 * sent. */
void wire_quiet_locked(struct wire *wire);
/* To be called before letting go of the lock for good after wire_wait_locked. */
void wire_leave_locked(struct wire *wire);

#endif
