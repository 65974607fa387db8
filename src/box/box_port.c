/* The verb for servers in a box: a stream to a port of the box's own loopback. Called by the door to ports. Invariant:
 * the stream goes over the wire as frames within credit; no descriptor of a socket that was made in a box ever gets into
 * the daemon (its options would be the box's: a lingering close, a filter). */
#include "base/clock.h"
#include "box/verb.h"

enum { CONNECT_MS = 10000, ANSWER_MS = CONNECT_MS + 5000 };

int box_connect(struct box *box, uint16_t port, int watch, struct call **ret_call, struct err *err) {
    autobuf args = buf_max(64);
    field_number(&args, FIELD_PORT, port);
    field_number(&args, FIELD_TIMEOUT_MS, CONNECT_MS);
    struct call *call;
    int r = call_open(box->wire, OP_CONNECT, &args, NULL, 0, false, &call, err);
    if (r < 0)
        return r;
    const struct call_wait wait = {.fd = watch, .events = POLLRDHUP, .deadline_ms = clock_ms() + ANSWER_MS};
    struct event event;
    r = call_next(call, &wait, &event, err);
    if (r == 0 && event.kind == EVENT_READY)
        r = err_set(err, ERR_GONE, "the client hung up");
    else if (r == 0 && (event.kind != EVENT_STAT || event.fd >= 0)) {
        err_set(err, ERR_PROTOCOL, "the runner did not answer a connection as it should");
        r = verb_broken(box, err);
    }
    if (r < 0)
        call_close(call);
    else
        *ret_call = call;
    return r;
}
