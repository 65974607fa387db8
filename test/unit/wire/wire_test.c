/* The daemon's end of a wire against runners of every character: honest, slow, dying and hostile. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire_peer.h"

/* ---- an honest runner: ping, a stream of LENGTH bytes, input counted ---- */

struct job {
    uint32_t id;
    uint64_t left, credit, taken;
    bool open, stream, second;
};

static void job_begin(int fd, struct job *job, const struct frame *frame) {
    struct view view = view_of(frame->payload, frame->len);
    struct field field;
    struct err err;
    uint64_t op = 0;
    *job = (struct job){.id = frame->call, .open = true, .credit = LIMIT_CREDIT_BYTES};
    while (field_next(&view, &field, &err) > 0) {
        if (field.id == FIELD_OP)
            op = field.number;
        else if (field.id == FIELD_LENGTH)
            job->left = field.number;
    }
    job->stream = op == OP_READ;
    if (op == OP_PING) {
        peer_send(fd, FRAME_END, job->id, 0, NULL, 0);
        job->open = false;
    }
}

static void job_end(int fd, struct job *job) {
    autobuf out = buf_max(64);
    field_number(&out, FIELD_SIZE, job->taken);
    peer_send(fd, FRAME_END, job->id, 0, out.data, out.len);
    job->open = false;
}

/* One piece of a stream, the two output streams in turn; the byte tells which call it belongs to. */
static bool job_pump(int fd, struct job *job) {
    if (!job->open || !job->stream || (job->left && !job->credit))
        return false;
    if (job->left == 0) {
        job_end(fd, job);
        return true;
    }
    static __thread uint8_t piece[30000];
    size_t n = sizeof piece;
    n = n < job->left ? n : job->left;
    n = n < job->credit ? n : job->credit;
    memset(piece, (int)(job->id & 0xff), n);
    job->second = !job->second;
    peer_send(fd, FRAME_DATA, job->id, job->second ? STREAM_STDOUT : STREAM_STDERR, piece, n);
    job->left -= n;
    job->credit -= n;
    return true;
}

static void job_frame(int fd, struct job *job, const struct frame *frame) {
    struct view view = view_of(frame->payload, frame->len);
    uint8_t payload[4] = {(uint8_t)frame->len, (uint8_t)(frame->len >> 8), (uint8_t)(frame->len >> 16), 0};
    if (frame->type == FRAME_CREDIT)
        job->credit += view_u32(&view);
    else if (frame->type == FRAME_DATA) {
        job->taken += frame->len;
        peer_send(fd, FRAME_CREDIT, job->id, 0, payload, sizeof payload);
    } else if (frame->type == FRAME_EOF || frame->type == FRAME_CANCEL)
        job_end(fd, job);
}

/* Single-threaded with blocking sends: it reads only when its sends are through, so a daemon that did not drain while
 * it sends would stop for ever. */
static void *honest_main(void *argument) {
    struct peer *peer = calloc(1, sizeof *peer);
    peer->fd = (int)(intptr_t)argument;
    struct job *jobs = calloc(LIMIT_CALLS_PER_WIRE, sizeof *jobs);
    while (peer_read(peer)) {
        struct frame *frame = &peer->frame;
        struct job *job = NULL;
        for (size_t i = 0; i < LIMIT_CALLS_PER_WIRE && !job; i++)
            if (frame->type == FRAME_CALL ? !jobs[i].open : jobs[i].open && jobs[i].id == frame->call)
                job = &jobs[i];
        if (frame->type == FRAME_CALL)
            job_begin(peer->fd, job, frame);
        else if (job)
            job_frame(peer->fd, job, frame);
        bool busy = true;
        while (busy) {
            busy = false;
            for (size_t i = 0; i < LIMIT_CALLS_PER_WIRE; i++)
                busy |= job_pump(peer->fd, &jobs[i]);
        }
    }
    close(peer->fd);
    free(jobs);
    free(peer);
    return NULL;
}

/* ---- the daemon's side ---- */

