/* write_file: a file with this content, or this behind what it has. A row of tool_table. */
#include "base/limits.h"
#include "tool/tools/change.h"

struct write_file_args {
    struct row_text path, content, description;
    bool append;
};

static const struct row write_file_fields[] = {
    CHANGE_PATH(struct write_file_args),
    {ARG(write_file_args, content, TEXT), .flags = ROW_REQUIRED | ROW_NUL, .max = LIMIT_JSON_BYTES,
     .text =
         "The whole text of the file, or what is added to it. It is written as it is: nothing is added or left out."},
    {ARG(write_file_args, append, BOOL),
     .text = "Add the content at the end of the file instead of replacing what is there."},
    TOOL_DESCRIPTION(struct write_file_args),
    {.name = NULL},
};

static const struct row write_file_answer[] = {
    CHANGE_ANSWER,
    {ANSWER("created", BOOL), .text = "There was no such file before."},
    {.name = NULL},
};

static int write_file_run(struct tool_call *call, const void *user, struct err *err) {
    const struct write_file_args *args = user;
    uint64_t max = call->settings->write_file_bytes;
    if (!args->append && max && args->content.len > max)
        return tool_fail(
            call,
            "write_file content (%zu bytes) exceeds the %llu-byte single-call limit. Split the content into "
            "smaller pieces: either (a) write the first section now, then use `str_replace` for further "
            "edits, or (b) call write_file again with append=True carrying the next section.",
            args->content.len, (unsigned long long)max);
    struct change change = {.denied = "writing to file",
                            .failed = "Failed to write file",
                            .edit = {.kind = args->append ? EDIT_APPEND : EDIT_WHOLE,
                                     .parents = true,
                                     .new_text = args->content.data,
                                     .new_len = args->content.len}};
    int code = change_run(call, &args->path, &change, err);
    if (code != 0)
        return code < 0 ? code : 0;
    tool_say(call, "OK");
    change_answer(call, &change);
    json_put_bool(&call->result.json, "created", change.result.created);
    json_close(&call->result.json, '}');
    return 0;
}

const struct tool tool_write_file = {
    .name = "write_file",
    .title = "Write a file",
    .description =
        "Write a text file: its whole content, or with append=true more at its end. Directories on the way are made. A file "
        "that is there already must have been read with read_file (or written by you) since it last changed, so that "
        "nobody's work is overwritten unseen. For changes inside of a file use str_replace or edit. Answers OK.",
    .fields = write_file_fields,
    .args_size = sizeof(struct write_file_args),
    .answer = write_file_answer,
    .flags = TOOL_ENDS,
    .cut = TOOL_WHOLE,
    .run = write_file_run,
};
