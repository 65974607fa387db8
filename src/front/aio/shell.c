/* The shell group of the AIO dialect: commands in sessions (run, view, wait, write, kill), and the sessions. Called
 * through aio_shell_routes. Invariants: a call without an id works in the session `default`, which is made when needed,
 * or in its successor `default:N` if a command still runs there without its caller. A call with an unknown id gets
 * exactly "Session not found", because clients then make a new session. Only sessions with a shell are visible here;
 * those of the bash group have their own routes. */
#include "front/aio/shell.h"

#include "front/aio/kept.h"
#include "front/stream.h"

#define VIEW_TICK_MS 250u /* how soon a stream notices that a silent command has ended */
#define PS1 "$ "
#define ACTIVE_MS 300000u /* sessions used within this time are active */

#define ID_ROW(want, meaning)                                                                                          \
    { AIO_IN(id, TEXT), .flags = ROW_AUDITED | (want), .max = LIMIT_PATH_BYTES, .text = (meaning) }

static const struct row shell_exec_fields[] = {
    ID_ROW(0, "the session; default: one that all such calls share, made when it is not there; never one whose command "
              "runs on after its answer"),
    {AIO_IN(command, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .max = LIMIT_CALL_ARGS_BYTES / 2,
     .text = "given to the session's shell"},
    {AIO_IN(exec_dir, TEXT), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "the shell goes there first, and stays there"},
    {AIO_IN(env, MAP), .flags = ROW_SECRET, .max = LIMIT_ENV_COUNT, .text = "of this command alone"},
    {AIO_IN(async_mode, BOOL), .text = "do not wait for it; 409 when another one runs"},
    {AIO_IN(timeout, REAL), .max = INT32_MAX, .text = "seconds; then the answer says running, and it runs on"},
    {AIO_IN(strict, BOOL), .text = "an exec_dir that is not there is an error, not ignored"},
    {AIO_IN(no_change_timeout, REAL), .max = INT32_MAX,
     .text = "seconds without output; then the answer says no_change_timeout, "
             "and it runs on; 429 where its turn has not come by then. Default: the session's"},
    {AIO_IN(hard_timeout, REAL), .max = INT32_MAX,
     .text = "seconds from the call on; then it is killed with all it started, "
             "and the session stays; 429 where its turn has not come by then"},
    {AIO_IN(preserve_symlinks, BOOL), .text = "exec_dir keeps the links in its name"},
    {AIO_IN(truncate, BOOL), .text = "default true: of more than 30000 characters the middle goes"},
    {.name = NULL},
};
static const struct row shell_id_fields[] = {ID_ROW(ROW_REQUIRED, "the session"), {.name = NULL}};
static const struct row shell_wait_fields[] = {
    ID_ROW(ROW_REQUIRED, "the session"),
    {AIO_IN(seconds, REAL), .max = INT32_MAX, .text = "how long; default 60"},
    {AIO_IN(max_wait_seconds, REAL), .max = INT32_MAX, .text = "not longer than that"},
    {.name = NULL},
};
static const struct row shell_write_fields[] = {
    ID_ROW(ROW_REQUIRED, "the session"),
    {AIO_IN(input, TEXT), .flags = ROW_REQUIRED | ROW_NUL, .max = LIMIT_STDIN_BYTES,
     .text = "typed to the command that runs; where none does, lines are commands"},
    {AIO_IN(press_enter, BOOL), .flags = ROW_REQUIRED, .text = "a line end after it"},
    {.name = NULL},
};

/* ---- shared ---- */

static const char *shell_status(enum session_state state) {
    static const char *const names[] = {
        [SESSION_NEW] = "completed",
        [SESSION_RUNNING] = "running",
        [SESSION_COMPLETED] = "completed",
        [SESSION_QUIET] = "no_change_timeout",
        [SESSION_HARD_TIMEOUT] = "hard_timeout",
        [SESSION_TERMINATED] = "terminated",
    };
    return names[state];
}

bool aio_shell_busy(const struct session *session) {
    return session->state == SESSION_RUNNING || session->state == SESSION_QUIET;
}

/* Returns the command as it was typed. */
static const char *shell_command(const struct session *session) {
    size_t cooked = strlen(AIO_SHELL_COOKED);
    return session->command + (strncmp(session->command, AIO_SHELL_COOKED, cooked) ? 0 : cooked);
}

/* Returns the state of a session for a viewer: one whose caller has left is still running. */
static const char *shell_now(const struct session *session) {
    return shell_status(aio_shell_busy(session) ? SESSION_RUNNING : session->state);
}

static bool shell_named(const char *name) {
    return text_name(name, SESSION_NAME_BYTES) && strncmp(name, "bash:", 5) != 0; /* sessions of the bash group */
}

static int shell_unknown(struct http_request *request) {
    return aio_fail(request, 404, ERR_NOT_FOUND, "Session not found");
}

int aio_shell_find(struct http_request *request, struct box *box, const char *name, uint64_t wait_ms,
                   struct session *ret_session, struct err *err) {
    int failed = shell_named(name)
                     ? box_session_wait(box, name, wait_ms, http_fd(request), http_arena(request), ret_session, err)
                     : -ERR_NOT_FOUND;
    if (failed == -ERR_NOT_FOUND || (!failed && ret_session->plain))
        return shell_unknown(request);
    return failed;
}

int aio_shell_full(struct http_request *request, const char *group) {
    return aio_fail(request, 400, ERR_LIMIT,
                    arena_printf(http_arena(request),
                                 "Cannot create %s session: session limit reached and all %u existing sessions have "
                                 "active commands",
                                 group, LIMIT_SESSIONS));
}

int aio_shell_open(struct http_request *request, struct box *box, const struct session_request *wanted,
                   struct session *ret_session, bool *ret_created, struct err *err) {
    if (wanted->name && !shell_named(wanted->name))
        return detail_unfit(
            request, "id", "A session's id must have 1 to 128 of A-Z a-z 0-9 _ . : @ -, and must not begin with bash:");
    int failed = box_session_open(box, wanted, http_arena(request), ret_session, ret_created, err);
    if (failed == -ERR_LIMIT && err->number == EUSERS)
        return aio_shell_full(request, "shell");
    if (failed == -ERR_NOT_FOUND && wanted->cwd)
        return aio_fail(request, 400, ERR_NOT_FOUND, err->text);
    if (!failed && ret_session->plain)
        return aio_fail(request, 409, ERR_EXISTS, "A session of the bash group has this id");
    return failed;
}

/* ---- exec ---- */

/* Assignments before `eval` are visible to everything it runs, and are gone afterwards. */
static const char *shell_with_env(struct http_request *request, const char *command, const char *const *env) {
    autobuf out = buf_max(LIMIT_CALL_ARGS_BYTES);
    if (!env || !*env)
        return command;
    for (; *env; env++) {
        size_t name = strcspn(*env, "=");
        buf_put(&out, *env, name);
        buf_puts(&out, "=");
        text_quote(&out, *env + name + 1);
        buf_byte(&out, ' ');
    }
    buf_puts(&out, "eval ");
    text_quote(&out, command);
    return out.failed ? NULL : arena_copy(http_arena(request), out.data, out.len);
}

static int shell_run_of(struct http_request *request, const struct aio_args *args, struct session_run *ret_run,
                        struct err *err) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    struct session_run run = {
        .name = args->id.data ? args->id.data : AIO_SHELL_DEFAULT,
        .command = shell_with_env(request, args->command.data, (const char *const *)args->env),
        .cwd = args->exec_dir.len ? args->exec_dir.data : NULL,
        .background = args->async_mode,
        .attended = !args->id.data,
    };
    for (const char **env = args->env; env && *env; env++) {
        size_t name = strcspn(*env, "=");
        if (!name || strspn(*env, letters) < name || (**env >= '0' && **env <= '9'))
            return detail_unfit(
                request, "env",
                "Names of variables may only have letters, digits and _, and must not begin with a digit");
    }
    if (!run.command)
        return err_set(err, ERR_TOO_LARGE, "the command together with its environment is too large");
    int failed = detail_seconds(&args->timeout, 0, LIMIT_EXEC_TIMEOUT_MS, "timeout", &run.wait_ms, err)
                     ?: detail_seconds(&args->hard_timeout, 0, LIMIT_EXEC_TIMEOUT_MS, "hard_timeout", &run.hard_ms,
                                       err)
                     ?: detail_seconds(&args->no_change_timeout, SESSION_QUIET_OWN, LIMIT_EXEC_TIMEOUT_MS,
                                       "no_change_timeout", &run.quiet_ms, err);
    if (!failed && args->timeout.has && !run.wait_ms)
        run.wait_ms = 1; /* 0 means forever */
    *ret_run = run;
    return failed;
}

