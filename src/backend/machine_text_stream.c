/* Terminals, and commands whose input stays open, on a machine of the text form: streams of its runner (pty_, stdio_), and
 * the last of their output, kept here so that a terminal can be looked at again. Called by machine_text_exec.c and
 * machine_text_process.c. Not to break: what the machine pushes is kept within RING_BYTES, whoever reads. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/machine_text_call.h"
#include "base/clock.h"
#include "base/conceal.h"
#include "base/text.h"

enum { RING_BYTES = LIMIT_RING_BYTES, STREAMS_MAX = 64, WRITE_BYTES = 32 << 10, READ_BYTES = 32 << 10 };

struct text_stream {
    struct text_stream *next;
    char id[TEXT_ID_BYTES];
    char box[17];
    uint64_t pid, started_ms;
    char *command;
    bool pty;
    bool started; /* the machine said so */
    bool ended;
    bool lost; /* with its connection or its box: how it ended is not known */
    int64_t code;
    uint64_t ended_ms;
    struct buf ring; /* the last bytes; first: the offset of the first of them */
    uint64_t first;
    unsigned holders; /* calls that look at it */
};

struct text_stream *text_stream_find_locked(struct machine_text *text, const char *box_id, uint64_t pid) {
    struct text_stream *stream = text->streams;
    while (stream && (stream->pid != pid || strcmp(stream->box, box_id) != 0))
        stream = stream->next;
    return stream;
}

static void stream_free(struct text_stream *stream) {
    buf_done(&stream->ring);
    free(stream->command);
    free(stream);
}

void text_streams_free(struct machine_text *text) {
    for (struct text_stream *stream = text->streams, *next; stream; stream = next) {
        next = stream->next;
        stream_free(stream);
    }
    text->streams = NULL;
}

static void stream_end_locked(struct machine_text *text, struct text_stream *stream, int64_t code, bool lost) {
    if (stream->ended)
        return;
    stream->ended = true;
    stream->lost = lost;
    stream->code = code;
    stream->ended_ms = clock_ms();
    pthread_cond_broadcast(&text->changed);
}

static void stream_members(struct json *json, struct buf *members, const struct text_stream *stream) {
    json_init(json, members);
    json_key(json, "stream_id");
    json_str(json, stream->id);
}

static void stream_let_go(struct machine_text *text, struct text_stream *stream) {
    pthread_mutex_lock(&text->lock);
    stream->holders--;
    pthread_mutex_unlock(&text->lock);
}

/* Told, not asked: its exit says when it was done. */
static void stream_close(struct machine_text *text, const struct text_stream *stream) {
    autobuf members;
    buf_init(&members, 256);
    struct json json;
    stream_members(&json, &members, stream);
    struct err unheard;
    text_tell(text, stream->pty ? TEXT_PTY_CLOSE : TEXT_STDIO_CLOSE, &members, &unheard);
}

void text_streams_end_locked(struct machine_text *text) {
    for (struct text_stream *stream = text->streams; stream; stream = stream->next)
        stream_end_locked(text, stream, -1, true);
}

void text_streams_close(struct machine_text *text, const char *box_id) {
    for (;;) {
        pthread_mutex_lock(&text->lock);
        struct text_stream *stream = text->streams;
        while (stream && (stream->ended || strcmp(stream->box, box_id) != 0))
            stream = stream->next;
        if (stream) {
            stream->holders++;
            stream_end_locked(text, stream, -1, false);
        }
        pthread_mutex_unlock(&text->lock);
        if (!stream)
            return;
        stream_close(text, stream);
        stream_let_go(text, stream);
    }
}

/* ---- what the machine pushes ---- */

static int ring_put_locked(struct text_stream *stream, const char *coded, size_t len, struct err *err) {
    autobuf piece;
    buf_init(&piece, LIMIT_TEXT_MESSAGE_BYTES);
    if (!text_unbase64(&piece, coded, len))
        return err_set(err, ERR_PROTOCOL, "data of a stream is not base64");
    const uint8_t *data = piece.data;
    size_t n = piece.len;
    if (n > RING_BYTES) {
        stream->first += stream->ring.len + (n - RING_BYTES);
        buf_clear(&stream->ring);
        data += n - RING_BYTES;
        n = RING_BYTES;
    } else if (stream->ring.len + n > RING_BYTES) {
        /* More at once than is needed: moving the rest for every byte would cost too much. */
        size_t drop = stream->ring.len + n - RING_BYTES + RING_BYTES / 4;
        drop = drop < stream->ring.len ? drop : stream->ring.len;
        buf_consume(&stream->ring, drop);
        stream->first += drop;
    }
    buf_put(&stream->ring, data, n);
    return 0;
}

