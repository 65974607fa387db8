/* The bash group of the AIO dialect: commands that are processes of their own, with pipes, in sessions that are a name and a
 * directory. Called by the server. Invariant: POST /v1/bash/exec never answers 404, because a client that sees one
 * takes the route for missing and never asks again.
 *
 * A session SESSION of this group is the box's plain session "bash:SESSION", so that it cannot be a shell of the other group;
 * a command's id is its process's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/limits.h"
#include "base/text.h"
#include "box/signame.h"
#include "front/aio/code.h"
#include "front/aio/kept.h"
#include "front/trail.h"

#define BASH "/aio/{id}/v1/bash"
#define PREFIX "bash:"
#define NAME_BYTES 120u /* of a session: the box's own limit, without the prefix */
#define DEFAULT_OUTPUT_CHARACTERS 50000u
#define DEFAULT_WAIT_MS 30000u
#define LIMIT_WAIT_MS 600000u
#define LINGER_MS 100u /* a command that printed something has so long to end before its output is told */

struct exec_args {
    struct row_text session_id, command, exec_dir;
    const char **env;
    bool async_mode;
    struct row_real timeout, hard_timeout;
    struct row_number max_output_length;
};
struct output_args {
    struct row_text session_id, command_id;
    struct row_number offset, stderr_offset;
    bool wait;
    struct row_real wait_timeout;
};
struct write_args {
    struct row_text session_id, command_id, input;
};
struct kill_args {
    struct row_text session_id, signal;
};
struct create_args {
    struct row_text session_id, exec_dir, snapshot_path;
};

#define ROW(label, kind, args, member) .name = (label), .type = ROW_##kind, .offset = offsetof(struct args, member)
#define SESSION(args)                                                                                                  \
    { ROW("session_id", TEXT, args, session_id), .flags = ROW_REQUIRED, .max = NAME_BYTES, .text = "which session" }
#define COMMAND_ID(args)                                                                                               \
    { ROW("command_id", TEXT, args, command_id), .max = 24, .text = "which of its commands; default the latest" }
#define SECONDS(args, member, label, meaning)                                                                          \
    { ROW(label, REAL, args, member), .max = INT32_MAX, .text = (meaning) }

static const struct row exec_fields[] = {
    {ROW("session_id", TEXT, exec_args, session_id), .max = NAME_BYTES,
     .text = "its session, made when there is none; default a new one"},
    {ROW("command", TEXT, exec_args, command), .flags = ROW_REQUIRED | ROW_AUDITED, .max = LIMIT_CALL_ARGS_BYTES,
     .text = "given to bash"},
    {ROW("exec_dir", TEXT, exec_args, exec_dir), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "where it runs, and the session's next commands; default where that is, first the workspace"},
    {ROW("env", MAP, exec_args, env), .flags = ROW_SECRET, .max = LIMIT_ENV_COUNT,
     .text = "variables of this command alone"},
    {ROW("async_mode", BOOL, exec_args, async_mode), .text = "do not wait for it"},
    SECONDS(exec_args, timeout, "timeout", "how long the answer waits for its end; then it goes on alone"),
    SECONDS(exec_args, hard_timeout, "hard_timeout", "how long it may run; then it is killed with all it started"),
    {ROW("max_output_length", INT, exec_args, max_output_length), .max = LIMIT_OUTPUT_LIMIT_BYTES,
     .fallback = DEFAULT_OUTPUT_CHARACTERS,
     .text = "characters of each stream in the answer, default 50000: the middle of more is left out; 0: all"},
    {.name = NULL},
};
static const struct row output_fields[] = {
    SESSION(output_args),
    COMMAND_ID(output_args),
    {ROW("offset", INT, output_args, offset), .max = INT64_MAX, .text = "of stdout, in bytes: what was told before"},
    {ROW("stderr_offset", INT, output_args, stderr_offset), .max = INT64_MAX, .text = "the same of stderr"},
    {ROW("wait", BOOL, output_args, wait), .text = "until there is more, or it has ended"},
    SECONDS(output_args, wait_timeout, "wait_timeout", "how long that may take, default 30"),
    {.name = NULL},
};
static const struct row write_fields[] = {
    SESSION(write_args),
    COMMAND_ID(write_args),
    {ROW("input", TEXT, write_args, input), .flags = ROW_REQUIRED | ROW_NUL, .max = LIMIT_STDIN_BYTES,
     .text = "for the command's standard input, which stays open"},
    {.name = NULL},
};
static const struct row kill_fields[] = {
    SESSION(kill_args),
    {ROW("signal", TEXT, kill_args, signal), .choices = "SIGTERM|SIGKILL|SIGINT", .text = "default SIGTERM"},
    {.name = NULL},
};
static const struct row create_fields[] = {
    {ROW("session_id", TEXT, create_args, session_id), .max = NAME_BYTES, .text = "its name; default a random one"},
    {ROW("exec_dir", TEXT, create_args, exec_dir), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "its directory; default the workspace"},
    {ROW("snapshot_path", TEXT, create_args, snapshot_path), .flags = ROW_AUDITED, .max = LIMIT_SESSION_NOTE_BYTES,
     .text = "a script that each of its commands begins with, read by bash"},
    {.name = NULL},
};

