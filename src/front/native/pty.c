/* A terminal over a WebSocket: binary frames are bytes, text frames are small JSON. Called through native_routes.
 * Invariant: when the client goes away, the terminal keeps running and can be attached again; while the box does not
 * accept input, no more is read from the client (back-pressure), and output continues. */
#include <jansson.h>

#include "front/native/ticket.h"
#include "front/ws_pump.h"

const struct row pty_query[] = {
    {ASK(cols, INT), .min = 1, .max = 4096, .fallback = 80, .text = "columns"},
    {ASK(rows, INT), .min = 1, .max = 4096, .fallback = 24, .text = "lines"},
    {ASK(command, TEXT), .flags = ROW_AUDITED, .max = LIMIT_URI_BYTES, .text = "default: the box's shell, interactive"},
    {ASK(cwd, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES, .text = "default: the workspace"},
    {ASK(user, TEXT), .flags = ROW_AUDITED, .choices = "agent|root", .text = "who runs it inside; default agent"},
    {ASK(term, TEXT), .min = 1, .max = LIMIT_TERM_BYTES,
     .text = "the terminal's name, TERM: letters, digits and +._-; default xterm-256color"},
    {ASK(env, MAP), .flags = ROW_SECRET, .max = LIMIT_ENV_COUNT - 1,
     .text = "environment of the command, a JSON object of strings"},
    {ASK(pid, INT), .min = 1, .max = INT32_MAX, .text = "attach to this terminal again"},
    {ASK(offset, INT), .max = INT64_MAX, .text = "with pid: first output byte wanted"},
    TICKET_ROW,
    {.name = NULL},
};

struct native_pty {
    struct ws_pump pump;
    struct box *box;
    uint64_t pid;
    bool warned; /* a warning about a bad text frame was sent */
};

/* Makes the environment with TERM from `term`, else from `env`, else the default. */
static int native_pty_env(struct native_pty *pty, const struct native_args *args, const char *const **ret_env,
                          struct err *err) {
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+._-";
    const char *term = args->term.data;
    if (term && strspn(term, good) != args->term.len)
        return err_set(err, ERR_INVALID, "'term' must be letters, digits and +._-, such as xterm-256color");
    size_t count = 0, used = 0;
    while (args->env && args->env[count])
        count++;
    const char **env = arena_alloc(http_arena(pty->pump.request), (count + 2) * sizeof *env);
    bool named = false;
    for (size_t i = 0; i < count; i++) {
        bool is_term = strncmp(args->env[i], "TERM=", 5) == 0;
        named = named || is_term;
        if (!is_term || !term)
            env[used++] = args->env[i];
    }
    if (term || !named)
        env[used++] = arena_printf(http_arena(pty->pump.request), "TERM=%s", term ? term : "xterm-256color");
    env[used] = NULL;
    *ret_env = env;
    return 0;
}

static int native_pty_open(struct native_pty *pty, const struct native_args *args, struct err *err) {
    struct exec_request exec = {
        .command = args->command.data ? args->command.data : "exec \"${SHELL:-/bin/sh}\"",
        .cwd = args->cwd.data,
        .root = args->user.data && !strcmp(args->user.data, "root"),
        .pty = true,
        .cols = (unsigned)args->cols.value,
        .rows = (unsigned)args->rows.value,
    };
    uint64_t started_ms;
    pty->pid = args->pid.value;
    if (!args->pid.has) {
        STEP(native_pty_env(pty, args, &exec.env, err) ?: box_spawn(pty->box, &exec, &pty->pid, &started_ms, err));
    }
    /* An unknown pid is 404, not a socket that opens and closes. */
    return box_attach(pty->box, pty->pid, args->offset.value, &pty->pump.duplex, err);
}

/* ---- from the client ---- */

/* Handles {"resize":{"cols":C,"rows":R}} and {"pause":true|false}. Anything else is ignored, with one warning per
 * connection. */
static void native_pty_text(struct native_pty *pty, const uint8_t *data, size_t len) {
    json_int_t cols = 0, rows = 0;
    int pause = 0;
    struct err err = {0};
    json_t *root = len <= 4096 ? json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    bool good = root && !json_unpack(root, "{s:{s:I,s:I}}", "resize", "cols", &cols, "rows", &rows) && cols > 0 &&
                rows > 0 && cols <= 4096 && rows <= 4096;
    bool flow = !good && root && !json_unpack(root, "{s:b}", "pause", &pause);
    json_decref(root);
    if (flow) {
        pty->pump.paused = pause;
    } else if (good) {
        box_resize(pty->box, pty->pid, (unsigned)cols, (unsigned)rows, &err);
    } else if (!pty->warned) {
        pty->warned = true;
        static const char warning[] = "{\"warning\":{\"message\":\"a text frame was ignored: it must be "
                                      "{\\\"resize\\\":{\\\"cols\\\":C,\\\"rows\\\":R}} "
                                      "with numbers from 1 to 4096, or {\\\"pause\\\":true|false}; keys go in "
                                      "binary frames\"}}";
        ws_send(pty->pump.ws, WS_TEXT, warning, sizeof warning - 1, &err);
    }
}

static int native_pty_message(void *user, enum ws_kind kind, const uint8_t *data, size_t len, struct err *err) {
    struct native_pty *pty = user;
    if (kind == WS_BINARY)
        return box_duplex_put(&pty->pump.duplex, data, len, err);
    native_pty_text(pty, data, len);
    return 0;
}

/* ---- to the client ---- */

static const struct row native_pty_exit_answer[] = {
    NATIVE_RESULT_ROWS(exec_out), OUT_INT("duration_ms", exec_out, ended.result.duration_ms, "from start to end"), END};

static int native_pty_exit(void *user, const struct exec_result *result, struct err *err) {
    struct native_pty *pty = user;
    struct exec_out ended = {0};
    struct json json;
    autobuf out = buf_max(4096);
    trail_result(pty->pump.request, result);
    native_result_out(result, &ended.ended);
    json_init(&json, &out);
    json_open(&json, '{');
    json_key(&json, "exit");
    rows_write(&json, native_pty_exit_answer, &ended);
    json_close(&json, '}');
    ws_send(pty->pump.ws, WS_TEXT, out.data, out.len, err);
    return 1;
}

static const struct ws_pump_hooks native_pty_hooks = {.message = native_pty_message, .end = native_pty_exit};

static int native_pty_run(struct native_pty *pty, struct err *err) {
    char text[80];
    int n = snprintf(text, sizeof text, "{\"started\":{\"pid\":%llu,\"offset\":%llu}}", (unsigned long long)pty->pid,
                     (unsigned long long)pty->pump.duplex.first[0]);
    if (ws_send(pty->pump.ws, WS_TEXT, text, (size_t)n, err) < 0)
        return 0;
    int result = ws_pump_run(&pty->pump, err);
    if (result < 0) {
        struct json json;
        autobuf out = buf_max(8192);
        json_init(&json, &out);
        json_failure(&json, err_name(err->code), err->text);
        ws_send(pty->pump.ws, WS_TEXT, out.data, out.len, ERR_IGNORED);
    }
    return result;
}

int native_pty(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct native_pty pty = {.box = box};
    STEP(front_query(request, &args, err) ?: ws_pump_wanted(request, err));
    ticket_protocol(request);
    ws_pump_init(&pty.pump, request, WS_PUMP_MESSAGE_BYTES, &native_pty_hooks, &pty);
    int failed = native_pty_open(&pty, &args, err) ?: ws_pump_accept(&pty.pump, err);
    if (failed && !args.pid.has && pty.pid) /* its client is gone */
        box_signal(box, pty.pid, SIGKILL, ERR_IGNORED);
    if (!failed)
        failed = native_pty_run(&pty, err);
    return ws_pump_close(&pty.pump, failed, failed ? "the box ended" : "done");
}