int text_stream_take_locked(struct machine_text *text, const struct text_answer *push, struct err *err) {
    bool data = strcmp(push->type, "pty_data") == 0 || strcmp(push->type, "stdio_data") == 0;
    bool exit = strcmp(push->type, "pty_exit") == 0 || strcmp(push->type, "stdio_exit") == 0;
    if (!data && !exit)
        return 1;
    const char *id = text_member(push, "stream_id", NULL);
    struct text_stream *stream = text->streams;
    while (stream && (!id || strcmp(stream->id, id) != 0))
        stream = stream->next;
    if (!stream || stream->ended)
        return 1;
    size_t len = 0;
    const char *bytes = text_member(push, "data", &len);
    int r = bytes && data ? ring_put_locked(stream, bytes, len, err) : 0;
    if (exit)
        stream_end_locked(text, stream, text_number(push, "exit_code", 0), false);
    pthread_cond_broadcast(&text->changed);
    return r;
}

/* ---- starting ---- */

static void stream_drop_old_locked(struct machine_text *text) {
    unsigned count = 0;
    struct text_stream **oldest = NULL;
    for (struct text_stream **at = &text->streams; *at; at = &(*at)->next) {
        count++;
        if ((*at)->ended && !(*at)->holders)
            oldest = at; /* new ones go to the front */
    }
    if (count < STREAMS_MAX || !oldest)
        return;
    struct text_stream *stream = *oldest;
    *oldest = stream->next;
    stream_free(stream);
}

static int stream_new(struct text_call *call, bool pty, struct text_stream **ret_stream, struct err *err) {
    struct machine_text *text = call->text;
    struct text_stream *stream = calloc(1, sizeof *stream);
    const char *shown = call->args.text[FIELD_COMMAND];
    if (!stream || !(stream->command = strdup(shown ? shown : call->args.argc ? call->args.argv[0] : "")))
        abort();
    stream->command[strnlen(stream->command, 4096)] = '\0';
    buf_init(&stream->ring, RING_BYTES);
    memcpy(stream->box, call->box->id, sizeof stream->box);
    stream->pty = pty;
    stream->started_ms = clock_wall_ms();
    stream->holders = 1;
    pthread_mutex_lock(&text->lock);
    stream_drop_old_locked(text);
    unsigned count = 0;
    for (struct text_stream *other = text->streams; other; other = other->next)
        count++;
    bool room = count < STREAMS_MAX;
    if (room) {
        stream->pid = text->next_pid++;
        snprintf(stream->id, sizeof stream->id, "str_%016llx", (unsigned long long)text->next_id++);
        stream->next = text->streams;
        text->streams = stream;
    }
    pthread_mutex_unlock(&text->lock);
    if (!room) {
        stream_free(stream);
        return err_set(err, ERR_LIMIT, "machine %s has %d terminals and open commands already", text->name,
                       STREAMS_MAX);
    }
    *ret_stream = stream;
    return 0;
}

static void stream_forget(struct machine_text *text, struct text_stream *stream) {
    pthread_mutex_lock(&text->lock);
    struct text_stream **at = &text->streams;
    while (*at && *at != stream)
        at = &(*at)->next;
    if (*at)
        *at = stream->next;
    pthread_mutex_unlock(&text->lock);
    stream_free(stream);
}

/* The standard error of such a command is the runner's to log: it goes to a file, and is told at the end. */
static const char *stream_line(struct text_call *call, const struct text_stream *stream, const char *command) {
    autobuf line;
    buf_init(&line, LIMIT_TEXT_MESSAGE_BYTES);
    if (!stream->pty)
        buf_printf(&line,
                   "cubby_err=\"${TMPDIR:-/tmp}/cubby-%s.err\"; (umask 077; set -C; : > \"$cubby_err\") && exec "
                   "2>> \"$cubby_err\"; unset cubby_err\n",
                   stream->id);
    buf_puts(&line, command);
    return arena_copy(&call->arena, line.data, line.len);
}