/* Handles a missing session (makes `default` and returns 0 to retry the command) or a missing directory. */
static int shell_missing(struct http_request *request, struct box *box, const struct aio_args *args,
                         struct session_run *run, struct err *err) {
    struct session session;
    bool created = false;
    const struct session_request wanted = {.name = run->name, .quiet_ms = AIO_SHELL_QUIET_MS};
    STEP(args->id.data ? aio_shell_find(request, box, run->name, 0, &session, err)
                       : aio_shell_open(request, box, &wanted, &session, &created, err));
    if (created || !run->cwd)
        return 0;
    if (args->strict)
        return aio_fail(request, 400, ERR_NOT_FOUND,
                        arena_printf(http_arena(request), "Working directory does not exist: %s", run->cwd));
    run->cwd = NULL; /* as the original server does: the session's own */
    return 0;
}

/* ---- the session of calls without an id ----
 *
 * `default`, then `default:2`, `default:3`, ...: the last one is used. A session whose command still runs keeps its
 * name, so that the caller who got that name can still view it, write to it and kill it. */

struct defaults {
    struct arena *arena;
    unsigned first, last; /* numbers; 0: there is none */
    const char *cwd;      /* of the last one, as are the following */
    uint64_t quiet_ms;
};

static void shell_defaults_each(void *user, const struct session *session) {
    struct defaults *defaults = user;
    size_t len = strlen(AIO_SHELL_DEFAULT);
    uint64_t number = 1;
    if (session->plain || strncmp(session->name, AIO_SHELL_DEFAULT, len) != 0)
        return;
    if (session->name[len] &&
        (session->name[len] != ':' || !text_u64(session->name + len + 1, UINT32_MAX / 2, &number)))
        return;
    if (!defaults->first || number < defaults->first)
        defaults->first = (unsigned)number;
    if (number >= defaults->last) {
        defaults->last = (unsigned)number;
        defaults->cwd = arena_strdup(defaults->arena, session->cwd);
        defaults->quiet_ms = session->quiet_ms;
    }
}

