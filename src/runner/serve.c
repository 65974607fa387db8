/* Wires of the runner: frames in, calls, answers out. Called by the loop (init.c); ops answer through reply_*.
 *
 * 1. A wire that breaks the protocol, or whose socket fails, is marked `broken` at once and freed at the end of the
 *    iteration: no caller up the stack meets a freed wire.
 * 2. After END or FAIL nothing is sent for that call; late DATA, CREDIT, EOF and CANCEL for it are normal and ignored.
 * 3. Small frames wait up to FLUSH_MS for more, so that the answer of a short command is one send.
 * 4. A descriptor is sent with the first byte of its frame. */
#include <assert.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/base.h"
#include "runner/runner.h"
#include "runner/container.h"
#include "runner/exec/process.h"

enum {
    BUCKETS = 64,
    FLUSH_MS = 2,
    FLUSH_BYTES = 32 << 10,
    OUT_HIGH_BYTES = 256 << 10, /* above this, DATA and ITEM wait */
    OUT_MAX_BYTES = 16 << 20,   /* for a daemon that does not read; above this, the wire ends */
    ARGS_BYTES = 2 << 10,       /* decoded arguments of a usual call */
    NO_HELLO_MS = 60000,        /* for a container that another program started, or whose daemon was killed */
    KEEP_BYTES = 64 << 10,      /* larger empty buffers are freed */
};

struct serve_pass { /* a descriptor waiting for its frame to be sent */
    size_t at;
    int fd;
    struct serve_pass *next;
};

struct scall { /* private members of a call */
    struct rcall call;
    struct buf args; /* CALL frames so far, while more follow */
    bool collecting, ended;
    uint32_t owed;
    uint32_t span; /* the whole window of input */
};

struct rwire {
    struct source source;
    struct runner *runner;
    struct rwire *next;
    struct buf in, out;
    size_t sent; /* bytes of out */
    struct serve_pass *passes;
    struct rcall *calls[BUCKETS];
    unsigned call_count;
    uint64_t flush_at_ms;
    bool first, is_unix, hello, broken, urgent, starved;
    bool far;       /* windows of input grow while they are used */
    uint32_t grown; /* how much larger all of them are than at first */
};

static int serve_wire_frame(struct rwire *wire, const struct frame *frame, struct err *err);
static void serve_wire_send(struct rwire *wire);
static void serve_wire_bury(struct rwire *wire);

/* ---- open, flush, free ---- */

static void serve_no_hello(struct timer *timer) {
    struct runner *runner = container_of(timer, struct runner, no_hello);
    runner->ending |= !runner->greeted;
}

/* Sent at once on the first wire; on a later one as an answer: the peer first says whether descriptors reach it. */
static void serve_wire_greet(struct rwire *wire) {
    struct runner *runner = wire->runner;
    autobuf hello = buf_max(2 * LIMIT_PATH_BYTES);
    bool root = wire->is_unix && runner->config->jail;
    field_number(&hello, FIELD_VERSION, PROTO_VERSION);
    field_number(&hello, FIELD_FEATURES,
                 (wire->is_unix ? FEATURE_PASS_FD : 0) | (root ? FEATURE_ROOT_FD : 0) |
                     (process_has_leaves(runner) ? FEATURE_CGROUP : 0) | FEATURE_EDIT | FEATURE_AS_ROOT |
                     FEATURE_SEARCH | FEATURE_SESSION | FEATURE_DETACH | FEATURE_DETAILS |
                     (runner->config->can_root ? FEATURE_HAS_ROOT : 0));
    field_text(&hello, FIELD_WORKSPACE, runner->config->workspace);
    frame_put(&wire->out, FRAME_HELLO, 0, root ? FLAG_FD : 0, hello.data, hello.len);
    if (root) {
        wire->passes = xcalloc(1, sizeof *wire->passes);
        wire->passes->fd = fcntl(runner->config->root_fd, F_DUPFD_CLOEXEC, 3);
    }
    wire->urgent = true;
}

