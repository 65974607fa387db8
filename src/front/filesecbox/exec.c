/* Commands of the dialect, in the box. Called by both families. Invariant: of the environment a command gets exactly
 * PATH, LANG, LC_ALL, HOME, USER and PWD; its input is empty, and its whole tree ends with it. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "front/collect.h"
#include "front/filesecbox/filesecbox.h"
#include "front/trail.h"

/* Two more members where something is missing, for whoever looks; its clients know three. */
static void result_json(struct answer *answer, struct collect *outputs, const struct exec_result *result) {
    static const char *const names[] = {"stdout", "stderror"};
    struct json *json = &answer->json;
    bool truncated = headtail_truncated(&outputs->streams[0]) || headtail_truncated(&outputs->streams[1]);
    json_open(json, '{');
    for (int i = 0; i < 2; i++) {
        size_t len;
        const uint8_t *data = headtail_finish(&outputs->streams[i], &len);
        json_key(json, names[i]);
        answer_long(answer, data, len, true); /* bytes that are no UTF-8 become U+FFFD */
    }
    json_put_int(json, "exit_code", result->exited ? result->exit_code : 128 + result->signal);
    if (truncated)
        json_put_bool(json, "truncated", true);
    if (result->oom_killed)
        json_put_bool(json, "oom_killed", true);
    json_close(json, '}');
}

/* What it had said until then is not lost. */
static int timed_out(struct filesecbox *call, const struct filesecbox_exec *exec, struct collect *outputs,
                     const struct exec_result *result, struct err *err) {
    autoanswer answer;
    answer_init(&answer, call->request, call->status);
    json_open(&answer.json, '{');
    json_put_str(&answer.json, "status", "error");
    json_put_str(&answer.json, "data",
                 arena_printf(http_arena(call->request), "%s%s", call->prefix, exec->timeout_text));
    json_key(&answer.json, "partial");
    result_json(&answer, outputs, result);
    json_close(&answer.json, '}');
    int failed = answer_end(&answer, 0, err);
    return failed < 0 ? failed : ERR_TIMEOUT;
}

static int finished(struct filesecbox *call, const struct filesecbox_exec *exec, struct collect *outputs,
                    const struct exec_result *result, struct err *err) {
    trail_result(call->request, result);
    if (result->timed_out)
        return timed_out(call, exec, outputs, result, err);
    autoanswer answer;
    filesecbox_open(&answer, call);
    result_json(&answer, outputs, result);
    return filesecbox_close(&answer, 0, err);
}

uint64_t filesecbox_timeout_ms(const struct filesecbox *call) {
    uint64_t wanted = skills_settings(call->skills)->exec_timeout_ms;
    return wanted ? wanted : DEFAULT_EXEC_TIMEOUT_MS;
}

/* Whether it was the directory that is missing, and not the program. */
static bool execute_lacks(struct filesecbox *call, const char *cwd) {
    struct file_stat stat;
    struct err ignored;
    return filesecbox_stat(call, cwd, &stat, &ignored) == -ERR_NOT_FOUND;
}

/* A program that is not installed is a result, as a shell has it. */
static int execute_unknown(struct filesecbox *call, const struct filesecbox_exec *exec, struct collect *outputs,
                           struct err *err) {
    const struct exec_result result = {.exited = true, .exit_code = 127};
    const char *text = arena_printf(http_arena(call->request), "%s\n", err->text);
    headtail_put(&outputs->streams[1], (const uint8_t *)text, strlen(text));
    return finished(call, exec, outputs, &result, err);
}

int filesecbox_execute(struct filesecbox *call, const struct filesecbox_exec *exec, struct err *err) {
    static const char *const all[] = {"", NULL};
    const char *home = box_workspace(call->box), *shell[] = {"bash", "-c", exec->command, NULL};
    struct arena *arena = http_arena(call->request);
    const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                               "LANG=C.UTF-8",
                               "LC_ALL=C.UTF-8",
                               "USER=agent",
                               arena_printf(arena, "HOME=%s", home),
                               arena_printf(arena, "PWD=%s", exec->cwd),
                               NULL};
    const struct exec_request request = {
        .argv = exec->command ? shell : exec->argv,
        .env = env,
        .drops = all,
        .cwd = exec->cwd,
        .timeout_ms = filesecbox_timeout_ms(call),
    };
    struct collect outputs;
    const struct exec_sink sink = {.output = collect_put, .user = &outputs};
    struct exec_result result = {0};
    size_t limit;
    int failed = box_output_limit(call->box, false, 0, DEFAULT_OUTPUT_LIMIT_BYTES, &limit, err);
    if (failed)
        return failed;
    trail_running(call->request);
    collect_init(&outputs, call->request, limit, err);
    failed = box_exec(call->box, &request, &sink, http_fd(call->request), &result, err);
    if (!failed)
        failed = finished(call, exec, &outputs, &result, err);
    else if (failed == -ERR_NOT_FOUND && !execute_lacks(call, exec->cwd))
        failed = execute_unknown(call, exec, &outputs, err);
    else if (failed == -ERR_NOT_FOUND && exec->missing_text)
        failed = filesecbox_error(call, ERR_NOT_FOUND, exec->missing_text);
    else
        failed = filesecbox_fail(call, err);
    collect_done(&outputs);
    return failed;
}
