/* Events of boxes, for listeners: a bounded ring of events with increasing ids, and readers of it. */
#ifndef CUBBY_FRONT_EVENTS_H
#define CUBBY_FRONT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "box/policy.h"

struct events;
struct events *events_new(void);
void events_free(struct events *events); /* no reader may be left; NULL is fine */
/* From any thread, with whatever lock held; waits for no reader. */
void events_put(struct events *events, const struct box_event *event);

struct events_filter { /* NULL: any */
    const char *owner; /* the user whose events may be seen */
    const char *user, *box;
    const char *types; /* "died,evicted" */
};

/* A place in the ring: later events have not been sent. */
struct events_place {
    uint64_t number;   /* of the last event sent */
    uint64_t reported; /* missing events up to here were counted */
    bool unknown;      /* an id of an earlier daemon: missed events cannot be counted */
};
bool events_type(const char *name, size_t len); /* whether there are such events */
/* NULL: after the newest; "0": all that is held; else an id. INVALID: anything else. */
int events_find(struct events *events, const char *id, struct events_place *ret_place, struct err *err);
void events_id(struct events *events, uint64_t number, struct buf *out);

struct events_reader;
/* owner NULL: not bound to a user. LIMIT beyond LIMIT_EVENT_STREAMS, or LIMIT_EVENT_STREAMS_PER_USER of one owner. */
int events_listen(struct events *events, const char *owner, struct events_reader **ret_reader, struct err *err);
void events_leave(struct events_reader *reader);   /* NULL is fine */
int events_fd(const struct events_reader *reader); /* readable when there is something new */
/* The events after place as an event stream, some 64 KiB at most; place moves on. out stays empty if there are none. */
void events_take(struct events_reader *reader, const struct events_filter *filter, struct events_place *place,
                 struct buf *out);

#endif
