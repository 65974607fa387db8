/* A terminal on a session over a WebSocket, shared with the routes that run
 * commands in it: what any of them prints is seen here, and what is typed goes
 * to the command that runs, or, where none does, is a command of the session as
 * exec would run it. So the lines between commands are edited here, not by the
 * shell. Called through aio_shell_routes. Invariant: when the client goes,
 * the session and its command live on; when the box does not take input, no
 * more of it is read from the client, and output goes on. */
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/headtail.h"
#include "base/limits.h"
#include "front/aio/shell.h"
#include "front/ws_pump.h"

#define RESTORE_BYTES (256u << 10) /* of what was printed before */
#define IDLE_TICK_MS 1000u
#define BUSY_TICK_MS 50u  /* how soon the prompt is back */
#define LONG_TICK_MS 250u /* of a command that runs for longer than that many ticks */
#define TYPED_AHEAD_MS                                                                                                 \
    200u /* a line that comes so early is the next command, unless this one      \
          still runs then */

struct ws_args {
    struct row_text session_id, protocol;
    struct row_number cols, rows;
};

const struct row aio_shell_ws_query[] = {
    {.name = "session_id",
     .type = ROW_TEXT,
     .flags = ROW_AUDITED,
     .offset = offsetof(struct ws_args, session_id),
     .max = LIMIT_PATH_BYTES,
     .text = "default: a new one"},
    {.name = "protocol",
     .type = ROW_TEXT,
     .offset = offsetof(struct ws_args, protocol),
     .max = 64,
     .text = "binary: what is typed and printed goes in binary messages"},
    {.name = "cols",
     .type = ROW_INT,
     .offset = offsetof(struct ws_args, cols),
     .min = 1,
     .max = 4096,
     .fallback = 80,
     .text = "of the terminal"},
    {.name = "rows",
     .type = ROW_INT,
     .offset = offsetof(struct ws_args, rows),
     .min = 1,
     .max = 4096,
     .fallback = 24,
     .text = "of the terminal"},
    {.name = NULL},
};

struct terminal {
    struct ws_pump pump; /* held: typed while something runs, and not taken yet */
    struct box *box;
    const char *name;
    bool binary;
    struct buf line; /* typed while nothing runs */
    struct buf out;  /* one message */
    struct json json;
    uint8_t held[4]; /* the beginning of a UTF-8 sequence whose rest has not come
                      yet */
    size_t held_count;
    unsigned escape;         /* inside of an escape sequence that is typed: 1 after ESC, 2
                      behind ESC [ */
    bool typed_cr;           /* a line feed behind it is the same key */
    bool shown_cr, at_start; /* of the last byte shown: it was a carriage return;
                              it ended a line */
    bool ours;               /* the command that runs was typed here: its terminal ends lines by
                itself */
    bool prompted;
    bool redraw; /* the line was changed in the middle of what was typed: it is shown when that has all been taken */
    /* as of the last look */
    bool busy, gone;
    char cwd[LIMIT_PATH_BYTES + 1];
    uint64_t pid, to, commands;
    uint64_t seen; /* offset of the next byte that the attached call brings */
    uint64_t since_ms, ping_ms;
};

static const struct ws_pump_hooks terminal_hooks;
static int terminal_pump(struct terminal *terminal, struct err *err);
static int terminal_begin(struct terminal *terminal, const struct ws_args *args, struct err *err);

int aio_shell_ws(struct http_request *request, struct box *box, struct err *err) {
    struct ws_args args = {0};
    int failed = detail_query(request, &args, err);
    if (!failed)
        failed = ws_pump_wanted(request, err);
    if (failed)
        return failed;
    struct terminal terminal = {.box = box, .name = args.session_id.data, .at_start = true};
    terminal.binary = args.protocol.data && !strcmp(args.protocol.data, "binary");
    /* A line that another command came before, and two messages. */
    ws_pump_init(&terminal.pump, request, 4 * WS_PUMP_MESSAGE_BYTES, &terminal_hooks, &terminal);
    terminal.pump.duplex.room = WS_PUMP_MESSAGE_BYTES;
    buf_init(&terminal.line, WS_PUMP_MESSAGE_BYTES);
    buf_init(&terminal.out, 6 * WS_PUMP_MESSAGE_BYTES + 4096); /* every byte an escape */
    failed = terminal_begin(&terminal, &args, err);
    if (!failed)
        failed = terminal_pump(&terminal, err);
    buf_done(&terminal.line);
    buf_done(&terminal.out);
    return ws_pump_close(&terminal.pump, failed,
                         failed < 0      ? "the box ended"
                         : terminal.gone ? "the session ended"
                                         : "done");
}

