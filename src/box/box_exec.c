/* The verbs of commands: run, spawn, look, feed, signal. Called by the doors. Invariant: box_exec sends input and
 * takes output in one loop, so a command that talks before it listens cannot stop the two against each other. */
#include <string.h>

#include "base/limits.h"
#include "box/verb.h"

/* How much longer than the command's own time-out a runner may take to say so. */
enum { EXEC_SLACK_MS = KILL_GRACE_MS + 30000 };

static size_t exec_rows(struct buf *args, enum field_id id, const char *const *rows) {
    size_t count = 0;
    for (; rows && rows[count]; count++)
        field_text(args, id, rows[count]);
    return count;
}

int verb_exec_args(const struct exec_request *request, uint64_t flags, struct buf *args, struct err *err) {
    if (request->command)
        field_text(args, FIELD_COMMAND, request->command);
    else if (!request->argv || !request->argv[0])
        return err_set(err, ERR_INVALID, "there is no command");
    size_t count = 0;
    for (const char *const *arg = request->argv; !request->command && *arg; arg++, count++)
        field_text(args, FIELD_ARGV, *arg);
    if (count > LIMIT_ARGV_COUNT)
        return err_set(err, ERR_TOO_LARGE, "more than %u arguments", LIMIT_ARGV_COUNT);
    if (exec_rows(args, FIELD_ENV, request->env) > LIMIT_ENV_COUNT)
        return err_set(err, ERR_TOO_LARGE, "more than %u variables", LIMIT_ENV_COUNT);
    if (exec_rows(args, FIELD_SECRET, request->secrets) > LIMIT_SECRETS)
        return err_set(err, ERR_TOO_LARGE, "more than %u secrets", LIMIT_SECRETS);
    if (exec_rows(args, FIELD_ENV_DROP, request->drops) > LIMIT_ENV_DROPS)
        return err_set(err, ERR_TOO_LARGE, "more than %u prefixes of variables", LIMIT_ENV_DROPS);
    if (request->cwd && verb_path(args, FIELD_CWD, request->cwd, err) < 0)
        return err_wrap(err, "cwd");
    if (request->shell)
        field_text(args, FIELD_SHELL, request->shell);
    if (request->session)
        field_text(args, FIELD_SESSION, request->session);
    field_text(args, FIELD_USER, request->root ? "root" : "agent");
    field_number(args, FIELD_TIMEOUT_MS, request->timeout_ms);
    if (request->keep) {
        field_number(args, FIELD_WAIT_MS, request->wait_ms);
        flags |= CALL_KEEP;
    }
    flags |= request->leave ? CALL_LEAVE : 0;
    if (request->pty) {
        field_number(args, FIELD_COLS, request->cols ? request->cols : 80);
        field_number(args, FIELD_ROWS, request->rows ? request->rows : 24);
        flags |= CALL_PTY;
    }
    field_number(args, FIELD_FLAGS, flags);
    if (args->failed)
        return err_set(err, ERR_TOO_LARGE, "command, arguments and variables are larger than %u bytes together",
                       LIMIT_CALL_ARGS_BYTES);
    return 0;
}

static struct exec_result exec_result_of(const struct box *box, const struct fields *end) {
    return (struct exec_result){
        .exited = end->has[FIELD_EXIT],
        .exit_code = (int)(end->number[FIELD_EXIT] & 0xff),
        .signal = (int)(end->number[FIELD_SIGNALLED] & 0x7f),
        .timed_out = end->number[FIELD_TIMED_OUT],
        .running = end->number[FIELD_STATE] == PROCESS_RUNNING,
        .oom_killed = end->number[FIELD_OOM],
        .left = end->number[FIELD_LEFT],
        .stuck = end->number[FIELD_STUCK],
        .memory_limit_bytes = box ? box->spec.limits.memory_mb << 20 : 0,
        .stdout_bytes = end->number[FIELD_BYTES_OUT],
        .stderr_bytes = end->number[FIELD_BYTES_ERR],
        .duration_ms = end->number[FIELD_DURATION_MS],
    };
}

