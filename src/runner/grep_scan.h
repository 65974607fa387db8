/* Searching one file for lines that match. The pattern is shared by threads, a scanner belongs to one. */
#ifndef CUBBY_RUNNER_GREP_SCAN_H
#define CUBBY_RUNNER_GREP_SCAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "runner/scan.h"

#define GREP_CONTEXT_BYTES (16u << 10) /* of the lines before a match, and of those behind it */

struct pattern {
    bool literal;
    bool whole; /* regex: no match can hold a newline, so many lines are searched at once */
    struct scan_literal text;
    struct pcre2_real_code_8 *code;
};
/* INVALID with pcre2's own words and the place for a bad regex. text must outlive the pattern. */
int pattern_compile(struct pattern *pattern, const char *text, size_t len, bool literal, bool ignore_case,
                    struct err *err);

/* grep_lines.c: writes the regex so that nothing in it matches a newline; false when that is not known how. */
struct buf;
bool pattern_in_line(const char *text, size_t len, struct buf *out);

struct grep_hit {
    uint64_t line;
    const uint8_t *text, *before, *after; /* cut to their limits; no newline at the end */
    size_t text_len, before_len, after_len;
};

struct scanner {
    const struct pattern *pattern;
    unsigned context;
    atomic_bool *stop;                                   /* looked at between lines */
    bool (*hit)(void *user, const struct grep_hit *hit); /* false: enough of this file */
    void *user;
    atomic_ullong *gave_up; /* lines on which the pattern took too much work to say whether they match */
    /* private */
    uint8_t *buffer;
    struct pcre2_real_match_data_8 *match_data;
    struct pcre2_real_match_context_8 *match_context;
    struct pcre2_real_jit_stack_8 *jit_stack;
};
void scanner_init(struct scanner *scanner, const struct pattern *pattern);
void scanner_done(struct scanner *scanner);
bool scanner_file(struct scanner *scanner, int fd); /* false: binary or unreadable, not searched */

#endif
