/* edit: several ways to change a file, selected by mode. A row of tool_table. */
#include "base/base.h"
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

/* Fills in the request by its mode. Returns what the arguments lack, or NULL. */
static const char *edit_fill(const struct edit_args *args, struct change *change) {
    const struct row_text *pattern = args->pattern.len ? &args->pattern : &args->old_str;
    struct edit_request *edit = &change->edit;
    const char *mode = args->mode.data;
    bool creates = strcmp(mode, "create") == 0, inserts = strcmp(mode, "insert") == 0;
    if (creates || inserts) {
        edit->kind = creates ? EDIT_WHOLE : EDIT_LINES;
        edit->parents = creates;
        edit->new_text = args->content.data;
        edit->new_len = args->content.len;
        edit->first = args->line.value;
        edit->last = args->line.value ? args->line.value - 1 : 0;
        change->fresh = creates && !args->overwrite;
        if (creates)
            return args->content.data ? NULL : "mode create needs content";
        if (!args->content.len)
            return "mode insert needs content";
        return memchr(args->content.data, 0, args->content.len) ? "content must not contain the character NUL" : NULL;
    }
    if (strcmp(mode, "regex") == 0) {
        edit->kind = EDIT_REGEX;
        edit->old = pattern->data;
        edit->old_len = pattern->len;
        return !pattern->len ? "mode regex needs pattern" : args->new_str.data ? NULL : "mode regex needs new_str";
    }
    bool deletes = strcmp(mode, "delete_lines") == 0;
    if (!deletes && !args->new_str.data)
        return "mode replace needs new_str";
    if (!deletes && args->old_str.len) {
        edit->kind = EDIT_STRING;
        edit->old = args->old_str.data;
        edit->old_len = args->old_str.len;
        return NULL;
    }
    edit->kind = EDIT_LINES;
    edit->last = args->end_line.value ? args->end_line.value : args->start_line.value;
    edit->new_len = deletes ? 0 : edit->new_len;
    if (args->start_line.value)
        return NULL;
    return deletes ? "mode delete_lines needs start_line" : "mode replace needs old_str, or start_line";
}

static void edit_say(struct tool_call *call, const struct edit_args *args, const struct change *change) {
    const struct edit_request *edit = &change->edit;
    const char *mode = args->mode.data, *content = args->content.data;
    unsigned long long first = edit->first, last = edit->last, count = change->result.count;
    if (edit->kind == EDIT_WHOLE) {
        tool_say(call, "File created successfully: %s", edit->path);
    } else if (strcmp(mode, "insert") == 0) {
        uint64_t lines = content[args->content.len - 1] != '\n';
        for (size_t i = 0; i < args->content.len; i++)
            lines += content[i] == '\n';
        tool_say(call, "Successfully inserted %llu line(s) at line %llu in %s", (unsigned long long)lines,
                 (unsigned long long)change->result.line, edit->path);
    } else if (strcmp(mode, "delete_lines") == 0) {
        tool_say(call, "Successfully deleted %llu line(s) from %s", last - first + 1, edit->path);
    } else if (edit->kind == EDIT_LINES) {
        tool_say(call, "Successfully replaced lines %llu-%llu in %s", first, last, edit->path);
    } else {
        tool_say(call, "Successfully replaced %llu %s in %s", count,
                 edit->kind == EDIT_REGEX ? "match(es)" : "occurrence(s)", edit->path);
    }
}

static int edit_run(struct tool_call *call, const void *user, struct err *err) {
    const struct edit_args *args = user;
    struct change change = {.denied = "accessing file",
                            .failed = "Failed to edit file",
                            .edit = {.all = args->replace_all,
                                     .text = true,
                                     .first = args->start_line.value,
                                     .last = args->end_line.value,
                                     .new_text = args->new_str.data,
                                     .new_len = args->new_str.len}};
    const char *lacks = edit_fill(args, &change);
    if (lacks)
        return tool_fail(call, "%s", lacks);
    int code = change_run(call, &args->path, &change, err);
    if (code != 0)
        return code < 0 ? code : 0;
    edit_say(call, args, &change);
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
