/* A compromised runner. A daemon is given it as --runner: for a box with EVIL=MODE in its environment (backend local) it
 * breaks the wire's rules in that way, for every other box it becomes the real runner beside the daemon. Used by
 * test/hostile/runner_compromised.sh. "attack_runner --modes" lists the modes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { WIRE = 3, HEAD = 12, PAYLOAD = 65536, WINDOW = 262144 };
enum { HELLO = 1, CALL, STAT, DATA, ITEM, END, FAIL, CREDIT, EOF_, CANCEL };
enum {
    PATH = 2,
    PID = 19,
    EXIT = 41,
    DURATION = 47,
    CODE = 54,
    MESSAGE = 55,
    VERSION = 56,
    FEATURES = 60,
    WORKSPACE = 63
};
#define FLAG_FD 0x80

static void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* ---- frames ---- */

static uint8_t out[2 * PAYLOAD];
static size_t out_len;

static void put(const void *data, size_t len) {
    memcpy(out + out_len, data, len);
    out_len += len;
}

static void put_number(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++, value >>= 8)
        put(&(uint8_t){(uint8_t)value}, 1);
}

static void put_head(uint32_t len, uint32_t call, int type, int flags) {
    put_number(len, 4);
    put_number(call, 4);
    put_number((uint64_t)type, 1);
    put_number((uint64_t)flags, 1);
    put_number(0, 2);
}

static void put_field(int id, const void *data, size_t len) {
    put_number((uint64_t)id, 1);
    put_number(len, 4);
    put(data, len);
}

static void put_field_number(int id, uint64_t value) {
    put_number((uint64_t)id, 1);
    put_number(8, 4);
    put_number(value, 8);
}

static void send_bytes(const void *data, size_t len) {
    for (const char *at = data; len;) {
        ssize_t n = send(WIRE, at, len, MSG_NOSIGNAL);
        if (n <= 0)
            _exit(0); /* the daemon has had enough */
        at += n;
        len -= (size_t)n;
    }
}

static void flush(void) {
    send_bytes(out, out_len);
    out_len = 0;
}