static int ping(struct wire *wire) {
    struct call *call;
    struct err err;
    struct event event;
    if (call_open(wire, OP_PING, NULL, NULL, 0, false, &call, &err) < 0)
        return -err.code;
    int r = call_next(call, NULL, &event, &err);
    if (r == 0 && event.kind != EVENT_END)
        r = -ERR_INTERNAL;
    call_close(call);
    return r;
}

static bool stream(struct wire *wire, uint64_t length) {
    autobuf args = buf_max(64);
    field_number(&args, FIELD_LENGTH, length);
    struct call *call;
    struct err err;
    struct event event;
    if (call_open(wire, OP_READ, &args, NULL, 0, false, &call, &err) < 0)
        return false;
    uint64_t got = 0;
    bool good = true;
    int value = -1, r;
    while ((r = call_next(call, NULL, &event, &err)) == 0 && event.kind == EVENT_DATA) {
        if (value < 0)
            value = event.data[0];
        for (size_t i = 0; i < event.len; i++)
            good &= event.data[i] == value;
        got += event.len;
    }
    call_close(call);
    return r == 0 && good && event.kind == EVENT_END && got == length;
}

static bool feed(struct wire *wire, uint64_t length) {
    struct call *call;
    struct err err;
    struct event event;
    if (call_open(wire, OP_WRITE, NULL, NULL, 0, false, &call, &err) < 0)
        return false;
    static const uint8_t piece[100000];
    uint64_t sent = 0;
    bool good = true;
    while (good && sent < length) {
        size_t n = length - sent < sizeof piece ? (size_t)(length - sent) : sizeof piece;
        ssize_t took = call_send(call, piece, n, &err);
        good = took >= 0;
        sent += good ? (uint64_t)took : 0;
        if (good && (size_t)took < n)
            good = call_next(call, NULL, &event, &err) == 0 && event.kind == EVENT_INPUT;
    }
    good =
        good && call_send_eof(call, &err) == 0 && call_next(call, NULL, &event, &err) == 0 && event.kind == EVENT_END;
    struct view view = view_of(event.data, event.len);
    struct field field;
    good = good && field_next(&view, &field, &err) == 1 && field.number == length;
    call_close(call);
    return good;
}

struct crowd {
    struct wire *wire;
    unsigned seed;
    bool good;
};

static void *crowd_main(void *argument) {
    struct crowd *crowd = argument;
    crowd->good = true;
    for (int i = 0; i < 60 && crowd->good; i++) {
        unsigned dice = rand_r(&crowd->seed);
        switch (dice % 3) {
        case 0:
            crowd->good = ping(crowd->wire) == 0;
            break;
        case 1:
            crowd->good = stream(crowd->wire, dice % 700000);
            break;
        default:
            crowd->good = feed(crowd->wire, dice % 600000);
        }
    }
    return NULL;
}

static void test_honest(void) {
    int peer;
    struct wire *wire = wire_pair(true, &peer);
    pthread_t runner, threads[8];
    pthread_create(&runner, NULL, honest_main, (void *)(intptr_t)peer);
    ok(strcmp(wire_workspace(wire), "/work") == 0 && wire_root(wire) == -1, "HELLO's words are kept");
    ok(ping(wire) == 0, "a ping is answered");
    ok(stream(wire, 10u << 20), "10 MiB come through a window of 256 KiB, whole");
    ok(feed(wire, 10u << 20), "10 MiB of input go through credit, whole");
    struct crowd crowd[8];
    for (unsigned i = 0; i < 8; i++) {
        crowd[i] = (struct crowd){.wire = wire, .seed = i + 1};
        pthread_create(&threads[i], NULL, crowd_main, &crowd[i]);
    }
    bool good = true;
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        good &= crowd[i].good;
    }
    ok(good, "8 threads with 480 interleaved calls each get what is theirs");
    ok(wire_calls(wire) == 0 && wire_alive(wire), "and leave no call behind");
    wire_unref(wire);
    pthread_join(runner, NULL);
}

/* ---- HELLO ---- */

