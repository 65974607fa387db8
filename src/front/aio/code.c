/* The groups that run code: jupyter (Python in sessions, with a notebook's outputs, without Jupyter), nodejs
 * (JavaScript as programs or in sessions), code (either) and sandbox/packages. Called through aio_code_routes.
 * Invariant: an interpreter that a box lacks is answered with 501 and named. */
#include "box/interpreter/interpreter.h"
#include "front/aio/aio.h"

#define CODE_BYTES (8u << 20) /* largest piece of code */
#define NODE_IDLE_S 86400u    /* default idle time of its sessions */
#define NODE_FILES 256u

static const struct {
    const struct language *language;
    const char *text;
} languages[] = {
    {&language_python, "Python in a session, or once"},
    {&language_javascript, "JavaScript by Node.js in a session, or as a program of its own"},
};

#define CODE_ROW                                                                                                       \
    { AIO_IN(code, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .max = CODE_BYTES, .text = "what is run" }
#define TIMEOUT_ROW(more)                                                                                              \
    {                                                                                                                  \
        AIO_ROW("timeout", INT, timeout_s), .min = 1, .max = LIMIT_INTERPRETER_TIMEOUT_S,                              \
                                            .fallback = INTERPRETER_TIMEOUT_S,                                         \
                                            .text = "seconds it may run, default 30" more                              \
    }
#define SESSION_ROW                                                                                                    \
    {                                                                                                                  \
        AIO_IN(session_id, TEXT), .max = INTERPRETER_NAME_BYTES,                                                       \
                                  .text = "which session; made if it does not exist; default a new one"                \
    }
#define CWD_ROW                                                                                                        \
    { AIO_IN(cwd, TEXT), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES, .text = "where; default the workspace" }
#define KERNEL_ROW                                                                                                     \
    { AIO_IN(kernel_name, TEXT), .max = 31, .text = "python3, or another one of those that info lists" }
#define IDLE_ROW                                                                                                       \
    { AIO_IN(max_idle_time, INT), .min = 60, .max = NODE_IDLE_S, .text = "seconds until it ends unused, default a day" }
#define STATEFUL_ROW                                                                                                   \
    { AIO_IN(stateful, BOOL), .text = "in a session, which has what was run in it before" }

static const struct row jupyter_execute_fields[] = {
    CODE_ROW, TIMEOUT_ROW("; then it is interrupted"), KERNEL_ROW, SESSION_ROW, CWD_ROW, {.name = NULL},
};
static const struct row jupyter_create_fields[] = {KERNEL_ROW, SESSION_ROW, CWD_ROW, {.name = NULL}};
static const struct row nodejs_execute_fields[] = {
    CODE_ROW,
    TIMEOUT_ROW(""),
    {AIO_ROW("stdin", TEXT, input), .flags = ROW_NUL, .max = LIMIT_STDIN_BYTES, .text = "its input; not in sessions"},
    {AIO_IN(files, MAP), .max = NODE_FILES, .text = "files that are written first: path, below cwd, and content"},
    STATEFUL_ROW,
    SESSION_ROW,
    CWD_ROW,
    {AIO_IN(version, TEXT), .max = 32, .text = "of Node.js: another one than the box's is refused"},
    {.name = NULL},
};
static const struct row nodejs_create_fields[] = {SESSION_ROW, CWD_ROW, IDLE_ROW, {.name = NULL}};
static const struct row nodejs_update_fields[] = {CWD_ROW, IDLE_ROW, {.name = NULL}};
static const struct row code_execute_fields[] = {
    {AIO_IN(language, TEXT), .flags = ROW_REQUIRED, .choices = "python|javascript", .text = "of the code"},
    CODE_ROW,
    TIMEOUT_ROW(""),
    CWD_ROW,
    STATEFUL_ROW,
    {AIO_IN(session_id, TEXT), .max = INTERPRETER_NAME_BYTES, .text = "of that session; default a new one"},
    {.name = NULL},
};

/* ---- requests ---- */

/* Returns the language of a route that is the same in both groups. */
static const struct language *code_language(struct http_request *request) {
    return strstr(http_route(request)->pattern, "/nodejs") ? &language_javascript : &language_python;
}

int aio_directory(struct http_request *request, struct box *box, const char *member, const char *path,
                  struct err *err) {
    struct file_stat stat = {0};
    struct err why;
    if (!path)
        return 0;
    /* "/." accepts a link to a directory. */
    int failed = box_stat(box, arena_printf(http_arena(request), "%s/.", path), http_arena(request), &stat, &why);
    if (failed == -ERR_NOT_FOUND || failed == -ERR_INVALID || (!failed && stat.type != FILE_DIR))
        return err_set(err, ERR_INVALID, "%s: the box has no directory '%.300s'", member, path);
    if (failed)
        *err = why;
    return failed;
}

/* Binds the body and checks what its rows cannot. */
static int code_body(struct http_request *request, struct box *box, struct aio_args *args, struct err *err) {
    int failed = detail_body(request, args, err);
    const char *kernel = args->kernel_name.data;
    if (failed)
        return failed;
    if (args->session_id.data && !interpreter_name_ok(args->session_id.data))
        return detail_unfit(request, "session_id", "must be 1 to 64 letters, digits or _.:@-");
    if (kernel && (strncmp(kernel, "python", 6) != 0 || kernel[6 + strspn(kernel + 6, "0123456789.")]))
        return aio_fail(request, 400, ERR_INVALID,
                        "there is no such kernel: use python3, or one that /v1/jupyter/info lists");
    return aio_directory(request, box, "cwd", args->cwd.data, err);
}

static int code_hold(void *user, size_t bytes, struct err *err) {
    return http_hold(user, bytes, err);
}

static struct interpreter_caller code_caller(struct http_request *request) {
    return (struct interpreter_caller){.watch = http_fd(request), .hold = code_hold, .user = request};
}

static int code_run(struct http_request *request, struct box *box, const struct language *language,
                    const struct aio_args *args, bool once, struct interpreter_session *ret_session,
                    struct interpreter_result *ret_result, struct err *err) {
    const struct interpreter_caller caller = code_caller(request);
    const struct interpreter_run run = {.code = args->code.data,
                                        .len = args->code.len,
                                        .cwd = args->cwd.data,
                                        .name = args->session_id.data,
                                        .program = args->kernel_name.data,
                                        .timeout_s = args->timeout_s.value,
                                        .once = once,
                                        .input = args->input.data,
                                        .input_len = args->input.len};
    int failed = interpreter_run(box, language, &run, &caller, ret_session, ret_result, err);
    if (!failed && ret_result->program)
        trail_result(request, &ret_result->exec);
    return failed;
}

/* ---- answers ---- */

static void code_traceback_json(struct answer *answer, const char *const *lines) {
    json_put_open(&answer->json, "traceback", '[');
    for (; *lines; lines++)
        answer_long(answer, (const uint8_t *)*lines, strlen(*lines), true);
    json_close(&answer->json, ']');
}

static void code_outputs_json(struct answer *answer, const struct interpreter_result *result) {
    static const char *const kinds[] = {"stream", "display_data", "execute_result", "error"};
    struct json *json = &answer->json;
    json_put_open(json, "outputs", '[');
    for (const struct interpreter_output *output = result->outputs; output < result->outputs + result->count;
         output++) {
        json_open(json, '{');
        json_put_str(json, "output_type", kinds[output->kind]);
        if (output->kind == OUTPUT_STREAM) {
            aio_put(answer, AIO_MEMBERS(AIO_STR("name", output->is_stderr ? "stderr" : "stdout"),
                                        AIO_TEXT("text", output->text, output->len)));
        } else if (output->kind == OUTPUT_FAILURE) {
            aio_put(answer, AIO_MEMBERS(AIO_STR("ename", output->name), AIO_TEXT("evalue", output->text, output->len)));
            code_traceback_json(answer, output->traceback);
        } else {
            json_put_open(json, "data", '{');
            for (const struct interpreter_mime *mime = output->mimes; mime < output->mimes + output->count; mime++) {
                json_key(json, mime->type);
                if (mime->json)
                    answer_raw(answer, (const uint8_t *)mime->text, mime->len);
                else
                    answer_long(answer, (const uint8_t *)mime->text, mime->len, true);
            }
            json_close(json, '}');
            json_put_open(json, "metadata", '{');
            json_close(json, '}');
            if (output->numbered)
                json_put_int(json, "execution_count", result->number);
        }
        json_close(json, '}');
    }
    json_close(json, ']');
}

static const char *const code_status[] = {[CODE_OK] = "ok", [CODE_FAILED] = "error", [CODE_TIMEOUT] = "timeout"};

/* Returns the exit code that the code would have as a program. */
static int exit_code(const struct interpreter_result *result) {
    if (result->status == CODE_TIMEOUT)
        return 124;
    if (!result->program)
        return result->status != CODE_OK;
    return result->exec.exited ? result->exec.exit_code : 128 + result->exec.signal;
}

/* ---- running ---- */

static int code_jupyter_execute(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct interpreter_session session;
    autoresult result = {0};
    STEP(code_body(request, box, &args, err)
             ?: code_run(request, box, &language_python, &args, false, &session, &result, err));
    autoanswer answer;
    aio_open(&answer, request, NULL, '{');
    aio_put(&answer, AIO_MEMBERS(AIO_STR("kernel_name", session.program), AIO_STR("session_id", session.name),
                                 AIO_STR("status", code_status[result.status]),
                                 AIO_INT_IF(result.numbered, "execution_count", result.number)));
    code_outputs_json(&answer, &result);
    aio_put(&answer,
            AIO_MEMBERS(AIO_TEXT("code", args.code.data, args.code.len), AIO_STR("msg_id", http_request_id(request))));
    return aio_close(&answer, '}', 0, err);
}

static int code_node_files(struct http_request *request, struct box *box, const struct aio_args *args,
                           struct err *err) {
    for (const char **row = args->files; row && *row; row++) {
        const char *content = strchr(*row, '=') + 1,
                   *name = arena_copy(http_arena(request), *row, (size_t)(content - *row) - 1);
        bool below = *name != '/' && args->cwd.data;
        struct view file = view_of(content, strlen(content));
        const struct write_request write = {
            .path = below ? arena_printf(http_arena(request), "%s/%s", args->cwd.data, name) : name,
            .parents = true,
            .size = (int64_t)file.len,
            .max = front_settings(request)->max_upload_bytes};
        struct file_stat stat;
        bool created;
        int failed = box_write(box, &write, box_read_view, &file, http_fd(request), &created, &stat, err);
        if (failed)
            return err_wrap(err, "files");
    }
    return 0;
}

/* "20", "v20", "20.1", "node20" */
static int code_node_version(struct http_request *request, struct box *box, const char *wanted, struct err *err) {
    struct interpreter_about about;
    if (!wanted)
        return 0;
    STEP(interpreter_about(box, &language_javascript, false, http_fd(request), http_arena(request), &about, err));
    const char *own = about.version + (*about.version == 'v'), *number = wanted + strcspn(wanted, "0123456789");
    size_t len = strlen(number);
    if (!len || strncmp(own, number, len) != 0 || (own[len] && own[len] != '.'))
        return err_set(err, ERR_INVALID, "version: this box has Node.js %.32s, not %.32s", own, wanted);
    return 0;
}

/* Serves nodejs, and code, which names the language and has no stdin, files or version. */
static int code_execute(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct interpreter_session session;
    autoresult result = {0};
    STEP(code_body(request, box, &args, err));
    bool stateful = args.stateful || args.session_id.data, named = args.language.data;
    bool python = named && !strcmp(args.language.data, language_python.name);
    const struct language *language = python ? &language_python : &language_javascript;
    if (stateful && args.input.data)
        return detail_unfit(request, "stdin", "is only possible without a session");
    STEP(code_node_version(request, box, args.version.data, err) ?: code_node_files(request, box, &args, err)
             ?: code_run(request, box, language, &args, !stateful, &session, &result, err));
    const struct buf *texts = result.texts;
    const char *const *traceback = NULL;
    for (size_t i = 0; i < result.count && !result.program; i++)
        traceback = result.outputs[i].traceback ? result.outputs[i].traceback : traceback;
    autoanswer answer;
    aio_open(&answer, request, NULL, '{');
    aio_put(&answer, AIO_MEMBERS(AIO_STR("language", language->name), AIO_STR("status", code_status[result.status])));
    if (!named)
        aio_put(&answer, AIO_MEMBERS(AIO_INT_IF(result.numbered, "execution_count", result.number)));
    code_outputs_json(&answer, &result);
    bool exited = !named || result.program || result.status != CODE_TIMEOUT;
    aio_put(&answer, AIO_MEMBERS(AIO_TEXT("code", args.code.data, args.code.len),
                                 AIO_TEXT("stdout", texts[0].data, texts[0].len),
                                 AIO_TEXT("stderr", texts[1].data, texts[1].len),
                                 AIO_INT_IF(exited, "exit_code", exit_code(&result)),
                                 AIO_STR("session_id", stateful ? session.name : NULL)));
    if (named && traceback)
        code_traceback_json(&answer, traceback);
    else if (named)
        json_put_nil(&answer.json, "traceback");
    return aio_close(&answer, '}', 0, err);
}

/* ---- sessions ---- */

static uint64_t code_session_age_s(const struct interpreter_session *session) {
    uint64_t now = clock_wall_ms();
    return now > session->created_ms ? (now - session->created_ms) / 1000 : 0;
}

/* Node.js reports more about a session, and can change it (cwd, idle_s). A session that is too busy to answer is
 * reported as busy. */
static int code_session_json(struct answer *answer, struct box *box, const struct language *language,
                             const struct interpreter_session *session, const struct aio_args *args, struct err *err) {
    if (language == &language_python) {
        aio_object(answer,
                   AIO_MEMBERS(AIO_STR("kernel_name", session->program), AIO_TIME("created_at", session->created_ms),
                               AIO_INT("age_seconds", code_session_age_s(session))));
        return 0;
    }
    const struct interpreter_caller caller = code_caller(answer->request);
    struct interpreter_state state = {.cwd = "", .busy = true};
    const char *cwd = args->cwd.data;
    uint64_t idle_s = args->max_idle_time.value;
    int failed = interpreter_look(box, session, cwd, idle_s, &caller, http_arena(answer->request), &state, err);
    if (failed && (failed != -ERR_TIMEOUT || cwd || idle_s))
        return failed;
    aio_object(answer,
               AIO_MEMBERS(AIO_STR("session_id", session->name), AIO_STR("cwd", state.cwd),
                           AIO_REAL("created_at", (double)session->created_ms / 1000),
                           AIO_REAL("last_used", state.used_s > 0 ? state.used_s : (double)clock_wall_ms() / 1000),
                           AIO_INT("max_idle_time", state.idle_s), AIO_INT("age_seconds", code_session_age_s(session)),
                           AIO_STR("state", state.busy ? "busy" : "idle")));
    return 0;
}

static int code_sessions(struct http_request *request, struct box *box, struct err *err) {
    const struct language *language = code_language(request);
    struct interpreter_sessions all;
    int failed = interpreter_sessions(box, language, &all, err);
    autoanswer answer;
    aio_open(&answer, request, NULL, '{');
    json_put_open(&answer.json, "sessions", '{');
    for (size_t i = 0; !failed && i < all.count; i++) {
        json_key(&answer.json, all.items[i].name);
        failed = code_session_json(&answer, box, language, &all.items[i], &(struct aio_args){0}, err);
        if (failed == -ERR_NOT_FOUND || failed == -ERR_GONE) { /* it has ended */
            json_nil(&answer.json);
            failed = 0;
        }
    }
    json_close(&answer.json, '}');
    return aio_close(&answer, '}', failed, err);
}

/* {..., "session":{...}} */
static int code_session_answer(struct http_request *request, struct box *box, const struct interpreter_session *session,
                               const struct aio_member *members, const struct aio_args *args, struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, NULL, '{');
    aio_put(&answer, members);
    json_key(&answer.json, "session");
    int failed = code_session_json(&answer, box, &language_javascript, session, args, err);
    return aio_close(&answer, '}', failed, err);
}

