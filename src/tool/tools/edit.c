/* edit: one tool for the ways to change a file that are not a plain string: by mode. A row of tool_table; its modes are a
 * table here. */
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
         "create: a new file with content. replace: old_str by new_str, or lines start_line to end_line by new_str. "
         "insert: content before line. delete_lines: start_line to end_line. regex: what pattern matches by new_str."},
    {ARG(edit_args, content, TEXT), .flags = ROW_NUL, .max = LIMIT_JSON_BYTES,
     .text = "create: the whole text. insert: the lines."},
    {ARG(edit_args, old_str, TEXT), .max = LIMIT_EDIT_BYTES,
     .text = "replace: the text to replace, exactly as it is in the file."},
    {ARG(edit_args, new_str, TEXT), .max = LIMIT_EDIT_BYTES,
     .text = "replace, regex: the text instead. In regex $1, ${1} and ${name} are groups, $$ is a dollar sign."},
    {ARG(edit_args, pattern, TEXT), .max = LIMIT_PATTERN_BYTES,
     .text = "regex: Perl-compatible; ^ and $ match at each line, . no newline; (?i) and (?s) change that."},
    {ARG(edit_args, line, INT), .max = INT64_MAX,
     .text = "insert: the line before which it goes, from 1; absent or 0: the end of the file."},
    {ARG(edit_args, start_line, INT), .max = INT64_MAX,
     .text = "First line, from 1. delete_lines: needed. replace and regex: only lines from here on are looked at."},
    {ARG(edit_args, end_line, INT), .max = INT64_MAX,
     .text =
         "Last line, included. delete_lines, and replace without old_str: start_line if absent; else the last line."},
    {ARG(edit_args, replace_all, BOOL), .text = "replace, regex: every place; else there must be exactly one."},
    {ARG(edit_args, overwrite, BOOL), .text = "create: replace a file that is there (read it first)."},
    TOOL_DESCRIPTION(struct edit_args),
    {.name = NULL},
};

static const struct row edit_answer[] = {
    CHANGE_ANSWER,
    {ANSWER("created", BOOL), .text = "There was no such file before."},
    {ANSWER("replacements", INT), .text = "Places changed; not of create."},
    {ANSWER("line", INT), .text = "Where the first change begins; not of create."},
    {ANSWER("lines", INT), .text = "Lines the file has now; not of create."},
    {.name = NULL},
};

static uint64_t lines_of(const struct row_text *text) {
    uint64_t count = text->len && text->data[text->len - 1] != '\n';
    for (size_t i = 0; i < text->len; i++)
        count += text->data[i] == '\n';
    return count;
}

/* ---- the modes: each checks what it needs and fills in the change. 1: the model was told ---- */

static int told(struct tool_call *call, const char *text) {
    tool_fail(call, "%s", text);
    return 1;
}

static int edit_create(struct tool_call *call, const struct edit_args *args, struct change *change) {
    if (!args->content.data)
        return told(call, "mode create needs content");
    change->edit.kind = EDIT_WHOLE;
    change->edit.parents = true;
    change->edit.new_text = args->content.data;
    change->edit.new_len = args->content.len;
    change->fresh = !args->overwrite;
    return 0;
}

static int edit_replace(struct tool_call *call, const struct edit_args *args, struct change *change) {
    if (!args->new_str.data)
        return told(call, "mode replace needs new_str");
    if (args->old_str.len) {
        change->edit.kind = EDIT_STRING;
        change->edit.old = args->old_str.data;
        change->edit.old_len = args->old_str.len;
    } else if (args->start_line.value) {
        change->edit.kind = EDIT_LINES;
        change->edit.last = args->end_line.value ? args->end_line.value : args->start_line.value;
    } else {
        return told(call, "mode replace needs old_str, or start_line");
    }
    return 0;
}

