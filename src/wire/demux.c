/* Every byte a runner sends comes through here and is treated as hostile. Called by wire.c with the wire's lock
 * held, and by the fuzzer. Invariant: the data of a call is bounded by the credit it was given plus one STAT and one
 * END, and anything a runner may not send returns -ERR_PROTOCOL, which ends the wire and nothing else. */
#include "wire/demux.h"

#include <assert.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "base/base.h"
#include "wire/frame.h"

enum { SORT_SMALL_BYTES = 4096, SORT_FRAME_BYTES = FRAME_HEAD_BYTES + LIMIT_FRAME_PAYLOAD_BYTES };
/* Worst case: a window of one-byte frames, alternating streams, each with a record head; STAT, END. */
#define QUEUE_MAX_BYTES(credit) ((size_t)(credit) * (RECORD_HEAD_BYTES + 1) + 4u * SORT_FRAME_BYTES)

static int demux_frame(struct demux *demux, const struct frame *frame, struct err *err);

void demux_init(struct demux *demux, enum wire_pass pass, void (*notify)(struct call *call)) {
    *demux = (struct demux){.pass = pass, .root_fd = -1, .pass_fd = -1, .notify = notify};
}

static uint32_t demux_credit_most(const struct demux *demux) {
    return demux->pass ? LIMIT_CREDIT_BYTES : LIMIT_CREDIT_MOST_BYTES;
}

static void demux_call_free(struct demux *demux, struct call *call) {
    demux->grown -= call->span - LIMIT_CREDIT_BYTES;
    fd_close(&call->stat_fd);
    buf_done(&call->in);
    buf_done(&call->out);
    free(call);
}

void demux_done(struct demux *demux) {
    assert(demux->open == 0);
    for (size_t i = 0; i < CALL_BUCKETS; i++) {
        while (demux->buckets[i]) {
            struct call *call = demux->buckets[i];
            demux->buckets[i] = call->next;
            demux_call_free(demux, call);
        }
    }
    fd_close(&demux->root_fd);
    fd_close(&demux->pass_fd);
    free(demux->data);
    demux->data = NULL;
}

static struct call **demux_slot(struct demux *demux, uint32_t id) {
    struct call **slot = &demux->buckets[id % CALL_BUCKETS];
    while (*slot && (*slot)->id != id)
        slot = &(*slot)->next;
    return slot;
}

struct call *demux_add(struct demux *demux) {
    if (demux->open + demux->closed >= LIMIT_CALLS_PER_WIRE)
        return NULL;
    struct call *call = xcalloc(1, sizeof *call);
    do
        call->id = ++demux->last_id;
    while (call->id == 0 || *demux_slot(demux, call->id));
    buf_init(&call->in, QUEUE_MAX_BYTES(demux_credit_most(demux)));
    buf_init(&call->out, QUEUE_MAX_BYTES(demux_credit_most(demux)));
    call->tail = SIZE_MAX;
    call->stat_fd = -1;
    call->window = call->span = call->credit = LIMIT_CREDIT_BYTES;
    call->next = demux->buckets[call->id % CALL_BUCKETS];
    demux->buckets[call->id % CALL_BUCKETS] = call;
    demux->open++;
    return call;
}

uint32_t demux_grant(struct demux *demux, struct call *call, uint32_t used) {
    uint32_t grow = demux_credit_most(demux) - call->span, pool = LIMIT_CREDIT_POOL_BYTES - demux->grown;
    grow = grow < used ? grow : used;
    grow = grow < pool ? grow : pool;
    call->span += grow;
    call->window += used + grow;
    demux->grown += grow;
    return used + grow;
}

static void demux_remove(struct demux *demux, struct call *call) {
    struct call **slot = demux_slot(demux, call->id);
    assert(*slot == call);
    *slot = call->next;
}

void demux_give_up(struct demux *demux, struct call *call) {
    assert(!call->closed && demux->open > 0);
    demux->open--;
    if (call->ended) { /* it left its bucket when it ended */
        demux_call_free(demux, call);
        return;
    }
    call->closed = true;
    call->waiter = NULL;
    demux->closed++;
    fd_close(&call->stat_fd);
    buf_done(&call->in);
    buf_done(&call->out);
}

void demux_forget(struct demux *demux, struct call *call) {
    demux_remove(demux, call);
    demux->open--;
    demux_call_free(demux, call);
}

uint8_t *demux_room(struct demux *demux, size_t *ret_size) {
    size_t need = SORT_SMALL_BYTES;
    if (demux->len >= FRAME_HEAD_BYTES || (demux->cap && demux->len == demux->cap))
        need = SORT_FRAME_BYTES; /* a frame is being cut in pieces: make room for the largest */
    if (demux->cap < need) {
        demux->data = xrealloc(demux->data, need);
        demux->cap = need;
    }
    *ret_size = demux->cap - demux->len;
    return demux->data + demux->len;
}

