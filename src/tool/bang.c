/* Bang commands. Called by native/tool.c. Invariant: nothing but the box is read or written, whatever the text says:
 * a file that is sent back is one that the box's user can read in the box. */
#include "base/base.h"
#include "tool/bang.h"
#include "tool/memo.h"

const struct row bang_fields[] = {
    {ARG(bang_args, text, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = SHELL_MAX_BYTES,
     .text = "what a person typed: !COMMAND, !cd DIR, !get FILE, or !! to repeat the last command"},
    {ARG(bang_args, user, TEXT), .flags = ROW_AUDITED, .min = 1, .max = LIMIT_USER_BYTES,
     .text = "the sender, for tokens without a user; default: the token's user, else 'default'"},
    {ARG(bang_args, timeout_ms, INT), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS, .fallback = BANG_TIMEOUT_MS,
     .text = "milliseconds after which the command and all it started are killed; default 120000"},
    {ARG(bang_args, max_chars, INT), .min = 100, .max = 1000000, .fallback = BANG_CHARS,
     .text = "longer output is written to a file in the box, and its beginning is shown; default 16000 characters"},
    ROW_NAMED("BangRequest"),
};

const struct row bang_answer[] = {
    {ANSWER("command", TEXT), .text = "what was run, without its '!'"},
    {ANSWER("text", TEXT), .text = "the answer for the chat, in Markdown"},
    {ANSWER("is_error", BOOL), .text = "nothing was run, or it was killed"},
    {ANSWER("box", TEXT), .flags = ROW_NULLABLE, .text = "id of the box; GET /v1/boxes/ID/files has the file"},
    {ANSWER("cwd", TEXT), .text = "working directory of the thread afterwards"},
    {ANSWER("truncated", BOOL), .text = "the text has only the beginning of the output; the file has more"},
    {ANSWER("file", TEXT), .flags = ROW_NULLABLE,
     .text = "path in the box: the long output, or the file that !get names, or null"},
    {ANSWER("file_bytes", INT), .flags = ROW_NULLABLE, .text = "its size"},
    SHELL_ANSWER,
    ROW_NAMED("BangResult"),
};

struct bang {
    struct tool_call *call;
    const struct bang_args *args;
    struct bang_result *out;
};

void bang_json(struct json *json, const struct tool_call *call, const struct bang_result *result) {
    json_put_str(json, "box", call->box ? call->box->id : NULL);
    json_put_str(json, "command", result->command ? result->command : "");
    json_put_str(json, "cwd", result->cwd ? result->cwd : "");
    json_put_bool(json, "truncated", result->truncated);
    json_put_str(json, "file", result->file);
    json_key(json, "file_bytes");
    if (result->file)
        json_uint(json, result->file_bytes);
    else
        json_nil(json);
    const struct exec_result none = {0};
    shell_json(json, call->has_exec ? &call->exec : &none);
}

/* Returns the words after `verb`, or NULL if the command is another one. */
static const char *bang_verb(const char *command, const char *verb) {
    size_t len = strlen(verb);
    if (strncmp(command, verb, len) != 0 || (command[len] && !strchr(" \t", command[len])))
        return NULL;
    return command + len + strspn(command + len, " \t");
}

/* ---- output ---- */

/* A fence that the output does not contain. */
static const char *bang_fence(struct tool_call *call, const uint8_t *text, size_t len) {
    size_t longest = 2;
    for (size_t at = 0, run = 0; at < len; at++) {
        run = text[at] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    longest = longest < 64 ? longest + 1 : 64;
    char *fence = arena_alloc(call->arena, longest + 1);
    memset(fence, '`', longest);
    fence[longest] = 0;
    return fence;
}

static size_t bang_prefix(const uint8_t *text, size_t len, uint64_t chars) {
    size_t at = 0;
    for (; at < len; at++)
        if ((text[at] & 0xc0) != 0x80 && chars-- == 0)
            break;
    return at;
}

/* Writes the whole output below the workspace, where the person finds it and the next command can use it. */
static int bang_keep(struct bang *bang, const uint8_t *text, size_t len, struct err *err) {
    struct tool_call *call = bang->call;
    struct view view = view_of(text, len);
    struct file_stat stat;
    bool created;
    bang->out->file = arena_printf(call->arena, "%s/cmd-output-%llu.txt", box_workspace(call->box),
                                   (unsigned long long)clock_wall_ms());
    const struct write_request request = {.path = bang->out->file, .parents = true, .size = (int64_t)len, .max = len};
    TRY(box_write(call->box, &request, box_read_view, &view, call->watch, &created, &stat, err));
    bang->out->file_bytes = len;
    return 0;
}

static void bang_say_end(struct bang *bang) {
    struct tool_call *call = bang->call;
    const struct exec_result *result = &call->exec;
    if (result->timed_out)
        tool_say(call, "\n`timed out after %.3g s`", (double)bang->args->timeout_ms.value / 1000);
    else if (!result->exited)
        tool_say(call, "\n`killed by signal %d%s`", result->signal, result->oom_killed ? ": out of memory" : "");
    else if (result->exit_code)
        tool_say(call, "\n`exit: exit code %d`", result->exit_code);
    call->result.is_error = result->timed_out || !result->exited;
}

static int bang_show(struct bang *bang, struct spool *errors, struct err *err) {
    struct tool_call *call = bang->call;
    struct spool output;
    size_t len;
    if (errors->total) {
        tool_say(call, "%s[stderr] ", call->result.text.total ? "\n" : "");
        tool_take(call, errors);
    }
    spool_init(&output, call->result.text.dir);
    spool_move(&output, &call->result.text);
    const uint8_t *text = spool_view(&output, &len);
    size_t shown = bang_prefix(text, len, bang->args->max_chars.value);
    int code = 0;
    bang->out->truncated = shown < len;
    if (bang->out->truncated)
        code = bang_keep(bang, text, len, err);
    while (shown && text[shown - 1] == '\n')
        shown--;
    if (code == 0 && shown) {
        const char *fence = bang_fence(call, text, shown);
        tool_say(call, "%s\n", fence);
        tool_put(call, text, shown);
        tool_say(call, "\n%s", fence);
    } else if (code == 0 && call->exec.exited && call->exec.exit_code == 0)
        tool_say(call, "`OK (no output)`");
    if (code == 0 && bang->out->truncated)
        tool_say(call, "\nThe whole output (%zu bytes) is in `%s`.", len, bang->out->file);
    if (code == 0)
        bang_say_end(bang);
    spool_done(&output);
    return code;
}

/* ---- commands ---- */

static int bang_exec(struct bang *bang, const char *line, struct spool *errors, struct err *err) {
    const struct row_text here = {0};
    struct exec_request request;
    TRY(shell_prepare(bang->call, &here, bang->args->timeout_ms.value, &request, err));
    request.command = line;
    return shell_run(bang->call, &request, errors, err);
}

/* The box's shell says where DIR is, so that ~, $VARIABLES and quotes mean there what they mean in a command. */
static int bang_cd(struct bang *bang, const char *where, struct spool *errors, struct err *err) {
    struct tool_call *call = bang->call;
    if (!*where)
        where = box_workspace(call->box);
    TRY(bang_exec(bang, arena_printf(call->arena, "cd %s && pwd", where), errors, err));
    size_t len;
    const char *text = (const char *)spool_view(&call->result.text, &len);
    bool moved = call->exec.exited && call->exec.exit_code == 0 && len > 1 && len <= LIMIT_PATH_BYTES &&
                 text[0] == '/' && text[len - 1] == '\n' && !memchr(text, 0, len);
    if (!moved)
        return bang_show(bang, errors, err);
    const char *path = arena_printf(call->arena, "%.*s", (int)len - 1, text);
    spool_clear(&call->result.text);
    TRY(memo_cd(call, path, err));
    tool_say(call, "`%s`", path);
    return 0;
}

static int bang_get(struct bang *bang, const char *name, struct err *err) {
    struct tool_call *call = bang->call;
    struct row_text path = {.data = name, .len = strlen(name)};
    struct file_stat stat;
    const char *file;
    int fd = -1;
    if (!*name)
        return tool_fail(call, "!get needs the name of a file");
    TRY(tool_path(call, &path, &file, err) ?: box_stat(call->box, file, call->arena, &stat, err));
    if (stat.type == FILE_DIR)
        return tool_fail(call, "'%s' is a directory; !get sends one file: pack it first (!tar czf x.tgz %s)", file,
                         name);
    TRY(box_read_open(call->box, file, &fd, &stat, err)); /* it can be read, and is a regular file */
    fd_close(&fd);
    bang->out->file = file;
    bang->out->file_bytes = stat.size;
    tool_say(call, "`%s` (%llu bytes)", file, (unsigned long long)stat.size);
    return 0;
}

static int bang_do(struct bang *bang, struct err *err) {
    const char *get = bang_verb(bang->out->command, "get"), *cd = bang_verb(bang->out->command, "cd");
    if (get)
        return bang_get(bang, get, err);
    struct spool errors;
    spool_init(&errors, -1);
    int code = cd && !strpbrk(cd, ";&|\n") ? bang_cd(bang, cd, &errors, err)
                                           : bang_exec(bang, bang->out->command, &errors, err)
                                                 ?: bang_show(bang, &errors, err);
    spool_done(&errors);
    return code;
}

static int bang_run(struct tool_call *call, const void *user, struct err *err) {
    struct bang bang = {.call = call, .args = user};
    struct bang_result *out = bang.out = bang.args->result;
    const char *text = bang.args->text.data;
    text += strspn(text, " \t\r\n");
    size_t len = strlen(text);
    while (len && strchr(" \t\r\n", text[len - 1]))
        len--;
    if (*text != '!' || len < 2)
        return err_set(err, ERR_INVALID, "a bang command begins with '!' and has something after it, e.g. !ls -la");
    call->result.whole = true;
    out->command = arena_printf(call->arena, "%.*s", (int)len - 1, text + 1);
    out->command += strspn(out->command, " \t");
    TRY(tool_box(call, err) ?: memo_cwd(call, &out->cwd, err));
    if (strcmp(out->command, "!") == 0) {
        TRY(memo_last(call, &out->command, err));
        if (!out->command)
            return tool_fail(call, "there is no command to repeat yet");
    } else
        TRY(memo_ran(call, out->command, err));
    return bang_do(&bang, err) ?: memo_cwd(call, &out->cwd, err);
}

const struct tool tool_bang = {.name = "bang",
                               .title = "Run a person's command",
                               .fields = bang_fields,
                               .args_size = sizeof(struct bang_args),
                               .run = bang_run,
                               .answer = bang_answer,
                               .flags = TOOL_ENDS | TOOL_WORLD,
                               .cut = TOOL_WHOLE};
