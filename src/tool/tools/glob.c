/* glob: finds files by a pattern of their names. A row of tool_table. Invariant: models rely on the depth at which a
 * pattern with or without directories matches; do not change it. */

#include "tool/tools/search.h"

enum { GLOB_MOST = 1000 };

struct glob_args {
    struct row_text pattern, path, description;
    bool include_dirs, include_ignored;
    struct row_number max_results;
};

static const struct row glob_fields[] = {
    {ARG(glob_args, pattern, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = 4000,
     .text =
         "Such as '*.py', 'src/**/*.ts', 'test_*.{c,h}' or '/etc/*.conf'. '*' and '?' stay within one name, '**' "
         "crosses directories. It matches at any depth below path; begin it with './' to anchor it at path itself."},
    {ARG(glob_args, path, TEXT), .flags = ROW_AUDITED, .max = 4095,
     .text = "Directory to search; absolute, or relative to the working directory, which is the default."},
    {ARG(glob_args, include_dirs, BOOL), .text = "Also return directories."},
    {ARG(glob_args, include_ignored, BOOL),
     .text = "Also search generated directories: .git, node_modules, build, dist and the like."},
    {ARG(glob_args, max_results, INT), .max = UINT32_MAX,
     .text = "How many paths to show: 200 by default, at most 1000."},
    TOOL_DESCRIPTION(struct glob_args),
    {.name = NULL},
};

static const struct row glob_answer[] = {
    {ANSWER("path", TEXT), .flags = ROW_REQUIRED, .text = "The directory that was searched."},
    {ANSWER("paths", TEXTS), .flags = ROW_REQUIRED, .text = "Absolute paths that match."},
    {ANSWER("truncated", BOOL), .flags = ROW_REQUIRED, .text = "There may be more than these."},
    {.name = NULL},
};

struct glob_found {
    struct tool_call *call;
    struct buf lines;
    uint64_t count;
};

static int glob_each(void *user, const char *path, size_t) {
    struct glob_found *found = user;
    buf_printf(&found->lines, "\n%llu. ", (unsigned long long)++found->count);
    search_show(&found->lines, path);
    json_str(&found->call->result.json, path);
    return 0;
}

/* Splits an absolute pattern: leading names without special characters become the directory to search. */
static int glob_absolute(struct tool_call *call, const char *pattern, const char **ret_path, const char **ret_pattern,
                         struct err *err) {
    size_t root = 1;
    for (size_t at = 1; pattern[at] && !strchr("*?[{\\", pattern[at]); at++)
        if (pattern[at] == '/')
            root = at + 1;
    const struct row_text path = {.data = arena_copy(call->arena, pattern, root), .len = root};
    *ret_pattern = arena_printf(call->arena, "./%s", pattern + root);
    return tool_path(call, &path, ret_path, err);
}

static int glob_run(struct tool_call *call, const void *user, struct err *err) {
    const struct glob_args *args = user;
    const char *pattern = args->pattern.data, *path;
    bool absolute = *pattern == '/';
    TRY(absolute ? glob_absolute(call, pattern, &path, &pattern, err) : tool_path(call, &args->path, &path, err));
    bool anchored = absolute || strncmp(pattern, "./", 2) == 0;
    struct glob_request glob = {.pattern = anchored ? pattern + 2 : arena_printf(call->arena, "**/%s", pattern),
                                .path = path,
                                .dirs = args->include_dirs,
                                .limit = search_limit(&args->max_results, call->settings->glob_results, GLOB_MOST),
                                .ignore = args->include_ignored ? NULL : search_ignored};
    struct glob_found found = {.call = call};
    struct glob_result result = {0};
    struct json *json = &call->result.json;
    buf_init(&found.lines, GLOB_MOST * 32768u);
    json_open(json, '{');
    json_put_str(json, "path", path);
    json_put_open(json, "paths", '[');
    int code = box_glob(call->box, &glob, call->watch, glob_each, &found, &result, err);
    json_close(json, ']');
    json_put_bool(json, "truncated", result.truncated || result.timed_out);
    json_close(json, '}');
    if (code == 0) {
        bool cut = result.truncated || result.timed_out;
        search_found(call, path, "No files matched under", "paths under", found.count, cut, &found.lines);
        if (result.timed_out)
            tool_say(call, "\nThe search was stopped by its time limit. Narrow the path.");
        else if (cut)
            tool_say(call, "\nResults truncated. Narrow the path or pattern to see fewer matches.");
    } else
        code = search_failed(call, path, code, err);
    buf_done(&found.lines);
    return code;
}

const struct tool tool_glob = {
    TOOL(glob, "Find files by name"), .answer = glob_answer, .flags = TOOL_READS | TOOL_SAME,
    .description =
        "Find files whose path matches a pattern. A pattern matches at any depth below path: '*.py' finds every "
        "Python file, 'src/**/*.ts' every TypeScript file below a directory src. Returns numbered absolute paths. "
        "Generated directories (.git, node_modules, build, dist and the like) are skipped unless include_ignored "
        "is set. To search file contents use grep."};
