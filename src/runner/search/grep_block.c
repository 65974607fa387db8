/* Matches that cross lines: a file as a whole, in one buffer. Called by scanner_file where the pattern asks for it.
 * Invariant: the buffer grows to its limit and no further, whatever a file says of its size, and each step of the search
 * is behind the match before, so that a file of n lines has at most n of them. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "runner/search/grep_scan.h"

#pragma GCC optimize("O2")

/* All of it. False: it cannot be read, or is larger than the limit. */
static bool block_read(struct scanner *scanner, int fd, size_t *ret_len) {
    size_t len = 0;
    for (;;) {
        if (len == scanner->buffer_size) {
            if (len >= LIMIT_GREP_MULTILINE_BYTES) {
                atomic_store(scanner->left_out, true);
                return false;
            }
            uint8_t *larger = xrealloc(scanner->buffer, 2 * len);
            scanner->buffer = larger;
            scanner->buffer_size = 2 * len;
        }
        ssize_t n = read(fd, scanner->buffer + len, scanner->buffer_size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    *ret_len = len;
    return true;
}

/* The next match that begins at or behind `at`: from *ret_first, before *ret_end. */
static bool block_find(struct scanner *scanner, size_t at, size_t len, size_t *ret_first, size_t *ret_end) {
    const struct pattern *pattern = scanner->pattern;
    const uint8_t *data = scanner->buffer;
    if (pattern->literal) {
        const uint8_t *hit = scan_literal_find(&pattern->text, data + at, data + len);
        *ret_first = hit ? (size_t)(hit - data) : 0;
        *ret_end = *ret_first + pattern->text.len;
        return hit;
    }
    int r = pcre2_match(pattern->code, data, len, at, 0, scanner->match_data, scanner->match_context);
    if (r < 0 && r != PCRE2_ERROR_NOMATCH)
        atomic_fetch_add_explicit(scanner->gave_up, 1, memory_order_relaxed);
    if (r < 0)
        return false;
    const size_t *found = pcre2_get_ovector_pointer(scanner->match_data);
    *ret_first = found[0];
    *ret_end = found[1] > found[0] ? found[1] : found[0]; /* \K can put the begin behind the end */
    return true;
}

bool scanner_block(struct scanner *scanner, int fd) {
    size_t len, first, last, counted = 0;
    uint64_t line = 1;
    if (!block_read(scanner, fd, &len) || scanner_binary(scanner, len))
        return false;
    const uint8_t *data = scanner->buffer;
    for (size_t at = 0; at < len && !atomic_load_explicit(scanner->stop, memory_order_relaxed);) {
        if (!block_find(scanner, at, len, &first, &last) || first >= len)
            break;
        const uint8_t *before = first > at ? scan_byte_back(data + at, data + first, '\n') : NULL;
        size_t begin = before ? (size_t)(before - data) + 1 : at;
        const uint8_t *newline = scan_byte(data + (last > first ? last - 1 : last), data + len, '\n');
        size_t end = newline ? (size_t)(newline - data) + 1 : len;
        line += scan_count(data + counted, data + begin, '\n');
        counted = begin;
        if (!scanner_tell(scanner, begin, end, len, line))
            break;
        at = end;
    }
    return true;
}
