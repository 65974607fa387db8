/* Commands of tools. Called by bash, background and download. Invariant: output goes to a spool as it arrives, so that
 * memory stays bounded; if the client hangs up, the command and everything it started are killed. */
#include "base/base.h"
#include "tool/shell.h"
#include "box/signame.h"
#include "tool/secret.h"
#include "tool/memo.h"

enum {
    SHELL_SEND_MS = 200,   /* shortest time between two reports, while there is output */
    SHELL_IDLE_MS = 10000, /* and without output: clients give up after a silent minute */
    SHELL_LAST_BYTES = 256,
};

struct shell_watch {
    struct tool_call *call;
    struct spool *errors;
    char last[SHELL_LAST_BYTES]; /* the end of its output */
    size_t len;
    uint64_t begun_ms, sent_ms;
};

int shell_prepare(struct tool_call *call, const struct row_text *cwd, uint64_t timeout_ms,
                  struct exec_request *ret_request, struct err *err) {
    const char *path;
    TRY(tool_path(call, cwd, &path, err));
    *ret_request = (struct exec_request){
        .cwd = path, .timeout_ms = timeout_ms, .secrets = call->secrets, .drops = call->settings->env_prefixes};
    return 0;
}

/* Reports the last line that is not empty, or how long the command has been running. */
static void shell_report(struct shell_watch *watch) {
    const char *text = watch->last;
    size_t end = watch->len, begin;
    watch->sent_ms = clock_ms();
    while (end && strchr(" \t\r\n", text[end - 1]))
        end--;
    for (begin = end; begin && text[begin - 1] != '\n' && text[begin - 1] != '\r';)
        begin--;
    while (begin < end && ((unsigned char)text[begin] & 0xc0) == 0x80) /* inside a character */
        begin++;
    char line[64];
    int n = snprintf(line, sizeof line, "running for %llu s",
                     (unsigned long long)(watch->sent_ms - watch->begun_ms) / 1000);
    if (begin < end)
        watch->call->progress(watch->call->progress_user, text + begin, end - begin);
    else
        watch->call->progress(watch->call->progress_user, line, (size_t)n);
}

static int shell_output(void *user, int stream, const uint8_t *data, size_t len) {
    struct shell_watch *watch = user;
    if (stream == STREAM_STDERR)
        spool_put(watch->errors, data, len);
    else
        tool_put(watch->call, data, len);
    if (!watch->call->progress)
        return 0;
    size_t room = sizeof watch->last, n = len < room ? len : room;
    if (watch->len + n > room) {
        size_t old = watch->len + n - room;
        memmove(watch->last, watch->last + old, watch->len - old);
        watch->len -= old;
    }
    memcpy(watch->last + watch->len, data + (len - n), n);
    watch->len += n;
    if (clock_ms() - watch->sent_ms >= SHELL_SEND_MS)
        shell_report(watch);
    return 0;
}

static int shell_idle(void *user) {
    struct shell_watch *watch = user;
    watch->len = 0; /* its last line was reported */
    shell_report(watch);
    return 0;
}

int shell_run(struct tool_call *call, const struct exec_request *request, struct spool *errors, struct err *err) {
    struct shell_watch watch = {.call = call, .errors = errors, .begun_ms = clock_ms()};
    const struct exec_sink sink = {
        .output = shell_output, .idle = call->progress ? shell_idle : NULL, .idle_ms = SHELL_IDLE_MS, .user = &watch};
    spool_init(errors, call->result.text.dir);
    int code = box_exec(call->box, request, &sink, call->watch, &call->exec, err);
    call->has_exec = code == 0;
    secret_settle(call);
    return code < 0 ? shell_failed(call, request, code, err) : 0;
}

void shell_errors(struct tool_call *call, struct spool *errors, const char *nothing) {
    secret_settle(call);
    if (errors->total && call->result.text.total)
        tool_say(call, "\nStd Error:\n");
    if (errors->total)
        tool_take(call, errors);
    if (call->result.text.total == 0)
        tool_say(call, "%s", nothing);
}

int shell_failed(struct tool_call *call, const struct exec_request *request, int code, struct err *err) {
    const char *cwd;
    if (code == -ERR_GONE || memo_cwd(call, &cwd, ERR_IGNORED) < 0 || strcmp(cwd, request->cwd) != 0)
        return code;
    return memo_vanished(call, cwd, err) ? -err->code : code;
}

void shell_json(struct json *json, const struct exec_result *result) {
    char name[SIGNAME_BYTES];
    json_key(json, "exit_code");
    if (result->exited)
        json_int(json, result->exit_code);
    else
        json_nil(json);
    json_put_str(json, "signal", !result->exited && result->signal ? signame_text(result->signal, name) : NULL);
    json_put_bool(json, "timed_out", result->timed_out);
    json_put_bool(json, "oom_killed", result->oom_killed);
}
