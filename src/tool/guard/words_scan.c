/* Words of a shell: quotes, escapes, substitutions, here-documents. Called by words.c. Invariant: every command that
 * bash would run is passed to scan_list, however it is quoted or nested; unknown syntax is an error, never plain
 * text. */
#include "tool/guard/words_scan.h"

#include <ctype.h>
#include <string.h>

/* ---- bytes ---- */

void scan_fail(struct scan *scan, const char *error) {
    if (!scan->error)
        scan->error = error;
}

/* Bash joins lines before it reads anything, so that even $\<newline>( is a substitution. */
static void scan_join(struct scan *scan) {
    while (scan->at + 1 < scan->len && scan->text[scan->at] == '\\' && scan->text[scan->at + 1] == '\n')
        scan->at += 2;
}

static int scan_raw(const struct scan *scan) {
    return scan->error || scan->at >= scan->len ? -1 : (unsigned char)scan->text[scan->at];
}

int scan_peek(struct scan *scan) {
    scan_join(scan);
    return scan_raw(scan);
}

static int scan_get(struct scan *scan) {
    int c = scan_peek(scan);
    if (c >= 0) {
        scan->at++;
        if (*scan->work == 0)
            scan_fail(scan, "it is too complex");
        else
            --*scan->work;
    }
    return c;
}

bool scan_next_is(struct scan *scan, const char *text) {
    size_t at = scan->at;
    for (; *text && scan_peek(scan) == (unsigned char)*text; text++)
        scan->at++;
    scan->at = at;
    return !*text;
}

bool scan_take(struct scan *scan, const char *text) {
    if (!scan_next_is(scan, text))
        return false;
    for (; *text; text++)
        scan_get(scan);
    return !scan->error;
}

bool scan_meta(int c) {
    return c < 0 || strchr(" \t\n;&|()<>", c); /* NUL was refused before */
}

void scan_blanks(struct scan *scan) {
    while (scan_peek(scan) == ' ' || scan_peek(scan) == '\t')
        scan_get(scan);
    if (scan_peek(scan) == '#')
        while (scan_raw(scan) >= 0 && scan_raw(scan) != '\n') /* no joining here */
            scan->at++;
}

void scan_plain(struct scan *scan, char ret_word[10]) {
    size_t at = scan->at, len = 0;
    int c;
    while (!scan_meta(c = scan_peek(scan)) && !strchr("\\'\"`$", c) && len < 10) {
        ret_word[len < 9 ? len : 9] = (char)c;
        len++;
        scan->at++;
    }
    bool whole = scan_meta(c) && len < 10;
    scan->at = at;
    ret_word[whole ? len : 0] = 0;
}

/* ---- building a word ---- */

struct grow {
    struct buf out;
    size_t plain;
    unsigned flags;
    struct script *first, **last;
};

static void scan_grow_init(struct grow *grow) {
    buf_init(&grow->out, WORDS_BYTES + 16);
    grow->plain = 0;
    grow->flags = 0;
    grow->first = NULL;
    grow->last = &grow->first;
}

static void scan_grow_end(struct scan *scan, struct grow *grow, struct word *ret_word) {
    *ret_word =
        (struct word){.text = arena_copy(scan->arena, grow->out.data ? (char *)grow->out.data : "", grow->out.len),
                      .len = grow->out.len,
                      .plain = grow->plain,
                      .flags = grow->flags,
                      .inside = grow->first};
    if (grow->out.failed)
        scan_fail(scan, "it is too long");
    buf_done(&grow->out);
}

static void scan_grow_byte(struct grow *grow, int c) {
    buf_byte(&grow->out, (uint8_t)c);
}

/* Appends the source from `from` to here, as written. */
static void scan_grow_source(const struct scan *scan, struct grow *grow, size_t from) {
    buf_put(&grow->out, scan->text + from, scan->at - from);
    grow->flags |= WORD_EXPANDS;
}

static bool scan_deeper(struct scan *scan) {
    if (scan->depth >= WORDS_DEPTH) {
        scan_fail(scan, "it is nested too deep");
        return false;
    }
    scan->depth++;
    return true;
}

/* ---- substitutions ---- */

