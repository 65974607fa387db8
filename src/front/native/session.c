/* Sessions over HTTP: shells of a box that keep running between commands. Called through native_routes. Invariant: when
 * the client hangs up, its command ends and the session stays; memory stays within output_limit_bytes. */
#include "front/native/native.h"
#include "front/stream.h"

/* ---- requests and answers ---- */

struct session_out {
    struct session session;
    const char *state;
    struct row_number pid, exit_code;
};
struct session_result_out {
    struct session_result result;
    const char *state;
    struct row_number exit_code;
    bool timed_out;
};

#define STATES "new|running|quiet|completed|timed_out|terminated"

const struct row session_fields[] = {
    {ASK(name, TEXT), .flags = ROW_AUDITED, .min = 1, .max = SESSION_NAME_BYTES,
     .text = "letters, digits and _.:@-; default: a random one"},
    {ASK(cwd, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES,
     .text = "where a new shell begins; default: the workspace"},
    {ASK(env, MAP), .flags = ROW_SECRET, .max = LIMIT_ENV_COUNT, .text = "added to the environment of a new shell"},
    {ASK(user, TEXT), .flags = ROW_AUDITED, .choices = "agent|root",
     .text = "who a new shell runs as inside; default agent"},
    {ASK(shell, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES,
     .text = "of a new session; default: bash where the box has it, else its shell"},
    {ASK(cols, INT), .min = 1, .max = 4096, .fallback = 80, .text = "of its terminal"},
    {ASK(rows, INT), .min = 1, .max = 4096, .fallback = 24, .text = "of its terminal"},
    {ASK(quiet_ms, INT), .max = LIMIT_EXEC_TIMEOUT_MS,
     .text = "for commands that do not say; also changes that of a session that is there. Default 0: none"},
    ROW_NAMED("SessionRequest"),
};
const struct row session_wait_query[] = {
    {ASK(wait_ms, INT), .max = 300000, .text = "wait so long until it runs nothing"},
    {.name = NULL},
};
const struct row session_exec_fields[] = {
    {ASK(command, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .max = LIMIT_CALL_ARGS_BYTES / 2,
     .text = "given to the session's shell"},
    {ASK(cwd, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES,
     .text = "the shell goes there first, and stays there; default: where it is"},
    {ASK(background, BOOL), .text = "do not wait for it; BUSY when another one runs"},
    {ASK(wait_ms, INT), .max = LIMIT_EXEC_TIMEOUT_MS,
     .text = "answer after so long and leave it running (state running); default 0: when it ends"},
    {ASK(quiet_ms, INT), .max = LIMIT_EXEC_TIMEOUT_MS,
     .text = "answer when it printed nothing for so long, and leave it running (state quiet); LIMIT when its turn has "
             "not come by then; 0: never; default: the session's"},
    {ASK(timeout_ms, INT), .max = LIMIT_EXEC_TIMEOUT_MS, .fallback = DEFAULT_EXEC_TIMEOUT_MS,
     .text = "from the call on; then it is killed with all it started, and the session stays (LIMIT when its turn has "
             "not come by then); 0: never, which is the default in the background"},
    {ASK(output_limit_bytes, INT), .max = LIMIT_OUTPUT_LIMIT_BYTES, .fallback = DEFAULT_OUTPUT_LIMIT_BYTES,
     .text = "kept of the output, at most limits.output_bytes; more loses its middle"},
    ROW_NAMED("SessionExecRequest"),
};
const struct row session_answer[] = {
    OUT("name", TEXT, session_out, session.name, "unique in its box"),
    OUT_NULL("pid", INT, session_out, pid,
             "of the shell, as a background process of the box; null: it has none, commands are processes"),
    {ROW("state", TEXT, session_out, state), .choices = STATES, .text = "of the command that runs, or ran last"},
    OUT("command", TEXT, session_out, session.command, "that one, cut"),
    OUT_NULL("exit_code", INT, session_out, exit_code, "128 + signal as shells have it; null: it runs, or was killed"),
    OUT("cwd", TEXT, session_out, session.cwd, "where the shell was at the end of its last command"),
    OUT("created_at", TIME, session_out, session.created_ms, "when it was made"),
    OUT("used_at", TIME, session_out, session.used_ms, "when its last command began or ended"),
    OUT_INT("commands", session_out, session.commands, "how many there have been"),
    OUT_INT("waiting", session_out, session.waiting, "calls that wait for their turn"),
    OUT_INT("quiet_ms", session_out, session.quiet_ms, "for commands that do not say; 0: none"),
    OUT_INT("offset", session_out, session.from, "where the output of that command begins, for processes/{pid}/output"),
    OUT_INT("next_offset", session_out, session.to, "and where it ends so far"),
    ROW_NAMED("Session"),
};
const struct row sessions_answer[] = {
    {.name = "sessions", .type = ROW_OBJECTS, .fields = session_answer, .text = "the oldest first"},
    ROW_NAMED("Sessions"),
};
#define RESULT_ROWS                                                                                                    \
    {ROW("state", TEXT, session_result_out, state), .choices = STATES, .text = "running and quiet: it runs on"},       \
        OUT_NULL("exit_code", INT, session_result_out, exit_code,                                                      \
                 "128 + signal as shells have it; null: it runs, or was killed"),                                      \
        OUT("timed_out", BOOL, session_result_out, timed_out, "killed at timeout_ms"),                                 \
        OUT("ended", BOOL, session_result_out, result.gone, "the shell ended with it, and the session is gone"),       \
        OUT("oom_killed", BOOL, session_result_out, result.oom_killed,                                                 \
            "a process of the box was killed for lack of memory while it ran"),                                        \
        OUT("cwd", TEXT, session_result_out, result.cwd, "where the shell is now"),                                    \
        OUT_INT("offset", session_result_out, result.from, "as in the session"),                                       \
        OUT_INT("next_offset", session_result_out, result.to, "as in the session"),                                    \
        OUT_INT("duration_ms", session_result_out, result.duration_ms, "so far")
const struct row session_result_answer[] = {RESULT_ROWS, ROW_NAMED("SessionResult")};
const struct row session_exec_answer[] = {
    SHOW("output", TEXT, "what it printed, both streams as they came"),
    {.name = "encoding", .type = ROW_TEXT, .choices = "utf-8|base64", .text = "of output"},
    SHOW("output_bytes", INT, "bytes printed, kept or not"),
    SHOW("output_truncated", BOOL, "the middle was dropped"),
    RESULT_ROWS,
    ROW_NAMED("SessionExecResult"),
};

static const char *native_session_state(enum session_state state) {
    static const char *const names[] = {
        [SESSION_NEW] = "new",     [SESSION_RUNNING] = "running",        [SESSION_COMPLETED] = "completed",
        [SESSION_QUIET] = "quiet", [SESSION_HARD_TIMEOUT] = "timed_out", [SESSION_TERMINATED] = "terminated",
    };
    return names[state];
}

static struct session_out native_session_out(const struct session *session) {
    return (struct session_out){.session = *session,
                                .state = native_session_state(session->state),
                                .pid = {!session->plain, session->pid},
                                .exit_code = {session->exited, (uint64_t)session->exit_code}};
}

static int native_session_answer(struct http_request *request, int status, const struct session *session,
                                 struct err *err) {
    const struct session_out out = native_session_out(session);
    return answer_rows(request, status, session_answer, &out, err);
}

/* ---- the sessions ---- */

int native_session_open(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct session session;
    bool created;
    STEP(front_body(request, &args, err));
    const struct session_request wanted = {
        .name = args.name.data,
        .cwd = args.cwd.data,
        .env = (const char *const *)args.env,
        .shell = args.shell.data,
        .cols = (unsigned)args.cols.value,
        .rows = (unsigned)args.rows.value,
        .root = args.user.data && !strcmp(args.user.data, "root"),
        .quiet_ms = args.quiet_ms.value,
    };
    return box_session_open(box, &wanted, http_arena(request), &session, &created, err)
               ?: (native_session_answer(request, created ? 201 : 200, &session, err));
}

static void native_session_each(void *user, const struct session *session) {
    const struct session_out out = native_session_out(session);
    answer_item(user, &out);
}

int native_sessions(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    answer_list(&answer, request, sessions_answer);
    int failed = box_sessions(box, NULL, native_session_each, &answer, err);
    return answer_list_end(&answer, NULL, failed, err);
}

int native_session(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct session session;
    return front_query(request, &args, err)
               ?: box_session_wait(box, http_param(request, "name"), args.wait_ms.value, http_fd(request),
                                   http_arena(request), &session, err)
               ?: native_session_answer(request, 200, &session, err);
}

int native_session_end(struct http_request *request, struct box *box, struct err *err) {
    return box_session_end(box, http_param(request, "name"), false, err) ?: front_empty(request, 204);
}

static void native_session_pid(void *user, const struct session *session) {
    *(uint64_t *)user = session->pid;
}

int native_session_stdin(struct http_request *request, struct box *box, struct err *err) {
    uint64_t pid = 0;
    const char *name = http_param(request, "name");
    int failed = box_sessions(box, name, native_session_pid, &pid, err);
    if (!failed && !pid)
        failed = err_set(err, ERR_INVALID,
                         "session '%s' has no shell: write to the input of one of its commands instead", name);
    http_body_live(request); /* a person may be typing it */
    if (!failed)
        failed = box_input(box, pid, false, front_body_read, request, http_fd(request), err);
    return failed ?: front_empty(request, 204);
}

/* ---- commands ---- */

static struct session_result_out native_session_result(const struct session_result *result) {
    return (struct session_result_out){.result = *result,
                                       .state = native_session_state(result->state),
                                       .exit_code = {result->exited, (uint64_t)result->exit_code},
                                       .timed_out = result->state == SESSION_HARD_TIMEOUT};
}

int native_session_stop(struct http_request *request, struct box *box, struct err *err) {
    struct session_result result;
    STEP(box_session_stop(box, http_param(request, "name"), http_arena(request), &result, err));
    const struct session_result_out out = native_session_result(&result);
    return answer_rows(request, 200, session_result_answer, &out, err);
}

static int native_session_whole(struct http_request *request, struct box *box, const struct session_run *run,
                                size_t limit, struct err *err) {
    __attribute__((cleanup(collect_done))) struct collect output; /* a session has one stream: stdout */
    struct session_result result;
    const struct exec_sink sink = {.output = collect_put, .user = &output};
    collect_init(&output, request, limit, err);
    STEP(box_session_run(box, run, &sink, http_fd(request), http_arena(request), &result, err));
    trail_session(request, &result);
    size_t len;
    struct headtail *kept = &output.streams[0];
    bool truncated = headtail_truncated(kept);
    const uint8_t *data = headtail_finish(kept, &len);
    bool utf8 = text_utf8(data, len);
    const struct session_result_out out = native_session_result(&result);
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '{');
    json_key(&answer.json, "output");
    answer_long(&answer, data, len, utf8);
    json_put_str(&answer.json, ROW_ENCODING, utf8 ? "utf-8" : "base64");
    json_put_uint(&answer.json, "output_bytes", kept->total);
    json_put_bool(&answer.json, "output_truncated", truncated);
    rows_members(&answer.json, session_result_answer, &out);
    json_close(&answer.json, '}');
    return answer_end(&answer, 0, err);
}

static int native_session_stream(struct http_request *request, struct box *box, const struct session_run *run,
                                 struct err *err) {
    struct stream stream;
    struct session_result result = {0};
    stream_init(&stream, request);
    const struct exec_sink sink = stream_sink(&stream);
    int failed = box_session_run(box, run, &sink, http_fd(request), http_arena(request), &result, err);
    if (!failed)
        trail_session(request, &result);
    const struct session_result_out out = native_session_result(&result);
    return stream_end(&stream, failed, "exit", session_result_answer, &out, err);
}

int native_session_exec(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    size_t limit;
    STEP(front_body(request, &args, err));
    const struct session_run run = {
        .name = http_param(request, "name"),
        .command = args.command.data,
        .cwd = args.cwd.data,
        .background = args.background,
        .wait_ms = args.wait_ms.value,
        .quiet_ms = args.quiet_ms.has ? args.quiet_ms.value : SESSION_QUIET_OWN,
        .hard_ms = args.background && !args.timeout_ms.has ? 0 : args.timeout_ms.value,
    };
    if (stream_wanted(request))
        return native_session_stream(request, box, &run, err);
    return box_output_limit(box, args.output_limit_bytes.has, args.output_limit_bytes.value, DEFAULT_OUTPUT_LIMIT_BYTES,
                            &limit, err)
               ?: native_session_whole(request, box, &run, limit, err);
}
