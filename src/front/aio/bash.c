/* The bash group of the AIO dialect: commands that are processes of their own, with pipes, in sessions that are only a
 * name and a directory. Called by the server. Invariant: POST /v1/bash/exec never answers 404, because clients would
 * take the route for missing and never ask again.
 *
 * Session SESSION of this group is the box's plain session "bash:SESSION", so that it cannot be a shell of the other
 * group. A command's id is its process id. */
#include "box/signame.h"
#include "front/aio/kept.h"
#include "front/aio/shell.h"

#define PREFIX "bash:"
#define NAME_BYTES 120u /* of a session's name: the box's limit without the prefix */
#define DEFAULT_OUTPUT_CHARACTERS 50000u
#define DEFAULT_WAIT_MS 30000u
#define LIMIT_WAIT_MS 600000u
#define LINGER_MS 100u /* after output, wait so long for the command's end before answering */

#define SESSION                                                                                                        \
    { AIO_IN(session_id, TEXT), .flags = ROW_REQUIRED, .max = NAME_BYTES, .text = "which session" }
#define COMMAND_ID                                                                                                     \
    { AIO_IN(command_id, TEXT), .max = 24, .text = "which of its commands; default the latest" }
#define SECONDS(member, meaning)                                                                                       \
    { AIO_IN(member, REAL), .max = INT32_MAX, .text = (meaning) }

