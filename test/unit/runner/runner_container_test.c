/* The runner as a container has it: it dials and gets its descriptors, or speaks on its standard streams; whose variables
 * commands have; who is taken for a relay. Starts the runner of argv[1], else the one of the same build. TAP. */
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/un.h>

#include "runner_peer.h"
#include "wire/dial.h"

static char dial_path[96];

/* A runner with `more` arguments, and 0 and 1 where they are given; its standard error is ours. */
static pid_t runner_start(const char *const *more, int in_fd, int out_fd) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (in_fd >= 0) {
        dup2(in_fd, 0);
        dup2(out_fd, 1);
    }
    dup2(open("/dev/null", O_WRONLY), 2);
    const char *argv[24] = {"/.cubby/cubby-runner-of-tests", "serve", "--dial", dial_path, "--workspace", workspace};
    int n = 6;
    while (*more)
        argv[n++] = *more++;
    const char *const variables[] = {"OWN=image", "BOTH=image", "=odd", NULL};
    execve(runner_path_arg, (char **)(uintptr_t)argv, (char **)(uintptr_t)variables);
    _exit(126);
}

static int listen_at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4) < 0)
        abort();
    return fd;
}

static int connect_to(const char *path, size_t len) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static pid_t peer_pid(int fd) {
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    return peer.pid;
}

static void peer_of(struct peer *peer, int fd) {
    *peer = (struct peer){.fd = fd, .next_call = 1};
    buf_init(&peer->in, 1 << 20);
    buf_init(&peer->out, 1 << 20);
}

/* Its HELLO's features; UINT64_MAX: none came. */
static uint64_t hello_features(struct peer *peer) {
    struct frame frame;
    struct fields fields;
    struct err err;
    if (!peer_frame(peer, &frame) || frame.type != FRAME_HELLO)
        return UINT64_MAX;
    struct arena arena;
    arena_init(&arena);
    uint64_t features = fields_parse(view_of(frame.payload, frame.len), &arena, &fields, &err) < 0
                            ? UINT64_MAX
                            : fields.number[FIELD_FEATURES];
    arena_done(&arena);
    return features;
}