static int hello_with(uint64_t version, uint64_t features, uint8_t flags, int fd, enum wire_pass pass) {
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    autobuf fields;
    hello_fields(&fields, version, features);
    peer_send_fd(pair[1], FRAME_HELLO, 0, flags, fields.data, fields.len, fd);
    struct wire *wire = NULL;
    struct err err;
    int r = wire_new(pair[0], pass, 2000, &wire, &err);
    if (r == 0)
        wire_unref(wire);
    close(pair[1]);
    return r;
}

static void test_hello(void) {
    autofd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), dir = open("/", O_RDONLY | O_CLOEXEC);
    ok(hello_with(PROTO_VERSION, FEATURE_ROOT_FD, FLAG_FD, root, WIRE_PASS_ROOT) == 0, "a root descriptor is taken");
    ok(hello_with(PROTO_VERSION, FEATURE_ROOT_FD, FLAG_FD, root, WIRE_PASS_FILES) == -ERR_PROTOCOL,
       "not from a runner that is no jail's");
    ok(hello_with(PROTO_VERSION + 1, 0, 0, -1, WIRE_PASS_ROOT) == -ERR_PROTOCOL, "another version is refused");
    ok(hello_with(PROTO_VERSION, FEATURE_ROOT_FD, FLAG_FD, dir, WIRE_PASS_ROOT) == -ERR_PROTOCOL,
       "a root that is not O_PATH");
    ok(hello_with(PROTO_VERSION, FEATURE_ROOT_FD, FLAG_FD, root, WIRE_PASS_NOTHING) == -ERR_PROTOCOL,
       "a descriptor on a wire that has none");
    ok(hello_with(PROTO_VERSION, FEATURE_ROOT_FD, 0, -1, WIRE_PASS_ROOT) == -ERR_PROTOCOL, "a root said and not sent");
    ok(hello_with(PROTO_VERSION, FEATURE_ROOT_FD, FLAG_FD, -1, WIRE_PASS_ROOT) == -ERR_PROTOCOL,
       "a root flagged and not sent");
    ok(hello_with(PROTO_VERSION, 0, 0, root, WIRE_PASS_ROOT) == -ERR_PROTOCOL, "a root sent and not said");
    int pair[2];
    struct wire *wire;
    struct err err;
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    ok(wire_new(pair[0], WIRE_PASS_FILES, 20, &wire, &err) == -ERR_TIMEOUT, "no HELLO is a time-out");
    close(pair[1]);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    close(pair[1]);
    ok(wire_new(pair[0], WIRE_PASS_FILES, 2000, &wire, &err) == -ERR_GONE, "a hang-up instead of HELLO is GONE");
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    peer_send(pair[1], FRAME_END, 1, 0, NULL, 0);
    ok(wire_new(pair[0], WIRE_PASS_FILES, 2000, &wire, &err) == -ERR_PROTOCOL, "another frame before HELLO is refused");
    close(pair[1]);
}

/* ---- hostile frames: one row each ---- */

struct hostile {
    const char *name;
    uint8_t type, flags;
    int call; /* 0: the open call; else added to it */
    const char *payload;
    size_t len;
    int before; /* frame type sent legally first, 0: none */
};

