/* Calls: opening, the next event, input, cancelling. Called by the verbs (box/). One call
 * belongs to one thread at a time; different calls of one wire may be anybody's. Invariant: credit is given back only
 * for what the caller has finished with, so a slow caller holds up its own call and no other. */
#include <assert.h>

#include "base/base.h"
#include "base/sync.h"
#include "wire/frame.h"
#include "wire/wire_private.h"

/* How many events may be handed out before the caller's own descriptor is looked at, however much is queued. */
enum { LOOK_EVERY = 32, PIECE_BYTES = 256 << 10 };

/* The CALL frames: OP first, then the arguments, cut wherever a frame is full. */
static int call_put_args(struct buf *out, uint32_t id, enum op op, const struct buf *args, struct err *err) {
    autobuf whole = buf_max(LIMIT_CALL_ARGS_BYTES);
    field_number(&whole, FIELD_OP, op);
    if (args)
        buf_put(&whole, args->data, args->len);
    if (whole.failed || (args && args->failed))
        return err_set(err, ERR_TOO_LARGE, "the arguments are larger than %u bytes", LIMIT_CALL_ARGS_BYTES);
    size_t at = 0;
    do {
        size_t piece = whole.len - at;
        bool more = piece > LIMIT_FRAME_PAYLOAD_BYTES;
        piece = more ? LIMIT_FRAME_PAYLOAD_BYTES : piece;
        frame_put(out, FRAME_CALL, id, more ? FLAG_MORE : 0, whole.data + at, piece);
        at += piece;
    } while (at < whole.len);
    return 0;
}

static struct call *call_new(struct wire *wire, size_t input_len, struct err *err) {
    struct call *call = NULL;
    autolock(&wire->lock);
    wire_quiet_locked(wire);
    if (wire_death_locked(wire, err) < 0)
        return NULL;
    if (!(call = demux_add(&wire->demux))) {
        err_set(err, ERR_BUSY, "the box has %u calls open, which is the limit", LIMIT_CALLS_PER_WIRE);
        return NULL;
    }
    call->wire = wire_ref(wire);
    call->credit -= (uint32_t)input_len;
    return call;
}

int call_open(struct wire *wire, enum op op, const struct buf *args, const void *input, size_t input_len, bool eof,
              struct call **ret_call, struct err *err) {
    assert(input_len <= LIMIT_FRAME_PAYLOAD_BYTES);
    struct call *call = call_new(wire, input_len, err);
    if (!call)
        return -err->code;
    autobuf frames = buf_max(LIMIT_CALL_ARGS_BYTES + 2 * LIMIT_FRAME_PAYLOAD_BYTES);
    int r = call_put_args(&frames, call->id, op, args, err);
    if (r < 0) {
        pthread_mutex_lock(&wire->lock);
        demux_forget(&wire->demux, call);
        pthread_mutex_unlock(&wire->lock);
        wire_unref(wire);
        return r;
    }
    if (input_len)
        frame_put(&frames, FRAME_DATA, call->id, STREAM_INPUT, input, input_len);
    if (eof)
        frame_put(&frames, FRAME_EOF, call->id, 0, NULL, 0);
    call->eof_sent = eof;
    r = wire_send(wire, frames.data, frames.len, err);
    if (r < 0)
        call_close(call);
    else
        *ret_call = call;
    return r;
}

int call_post(struct wire *wire, enum op op, const struct buf *args, struct err *err) {
    struct call *call;
    TRY(call_open(wire, op, args, NULL, 0, false, &call, err));
    call->cancelled = true; /* it is not taken back: its END may come whenever a thread reads */
    call_close(call);
    return 0;
}

static void call_send_frame(struct call *call, uint8_t type, const void *payload, size_t len) {
    autobuf frame = buf_max(64);
    frame_put(&frame, type, call->id, 0, payload, len);
    wire_send(call->wire, frame.data, frame.len, ERR_IGNORED); /* a wire that cannot send is dead: call_next says so */
}