static const struct row exec_fields[] = {
    {AIO_IN(session_id, TEXT), .max = NAME_BYTES, .text = "its session, made if it does not exist; default a new one"},
    {AIO_IN(command, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .max = LIMIT_CALL_ARGS_BYTES, .text = "given to bash"},
    {AIO_IN(exec_dir, TEXT), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "where it runs, and the session's next commands; default where that is, first the workspace"},
    {AIO_IN(env, MAP), .flags = ROW_SECRET, .max = LIMIT_ENV_COUNT, .text = "variables of this command alone"},
    {AIO_IN(async_mode, BOOL), .text = "do not wait for it"},
    SECONDS(timeout, "how long the answer waits for its end; then it runs on"),
    SECONDS(hard_timeout, "how long it may run; then it is killed with all it started"),
    {AIO_IN(max_output_length, INT), .max = LIMIT_OUTPUT_LIMIT_BYTES, .fallback = DEFAULT_OUTPUT_CHARACTERS,
     .text = "characters of each stream in the answer, default 50000: the middle of more is left out; 0: all"},
    {.name = NULL},
};
static const struct row output_fields[] = {
    SESSION,
    COMMAND_ID,
    {AIO_IN(offset, INT), .max = INT64_MAX, .text = "of stdout, in bytes: what was answered before"},
    {AIO_IN(stderr_offset, INT), .max = INT64_MAX, .text = "the same of stderr"},
    {AIO_IN(wait, BOOL), .text = "until there is more, or it has ended"},
    SECONDS(wait_timeout, "how long that may take, default 30"),
    {.name = NULL},
};
static const struct row write_fields[] = {
    SESSION,
    COMMAND_ID,
    {AIO_IN(input, TEXT), .flags = ROW_REQUIRED | ROW_NUL, .max = LIMIT_STDIN_BYTES,
     .text = "for the command's standard input, which stays open"},
    {.name = NULL},
};
static const struct row kill_fields[] = {
    SESSION,
    {AIO_IN(signal, TEXT), .choices = "SIGTERM|SIGKILL|SIGINT", .text = "default SIGTERM"},
    {.name = NULL},
};
static const struct row create_fields[] = {
    {AIO_IN(session_id, TEXT), .max = NAME_BYTES, .text = "its name; default a random one"},
    {AIO_IN(exec_dir, TEXT), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "its directory; default the workspace"},
    {AIO_IN(snapshot_path, TEXT), .flags = ROW_AUDITED, .max = LIMIT_SESSION_NOTE_BYTES,
     .text = "a script that each of its commands begins with, read by bash"},
    {.name = NULL},
};

static int bash_exec_refuse(struct http_request *request, int status, const char *code, const char *text,
                            struct buf *out) {
    return aio_refuse(request, status == 404 ? 410 : status, code, text, out);
}

/* ---- sessions ---- */

/* Returns the box's name of a session. NULL: not a valid name. */
static const char *bash_session_name(struct http_request *request, const char *id) {
    return text_name(id, NAME_BYTES) ? arena_printf(http_arena(request), PREFIX "%s", id) : NULL;
}

static const char *bash_session_random(struct http_request *request) {
    uint8_t random[16];
    char hex[33];
    xrandom(random, sizeof random);
    text_hex(hex, random, sizeof random);
    return arena_strdup(http_arena(request), hex);
}

/* Makes the session if it does not exist. A missing directory is 400; too many sessions are refused as in the shell
 * group. */
static int bash_session_open(struct http_request *request, struct box *box, const char *id, const char *directory,
                             const char *snapshot, struct session *ret_session, struct err *err) {
    const char *name = bash_session_name(request, id);
    const struct session_request wanted = {.name = name, .cwd = directory, .plain = true, .note = snapshot};
    bool created;
    if (!name)
        return detail_unfit(request, "session_id", "must be 1 to 120 letters, digits or _.:@-");
    int failed = box_session_open(box, &wanted, http_arena(request), ret_session, &created, err);
    if (failed == -ERR_NOT_FOUND || (failed == -ERR_INVALID && directory))
        return aio_fail(
            request, 400, ERR_INVALID,
            arena_printf(http_arena(request), "exec_dir: there is no directory '%.300s'", directory ? directory : ""));
    if (failed == -ERR_LIMIT && err->number == EUSERS)
        return aio_shell_full(request, "bash");
    return failed;
}

/* A search among a session's commands: finds the latest that matches. */
struct bash_command {
    const char *session; /* the box's name */
    uint64_t wanted;     /* pid; 0: the latest */
    bool running;        /* only running ones */
    struct arena *arena;
    const char *begin; /* prefix of the session's commands */
    /* the answer */
    uint64_t pid;
    struct process process;
    uint64_t pids[LIMIT_PROCESSES]; /* all that match */
    size_t count;
};

static void bash_command_each(void *user, const struct process *process) {
    struct bash_command *command = user;
    if (!process->session || strcmp(process->session, command->session) != 0 ||
        (command->wanted && command->wanted != process->pid) || (command->running && !process->running))
        return;
    command->pid = process->pid;
    command->process = *process;
    command->process.command = arena_strdup(command->arena, process->command);
    if (command->count < LIMIT_PROCESSES)
        command->pids[command->count++] = process->pid;
}

/* Joins the session's initial script and the command. */
static const char *bash_with_note(struct arena *arena, const struct session *session, const char *command) {
    if (!session->note || !*session->note)
        return command;
    autobuf out = buf_max(LIMIT_CALL_ARGS_BYTES + 6 * LIMIT_SESSION_NOTE_BYTES);
    buf_puts(&out, ". ");
    text_quote(&out, session->note);
    buf_puts(&out, "\n");
    buf_puts(&out, command);
    return arena_copy(arena, out.data, out.len);
}

static void bash_session_seen(void *user, const struct session *session) {
    struct bash_command *command = user;
    command->begin = bash_with_note(command->arena, session, "");
}

/* NOT_FOUND: "Session not found", or "Command not found" for a given id. pid 0: no command matches. */
static int bash_command_find(struct http_request *request, struct box *box, const char *session, const char *id,
                             struct bash_command *command, struct err *err) {
    struct err why;
    command->arena = http_arena(request);
    command->session = bash_session_name(request, session);
    if (id && (!text_u64(id, INT32_MAX, &command->wanted) || !command->wanted))
        return err_set(err, ERR_NOT_FOUND, "Command not found");
    int failed =
        command->session ? box_sessions(box, command->session, bash_session_seen, command, &why) : -ERR_NOT_FOUND;
    if (failed && failed != -ERR_NOT_FOUND)
        *err = why;
    else if (failed || !command->begin)
        return err_set(err, ERR_NOT_FOUND, "Session not found");
    if (!failed)
        failed = box_processes(box, 0, bash_command_each, command, err);
    if (!failed && id && !command->pid && !command->running)
        return err_set(err, ERR_NOT_FOUND, "Command not found");
    return failed;
}

/* ---- exec ---- */

static const char *bash_result_status(const struct exec_result *result) {
    return result->running ? "running" : result->timed_out ? "timed_out" : result->exited ? "completed" : "killed";
}

static const char *bash_command_id(struct http_request *request, uint64_t pid) {
    return arena_printf(http_arena(request), "%llu", (unsigned long long)pid);
}

#define EXIT_CODE_MEMBER(result)                                                                                       \
    AIO_INT_IF(!(result)->running, "exit_code", (result)->exited ? (result)->exit_code : 128 + (result)->signal)

static int bash_exec_prepare(struct http_request *request, struct box *box, const struct aio_args *args,
                             const char *name, struct exec_request *exec, struct err *err) {
    struct session session = {0};
    int failed = detail_seconds(&args->timeout, 0, LIMIT_EXEC_TIMEOUT_MS, "timeout", &exec->wait_ms, err)
                     ?: detail_seconds(&args->hard_timeout, 0, LIMIT_EXEC_TIMEOUT_MS, "hard_timeout",
                                       &exec->timeout_ms, err)
                     /* it becomes the session's directory */
                     ?: aio_directory(request, box, "exec_dir", args->exec_dir.data, err);
    /* A command that is waited for and names no session needs none: making one could end another. */
    bool alone = !args->session_id.data && !args->exec_dir.data && !args->async_mode && !args->timeout.has;
    STEP(failed ?: alone ? failed : bash_session_open(request, box, name, args->exec_dir.data, NULL, &session, err));
    if (args->timeout.has && !exec->wait_ms)
        exec->wait_ms = 1; /* 0 means forever */
    if (args->hard_timeout.has && !exec->timeout_ms)
        exec->timeout_ms = 1;
    exec->command = bash_with_note(http_arena(request), &session, args->command.data);
    exec->env = args->env;
    exec->cwd = args->exec_dir.data;
    exec->session = session.name;
    exec->stdin_open = true;
    exec->keep = session.name;
    exec->leave = true; /* models are taught to start servers this way */
    return 0;
}

static int bash_exec_run(struct http_request *request, struct box *box, const struct aio_args *args,
                         struct aio_output *output, struct err *err) {
    const char *name = args->session_id.data ? args->session_id.data : bash_session_random(request);
    const struct exec_sink sink = {.started = aio_output_started, .output = aio_output_put, .user = output};
    struct exec_request exec = {0};
    struct exec_result result = {.running = true};
    uint64_t started_ms;
    int failed;
    STEP(bash_exec_prepare(request, box, args, name, &exec, err));
    if (args->async_mode) {
        failed = box_spawn(box, &exec, &output->pid, &started_ms, err);
    } else {
        trail_running(request);
        failed = box_exec(box, &exec, &sink, http_fd(request), &result, err);
    }
    bool no_shell = err->why == WHY_NO_SHELL;
    if (failed == -ERR_NOT_FOUND) /* whatever is missing, the route is not */
        return aio_fail(request, no_shell ? 501 : 400, no_shell ? ERR_UNSUPPORTED : ERR_INVALID, err->text);
    if (failed)
        return failed;
    if (!result.running)
        trail_result(request, &result);
    const uint8_t *texts[2];
    size_t lens[2];
    for (int i = 0; i < 2; i++)
        texts[i] = aio_output_text(output, i, &lens[i]);
    return aio_reply(request, NULL,
                     AIO_MEMBERS(AIO_STR("session_id", name),
                                 AIO_STR("command_id", bash_command_id(request, output->pid)),
                                 AIO_TEXT("command", args->command.data, args->command.len),
                                 AIO_STR("status", bash_result_status(&result)), AIO_TEXT("stdout", texts[0], lens[0]),
                                 AIO_TEXT("stderr", texts[1], lens[1]), EXIT_CODE_MEMBER(&result),
                                 AIO_INT("offset", result.stdout_bytes), AIO_INT("stderr_offset", result.stderr_bytes)),
                     err);
}

static int bash_exec(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct aio_output output;
    STEP(detail_body(request, &args, err)
             ?: aio_output_init(&output, request, box, (size_t)args.max_output_length.value, err));
    int failed = bash_exec_run(request, box, &args, &output, err);
    aio_output_done(&output);
    return failed;
}

/* ---- output ---- */

static int bash_output_stream(struct http_request *request, struct box *box, uint64_t pid, int stream, uint64_t *offset,
                              struct buf *out, struct err *err) {
    struct output_slice slice;
    STEP(box_output(box, pid, stream, *offset, 0, http_fd(request), out, &slice, err));
    /* An incomplete character is left for the next call. */
    size_t part = slice.running ? headtail_partial(out->data, out->len) : 0;
    if (part < out->len)
        out->len -= part;
    else
        part = 0;
    *offset = slice.next - part;
    return http_hold(request, out->len, err);
}

static int bash_output_answer(struct http_request *request, const struct aio_args *args,
                              const struct bash_command *command, const struct buf out[2], const uint64_t offsets[2],
                              struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, NULL, '{');
    aio_put(&answer,
            AIO_MEMBERS(AIO_STR("session_id", args->session_id.data), AIO_TEXT("stdout", out[0].data, out[0].len),
                        AIO_TEXT("stderr", out[1].data, out[1].len), AIO_INT("offset", offsets[0]),
                        AIO_INT("stderr_offset", offsets[1])));
    json_key(&answer.json, "command");
    if (command->pid) {
        struct exec_result result = command->process.result;
        const char *text = command->process.command;
        size_t begin = strlen(command->begin);
        result.running = command->process.running;
        aio_object(&answer, AIO_MEMBERS(AIO_STR("command_id", bash_command_id(request, command->pid)),
                                        AIO_STR("command", strncmp(text, command->begin, begin) ? text : text + begin),
                                        AIO_STR("status", bash_result_status(&result)), EXIT_CODE_MEMBER(&result)));
    } else {
        json_nil(&answer.json);
    }
    return aio_close(&answer, '}', 0, err);
}

