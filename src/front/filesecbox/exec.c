/* Commands of the dialect, in the box. Called by both families. Invariant: a command's environment is exactly PATH,
 * LANG, LC_ALL, HOME, USER and PWD; its input is empty; its whole process tree ends with it. */
#include "front/stream.h"
#include "front/filesecbox/filesecbox.h"

/* Answers the result, or a timeout with the output until then. Clients know three members of a result; two more are
 * added if output is missing. */
static int exec_answer(struct filesecbox *call, const struct filesecbox_exec *exec, struct collect *outputs,
                       const struct exec_result *result, struct err *err) {
    static const char *const names[] = {"stdout", "stderror"};
    autoanswer answer;
    struct json *json = &answer.json;
    bool truncated = headtail_truncated(&outputs->streams[0]) || headtail_truncated(&outputs->streams[1]);
    trail_result(call->request, result);
    if (result->timed_out) {
        answer_init(&answer, call->request, call->status);
        json_open(json, '{');
        json_put_str(json, "status", "error");
        json_put_str(json, "data", arena_printf(http_arena(call->request), "%s%s", call->prefix, exec->timeout_text));
        json_key(json, "partial");
    } else {
        filesecbox_open(&answer, call);
    }
    json_open(json, '{');
    for (int i = 0; i < 2; i++) {
        size_t len;
        const uint8_t *data = headtail_finish(&outputs->streams[i], &len);
        json_key(json, names[i]);
        answer_long(&answer, data, len, true); /* bytes that are not UTF-8 become U+FFFD */
    }
    json_put_int(json, "exit_code", result->exited ? result->exit_code : 128 + result->signal);
    if (truncated)
        json_put_bool(json, "truncated", true);
    if (result->oom_killed)
        json_put_bool(json, "oom_killed", true);
    json_close(json, '}');
    int failed = filesecbox_close(&answer, 0, err);
    return failed < 0 || !result->timed_out ? failed : ERR_TIMEOUT;
}

uint64_t filesecbox_timeout_ms(const struct filesecbox *call) {
    uint64_t wanted = skills_settings(call->skills)->exec_timeout_ms;
    return wanted ? wanted : DEFAULT_EXEC_TIMEOUT_MS;
}

/* A program that is not installed is a result, as in a shell; a missing directory is an error. */
static int exec_not_found(struct filesecbox *call, const struct filesecbox_exec *exec, struct collect *outputs,
                          struct err *err) {
    const struct exec_result result = {.exited = true, .exit_code = 127};
    struct file_stat stat;
    if (filesecbox_stat(call, exec->cwd, &stat, ERR_IGNORED) == -ERR_NOT_FOUND)
        return exec->missing_text ? filesecbox_error(call, ERR_NOT_FOUND, exec->missing_text)
                                  : filesecbox_fail(call, err);
    const char *text = arena_printf(http_arena(call->request), "%s\n", err->text);
    headtail_put(&outputs->streams[1], (const uint8_t *)text, strlen(text));
    return exec_answer(call, exec, outputs, &result, err);
}

int filesecbox_execute(struct filesecbox *call, const struct filesecbox_exec *exec, struct err *err) {
    static const char *const all[] = {"", NULL};
    const char *shell[] = {"bash", "-c", exec->command, NULL};
    struct arena *arena = http_arena(call->request);
    const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                               "LANG=C.UTF-8",
                               "LC_ALL=C.UTF-8",
                               "USER=agent",
                               arena_printf(arena, "HOME=%s", box_workspace(call->box)),
                               arena_printf(arena, "PWD=%s", exec->cwd),
                               NULL};
    const struct exec_request request = {.argv = exec->command ? shell : exec->argv,
                                         .env = env,
                                         .drops = all,
                                         .cwd = exec->cwd,
                                         .timeout_ms = filesecbox_timeout_ms(call)};
    struct collect outputs;
    const struct exec_sink sink = {.output = collect_put, .user = &outputs};
    struct exec_result result = {0};
    size_t limit;
    STEP(box_output_limit(call->box, false, 0, DEFAULT_OUTPUT_LIMIT_BYTES, &limit, err));
    trail_running(call->request);
    collect_init(&outputs, call->request, limit, err);
    int failed = box_exec(call->box, &request, &sink, http_fd(call->request), &result, err);
    failed = !failed                    ? exec_answer(call, exec, &outputs, &result, err)
             : failed == -ERR_NOT_FOUND ? exec_not_found(call, exec, &outputs, err)
                                        : filesecbox_fail(call, err);
    collect_done(&outputs);
    return failed;
}
