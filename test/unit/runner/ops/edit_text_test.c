/* Edits of a text in memory: what each does to line ends, marks and missing newlines; what is shown of a text that is not
 * there; and that no text costs more than its length. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "runner/ops/edit_text.h"
#include "tap.h"

enum { STRING, ALL, LINES, REGEX, REGEX_ALL };

static const struct {
    const char *name;
    int kind;
    const char *text, *old, *given;
    uint64_t first, last;
    const char *want; /* the text, or "!" and the failure */
} table[] = {
    {"a string", STRING, "one two", "one", "1", 0, 0, "1 two"},
    {"by nothing", STRING, "one two", "one ", "", 0, 0, "two"},
    {"at the end", STRING, "one two", "two", "", 0, 0, "one "},
    {"all of it", STRING, "x", "x", "", 0, 0, ""},
    {"twice", STRING, "a a", "a", "b", 0, 0,
     "!the text to replace occurs in 'f' 2 times: give more of it, or set all=true"},
    {"every one", ALL, "aaaa", "aa", "b", 0, 0, "bb"},
    {"not there", STRING, "a", "b", "c", 0, 0, "!the text to replace is not in 'f'"},
    {"of nothing", STRING, "", "b", "c", 0, 0, "!the text to replace is not in 'f'"},
    {"no text", STRING, "a", "", "c", 0, 0, "!the text to replace is empty"},
    {"in its lines", ALL, "a\na\na\n", "a", "b", 2, 2, "a\nb\na\n"},
    {"from a line on", ALL, "a\na\na", "a", "b", 2, 0, "a\nb\nb"},
    {"up to a line", ALL, "a\na\na", "a", "b", 0, 2, "b\nb\na"},
    {"not over the end of its lines", STRING, "a\nb\n", "a\nb", "x", 1, 1, "!the text to replace is not in 'f'"},
    {"CRLF", STRING, "a\r\nb\r\n", "a\nb", "x\ny", 0, 0, "x\r\ny\r\n"},
    {"CRLF given as such", STRING, "a\r\nb\r\n", "a\r\nb", "x\r\ny", 0, 0, "x\r\ny\r\n"},
    {"CRLF and a CR more", STRING, "a\r\r\nb\r\n", "b", "c", 0, 0, "a\r\r\nc\r\n"},
    {"mixed ends", STRING, "a\nb\r\n", "a\nb\r", "x\ny\r", 0, 0, "x\ny\r\n"},
    {"a mark", STRING, "\357\273\277a", "a", "b", 0, 0, "\357\273\277b"},
    {"the mark itself", STRING, "\357\273\277a", "\357\273\277a", "b", 0, 0, "!the text to replace is not in 'f'"},
    {"UTF-16", STRING, "\377\376ab", "a", "b", 0, 0, "!'f' is UTF-16 text: convert it first, e.g. with iconv"},
    {"insert before", LINES, "a\nb\n", "", "x", 2, 1, "a\nx\nb\n"},
    {"insert first", LINES, "a\n", "", "x\n", 1, 0, "x\na\n"},
    {"insert behind the last", LINES, "a\nb\n", "", "x", 3, 2, "a\nb\nx\n"},
    {"the same without its number", LINES, "a\nb\n", "", "x", 0, 0, "a\nb\nx\n"},
    {"behind one without a newline", LINES, "a\nb", "", "x", 0, 0, "a\nb\nx"},
    {"with one", LINES, "a\nb", "", "x\n", 0, 0, "a\nb\nx\n"},
    {"into nothing", LINES, "", "", "x", 0, 0, "x\n"},
    {"too far", LINES, "a\n", "", "x", 3, 2, "!end_line 2 exceeds total lines 1"},
    {"replace lines", LINES, "a\nb\nc\n", "", "x\ny", 1, 2, "x\ny\nc\n"},
    {"the last of a text without a newline", LINES, "a\nb", "", "x", 2, 2, "a\nx"},
    {"delete", LINES, "a\nb\nc\n", "", "", 2, 2, "a\nc\n"},
    {"delete the last", LINES, "a\nb", "", "", 2, 2, "a\n"},
    {"delete all", LINES, "a\nb", "", "", 1, 2, ""},
    {"lines of CRLF", LINES, "a\r\nb\r\n", "", "x\ny", 1, 1, "x\r\ny\r\nb\r\n"},
    {"delete behind a mark", LINES, "\357\273\277a\nb\n", "", "", 1, 1, "\357\273\277b\n"},
    {"lines beyond", LINES, "a\n", "", "x", 1, 2, "!end_line 2 exceeds total lines 1"},
    {"lines backwards", LINES, "a\nb\nc\n", "", "x", 3, 1, "!start_line 3 is greater than end_line 1"},
    {"a pattern", REGEX, "a1b", "\\d", "<$0>", 0, 0, "a<1>b"},
    {"groups", REGEX_ALL, "ab\ncd\n", "^(.)(?<n>.)$", "${n}$1", 0, 0, "ba\ndc\n"},
    {"a group that took no part", REGEX, "a", "a(b)?", "[$1]", 0, 0, "[]"},
    {"begins of lines", REGEX_ALL, "a\nb\n", "^", "> ", 0, 0, "> a\n> b\n"},
    {"ends of lines with CRLF", REGEX_ALL, "a\r\nb\r\n", "(.)$", "$1;", 0, 0, "a;\r\nb;\r\n"},
    {"letters of two bytes", REGEX_ALL, "\303\274\303\244", ".", "x", 0, 0, "xx"},
    {"bytes that are no letters", REGEX_ALL, "\374a", "a", "\303\274", 0, 0, "\374\303\274"},
    {"a pattern in lines", REGEX_ALL, "a\na\na\n", "a", "b", 2, 3, "a\nb\nb\n"},
    {"a pattern twice", REGEX, "aa", "a", "b", 0, 0,
     "!the pattern occurs in 'f' 2 times: give more of it, or set all=true"},
    {"a pattern nowhere", REGEX, "aa", "b", "c", 0, 0, "!the pattern is not in 'f'"},
    {"no pattern", REGEX, "aa", "[", "c", 0, 0,
     "!invalid regex pattern at byte 1: missing terminating ] for character class"},
    {"no replacement", REGEX, "aa", "a", "${", 0, 0, "!invalid replacement: invalid replacement string"},
    {"too many steps", REGEX, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "^(a+)+[bc]$", "x", 0, 0,
     "!the pattern takes too many steps on this text: make it more specific, without nested repetitions"},
};