/* ---- messages ---- */

static void message_open(struct terminal *terminal, const char *type) {
    buf_clear(&terminal->out);
    json_init(&terminal->json, &terminal->out);
    json_open(&terminal->json, '{');
    json_put_str(&terminal->json, "type", type);
}

/* 0, or 1: nobody listens. */
static int message_send(struct terminal *terminal) {
    struct err ignored = {0};
    json_close(&terminal->json, '}');
    return ws_send(terminal->pump.ws, WS_TEXT, terminal->out.data, terminal->out.len, &ignored) < 0;
}

static int message_text(struct terminal *terminal, const char *type, const char *text) {
    message_open(terminal, type);
    json_put_str(&terminal->json, "data", text);
    return message_send(terminal);
}

static int message_time(struct terminal *terminal, const char *type, uint64_t timestamp) {
    message_open(terminal, type);
    json_put_uint(&terminal->json, "data", timestamp);
    json_put_uint(&terminal->json, "timestamp", timestamp);
    return message_send(terminal);
}

/* Bytes for the screen. */
static int message_bytes(struct terminal *terminal, const char *type, const uint8_t *data, size_t len) {
    struct err ignored = {0};
    if (!len)
        return 0;
    terminal->at_start = data[len - 1] == '\n';
    if (terminal->binary)
        return ws_send(terminal->pump.ws, WS_BINARY, data, len, &ignored) < 0;
    message_open(terminal, type);
    json_put_strn(&terminal->json, "data", data, len);
    return message_send(terminal);
}

static int terminal_say(struct terminal *terminal, const char *text) {
    return message_bytes(terminal, "output", (const uint8_t *)text, strlen(text));
}

/* What a command printed. Sessions end lines with a line feed alone, screens
 * want a carriage return before it. */
static int terminal_show(struct terminal *terminal, const char *type, const uint8_t *data, size_t len, bool raw) {
    autobuf text = buf_max(2 * WS_PUMP_MESSAGE_BYTES);
    buf_put(&text, terminal->held, terminal->held_count);
    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\n' && !terminal->shown_cr && !raw)
            buf_byte(&text, '\r');
        buf_byte(&text, data[i]);
        terminal->shown_cr = data[i] == '\r';
    }
    size_t hold = terminal->binary ? 0 : headtail_partial(text.data, text.len);
    memcpy(terminal->held, text.data + text.len - hold, hold);
    terminal->held_count = hold;
    return message_bytes(terminal, type, text.data, text.len - hold);
}

/* ---- the session ---- */

static void look_each(void *user, const struct session *session) {
    struct terminal *terminal = user;
    bool busy = aio_shell_busy(session);
    if (busy && (!terminal->busy || session->commands != terminal->commands))
        terminal->since_ms = clock_ms();
    terminal->busy = busy;
    terminal->ours = terminal->ours && busy && session->commands == terminal->commands;
    terminal->commands = session->commands;
    terminal->to = session->to;
    terminal->pid = session->pid;
    snprintf(terminal->cwd, sizeof terminal->cwd, "%s", session->cwd);
}

/* 0, 1 when the session is over, or negative. */
static int terminal_look(struct terminal *terminal, struct err *err) {
    int failed = box_sessions(terminal->box, terminal->name, look_each, terminal, err);
    terminal->gone = failed == -ERR_NOT_FOUND;
    return terminal->gone ? 1 : failed;
}

static int nothing_printed(void *user, int number, const uint8_t *data, size_t len) {
    (void)user, (void)number, (void)data, (void)len;
    return 0;
}

/* The line becomes a command, in a terminal as a person expects it. BUSY:
 * another came first, then it is typed to that. */
