/* bash_background, bash_output, bash_kill: commands that outlive the call that started them. Rows of tool_table. The
 * box's runner keeps them and the end of their output, so a restarted daemon and other threads of the box find them. */
#include <inttypes.h>

#include "base/base.h"
#include "box/signame.h"
#include "tool/guard/guard.h"
#include "tool/memo.h"
#include "tool/shell.h"

enum {
    OUTPUT_WAIT_MS = 600000, /* longest wait_ms */
    OUTPUT_PIECE_MS = 10000, /* progress is reported so often while waiting */
    KILL_WAIT_MS = 5000,     /* for the exit of a killed command */
};

/* ---- one command ---- */

struct background {
    struct tool_call *call;
    struct process process;
    char command[1024]; /* as the runner lists it: shortened, secrets removed */
    size_t count;
};

static void background_each(void *user, const struct process *process) {
    struct background *one = user;
    one->process = *process;
    snprintf(one->command, sizeof one->command, "%s", process->command);
    one->process.command = one->command;
    one->count++;
}

static int background_find(struct tool_call *call, uint64_t pid, struct background *ret_one, struct err *err) {
    ret_one->call = call;
    int code = tool_box(call, err) ?: box_processes(call->box, pid, background_each, ret_one, err);
    if (code == -ERR_NOT_FOUND)
        err_set(err, ERR_NOT_FOUND, "no background command %" PRIu64 "; bash_output without pid lists them", pid);
    return code;
}

/* "is running for 12 s", "ended after 3.2 s with exit code 0" */
static void background_state(struct tool_call *call, const struct process *process) {
    const struct exec_result *result = &process->result;
    char name[SIGNAME_BYTES];
    if (process->running) {
        uint64_t now_ms = clock_wall_ms(), since_ms = now_ms > process->started_ms ? now_ms - process->started_ms : 0;
        tool_say(call, "is running for %" PRIu64 " s", since_ms / 1000);
        return;
    }
    tool_say(call, "ended after %.1f s", (double)result->duration_ms / 1000);
    if (result->timed_out)
        tool_say(call, ", timed out");
    else if (result->exited)
        tool_say(call, " with exit code %d", result->exit_code);
    else
        tool_say(call, ", killed by %s", signame_text(result->signal, name));
    if (result->oom_killed)
        tool_say(call, "; a process was killed for lack of memory");
}

static const struct row background_answer[] = {
    {ANSWER("pid", INT), .text = "its process id in the box"},
    {ANSWER("state", TEXT), .choices = "running|exited", .text = "whether it is still running"},
    {ANSWER("started_at", TIME), .text = "when it was started"},
    SHELL_ANSWER,
    {ANSWER("stdout_offset", INT), .text = "offset of the next byte of standard output"},
    {ANSWER("stderr_offset", INT), .text = "offset of the next byte of standard error"},
    {.name = NULL},
};

static void background_structured(struct tool_call *call, const struct process *process, const uint64_t offsets[2]) {
    struct json *json = &call->result.json;
    json_open(json, '{');
    json_put_uint(json, "pid", process->pid);
    json_put_str(json, "state", process->running ? "running" : "exited");
    json_put_time(json, "started_at", process->started_ms);
    struct exec_result result = process->result;
    if (process->running)
        result = (struct exec_result){0};
    shell_json(json, &result);
    json_put_uint(json, "stdout_offset", offsets[0]);
    json_put_uint(json, "stderr_offset", offsets[1]);
    json_close(json, '}');
}

struct bash_background_args {
    struct row_text command, cwd, description;
    struct row_number timeout_ms;
};

