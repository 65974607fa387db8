/* Relays: where a container cannot be reached by a socket, its wires are the standard streams of processes in it, which
 * the engine carries. The first one is that of the container's own (or first) process, carried by a fork of the runner;
 * later ones are `cubby-runner relay`, started by the engine for whoever wants a wire, and connected to the runner by an
 * abstract socket of the container's network namespace. Invariant: only a process that came from outside of the
 * container is taken for a relay, and a relay ends when either side does. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "runner/enter/container.h"

enum { RELAY_BYTES = 128 << 10, KEPT_FD = 3 };

struct half { /* one direction */
    int from, to;
    size_t at, len; /* read and not yet written */
    uint8_t data[RELAY_BYTES];
};

/* False: one of its ends is over. */
static bool half_move(struct half *half) {
    if (half->len == 0) {
        ssize_t n = read(half->from, half->data, sizeof half->data);
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        half->at = 0;
        half->len = (size_t)n;
    }
    ssize_t n = write(half->to, half->data + half->at, half->len);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    half->at += (size_t)n;
    half->len -= (size_t)n;
    return true;
}

static void relay(int in_fd, int out_fd, int socket_fd) {
    static struct half halves[2];
    halves[0].from = in_fd;
    halves[0].to = halves[1].from = socket_fd;
    halves[1].to = out_fd;
    const int fds[] = {in_fd, out_fd, socket_fd};
    for (int i = 0; i < 3; i++)
        fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
    for (bool alive = true; alive;) {
        struct pollfd polls[2];
        for (int i = 0; i < 2; i++)
            polls[i] = halves[i].len ? (struct pollfd){.fd = halves[i].to, .events = POLLOUT}
                                     : (struct pollfd){.fd = halves[i].from, .events = POLLIN};
        if (poll(polls, 2, -1) < 0 && errno != EINTR)
            return;
        for (int i = 0; alive && i < 2; i++)
            if (polls[i].revents)
                alive = half_move(&halves[i]);
    }
}

static socklen_t abstract_address(struct sockaddr_un *address) {
    static const char name[] = "\0cubby";
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, sizeof name - 1);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof name - 1);
}

/* Whom the kernel names as having connected, and whose parent is in no process of this container: what commands start
 * never is without one, and the container's first process is the image's. */
bool relay_peer(int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    char path[64], text[8192];
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 1)
        return false;
    snprintf(path, sizeof path, "/proc/%d/status", (int)peer.pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return false;
    const char *parent = strstr(text, "\nPPid:\t");
    return parent && strncmp(parent + 7, "0\n", 2) == 0;
}

static _Noreturn void relay_child(int socket_fd) {
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* as in relay_main */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    if (socket_fd != KEPT_FD)
        dup2(socket_fd, KEPT_FD);
    syscall(SYS_close_range, KEPT_FD + 1, ~0u, 0);
    relay(0, 1, KEPT_FD);
    _exit(0);
}

int relay_wire(struct runner_config *config, struct err *err) {
    struct sockaddr_un address;
    socklen_t size = abstract_address(&address);
    autofd listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 16) < 0)
        return err_errno(err, errno, "cannot listen inside the container");
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "a socket pair");
    autofd ours = pair[0], theirs = pair[1];
    pid_t pid = fork();
    if (pid == 0)
        relay_child(theirs);
    if (pid < 0)
        return err_errno(err, errno, "cannot start a process in the container");
    config->relay_pid = pid;
    config->wire_plain = true;
    config->wire_fd = fd_take(&ours);
    config->listen_fd = fd_take(&listener);
    return 0;
}

int relay_main(void) {
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* a command of the box has our user, and no business with what we carry */
    struct sockaddr_un address;
    socklen_t size = abstract_address(&address);
    autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, size) < 0) {
        fprintf(stderr, "cubby-runner: no runner listens in this container: %s\n", strerror(errno));
        return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    relay(0, 1, fd);
    return 0;
}