static const char zeros[LIMIT_FRAME_PAYLOAD_BYTES];
#define BYTES(text) (text), sizeof(text) - 1
static const struct hostile hostile_rows[] = {
    {"DATA for a call that was never opened", FRAME_DATA, 1, 5, BYTES("x"), 0},
    {"END for a call that was never opened", FRAME_END, 0, 5, BYTES(""), 0},
    {"END for a call that has ended", FRAME_END, 0, 0, BYTES(""), FRAME_END},
    {"CREDIT for a call that has ended", FRAME_CREDIT, 0, 0, BYTES("\1\0\0\0"), FRAME_END},
    {"STAT twice", FRAME_STAT, 0, 0, BYTES(""), FRAME_STAT},
    {"STAT after DATA", FRAME_STAT, 0, 0, BYTES(""), FRAME_DATA},
    {"empty DATA", FRAME_DATA, 1, 0, BYTES(""), 0},
    {"empty ITEM", FRAME_ITEM, 0, 0, BYTES(""), 0},
    {"DATA of a fourth stream", FRAME_DATA, 3, 0, BYTES("x"), 0},
    {"DATA with FLAG_FD", FRAME_DATA, FLAG_FD, 0, BYTES("x"), 0},
    {"END with flags", FRAME_END, 1, 0, BYTES(""), 0},
    {"END with an unknown field", FRAME_END, 0, 0, BYTES("\xc8\0\0\0\0"), 0},
    {"END with a field cut off", FRAME_END, 0, 0, BYTES("\2\377\0\0\0a"), 0},
    {"FAIL with a number of 3 bytes", FRAME_FAIL, 0, 0, BYTES("\66\3\0\0\0abc"), 0},
    {"CREDIT of 3 bytes", FRAME_CREDIT, 0, 0, BYTES("\1\0\0"), 0},
    {"CREDIT of nothing", FRAME_CREDIT, 0, 0, BYTES("\0\0\0\0"), 0},
    {"CREDIT of more than was sent", FRAME_CREDIT, 0, 0, BYTES("\1\0\0\0"), 0},
    {"CREDIT beyond counting", FRAME_CREDIT, 0, 0, BYTES("\377\377\377\377"), 0},
    {"a second HELLO", FRAME_HELLO, 0, 0, BYTES(""), 0},
    {"CALL", FRAME_CALL, 0, 0, BYTES(""), 0},
    {"EOF", FRAME_EOF, 0, 0, BYTES(""), 0},
    {"CANCEL", FRAME_CANCEL, 0, 0, BYTES(""), 0},
    {"an unknown type", 99, 0, 0, BYTES(""), 0},
    {"STAT that announces a descriptor and has none", FRAME_STAT, FLAG_FD, 0, BYTES(""), 0},
};

static int drain(struct call *call) {
    struct event event;
    struct err err;
    struct call_wait wait = {.fd = -1, .deadline_ms = clock_ms() + 30000};
    int r;
    while ((r = call_next(call, &wait, &event, &err)) == 0)
        if (event.fd >= 0)
            close(event.fd);
    return r;
}

static void raw_frame(int fd, const struct hostile *row, uint32_t call) {
    autobuf out = buf_max(2 * LIMIT_FRAME_PAYLOAD_BYTES);
    buf_u32(&out, (uint32_t)row->len);
    buf_u32(&out, call);
    buf_byte(&out, row->type);
    buf_byte(&out, row->flags);
    buf_u16(&out, 0);
    buf_put(&out, row->payload, row->len);
    must(fd_send(fd, out.data, out.len, -1, 0) == (ssize_t)out.len, "send");
}

static void test_hostile(void) {
    int other_peer;
    struct wire *other = wire_pair(true, &other_peer);
    for (size_t i = 0; i < sizeof hostile_rows / sizeof *hostile_rows; i++) {
        const struct hostile *row = &hostile_rows[i];
        int peer;
        struct wire *wire = wire_pair(true, &peer);
        struct call *call, *second;
        struct err err;
        must(call_open(wire, OP_PING, NULL, NULL, 0, false, &call, &err) == 0, "open");
        must(call_open(wire, OP_PING, NULL, NULL, 0, false, &second, &err) == 0, "open");
        if (row->before)
            peer_send(peer, (uint8_t)row->before, 1, row->before == FRAME_DATA, "y", row->before == FRAME_DATA);
        raw_frame(peer, row, 1 + (uint32_t)row->call);
        int r = drain(second);
        bool dead = r == -ERR_PROTOCOL && !wire_alive(wire) && ping(wire) == -ERR_PROTOCOL;
        ok(dead && wire_alive(other), row->name);
        if (!dead)
            printf("# got %d\n", r);
        call_close(call);
        call_close(second);
        wire_unref(wire);
        close(peer);
    }
    close(other_peer);
    wire_unref(other);
}