static int stream_start(struct text_call *call, struct text_stream *stream, const struct text_command *command,
                        struct err *err) {
    const struct fields *args = &call->args;
    autobuf members;
    buf_init(&members, LIMIT_TEXT_MESSAGE_BYTES);
    struct json json;
    stream_members(&json, &members, stream);
    json_key(&json, "command");
    json_str(&json, command->shell);
    json_key(&json, "args");
    json_open(&json, '[');
    json_str(&json, "-c");
    json_str(&json, stream_line(call, stream, command->command));
    json_close(&json, ']');
    json_key(&json, "env");
    json_open(&json, '[');
    for (const char **row = command->env; *row; row++)
        json_str(&json, *row);
    json_close(&json, ']');
    json_key(&json, "dir");
    json_str(&json, command->dir);
    if (stream->pty) {
        json_key(&json, "cols");
        json_uint(&json, args->number[FIELD_COLS] ? args->number[FIELD_COLS] : 80);
        json_key(&json, "rows");
        json_uint(&json, args->number[FIELD_ROWS] ? args->number[FIELD_ROWS] : 24);
    }
    return text_ask(call->text, call, stream->pty ? TEXT_PTY_CREATE : TEXT_STDIO_START, &members, TEXT_ASK_MS, NULL,
                    err);
}

/* ---- moving bytes ---- */

static int stream_write(struct machine_text *text, const struct text_stream *stream, const uint8_t *data, size_t len,
                        struct err *err) {
    int r = 0;
    for (size_t at = 0; at < len && r == 0;) {
        size_t n = len - at < WRITE_BYTES ? len - at : WRITE_BYTES;
        autobuf members, coded;
        buf_init(&members, 2 * WRITE_BYTES);
        buf_init(&coded, 2 * WRITE_BYTES);
        struct json json;
        stream_members(&json, &members, stream);
        text_base64(&coded, data + at, n);
        json_key(&json, "data");
        json_strn(&json, (const char *)coded.data, coded.len);
        r = text_tell(text, stream->pty ? TEXT_PTY_STDIN : TEXT_STDIO_WRITE, &members, err);
        at += n;
    }
    return r;
}

struct moving {
    uint64_t offset; /* told so far */
    struct conceal *conceal;
    bool input_over, detach; /* detach: cancelling leaves it alone */
    uint64_t deadline_ms;
    bool timed_out;
};

/* Waits until there is something to do; takes what is there of both directions. The stream is held. */
static int moving_turn(struct text_call *call, struct text_stream *stream, struct moving *moving, struct buf *out,
                       struct buf *in, bool *ret_over) {
    struct machine_text *text = call->text;
    pthread_mutex_lock(&text->lock);
    for (;;) {
        if (moving->offset < stream->first)
            moving->offset = stream->first;
        size_t at = (size_t)(moving->offset - stream->first), have = stream->ring.len - at;
        bool input = !moving->input_over && (call->input.len > 0 || call->eof);
        bool late = moving->deadline_ms && clock_ms() >= moving->deadline_ms && !moving->timed_out;
        if (have > 0 || input || late || stream->ended || call->cancelled) {
            size_t n = have < READ_BYTES ? have : READ_BYTES;
            buf_put(out, stream->ring.data + at, n);
            moving->offset += n;
            *ret_over = stream->ended && n == have;
            moving->timed_out |= late;
            break;
        }
        text_wait_locked(text, moving->timed_out ? 0 : moving->deadline_ms);
    }
    bool input = !moving->input_over && (call->input.len > 0 || call->eof);
    bool eof = input && call->input.len == 0;
    bool cancelled = call->cancelled;
    pthread_mutex_unlock(&text->lock);
    struct err err;
    if (input && !eof) {
        uint8_t piece[WRITE_BYTES];
        ssize_t n = text_input(call, piece, sizeof piece, 1, &err);
        if (n > 0)
            buf_put(in, piece, (size_t)n);
    }
    moving->input_over |= eof;
    if ((eof && !stream->pty) || (moving->timed_out && !*ret_over))
        stream_close(text, stream);
    return cancelled ? 1 : 0;
}