static const char *shell_defaults_name(struct arena *arena, unsigned number) {
    return number > 1 ? arena_printf(arena, "%s:%u", AIO_SHELL_DEFAULT, number) : AIO_SHELL_DEFAULT;
}

/* Makes the session after `name`, in which a command runs without its caller: in the directory of the last one. If the
 * number of sessions is exhausted and all are busy, the first default ends for it: otherwise no call without an id
 * would ever work again. */
static int shell_successor(struct http_request *request, struct box *box, const char **name, struct err *err) {
    struct defaults defaults = {.arena = http_arena(request), .quiet_ms = AIO_SHELL_QUIET_MS};
    struct session session;
    bool created;
    int failed = box_sessions(box, NULL, shell_defaults_each, &defaults, err);
    const char *last = shell_defaults_name(defaults.arena, defaults.last);
    if (failed || strcmp(last, *name) != 0) {
        *name = failed ? *name : last;
        return failed;
    }
    last = shell_defaults_name(defaults.arena, defaults.last + 1);
    struct session_request wanted = {.name = last, .cwd = defaults.cwd, .quiet_ms = defaults.quiet_ms};
    failed = box_session_open(box, &wanted, defaults.arena, &session, &created, err);
    if (failed == -ERR_LIMIT && err->number == EUSERS && defaults.first) {
        failed = box_session_end(box, shell_defaults_name(defaults.arena, defaults.first), true, err);
        if (!failed || failed == -ERR_NOT_FOUND)
            failed = box_session_open(box, &wanted, defaults.arena, &session, &created, err);
    }
    if (failed == -ERR_NOT_FOUND) {
        wanted.cwd = NULL; /* the directory no longer exists */
        failed = box_session_open(box, &wanted, defaults.arena, &session, &created, err);
    }
    if (!failed)
        *name = last;
    return failed;
}

