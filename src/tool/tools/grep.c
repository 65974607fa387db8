/* grep: finds matching lines in files. A row of tool_table. Invariant: one bounded line per match, whatever the files
 * contain. */
#include "base/base.h"
#include "tool/tools/search.h"
#include "tool/truncate.h"

enum {
    GREP_MOST = 500,
    GREP_LINE_CHARS = 200,
};

struct grep_args {
    struct row_text pattern, path, glob, description;
    bool literal, case_sensitive, include_ignored;
    struct row_number context, max_results;
};

static const struct row grep_fields[] = {
    {ARG(grep_args, pattern, TEXT), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1, .max = LIMIT_PATTERN_BYTES,
     .text = "Regular expression (Perl syntax), matched against each line."},
    {ARG(grep_args, path, TEXT), .flags = ROW_AUDITED, .max = 4095,
     .text = "File or directory to search; absolute, or relative to the working directory, which is the default."},
    {ARG(grep_args, glob, TEXT), .flags = ROW_AUDITED, .max = 4000,
     .text = "Only files that match, such as '*.py', '*.{ts,tsx}' or 'src/**/*.c'."},
    {ARG(grep_args, literal, BOOL), .text = "Treat the pattern as plain text."},
    {ARG(grep_args, case_sensitive, BOOL), .text = "Distinguish upper and lower case; by default case is ignored."},
    {ARG(grep_args, include_ignored, BOOL),
     .text = "Also search generated directories: .git, node_modules, build, dist and the like."},
    {ARG(grep_args, context, INT), .max = LIMIT_GREP_CONTEXT, .text = "Lines to show before and after each match."},
    {ARG(grep_args, max_results, INT), .max = UINT32_MAX,
     .text = "How many matches to show: 100 by default, at most 500."},
    TOOL_DESCRIPTION(struct grep_args),
    {.name = NULL},
};

static const struct row grep_match_answer[] = {
    {ANSWER("path", TEXT), .flags = ROW_REQUIRED, .text = "The file."},
    {ANSWER("line", INT), .flags = ROW_REQUIRED, .min = 1, .text = "The line number, from 1."},
    {ANSWER("text", TEXT), .flags = ROW_REQUIRED, .text = "The line, cut to 200 characters."},
    {.name = NULL},
};

static const struct row grep_answer[] = {
    {ANSWER("path", TEXT), .flags = ROW_REQUIRED, .text = "What was searched."},
    {ANSWER("matches", OBJECTS), .flags = ROW_REQUIRED, .fields = grep_match_answer,
     .text = "Lines that match, file by file."},
    {ANSWER("truncated", BOOL), .flags = ROW_REQUIRED, .text = "There may be more than these."},
    {.name = NULL},
};

struct grep_found {
    struct tool_call *call;
    struct buf lines, path;
    uint64_t count;
    bool context;
};

/* Returns a line for display: without its line ending, and truncated. */
static struct row_text grep_line(struct tool_call *call, const uint8_t *text, size_t len) {
    while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    if (truncate_chars(text, len) <= GREP_LINE_CHARS)
        return (struct row_text){.data = (const char *)text, .len = len};
    size_t head = truncate_head(text, len, GREP_LINE_CHARS - 3);
    char *cut = arena_alloc(call->arena, head + 4);
    memcpy(cut, text, head);
    memcpy(cut + head, "...", 3);
    return (struct row_text){.data = cut, .len = head + 3};
}

static void grep_put(struct grep_found *found, char mark, uint64_t number, const struct row_text *line) {
    buf_byte(&found->lines, '\n');
    buf_put(&found->lines, found->path.data, found->path.len);
    buf_printf(&found->lines, "%c%llu%c ", mark, (unsigned long long)number, mark);
    buf_put(&found->lines, line->data, line->len);
}