static int edit_insert(struct tool_call *call, const struct edit_args *args, struct change *change) {
    if (!args->content.len)
        return told(call, "mode insert needs content");
    if (memchr(args->content.data, 0, args->content.len))
        return told(call, "content must not hold the character NUL");
    change->edit.kind = EDIT_LINES;
    change->edit.first = args->line.value;
    change->edit.last = args->line.value ? args->line.value - 1 : 0;
    change->edit.new_text = args->content.data;
    change->edit.new_len = args->content.len;
    return 0;
}

static int edit_delete(struct tool_call *call, const struct edit_args *args, struct change *change) {
    if (!args->start_line.value)
        return told(call, "mode delete_lines needs start_line");
    change->edit.kind = EDIT_LINES;
    change->edit.last = args->end_line.value ? args->end_line.value : args->start_line.value;
    change->edit.new_len = 0;
    return 0;
}

static int edit_regex(struct tool_call *call, const struct edit_args *args, struct change *change) {
    const struct row_text *pattern = args->pattern.len ? &args->pattern : &args->old_str;
    if (!pattern->len)
        return told(call, "mode regex needs pattern");
    if (!args->new_str.data)
        return told(call, "mode regex needs new_str");
    change->edit.kind = EDIT_REGEX;
    change->edit.old = pattern->data;
    change->edit.old_len = pattern->len;
    return 0;
}

/* ---- what each answers ---- */

static void say_created(struct tool_call *call, const struct edit_args *args, const struct change *change) {
    (void)args;
    tool_say(call, "File created successfully: %s", change->edit.path);
}

static void say_replaced(struct tool_call *call, const struct edit_args *args, const struct change *change) {
    const struct edit_request *edit = &change->edit;
    (void)args;
    if (edit->kind == EDIT_LINES)
        tool_say(call, "Successfully replaced lines %llu-%llu in %s", (unsigned long long)edit->first,
                 (unsigned long long)edit->last, edit->path);
    else
        tool_say(call, "Successfully replaced %llu %s in %s", (unsigned long long)change->result.count,
                 edit->kind == EDIT_REGEX ? "match(es)" : "occurrence(s)", edit->path);
}

static void say_inserted(struct tool_call *call, const struct edit_args *args, const struct change *change) {
    tool_say(call, "Successfully inserted %llu line(s) at line %llu in %s",
             (unsigned long long)lines_of(&args->content), (unsigned long long)change->result.line, change->edit.path);
}

static void say_deleted(struct tool_call *call, const struct edit_args *args, const struct change *change) {
    (void)args;
    tool_say(call, "Successfully deleted %llu line(s) from %s",
             (unsigned long long)(change->edit.last - change->edit.first + 1), change->edit.path);
}

static const struct edit_mode {
    const char *name;
    int (*fill)(struct tool_call *call, const struct edit_args *args, struct change *change);
    void (*say)(struct tool_call *call, const struct edit_args *args, const struct change *change);
} modes[] = {{"create", edit_create, say_created},
             {"replace", edit_replace, say_replaced},
             {"insert", edit_insert, say_inserted},
             {"delete_lines", edit_delete, say_deleted},
             {"regex", edit_regex, say_replaced}};

static int edit_run(struct tool_call *call, const void *user, struct err *err) {
    const struct edit_args *args = user;
    const struct edit_mode *mode = modes;
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
    int code = mode->fill(call, args, &change);
    if (code == 0)
        code = change_run(call, &args->path, &change, err);
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
    .name = "edit",
    .title = "Edit a file",
    .description =
        "Change a text file in one of several modes: create a file, replace a string or lines, insert lines, delete lines, or "
        "replace what a regular expression matches. Lines are counted from 1. Line ends (CRLF), a byte order mark and a "
        "missing newline at the end stay as they are. Read the file first with read_file. On failure nothing is changed.",
    .fields = edit_fields,
    .args_size = sizeof(struct edit_args),
    .answer = edit_answer,
    .flags = TOOL_ENDS,
    .cut = TOOL_WHOLE,
    .run = edit_run,
};
