/* A terminal on a session over a WebSocket, shared with the routes that run commands in it. It shows the output of all
 * of them, and typed input goes to the running command. If none runs, a typed line is a command of the session, as in
 * exec; so lines between commands are edited here and not by the shell. Called through aio_shell_routes. Invariant:
 * when the client disconnects, the session and its command keep running; when the box does not accept input, no more is
 * read from the client, and output continues. */
#include <jansson.h>

#include "base/headtail.h"
#include "front/aio/shell.h"
#include "front/ws_pump.h"

#define RESTORE_BYTES (256u << 10) /* of earlier output */
#define IDLE_TICK_MS 1000u
#define BUSY_TICK_MS 50u    /* how soon the prompt returns */
#define LONG_TICK_MS 250u   /* the same for long commands */
#define TYPED_AHEAD_MS 200u /* a line typed this early is the next command, unless this one still runs */

const struct row aio_shell_ws_query[] = {
    {AIO_IN(session_id, TEXT), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES, .text = "default: a new one"},
    {AIO_IN(protocol, TEXT), .max = 64, .text = "binary: what is typed and printed goes in binary messages"},
    {AIO_IN(cols, INT), .min = 1, .max = 4096, .fallback = 80, .text = "of the terminal"},
    {AIO_IN(rows, INT), .min = 1, .max = 4096, .fallback = 24, .text = "of the terminal"},
    {.name = NULL},
};

struct terminal {
    struct ws_pump pump; /* held: typed while something runs, not consumed yet */
    struct box *box;
    const char *name;
    bool binary;
    struct buf line; /* typed while nothing runs */
    struct buf out;  /* one message */
    struct json json;
    uint8_t held[4]; /* an incomplete UTF-8 sequence */
    size_t held_count;
    unsigned escape;         /* in a typed escape sequence: 1 after ESC, 2 after ESC [ */
    bool typed_cr;           /* a line feed after it belongs to the same key */
    bool shown_cr, at_start; /* the last byte shown was a carriage return; it ended a line */
    bool ours;               /* the running command was typed here: its terminal ends lines itself */
    bool prompted;
    bool redraw; /* the line changed; shown when all typed input was processed */
    /* state at the last look */
    bool busy, gone;
    char cwd[LIMIT_PATH_BYTES + 1];
    uint64_t pid, to, commands;
    uint64_t seen; /* offset of the next byte of the attached call */
    uint64_t since_ms, ping_ms;
};

/* ---- messages ---- */

static void ws_message_open(struct terminal *terminal, const char *type) {
    buf_clear(&terminal->out);
    json_init(&terminal->json, &terminal->out);
    json_open(&terminal->json, '{');
    json_put_str(&terminal->json, "type", type);
}

/* Returns 0, or 1 if the client is gone. */
static int ws_message_send(struct terminal *terminal) {
    json_close(&terminal->json, '}');
    return ws_send(terminal->pump.ws, WS_TEXT, terminal->out.data, terminal->out.len, ERR_IGNORED) < 0;
}

static int ws_message_text(struct terminal *terminal, const char *type, const char *text) {
    ws_message_open(terminal, type);
    json_put_str(&terminal->json, "data", text);
    return ws_message_send(terminal);
}

static int ws_message_time(struct terminal *terminal, const char *type, uint64_t timestamp) {
    ws_message_open(terminal, type);
    json_put_uint(&terminal->json, "data", timestamp);
    json_put_uint(&terminal->json, "timestamp", timestamp);
    return ws_message_send(terminal);
}

/* Sends bytes for the screen. */
static int ws_message_bytes(struct terminal *terminal, const char *type, const uint8_t *data, size_t len) {
    if (!len)
        return 0;
    terminal->at_start = data[len - 1] == '\n';
    if (terminal->binary)
        return ws_send(terminal->pump.ws, WS_BINARY, data, len, ERR_IGNORED) < 0;
    ws_message_open(terminal, type);
    json_put_strn(&terminal->json, "data", data, len);
    return ws_message_send(terminal);
}

static int ws_terminal_say(struct terminal *terminal, const char *text) {
    return ws_message_bytes(terminal, "output", (const uint8_t *)text, strlen(text));
}

/* Shows output. Sessions end lines with only a line feed; screens also need a carriage return. */
static int ws_terminal_show(struct terminal *terminal, const char *type, const uint8_t *data, size_t len, bool raw) {
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
    return ws_message_bytes(terminal, type, text.data, text.len - hold);
}

/* ---- the session ---- */

