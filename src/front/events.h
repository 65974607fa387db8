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
void events_free(struct events *events); /* no reader may be left; NULL is allowed */
/* Callable from any thread, with any lock held. Never waits for a reader. */
void events_put(struct events *events, const struct box_event *event);

struct events_filter { /* NULL: any */
    const char *owner; /* the user whose events may be seen */
    const char *user;
    const char *boxes; /* "id,id" */
    const char *types; /* "died,evicted" */
};

/* A position in the ring: later events have not been sent. */
struct events_place {
    uint64_t number;   /* of the last event sent */
    uint64_t reported; /* missing events up to here were counted */
    bool unknown;      /* the id is an earlier daemon's: missed events cannot be counted */
};
bool events_type(const char *name, size_t len); /* whether it names a type of event */
/* id NULL: after the newest event; "0": all held events; else an event's id. INVALID: anything else. */
int events_find(struct events *events, const char *id, struct events_place *ret_place, struct err *err);
void events_id(struct events *events, uint64_t number, struct buf *out);

struct events_reader;
/* owner NULL: any user's events. LIMIT: more than LIMIT_EVENT_STREAMS, or LIMIT_EVENT_STREAMS_PER_USER of one owner. */
int events_listen(struct events *events, const char *owner, struct events_reader **ret_reader, struct err *err);
void events_leave(struct events_reader *reader);   /* NULL is allowed */
int events_fd(const struct events_reader *reader); /* readable when there are new events */
/* Writes the events after place as an event stream, about 64 KiB at most, and advances place. out may stay empty. */
void events_take(struct events_reader *reader, const struct events_filter *filter, struct events_place *place,
                 struct buf *out);

#endif