/* Parses the commands from here to `end` as a script of this word. */
static void scan_inside(struct scan *scan, struct grow *grow, char end) {
    if (!scan_deeper(scan))
        return;
    struct script *script = arena_alloc(scan->arena, sizeof *script);
    struct command **tail = scan->tail;
    struct scan_body *bodies = scan->bodies;
    scan->tail = (struct command **)&script->commands;
    scan->bodies = NULL;
    scan_list(scan);
    if (scan->bodies)
        scan_fail(scan, "a here-document without its text");
    if (scan_get(scan) != end)
        scan_fail(scan, "unclosed substitution");
    scan->tail = tail;
    scan->bodies = bodies;
    scan->depth--;
    *grow->last = script;
    grow->last = (struct script **)&script->next;
}

/* Starts to parse another text: between backticks, or of a here-document. */
static struct scan scan_child(struct scan *scan, const char *text, size_t len) {
    return (struct scan){.arena = scan->arena,
                         .text = text,
                         .len = len,
                         .depth = scan->depth,
                         .work = scan->work,
                         .source = scan->source,
                         .function = scan->function,
                         .endless = scan->endless};
}

static void scan_dollar(struct scan *scan, struct grow *grow, bool quoted);
static void scan_double(struct scan *scan, struct grow *grow);

static void scan_single(struct scan *scan, struct grow *grow) {
    int c;
    scan->at++;
    while ((c = scan_raw(scan)) >= 0 && c != '\'') {
        scan_grow_byte(grow, c);
        scan->at++;
    }
    if (c < 0)
        scan_fail(scan, "unclosed quote");
    scan->at++;
    grow->flags |= WORD_QUOTED;
}

/* Takes a quote or substitution at scan. Returns false if there is none. quoted: inside double quotes. */
static bool scan_special(struct scan *scan, struct grow *grow, bool quoted) {
    switch (scan_peek(scan)) {
    case '$':
        scan_dollar(scan, grow, quoted);
        return true;
    case '`': {
        size_t from = scan->at;
        struct buf inner;
        buf_init(&inner, WORDS_BYTES);
        scan_get(scan);
        int c;
        while ((c = scan_get(scan)) >= 0 && c != '`') {
            if (c == '\\' && (scan_raw(scan) == '`' || scan_raw(scan) == '\\' || scan_raw(scan) == '$' ||
                              (quoted && scan_raw(scan) == '"')))
                c = scan_get(scan);
            buf_byte(&inner, (uint8_t)c);
        }
        if (c < 0)
            scan_fail(scan, "unclosed backtick");
        scan_grow_source(scan, grow, from);
        struct script *script = arena_alloc(scan->arena, sizeof *script);
        struct scan child = scan_child(scan, inner.data ? (char *)inner.data : "", inner.len);
        child.tail = (struct command **)&script->commands;
        if (!scan->error && scan_deeper(&child)) {
            scan_list(&child);
            if (scan_peek(&child) >= 0)
                scan_fail(&child, "a syntax error between backticks");
        }
        if (child.error)
            scan_fail(scan, child.error);
        buf_done(&inner);
        *grow->last = script;
        grow->last = (struct script **)&script->next;
    }
        return true;
    case '"':
        scan_double(scan, grow);
        return true;
    default:
        return false;
    }
}

static void scan_double(struct scan *scan, struct grow *grow) {
    int c;
    scan_get(scan);
    grow->flags |= WORD_QUOTED;
    while ((c = scan_peek(scan)) >= 0 && c != '"') {
        if (scan_special(scan, grow, true))
            continue;
        scan_get(scan);
        if (c == '\\' && scan_raw(scan) >= 0 && strchr("$`\"\\", scan_raw(scan)))
            c = scan_get(scan);
        scan_grow_byte(grow, c);
    }
    if (scan_get(scan) != '"')
        scan_fail(scan, "unclosed quote");
}

/* Takes text up to `close`, with nested pairs of open and close, and collects the commands in it. literal: single
 * quotes are ordinary characters. Begins after the opening character and ends after the closing one. */
static void scan_pair(struct scan *scan, struct grow *grow, char open, char close, bool literal) {
    unsigned pairs = 1;
    struct grow lost; /* the text is taken from the source */
    int c;
    if (!scan_deeper(scan))
        return;
    scan_grow_init(&lost);
    lost.last = grow->last;
    while ((c = scan_peek(scan)) >= 0) {
        if (c == close && --pairs == 0)
            break;
        pairs += c == open && c != close;
        if (c == '\'' && !literal)
            scan_single(scan, &lost);
        else if (c == '\\')
            scan_get(scan), scan->at += scan_raw(scan) >= 0;
        else if ((c == '<' || c == '>') && !literal && open == '(' && scan_next_is(scan, c == '<' ? "<(" : ">(")) {
            scan->at += 2;
            scan_inside(scan, &lost, ')');
        } else if (!scan_special(scan, &lost, literal))
            scan_get(scan);
        buf_clear(&lost.out);
    }
    grow->last = lost.last;
    buf_done(&lost.out);
    scan->depth--;
    if (scan_get(scan) != close)
        scan_fail(scan, "unclosed substitution");
}