int verb_exec_result(const struct event *end, struct exec_result *ret_result, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct fields fields;
    int r = fields_parse(view_of(end->data, end->len), &arena, &fields, err);
    if (r == 0)
        *ret_result = exec_result_of(NULL, &fields);
    return r;
}

struct exec_run {
    const struct exec_sink *sink;
    struct view input;
};

ssize_t box_read_view(void *user, void *data, size_t size, struct err *err) {
    (void)err;
    struct view *view = user;
    size_t n = view->len < size ? view->len : size;
    if (n)
        memcpy(data, view_take(view, n), n);
    return (ssize_t)n;
}

static int exec_stat(void *user, struct view view, int *fd, struct err *err) {
    (void)fd;
    struct exec_run *run = user;
    struct field field;
    while (run->sink->started && field_next(&view, &field, err) > 0)
        if (field.id == FIELD_PID)
            return run->sink->started(run->sink->user, field.number);
    return 0;
}

static int exec_data(void *user, int stream, const uint8_t *data, size_t len, struct err *err) {
    (void)err;
    struct exec_run *run = user;
    return run->sink->output(run->sink->user, stream == STREAM_STDERR ? STREAM_STDERR : STREAM_STDOUT, data, len);
}

static int exec_idle(void *user) {
    struct exec_run *run = user;
    return run->sink->idle(run->sink->user);
}

int box_output_limit(const struct box *box, bool asked, uint64_t wanted, uint64_t fallback, size_t *ret_limit,
                     struct err *err) {
    uint64_t most = box->spec.limits.output_bytes ? box->spec.limits.output_bytes : LIMIT_OUTPUT_LIMIT_BYTES;
    if (asked && wanted > most)
        return err_set(err, ERR_INVALID, "output_limit_bytes: this box keeps at most %llu bytes (limits.output_bytes)",
                       (unsigned long long)most);
    *ret_limit = (size_t)(asked ? wanted : fallback < most ? fallback : most);
    return 0;
}

static int exec_shared(struct box *box, const struct exec_request *request, const struct exec_sink *sink, int watch,
                       struct exec_result *ret_result, struct err *err) {
    static const struct verb_sink to_sink = {.stat = exec_stat, .data = exec_data};
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    int r = verb_exec_args(request, request->input || request->stdin_open ? CALL_STDIN : 0, &args, err);
    if (r < 0)
        return r;
    struct exec_run run = {.sink = sink, .input = view_of(request->input, request->input_len)};
    struct verb verb = {.op = OP_EXEC, .watch = watch, .sink = &to_sink, .user = &run, .read_user = &run.input};
    if (sink->idle) {
        verb.idle = exec_idle;
        verb.idle_ms = sink->idle_ms;
    }
    if (request->timeout_ms)
        verb.timeout_ms = request->timeout_ms + EXEC_SLACK_MS;
    /* A small stdin travels with the call itself. */
    bool small = request->input_len <= LIMIT_FRAME_PAYLOAD_BYTES;
    if (!small)
        verb.read_fn = box_read_view;
    struct call *call;
    r = call_open(box->wire, OP_EXEC, &args, request->input, small ? request->input_len : 0, small && request->input,
                  &call, err);
    if (r < 0)
        return r;
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    r = verb_finish(box, call, &verb, &arena, &end, err);
    if (r == 0)
        *ret_result = exec_result_of(box, &end);
    return r;
}

int box_exec(struct box *box, const struct exec_request *request, const struct exec_sink *sink, int watch,
             struct exec_result *ret_result, struct err *err) {
    int r = box_share(box, TURN_WAIT_MS, err);
    if (r < 0)
        return r;
    r = exec_shared(box, request, sink, watch, ret_result, err);
    box_share_end(box);
    return r;
}

