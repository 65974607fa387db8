/* Lines of a file that match. Called by op_grep's threads. Invariant: memory is one buffer whatever the file (its
 * size is never asked), a line longer than the buffer is searched in pieces, and no regex can run for ever without
 * `stop` or the match limit ending it.
 *
 * Two ways through a buffer: where no match can cross a newline (a literal, or a regex without anything that takes one)
 * the whole buffer is searched at once; else line by line. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runner/search/grep_scan.h"

#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

#pragma GCC optimize("O2")

enum {
    BUFFER_BYTES = 512 << 10,
    BINARY_BYTES = 8192,        /* a NUL in these: not text */
    PIECE_OVERLAP_BYTES = 4096, /* of a line longer than the buffer */
    MATCH_LIMIT = 1000000,
    HEAP_LIMIT_KB = 20000,
};

/* ---- the pattern ---- */

static bool has_meta(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (strchr("\\^$.[]|()?*+{}", text[i]))
            return true;
    return false;
}

static size_t hex_digits(const char *text, size_t len) {
    size_t n = 0;
    while (n < len && n < 8 && strchr("0123456789abcdefABCDEF", text[n]) && text[n])
        n++;
    return n;
}

/* \uXXXX, which Python, JavaScript and Rust have, as \x{XXXX}. True: out has the pattern. */
static bool unicode_escapes(const char *text, size_t len, struct buf *out) {
    bool found = false, quoted = false;
    for (size_t i = 0; i < len;) {
        bool escape = text[i] == '\\' && i + 1 < len;
        if (escape && (text[i + 1] == 'Q' || text[i + 1] == 'E'))
            quoted = text[i + 1] == 'Q';
        if (escape && !quoted && text[i + 1] == 'u' && hex_digits(text + i + 2, len - i - 2) >= 4) {
            buf_puts(out, "\\x{");
            buf_put(out, text + i + 2, 4);
            buf_byte(out, '}');
            found = true;
            i += 6;
            continue;
        }
        size_t n = escape ? 2 : 1;
        buf_put(out, text + i, n);
        i += n;
    }
    return found && !out->failed;
}

static pcre2_code *regex_new(const void *text, size_t len, uint32_t options, int *ret_number, size_t *ret_offset) {
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        abort();
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *code = pcre2_compile(text, len, options, ret_number, ret_offset, context);
    pcre2_compile_context_free(context);
    return code;
}

static int regex_compile(struct pattern *pattern, const char *text, size_t len, uint32_t options, struct err *err) {
    int number;
    size_t offset;
    pattern->code = regex_new(text, len, options, &number, &offset);
    if (!pattern->code) {
        PCRE2_UCHAR why[200];
        pcre2_get_error_message(number, why, sizeof why);
        return err_set_why(err, ERR_INVALID, WHY_PATTERN, "the pattern at byte %zu: %s", offset, (const char *)why);
    }
    pattern->whole = options & PCRE2_LITERAL;
    autobuf in_line = buf_max(8 * LIMIT_PATTERN_BYTES);
    pcre2_code *code = NULL;
    if (!pattern->whole && !pattern->multiline && pattern_in_line(text, len, &in_line))
        code = regex_new(in_line.data, in_line.len, options, &number, &offset);
    if (code) {
        pcre2_code_free(pattern->code);
        pattern->code = code;
        pattern->whole = true;
    }
    pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE); /* where it cannot, the interpreter does the same */
    return 0;
}

