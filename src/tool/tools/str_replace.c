/* str_replace: replaces a string in a file. A row of tool_table. */
#include "base/limits.h"
#include "tool/tools/change.h"

struct str_replace_args {
    struct row_text path, old_str, new_str, description;
    bool replace_all;
};

static const struct row str_replace_fields[] = {
    CHANGE_PATH(struct str_replace_args),
    {ARG(str_replace_args, old_str, TEXT), .flags = ROW_REQUIRED, .min = 1, .max = LIMIT_EDIT_BYTES,
     .text = "The text to replace, exactly as it is in the file, including white space and line breaks. It must occur "
             "exactly once unless replace_all is set."},
    {ARG(str_replace_args, new_str, TEXT), .flags = ROW_REQUIRED, .max = LIMIT_EDIT_BYTES,
     .text = "The new text; may be empty."},
    {ARG(str_replace_args, replace_all, BOOL), .text = "Replace every occurrence."},
    TOOL_DESCRIPTION(struct str_replace_args),
    {.name = NULL},
};

static const struct row str_replace_answer[] = {
    CHANGE_ANSWER,
    {ANSWER("replacements", INT), .text = "Number of places changed."},
    {ANSWER("line", INT), .text = "Line of the first change."},
    {.name = NULL},
};

static int str_replace_run(struct tool_call *call, const void *user, struct err *err) {
    const struct str_replace_args *args = user;
    struct change change = {.denied = "accessing file",
                            .failed = "Unexpected error replacing string in",
                            .edit = {.kind = EDIT_STRING,
                                     .all = args->replace_all,
                                     .text = true,
                                     .old = args->old_str.data,
                                     .old_len = args->old_str.len,
                                     .new_text = args->new_str.data,
                                     .new_len = args->new_str.len}};
    int code = change_run(call, &args->path, &change, err);
    if (code != 0)
        return code < 0 ? code : 0;
    tool_say(call, "OK");
    change_answer(call, &change);
    json_put_uint(&call->result.json, "replacements", change.result.count);
    json_put_uint(&call->result.json, "line", change.result.line);
    json_close(&call->result.json, '}');
    return 0;
}

const struct tool tool_str_replace = {
    TOOL(str_replace, "Replace a string"), .answer = str_replace_answer, .flags = TOOL_ENDS, .cut = TOOL_WHOLE,
    .description =
        "Replace a string in a text file. old_str must occur exactly once unless replace_all is set; otherwise "
        "nothing is changed, and the error shows the closest lines or every place where it occurs. Read the file "
        "with read_file first. Returns OK."};
