/* Box life as an event stream. Called through native_routes. Invariant: a client that reads slowly or not at all holds up
 * its own thread and nothing else, and sees only what it may see. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "front/events.h"
#include "front/native/native.h"
#include "front/native/args.h"

enum { TICK_MS = 1000, OUT_BYTES = 1 << 20 };

static int native_events_filter(struct http_request *request, const struct events_args *args,
                                struct events_filter *ret_filter, struct err *err) {
    for (const char *at = args->type.data; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (!events_type(at, strcspn(at, ",")))
            return err_set(err, ERR_INVALID, "there are no events of type '%.*s'", (int)strcspn(at, ","), at);
    if (args->box.data && !text_id(args->box.data))
        return err_set(err, ERR_INVALID, "'%.40s' is no box id", args->box.data);
    *ret_filter = (struct events_filter){
        .owner = front_who(request)->user, .user = args->user.data, .box = args->box.data, .types = args->type.data};
    return 0;
}

/* The query's word, else what a browser sends when it comes back. One that is no id of ours is from somewhere else. */
static int native_events_place(struct http_request *request, const struct events_args *args,
                               struct events_place *ret_place, struct err *err) {
    struct events *events = front_of(request)->events;
    const char *last = http_header(request, "last-event-id");
    if (args->after.data || !last)
        return events_find(events, args->after.data, ret_place, err);
    if (events_find(events, last, ret_place, err) == 0)
        return 0;
    int failed = events_find(events, "0", ret_place, err);
    ret_place->unknown = true;
    return failed;
}

static int native_events_pump(struct http_request *request, struct events_reader *reader,
                              const struct events_filter *filter, struct events_place *place) {
    autobuf out = buf_max(OUT_BYTES);
    buf_puts(&out, "id: "); /* a place to come back to before anything has happened */
    events_id(front_of(request)->events, place->number, &out);
    buf_puts(&out, "\n\n");
    for (;;) {
        events_take(reader, filter, place, &out);
        int failed = out.len ? http_reply_write(request, out.data, out.len) : http_reply_alive(request);
        if (failed)
            return failed;
        buf_clear(&out);
        struct pollfd wait[2] = {{.fd = http_fd(request), .events = POLLRDHUP},
                                 {.fd = events_fd(reader), .events = POLLIN}};
        if (poll(wait, 2, TICK_MS) < 0 && errno != EINTR)
            return -ERR_INTERNAL;
        if (wait[0].revents || http_server_stopping(front_of(request)->server))
            return 0;
    }
}

int native_events(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    struct events_args args = {0};
    struct events_filter filter;
    struct events_place place;
    struct events_reader *reader = NULL;
    int failed = front_query(request, &args, err);
    if (!failed)
        failed = native_events_filter(request, &args, &filter, err);
    if (!failed)
        failed = native_events_place(request, &args, &place, err);
    if (!failed)
        failed = events_listen(front_of(request)->events, filter.owner, &reader, err);
    if (!failed)
        failed = http_reply_events(request);
    if (!failed)
        failed = native_events_pump(request, reader, &filter, &place);
    events_leave(reader);
    return failed ? failed : http_reply_end(request);
}
