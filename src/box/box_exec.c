/* The verbs of commands: run, spawn, look, feed, signal. Called by the dialects. Invariant: box_exec sends input and
 * takes output in one loop, so a command that talks before it listens cannot stop the two against each other. */
#include "base/base.h"
#include "box/network.h"
#include "box/secret/binding.h"
#include "box/verb.h"

/* How much longer than the command's own time-out a runner may take to say so. */
enum { EXEC_SLACK_MS = KILL_GRACE_MS + 30000 };

int verb_exec_args(const struct box *box, const struct exec_request *request, uint64_t flags, struct buf *args,
                   struct err *err) {
    autoarena arena = ARENA_EMPTY;
    if (!request->command && (!request->argv || !request->argv[0]))
        return err_set(err, ERR_INVALID, "there is no command");
    if (verb_put(args, err, F_PATH(CWD, request->cwd)) < 0)
        return err_wrap(err, "cwd");
    if (request->tag && strlen(request->tag) > LIMIT_PROCESS_TAG_BYTES)
        return err_set(err, ERR_INVALID, "the tag of a command has at most %u bytes", LIMIT_PROCESS_TAG_BYTES);
    flags |= (request->detach ? CALL_DETACH : 0) | (request->keep ? CALL_KEEP : 0) | (request->leave ? CALL_LEAVE : 0) |
             (request->pty ? CALL_PTY : 0) | (request->sudo ? CALL_SUDO : 0);
    const char *user = request->uid    ? arena_printf(&arena, "%u:%u", request->uid, request->gid)
                       : request->root ? "root"
                                       : "agent";
    unsigned cols = request->cols ? request->cols : 80, rows = request->rows ? request->rows : 24;
    const char *const *bound = (const char *const *)bindings_env(box, &arena); /* before the call's own, which win */
    TRY(verb_put(args, err, F_LIST(ENV, bound, BINDINGS_VARIABLES, "secrets"),
                 F_LIST(ARGV, request->command ? NULL : request->argv, LIMIT_ARGV_COUNT, "arguments"),
                 F_LIST(ENV, request->env, LIMIT_ENV_COUNT, "variables"),
                 F_LIST(SECRET, request->secrets, LIMIT_SECRETS, "secrets"),
                 F_LIST(ENV_DROP, request->drops, LIMIT_ENV_DROPS, "prefixes of variables"),
                 F_TEXT(COMMAND, request->command), F_TEXT(SHELL, request->shell), F_TEXT(SESSION, request->session),
                 F_TEXT(NOTE, request->tag), F_TEXT(USER, user), F_NUM(TIMEOUT_MS, request->timeout_ms),
                 F_NUM(WAIT_MS, request->keep ? request->wait_ms : 0), F_NUM(COLS, request->pty ? cols : 0),
                 F_NUM(ROWS, request->pty ? rows : 0), F_NUM(FLAGS, flags)));
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

ssize_t box_read_view(void *user, void *data, size_t size, struct err *) {
    struct view *view = user;
    size_t n = view->len < size ? view->len : size;
    if (n)
        memcpy(data, view_take(view, n), n);
    return (ssize_t)n;
}

/* Reports of the gate name the command from now on. One with secrets may have them in its text. */
static void exec_named(struct box *box, const struct exec_request *request, uint64_t group, uint64_t pid) {
    const char *text = request->command ? request->command : request->argv ? request->argv[0] : NULL;
    network_command(box, group, pid, text && !request->secrets ? text : "");
}

static int exec_stat(void *user, struct view view, int *, struct err *err) {
    const struct exec_sink *sink = user;
    struct field field;
    uint64_t pid = 0, group = 0;
    while (field_next(&view, &field, err) > 0)
        if (field.id == FIELD_PID)
            pid = field.number;
        else if (field.id == FIELD_INODE)
            group = field.number;
    if (sink->box)
        exec_named(sink->box, sink->request, group, pid);
    return sink->started && pid ? sink->started(sink->user, pid) : 0;
}

static int exec_data(void *user, int stream, const uint8_t *data, size_t len, struct err *) {
    const struct exec_sink *sink = user;
    return sink->output ? sink->output(sink->user, stream == STREAM_STDERR ? STREAM_STDERR : STREAM_STDOUT, data, len)
                        : 0;
}

const struct verb_sink verb_exec_sink = {.stat = exec_stat, .data = exec_data};

static int exec_idle(void *user) {
    const struct exec_sink *sink = user;
    return sink->idle(sink->user);
}

void verb_exec_idle(struct verb *verb, const struct exec_sink *sink) {
    verb->idle = sink->idle ? exec_idle : NULL;
    verb->idle_ms = sink->idle_ms;
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

int box_exec(struct box *box, const struct exec_request *request, const struct exec_sink *sink, int watch,
             struct exec_result *ret_result, struct err *err) {
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    TRY(verb_exec_args(box, request, request->input || request->stdin_open ? CALL_STDIN : 0, &args, err)
            ?: box_share(box, SHARE_WAIT_MS, err));
    const struct network_mark mark = network_mark(box);
    struct exec_sink own = *sink;
    own.box = box;
    own.request = request;
    bool small = request->input_len <= LIMIT_FRAME_PAYLOAD_BYTES; /* then stdin travels with the call itself */
    struct view input = view_of(request->input, request->input_len);
    struct verb verb = {.op = OP_EXEC,
                        .watch = watch,
                        .sink = &verb_exec_sink,
                        .user = &own,
                        .timeout_ms = request->timeout_ms ? request->timeout_ms + EXEC_SLACK_MS : 0,
                        .read_fn = small ? NULL : box_read_view,
                        .read_user = &input};
    verb_exec_idle(&verb, &own);
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    struct call *call;
    int r = call_open(box->wire, OP_EXEC, &args, request->input, small ? request->input_len : 0,
                      small && request->input, &call, err)
                ?: verb_finish(box, call, &verb, &arena, &end, err);
    box_share_end(box);
    if (r == 0)
        *ret_result = exec_result_of(box, &end);
    if (r == 0)
        ret_result->denied_count =
            (unsigned)network_denied(box, &mark, end.number[FIELD_INODE], ret_result->denied, EXEC_DENIALS);
    return r;
}

int box_spawn(struct box *box, const struct exec_request *request, uint64_t *ret_pid, uint64_t *ret_started_ms,
              struct err *err) {
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    const struct verb verb = {.op = OP_EXEC, .args = &args, .watch = -1, .timeout_ms = VERB_SHORT_MS};
    struct fields end;
    /* Its stdin stays open for box_input; the request's input is fed first. The box is shared while it starts: what it
     * does in the background is its own. */
    TRY(verb_exec_args(box, request, CALL_BACKGROUND | CALL_STDIN, &args, err) ?: box_share(box, SHARE_WAIT_MS, err));
    int r = verb_numbers(box, &verb, &end, err);
    if (r == 0)
        exec_named(box, request, end.number[FIELD_INODE], end.number[FIELD_PID]);
    if (r == 0 && request->input) {
        struct view input = view_of(request->input, request->input_len);
        r = box_input(box, end.number[FIELD_PID], true, box_read_view, &input, -1, err);
        if (r == -ERR_NOT_FOUND || r == -ERR_GONE || r == -ERR_INVALID) /* it may have ended already */
            r = 0;
    }
    box_share_end(box);
    if (r < 0)
        return r;
    *ret_pid = end.number[FIELD_PID];
    *ret_started_ms = end.number[FIELD_STARTED_MS];
    return 0;
}

/* ---- processes ---- */

struct process_walk {
    const struct box *box;
    void (*each)(void *user, const struct process *process);
    void *user;
    struct arena arena;
    unsigned count;
};

static int exec_process_item(void *user, struct view view, struct err *err) {
    struct process_walk *walk = user;
    if (++walk->count > LIMIT_PROCESSES)
        return err_set(err, ERR_PROTOCOL, "the runner names more than %u processes", LIMIT_PROCESSES);
    struct fields fields;
    TRY(fields_parse(view, &walk->arena, &fields, err));
    struct process process = {
        .pid = fields.number[FIELD_PID],
        .started_ms = fields.number[FIELD_STARTED_MS],
        .running = fields.number[FIELD_STATE] == PROCESS_RUNNING,
        .command = fields.text[FIELD_COMMAND] ? fields.text[FIELD_COMMAND] : "",
        .session = fields.text[FIELD_SESSION],
        .tag = fields.text[FIELD_NOTE],
        .pty = fields.number[FIELD_FLAGS] & CALL_PTY,
        .input = fields.number[FIELD_FLAGS] & CALL_STDIN,
        .cwd = fields.text[FIELD_CWD],
        .argv = fields.argv,
        .env = fields.env,
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
    static const struct verb_sink sink = {.item = exec_process_item};
    struct process_walk walk = {.box = box, .each = each, .user = user};
    const struct verb verb = {.op = OP_PS,
                              FIELDS(F_NUM(PID, pid)),
                              .flags = CALL_ALL, /* older runners do not look at it */
                              .watch = -1,
                              .timeout_ms = timeout_ms,
                              .sink = &sink,
                              .user = &walk};
    int r = verb_only(box, &verb, err);
    arena_done(&walk.arena);
    if (r == 0 && pid && walk.count == 0)
        return err_set(err, ERR_NOT_FOUND, "no process %llu", (unsigned long long)pid);
    return r;
}

struct output_take {
    struct buf *out;
    struct output_slice slice;
};

static int exec_output_stat(void *user, struct view view, int *, struct err *err) {
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

static int exec_output_data(void *user, int, const uint8_t *data, size_t len, struct err *err) {
    struct output_take *take = user;
    buf_put(take->out, data, len);
    return take->out->failed ? err_set(err, ERR_PROTOCOL, "the runner sent more output than asked for") : 0;
}

int box_output(struct box *box, uint64_t pid, int stream, uint64_t offset, uint64_t wait_ms, int watch, struct buf *out,
               struct output_slice *ret_slice, struct err *err) {
    static const struct verb_sink sink = {.stat = exec_output_stat, .data = exec_output_data};
    struct output_take take = {.out = out, .slice = {.next = offset}};
    const struct verb verb = {.op = OP_OUTPUT,
                              FIELDS(F_NUM(PID, pid), F_NUM(STREAM, (uint64_t)stream), F_NUM(OFFSET, offset),
                                     F_NUM(WAIT_MS, wait_ms), F_ALWAYS(LENGTH, out->max - out->len)),
                              .watch = watch,
                              .timeout_ms = wait_ms + VERB_SHORT_MS,
                              .sink = &sink,
                              .user = &take};
    TRY(verb_only(box, &verb, err));
    *ret_slice = take.slice;
    return 0;
}

int box_output_wait(struct box *box, uint64_t pid, const uint64_t offsets[2], uint64_t wait_ms, int watch,
                    bool *ret_running, struct err *err) {
    static const struct verb_sink sink = {.stat = exec_output_stat};
    struct output_take take = {0};
    const struct verb verb = {.op = OP_OUTPUT, /* without a length it would be as much as there is */
                              FIELDS(F_NUM(PID, pid), F_NUM(STREAM, STREAM_STDOUT), F_NUM(OFFSET, offsets[0]),
                                     F_NUM(WAIT_MS, wait_ms), F_ALWAYS(NEXT, offsets[1]), F_ALWAYS(LENGTH, 0)),
                              .watch = watch,
                              .timeout_ms = wait_ms + VERB_SHORT_MS,
                              .sink = &sink,
                              .user = &take};
    TRY(verb_only(box, &verb, err));
    *ret_running = take.slice.running;
    return 0;
}

int box_signal(struct box *box, uint64_t pid, int signal, struct err *err) {
    return box_signal_wait(box, pid, signal, false, 0, err);
}

int box_signal_tree(struct box *box, uint64_t pid, int signal, struct err *err) {
    return box_signal_wait(box, pid, signal, true, 0, err);
}

int box_signal_wait(struct box *box, uint64_t pid, int signal, bool tree, uint64_t wait_ms, struct err *err) {
    return verb_simple(box, OP_SIGNAL, err, F_NUM(PID, pid), F_NUM(SIGNAL, (uint64_t)signal),
                       F_NUM(FLAGS, tree ? CALL_ALL : 0), F_NUM(WAIT_MS, wait_ms));
}

int box_resize(struct box *box, uint64_t pid, unsigned cols, unsigned rows, struct err *err) {
    return verb_simple(box, OP_RESIZE, err, F_NUM(PID, pid), F_NUM(COLS, cols), F_NUM(ROWS, rows));
}

int box_input(struct box *box, uint64_t pid, bool close_after, box_reader read_fn, void *user, int watch,
              struct err *err) {
    const struct verb verb = {.op = OP_INPUT,
                              FIELDS(F_NUM(PID, pid)),
                              .flags = close_after ? CALL_CLOSE : 0,
                              .watch = watch,
                              .read_fn = read_fn,
                              .read_user = user};
    return verb_only(box, &verb, err);
}
