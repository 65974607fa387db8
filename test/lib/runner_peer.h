/* The daemon's side of a wire for tests of the runner: starts one over a socketpair, sends calls, collects answers.
 * Included by runner_test.c and runner_process_test.c. */
#ifndef CUBBY_TEST_RUNNER_PEER_H
#define CUBBY_TEST_RUNNER_PEER_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fd.h"
#include "wire/frame.h"
#include "beside.h"
#include "tap.h"

extern char **environ;

static const char *runner_path_arg;
static char workspace[64];
static int cgroup_fd = -1;

struct peer { /* one runner and our wire to it */
    int fd;
    pid_t pid;
    struct buf in, out;
    uint32_t next_call;
    size_t last_bytes; /* of the frame peer_frame gave last: taken out by the next */
};

struct answer {            /* one call, collected to its end */
    struct buf streams[3]; /* DATA by stream */
    struct buf items;
    struct fields stat, end;
    struct arena arena;
    bool failed, has_stat, wire_gone;
    uint64_t frames;
};

/* ---- the peer ---- */

static void peer_open(struct peer *peer, int listen_fd) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    *peer = (struct peer){.fd = pair[0], .next_call = 1};
    buf_init(&peer->in, 1 << 20);
    buf_init(&peer->out, 8 << 20);
    peer->pid = fork();
    if (peer->pid == 0) {
        char wire[16], cgroup[16], listener[16];
        snprintf(wire, sizeof wire, "%d", pair[1]);
        snprintf(cgroup, sizeof cgroup, "%d", cgroup_fd);
        snprintf(listener, sizeof listener, "%d", listen_fd);
        fcntl(pair[1], F_SETFD, 0);
        const char *argv[24] = {"cubby-runner", "serve",         "--wire",  wire,    "--workspace",
                                workspace,      "--shell",       "/bin/sh", "--env", "PATH=/usr/bin:/bin",
                                "--env",        "GREETING=hello"};
        int n = 12;
        if (cgroup_fd >= 0) {
            fcntl(cgroup_fd, F_SETFD, 0);
            argv[n++] = "--cgroup";
            argv[n++] = cgroup;
        }
        if (listen_fd >= 0) {
            fcntl(listen_fd, F_SETFD, 0);
            argv[n++] = "--listen";
            argv[n++] = listener;
        }
        execv(runner_path_arg, (char **)(uintptr_t)argv);
        _exit(126);
    }
    close(pair[1]);
}

static void peer_flush(struct peer *peer) {
    (void)fd_write_all(peer->fd, peer->out.data, peer->out.len);
    buf_clear(&peer->out);
}

/* The next frame; false when the wire is closed. The last one is consumed first. */
static bool peer_frame(struct peer *peer, struct frame *frame) {
    struct err err;
    buf_consume(&peer->in, peer->last_bytes);
    peer->last_bytes = 0;
    int r;
    while ((r = frame_parse(peer->in.data, peer->in.len, frame, &err)) == 0) {
        uint8_t *at = buf_reserve(&peer->in, 65536 + 12);
        ssize_t n = recv(peer->fd, at, 65536 + 12, 0);
        if (n <= 0)
            return false;
        peer->in.len += (size_t)n;
    }
    if (r < 0)
        return false;
    peer->last_bytes = FRAME_HEAD_BYTES + frame->len;
    return true;
}

static void peer_hello(struct peer *peer) {
    struct buf fields;
    buf_init(&fields, 64);
    field_number(&fields, FIELD_VERSION, PROTO_VERSION);
    frame_put(&peer->out, FRAME_HELLO, 0, 0, fields.data, fields.len);
    buf_done(&fields);
    peer_flush(peer);
}

static void peer_close(struct peer *peer) {
    close(peer->fd);
    if (peer->pid > 0)
        waitpid(peer->pid, NULL, 0);
    buf_done(&peer->in);
    buf_done(&peer->out);
}

static void peer_new(struct peer *peer) {
    peer_open(peer, -1);
    peer_hello(peer);
    struct frame frame;
    if (!peer_frame(peer, &frame) || frame.type != FRAME_HELLO)
        ok(false, "HELLO comes first");
}

/* ---- calls ---- */

static struct buf args_of(enum op op) {
    struct buf args;
    buf_init(&args, 4 << 20);
    field_number(&args, FIELD_OP, op);
    return args;
}

static uint32_t call_put(struct peer *peer, struct buf *args) {
    uint32_t id = peer->next_call++;
    size_t at = 0;
    do {
        size_t n = args->len - at < LIMIT_FRAME_PAYLOAD_BYTES ? args->len - at : LIMIT_FRAME_PAYLOAD_BYTES;
        frame_put(&peer->out, FRAME_CALL, id, at + n < args->len ? FLAG_MORE : 0, args->data + at, n);
        at += n;
    } while (at < args->len);
    buf_done(args);
    return id;
}

static void credit_put(struct peer *peer, uint32_t id, uint32_t bytes) {
    uint8_t payload[4] = {(uint8_t)bytes, (uint8_t)(bytes >> 8), (uint8_t)(bytes >> 16), (uint8_t)(bytes >> 24)};
    frame_put(&peer->out, FRAME_CREDIT, id, 0, payload, 4);
}

static void answer_init(struct answer *answer) {
    memset(answer, 0, sizeof *answer);
    for (int i = 0; i < 3; i++)
        buf_init(&answer->streams[i], 64 << 20);
    buf_init(&answer->items, 4 << 20);
    arena_init(&answer->arena);
}

