/* ls: lists two levels of a directory, one absolute path per line. A row of tool_table. Invariant: nothing is hidden;
 * generated directories are listed but not entered. */
#include "base/base.h"
#include "tool/tools/search.h"
#include "tool/truncate.h"

enum {
    LS_DEPTH = 2,
    LS_ENTRIES = 50000, /* more than a model will ever read; all are held in memory to be sorted */
};

struct ls_args {
    struct row_text path, description;
};

static const struct row ls_fields[] = {
    {ARG(ls_args, path, TEXT), .flags = ROW_AUDITED, .max = 4095,
     .text = "Directory to list; absolute, or relative to the working directory, which is the default."},
    TOOL_DESCRIPTION(struct ls_args),
    {.name = NULL},
};

static const struct row ls_answer[] = {
    {ANSWER("path", TEXT), .flags = ROW_REQUIRED, .text = "The directory."},
    {ANSWER("entries", TEXTS), .flags = ROW_REQUIRED,
     .text = "Absolute paths, sorted; those of directories end in '/'."},
    {ANSWER("truncated", BOOL), .flags = ROW_REQUIRED, .text = "There are more entries than these."},
    {.name = NULL},
};

struct ls_found {
    struct tool_call *call;
    char **paths;
    size_t count, cap;
};

static int ls_each(void *user, const struct file_stat *stat) {
    struct ls_found *found = user;
    size_t len = strlen(stat->path);
    char *path = arena_alloc(found->call->arena, len + 2);
    memcpy(path, stat->path, len);
    if (stat->type == FILE_DIR)
        path[len] = '/';
    arena_add(found->call->arena, found->paths, found->count, found->cap) = path;
    return 0;
}

static int ls_order(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int ls_run(struct tool_call *call, const void *user, struct err *err) {
    const struct ls_args *args = user;
    struct ls_found found = {.call = call};
    bool truncated = false;
    const char *path;
    TRY(tool_path(call, &args->path, &path, err));
    const struct list_request list = {.path = path, .depth = LS_DEPTH, .limit = LS_ENTRIES, .ignore = search_ignored};
    int code = box_list(call->box, &list, call->watch, ls_each, &found, &truncated, err);
    if (code < 0)
        return search_failed(call, path, code, err);
    if (found.count)
        qsort(found.paths, found.count, sizeof *found.paths, ls_order);
    /* The text has every entry, so that a long result can be kept; the structured result has only what fits at once. */
    struct json *json = &call->result.json;
    uint64_t limit = truncate_limit(call);
    autobuf line = buf_max(64 << 10);
    json_open(json, '{');
    json_put_str(json, "path", path);
    json_put_open(json, "entries", '[');
    bool shown = true;
    for (size_t i = 0; i < found.count; i++) {
        buf_clear(&line);
        search_show(&line, found.paths[i]);
        if (i + 1 < found.count)
            buf_byte(&line, '\n');
        tool_put(call, line.data, line.len);
        shown = shown && (limit == 0 || call->result.text.total <= limit);
        if (shown)
            json_str(json, found.paths[i]);
    }
    json_close(json, ']');
    json_put_bool(json, "truncated", truncated || !shown);
    json_close(json, '}');
    if (truncated)
        tool_say(call, "\nResults truncated: there are more than %zu entries. Use a more specific path.", found.count);
    return 0;
}

const struct tool tool_ls = {
    TOOL(ls, "List a directory"),
    .answer = ls_answer,
    .flags = TOOL_READS | TOOL_SAME,
    .cut = TOOL_HEAD,
    .cut_setting = offsetof(struct tool_settings, ls_chars),
    .cut_hint = "Use a more specific path to see fewer results",
    .description =
        "List a directory, two levels deep: one absolute path per line, sorted, directories with a trailing '/'. "
        "An empty directory returns \"(empty)\". Directories that are usually generated (.git, node_modules, "
        "build, dist and the like) are listed but not entered; pass their path to list them. To find files by name "
        "use glob, by content use grep."};