static int bash_output(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct bash_command command = {0};
    uint64_t wait_ms = 0;
    bool running = false;
    int failed = detail_body(request, &args, err)
                     ?: bash_command_find(request, box, args.session_id.data, args.command_id.data, &command, err)
                     ?: detail_seconds(&args.wait_timeout, DEFAULT_WAIT_MS, LIMIT_WAIT_MS, "wait_timeout", &wait_ms,
                                       err);
    uint64_t offsets[2] = {args.offset.value, args.stderr_offset.value}, pid = command.pid;
    if (!failed && pid && args.wait)
        failed = box_output_wait(box, pid, offsets, wait_ms, http_fd(request), &running, err);
    if (!failed && running) /* it printed something; give it some time to end */
        failed = box_output_wait(box, pid, (const uint64_t[2]){UINT64_MAX, UINT64_MAX},
                                 LINGER_MS < wait_ms ? LINGER_MS : wait_ms, http_fd(request), &running, err);
    if (failed)
        return failed;
    struct buf out[2];
    buf_init(&out[0], LIMIT_RING_BYTES);
    buf_init(&out[1], LIMIT_RING_BYTES);
    /* The state is read before the output: a command reported as ended prints nothing more. */
    if (pid) {
        command = (struct bash_command){
            .session = command.session, .begin = command.begin, .wanted = pid, .arena = command.arena};
        failed = box_processes(box, pid, bash_command_each, &command, err);
    }
    for (int i = 0; !failed && pid && i < 2; i++)
        failed = bash_output_stream(request, box, pid, i ? STREAM_STDERR : STREAM_STDOUT, &offsets[i], &out[i], err);
    if (!failed)
        failed = bash_output_answer(request, &args, &command, out, offsets, err);
    buf_done(&out[0]);
    buf_done(&out[1]);
    return failed;
}

