/* ls: two levels of a directory, one absolute path a line. A row of tool_table. */
#include <string.h>

#include "tool/tool.h"

struct ls_args {
    struct body_text path;
};

static const struct body_field ls_fields[] = {
    {.name = "path",
     .type = BODY_TEXT,
     .flags = BODY_TOLD,
     .offset = offsetof(struct ls_args, path),
     .max = 4095,
     .text = "Directory to list; absolute, or relative to the working directory, which is the default."},
    {.name = NULL},
};

static int ls_each(void *user, const struct file_stat *stat) {
    struct tool_call *call = user;
    tool_put(call, stat->path, strlen(stat->path));
    tool_put(call, stat->type == FILE_DIR ? "/\n" : "\n", stat->type == FILE_DIR ? 2 : 1);
    return 0;
}

static int ls_run(struct tool_call *call, const void *user, struct err *err) {
    const struct ls_args *args = user;
    const char *path;
    bool truncated;
    int code = tool_path(call, &args->path, &path, err);
    if (code == 0)
        code = box_list(call->box, path, 2, 100000, call->watch, ls_each, call, &truncated, err);
    return code;
}

const struct tool tool_ls = {
    .name = "ls",
    .title = "List a directory",
    .description = "List the files and directories below a directory, two levels deep, one absolute path a line.",
    .fields = ls_fields,
    .args_size = sizeof(struct ls_args),
    .flags = TOOL_READS | TOOL_SAME,
    .cut = TOOL_HEAD,
    .cut_setting = offsetof(struct tool_settings, ls_chars),
    .cut_hint = "Use a more specific path to see fewer results",
    .run = ls_run,
};
