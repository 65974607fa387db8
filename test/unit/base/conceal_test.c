/* conceal: secrets out of streams, however they are cut, compared with the plainest way to say what must come out. */
#include "base/conceal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tap.h"

static bool becomes_by(const char *const *rows, const char *text, size_t step, const char *wanted) {
    struct conceal *conceal = conceal_new(rows);
    autobuf out = buf_max(1 << 20);
    for (size_t at = 0; at < strlen(text); at += step)
        conceal_put(conceal, text + at, strlen(text) - at < step ? strlen(text) - at : step, &out);
    conceal_flush(conceal, &out);
    conceal_free(conceal);
    bool same = out.len == strlen(wanted) && (out.len == 0 || memcmp(out.data, wanted, out.len) == 0);
    if (!same)
        printf("# step %zu of '%s': got '%.*s', wanted '%s'\n", step, text, (int)out.len, (const char *)out.data,
               wanted);
    return same;
}

static bool becomes(const char *const *rows, const char *text, const char *wanted) {
    for (size_t step = 1; step <= strlen(text) + 1; step++)
        if (!becomes_by(rows, text, step, wanted))
            return false;
    return true;
}

/* All places of all values, sorted by begin, overlapping ones merged. */
static void plainly(const char *const *rows, const char *text, struct buf *out) {
    size_t len = strlen(text);
    for (size_t at = 0; at < len;) {
        size_t end = at;
        for (size_t from = at; from < (end > at ? end : at + 1); from++)
            for (const char *const *row = rows; *row; row++) {
                const char *value = strchr(*row, '=') + 1;
                size_t n = strlen(value);
                if (n >= CONCEAL_MIN_BYTES && strncmp(text + from, value, n) == 0 && from + n > end)
                    end = from + n;
            }
        if (end > at)
            buf_puts(out, CONCEAL_TEXT);
        else
            buf_byte(out, (uint8_t)text[at]);
        at = end > at ? end : at + 1;
    }
}

static bool agrees(unsigned seed) {
    srand(seed);
    char rows[4][24], text[200];
    const char *list[5] = {rows[0], rows[1], rows[2], rows[3], NULL};
    for (int i = 0; i < 4; i++) {
        size_t n = 2 + (size_t)(4 + rand() % 8);
        for (size_t k = 2; k < n; k++)
            rows[i][k] = (char)('a' + rand() % 2);
        memcpy(rows[i], "N=", 2);
        rows[i][n] = 0;
    }
    size_t len = (size_t)(rand() % 150);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)(rand() % 9 ? 'a' + rand() % 2 : 'c');
    text[len] = 0;
    autobuf wanted = buf_max(1 << 16);
    plainly(list, text, &wanted);
    return becomes_by(list, text, 1 + (size_t)(rand() % 7), len ? buf_cstr(&wanted) : "");
}

static bool agrees_often(void) {
    for (unsigned seed = 1; seed <= 20000; seed++)
        if (!agrees(seed)) {
            printf("# seed %u\n", seed);
            return false;
        }
    return true;
}

/* A value that overlaps itself for ever: one mark, and nothing piles up. */
static bool endless(void) {
    static char row[4096 + 3], block[65536];
    memset(row, 'a', 4098);
    memcpy(row, "N=", 2);
    memset(block, 'a', sizeof block);
    const char *rows[] = {row, NULL};
    struct conceal *conceal = conceal_new(rows);
    autobuf out = buf_max(64);
    for (int i = 0; i < 100; i++)
        conceal_put(conceal, block, sizeof block, &out);
    conceal_flush(conceal, &out);
    conceal_free(conceal);
    return !out.failed && out.len == strlen(CONCEAL_TEXT) && memcmp(out.data, CONCEAL_TEXT, out.len) == 0;
}

static bool again(void) {
    const char *rows[] = {"A=secret", NULL};
    struct conceal *conceal = conceal_new(rows);
    autobuf out = buf_max(256);
    conceal_text(conceal, "sec", 3, &out);
    conceal_text(conceal, "ret secret", 10, &out);
    conceal_free(conceal);
    return strcmp(buf_cstr(&out), "secret [redacted]") == 0;
}

/* Each value becomes a text of its own length: however the stream is cut, and where values overlap. */
static bool swaps(void) {
    static const char text[] =
        "a SECRETVALUE1 b SECRETSECRETVALUE1VALUE1 SECRETVALUE SECRETVALUE1other-key-2SECRETVALUE1";
    static const char want[] =
        "a PLACEHOLDER1 b SECRETPLACEHOLDER1VALUE1 SECRETVALUE PLACEHOLDER1OTHER-KEY-XPLACEHOLDER1";
    size_t len = strlen(text);
    for (size_t first = 0; first <= len; first++)
        for (size_t second = first; second <= len; second++) {
            struct conceal *conceal = conceal_swaps();
            autobuf out = buf_max(1000);
            conceal_swap(conceal, "SECRETVALUE1", "PLACEHOLDER1", 12);
            conceal_swap(conceal, "other-key-2", "OTHER-KEY-X", 11);
            conceal_put(conceal, text, first, &out);
            conceal_put(conceal, text + first, second - first, &out);
            conceal_put(conceal, text + second, len - second, &out);
            conceal_flush(conceal, &out);
            bool same = out.len == len && memcmp(out.data, want, len) == 0;
            conceal_free(conceal);
            if (!same)
                return false;
        }
    return true;
}

int main(void) {
    ok(becomes((const char *[]){"A=hunter22", NULL}, "pw=hunter22;", "pw=[redacted];"), "a value in a text");
    ok(becomes((const char *[]){"A=hunter22", NULL}, "hunter2 hunter2", "hunter2 hunter2"), "not most of one");
    ok(becomes((const char *[]){"A=abcd", "B=abcdefgh", NULL}, "abcdefgh abcd", "[redacted] [redacted]"),
       "the longer one of two that begin alike");
    ok(becomes((const char *[]){"A=abcdef", "B=defghi", NULL}, "xabcdefghix", "x[redacted]x"),
       "two that overlap become one");
    ok(becomes((const char *[]){"A=cdef", "B=abcdefgh", NULL}, "abcdefgX abcdefgh", "ab[redacted]gX [redacted]"),
       "one inside of another");
    ok(becomes((const char *[]){"A=abcd", NULL}, "abcdabcd", "[redacted][redacted]"), "two side by side");
    ok(becomes((const char *[]){"A=line1\nline2\n", NULL}, "line1\nline2", "[redacted]"),
       "without the newline at its end");
    ok(becomes((const char *[]){"A=a\"b\nc", NULL}, "{\"k\":\"a\\\"b\\nc\"} a\"b\nc",
               "{\"k\":\"[redacted]\"} [redacted]"),
       "as JSON writes it");
    ok(conceal_new((const char *[]){"A=abc", "B=", NULL}) == NULL, "nothing to hide in short values");
    const char *const good[] = {"A=abcd", "B=", NULL}, *const bad[] = {"A=abcd", "B=abc", NULL};
    ok(!conceal_short(good) && conceal_short(bad) == bad[1], "short values are told");
    ok(agrees_often(), "20000 random streams come out as plainly said");
    ok(endless(), "a value that overlaps itself for ever");
    ok(again(), "a flush ends one stream and begins another");
    ok(swaps(), "a value becomes another text of its length, in every two and three pieces");
    return tap_end();
}