static void serve_wire_ready(struct source *source, uint32_t events) {
    struct rwire *wire = (struct rwire *)source;
    if (events & EPOLLOUT)
        serve_wire_send(wire);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        uint8_t *at = buf_reserve(&wire->in, LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES);
        assert(at); /* less than one frame is left over from last time */
        /* No space for control messages: the kernel closes descriptors that a peer sends. */
        ssize_t n = recv(wire->source.fd, at, LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            wire->broken = true;
            return;
        }
        wire->in.len += (size_t)n;
        size_t done = 0;
        struct frame frame;
        struct err err;
        int r = 0;
        while (!wire->broken && (r = frame_parse(wire->in.data + done, wire->in.len - done, &frame, &err)) > 0) {
            if (serve_wire_frame(wire, &frame, &err) < 0)
                wire->broken = true;
            done += FRAME_HEAD_BYTES + frame.len;
        }
        if (r < 0)
            wire->broken = true;
        buf_consume(&wire->in, done);
        if (wire->in.len == 0 && wire->in.cap > KEEP_BYTES * 2)
            buf_done(&wire->in);
    }
}

static void serve_wire_open(struct runner *runner, int fd, bool first) {
    struct rwire *wire = xcalloc(1, sizeof *wire);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    int family = 0;
    socklen_t size = sizeof family;
    wire->is_unix = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_UNIX;
    wire->is_unix &= !first || !runner->config->wire_plain;
    wire->runner = runner;
    wire->source = (struct source){.fd = fd, .ready = serve_wire_ready};
    buf_init(&wire->in, 2 * (LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES));
    buf_init(&wire->out, OUT_MAX_BYTES);
    wire->next = runner->wires;
    runner->wires = wire;
    source_set(runner, &wire->source, EPOLLIN);
    wire->first = first;
    if (first)
        serve_wire_greet(wire);
}

static void serve_listener_ready(struct source *source, uint32_t) {
    struct runner *runner = container_of(source, struct runner, listener);
    int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    unsigned count = 0;
    for (struct rwire *wire = runner->wires; wire; wire = wire->next)
        count++;
    if (fd >= 0 && (count >= LIMIT_WIRES_PER_RUNNER || (runner->config->wire_plain && !relay_peer(fd))))
        close(fd);
    else if (fd >= 0)
        serve_wire_open(runner, fd, false);
}

void serve_open(struct runner *runner) {
    const struct runner_config *config = runner->config;
    runner->no_hello.fire = serve_no_hello;
    if (config->container)
        timer_set(runner, &runner->no_hello, clock_ms() + NO_HELLO_MS);
    if (config->wire_fd >= 0)
        serve_wire_open(runner, config->wire_fd, true);
    if (config->listen_fd < 0)
        return;
    fcntl(config->listen_fd, F_SETFL, fcntl(config->listen_fd, F_GETFL) | O_NONBLOCK);
    runner->listener = (struct source){.fd = config->listen_fd, .ready = serve_listener_ready};
    source_set(runner, &runner->listener, EPOLLIN);
}

void serve_flush(struct runner *runner) {
    uint64_t now_ms = 0;
    for (struct rwire *wire = runner->wires, *next; wire; wire = next) {
        next = wire->next;
        size_t waiting = wire->out.len - wire->sent;
        if (waiting && !wire->broken) {
            if (!wire->urgent && waiting < FLUSH_BYTES && now_ms == 0)
                now_ms = clock_ms();
            if (wire->urgent || waiting >= FLUSH_BYTES || now_ms >= wire->flush_at_ms)
                serve_wire_send(wire);
        }
        if (wire->broken || wire->out.failed)
            serve_wire_bury(wire);
    }
    bool owned = runner->config->wire_fd < 0 || (runner->greeted && !runner->config->blank);
    if (!runner->wires && (runner->listener.fd < 0 || !owned))
        runner->ending = true;
}

uint64_t serve_flush_at_ms(const struct runner *runner) {
    uint64_t at_ms = 0;
    for (const struct rwire *wire = runner->wires; wire; wire = wire->next)
        if (wire->flush_at_ms && (at_ms == 0 || wire->flush_at_ms < at_ms))
            at_ms = wire->flush_at_ms;
    return at_ms;
}

