/* The runner's protocol, seen from the daemon's side: starts `cubby-runner serve` (argv[1], else the one of the same
 * build) over a socketpair and checks what comes back, byte for byte where it matters. TAP on standard output. With `bench` as argv[2] it measures
 * exec of /bin/true instead, beside posix_spawn. Nothing sleeps: every wait is for an event, with an alarm as the end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "runner_peer.h"

/* ---- tests ---- */

static void test_exec(struct peer *peer) {
    struct answer a;
    exec_run(peer, "echo out; echo err >&2; exit 3", 0, &a);
    ok_all("exec: streams and exit code", exit_is(&a, 3), stream_is(&a, 1, "out\n"), stream_is(&a, 2, "err\n"));
    ok(a.has_stat && a.stat.number[FIELD_PID] > 1, "exec: STAT with the pid");
    ok(a.end.number[FIELD_BYTES_OUT] == 4 && a.end.number[FIELD_BYTES_ERR] == 4, "exec: byte counts");
    answer_done(&a);
    exec_run(peer, "kill -SEGV $$", 0, &a);
    ok(!a.failed && a.end.number[FIELD_SIGNALLED] == SIGSEGV, "exec: killed by a signal is a result");
    answer_done(&a);
    exec_run(peer, "pwd; echo $GREETING; cat", 0, &a);
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%s\nhello\n", workspace);
    ok(exit_is(&a, 0) && stream_is(&a, 1, wanted), "exec: workspace, environment, stdin is /dev/null");
    answer_done(&a);
    exec_run(peer, "nosuchcommand", 0, &a);
    ok(exit_is(&a, 127) && a.streams[2].len > 0, "exec: unknown command in the shell is 127 with its text");
    answer_done(&a);
    exec_run(peer, "ls -l /proc/self/fd | grep -c ' -> '; ulimit -c; grep SigBlk /proc/self/status", 0, &a);
    ok(stream_is(&a, 1, "4\n0\nSigBlk:\t0000000000000000\n"), "exec: no foreign descriptors, no core, no mask");
    answer_done(&a);
}

static void test_argv(struct peer *peer) {
    struct answer a;
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_ARGV, "printf");
    field_text(&args, FIELD_ARGV, "[%s]");
    field_text(&args, FIELD_ARGV, "a b");
    call_run(peer, &args, &a);
    ok(exit_is(&a, 0) && stream_is(&a, 1, "[a b]"), "argv: found in PATH, no shell");
    answer_done(&a);
    args = args_of(OP_EXEC);
    field_text(&args, FIELD_ARGV, "nosuchcommand");
    call_run(peer, &args, &a);
    ok(fail_is(&a, ERR_NOT_FOUND, "no command 'nosuchcommand'") && !a.has_stat, "argv: an unknown command is named");
    answer_done(&a);
    args = args_of(OP_EXEC);
    field_text(&args, FIELD_ARGV, "/etc/passwd");
    call_run(peer, &args, &a);
    ok(fail_is(&a, ERR_DENIED, "/etc/passwd"), "argv: not executable is DENIED");
    answer_done(&a);
    args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "true");
    field_text(&args, FIELD_CWD, "/no/such/place");
    call_run(peer, &args, &a);
    ok(fail_is(&a, ERR_NOT_FOUND, "/no/such/place"), "cwd: missing is NOT_FOUND and named");
    answer_done(&a);
    args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "echo $GREETING $X");
    field_text(&args, FIELD_ENV, "GREETING=bye");
    field_text(&args, FIELD_ENV, "X=1");
    field_text(&args, FIELD_ENV, "X=2");
    call_run(peer, &args, &a);
    ok(stream_is(&a, 1, "bye 2\n"), "env: later wins");
    answer_done(&a);
    args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "true");
    field_text(&args, FIELD_ENV, "=1");
    call_run(peer, &args, &a);
    ok(fail_is(&a, ERR_INVALID, "NAME=VALUE"), "env: an empty name is INVALID");
    answer_done(&a);
    args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "true");
    field_text(&args, FIELD_USER, "nobody");
    call_run(peer, &args, &a);
    ok(fail_is(&a, ERR_INVALID, "nobody"), "user: only agent and root");
    answer_done(&a);
}

