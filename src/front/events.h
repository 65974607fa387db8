/* What happens to boxes, for whoever listens: a bounded ring of events with increasing ids, and readers of it. */
#ifndef CUBBY_FRONT_EVENTS_H
#define CUBBY_FRONT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "box/policy.h"

struct events;
struct events *events_new(void);
void events_free(struct events *events); /* nobody may be listening any more; NULL is fine */
/* From any thread, with whatever lock held; waits for no reader. */
void events_put(struct events *events, const struct box_event *event);

struct events_filter { /* NULL: any */
    const char *owner; /* whose events may be seen */
    const char *user, *box;
    const char *types; /* "died,evicted" */
};

/* A place in the ring: what comes after it is still to be told. */
struct events_place {
    uint64_t number;   /* of the last event sent */
    uint64_t reported; /* what is missing up to here was counted */
    bool unknown;      /* an id of another daemon's life: what was missed cannot be counted */
};
bool events_type(const char *name, size_t len); /* whether there are such events */
/* NULL: after the newest; "0": all that is held; else an id. INVALID when it is none of these. */
int events_find(struct events *events, const char *id, struct events_place *ret_place, struct err *err);
void events_id(struct events *events, uint64_t number, struct buf *out);

struct events_reader;
/* owner NULL: not bound to a user. LIMIT beyond LIMIT_EVENT_STREAMS, or LIMIT_EVENT_STREAMS_PER_USER of one owner. */
int events_listen(struct events *events, const char *owner, struct events_reader **ret_reader, struct err *err);
void events_leave(struct events_reader *reader);   /* NULL is fine */
int events_fd(const struct events_reader *reader); /* readable when there is something new */
/* What came after place as an event stream, some 64 KiB at most; place moves on. out stays empty when there is nothing. */
void events_take(struct events_reader *reader, const struct events_filter *filter, struct events_place *place,
                 struct buf *out);

#endif
