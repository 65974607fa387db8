/* Port 49999 of a sandbox: its code interpreter. Code runs in contexts, which are sessions of box/interpreter; it is
 * answered with a line of JSON for each output, as it comes. Called through e2b_interpreter_routes. Invariants: a line
 * is one write; a client that hangs up interrupts its code. */

#include "base/clock.h"
#include "base/text.h"
#include "box/interpreter/interpreter.h"
#include "front/detail.h"
#include "front/e2b/e2b.h"
#include "front/e2b/entry.h"

#define CODE_BYTES (8u << 20)            /* of one piece of code */
#define CODE_VARIABLES 256u              /* of one piece of code */
#define CODE_LINE_BYTES (64u << 20)      /* of an output: what a driver sends of one, every byte an escape */
#define CONTEXT_IDLE_S 315360000u        /* contexts last as long as their sandbox */
#define CONTEXT_TYPED "ts-"              /* how the ids of contexts with types begin */
#define CONTEXT_DIED "ContextRestarting" /* what clients know it as */

struct e2b_code_args {
    struct row_text code, context_id, language, cwd;
    const char **env_vars;
};
#define ROW(label, kind, member) .name = (label), .type = ROW_##kind, .offset = offsetof(struct e2b_code_args, member)

static const struct row interpreter_execute_body[] = {
    {ROW("code", TEXT, code), .flags = ROW_REQUIRED | ROW_AUDITED, .max = CODE_BYTES, .text = "what is run"},
    {ROW("context_id", TEXT, context_id), .max = INTERPRETER_NAME_BYTES, .text = "where; default: by language"},
    {ROW("language", TEXT, language), .max = 32, .text = "python, javascript, typescript or bash; default python"},
    {ROW("env_vars", MAP, env_vars), .max = CODE_VARIABLES, .text = "variables of this code alone"},
    {.name = NULL},
};
static const struct row interpreter_context_body[] = {
    {ROW("cwd", TEXT, cwd), .flags = ROW_AUDITED, .max = INTERPRETER_CWD_BYTES, .text = "its directory"},
    {ROW("language", TEXT, language), .max = 32, .text = "as above"},
    {.name = NULL},
};

/* ---- contexts ---- */

static const struct {
    const char *name, *other;
    const struct language *language;
    const char *context; /* the one that is used where none is named */
    bool typed;
} interpreter_languages[] = {
    {"python", "py", &language_python, "python", false},
    {"javascript", "js", &language_javascript, "javascript", false},
    {"typescript", "ts", &language_javascript, "javascript", true},
    {"bash", "sh", &language_bash, "bash", false},
};
enum { LANGUAGES = sizeof interpreter_languages / sizeof *interpreter_languages, LANGUAGE_NONE = LANGUAGES };

/* What a path or a request names. */
struct e2b_context {
    unsigned language; /* of interpreter_languages */
    bool started;
    struct interpreter_session session; /* name and cwd are there in any case */
};

static unsigned e2b_interpreter_language(const char *name) {
    unsigned i = 0;
    while (i < LANGUAGES && name && strcasecmp(name, interpreter_languages[i].name) != 0 &&
           strcasecmp(name, interpreter_languages[i].other) != 0)
        i++;
    return i;
}

static int e2b_interpreter_text(struct http_request *request, int status, int code, const char *text) {
    int failed = http_reply(request, status, "text/plain; charset=utf-8", text, strlen(text));
    return failed < 0 ? failed : code;
}

static int e2b_interpreter_unknown(struct http_request *request, const char *id) {
    return e2b_interpreter_text(request, 404, ERR_NOT_FOUND,
                                arena_printf(http_arena(request), "Context %.64s not found", id));
}

static int e2b_interpreter_refused(struct http_request *request, const char *language) {
    return e2b_interpreter_text(request, 400, ERR_INVALID,
                                arena_printf(http_arena(request),
                                             "language '%.32s' is not supported: use python, javascript, typescript or "
                                             "bash",
                                             language));
}