static int bash_exec(struct http_request *request, struct box *box, struct err *err);
static int bash_output(struct http_request *request, struct box *box, struct err *err);
static int bash_write(struct http_request *request, struct box *box, struct err *err);
static int bash_kill(struct http_request *request, struct box *box, struct err *err);
static int bash_sessions(struct http_request *request, struct box *box, struct err *err);
static int bash_create(struct http_request *request, struct box *box, struct err *err);
static int bash_close(struct http_request *request, struct box *box, struct err *err);
static int exec_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out);

const struct route aio_bash_routes[] = {
    {"POST", BASH "/exec", front_handle, 0, "aio_bash_exec",
     "Run a command as a process of its own, with variables of its own; wait for it or not.",
     &(const struct endpoint){.run = bash_exec,
                              .body = exec_fields,
                              .refuse = exec_refuse,
                              .status = 200,
                              .flags = AIO_FLAGS,
                              .answer = aio_answer}},
    {"POST", BASH "/output", front_handle, 0, "aio_bash_output",
     "What a command printed, from byte offsets on, and how it stands.",
     AIO_ENDPOINT(.run = bash_output, .body = output_fields)},
    {"POST", BASH "/write", front_handle, 0, "aio_bash_write", "Write to a command's standard input.",
     AIO_ENDPOINT(.run = bash_write, .body = write_fields)},
    {"POST", BASH "/kill", front_handle, 0, "aio_bash_kill", "Signal the running commands of a session.",
     AIO_ENDPOINT(.run = bash_kill, .body = kill_fields)},
    {"GET", BASH "/sessions", front_handle, 0, "aio_bash_sessions", "The sessions of this group.",
     AIO_ENDPOINT(.run = bash_sessions)},
    {"POST", BASH "/sessions/create", front_handle, 0, "aio_bash_create", "Make a session; one that is there is told.",
     AIO_ENDPOINT(.run = bash_create, .body = create_fields)},
    {"POST", BASH "/sessions/{session_id}/close", front_handle, 0, "aio_bash_close",
     "End a session and all its commands.", AIO_ENDPOINT(.run = bash_close)},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

static int exec_refuse(struct http_request *request, int status, const char *code, const char *text, struct buf *out) {
    return aio_refuse(request, status == 404 ? 410 : status, code, text, out);
}

/* ---- sessions ---- */

/* The box's name of a session; NULL: that cannot be one. */
static const char *session_name(struct http_request *request, const char *id) {
    return text_name(id, NAME_BYTES) ? arena_printf(http_arena(request), PREFIX "%s", id) : NULL;
}

static const char *session_random(struct http_request *request) {
    uint8_t random[16];
    char hex[33];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        abort();
    text_hex(hex, random, sizeof random);
    return arena_strdup(http_arena(request), hex);
}

static int session_unfit(struct http_request *request) {
    return aio_unfit(request, "session_id", "must be 1 to 120 letters, digits or _.:@-");
}

/* Made where there is none. A directory that is not there is 400, too many sessions as the other group says it. */
static int session_open(struct http_request *request, struct box *box, const char *id, const char *directory,
                        const char *snapshot, struct session *ret_session, struct err *err) {
    const char *name = session_name(request, id);
    const struct session_request wanted = {.name = name, .cwd = directory, .plain = true, .note = snapshot};
    bool created;
    if (!name)
        return session_unfit(request);
    int failed = box_session_open(box, &wanted, http_arena(request), ret_session, &created, err);
    if (failed == -ERR_NOT_FOUND || (failed == -ERR_INVALID && directory))
        return aio_fail(
            request, 400, ERR_INVALID,
            arena_printf(http_arena(request), "exec_dir: there is no directory '%.300s'", directory ? directory : ""));
    if (failed == -ERR_LIMIT && err->number == EUSERS)
        return aio_fail(request, 400, ERR_LIMIT,
                        arena_printf(http_arena(request),
                                     "Cannot create bash session: session limit reached and all %u existing sessions "
                                     "have active commands",
                                     LIMIT_SESSIONS));
    return failed;
}

/* The commands of a session: the latest that fits is told. */
struct command {
    const char *session; /* the box's name */
    uint64_t wanted;     /* pid; 0: the latest */
    bool running;        /* only such ones */
    struct arena *arena;
    const char *begin; /* that the session's commands begin with */
    /* the answer */
    uint64_t pid;
    struct process process;
    uint64_t pids[LIMIT_PROCESSES]; /* all that fit */
    size_t count;
};

static void command_each(void *user, const struct process *process) {
    struct command *command = user;
    if (!process->session || strcmp(process->session, command->session) != 0 ||
        (command->wanted && command->wanted != process->pid) || (command->running && !process->running))
        return;
    command->pid = process->pid;
    command->process = *process;
    command->process.command = arena_strdup(command->arena, process->command);
    if (command->count < LIMIT_PROCESSES)
        command->pids[command->count++] = process->pid;
}

static const char *exec_command(struct arena *arena, const struct session *session, const char *command);

static void session_seen(void *user, const struct session *session) {
    struct command *command = user;
    command->begin = exec_command(command->arena, session, "");
}

/* NOT_FOUND: Session not found, or (of a command that was named) Command not found. pid 0: it has none that fits. */
static int command_find(struct http_request *request, struct box *box, const char *session, const char *id,
                        struct command *command, struct err *err) {
    struct err why;
    command->arena = http_arena(request);
    command->session = session_name(request, session);
    if (id && (!text_u64(id, INT32_MAX, &command->wanted) || !command->wanted))
        return err_set(err, ERR_NOT_FOUND, "Command not found");
    int failed = command->session ? box_sessions(box, command->session, session_seen, command, &why) : -ERR_NOT_FOUND;
    if (failed && failed != -ERR_NOT_FOUND)
        *err = why;
    else if (failed || !command->begin)
        return err_set(err, ERR_NOT_FOUND, "Session not found");
    if (!failed)
        failed = box_processes(box, 0, command_each, command, err);
    if (!failed && id && !command->pid && !command->running)
        return err_set(err, ERR_NOT_FOUND, "Command not found");
    return failed;
}

/* ---- exec ---- */

struct exec_call {
    struct http_request *request;
    const struct exec_args *args;
    const char *session; /* as the client has it */
    struct exec_request exec;
    struct aio_kept streams[2];
    uint64_t pid;
    struct exec_result result;
    struct err *err;
};

static int exec_started(void *user, uint64_t pid) {
    ((struct exec_call *)user)->pid = pid;
    return 0;
}

static int exec_printed(void *user, int stream, const uint8_t *data, size_t len) {
    struct exec_call *call = user;
    return aio_kept_put(&call->streams[stream == STREAM_STDERR], call->request, data, len, call->err);
}

static const char *result_status(const struct exec_result *result) {
    return result->running ? "running" : result->timed_out ? "timed_out" : result->exited ? "completed" : "killed";
}

static void result_code(struct json *json, const struct exec_result *result) {
    json_key(json, "exit_code");
    if (result->running)
        json_nil(json);
    else
        json_int(json, result->exited ? result->exit_code : 128 + result->signal);
}

static void command_id_json(struct json *json, uint64_t pid) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)pid);
    json_put_str(json, "command_id", digits);
}