static void test_long_args(struct peer *peer) {
    struct answer a;
    struct buf args = args_of(OP_EXEC);
    char *big = malloc(100001);
    memset(big, 'x', 100000);
    big[100000] = 0;
    field_text(&args, FIELD_ARGV, "printf");
    field_text(&args, FIELD_ARGV, "%s%s");
    field_text(&args, FIELD_ARGV, big);
    field_text(&args, FIELD_ARGV, big);
    free(big);
    call_run(peer, &args, &a);
    ok(exit_is(&a, 0) && a.streams[1].len == 200000, "CALL in several pieces");
    answer_done(&a);
}

static void test_stdin(struct peer *peer) {
    struct answer a;
    answer_init(&a);
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "cat; echo done >&2");
    field_number(&args, FIELD_FLAGS, CALL_STDIN);
    uint32_t id = call_put(peer, &args);
    frame_put(&peer->out, FRAME_DATA, id, 0, "hello ", 6);
    frame_put(&peer->out, FRAME_DATA, id, 0, "there", 5);
    frame_put(&peer->out, FRAME_EOF, id, 0, NULL, 0);
    peer_flush(peer);
    answer_wait(peer, id, &a);
    ok_all("stdin: bytes and end", exit_is(&a, 0), stream_is(&a, 1, "hello there"), stream_is(&a, 2, "done\n"));
    answer_done(&a);
}

/* More input than a window: credit must come back, and all of it must arrive. The largest window there was. */
static uint64_t stdin_through(struct peer *peer, uint64_t total, const char *name) {
    struct answer a;
    answer_init(&a);
    enum { PIECE = 32768 };
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "wc -c");
    field_number(&args, FIELD_FLAGS, CALL_STDIN);
    uint32_t id = call_put(peer, &args);
    static uint8_t piece[PIECE];
    uint64_t credit = LIMIT_CREDIT_BYTES, sent = 0, most = credit;
    bool ended = false;
    while (sent < total && !ended) {
        for (; credit >= PIECE && sent < total; sent += PIECE, credit -= PIECE) {
            frame_put(&peer->out, FRAME_DATA, id, 0, piece, PIECE);
            peer_flush(peer);
        }
        struct frame frame;
        while (sent < total && credit < PIECE && !ended) {
            ended = !peer_frame(peer, &frame) || frame.type == FRAME_END;
            if (!ended && frame.call == id && frame.type == FRAME_CREDIT) {
                struct view view = view_of(frame.payload, frame.len);
                credit += view_u32(&view);
                most = credit > most ? credit : most;
            }
        }
    }
    frame_put(&peer->out, FRAME_EOF, id, 0, NULL, 0);
    peer_flush(peer);
    answer_wait(peer, id, &a);
    char counted[32];
    snprintf(counted, sizeof counted, "%llu\n", (unsigned long long)total);
    ok(!ended && exit_is(&a, 0) && stream_is(&a, 1, counted), "%s", name);
    answer_done(&a);
    return most;
}

static void test_stdin_credit(struct peer *peer) {
    uint64_t most = stdin_through(peer, 3 << 20, "stdin: 3 MiB through a window of 256 KiB");
    ok(most == LIMIT_CREDIT_BYTES, "which stays as large");
}

static void test_far(void) {
    struct peer peer;
    peer_open(&peer, -1);
    autobuf fields = buf_max(64);
    field_number(&fields, FIELD_VERSION, PROTO_VERSION);
    field_number(&fields, FIELD_FEATURES, FEATURE_FAR);
    frame_put(&peer.out, FRAME_HELLO, 0, 0, fields.data, fields.len);
    peer_flush(&peer);
    struct frame frame;
    ok(peer_frame(&peer, &frame) && frame.type == FRAME_HELLO, "far: HELLO");
    uint64_t most = stdin_through(&peer, 48 << 20, "far: 48 MiB of input");
    ok(most > LIMIT_CREDIT_BYTES && most <= LIMIT_CREDIT_MOST_BYTES, "far: through a window that grew to its bound");
    peer_close(&peer);
}

