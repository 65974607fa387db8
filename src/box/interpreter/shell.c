/* Bash: its sessions are those of the box (box_session_run), shells in a terminal, with a prefix to their names. Used
 * by interpreter.c. Invariant: variables of one piece of code are what they were before the next one runs. */
#include "base/base.h"
#include "base/headtail.h"
#include "box/interpreter/talk.h"

enum {
    SHELL_LINGER_MS = 100, /* that the beginning of a line waits for the rest of it */
    SHELL_LINE_BYTES = 64 << 10,
    SHELL_RESTORE_MS = 5000,
    SHELL_COLS = 200,
    SHELL_ROWS = 50,
};

static struct interpreter_session interpreter_shell_of(const struct session *session) {
    struct interpreter_session out = {.pid = session->pid, .created_ms = session->created_ms, .shell = true};
    size_t mark = strlen(language_bash.mark);
    snprintf(out.name, sizeof out.name, "%s", strlen(session->name) > mark ? session->name + mark : "");
    snprintf(out.program, sizeof out.program, "%s", language_bash.program);
    snprintf(out.cwd, sizeof out.cwd, "%s", session->cwd ? session->cwd : "");
    return out;
}

static void interpreter_shell_each(void *user, const struct session *session) {
    struct interpreter_sessions *found = user;
    if (found->count < sizeof found->items / sizeof *found->items && !session->plain &&
        !strncmp(session->name, language_bash.mark, strlen(language_bash.mark)))
        found->items[found->count++] = interpreter_shell_of(session);
}

int interpreter_shell_sessions(struct box *box, struct interpreter_sessions *ret_sessions, struct err *err) {
    return box_sessions(box, NULL, interpreter_shell_each, ret_sessions, err);
}

static const char *interpreter_shell_name(struct arena *arena, const char *name) {
    return arena_printf(arena, "%s%s", language_bash.mark, name);
}

int interpreter_shell_open(struct box *box, const struct interpreter_open *open,
                           struct interpreter_session *ret_session, bool *ret_created, struct err *err) {
    static const char *const env[] = {"PAGER=cat", "GIT_PAGER=cat", "TERM=dumb", NULL}; /* nobody turns pages */
    char random[2 * TALK_ID_BYTES + 1];
    autoarena arena = ARENA_EMPTY;
    struct session session;
    int failed = open->name ? 0 : interpreter_random_name(random, err);
    if (failed)
        return failed;
    const struct session_request request = {.name = interpreter_shell_name(&arena, open->name ? open->name : random),
                                            .cwd = open->cwd,
                                            .env = env,
                                            .shell = "/bin/bash",
                                            .cols = SHELL_COLS,
                                            .rows = SHELL_ROWS};
    failed = box_session_open(box, &request, &arena, &session, ret_created, err);
    if (failed && err->why == WHY_NO_COMMAND)
        return interpreter_missing(&language_bash, language_bash.program, err);
    if (!failed)
        *ret_session = interpreter_shell_of(&session);
    return failed;
}

void interpreter_shell_end(struct box *box, const struct interpreter_session *session) {
    autoarena arena = ARENA_EMPTY;
    box_session_end(box, interpreter_shell_name(&arena, session->name), false, ERR_IGNORED);
}

/* ---- what is run ---- */

struct shell_output {
    const struct interpreter_run *run;
    struct interpreter_result *result;
    struct buf held; /* the beginning of a line */
    uint64_t number;
};

static int interpreter_shell_started(void *user, uint64_t) {
    struct shell_output *output = user;
    return output->run->sink ? output->run->sink->begun(output->run->sink->user, (int64_t)output->number) : 0;
}

static int interpreter_shell_give(struct shell_output *output, size_t len) {
    const struct interpreter_output piece = {
        .kind = OUTPUT_STREAM, .text = (const char *)output->held.data, .len = len};
    int failed = 0;
    if (len && output->run->sink)
        failed = output->run->sink->output(output->run->sink->user, &piece);
    else if (len)
        buf_put(&output->result->texts[0], output->held.data, len);
    buf_consume(&output->held, len);
    return failed;
}

static int interpreter_shell_put(void *user, int, const uint8_t *data, size_t len) {
    struct shell_output *output = user;
    buf_put(&output->held, data, len);
    const uint8_t *end = memrchr(output->held.data, '\n', output->held.len);
    size_t whole = end ? (size_t)(end + 1 - output->held.data) : 0;
    if (output->held.len - whole > SHELL_LINE_BYTES)
        whole = output->held.len - headtail_partial(output->held.data, output->held.len);
    return interpreter_shell_give(output, whole);
}