static int moving_tell(struct text_call *call, struct moving *moving, const struct buf *out, bool over,
                       struct err *err) {
    if (!moving->conceal)
        return text_data(call, STREAM_STDOUT, out->data, out->len, err);
    autobuf clean;
    buf_init(&clean, 1u << 20);
    conceal_put(moving->conceal, out->data, out->len, &clean);
    if (over)
        conceal_flush(moving->conceal, &clean);
    return text_data(call, STREAM_STDOUT, clean.data, clean.len, err);
}

/* 1: cancelled. */
static int stream_move(struct text_call *call, struct text_stream *stream, struct moving *moving, struct err *err) {
    bool over = false;
    int r = 0;
    while (!over && r == 0) {
        autobuf out, in;
        buf_init(&out, READ_BYTES);
        buf_init(&in, WRITE_BYTES);
        r = moving_turn(call, stream, moving, &out, &in, &over);
        if (r == 0 && in.len)
            r = stream_write(call->text, stream, in.data, in.len, err);
        if (r == 0)
            r = moving_tell(call, moving, &out, over, err);
    }
    return r;
}

static void stream_result(struct text_call *call, const struct text_stream *stream, bool timed_out, struct buf *out) {
    int64_t code = stream->code;
    (void)call;
    if (code >= 0)
        field_number(out, FIELD_EXIT, (uint64_t)code & 0xff);
    else
        field_number(out, FIELD_SIGNALLED, code == -1 || code < -64 ? SIGKILL : (uint64_t)-code);
    if (timed_out)
        field_number(out, FIELD_TIMED_OUT, 1);
    field_number(out, FIELD_BYTES_OUT, stream->first + stream->ring.len);
}

/* What it said on standard error, which lies in a file there; at most a MiB, the last. */
static uint64_t stream_errors(struct text_call *call, const struct text_stream *stream) {
    static const char script[] = "f=\"${TMPDIR:-/tmp}/cubby-$1.err\"; [ ! -f \"$f\" ] || { tail -c 1048576 \"$f\"; rm "
                                 "-f \"$f\"; }";
    const char *const args[] = {stream->id, NULL};
    autobuf out, clean;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    buf_init(&clean, 3u * SCRIPT_OUTPUT_BYTES);
    struct err unheard;
    if (stream->pty || text_script(call->text, call, script, args, NULL, TEXT_ASK_MS, &out, &unheard) < 0)
        return 0;
    struct conceal *conceal = conceal_new(call->args.secrets);
    if (conceal)
        conceal_text(conceal, out.data, out.len, &clean);
    const struct buf *told = conceal ? &clean : &out;
    text_data(call, STREAM_STDERR, told->data, told->len, &unheard);
    conceal_free(conceal);
    return out.len;
}

static int stream_foreground(struct text_call *call, struct text_stream *stream, const struct buf *collected,
                             struct err *err) {
    uint64_t timeout_ms = call->args.number[FIELD_TIMEOUT_MS], begin_ms = clock_ms();
    struct moving moving = {.deadline_ms = timeout_ms ? begin_ms + timeout_ms : 0,
                            .conceal = conceal_new(call->args.secrets)};
    autobuf pid;
    buf_init(&pid, 64);
    field_number(&pid, FIELD_PID, stream->pid);
    int r = text_stat(call, &pid, err);
    if (r == 0 && collected->len)
        r = stream_write(call->text, stream, collected->data, collected->len, err);
    if (r == 0)
        r = stream_move(call, stream, &moving, err);
    if (r > 0)
        r = err_set(err, ERR_GONE, "the call was cancelled");
    if (r < 0)
        stream_close(call->text, stream);
    conceal_free(moving.conceal);
    uint64_t bytes = r == 0 ? stream_errors(call, stream) : 0;
    if (r == 0 && stream->lost)
        r = err_set(err, ERR_GONE, "the connection to machine %s ended: %s", call->text->name, call->text->why);
    stream_result(call, stream, moving.timed_out, &call->end);
    field_number(&call->end, FIELD_BYTES_ERR, bytes);
    field_number(&call->end, FIELD_DURATION_MS, clock_ms() - begin_ms);
    return r;
}