static void test_bounds(void) {
    int peer;
    struct call *call;
    struct err err;
    struct wire *wire = wire_pair(true, &peer);
    must(call_open(wire, OP_READ, NULL, NULL, 0, false, &call, &err) == 0, "open");
    struct wire *keep = wire;
    /* Nobody consumes: the fifth frame of 64 KiB is beyond the window of 256 KiB. Sent from a thread of our own: the
     * socket alone would not hold it. */
    pthread_t runner;
    int second;
    struct wire *honest = wire_pair(true, &second);
    pthread_create(&runner, NULL, honest_main, (void *)(intptr_t)second);
    for (int i = 0; i < 2; i++)
        peer_send(peer, FRAME_DATA, 1, 1, zeros, sizeof zeros);
    struct event event;
    must(call_next(call, NULL, &event, &err) == 0, "data");
    for (int i = 0; i < 2; i++)
        peer_send(peer, FRAME_DATA, 1, 1, zeros, sizeof zeros);
    peer_send(peer, FRAME_DATA, 1, 1, zeros, 1);
    int r = -ERR_INTERNAL;
    size_t got = event.len;
    /* A second call reads everything in without taking anything from the first. */
    struct call *reader;
    must(call_open(wire, OP_PING, NULL, NULL, 0, false, &reader, &err) == 0, "open");
    r = drain(reader);
    ok(r == -ERR_PROTOCOL && got <= LIMIT_CREDIT_BYTES, "a byte beyond the credit ends the wire");
    call_close(reader);
    call_close(call);
    wire_unref(keep);
    close(peer);
    wire = wire_pair(true, &peer);
    uint8_t head[FRAME_HEAD_BYTES] = {1, 0, 1, 0, 1, 0, 0, 0, FRAME_DATA, 1};
    must(call_open(wire, OP_PING, NULL, NULL, 0, false, &call, &err) == 0, "open");
    must(fd_send(peer, head, sizeof head, -1, 0) == sizeof head, "send");
    ok(drain(call) == -ERR_PROTOCOL, "a frame of 64 KiB and one byte is refused at its head");
    call_close(call);
    wire_unref(wire);
    close(peer);
    ok(ping(honest) == 0, "another wire goes on");
    wire_unref(honest);
    pthread_join(runner, NULL);
}

/* ---- descriptors ---- */

static int pass_one(int pass, uint8_t flags, bool local) {
    int peer;
    struct wire *wire = wire_pair(local, &peer);
    struct call *call;
    struct err err;
    struct event event = {.fd = -1};
    must(call_open(wire, OP_READ, NULL, NULL, 0, false, &call, &err) == 0, "open");
    peer_send_fd(peer, FRAME_STAT, 1, flags, NULL, 0, pass);
    int r = call_next(call, NULL, &event, &err);
    struct stat status;
    if (r == 0)
        r = event.fd >= 0 && fstat(event.fd, &status) == 0 && (fcntl(event.fd, F_GETFD) & FD_CLOEXEC) ? 1 : 0;
    if (r == 0 && pass >= 0) /* the STAT was good, what came with it was not */
        r = drain(call);
    fd_close(&event.fd);
    call_close(call);
    wire_unref(wire);
    close(peer);
    return r;
}

static int pass_two(void) {
    int peer;
    struct wire *wire = wire_pair(true, &peer);
    struct call *call;
    struct err err;
    must(call_open(wire, OP_READ, NULL, NULL, 0, false, &call, &err) == 0, "open");
    autobuf out = buf_max(64);
    frame_put(&out, FRAME_STAT, 1, FLAG_FD, NULL, 0);
    autofd a = open("/etc/passwd", O_RDONLY | O_CLOEXEC), b = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    int fds[2] = {a, b};
    union {
        char space[CMSG_SPACE(sizeof fds)];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = out.data, .iov_len = out.len};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds)};
    memcpy(CMSG_DATA(header), fds, sizeof fds);
    must(sendmsg(peer, &message, 0) > 0, "sendmsg");
    int r = drain(call);
    call_close(call);
    wire_unref(wire);
    close(peer);
    return r;
}

