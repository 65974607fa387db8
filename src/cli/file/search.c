/* `cubby find` and `cubby grep`: searches in the files of a box. Invariant: names and lines come from the box, so they
 * are escaped on a terminal. */
#include <jansson.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/rest/list.h"

struct search_values {
    bool json, dirs, ignore_case, literal, names;
    uint64_t limit, context;
    const char *glob;
};

const struct row find_options[] = {
    OPTION("dirs", 'd', BOOL, struct search_values, dirs, NULL, "directories, too"),
    OPTION("limit", 'n', INT, struct search_values, limit, "N", "at most N paths"),
    OPTION("json", 0, BOOL, struct search_values, json, NULL, "print the answer as JSON"),
    {.name = NULL},
};
const struct row grep_options[] = {
    OPTION("ignore-case", 'i', BOOL, struct search_values, ignore_case, NULL, "upper and lower case are the same"),
    OPTION("fixed-strings", 'F', BOOL, struct search_values, literal, NULL, "PATTERN is a text, not an expression"),
    OPTION("context", 'C', INT, struct search_values, context, "N", "show N lines before and after, too"),
    OPTION("files-with-matches", 'l', BOOL, struct search_values, names, NULL, "print only the paths"),
    OPTION("include", 0, TEXT, struct search_values, glob, "GLOB", "only files whose path matches"),
    OPTION("limit", 'n', INT, struct search_values, limit, "N", "at most N matches"),
    OPTION("json", 0, BOOL, struct search_values, json, NULL, "print the answer as JSON"),
    {.name = NULL},
};

static void search_put(const char *text, size_t len) {
    autobuf shown = buf_max(4 * len + 16);
    if (isatty(STDOUT_FILENO))
        text_shown(&shown, text, len);
    else
        buf_put(&shown, text, len);
    fwrite(shown.data, 1, shown.len, stdout);
}

static void search_cut(const json_t *answer) {
    if (json_is_true(json_object_get(answer, "timed_out")))
        fprintf(stderr, "cubby: the search took too long; there may be more\n");
    else if (json_is_true(json_object_get(answer, "truncated")))
        fprintf(stderr, "cubby: there are more (--limit)\n");
}

/* A text of the answer, which may be base64 by the "encoding" of `object`. */
static void search_text(const json_t *object, const json_t *text) {
    json_auto_t *one = json_pack("{s:O, s:O?}", "t", text, "encoding", json_object_get(object, "encoding"));
    autobuf bytes = buf_max(16 << 20);
    if (remote_bytes(one, "t", &bytes))
        search_put((const char *)bytes.data, bytes.len);
}

int command_search_find(struct cli *cli, int argc, char **argv) {
    struct search_values values = {0};
    const char *id = NULL, *path = "";
    size_t i;
    json_t *found;
    argc = option_parse(cli, argc, argv, &values);
    if (argc < 1 || argc > 2)
        option_fail(cli, argc ? "one box and one PATTERN at a time" : BOX_MISSING);
    if (!remote_split(cli, argv[0], &id, &path))
        id = argv[0];
    autobuf body = buf_max(64 << 10);
    struct json json = json_begin(&body);
    json_put_str(&json, "pattern", argc > 1 ? argv[1] : "**");
    json_put_some(&json, "path", *path ? path : NULL);
    if (values.dirs)
        json_put_bool(&json, "include_dirs", true);
    if (values.limit)
        json_put_uint(&json, "limit", values.limit);
    json_close(&json, '}');
    json_auto_t *answer = rest_need(cli, "POST", remote_path(cli, id, "/glob", NULL), &body);
    if (values.json) {
        remote_print(answer);
        return 0;
    }
    json_array_foreach(json_object_get(answer, "paths"), i, found) {
        search_text(answer, found);
        putchar('\n');
    }
    search_cut(answer);
    return 0;
}

/* "path:12:text"; lines around it have a dash. */
static void search_line(const json_t *match, const json_t *text, long long line, char mark) {
    search_text(match, json_object_get(match, "path"));
    printf("%c%lld%c", mark, line, mark);
    search_text(match, text);
    putchar('\n');
}

static void search_match(const json_t *match) {
    const json_t *before = json_object_get(match, "before"), *after = json_object_get(match, "after");
    long long line = (long long)json_integer_value(json_object_get(match, "line"));
    size_t count = json_array_size(before);
    for (size_t i = 0; i < count; i++)
        search_line(match, json_array_get(before, i), line - (long long)(count - i), '-');
    search_line(match, json_object_get(match, "text"), line, ':');
    for (size_t i = 0; i < json_array_size(after); i++)
        search_line(match, json_array_get(after, i), line + 1 + (long long)i, '-');
}

static void search_matches(const json_t *matches, bool names) {
    const char *last = "";
    size_t i;
    json_t *match;
    json_array_foreach(matches, i, match) {
        const char *path = rest_text(match, "path");
        if (!names) {
            search_match(match);
        } else if (path && strcmp(path, last) != 0) {
            search_text(match, json_object_get(match, "path"));
            putchar('\n');
            last = path;
        }
    }
}

int command_search_grep(struct cli *cli, int argc, char **argv) {
    struct search_values values = {0};
    const char *id = NULL, *path = "";
    argc = option_parse(cli, argc, argv, &values);
    if (argc != 2)
        option_fail(cli, "missing PATTERN or box ID");
    if (!remote_split(cli, argv[1], &id, &path))
        id = argv[1];
    autobuf body = buf_max(64 << 10);
    struct json json = json_begin(&body);
    json_put_str(&json, "pattern", argv[0]);
    json_put_some(&json, "path", *path ? path : NULL);
    json_put_some(&json, "glob", values.glob);
    if (values.literal)
        json_put_bool(&json, "literal", true);
    if (values.ignore_case)
        json_put_bool(&json, "ignore_case", true);
    if (values.context)
        json_put_uint(&json, "context", values.context);
    if (values.limit)
        json_put_uint(&json, "limit", values.limit);
    json_close(&json, '}');
    json_auto_t *answer = rest_need(cli, "POST", remote_path(cli, id, "/grep", NULL), &body);
    const json_t *matches = json_object_get(answer, "matches");
    if (values.json)
        remote_print(answer);
    else
        search_matches(matches, values.names);
    if (!values.json)
        search_cut(answer);
    return json_array_size(matches) ? 0 : 1;
}