static void e2b_interpreter_name(struct e2b_context *context, const char *name, const char *cwd) {
    context->session = (struct interpreter_session){.pid = 0};
    memcpy(context->session.name, name, strlen(name) + 1);
    memcpy(context->session.cwd, cwd, strlen(cwd) + 1);
}

/* By its id, which interpreter_name_ok allows. Positive: it is answered that there is none. */
static int e2b_interpreter_find(struct http_request *request, struct box *box, const char *id,
                                struct e2b_context *context, struct err *err) {
    if (!interpreter_name_ok(id))
        return e2b_interpreter_unknown(request, id);
    bool typed = !strncmp(id, CONTEXT_TYPED, strlen(CONTEXT_TYPED));
    for (unsigned i = 0; i < LANGUAGES; i++) {
        if (interpreter_languages[i].typed != typed && interpreter_languages[i].language == &language_javascript)
            continue;
        int failed = interpreter_find(box, interpreter_languages[i].language, id, &context->session, err);
        context->language = i;
        context->started = !failed;
        if (failed != -ERR_NOT_FOUND)
            return failed;
    }
    for (unsigned i = 0; i < LANGUAGES; i++)
        if (!strcmp(id, interpreter_languages[i].context)) {
            *context = (struct e2b_context){.language = i};
            e2b_interpreter_name(context, id, E2B_HOME);
            return 0;
        }
    return e2b_interpreter_unknown(request, id);
}

/* As the user of the template's commands; in a directory that only root may enter, `user` is root. */
static int e2b_interpreter_account(struct box *box, const char *cwd, struct arena *arena,
                                   struct e2b_account *ret_account, struct err *err) {
    struct file_stat stat;
    STEP(e2b_account(box, NULL, arena, ret_account, err));
    if (ret_account->uid == E2B_USER_ID && box_has_root(box) &&
        box_stat(box, arena_printf(arena, "%s/.", cwd), arena, &stat, ERR_IGNORED) == -ERR_DENIED)
        *ret_account = e2b_account_root;
    return 0;
}

/* Starts it, unless it runs. */
static int e2b_interpreter_open(struct box *box, struct e2b_context *context, struct err *err) {
    const struct interpreter_session was = context->session;
    autoarena arena = ARENA_EMPTY;
    struct e2b_account account;
    struct exec_request as = {0};
    bool created;
    STEP(e2b_interpreter_account(box, was.cwd, &arena, &account, err));
    e2b_account_exec(&account, &as);
    const char *const env[] = {account.env[0], account.env[1], account.env[2], NULL};
    const struct interpreter_open open = {.name = was.name,
                                          .cwd = *was.cwd ? was.cwd : NULL,
                                          .idle_s = CONTEXT_IDLE_S,
                                          .root = as.root && box_has_root(box),
                                          .uid = as.uid,
                                          .gid = as.gid,
                                          .env = env,
                                          .sudo = true};
    return interpreter_open(box, interpreter_languages[context->language].language, &open, &context->session, &created,
                            err);
}

static void e2b_interpreter_context_json(struct json *json, const struct e2b_context *context) {
    const struct interpreter_session *session = &context->session;
    json_open(json, '{');
    json_put_str(json, "id", session->name);
    json_put_str(json, "language", interpreter_languages[context->language].name);
    json_put_str(json, "cwd", *session->cwd ? session->cwd : E2B_HOME);
    json_close(json, '}');
}