/* Only counts parentheses, so that deep nesting stays cheap. Bash decides by the same rule: the two closing parentheses
 * are adjacent. */
bool scan_is_arithmetic(struct scan *scan) {
    size_t at = scan->at + 2;
    unsigned pairs = 1;
    for (; at < scan->len && pairs; at++) {
        char c = scan->text[at];
        if (*scan->work == 0)
            break;
        --*scan->work;
        if (c == '\\')
            at++;
        else if (c == '\'' || c == '"') {
            const char *end = memchr(scan->text + at + 1, c, scan->len - at - 1);
            at = end ? (size_t)(end - scan->text) : scan->len;
        } else
            pairs += c == '(' ? 1u : 0u, pairs -= c == ')' ? 1u : 0u;
    }
    return !pairs && at < scan->len && scan->text[at] == ')';
}

/* Before it evaluates the expression, bash counts the parentheses again, in a text that it has made from its input. If
 * they are not balanced, it runs the text as commands after all. Its count is unreliable if one of them is quoted, or
 * is unpaired as in case and here-documents. inside: it contains a substitution. */
static bool scan_in_pairs(const struct scan *scan, size_t at, bool inside) {
    unsigned pairs = 0;
    char quote = 0;
    for (; at < scan->at - 1; at++) {
        char c = scan->text[at];
        bool second = scan->text[at + 1] == c;
        if (inside && (c == '\\' || (c == '<' && second) || (c == '#' && isspace((unsigned char)scan->text[at - 1]))))
            return false;
        if (c == '\\')
            at++;
        else if (c == '\'' || c == '"')
            quote = quote == c ? 0 : quote ? quote : c;
        else if ((c == '(' || c == ')') && quote == '\'')
            return false;
        else if (c == '(')
            pairs++;
        else if (c == ')' && pairs-- == 0)
            return false;
    }
    return pairs == 0;
}

static void scan_arithmetic_into(struct scan *scan, struct grow *grow) {
    size_t from = scan->at;
    struct script **last = grow->last;
    scan_pair(scan, grow, '(', ')', true);
    if (!scan->error && !scan_in_pairs(scan, from, grow->last != last))
        scan_fail(scan, "arithmetic that may be commands");
    if (scan_get(scan) != ')')
        scan_fail(scan, "unclosed arithmetic");
}

void scan_arithmetic(struct scan *scan, struct word *ret_word) {
    struct grow grow;
    size_t from = scan->at;
    scan_grow_init(&grow);
    scan_arithmetic_into(scan, &grow);
    scan_grow_source(scan, &grow, from);
    scan_grow_end(scan, &grow, ret_word);
}

static bool scan_name_byte(int c) {
    return c >= 0 && (isalnum(c) || c == '_');
}

/* Takes ${...}, from after the brace. Newer shells run commands between "${ " and "}". */
static void scan_parameter(struct scan *scan, struct grow *grow, bool quoted) {
    int c = scan_peek(scan);
    if (c == ' ' || c == '\t' || c == '\n' || c == '|') {
        scan_get(scan);
        scan_inside(scan, grow, '}');
        return;
    }
    if (c == '!' || c == '#')
        scan_get(scan);
    while (scan_name_byte(scan_peek(scan)))
        scan_get(scan);
    c = scan_peek(scan);
    bool pattern = c >= 0 && strchr("#%/^,@", c);        /* there quotes count even inside other quotes */
    scan_pair(scan, grow, '}', '}', quoted && !pattern); /* the first one ends it */
}

static void scan_ansi(struct scan *scan, struct grow *grow);

