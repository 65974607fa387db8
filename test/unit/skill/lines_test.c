/* Line edits of the dialect: every row its clients rely on, and those that went wrong where they come from. */
#include <stdio.h>
#include <string.h>

#include "skill/lines.h"
#include "tap.h"

#define NONE INT64_MIN
static const struct {
    const char *name, *file, *body;
    int64_t start, end;
    const char *want; /* NULL: refused */
} table[] = {
    {"a line", "a\nb\nc\n", "X", 2, 2, "a\nX\nc\n"},
    {"a line by two", "a\nb\nc\n", "X\nY", 2, 2, "a\nX\nY\nc\n"},
    {"by an empty one", "a\nb\nc\n", "", 2, 2, "a\n\nc\n"},
    {"by none: it is removed", "a\nb\nc\n", "\n", 2, 2, "a\nc\n"},
    {"behind the last", "a\nb\nc\n", "X", 4, 4, "a\nb\nc\nX\n"},
    {"an end far behind", "a\nb\nc\n", "X", 3, 99, "a\nb\nX\n"},
    {"before a line", "a\nb\nc\n", "X", 2, 1, "a\nX\nb\nc\n"},
    {"at the top", "a\nb\nc\n", "X", 0, 0, "X\na\nb\nc\n"},
    {"a start alone: to the end", "a\nb\nc\n", "X", 2, NONE, "a\nX\n"},
    {"an end alone: from the top", "a\nb\nc\n", "X", NONE, 2, "X\nc\n"},
    {"W22: padding stands there once", "a\nb\n", "X", 5, 6, "a\nb\n\n\nX\n"},
    {"W22: padding of a file that is not there", "", "X", 3, 3, "\n\nX\n"},
    {"W22: an end before the start is refused, no line comes twice", "a\nb\nc\nd\ne\n", "X", 4, 2, NULL},
    {"W22: a start beyond all reason is refused", "a\n", "X", 2147483647, 2147483647, NULL},
    {"the furthest start that is reached", "a\n", "X", LINES_PAD_MAX + 3, NONE, NULL},
    {"negative numbers: a start is the first line", "a\nb\n", "X", -5, 1, "X\nb\n"},
    {"a negative end is refused", "a\nb\n", "X", NONE, -1, NULL},
    {"what is put in loses empty pieces at its end", "a\nb\n", "X\n\n", 1, 1, "X\nb\n"},
    {"and keeps those at its beginning", "a\nb\n", "\nX", 1, 1, "\nX\nb\n"},
    {"CRLF is cut at", "a\nb\n", "X\r\nY\r\n", 1, 1, "X\nY\nb\n"},
    {"a lone CR of it is not", "a\nb\n", "X\rY", 1, 1, "X\rY\nb\n"},
    {"only CRLF: none", "a\nb\n", "\r\n", 1, 1, "b\n"},
    {"CRLF in the file becomes LF", "a\r\nb\r\nc\r\n", "X", 2, 2, "a\nX\nc\n"},
    {"CR alone ends a line of the file", "a\rb\rc", "X", 2, 2, "a\nX\nc\n"},
    {"a last line without an end gets one", "a\nb", "X", 1, 1, "X\nb\n"},
    {"an empty line at the end is one", "a\n\n", "X", 2, 2, "a\nX\n"},
    {"an empty file has no line", "", "X", 1, 1, "X\n"},
    {"what is no UTF-8 is refused", "a\xff\n", "X", 1, 1, NULL},
    {"also in what is put in", "a\n", "\xff", 1, 1, NULL},
};

static void test_table(void) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct lines_range range = {table[i].start != NONE, table[i].end != NONE, table[i].start, table[i].end};
        struct err err = {0};
        autobuf out = buf_max(1 << 20);
        int failed = lines_replace(table[i].file, strlen(table[i].file), table[i].body, strlen(table[i].body), &range,
                                   &out, &err);
        bool same = table[i].want ? !failed && out.len == strlen(table[i].want) &&
                                        memcmp(out.data ? (char *)out.data : "", table[i].want, out.len) == 0
                                  : failed == -ERR_INVALID;
        ok(same, table[i].name);
        if (!same)
            printf("# %d %s, %zu bytes: %.*s\n", failed, err.text, out.len, (int)out.len, out.data);
    }
}

static void test_bounds(void) {
    struct lines_range range = {.has_start = true, .start = LINES_PAD_MAX + 2};
    struct err err = {0};
    autobuf out = buf_max(1 << 20);
    int failed = lines_replace("a\n", 2, "X", 1, &range, &out, &err);
    ok(!failed && out.len == 2 + LINES_PAD_MAX + 2, "a start at the bound is reached by empty lines");
    autobuf small = buf_max(8);
    range = (struct lines_range){.has_start = true, .start = 2};
    ok(lines_replace("a\nb\n", 4, "much too long", 13, &range, &small, &err) == -ERR_TOO_LARGE,
       "what becomes too large is refused");
}

static void test_next(void) {
    const char *text = "a\r\n\nb\rc", *line;
    struct lines lines = {text, text + strlen(text)};
    char seen[32] = "";
    size_t len;
    while (lines_next(&lines, &line, &len))
        snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "[%.*s]", (int)len, line);
    ok(strcmp(seen, "[a][][b][c]") == 0, "LF, CR and CRLF each end a line");
}

int main(void) {
    test_table();
    test_bounds();
    test_next();
    return tap_end();
}
