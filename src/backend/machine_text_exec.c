/* Commands and scripts on a machine of the text form: one request, one answer at its end. Called by the ops of the other
 * machine_text files. Not to break: a command never runs in another directory than it was given, and what a script says is
 * believed only with the mark that it writes last. */
#include <string.h>

#include "backend/machine_text_call.h"
#include "base/clock.h"
#include "base/conceal.h"
#include "base/text.h"

enum {
    STDIN_WAIT_MS = 300,   /* input that is not complete by then is streamed, where the runner can */
    STDIN_PLAIN = 1 << 20, /* as text, if it is; more goes as base64 */
    STDIN_MAX = 4 << 20,
    ANSWER_SLACK_MS = 10000, /* above the command's own time-out */
};

/* ---- what both need ---- */

void text_exec_members(struct machine_text *text, struct json *json, const char *shell, const char *command) {
    autobuf line;
    buf_init(&line, LIMIT_TEXT_MESSAGE_BYTES);
    bool plain = text->options.nested || strcmp(shell, "/bin/sh") == 0;
    if (!plain) { /* runners of that kind know one shell */
        buf_puts(&line, "exec ");
        text_quote(&line, shell);
        buf_puts(&line, " -c ");
        text_quote(&line, command);
    }
    json_key(json, "command");
    json_str(json, plain || line.failed ? command : buf_cstr(&line));
    json_key(json, "args");
    json_open(json, '[');
    if (text->options.nested) {
        json_str(json, shell);
        json_str(json, "-c");
        json_str(json, command);
    }
    json_close(json, ']');
    json_key(json, "shell");
    json_bool(json, !text->options.nested);
}

static void exec_rest(struct json *json, const char *dir, const char *const *env, const struct buf *input,
                      uint64_t timeout_s) {
    if (dir) {
        json_key(json, "dir");
        json_str(json, dir);
    }
    json_key(json, "env");
    json_open(json, '[');
    for (; env && *env; env++)
        json_str(json, *env);
    json_close(json, ']');
    json_key(json, "stdin");
    json_strn(json, input ? (const char *)input->data : "", input ? input->len : 0);
    json_key(json, "timeout");
    json_uint(json, timeout_s);
    json_key(json, "encoding");
    json_str(json, "base64");
}

/* Base64 with line ends in it, as programs write it. */
static bool decode_lines(const char *data, size_t len, struct buf *out) {
    autobuf tight;
    buf_init(&tight, LIMIT_TEXT_MESSAGE_BYTES);
    for (size_t i = 0; i < len; i++)
        if (data[i] != '\n' && data[i] != '\r')
            buf_byte(&tight, (uint8_t)data[i]);
    return !tight.failed && text_unbase64(out, tight.len ? (const char *)tight.data : "", tight.len);
}

static int output_take(const struct text_answer *answer, const char *key, struct buf *out, struct err *err) {
    size_t len = 0;
    const char *data = text_member(answer, key, &len), *encoding = text_member(answer, "encoding", NULL);
    if (!data)
        return 0; /* it said nothing */
    if (encoding && strcmp(encoding, "base64") == 0) {
        if (!text_unbase64(out, data, len))
            return err_set(err, ERR_PROTOCOL, "the machine's '%s' is not base64, as it says", key);
        return 0;
    }
    buf_put(out, data, len);
    return out->failed ? err_set(err, ERR_TOO_LARGE, "the machine's '%s' is too long", key) : 0;
}

/* ---- scripts ---- */

static const struct {
    int status;
    enum err_code code;
} statuses[] = {
    {SCRIPT_NOT_FOUND, ERR_NOT_FOUND}, {SCRIPT_EXISTS, ERR_EXISTS},       {SCRIPT_INVALID, ERR_INVALID},
    {SCRIPT_DENIED, ERR_DENIED},       {SCRIPT_TOO_LARGE, ERR_TOO_LARGE}, {SCRIPT_UNSUPPORTED, ERR_UNSUPPORTED},
};

static void script_line(struct buf *out, const char *script, const char *const *args) {
    buf_puts(out, "set --");
    for (; *args; args++) {
        buf_byte(out, ' ');
        text_quote(out, *args);
    }
    buf_puts(out, "\n{ (\n");
    buf_puts(out, script);
    buf_puts(out, "\n); printf '\\ncubby %d' $?; } | base64\n");
}

