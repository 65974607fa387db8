/* The first wire of a runner that the jail and local backends did not start, its variables and its oom counter. Called
 * by main, before the loop, when nothing else of the box runs yet. Invariant: a missing resource is reported on
 * standard error, which the daemon reads, and ends the container. */
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/base.h"
#include "runner/container.h"
#include "runner/exec/process.h"
#include "wire/dial.h"
#include "wire/piece.h"

/* ---- relays ----
 *
 * If a container is not reachable by a socket, its wires are the standard streams of processes in it, which the engine
 * carries. A fork of the runner carries the first wire, on the streams of the container's first process. For each later
 * one the engine starts `cubby-runner relay`, which connects to the runner by an abstract socket of the network
 * namespace. Invariant: only a process from outside of the container is accepted as a relay; a relay exits when either
 * side does. */

enum { RELAY_BYTES = 128 << 10, KEPT_FD = 3 };

struct half { /* one direction */
    int from, to;
    size_t at, len; /* bytes read but not written */
    uint8_t data[RELAY_BYTES];
};

/* Returns false if one of its ends has ended. */
static bool container_half_move(struct half *half) {
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

static void container_relay(int in_fd, int out_fd, int socket_fd) {
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
                alive = container_half_move(&halves[i]);
    }
}

static socklen_t container_abstract_address(struct sockaddr_un *address) {
    static const char name[] = "\0cubby";
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, sizeof name - 1);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof name - 1);
}

/* Checks the process that connected: its parent must not be in this container. Commands always have a parent here, and
 * the container's first process is the image's. */
bool relay_peer(int fd) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    char text[8192];
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 1)
        return false;
    if (fd_read_file(AT_FDCWD, text_make(64, "/proc/%d/status", (int)peer.pid), text, sizeof text) < 0)
        return false;
    const char *parent = strstr(text, "\nPPid:\t");
    return parent && strncmp(parent + 7, "0\n", 2) == 0;
}

static _Noreturn void container_relay_child(int socket_fd) {
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* as in relay_main */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    if (socket_fd != KEPT_FD)
        dup2(socket_fd, KEPT_FD);
    syscall(SYS_close_range, KEPT_FD + 1, ~0u, 0);
    container_relay(0, 1, KEPT_FD);
    _exit(0);
}

/* The first wire is on 0 and 1, carried by a separate process; later ones are carried by relay_main. */
static int container_relay_wire(struct runner_config *config, struct err *err) {
    struct sockaddr_un address;
    socklen_t size = container_abstract_address(&address);
    autofd listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 16) < 0)
        return err_errno(err, errno, "cannot listen inside the container");
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "cannot make a socket pair");
    autofd ours = pair[0], theirs = pair[1];
    pid_t pid = fork();
    if (pid == 0)
        container_relay_child(theirs);
    if (pid < 0)
        return err_errno(err, errno, "cannot start a process in the container");
    config->relay_pid = pid;
    config->wire_plain = true;
    config->wire_fd = fd_take(&ours);
    config->listen_fd = fd_take(&listener);
    return 0;
}

int relay_main(void) {
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* a command of the box has our user, and must not see what we carry */
    struct sockaddr_un address;
    socklen_t size = container_abstract_address(&address);
    autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, size) < 0) {
        fprintf(stderr, "cubby-runner: no runner listens in this container: %s\n", strerror(errno));
        return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    container_relay(0, 1, fd);
    return 0;
}

/* ---- in pieces ----
 *
 * The wire of a runner that a foreign runner started (`serve --pieces 1`) goes over standard input and output, in
 * pieces (wire/piece.h). The started process carries it; the runner is its child, in a session of its own. Whatever
 * ends the carrier, even SIGKILL, ends the wire, and the runner then ends every command in order. */

struct carrier {
    int socket_fd; /* to the runner; -1: ended */
    struct pieces pieces;
    struct buf out; /* for standard output */
};

static bool container_would_wait(void) {
    return errno == EAGAIN || errno == EINTR;
}

/* Returns false if standard input has ended, or is invalid. */
static bool container_carry_in(struct carrier *carrier) {
    static uint8_t data[128 << 10];
    struct err err;
    ssize_t n = read(STDIN_FILENO, data, sizeof data);
    if (n < 0 && container_would_wait())
        return true;
    if (n > 0 && pieces_feed(&carrier->pieces, data, (size_t)n, &err) < 0) {
        fprintf(stderr, "cubby-runner: %s\n", err.text);
        return false;
    }
    return n > 0;
}

/* Runs until standard input ends, or the runner has ended and all its output is written. */
static void container_carry(struct carrier *carrier) {
    while (carrier->socket_fd >= 0 || carrier->out.len) {
        struct pieces *pieces = &carrier->pieces;
        if (carrier->out.len == 0 && pieces_due(pieces))
            pieces_put(pieces, &carrier->out, NULL, 0);
        bool takes = carrier->out.len == 0 && pieces_room(pieces) > 0;
        struct pollfd polls[] = {
            {.fd = STDIN_FILENO, .events = POLLIN},
            {.fd = carrier->out.len ? STDOUT_FILENO : -1, .events = POLLOUT},
            {.fd = carrier->socket_fd, .events = (short)((takes ? POLLIN : 0) | (pieces->ready.len ? POLLOUT : 0))},
        };
        if (polls[2].events == 0) /* a hang-up is handled after the bytes before it */
            polls[2].fd = -1;
        if (poll(polls, 3, -1) < 0 && errno != EINTR)
            return;
        if (polls[0].revents && !container_carry_in(carrier))
            return;
        if (polls[1].revents) {
            ssize_t n = write(STDOUT_FILENO, carrier->out.data, carrier->out.len);
            if (n < 0 && !container_would_wait())
                return;
            buf_consume(&carrier->out, n > 0 ? (size_t)n : 0);
        }
        if (carrier->socket_fd >= 0 && polls[2].revents & POLLOUT) {
            const struct buf *ready = &carrier->pieces.ready;
            ssize_t n = send(carrier->socket_fd, ready->data, ready->len, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n > 0)
                pieces_take(&carrier->pieces, (size_t)n);
            else if (!container_would_wait())
                fd_close(&carrier->socket_fd);
        }
        if (carrier->socket_fd >= 0 && takes && polls[2].revents & (POLLIN | POLLHUP | POLLERR)) {
            static uint8_t data[PIECE_BYTES];
            size_t room = pieces_room(&carrier->pieces);
            ssize_t n = read(carrier->socket_fd, data, room);
            if (n > 0)
                pieces_put(&carrier->pieces, &carrier->out, data, (size_t)n);
            else if (n == 0 || !container_would_wait())
                fd_close(&carrier->socket_fd);
        }
    }
}

