/* A terminal over a WebSocket: binary frames are bytes, text frames are small JSON. Called through native_routes.
 * Invariant: when the client goes, the terminal lives on and can be attached again; when the box does not take
 * input, no more of it is read from the client (back-pressure), and output goes on. */
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "front/native/native.h"
#include "front/native/args.h"
#include "front/trail.h"

#define PTY_MESSAGE_BYTES (1u << 20)
#define PTY_TICK_MS 1000 /* how soon a stopping daemon lets a terminal go */
#define PTY_PING_TICKS 30
#define PTY_ATTACH_MS 10000

#define ROW(label, kind, args, member) .name = (label), .type = ROW_##kind, .offset = offsetof(struct args, member)
const struct row pty_query[] = {
    {ROW("cols", INT, pty_args, cols), .min = 1, .max = 4096, .fallback = 80, .text = "columns"},
    {ROW("rows", INT, pty_args, rows), .min = 1, .max = 4096, .fallback = 24, .text = "lines"},
    {ROW("command", TEXT, pty_args, command), .flags = ROW_AUDITED, .max = LIMIT_URI_BYTES,
     .text = "default: the box's shell, interactive"},
    {ROW("cwd", TEXT, pty_args, cwd), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_PATH_BYTES,
     .text = "default: the workspace"},
    {ROW("user", TEXT, pty_args, user), .flags = ROW_AUDITED, .choices = "agent|root",
     .text = "who runs it inside; default agent"},
    {ROW("term", TEXT, pty_args, term), .min = 1, .max = LIMIT_TERM_BYTES,
     .text = "the terminal's name, TERM: letters, digits and +._-; default xterm-256color"},
    {ROW("env", MAP, pty_args, env), .flags = ROW_SECRET, .max = LIMIT_ENV_COUNT - 1,
     .text = "environment of the command, a JSON object of strings"},
    {ROW("pid", INT, pty_args, pid), .min = 1, .max = INT32_MAX, .text = "attach to this terminal again"},
    {ROW("offset", INT, pty_args, offset), .max = INT64_MAX, .text = "with pid: first output byte wanted"},
    {.name = NULL},
};

struct native_pty {
    struct http_request *request;
    struct box *box;
    struct ws *ws;
    struct call *call;
    uint64_t pid;
    struct buf pending; /* input that the box has not taken yet */
    uint64_t tick_ms;
    unsigned ticks;
    bool warned; /* a text frame that was not understood was answered */
};

static int native_pty_open(struct native_pty *pty, const struct pty_args *args, struct err *err);
static int native_pty_pump(struct native_pty *pty, struct err *err);

int native_pty(struct http_request *request, struct box *box, struct err *err) {
    struct pty_args args = {0};
    struct native_pty pty = {.request = request, .box = box};
    const char *upgrade = http_header(request, "upgrade");
    int failed = front_query(request, &args, err);
    if (failed)
        return failed;
    if (!upgrade || !strcasestr(upgrade, "websocket")) /* before a process is started for nothing */
        return err_set(err, ERR_INVALID, "a terminal needs a WebSocket: send Upgrade: websocket");
    buf_init(&pty.pending, PTY_MESSAGE_BYTES);
    failed = native_pty_open(&pty, &args, err);
    if (!failed)
        failed = ws_accept(request, PTY_MESSAGE_BYTES, &pty.ws, err);
    if (failed && !args.pid.has && pty.pid) { /* started for nobody */
        struct err ignored = {0};
        box_signal(box, pty.pid, SIGKILL, &ignored);
    }
    if (!failed)
        failed = native_pty_pump(&pty, err);
    if (pty.ws)
        ws_close(pty.ws,
                 failed                                            ? 1011
                 : http_server_stopping(front_of(request)->server) ? 1001
                                                                   : 1000,
                 failed ? "the box ended" : "done");
    call_close(pty.call);
    buf_done(&pty.pending);
    return pty.ws && failed < 0 ? -failed : failed;
}