static void ws_look_each(void *user, const struct session *session) {
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

/* Returns 0, 1 if the session has ended, or negative. */
static int ws_terminal_look(struct terminal *terminal, struct err *err) {
    int failed = box_sessions(terminal->box, terminal->name, ws_look_each, terminal, err);
    terminal->gone = failed == -ERR_NOT_FOUND;
    return terminal->gone ? 1 : failed;
}

/* Runs the line as a command, in a terminal as people expect it. BUSY: another command came first, and the line is
 * typed into that. */
static int ws_terminal_run(struct terminal *terminal, struct err *err) {
    autobuf command = buf_max(WS_PUMP_MESSAGE_BYTES + 64);
    autoarena arena = ARENA_EMPTY;
    struct session_result result;
    const struct exec_sink sink = {0};
    buf_puts(&command, AIO_SHELL_COOKED);
    buf_put(&command, terminal->line.data, terminal->line.len);
    const struct session_run run = {
        .name = terminal->name, .command = buf_cstr(&command), .background = true, .quiet_ms = 0};
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
        return failed == -ERR_GONE ? failed : ws_message_text(terminal, "error", err->text);
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

static int ws_line_show(struct terminal *terminal) {
    autobuf text = buf_max(2 * WS_PUMP_MESSAGE_BYTES);
    buf_puts(&text, terminal->at_start && !terminal->prompted ? "" : "\r\x1b[K");
    buf_puts(&text, terminal->cwd);
    buf_puts(&text, "$ ");
    buf_put(&text, terminal->line.data, terminal->line.len);
    terminal->prompted = true;
    terminal->redraw = false;
    return ws_message_bytes(terminal, "output", text.data, text.len);
}

/* Removes the last character, or the last word. */
static void ws_line_drop(struct terminal *terminal, bool word) {
    struct buf *line = &terminal->line;
    while (!word && line->len && (line->data[line->len - 1] & 0xc0) == 0x80)
        line->len--;
    while (word && line->len && line->data[line->len - 1] == ' ')
        line->len--;
    while (word && line->len && line->data[line->len - 1] != ' ')
        line->len--;
    line->len -= !word && line->len > 0;
    terminal->redraw = true;
}

static bool ws_line_escape(struct terminal *terminal, uint8_t byte) {
    unsigned before = terminal->escape;
    if (before == 0)
        terminal->escape = byte == 0x1b;
    else if (before == 1)
        terminal->escape = byte == '[' || byte == 'O' ? 2 : 0;
    else
        terminal->escape = byte < 0x40 || byte > 0x7e ? 2 : 0;
    return before || terminal->escape;
}

/* Keys that change the line do not redraw it at once: many together would each redraw a long line. */
static int ws_line_control(struct terminal *terminal, uint8_t byte, struct err *err) {
    switch (byte) {
    case 0x03:
        buf_clear(&terminal->line);
        terminal->prompted = false;
        return ws_terminal_say(terminal, "^C\r\n") || ws_line_show(terminal);
    case 0x04:
        if (terminal->line.len)
            return 0;
        buf_puts(&terminal->line, "exit");
        return ws_terminal_say(terminal, "\r\n") || ws_terminal_run(terminal, err);
    case 0x08:
    case 0x7f:
        ws_line_drop(terminal, false);
        return 0;
    case 0x0c:
        terminal->redraw = true;
        return ws_terminal_say(terminal, "\x1b[H\x1b[2J");
    case 0x15:
        buf_clear(&terminal->line);
        terminal->redraw = true;
        return 0;
    case 0x17:
        ws_line_drop(terminal, true);
        return 0;
    default:
        return 0;
    }
}

/* Handles one key. more: another line ending follows. */
static int ws_line_key(struct terminal *terminal, uint8_t byte, bool more, struct err *err) {
    bool again = byte == '\n' && terminal->typed_cr;
    terminal->typed_cr = byte == '\r';
    if (again || ws_line_escape(terminal, byte))
        return 0;
    if (byte != '\r' && byte != '\n')
        return ws_line_control(terminal, byte, err);
    if (more && terminal->line.len) {
        buf_byte(&terminal->line, '\n');
        return terminal->redraw ? 0 : ws_terminal_say(terminal, "\r\n> ");
    }
    if ((terminal->redraw && ws_line_show(terminal)) || ws_terminal_say(terminal, "\r\n"))
        return 1;
    if (terminal->line.len)
        return ws_terminal_run(terminal, err);
    terminal->prompted = false;
    return ws_line_show(terminal);
}

/* Handles keys. If several lines come at once, everything up to the last line ending is one command. */
static int ws_line_type(struct terminal *terminal, const uint8_t *data, size_t len, struct err *err) {
    size_t last = len;
    while (last && data[last - 1] != '\n' && data[last - 1] != '\r')
        last--;
    last -= last > 1 && data[last - 1] == '\n' && data[last - 2] == '\r';
    for (size_t i = 0, n; i < len; i += n) {
        for (n = 0; !terminal->escape && i + n < len; n++) /* ordinary characters */
            if ((data[i + n] < 0x20 && data[i + n] != '\t') || data[i + n] == 0x7f)
                break;
        int result = n && !terminal->redraw ? ws_message_bytes(terminal, "output", data + i, n) : 0;
        buf_put(&terminal->line, data + i, n);
        if (!n) {
            result = ws_line_key(terminal, data[i], i + 1 < last, err);
            n = 1;
        }
        if (result)
            return result;
        if (terminal->busy) { /* a command runs now: the rest is input for it, or for later */
            buf_put(&terminal->pump.duplex.held, data + i + n, len - i - n);
            break;
        }
    }
    if (!terminal->line.failed)
        return terminal->redraw ? ws_line_show(terminal) : 0;
    terminal->line.failed = false;
    buf_clear(&terminal->line);
    return ws_message_text(terminal, "error", "The line is too long");
}

/* ---- from the client ---- */

static int ws_terminal_feed(struct terminal *terminal, struct err *err) {
    terminal->pump.duplex.paused = !terminal->busy || clock_ms() < terminal->since_ms + TYPED_AHEAD_MS;
    return box_duplex_flush(&terminal->pump.duplex, err);
}

static int ws_terminal_typed(struct terminal *terminal, const void *data, size_t len, struct err *err) {
    STEP(terminal->busy ? 0 : ws_terminal_look(terminal, err));
    if (!terminal->busy && terminal->seen >= terminal->to)
        return ws_line_type(terminal, data, len, err);
    buf_put(&terminal->pump.duplex.held, data, len);
    return ws_terminal_feed(terminal, err);
}

static int ws_terminal_control(struct terminal *terminal, const json_t *root, struct err *err) {
    const char *type = json_string_value(json_object_get(root, "type"));
    const json_t *data = json_object_get(root, "data"), *size = json_is_object(data) ? data : root;
    json_int_t cols = json_integer_value(json_object_get(size, "cols")),
               rows = json_integer_value(json_object_get(size, "rows"));
    if (!type)
        return 0;
    if (!strcmp(type, "input") && json_is_string(data))
        return ws_terminal_typed(terminal, json_string_value(data), json_string_length(data), err);
    if (!strcmp(type, "resize") && cols > 0 && rows > 0 && cols <= 4096 && rows <= 4096)
        box_resize(terminal->box, terminal->pid, (unsigned)cols, (unsigned)rows, ERR_IGNORED);
    if (!strcmp(type, "ping"))
        return ws_message_time(terminal, "pong", (uint64_t)json_integer_value(json_object_get(root, "timestamp")));
    return 0;
}

static int ws_terminal_message(void *user, enum ws_kind kind, const uint8_t *data, size_t len, struct err *err) {
    struct terminal *terminal = user;
    json_t *root = kind == WS_TEXT && json_measure((const char *)data, len, 8, 64) == JSON_FITS
                       ? json_loadb((const char *)data, len, JSON_ALLOW_NUL, NULL)
                       : NULL;
    int result =
        json_is_object(root) ? ws_terminal_control(terminal, root, err) : ws_terminal_typed(terminal, data, len, err);
    json_decref(root);
    return result;
}

/* ---- the pump ---- */

/* The command has ended and all its output was sent: the line is edited again. */
static int ws_terminal_settle(struct terminal *terminal, struct err *err) {
    if (terminal->busy || terminal->prompted || terminal->seen < terminal->to)
        return 0;
    if (!terminal->at_start && ws_terminal_say(terminal, "\r\n"))
        return 1;
    int result = ws_line_show(terminal);
    if (result || !terminal->pump.duplex.held.len)
        return result;
    autobuf typed = buf_max(4 * WS_PUMP_MESSAGE_BYTES);
    buf_put(&typed, terminal->pump.duplex.held.data, terminal->pump.duplex.held.len);
    buf_clear(&terminal->pump.duplex.held);
    return ws_line_type(terminal, typed.data, typed.len, err);
}

/* Returns 1 if the session has ended or the client does not answer. */
static int ws_terminal_tick(void *user, struct err *err) {
    struct terminal *terminal = user;
    uint64_t now_ms = clock_ms();
    int result = ws_terminal_look(terminal, err) ?: ws_terminal_settle(terminal, err) ?: ws_terminal_feed(terminal, err);
    if (!result && now_ms >= terminal->ping_ms) {
        terminal->ping_ms = now_ms + WS_PUMP_PING_MS;
        result = ws_message_time(terminal, "ping", clock_wall_ms());
    }
    bool young = now_ms < terminal->since_ms + 2 * LONG_TICK_MS;
    terminal->pump.duplex.tick_ms = now_ms + (!terminal->busy ? IDLE_TICK_MS : young ? BUSY_TICK_MS : LONG_TICK_MS);
    return result;
}

static int ws_terminal_data(void *user, const uint8_t *data, size_t len, struct err *) {
    struct terminal *terminal = user;
    terminal->seen += len;
    if (terminal->prompted) { /* another caller's command: show it on a new line */
        terminal->prompted = false;
        if (ws_terminal_say(terminal, "\r\x1b[K"))
            return 1;
    }
    terminal->pump.duplex.tick_ms = clock_ms() + BUSY_TICK_MS;
    return ws_terminal_show(terminal, "output", data, len, terminal->ours);
}

static int ws_terminal_end(void *user, const struct exec_result *, struct err *) {
    struct terminal *terminal = user;
    terminal->gone = true;
    return 1;
}

static const struct ws_pump_hooks terminal_hooks = {
    .message = ws_terminal_message, .data = ws_terminal_data, .tick = ws_terminal_tick, .end = ws_terminal_end};

/* ---- the beginning ---- */

static int ws_terminal_begin(struct terminal *terminal, const struct aio_args *args, struct err *err) {
    const struct session_request wanted = {
        .quiet_ms = AIO_SHELL_QUIET_MS, .cols = (unsigned)args->cols.value, .rows = (unsigned)args->rows.value};
    struct session session;
    struct output_slice slice = {0};
    bool created = !terminal->name;
    autobuf before = buf_max(RESTORE_BYTES);
    int failed = 0;
    STEP(created ? aio_shell_open(terminal->pump.request, terminal->box, &wanted, &session, &created, err)
                 : aio_shell_find(terminal->pump.request, terminal->box, terminal->name, 0, &session, err));
    terminal->name = session.name;
    ws_look_each(terminal, &session);
    if (session.to) {
        uint64_t from = session.to > RESTORE_BYTES ? session.to - RESTORE_BYTES : 0;
        failed = box_output(terminal->box, session.pid, STREAM_STDOUT, from, 0, -1, &before, &slice, err);
        terminal->seen = slice.next;
    }
    STEP(failed ?: box_attach(terminal->box, terminal->pid, terminal->seen, &terminal->pump.duplex, err)
                 ?: ws_pump_accept(&terminal->pump, err));
    terminal->pump.duplex.tick_ms = clock_ms();
    terminal->gone = ws_message_text(terminal, "session_id", terminal->name);
    ws_message_open(terminal, "ready");
    json_put_str(&terminal->json, "data", terminal->name);
    json_put_str(&terminal->json, "session_id", terminal->name);
    json_put_str(&terminal->json, "transport", terminal->binary ? "binary" : "json");
    json_put_str(&terminal->json, "backend", "native");
    json_put_bool(&terminal->json, "resumed", !created);
    terminal->gone = terminal->gone ||
                     ws_message_send(terminal) || /* if the client is gone, the pump notices at once */
                     (before.len && (ws_terminal_show(terminal, "restore_output", before.data, before.len, false) ||
                                     ws_message_text(terminal, "terminal_restored", terminal->name)));
    return 0;
}

int aio_shell_ws(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    STEP(detail_query(request, &args, err) ?: ws_pump_wanted(request, err));
    struct terminal terminal = {.box = box, .name = args.session_id.data, .at_start = true};
    terminal.binary = args.protocol.data && !strcmp(args.protocol.data, "binary");
    /* Space for a line that came too late, and two messages. */
    ws_pump_init(&terminal.pump, request, 4 * WS_PUMP_MESSAGE_BYTES, &terminal_hooks, &terminal);
    terminal.pump.duplex.room = WS_PUMP_MESSAGE_BYTES;
    buf_init(&terminal.line, WS_PUMP_MESSAGE_BYTES);
    buf_init(&terminal.out, 6 * WS_PUMP_MESSAGE_BYTES + 4096); /* every byte escaped */
    int failed = ws_terminal_begin(&terminal, &args, err);
    if (!failed) {
        terminal.ping_ms = clock_ms() + WS_PUMP_PING_MS;
        failed = ws_pump_run(&terminal.pump, err);
        if (terminal.gone)
            ws_message_text(&terminal, "closed", "Session ended");
        else if (failed)
            ws_message_text(&terminal, "error", err->text);
        failed = terminal.gone ? 0 : failed;
    }
    buf_done(&terminal.line);
    buf_done(&terminal.out);
    return ws_pump_close(&terminal.pump, failed,
                         failed < 0      ? "the box ended"
                         : terminal.gone ? "the session ended"
                                         : "done");
}