static int exec_answer(struct exec_call *call, struct err *err) {
    static const char *const names[] = {"stdout", "stderr"};
    autoanswer answer;
    struct json *json = &answer.json;
    aio_open(&answer, call->request, NULL);
    json_open(json, '{');
    json_put_str(json, "session_id", call->session);
    command_id_json(json, call->pid);
    json_key(json, "command");
    aio_text(&answer, (const uint8_t *)call->args->command.data, call->args->command.len);
    json_put_str(json, "status", result_status(&call->result));
    for (int i = 0; i < 2; i++) {
        size_t len;
        const uint8_t *text = aio_kept_text(&call->streams[i], call->request, &len);
        json_key(json, names[i]);
        aio_text(&answer, text, len);
    }
    result_code(json, &call->result);
    json_put_uint(json, "offset", call->result.stdout_bytes);
    json_put_uint(json, "stderr_offset", call->result.stderr_bytes);
    json_close(json, '}');
    return aio_close(&answer, 0, err);
}

/* Whatever is not there, it is not the route. */
static int exec_failed(struct exec_call *call, int failed, struct err *err) {
    if (failed != -ERR_NOT_FOUND)
        return failed;
    bool shell = err->why == WHY_NO_SHELL;
    return aio_fail(call->request, shell ? 501 : 400, shell ? ERR_UNSUPPORTED : ERR_INVALID, err->text);
}

