/* Background commands, terminals and workers of the runner, seen from the daemon's side of a wire. TAP on standard
 * output; argv[1]: the runner, else the one of the same build. */
#include "base/clock.h"
#include "runner_peer.h"

static void wait_exit(struct peer *peer, uint64_t pid) {
    struct answer a;
    uint64_t offset = 0, state = 0;
    do {
        output_of(peer, pid, STREAM_STDOUT, offset, 60000, &a);
        state = a.failed || a.wire_gone ? PROCESS_EXITED : a.stat.number[FIELD_STATE];
        offset = a.stat.number[FIELD_NEXT];
        answer_done(&a);
    } while (state != PROCESS_EXITED);
}

static void input_to(struct peer *peer, uint64_t pid, const char *text, unsigned flags, struct answer *answer) {
    answer_init(answer);
    struct buf args = args_of(OP_INPUT);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_FLAGS, flags);
    uint32_t id = call_put(peer, &args);
    if (*text)
        frame_put(&peer->out, FRAME_DATA, id, 0, text, strlen(text));
    frame_put(&peer->out, FRAME_EOF, id, 0, NULL, 0);
    peer_flush(peer);
    answer_wait(peer, id, answer);
}

static void test_background(struct peer *peer) {
    struct answer a;
    uint64_t pid = background(peer, "echo one; read line; echo got $line; echo bad >&2; exit 5", CALL_STDIN);
    ok(pid > 1, "background: answered with a pid");
    output_of(peer, pid, STREAM_STDOUT, 0, 60000, &a);
    ok_all("background: output from the ring", stream_is(&a, 1, "one\n"), a.stat.number[FIELD_STATE] == PROCESS_RUNNING,
           a.stat.number[FIELD_NEXT] == 4);
    answer_done(&a);
    input_to(peer, pid, "words\n", 0, &a);
    ok(!a.failed && a.end.number[FIELD_SIZE] == 6, "background: input is taken");
    answer_done(&a);
    wait_exit(peer, pid);
    output_of(peer, pid, STREAM_STDOUT, 4, 0, &a);
    ok(stream_is(&a, 1, "got words\n") && a.stat.number[FIELD_STATE] == PROCESS_EXITED,
       "background: output from an offset");
    answer_done(&a);
    output_of(peer, pid, STREAM_STDERR, 0, 0, &a);
    ok(stream_is(&a, 2, "bad\n"), "background: stderr apart");
    answer_done(&a);
    struct buf args = args_of(OP_PS);
    field_number(&args, FIELD_PID, pid);
    call_run(peer, &args, &a);
    struct view view = view_of(a.items.data, a.items.len), record;
    struct fields fields = {0};
    struct err err;
    if (item_next(&view, &record, &err) > 0)
        fields_parse(record, &a.arena, &fields, &err);
    ok_all("background: PS tells how it ended", fields.number[FIELD_STATE] == PROCESS_EXITED,
           fields.number[FIELD_EXIT] == 5, fields.number[FIELD_BYTES_OUT] == 14, fields.has[FIELD_COMMAND]);
    answer_done(&a);
    input_to(peer, pid, "x", 0, &a);
    ok(fail_is(&a, ERR_GONE, "ended"), "background: input to an ended one is GONE");
    answer_done(&a);
    output_of(peer, 999999, STREAM_STDOUT, 0, 0, &a);
    ok(fail_is(&a, ERR_NOT_FOUND, "999999"), "background: unknown pid");
    answer_done(&a);
    args = args_of(OP_EXEC);
    field_text(&args, FIELD_ARGV, "nosuchcommand");
    field_number(&args, FIELD_FLAGS, CALL_BACKGROUND);
    call_run(peer, &args, &a);
    ok(fail_is(&a, ERR_NOT_FOUND, "nosuchcommand"), "background: an unknown command fails at the start");
    answer_done(&a);
}

static void test_ring(struct peer *peer) {
    struct answer a;
    uint64_t pid =
        background(peer, "i=0; while [ $i -lt 3 ]; do head -c 1048576 /dev/zero; i=$((i+1)); done; printf tail", 0);
    wait_exit(peer, pid);
    output_of(peer, pid, STREAM_STDOUT, 0, 0, &a);
    bool tail = a.streams[1].len == LIMIT_RING_BYTES && !memcmp(a.streams[1].data + LIMIT_RING_BYTES - 4, "tail", 4);
    ok_all("ring: the last MiB, true offsets", tail, a.stat.number[FIELD_FIRST] == 3145732 - LIMIT_RING_BYTES,
           a.stat.number[FIELD_NEXT] == 3145732);
    answer_done(&a);
    for (int i = 0; i < 80; i++)
        wait_exit(peer, background(peer, "echo x", 0));
    struct buf args = args_of(OP_PS);
    call_run(peer, &args, &a);
    struct view view = view_of(a.items.data, a.items.len), record;
    struct err err;
    unsigned count = 0;
    while (item_next(&view, &record, &err) > 0)
        count++;
    ok(count == LIMIT_PROCESSES_ENDED, "ring: %u ended processes are kept (%u)", LIMIT_PROCESSES_ENDED, count);
    answer_done(&a);
}