int text_stream_run(struct text_call *call, const struct text_command *command, bool pty, const struct buf *collected,
                    struct err *err) {
    bool background = call->args.number[FIELD_FLAGS] & CALL_BACKGROUND;
    if (background && call->args.secret_count)
        return err_set(err, ERR_UNSUPPORTED, "a terminal on machine %s cannot be kept free of secrets",
                       call->text->name);
    struct text_stream *stream = NULL;
    int r = stream_new(call, pty, &stream, err);
    if (r < 0)
        return r;
    r = stream_start(call, stream, command, err);
    if (r < 0) {
        stream_forget(call->text, stream);
        return r;
    }
    pthread_mutex_lock(&call->text->lock);
    stream->started = true;
    pthread_mutex_unlock(&call->text->lock);
    if (background) {
        field_number(&call->end, FIELD_PID, stream->pid);
        field_number(&call->end, FIELD_STARTED_MS, stream->started_ms);
    } else {
        r = stream_foreground(call, stream, collected, err);
    }
    stream_let_go(call->text, stream);
    return r;
}

/* ---- the other ops ---- */

static struct text_stream *stream_hold(struct text_call *call) {
    struct machine_text *text = call->text;
    pthread_mutex_lock(&text->lock);
    struct text_stream *stream = text_stream_find_locked(text, call->box->id, call->args.number[FIELD_PID]);
    if (stream)
        stream->holders++;
    pthread_mutex_unlock(&text->lock);
    return stream;
}

int text_stream_ps(struct text_call *call, uint64_t pid, bool *ret_found, struct err *err) {
    struct machine_text *text = call->text;
    autobuf items;
    buf_init(&items, 1u << 20);
    int r = 0;
    pthread_mutex_lock(&text->lock);
    for (const struct text_stream *stream = text->streams; stream; stream = stream->next) {
        if (strcmp(stream->box, call->box->id) != 0 || !stream->started || (pid && stream->pid != pid))
            continue;
        *ret_found = true;
        size_t begin = item_begin(&items);
        field_number(&items, FIELD_PID, stream->pid);
        field_text(&items, FIELD_COMMAND, stream->command);
        field_number(&items, FIELD_STATE, stream->ended ? PROCESS_EXITED : PROCESS_RUNNING);
        field_number(&items, FIELD_STARTED_MS, stream->started_ms);
        if (stream->ended)
            stream_result(call, stream, false, &items);
        else
            field_number(&items, FIELD_BYTES_OUT, stream->first + stream->ring.len);
        item_end(&items, begin);
    }
    pthread_mutex_unlock(&text->lock);
    struct view view = view_of(items.data, items.len), record;
    while (r == 0 && item_next(&view, &record, err) > 0) {
        struct buf fields = {.data = (uint8_t *)record.data, .len = record.len, .max = record.len};
        r = text_item(call, &fields, err);
    }
    return r;
}

int text_stream_output(struct text_call *call, bool *ret_found, struct err *err) {
    const struct fields *args = &call->args;
    struct machine_text *text = call->text;
    struct text_stream *stream = stream_hold(call);
    *ret_found = stream;
    if (!stream)
        return 0;
    uint64_t offset = args->number[FIELD_OFFSET], deadline_ms = clock_ms() + args->number[FIELD_WAIT_MS];
    bool out_stream = args->number[FIELD_STREAM] != STREAM_STDERR;
    autobuf data, fields;
    buf_init(&data, RING_BYTES);
    buf_init(&fields, 128);
    pthread_mutex_lock(&text->lock);
    while (!stream->ended && !call->cancelled && (!out_stream || stream->first + stream->ring.len <= offset) &&
           text_wait_locked(text, deadline_ms))
        ;
    uint64_t from = offset > stream->first ? offset : stream->first, have = stream->first + stream->ring.len;
    uint64_t n = out_stream && have > from ? have - from : 0;
    n = n < args->number[FIELD_LENGTH] ? n : args->number[FIELD_LENGTH];
    if (n)
        buf_put(&data, stream->ring.data + (from - stream->first), (size_t)n);
    field_number(&fields, FIELD_FIRST, out_stream ? stream->first : 0);
    field_number(&fields, FIELD_NEXT, out_stream ? (n ? from + n : offset) : offset);
    field_number(&fields, FIELD_STATE, stream->ended ? PROCESS_EXITED : PROCESS_RUNNING);
    pthread_mutex_unlock(&text->lock);
    int r = text_stat(call, &fields, err);
    if (r == 0)
        r = text_data(call, STREAM_STDOUT, data.data, data.len, err);
    stream_let_go(text, stream);
    return r;
}