static int exec_wait(struct exec_call *call, struct box *box, struct err *err) {
    const struct exec_sink sink = {.started = exec_started, .output = exec_printed, .user = call};
    trail_running(call->request);
    int failed = box_exec(box, &call->exec, &sink, http_fd(call->request), &call->result, err);
    if (failed)
        return exec_failed(call, failed, err);
    if (!call->result.running)
        trail_result(call->request, &call->result);
    return exec_answer(call, err);
}

static int exec_spawn(struct exec_call *call, struct box *box, struct err *err) {
    uint64_t started_ms;
    int failed = box_spawn(box, &call->exec, &call->pid, &started_ms, err);
    call->result = (struct exec_result){.running = true};
    return failed ? exec_failed(call, failed, err) : exec_answer(call, err);
}

/* The script that the session's commands begin with, then the command. */
static const char *exec_command(struct arena *arena, const struct session *session, const char *command) {
    if (!session->note || !*session->note)
        return command;
    autobuf out = buf_max(LIMIT_CALL_ARGS_BYTES + 6 * LIMIT_SESSION_NOTE_BYTES);
    buf_puts(&out, ". ");
    text_quote(&out, session->note);
    buf_puts(&out, "\n");
    buf_puts(&out, command);
    return arena_copy(arena, out.data, out.len);
}

static int exec_times(const struct exec_args *args, struct exec_request *exec, struct err *err) {
    int failed = aio_seconds(&args->timeout, 0, LIMIT_EXEC_TIMEOUT_MS, "timeout", &exec->wait_ms, err);
    if (!failed)
        failed = aio_seconds(&args->hard_timeout, 0, LIMIT_EXEC_TIMEOUT_MS, "hard_timeout", &exec->timeout_ms, err);
    if (!failed && args->timeout.has && !exec->wait_ms)
        exec->wait_ms = 1;
    if (!failed && args->hard_timeout.has && !exec->timeout_ms)
        exec->timeout_ms = 1;
    return failed;
}

/* What is waited for to its end and named by nobody needs no session: those there are would make room for it. */
static bool exec_alone(const struct exec_args *args) {
    return !args->session_id.data && !args->exec_dir.data && !args->async_mode && !args->timeout.has;
}

static int exec_prepare(struct exec_call *call, struct box *box, struct err *err) {
    const struct exec_args *args = call->args;
    struct http_request *request = call->request;
    struct session session = {0};
    call->session = args->session_id.data ? args->session_id.data : session_random(request);
    int failed = exec_times(args, &call->exec, err);
    if (!failed) /* first: the session's directory becomes this one */
        failed = code_directory(request, box, "exec_dir", args->exec_dir.data, err);
    if (!failed && !exec_alone(args))
        failed = session_open(request, box, call->session, args->exec_dir.data, NULL, &session, err);
    if (failed)
        return failed;
    call->exec.command = exec_command(http_arena(request), &session, args->command.data);
    call->exec.env = args->env;
    call->exec.cwd = args->exec_dir.data;
    call->exec.session = session.name;
    call->exec.stdin_open = true;
    call->exec.keep = session.name;
    call->exec.leave = true; /* models are told to start servers so */
    return 0;
}

static int bash_exec(struct http_request *request, struct box *box, struct err *err) {
    struct exec_args args = {0};
    struct exec_call call = {.request = request, .args = &args, .err = err};
    size_t most;
    int failed = aio_body(request, &args, err);
    if (!failed)
        failed = box_output_limit(box, false, 0, LIMIT_OUTPUT_LIMIT_BYTES, &most, err);
    if (!failed)
        failed = exec_prepare(&call, box, err);
    if (failed)
        return failed;
    for (int i = 0; i < 2; i++)
        aio_kept_init(&call.streams[i], (size_t)args.max_output_length.value, most);
    failed = args.async_mode ? exec_spawn(&call, box, err) : exec_wait(&call, box, err);
    for (int i = 0; i < 2; i++)
        aio_kept_done(&call.streams[i]);
    return failed;
}