static void scan_dollar(struct scan *scan, struct grow *grow, bool quoted) {
    scan_join(scan);
    size_t from = scan->at;
    scan_get(scan);
    int c = scan_peek(scan);
    if (c == '(') {
        if (scan_next_is(scan, "((") && (scan_join(scan), scan_is_arithmetic(scan))) {
            scan_take(scan, "((");
            scan_arithmetic_into(scan, grow);
        } else {
            scan_get(scan);
            scan_inside(scan, grow, ')');
        }
    } else if (c == '{') {
        scan_get(scan);
        scan_parameter(scan, grow, quoted);
    } else if (c == '[') {
        scan_get(scan);
        scan_pair(scan, grow, '[', ']', true);
    } else if (c == '\'' && !quoted) {
        scan_ansi(scan, grow);
        return;
    } else if (c == '"' && !quoted) {
        scan_double(scan, grow);
        return;
    } else if (scan_name_byte(c) && !isdigit(c)) {
        while (scan_name_byte(scan_peek(scan)))
            scan_get(scan);
    } else if (c > 0 && strchr("@*#?-$!0123456789", c)) {
        scan_get(scan);
    } else {
        scan_grow_byte(grow, '$');
        return;
    }
    scan_grow_source(scan, grow, from);
}

/* ---- $'...' ---- */

static int scan_digit_of(int c, unsigned base) {
    int value = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : 99;
    return (unsigned)value < base ? value : -1;
}

static unsigned scan_number(struct scan *scan, unsigned base, unsigned most) {
    unsigned value = 0;
    for (unsigned i = 0; i < most && scan_digit_of(scan_raw(scan), base) >= 0; i++)
        value = value * base + (unsigned)scan_digit_of(scan_raw(scan), base), scan->at++;
    return value;
}

/* Takes an escape after its backslash. Returns false for a NUL, which ends the text in bash. */
static bool scan_escape(struct scan *scan, struct grow *grow) {
    static const char from[] = "abeEfnrtv\\'\"?", to[] = "\a\b\033\033\f\n\r\t\v\\'\"?";
    int c = scan_raw(scan);
    unsigned value = 0;
    const char *known = c > 0 ? strchr(from, c) : NULL;
    scan->at++;
    if (known) {
        scan_grow_byte(grow, to[known - from]);
        return true;
    }
    if (c >= '0' && c <= '7') {
        scan->at--;
        value = scan_number(scan, 8, 3) & 0xff;
        if (value)
            scan_grow_byte(grow, (int)value);
    } else if (c == 'x' && scan_digit_of(scan_raw(scan), 16) >= 0) {
        value = scan_number(scan, 16, 2);
        if (value)
            scan_grow_byte(grow, (int)value);
    } else if ((c == 'u' || c == 'U') && scan_digit_of(scan_raw(scan), 16) >= 0) {
        value = scan_number(scan, 16, c == 'u' ? 4 : 8);
        if (value) {
            if (value < 0x80)
                scan_grow_byte(grow, (int)value);
            else if (value < 0x800)
                scan_grow_byte(grow, (int)(0xc0 | value >> 6)), scan_grow_byte(grow, (int)(0x80 | (value & 63)));
            else if (value < 0x10000)
                scan_grow_byte(grow, (int)(0xe0 | value >> 12)), scan_grow_byte(grow, (int)(0x80 | (value >> 6 & 63))),
                    scan_grow_byte(grow, (int)(0x80 | (value & 63)));
            else
                scan_grow_byte(grow, (int)(0xf0 | (value >> 18 & 7))),
                    scan_grow_byte(grow, (int)(0x80 | (value >> 12 & 63))),
                    scan_grow_byte(grow, (int)(0x80 | (value >> 6 & 63))),
                    scan_grow_byte(grow, (int)(0x80 | (value & 63)));
        }
    } else if (c == 'c' && scan_raw(scan) >= 0) {
        value = (unsigned)scan_raw(scan) & 0x1f;
        scan->at++;
        if (value)
            scan_grow_byte(grow, (int)value);
    } else {
        scan_grow_byte(grow, '\\');
        if (c >= 0)
            scan_grow_byte(grow, c);
        value = 1;
    }
    return value != 0;
}

static void scan_ansi(struct scan *scan, struct grow *grow) {
    bool ended = false;
    int c;
    scan->at++;
    while ((c = scan_raw(scan)) >= 0 && c != '\'') {
        size_t len = grow->out.len;
        scan->at++;
        if (c != '\\')
            scan_grow_byte(grow, c);
        else if (!scan_escape(scan, grow))
            ended = true, len = grow->out.len;
        if (ended)
            grow->out.len = len;
    }
    if (c < 0)
        scan_fail(scan, "unclosed quote");
    scan->at++;
    grow->flags |= WORD_QUOTED;
}

/* ---- words ---- */