static void test_signal(struct peer *peer) {
    struct answer a;
    uint64_t pid = background(peer, "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.01; done", 0);
    output_of(peer, pid, STREAM_STDOUT, 0, 60000, &a);
    answer_done(&a);
    struct buf args = args_of(OP_SIGNAL);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_SIGNAL, SIGINT);
    call_run(peer, &args, &a);
    bool sent = !a.failed;
    answer_done(&a);
    wait_exit(peer, pid);
    output_of(peer, pid, STREAM_STDOUT, 6, 0, &a);
    ok(sent && stream_is(&a, 1, "caught\n"), "signal: the command can catch it");
    answer_done(&a);
    args = args_of(OP_SIGNAL);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_SIGNAL, SIGKILL);
    call_run(peer, &args, &a);
    ok(fail_is(&a, ERR_GONE, "ended"), "signal: to an ended one is GONE");
    answer_done(&a);
}

static bool has_text(const struct answer *answer, int stream, const char *text) {
    const struct buf *buf = &answer->streams[stream];
    return buf->len && memmem(buf->data, buf->len, text, strlen(text));
}

static void test_pty(struct peer *peer) {
    struct answer a;
    answer_init(&a);
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "stty size; tty; read x; stty size; echo got:$x; exit 7");
    field_number(&args, FIELD_FLAGS, CALL_BACKGROUND | CALL_PTY);
    field_number(&args, FIELD_COLS, 101);
    field_number(&args, FIELD_ROWS, 33);
    call_run(peer, &args, &a);
    uint64_t pid = a.end.number[FIELD_PID];
    answer_done(&a);
    args = args_of(OP_ATTACH);
    field_number(&args, FIELD_PID, pid);
    answer_init(&a);
    uint32_t id = call_put(peer, &args);
    peer_flush(peer);
    while (!has_text(&a, 1, "/dev/pts/") && answer_step(peer, id, &a, true))
        ;
    ok(has_text(&a, 1, "33 101\r\n"), "pty: its size, through an attach");
    struct answer b;
    args = args_of(OP_RESIZE);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_COLS, 77);
    field_number(&args, FIELD_ROWS, 11);
    call_run(peer, &args, &b);
    ok(!b.failed, "pty: resize");
    answer_done(&b);
    frame_put(&peer->out, FRAME_DATA, id, 0, "typed\n", 6);
    peer_flush(peer);
    answer_wait(peer, id, &a);
    ok_all("pty: input, new size, END with the exit code", exit_is(&a, 7), has_text(&a, 1, "11 77\r\n"),
           has_text(&a, 1, "got:typed\r\n"));
    answer_done(&a);
    args = args_of(OP_ATTACH);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_OFFSET, 8);
    call_run(peer, &args, &a);
    ok_all("pty: attach again from an offset", exit_is(&a, 7), !has_text(&a, 1, "33 101"),
           has_text(&a, 1, "got:typed"));
    answer_done(&a);
}

static void test_pty_foreground(struct peer *peer) {
    struct answer a;
    answer_init(&a);
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "test -t 0 && test -t 1 && cat; exit 4");
    field_number(&args, FIELD_FLAGS, CALL_PTY | CALL_STDIN);
    uint32_t id = call_put(peer, &args);
    frame_put(&peer->out, FRAME_DATA, id, 0, "line\n", 5);
    frame_put(&peer->out, FRAME_EOF, id, 0, NULL, 0);
    peer_flush(peer);
    answer_wait(peer, id, &a);
    ok(exit_is(&a, 4) && has_text(&a, 1, "line\r\nline\r\n"), "pty: in the foreground, its end of input is Ctrl-D");
    answer_done(&a);
}