static int code_create(struct http_request *request, struct box *box, struct err *err) {
    const struct language *language = code_language(request);
    bool python = language == &language_python, created;
    struct aio_args args = {0};
    struct interpreter_session session;
    STEP(code_body(request, box, &args, err));
    const struct interpreter_open open = {.name = args.session_id.data,
                                          .program = args.kernel_name.data,
                                          .cwd = args.cwd.data,
                                          .idle_s = args.max_idle_time.has ? args.max_idle_time.value
                                                    : python               ? INTERPRETER_IDLE_S
                                                                           : NODE_IDLE_S};
    STEP(interpreter_open(box, language, &open, &session, &created, err));
    const char *message = created ? "Session created" : "Session already exists";
    if (python)
        return aio_reply(request, NULL,
                         AIO_MEMBERS(AIO_STR("session_id", session.name), AIO_STR("kernel_name", session.program),
                                     AIO_STR("message", message)),
                         err);
    return code_session_answer(
        request, box, &session,
        AIO_MEMBERS(AIO_STR("session_id", session.name), AIO_BOOL("created", created), AIO_STR("message", message)),
        &(struct aio_args){0}, err);
}

static int code_nodejs_session(struct http_request *request, struct box *box, struct err *err) {
    struct interpreter_session session;
    int failed = interpreter_find(box, &language_javascript, http_param(request, "session_id"), &session, err);
    const struct aio_member none[] = {{.key = NULL}};
    return failed ?: code_session_answer(request, box, &session, none, &(struct aio_args){0}, err);
}