/* NAME= or NAME+= or NAME[...]= without quotes, directly before a parenthesis: an array. */
static bool scan_grow_names(const struct grow *grow) {
    const char *text = (const char *)grow->out.data;
    size_t len = grow->out.len, i = 0;
    if (!len || text[len - 1] != '=' || grow->flags & (WORD_QUOTED | WORD_EXPANDS))
        return false;
    len -= len > 1 && text[len - 2] == '+' ? 2 : 1;
    while (i < len && scan_name_byte((unsigned char)text[i]))
        i++;
    return i == len && i && !isdigit((unsigned char)text[0]);
}

/* Takes (a b c) after NAME=. Its words become part of the text as written, with blanks. */
static void scan_array(struct scan *scan, struct grow *grow) {
    size_t from = scan->at;
    scan_get(scan);
    for (;;) {
        struct word word;
        scan_blanks(scan);
        int c = scan_peek(scan);
        if (c == '\n')
            scan_newline(scan);
        else if (c == ')' || scan->error)
            break;
        else if (c < 0 || (scan_meta(c) && !scan_next_is(scan, "<(") && !scan_next_is(scan, ">(")))
            scan_fail(scan, "unclosed array");
        else {
            scan_word(scan, SCAN_ARGUMENT, &word);
            *grow->last = (struct script *)word.inside;
            while (*grow->last)
                grow->last = (struct script **)&(*grow->last)->next;
        }
    }
    scan_get(scan);
    scan_grow_source(scan, grow, from);
}

/* The state of {a,b}: bash requires an unquoted comma or two dots between the braces. */
struct braces {
    unsigned open;
    bool parted;
    int before;
};

static void scan_braces_see(struct braces *braces, int c, unsigned *flags) {
    if (c == '{')
        braces->open++;
    else if (braces->open && (c == ',' || (c == '.' && braces->before == '.')))
        braces->parted = true;
    else if (braces->open && c == '}') {
        if (braces->parted)
            *flags |= WORD_BRACES;
        braces->open--;
    }
    braces->before = c;
}

/* Takes one piece of a word. Returns false at the end of the word. */
static bool scan_piece(struct scan *scan, enum scan_place place, struct grow *grow, struct braces *braces) {
    int c = scan_peek(scan);
    bool test = place == SCAN_TEST;
    if (c == '\'') {
        scan_single(scan, grow);
    } else if (c == '\\') {
        scan_get(scan);
        if (scan_raw(scan) >= 0)
            scan_grow_byte(grow, scan_raw(scan)), scan->at++;
        else
            scan_grow_byte(grow, c);
        grow->flags |= WORD_QUOTED;
    } else if ((c == '<' || c == '>') && scan_next_is(scan, c == '<' ? "<(" : ">(")) {
        size_t from = scan->at;
        scan_get(scan);
        scan_get(scan);
        scan_inside(scan, grow, ')');
        scan_grow_source(scan, grow, from);
    } else if (c == '(' && scan_grow_names(grow) && !test) {
        scan_array(scan, grow);
    } else if (c == '(' && grow->out.len && strchr("?*+@!", grow->out.data[grow->out.len - 1]) && !test &&
               grow->flags & WORD_GLOBS) {
        size_t from = scan->at;
        scan_get(scan);
        scan_pair(scan, grow, '(', ')', false);
        scan_grow_source(scan, grow, from);
        grow->flags |= WORD_GLOBS;
    } else if (scan_meta(c) && !(test && c >= 0 && strchr("()<>|&", c))) {
        return false;
    } else if (!scan_special(scan, grow, false)) {
        scan_get(scan);
        if (strchr("*?[", c) || (scan_raw(scan) == '(' && strchr("+@!", c)))
            grow->flags |= WORD_GLOBS;
        if (c == '~' && !grow->out.len && !(grow->flags & WORD_QUOTED))
            grow->flags |= WORD_TILDE;
        scan_braces_see(braces, c, &grow->flags);
        grow->plain += grow->plain == grow->out.len && !(grow->flags & (WORD_QUOTED | WORD_EXPANDS));
        scan_grow_byte(grow, c);
    }
    return true;
}

void scan_word(struct scan *scan, enum scan_place place, struct word *ret_word) {
    struct grow grow;
    struct braces braces = {0};
    size_t from = scan->at;
    scan_grow_init(&grow);
    while (!scan->error && scan_piece(scan, place, &grow, &braces))
        ;
    if (scan->at == from)
        scan_fail(scan, "a syntax error"); /* nothing was taken, and callers would loop */
    scan_grow_end(scan, &grow, ret_word);
}