static void test_output_credit(struct peer *peer) {
    struct answer a;
    answer_init(&a);
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "head -c 2000000 /dev/zero; echo end >&2");
    uint32_t id = call_put(peer, &args);
    peer_flush(peer);
    while (a.streams[1].len < LIMIT_CREDIT_BYTES && answer_step(peer, id, &a, false))
        ;
    /* Nothing more may come: another call is answered, and nothing of the first is before its answer. */
    struct answer ping;
    answer_init(&ping);
    args = args_of(OP_PING);
    uint32_t ping_id = call_put(peer, &args);
    peer_flush(peer);
    struct frame frame;
    bool quiet = true;
    while (peer_frame(peer, &frame) && frame.call != ping_id)
        quiet &= frame.type != FRAME_DATA;
    ok(quiet && a.streams[1].len == LIMIT_CREDIT_BYTES, "credit: output stops at the window, other calls go on");
    credit_put(peer, id, 4 << 20);
    peer_flush(peer);
    answer_wait(peer, id, &a);
    ok_all("credit: the rest comes, nothing is lost", exit_is(&a, 0), a.streams[1].len == 2000000,
           a.end.number[FIELD_BYTES_OUT] == 2000000, stream_is(&a, 2, "end\n"));
    answer_done(&ping);
    answer_done(&a);
}

/* A command with a time-out that has printed one of `marks` by then; on a busy machine it is run again with more time,
 * because a shell that has not got so far shows nothing. Returns the time-out. */
static uint64_t timed_run(struct peer *peer, const char *command, uint64_t timeout_ms, const char *marks,
                          uint64_t *ret_begin_ms, struct answer *ret_answer) {
    for (;; timeout_ms *= 4) {
        struct buf args = args_of(OP_EXEC);
        field_text(&args, FIELD_COMMAND, command);
        field_number(&args, FIELD_TIMEOUT_MS, timeout_ms);
        *ret_begin_ms = clock_ms();
        call_run(peer, &args, ret_answer);
        const char *text = buf_cstr(&ret_answer->streams[1]);
        if ((text && strpbrk(text, marks)) || timeout_ms > 20000)
            return timeout_ms;
        answer_done(ret_answer);
    }
}

static void test_grandchildren(struct peer *peer) {
    struct answer a;
    exec_run(peer,
             "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'trap \"\" TERM HUP; echo $$ ; sleep 1000' &) ; "
             "while ! [ -s x ]; do sleep 0.01; echo > x; done; echo main",
             0, &a);
    ok(exit_is(&a, 0) && a.end.number[FIELD_DURATION_MS] < 900, "exec: ends with its main process, not its children");
    pid_t left = (int)strtol(buf_cstr(&a.streams[1]), NULL, 10);
    ok(left <= 0 || process_gone(left), "exec: what it left behind is killed with it");
    answer_done(&a);
    uint64_t begin_ms;
    uint64_t wait_ms =
        timed_run(peer, "echo before; (setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000' &); sleep 1000", 300,
                  "0123456789", &begin_ms, &a);
    uint64_t took_ms = clock_ms() - begin_ms;
    char *text = buf_cstr(&a.streams[1]);
    ok(!a.failed && a.end.number[FIELD_TIMED_OUT] == 1 && took_ms >= wait_ms && took_ms < wait_ms + 20000,
       "time-out: partial output and timed_out (%llu ms)", (unsigned long long)took_ms);
    const char *number = text ? strpbrk(text, "0123456789") : NULL;
    ok(number && process_gone((int)strtol(number, NULL, 10)), "time-out: a grandchild that ignores SIGTERM is gone");
    answer_done(&a);
    timed_run(peer, "trap '' TERM; echo 1; while :; do sleep 0.05; done", 100, "1", &begin_ms, &a);
    ok_all("time-out: SIGKILL after the grace", !a.failed, a.end.number[FIELD_SIGNALLED] == SIGKILL,
           a.end.number[FIELD_DURATION_MS] >= 2000);
    answer_done(&a);
}