static void serve_call_drop(struct rcall *call) {
    struct rwire *wire = call->wire;
    struct scall *own = (struct scall *)call;
    assert(!own->ended);
    own->ended = true;
    call->writable = NULL;
    list_remove(wire->calls[call->id % BUCKETS], call);
    wire->call_count--;
    wire->grown -= own->span - LIMIT_CREDIT_BYTES;
    buf_done(&own->args);
    wire->runner->changes += call->def && !call->def->looks;
    later_free(wire->runner, own);
}

static void serve_call_cancel(struct rcall *call, bool gone) {
    struct scall *own = (struct scall *)call;
    call->gone = gone;
    if (call->worker)
        worker_cancel(call);
    else if (call->def && call->def->cancel) /* none: its arguments were incomplete */
        call->def->cancel(call);
    if (gone && !own->ended)
        serve_call_drop(call);
}

static void serve_wire_bury(struct rwire *wire) {
    list_remove(wire->runner->wires, wire);
    for (unsigned i = 0; i < BUCKETS; i++)
        while (wire->calls[i])
            serve_call_cancel(wire->calls[i], true);
    source_set(wire->runner, &wire->source, 0);
    close(wire->source.fd);
    for (struct serve_pass *next; wire->passes; wire->passes = next) {
        next = wire->passes->next;
        fd_close(&wire->passes->fd);
        free(wire->passes);
    }
    buf_done(&wire->in);
    buf_done(&wire->out);
    later_free(wire->runner, wire);
}

/* ---- receiving ---- */

static struct rcall *serve_call_find(struct rwire *wire, uint32_t id) {
    return list_find(wire->calls[id % BUCKETS], call, call->id == id);
}

static int serve_frame_hello(struct rwire *wire, const struct frame *frame, struct err *err) {
    struct view view = view_of(frame->payload, frame->len);
    struct field field;
    int r;
    uint64_t version = 0, features = 0;
    while ((r = field_next(&view, &field, err)) > 0)
        if (field.id == FIELD_VERSION)
            version = field.number;
        else if (field.id == FIELD_FEATURES)
            features = field.number;
    if (r < 0 || version != PROTO_VERSION || frame->call != 0)
        return err_set(err, ERR_PROTOCOL, "HELLO of another version");
    wire->hello = wire->runner->greeted = true;
    wire->far = features & FEATURE_FAR;
    if (!wire->first) {
        wire->is_unix &= (features & FEATURE_PASS_FD) != 0;
        serve_wire_greet(wire);
        if (wire->runner->config->wire_plain) /* an engine may keep its end open for a dead daemon */
            for (struct rwire *other = wire->runner->wires; other; other = other->next)
                other->broken |= other->first;
    }
    return 0;
}

static int serve_call_run(struct rcall *call, const struct fields *fields, const struct buf *payload, struct err *err) {
    unsigned long long op = fields->number[FIELD_OP];
    const struct op_def *def = call->def = op <= 255 ? op_find((unsigned)op) : NULL;
    if (!def)
        return err_set(err, ERR_UNSUPPORTED, "this runner has no op %llu", op);
    call->runner->changes += !def->looks;
    if (call->runner->config->blank && def->op != OP_BIND)
        return err_set(err, ERR_BUSY, "this box has no owner yet: send BIND first");
    if (fields->number[FIELD_FLAGS] & CALL_ROOT) {
        if (!def->root)
            return err_set(err, ERR_INVALID, "op %d is not available with the rights of root", (int)def->op);
        call->def = def->root;
        call->as_root = true;
        return confine_may_root(call->runner->config, err) ?: worker_start(call, payload, err);
    }
    if (def->begin)
        return def->begin(call, fields, err);
    if (!def->quick)
        return worker_start(call, payload, err);
    autobuf out = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    TRY(def->quick(call->runner->config, fields, &out, err));
    reply_end(call, &out);
    return 0;
}