/* The mark at the end: "\ncubby N". What comes before it is left in out. */
static bool script_status(struct buf *out, int *ret_status) {
    static const char mark[] = "\ncubby ";
    const size_t mark_len = sizeof mark - 1;
    size_t at = out->len;
    while (at > 0 && out->len - at < 4 && out->data[at - 1] >= '0' && out->data[at - 1] <= '9')
        at--;
    if (at == out->len || at < mark_len || memcmp(out->data + at - mark_len, mark, mark_len) != 0)
        return false;
    int status = 0;
    for (size_t i = at; i < out->len; i++)
        status = status * 10 + (out->data[i] - '0');
    out->len = at - mark_len;
    *ret_status = status;
    return true;
}

static int script_failed(const struct machine_text *text, int status, const struct text_answer *answer,
                         struct err *err) {
    autobuf said, shown;
    buf_init(&said, LIMIT_TEXT_MESSAGE_BYTES);
    buf_init(&shown, 2048);
    struct err unheard;
    output_take(answer, "stderr", &said, &unheard);
    size_t len = said.len;
    while (len > 0 && said.data[len - 1] == '\n')
        len--;
    text_shown(&shown, len ? (const char *)said.data : "no reason was given", len ? (len < 300 ? len : 300) : 19);
    enum err_code code = ERR_IO;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            code = statuses[i].code;
    return err_set(err, code, "on machine %s: %s", text->name, buf_cstr(&shown));
}

int text_script(struct machine_text *text, struct text_call *call, const char *script, const char *const *args,
                const struct buf *input, uint64_t timeout_ms, struct buf *out, struct err *err) {
    autobuf line, members, raw;
    buf_init(&line, LIMIT_TEXT_MESSAGE_BYTES);
    buf_init(&members, LIMIT_TEXT_MESSAGE_BYTES);
    buf_init(&raw, LIMIT_TEXT_MESSAGE_BYTES);
    script_line(&line, script, args);
    if (line.failed)
        return err_set(err, ERR_TOO_LARGE, "the arguments are too long for machine %s", text->name);
    struct json json;
    json_init(&json, &members);
    text_exec_members(text, &json, "/bin/sh", buf_cstr(&line));
    uint64_t timeout_s = (timeout_ms + 999) / 1000;
    exec_rest(&json, NULL, NULL, input, timeout_s);
    struct text_answer answer;
    int r = text_ask(text, call, TEXT_EXEC, &members, timeout_s * 1000 + ANSWER_SLACK_MS, &answer, err);
    if (r < 0)
        return r;
    int status = 0;
    buf_clear(out);
    r = output_take(&answer, "stdout", &raw, err);
    if (r < 0)
        ;
    else if (text_truth(&answer, "timed_out"))
        r = err_set(err, ERR_TIMEOUT, "machine %s took longer than %llu s", text->name, (unsigned long long)timeout_s);
    else if (!decode_lines((const char *)raw.data, raw.len, out) || !script_status(out, &status))
        r = err_set(err, ERR_UNSUPPORTED, "the runner of machine %s does not run a shell that has base64", text->name);
    else if (status != 0)
        r = script_failed(text, status, &answer, err);
    text_answer_done(text, &answer);
    return r;
}

/* ---- commands ---- */

static bool drops(const struct text_call *call, const char *row) {
    for (size_t i = 0; i < call->args.drop_count; i++)
        if (strncmp(row, call->args.drops[i], strlen(call->args.drops[i])) == 0)
            return true;
    return false;
}

static bool name_ok(const char *name, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!memchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_", name[i], 63))
            return false;
    return len > 0;
}

/* Variables of the runner's own that the command is not to have; those that it is given by name stay. */
static void command_drops(const struct text_call *call, const char *const *env, struct buf *out) {
    for (size_t i = 0; i < call->args.drop_count; i++) {
        const char *prefix = call->args.drops[i];
        if (name_ok(prefix, strlen(prefix)))
            buf_printf(out,
                       "for cubby_name in $(env | sed -n 's/^\\(%s[A-Za-z0-9_]*\\)=.*/\\1/p'); do unset "
                       "\"$cubby_name\"; done\n",
                       prefix);
    }
    for (; call->args.drop_count && *env; env++) {
        const char *equals = strchr(*env, '=');
        if (!equals || !drops(call, *env) || !name_ok(*env, (size_t)(equals - *env)))
            continue;
        buf_printf(out, "export %.*s=", (int)(equals - *env), *env);
        text_quote(out, equals + 1);
        buf_byte(out, '\n');
    }
}

