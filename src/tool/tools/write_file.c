/* write_file: replaces a file's content, or appends to it. A row of tool_table. */
#include "base/limits.h"
#include "tool/tools/change.h"

struct write_file_args {
    struct row_text path, content, description;
    bool append;
};

static const struct row write_file_fields[] = {
    CHANGE_PATH(struct write_file_args),
    {ARG(write_file_args, content, TEXT), .flags = ROW_REQUIRED | ROW_NUL, .max = LIMIT_JSON_BYTES,
     .text = "The new text of the file, or the text to append. It is written exactly as given."},
    {ARG(write_file_args, append, BOOL), .text = "Append the content to the file instead of replacing the file."},
    TOOL_DESCRIPTION(struct write_file_args),
    {.name = NULL},
};

static const struct row write_file_answer[] = {
    CHANGE_ANSWER,
    {ANSWER("created", BOOL), .text = "The file did not exist before."},
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
    TOOL(write_file, "Write a file"), .answer = write_file_answer, .flags = TOOL_ENDS, .cut = TOOL_WHOLE,
    .description =
        "Write a text file: replace its whole content, or with append=true add to its end. Missing parent directories "
        "are created. An existing file must have been read with read_file (or written by you) since it last changed, "
        "so that no work is overwritten unseen. For changes inside a file use str_replace or edit. Returns OK."};