static void flush_with(const int *fds, size_t count) {
    struct iovec part = {out, out_len};
    union {
        char space[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    if (sendmsg(WIRE, &message, MSG_NOSIGNAL) < 0)
        _exit(1);
    out_len = 0;
}

static bool read_all(void *data, size_t len) {
    for (char *at = data; len;) {
        ssize_t n = recv(WIRE, at, len, 0);
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static uint32_t number_at(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The next frame's type and call; its payload is dropped but for the first 4 bytes. */
static int next_frame(uint32_t *ret_call, uint32_t *ret_word) {
    uint8_t head[HEAD];
    static uint8_t payload[PAYLOAD];
    if (!read_all(head, sizeof head) || number_at(head) > PAYLOAD || !read_all(payload, number_at(head)))
        _exit(0);
    *ret_call = number_at(head + 4);
    *ret_word = number_at(payload);
    return head[8];
}

static uint32_t wait_call(void) {
    uint32_t call, word;
    while (next_frame(&call, &word) != CALL)
        ;
    return call;
}

/* ---- what a good one says ---- */

static void put_hello(uint64_t version, uint64_t features, int flags, const char *workspace) {
    put_head((uint32_t)(13 + 13 + 5 + strlen(workspace)), 0, HELLO, flags);
    put_field_number(VERSION, version);
    put_field_number(FEATURES, features);
    put_field(WORKSPACE, workspace, strlen(workspace));
}

static void greet(void) {
    put_hello(1, 1, 0, "/workspace");
    flush();
}

static void put_end(uint32_t call) {
    put_head(13, call, END, 0);
    put_field_number(EXIT, 0);
}

static void put_data(uint32_t call, size_t len) {
    put_head((uint32_t)len, call, DATA, 1);
    memset(out + out_len, 'x', len);
    out_len += len;
}

/* ---- before the first call ---- */

static void hello_version(void) {
    put_hello(2, 0, 0, "/workspace");
    flush();
}
static void hello_none(void) {
}
static void hello_bytes(void) { /* allowed: it must work */
    put_hello(1, 1, 0, "/workspace");
    for (size_t i = 0; i < out_len; i++)
        send_bytes(out + i, 1);
    out_len = 0;
    for (;;) {
        put_end(wait_call());
        flush();
    }
}
static void hello_drops(void) {
    put_hello(1, 1, 0, "/workspace");
    for (size_t i = 0; i < out_len; i++, pause_ms(1000))
        send_bytes(out + i, 1);
}
static void hello_long(void) {
    put_head(0xffffffff, 0, HELLO, 0);
    flush();
}
static void hello_twice(void) {
    greet();
    greet();
}
static void hello_late(void) {
    put_end(1);
    put_hello(1, 1, 0, "/workspace");
    flush();
}
static void hello_root(void) { /* a file for a root */
    int fd = open("/etc/passwd", O_RDONLY);
    put_hello(1, 3, FLAG_FD, "/workspace");
    flush_with(&fd, 1);
}
static void hello_foreign_root(void) { /* a true one, of a box without walls */
    int fd = open("/", O_PATH | O_DIRECTORY);
    put_hello(1, 3, FLAG_FD, "/workspace");
    flush_with(&fd, 1);
}
static void hello_relative(void) {
    put_hello(1, 1, 0, "../../etc");
    flush();
}
static void early(void) {
    greet();
    put_end(1);
    flush();
}

/* ---- at the first call ---- */

static void wrong_frame(int type, uint32_t len, int flags) {
    greet();
    uint32_t call = wait_call();
    put_head(len, call, type, flags);
    for (uint32_t i = 0; i < len; i++)
        put_number(0xff, 1);
    flush();
}

static void length(void) {
    greet();
    put_head(0xffffffff, wait_call(), DATA, 1);
    flush();
}
static void length_one_more(void) {
    greet();
    put_head(PAYLOAD + 1, wait_call(), DATA, 1);
    flush();
}
static void foreign(void) {
    greet();
    put_end(wait_call() + 77);
    flush();
}
static void zero(void) {
    greet();
    wait_call();
    put_end(0);
    flush();
}
static void end_twice(void) {
    greet();
    uint32_t call = wait_call();
    put_end(call);
    put_end(call);
    flush();
}
static void data_after_end(void) {
    greet();
    uint32_t call = wait_call();
    put_end(call);
    put_data(call, 10);
    flush();
}
static void stat_twice(void) {
    greet();
    uint32_t call = wait_call();
    for (int i = 0; i < 2; i++) {
        put_head(13, call, STAT, 0);
        put_field_number(PID, 7);
    }
    flush();
}
static void stat_after_data(void) {
    greet();
    uint32_t call = wait_call();
    put_data(call, 1);
    put_head(13, call, STAT, 0);
    put_field_number(PID, 7);
    flush();
}
static void item(void) {
    greet();
    put_head(4, wait_call(), ITEM, 0);
    put_number(0, 4);
    flush();
}
static void item_cut(void) {
    greet();
    put_head(8, wait_call(), ITEM, 0);
    put_number(1000, 8);
    flush();
}
static void items(void) { /* more of them than were asked for, without end */
    greet();
    uint32_t call = wait_call();
    for (;;) {
        put_head(4 + 5 + 5, call, ITEM, 0);
        put_number(10, 4);
        put_field(PATH, "/evil", 5);
        flush();
    }
}
static void empty_data(void) {
    greet();
    put_head(0, wait_call(), DATA, 1);
    flush();
}
static void wrong_stream(void) {
    wrong_frame(DATA, 4, 3);
}
static void wrong_type(void) {
    wrong_frame(99, 4, 0);
}
static void wrong_fields(void) {
    wrong_frame(END, 40, 0);
}
static void call_back(void) { /* a runner has nothing to ask */
    wrong_frame(CALL, 0, 0);
}
static void credit_nothing(void) {
    greet();
    uint32_t call = wait_call();
    for (;;) {
        put_head(4, call, CREDIT, 0);
        put_number(0, 4);
        flush();
    }
}
static void credit_much(void) {
    greet();
    put_head(4, wait_call(), CREDIT, 0);
    put_number(WINDOW, 4);
    flush();
}
static void beyond_credit(void) { /* for a client that does not read: nobody gives credit back */
    greet();
    uint32_t call = wait_call();
    for (;;) {
        put_data(call, PAYLOAD);
        flush();
    }
}
static void stream(void) { /* valid, within credit, without end */
    greet();
    uint32_t call = wait_call(), window = WINDOW, other, word;
    for (;;) {
        struct pollfd ready = {.fd = WIRE, .events = POLLIN};
        if (poll(&ready, 1, window >= PAYLOAD ? 0 : -1) > 0) {
            if (next_frame(&other, &word) == CREDIT)
                window += word;
            continue;
        }
        put_data(call, PAYLOAD);
        flush();
        window -= PAYLOAD;
    }
}
static void silent(void) {
    greet();
    for (;;)
        wait_call();
}
static void drops(void) {
    greet();
    put_end(wait_call());
    for (size_t i = 0; i < out_len; i++, pause_ms(50))
        send_bytes(out + i, 1);
    _exit(0);
}
static void half(void) {
    greet();
    put_end(wait_call());
    send_bytes(out, out_len / 2);
    _exit(0);
}
static void deaf(void) { /* reads nothing any more */
    greet();
    wait_call();
    for (;;)
        pause();
}
static void fail_text(void) { /* what it says is shown to people */
    static const char text[] = "\x1b]0;owned\x07 <script>\r\n\xff\xfe \"quoted\" \\";
    greet();
    put_head(13 + 5 + sizeof text - 1, wait_call(), FAIL, 0);
    put_field_number(CODE, 250);
    put_field(MESSAGE, text, sizeof text - 1);
    flush();
    for (;;)
        wait_call();
}
static void numbers(void) {
    greet();
    put_head(26, wait_call(), END, 0);
    put_field_number(EXIT, UINT64_MAX);
    put_field_number(DURATION, UINT64_MAX);
    flush();
    for (;;)
        wait_call();
}

/* ---- descriptors ---- */

static void pass(const int *fds, size_t count, int flags) {
    greet();
    put_head(0, wait_call(), STAT, flags);
    flush_with(fds, count);
}
static void pass_one(int fd) {
    if (fd < 0)
        _exit(9);
    pass(&fd, 1, FLAG_FD);
}
static void fd_directory(void) {
    pass_one(open("/", O_RDONLY | O_DIRECTORY));
}
static void fd_path(void) {
    pass_one(open("/etc/passwd", O_PATH));
}
static void fd_socket(void) {
    pass_one(socket(AF_UNIX, SOCK_STREAM, 0));
}
static void fd_fifo(void) {
    int ends[2];
    pass_one(pipe(ends) == 0 ? ends[0] : -1);
}
static void fd_device(void) {
    pass_one(open("/dev/zero", O_RDONLY));
}
static void fd_proc(void) {
    pass_one(open("/proc/self/maps", O_RDONLY));
}
static void fd_two(void) {
    int fds[] = {open("/etc/passwd", O_RDONLY), open("/etc/group", O_RDONLY)};
    pass(fds, 2, FLAG_FD);
}
static void fd_many(void) {
    int fds[8];
    for (int i = 0; i < 8; i++)
        fds[i] = open("/etc/passwd", O_RDONLY);
    pass(fds, 8, FLAG_FD);
}
static void fd_silent(void) { /* one that no flag announces */
    int fd = open("/etc/passwd", O_RDONLY);
    pass(&fd, 1, 0);
}
static void fd_announced(void) {
    greet();
    put_head(0, wait_call(), STAT, FLAG_FD);
    flush();
}
static void fd_unasked(void) { /* with an op that takes none: it must be closed, the call goes on */
    int fd = open("/etc/passwd", O_RDONLY);
    greet();
    for (;;) {
        uint32_t call = wait_call();
        put_head(0, call, STAT, FLAG_FD);
        flush_with(&fd, 1);
        put_end(call);
        flush();
    }
}

/* name, what it does */
/* clang-format off */
#define MODES(X)                                                                                                       \
    X(hello_version)                                                                                                   \
    X(hello_none)                                                                                                      \
    X(hello_bytes)                                                                                                     \
    X(hello_drops) X(hello_long) X(hello_twice) X(hello_late) X(hello_root) X(hello_foreign_root) X(hello_relative) X(early) X(length)       \
        X(length_one_more) X(foreign) X(zero) X(end_twice) X(data_after_end) X(stat_twice) X(stat_after_data) X(item)  \
            X(item_cut) X(items) X(empty_data) X(wrong_stream) X(wrong_type) X(wrong_fields) X(call_back)              \
                X(credit_nothing) X(credit_much) X(beyond_credit) X(stream) X(silent) X(drops) X(half) X(deaf)         \
                    X(fail_text) X(numbers) X(fd_directory) X(fd_path) X(fd_socket) X(fd_fifo) X(fd_device) X(fd_proc) \
                        X(fd_two) X(fd_many) X(fd_silent) X(fd_announced) X(fd_unasked)
/* clang-format on */

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
#define X(name) {#name, name},
    MODES(X)
#undef X
};

static _Noreturn void become_real(char **argv) {
    char path[4096], parent[64];
    snprintf(parent, sizeof parent, "/proc/%d/exe", (int)getppid()); /* the daemon; we ourselves may be a copy */
    ssize_t n = readlink(parent, path, sizeof path - 64);
    if (n <= 0)
        _exit(127);
    path[n] = 0;
    snprintf(strrchr(path, '/'), 64, "/cubby-runner");
    execv(path, argv);
    _exit(127);
}

int main(int argc, char **argv) {
    const char *wanted = NULL;
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--env") == 0 && strncmp(argv[i + 1], "EVIL=", 5) == 0)
            wanted = argv[i + 1] + 5;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (argc == 2 && strcmp(argv[1], "--modes") == 0)
            puts(modes[i].name);
        if (!wanted || strcmp(wanted, modes[i].name) != 0)
            continue;
        modes[i].run();
        for (;;) /* until the daemon ends us */
            pause();
    }
    if (argc == 2 && strcmp(argv[1], "--modes") == 0)
        return 0;
    become_real(argv);
}