static void answer_done(struct answer *answer) {
    for (int i = 0; i < 3; i++)
        buf_done(&answer->streams[i]);
    buf_done(&answer->items);
    arena_done(&answer->arena);
}

/* Takes one frame of the call into the answer. False at its end. credit: give back what was taken. */
static bool answer_step(struct peer *peer, uint32_t id, struct answer *answer, bool credit) {
    struct frame frame;
    struct err err;
    if (!peer_frame(peer, &frame)) {
        answer->wire_gone = true;
        return false;
    }
    if (frame.call != id)
        return true;
    answer->frames++;
    switch (frame.type) {
    case FRAME_DATA:
        buf_put(&answer->streams[frame.flags & 3], frame.payload, frame.len);
        break;
    case FRAME_ITEM:
        buf_put(&answer->items, frame.payload, frame.len);
        break;
    case FRAME_STAT:
        answer->has_stat = true;
        fields_parse(view_of(frame.payload, frame.len), &answer->arena, &answer->stat, &err);
        return true;
    case FRAME_FAIL:
    case FRAME_END:
        answer->failed = frame.type == FRAME_FAIL;
        fields_parse(view_of(frame.payload, frame.len), &answer->arena, &answer->end, &err);
        return false;
    default:
        return true;
    }
    if (credit) {
        credit_put(peer, id, frame.len);
        peer_flush(peer);
    }
    return true;
}

static void answer_wait(struct peer *peer, uint32_t id, struct answer *answer) {
    while (answer_step(peer, id, answer, true))
        ;
}

static void call_run(struct peer *peer, struct buf *args, struct answer *answer) {
    answer_init(answer);
    uint32_t id = call_put(peer, args);
    peer_flush(peer);
    answer_wait(peer, id, answer);
}

static void exec_run(struct peer *peer, const char *command, unsigned flags, struct answer *answer) {
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, command);
    field_number(&args, FIELD_FLAGS, flags);
    call_run(peer, &args, answer);
}

static bool stream_is(const struct answer *answer, int stream, const char *text) {
    const struct buf *buf = &answer->streams[stream];
    return buf->len == strlen(text) && memcmp(buf->data, text, buf->len) == 0;
}

static bool exit_is(const struct answer *answer, uint64_t code) {
    return !answer->failed && !answer->wire_gone && answer->end.has[FIELD_EXIT] &&
           answer->end.number[FIELD_EXIT] == code;
}

static bool fail_is(const struct answer *answer, int code, const char *part) {
    return answer->failed && answer->end.number[FIELD_CODE] == (uint64_t)code &&
           strstr(answer->end.text[FIELD_MESSAGE], part);
}

static bool process_gone(pid_t pid) {
    return kill(pid, 0) < 0 && errno == ESRCH;
}

static uint64_t background(struct peer *peer, const char *command, unsigned flags) {
    struct answer a;
    exec_run(peer, command, CALL_BACKGROUND | flags, &a);
    uint64_t pid = a.failed ? 0 : a.end.number[FIELD_PID];
    answer_done(&a);
    return pid;
}

static void output_of(struct peer *peer, uint64_t pid, uint64_t stream, uint64_t offset, uint64_t wait_ms,
                      struct answer *answer) {
    struct buf args = args_of(OP_OUTPUT);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_STREAM, stream);
    field_number(&args, FIELD_OFFSET, offset);
    field_number(&args, FIELD_WAIT_MS, wait_ms);
    call_run(peer, &args, answer);
}

/* ---- the frame of a test program ---- */

static void peer_cleanup(const char *group) {
    char command[512];
    snprintf(command, sizeof command, "rm -rf %s; [ -z '%s' ] || rmdir %s/leaf* %s 2>/dev/null", workspace, group,
             group, group);
    char *shell[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", command, NULL};
    pid_t cleaner;
    if (posix_spawn(&cleaner, "/bin/sh", NULL, NULL, shell, environ) == 0)
        waitpid(cleaner, NULL, 0);
}

/* A cgroup v2 directory of our own; false where there is none to be had. */
static bool peer_cgroup(char *group, size_t size) {
    bool pure = access("/sys/fs/cgroup/cgroup.procs", F_OK) == 0;
    snprintf(group, size, "/sys/fs/cgroup%s/runner-test-%d", pure ? "" : "/unified", getpid());
    if (mkdir(group, 0755) == 0 && (cgroup_fd = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0)
        return true;
    tap_skip("leaves", "no cgroup v2 to make directories in");
    group[0] = 0;
    return false;
}

/* Runs `each` on a fresh runner with keepers, then with leaves where there are cgroups; then `once`. */
static int peer_main(int argc, char **argv, void (*each)(struct peer *peer), void (*once)(void)) {
    static char path[PATH_MAX];
    beside(path, "cubby-runner");
    runner_path_arg = argc > 1 ? argv[1] : path;
    signal(SIGPIPE, SIG_IGN);
    alarm(280);
    snprintf(workspace, sizeof workspace, "/tmp/runner-test-XXXXXX");
    if (!mkdtemp(workspace))
        return 1;
    char group[64] = "";
    for (int i = 0; i < 2; i++) {
        struct peer peer;
        if (i == 1 && !peer_cgroup(group, sizeof group))
            break;
        printf("# %s\n", i ? "leaves" : "keepers");
        peer_new(&peer);
        each(&peer);
        peer_close(&peer);
    }
    if (once)
        once();
    peer_cleanup(group);
    return tap_end();
}

#endif