static int terminal_run(struct terminal *terminal, struct err *err) {
    autobuf command;
    autoarena arena;
    struct session_result result;
    const struct exec_sink sink = {.output = nothing_printed};
    buf_init(&command, WS_PUMP_MESSAGE_BYTES + 64);
    buf_puts(&command, AIO_SHELL_COOKED);
    buf_put(&command, terminal->line.data, terminal->line.len);
    const struct session_run run = {
        .name = terminal->name, .command = buf_cstr(&command), .background = true, .quiet_ms = 0};
    arena_init(&arena);
    int failed = box_session_run(terminal->box, &run, &sink, -1, &arena, &result, err);
    if (failed == -ERR_BUSY) {
        buf_put(&terminal->pump.duplex.held, terminal->line.data, terminal->line.len);
        buf_byte(&terminal->pump.duplex.held, '\n');
    }
    buf_clear(&terminal->line);
    terminal->prompted = false;
    if (failed == -ERR_NOT_FOUND) {
        terminal->gone = true;
        return 1;
    }
    if (failed && failed != -ERR_BUSY)
        return failed == -ERR_GONE ? failed : message_text(terminal, "error", err->text);
    terminal->busy = terminal->pump.duplex.paused = true;
    terminal->since_ms = clock_ms();
    terminal->pump.duplex.tick_ms = terminal->since_ms + BUSY_TICK_MS;
    if (!failed) {
        terminal->ours = true;
        terminal->commands++;
    }
    return 0;
}

/* ---- the line between commands ---- */

static int line_show(struct terminal *terminal) {
    autobuf text = buf_max(2 * WS_PUMP_MESSAGE_BYTES);
    buf_puts(&text, terminal->at_start && !terminal->prompted ? "" : "\r\x1b[K");
    buf_puts(&text, terminal->cwd);
    buf_puts(&text, "$ ");
    buf_put(&text, terminal->line.data, terminal->line.len);
    terminal->prompted = true;
    terminal->redraw = false;
    return message_bytes(terminal, "output", text.data, text.len);
}

static void line_drop(struct terminal *terminal) { /* its last character */
    struct buf *line = &terminal->line;
    while (line->len && (line->data[line->len - 1] & 0xc0) == 0x80)
        line->len--;
    line->len -= line->len > 0;
}

static void line_drop_word(struct terminal *terminal) {
    struct buf *line = &terminal->line;
    while (line->len && line->data[line->len - 1] == ' ')
        line->len--;
    while (line->len && line->data[line->len - 1] != ' ')
        line->len--;
}

static bool line_escape(struct terminal *terminal, uint8_t byte) {
    unsigned before = terminal->escape;
    if (before == 0)
        terminal->escape = byte == 0x1b;
    else if (before == 1)
        terminal->escape = byte == '[' || byte == 'O' ? 2 : 0;
    else
        terminal->escape = byte < 0x40 || byte > 0x7e ? 2 : 0;
    return before || terminal->escape;
}

/* Keys that change the line do not show it at once: of many that come together each would tell a line that is as long. */
static int line_control(struct terminal *terminal, uint8_t byte, struct err *err) {
    switch (byte) {
    case 0x03:
        buf_clear(&terminal->line);
        terminal->prompted = false;
        return terminal_say(terminal, "^C\r\n") || line_show(terminal);
    case 0x04:
        if (terminal->line.len)
            return 0;
        buf_puts(&terminal->line, "exit");
        return terminal_say(terminal, "\r\n") || terminal_run(terminal, err);
    case 0x08:
    case 0x7f:
        line_drop(terminal);
        terminal->redraw = true;
        return 0;
    case 0x0c:
        terminal->redraw = true;
        return terminal_say(terminal, "\x1b[H\x1b[2J");
    case 0x15:
        buf_clear(&terminal->line);
        terminal->redraw = true;
        return 0;
    case 0x17:
        line_drop_word(terminal);
        terminal->redraw = true;
        return 0;
    default:
        return 0;
    }
}

static int line_enter(struct terminal *terminal, struct err *err) {
    if ((terminal->redraw && line_show(terminal)) || terminal_say(terminal, "\r\n"))
        return 1;
    if (terminal->line.len)
        return terminal_run(terminal, err);
    terminal->prompted = false;
    return line_show(terminal);
}

/* Bytes at the beginning that only stand for themselves. */
static size_t line_plain(const uint8_t *data, size_t len) {
    size_t n = 0;
    while (n < len && (data[n] >= 0x20 || data[n] == '\t') && data[n] != 0x7f)
        n++;
    return n;
}

/* One key; more: another line end comes behind it. */
static int line_key(struct terminal *terminal, uint8_t byte, bool more, struct err *err) {
    bool again = byte == '\n' && terminal->typed_cr;
    terminal->typed_cr = byte == '\r';
    if (again || line_escape(terminal, byte))
        return 0;
    if (byte != '\r' && byte != '\n')
        return line_control(terminal, byte, err);
    if (!more || !terminal->line.len)
        return line_enter(terminal, err);
    buf_byte(&terminal->line, '\n');
    return terminal->redraw ? 0 : terminal_say(terminal, "\r\n> ");
}