static int e2b_interpreter_create(struct http_request *request, struct box *box, struct err *err) {
    struct e2b_code_args args = {0};
    struct file_stat stat = {0};
    struct e2b_context context = {0};
    STEP(detail_body(request, &args, err));
    const char *cwd = args.cwd.data ? args.cwd.data : E2B_HOME;
    context.language = args.language.data ? e2b_interpreter_language(args.language.data) : 0;
    if (context.language == LANGUAGE_NONE)
        return e2b_interpreter_refused(request, args.language.data);
    int failed = entry_stat(box, arena_printf(http_arena(request), "%s/.", cwd), http_arena(request), &stat, err);
    if (*cwd != '/' || failed == -ERR_NOT_FOUND || failed == -ERR_INVALID || (!failed && stat.type != FILE_DIR))
        return e2b_interpreter_text(
            request, 400, ERR_INVALID,
            arena_printf(http_arena(request), "cwd: '%s' is not the absolute path of a directory", cwd));
    char name[INTERPRETER_NAME_BYTES + 1];
    STEP(failed ?: interpreter_new_name(interpreter_languages[context.language].typed ? CONTEXT_TYPED : "", name, err));
    e2b_interpreter_name(&context, name, cwd);
    STEP(e2b_interpreter_open(box, &context, err));
    autobuf out = buf_max(8192);
    struct json json = {.out = &out};
    e2b_interpreter_context_json(&json, &context);
    return e2b_json(request, 200, &out, err);
}

static int e2b_interpreter_by_age(const void *a, const void *b) {
    const struct e2b_context *one = a, *other = b;
    return (one->session.created_ms > other->session.created_ms) -
           (one->session.created_ms < other->session.created_ms);
}

/* Those of one language, but not the one of all its code, after the ones that are there. */
static int e2b_interpreter_gather(struct box *box, unsigned language, struct e2b_context *all, size_t *count,
                                  struct err *err) {
    struct interpreter_sessions found;
    int failed = interpreter_sessions(box, interpreter_languages[language].language, &found, err);
    for (size_t i = 0; !failed && i < found.count; i++) {
        bool typed = !strncmp(found.items[i].name, CONTEXT_TYPED, strlen(CONTEXT_TYPED)), listed = false;
        for (unsigned k = 0; k < 2; k++)
            listed |= !strcmp(found.items[i].name, all[k].session.name);
        if (!listed && !found.items[i].unnamed)
            all[(*count)++] = (struct e2b_context){
                .language = language + (typed && language == 1), .started = true, .session = found.items[i]};
    }
    return failed;
}

static int e2b_interpreter_list(struct http_request *request, struct box *box, struct err *err) {
    enum { PER_LANGUAGE = 2 * LIMIT_INTERPRETER_SESSIONS, FIRST = 2 };
    struct e2b_context *all = arena_alloc(http_arena(request), (FIRST + 3 * PER_LANGUAGE) * sizeof *all);
    size_t count = FIRST;
    for (unsigned i = 0; i < FIRST; i++) { /* there from the start */
        all[i] = (struct e2b_context){.language = i};
        e2b_interpreter_name(&all[i], interpreter_languages[i].context, E2B_HOME);
    }
    STEP(e2b_interpreter_gather(box, 0, all, &count, err) ?: e2b_interpreter_gather(box, 1, all, &count, err)
                     ?: e2b_interpreter_gather(box, 3, all, &count, err));
    qsort(all + FIRST, count - FIRST, sizeof *all, e2b_interpreter_by_age);
    autobuf out = buf_max(1 << 20);
    struct json json = json_list(&out);
    for (size_t i = 0; i < count; i++)
        e2b_interpreter_context_json(&json, &all[i]);
    json_close(&json, ']');
    return e2b_json(request, 200, &out, err);
}

static int e2b_interpreter_null(struct http_request *request) {
    return http_reply(request, 200, "application/json", "null", 4);
}

static int e2b_interpreter_restart(struct http_request *request, struct box *box, struct err *err) {
    struct e2b_context context;
    int failed = e2b_interpreter_find(request, box, http_param(request, "context_id"), &context, err);
    if (!failed && context.started)
        failed = interpreter_end_wait(box, &context.session, err);
    return failed ?: e2b_interpreter_open(box, &context, err) ?: e2b_interpreter_null(request);
}

static int e2b_interpreter_delete(struct http_request *request, struct box *box, struct err *err) {
    struct e2b_context context;
    int failed = e2b_interpreter_find(request, box, http_param(request, "context_id"), &context, err);
    if (!failed && context.started)
        failed = interpreter_end_wait(box, &context.session, err);
    return failed ?: e2b_interpreter_null(request);
}

/* ---- outputs ---- */