void demux_rest(struct demux *demux) {
    if (demux->open || demux->len || demux->cap <= SORT_SMALL_BYTES)
        return;
    free(demux->data);
    demux->data = NULL;
    demux->cap = 0;
}

int demux_feed(struct demux *demux, size_t n, int pass_fd, struct err *err) {
    assert(n <= demux->cap - demux->len);
    demux->len += n;
    if (pass_fd >= 0) {
        if (demux->pass_fd >= 0 || !demux->pass) {
            close(pass_fd);
            return err_set(err, ERR_PROTOCOL, "the runner passed a descriptor that was not requested");
        }
        demux->pass_fd = pass_fd;
    }
    size_t at = 0;
    for (;;) {
        struct frame frame;
        int r = frame_parse(demux->data + at, demux->len - at, &frame, err);
        if (r > 0)
            r = demux_frame(demux, &frame, err) < 0 ? -ERR_PROTOCOL : 1;
        TRY(r);
        if (r == 0)
            break;
        at += FRAME_HEAD_BYTES + frame.len;
    }
    demux->len -= at;
    if (at && demux->len)
        memmove(demux->data, demux->data + at, demux->len);
    if (demux->len == 0 && demux->pass_fd >= 0)
        return err_set(err, ERR_PROTOCOL, "the runner passed a descriptor without a frame for it");
    return 0;
}

/* ---- what a frame means ---- */

static int demux_record_put(struct call *call, enum event_kind kind, uint8_t stream, const struct frame *frame,
                            struct err *err) {
    struct buf *in = &call->in;
    bool flows = kind == EVENT_DATA || kind == EVENT_ITEM;
    if (flows && call->tail != SIZE_MAX && in->data[call->tail] == kind && in->data[call->tail + 1] == stream) {
        struct view length = view_of(in->data + call->tail + 2, 4);
        uint32_t total = view_u32(&length) + frame->len;
        buf_put(in, frame->payload, frame->len);
        for (int i = 0; i < 4 && !in->failed; i++)
            in->data[call->tail + 2 + (size_t)i] = (uint8_t)(total >> (8 * i));
    } else {
        call->tail = in->len;
        buf_byte(in, (uint8_t)kind);
        buf_byte(in, stream);
        buf_u32(in, frame->len);
        buf_put(in, frame->payload, frame->len);
    }
    if (in->failed)
        return err_set(err, ERR_PROTOCOL, "the runner sent more than a call may hold");
    return 0;
}

/* The descriptor announced by a frame: a regular file to read or write, or (O_PATH) the directory that is the root. */
static int demux_take_fd(struct demux *demux, bool root, int *ret_fd, struct err *err) {
    autofd fd = fd_take(&demux->pass_fd);
    if (fd < 0)
        return err_set(err, ERR_PROTOCOL, "the runner announced a descriptor and passed none");
    struct stat status;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &status) < 0)
        return err_set(err, ERR_PROTOCOL, "cannot inspect a descriptor of the runner");
    if (root ? !S_ISDIR(status.st_mode) || !(flags & O_PATH) : !S_ISREG(status.st_mode) || (flags & O_PATH))
        return err_set(err, ERR_PROTOCOL, "the runner passed a descriptor of the wrong kind");
    struct statfs system;
    if (!root && (fstatfs(fd, &system) < 0 || system.f_type == PROC_SUPER_MAGIC))
        return err_set(err, ERR_PROTOCOL, "the runner passed a descriptor of procfs");
    *ret_fd = fd_take(&fd);
    return 0;
}

static int demux_hello(struct demux *demux, const struct frame *frame, struct err *err) {
    if (demux->greeted || frame->call != 0 || (frame->flags & ~FLAG_FD))
        return err_set(err, ERR_PROTOCOL, "the runner sent a second or malformed HELLO");
    struct view view = view_of(frame->payload, frame->len);
    struct field field;
    uint64_t version = 0, features = 0;
    int r;
    snprintf(demux->workspace, sizeof demux->workspace, "/workspace");
    while ((r = field_next(&view, &field, err)) > 0) {
        if (field.id == FIELD_VERSION)
            version = field.number;
        else if (field.id == FIELD_FEATURES)
            features = field.number;
        if (field.id != FIELD_WORKSPACE)
            continue;
        if (field.len == 0 || field.len >= sizeof demux->workspace || field.data[0] != '/')
            return err_set(err, ERR_PROTOCOL, "the runner's workspace is not an absolute path");
        memcpy(demux->workspace, field.data, field.len);
        demux->workspace[field.len] = 0;
    }
    TRY(r);
    if (version != PROTO_VERSION)
        return err_set(err, ERR_PROTOCOL, "the runner speaks version %llu of the wire, this program version %d",
                       (unsigned long long)version, PROTO_VERSION);
    if (!(frame->flags & FLAG_FD) != !(features & FEATURE_ROOT_FD))
        return err_set(err, ERR_PROTOCOL, "HELLO's features and its descriptor contradict each other");
    if ((frame->flags & FLAG_FD) && demux->pass != WIRE_PASS_ROOT)
        return err_set(err, ERR_PROTOCOL, "the runner passed a root directory, which only a jail may do");
    if ((frame->flags & FLAG_FD) && demux_take_fd(demux, true, &demux->root_fd, err) < 0)
        return -err->code;
    demux->features = features;
    demux->greeted = true;
    return 0;
}

