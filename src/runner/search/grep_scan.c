/* Lines of a file that match. Called by op_grep's threads. Invariant: memory is one buffer whatever the file (its size
 * is never used), a line longer than the buffer is searched in pieces, and no regex runs longer than `stop` and the
 * match limit allow.
 *
 * If no match can cross a newline (a literal, or a regex without anything that matches one), the whole buffer is
 * searched at once; else line by line. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>

#include "base/base.h"
#include "runner/search/grep_scan.h"

/* ---- a regex that stays in its line ----
 *
 * Rewritten so that no part of it can match a newline, a regex can run over many lines at once. Invariant: a construct
 * that is not known to be harmless makes the result false; the regex then runs line by line. */

struct reader {
    const char *text;
    size_t len, at;
    struct buf *out;
};

static char grep_scan_peek(const struct reader *reader, size_t ahead) {
    return reader->at + ahead < reader->len ? reader->text[reader->at + ahead] : 0;
}

static void scan_copy(struct reader *reader, size_t count) {
    buf_put(reader->out, reader->text + reader->at, count);
    reader->at += count;
}

/* "\x" outside a class. */
static bool grep_scan_escape(struct reader *reader) {
    static const struct {
        char letter;
        const char *instead; /* NULL: harmless */
    } letters[] = {{'w', NULL}, {'d', NULL}, {'S', NULL},        {'b', NULL},        {'B', NULL},       {'h', NULL},
                   {'t', NULL}, {'N', NULL}, {'s', "[^\\S\\n]"}, {'W', "[^\\w\\n]"}, {'D', "[^\\d\\n]"}};
    char next = grep_scan_peek(reader, 1);
    if (!next || (unsigned char)next >= 0x80)
        return false;
    if (!isalnum((unsigned char)next)) {
        scan_copy(reader, 2);
        return true;
    }
    if (next >= '1' && next <= '9' && !isdigit((unsigned char)grep_scan_peek(reader, 2))) {
        scan_copy(reader, 2); /* a back reference to a group, which has no newline either */
        return true;
    }
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        if (letters[i].letter != next || (next == 'N' && grep_scan_peek(reader, 2) == '{'))
            continue;
        if (letters[i].instead) {
            buf_puts(reader->out, letters[i].instead);
            reader->at += 2;
        } else {
            scan_copy(reader, 2);
        }
        return true;
    }
    return false;
}

/* "[...]": the newline is added to a negated one; in others only what is certainly not a newline is accepted. */
static bool scan_class(struct reader *reader) {
    bool negated = grep_scan_peek(reader, 1) == '^';
    scan_copy(reader, negated ? 2 : 1);
    if (negated)
        buf_puts(reader->out, "\\n");
    if (grep_scan_peek(reader, 0) == ']')
        return false;
    for (;;) {
        char c = grep_scan_peek(reader, 0), next = grep_scan_peek(reader, 1);
        if (!c || (c == '[' && (next == ':' || next == '.' || next == '=')))
            return false;
        if (c == ']') {
            scan_copy(reader, 1);
            return true;
        }
        if (c == '\\') {
            if (!next || next == 'Q' || next == 'E' ||
                (!negated && isalnum((unsigned char)next) && !strchr("wdS", next)))
                return false;
            scan_copy(reader, 2);
            continue;
        }
        if (!negated && (unsigned char)c < 0x20)
            return false;
        scan_copy(reader, 1);
    }
}