static int code_nodejs_update(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct interpreter_session session;
    int failed = detail_body(request, &args, err)
                     ?: interpreter_find(box, &language_javascript, http_param(request, "session_id"), &session, err)
                     ?: aio_directory(request, box, "cwd", args.cwd.data, err);
    return failed ?: code_session_answer(request, box, &session, AIO_MEMBERS(AIO_BOOL("updated", true)), &args, err);
}

static int code_delete(struct http_request *request, struct box *box, struct err *err) {
    const struct language *language = code_language(request);
    struct interpreter_session session;
    STEP(interpreter_find(box, language, http_param(request, "session_id"), &session, err));
    interpreter_end(box, &session);
    return language == &language_python ? aio_done(request, "Session deleted")
                                        : aio_reply(request, NULL, AIO_MEMBERS(AIO_BOOL("deleted", true)), err);
}

static int code_jupyter_delete_all(struct http_request *request, struct box *box, struct err *err) {
    struct interpreter_sessions all;
    STEP(interpreter_sessions(box, &language_python, &all, err));
    for (size_t i = 0; i < all.count; i++)
        interpreter_end(box, &all.items[i]);
    return aio_done(request, arena_printf(http_arena(request), "%zu sessions deleted", all.count));
}

/* ---- interpreters of a box ---- */