static int interpreter_shell_idle(void *user) {
    struct shell_output *output = user;
    return interpreter_shell_give(output, output->held.len - headtail_partial(output->held.data, output->held.len));
}

/* The code after its variables, and the command that puts them back. */
static void interpreter_shell_command(const struct interpreter_run *run, struct buf *command, struct buf *restore) {
    if (run->env && *run->env) {
        buf_puts(command, "__cubby_env=$(declare -p");
        buf_puts(restore, "unset");
        for (const char *const *row = run->env; *row; row++) {
            buf_printf(command, " %.*s", (int)strcspn(*row, "="), *row);
            buf_printf(restore, " %.*s", (int)strcspn(*row, "="), *row);
        }
        buf_puts(command, " 2> /dev/null)\nexport");
        buf_puts(restore, "; eval \"$__cubby_env\"; unset __cubby_env");
        for (const char *const *row = run->env; *row; row++) {
            size_t len = strcspn(*row, "=");
            buf_printf(command, " %.*s=", (int)len, *row);
            text_quote(command, (*row)[len] ? *row + len + 1 : "");
        }
        buf_byte(command, '\n');
    }
    buf_put(command, run->code, run->len);
}

static void interpreter_shell_result(const struct session_result *ran, struct interpreter_result *result) {
    struct interpreter_output *out = arena_alloc(&result->arena, sizeof *out);
    bool fine = ran->exited && !ran->exit_code && !ran->gone;
    const char *text = arena_printf(&result->arena, "%d", ran->exit_code);
    result->status = fine ? CODE_OK : CODE_FAILED;
    result->ended = ran->gone;
    result->outputs = out;
    if (ran->gone)
        interpreter_output_failure(result, out, "DeadKernelError",
                                   arena_printf(&result->arena, "the session ended while the code ran: %s",
                                                ran->oom_killed ? "the box ran out of memory"
                                                                : arena_printf(&result->arena, "exit code %s", text)));
    else if (!fine)
        interpreter_output_failure(result, out, "ExitCode", text);
    result->count = !fine;
}

static void interpreter_shell_counted(void *user, const struct session *session) {
    *(uint64_t *)user = session->commands + 1;
}

int interpreter_shell_run(struct box *box, const struct interpreter_run *run, const struct interpreter_caller *caller,
                          const struct interpreter_session *session, struct interpreter_result *ret_result,
                          struct err *err) {
    struct interpreter_result result = {.numbered = true,
                                        .texts = {buf_max(TALK_ANSWER_BYTES), buf_max(TALK_ANSWER_BYTES)}};
    struct shell_output output = {
        .run = run, .result = &result, .held = buf_max(SHELL_LINE_BYTES + 2 * LIMIT_FRAME_PAYLOAD_BYTES)};
    const struct exec_sink sink = {.started = interpreter_shell_started,
                                   .output = interpreter_shell_put,
                                   .idle = interpreter_shell_idle,
                                   .idle_ms = SHELL_LINGER_MS,
                                   .user = &output};
    autobuf command = buf_max(LIMIT_CALL_ARGS_BYTES), restore = buf_max(LIMIT_CALL_ARGS_BYTES);
    const char *name = interpreter_shell_name(&result.arena, session->name);
    struct session_result ran = {0};
    interpreter_shell_command(run, &command, &restore);
    int failed = box_sessions(box, name, interpreter_shell_counted, &output.number, err);
    result.number = (int64_t)output.number;
    const struct session_run first = {
        .name = name, .command = buf_cstr(&command), .cwd = run->cwd, .hard_ms = run->timeout_s * 1000};
    if (!failed && !first.command)
        failed = err_set(err, ERR_TOO_LARGE, "code of Bash may have %u bytes", LIMIT_CALL_ARGS_BYTES);
    if (!failed)
        failed = box_session_run(box, &first, &sink, caller->watch, &result.arena, &ran, err)
                     ?: interpreter_shell_give(&output, output.held.len);
    if (restore.len && !ran.gone) {
        const struct exec_sink silent = {0};
        const struct session_run second = {.name = name, .command = buf_cstr(&restore), .hard_ms = SHELL_RESTORE_MS};
        struct session_result ignored;
        box_session_run(box, &second, &silent, -1, &result.arena, &ignored, ERR_IGNORED);
    }
    buf_done(&output.held);
    if (failed) {
        interpreter_result_done(&result);
        return failed;
    }
    interpreter_shell_result(&ran, &result);
    *ret_result = result;
    return 0;
}