/* *ret_name: the session that it ran in. */
static int shell_run(struct http_request *request, struct box *box, const struct aio_args *args,
                     const struct exec_sink *sink, const char **ret_name, struct session_result *ret_result,
                     struct err *err) {
    struct session_run run;
    int failed = shell_run_of(request, args, &run, err);
    for (int tries = 0; !failed; tries++) {
        failed = shell_named(run.name)
                     ? box_session_run(box, &run, sink, http_fd(request), http_arena(request), ret_result, err)
                     : err_set(err, ERR_NOT_FOUND, "Session not found");
        if (tries == 4)
            break;
        if (failed == -ERR_NOT_FOUND)
            failed = shell_missing(request, box, args, &run, err);
        else if (failed == -ERR_BUSY && err->number == EINPROGRESS && run.attended)
            failed = shell_successor(request, box, &run.name, err);
        else
            break;
    }
    if (failed == -ERR_BUSY && args->async_mode) /* not 5xx: clients would retry forever */
        return aio_fail(request, 409, ERR_BUSY, err->text);
    if (failed)
        return failed;
    *ret_name = run.name;
    trail_session(request, ret_result);
    return 0;
}

static const char *const shell_messages[] = {
    [SESSION_NEW] = "Command executed",
    [SESSION_RUNNING] = "Command is running",
    [SESSION_COMPLETED] = "Command executed",
    [SESSION_QUIET] = "Command printed nothing for the time that was given, and runs on",
    [SESSION_HARD_TIMEOUT] = "Command was killed: its time was over",
    [SESSION_TERMINATED] = "Command was killed",
};

struct shell_out {
    const char *name, *command, *status;
    struct row_number exit_code;
};
static const struct row shell_answer[] = {
    OUT("session_id", TEXT, shell_out, name, "the session"),
    OUT("command", TEXT, shell_out, command, "as it was given"),
    OUT("status", TEXT, shell_out, status, "of the command"),
    OUT_NULL("exit_code", INT, shell_out, exit_code, "null: it runs, or was killed"),
    {.name = NULL},
};

/* Writes output and console, which are the same. */
static int shell_texts(struct http_request *request, const char *message, const struct shell_out *out,
                       const uint8_t *text, size_t len, struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, message, '{');
    rows_members(&answer.json, shell_answer, out);
    aio_put(&answer, AIO_MEMBERS(AIO_TEXT("output", text, len)));
    json_put_open(&answer.json, "console", '[');
    aio_object(&answer,
               AIO_MEMBERS(AIO_STR("ps1", PS1), AIO_STR("command", out->command), AIO_TEXT("output", text, len)));
    json_close(&answer.json, ']');
    return aio_close(&answer, '}', 0, err);
}

static struct shell_out shell_ran(const char *name, const struct aio_args *args, const struct session_result *result) {
    return (struct shell_out){.name = name,
                              .command = args->command.data,
                              .status = shell_status(result->state),
                              .exit_code = {result->exited, (uint64_t)result->exit_code}};
}

static int shell_exec_whole(struct http_request *request, struct box *box, const struct aio_args *args,
                            struct err *err) {
    struct aio_output output;
    struct session_result result;
    const char *name;
    size_t len;
    STEP(aio_output_init(&output, request, box, args->truncate ? AIO_SHELL_TEXT_CHARACTERS : 0, err));
    const struct exec_sink sink = {.output = aio_output_put, .user = &output};
    int failed = shell_run(request, box, args, &sink, &name, &result, err);
    if (!failed) {
        const uint8_t *text = aio_output_text(&output, 0, &len);
        const struct shell_out out = shell_ran(name, args, &result);
        failed = shell_texts(request, shell_messages[result.state], &out, text, len, err);
    }
    aio_output_done(&output);
    return failed;
}

static void shell_stream_init(struct stream *stream, struct http_request *request) {
    stream_init(stream, request);
    stream->names[0] = stream->names[1] = "output";
    stream->text = true;
}

