/* Every byte a runner sends comes through here and is taken as hostile. Called by wire.c with the wire's lock held, and
 * by the fuzzer. Not to break: what a call can hold is bounded by the credit it was given plus one STAT and one END, and
 * anything a runner may not send returns -ERR_PROTOCOL, with which the wire ends and nothing else. */
#include "wire/sort.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "wire/frame.h"

enum { SORT_SMALL_BYTES = 4096, SORT_FRAME_BYTES = FRAME_HEAD_BYTES + LIMIT_FRAME_PAYLOAD_BYTES };
/* Worst case: a window of one-byte frames, alternating streams, each with a record head; STAT, END. */
#define QUEUE_MAX_BYTES(credit) ((size_t)(credit) * (RECORD_HEAD_BYTES + 1) + 4u * SORT_FRAME_BYTES)

static int sort_frame(struct sorter *sorter, const struct frame *frame, struct err *err);

void sorter_init(struct sorter *sorter, enum wire_pass pass, void (*notify)(struct call *call)) {
    *sorter = (struct sorter){.pass = pass, .root_fd = -1, .pass_fd = -1, .notify = notify};
}

static uint32_t credit_most(const struct sorter *sorter) {
    return sorter->pass ? LIMIT_CREDIT_BYTES : LIMIT_CREDIT_MOST_BYTES;
}

static void call_free(struct sorter *sorter, struct call *call) {
    sorter->grown -= call->span - LIMIT_CREDIT_BYTES;
    fd_close(&call->stat_fd);
    buf_done(&call->in);
    buf_done(&call->out);
    free(call);
}

void sorter_done(struct sorter *sorter) {
    assert(sorter->open == 0);
    for (size_t i = 0; i < CALL_BUCKETS; i++) {
        while (sorter->buckets[i]) {
            struct call *call = sorter->buckets[i];
            sorter->buckets[i] = call->next;
            call_free(sorter, call);
        }
    }
    fd_close(&sorter->root_fd);
    fd_close(&sorter->pass_fd);
    free(sorter->data);
    sorter->data = NULL;
}

static struct call **sorter_slot(struct sorter *sorter, uint32_t id) {
    struct call **slot = &sorter->buckets[id % CALL_BUCKETS];
    while (*slot && (*slot)->id != id)
        slot = &(*slot)->next;
    return slot;
}

struct call *sorter_add(struct sorter *sorter) {
    if (sorter->open + sorter->closed >= LIMIT_CALLS_PER_WIRE)
        return NULL;
    struct call *call = xcalloc(1, sizeof *call);
    do
        call->id = ++sorter->last_id;
    while (call->id == 0 || *sorter_slot(sorter, call->id));
    buf_init(&call->in, QUEUE_MAX_BYTES(credit_most(sorter)));
    buf_init(&call->out, QUEUE_MAX_BYTES(credit_most(sorter)));
    call->tail = SIZE_MAX;
    call->stat_fd = -1;
    call->window = call->span = call->credit = LIMIT_CREDIT_BYTES;
    call->next = sorter->buckets[call->id % CALL_BUCKETS];
    sorter->buckets[call->id % CALL_BUCKETS] = call;
    sorter->open++;
    return call;
}

uint32_t sorter_grant(struct sorter *sorter, struct call *call, uint32_t used) {
    uint32_t grow = credit_most(sorter) - call->span, pool = LIMIT_CREDIT_POOL_BYTES - sorter->grown;
    grow = grow < used ? grow : used;
    grow = grow < pool ? grow : pool;
    call->span += grow;
    call->window += used + grow;
    sorter->grown += grow;
    return used + grow;
}

static void sorter_remove(struct sorter *sorter, struct call *call) {
    struct call **slot = sorter_slot(sorter, call->id);
    assert(*slot == call);
    *slot = call->next;
}

void sorter_give_up(struct sorter *sorter, struct call *call) {
    assert(!call->closed && sorter->open > 0);
    sorter->open--;
    if (call->ended) { /* it left its bucket when it ended */
        call_free(sorter, call);
        return;
    }
    call->closed = true;
    call->waiter = NULL;
    sorter->closed++;
    fd_close(&call->stat_fd);
    buf_done(&call->in);
    buf_done(&call->out);
}

void sorter_forget(struct sorter *sorter, struct call *call) {
    sorter_remove(sorter, call);
    sorter->open--;
    call_free(sorter, call);
}