struct e2b_lines {
    struct http_request *request;
    struct buf out, ascii;
    size_t held;      /* of the request's memory */
    struct json json; /* of the line being written */
    struct err *err;
};

static void e2b_interpreter_line(struct e2b_lines *lines, const char *type) {
    buf_clear(&lines->out);
    json_init(&lines->json, &lines->out);
    json_open(&lines->json, '{');
    json_put_str(&lines->json, "type", type);
}

/* The line with escapes for what is not ASCII, which can only be in strings: clients decode each piece that they read
 * by itself, and so no character is cut. */
static void e2b_interpreter_ascii(const struct buf *in, struct buf *out) {
    buf_clear(out);
    for (size_t i = 0, n; i < in->len; i += n) {
        uint32_t point;
        for (n = 0; i + n < in->len && in->data[i + n] < 0x80; n++)
            ;
        buf_put(out, in->data + i, n);
        i += n;
        if (i == in->len)
            return;
        n = text_character(in->data + i, in->len - i, &point);
        if (!n)
            n = 1, point = 0xfffd;
        if (point >= 0x10000)
            buf_printf(out, "\\u%04x", 0xd800 + ((point - 0x10000) >> 10)),
                point = 0xdc00 + ((point - 0x10000) & 0x3ff);
        buf_printf(out, "\\u%04x", point);
    }
}

static int e2b_interpreter_send(struct e2b_lines *lines) {
    size_t held = lines->held;
    json_close(&lines->json, '}');
    buf_byte(&lines->out, '\n');
    e2b_interpreter_ascii(&lines->out, &lines->ascii);
    if (lines->out.failed || lines->ascii.failed)
        return err_set(lines->err, ERR_TOO_LARGE, "an output has more than %u bytes", CODE_LINE_BYTES);
    lines->held = lines->out.cap + lines->ascii.cap;
    int failed = lines->held > held ? http_hold(lines->request, lines->held - held, lines->err) : 0;
    return failed ?: http_reply_write(lines->request, lines->ascii.data, lines->ascii.len);
}

static int e2b_interpreter_begun(void *user, int64_t number) {
    struct e2b_lines *lines = user;
    e2b_interpreter_line(lines, "number_of_executions");
    json_put_int(&lines->json, "execution_count", number);
    return e2b_interpreter_send(lines);
}

/* Forms of a value by the names that clients have for them; of others they make "extra". */
static const struct {
    const char *type, *member;
    bool json;
} interpreter_forms[] = {
    {"text/plain", "text", false},
    {"text/html", "html", false},
    {"text/markdown", "markdown", false},
    {"image/svg+xml", "svg", false},
    {"image/png", "png", false},
    {"image/jpeg", "jpeg", false},
    {"application/pdf", "pdf", false},
    {"text/latex", "latex", false},
    {"application/json", "json", true},
    {"application/javascript", "javascript", false},
    {"application/vnd.cubby.data+json", "data", true},
    {"application/vnd.cubby.chart+json", "chart", true},
};

static const char *e2b_interpreter_member(const struct interpreter_mime *mime) {
    for (size_t i = 0; i < sizeof interpreter_forms / sizeof *interpreter_forms; i++)
        if (!strcmp(mime->type, interpreter_forms[i].type) && (interpreter_forms[i].json || !mime->json))
            return interpreter_forms[i].member;
    return NULL;
}

static void e2b_interpreter_form(struct json *json, const char *member, const struct interpreter_mime *mime) {
    const char *text = mime->text;
    size_t len = mime->len;
    bool quoted = len > 1 && (*text == '\'' || *text == '"') && text[len - 1] == *text;
    json_key(json, member);
    if (mime->json)
        json_raw(json, text, len);
    else if (quoted && !strcmp(member, "text"))
        json_strn(json, text + 1, len - 2);
    else
        json_strn(json, text, len);
}

static void e2b_interpreter_result_json(struct json *json, const struct interpreter_output *output) {
    json_put_bool(json, "is_main_result", output->kind == OUTPUT_RESULT);
    for (const struct interpreter_mime *mime = output->mimes; mime < output->mimes + output->count; mime++) {
        const char *member = e2b_interpreter_member(mime);
        if (member || strchr(mime->type, '/')) /* a box cannot choose a name of ours */
            e2b_interpreter_form(json, member ? member : mime->type, mime);
    }
}

