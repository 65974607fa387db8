/* bash: runs a command in the box until it exits. A row of tool_table. Invariant: an exit code other than 0 is a
 * result, not an error: the command ran, and its output is the answer. A command that was killed or timed out is an
 * error. */
#include "base/base.h"
#include "box/signame.h"
#include "tool/guard/guard.h"
#include "tool/shell.h"

struct bash_args {
    struct row_text command, cwd, description;
    struct row_number timeout_ms;
};

static const struct row bash_fields[] = {
    {ARG(bash_args, command, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = SHELL_MAX_BYTES,
     .text = "The command line, passed to the box's shell."},
    {ARG(bash_args, timeout_ms, INT), .min = 1, .max = LIMIT_EXEC_TIMEOUT_MS,
     .text = "Milliseconds after which the command and everything it started are killed."},
    {ARG(bash_args, cwd, TEXT), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "Directory for this command only; default: the working directory, which the cd tool changes."},
    TOOL_DESCRIPTION(struct bash_args),
    {.name = NULL},
};

static const struct row bash_answer[] = {
    SHELL_ANSWER,
    {ANSWER("left_running", BOOL), .text = "it left processes running, which were killed"},
    {ANSWER("duration_ms", INT), .text = "how long it ran"},
    {ANSWER("stdout_bytes", INT), .text = "bytes written to standard output, before truncation"},
    {ANSWER("stderr_bytes", INT), .text = "bytes written to standard error, before truncation"},
    {ANSWER("cwd", TEXT), .text = "where it ran"},
    {.name = NULL},
};

/* Says how the command ended, if that is worth a line. */
static void bash_end(struct tool_call *call, uint64_t timeout_ms) {
    const struct exec_result *result = &call->exec;
    char name[SIGNAME_BYTES];
    if (result->timed_out) {
        char seconds[32];
        int n = snprintf(seconds, sizeof seconds, "%llu.%03llu", (unsigned long long)timeout_ms / 1000,
                         (unsigned long long)timeout_ms % 1000);
        while (n && seconds[n - 1] == '0')
            seconds[--n] = 0;
        if (n && seconds[n - 1] == '.')
            seconds[--n] = 0;
        tool_say(call,
                 "\nCommand timed out after %s seconds and was terminated. To run a long-lived process such as a web "
                 "server, start it with bash_background.",
                 seconds);
    } else if (!result->exited)
        tool_say(call, "\nKilled by %s", signame_text(result->signal, name));
    else if (result->exit_code)
        tool_say(call, "\nExit Code: %d", result->exit_code);
    if (result->oom_killed && result->memory_limit_bytes)
        tool_say(call, "\nOut of memory: a process was killed (the box may use %llu MB).",
                 (unsigned long long)result->memory_limit_bytes >> 20);
    else if (result->oom_killed)
        tool_say(call, "\nOut of memory: a process was killed.");
    if (result->left)
        tool_say(call,
                 "\nIt left processes running, which were killed. To keep one running, start it with bash_background.");
    if (result->stuck)
        tool_say(call, "\nA process of the command hangs in the kernel; it stays until the box is stopped.");
    for (unsigned i = 0; i < result->denied_count; i++)
        tool_say(call, "\nNetwork: %s was refused (%s)%s.", result->denied[i].to, result->denied[i].why,
                 strcmp(result->denied[i].why, "default") == 0 ? "; the box's policy does not allow it" : "");
    call->result.is_error = result->timed_out || !result->exited || result->oom_killed;
}

static int bash_run(struct tool_call *call, const void *user, struct err *err) {
    const struct bash_args *args = user;
    uint64_t timeout_ms = args->timeout_ms.has ? args->timeout_ms.value : call->settings->bash_timeout_ms;
    struct exec_request request;
    struct spool errors;
    TRY(shell_prepare(call, &args->cwd, timeout_ms, &request, err));
    if (!guard_admits(call, args->command.data))
        return 0;
    request.command = args->command.data;
    int code = shell_run(call, &request, &errors, err);
    if (code == 0) {
        shell_errors(call, &errors, "(no output)");
        bash_end(call, timeout_ms);
        const char *first = request.command + strspn(request.command, " \t\n");
        if (strncmp(first, "cd", 2) == 0 && strchr(" \t\n;&|", first[2]))
            tool_say(call, "\nTip: cd affects this command only; use the cd tool to change the working directory.");
        struct json *json = &call->result.json;
        json_open(json, '{');
        shell_json(json, &call->exec);
        json_put_bool(json, "left_running", call->exec.left);
        json_put_uint(json, "duration_ms", call->exec.duration_ms);
        json_put_uint(json, "stdout_bytes", call->exec.stdout_bytes);
        json_put_uint(json, "stderr_bytes", call->exec.stderr_bytes);
        json_put_str(json, "cwd", request.cwd);
        json_close(json, '}');
    }
    spool_done(&errors);
    return code;
}

const struct tool tool_bash = {
    TOOL(bash, "Run a command"),
    .answer = bash_answer,
    .flags = TOOL_ENDS | TOOL_WORLD,
    .cut = TOOL_MIDDLE,
    .cut_setting = offsetof(struct tool_settings, bash_chars),
    .description =
        "Run a command line in the box's shell and wait until it exits. Returns its output, then its standard "
        "error below 'Std Error:', then 'Exit Code: n' if that is not 0. The command starts in the working "
        "directory (see cd) with empty standard input. Variables, functions and cd do not persist between calls; "
        "files do. Processes left running are killed when the command exits: use bash_background for servers and "
        "long jobs. Prefer ls, glob, grep, read_file and str_replace to their shell counterparts."};
