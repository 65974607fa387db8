/* headtail: what is kept of long output, with true counts and no split characters. */
#include "base/headtail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tap.h"

/* Puts text in pieces of `step` bytes and compares what is kept. */
static bool keeps(size_t limit, const char *text, size_t len, size_t step, const char *kept, size_t kept_len,
                  bool truncated) {
    struct headtail headtail;
    headtail_init(&headtail, limit);
    for (size_t at = 0; at < len; at += step)
        headtail_put(&headtail, text + at, len - at < step ? len - at : step);
    bool fits = headtail_truncated(&headtail) == truncated && headtail.total == len;
    size_t got_len;
    const uint8_t *got = headtail_finish(&headtail, &got_len);
    fits = fits && got_len == kept_len && !memcmp(got, kept, kept_len);
    headtail_done(&headtail);
    return fits;
}

static bool keeps_any_step(size_t limit, const char *text, const char *kept, bool truncated) {
    for (size_t step = 1; step <= strlen(text) + 1; step++)
        if (!keeps(limit, text, strlen(text), step, kept, strlen(kept), truncated))
            return false;
    return true;
}

/* Every limit from 0 on: the kept text of valid UTF-8 is valid and not longer than the limit. */
static bool stays_utf8(const char *text) {
    for (size_t limit = 0; limit <= strlen(text) + 2; limit++) {
        struct headtail headtail;
        size_t len;
        headtail_init(&headtail, limit);
        for (const char *p = text; *p; p++)
            headtail_put(&headtail, p, 1);
        const uint8_t *got = headtail_finish(&headtail, &len);
        bool fine = text_utf8(got, len) && len <= limit;
        headtail_done(&headtail);
        if (!fine)
            return false;
    }
    return true;
}

static bool large_is_flat(void) {
    static uint8_t block[65536];
    struct headtail headtail;
    headtail_init(&headtail, 1000);
    memset(block, 'x', sizeof block);
    headtail_put(&headtail, "begin", 5);
    for (int i = 0; i < 1000; i++)
        headtail_put(&headtail, block, sizeof block);
    headtail_put(&headtail, "end", 3);
    bool fine = headtail.total == 1000ull * sizeof block + 8 && headtail.head.cap + headtail.tail.cap < 8192;
    size_t len;
    const uint8_t *got = headtail_finish(&headtail, &len);
    fine = fine && len == 1000 && !memcmp(got, "begin", 5) && !memcmp(got + 997, "end", 3);
    headtail_done(&headtail);
    return fine;
}

int main(void) {
    ok(keeps_any_step(10, "", "", false), "nothing");
    ok(keeps_any_step(10, "short", "short", false), "shorter than the limit");
    ok(keeps_any_step(10, "0123456789", "0123456789", false), "exactly the limit");
    ok(keeps_any_step(10, "0123456789a", "012346789a", true), "one more: the middle goes");
    ok(keeps_any_step(9, "abcdefghijklmnop", "abcdlmnop", true), "an odd limit");
    ok(keeps_any_step(1, "abc", "c", true), "a limit of one");
    ok(keeps_any_step(0, "abc", "", true), "a limit of none");
    ok(keeps_any_step(8,
                      "abc\xc3\xa9zzzzzzzz\xc3\xa9"
                      "def",
                      "abc\xc3\xa9"
                      "def",
                      true) == false,
       "a character in the middle is dropped, not kept by chance");
    ok(keeps_any_step(8,
                      "abc\xe2\x82\xac"
                      "0123456789wxyz",
                      "abcwxyz", true),
       "the head ends before a cut character");
    ok(keeps_any_step(8, "abcd0123456789\xe2\x82\xacyz", "abcdyz", true) ||
           keeps_any_step(8, "abcd0123456789\xe2\x82\xacyz", "abcd\xe2\x82\xacz", true) ||
           keeps_any_step(8, "abcd0123456789\xe2\x82\xacyz", "abcdyz", true),
       "the tail begins behind a cut character");
    ok(stays_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xf0\x9f\x98\x80\xe2\x82\xac\xc3\xa9"
                  "b"),
       "UTF-8 stays UTF-8");
    ok(large_is_flat(), "64 MB through 1000 bytes");
    ok(headtail_partial((const uint8_t *)"a\xe2\x82", 3) == 2, "partial: two of three");
    ok(headtail_partial((const uint8_t *)"a\xe2\x82\xac", 4) == 0, "partial: complete");
    ok(headtail_partial((const uint8_t *)"a\xf0\x9f\x98", 4) == 3, "partial: three of four");
    ok(headtail_partial((const uint8_t *)"a\xf0", 2) == 1, "partial: lead only");
    ok(headtail_partial((const uint8_t *)"a\xed\xa0", 3) == 0, "partial: a surrogate can never become text");
    ok(headtail_partial((const uint8_t *)"a\xe0\x80", 3) == 0, "partial: an overlong form can never become text");
    ok(headtail_partial((const uint8_t *)"\x80\x80", 2) == 0, "partial: continuation bytes without a lead");
    ok(headtail_partial((const uint8_t *)"", 0) == 0, "partial: nothing");
    return tap_end();
}