/* ---- write, kill ---- */

static int bash_write(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct bash_command command = {.running = true};
    STEP(detail_body(request, &args, err)
             ?: bash_command_find(request, box, args.session_id.data, args.command_id.data, &command, err));
    if (!command.pid)
        return aio_fail(request, 400, ERR_INVALID, "no command runs in this session");
    struct view input = view_of(args.input.data, args.input.len);
    int failed = box_input(box, command.pid, false, box_read_view, &input, http_fd(request), err);
    if (failed == -ERR_GONE && !http_is_cut(request))
        return aio_fail(request, 400, ERR_INVALID, err->text);
    return failed ?: aio_done(request, NULL);
}

static int bash_kill(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct bash_command command = {.running = true};
    STEP(detail_body(request, &args, err)
             ?: bash_command_find(request, box, args.session_id.data, NULL, &command, err));
    int number = signame_number(args.signal.data ? args.signal.data : "SIGTERM");
    for (size_t i = 0; i < command.count; i++) {
        int failed = box_signal_tree(box, command.pids[i], number, err);
        if (failed && failed != -ERR_GONE && failed != -ERR_NOT_FOUND) /* it has ended */
            return failed;
    }
    return aio_done(request, command.count ? "Signal sent" : "No command is running");
}

/* ---- sessions ---- */

