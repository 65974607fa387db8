/* EXEC: a command in the box, in the foreground (its output is the call's, the call's end is its end) or in the
 * background (answered when it runs; looked at with the ops of op_process.c). Called by serve.
 * Invariant: a cancelled foreground command is killed with its whole tree, and answered when that is gone. */
#include <stdlib.h>
#include <string.h>

#include "base/conceal.h"
#include "base/mem.h"
#include "runner/ops/ops.h"
#include "runner/exec/session.h"

enum { DEFAULT_COLS = 80, DEFAULT_ROWS = 24, LIMIT_COLS = 10000 };

static void exec_writable(struct rcall *call);
static char *command_text(const struct fields *args);

static char *copy_of(const char *text) {
    char *copy = xstrdup(text);
    return copy;
}

static unsigned size_of(const struct fields *args, enum field_id id, unsigned fallback) {
    uint64_t value = args->number[id];
    return value == 0 ? fallback : value > LIMIT_COLS ? LIMIT_COLS : (unsigned)value;
}

static int exec_launch(struct process *process, const struct fields *args, struct err *err) {
    uint64_t flags = args->number[FIELD_FLAGS];
    struct spawn *spawn = &process->spawn;
    int r = spawn_prepare(spawn, process->runner->config, args, &process->start, err);
    if (r < 0)
        return r;
    process->program = copy_of(spawn->program);
    process->cwd = copy_of(spawn->cwd);
    spawn->program = process->program;
    spawn->cwd = process->cwd;
    process->pty = flags & CALL_PTY;
    process->background = flags & CALL_BACKGROUND;
    process->keep = !process->background && flags & CALL_KEEP;
    process->leave = flags & CALL_LEAVE;
    process->command = command_text(args);
    for (int i = 0; i < 2; i++)
        process->streams[i].conceal = conceal_new(args->secrets);
    r = process_stdio(process, flags & CALL_STDIN ? PROCESS_STDIN : 0, size_of(args, FIELD_COLS, DEFAULT_COLS),
                      size_of(args, FIELD_ROWS, DEFAULT_ROWS), err);
    if (r < 0)
        return r;
    r = process_launch(process, err);
    process_stdio_given(process);
    return r;
}

static int exec_begin(struct rcall *call, const struct fields *call_args, struct err *err) {
    struct process *process;
    struct session *session = NULL;
    struct fields with_session;
    const struct fields *args = call_args;
    int r = 0;
    if (call_args->has[FIELD_SESSION]) {
        with_session = *call_args;
        args = &with_session;
        r = session_exec(call->runner, &with_session, &session, err);
    }
    if (r >= 0)
        r = process_new(call->runner, &process, err);
    if (r < 0)
        return r;
    process->call = call;
    call->state = process;
    call->writable = exec_writable;
    r = exec_launch(process, args, err);
    if (r < 0) {
        process->call = NULL;
        process_drop(process);
        return r;
    }
    if (process->input.fd >= 0 && (!process->pty || !process->background)) {
        /* A background command's input stays open after the call, for INPUT; its EOF is what closes it. */
        process->own.close = true;
        feeder_add(process, &process->own, process->call);
    }
    process_timeout_ms(process, args->number[FIELD_TIMEOUT_MS]);
    if (process->keep)
        process_wait_ms(process, args->number[FIELD_WAIT_MS]);
    if (session)
        session_exec_begun(session, process, args);
    return 0;
}

static void exec_writable(struct rcall *call) {
    struct process *process = call->state;
    if (process->phase == PHASE_STARTING) /* STAT goes first; then its streams are watched */
        return;
    for (int i = 0; i < 2; i++)
        if (process->streams[i].source.events == 0)
            stream_pump(&process->streams[i]);
    process_done(process);
}

static int exec_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err) {
    struct process *process = call->state;
    if (!process->own.call)
        return err_set(err, ERR_INVALID, "the command was started without input");
    return feeder_put(&process->own, data, len, err);
}

static int exec_finish(struct rcall *call, struct err *err) {
    struct process *process = call->state;
    (void)err;
    if (process->own.call)
        feeder_eof(&process->own);
    return 0;
}

static void exec_cancel(struct rcall *call) {
    struct process *process = call->state;
    process->discard = true;
    if (call->gone)
        process_detach(process);
    else
        call->later = true;
    process_kill(process);
    for (int i = 0; i < 2; i++) /* it may be over already and wait for credit only */
        stream_pump(&process->streams[i]);
    process_done(process);
}

/* For lists: the command line, or argv with spaces between, cut at a character's end. */
static char *command_text(const struct fields *args) {
    autobuf text = buf_max(LIMIT_CALL_ARGS_BYTES * 2);
    if (args->has[FIELD_COMMAND])
        buf_puts(&text, args->text[FIELD_COMMAND]);
    for (size_t i = 0; i < args->argc && text.len <= PROCESS_COMMAND_BYTES; i++) {
        if (i)
            buf_byte(&text, ' ');
        buf_puts(&text, args->argv[i]);
    }
    autobuf concealed = buf_max(LIMIT_CALL_ARGS_BYTES * 6);
    struct conceal *conceal = conceal_new(args->secrets);
    const struct buf *shown = conceal ? &concealed : &text;
    if (conceal)
        conceal_text(conceal, text.data, text.len, &concealed);
    conceal_free(conceal);
    size_t len = shown->len;
    if (len > PROCESS_COMMAND_BYTES) {
        len = PROCESS_COMMAND_BYTES;
        while (len > PROCESS_COMMAND_BYTES - 4 && (shown->data[len] & 0xc0) == 0x80)
            len--;
    }
    char *copy = xstrndup(shown->data ? (char *)shown->data : "", len);
    return copy;
}

const struct op_def op_exec = {
    .op = OP_EXEC, .begin = exec_begin, .input = exec_input, .finish = exec_finish, .cancel = exec_cancel};