static int command_env(struct text_call *call, const char ***ret_env, struct err *err) {
    const struct fields *args = &call->args;
    size_t count = 0, own = 0;
    while (call->box->env[own])
        own++;
    const char **env = arena_alloc(&call->arena, (own + args->env_count + args->secret_count + 1) * sizeof *env);
    for (size_t i = 0; i < own; i++)
        if (!drops(call, call->box->env[i]))
            env[count++] = call->box->env[i];
    for (size_t i = 0; i < args->env_count; i++)
        env[count++] = args->env[i];
    for (size_t i = 0; i < args->secret_count; i++)
        env[count++] = args->secrets[i];
    for (size_t i = 0; i < count; i++)
        if (!text_utf8(env[i], strlen(env[i])))
            return err_set(err, ERR_INVALID, "the runner of machine %s takes only variables that are UTF-8",
                           call->text->name);
    *ret_env = env;
    return 0;
}

static bool inside(const char *path, const char *directory) {
    size_t len = strlen(directory);
    while (len > 1 && directory[len - 1] == '/')
        len--;
    return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0') && !strstr(path, "/../");
}

int text_command_of(struct text_call *call, struct text_command *ret_command, struct err *err) {
    const struct fields *args = &call->args;
    struct text_command command = {.shell = args->text[FIELD_SHELL] ? args->text[FIELD_SHELL] : call->box->shell};
    if (args->text[FIELD_USER] && strcmp(args->text[FIELD_USER], "root") == 0)
        return err_set(err, ERR_UNSUPPORTED, "commands on machine %s run as the user of its runner, not as root",
                       call->text->name);
    int r = text_path(call, FIELD_CWD, &command.dir, err);
    if (r == 0)
        r = command_env(call, &command.env, err);
    if (r < 0)
        return r;
    autobuf line;
    buf_init(&line, LIMIT_TEXT_MESSAGE_BYTES);
    command_drops(call, command.env, &line);
    if (!inside(command.dir, call->text->workspace)) {
        /* Some runners take their workspace instead of a directory outside of it, and say nothing. */
        buf_puts(&line, "cd -- ");
        text_quote(&line, command.dir);
        buf_puts(&line, " || exit 126\n");
        command.dir = call->text->workspace;
    }
    if (args->text[FIELD_COMMAND])
        buf_puts(&line, args->text[FIELD_COMMAND]);
    else if (args->argc)
        buf_puts(&line, "exec");
    else
        return err_set(err, ERR_INVALID, "there is no command");
    for (size_t i = 0; !args->text[FIELD_COMMAND] && i < args->argc; i++) {
        buf_byte(&line, ' ');
        text_quote(&line, args->argv[i]);
    }
    if (!args->text[FIELD_COMMAND])
        command.shell = "/bin/sh";
    if (line.failed || !text_utf8(line.data, line.len))
        return err_set(err, ERR_INVALID, "the runner of machine %s takes only commands that are UTF-8",
                       call->text->name);
    command.command = arena_copy(&call->arena, line.data, line.len);
    *ret_command = command;
    return 0;
}

static int exec_outputs(struct text_call *call, const struct text_answer *answer, uint64_t ret_bytes[2],
                        struct err *err) {
    static const char *const keys[] = {"stdout", "stderr"};
    int r = 0;
    for (int i = 0; i < 2 && r == 0; i++) {
        autobuf raw, clean;
        buf_init(&raw, LIMIT_TEXT_MESSAGE_BYTES);
        buf_init(&clean, 3u * LIMIT_TEXT_MESSAGE_BYTES);
        r = output_take(answer, keys[i], &raw, err);
        ret_bytes[i] = raw.len;
        struct conceal *conceal = conceal_new(call->args.secrets);
        if (conceal)
            conceal_text(conceal, raw.data, raw.len, &clean);
        const struct buf *out = conceal ? &clean : &raw;
        if (r == 0)
            r = text_data(call, i == 0 ? STREAM_STDOUT : STREAM_STDERR, out->data, out->len, err);
        conceal_free(conceal);
    }
    return r;
}

static void exec_end(struct text_call *call, const struct text_answer *answer, uint64_t timeout_ms,
                     uint64_t duration_ms, const uint64_t bytes[2]) {
    int64_t code = text_number(answer, "exit_code", 0);
    /* Some runners look at how it ended before they look at why. */
    bool timed_out = text_truth(answer, "timed_out") || (code == -1 && duration_ms >= timeout_ms);
    if (code >= 0)
        field_number(&call->end, FIELD_EXIT, (uint64_t)code & 0xff);
    else
        field_number(&call->end, FIELD_SIGNALLED, code == -1 || code < -64 ? 9 : (uint64_t)-code);
    if (timed_out)
        field_number(&call->end, FIELD_TIMED_OUT, 1);
    field_number(&call->end, FIELD_BYTES_OUT, bytes[0]);
    field_number(&call->end, FIELD_BYTES_ERR, bytes[1]);
    field_number(&call->end, FIELD_DURATION_MS, duration_ms);
}

