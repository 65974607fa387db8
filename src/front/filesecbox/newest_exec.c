/* execute of the later family: one line through bash, in the box. Called through filesecbox_newest_routes. */
#include <string.h>

#include "front/filesecbox/newest.h"

static int newest_execute_work(struct filesecbox *call, struct err *err) {
    struct arena *arena = http_arena(call->request);
    const char *line;
    size_t len;
    int code = newest_members(call->request,
                              (const struct newest_member[]){{"command", &line, &len}, {NULL, NULL, NULL}}, NULL, err);
    if (code != 0)
        return code;
    if (strlen(line) != len)
        return err_set(err, ERR_INVALID, "Validation Error: 'command' has a NUL in it.");
    const char *refusal =
        newest_refusal(arena, skills_settings(call->skills)->commands, box_workspace(call->box), line, len);
    if (refusal)
        return filesecbox_error(call->request, NEWEST_STATUS, ERR_DENIED, refusal);
    code = newest_files_made(call, err);
    if (code < 0)
        return code;
    unsigned long long seconds = skills_settings(call->skills)->exec_timeout_ms / 1000;
    const struct filesecbox_exec exec = {
        .command = line,
        .cwd = box_workspace(call->box),
        .timeout_text = arena_printf(arena, "Execution Timeout: Process killed after %llu seconds.", seconds),
        .status = NEWEST_STATUS,
        .prefix = "",
    };
    return filesecbox_execute(call, &exec, err);
}

int newest_execute(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return newest_run(request, NEWEST_BOX, newest_execute_work, err);
}