static int code_jupyter_info(struct http_request *request, struct box *box, struct err *err) {
    struct interpreter_sessions all;
    STEP(interpreter_sessions(box, &language_python, &all, err));
    autoanswer answer;
    aio_open(&answer, request, NULL, '{');
    json_put_str(&answer.json, "default_kernel", language_python.program);
    json_put_open(&answer.json, "available_kernels", '[');
    for (unsigned minor = 5; minor <= 25; minor++) { /* python3, and python3.6 and on */
        struct file_stat stat;
        struct arena *arena = http_arena(request);
        const char *name = minor > 5 ? arena_printf(arena, "python3.%u", minor) : "python3";
        if (!box_stat(box, arena_printf(arena, "/usr/local/bin/%s", name), arena, &stat, err) ||
            !box_stat(box, arena_printf(arena, "/usr/bin/%s", name), arena, &stat, err))
            json_str(&answer.json, name);
    }
    json_close(&answer.json, ']');
    aio_put(&answer,
            AIO_MEMBERS(
                AIO_INT("active_sessions", all.count), AIO_INT("session_timeout_seconds", INTERPRETER_IDLE_S),
                AIO_INT("max_sessions", LIMIT_INTERPRETER_SESSIONS),
                AIO_STR("description", "Python sessions: the box's own interpreter, with the outputs of a notebook"),
                AIO_STR("kernel_detection", "programs python3 and python3.N in /usr/local/bin and /usr/bin")));
    return aio_close(&answer, '}', 0, err);
}