/* The caller is done with the event it got last: gives credit back in steps of half a window. Of one that has grown,
 * smaller ones: what is given back comes a round trip later, and the rest of the window has to last until then. */
static void call_return_credit(struct call *call) {
    call->unreturned += call->used;
    call->used = 0;
    uint32_t step = call->span / 4; /* the owner's thread alone changes it */
    if (call->unreturned < (step > LIMIT_CREDIT_BYTES / 2 ? step : LIMIT_CREDIT_BYTES / 2))
        return;
    pthread_mutex_lock(&call->wire->lock);
    bool ended = call->ended || call->wire->dead;
    uint32_t more = ended ? 0 : demux_grant(&call->wire->demux, call, call->unreturned);
    pthread_mutex_unlock(&call->wire->lock);
    call->unreturned = 0;
    uint8_t payload[4] = {(uint8_t)more, (uint8_t)(more >> 8), (uint8_t)(more >> 16), (uint8_t)(more >> 24)};
    if (!ended)
        call_send_frame(call, FRAME_CREDIT, payload, sizeof payload);
}

/* The next record of out, which is the owner's: no lock. Much DATA goes out piece by piece, so that credit for the
 * first goes back while the caller has the next. */
static int call_take(struct call *call, struct event *ret_event, struct err *err) {
    struct view view = view_of(call->out.data + call->taken, call->out.len - call->taken);
    struct event event = {.kind = (enum event_kind)view_u8(&view), .stream = view_u8(&view), .fd = -1};
    event.len = view_u32(&view);
    event.data = view_take(&view, event.len);
    assert(!view.bad);
    call->taken = call->out.len - view.len;
    if (event.kind == EVENT_DATA) {
        event.data += call->piece;
        event.len -= call->piece;
        if (event.len > PIECE_BYTES) {
            call->taken -= RECORD_HEAD_BYTES + call->piece + event.len;
            event.len = PIECE_BYTES;
            call->piece += PIECE_BYTES;
        } else {
            call->piece = 0;
        }
    }
    if (event.kind == EVENT_DATA || event.kind == EVENT_ITEM)
        call->used = (uint32_t)event.len;
    if (event.kind == EVENT_STAT)
        event.fd = fd_take(&call->stat_fd);
    if (event.kind == EVENT_END && call->fail_code) {
        struct view fields = view_of(event.data, event.len);
        struct field field;
        err_set(err, (enum err_code)call->fail_code, "the runner failed");
        while (field_next(&fields, &field, ERR_IGNORED) > 0)
            if (field.id == FIELD_MESSAGE)
                err_set(err, (enum err_code)call->fail_code, "%.*s", (int)field.len, (const char *)field.data);
            else if (field.id == FIELD_ERRNO) /* it follows MESSAGE */
                err_wire_take(err, field.number);
        return -call->fail_code;
    }
    *ret_event = event;
    return 0;
}

/* 1: something for the caller, in out or *ret_event; 0: nothing yet; negative: nothing will come. */
static int call_look_locked(struct call *call, struct event *ret_event, struct err *err) {
    if (call->input_ready) {
        call->input_ready = false;
        *ret_event = (struct event){.kind = EVENT_INPUT, .fd = -1};
        return 1;
    }
    if (call->in.len) {
        buf_clear(&call->out);
        struct buf empty = call->out;
        call->out = call->in;
        call->in = empty;
        call->tail = SIZE_MAX;
        call->taken = 0;
        return 1;
    }
    TRY(wire_death_locked(call->wire, err));
    if (call->ended)
        return err_set(err, ERR_INTERNAL, "the call has ended");
    return 0;
}

/* The caller's descriptors without waiting; they must not starve while the runner has more and more to say. */
static bool call_peek(struct call *call, const struct call_wait *wait, short *ret_revents) {
    if (!wait || (wait->fd < 0 && !wait->also) || ++call->since_look < LOOK_EVERY)
        return false;
    call->since_look = 0;
    struct pollfd look[2] = {{.fd = wait->fd, .events = wait->events}, {.fd = -1}};
    if (wait->also)
        look[1] = *wait->also;
    if (poll(look, 2, 0) <= 0)
        return false;
    *ret_revents = look[0].revents;
    if (wait->also)
        wait->also->revents = look[1].revents;
    return true;
}

