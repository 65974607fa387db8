/* Connects our standard streams with one command. One thread, one loop: box_duplex waits for the runner, standard input
 * and signals. Invariant: no wait here ignores signals, and standard input is only read as fast as the command accepts
 * it. */
#include "cli/streams.h"
#include "base/base.h"
#include "cli/terminal.h"

static int streams_started(void *user, uint64_t pid, struct err *) {
    struct streams *streams = user;
    streams->pid = pid;
    return 0;
}

static int streams_input(void *user, bool ready, struct err *err) {
    struct streams *streams = user;
    uint8_t chunk[LIMIT_FRAME_PAYLOAD_BYTES];
    if (!ready)
        return 0;
    ssize_t got = read(STDIN_FILENO, chunk, sizeof chunk);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (got <= 0) /* the end, or the terminal is gone */
        streams->duplex.deaf = streams->duplex.eof = true;
    return box_duplex_put(&streams->duplex, chunk, got > 0 ? (size_t)got : 0, err);
}

static int streams_signal(void *user, struct err *err) {
    struct streams *streams = user;
    int number = terminal_signal(streams->duplex.wake_fd);
    if (number == 0)
        return 0;
    if (number != SIGWINCH) {
        streams->ended_by = number;
        return err_set(err, ERR_GONE, "ended by signal %d", number);
    }
    if (!streams->terminal || !streams->pid)
        return 0;
    unsigned cols, rows;
    struct err ignored; /* the command may have ended */
    terminal_size(STDOUT_FILENO, &cols, &rows);
    box_resize(streams->box, streams->pid, cols, rows, &ignored);
    return 0;
}

static int streams_output(void *user, int stream, const uint8_t *data, size_t len, struct err *err) {
    struct streams *streams = user;
    int fd = stream == STREAM_STDERR ? STDERR_FILENO : STDOUT_FILENO;
    int code = terminal_write(fd, streams->duplex.wake_fd, data, len);
    if (code == -EPIPE) {
        streams->ended_by = SIGPIPE;
        return err_set(err, ERR_GONE, "the reader of the output is gone");
    }
    if (code < 0 && code != -EINTR)
        return err_errno(err, -code, "%s", fd == STDERR_FILENO ? "standard error" : "standard output");
    return code < 0 ? streams_signal(user, err) : 0;
}

static int streams_end(void *user, const struct exec_result *result, struct err *) {
    struct streams *streams = user;
    streams->result = *result;
    return 1;
}

int streams_run(struct streams *streams, struct err *err) {
    static const struct box_stream hooks = {
        .started = streams_started,
        .data = streams_output,
        .input = streams_input,
        .wake = streams_signal,
        .end = streams_end,
    };
    return box_duplex_run(&streams->duplex, &hooks, streams, err);
}