static int open_descriptors(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void test_descriptors(void) {
    int pipes[2];
    must(pipe2(pipes, O_CLOEXEC) == 0, "pipe");
    autofd file = open("/etc/passwd", O_RDONLY | O_CLOEXEC), path = open("/etc/passwd", O_PATH | O_CLOEXEC),
           dir = open("/", O_RDONLY | O_CLOEXEC), proc = open("/proc/self/status", O_RDONLY | O_CLOEXEC),
           null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int before = open_descriptors();
    ok(pass_one(file, FLAG_FD, true) == 1, "a regular file is taken, close-on-exec");
    ok(pass_one(-1, 0, true) == 0, "a STAT without one is fine");
    ok(pass_one(pipes[0], FLAG_FD, true) == -ERR_PROTOCOL, "a pipe ends the wire");
    ok(pass_one(dir, FLAG_FD, true) == -ERR_PROTOCOL, "a directory ends the wire");
    ok(pass_one(path, FLAG_FD, true) == -ERR_PROTOCOL, "an O_PATH descriptor ends the wire");
    ok(pass_one(proc, FLAG_FD, true) == -ERR_PROTOCOL, "a file of procfs ends the wire");
    ok(pass_one(null, FLAG_FD, true) == -ERR_PROTOCOL, "a device ends the wire");
    ok(pass_one(file, 0, true) == -ERR_PROTOCOL, "a descriptor that was not announced ends the wire");
    ok(pass_one(file, FLAG_FD, false) == -ERR_PROTOCOL, "a descriptor on a remote wire ends it");
    ok(pass_two() == -ERR_PROTOCOL, "two descriptors at once end the wire");
    ok(open_descriptors() == before, "and none is left behind in us");
    close(pipes[0]);
    close(pipes[1]);
}

/* ---- cancelling, dying, waiting ---- */

static void test_cancel(void) {
    int peer;
    struct wire *wire = wire_pair(true, &peer);
    struct call *call;
    struct err err;
    struct event event;
    autofd file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    struct peer *view = calloc(1, sizeof *view);
    view->fd = peer;
    must(call_open(wire, OP_READ, NULL, NULL, 0, false, &call, &err) == 0, "open");
    call_close(call);
    must(peer_read(view) && view->frame.type == FRAME_CALL, "CALL");
    ok_all("closing early cancels", peer_read(view), view->frame.type == FRAME_CANCEL, view->frame.call == 1);
    int before = open_descriptors();
    peer_send_fd(peer, FRAME_STAT, 1, FLAG_FD, NULL, 0, file);
    peer_send(peer, FRAME_DATA, 1, 1, "late", 4);
    must(call_open(wire, OP_PING, NULL, NULL, 0, false, &call, &err) == 0, "open");
    peer_send(peer, FRAME_END, 1, 0, NULL, 0);
    peer_send(peer, FRAME_END, 2, 0, NULL, 0);
    ok(call_next(call, NULL, &event, &err) == 0 && event.kind == EVENT_END, "late frames of it are legal and dropped");
    ok(open_descriptors() == before, "its late descriptor is closed");
    call_close(call);
    must(call_open(wire, OP_READ, NULL, NULL, 0, false, &call, &err) == 0, "open");
    call_cancel(call);
    peer_send(peer, FRAME_DATA, 3, 1, "rest", 4);
    peer_send(peer, FRAME_FAIL, 3, 0, BYTES("\66\10\0\0\0\6\0\0\0\0\0\0\0\67\5\0\0\0ended"));
    ok(call_next(call, NULL, &event, &err) == 0 && event.kind == EVENT_DATA, "after call_cancel the rest still comes");
    ok(call_next(call, NULL, &event, &err) == -ERR_GONE && strcmp(err.text, "ended") == 0,
       "FAIL comes back as its code and sentence");
    call_close(call);
    struct call *given;
    must(call_open(wire, OP_READ, NULL, NULL, 0, false, &given, &err) == 0, "open");
    call_close(given);
    must(call_open(wire, OP_PING, NULL, NULL, 0, false, &call, &err) == 0, "open");
    peer_send(peer, FRAME_DATA, 4, 1, zeros, sizeof zeros);
    peer_send(peer, FRAME_DATA, 4, 1, zeros, sizeof zeros);
    struct call_wait now = {.fd = -1, .deadline_ms = clock_ms() + 1};
    while (call_next(call, &now, &event, &err) != -ERR_TIMEOUT)
        ;
    peer_send(peer, FRAME_DATA, 4, 1, zeros, sizeof zeros);
    peer_send(peer, FRAME_DATA, 4, 1, zeros, sizeof zeros);
    peer_send(peer, FRAME_DATA, 4, 1, zeros, 1);
    ok(drain(call) == -ERR_PROTOCOL, "a given-up call may not send beyond its credit either");
    call_close(call);
    wire_unref(wire);
    close(peer);
    free(view);
}

static void *wait_main(void *argument) {
    return (void *)(intptr_t)ping(argument);
}

static void test_death(void) {
    int peer;
    struct wire *wire = wire_pair(true, &peer);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, wait_main, wire);
    while (wire_calls(wire) < 4)
        sched_yield();
    wire_kill(wire, "the test says so");
    bool good = true;
    for (int i = 0; i < 4; i++) {
        void *r;
        pthread_join(threads[i], &r);
        good &= (intptr_t)r == -ERR_GONE;
    }
    ok(good, "wire_kill ends every waiting call with GONE");
    struct call *call;
    struct err err;
    ok(call_open(wire, OP_PING, NULL, NULL, 0, false, &call, &err) == -ERR_GONE &&
           strcmp(err.text, "the test says so") == 0,
       "and says why");
    wire_unref(wire);
    close(peer);
    wire = wire_pair(true, &peer);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, wait_main, wire);
    while (wire_calls(wire) < 4)
        sched_yield();
    ok(wire_alive(wire), "a wire is alive while its peer is");
    close(peer);
    good = !wire_alive(wire);
    for (int i = 0; i < 4; i++) {
        void *r;
        pthread_join(threads[i], &r);
        good &= (intptr_t)r == -ERR_GONE;
    }
    ok(good, "a hang-up ends leader and followers");
    wire_unref(wire);
    wire = wire_pair(true, &peer);
    peer_send(peer, FRAME_DATA, 1, 1, "unread", 6);
    close(peer);
    ok(!wire_alive(wire), "a hang-up behind unread bytes is noticed without reading");
    wire_unref(wire);
}

