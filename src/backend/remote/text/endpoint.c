/* The runner's end of a wire, played in this process for a machine that cannot run our runner: takes the frames of
 * calls, runs each call on a thread of its own, and answers within its credit. Called by text/few.c. Invariant:
 * nothing of a call is sent after its END or FAIL. */
#include <sys/socket.h>

#include "base/base.h"
#include "backend/remote/text/call.h"
#include "base/sync.h"

enum { READ_BYTES = 128 << 10, CALL_STACK = 256 << 10 };

void endpoint_frame(struct text_wire *wire, uint8_t type, uint32_t call, uint8_t flags, const void *data, size_t len) {
    autobuf frame = buf_max(LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES);
    frame_put(&frame, type, call, flags, data, len);
    autolock(&wire->out);
    for (size_t at = 0; at < frame.len;) {
        ssize_t n = send(wire->fd, frame.data + at, frame.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* the daemon closed the wire: endpoint_serve sees that too */
        at += (size_t)n;
    }
}

int endpoint_data(struct text_call *call, uint8_t type, uint8_t flags, const struct buf *data, struct err *err) {
    struct text_wire *wire = call->wire;
    for (size_t at = 0, n; at < data->len; at += n) {
        n = data->len - at < LIMIT_FRAME_PAYLOAD_BYTES / 2 ? data->len - at : LIMIT_FRAME_PAYLOAD_BYTES / 2;
        pthread_mutex_lock(&wire->text->lock);
        while (call->credit < (int64_t)n && !call->cancelled)
            cond_wait_until(&wire->text->changed, &wire->text->lock, 0);
        call->credit -= (int64_t)n;
        bool cancelled = call->cancelled;
        pthread_mutex_unlock(&wire->text->lock);
        if (cancelled)
            return err_set(err, ERR_GONE, "the call was cancelled");
        endpoint_frame(wire, type, call->id, flags, data->data + at, n);
    }
    return 0;
}

void endpoint_collect(struct text_call *call) {
    struct text_wire *wire = call->wire;
    autobuf credit = buf_max(4);
    buf_u32(&credit, LIMIT_TEXT_FILE_BYTES); /* with the credit that a call begins with, more than may come */
    endpoint_frame(wire, FRAME_CREDIT, call->id, 0, credit.data, credit.len);
    autolock(&wire->text->lock);
    while (!call->eof && !call->cancelled && !call->input.failed)
        cond_wait_until(&wire->text->changed, &wire->text->lock, 0);
}

static void endpoint_call_free(struct text_call *call) {
    list_remove(call->wire->calls, call);
    buf_done(&call->raw);
    buf_done(&call->input);
    buf_done(&call->end);
    arena_done(&call->arena);
    free(call);
}

static void *endpoint_call_main(void *argument) {
    struct text_call *call = argument;
    struct text_wire *wire = call->wire;
    struct err err = {0};
    int r = fields_parse(view_of(call->raw.data, call->raw.len), &call->arena, &call->args, &err)
                ?: text_few_run(call, &err);
    if (r < 0) {
        buf_clear(&call->end);
        field_number(&call->end, FIELD_CODE, (uint64_t)err.code);
        field_text(&call->end, FIELD_MESSAGE, err.text);
    }
    endpoint_frame(wire, r < 0 ? FRAME_FAIL : FRAME_END, call->id, 0, call->end.data, call->end.len);
    pthread_mutex_t *lock = &wire->text->lock;
    autolock(lock);
    endpoint_call_free(call);
    pthread_cond_broadcast(&wire->text->changed);
    return NULL;
}

static int endpoint_take_locked(struct text_wire *wire, const struct frame *frame, struct err *err) {
    struct text_call *call = list_find(wire->calls, open, open->id == frame->call);
    if (!call && frame->type == FRAME_CALL) {
        call = xcalloc(1, sizeof *call);
        *call = (struct text_call){.next = wire->calls, .wire = wire, .id = frame->call};
        call->credit = LIMIT_CREDIT_BYTES;
        arena_init(&call->arena);
        buf_init(&call->raw, LIMIT_CALL_ARGS_BYTES);
        buf_init(&call->input, LIMIT_TEXT_FILE_BYTES);
        buf_init(&call->end, LIMIT_FRAME_PAYLOAD_BYTES);
        wire->calls = call;
    }
    if (!call)
        return 0;
    if (frame->type == FRAME_CALL) {
        buf_put(&call->raw, frame->payload, frame->len);
        call->started = !(frame->flags & FLAG_MORE);
        int failed = call->started ? thread_detached(endpoint_call_main, call, CALL_STACK) : 0;
        call->started &= !failed;
        return failed ? err_errno(err, failed, "a thread for a call") : 0;
    }
    if (frame->type == FRAME_DATA)
        buf_put(&call->input, frame->payload, frame->len);
    if (frame->type == FRAME_CREDIT && frame->len == 4) {
        struct view view = view_of(frame->payload, 4);
        call->credit += view_u32(&view);
    }
    call->eof |= frame->type == FRAME_EOF;
    call->cancelled |= frame->type == FRAME_CANCEL;
    pthread_cond_broadcast(&wire->text->changed);
    return 0;
}

void endpoint_serve(struct text_wire *wire) {
    autobuf in = buf_max(LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES + READ_BYTES);
    autobuf hello = buf_max(LIMIT_PATH_BYTES + 256);
    pthread_mutex_init(&wire->out, NULL);
    field_number(&hello, FIELD_VERSION, PROTO_VERSION);
    field_number(&hello, FIELD_FEATURES, 0);
    field_text(&hello, FIELD_WORKSPACE, wire->text->workspace);
    endpoint_frame(wire, FRAME_HELLO, 0, 0, hello.data, hello.len);
    for (int r = 0; r >= 0;) {
        struct err err;
        struct frame frame;
        uint8_t *room = buf_reserve(&in, READ_BYTES);
        ssize_t n = room ? recv(wire->fd, room, READ_BYTES, 0) : -1;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        in.len += (size_t)n;
        size_t at = 0;
        while ((r = frame_parse(in.data + at, in.len - at, &frame, &err)) > 0) {
            pthread_mutex_lock(&wire->text->lock);
            r = endpoint_take_locked(wire, &frame, &err);
            pthread_mutex_unlock(&wire->text->lock);
            if (r < 0)
                break;
            at += FRAME_HEAD_BYTES + frame.len;
        }
        buf_consume(&in, at);
    }
    pthread_mutex_lock(&wire->text->lock);
    for (struct text_call *call = wire->calls, *next; call; call = next) {
        next = call->next;
        call->cancelled = true;
        if (!call->started)
            endpoint_call_free(call);
    }
    pthread_cond_broadcast(&wire->text->changed);
    while (wire->calls)
        cond_wait_until(&wire->text->changed, &wire->text->lock, 0);
    pthread_mutex_unlock(&wire->text->lock);
    pthread_mutex_destroy(&wire->out);
}