static const struct row bash_background_fields[] = {
    {ARG(bash_background_args, command, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = SHELL_MAX_BYTES,
     .text = "The command line, passed to the box's shell."},
    {ARG(bash_background_args, timeout_ms, INT), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS,
     .text = "Milliseconds after which the command and everything it started are killed; default: never."},
    {ARG(bash_background_args, cwd, TEXT), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "Directory for this command; default: the working directory."},
    TOOL_DESCRIPTION(struct bash_background_args),
    {.name = NULL},
};

static int bash_background_run(struct tool_call *call, const void *user, struct err *err) {
    const struct bash_background_args *args = user;
    struct exec_request request;
    struct background one = {0};
    uint64_t pid, started_ms;
    TRY(shell_prepare(call, &args->cwd, args->timeout_ms.value, &request, err));
    if (!guard_admits(call, args->command.data))
        return 0;
    request.command = args->command.data;
    request.input = ""; /* an empty standard input */
    int code = box_spawn(call->box, &request, &pid, &started_ms, err);
    if (code < 0)
        return shell_failed(call, &request, code, err);
    TRY(background_find(call, pid, &one, err));
    tool_say(call,
             "Background task started [pid: %" PRIu64 "]\nCommand: %s\nRead its output with bash_output, stop it with "
             "bash_kill. It is stopped with the box.",
             pid, one.command);
    background_structured(call, &one.process, (const uint64_t[2]){0, 0});
    return 0;
}

const struct tool tool_bash_background = {
    TOOL(bash_background, "Start a command in the background"), .answer = background_answer,
    .flags = TOOL_ENDS | TOOL_WORLD,
    .description =
        "Start a command line in the box's shell without waiting for it to exit: servers, watchers, long builds. "
        "Returns its pid for bash_output and bash_kill. The last 1 MB of each output stream is kept."};

/* ---- bash_output ---- */

struct bash_output_args {
    struct row_number pid, stdout_offset, stderr_offset, wait_ms;
    struct row_text description;
    bool until_exit;
};

static const struct row bash_output_fields[] = {
    {ARG(bash_output_args, pid, INT), .min = 1, .max = INT32_MAX,
     .text = "The pid from bash_background; omit it to list the background commands of the box."},
    {ARG(bash_output_args, wait_ms, INT), .max = OUTPUT_WAIT_MS,
     .text = "Wait up to this many milliseconds for new output."},
    {ARG(bash_output_args, until_exit, BOOL), .text = "Wait until it exits instead of until there is new output."},
    {ARG(bash_output_args, stdout_offset, INT), .max = INT64_MAX,
     .text = "First byte of standard output to show; default: what is new since the last call."},
    {ARG(bash_output_args, stderr_offset, INT), .max = INT64_MAX,
     .text = "First byte of standard error to show; default: what is new since the last call."},
    TOOL_DESCRIPTION(struct bash_output_args),
    {.name = NULL},
};

struct output {
    struct tool_call *call;
    const struct bash_output_args *args;
    struct background one;
    uint64_t offsets[2], end_ms;
    uint64_t lost; /* bytes that the ring no longer has */
    struct spool errors;
};

static void background_output_list_each(void *user, const struct process *process) {
    struct background *all = user;
    all->count++;
    tool_say(all->call, "%" PRIu64 " ", process->pid);
    background_state(all->call, process);
    tool_say(all->call, ": %s\n", process->command);
}

/* Waits until there is new output, the command has ended, or time is up. */
static int background_output_wait(struct output *output, bool *ret_running, struct err *err) {
    struct tool_call *call = output->call;
    const uint64_t never[2] = {UINT64_MAX, UINT64_MAX};
    for (;;) {
        uint64_t now_ms = clock_ms(), left_ms = output->end_ms > now_ms ? output->end_ms - now_ms : 0;
        uint64_t piece_ms = call->progress && left_ms > OUTPUT_PIECE_MS ? OUTPUT_PIECE_MS : left_ms;
        int code = box_output_wait(call->box, output->args->pid.value,
                                   output->args->until_exit && call->progress ? never : output->offsets, piece_ms,
                                   call->watch, ret_running, err);
        if (code < 0 || !*ret_running || piece_ms == left_ms || !output->args->until_exit)
            return code;
        char line[64];
        int n = snprintf(line, sizeof line, "waiting for %" PRIu64, output->args->pid.value);
        call->progress(call->progress_user, line, (size_t)n);
    }
}

/* Reads a stream from its offset. */
static int background_output_take(struct output *output, int stream, struct err *err) {
    uint64_t *offset = &output->offsets[stream - STREAM_STDOUT];
    struct output_slice slice;
    autobuf data = buf_max(LIMIT_RING_BYTES);
    TRY(box_output(output->call->box, output->args->pid.value, stream, *offset, 0, -1, &data, &slice, err));
    if (slice.first > *offset)
        output->lost += slice.first - *offset;
    *offset = slice.next;
    if (stream == STREAM_STDERR)
        spool_put(&output->errors, data.data, data.len);
    else if (data.len)
        tool_put(output->call, data.data, data.len);
    return 0;
}

static int background_output_gather(struct output *output, struct err *err) {
    bool running = true;
    int code = 0;
    output->end_ms = clock_ms() + output->args->wait_ms.value;
    for (;;) {
        if (output->args->wait_ms.value)
            code = background_output_wait(output, &running, err);
        if (code == 0) /* checked before reading its output: an exited command writes no more */
            code = background_find(output->call, output->args->pid.value, &output->one, err);
        if (code == 0)
            code = background_output_take(output, STREAM_STDOUT, err)
                       ?: background_output_take(output, STREAM_STDERR, err);
        if (code < 0 || !output->one.process.running || !output->args->until_exit || clock_ms() >= output->end_ms)
            return code;
    }
}

static int bash_output_run(struct tool_call *call, const void *user, struct err *err) {
    const struct bash_output_args *args = user;
    struct output output = {.call = call, .args = args};
    if (!args->pid.has) {
        struct background all = {.call = call};
        int code = tool_box(call, err) ?: box_processes(call->box, 0, background_output_list_each, &all, err);
        if (code == 0 && all.count == 0)
            tool_say(call, "No background commands.");
        return code;
    }
    TRY(background_find(call, args->pid.value, &output.one, err)
            ?: memo_looked(call, args->pid.value, output.one.process.started_ms, output.offsets, err));
    if (args->stdout_offset.has)
        output.offsets[0] = args->stdout_offset.value;
    if (args->stderr_offset.has)
        output.offsets[1] = args->stderr_offset.value;
    spool_init(&output.errors, call->result.text.dir);
    int code = background_output_gather(&output, err)
                   ?: memo_look(call, args->pid.value, output.one.process.started_ms, output.offsets, err);
    if (code == 0) {
        shell_errors(call, &output.errors, "(no new output)");
        if (output.lost)
            tool_say(call, "\n[%" PRIu64 " bytes before this were dropped: only the last 1 MB of a stream is kept]",
                     output.lost);
        tool_say(call, "\n[process %" PRIu64 " ", output.one.process.pid);
        background_state(call, &output.one.process);
        tool_say(call, "; stdout_offset %" PRIu64 ", stderr_offset %" PRIu64 "]", output.offsets[0], output.offsets[1]);
        background_structured(call, &output.one.process, output.offsets);
    }
    spool_done(&output.errors);
    return code;
}

const struct tool tool_bash_output = {
    TOOL(bash_output, "Output of a background command"),
    .answer = background_answer,
    .flags = TOOL_READS,
    .cut = TOOL_MIDDLE,
    .cut_setting = offsetof(struct tool_settings, bash_chars),
    .description =
        "Show what a background command has written since the last call (or from a given offset), whether it is "
        "still running, and how it exited. Can wait for new output or for the exit. Without pid, lists all "
        "background commands."};

/* ---- bash_kill ---- */

struct bash_kill_args {
    struct row_number pid;
    struct row_text signal, description;
};

static const struct row bash_kill_fields[] = {
    {ARG(bash_kill_args, pid, INT), .flags = ROW_REQUIRED, .min = 1, .max = INT32_MAX,
     .text = "The pid from bash_background."},
    {ARG(bash_kill_args, signal, TEXT_OR_INT), .flags = ROW_AUDITED, .max = 16,
     .text = "Send only this signal, such as SIGINT. Default: SIGTERM, then SIGKILL after 2 seconds."},
    TOOL_DESCRIPTION(struct bash_kill_args),
    {.name = NULL},
};

/* Waits for its exit, at most wait_ms. */
static int background_kill_wait(struct tool_call *call, uint64_t pid, uint64_t wait_ms, struct background *one,
                                struct err *err) {
    const uint64_t never[2] = {UINT64_MAX, UINT64_MAX};
    bool running;
    int code = box_output_wait(call->box, pid, never, wait_ms, call->watch, &running, err);
    return code < 0 ? code : background_find(call, pid, one, err);
}

static int background_kill_send(struct tool_call *call, uint64_t pid, int number, struct err *err) {
    int code = box_signal_tree(call->box, pid, number, err);
    return code == -ERR_GONE && box_alive(call->box) ? 0 : code; /* it has just exited by itself */
}

static int bash_kill_run(struct tool_call *call, const void *user, struct err *err) {
    const struct bash_kill_args *args = user;
    struct background one = {0};
    char name[SIGNAME_BYTES];
    int number = args->signal.data ? signame_number(args->signal.data) : 0;
    if (args->signal.data && !number)
        return tool_fail(call, "'signal' must be a name such as SIGTERM or a number from 1 to 64, not '%s'",
                         args->signal.data);
    int code = background_find(call, args->pid.value, &one, err);
    bool over = code == 0 && !one.process.running;
    if (code == 0 && !over) {
        bool asked = number != 0;
        code = background_kill_send(call, args->pid.value, asked ? number : SIGTERM, err);
        if (code == 0 && (!asked || number == SIGKILL))
            code = background_kill_wait(call, args->pid.value, asked ? KILL_WAIT_MS : KILL_GRACE_MS, &one, err);
        else if (code == 0)
            code = background_find(call, args->pid.value, &one, err);
        if (code == 0 && !asked && one.process.running) {
            code = background_kill_send(call, args->pid.value, SIGKILL, err)
                       ?: background_kill_wait(call, args->pid.value, KILL_WAIT_MS, &one, err);
        }
    }
    if (code < 0)
        return code;
    if (!over && number && one.process.running)
        tool_say(call, "Sent %s to all processes of %" PRIu64 "; it ", signame_text(number, name), args->pid.value);
    else
        tool_say(call, "Process %" PRIu64 " %s", args->pid.value, over ? "had already exited: it " : "");
    background_state(call, &one.process);
    const uint64_t offsets[2] = {one.process.result.stdout_bytes, one.process.result.stderr_bytes};
    background_structured(call, &one.process, offsets);
    return 0;
}

const struct tool tool_bash_kill = {
    TOOL(bash_kill, "Stop a background command"), .answer = background_answer, .flags = TOOL_ENDS | TOOL_SAME,
    .description =
        "Stop a background command and everything it started. Returns when it has exited, with how it exited."};