struct late {
    struct call *call;
    struct call_wait wait;
    int r;
    struct event event;
};

static void *late_main(void *argument) {
    struct late *late = argument;
    struct err err;
    late->r = call_next(late->call, &late->wait, &late->event, &err);
    return NULL;
}

static void test_waiting(void) {
    int peer, client[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, client) == 0, "socketpair");
    struct wire *wire = wire_pair(true, &peer);
    struct call *first, *second;
    struct err err;
    struct event event;
    must(call_open(wire, OP_PING, NULL, NULL, 0, false, &first, &err) == 0, "open");
    must(call_open(wire, OP_PING, NULL, NULL, 0, false, &second, &err) == 0, "open");
    struct call_wait soon = {.fd = -1, .deadline_ms = clock_ms() + 5};
    ok(call_next(first, &soon, &event, &err) == -ERR_TIMEOUT, "a deadline is kept and the call lives on");
    /* One leads, watching a client; the other follows. The leader leaves for its client: the follower must lead. */
    struct late leader = {.call = first, .wait = {.fd = client[0], .events = POLLRDHUP}};
    struct late follower = {.call = second, .wait = {.fd = -1}};
    pthread_t a, b;
    pthread_create(&a, NULL, late_main, &leader);
    pthread_create(&b, NULL, late_main, &follower);
    shutdown(client[1], SHUT_WR);
    pthread_join(a, NULL);
    ok_all("a client's hang-up comes as EVENT_READY", leader.r == 0, leader.event.kind == EVENT_READY,
           (leader.event.revents & POLLRDHUP));
    peer_send(peer, FRAME_END, 2, 0, NULL, 0);
    pthread_join(b, NULL);
    ok(follower.r == 0 && follower.event.kind == EVENT_END, "the one that followed leads when the leader leaves");
    peer_send(peer, FRAME_END, 1, 0, NULL, 0);
    ok(call_next(first, NULL, &event, &err) == 0 && event.kind == EVENT_END, "and the first can go on afterwards");
    call_close(first);
    call_close(second);
    /* The descriptor is looked at even while there is always something to take. */
    must(call_open(wire, OP_READ, NULL, NULL, 0, false, &first, &err) == 0, "open");
    for (int i = 0; i < 200; i++)
        peer_send(peer, FRAME_DATA, 3, (uint8_t)(1 + i % 2), "z", 1);
    bool seen = false;
    for (int i = 0; i < 100 && !seen; i++)
        seen = call_next(first, &leader.wait, &event, &err) == 0 && event.kind == EVENT_READY;
    ok(seen, "a hang-up is seen in the middle of a flood");
    call_close(first);
    close(client[0]);
    close(client[1]);
    wire_unref(wire);
    close(peer);
}