/* ---- output ---- */

static int output_stream(struct http_request *request, struct box *box, uint64_t pid, int stream, uint64_t *offset,
                         struct buf *out, struct err *err) {
    struct output_slice slice;
    int failed = box_output(box, pid, stream, *offset, 0, http_fd(request), out, &slice, err);
    if (failed)
        return failed;
    /* A character whose rest has not come yet is left for the next time. */
    size_t part = slice.running ? headtail_partial(out->data, out->len) : 0;
    if (part < out->len)
        out->len -= part;
    else
        part = 0;
    *offset = slice.next - part;
    return http_hold(request, out->len, err);
}

static int output_wait(struct http_request *request, struct box *box, const struct output_args *args, uint64_t pid,
                       struct err *err) {
    const uint64_t offsets[2] = {args->offset.value, args->stderr_offset.value}, all[2] = {UINT64_MAX, UINT64_MAX};
    uint64_t wait_ms;
    bool running = false;
    int failed = aio_seconds(&args->wait_timeout, DEFAULT_WAIT_MS, LIMIT_WAIT_MS, "wait_timeout", &wait_ms, err);
    if (!failed && args->wait)
        failed = box_output_wait(box, pid, offsets, wait_ms, http_fd(request), &running, err);
    if (!failed && running)
        failed =
            box_output_wait(box, pid, all, LINGER_MS < wait_ms ? LINGER_MS : wait_ms, http_fd(request), &running, err);
    return failed;
}

static void command_json(struct answer *answer, const struct command *command) {
    struct json *json = &answer->json;
    struct exec_result result = command->process.result;
    const char *text = command->process.command;
    size_t begin = strlen(command->begin);
    result.running = command->process.running;
    json_open(json, '{');
    command_id_json(json, command->pid);
    json_put_str(json, "command", strncmp(text, command->begin, begin) ? text : text + begin);
    json_put_str(json, "status", result_status(&result));
    result_code(json, &result);
    json_close(json, '}');
}

static int output_answer(struct http_request *request, const struct output_args *args, const struct command *command,
                         const struct buf out[2], const uint64_t offsets[2], struct err *err) {
    static const char *const texts[] = {"stdout", "stderr"}, *const numbers[] = {"offset", "stderr_offset"};
    autoanswer answer;
    struct json *json = &answer.json;
    aio_open(&answer, request, NULL);
    json_open(json, '{');
    json_put_str(json, "session_id", args->session_id.data);
    for (int i = 0; i < 2; i++) {
        json_key(json, texts[i]);
        aio_text(&answer, out[i].data, out[i].len);
    }
    for (int i = 0; i < 2; i++)
        json_put_uint(json, numbers[i], offsets[i]);
    json_key(json, "command");
    if (command->pid)
        command_json(&answer, command);
    else
        json_nil(json);
    json_close(json, '}');
    return aio_close(&answer, 0, err);
}

static int bash_output(struct http_request *request, struct box *box, struct err *err) {
    struct output_args args = {0};
    struct command command = {0};
    int failed = aio_body(request, &args, err);
    if (!failed)
        failed = command_find(request, box, args.session_id.data, args.command_id.data, &command, err);
    if (!failed && command.pid)
        failed = output_wait(request, box, &args, command.pid, err);
    if (failed)
        return failed;
    uint64_t offsets[2] = {args.offset.value, args.stderr_offset.value}, pid = command.pid;
    struct buf out[2];
    buf_init(&out[0], LIMIT_RING_BYTES);
    buf_init(&out[1], LIMIT_RING_BYTES);
    /* How it stands is asked before its output is taken: what is told as over has no more to say. */
    if (pid) {
        command =
            (struct command){.session = command.session, .begin = command.begin, .wanted = pid, .arena = command.arena};
        failed = box_processes(box, pid, command_each, &command, err);
    }
    for (int i = 0; !failed && pid && i < 2; i++)
        failed = output_stream(request, box, pid, i ? STREAM_STDERR : STREAM_STDOUT, &offsets[i], &out[i], err);
    if (!failed)
        failed = output_answer(request, &args, &command, out, offsets, err);
    buf_done(&out[0]);
    buf_done(&out[1]);
    return failed;
}

/* ---- write, kill ---- */