static int shell_exec_stream(struct http_request *request, struct box *box, const struct aio_args *args,
                             struct err *err) {
    struct stream stream;
    struct session_result result = {0};
    const char *name = NULL;
    shell_stream_init(&stream, request);
    struct exec_sink sink = stream_sink(&stream);
    sink.started = NULL; /* clients do not know this event */
    int failed = shell_run(request, box, args, &sink, &name, &result, err);
    const struct shell_out out = shell_ran(name, args, &result);
    return stream_end(&stream, failed, "result", shell_answer, &out, err);
}

static int shell_exec(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {.truncate = true};
    return detail_body(request, &args, err)
               ?: (stream_wanted(request) ? shell_exec_stream(request, box, &args, err)
                                          : shell_exec_whole(request, box, &args, err));
}

/* ---- view ---- */

static struct shell_out shell_seen(const struct session *session) {
    return (struct shell_out){.name = session->name,
                              .command = shell_command(session),
                              .status = shell_now(session),
                              .exit_code = {session->exited, (uint64_t)session->exit_code}};
}

static int shell_view_whole(struct http_request *request, struct box *box, const struct session *session,
                            struct err *err) {
    struct output_slice slice = {.next = session->from};
    autobuf out = buf_max(LIMIT_RING_BYTES);
    if (session->to > session->from) {
        uint64_t printed = session->to - session->from;
        int failed = http_hold(request, 2 * (printed < LIMIT_RING_BYTES ? (size_t)printed : LIMIT_RING_BYTES), err)
                         ?: box_output(box, session->pid, STREAM_STDOUT, session->from, 0, -1, &out, &slice, err);
        if (failed)
            return failed == -ERR_NOT_FOUND ? shell_unknown(request) : failed;
    }
    /* Bytes printed since the session was read do not belong to this command. They may be all that is kept, if
     * processes that the command left keep printing. */
    uint64_t later = slice.next > session->to ? slice.next - session->to : 0;
    size_t len = later < out.len ? out.len - (size_t)later : 0;
    const struct shell_out seen = shell_seen(session);
    return shell_texts(request, NULL, &seen, out.data, len, err);
}

/* Sends its output from the beginning until it ends. */
static int shell_view_pump(struct http_request *request, struct box *box, struct stream *stream,
                           struct session *session, struct err *err) {
    autobuf out = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    uint64_t offset = session->from, command = session->commands;
    for (;;) {
        struct output_slice slice;
        bool over = !aio_shell_busy(session) || session->commands != command;
        if (over && (offset >= session->to || session->commands != command))
            return 0;
        buf_clear(&out);
        int failed = box_output(box, session->pid, STREAM_STDOUT, offset, over ? 0 : VIEW_TICK_MS, http_fd(request),
                                &out, &slice, err);
        if (!failed && out.len)
            failed = stream_output(stream, STREAM_STDOUT, out.data, out.len);
        if (!failed)
            failed = stream_idle(stream);
        if (!failed && !over)
            failed = box_session_wait(box, session->name, 0, -1, http_arena(request), session, err);
        if (failed)
            return failed;
        if (over && slice.next == offset)
            return 0;
        offset = slice.next;
    }
}

static int shell_view_stream(struct http_request *request, struct box *box, struct session *session, struct err *err) {
    struct stream stream;
    shell_stream_init(&stream, request);
    int failed = shell_view_pump(request, box, &stream, session, err);
    const struct shell_out seen = shell_seen(session);
    return stream_end(&stream, failed, "result", shell_answer, &seen, err);
}

/* Finds the session that a body names. */
static int shell_of_body(struct http_request *request, struct box *box, struct session *ret_session, struct err *err) {
    struct aio_args args = {0};
    return detail_body(request, &args, err) ?: aio_shell_find(request, box, args.id.data, 0, ret_session, err);
}

static int shell_view(struct http_request *request, struct box *box, struct err *err) {
    struct session session;
    return shell_of_body(request, box, &session, err)
               ?: (stream_wanted(request) ? shell_view_stream(request, box, &session, err)
                                          : shell_view_whole(request, box, &session, err));
}

/* ---- wait, write, kill ---- */

static int shell_status_answer(struct http_request *request, const char *status, struct err *err) {
    return aio_reply(request, NULL, AIO_MEMBERS(AIO_STR("status", status)), err);
}

