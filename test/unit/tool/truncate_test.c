/* truncate: cut texts keep within their bound, marker and all, and never split a character; broken ones become UTF-8. */
#include "tool/truncate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tap.h"

static bool cuts(const char *text, uint64_t total, size_t limit, enum tool_cut cut, const char *want) {
    struct buf out;
    buf_init(&out, 65536);
    truncate_text((const uint8_t *)text, strlen(text), total, limit, cut, "Look closer", &out);
    bool same = out.len == strlen(want) && memcmp(out.data, want, out.len) == 0;
    if (!same)
        printf("# got '%.*s'\n", (int)out.len, (const char *)out.data);
    buf_done(&out);
    return same;
}

/* The properties, for a random text and every limit. */
static bool keeps_rules(const char *text, size_t len) {
    size_t chars = truncate_chars((const uint8_t *)text, len);
    bool fine = true;
    for (size_t limit = 1; limit < chars; limit++)
        for (enum tool_cut cut = TOOL_MIDDLE; cut <= TOOL_HEAD; cut++) {
            struct buf out;
            buf_init(&out, len + 512);
            truncate_text((const uint8_t *)text, len, chars, limit, cut, "Look closer", &out);
            fine = fine && !out.failed && text_utf8(out.data, out.len) && truncate_chars(out.data, out.len) <= limit &&
                   out.len > 0;
            buf_done(&out);
        }
    return fine;
}

static bool random_texts(void) {
    static const char *const letters[] = {"a", "\n", "\xc3\xa9", "\xe6\x96\x87", "\xf0\x9f\x98\x80", " "};
    for (int round = 0; round < 60; round++) {
        char text[1200];
        size_t len = 0, chars = 1 + (size_t)random() % 250;
        for (size_t i = 0; i < chars; i++) {
            const char *letter = letters[random() % 6];
            memcpy(text + len, letter, strlen(letter));
            len += strlen(letter);
        }
        if (truncate_chars((const uint8_t *)text, len) != chars || !keeps_rules(text, len))
            return false;
        size_t n = (size_t)random() % (chars + 1);
        size_t head = truncate_head((const uint8_t *)text, len, n);
        if (head + truncate_tail((const uint8_t *)text, len, chars - n) != len || !text_utf8(text, head))
            return false;
    }
    return true;
}

/* ---- whole results ---- */

static const struct tool a_tool = {
    .name = "a", .cut = TOOL_MIDDLE, .cut_setting = offsetof(struct tool_settings, bash_chars), .cut_hint = ""};

static bool ends_as(const void *text, size_t len, size_t times, uint64_t limit, bool cut, const char *want) {
    static const struct tool_host host;
    struct tool_settings settings = {.bash_chars = limit};
    struct arena arena;
    struct tool_call call;
    arena_init(&arena);
    tool_call_init(&call, &host, &settings, &arena);
    call.tool = &a_tool;
    for (size_t i = 0; i < times; i++)
        tool_put(&call, text, len);
    truncate_repair(&call);
    if (cut)
        truncate_result(&call);
    size_t got_len;
    const uint8_t *got = spool_view(&call.result.text, &got_len);
    bool same = got_len == strlen(want) && memcmp(got, want, got_len) == 0;
    if (!same)
        printf("# got %zu bytes: '%.*s'\n", got_len, (int)(got_len < 300 ? got_len : 300), (const char *)got);
    tool_call_done(&call);
    arena_done(&arena);
    return same;
}

int main(void) {
    char text[101];
    memset(text, 'x', 100);
    text[100] = 0;
    ok(cuts(text, 100, 90, TOOL_MIDDLE,
            "xxxxxxxxxxxxxxxxxxxxx\n... [middle truncated: 57 chars skipped] ...\nxxxxxxxxxxxxxxxxxxxxxx"),
       "the middle goes, and its marker says how much");
    ok(cuts(text, 100, 80, TOOL_HEAD,
            "xxxxxxxxxxxxxxx\n... [truncated: showing first 15 of 100 chars. Look closer] ..."),
       "the head stays, and its marker says how much there is");
    ok(cuts(text, 4000, 82, TOOL_HEAD,
            "xxxxxxxxxxxxxxx\n... [truncated: showing first 15 of 4000 chars. Look closer] ..."),
       "a part of a longer text is told as such");
    ok(cuts(text, 100, 12, TOOL_HEAD, "xxxxxxxxxxxx"), "a bound with no room for a marker still holds");
    ok(cuts("\xc3\xa9\xc3\xa9\xc3\xa9", 3, 2, TOOL_MIDDLE, "\xc3\xa9\xc3\xa9"), "characters are not bytes");
    srandom(20);
    ok(random_texts(), "no text and no limit splits a character or passes the limit");

    ok(ends_as("a\xffz\xe6\x96", 5, 1, 100, true, "a\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd"),
       "each byte that is no UTF-8 is one U+FFFD");
    ok(ends_as("\xe6\x96\x87", 3, 4, 4, true, "\xe6\x96\x87\xe6\x96\x87\xe6\x96\x87\xe6\x96\x87"),
       "what fits stays, counted in characters");
    ok(ends_as(text, 100, 1, 0, true, text), "a limit of 0 is none");
    char want[128];
    snprintf(want, sizeof want, "xxxx\n... [middle truncated: %d chars skipped] ...\nxxxxx", 30000 * 100 - 9);
    ok(ends_as(text, 100, 30000, 60, true, want), "what was not even kept is counted");
    return tap_end();
}
