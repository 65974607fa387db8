/* EXEC: a command in the box, in the foreground (its output is the call's, and the call ends with it) or in the
 * background (answered when it runs; used with the ops of op_process.c). Called by serve. With CALL_DETACH it is in the
 * background, and its call is its first reader. Invariant: a cancelled foreground command is killed with its whole
 * tree, and answered when that is gone. */
#include "base/base.h"
#include "base/conceal.h"
#include "runner/ops/ops.h"
#include "runner/exec/session.h"
#include "runner/sudo.h"

static void exec_attend(struct process *process, struct rcall *call) {
    call->def = &op_attach;
    reader_open(call, process, (uint64_t[2]){0, 0});
}

/* Copies a text for lists, which others may see, without secrets. *left: how many bytes may still be kept. */
static char *exec_about_text(struct process *process, struct conceal *conceal, const char *text, size_t *left) {
    autobuf concealed = buf_max(LIMIT_CALL_ARGS_BYTES * 6);
    size_t len = strlen(text);
    if (conceal) {
        conceal_text(conceal, text, len, &concealed);
        text = concealed.len ? (const char *)concealed.data : "";
        len = concealed.len;
    }
    len = text_cut(text, len, *left);
    *left -= len;
    return arena_copy(&process->about, text, len);
}

static char **exec_about_list(struct process *process, struct conceal *conceal, const char *const *list, size_t count,
                              size_t *left) {
    enum { FIELD_COST = 16 };
    char **kept = arena_alloc(&process->about, (count + 1) * sizeof *kept);
    for (size_t i = 0; i < count && FIELD_COST < *left; i++) {
        *left -= FIELD_COST;
        kept[i] = exec_about_text(process, conceal, list[i], left);
    }
    return kept;
}

/* Keeps what PS reports about the command in addition to its line. */
static int exec_about(struct process *process, const struct fields *args, struct conceal *conceal, struct err *err) {
    size_t left = LIMIT_PROCESS_ABOUT_BYTES;
    if (args->has[FIELD_NOTE]) {
        if (strlen(args->text[FIELD_NOTE]) > LIMIT_PROCESS_TAG_BYTES)
            return err_set(err, ERR_INVALID, "the tag of a command must have at most %u bytes",
                           LIMIT_PROCESS_TAG_BYTES);
        process->tag = arena_strdup(&process->about, args->text[FIELD_NOTE]);
    }
    process->argv = exec_about_list(process, conceal, args->argv, args->argc, &left);
    process->env = exec_about_list(process, conceal, args->env, args->env_count, &left);
    return 0;
}

static int exec_launch(struct process *process, const struct fields *args, struct err *err) {
    uint64_t flags = args->number[FIELD_FLAGS];
    struct spawn *spawn = &process->spawn;
    TRY(spawn_prepare(spawn, process->runner->config, args, &process->start, err));
    process->program = xstrdup(spawn->program);
    process->cwd = xstrdup(spawn->cwd);
    spawn->program = process->program;
    spawn->cwd = process->cwd;
    process->pty = flags & CALL_PTY;
    if (flags & CALL_SUDO)
        sudo_open(process->runner);
    process->background = flags & (CALL_BACKGROUND | CALL_DETACH);
    process->attend = flags & CALL_DETACH ? exec_attend : NULL;
    process->keep = !process->background && flags & CALL_KEEP;
    process->leave = flags & CALL_LEAVE;
    /* For lists: the command line, or argv separated by spaces. */
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
    int r = process->background ? exec_about(process, args, conceal, err) : 0;
    conceal_free(conceal);
    TRY(r);
    process->command = process_command_text(shown->data ? (char *)shown->data : "", shown->len);
    for (int i = 0; i < 2; i++)
        process->streams[i].conceal = conceal_new(args->secrets);
    TRY(process_stdio(process, flags & CALL_STDIN, args, err));
    r = process_launch(process, err);
    process_stdio_given(process);
    return r;
}

static void exec_writable(struct rcall *call) {
    struct process *process = call->state;
    if (process->phase == PHASE_STARTING) /* STAT is sent first; then its streams are watched */
        return;
    for (int i = 0; i < 2; i++)
        if (process->streams[i].source.events == 0)
            stream_pump(&process->streams[i]);
    process_done(process);
}

static int exec_begin(struct rcall *call, const struct fields *call_args, struct err *err) {
    struct process *process;
    struct session *session = NULL;
    struct fields with_session;
    const struct fields *args = call_args;
    if (call_args->has[FIELD_SESSION]) {
        with_session = *call_args;
        args = &with_session;
        TRY(session_exec(call->runner, &with_session, &session, err));
    }
    TRY(process_new(call->runner, &process, err));
    process->call = call;
    call->state = process;
    call->writable = exec_writable;
    int r = exec_launch(process, args, err);
    if (r < 0) {
        process->call = NULL;
        process_drop(process);
        return r;
    }
    if (process->input.fd >= 0 && (!process->pty || !process->background)) {
        /* The input of a background command stays open after the call, for INPUT; EOF closes it. */
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

static int exec_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err) {
    struct process *process = call->state;
    if (!process->own.call)
        return err_set(err, ERR_INVALID, "the command was started without input");
    return feeder_put(&process->own, data, len, err);
}

static int exec_finish(struct rcall *call, struct err *) {
    struct process *process = call->state;
    if (process->own.call)
        feeder_eof(&process->own);
    return 0;
}

static void exec_cancel(struct rcall *call) {
    struct process *process = call->state;
    if (process->attend) { /* its reader left before it ran */
        process_detach(process);
        return;
    }
    process->discard = true;
    if (call->gone)
        process_detach(process);
    else
        call->later = true;
    process_kill(process);
    for (int i = 0; i < 2; i++) /* it may have ended and only wait for credit */
        stream_pump(&process->streams[i]);
    process_done(process);
}

const struct op_def op_exec = {
    .op = OP_EXEC, .begin = exec_begin, .input = exec_input, .finish = exec_finish, .cancel = exec_cancel};