/* Keepers only: one that is killed leaves its command to the runner, which ends it. */
static void test_keeper_killed(struct peer *peer) {
    struct answer a;
    answer_init(&a);
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "(setsid sleep 1000 & echo $!); echo $PPID; sleep 1000");
    uint32_t id = call_put(peer, &args);
    peer_flush(peer);
    size_t lines = 0;
    while (lines < 2 && answer_step(peer, id, &a, true)) {
        lines = 0;
        for (size_t i = 0; i < a.streams[1].len; i++)
            lines += a.streams[1].data[i] == '\n';
    }
    char *rest = buf_cstr(&a.streams[1]);
    pid_t orphan = (pid_t)strtol(rest, &rest, 10), keeper = (pid_t)strtol(rest, NULL, 10);
    kill(keeper, SIGKILL);
    answer_wait(peer, id, &a);
    ok(!a.failed && a.end.number[FIELD_SIGNALLED] == SIGKILL, "keeper: killed, its command counts as killed");
    uint64_t until_ms = clock_ms() + 60000;
    while (!process_gone(orphan) && clock_ms() < until_ms) {
        struct answer ping;
        args = args_of(OP_PING);
        call_run(peer, &args, &ping);
        answer_done(&ping);
    }
    ok(process_gone(orphan), "keeper: what it kept is ended by the runner");
    answer_done(&a);
}

static void test_worker(struct peer *peer) {
    struct answer a;
    exec_run(peer, "mkdir -p many && cd many && seq 5000 | xargs touch", 0, &a);
    answer_done(&a);
    answer_init(&a);
    struct buf args = args_of(OP_LIST);
    field_text(&args, FIELD_PATH, "many");
    field_number(&args, FIELD_LIMIT, 100000);
    uint32_t id = call_put(peer, &args);
    peer_flush(peer);
    struct answer ping;
    while (a.items.len < LIMIT_CREDIT_BYTES - LIMIT_FRAME_PAYLOAD_BYTES && answer_step(peer, id, &a, false))
        ;
    args = args_of(OP_PING);
    call_run(peer, &args, &ping);
    ok(!ping.wire_gone && a.items.len <= LIMIT_CREDIT_BYTES, "worker: records stop at the window");
    answer_done(&ping);
    credit_put(peer, id, 16 << 20);
    peer_flush(peer);
    answer_wait(peer, id, &a);
    struct view view = view_of(a.items.data, a.items.len), record;
    struct err err;
    unsigned count = 0;
    while (item_next(&view, &record, &err) > 0)
        count++;
    ok(!a.failed && count >= 4000, "worker: the rest comes (%u records seen)", count);
    answer_done(&a);
    args = args_of(OP_LIST);
    field_text(&args, FIELD_PATH, "/no/such/place");
    call_run(peer, &args, &a);
    ok(fail_is(&a, ERR_NOT_FOUND, "/no/such/place"), "worker: its failure is the call's");
    answer_done(&a);
}

/* More calls than workers: they queue, and all are answered; cancelled ones too. */
static void test_worker_queue(struct peer *peer) {
    enum { COUNT = 300 };
    uint32_t first = peer->next_call;
    for (int i = 0; i < COUNT; i++) {
        struct buf args = args_of(OP_HASH);
        field_text(&args, FIELD_PATH, "/bin/sh");
        call_put(peer, &args);
    }
    for (int i = 0; i < COUNT; i += 3)
        frame_put(&peer->out, FRAME_CANCEL, first + (uint32_t)i, 0, NULL, 0);
    peer_flush(peer);
    unsigned ended = 0, failed = 0;
    struct frame frame;
    while (ended + failed < COUNT && peer_frame(peer, &frame)) {
        ended += frame.type == FRAME_END;
        failed += frame.type == FRAME_FAIL;
    }
    ok(ended >= COUNT * 2 / 3 && ended + failed == COUNT, "worker: %u calls at once, %u ended, %u cancelled", COUNT,
       ended, failed);
}

/* Far more than the ring and the window: whoever is attached gets all of it, the terminal waits. */
static void test_pty_flood(struct peer *peer) {
    struct answer a;
    answer_init(&a);
    uint64_t pid = background(peer, "read x; head -c 5000000 /dev/zero | tr '\\0' z; echo over", CALL_PTY);
    struct buf args = args_of(OP_ATTACH);
    field_number(&args, FIELD_PID, pid);
    uint32_t id = call_put(peer, &args);
    frame_put(&peer->out, FRAME_DATA, id, 0, "go\n", 3);
    peer_flush(peer);
    while (a.streams[1].len < LIMIT_CREDIT_BYTES && answer_step(peer, id, &a, false))
        ;
    struct answer b;
    exec_run(peer, "echo meanwhile", 0, &b);
    ok(stream_is(&b, 1, "meanwhile\n"), "pty: a reader that does not read stops nobody else");
    answer_done(&b);
    credit_put(peer, id, 64 << 20);
    peer_flush(peer);
    while (answer_step(peer, id, &a, false))
        ;
    ok(exit_is(&a, 0) && a.streams[1].len == 4 + 5000000 + 6, "pty: a flood arrives whole (%zu bytes)",
       a.streams[1].len);
    answer_done(&a);
}