uint8_t *sorter_room(struct sorter *sorter, size_t *ret_size) {
    size_t need = SORT_SMALL_BYTES;
    if (sorter->len >= FRAME_HEAD_BYTES || (sorter->cap && sorter->len == sorter->cap))
        need = SORT_FRAME_BYTES; /* a frame is being cut in pieces: make room for the largest */
    if (sorter->cap < need) {
        sorter->data = xrealloc(sorter->data, need);
        sorter->cap = need;
    }
    *ret_size = sorter->cap - sorter->len;
    return sorter->data + sorter->len;
}

void sorter_rest(struct sorter *sorter) {
    if (sorter->open || sorter->len || sorter->cap <= SORT_SMALL_BYTES)
        return;
    free(sorter->data);
    sorter->data = NULL;
    sorter->cap = 0;
}

int sorter_feed(struct sorter *sorter, size_t n, int pass_fd, struct err *err) {
    assert(n <= sorter->cap - sorter->len);
    sorter->len += n;
    if (pass_fd >= 0) {
        if (sorter->pass_fd >= 0 || !sorter->pass) {
            close(pass_fd);
            return err_set(err, ERR_PROTOCOL, "the runner passed a descriptor nobody asked for");
        }
        sorter->pass_fd = pass_fd;
    }
    size_t at = 0;
    for (;;) {
        struct frame frame;
        int r = frame_parse(sorter->data + at, sorter->len - at, &frame, err);
        if (r > 0)
            r = sort_frame(sorter, &frame, err) < 0 ? -ERR_PROTOCOL : 1;
        if (r < 0)
            return r;
        if (r == 0)
            break;
        at += FRAME_HEAD_BYTES + frame.len;
    }
    sorter->len -= at;
    if (at && sorter->len)
        memmove(sorter->data, sorter->data + at, sorter->len);
    if (sorter->len == 0 && sorter->pass_fd >= 0)
        return err_set(err, ERR_PROTOCOL, "the runner passed a descriptor without a frame for it");
    return 0;
}

/* ---- what a frame means ---- */

static int record_put(struct call *call, enum event_kind kind, uint8_t stream, const struct frame *frame,
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
static int sort_take_fd(struct sorter *sorter, bool root, int *ret_fd, struct err *err) {
    autofd fd = fd_take(&sorter->pass_fd);
    if (fd < 0)
        return err_set(err, ERR_PROTOCOL, "the runner announced a descriptor and passed none");
    struct stat status;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &status) < 0)
        return err_set(err, ERR_PROTOCOL, "a descriptor of the runner cannot be looked at");
    if (root ? !S_ISDIR(status.st_mode) || !(flags & O_PATH) : !S_ISREG(status.st_mode) || (flags & O_PATH))
        return err_set(err, ERR_PROTOCOL, "the runner passed a descriptor of the wrong kind");
    struct statfs system;
    if (!root && (fstatfs(fd, &system) < 0 || system.f_type == PROC_SUPER_MAGIC))
        return err_set(err, ERR_PROTOCOL, "the runner passed a descriptor of procfs");
    *ret_fd = fd_take(&fd);
    return 0;
}

static int sort_hello(struct sorter *sorter, const struct frame *frame, struct err *err) {
    if (sorter->greeted || frame->call != 0 || (frame->flags & ~FLAG_FD))
        return err_set(err, ERR_PROTOCOL, "the runner sent a second or malformed HELLO");
    struct view view = view_of(frame->payload, frame->len);
    struct field field;
    uint64_t version = 0, features = 0;
    int r;
    snprintf(sorter->workspace, sizeof sorter->workspace, "/workspace");
    while ((r = field_next(&view, &field, err)) > 0) {
        if (field.id == FIELD_VERSION)
            version = field.number;
        else if (field.id == FIELD_FEATURES)
            features = field.number;
        if (field.id != FIELD_WORKSPACE)
            continue;
        if (field.len == 0 || field.len >= sizeof sorter->workspace || field.data[0] != '/')
            return err_set(err, ERR_PROTOCOL, "the runner's workspace is not an absolute path");
        memcpy(sorter->workspace, field.data, field.len);
        sorter->workspace[field.len] = 0;
    }
    if (r < 0)
        return r;
    if (version != PROTO_VERSION)
        return err_set(err, ERR_PROTOCOL, "the runner speaks version %llu of the wire, this program version %d",
                       (unsigned long long)version, PROTO_VERSION);
    if (!(frame->flags & FLAG_FD) != !(features & FEATURE_ROOT_FD))
        return err_set(err, ERR_PROTOCOL, "HELLO's features and its descriptor contradict each other");
    if ((frame->flags & FLAG_FD) && sorter->pass != WIRE_PASS_ROOT)
        return err_set(err, ERR_PROTOCOL, "the runner passed a root, which only a jail's may");
    if ((frame->flags & FLAG_FD) && sort_take_fd(sorter, true, &sorter->root_fd, err) < 0)
        return -err->code;
    sorter->features = features;
    sorter->greeted = true;
    return 0;
}