static void test_limits(void) {
    int peer;
    struct wire *wire = wire_pair(true, &peer);
    pthread_t runner;
    pthread_create(&runner, NULL, honest_main, (void *)(intptr_t)peer);
    struct call **calls = calloc(LIMIT_CALLS_PER_WIRE + 1, sizeof *calls);
    struct err err;
    unsigned opened = 0;
    int r = 0;
    while (opened <= LIMIT_CALLS_PER_WIRE &&
           (r = call_open(wire, OP_WRITE, NULL, NULL, 0, false, &calls[opened], &err)) == 0)
        opened++;
    ok(opened == LIMIT_CALLS_PER_WIRE && r == -ERR_BUSY, "one call too many is BUSY");
    for (unsigned i = 0; i < opened; i++)
        call_close(calls[i]);
    free(calls);
    r = ping(wire);
    ok(r == 0 || r == -ERR_BUSY, "given-up calls are cleared as their ENDs come in");
    autobuf args = buf_max(4u << 20);
    uint8_t *text = malloc(400000);
    memset(text, 'a', 400000);
    field_bytes(&args, FIELD_COMMAND, text, 400000);
    struct call *call;
    struct event event;
    r = call_open(wire, OP_PING, &args, NULL, 0, false, &call, &err);
    ok(r == 0, "arguments of several frames are sent");
    if (r == 0)
        call_close(call);
    for (int i = 0; i < 2; i++)
        field_bytes(&args, FIELD_COMMAND, text, 400000);
    ok(call_open(wire, OP_PING, &args, NULL, 0, false, &call, &err) == -ERR_TOO_LARGE, "a MiB of them is too large");
    free(text);
    wire_unref(wire);
    pthread_join(runner, NULL);
    wire = wire_pair(true, &peer);
    must(call_open(wire, OP_WRITE, NULL, "abc", 3, true, &call, &err) == 0, "open");
    struct peer *view = calloc(1, sizeof *view);
    view->fd = peer;
    bool good = peer_read(view) && view->frame.type == FRAME_CALL;
    good = good && peer_read(view) && view->frame.type == FRAME_DATA && view->frame.len == 3;
    good = good && peer_read(view) && view->frame.type == FRAME_EOF;
    ok(good, "input at hand travels with its call");
    peer_send(peer, FRAME_END, 1, 0, NULL, 0);
    ok(call_next(call, NULL, &event, &err) == 0 && event.kind == EVENT_END, "and is answered");
    call_close(call);
    wire_unref(wire);
    close(peer);
    free(view);
}

static void test_names(void) {
    static const enum op ops[] = {
#define X(name, number) OP_##name,
        OP_LIST(X)
#undef X
    };
    bool all = true;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        all &= op_name(ops[i]) && !strpbrk(op_name(ops[i]), "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    ok_all("every op has its name, and nothing else has one", all, strcmp(op_name(OP_TAR_OUT), "tar-out") == 0,
           strcmp(op_name(OP_DIFF), "diff") == 0, !op_name(0), !op_name(1000));
}

int main(void) {
    test_names();
    test_hello();
    test_honest();
    test_hostile();
    test_bounds();
    test_descriptors();
    test_cancel();
    test_death();
    test_waiting();
    test_limits();
    return tap_end();
}