static void test_cancel(struct peer *peer) {
    struct answer a;
    answer_init(&a);
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "(trap '' TERM; setsid sleep 1000) & echo $!; wait");
    uint32_t id = call_put(peer, &args);
    peer_flush(peer);
    while (a.streams[1].len == 0 && answer_step(peer, id, &a, true))
        ;
    pid_t child = (int)strtol(buf_cstr(&a.streams[1]), NULL, 10);
    frame_put(&peer->out, FRAME_CANCEL, id, 0, NULL, 0);
    peer_flush(peer);
    answer_wait(peer, id, &a);
    ok_all("cancel: the tree is gone when it is answered", child > 1, process_gone(child),
           process_gone((pid_t)a.stat.number[FIELD_PID]));
    answer_done(&a);
    answer_init(&a);
    args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "yes");
    id = call_put(peer, &args);
    peer_flush(peer);
    while (a.streams[1].len < LIMIT_CREDIT_BYTES && answer_step(peer, id, &a, false))
        ;
    frame_put(&peer->out, FRAME_CANCEL, id, 0, NULL, 0);
    peer_flush(peer);
    answer_wait(peer, id, &a);
    ok(!a.wire_gone && a.streams[1].len == LIMIT_CREDIT_BYTES, "cancel: also without credit");
    answer_done(&a);
}

static void test_concurrent(struct peer *peer) {
    enum { COUNT = 400 };
    for (int i = 0; i < COUNT; i++) {
        struct buf args = args_of(OP_EXEC);
        field_text(&args, FIELD_COMMAND, "echo x");
        call_put(peer, &args);
    }
    peer_flush(peer);
    unsigned ended = 0, refused = 0, answered = 0;
    struct frame frame;
    while (answered < COUNT && peer_frame(peer, &frame)) {
        ended += frame.type == FRAME_END;
        refused += frame.type == FRAME_FAIL;
        answered = ended + refused;
    }
    ok(answered == COUNT && ended >= LIMIT_PROCESSES, "400 commands at once: %u ran, %u were refused", ended, refused);
}

/* Bytes no daemon may send: the wire goes, nothing hangs. */
static void test_malformed(void) {
    static const struct {
        const char *name;
        uint8_t bytes[32];
        size_t len;
        bool hello;
    } rows[] = {
        {"garbage", "GET / HTTP/1.1\r\n\r\n", 18, false},
        {"no HELLO first", {0, 0, 0, 0, 1, 0, 0, 0, FRAME_CALL, 0, 0, 0}, 12, false},
        {"a length of 4 GB", {255, 255, 255, 255, 1, 0, 0, 0, FRAME_CALL, 0, 0, 0}, 12, true},
        {"an unknown type", {0, 0, 0, 0, 1, 0, 0, 0, 77, 0, 0, 0}, 12, true},
        {"a runner's frame", {0, 0, 0, 0, 1, 0, 0, 0, FRAME_END, 0, 0, 0}, 12, true},
        {"a second HELLO", {0, 0, 0, 0, 0, 0, 0, 0, FRAME_HELLO, 0, 0, 0}, 12, true},
        {"call id 0", {0, 0, 0, 0, 0, 0, 0, 0, FRAME_CALL, 0, 0, 0}, 12, true},
        {"a cut field", {3, 0, 0, 0, 1, 0, 0, 0, FRAME_CALL, 0, 0, 0, 1, 8, 0}, 15, true},
        {"an unknown field", {5, 0, 0, 0, 1, 0, 0, 0, FRAME_CALL, 0, 0, 0, 200, 0, 0, 0, 0}, 17, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct peer peer;
        struct frame frame;
        peer_open(&peer, -1);
        if (rows[i].hello)
            peer_hello(&peer);
        (void)fd_write_all(peer.fd, rows[i].bytes, rows[i].len);
        while (peer_frame(&peer, &frame))
            ;
        int status = 0;
        ok(waitpid(peer.pid, &status, 0) == peer.pid && WIFEXITED(status), "malformed: %s ends the wire", rows[i].name);
        peer.pid = 0;
        peer_close(&peer);
    }
    struct peer peer;
    struct frame frame;
    peer_new(&peer);
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "sleep 1000");
    field_number(&args, FIELD_FLAGS, CALL_STDIN);
    uint32_t id = call_put(&peer, &args);
    static uint8_t piece[65536];
    for (int i = 0; i < 8; i++) /* the window and what the pipe takes are less */
        frame_put(&peer.out, FRAME_DATA, id, 0, piece, sizeof piece);
    peer_flush(&peer);
    while (peer_frame(&peer, &frame))
        ;
    ok(true, "malformed: input beyond credit ends the wire");
    peer_close(&peer);
}