static int sort_stat(struct sorter *sorter, struct call *call, const struct frame *frame, struct err *err) {
    if (call->stat_seen || call->streamed || (frame->flags & ~FLAG_FD))
        return err_set(err, ERR_PROTOCOL, "a STAT out of order");
    call->stat_seen = true;
    autofd fd = -1;
    if ((frame->flags & FLAG_FD) && sort_take_fd(sorter, false, &fd, err) < 0)
        return -err->code;
    if (call->closed)
        return 0;
    call->stat_fd = fd_take(&fd);
    return record_put(call, EVENT_STAT, 0, frame, err);
}

static int sort_flow(struct sorter *sorter, struct call *call, const struct frame *frame, struct err *err) {
    (void)sorter;
    bool data = frame->type == FRAME_DATA;
    if (frame->flags > (data ? STREAM_STDERR : 0))
        return err_set(err, ERR_PROTOCOL, "a %s with unknown flags", frame_name(frame->type));
    /* An empty one would cost no credit: a flood of them would have no bound. */
    if (frame->len == 0 || frame->len > call->window)
        return err_set(err, ERR_PROTOCOL, "a %s of %u bytes where %u were granted", frame_name(frame->type), frame->len,
                       call->window);
    call->window -= frame->len;
    call->streamed = true;
    return call->closed ? 0 : record_put(call, data ? EVENT_DATA : EVENT_ITEM, frame->flags, frame, err);
}

static int sort_end(struct sorter *sorter, struct call *call, const struct frame *frame, struct err *err) {
    if (frame->flags)
        return err_set(err, ERR_PROTOCOL, "an %s with unknown flags", frame_name(frame->type));
    struct view view = view_of(frame->payload, frame->len);
    struct field field;
    int r, code = frame->type == FRAME_FAIL ? ERR_INTERNAL : 0;
    while ((r = field_next(&view, &field, err)) > 0)
        if (code && field.id == FIELD_CODE)
            code = err_from_wire(field.number > 255 ? 0 : (unsigned)field.number);
    if (r < 0)
        return r;
    sorter_remove(sorter, call);
    call->ended = true;
    if (call->closed) {
        sorter->closed--;
        call_free(sorter, call);
        return 0;
    }
    call->fail_code = code;
    return record_put(call, EVENT_END, 0, frame, err);
}

static int sort_credit(struct sorter *sorter, struct call *call, const struct frame *frame, struct err *err) {
    struct view view = view_of(frame->payload, frame->len);
    uint32_t more = view_u32(&view);
    if (view.bad || view.len || frame->flags)
        return err_set(err, ERR_PROTOCOL, "a malformed CREDIT");
    /* It gives back what was sent, and a bounded more from far away. Nothing, or more than that, would be a flood without
     * a bound. */
    if (!more || more > credit_most(sorter) - call->credit)
        return err_set(err, ERR_PROTOCOL, "a CREDIT of %u bytes where %u may be given", more,
                       credit_most(sorter) - call->credit);
    call->credit += more;
    if (call->input_wanted && call->credit) {
        call->input_wanted = false;
        call->input_ready = true;
    }
    return 0;
}

static int sort_frame(struct sorter *sorter, const struct frame *frame, struct err *err) {
    static int (*const handlers[])(struct sorter *, struct call *, const struct frame *, struct err *) = {
        [FRAME_STAT] = sort_stat, [FRAME_DATA] = sort_flow,     [FRAME_ITEM] = sort_flow,
        [FRAME_END] = sort_end,   [FRAME_CREDIT] = sort_credit, [FRAME_FAIL] = sort_end,
    };
    if (frame->type == FRAME_HELLO)
        return sort_hello(sorter, frame, err);
    if (!sorter->greeted)
        return err_set(err, ERR_PROTOCOL, "the runner's first frame is not HELLO");
    if (frame->type >= sizeof handlers / sizeof *handlers || !handlers[frame->type])
        return err_set(err, ERR_PROTOCOL, "the runner sent %s, which is not its to send", frame_name(frame->type));
    struct call *call = *sorter_slot(sorter, frame->call);
    if (!call)
        return err_set(err, ERR_PROTOCOL, "the runner sent %s for call %u, which is not open", frame_name(frame->type),
                       frame->call);
    bool closed = call->closed;
    int r = handlers[frame->type](sorter, call, frame, err);
    if (!closed && r == 0)
        sorter->notify(call);
    return r;
}