static void bash_session_json(struct answer *answer, const struct session *session, const char *running) {
    aio_object(answer, AIO_MEMBERS(AIO_STR("session_id", session->name + strlen(PREFIX)), AIO_STR("status", "ready"),
                                   AIO_STR("working_dir", session->cwd), AIO_TIME("created_at", session->created_ms),
                                   AIO_TIME("last_used_at", session->used_ms), AIO_STR("current_command", running),
                                   AIO_INT("command_count", session->commands)));
}

struct session_list {
    struct answer *answer;
    struct arena *arena;
    struct {
        const char *session, *command;
    } running[LIMIT_PROCESSES];
    size_t count;
};

static void bash_list_process(void *user, const struct process *process) {
    struct session_list *list = user;
    if (!process->running || !process->session || list->count == LIMIT_PROCESSES)
        return;
    list->running[list->count].session = arena_strdup(list->arena, process->session);
    list->running[list->count++].command = arena_strdup(list->arena, process->command);
}

static void bash_list_session(void *user, const struct session *session) {
    struct session_list *list = user;
    const char *running = NULL;
    if (!session->plain || strncmp(session->name, PREFIX, strlen(PREFIX)) != 0)
        return;
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->running[i].session, session->name))
            running = list->running[i].command;
    bash_session_json(list->answer, session, running);
}

static int bash_sessions(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    struct session_list list = {.answer = &answer, .arena = http_arena(request)};
    aio_open(&answer, request, NULL, '[');
    int failed =
        box_processes(box, 0, bash_list_process, &list, err) ?: box_sessions(box, NULL, bash_list_session, &list, err);
    return aio_close(&answer, ']', failed, err);
}

static int bash_create(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct session session;
    STEP(detail_body(request, &args, err)
             ?: (bash_session_open(request, box,
                                   args.session_id.data ? args.session_id.data : bash_session_random(request),
                                   args.exec_dir.data, args.snapshot_path.data, &session, err)));
    autoanswer answer;
    aio_open(&answer, request, NULL, 0);
    bash_session_json(&answer, &session, NULL);
    return aio_close(&answer, 0, 0, err);
}

static int bash_close(struct http_request *request, struct box *box, struct err *err) {
    const char *name = bash_session_name(request, http_param(request, "session_id"));
    int failed = name ? box_session_end(box, name, true, err) : -ERR_NOT_FOUND;
    if (failed == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "Session not found");
    return failed ?: aio_done(request, "Session closed");
}

const struct route aio_bash_routes[] = {
    {"POST", "/aio/{id}/v1/bash/exec", front_handle, 0, "aio_bash_exec",
     "Run a command as a process of its own, with variables of its own; wait for it or not.",
     AIO_ENDPOINT(.run = bash_exec, .body = exec_fields, .refuse = bash_exec_refuse)},
    AIO_ROUTE("POST", "/bash/output", "aio_bash_output", "What a command printed, from byte offsets on, and its state.",
              .run = bash_output, .body = output_fields),
    AIO_ROUTE("POST", "/bash/write", "aio_bash_write", "Write to a command's standard input.", .run = bash_write,
              .body = write_fields),
    AIO_ROUTE("POST", "/bash/kill", "aio_bash_kill", "Signal the running commands of a session.", .run = bash_kill,
              .body = kill_fields),
    AIO_ROUTE("GET", "/bash/sessions", "aio_bash_sessions", "The sessions of this group.", .run = bash_sessions),
    AIO_ROUTE("POST", "/bash/sessions/create", "aio_bash_create", "Make a session, or describe the one that exists.",
              .run = bash_create, .body = create_fields),
    AIO_ROUTE("POST", "/bash/sessions/{session_id}/close", "aio_bash_close", "End a session and all its commands.",
              .run = bash_close),
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};