static void e2b_interpreter_error_json(struct json *json, const struct interpreter_output *output, const char *name) {
    autobuf trace = buf_max(CODE_LINE_BYTES);
    for (const char *const *line = output->traceback; *line; line++) {
        buf_puts(&trace, line == output->traceback ? "" : "\n");
        buf_puts(&trace, *line);
    }
    json_put_str(json, "name", name);
    json_put_strn(json, "value", output->text, output->len);
    json_put_strn(json, "traceback", trace.data, trace.len);
}

static int e2b_interpreter_output(void *user, const struct interpreter_output *output) {
    struct e2b_lines *lines = user;
    switch (output->kind) {
    case OUTPUT_STREAM:
        e2b_interpreter_line(lines, output->is_stderr ? "stderr" : "stdout");
        json_put_strn(&lines->json, "text", output->text, output->len);
        json_put_time(&lines->json, "timestamp", clock_wall_ms());
        break;
    case OUTPUT_FAILURE:
        e2b_interpreter_line(lines, "error");
        e2b_interpreter_error_json(&lines->json, output, output->name);
        break;
    default:
        e2b_interpreter_line(lines, "result");
        e2b_interpreter_result_json(&lines->json, output);
    }
    return e2b_interpreter_send(lines);
}

/* ---- running ---- */

static int e2b_interpreter_hold(void *user, size_t bytes, struct err *err) {
    return http_hold(user, bytes, err);
}

/* Another one of that name, unless it is there. A failure is that of its next use. */
static void e2b_interpreter_replace(struct e2b_lines *lines, struct box *box, struct e2b_context *context,
                                    const char *cwd) {
    struct err ignored;
    e2b_interpreter_name(context, arena_strdup(http_arena(lines->request), context->session.name), cwd);
    e2b_interpreter_open(box, context, &ignored);
}

/* Reported at the end: how the context died, if it did. Then it is replaced. */
static int e2b_interpreter_finish(struct e2b_lines *lines, struct box *box, struct e2b_context *context,
                                  const char *cwd, const struct interpreter_result *result) {
    int failed = 0;
    for (size_t i = 0; !failed && i < result->count; i++) {
        e2b_interpreter_line(lines, "error");
        e2b_interpreter_error_json(&lines->json, &result->outputs[i],
                                   result->ended ? CONTEXT_DIED : result->outputs[i].name);
        failed = e2b_interpreter_send(lines);
    }
    if (result->ended)
        e2b_interpreter_replace(lines, box, context, cwd);
    e2b_interpreter_line(lines, "end_of_execution");
    return failed ?: e2b_interpreter_send(lines) ?: http_reply_end(lines->request);
}

static int e2b_interpreter_run(struct http_request *request, struct box *box, const struct e2b_code_args *args,
                               struct e2b_context *context, bool typed, struct err *err) {
    struct e2b_lines lines = {
        .request = request, .out = buf_max(CODE_LINE_BYTES), .ascii = buf_max(CODE_LINE_BYTES), .err = err};
    const struct interpreter_sink sink = {
        .begun = e2b_interpreter_begun, .output = e2b_interpreter_output, .user = &lines};
    const struct interpreter_caller caller = {.watch = http_fd(request), .hold = e2b_interpreter_hold, .user = request};
    const struct interpreter_run run = {.code = args->code.data,
                                        .len = args->code.len,
                                        .name = context->session.name,
                                        .idle_s = CONTEXT_IDLE_S,
                                        .env = (const char *const *)args->env_vars,
                                        .sink = &sink,
                                        .typed = typed};
    const char *cwd = context->language == 3 ? E2B_HOME : arena_strdup(http_arena(request), context->session.cwd);
    struct interpreter_session session;
    autoresult result = {0};
    int failed = http_reply_begin(request, 200, "application/json", -1) ?: http_reply_flush(request);
    if (!failed)
        failed = interpreter_run(box, interpreter_languages[context->language].language, &run, &caller, &session,
                                 &result, err);
    if (!failed)
        failed = e2b_interpreter_finish(&lines, box, context, cwd, &result);
    else
        e2b_interpreter_replace(&lines, box, context, cwd); /* what could not be interrupted was ended */
    buf_done(&lines.out);
    buf_done(&lines.ascii);
    return failed;
}