static int exit_status(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void printed(struct peer *peer, const char *command, const char *want, const char *what) {
    struct answer a;
    struct buf args = args_of(OP_EXEC);
    field_text(&args, FIELD_COMMAND, command);
    call_run(peer, &args, &a);
    ok(!a.failed && stream_is(&a, 1, want), "%s", what);
    answer_done(&a);
}

static void test_dialled(int dial) {
    char path[sizeof dial_path + 8], text[256] = "";
    struct peer first, second;
    snprintf(path, sizeof path, "%s.wires", dial_path);
    int listener = listen_at(path);
    pid_t pid = runner_start((const char *const[]){"--env", "BOTH=box", "--env", "BOX=box", NULL}, -1, -1);
    int fd = accept4(dial, NULL, NULL, SOCK_CLOEXEC);
    ok(peer_pid(fd) == pid, "dial: the runner connects to its socket");
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    fd_send(fd, &(char){DIAL_WIRE}, 1, pair[1], 0);
    fd_send(fd, &(char){DIAL_LISTEN}, 1, listener, 0);
    close(listener);
    close(pair[1]);
    char byte;
    ok(recv(fd, &byte, 1, 0) == 0, "dial: it takes what it is sent, and hangs up");
    close(fd);
    peer_of(&first, pair[0]);
    uint64_t features = hello_features(&first);
    ok_all("dial: its first wire is the one it was sent, with descriptors, and without the root",
           features != UINT64_MAX, (features & FEATURE_PASS_FD), !(features & FEATURE_ROOT_FD));
    peer_hello(&first);
    printed(&first, "echo $OWN $BOTH $BOX $HOME $LANG; env | grep -c '^='; command -v ls >/dev/null && echo path",
            "image box box / C.UTF-8\n0\npath\n", "dial: variables are the container's, what it lacks, and the box's");
    ssize_t n =
        fd_read_file(AT_FDCWD, (snprintf(text, sizeof text, "/proc/%d/cmdline", (int)pid), text), text, sizeof text);
    ok_all("dial: lists of processes show its name alone", n > 12, strcmp(text, "cubby-runner") == 0, text[13] == 0);
    int other = connect_to(path, strlen(path) + 1);
    ok(other >= 0 && peer_pid(other) == pid, "dial: later wires come by the socket it was given, and show whose it is");
    kill(pid, SIGTERM); /* from inside, as far as it can tell */
    peer_of(&second, other);
    peer_hello(&second);
    ok(hello_features(&second) != UINT64_MAX, "dial: it serves them, and a signal from inside does not end it");
    first.pid = 0;
    second.pid = 0;
    peer_close(&first);
    printed(&second, "echo on", "on\n", "dial: the end of the first wire is not its end");
    kill(pid, SIGKILL);
    exit_status(pid);
    peer_close(&second);
    unlink(path);
}

static void test_refused(int dial) {
    const char *const none[] = {NULL};
    pid_t pid = runner_start(none, -1, -1);
    close(accept4(dial, NULL, NULL, SOCK_CLOEXEC));
    ok(exit_status(pid) == 125, "dial: one that is given nothing ends");
    pid = runner_start(none, -1, -1);
    int fd = accept4(dial, NULL, NULL, SOCK_CLOEXEC);
    fd_send(fd, "?", 1, dial, 0);
    ok(exit_status(pid) == 125, "dial: so does one that is given what it does not know");
    close(fd);
    pid = runner_start(none, -1, -1);
    fd = accept4(dial, NULL, NULL, SOCK_CLOEXEC);
    fd_send(fd, &(char){DIAL_WIRE}, 1, -1, 0);
    ok(exit_status(pid) == 125, "dial: and one that is given a word without a descriptor");
    close(fd);
}

/* The daemon's ends of two pipes as one socket, as an engine carries them. */
static void carry(int to_runner, int from_runner, int socket_fd) {
    for (int i = 0; i < 2; i++) {
        if (fork() != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        char data[65536];
        int from = i ? from_runner : socket_fd, to = i ? socket_fd : to_runner;
        close(i ? to_runner : from_runner);
        for (ssize_t n; (n = read(from, data, sizeof data)) > 0;)
            fd_write_all(to, data, (size_t)n);
        _exit(0);
    }
    close(to_runner);
    close(from_runner);
    close(socket_fd);
}

static void test_streams(void) {
    static const char name[] = "\0cubby";
    int in[2], out[2], pair[2];
    struct peer peer;
    if (unshare(CLONE_NEWNET) < 0) {
        tap_skip("streams", "a network namespace of its own needs root");
        return;
    }
    unlink(dial_path);
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    pid_t pid = runner_start((const char *const[]){"--stdio", "1", NULL}, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    carry(in[1], out[0], pair[1]);
    peer_of(&peer, pair[0]);
    uint64_t features = hello_features(&peer);
    ok(features != UINT64_MAX && !(features & FEATURE_PASS_FD),
       "streams: where it cannot dial it speaks on them, without descriptors");
    peer_hello(&peer);
    printed(&peer, "head -c 1000000 /dev/zero | wc -c; readlink /proc/self/fd/0", "1000000\n/dev/null\n",
            "streams: commands run, and have none of them");
    int fd = connect_to(name, sizeof name - 1);
    char byte;
    ok(fd >= 0 && recv(fd, &byte, 1, 0) <= 0, "streams: who is inside is not taken for a relay");
    close(fd);
    printed(&peer, "echo on", "on\n", "streams: and the first wire is not harmed by that");
    peer.pid = 0;
    kill(pid, SIGKILL);
    ok(exit_status(pid) == -1, "streams: it ran until then");
    peer_close(&peer);
}

/* A daemon that is gone before it said HELLO has no record of the box. */
static void test_alone(void) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        abort();
    pid_t pid = runner_start((const char *const[]){"--stdio", "1", NULL}, in[0], out[1]);
    close(in[0]);
    close(in[1]);
    ok(exit_status(pid) == 0, "streams: one whose daemon is gone before it spoke ends");
    close(out[0]);
    close(out[1]);
}

static void none(struct peer *peer) {
    (void)peer;
}

static void all(void) {
    snprintf(dial_path, sizeof dial_path, "%s/dial", workspace);
    int dial = listen_at(dial_path);
    test_dialled(dial);
    test_refused(dial);
    close(dial);
    test_streams();
    test_alone();
}

int main(int argc, char **argv) {
    return peer_main(argc, argv, none, all);
}
