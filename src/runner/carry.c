/* The wire of a runner that another make of runner started (`serve --pieces 1`): it is carried in pieces (wire/piece.h) over
 * standard input and output. The process that was started carries it, and the runner is its child in a session of its own:
 * whatever ends the carrier, even SIGKILL, ends the wire, and the runner then ends every command in order. Called by main. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "runner/enter/container.h"
#include "wire/piece.h"

struct carrier {
    int socket_fd; /* to the runner; -1: it has ended */
    struct pieces pieces;
    struct buf out; /* for standard output */
};

static bool would_wait(void) {
    return errno == EAGAIN || errno == EINTR;
}

/* False: standard input is over, or broke the rules. */
static bool carry_in(struct carrier *carrier) {
    static uint8_t data[128 << 10];
    struct err err;
    ssize_t n = read(STDIN_FILENO, data, sizeof data);
    if (n < 0 && would_wait())
        return true;
    if (n > 0 && pieces_feed(&carrier->pieces, data, (size_t)n, &err) < 0) {
        fprintf(stderr, "cubby-runner: %s\n", err.text);
        return false;
    }
    return n > 0;
}

static void carry_back(struct carrier *carrier) {
    static uint8_t data[PIECE_BYTES];
    size_t room = pieces_room(&carrier->pieces);
    ssize_t n = read(carrier->socket_fd, data, room);
    if (n > 0)
        pieces_put(&carrier->pieces, &carrier->out, data, (size_t)n);
    else if (n == 0 || !would_wait())
        fd_close(&carrier->socket_fd);
}

static void carry_on(struct carrier *carrier) {
    const struct buf *ready = &carrier->pieces.ready;
    ssize_t n = send(carrier->socket_fd, ready->data, ready->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        pieces_take(&carrier->pieces, (size_t)n);
    else if (!would_wait())
        fd_close(&carrier->socket_fd);
}

/* Until standard input ends, or the runner has and all it said is written. */
static void carry(struct carrier *carrier) {
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
        if (polls[2].events == 0) /* a hang-up is seen when there is room for what came before it */
            polls[2].fd = -1;
        if (poll(polls, 3, -1) < 0 && errno != EINTR)
            return;
        if (polls[0].revents && !carry_in(carrier))
            return;
        if (polls[1].revents) {
            ssize_t n = write(STDOUT_FILENO, carrier->out.data, carrier->out.len);
            if (n < 0 && !would_wait())
                return;
            buf_consume(&carrier->out, n > 0 ? (size_t)n : 0);
        }
        if (carrier->socket_fd >= 0 && polls[2].revents & POLLOUT)
            carry_on(carrier);
        if (carrier->socket_fd >= 0 && takes && polls[2].revents & (POLLIN | POLLHUP | POLLERR))
            carry_back(carrier);
    }
}

/* Ends when the runner has: who waits for us waits for the end of every command. */
static _Noreturn void carrier_main(int socket_fd, pid_t runner) {
    static struct carrier carrier;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    carrier.socket_fd = socket_fd;
    pieces_init(&carrier.pieces);
    buf_init(&carrier.out, 2 * (PIECE_HEAD_BYTES + PIECE_BYTES));
    const int fds[] = {STDIN_FILENO, STDOUT_FILENO};
    for (int i = 0; i < 2; i++)
        fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
    carry(&carrier);
    fd_close(&carrier.socket_fd);
    int status = 0;
    while (waitpid(runner, &status, 0) < 0 && errno == EINTR)
        ;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int carry_wire(struct runner_config *config, struct err *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "a socket pair");
    autofd ours = pair[0], theirs = pair[1];
    pid_t pid = fork();
    if (pid < 0)
        return err_errno(err, errno, "cannot start a process");
    if (pid > 0) {
        fd_close(&ours);
        carrier_main(fd_take(&theirs), pid);
    }
    setsid(); /* what ends the group of the carrier does not end the runner before its commands */
    config->wire_plain = true;
    config->wire_fd = fd_take(&ours);
    return 0;
}