static bool e2b_interpreter_variables(const char **rows) {
    for (; rows && *rows; rows++) {
        size_t len = strcspn(*rows, "=");
        const char *at = *rows;
        for (size_t i = 0; i < len; i++)
            if (!(at[i] == '_' || (at[i] >= 'A' && at[i] <= 'Z') || (at[i] >= 'a' && at[i] <= 'z') ||
                  (i && at[i] >= '0' && at[i] <= '9')))
                return false;
        if (!len)
            return false;
    }
    return true;
}

static int e2b_interpreter_execute(struct http_request *request, struct box *box, struct err *err) {
    struct e2b_code_args args = {0};
    struct e2b_context context = {0};
    STEP(detail_body(request, &args, err));
    if (args.context_id.data && args.language.data)
        return e2b_interpreter_text(request, 400, ERR_INVALID,
                                    "Only one of context_id or language can be provided: a context has its language");
    if (!e2b_interpreter_variables(args.env_vars))
        return e2b_interpreter_text(request, 400, ERR_INVALID,
                                    "env_vars: names are letters, digits and _, and do not begin with a digit");
    unsigned language = args.language.data ? e2b_interpreter_language(args.language.data) : 0;
    if (language == LANGUAGE_NONE)
        return e2b_interpreter_refused(request, args.language.data);
    const char *id = args.context_id.data ? args.context_id.data : interpreter_languages[language].context;
    int failed = e2b_interpreter_find(request, box, id, &context, err);
    if (!failed && !context.started)
        failed = e2b_interpreter_open(box, &context, err);
    bool typed = interpreter_languages[args.context_id.data ? context.language : language].typed;
    return failed ?: e2b_interpreter_run(request, box, &args, &context, typed, err);
}

static int e2b_interpreter_health(struct http_request *request, struct box *, struct err *) {
    return http_reply(request, 200, "application/json", "\"OK\"", 4);
}

#define CODE_ROUTE(method, path, name, summary, ...)                                                                   \
    { method, E2B_CODE path, front_handle, 0, name, summary, ENDPOINT(__VA_ARGS__) }

const struct route e2b_interpreter_routes[] = {
    CODE_ROUTE("GET", "/health", "e2b_code_health", "E2B: whether code can be run", .run = e2b_interpreter_health,
               .flags = ENDPOINT_LENIENT | ENDPOINT_QUIET, .status = 200),
    CODE_ROUTE("POST", "/execute", "e2b_code_execute", "E2B: run code; its outputs are lines of JSON",
               .run = e2b_interpreter_execute, .flags = ENDPOINT_LENIENT, .body = interpreter_execute_body,
               .status = 200),
    CODE_ROUTE("POST", "/contexts", "e2b_code_create", "E2B: make a context: code in it shares its state",
               .run = e2b_interpreter_create, .flags = ENDPOINT_LENIENT, .body = interpreter_context_body,
               .status = 200),
    CODE_ROUTE("GET", "/contexts", "e2b_code_list", "E2B: contexts of a sandbox", .run = e2b_interpreter_list,
               .flags = ENDPOINT_LENIENT, .status = 200),
    CODE_ROUTE("POST", "/contexts/{context_id}/restart", "e2b_code_restart", "E2B: restart a context",
               .run = e2b_interpreter_restart, .flags = ENDPOINT_LENIENT, .status = 200),
    CODE_ROUTE("DELETE", "/contexts/{context_id}", "e2b_code_delete", "E2B: end a context",
               .run = e2b_interpreter_delete, .flags = ENDPOINT_LENIENT, .status = 200),
    {0},
};