/* The runner's word comes first: an unknown pid is a 404, not a socket that opens and closes. */
static int native_pty_attached(struct native_pty *pty, struct err *err) {
    struct event event;
    const struct call_wait wait = {.fd = -1, .deadline_ms = clock_ms() + PTY_ATTACH_MS};
    int failed = call_next(pty->call, &wait, &event, err);
    if (!failed && event.kind != EVENT_STAT)
        failed = err_set(err, ERR_PROTOCOL, "the runner did not answer an attach as it should");
    return failed;
}

/* The environment with the terminal's name: that of `term`, else of `env`, else the usual one. */
static int native_pty_env(struct native_pty *pty, const struct pty_args *args, const char *const **ret_env,
                          struct err *err) {
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+._-";
    const char *term = args->term.data;
    if (term && strspn(term, good) != args->term.len)
        return err_set(err, ERR_INVALID, "'term' must be letters, digits and +._-, such as xterm-256color");
    size_t count = 0, used = 0;
    while (args->env && args->env[count])
        count++;
    const char **env = arena_alloc(http_arena(pty->request), (count + 2) * sizeof *env);
    bool named = false;
    for (size_t i = 0; i < count; i++) {
        bool is_term = strncmp(args->env[i], "TERM=", 5) == 0;
        named = named || is_term;
        if (!is_term || !term)
            env[used++] = args->env[i];
    }
    if (term || !named)
        env[used++] = arena_printf(http_arena(pty->request), "TERM=%s", term ? term : "xterm-256color");
    env[used] = NULL;
    *ret_env = env;
    return 0;
}

static int native_pty_open(struct native_pty *pty, const struct pty_args *args, struct err *err) {
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
        int failed = native_pty_env(pty, args, &exec.env, err);
        if (failed)
            return failed;
        failed = box_spawn(pty->box, &exec, &pty->pid, &started_ms, err);
        if (failed)
            return failed;
    }
    int failed = box_attach(pty->box, pty->pid, args->offset.value, &pty->call, err);
    return failed ? failed : native_pty_attached(pty, err);
}

/* ---- from the client ---- */

static int native_pty_feed(struct native_pty *pty, struct err *err) {
    if (!pty->pending.len)
        return 0;
    ssize_t taken = call_send(pty->call, pty->pending.data, pty->pending.len, err);
    if (taken < 0)
        return (int)taken;
    buf_consume(&pty->pending, (size_t)taken);
    return 0;
}

static void native_pty_warn(struct native_pty *pty, const char *text) {
    autobuf out;
    struct json json;
    struct err ignored = {0};
    buf_init(&out, 4096);
    json_init(&json, &out);
    json_open(&json, '{');
    json_put_open(&json, "warning", '{');
    json_put_str(&json, "message", text);
    json_close(&json, '}');
    json_close(&json, '}');
    ws_send(pty->ws, WS_TEXT, out.data, out.len, &ignored);
}

/* {"resize":{"cols":C,"rows":R}}. Anything else is ignored with a warning, one for a connection: a client that repeats it
 * does not get flooded. */
static void native_pty_text(struct native_pty *pty, const uint8_t *data, size_t len) {
    json_int_t cols = 0, rows = 0;
    struct err err = {0};
    json_t *root = len <= 4096 ? json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    bool good = root && !json_unpack(root, "{s:{s:I,s:I}}", "resize", "cols", &cols, "rows", &rows) && cols > 0 &&
                rows > 0 && cols <= 4096 && rows <= 4096;
    json_decref(root);
    if (good) {
        box_resize(pty->box, pty->pid, (unsigned)cols, (unsigned)rows, &err);
    } else if (!pty->warned) {
        pty->warned = true;
        native_pty_warn(pty,
                        "a text frame was ignored: it must be {\"resize\":{\"cols\":C,\"rows\":R}} with numbers from 1 "
                        "to 4096; keys go in binary frames");
    }
}