/* ---- here-documents ---- */

void scan_body_begin(struct scan *scan, struct redirect *redirect, bool tabs) {
    struct scan_body *body = arena_alloc(scan->arena, sizeof *body), **last = &scan->bodies;
    struct grow grow;
    size_t from;
    scan_grow_init(&grow);
    scan_blanks(scan);
    from = scan->at;
    for (int c; !scan_meta(c = scan_peek(scan));) { /* nothing is expanded in it */
        if (c == '\'') {
            scan_single(scan, &grow);
            continue;
        }
        scan_get(scan);
        if (c == '"') {
            while ((c = scan_get(scan)) >= 0 && c != '"')
                scan_grow_byte(
                    &grow, c == '\\' && scan_raw(scan) >= 0 && strchr("$`\"\\", scan_raw(scan)) ? scan_get(scan) : c);
            if (c < 0)
                scan_fail(scan, "unclosed quote");
            grow.flags |= WORD_QUOTED;
        } else if (c == '\\') {
            grow.flags |= WORD_QUOTED;
            if (scan_raw(scan) >= 0)
                scan_grow_byte(&grow, scan_get(scan));
        } else
            scan_grow_byte(&grow, c);
    }
    if (scan->at == from || memchr(grow.out.data ? (char *)grow.out.data : "", '\n', grow.out.len))
        scan_fail(scan, "a here-document without an end word");
    struct word word;
    scan_grow_end(scan, &grow, &word);
    *body =
        (struct scan_body){.redirect = redirect, .end = word.text, .quoted = word.flags & WORD_QUOTED, .tabs = tabs};
    while (*last)
        last = &(*last)->next;
    *last = body;
}

/* Reads one line into out. If the end word is not quoted, a backslash at the end of a line joins it with the next.
 * False: no more lines. */
static bool scan_body_line(struct scan *scan, bool quoted, struct buf *out) {
    bool some = false;
    buf_clear(out);
    while (scan_raw(scan) >= 0) {
        some = true;
        if (!quoted)
            scan_join(scan);
        int c = scan_raw(scan);
        if (c < 0)
            break;
        scan->at++;
        if (c == '\n')
            break;
        buf_byte(out, (uint8_t)c);
        if (c == '\\' && !quoted && scan_raw(scan) >= 0 && scan_raw(scan) != '\n') { /* \\ joins nothing */
            buf_byte(out, (uint8_t)scan_raw(scan));
            scan->at++;
        }
    }
    return some;
}

static void scan_body_read(struct scan *scan, const struct scan_body *body) {
    struct buf line, text;
    buf_init(&line, WORDS_BYTES);
    buf_init(&text, WORDS_BYTES);
    while (scan_body_line(scan, body->quoted, &line)) {
        size_t skip = 0;
        while (body->tabs && skip < line.len && line.data[skip] == '\t')
            skip++;
        if (line.len - skip == strlen(body->end) &&
            (line.len == skip || !memcmp(line.data + skip, body->end, line.len - skip)))
            break;
        if (line.len > skip)
            buf_put(&text, line.data + skip, line.len - skip);
        buf_byte(&text, '\n');
    }
    struct word *target = &body->redirect->target;
    *target = (struct word){.text = arena_copy(scan->arena, text.data ? (char *)text.data : "", text.len),
                            .len = text.len,
                            .flags = body->quoted ? WORD_QUOTED : 0};
    if (!body->quoted) {
        /* Substitutions in a here-document work as between double quotes, which are ordinary characters here. */
        struct scan child = scan_child(scan, target->text, target->len);
        struct grow grow;
        int c;
        scan_grow_init(&grow);
        if (!scan_deeper(&child))
            scan_fail(scan, child.error);
        while ((c = scan_peek(&child)) >= 0) {
            if (c != '"' && scan_special(&child, &grow, true))
                continue;
            scan_get(&child);
            if (c == '\\' && scan_raw(&child) >= 0)
                child.at++;
        }
        if (child.error)
            scan_fail(scan, child.error);
        target->flags = grow.flags & WORD_EXPANDS;
        target->inside = grow.first;
        buf_done(&grow.out);
    }
    buf_done(&line);
    buf_done(&text);
}

void scan_newline(struct scan *scan) {
    struct scan_body *bodies = scan->bodies;
    scan_get(scan);
    scan->bodies = NULL;
    for (; bodies && !scan->error; bodies = bodies->next)
        scan_body_read(scan, bodies);
}