static void grep_around(struct grep_found *found, const uint8_t *text, size_t len, uint64_t number) {
    for (size_t at = 0; text && at <= len; number++) {
        const uint8_t *end = memchr(text + at, '\n', len - at);
        size_t line_len = end ? (size_t)(end - text) - at : len - at;
        const struct row_text line = grep_line(found->call, text + at, line_len);
        grep_put(found, '-', number, &line);
        at += line_len + 1;
    }
}

static int grep_each(void *user, const struct grep_match *match) {
    struct grep_found *found = user;
    struct json *json = &found->call->result.json;
    const struct row_text line = grep_line(found->call, match->text, match->len);
    buf_clear(&found->path);
    search_show(&found->path, match->path);
    if (found->context && found->count)
        buf_puts(&found->lines, "\n--");
    uint64_t lines = match->before ? 1 : 0;
    for (const uint8_t *at = match->before;
         at && (at = memchr(at, '\n', (size_t)(match->before + match->before_len - at))); at++)
        lines++;
    uint64_t before = lines;
    grep_around(found, match->before, match->before_len, match->line > before ? match->line - before : 1);
    grep_put(found, ':', match->line, &line);
    grep_around(found, match->after, match->after_len, match->line + 1);
    found->count++;
    json_open(json, '{');
    json_put_str(json, "path", match->path);
    json_put_uint(json, "line", match->line);
    json_put_strn(json, "text", line.data, line.len);
    json_close(json, '}');
    return 0;
}

static int grep_run(struct tool_call *call, const void *user, struct err *err) {
    const struct grep_args *args = user;
    const char *path;
    TRY(tool_path(call, &args->path, &path, err));
    struct grep_request grep = {.pattern = args->pattern.data,
                                .path = path,
                                .glob = args->glob.len ? args->glob.data : NULL,
                                .literal = args->literal,
                                .ignore_case = !args->case_sensitive,
                                .before = (unsigned)args->context.value,
                                .after = (unsigned)args->context.value,
                                .limit = search_limit(&args->max_results, call->settings->grep_results, GREP_MOST),
                                .timeout_ms = DEFAULT_GREP_TIMEOUT_MS,
                                .ignore = args->include_ignored ? NULL : search_ignored};
    struct grep_found found = {.call = call, .context = args->context.value > 0};
    struct grep_result result = {0};
    struct json *json = &call->result.json;
    buf_init(&found.lines, LIMIT_JSON_BYTES);
    buf_init(&found.path, 32768);
    json_open(json, '{');
    json_put_str(json, "path", path);
    json_put_open(json, "matches", '[');
    int code = box_grep(call->box, &grep, call->watch, grep_each, &found, &result, err);
    json_close(json, ']');
    json_put_bool(json, "truncated", result.truncated || result.timed_out || result.gave_up);
    json_close(json, '}');
    if (code == 0) {
        search_found(call, path, "No matches found under", "matches under", found.count,
                     result.truncated || result.timed_out, &found.lines);
        if (result.timed_out)
            tool_say(call, "\nThe search was stopped by its time limit. Narrow the path or simplify the pattern.");
        else if (result.truncated)
            tool_say(call, "\nResults truncated. Narrow the path or add a glob filter.");
        if (result.gave_up)
            tool_say(call, "\nThe pattern was too expensive for %llu lines, which may or may not match. Simplify it.",
                     (unsigned long long)result.gave_up);
    } else if (err->why == WHY_PATTERN)
        code = tool_fail(call, "Invalid regex pattern: %s", err->text);
    else
        code = search_failed(call, path, code, err);
    buf_done(&found.lines);
    buf_done(&found.path);
    return code;
}

const struct tool tool_grep = {
    TOOL(grep, "Search in files"), .answer = grep_answer, .flags = TOOL_READS | TOOL_SAME,
    .description =
        "Search a file, or all text files below a directory, for lines that match a regular expression. Case is "
        "ignored unless case_sensitive is set. Returns one line per match: path:line: text. Generated directories "
        "(.git, node_modules, build, dist and the like) are skipped unless include_ignored is set; binary files "
        "are always skipped. Narrow a search with path and glob."};
