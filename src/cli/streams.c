/* Between our standard streams and one EXEC call. One thread, one loop: call_next waits for the runner and for
 * one epoll descriptor that stands for standard input and signals. Invariant: no wait here is deaf to signals, and
 * standard input is read only as far as the command takes it. */
#include "cli/streams.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "cli/terminal.h"
#include "wire/frame.h"

struct streams_state {
    struct streams *streams;
    int epoll_fd;
    uint64_t pid;
    bool input_open;   /* end of input not yet seen */
    bool watched;      /* standard input is in the epoll */
    bool always_ready; /* a regular file: cannot be in an epoll, never makes us wait */
    size_t begin, end; /* bytes of chunk the command has not taken yet */
    uint8_t chunk[LIMIT_FRAME_PAYLOAD_BYTES];
};

static int streams_begin(struct streams_state *state, struct err *err);
static int streams_event(struct streams_state *state, const struct event *event, struct exec_result *ret_result,
                         struct err *err);
static int streams_input(struct streams_state *state, struct err *err);

int streams_run(struct streams *streams, struct exec_result *ret_result, struct err *err) {
    struct streams_state state;
    memset(&state, 0, offsetof(struct streams_state, chunk));
    state.streams = streams;
    state.epoll_fd = -1;
    state.input_open = streams->input;
    int code = streams_begin(&state, err);
    struct call_wait wait = {.fd = state.epoll_fd, .events = POLLIN};
    while (code == 0) {
        /* Nothing will announce a regular file: feed it until its credit is used up, then EVENT_INPUT goes on. */
        while (code == 0 && state.always_ready && state.input_open && state.begin == state.end)
            code = streams_input(&state, err);
        struct event event;
        if (code == 0)
            code = call_next(streams->call, &wait, &event, err);
        if (code == 0)
            code = streams_event(&state, &event, ret_result, err);
    }
    fd_close(&state.epoll_fd);
    return code > 0 ? 0 : code;
}

static int streams_watch(struct streams_state *state, bool on, struct err *err) {
    if (state->watched == on || state->always_ready)
        return 0;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    if (epoll_ctl(state->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, STDIN_FILENO, &event) < 0) {
        if (errno != EPERM)
            return err_errno(err, errno, "standard input");
        state->always_ready = true;
        return 0;
    }
    state->watched = on;
    return 0;
}

static int streams_begin(struct streams_state *state, struct err *err) {
    state->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = state->streams->signal_fd};
    if (state->epoll_fd < 0 || epoll_ctl(state->epoll_fd, EPOLL_CTL_ADD, state->streams->signal_fd, &event) < 0)
        return err_errno(err, errno, "epoll");
    return state->input_open ? streams_watch(state, true, err) : 0;
}

/* Hands over what was read. What the command does not take now waits for EVENT_INPUT; meanwhile nothing is read. */
static int streams_send(struct streams_state *state, struct err *err) {
    while (state->begin < state->end) {
        ssize_t sent = call_send(state->streams->call, state->chunk + state->begin, state->end - state->begin, err);
        if (sent < 0)
            return (int)sent;
        if (sent == 0)
            return streams_watch(state, false, err);
        state->begin += (size_t)sent;
    }
    return state->input_open ? streams_watch(state, true, err) : 0;
}

static int streams_input(struct streams_state *state, struct err *err) {
    ssize_t got = read(STDIN_FILENO, state->chunk, sizeof state->chunk);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (got > 0) {
        state->begin = 0;
        state->end = (size_t)got;
        return streams_send(state, err);
    }
    state->input_open = false; /* the end, or a terminal that went away */
    int code = streams_watch(state, false, err);
    return code < 0 ? code : call_send_eof(state->streams->call, err);
}

static int streams_signal(struct streams_state *state, struct err *err) {
    int number = terminal_signal(state->streams->signal_fd);
    if (number == 0)
        return 0;
    if (number != SIGWINCH) {
        state->streams->ended_by = number;
        return err_set(err, ERR_GONE, "ended by signal %d", number);
    }
    if (!state->streams->terminal || !state->pid)
        return 0;
    unsigned cols, rows;
    struct err ignored; /* the command may just have ended */
    terminal_size(STDOUT_FILENO, &cols, &rows);
    box_resize(state->streams->box, state->pid, cols, rows, &ignored);
    return 0;
}

static int streams_ready(struct streams_state *state, struct err *err) {
    struct epoll_event events[2];
    int count = epoll_wait(state->epoll_fd, events, 2, 0), code = 0;
    for (int i = 0; i < count && code == 0; i++)
        code = events[i].data.fd == STDIN_FILENO ? streams_input(state, err) : streams_signal(state, err);
    return code;
}

static int streams_output(struct streams_state *state, const struct event *event, struct err *err) {
    int fd = event->stream == STREAM_STDERR ? STDERR_FILENO : STDOUT_FILENO;
    int code = terminal_write(fd, state->streams->signal_fd, event->data, event->len);
    if (code == -EPIPE) {
        state->streams->ended_by = SIGPIPE;
        return err_set(err, ERR_GONE, "nobody reads the output");
    }
    if (code < 0 && code != -EINTR)
        return err_errno(err, -code, "%s", fd == STDERR_FILENO ? "standard error" : "standard output");
    return code < 0 ? streams_signal(state, err) : 0;
}

static int streams_started(struct streams_state *state, const struct event *event, struct err *err) {
    struct view view = view_of(event->data, event->len);
    struct field field;
    int code;
    while ((code = field_next(&view, &field, err)) > 0)
        if (field.id == FIELD_PID)
            state->pid = field.number;
    return code;
}

/* 0 go on, 1 the command ended, negative failed. */
static int streams_event(struct streams_state *state, const struct event *event, struct exec_result *ret_result,
                         struct err *err) {
    switch (event->kind) {
    case EVENT_STAT:
        return streams_started(state, event, err);
    case EVENT_DATA:
        return streams_output(state, event, err);
    case EVENT_INPUT:
        return streams_send(state, err);
    case EVENT_READY:
        return streams_ready(state, err);
    case EVENT_END: {
        int code = exec_result_decode(state->streams->box, event, ret_result, err);
        return code < 0 ? code : 1;
    }
    case EVENT_ITEM:
        break;
    }
    return err_set(err, ERR_PROTOCOL, "the runner sent something a command does not send");
}