int text_stream_input(struct text_call *call, bool *ret_found, struct err *err) {
    struct text_stream *stream = stream_hold(call);
    *ret_found = stream;
    if (!stream)
        return 0;
    uint64_t total = 0;
    ssize_t n;
    int r = 0;
    do {
        uint8_t piece[16 << 10];
        n = text_input(call, piece, sizeof piece, 0, err);
        total += n > 0 ? (uint64_t)n : 0;
        if (n > 0)
            r = stream_write(call->text, stream, piece, (size_t)n, err);
    } while (n > 0 && r == 0);
    r = n < 0 ? (int)n : r;
    if (r == 0 && call->args.number[FIELD_FLAGS] & CALL_CLOSE)
        stream_close(call->text, stream);
    field_number(&call->end, FIELD_SIZE, total);
    stream_let_go(call->text, stream);
    return r;
}

/* Signals have no message of their own: what a terminal would send, it is sent; what ends a command, ends it. */
int text_stream_signal(struct text_call *call, bool *ret_found, struct err *err) {
    struct text_stream *stream = stream_hold(call);
    *ret_found = stream;
    if (!stream)
        return 0;
    uint64_t signal = call->args.number[FIELD_SIGNAL];
    int r = 0;
    if (signal == SIGINT && stream->pty)
        r = stream_write(call->text, stream, (const uint8_t *)"\003", 1, err);
    else if (signal == SIGHUP || signal == SIGTERM || signal == SIGKILL || signal == SIGINT)
        stream_close(call->text, stream);
    else
        r = err_set(err, ERR_UNSUPPORTED, "the runner of machine %s can only end this command", call->text->name);
    stream_let_go(call->text, stream);
    return r;
}

int text_op_resize(struct text_call *call, struct err *err) {
    struct text_stream *stream = stream_hold(call);
    if (!stream || !stream->pty) {
        if (stream)
            stream_let_go(call->text, stream);
        return err_set(err, ERR_NOT_FOUND, "no terminal with the process %llu",
                       (unsigned long long)call->args.number[FIELD_PID]);
    }
    autobuf members;
    buf_init(&members, 256);
    struct json json;
    stream_members(&json, &members, stream);
    json_key(&json, "cols");
    json_uint(&json, call->args.number[FIELD_COLS]);
    json_key(&json, "rows");
    json_uint(&json, call->args.number[FIELD_ROWS]);
    int r = text_tell(call->text, TEXT_PTY_RESIZE, &members, err);
    stream_let_go(call->text, stream);
    return r;
}

int text_op_attach(struct text_call *call, struct err *err) {
    struct text_stream *stream = stream_hold(call);
    if (!stream)
        return err_set(err, ERR_NOT_FOUND, "no terminal with the process %llu on machine %s",
                       (unsigned long long)call->args.number[FIELD_PID], call->text->name);
    struct moving moving = {.offset = call->args.number[FIELD_OFFSET], .detach = true};
    autobuf fields;
    buf_init(&fields, 64);
    pthread_mutex_lock(&call->text->lock);
    uint64_t end = stream->first + stream->ring.len;
    moving.offset = moving.offset < stream->first ? stream->first : moving.offset > end ? end : moving.offset;
    field_number(&fields, FIELD_FIRST, stream->first);
    pthread_mutex_unlock(&call->text->lock);
    int r = text_stat(call, &fields, err);
    if (r == 0)
        r = stream_move(call, stream, &moving, err);
    if (r >= 0)
        stream_result(call, stream, false, &call->end);
    r = r > 0 ? 0 : r; /* detached: it lives on */
    stream_let_go(call->text, stream);
    return r;
}