/* Takes messages until there is none or the box's input is full. 1: the client closed. */
static int native_pty_client(struct native_pty *pty, struct err *err) {
    while (!pty->pending.len) {
        enum ws_kind kind;
        const uint8_t *data;
        size_t len;
        int got = ws_recv(pty->ws, &kind, &data, &len, err);
        if (got < 0)
            return 1;
        if (!got)
            return 0;
        if (kind == WS_TEXT) {
            native_pty_text(pty, data, len);
            continue;
        }
        buf_put(&pty->pending, data, len);
        int failed = native_pty_feed(pty, err);
        if (failed)
            return failed;
    }
    return 0;
}

/* ---- to the client ---- */

static int native_pty_exit(struct native_pty *pty, const struct event *event, struct err *err) {
    struct exec_result result = {0};
    int failed = exec_result_decode(pty->box, event, &result, err);
    if (failed)
        return failed;
    trail_result(pty->request, &result);
    autobuf out;
    struct json json;
    buf_init(&out, 4096);
    json_init(&json, &out);
    json_open(&json, '{');
    json_put_open(&json, "exit", '{');
    native_result_json(&json, &result);
    json_put_uint(&json, "duration_ms", result.duration_ms);
    json_close(&json, '}');
    json_close(&json, '}');
    ws_send(pty->ws, WS_TEXT, out.data, out.len, err);
    return 1;
}

static int native_pty_failed(struct native_pty *pty, int failed, struct err *err) {
    autobuf out;
    struct json json;
    struct err ignored = {0};
    buf_init(&out, 8192);
    json_init(&json, &out);
    json_failure(&json, err_name(err->code), err->text);
    ws_send(pty->ws, WS_TEXT, out.data, out.len, &ignored);
    return failed;
}

/* 0 go on, 1 over, negative failed. */
static int native_pty_event(struct native_pty *pty, const struct event *event, struct err *err) {
    switch (event->kind) {
    case EVENT_DATA:
        return ws_send(pty->ws, WS_BINARY, event->data, event->len, err) < 0 ? 1 : 0;
    case EVENT_END:
        return native_pty_exit(pty, event, err);
    case EVENT_INPUT: {
        int failed = native_pty_feed(pty, err);
        return failed ? failed : native_pty_client(pty, err);
    }
    case EVENT_READY:
        if (event->revents & POLLIN)
            return native_pty_client(pty, err);
        return event->revents & (POLLRDHUP | POLLHUP | POLLERR) ? 1 : 0;
    default:
        return 0;
    }
}

/* 1: over, because the daemon stops (the terminal lives on) or nobody answers. */
static int native_pty_tick(struct native_pty *pty, struct err *err) {
    pty->tick_ms = clock_ms() + PTY_TICK_MS;
    if (http_server_stopping(front_of(pty->request)->server))
        return 1;
    return ++pty->ticks % PTY_PING_TICKS == 0 && ws_ping(pty->ws, err) < 0;
}

static int native_pty_pump(struct native_pty *pty, struct err *err) {
    char text[80];
    int n = snprintf(text, sizeof text, "{\"started\":{\"pid\":%llu}}", (unsigned long long)pty->pid);
    if (ws_send(pty->ws, WS_TEXT, text, (size_t)n, err) < 0)
        return 0;
    int result = native_pty_client(pty, err); /* frames that came with the upgrade */
    pty->tick_ms = clock_ms() + PTY_TICK_MS;
    while (!result) {
        struct event event;
        struct call_wait wait = {.fd = http_fd(pty->request), .deadline_ms = pty->tick_ms};
        wait.events = pty->pending.len ? POLLRDHUP : POLLIN | POLLRDHUP;
        result = call_next(pty->call, &wait, &event, err);
        if (result == -ERR_TIMEOUT) {
            result = native_pty_tick(pty, err);
            continue;
        }
        if (!result)
            result = native_pty_event(pty, &event, err);
    }
    return result < 0 ? native_pty_failed(pty, result, err) : 0;
}
