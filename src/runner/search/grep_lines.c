/* A regex made to stay in its line: rewritten so that no part of it can match a newline, it may be run over many lines at
 * once with the same result as line by line. Called by pattern_compile. Invariant: whatever is not known to be
 * harmless makes the answer false, and the regex is then run line by line. */
#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "runner/search/grep_scan.h"

struct reader {
    const char *text;
    size_t len, at;
    struct buf *out;
};

static char peek(const struct reader *reader, size_t ahead) {
    return reader->at + ahead < reader->len ? reader->text[reader->at + ahead] : 0;
}

static void copy(struct reader *reader, size_t count) {
    buf_put(reader->out, reader->text + reader->at, count);
    reader->at += count;
}

/* "\x" outside a class. */
static bool escape(struct reader *reader) {
    static const struct {
        char letter;
        const char *instead; /* NULL: harmless as it is */
    } letters[] = {{'w', NULL}, {'d', NULL}, {'S', NULL},        {'b', NULL},        {'B', NULL},       {'h', NULL},
                   {'t', NULL}, {'N', NULL}, {'s', "[^\\S\\n]"}, {'W', "[^\\w\\n]"}, {'D', "[^\\d\\n]"}};
    char next = peek(reader, 1);
    if (!next || (unsigned char)next >= 0x80)
        return false;
    if (!isalnum((unsigned char)next)) {
        copy(reader, 2);
        return true;
    }
    if (next >= '1' && next <= '9' && !isdigit((unsigned char)peek(reader, 2))) {
        copy(reader, 2); /* a group again: it holds no newline either */
        return true;
    }
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        if (letters[i].letter != next || (next == 'N' && peek(reader, 2) == '{'))
            continue;
        if (letters[i].instead) {
            buf_puts(reader->out, letters[i].instead);
            reader->at += 2;
        } else {
            copy(reader, 2);
        }
        return true;
    }
    return false;
}

/* "[...]": a negated one gets the newline added; in another only what is plainly not a newline passes. */
static bool class(struct reader *reader) {
    bool negated = peek(reader, 1) == '^';
    copy(reader, negated ? 2 : 1);
    if (negated)
        buf_puts(reader->out, "\\n");
    if (peek(reader, 0) == ']')
        return false;
    for (;;) {
        char c = peek(reader, 0), next = peek(reader, 1);
        if (!c || (c == '[' && (next == ':' || next == '.' || next == '=')))
            return false;
        if (c == ']') {
            copy(reader, 1);
            return true;
        }
        if (c == '\\') {
            if (!next || next == 'Q' || next == 'E' ||
                (!negated && isalnum((unsigned char)next) && !strchr("wdS", next)))
                return false;
            copy(reader, 2);
            continue;
        }
        if (!negated && (unsigned char)c < 0x20)
            return false;
        copy(reader, 1);
    }
}

/* "(": plain, named and look-around groups; options but (?i) and verbs are not. */
static bool group(struct reader *reader) {
    static const char *const harmless[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i)", "(?i:"};
    if (peek(reader, 1) != '?' && peek(reader, 1) != '*') {
        copy(reader, 1);
        return true;
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        size_t len = strlen(harmless[i]);
        if (reader->len - reader->at >= len && memcmp(reader->text + reader->at, harmless[i], len) == 0) {
            copy(reader, len);
            return true;
        }
    }
    return false;
}

bool pattern_in_line(const char *text, size_t len, struct buf *out) {
    struct reader reader = {.text = text, .len = len, .out = out};
    while (reader.at < len) {
        char c = text[reader.at];
        bool fine = true;
        if (c == '\\')
            fine = escape(&reader);
        else if (c == '[')
            fine = class(&reader);
        else if (c == '(')
            fine = group(&reader);
        else
            copy(&reader, 1);
        if (!fine)
            return false;
    }
    return !out->failed;
}
