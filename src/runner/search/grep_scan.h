/* Searching one file for lines that match. The pattern is shared by threads, a scanner belongs to one. */
#ifndef CUBBY_RUNNER_GREP_SCAN_H
#define CUBBY_RUNNER_GREP_SCAN_H

#include <stdatomic.h>

#include "base/base.h"
#include "runner/search/scan.h"

#define GREP_CONTEXT_BYTES (16u << 10) /* of the lines before a match, and of those after it */

struct pattern {
    bool literal;
    bool multiline; /* a match may cross lines */
    bool whole;     /* regex: no match can contain a newline, so many lines are searched at once */
    struct scan_literal text;
    struct pcre2_real_code_8 *code;
};
#define PATTERN_LITERAL 0x1u
#define PATTERN_IGNORE_CASE 0x2u
#define PATTERN_MULTILINE 0x4u
/* INVALID for a bad regex, with pcre2's own text and the offset. text must outlive the pattern. */
int pattern_compile(struct pattern *pattern, const char *text, size_t len, unsigned flags, struct err *err);

/* Compiles a regex whose lines end with LF. NULL: pcre2's error number, and where. */
struct pcre2_real_code_8 *pattern_regex(const void *text, size_t len, uint32_t options, int *ret_number,
                                        size_t *ret_offset);
struct grep_hit {
    uint64_t line;
    const uint8_t *text, *before, *after; /* cut to their limits, without a final newline; may be NULL */
    size_t text_len, before_len, after_len;
};

struct scanner {
    const struct pattern *pattern;
    unsigned before, after;                              /* lines of context */
    uint64_t max_bytes;                                  /* larger files are not searched; 0: any */
    atomic_bool *stop;                                   /* checked between lines */
    bool (*hit)(void *user, const struct grep_hit *hit); /* false: enough of this file */
    void *user;
    atomic_ullong *gave_up; /* lines for which the pattern was too expensive */
    atomic_bool *left_out;  /* a file was too large to search for matches across lines */
    /* private */
    uint8_t *buffer;
    size_t buffer_size;
    struct pcre2_real_match_data_8 *match_data;
    struct pcre2_real_match_context_8 *match_context;
    struct pcre2_real_jit_stack_8 *jit_stack;
};
void scanner_init(struct scanner *scanner, const struct pattern *pattern);
void scanner_done(struct scanner *scanner);
bool scanner_file(struct scanner *scanner, int fd); /* false: not searched: binary, too large or unreadable */

#endif