/* Keys. Of several lines that come at once all but what is behind the last line end are one command. */
static int line_type(struct terminal *terminal, const uint8_t *data, size_t len, struct err *err) {
    size_t last = len;
    while (last && data[last - 1] != '\n' && data[last - 1] != '\r')
        last--;
    last -= last > 1 && data[last - 1] == '\n' && data[last - 2] == '\r';
    for (size_t i = 0, n; i < len; i += n) {
        n = terminal->escape ? 0 : line_plain(data + i, len - i);
        int result = n && !terminal->redraw ? message_bytes(terminal, "output", data + i, n) : 0;
        buf_put(&terminal->line, data + i, n);
        if (!n) {
            result = line_key(terminal, data[i], i + 1 < last, err);
            n = 1;
        }
        if (result)
            return result;
        if (terminal->busy) { /* it runs now: the rest is for it, or for later */
            buf_put(&terminal->pump.duplex.held, data + i + n, len - i - n);
            break;
        }
    }
    if (!terminal->line.failed)
        return terminal->redraw ? line_show(terminal) : 0;
    terminal->line.failed = false;
    buf_clear(&terminal->line);
    return message_text(terminal, "error", "The line is too long");
}

/* ---- from the client ---- */

static int terminal_feed(struct terminal *terminal, struct err *err) {
    terminal->pump.duplex.paused = !terminal->busy || clock_ms() < terminal->since_ms + TYPED_AHEAD_MS;
    return box_duplex_flush(&terminal->pump.duplex, err);
}

static int terminal_typed(struct terminal *terminal, const void *data, size_t len, struct err *err) {
    int result = terminal->busy ? 0 : terminal_look(terminal, err);
    if (result)
        return result;
    if (!terminal->busy && terminal->seen >= terminal->to)
        return line_type(terminal, data, len, err);
    buf_put(&terminal->pump.duplex.held, data, len);
    return terminal_feed(terminal, err);
}

static void terminal_resize(struct terminal *terminal, const json_t *root) {
    const json_t *at = json_object_get(root, "data");
    struct err ignored = {0};
    if (!json_is_object(at))
        at = root;
    json_int_t cols = json_integer_value(json_object_get(at, "cols")),
               rows = json_integer_value(json_object_get(at, "rows"));
    if (cols > 0 && rows > 0 && cols <= 4096 && rows <= 4096)
        box_resize(terminal->box, terminal->pid, (unsigned)cols, (unsigned)rows, &ignored);
}

static int terminal_control(struct terminal *terminal, const json_t *root, struct err *err) {
    const char *type = json_string_value(json_object_get(root, "type"));
    const json_t *data = json_object_get(root, "data");
    if (!type)
        return 0;
    if (!strcmp(type, "input") && json_is_string(data))
        return terminal_typed(terminal, json_string_value(data), json_string_length(data), err);
    if (!strcmp(type, "resize"))
        terminal_resize(terminal, root);
    if (!strcmp(type, "ping"))
        return message_time(terminal, "pong", (uint64_t)json_integer_value(json_object_get(root, "timestamp")));
    return 0;
}

static int terminal_message(void *user, enum ws_kind kind, const uint8_t *data, size_t len, struct err *err) {
    struct terminal *terminal = user;
    json_t *root = kind == WS_TEXT && json_measure((const char *)data, len, 8, 64) == JSON_FITS
                       ? json_loadb((const char *)data, len, JSON_ALLOW_NUL, NULL)
                       : NULL;
    int result =
        json_is_object(root) ? terminal_control(terminal, root, err) : terminal_typed(terminal, data, len, err);
    json_decref(root);
    return result;
}

/* ---- the pump ---- */

/* A command that has ended and whose output is all here: the line is edited
 * again. */
static int terminal_settle(struct terminal *terminal, struct err *err) {
    if (terminal->busy || terminal->prompted || terminal->seen < terminal->to)
        return 0;
    if (!terminal->at_start && terminal_say(terminal, "\r\n"))
        return 1;
    int result = line_show(terminal);
    if (result || !terminal->pump.duplex.held.len)
        return result;
    autobuf typed = buf_max(4 * WS_PUMP_MESSAGE_BYTES);
    buf_put(&typed, terminal->pump.duplex.held.data, terminal->pump.duplex.held.len);
    buf_clear(&terminal->pump.duplex.held);
    return line_type(terminal, typed.data, typed.len, err);
}

