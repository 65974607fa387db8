/* edit: several ways to change a file, selected by mode. A row of tool_table; the modes are a table below. */
#include <string.h>

#include "base/limits.h"
#include "tool/tools/change.h"

struct edit_args {
    struct row_text path, mode, content, old_str, new_str, pattern, description;
    struct row_number line, start_line, end_line;
    bool replace_all, overwrite;
};

static const struct row edit_fields[] = {
    CHANGE_PATH(struct edit_args),
    {ARG(edit_args, mode, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED,
     .choices = "create|replace|insert|delete_lines|regex",
     .text =
         "create: write a new file with content. replace: old_str, or lines start_line to end_line, with new_str. "
         "insert: content before line. delete_lines: start_line to end_line. regex: matches of pattern with new_str."},
    {ARG(edit_args, content, TEXT), .flags = ROW_NUL, .max = LIMIT_JSON_BYTES,
     .text = "create: the whole text. insert: the lines."},
    {ARG(edit_args, old_str, TEXT), .max = LIMIT_EDIT_BYTES,
     .text = "replace: the text to replace, exactly as it is in the file."},
    {ARG(edit_args, new_str, TEXT), .max = LIMIT_EDIT_BYTES,
     .text = "replace, regex: the new text. In regex mode $1, ${1} and ${name} are groups, and $$ is a dollar sign."},
    {ARG(edit_args, pattern, TEXT), .max = LIMIT_PATTERN_BYTES,
     .text =
         "regex: Perl-compatible; ^ and $ match at each line, . does not match a newline; (?i) and (?s) change that."},
    {ARG(edit_args, line, INT), .max = INT64_MAX,
     .text = "insert: insert before this line, from 1; absent or 0: at the end of the file."},
    {ARG(edit_args, start_line, INT), .max = INT64_MAX,
     .text = "First line, from 1. Required for delete_lines. replace and regex: search only from this line on."},
    {ARG(edit_args, end_line, INT), .max = INT64_MAX,
     .text =
         "Last line, inclusive. Default: start_line for delete_lines and replace without old_str, else the last line."},
    {ARG(edit_args, replace_all, BOOL),
     .text = "replace, regex: change every match; without it there must be exactly one."},
    {ARG(edit_args, overwrite, BOOL), .text = "create: replace an existing file (read it first)."},
    TOOL_DESCRIPTION(struct edit_args),
    {.name = NULL},
};

static const struct row edit_answer[] = {
    CHANGE_ANSWER,
    {ANSWER("created", BOOL), .text = "The file did not exist before."},
    {ANSWER("replacements", INT), .text = "Number of places changed; absent for create."},
    {ANSWER("line", INT), .text = "Line of the first change; absent for create."},
    {ANSWER("lines", INT), .text = "Number of lines in the file now; absent for create."},
    {.name = NULL},
};

static uint64_t edit_count_lines(const struct row_text *text) {
    uint64_t count = text->len && text->data[text->len - 1] != '\n';
    for (size_t i = 0; i < text->len; i++)
        count += text->data[i] == '\n';
    return count;
}

static int edit_refuse(struct tool_call *call, const char *text) {
    tool_fail(call, "%s", text);
    return 1;
}

static int edit_create(struct tool_call *call, const struct edit_args *args, struct change *change) {
    if (!args->content.data)
        return edit_refuse(call, "mode create needs content");
    change->edit.kind = EDIT_WHOLE;
    change->edit.parents = true;
    change->edit.new_text = args->content.data;
    change->edit.new_len = args->content.len;
    change->fresh = !args->overwrite;
    return 0;
}

static int edit_replace(struct tool_call *call, const struct edit_args *args, struct change *change) {
    if (!args->new_str.data)
        return edit_refuse(call, "mode replace needs new_str");
    if (args->old_str.len) {
        change->edit.kind = EDIT_STRING;
        change->edit.old = args->old_str.data;
        change->edit.old_len = args->old_str.len;
    } else if (args->start_line.value) {
        change->edit.kind = EDIT_LINES;
        change->edit.last = args->end_line.value ? args->end_line.value : args->start_line.value;
    } else {
        return edit_refuse(call, "mode replace needs old_str, or start_line");
    }
    return 0;
}

static int edit_insert(struct tool_call *call, const struct edit_args *args, struct change *change) {
    if (!args->content.len)
        return edit_refuse(call, "mode insert needs content");
    if (memchr(args->content.data, 0, args->content.len))
        return edit_refuse(call, "content must not contain the character NUL");
    change->edit.kind = EDIT_LINES;
    change->edit.first = args->line.value;
    change->edit.last = args->line.value ? args->line.value - 1 : 0;
    change->edit.new_text = args->content.data;
    change->edit.new_len = args->content.len;
    return 0;
}

static int edit_delete(struct tool_call *call, const struct edit_args *args, struct change *change) {
    if (!args->start_line.value)
        return edit_refuse(call, "mode delete_lines needs start_line");
    change->edit.kind = EDIT_LINES;
    change->edit.last = args->end_line.value ? args->end_line.value : args->start_line.value;
    change->edit.new_len = 0;
    return 0;
}

static int edit_regex(struct tool_call *call, const struct edit_args *args, struct change *change) {
    const struct row_text *pattern = args->pattern.len ? &args->pattern : &args->old_str;
    if (!pattern->len)
        return edit_refuse(call, "mode regex needs pattern");
    if (!args->new_str.data)
        return edit_refuse(call, "mode regex needs new_str");
    change->edit.kind = EDIT_REGEX;
    change->edit.old = pattern->data;
    change->edit.old_len = pattern->len;
    return 0;
}

static void edit_say_created(struct tool_call *call, const struct edit_args *, const struct change *change) {
    tool_say(call, "File created successfully: %s", change->edit.path);
}

static void edit_say_replaced(struct tool_call *call, const struct edit_args *, const struct change *change) {
    const struct edit_request *edit = &change->edit;
    if (edit->kind == EDIT_LINES)
        tool_say(call, "Successfully replaced lines %llu-%llu in %s", (unsigned long long)edit->first,
                 (unsigned long long)edit->last, edit->path);
    else
        tool_say(call, "Successfully replaced %llu %s in %s", (unsigned long long)change->result.count,
                 edit->kind == EDIT_REGEX ? "match(es)" : "occurrence(s)", edit->path);
}

static void edit_say_inserted(struct tool_call *call, const struct edit_args *args, const struct change *change) {
    tool_say(call, "Successfully inserted %llu line(s) at line %llu in %s",
             (unsigned long long)edit_count_lines(&args->content), (unsigned long long)change->result.line,
             change->edit.path);
}

static void edit_say_deleted(struct tool_call *call, const struct edit_args *, const struct change *change) {
    tool_say(call, "Successfully deleted %llu line(s) from %s",
             (unsigned long long)(change->edit.last - change->edit.first + 1), change->edit.path);
}

static const struct edit_mode {
    const char *name;
    int (*fill)(struct tool_call *call, const struct edit_args *args, struct change *change);
    void (*say)(struct tool_call *call, const struct edit_args *args, const struct change *change);
} edit_modes[] = {{"create", edit_create, edit_say_created},
                  {"replace", edit_replace, edit_say_replaced},
                  {"insert", edit_insert, edit_say_inserted},
                  {"delete_lines", edit_delete, edit_say_deleted},
                  {"regex", edit_regex, edit_say_replaced}};

static int edit_run(struct tool_call *call, const void *user, struct err *err) {
    const struct edit_args *args = user;
    const struct edit_mode *mode = edit_modes;
    while (strcmp(mode->name, args->mode.data) != 0)
        mode++;
    struct change change = {.denied = "accessing file",
                            .failed = "Failed to edit file",
                            .edit = {.all = args->replace_all,
                                     .text = true,
                                     .first = args->start_line.value,
                                     .last = args->end_line.value,
                                     .new_text = args->new_str.data,
                                     .new_len = args->new_str.len}};
    int code = mode->fill(call, args, &change) ?: change_run(call, &args->path, &change, err);
    if (code != 0)
        return code < 0 ? code : 0;
    mode->say(call, args, &change);
    change_answer(call, &change);
    struct json *json = &call->result.json;
    json_put_bool(json, "created", change.result.created);
    if (change.edit.kind != EDIT_WHOLE) {
        json_put_uint(json, "replacements", change.result.count);
        json_put_uint(json, "line", change.result.line);
        json_put_uint(json, "lines", change.result.lines);
    }
    json_close(json, '}');
    return 0;
}

const struct tool tool_edit = {
    TOOL(edit, "Edit a file"), .answer = edit_answer, .flags = TOOL_ENDS, .cut = TOOL_WHOLE,
    .description =
        "Change a text file in one of several modes: create a file, replace a string or a range of lines, insert "
        "lines, delete lines, or replace matches of a regular expression. Lines are numbered from 1. CRLF line "
        "ends, a byte order mark and a missing newline at the end are preserved. Read the file with read_file "
        "first. On failure nothing is changed."};
