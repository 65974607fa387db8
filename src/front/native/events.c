/* Box life as an event stream. Called through native_routes. Invariant: a slow client delays only its own thread, and a
 * client sees only events that it may see. */
#include <poll.h>

#include "front/events.h"
#include "front/native/native.h"

enum { TICK_MS = 1000, OUT_BYTES = 1 << 20 };

static int native_events_pump(struct http_request *request, struct events_reader *reader,
                              const struct events_filter *filter, struct events_place *place) {
    autobuf out = buf_max(OUT_BYTES);
    buf_puts(&out, "id: "); /* so that a client can resume before the first event */
    events_id(front_of(request)->events, place->number, &out);
    buf_puts(&out, "\n\n");
    for (;;) {
        events_take(reader, filter, place, &out);
        STEP(out.len ? http_reply_write(request, out.data, out.len) : http_reply_alive(request));
        buf_clear(&out);
        struct pollfd wait[2] = {{.fd = http_fd(request), .events = POLLRDHUP},
                                 {.fd = events_fd(reader), .events = POLLIN}};
        if (poll(wait, 2, TICK_MS) < 0 && errno != EINTR)
            return -ERR_INTERNAL;
        if (wait[0].revents || http_server_stopping(front_of(request)->server))
            return 0;
    }
}

int native_events(struct http_request *request, struct box *, struct err *err) {
    struct events *events = front_of(request)->events;
    struct native_args args = {0};
    struct events_place place;
    struct events_reader *reader = NULL;
    STEP(front_query(request, &args, err));
    for (const char *at = args.type.data; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (!events_type(at, strcspn(at, ",")))
            return err_set(err, ERR_INVALID, "'%.*s' is not a type of event", (int)strcspn(at, ","), at);
    for (const char *at = args.box.data; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (!text_id(arena_copy(http_arena(request), at, strcspn(at, ","))))
            return err_set(err, ERR_INVALID, "'%.40s' is not a box id, or several separated by commas", at);
    const struct events_filter filter = {
        .owner = front_who(request)->user, .user = args.user.data, .boxes = args.box.data, .types = args.type.data};
    /* The query wins, else the header that a browser sends when it reconnects. An unknown id is another server's. */
    const char *last = http_header(request, "last-event-id");
    bool resumes = !args.after_id.data && last;
    int failed = events_find(events, resumes ? last : args.after_id.data, &place, err);
    if (failed && resumes) {
        failed = events_find(events, "0", &place, err);
        place.unknown = true;
    }
    failed = failed ?: events_listen(events, filter.owner, &reader, err) ?: http_reply_events(request)
                 ?: native_events_pump(request, reader, &filter, &place);
    events_leave(reader);
    return failed ?: http_reply_end(request);
}
