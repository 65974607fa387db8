/* The runner's side of a wire, played for a box on a machine of the text form: frames of proto.h on one half of a
 * socketpair, a thread for the wire and one for each call. Called by machine_text.c. Not to break: a call's frames are
 * written by its own thread alone, within its credit, and a wire closes only when each of its calls has been answered. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/machine_text_call.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/text.h"

enum { CALL_STACK = 256 << 10, ITEMS_BYTES = 32 << 10, HELLO_MS = 10000, READ_BYTES = 128 << 10 };

struct text_wire {
    struct text_wire *next;
    struct machine_text *text;
    struct text_box *box;
    int fd;
    struct wire_reason *reason; /* what the daemon's side says when it ends */
    pthread_mutex_t out;        /* one frame at a time; never taken with text->lock held */
    struct text_call *calls;
};

static int wire_start(void *(*main)(void *argument), void *argument, struct err *err) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, CALL_STACK);
    pthread_t thread;
    int failed = pthread_create(&thread, &attr, main, argument);
    pthread_attr_destroy(&attr);
    return failed ? err_errno(err, failed, "a thread for a call") : 0;
}

/* ---- out ---- */

static void wire_send(struct text_wire *wire, const struct buf *frames) {
    pthread_mutex_lock(&wire->out);
    size_t at = 0;
    while (at < frames->len) {
        ssize_t n = send(wire->fd, frames->data + at, frames->len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* the daemon let go: the wire's own thread sees that too */
        at += (size_t)n;
    }
    pthread_mutex_unlock(&wire->out);
}

static void wire_frame(struct text_wire *wire, uint8_t type, uint32_t call, uint8_t flags, const void *data,
                       size_t len) {
    autobuf frame;
    buf_init(&frame, LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES);
    frame_put(&frame, type, call, flags, data, len);
    wire_send(wire, &frame);
}

static int call_gone_locked(struct text_call *call, struct err *err) {
    if (call->text->dead)
        return err_set(err, ERR_GONE, "the connection to machine %s ended: %s", call->text->name, call->text->why);
    return call->cancelled || call->gone ? err_set(err, ERR_GONE, "the call was cancelled") : 0;
}

int text_cancelled(struct text_call *call, struct err *err) {
    pthread_mutex_lock(&call->text->lock);
    int r = call_gone_locked(call, err);
    pthread_mutex_unlock(&call->text->lock);
    return r;
}

/* Takes up to `want` bytes of credit, at least one. */
static ssize_t credit_take(struct text_call *call, size_t want, struct err *err) {
    struct machine_text *text = call->text;
    pthread_mutex_lock(&text->lock);
    int r = 0;
    while ((r = call_gone_locked(call, err)) == 0 && call->credit <= 0)
        text_wait_locked(text, 0);
    size_t n = 0;
    if (r == 0) {
        n = (uint64_t)call->credit < want ? (size_t)call->credit : want;
        call->credit -= (int64_t)n;
    }
    pthread_mutex_unlock(&text->lock);
    return r < 0 ? r : (ssize_t)n;
}

int text_stat(struct text_call *call, const struct buf *fields, struct err *err) {
    int r = text_cancelled(call, err);
    if (r == 0)
        wire_frame(call->wire, FRAME_STAT, call->id, 0, fields->data, fields->len);
    return r;
}

int text_data(struct text_call *call, int stream, const void *data, size_t len, struct err *err) {
    const uint8_t *at = data;
    while (len > 0) {
        size_t want = len < LIMIT_FRAME_PAYLOAD_BYTES ? len : LIMIT_FRAME_PAYLOAD_BYTES;
        ssize_t n = credit_take(call, want, err);
        if (n < 0)
            return (int)n;
        wire_frame(call->wire, FRAME_DATA, call->id, (uint8_t)stream, at, (size_t)n);
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

/* A frame of records is sent as a whole: it waits until all of it has credit. */
static int items_flush(struct text_call *call, struct err *err) {
    struct machine_text *text = call->text;
    if (call->items.len == 0)
        return 0;
    pthread_mutex_lock(&text->lock);
    int r = 0;
    while ((r = call_gone_locked(call, err)) == 0 && call->credit < (int64_t)call->items.len)
        text_wait_locked(text, 0);
    call->credit -= r == 0 ? (int64_t)call->items.len : 0;
    pthread_mutex_unlock(&text->lock);
    if (r == 0)
        wire_frame(call->wire, FRAME_ITEM, call->id, 0, call->items.data, call->items.len);
    buf_clear(&call->items);
    return r;
}

int text_item(struct text_call *call, const struct buf *fields, struct err *err) {
    if (fields->failed || fields->len > LIMIT_FRAME_PAYLOAD_BYTES - 4)
        return err_set(err, ERR_TOO_LARGE, "a record of the machine's is larger than a frame");
    if (call->items.len + fields->len + 4 > ITEMS_BYTES) {
        int r = items_flush(call, err);
        if (r < 0)
            return r;
    }
    size_t begin = item_begin(&call->items);
    buf_put(&call->items, fields->data, fields->len);
    item_end(&call->items, begin);
    return 0;
}

/* ---- in ---- */

ssize_t text_input(struct text_call *call, void *data, size_t size, uint64_t wait_ms, struct err *err) {
    struct machine_text *text = call->text;
    uint64_t deadline_ms = wait_ms ? clock_ms() + wait_ms : 0;
    pthread_mutex_lock(&text->lock);
    int r = 0;
    bool in_time = true;
    while ((r = call_gone_locked(call, err)) == 0 && call->input.len == 0 && !call->eof && in_time)
        in_time = text_wait_locked(text, deadline_ms);
    size_t n = call->input.len < size ? call->input.len : size;
    if (r == 0 && n == 0 && !call->eof)
        r = err_set(err, ERR_TIMEOUT, "no input came");
    if (r == 0 && n > 0) {
        memcpy(data, call->input.data, n);
        buf_consume(&call->input, n);
    }
    pthread_mutex_unlock(&text->lock);
    if (r < 0)
        return r;
    if (n > 0) {
        uint8_t credit[4] = {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24)};
        wire_frame(call->wire, FRAME_CREDIT, call->id, 0, credit, sizeof credit);
    }
    return (ssize_t)n;
}

int text_input_all(struct text_call *call, struct buf *out, struct err *err) {
    for (;;) {
        uint8_t piece[16 << 10];
        ssize_t n = text_input(call, piece, sizeof piece, 0, err);
        if (n <= 0)
            return (int)n;
        buf_put(out, piece, (size_t)n);
        if (out->failed)
            return err_set(err, ERR_TOO_LARGE, "the input is larger than the %zu bytes that go in one message",
                           out->max);
    }
}

int text_path(struct text_call *call, enum field_id id, const char **ret_path, struct err *err) {
    const char *given = call->args.text[id];
    if (!given || !*given) {
        *ret_path = call->text->workspace;
        return 0;
    }
    if (!text_utf8(given, strlen(given)))
        return err_set(err, ERR_INVALID,
                       "the runner of machine %s takes only names that are UTF-8; join it with `cubby join`",
                       call->text->name);
    char *path = arena_alloc(&call->arena, LIMIT_PATH_BYTES + 1);
    if (!path_join(path, LIMIT_PATH_BYTES + 1, call->text->workspace, given))
        return err_set(err, ERR_INVALID, "the path is longer than %u bytes", LIMIT_PATH_BYTES);
    *ret_path = path;
    return 0;
}

/* ---- a call ---- */

static int op_ping(struct text_call *call, struct err *err) {
    (void)call;
    (void)err;
    return 0;
}

static int op_exists(struct text_call *call, struct err *err) {
    return err_set(err, ERR_EXISTS, "box %s has an owner already", call->box->id);
}

static const struct {
    enum op op;
    int (*run)(struct text_call *call, struct err *err); /* NULL: why says what is missing */
    const char *why;
} ops[] = {
    {OP_PING, op_ping, NULL},
    {OP_EXEC, text_op_exec, NULL},
    {OP_PS, text_op_ps, NULL},
    {OP_OUTPUT, text_op_output, NULL},
    {OP_INPUT, text_op_input, NULL},
    {OP_SIGNAL, text_op_signal, NULL},
    {OP_RESIZE, text_op_resize, NULL},
    {OP_ATTACH, text_op_attach, NULL},
    {OP_READ, text_op_read, NULL},
    {OP_WRITE, text_op_write, NULL},
    {OP_STAT, text_op_stat, NULL},
    {OP_MKDIR, text_op_mkdir, NULL},
    {OP_REMOVE, text_op_remove, NULL},
    {OP_LIST, text_op_list, NULL},
    {OP_MOVE, text_op_move, NULL},
    {OP_GLOB, text_op_glob, NULL},
    {OP_GREP, text_op_grep, NULL},
    {OP_HASH, text_op_hash, NULL},
    {OP_TAR_OUT, text_op_tar_out, NULL},
    {OP_TAR_IN, text_op_tar_in, NULL},
    {OP_EDIT, text_op_edit, NULL},
    {OP_BIND, op_exists, NULL},
    {OP_WATCH, NULL, "cannot watch files"},
    {OP_CONNECT, NULL, "cannot reach servers on that machine"},
    {OP_DIFF, NULL, "has no template to compare with"},
};

static int call_run(struct text_call *call, struct err *err) {
    int r = fields_parse(view_of(call->raw.data, call->raw.len), &call->arena, &call->args, err);
    if (r < 0)
        return r;
    call->op = (enum op)call->args.number[FIELD_OP];
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (ops[i].op != call->op)
            continue;
        if (!ops[i].run)
            return err_set(err, ERR_UNSUPPORTED, "the runner of machine %s %s; `cubby join` can", call->text->name,
                           ops[i].why);
        return ops[i].run(call, err);
    }
    return err_set(err, ERR_UNSUPPORTED, "machine %s has no such op", call->text->name);
}

static void call_free(struct text_call *call) {
    buf_done(&call->raw);
    buf_done(&call->input);
    buf_done(&call->items);
    buf_done(&call->end);
    arena_done(&call->arena);
    free(call);
}

static void call_end(struct text_call *call) {
    struct machine_text *text = call->text;
    pthread_mutex_lock(&text->lock);
    struct text_call **at = &call->wire->calls;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    pthread_cond_broadcast(&text->changed);
    pthread_mutex_unlock(&text->lock);
    call_free(call);
    machine_text_unref(text);
}

static void *call_main(void *argument) {
    struct text_call *call = argument;
    struct err err = {0};
    int r = call_run(call, &err);
    struct err late;
    int flushed = items_flush(call, &late); /* what was found before it failed is told too */
    if (r >= 0 && flushed < 0) {
        r = flushed;
        err = late;
    }
    if (r < 0) {
        buf_clear(&call->end);
        call->end.failed = false;
        field_number(&call->end, FIELD_CODE, (uint64_t)err.code);
        field_text(&call->end, FIELD_MESSAGE, err.text);
    }
    wire_frame(call->wire, r < 0 ? FRAME_FAIL : FRAME_END, call->id, 0, call->end.data, call->end.len);
    call_end(call);
    return NULL;
}

static void call_cancel_locked(struct text_call *call, const char *why) {
    call->cancelled = true;
    if (call->transfer)
        machine_transfer_fail(call->transfer, why);
}

static struct text_call *call_find_locked(struct text_wire *wire, uint32_t id) {
    struct text_call *call = wire->calls;
    while (call && call->id != id)
        call = call->next;
    return call;
}

static struct text_call *call_new(struct text_wire *wire, uint32_t id) {
    struct text_call *call = calloc(1, sizeof *call);
    if (!call)
        abort();
    call->wire = wire;
    call->text = machine_text_ref(wire->text);
    call->box = wire->box;
    call->id = id;
    call->credit = LIMIT_CREDIT_BYTES;
    arena_init(&call->arena);
    buf_init(&call->raw, LIMIT_CALL_ARGS_BYTES);
    buf_init(&call->input, LIMIT_CREDIT_BYTES);
    buf_init(&call->items, LIMIT_FRAME_PAYLOAD_BYTES);
    buf_init(&call->end, LIMIT_FRAME_PAYLOAD_BYTES);
    call->next = wire->calls;
    wire->calls = call;
    return call;
}

static int wire_call_locked(struct text_wire *wire, const struct frame *frame, struct err *err) {
    struct text_call *call = call_find_locked(wire, frame->call);
    if (!call)
        call = call_new(wire, frame->call);
    buf_put(&call->raw, frame->payload, frame->len);
    if (frame->flags & FLAG_MORE)
        return 0;
    call->started = wire_start(call_main, call, err) == 0;
    if (call->started)
        return 0;
    struct text_call **at = &wire->calls; /* then the whole wire ends: this is out of threads or memory */
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    call_free(call);
    machine_text_unref(wire->text);
    return -err->code;
}

static int wire_frame_in(struct text_wire *wire, const struct frame *frame, struct err *err) {
    struct machine_text *text = wire->text;
    int r = 0;
    pthread_mutex_lock(&text->lock);
    struct text_call *call = call_find_locked(wire, frame->call);
    switch (frame->type) {
    case FRAME_HELLO:
        break;
    case FRAME_CALL:
        r = wire_call_locked(wire, frame, err);
        break;
    case FRAME_DATA:
        if (call)
            buf_put(&call->input, frame->payload, frame->len);
        if (call && call->input.failed)
            r = err_set(err, ERR_PROTOCOL, "input beyond its credit");
        break;
    case FRAME_CREDIT:
        if (call && frame->len == 4)
            call->credit += (int64_t)((uint32_t)frame->payload[0] | (uint32_t)frame->payload[1] << 8 |
                                      (uint32_t)frame->payload[2] << 16 | (uint32_t)frame->payload[3] << 24);
        break;
    case FRAME_EOF:
        if (call)
            call->eof = true;
        break;
    case FRAME_CANCEL:
        if (call)
            call_cancel_locked(call, "the call was cancelled");
        break;
    default:
        r = err_set(err, ERR_PROTOCOL, "an unexpected frame");
    }
    pthread_cond_broadcast(&text->changed);
    pthread_mutex_unlock(&text->lock);
    return r;
}

static int wire_read(struct text_wire *wire, struct buf *in, struct err *err) {
    uint8_t *room = buf_reserve(in, READ_BYTES);
    ssize_t n = room ? recv(wire->fd, room, READ_BYTES, 0) : -1;
    if (n < 0 && errno == EINTR)
        return 0;
    if (n <= 0)
        return err_set(err, ERR_GONE, "the daemon let go");
    in->len += (size_t)n;
    size_t at = 0;
    int r;
    struct frame frame;
    while ((r = frame_parse(in->data + at, in->len - at, &frame, err)) > 0) {
        r = wire_frame_in(wire, &frame, err);
        if (r < 0)
            return r;
        at += FRAME_HEAD_BYTES + frame.len;
    }
    buf_consume(in, at);
    return r;
}

/* Nobody asks any more: calls under way end with it, and what they answer is still sent. */
static void wire_end(struct text_wire *wire) {
    struct machine_text *text = wire->text;
    pthread_mutex_lock(&text->lock);
    for (struct text_call **at = &wire->calls, *call; (call = *at);) {
        call->gone = true;
        call_cancel_locked(call, "nobody waits for it any more");
        if (call->started) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        call_free(call);
        machine_text_unref(text); /* not the last: the wire has one */
    }
    pthread_cond_broadcast(&text->changed);
    while (wire->calls)
        text_wait_locked(text, 0);
    struct text_wire **at = &text->wires;
    while (*at != wire)
        at = &(*at)->next;
    *at = wire->next;
    pthread_mutex_unlock(&text->lock);
    fd_close(&wire->fd);
    wire_reason_unref(wire->reason);
    pthread_mutex_destroy(&wire->out);
    free(wire);
    machine_text_unref(text);
}

static void *wire_main(void *argument) {
    struct text_wire *wire = argument;
    autobuf in;
    buf_init(&in, LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES + READ_BYTES);
    autobuf hello;
    buf_init(&hello, LIMIT_PATH_BYTES + 256);
    size_t begin = frame_begin(&hello, FRAME_HELLO, 0, 0);
    field_number(&hello, FIELD_VERSION, PROTO_VERSION);
    field_number(&hello, FIELD_FEATURES, FEATURE_EDIT);
    field_text(&hello, FIELD_WORKSPACE, wire->text->workspace);
    frame_end(&hello, begin);
    wire_send(wire, &hello);
    struct err err;
    while (wire_read(wire, &in, &err) >= 0)
        ;
    shutdown(wire->fd, SHUT_RD);
    wire_end(wire);
    return NULL;
}

void text_wires_end_locked(struct machine_text *text) {
    char why[300];
    snprintf(why, sizeof why, "the connection to machine %s ended: %s", text->name, text->why);
    for (struct text_wire *wire = text->wires; wire; wire = wire->next) {
        for (struct text_call *call = wire->calls; call; call = call->next)
            if (call->transfer)
                machine_transfer_fail(call->transfer, text->why);
        wire_reason_set(wire->reason, why);
        shutdown(wire->fd, SHUT_RD);
    }
}

int text_wire_open(struct machine_text *text, struct text_box *box, struct wire **ret_wire, struct err *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "a wire to machine %s", text->name);
    struct text_wire *wire = calloc(1, sizeof *wire);
    if (!wire)
        abort();
    struct wire_reason *reason = wire_reason_new();
    *wire = (struct text_wire){
        .text = machine_text_ref(text), .box = box, .fd = pair[0], .reason = wire_reason_ref(reason)};
    pthread_mutex_init(&wire->out, NULL);
    pthread_mutex_lock(&text->lock);
    wire->next = text->wires;
    text->wires = wire;
    if (text->dead) /* it died just now: this one hears of it as well */
        shutdown(wire->fd, SHUT_RD);
    pthread_mutex_unlock(&text->lock);
    int r = wire_start(wire_main, wire, err);
    if (r < 0) {
        close(pair[1]);
        wire_end(wire);
        wire_reason_unref(reason);
        return r;
    }
    r = wire_new(pair[1], WIRE_PASS_NOTHING, HELLO_MS, ret_wire, err);
    if (r == 0)
        wire_set_reason(*ret_wire, reason);
    wire_reason_unref(reason);
    return r;
}