static int shell_wait(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct session session;
    uint64_t wait_ms = 0, most_ms = 0;
    int failed = detail_body(request, &args, err)
                     ?: detail_seconds(&args.max_wait_seconds, LIMIT_EXEC_TIMEOUT_MS, LIMIT_EXEC_TIMEOUT_MS,
                                       "max_wait_seconds", &most_ms, err)
                     ?: detail_seconds(&args.seconds, args.max_wait_seconds.has ? most_ms : 60000, most_ms, "seconds",
                                       &wait_ms, err)
                     ?: aio_shell_find(request, box, args.id.data, wait_ms, &session, err);
    return failed ?: shell_status_answer(request, shell_now(&session), err);
}

/* Nothing runs, so a line is a command, as in any terminal. Other input would stay in the terminal until the next
 * command reads it as its own. */
static int shell_typed_run(struct http_request *request, struct box *box, const struct session *session,
                           const struct aio_args *args, struct err *err) {
    struct session_result result = {.state = session->state};
    size_t len = args->input.len;
    bool enter = args->press_enter || (len && args->input.data[len - 1] == '\n');
    if (strspn(args->input.data, " \t\r\n\x03\x04") == len)
        return shell_status_answer(request, shell_now(session), err);
    if (!enter || memchr(args->input.data, 0, len))
        return aio_fail(request, 400, ERR_INVALID, "No command is running in this session that could read the input");
    const struct session_run run = {
        .name = session->name, .command = args->input.data, .background = true, .quiet_ms = SESSION_QUIET_OWN};
    const struct exec_sink sink = {0};
    int failed = box_session_run(box, &run, &sink, http_fd(request), http_arena(request), &result, err);
    if (failed == -ERR_NOT_FOUND)
        return shell_unknown(request);
    return failed ?: shell_status_answer(request, shell_status(result.state), err);
}

static int shell_write(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct session session;
    STEP(detail_body(request, &args, err) ?: aio_shell_find(request, box, args.id.data, 0, &session, err));
    if (!aio_shell_busy(&session))
        return shell_typed_run(request, box, &session, &args, err);
    if (args.press_enter)
        ((char *)args.input.data)[args.input.len++] = '\n'; /* replaces its NUL, in the request's arena */
    struct view typed = view_of(args.input.data, args.input.len);
    return box_input(box, session.pid, false, box_read_view, &typed, http_fd(request), err)
               ?: shell_status_answer(request, shell_now(&session), err);
}

static int shell_kill(struct http_request *request, struct box *box, struct err *err) {
    struct session session;
    struct session_result result;
    int failed = shell_of_body(request, box, &session, err)
                     ?: box_session_stop(box, session.name, http_arena(request), &result, err);
    if (failed)
        return failed == -ERR_NOT_FOUND ? shell_unknown(request) : failed;
    return aio_reply(request, aio_shell_busy(&session) ? "Process terminated" : "No command is running",
                     AIO_MEMBERS(AIO_STR("status", shell_status(result.state)),
                                 AIO_INT_IF(result.exited, "exit_code", result.exit_code),
                                 AIO_INT_IF(result.exited, "returncode", result.exit_code)),
                     err);
}

/* ---- sessions ---- */

#define QUIET_ROW(meaning)                                                                                             \
    { AIO_IN(no_change_timeout, REAL), .max = INT32_MAX, .text = (meaning) }