/* Called with complete arguments: finds the op and begins it. */
static int serve_call_begin(struct rcall *call, const uint8_t *payload, size_t len, struct err *err) {
    _Alignas(16) uint8_t memory[ARGS_BYTES]; /* on the stack: musl returns freed pages to the kernel */
    autoarena arena;
    arena_init_in(&arena, memory, sizeof memory);
    struct fields fields;
    struct err failure;
    TRY(fields_parse(view_of(payload, len), &arena, &fields, err));
    struct buf whole = {.data = (uint8_t *)(uintptr_t)payload, .len = len, .cap = len, .max = len};
    if (serve_call_run(call, &fields, &whole, &failure) < 0)
        reply_fail(call, &failure);
    return 0;
}

static int serve_frame_call(struct rwire *wire, const struct frame *frame, struct err *err) {
    struct rcall *call = serve_call_find(wire, frame->call);
    struct scall *own = (struct scall *)call;
    if (frame->call == 0 || (call && !own->collecting))
        return err_set(err, ERR_PROTOCOL, "CALL for call %u, which is open", frame->call);
    if (!call) {
        own = xcalloc(1, sizeof *own);
        call = &own->call;
        *call = (struct rcall){.runner = wire->runner,
                               .wire = wire,
                               .id = frame->call,
                               .credit_out = LIMIT_CREDIT_BYTES,
                               .credit_in = LIMIT_CREDIT_BYTES};
        own->span = LIMIT_CREDIT_BYTES;
        buf_init(&own->args, LIMIT_CALL_ARGS_BYTES);
        call->next = wire->calls[call->id % BUCKETS];
        wire->calls[call->id % BUCKETS] = call;
        wire->call_count++;
        own->collecting = frame->flags & FLAG_MORE;
        if (wire->call_count > LIMIT_CALLS_PER_WIRE)
            return err_set(err, ERR_PROTOCOL, "more than %u calls", LIMIT_CALLS_PER_WIRE);
        if (!own->collecting)
            return serve_call_begin(call, frame->payload, frame->len, err);
    }
    buf_put(&own->args, frame->payload, frame->len);
    if (own->args.failed)
        return err_set(err, ERR_PROTOCOL, "arguments of more than %u bytes", LIMIT_CALL_ARGS_BYTES);
    own->collecting = frame->flags & FLAG_MORE;
    if (own->collecting)
        return 0;
    struct buf args = own->args;
    own->args = (struct buf){.max = LIMIT_CALL_ARGS_BYTES};
    int r = serve_call_begin(call, args.data, args.len, err);
    buf_done(&args);
    return r;
}

static int serve_frame_data(struct rcall *call, const struct frame *frame, struct err *err) {
    if (frame->len > call->credit_in || call->input_eof)
        return err_set(err, ERR_PROTOCOL, "input beyond credit or after its end");
    call->credit_in -= frame->len;
    struct err failure;
    int r;
    if (call->worker)
        r = worker_input(call, frame->payload, frame->len, &failure);
    else if (call->def->input)
        r = call->def->input(call, frame->payload, frame->len, &failure);
    else
        r = err_set(&failure, ERR_INVALID, "this call takes no input");
    if (r < 0 && !((struct scall *)call)->ended) {
        serve_call_cancel(call, false);
        if (!((struct scall *)call)->ended)
            reply_fail(call, &failure);
    }
    return 0;
}

static int serve_frame_eof(struct rcall *call) {
    if (call->input_eof)
        return -1;
    call->input_eof = true;
    struct err failure;
    int r = 0;
    if (call->worker)
        r = worker_finish(call, &failure);
    else if (call->def->finish)
        r = call->def->finish(call, &failure);
    if (r < 0 && !((struct scall *)call)->ended)
        reply_fail(call, &failure);
    return 0;
}

static int serve_frame_credit(struct rcall *call, const struct frame *frame) {
    struct view view = view_of(frame->payload, frame->len);
    uint32_t more = view_u32(&view);
    if (view.bad || view.len || more > INT32_MAX - call->credit_out)
        return -1;
    call->credit_out += more;
    if (call->writable)
        call->writable(call);
    return 0;
}