static struct edit_text edit_of(int kind, const char *old, const char *given, uint64_t first, uint64_t last) {
    return (struct edit_text){.lines = kind == LINES,
                              .regex = kind == REGEX || kind == REGEX_ALL,
                              .all = kind == ALL || kind == REGEX_ALL,
                              .text = true,
                              .first = first,
                              .last = last,
                              .old = (const uint8_t *)old,
                              .old_len = strlen(old),
                              .new_text = (const uint8_t *)given,
                              .new_len = strlen(given)};
}

static void test_table(void) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct err err = {0};
        autobuf out = buf_max(4096);
        size_t len = strlen(table[i].text);
        uint8_t *text = malloc(len + !len); /* its end is the sanitizer's */
        memcpy(text, table[i].text, len);
        struct edit_text edit = edit_of(table[i].kind, table[i].old, table[i].given, table[i].first, table[i].last);
        int r = edit_text_apply(&edit, text, len, "f", &out, &err);
        const char *want = table[i].want;
        bool good = *want == '!'
                        ? r < 0 && strcmp(err.text, want + 1) == 0
                        : r == 0 && out.len == strlen(want) && (!out.len || memcmp(out.data, want, out.len) == 0);
        ok(good, table[i].name);
        if (!good)
            printf("# %d '%.*s' %s\n", r, (int)out.len, (const char *)out.data, err.text);
        edit_text_done(&edit);
        free(text);
    }
}

static void test_too_large(void) {
    struct err err = {0};
    autobuf out = buf_max(16);
    struct edit_text edit = edit_of(ALL, "a", "bbbbbbbb", 0, 0);
    int r = edit_text_apply(&edit, (const uint8_t *)"aaaa", 4, "f", &out, &err);
    ok(r == -ERR_TOO_LARGE && strcmp(err.text, "'f' would be larger than 16 bytes") == 0,
       "a text that grows too large");
    buf_clear(&out);
    out.failed = false;
    edit = edit_of(REGEX_ALL, "a", "bbbbbbbb", 0, 0);
    r = edit_text_apply(&edit, (const uint8_t *)"aaaa", 4, "f", &out, &err);
    ok(r == -ERR_TOO_LARGE, "by a pattern, too");
}

/* The worst texts for what looks at every line, at the largest size. */
static void test_time(void) {
    static const struct {
        const char *name, *unit, *old;
    } texts[] = {{"a text of newlines", "\n", "x\ny\nz\n"},
                 {"a text of one line", "abcdefgh", "abcdefgi"},
                 {"a text of equal lines", "ab\n", "ab\nab\nab\nab\nab\nab\nab\nab\nabc\n"}};
    size_t len = LIMIT_EDIT_BYTES;
    uint8_t *text = malloc(len);
    for (size_t i = 0; i < 3; i++) {
        struct err err = {0};
        size_t unit = strlen(texts[i].unit);
        for (size_t at = 0; at < len; at++)
            text[at] = (uint8_t)texts[i].unit[at % unit];
        autobuf out = buf_max(LIMIT_EDIT_BYTES);
        struct edit_text edit = edit_of(STRING, texts[i].old, "", 0, 0);
        uint64_t begin_ms = clock_ms();
        int r = edit_text_apply(&edit, text, len, "f", &out, &err);
        uint64_t took_ms = clock_ms() - begin_ms;
        printf("# %s: %llu ms\n", texts[i].name, (unsigned long long)took_ms);
        ok(r == -ERR_NOT_FOUND && took_ms < 20000, texts[i].name);
        edit_text_done(&edit);
    }
    free(text);
}

int main(void) {
    test_table();
    test_too_large();
    test_time();
    return tap_end();
}