static int exec_run(struct text_call *call, const struct text_command *command, const struct buf *input,
                    struct err *err) {
    struct machine_text *text = call->text;
    autobuf members, coded, line;
    buf_init(&members, LIMIT_TEXT_MESSAGE_BYTES);
    buf_init(&coded, LIMIT_TEXT_MESSAGE_BYTES);
    buf_init(&line, LIMIT_TEXT_MESSAGE_BYTES);
    const char *run = command->command;
    if (input->len > STDIN_PLAIN || !text_utf8(input->data, input->len) ||
        (input->len && memchr(input->data, 0, input->len))) {
        text_base64(&coded, input->data, input->len);
        buf_printf(&line, "base64 -d | {\n%s\n}", run);
        run = buf_cstr(&line);
        input = &coded;
    }
    uint64_t timeout_s = (call->args.number[FIELD_TIMEOUT_MS] + 999) / 1000;
    if (timeout_s == 0 || timeout_s > TEXT_EXEC_MAX_S)
        timeout_s = TEXT_EXEC_MAX_S;
    struct json json;
    json_init(&json, &members);
    text_exec_members(text, &json, command->shell, run);
    exec_rest(&json, command->dir, command->env, input, timeout_s);
    autobuf pid;
    buf_init(&pid, 64);
    pthread_mutex_lock(&text->lock);
    field_number(&pid, FIELD_PID, text->next_pid++);
    pthread_mutex_unlock(&text->lock);
    int r = text_stat(call, &pid, err);
    uint64_t begin_ms = clock_ms();
    struct text_answer answer;
    if (r == 0)
        r = text_ask(text, call, TEXT_EXEC, &members, timeout_s * 1000 + ANSWER_SLACK_MS, &answer, err);
    if (r < 0)
        return r;
    uint64_t duration_ms = clock_ms() - begin_ms, bytes[2] = {0, 0};
    r = exec_outputs(call, &answer, bytes, err);
    exec_end(call, &answer, timeout_s * 1000, duration_ms, bytes);
    text_answer_done(text, &answer);
    return r;
}

/* Input until its end. *ret_open: it did not end soon, and the runner can be fed while the command runs. */
static int exec_input(struct text_call *call, struct buf *input, bool *ret_open, struct err *err) {
    uint64_t begin_ms = clock_ms();
    for (;;) {
        bool stream = !text_lacks(call->text, TEXT_STDIO_START);
        uint64_t spent_ms = clock_ms() - begin_ms;
        uint64_t wait_ms = !stream ? 0 : spent_ms < STDIN_WAIT_MS ? STDIN_WAIT_MS - spent_ms : 1;
        uint8_t piece[16 << 10];
        ssize_t n = text_input(call, piece, sizeof piece, wait_ms, err);
        *ret_open = n == -ERR_TIMEOUT && stream;
        if (n <= 0)
            return *ret_open ? 0 : (int)n;
        buf_put(input, piece, (size_t)n);
        if (input->failed)
            return err_set(err, ERR_TOO_LARGE, "machine %s takes at most %d bytes of standard input", call->text->name,
                           STDIN_MAX);
    }
}

int text_op_exec(struct text_call *call, struct err *err) {
    uint64_t flags = call->args.number[FIELD_FLAGS];
    struct text_command command;
    autobuf input;
    buf_init(&input, STDIN_MAX);
    int r = text_command_of(call, &command, err);
    if (r < 0)
        return r;
    if (flags & CALL_PTY)
        return text_stream_run(call, &command, true, &input, err);
    if (flags & CALL_BACKGROUND)
        return text_process_spawn(call, &command, err);
    bool open = false;
    if (flags & CALL_STDIN)
        r = exec_input(call, &input, &open, err);
    if (r == 0 && open) {
        r = text_stream_run(call, &command, false, &input, err);
        if (r != -ERR_UNSUPPORTED)
            return r;
        r = text_input_all(call, &input, err); /* nothing was started: then as a whole */
    }
    return r < 0 ? r : exec_run(call, &command, &input, err);
}