static void serve_frame_cancel(struct rcall *call) {
    serve_call_cancel(call, false);
    if (((struct scall *)call)->ended || call->later)
        return;
    struct err failure;
    err_set(&failure, ERR_GONE, "cancelled");
    reply_fail(call, &failure);
}

static int serve_wire_frame(struct rwire *wire, const struct frame *frame, struct err *err) {
    if (!wire->hello)
        return frame->type == FRAME_HELLO ? serve_frame_hello(wire, frame, err) : -1;
    if (frame->type == FRAME_CALL)
        return serve_frame_call(wire, frame, err);
    struct rcall *call = serve_call_find(wire, frame->call);
    if (call && ((struct scall *)call)->collecting && frame->type != FRAME_CANCEL)
        return -1;
    switch (frame->type) {
    case FRAME_DATA:
        return call ? serve_frame_data(call, frame, err) : 0;
    case FRAME_EOF:
        return call ? serve_frame_eof(call) : 0;
    case FRAME_CREDIT:
        return call ? serve_frame_credit(call, frame) : 0;
    case FRAME_CANCEL:
        if (call)
            serve_frame_cancel(call);
        return 0;
    default:
        return -1; /* only a runner sends these; or a second HELLO */
    }
}

/* ---- sending ---- */

/* One sendmsg: up to the next frame with a descriptor, or that frame and what follows it. */
static ssize_t serve_wire_send_some(struct rwire *wire) {
    struct serve_pass *pass = wire->passes;
    int fd = -1;
    if (pass && pass->at == wire->sent) {
        fd = pass->fd;
        pass = pass->next;
    }
    size_t end = pass ? pass->at : wire->out.len;
    ssize_t n = fd_send(wire->source.fd, wire->out.data + wire->sent, end - wire->sent, fd, MSG_DONTWAIT);
    if (n > 0 && fd >= 0) {
        pass = wire->passes;
        wire->passes = pass->next;
        close(pass->fd);
        free(pass);
    }
    return n;
}

static void serve_wire_send(struct rwire *wire) {
    while (!wire->broken && wire->sent < wire->out.len) {
        ssize_t n = serve_wire_send_some(wire);
        if (n > 0) {
            wire->sent += (size_t)n;
        } else if (n == -EAGAIN) {
            break;
        } else {
            wire->broken = true;
            return;
        }
    }
    bool empty = wire->sent == wire->out.len;
    if (empty) {
        wire->sent = 0;
        buf_clear(&wire->out);
        if (wire->out.cap > 2 * OUT_HIGH_BYTES)
            buf_done(&wire->out);
    } else if (wire->sent > OUT_HIGH_BYTES) {
        for (struct serve_pass *pass = wire->passes; pass; pass = pass->next)
            pass->at -= wire->sent;
        buf_consume(&wire->out, wire->sent);
        wire->sent = 0;
    }
    wire->urgent = false;
    wire->flush_at_ms = 0;
    source_set(wire->runner, &wire->source, empty ? EPOLLIN : EPOLLIN | EPOLLOUT);
    if (wire->starved && wire->out.len - wire->sent < OUT_HIGH_BYTES / 2) {
        wire->starved = false;
        for (unsigned i = 0; i < BUCKETS; i++)
            for (struct rcall *call = wire->calls[i], *next; call; call = next) {
                next = call->next;
                if (call->writable)
                    call->writable(call);
            }
    }
}

static void serve_wire_soon(struct rwire *wire) {
    if (!wire->flush_at_ms && !(wire->source.events & EPOLLOUT))
        wire->flush_at_ms = clock_ms() + FLUSH_MS;
}

bool reply_room(struct rcall *call) {
    struct rwire *wire = call->wire;
    if (wire->out.len - wire->sent < OUT_HIGH_BYTES)
        return true;
    wire->starved = true;
    return false;
}