static int spawn_shared(struct box *box, const struct exec_request *request, uint64_t *ret_pid,
                        uint64_t *ret_started_ms, struct err *err) {
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    /* Its stdin stays open for box_input; what the request brings is fed first. */
    int r = verb_exec_args(request, CALL_BACKGROUND | CALL_STDIN, &args, err);
    if (r < 0)
        return r;
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    r = verb_short(box, OP_EXEC, &args, &arena, &end, err);
    if (r < 0)
        return r;
    if (request->input) {
        struct view input = view_of(request->input, request->input_len);
        r = box_input(box, end.number[FIELD_PID], true, box_read_view, &input, -1, err);
        if (r < 0 && r != -ERR_NOT_FOUND && r != -ERR_GONE && r != -ERR_INVALID) /* it may have ended already */
            return r;
    }
    *ret_pid = end.number[FIELD_PID];
    *ret_started_ms = end.number[FIELD_STARTED_MS];
    return 0;
}

int box_spawn(struct box *box, const struct exec_request *request, uint64_t *ret_pid, uint64_t *ret_started_ms,
              struct err *err) {
    int r = box_share(box, TURN_WAIT_MS, err); /* while it starts: what it goes on with in the background is its own */
    if (r < 0)
        return r;
    r = spawn_shared(box, request, ret_pid, ret_started_ms, err);
    box_share_end(box);
    return r;
}

/* ---- processes ---- */

struct process_walk {
    const struct box *box;
    void (*each)(void *user, const struct process *process);
    void *user;
    struct arena arena;
    unsigned count;
};

static int process_item(void *user, struct view view, struct err *err) {
    struct process_walk *walk = user;
    if (++walk->count > LIMIT_PROCESSES)
        return err_set(err, ERR_PROTOCOL, "the runner names more than %u processes", LIMIT_PROCESSES);
    struct fields fields;
    int r = fields_parse(view, &walk->arena, &fields, err);
    if (r < 0)
        return r;
    struct process process = {
        .pid = fields.number[FIELD_PID],
        .started_ms = fields.number[FIELD_STARTED_MS],
        .running = fields.number[FIELD_STATE] == PROCESS_RUNNING,
        .command = fields.text[FIELD_COMMAND] ? fields.text[FIELD_COMMAND] : "",
        .session = fields.text[FIELD_SESSION],
        .result = exec_result_of(walk->box, &fields),
    };
    walk->each(walk->user, &process);
    arena_done(&walk->arena);
    return 0;
}

int box_processes(struct box *box, uint64_t pid, void (*each)(void *user, const struct process *process), void *user,
                  struct err *err) {
    return verb_processes(box, pid, VERB_SHORT_MS, each, user, err);
}

int verb_processes(struct box *box, uint64_t pid, uint64_t timeout_ms,
                   void (*each)(void *user, const struct process *process), void *user, struct err *err) {
    static const struct verb_sink sink = {.item = process_item};
    autobuf args = buf_max(64);
    if (pid)
        field_number(&args, FIELD_PID, pid);
    struct process_walk walk = {.box = box, .each = each, .user = user};
    struct verb verb = {
        .op = OP_PS, .args = &args, .watch = -1, .timeout_ms = timeout_ms, .sink = &sink, .user = &walk};
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    int r = verb_run(box, &verb, &arena, &end, err);
    arena_done(&walk.arena);
    if (r == 0 && pid && walk.count == 0)
        return err_set(err, ERR_NOT_FOUND, "no process %llu", (unsigned long long)pid);
    return r;
}

struct output_take {
    struct buf *out;
    struct output_slice slice;
    bool has_next;
};

static int output_stat(void *user, struct view view, int *fd, struct err *err) {
    (void)fd;
    struct output_take *take = user;
    struct field field;
    int r;
    while ((r = field_next(&view, &field, err)) > 0) {
        if (field.id == FIELD_FIRST)
            take->slice.first = field.number;
        else if (field.id == FIELD_NEXT)
            take->slice.next = field.number;
        else if (field.id == FIELD_STATE)
            take->slice.running = field.number == PROCESS_RUNNING;
    }
    return r;
}