int call_next(struct call *call, const struct call_wait *wait, struct event *ret_event, struct err *err) {
    struct wire *wire = call->wire;
    short revents = 0;
    call_return_credit(call);
    bool ready = call_peek(call, wait, &revents);
    if (ready) {
        *ret_event = (struct event){.kind = EVENT_READY, .revents = revents, .fd = -1};
        return 0;
    }
    if (call->taken < call->out.len)
        return call_take(call, ret_event, err);
    struct event event = {.kind = EVENT_STAT, .fd = -1};
    pthread_mutex_lock(&wire->lock);
    int r;
    while ((r = call_look_locked(call, &event, err)) == 0) {
        if (ready) {
            event = (struct event){.kind = EVENT_READY, .revents = revents, .fd = -1};
            call->since_look = 0;
            r = 1;
            break;
        }
        if (wait && wait->deadline_ms && clock_ms() >= wait->deadline_ms) {
            r = err_set(err, ERR_TIMEOUT, "the runner did not answer in time");
            break;
        }
        ready = wire_wait_locked(wire, call, wait, &revents);
    }
    wire_leave_locked(wire);
    pthread_mutex_unlock(&wire->lock);
    TRY(r);
    if (event.kind == EVENT_STAT) /* not set: the event is in out */
        return call_take(call, ret_event, err);
    *ret_event = event;
    return 0;
}

ssize_t call_send(struct call *call, const void *data, size_t len, struct err *err) {
    const char *at = data;
    size_t left = len;
    while (left > 0) {
        pthread_mutex_lock(&call->wire->lock);
        bool dead = wire_death_locked(call->wire, err) < 0, ended = call->ended;
        size_t take = call->credit < left ? call->credit : left;
        take = take < LIMIT_FRAME_PAYLOAD_BYTES ? take : LIMIT_FRAME_PAYLOAD_BYTES;
        call->credit -= (uint32_t)take;
        call->input_wanted = take == 0;
        pthread_mutex_unlock(&call->wire->lock);
        if (dead)
            return -err->code;
        if (ended || take == 0)
            break; /* ended: the rest has no reader; call_next has the END */
        autobuf frame = buf_max(FRAME_HEAD_BYTES + LIMIT_FRAME_PAYLOAD_BYTES);
        frame_put(&frame, FRAME_DATA, call->id, STREAM_INPUT, at, take);
        TRY(wire_send(call->wire, frame.data, frame.len, err));
        at += take;
        left -= take;
    }
    return (ssize_t)(len - left);
}

int call_send_eof(struct call *call, struct err *err) {
    if (call->eof_sent)
        return 0;
    call->eof_sent = true;
    uint8_t head[FRAME_HEAD_BYTES];
    struct buf frame = {.data = head, .cap = sizeof head, .max = sizeof head};
    frame_put(&frame, FRAME_EOF, call->id, 0, NULL, 0);
    return wire_send(call->wire, head, sizeof head, err);
}

void call_cancel(struct call *call) {
    pthread_mutex_lock(&call->wire->lock);
    bool over = call->ended || call->wire->dead || call->cancelled;
    pthread_mutex_unlock(&call->wire->lock);
    if (over)
        return;
    call->cancelled = true;
    call_send_frame(call, FRAME_CANCEL, NULL, 0);
}

void call_close(struct call *call) {
    if (!call)
        return;
    struct wire *wire = call->wire;
    call_cancel(call);
    pthread_mutex_lock(&wire->lock);
    demux_give_up(&wire->demux, call);
    if (!wire->leading)
        demux_rest(&wire->demux);
    pthread_mutex_unlock(&wire->lock);
    wire_unref(wire);
}