/* Ends after the runner: waiting for this process means waiting for the end of every command. */
static _Noreturn void container_carrier_main(int socket_fd, pid_t runner) {
    static struct carrier carrier;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    carrier.socket_fd = socket_fd;
    pieces_init(&carrier.pieces);
    buf_init(&carrier.out, 2 * (PIECE_HEAD_BYTES + PIECE_BYTES));
    const int fds[] = {STDIN_FILENO, STDOUT_FILENO};
    for (int i = 0; i < 2; i++)
        fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
    container_carry(&carrier);
    fd_close(&carrier.socket_fd);
    int status = 0;
    while (waitpid(runner, &status, 0) < 0 && errno == EINTR)
        ;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* Sets up the only wire. Returns in a child, which is the runner. */
static int container_carry_wire(struct runner_config *config, struct err *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "cannot make a socket pair");
    autofd ours = pair[0], theirs = pair[1];
    pid_t pid = fork();
    if (pid < 0)
        return err_errno(err, errno, "cannot start a process");
    if (pid > 0) {
        fd_close(&ours);
        container_carrier_main(fd_take(&theirs), pid);
    }
    setsid(); /* a signal to the carrier's group does not end the runner before its commands */
    config->wire_plain = true;
    config->wire_fd = fd_take(&ours);
    return 0;
}

extern char **environ;

static int container_dial_wire(struct runner_config *config, const char *path, struct err *err);

int container_wire(struct runner_config *config, const char *path, bool stdio, bool pieces, struct err *err) {
    int r = path ? container_dial_wire(config, path, err) : -1;
    if (r < 0 && stdio)
        r = container_relay_wire(config, err);
    if (r < 0 && pieces)
        r = container_carry_wire(config, err);
    TRY(r);
    /* These are not read for long, and a full pipe must not block PID 1. */
    autofd null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null > 2 && fd <= 2; fd++)
        dup2(null, fd);
    return 0;
}

/* ---- through the mounted socket ---- */

static int container_dial_take(int fd, char expected, int *ret_fd, struct err *err) {
    char name;
    autofd passed = -1;
    ssize_t n = fd_recv(fd, &name, 1, &passed, 0);
    if (n < 0)
        return err_errno(err, (int)-n, "cannot read from the daemon's socket");
    if (n == 0 || name != expected || passed < 0)
        return err_set(err, ERR_PROTOCOL, "the daemon hung up, or did not send its two sockets");
    *ret_fd = fd_take(&passed);
    return 0;
}

static int container_dial_wire(struct runner_config *config, const char *path, struct err *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return err_set(err, ERR_INVALID, "the path of a socket must have at most %zu bytes",
                       sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return err_errno(err, errno, "cannot connect to '%s'", path);
    struct timeval patience = {.tv_sec = DIAL_WAIT_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    autofd wire = -1, listener = -1;
    TRY(container_dial_take(fd, DIAL_WIRE, &wire, err) ?: container_dial_take(fd, DIAL_LISTEN, &listener, err));
    /* Listens again, so that the kernel reports our ids and a pidfd of ours to a connecting process. */
    if (listen(listener, 16) < 0)
        return err_errno(err, errno, "cannot listen at the daemon's socket");
    config->wire_fd = fd_take(&wire);
    config->listen_fd = fd_take(&listener);
    return 0;
}

/* ---- the container's settings ---- */

const char *const *container_env(const char *const *rows) {
    static const char *const defaults[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                           "HOME=/", "LANG=C.UTF-8"};
    size_t own = 0, given = 0, count = 0;
    while (environ[own])
        own++;
    while (rows[given])
        given++;
    const char **list = xcalloc(own + given + sizeof defaults / sizeof *defaults + 1, sizeof *list);
    for (size_t i = 0; i < own; i++) /* a variable without a name cannot be passed on */
        if (strchr(environ[i], '=') > environ[i])
            list[count++] = environ[i];
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (!spawn_env_has(list, defaults[i]))
            list[count++] = defaults[i];
    memcpy(list + count, rows, given * sizeof *list); /* a later one replaces an earlier one: spawn_env */
    return list;
}

/* With the container's own view of control groups: v2, else the v1 controller. */
int container_oom(int root_fd) {
    static const char *const names[] = {"sys/fs/cgroup/memory.events", "sys/fs/cgroup/memory/memory.oom_control"};
    int fd = -1;
    for (size_t i = 0; fd < 0 && i < sizeof names / sizeof *names; i++)
        fd = openat(root_fd, names[i], O_RDONLY | O_CLOEXEC);
    return fd;
}