static void code_packages_json(struct answer *answer, const struct interpreter_about *about) {
    json_open(&answer->json, '[');
    for (size_t i = 0; i < about->count; i++)
        aio_object(answer, AIO_MEMBERS(AIO_STR("name", about->packages[i].name),
                                       AIO_STR("version", about->packages[i].version)));
    json_close(&answer->json, ']');
}

static int code_packages(struct http_request *request, struct box *box, struct err *err) {
    struct interpreter_about about;
    STEP(interpreter_about(box, code_language(request), true, http_fd(request), http_arena(request), &about, err));
    autoanswer answer;
    aio_open(&answer, request, NULL, 0);
    code_packages_json(&answer, &about);
    return aio_close(&answer, 0, 0, err);
}

/* npm's version is "" if npm is not installed. */
static int code_nodejs_info(struct http_request *request, struct box *box, struct err *err) {
    struct interpreter_about about;
    STEP(interpreter_about(box, &language_javascript, true, http_fd(request), http_arena(request), &about, err));
    const char *npm = "";
    for (size_t i = 0; i < about.count; i++)
        npm = strcmp(about.packages[i].name, "npm") != 0 ? npm : about.packages[i].version;
    autoanswer answer;
    struct json *json = &answer.json;
    aio_open(&answer, request, NULL, '{');
    aio_put(&answer,
            AIO_MEMBERS(AIO_STR("node_version", about.version), AIO_STR("npm_version", npm),
                        AIO_STR("description", "JavaScript by the Node.js of this box, as programs or in sessions"),
                        AIO_STR("runtime_directory", about.programs), AIO_STR("global_npm_directory", about.root),
                        AIO_STR("error", NULL), AIO_STR("current_version", about.version)));
    json_put_texts(json, "supported_languages", (const char *const[]){"javascript", NULL});
    json_put_texts(json, "available_versions", (const char *const[]){about.version, NULL});
    json_put_texts(json, "runtime_packages", NULL);
    json_key(json, "global_packages");
    code_packages_json(&answer, &about);
    return aio_close(&answer, '}', 0, err);
}