int pattern_compile(struct pattern *pattern, const char *text, size_t len, unsigned flags, struct err *err) {
    bool literal = flags & PATTERN_LITERAL, ignore_case = flags & PATTERN_IGNORE_CASE;
    *pattern = (struct pattern){.whole = true, .multiline = flags & PATTERN_MULTILINE};
    if (len == 0 || len > LIMIT_PATTERN_BYTES)
        return err_set_why(err, ERR_INVALID, WHY_PATTERN, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    if (!pattern->multiline && memchr(text, '\n', len))
        return err_set_why(err, ERR_INVALID, WHY_PATTERN, "the pattern holds a newline; lines are searched one by one");
    if (!ignore_case && (literal || !has_meta(text, len))) {
        pattern->literal = true;
        scan_literal_init(&pattern->text, text, len);
        return 0;
    }
    uint32_t options = ignore_case ? PCRE2_CASELESS : 0;
    autobuf escaped = buf_max(2 * LIMIT_PATTERN_BYTES);
    if (text_utf8(text, len)) {
        options |= PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | (literal ? 0 : PCRE2_UCP);
        if (!literal && memmem(text, len, "\\u", 2) && unicode_escapes(text, len, &escaped)) {
            text = (const char *)escaped.data;
            len = escaped.len;
        }
    }
    options |= literal ? PCRE2_LITERAL : PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    if (pattern->multiline && !literal)
        options |= PCRE2_DOTALL;
    return regex_compile(pattern, text, len, options, err);
}

/* ---- a scanner ---- */

void scanner_init(struct scanner *scanner, const struct pattern *pattern) {
    memset(scanner, 0, sizeof *scanner);
    scanner->pattern = pattern;
    scanner->buffer_size = BUFFER_BYTES;
    scanner->buffer = xmalloc(BUFFER_BYTES);
    if (pattern->literal)
        return;
    scanner->match_data = pcre2_match_data_create(1, NULL);
    scanner->match_context = pcre2_match_context_create(NULL);
    scanner->jit_stack = pcre2_jit_stack_create(32 << 10, 512 << 10, NULL);
    if (!scanner->match_data || !scanner->match_context)
        abort();
    pcre2_set_match_limit(scanner->match_context, MATCH_LIMIT);
    pcre2_set_depth_limit(scanner->match_context, MATCH_LIMIT);
    pcre2_set_heap_limit(scanner->match_context, HEAP_LIMIT_KB);
    if (scanner->jit_stack)
        pcre2_jit_stack_assign(scanner->match_context, NULL, scanner->jit_stack);
}

void scanner_done(struct scanner *scanner) {
    free(scanner->buffer);
    pcre2_match_data_free(scanner->match_data);
    pcre2_match_context_free(scanner->match_context);
    pcre2_jit_stack_free(scanner->jit_stack);
}

/* Where in [at, end] the regex matches first. NULL: nowhere, or it gave up. */
static const uint8_t *regex_find(struct scanner *scanner, const uint8_t *at, const uint8_t *end, bool *ret_gave_up) {
    int r =
        pcre2_match(scanner->pattern->code, at, (size_t)(end - at), 0, 0, scanner->match_data, scanner->match_context);
    *ret_gave_up = r < 0 && r != PCRE2_ERROR_NOMATCH;
    return r < 0 ? NULL : at + pcre2_get_ovector_pointer(scanner->match_data)[0];
}

/* The next place at or behind `at` that lies on a matching line; at is the begin of a line. */
static const uint8_t *scanner_find(struct scanner *scanner, const uint8_t *at, const uint8_t *end) {
    const struct pattern *pattern = scanner->pattern;
    if (pattern->literal)
        return scan_literal_find(&pattern->text, at, end);
    bool gave_up = false;
    if (pattern->whole) {
        const uint8_t *hit = regex_find(scanner, at, end, &gave_up);
        if (!gave_up) /* an empty match behind the last newline is on no line */
            return hit == end && end[-1] == '\n' ? NULL : hit;
    }
    while (at < end && !atomic_load_explicit(scanner->stop, memory_order_relaxed)) {
        const uint8_t *newline = scan_byte(at, end, '\n'), *line_end = newline ? newline : end;
        if (regex_find(scanner, at, line_end, &gave_up))
            return at;
        if (gave_up)
            atomic_fetch_add_explicit(scanner->gave_up, 1, memory_order_relaxed);
        at = line_end + 1;
    }
    return NULL;
}

/* ---- a file ---- */

struct pass {    /* where we are in one file; positions are in the scanner's buffer */
    size_t from; /* begin of the first line not searched yet; before it lie lines kept as context */
    size_t len;
    size_t counted; /* `line` is the number of the line that begins or goes on here */
    uint64_t line;
    bool eof, skip_line;
};

/* Begin of the `count`-th line before `at`, at most GREP_CONTEXT_BYTES back. */
static size_t lines_back(const uint8_t *data, size_t at, unsigned count) {
    size_t low = at > GREP_CONTEXT_BYTES ? at - GREP_CONTEXT_BYTES : 0, now = at;
    while (count-- > 0 && now > low) {
        const uint8_t *newline = scan_byte_back(data + low, data + now - 1, '\n');
        if (!newline && low > 0)
            break; /* a line that does not fit is left out */
        now = newline ? (size_t)(newline - data) + 1 : 0;
    }
    return now;
}

static size_t lines_forward(const uint8_t *data, size_t at, size_t end, unsigned count) {
    size_t high = end - at > GREP_CONTEXT_BYTES ? at + GREP_CONTEXT_BYTES : end, now = at;
    while (count-- > 0 && now < high) {
        const uint8_t *newline = scan_byte(data + now, data + high, '\n');
        if (!newline && high < end)
            break;
        now = newline ? (size_t)(newline - data) + 1 : end;
    }
    return now;
}

static size_t without_newline(const uint8_t *data, size_t begin, size_t end) {
    return end > begin && data[end - 1] == '\n' ? end - begin - 1 : end - begin;
}

bool scanner_tell(struct scanner *scanner, size_t begin, size_t end, size_t len, uint64_t line) {
    const uint8_t *data = scanner->buffer;
    struct grep_hit found = {.line = line, .text = data + begin, .text_len = without_newline(data, begin, end)};
    size_t most = scanner->pattern->multiline ? LIMIT_GREP_BLOCK_BYTES : LIMIT_GREP_LINE_BYTES;
    if (found.text_len > most)
        found.text_len = most;
    if (scanner->before > 0) {
        size_t first = lines_back(data, begin, scanner->before);
        found.before = first < begin ? data + first : NULL;
        found.before_len = without_newline(data, first, begin);
    }
    if (scanner->after > 0) {
        size_t last = lines_forward(data, end, len, scanner->after);
        found.after = end < last ? data + end : NULL;
        found.after_len = without_newline(data, end, last);
    }
    return scanner->hit(scanner->user, &found);
}

/* Tells of the line around `hit`; *ret_end is behind it. */
static bool report(struct scanner *scanner, struct pass *pass, size_t hit, size_t *ret_end) {
    const uint8_t *data = scanner->buffer;
    const uint8_t *before = scan_byte_back(data + pass->from, data + hit, '\n');
    size_t begin = before ? (size_t)(before - data) + 1 : pass->from;
    const uint8_t *newline = scan_byte(data + hit, data + pass->len, '\n');
    size_t end = newline ? (size_t)(newline - data) + 1 : pass->len;
    pass->line += scan_count(data + pass->counted, data + begin, '\n');
    pass->counted = begin;
    pass->skip_line = !newline && !pass->eof;
    *ret_end = end;
    return scanner_tell(scanner, begin, end, pass->len, pass->line);
}

/* Reports the matching lines that begin in [from, safe). False: enough. */
static bool search(struct scanner *scanner, struct pass *pass, size_t safe) {
    size_t at = pass->from;
    while (at < safe && !atomic_load_explicit(scanner->stop, memory_order_relaxed)) {
        pass->from = at;
        const uint8_t *hit = scanner_find(scanner, scanner->buffer + at, scanner->buffer + safe);
        if (!hit)
            return true;
        if (!report(scanner, pass, (size_t)(hit - scanner->buffer), &at))
            return false;
    }
    return at >= safe;
}

/* Up to where lines can be searched now: whole lines, with the lines behind them that are wanted as context. */
static size_t safe_end(const struct scanner *scanner, const struct pass *pass) {
    if (pass->eof)
        return pass->len;
    const uint8_t *data = scanner->buffer;
    const uint8_t *newline = scan_byte_back(data + pass->from, data + pass->len, '\n');
    if (!newline)
        return pass->len; /* a piece of a very long line */
    size_t end = (size_t)(newline - data) + 1;
    size_t safe = lines_back(data, end, scanner->after);
    return safe > pass->from ? safe : end;
}

/* Makes room for the next read: keeps what lies behind `safe` and the context before it. */
static void shift(struct scanner *scanner, struct pass *pass, size_t safe) {
    uint8_t *data = scanner->buffer;
    bool piece = safe == pass->len && (safe == 0 || data[safe - 1] != '\n');
    if (pass->counted < safe)
        pass->line += scan_count(data + pass->counted, data + safe, '\n');
    size_t from = safe;
    if (piece && !pass->skip_line && safe > PIECE_OVERLAP_BYTES)
        from = safe - PIECE_OVERLAP_BYTES;
    size_t keep = piece ? from : lines_back(data, safe, scanner->before);
    memmove(data, data + keep, pass->len - keep);
    pass->len -= keep;
    pass->from = from - keep;
    pass->counted = (piece ? safe : from) - keep;
}

static bool fill(struct scanner *scanner, struct pass *pass, int fd) {
    while (pass->len < BUFFER_BYTES) {
        ssize_t n = read(fd, scanner->buffer + pass->len, BUFFER_BYTES - pass->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        /* A short read of a regular file is its end: saves the read that would only say so. */
        pass->eof = (size_t)n < BUFFER_BYTES - pass->len;
        pass->len += (size_t)n;
        return true;
    }
    return true;
}

/* The rest of a long line that was already reported. */
static void skip_reported(const struct scanner *scanner, struct pass *pass) {
    const uint8_t *data = scanner->buffer;
    const uint8_t *newline = scan_byte(data + pass->from, data + pass->len, '\n');
    pass->skip_line = !newline;
    pass->from = newline ? (size_t)(newline - data) + 1 : pass->len;
}

bool scanner_binary(const struct scanner *scanner, size_t len) {
    return scan_byte(scanner->buffer, scanner->buffer + (len < BINARY_BYTES ? len : BINARY_BYTES), 0);
}

static bool too_large(const struct scanner *scanner, int fd) {
    struct stat status;
    return scanner->max_bytes && (fstat(fd, &status) < 0 || (uint64_t)status.st_size > scanner->max_bytes);
}

bool scanner_file(struct scanner *scanner, int fd) {
    struct pass pass = {.line = 1};
    if (too_large(scanner, fd))
        return false;
    if (scanner->pattern->multiline)
        return scanner_block(scanner, fd);
    if (!fill(scanner, &pass, fd) || scanner_binary(scanner, pass.len))
        return false;
    for (;;) {
        if (pass.skip_line)
            skip_reported(scanner, &pass);
        size_t safe = safe_end(scanner, &pass);
        if (!search(scanner, &pass, safe) || pass.eof)
            return true;
        shift(scanner, &pass, safe);
        if (!fill(scanner, &pass, fd))
            return true;
    }
}