static void test_attach_cancel(struct peer *peer) {
    struct answer a;
    uint64_t pid = background(peer, "cat", CALL_PTY);
    struct buf args = args_of(OP_ATTACH);
    field_number(&args, FIELD_PID, pid);
    answer_init(&a);
    uint32_t id = call_put(peer, &args);
    frame_put(&peer->out, FRAME_DATA, id, 0, "echo\n", 5);
    peer_flush(peer);
    while (!has_text(&a, 1, "echo") && answer_step(peer, id, &a, true))
        ;
    frame_put(&peer->out, FRAME_CANCEL, id, 0, NULL, 0);
    peer_flush(peer);
    answer_wait(peer, id, &a);
    ok(!a.wire_gone && kill((pid_t)pid, 0) == 0, "attach: CANCEL detaches, the process lives on");
    answer_done(&a);
    args = args_of(OP_SIGNAL);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_SIGNAL, SIGHUP);
    call_run(peer, &args, &a);
    answer_done(&a);
    wait_exit(peer, pid);
}

/* Starts a command whose call is its first reader, and waits until it runs. */
static uint32_t detached(struct peer *peer, const char *command, unsigned flags, struct answer *answer, uint64_t *pid) {
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, command);
    field_text(&args, FIELD_NOTE, "the tag");
    field_number(&args, FIELD_FLAGS, CALL_DETACH | flags);
    answer_init(answer);
    uint32_t id = call_put(peer, &args);
    peer_flush(peer);
    while (!answer->has_stat && answer_step(peer, id, answer, false))
        ;
    *pid = answer->stat.number[FIELD_PID];
    return id;
}

static void attach_unread(struct peer *peer, uint64_t pid, struct answer *answer) {
    struct buf args = args_of(OP_ATTACH);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_FLAGS, CALL_UNREAD);
    call_run(peer, &args, answer);
}

static void signal_wait(struct peer *peer, uint64_t pid, uint64_t number, uint64_t wait_ms, struct answer *answer) {
    struct buf args = args_of(OP_SIGNAL);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_SIGNAL, number);
    field_number(&args, FIELD_FLAGS, CALL_ALL);
    field_number(&args, FIELD_WAIT_MS, wait_ms);
    call_run(peer, &args, answer);
}

static void test_detach(struct peer *peer) {
    struct answer a, b;
    uint64_t pid;
    uint32_t id = detached(peer, "echo out; echo err >&2; exit 3", 0, &a, &pid);
    answer_wait(peer, id, &a);
    ok_all("detach: answered as in the foreground", exit_is(&a, 3), stream_is(&a, 1, "out\n"),
           stream_is(&a, 2, "err\n"));
    answer_done(&a);
    attach_unread(peer, pid, &a);
    ok_all("detach: it stays in the list, and nothing is unread", exit_is(&a, 3), a.streams[1].len == 0,
           a.streams[2].len == 0);
    answer_done(&a);
    id = detached(peer, "read x; echo \"got $x\"; read y; echo \"and $y\"", CALL_STDIN, &a, &pid);
    frame_put(&peer->out, FRAME_CANCEL, id, 0, NULL, 0);
    peer_flush(peer);
    answer_wait(peer, id, &a);
    ok_all("detach: CANCEL leaves it in the background", a.failed, kill((pid_t)pid, 0) == 0);
    answer_done(&a);
    input_to(peer, pid, "one\ntwo\n", 0, &b);
    answer_done(&b);
    attach_unread(peer, pid, &a);
    ok_all("detach: what it printed for nobody is for the next reader", exit_is(&a, 0),
           stream_is(&a, 1, "got one\nand two\n"));
    answer_done(&a);
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, "true");
    field_number(&args, FIELD_FLAGS, CALL_DETACH);
    answer_init(&a);
    id = call_put(peer, &args);
    frame_put(&peer->out, FRAME_CANCEL, id, 0, NULL, 0); /* before it can run */
    peer_flush(peer);
    answer_wait(peer, id, &a);
    ok(a.failed && !a.wire_gone, "detach: CANCEL before it runs");
    answer_done(&a);
    exec_run(peer, "", CALL_DETACH, &a);
    ok(exit_is(&a, 0), "detach: an empty command");
    answer_done(&a);
}