static const struct row shell_create_fields[] = {
    {AIO_IN(id, TEXT), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "letters, digits and _.:@-; default: a random one. One that is there is the answer as it is"},
    {AIO_IN(exec_dir, TEXT), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "where its shell begins; default: the workspace"},
    QUIET_ROW("seconds without output after which exec answers; default 120"),
    {AIO_IN(preserve_symlinks, BOOL), .text = "exec_dir keeps the links in its name"},
    {.name = NULL},
};
static const struct row shell_update_fields[] = {
    {AIO_IN(id, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .max = LIMIT_PATH_BYTES, .text = "the session"},
    QUIET_ROW("seconds without output after which exec answers; more than 0"),
    {.name = NULL},
};

static int shell_create(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct session_request wanted = {0};
    struct session session;
    bool created;
    STEP(detail_body(request, &args, err)
             ?: detail_seconds(&args.no_change_timeout, AIO_SHELL_QUIET_MS, LIMIT_EXEC_TIMEOUT_MS, "no_change_timeout",
                               &wanted.quiet_ms, err));
    wanted.name = args.id.data;
    wanted.cwd = args.exec_dir.len ? args.exec_dir.data : NULL;
    STEP(aio_shell_open(request, box, &wanted, &session, &created, err));
    return aio_reply(request, created ? "Session created" : "Session already exists",
                     AIO_MEMBERS(AIO_STR("session_id", session.name), AIO_STR("working_dir", session.cwd)), err);
}

static int shell_update(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct session_request wanted = {0};
    struct session session;
    bool created;
    int failed = detail_body(request, &args, err)
                     ?: detail_seconds(&args.no_change_timeout, 0, LIMIT_EXEC_TIMEOUT_MS, "no_change_timeout",
                                       &wanted.quiet_ms, err);
    if (!failed && args.no_change_timeout.has && !wanted.quiet_ms)
        return detail_unfit(request, "no_change_timeout", "Input should be greater than 0");
    if (!failed)
        failed = aio_shell_find(request, box, args.id.data, 0, &session, err);
    wanted.name = args.id.data;
    if (!failed && wanted.quiet_ms)
        failed = aio_shell_open(request, box, &wanted, &session, &created, err);
    return failed ?: aio_done(request, "Session updated");
}

static void shell_listing_each(void *user, const struct session *session) {
    struct answer *answer = user;
    uint64_t now_ms = clock_wall_ms();
    bool busy = aio_shell_busy(session);
    if (session->plain)
        return;
    json_key(&answer->json, session->name);
    aio_object(answer, AIO_MEMBERS(AIO_STR("working_dir", session->cwd), AIO_TIME("created_at", session->created_ms),
                                   AIO_TIME("last_used_at", session->used_ms),
                                   AIO_INT("age_seconds",
                                           now_ms > session->created_ms ? (now_ms - session->created_ms) / 1000 : 0),
                                   AIO_STR("status", busy ? "running" : "idle"),
                                   AIO_STR("current_command", busy ? shell_command(session) : NULL)));
}

static int shell_list(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, NULL, '{');
    json_put_open(&answer.json, "sessions", '{');
    int failed = box_sessions(box, NULL, shell_listing_each, &answer, err);
    json_close(&answer.json, '}');
    return aio_close(&answer, '}', failed, err);
}

struct session_counts {
    uint64_t now_ms;
    unsigned total, active;
};

static void shell_counts_each(void *user, const struct session *session) {
    struct session_counts *counts = user;
    if (session->plain)
        return;
    counts->total++;
    counts->active += aio_shell_busy(session) || session->used_ms + ACTIVE_MS > counts->now_ms;
}

static int shell_stats(struct http_request *request, struct box *box, struct err *err) {
    struct session_counts counts = {.now_ms = clock_wall_ms()};
    STEP(box_sessions(box, NULL, shell_counts_each, &counts, err));
    return aio_reply(request, NULL,
                     AIO_MEMBERS(AIO_INT("total_sessions", counts.total), AIO_INT("active_sessions", counts.active),
                                 AIO_INT("idle_sessions", counts.total - counts.active),
                                 AIO_INT("max_sessions", LIMIT_SESSIONS),
                                 /* sessions end with the box's processes */
                                 AIO_INT("session_timeout", box->idle_timeout_ms / 1000),
                                 AIO_REAL("usage_ratio", (double)counts.total / LIMIT_SESSIONS)),
                     err);
}

/* Makes a session and returns the URL of a terminal on it. */
static int shell_terminal_url(struct http_request *request, struct box *box, struct err *err) {
    const struct session_request wanted = {.quiet_ms = AIO_SHELL_QUIET_MS};
    struct session session;
    bool created;
    STEP(aio_shell_open(request, box, &wanted, &session, &created, err));
    const char *url = aio_url(request, box) + strlen("http"); /* "s://..." or "://..." */
    autoanswer answer;
    aio_open(&answer, request, NULL, 0);
    json_str(&answer.json, arena_printf(http_arena(request), "ws%s/v1/shell/ws?session_id=%s", url, session.name));
    return aio_close(&answer, 0, 0, err);
}