/* Lists the languages that the box has. */
static int code_info(struct http_request *request, struct box *box, struct err *err) {
    autoanswer answer;
    aio_open(&answer, request, NULL, '{');
    json_put_open(&answer.json, "languages", '[');
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        const struct language *language = languages[i].language;
        struct interpreter_about about;
        int failed = interpreter_about(box, language, false, http_fd(request), http_arena(request), &about, err);
        if (failed == -ERR_UNSUPPORTED)
            continue;
        if (failed)
            return failed;
        json_open(&answer.json, '{');
        aio_put(&answer, AIO_MEMBERS(AIO_STR("language", language->name), AIO_STR("description", languages[i].text),
                                     AIO_STR("runtime_version", about.version),
                                     AIO_INT("default_timeout", INTERPRETER_TIMEOUT_S),
                                     AIO_INT("max_timeout", LIMIT_INTERPRETER_TIMEOUT_S)));
        json_put_open(&answer.json, "details", '{');
        json_close(&answer.json, '}');
        json_close(&answer.json, '}');
    }
    json_close(&answer.json, ']');
    return aio_close(&answer, '}', 0, err);
}

const struct route aio_code_routes[] = {
    AIO_ROUTE("POST", "/jupyter/execute", "aio_jupyter_execute",
              "Run Python in a session that keeps its variables; outputs as a notebook has them.",
              .run = code_jupyter_execute, .body = jupyter_execute_fields),
    AIO_ROUTE("GET", "/jupyter/info", "aio_jupyter_info", "Which interpreters there are for sessions.",
              .run = code_jupyter_info),
    AIO_ROUTE("GET", "/jupyter/sessions", "aio_jupyter_sessions", "Its sessions of Python.", .run = code_sessions),
    AIO_ROUTE("DELETE", "/jupyter/sessions", "aio_jupyter_delete_all", "End all of them.",
              .run = code_jupyter_delete_all),
    AIO_ROUTE("DELETE", "/jupyter/sessions/{session_id}", "aio_jupyter_delete", "End one of them.", .run = code_delete),
    AIO_ROUTE("POST", "/jupyter/sessions/create", "aio_jupyter_create", "Start a session of Python.",
              .run = code_create, .body = jupyter_create_fields),
    AIO_ROUTE("POST", "/nodejs/execute", "aio_nodejs_execute",
              "Run JavaScript as a program of its own, or in a session that keeps its variables.", .run = code_execute,
              .body = nodejs_execute_fields),
    AIO_ROUTE("GET", "/nodejs/info", "aio_nodejs_info", "Version, directories and packages of Node.js.",
              .run = code_nodejs_info),
    AIO_ROUTE("POST", "/nodejs/sessions", "aio_nodejs_create", "Start a session of JavaScript.", .run = code_create,
              .body = nodejs_create_fields),
    AIO_ROUTE("GET", "/nodejs/sessions", "aio_nodejs_sessions", "Its sessions of JavaScript.", .run = code_sessions),
    AIO_ROUTE("GET", "/nodejs/sessions/{session_id}", "aio_nodejs_session", "One of them.", .run = code_nodejs_session),
    AIO_ROUTE("PATCH", "/nodejs/sessions/{session_id}", "aio_nodejs_update",
              "Another directory, or another time until it ends unused.", .run = code_nodejs_update,
              .body = nodejs_update_fields),
    AIO_ROUTE("DELETE", "/nodejs/sessions/{session_id}", "aio_nodejs_delete", "End one of them.", .run = code_delete),
    AIO_ROUTE("POST", "/code/execute", "aio_code_execute", "Run Python or JavaScript, once or in a session.",
              .run = code_execute, .body = code_execute_fields),
    AIO_ROUTE("GET", "/code/info", "aio_code_info", "Which of these languages the box has.", .run = code_info),
    AIO_ROUTE("GET", "/sandbox/packages/python", "aio_packages_python", "Installed packages of Python.",
              .run = code_packages),
    AIO_ROUTE("GET", "/sandbox/packages/nodejs", "aio_packages_nodejs", "Installed packages of Node.js.",
              .run = code_packages),
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};