static void test_harmless(struct peer *peer) {
    struct answer a;
    credit_put(peer, 7777, 10);
    frame_put(&peer->out, FRAME_DATA, 7777, 0, "x", 1);
    frame_put(&peer->out, FRAME_EOF, 7777, 0, NULL, 0);
    frame_put(&peer->out, FRAME_CANCEL, 7777, 0, NULL, 0);
    struct buf args = args_of(OP_PING);
    call_run(peer, &args, &a);
    ok(!a.failed && !a.wire_gone, "frames for an ended call are ignored");
    answer_done(&a);
    args = args_of((enum op)250);
    call_run(peer, &args, &a);
    ok(fail_is(&a, ERR_UNSUPPORTED, "250"), "an unknown op is UNSUPPORTED");
    answer_done(&a);
}

/* The answer of a short command comes in one piece: what one recv brings holds END. */
static void test_one_send(struct peer *peer) {
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_ARGV, "/bin/true");
    buf_consume(&peer->in, peer->last_bytes);
    peer->last_bytes = 0;
    uint32_t id = call_put(peer, &args);
    peer_flush(peer);
    uint8_t bytes[4096];
    ssize_t n = recv(peer->fd, bytes, sizeof bytes, 0);
    struct frame frame;
    struct err err;
    size_t done = 0;
    bool ended = false;
    while (n > 0 && frame_parse(bytes + done, (size_t)n - done, &frame, &err) > 0) {
        ended |= frame.type == FRAME_END && frame.call == id;
        done += FRAME_HEAD_BYTES + frame.len;
    }
    if (!ended) { /* a slow machine: take the rest, it is not wrong */
        struct answer a;
        answer_init(&a);
        buf_put(&peer->in, bytes + done, (size_t)n - done);
        answer_wait(peer, id, &a);
        ended = exit_is(&a, 0);
        answer_done(&a);
    }
    ok(ended, "a short command is answered");
}

/* Its daemon was killed before it had written down whose runner this is. */
static void test_never_greeted(void) {
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr name = {.sa_family = AF_UNIX};
    struct peer peer;
    int status = -1;
    bind(listener, &name, sizeof name.sa_family);
    listen(listener, 8);
    peer_open(&peer, listener);
    shutdown(peer.fd, SHUT_RDWR);
    uint64_t until_ms = clock_ms() + 60000;
    while (waitpid(peer.pid, &status, WNOHANG) == 0 && clock_ms() < until_ms)
        poll(NULL, 0, 5);
    ok(status == 0, "a runner that nobody has greeted ends with its wire, though it listens");
    if (status == -1)
        kill(peer.pid, SIGKILL);
    peer.pid = 0;
    peer_close(&peer);
    close(listener);
}