static ssize_t write_read(void *user, void *data, size_t size, struct err *err) {
    struct row_text *rest = user;
    size_t n = rest->len < size ? rest->len : size;
    (void)err;
    memcpy(data, rest->data, n);
    rest->data += n;
    rest->len -= n;
    return (ssize_t)n;
}

static int bash_write(struct http_request *request, struct box *box, struct err *err) {
    struct write_args args = {0};
    struct command command = {.running = true};
    int failed = aio_body(request, &args, err);
    if (!failed)
        failed = command_find(request, box, args.session_id.data, args.command_id.data, &command, err);
    if (!failed && !command.pid)
        failed = aio_fail(request, 400, ERR_INVALID, "no command runs in this session");
    if (failed)
        return failed;
    failed = box_input(box, command.pid, false, write_read, &args.input, http_fd(request), err);
    if (failed == -ERR_GONE && !http_is_cut(request))
        return aio_fail(request, 400, ERR_INVALID, err->text);
    return failed ? failed : aio_done(request, NULL);
}

static int bash_kill(struct http_request *request, struct box *box, struct err *err) {
    struct kill_args args = {0};
    struct command command = {.running = true};
    int failed = aio_body(request, &args, err);
    if (!failed)
        failed = command_find(request, box, args.session_id.data, NULL, &command, err);
    if (failed)
        return failed;
    int number = signame_number(args.signal.data ? args.signal.data : "SIGTERM");
    for (size_t i = 0; i < command.count; i++) {
        failed = box_signal_tree(box, command.pids[i], number, err);
        if (failed && failed != -ERR_GONE && failed != -ERR_NOT_FOUND) /* it ended meanwhile */
            return failed;
    }
    return aio_done(request, command.count ? "Signal sent" : "No command is running");
}

/* ---- the sessions there are ---- */

static void session_json(struct answer *answer, const struct session *session, const char *running) {
    struct json *json = &answer->json;
    json_open(json, '{');
    json_put_str(json, "session_id", session->name + strlen(PREFIX));
    json_put_str(json, "status", "ready");
    json_put_str(json, "working_dir", session->cwd);
    json_key(json, "created_at");
    aio_time(json, session->created_ms);
    json_key(json, "last_used_at");
    aio_time(json, session->used_ms);
    json_put_str(json, "current_command", running);
    json_put_uint(json, "command_count", session->commands);
    json_close(json, '}');
    answer_spill(answer);
}

struct session_list {
    struct answer *answer;
    struct arena *arena;
    struct {
        const char *session, *command;
    } running[LIMIT_PROCESSES];
    size_t count;
};

static void list_process(void *user, const struct process *process) {
    struct session_list *list = user;
    if (!process->running || !process->session || list->count == LIMIT_PROCESSES)
        return;
    list->running[list->count].session = arena_strdup(list->arena, process->session);
    list->running[list->count++].command = arena_strdup(list->arena, process->command);
}

static void list_session(void *user, const struct session *session) {
    struct session_list *list = user;
    const char *running = NULL;
    if (!session->plain || strncmp(session->name, PREFIX, strlen(PREFIX)) != 0)
        return;
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->running[i].session, session->name))
            running = list->running[i].command;
    session_json(list->answer, session, running);
}

static int bash_sessions(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    struct session_list list = {.answer = &answer, .arena = http_arena(request)};
    aio_open(&answer, request, NULL);
    json_open(&answer.json, '[');
    int failed = box_processes(box, 0, list_process, &list, err);
    if (!failed)
        failed = box_sessions(box, NULL, list_session, &list, err);
    json_close(&answer.json, ']');
    return aio_close(&answer, failed, err);
}

static int bash_create(struct http_request *request, struct box *box, struct err *err) {
    struct create_args args = {0};
    struct session session;
    int failed = aio_body(request, &args, err);
    if (failed)
        return failed;
    failed = session_open(request, box, args.session_id.data ? args.session_id.data : session_random(request),
                          args.exec_dir.data, args.snapshot_path.data, &session, err);
    if (failed)
        return failed;
    autoanswer answer;
    aio_open(&answer, request, NULL);
    session_json(&answer, &session, NULL);
    return aio_close(&answer, 0, err);
}

static int bash_close(struct http_request *request, struct box *box, struct err *err) {
    const char *name = session_name(request, http_param(request, "session_id"));
    int failed = name ? box_session_end(box, name, true, err) : -ERR_NOT_FOUND;
    if (failed == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "Session not found");
    return failed ? failed : aio_done(request, "Session closed");
}