static int shell_end(struct http_request *request, struct box *box, struct err *err) {
    struct session session;
    int failed = aio_shell_find(request, box, http_param(request, "session_id"), 0, &session, err)
                     ?: box_session_end(box, session.name, true, err);
    if (failed == -ERR_NOT_FOUND)
        return shell_unknown(request);
    return failed ?: aio_done(request, "Session cleaned up");
}

struct session_names {
    struct arena *arena;
    const char *names[LIMIT_SESSIONS];
    size_t count;
};

static void shell_names_each(void *user, const struct session *session) {
    struct session_names *names = user;
    if (!session->plain && names->count < LIMIT_SESSIONS)
        names->names[names->count++] = arena_strdup(names->arena, session->name);
}

static int shell_end_all(struct http_request *request, struct box *box, struct err *err) {
    struct session_names names = {.arena = http_arena(request)};
    unsigned ended = 0;
    int failed = box_sessions(box, NULL, shell_names_each, &names, err);
    for (size_t i = 0; i < names.count && !failed; i++) {
        failed = box_session_end(box, names.names[i], true, err);
        ended += !failed;
        if (failed == -ERR_NOT_FOUND) /* it ended by itself */
            failed = 0;
    }
    return failed ?: aio_done(request, arena_printf(http_arena(request), "Cleaned up %u sessions", ended));
}

const struct route aio_shell_routes[] = {
    AIO_ROUTE("POST", "/shell/exec", "aio_shell_exec",
              "Run a command in a session; with Accept: text/event-stream as events output {data}, result.",
              .run = shell_exec, .body = shell_exec_fields),
    AIO_ROUTE(
        "POST", "/shell/view", "aio_shell_view",
        "What the command of a session prints, or the last one did; with Accept: text/event-stream until it ends.",
        .run = shell_view, .body = shell_id_fields),
    AIO_ROUTE("POST", "/shell/wait", "aio_shell_wait", "Wait until a session runs nothing.", .run = shell_wait,
              .body = shell_wait_fields),
    AIO_ROUTE("POST", "/shell/write", "aio_shell_write", "Type to the command of a session.", .run = shell_write,
              .body = shell_write_fields),
    AIO_ROUTE("POST", "/shell/kill", "aio_shell_kill", "End the command of a session; the session stays.",
              .run = shell_kill, .body = shell_id_fields),
    AIO_ROUTE("POST", "/shell/sessions/create", "aio_shell_session_create",
              "Make a session, or find the one of this id.", .run = shell_create, .body = shell_create_fields),
    AIO_ROUTE("POST", "/shell/sessions/update", "aio_shell_session_update", "Change a session's settings.",
              .run = shell_update, .body = shell_update_fields),
    AIO_ROUTE("GET", "/shell/sessions", "aio_shell_sessions", "The sessions by id.", .run = shell_list),
    AIO_ROUTE("GET", "/shell/sessions/stats", "aio_shell_stats", "How many sessions there are.", .run = shell_stats),
    AIO_ROUTE("DELETE", "/shell/sessions", "aio_shell_sessions_end", "End all sessions.", .run = shell_end_all),
    AIO_ROUTE("DELETE", "/shell/sessions/{session_id}", "aio_shell_session_end", "End a session with all it started.",
              .run = shell_end),
    {"GET", "/aio/{id}/v1/shell/terminal-url", front_handle, 0, "aio_shell_terminal_url",
     "A new session, and the URL of a terminal on it (a WebSocket).",
     ENDPOINT(.run = shell_terminal_url, .flags = AIO_FLAGS | ENDPOINT_WRITES, .status = 200, .answer = aio_answer)},
    {"GET", "/aio/{id}/v1/shell/ws", front_handle, 0, "aio_shell_ws",
     "A terminal on a session over a WebSocket: messages input, resize, ping to it; session_id, ready, output, "
     "restore_output, pong, ping, error from it.",
     ENDPOINT(.run = aio_shell_ws, .flags = AIO_FLAGS | ENDPOINT_WRITES, .query = aio_shell_ws_query, .status = 101)},
    {.method = NULL},
};