/* A wire goes: its foreground command dies, its background process lives and is found over another wire. */
static void test_wires(void) {
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr name = {.sa_family = AF_UNIX}; /* autobind: an abstract address of the kernel's choice */
    bind(listener, &name, sizeof name.sa_family);
    listen(listener, 8);
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    getsockname(listener, (struct sockaddr *)&address, &size);
    struct peer first, second;
    struct answer a;
    peer_open(&first, listener);
    peer_hello(&first);
    uint64_t pid = background(&first, "echo alive; exec sleep 1000", 0);
    answer_init(&a);
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "exec sleep 1000");
    uint32_t id = call_put(&first, &args);
    peer_flush(&first);
    while (!a.has_stat && answer_step(&first, id, &a, true))
        ;
    pid_t sleeper = (pid_t)a.stat.number[FIELD_PID];
    answer_done(&a);
    close(first.fd);
    second = (struct peer){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), .next_call = 1};
    buf_init(&second.in, 1 << 20);
    buf_init(&second.out, 1 << 20);
    connect(second.fd, (struct sockaddr *)&address, size);
    peer_hello(&second);
    output_of(&second, pid, STREAM_STDOUT, 0, 60000, &a);
    ok(stream_is(&a, 1, "alive\n"), "wires: a background process is found over another wire");
    answer_done(&a);
    uint64_t until_ms = clock_ms() + 60000;
    while (!process_gone(sleeper) && clock_ms() < until_ms) {
        args = args_of(OP_PING); /* turns of the loop, not time, are what is waited for */
        call_run(&second, &args, &a);
        answer_done(&a);
    }
    ok(process_gone(sleeper), "wires: the foreground command of a lost wire is killed");
    kill(first.pid, SIGTERM);
    waitpid(first.pid, NULL, 0);
    ok(process_gone((pid_t)pid), "SIGTERM ends the runner and its trees");
    first.fd = -1;
    first.pid = second.pid = 0;
    peer_close(&second);
    buf_done(&first.in);
    buf_done(&first.out);
    close(listener);
}

/* ---- bench ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double spawn_us(void) {
    uint64_t begin_us = clock_us();
    char *argv[] = {(char *)(uintptr_t) "/bin/true", NULL};
    pid_t pid;
    posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ);
    waitpid(pid, NULL, 0);
    return (double)(clock_us() - begin_us);
}

static double exec_us(struct peer *peer) {
    uint64_t begin_us = clock_us();
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_ARGV, "/bin/true");
    uint32_t id = call_put(peer, &args);
    peer_flush(peer);
    struct frame frame;
    while (peer_frame(peer, &frame) && !(frame.call == id && frame.type == FRAME_END))
        ;
    return (double)(clock_us() - begin_us);
}

static void bench(struct peer *peer) {
    enum { ROUNDS = 2000 };
    static double spawned[ROUNDS], executed[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) { /* in turns: a machine's moods meet both alike */
        spawned[i] = spawn_us();
        executed[i] = exec_us(peer);
    }
    qsort(spawned, ROUNDS, sizeof *spawned, by_value);
    qsort(executed, ROUNDS, sizeof *executed, by_value);
    printf("exec of /bin/true, %s: p50 %.0f us, p90 %.0f us; posix_spawn p50 %.0f us, p90 %.0f us; ratio %.2f\n",
           cgroup_fd >= 0 ? "leaf" : "keeper", executed[ROUNDS / 2], executed[ROUNDS * 9 / 10], spawned[ROUNDS / 2],
           spawned[ROUNDS * 9 / 10], executed[ROUNDS / 2] / spawned[ROUNDS / 2]);
}

static void all(struct peer *peer) {
    test_exec(peer);
    test_argv(peer);
    test_long_args(peer);
    test_stdin(peer);
    test_stdin_credit(peer);
    test_output_credit(peer);
    test_grandchildren(peer);
    test_cancel(peer);
    test_concurrent(peer);
    test_harmless(peer);
    test_one_send(peer);
    test_far();
    test_never_greeted();
    test_wires();
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[2], "bench") == 0)
        return peer_main(argc, argv, bench, NULL);
    return peer_main(argc, argv, all, test_malformed);
}
