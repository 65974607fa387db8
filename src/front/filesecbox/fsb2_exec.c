/* execute of the later family: one line through bash, in the box. Called through fsb2_routes. */
#include <string.h>

#include "front/filesecbox/fsb2.h"

static int fsb2_execute_work(struct filesecbox *call, struct err *err) {
    struct arena *arena = http_arena(call->request);
    const char *line;
    size_t len;
    int code = fsb2_members(call->request, (const struct fsb2_member[]){{"command", &line, &len}, {NULL, NULL, NULL}},
                            NULL, err);
    if (code != 0)
        return code;
    if (strlen(line) != len)
        return err_set(err, ERR_INVALID, "Validation Error: 'command' has a NUL in it.");
    const char *refusal =
        fsb2_refusal(arena, skills_settings(call->skills)->commands, box_workspace(call->box), line, len);
    if (refusal)
        return filesecbox_error(call->request, NEWEST_STATUS, ERR_DENIED, refusal);
    code = fsb2_files_made(call, err);
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

int fsb2_execute(struct http_request *request, struct box *unused, struct err *err) {
    (void)unused;
    return fsb2_run(request, NEWEST_BOX, fsb2_execute_work, err);
}