/* "(": plain, named and look-around groups; options other than (?i), and verbs, are refused. */
static bool grep_scan_group(struct reader *reader) {
    static const char *const harmless[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i)", "(?i:"};
    if (grep_scan_peek(reader, 1) != '?' && grep_scan_peek(reader, 1) != '*') {
        scan_copy(reader, 1);
        return true;
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        size_t len = strlen(harmless[i]);
        if (reader->len - reader->at >= len && memcmp(reader->text + reader->at, harmless[i], len) == 0) {
            scan_copy(reader, len);
            return true;
        }
    }
    return false;
}

/* Rewrites the regex so that nothing in it matches a newline. Returns false if that is not possible. */
static bool scan_in_line(const char *text, size_t len, struct buf *out) {
    struct reader reader = {.text = text, .len = len, .out = out};
    while (reader.at < len) {
        char c = text[reader.at];
        bool fine = true;
        if (c == '\\')
            fine = grep_scan_escape(&reader);
        else if (c == '[')
            fine = scan_class(&reader);
        else if (c == '(')
            fine = grep_scan_group(&reader);
        else
            scan_copy(&reader, 1);
        if (!fine)
            return false;
    }
    return !out->failed;
}

#pragma GCC optimize("O2")

enum {
    BUFFER_BYTES = 512 << 10,
    BINARY_BYTES = 8192,        /* a NUL in these bytes: not text */
    PIECE_OVERLAP_BYTES = 4096, /* of a line longer than the buffer */
    MATCH_LIMIT = 1000000,
    HEAP_LIMIT_KB = 20000,
};

/* ---- the pattern ---- */

static bool scan_has_meta(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (strchr("\\^$.[]|()?*+{}", text[i]))
            return true;
    return false;
}

static size_t scan_hex_digits(const char *text, size_t len) {
    size_t n = 0;
    while (n < len && n < 8 && strchr("0123456789abcdefABCDEF", text[n]) && text[n])
        n++;
    return n;
}

/* Rewrites \uXXXX, as in Python, JavaScript and Rust, as \x{XXXX}. Returns true if out has the pattern. */
static bool scan_unicode_escapes(const char *text, size_t len, struct buf *out) {
    bool found = false, quoted = false;
    for (size_t i = 0; i < len;) {
        bool escape = text[i] == '\\' && i + 1 < len;
        if (escape && (text[i + 1] == 'Q' || text[i + 1] == 'E'))
            quoted = text[i + 1] == 'Q';
        if (escape && !quoted && text[i + 1] == 'u' && scan_hex_digits(text + i + 2, len - i - 2) >= 4) {
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

pcre2_code *pattern_regex(const void *text, size_t len, uint32_t options, int *ret_number, size_t *ret_offset) {
    pcre2_compile_context *context = xchecked(pcre2_compile_context_create(NULL));
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *code = pcre2_compile(text, len, options, ret_number, ret_offset, context);
    pcre2_compile_context_free(context);
    return code;
}

int pattern_compile(struct pattern *pattern, const char *text, size_t len, unsigned flags, struct err *err) {
    bool literal = flags & PATTERN_LITERAL, ignore_case = flags & PATTERN_IGNORE_CASE;
    *pattern = (struct pattern){.whole = true, .multiline = flags & PATTERN_MULTILINE};
    if (len == 0 || len > LIMIT_PATTERN_BYTES)
        return err_set_why(err, ERR_INVALID, WHY_PATTERN, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    if (!pattern->multiline && memchr(text, '\n', len))
        return err_set_why(err, ERR_INVALID, WHY_PATTERN,
                           "the pattern contains a newline, but lines are searched one by one");
    if (!ignore_case && (literal || !scan_has_meta(text, len))) {
        pattern->literal = true;
        scan_literal_init(&pattern->text, text, len);
        return 0;
    }
    uint32_t options = ignore_case ? PCRE2_CASELESS : 0;
    autobuf escaped = buf_max(2 * LIMIT_PATTERN_BYTES);
    if (text_utf8(text, len)) {
        options |= PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | (literal ? 0 : PCRE2_UCP);
        if (!literal && memmem(text, len, "\\u", 2) && scan_unicode_escapes(text, len, &escaped)) {
            text = (const char *)escaped.data;
            len = escaped.len;
        }
    }
    options |= literal ? PCRE2_LITERAL : PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    if (pattern->multiline && !literal)
        options |= PCRE2_DOTALL;
    int number;
    size_t offset;
    pattern->code = pattern_regex(text, len, options, &number, &offset);
    if (!pattern->code) {
        PCRE2_UCHAR why[200];
        pcre2_get_error_message(number, why, sizeof why);
        return err_set_why(err, ERR_INVALID, WHY_PATTERN, "the pattern at byte %zu: %s", offset, (const char *)why);
    }
    pattern->whole = options & PCRE2_LITERAL;
    autobuf in_line = buf_max(8 * LIMIT_PATTERN_BYTES);
    pcre2_code *code = NULL;
    if (!pattern->whole && !pattern->multiline && scan_in_line(text, len, &in_line))
        code = pattern_regex(in_line.data, in_line.len, options, &number, &offset);
    if (code) {
        pcre2_code_free(pattern->code);
        pattern->code = code;
        pattern->whole = true;
    }
    pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE); /* if that fails, the interpreter does the same */
    return 0;
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
    xensure(scanner->match_data && scanner->match_context);
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

/* Returns where in [at, end] the regex first matches. NULL: nowhere, or it gave up. */
static const uint8_t *scan_regex_find(struct scanner *scanner, const uint8_t *at, const uint8_t *end,
                                      bool *ret_gave_up) {
    int r =
        pcre2_match(scanner->pattern->code, at, (size_t)(end - at), 0, 0, scanner->match_data, scanner->match_context);
    *ret_gave_up = r < 0 && r != PCRE2_ERROR_NOMATCH;
    return r < 0 ? NULL : at + pcre2_get_ovector_pointer(scanner->match_data)[0];
}

/* Returns the next place at or after `at` that is on a matching line; at is the start of a line. */
static const uint8_t *scan_scanner_find(struct scanner *scanner, const uint8_t *at, const uint8_t *end) {
    const struct pattern *pattern = scanner->pattern;
    if (pattern->literal)
        return scan_literal_find(&pattern->text, at, end);
    bool gave_up = false;
    if (pattern->whole) {
        const uint8_t *hit = scan_regex_find(scanner, at, end, &gave_up);
        if (!gave_up) /* an empty match after the last newline is on no line */
            return hit == end && end[-1] == '\n' ? NULL : hit;
    }
    while (at < end && !atomic_load_explicit(scanner->stop, memory_order_relaxed)) {
        const uint8_t *newline = scan_byte(at, end, '\n'), *line_end = newline ? newline : end;
        if (scan_regex_find(scanner, at, line_end, &gave_up))
            return at;
        if (gave_up)
            atomic_fetch_add_explicit(scanner->gave_up, 1, memory_order_relaxed);
        at = line_end + 1;
    }
    return NULL;
}

/* ---- a file ---- */

struct scan_pass { /* where we are in one file; positions are in the scanner's buffer */
    size_t from;   /* start of the first line not searched; before it are lines kept as context */
    size_t len;
    size_t counted; /* `line` is the number of the line that begins or continues here */
    uint64_t line;
    bool eof, skip_line;
};

/* Returns the start of the `count`-th line before `at`, at most GREP_CONTEXT_BYTES back. */
static size_t scan_lines_back(const uint8_t *data, size_t at, unsigned count) {
    size_t low = at > GREP_CONTEXT_BYTES ? at - GREP_CONTEXT_BYTES : 0, now = at;
    while (count-- > 0 && now > low) {
        const uint8_t *newline = scan_byte_back(data + low, data + now - 1, '\n');
        if (!newline && low > 0)
            break; /* a line that does not fit is skipped */
        now = newline ? (size_t)(newline - data) + 1 : 0;
    }
    return now;
}

static size_t scan_without_newline(const uint8_t *data, size_t begin, size_t end) {
    return end > begin && data[end - 1] == '\n' ? end - begin - 1 : end - begin;
}

/* Reports the lines from `begin` to before `end`, of len bytes; `line` is the number of the first. */
static bool scan_report_lines(struct scanner *scanner, size_t begin, size_t end, size_t len, uint64_t line) {
    const uint8_t *data = scanner->buffer;
    struct grep_hit found = {.line = line, .text = data + begin, .text_len = scan_without_newline(data, begin, end)};
    size_t most = scanner->pattern->multiline ? LIMIT_GREP_BLOCK_BYTES : LIMIT_GREP_LINE_BYTES;
    if (found.text_len > most)
        found.text_len = most;
    if (scanner->before > 0) {
        size_t first = scan_lines_back(data, begin, scanner->before);
        found.before = first < begin ? data + first : NULL;
        found.before_len = scan_without_newline(data, first, begin);
    }
    if (scanner->after > 0) {
        size_t high = len - end > GREP_CONTEXT_BYTES ? end + GREP_CONTEXT_BYTES : len, last = end;
        for (unsigned count = scanner->after; count > 0 && last < high; count--) {
            const uint8_t *newline = scan_byte(data + last, data + high, '\n');
            if (!newline && high < len)
                break;
            last = newline ? (size_t)(newline - data) + 1 : len;
        }
        found.after = end < last ? data + end : NULL;
        found.after_len = scan_without_newline(data, end, last);
    }
    return scanner->hit(scanner->user, &found);
}

/* Reports the line around `hit`; *ret_end is after it. */
static bool scan_report(struct scanner *scanner, struct scan_pass *pass, size_t hit, size_t *ret_end) {
    const uint8_t *data = scanner->buffer;
    const uint8_t *before = scan_byte_back(data + pass->from, data + hit, '\n');
    size_t begin = before ? (size_t)(before - data) + 1 : pass->from;
    const uint8_t *newline = scan_byte(data + hit, data + pass->len, '\n');
    size_t end = newline ? (size_t)(newline - data) + 1 : pass->len;
    pass->line += scan_count(data + pass->counted, data + begin, '\n');
    pass->counted = begin;
    pass->skip_line = !newline && !pass->eof;
    *ret_end = end;
    return scan_report_lines(scanner, begin, end, pass->len, pass->line);
}

/* Reports the matching lines that begin in [from, safe). Returns false if there are enough. */
static bool search(struct scanner *scanner, struct scan_pass *pass, size_t safe) {
    size_t at = pass->from;
    while (at < safe && !atomic_load_explicit(scanner->stop, memory_order_relaxed)) {
        pass->from = at;
        const uint8_t *hit = scan_scanner_find(scanner, scanner->buffer + at, scanner->buffer + safe);
        if (!hit)
            return true;
        if (!scan_report(scanner, pass, (size_t)(hit - scanner->buffer), &at))
            return false;
    }
    return at >= safe;
}

/* Returns up to where lines can be searched now: complete lines, with the following lines needed as context. */
static size_t scan_safe_end(const struct scanner *scanner, const struct scan_pass *pass) {
    if (pass->eof)
        return pass->len;
    const uint8_t *data = scanner->buffer;
    const uint8_t *newline = scan_byte_back(data + pass->from, data + pass->len, '\n');
    if (!newline)
        return pass->len; /* a piece of a very long line */
    size_t end = (size_t)(newline - data) + 1;
    size_t safe = scan_lines_back(data, end, scanner->after);
    return safe > pass->from ? safe : end;
}

static bool scan_fill(struct scanner *scanner, struct scan_pass *pass, int fd) {
    while (pass->len < BUFFER_BYTES) {
        ssize_t n = read(fd, scanner->buffer + pass->len, BUFFER_BYTES - pass->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        /* A short read of a regular file is its end, which saves another read. */
        pass->eof = (size_t)n < BUFFER_BYTES - pass->len;
        pass->len += (size_t)n;
        return true;
    }
    return true;
}

static bool scan_binary(const struct scanner *scanner, size_t len) {
    return scan_byte(scanner->buffer, scanner->buffer + (len < BINARY_BYTES ? len : BINARY_BYTES), 0);
}

/* ---- matches that cross lines: a whole file in one buffer ----
 *
 * Invariant: the buffer never grows beyond its limit, whatever size a file reports. Each step of the search begins
 * after the previous match, so that a file of n lines has at most n steps. */

/* Reads the whole file. Returns false if it cannot be read, or is larger than the limit. */
static bool scan_block_read(struct scanner *scanner, int fd, size_t *ret_len) {
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

/* Finds the next match that begins at or after `at`: from *ret_first, before *ret_end. */
static bool scan_block_find(struct scanner *scanner, size_t at, size_t len, size_t *ret_first, size_t *ret_end) {
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
    *ret_end = found[1] > found[0] ? found[1] : found[0]; /* \K can put the start after the end */
    return true;
}

static bool scan_block(struct scanner *scanner, int fd) {
    size_t len, first, last, counted = 0;
    uint64_t line = 1;
    if (!scan_block_read(scanner, fd, &len) || scan_binary(scanner, len))
        return false;
    const uint8_t *data = scanner->buffer;
    for (size_t at = 0; at < len && !atomic_load_explicit(scanner->stop, memory_order_relaxed);) {
        if (!scan_block_find(scanner, at, len, &first, &last) || first >= len)
            break;
        const uint8_t *before = first > at ? scan_byte_back(data + at, data + first, '\n') : NULL;
        size_t begin = before ? (size_t)(before - data) + 1 : at;
        const uint8_t *newline = scan_byte(data + (last > first ? last - 1 : last), data + len, '\n');
        size_t end = newline ? (size_t)(newline - data) + 1 : len;
        line += scan_count(data + counted, data + begin, '\n');
        counted = begin;
        if (!scan_report_lines(scanner, begin, end, len, line))
            break;
        at = end;
    }
    return true;
}

/* ---- line by line ---- */

bool scanner_file(struct scanner *scanner, int fd) {
    struct scan_pass pass = {.line = 1};
    struct stat status;
    if (scanner->max_bytes && (fstat(fd, &status) < 0 || (uint64_t)status.st_size > scanner->max_bytes))
        return false;
    if (scanner->pattern->multiline)
        return scan_block(scanner, fd);
    if (!scan_fill(scanner, &pass, fd) || scan_binary(scanner, pass.len))
        return false;
    for (;;) {
        if (pass.skip_line) {
            /* The rest of a long line that was already reported. */
            const uint8_t *data = scanner->buffer;
            const uint8_t *newline = scan_byte(data + pass.from, data + pass.len, '\n');
            pass.skip_line = !newline;
            pass.from = newline ? (size_t)(newline - data) + 1 : pass.len;
        }
        size_t safe = scan_safe_end(scanner, &pass);
        if (!search(scanner, &pass, safe) || pass.eof)
            return true;
        /* Makes space for the next read: keeps the bytes after `safe` and the context before it. */
        uint8_t *data = scanner->buffer;
        bool piece = safe == pass.len && (safe == 0 || data[safe - 1] != '\n');
        if (pass.counted < safe)
            pass.line += scan_count(data + pass.counted, data + safe, '\n');
        size_t from = safe;
        if (piece && !pass.skip_line && safe > PIECE_OVERLAP_BYTES)
            from = safe - PIECE_OVERLAP_BYTES;
        size_t keep = piece ? from : scan_lines_back(data, safe, scanner->before);
        memmove(data, data + keep, pass.len - keep);
        pass.len -= keep;
        pass.from = from - keep;
        pass.counted = (piece ? safe : from) - keep;
        if (!scan_fill(scanner, &pass, fd))
            return true;
    }
}