/* Two readers without credit: the command waits, in its end too, and both get all of it. */
static void test_readers(struct peer *peer) {
    struct answer a, b, c;
    uint64_t pid;
    uint32_t id = detached(peer, "read x; head -c 3000000 /dev/zero | tr '\\0' z; echo over >&2", CALL_STDIN, &a, &pid);
    struct buf args = args_of(OP_ATTACH);
    field_number(&args, FIELD_PID, pid);
    answer_init(&b);
    uint32_t other = call_put(peer, &args);
    peer_flush(peer);
    while (!b.has_stat && answer_step(peer, other, &b, false))
        ;
    frame_put(&peer->out, FRAME_DATA, id, 0, "go\n", 3);
    peer_flush(peer);
    while (a.streams[1].len < LIMIT_CREDIT_BYTES && answer_step(peer, id, &a, false))
        ;
    exec_run(peer, "echo meanwhile", 0, &c);
    ok(stream_is(&c, 1, "meanwhile\n"), "readers: two that do not read stop nobody else");
    answer_done(&c);
    ok(kill((pid_t)pid, 0) == 0, "readers: the command waits for them");
    credit_put(peer, id, 64 << 20);
    peer_flush(peer);
    while (a.streams[1].len < 1000000 && answer_step(peer, id, &a, false))
        ;
    ok(kill((pid_t)pid, 0) == 0, "readers: for the slower one");
    frame_put(&peer->out, FRAME_CANCEL, other, 0, NULL, 0);
    peer_flush(peer);
    while (answer_step(peer, id, &a, false))
        ;
    ok_all("readers: when that one goes the other gets all of it", exit_is(&a, 0), a.streams[1].len == 3000000,
           stream_is(&a, 2, "over\n"));
    answer_done(&a);
    answer_done(&b);
}

static void test_about(struct peer *peer) {
    struct answer a;
    struct buf args = args_of(OP_EXEC);
    const char *const argv[] = {"sleep", "1000"};
    for (int i = 0; i < 2; i++)
        field_text(&args, FIELD_ARGV, argv[i]);
    field_text(&args, FIELD_ENV, "PLAIN=value");
    field_text(&args, FIELD_NOTE, "the tag");
    field_number(&args, FIELD_FLAGS, CALL_BACKGROUND);
    call_run(peer, &args, &a);
    uint64_t pid = a.end.number[FIELD_PID];
    answer_done(&a);
    args = args_of(OP_PS);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_FLAGS, CALL_ALL);
    call_run(peer, &args, &a);
    struct fields record;
    struct err err;
    bool whole =
        a.items.len > 4 && fields_parse(view_of(a.items.data + 4, a.items.len - 4), &a.arena, &record, &err) == 0;
    ok_all("ps: arguments, variables and the tag", whole, whole && record.argc == 2, whole && record.env_count == 1,
           whole && !strcmp(record.argv[1], "1000"), whole && !strcmp(record.env[0], "PLAIN=value"),
           whole && !strcmp(record.text[FIELD_NOTE], "the tag"), whole && record.has[FIELD_CWD]);
    answer_done(&a);
    signal_wait(peer, pid, SIGKILL, 60000, &a);
    ok_all("signal: answered when it is reaped", !a.failed, process_gone((pid_t)pid));
    answer_done(&a);
    pid = background(peer, "trap '' TERM; echo ready; while :; do sleep 1000; done", 0);
    output_of(peer, pid, STREAM_STDOUT, 0, 60000, &a);
    answer_done(&a);
    signal_wait(peer, pid, SIGURG, 50, &a);
    ok_all("signal: or when the time is over", !a.failed, kill((pid_t)pid, 0) == 0);
    answer_done(&a);
    signal_wait(peer, pid, SIGKILL, 60000, &a);
    answer_done(&a);
}

static void all(struct peer *peer) {
    test_background(peer);
    test_ring(peer);
    test_signal(peer);
    test_pty(peer);
    test_pty_foreground(peer);
    test_pty_flood(peer);
    test_attach_cancel(peer);
    test_detach(peer);
    test_readers(peer);
    test_about(peer);
    if (cgroup_fd < 0)
        test_keeper_killed(peer);
    test_worker(peer);
    test_worker_queue(peer);
}

int main(int argc, char **argv) {
    return peer_main(argc, argv, all, NULL);
}