static int output_data(void *user, int stream, const uint8_t *data, size_t len, struct err *err) {
    (void)stream;
    struct output_take *take = user;
    buf_put(take->out, data, len);
    return take->out->failed ? err_set(err, ERR_PROTOCOL, "the runner sent more output than asked for") : 0;
}

static int output_run(struct box *box, const struct buf *args, uint64_t wait_ms, int watch,
                      const struct verb_sink *sink, struct output_take *take, struct err *err) {
    const struct verb verb = {.op = OP_OUTPUT,
                              .args = args,
                              .watch = watch,
                              .timeout_ms = wait_ms + VERB_SHORT_MS,
                              .sink = sink,
                              .user = take};
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    return verb_run(box, &verb, &arena, &end, err);
}

int box_output(struct box *box, uint64_t pid, int stream, uint64_t offset, uint64_t wait_ms, int watch, struct buf *out,
               struct output_slice *ret_slice, struct err *err) {
    static const struct verb_sink sink = {.stat = output_stat, .data = output_data};
    autobuf args = buf_max(256);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_STREAM, (uint64_t)stream);
    field_number(&args, FIELD_OFFSET, offset);
    field_number(&args, FIELD_LENGTH, out->max - out->len);
    field_number(&args, FIELD_WAIT_MS, wait_ms);
    struct output_take take = {.out = out, .slice = {.next = offset}};
    int r = output_run(box, &args, wait_ms, watch, &sink, &take, err);
    if (r == 0)
        *ret_slice = take.slice;
    return r;
}

int box_output_wait(struct box *box, uint64_t pid, const uint64_t offsets[2], uint64_t wait_ms, int watch,
                    bool *ret_running, struct err *err) {
    static const struct verb_sink sink = {.stat = output_stat};
    autobuf args = buf_max(256);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_STREAM, STREAM_STDOUT);
    field_number(&args, FIELD_OFFSET, offsets[0]);
    field_number(&args, FIELD_NEXT, offsets[1]);
    field_number(&args, FIELD_LENGTH, 0);
    field_number(&args, FIELD_WAIT_MS, wait_ms);
    struct output_take take = {0};
    int r = output_run(box, &args, wait_ms, watch, &sink, &take, err);
    if (r == 0)
        *ret_running = take.slice.running;
    return r;
}

static int signal_send(struct box *box, uint64_t pid, int signal, uint64_t flags, struct err *err) {
    autobuf args = buf_max(64);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_SIGNAL, (uint64_t)signal);
    field_number(&args, FIELD_FLAGS, flags);
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    return verb_short(box, OP_SIGNAL, &args, &arena, &end, err);
}

int box_signal(struct box *box, uint64_t pid, int signal, struct err *err) {
    return signal_send(box, pid, signal, 0, err);
}

int box_signal_tree(struct box *box, uint64_t pid, int signal, struct err *err) {
    return signal_send(box, pid, signal, CALL_ALL, err);
}

int box_resize(struct box *box, uint64_t pid, unsigned cols, unsigned rows, struct err *err) {
    autobuf args = buf_max(64);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_COLS, cols);
    field_number(&args, FIELD_ROWS, rows);
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    return verb_short(box, OP_RESIZE, &args, &arena, &end, err);
}

int box_input(struct box *box, uint64_t pid, bool close_after, box_reader read_fn, void *user, int watch,
              struct err *err) {
    autobuf args = buf_max(64);
    field_number(&args, FIELD_PID, pid);
    field_number(&args, FIELD_FLAGS, close_after ? CALL_CLOSE : 0);
    struct verb verb = {.op = OP_INPUT, .args = &args, .watch = watch, .read_fn = read_fn, .read_user = user};
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    return verb_run(box, &verb, &arena, &end, err);
}