void reply_stat(struct rcall *call, const struct buf *fields, int pass_fd) {
    struct rwire *wire = call->wire;
    if (pass_fd >= 0 && wire->is_unix) {
        struct serve_pass *pass = xmalloc(sizeof *pass);
        *pass = (struct serve_pass){.at = wire->out.len, .fd = fcntl(pass_fd, F_DUPFD_CLOEXEC, 3)};
        if (pass->fd < 0)
            wire->broken = true; /* the op has announced it: an answer cannot be partial */
        list_append(wire->passes, pass);
    }
    frame_put(&wire->out, FRAME_STAT, call->id, pass_fd >= 0 && wire->is_unix ? FLAG_FD : 0,
              fields ? fields->data : NULL, fields ? fields->len : 0);
    serve_wire_soon(wire);
}

size_t reply_data(struct rcall *call, uint8_t stream, const void *data, size_t len) {
    size_t sent = 0;
    while (sent < len && call->credit_out > 0 && reply_room(call)) {
        size_t n = len - sent;
        if (n > call->credit_out)
            n = call->credit_out;
        if (n > LIMIT_FRAME_PAYLOAD_BYTES)
            n = LIMIT_FRAME_PAYLOAD_BYTES;
        frame_put(&call->wire->out, FRAME_DATA, call->id, stream, (const uint8_t *)data + sent, n);
        call->credit_out -= (uint32_t)n;
        sent += n;
    }
    if (sent)
        serve_wire_soon(call->wire);
    return sent;
}

void reply_now(struct rcall *call) {
    call->wire->urgent = true;
}

bool reply_frame(struct rcall *call, const struct frame *frame) {
    bool costs = frame->type == FRAME_DATA || frame->type == FRAME_ITEM;
    if (costs && (frame->len > call->credit_out || !reply_room(call)))
        return false;
    frame_put(&call->wire->out, frame->type, call->id, frame->flags, frame->payload, frame->len);
    if (costs)
        call->credit_out -= frame->len;
    serve_wire_soon(call->wire);
    return true;
}

bool reply_items(struct rcall *call, const struct buf *records) {
    struct frame frame = {.type = FRAME_ITEM, .payload = records->data, .len = (uint32_t)records->len};
    return reply_frame(call, &frame);
}

void reply_item_end(struct rcall *call, struct buf *records, size_t begin) {
    item_end(records, begin);
    if (records->len > LIMIT_FRAME_PAYLOAD_BYTES / 2) {
        reply_items(call, records);
        buf_clear(records);
    }
}

void reply_end_with(struct rcall *call, uint8_t type, const struct buf *fields) {
    frame_put(&call->wire->out, type, call->id, 0, fields ? fields->data : NULL, fields ? fields->len : 0);
    call->wire->urgent = true;
    serve_call_drop(call);
}

void reply_end(struct rcall *call, const struct buf *fields) {
    reply_end_with(call, FRAME_END, fields);
}

void reply_fail(struct rcall *call, const struct err *err) {
    size_t begin = frame_begin(&call->wire->out, FRAME_FAIL, call->id, 0);
    field_failure(&call->wire->out, err);
    frame_end(&call->wire->out, begin);
    call->wire->urgent = true;
    serve_call_drop(call);
}

/* Returns by how much the window of a far call grows after so much of it was used. */
static uint32_t serve_span_grows(const struct rwire *wire, const struct scall *own, uint32_t used) {
    if (!wire->far)
        return 0;
    uint32_t grow = LIMIT_CREDIT_MOST_BYTES - own->span, pool = LIMIT_CREDIT_POOL_BYTES - wire->grown;
    grow = grow < used ? grow : used;
    return grow < pool ? grow : pool;
}

/* In lumps: a quarter of the window cannot stall the sender. */
void reply_credit(struct rcall *call, uint32_t bytes) {
    struct scall *own = (struct scall *)call;
    own->owed += bytes;
    if (own->owed < own->span / 4 || call->input_eof)
        return;
    uint32_t grow = serve_span_grows(call->wire, own, own->owed);
    own->span += grow;
    own->owed += grow;
    call->wire->grown += grow;
    uint8_t payload[4];
    for (int i = 0; i < 4; i++)
        payload[i] = (uint8_t)(own->owed >> (8 * i));
    frame_put(&call->wire->out, FRAME_CREDIT, call->id, 0, payload, sizeof payload);
    call->credit_in += own->owed;
    own->owed = 0;
    call->wire->urgent = true;
}