/* 1: over, because the session has ended or nobody answers. */
static int terminal_tick(void *user, struct err *err) {
    struct terminal *terminal = user;
    uint64_t now_ms = clock_ms();
    int result = terminal_look(terminal, err);
    if (!result)
        result = terminal_settle(terminal, err);
    if (!result)
        result = terminal_feed(terminal, err);
    if (!result && now_ms >= terminal->ping_ms) {
        terminal->ping_ms = now_ms + WS_PUMP_PING_MS;
        result = message_time(terminal, "ping", clock_wall_ms());
    }
    bool young = now_ms < terminal->since_ms + 2 * LONG_TICK_MS;
    terminal->pump.duplex.tick_ms = now_ms + (!terminal->busy ? IDLE_TICK_MS : young ? BUSY_TICK_MS : LONG_TICK_MS);
    return result;
}

static int terminal_data(void *user, const uint8_t *data, size_t len, struct err *err) {
    struct terminal *terminal = user;
    (void)err;
    terminal->seen += len;
    if (terminal->prompted) { /* somebody else's command: not behind what is being typed */
        terminal->prompted = false;
        if (terminal_say(terminal, "\r\x1b[K"))
            return 1;
    }
    terminal->pump.duplex.tick_ms = clock_ms() + BUSY_TICK_MS;
    return terminal_show(terminal, "output", data, len, terminal->ours);
}

static int terminal_end(void *user, const struct exec_result *result, struct err *err) {
    struct terminal *terminal = user;
    (void)result, (void)err;
    terminal->gone = true;
    return 1;
}

static const struct ws_pump_hooks terminal_hooks = {
    .message = terminal_message, .data = terminal_data, .tick = terminal_tick, .end = terminal_end};

static int terminal_pump(struct terminal *terminal, struct err *err) {
    terminal->ping_ms = clock_ms() + WS_PUMP_PING_MS;
    int result = ws_pump_run(&terminal->pump, err);
    if (terminal->gone)
        message_text(terminal, "closed", "Session ended");
    else if (result < 0)
        message_text(terminal, "error", err->text);
    return result < 0 && !terminal->gone ? result : 0;
}

/* ---- the beginning ---- */

static int terminal_greet(struct terminal *terminal, const struct buf *before, bool resumed) {
    message_open(terminal, "ready");
    json_put_str(&terminal->json, "data", terminal->name);
    json_put_str(&terminal->json, "session_id", terminal->name);
    json_put_str(&terminal->json, "transport", terminal->binary ? "binary" : "json");
    json_put_str(&terminal->json, "backend", "native");
    json_put_bool(&terminal->json, "resumed", resumed);
    if (message_send(terminal))
        return 1;
    if (!before->len)
        return 0;
    return terminal_show(terminal, "restore_output", before->data, before->len, false) ||
           message_text(terminal, "terminal_restored", terminal->name);
}

static int terminal_begin(struct terminal *terminal, const struct ws_args *args, struct err *err) {
    const struct session_request wanted = {
        .quiet_ms = AIO_SHELL_QUIET_MS, .cols = (unsigned)args->cols.value, .rows = (unsigned)args->rows.value};
    struct session session;
    struct output_slice slice = {0};
    bool created = !terminal->name;
    autobuf before = buf_max(RESTORE_BYTES);
    int failed = created ? aio_shell_open(terminal->pump.request, terminal->box, &wanted, &session, &created, err)
                         : aio_shell_find(terminal->pump.request, terminal->box, terminal->name, 0, &session, err);
    if (failed)
        return failed;
    terminal->name = session.name;
    look_each(terminal, &session);
    if (session.to) {
        uint64_t from = session.to > RESTORE_BYTES ? session.to - RESTORE_BYTES : 0;
        failed = box_output(terminal->box, session.pid, STREAM_STDOUT, from, 0, -1, &before, &slice, err);
        terminal->seen = slice.next;
    }
    if (!failed)
        failed = box_attach(terminal->box, terminal->pid, terminal->seen, &terminal->pump.duplex, err);
    if (!failed)
        failed = ws_pump_accept(&terminal->pump, err);
    if (failed)
        return failed;
    terminal->pump.duplex.tick_ms = clock_ms();
    if (message_text(terminal, "session_id", terminal->name) || terminal_greet(terminal, &before, !created))
        terminal->gone = true; /* nobody listens: the pump finds out at once */
    return 0;
}