static int demux_stat(struct demux *demux, struct call *call, const struct frame *frame, struct err *err) {
    if (call->stat_seen || call->streamed || (frame->flags & ~FLAG_FD))
        return err_set(err, ERR_PROTOCOL, "a STAT out of order");
    call->stat_seen = true;
    autofd fd = -1;
    if ((frame->flags & FLAG_FD) && demux_take_fd(demux, false, &fd, err) < 0)
        return -err->code;
    if (call->closed)
        return 0;
    call->stat_fd = fd_take(&fd);
    return demux_record_put(call, EVENT_STAT, 0, frame, err);
}

static int demux_flow(struct demux *, struct call *call, const struct frame *frame, struct err *err) {
    bool data = frame->type == FRAME_DATA;
    if (frame->flags > (data ? STREAM_STDERR : 0))
        return err_set(err, ERR_PROTOCOL, "a %s with unknown flags", frame_name(frame->type));
    /* An empty one would cost no credit: a flood of them would have no bound. */
    if (frame->len == 0 || frame->len > call->window)
        return err_set(err, ERR_PROTOCOL, "a %s of %u bytes where %u were granted", frame_name(frame->type), frame->len,
                       call->window);
    call->window -= frame->len;
    call->streamed = true;
    return call->closed ? 0 : demux_record_put(call, data ? EVENT_DATA : EVENT_ITEM, frame->flags, frame, err);
}

static int demux_end(struct demux *demux, struct call *call, const struct frame *frame, struct err *err) {
    if (frame->flags)
        return err_set(err, ERR_PROTOCOL, "an %s with unknown flags", frame_name(frame->type));
    struct view view = view_of(frame->payload, frame->len);
    struct field field;
    int r, code = frame->type == FRAME_FAIL ? ERR_INTERNAL : 0;
    while ((r = field_next(&view, &field, err)) > 0)
        if (code && field.id == FIELD_CODE)
            code = err_from_wire(field.number > 255 ? 0 : (unsigned)field.number);
    TRY(r);
    demux_remove(demux, call);
    call->ended = true;
    if (call->closed) {
        demux->closed--;
        demux_call_free(demux, call);
        return 0;
    }
    call->fail_code = code;
    return demux_record_put(call, EVENT_END, 0, frame, err);
}

static int demux_credit(struct demux *demux, struct call *call, const struct frame *frame, struct err *err) {
    struct view view = view_of(frame->payload, frame->len);
    uint32_t more = view_u32(&view);
    if (view.bad || view.len || frame->flags)
        return err_set(err, ERR_PROTOCOL, "a malformed CREDIT");
    /* It gives back what was sent, and a bounded more from far away. Nothing, or more than that, would be a flood
     * without a bound. */
    if (!more || more > demux_credit_most(demux) - call->credit)
        return err_set(err, ERR_PROTOCOL, "a CREDIT of %u bytes where %u may be given", more,
                       demux_credit_most(demux) - call->credit);
    call->credit += more;
    if (call->input_wanted && call->credit) {
        call->input_wanted = false;
        call->input_ready = true;
    }
    return 0;
}

static int demux_frame(struct demux *demux, const struct frame *frame, struct err *err) {
    static int (*const handlers[])(struct demux *, struct call *, const struct frame *, struct err *) = {
        [FRAME_STAT] = demux_stat, [FRAME_DATA] = demux_flow,     [FRAME_ITEM] = demux_flow,
        [FRAME_END] = demux_end,   [FRAME_CREDIT] = demux_credit, [FRAME_FAIL] = demux_end,
    };
    if (frame->type == FRAME_HELLO)
        return demux_hello(demux, frame, err);
    if (!demux->greeted)
        return err_set(err, ERR_PROTOCOL, "the runner's first frame is not HELLO");
    if (frame->type >= sizeof handlers / sizeof *handlers || !handlers[frame->type])
        return err_set(err, ERR_PROTOCOL, "the runner sent %s, which only a daemon may send", frame_name(frame->type));
    struct call *call = *demux_slot(demux, frame->call);
    if (!call)
        return err_set(err, ERR_PROTOCOL, "the runner sent %s for call %u, which is not open", frame_name(frame->type),
                       frame->call);
    bool closed = call->closed;
    int r = handlers[frame->type](demux, call, frame, err);
    if (!closed && r == 0)
        demux->notify(call);
    return r;
}
