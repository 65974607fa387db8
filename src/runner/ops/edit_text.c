/* Changing a text: strings and lines. Called by op_edit. Invariant: every byte outside of the requested change stays as
 * it is, including byte order marks, line endings and a missing last newline. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/base.h"
#include "runner/ops/edit_text.h"
#include "runner/search/grep_scan.h"

struct edit_span {
    const uint8_t *data;  /* the whole body */
    size_t len, from, to; /* the part that may be changed */
    uint64_t first;       /* its first line */
};

/* ---- lines similar to a text that was not found ----
 *
 * A model needs them to try again. First by whole lines, ignoring surrounding white space: the place where most lines
 * of the old text follow each other. Otherwise the line that shares most pairs of bytes with the longest old line.
 * Invariant: time is linear in the file. */

enum {
    OLD_LINES_MAX = 64,
    LOOK_BYTES = 256, /* of a line that are compared by pairs */
    BUCKETS = 256,
    ALIKE_PERCENT = 50,
};

struct near_line {
    const uint8_t *text; /* without surrounding white space */
    size_t len;
    uint64_t hash;
};

struct near_old {
    struct near_line lines[OLD_LINES_MAX];
    size_t count, filled; /* filled: not blank */
    int first[BUCKETS], next[OLD_LINES_MAX];
};

/* Gets the next line of [*at, end), trimmed; false at the end. *ret_begin, *ret_end: untrimmed, without its newline. */
static bool text_next_line(const uint8_t **at, const uint8_t *end, struct near_line *ret_line,
                           const uint8_t **ret_begin, const uint8_t **ret_end) {
    if (*at >= end)
        return false;
    const uint8_t *newline = memchr(*at, '\n', (size_t)(end - *at)), *to = newline ? newline : end, *from = *at;
    *ret_begin = from;
    *ret_end = to;
    *at = newline ? newline + 1 : end;
    while (from < to && (*from == ' ' || *from == '\t' || *from == '\r'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\r'))
        to--;
    uint64_t hash = 14695981039346656037ull; /* FNV-1a */
    for (const uint8_t *byte = from; byte < to; byte++)
        hash = (hash ^ *byte) * 1099511628211ull;
    *ret_line = (struct near_line){from, (size_t)(to - from), hash};
    return true;
}

static void text_read_old(struct near_old *old, const uint8_t *text, size_t len) {
    const uint8_t *at = text, *end = text + len, *begin, *stop;
    *old = (struct near_old){0};
    for (size_t i = 0; i < BUCKETS; i++)
        old->first[i] = -1;
    while (old->count < OLD_LINES_MAX && text_next_line(&at, end, &old->lines[old->count], &begin, &stop)) {
        const struct near_line *line = &old->lines[old->count];
        if (line->len) {
            old->filled++;
            old->next[old->count] = old->first[line->hash % BUCKETS];
            old->first[line->hash % BUCKETS] = (int)old->count;
        }
        old->count++;
    }
}

/* Counts how many lines of the old text would match if it began at a line. Returns the best such line, from 0. */
static size_t text_best_by_lines(const struct near_old *old, const uint8_t *data, size_t len, size_t *ret_start) {
    size_t total = 1, index = 0, best = 0;
    for (const uint8_t *at = data, *end = data + len; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        total++;
    uint8_t *hits =
        xcalloc(total + OLD_LINES_MAX, 1); /* by the line it would begin at, OLD_LINES_MAX before the first */
    const uint8_t *at = data, *begin, *stop;
    struct near_line line;
    for (; text_next_line(&at, data + len, &line, &begin, &stop); index++)
        for (int i = line.len ? old->first[line.hash % BUCKETS] : -1; i >= 0; i = old->next[i]) {
            if (old->lines[i].len != line.len || memcmp(old->lines[i].text, line.text, line.len) != 0)
                continue;
            size_t slot = index + OLD_LINES_MAX - (size_t)i;
            if (++hits[slot] > best) {
                best = hits[slot];
                *ret_start = slot > OLD_LINES_MAX ? slot - OLD_LINES_MAX : 0;
            }
        }
    free(hits);
    return best;
}

static size_t text_pairs_shared(const uint8_t *set, const struct near_line *line) {
    size_t shared = 0, len = line->len < LOOK_BYTES ? line->len : LOOK_BYTES;
    for (size_t i = 0; i + 1 < len; i++) {
        unsigned pair = (unsigned)line->text[i] << 8 | line->text[i + 1];
        shared += set[pair / 8] >> pair % 8 & 1;
    }
    return shared;
}

/* Finds the line most similar to the longest line of the old text. false: none is similar. */
static bool text_best_by_pairs(const struct near_old *old, const uint8_t *data, size_t len, size_t *ret_start) {
    static uint8_t set[65536 / 8];
    size_t longest = 0, index = 0, best = 0;
    for (size_t i = 1; i < old->count; i++)
        if (old->lines[i].len > old->lines[longest].len)
            longest = i;
    const struct near_line *wanted = &old->lines[longest];
    size_t pairs = (wanted->len < LOOK_BYTES ? wanted->len : LOOK_BYTES);
    if (old->count == 0 || pairs < 4)
        return false;
    memset(set, 0, sizeof set);
    for (size_t i = 0; i + 1 < pairs; i++) {
        unsigned pair = (unsigned)wanted->text[i] << 8 | wanted->text[i + 1];
        set[pair / 8] |= (uint8_t)(1u << pair % 8);
    }
    const uint8_t *at = data, *begin, *stop;
    struct near_line line;
    for (; text_next_line(&at, data + len, &line, &begin, &stop); index++) {
        size_t have = line.len < LOOK_BYTES ? line.len : LOOK_BYTES, shared = text_pairs_shared(set, &line);
        size_t percent = have + pairs > 2 ? 200 * shared / (have + pairs - 2) : 0;
        if (percent > best) {
            best = percent;
            *ret_start = index > longest ? index - longest : 0;
        }
    }
    return best >= ALIKE_PERCENT;
}

/* Adds one line, shortened. */
static void edit_near_put(struct edit_text *edit, uint64_t line, const uint8_t *text, size_t len) {
    if (edit->near_count == EDIT_NEAR_MAX)
        return;
    edit->near[edit->near_count++] = (struct edit_near){line, text, text_cut(text, len, EDIT_NEAR_TEXT_BYTES)};
}

/* Fills near with the lines of the body most similar to the old text. */
static void edit_near_find(struct edit_text *edit, const uint8_t *data, size_t len) {
    struct near_old old;
    size_t start = 0;
    text_read_old(&old, edit->old, edit->old_len);
    size_t same = text_best_by_lines(&old, data, len, &start);
    edit->how = same > 0 && same == old.filled ? EDIT_SPACES : EDIT_ALIKE;
    if (same == 0 && !text_best_by_pairs(&old, data, len, &start))
        return;
    const uint8_t *at = data, *begin, *stop;
    struct near_line line;
    for (size_t i = 0; i < start + old.count && text_next_line(&at, data + len, &line, &begin, &stop); i++)
        if (i >= start)
            edit_near_put(edit, i + 1, begin, (size_t)(stop - begin));
}

/* Counts another occurrence at `at` and remembers its line. */
static void edit_text_place(struct edit_text *edit, const struct edit_span *span, size_t at) {
    if (edit->count++ == 0)
        edit->line = 0;
    bool shows = !edit->all && edit->count <= EDIT_NEAR_MAX;
    if (edit->line && !shows)
        return;
    uint64_t line = 1;
    for (const uint8_t *p = span->data; (p = memchr(p, '\n', (size_t)(span->data + at - p))); p++)
        line++;
    if (edit->line == 0)
        edit->line = line;
    if (!shows || (edit->near_count && edit->near[edit->near_count - 1].line == line))
        return;
    const uint8_t *begin = memrchr(span->data, '\n', at), *end = memchr(span->data + at, '\n', span->len - at);
    begin = begin ? begin + 1 : span->data;
    end = end ? end : span->data + span->len;
    edit_near_put(edit, line, begin, (size_t)(end - begin));
}

/* ---- regular expressions ----
 *
 * Invariant: one attempt has bounded steps and memory; all attempts together are bounded by the caller's clock. JIT
 * is not used: it does not honor these bounds. */

enum {
    MATCH_LIMIT = 10000000, /* steps of one attempt: about a second */
    HEAP_LIMIT_KB = 65536,
};

struct substitution {
    struct edit_text *edit;
    const struct edit_span *span;
};

static int text_regex_place(pcre2_substitute_callout_block *block, void *user) {
    struct substitution *substitution = user;
    edit_text_place(substitution->edit, substitution->span, substitution->span->from + block->ovector[0]);
    return 0;
}

static int text_regex_compile(const struct edit_text *edit, bool utf, pcre2_code **ret_code, struct err *err) {
    uint32_t options = PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | (utf ? PCRE2_UTF | PCRE2_NO_UTF_CHECK : 0);
    int number;
    size_t offset;
    *ret_code = pattern_regex(edit->old, edit->old_len, options, &number, &offset);
    if (*ret_code)
        return 0;
    PCRE2_UCHAR why[200];
    pcre2_get_error_message(number, why, sizeof why);
    return err_set(err, ERR_INVALID, "invalid regex pattern at byte %zu: %s", offset, (const char *)why);
}

/* Reserves the space after out at once: unused pages cost nothing. */
static int text_regex_run(struct substitution *substitution, pcre2_code *code, bool utf, struct buf *out,
                          struct err *err) {
    struct edit_text *edit = substitution->edit;
    const struct edit_span *span = substitution->span;
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    size_t room = out->max - out->len;
    uint8_t *at = buf_reserve(out, room);
    xensure(context && data);
    pcre2_set_match_limit(context, MATCH_LIMIT);
    pcre2_set_depth_limit(context, MATCH_LIMIT);
    pcre2_set_heap_limit(context, HEAP_LIMIT_KB);
    pcre2_set_substitute_callout(context, text_regex_place, substitution);
    PCRE2_SIZE len = room;
    int number = PCRE2_ERROR_NOMEMORY;
    if (at)
        number =
            pcre2_substitute(code, span->data + span->from, span->to - span->from, 0,
                             PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_UNSET_EMPTY | (utf ? PCRE2_NO_UTF_CHECK : 0),
                             data, context, edit->new_text, edit->new_len, at, &len);
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    if (number == PCRE2_ERROR_NOMEMORY) {
        out->failed = true;
        return 0;
    }
    if (number < 0) {
        PCRE2_UCHAR why[200];
        if (number == PCRE2_ERROR_MATCHLIMIT || number == PCRE2_ERROR_DEPTHLIMIT || number == PCRE2_ERROR_HEAPLIMIT)
            return err_set(err, ERR_INVALID,
                           "the pattern takes too many steps on this text: make it more specific, without "
                           "nested repetitions");
        pcre2_get_error_message(number, why, sizeof why);
        return err_set(err, ERR_INVALID, "invalid replacement: %s", (const char *)why);
    }
    out->len += len;
    return 0;
}

/* Appends only the changed part, [from, to), to out. */
static int edit_regex(struct edit_text *edit, const struct edit_span *span, struct buf *out, struct err *err) {
    if (edit->old_len > LIMIT_PATTERN_BYTES)
        return err_set(err, ERR_INVALID, "the pattern must have 1 to %u bytes", LIMIT_PATTERN_BYTES);
    bool utf = text_utf8(edit->old, edit->old_len) && text_utf8(edit->new_text, edit->new_len) &&
               text_utf8(span->data + span->from, span->to - span->from);
    pcre2_code *code;
    TRY(text_regex_compile(edit, utf, &code, err));
    struct substitution substitution = {edit, span};
    int r = text_regex_run(&substitution, code, utf, out, err);
    pcre2_code_free(code);
    return r;
}

/* ---- line endings ---- */

static bool text_all_crlf(const uint8_t *data, size_t len) {
    if (len == 0)
        return false;
    const uint8_t *at = data, *end = data + len;
    bool any = false;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
        if (at == data || at[-1] != '\r')
            return false;
        any = true;
        at++;
    }
    return any;
}

static void text_crlf_to_lf(const uint8_t *data, size_t len, struct buf *out) {
    if (len == 0)
        return;
    size_t from = 0;
    for (size_t i = 1; i < len; i++)
        if (data[i] == '\n' && data[i - 1] == '\r') {
            buf_put(out, data + from, i - 1 - from);
            from = i;
        }
    buf_put(out, data + from, len - from);
}

static void text_lf_to_crlf(const uint8_t *data, size_t len, struct buf *out) {
    if (len == 0) /* data may be NULL then, here and above */
        return;
    const uint8_t *at = data, *end = data + len, *newline;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        buf_put(out, at, (size_t)(newline - at));
        buf_put(out, "\r\n", 2);
        at = newline + 1;
    }
    buf_put(out, at, (size_t)(end - at));
}

/* ---- lines ---- */

/* Counts newlines, and the rest after the last one. */
static uint64_t text_count_lines(const uint8_t *data, size_t len) {
    uint64_t count = len && data[len - 1] != '\n';
    for (const uint8_t *at = data, *end = data + len; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        count++;
    return count;
}

/* Returns where a line begins; line total + 1 is the end. */
static size_t text_line_begin(const uint8_t *data, size_t len, uint64_t line) {
    const uint8_t *at = data, *end = data + len;
    while (line > 1 && at < end) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
        line--;
    }
    return (size_t)(at - data);
}

static int text_find_span(const struct edit_text *edit, struct edit_span *span, struct err *err) {
    uint64_t total = text_count_lines(span->data, span->len);
    uint64_t first = edit->first ? edit->first : 1, last = edit->last ? edit->last : total;
    if (edit->lines) {
        first = edit->first ? edit->first : total + 1;
        last = edit->first ? edit->last : total;
    }
    bool place = edit->lines && last + 1 == first;
    if (last > total)
        return err_set(err, ERR_INVALID, "end_line %llu exceeds total lines %llu", (unsigned long long)last,
                       (unsigned long long)total);
    if (first > total + (place || total == 0))
        return err_set(err, ERR_INVALID, "start_line %llu exceeds total lines %llu", (unsigned long long)first,
                       (unsigned long long)total);
    if (first > last && !place && total > 0)
        return err_set(err, ERR_INVALID, "start_line %llu is greater than end_line %llu", (unsigned long long)first,
                       (unsigned long long)last);
    span->first = first;
    span->from = text_line_begin(span->data, span->len, first);
    span->to = last >= first
                   ? span->from + text_line_begin(span->data + span->from, span->len - span->from, last - first + 2)
                   : span->from;
    return 0;
}

/* ---- the change ---- */

static void edit_look_around(struct edit_text *edit, const struct edit_span *span) {
    const uint8_t *hit = memmem(span->data, span->len, edit->old, edit->old_len);
    if (!hit) {
        edit_near_find(edit, span->data, span->len);
        return;
    }
    edit->how = EDIT_OUTSIDE;
    edit->all = false; /* so that the places are shown */
    edit_text_place(edit, span, (size_t)(hit - span->data));
    edit->count = 0;
}

static int edit_judge(struct edit_text *edit, const struct edit_span *span, const char *shown, struct err *err) {
    const char *what = edit->regex ? "pattern" : "text to replace";
    if (edit->count == 1 || (edit->count > 1 && edit->all)) {
        edit->near_count = 0;
        return 0;
    }
    edit->judged = true;
    if (edit->count > 1)
        return err_set(err, ERR_INVALID, "the %s occurs in '%s' %llu times: give more of it, or set all=true", what,
                       shown, (unsigned long long)edit->count);
    if (!edit->regex)
        edit_look_around(edit, span);
    return err_set(err, ERR_NOT_FOUND, "the %s is not in '%s'", what, shown);
}

static void edit_string(struct edit_text *edit, const struct edit_span *span, struct buf *out) {
    const uint8_t *at = span->data + span->from, *end = span->data + span->to, *hit;
    while (at < end && (hit = memmem(at, (size_t)(end - at), edit->old, edit->old_len))) {
        edit_text_place(edit, span, (size_t)(hit - span->data));
        buf_put(out, at, (size_t)(hit - at));
        buf_put(out, edit->new_text, edit->new_len);
        at = hit + edit->old_len;
    }
    buf_put(out, at, (size_t)(end - at));
}

/* Given lines need not end with a newline: one is added, except for the last line of a file that lacks it. */
static void edit_lines(const struct edit_text *edit, const struct edit_span *span, struct buf *out) {
    bool at_end = span->to == span->len;
    bool open = span->len > 0 && span->data[span->len - 1] != '\n';
    if (edit->new_len == 0)
        return;
    if (at_end && open && span->from == span->len)
        buf_byte(out, '\n');
    buf_put(out, edit->new_text, edit->new_len);
    if (edit->new_text[edit->new_len - 1] != '\n' && !(at_end && open))
        buf_byte(out, '\n');
}

static int edit_body(struct edit_text *edit, const uint8_t *data, size_t len, const char *shown, struct buf *out,
                     struct err *err) {
    struct edit_span span = {.data = data, .len = len};
    TRY(text_find_span(edit, &span, err));
    if (!edit->lines && edit->old_len == 0)
        return err_set(err, ERR_INVALID, "the text to replace is empty");
    size_t start = out->len;
    buf_put(out, data, span.from);
    if (edit->lines) {
        edit_lines(edit, &span, out);
        edit->count = 1;
        edit->line = span.first;
    } else if (edit->regex) {
        TRY(edit_regex(edit, &span, out, err));
    } else {
        edit_string(edit, &span, out);
    }
    buf_put(out, data + span.to, len - span.to);
    TRY(edit->lines ? 0 : edit_judge(edit, &span, shown, err));
    if (!out->failed)
        edit->total = out->len > start ? text_count_lines(out->data + start, out->len - start) : 0;
    return 0;
}

/* Gives the text the file's line endings. */
static void text_take_given(struct buf *given, const uint8_t **text, size_t *len) {
    buf_init(given, *len + 1);
    text_crlf_to_lf(*text, *len, given);
    *text = given->data ? given->data : (const uint8_t *)"";
    *len = given->len;
}

static int edit_as_text(struct edit_text *edit, const uint8_t *data, size_t len, const char *shown, struct buf *out,
                        struct err *err) {
    bool wide = len >= 2 && ((data[0] == 0xff && data[1] == 0xfe) || (data[0] == 0xfe && data[1] == 0xff));
    if (wide || memchr(data, 0, len))
        return err_set(err, ERR_INVALID, "'%s' is %s", shown,
                       wide ? "UTF-16 text: convert it first, e.g. with iconv" : "binary");
    size_t mark = len >= 3 && memcmp(data, "\357\273\277", 3) == 0 ? 3 : 0;
    buf_put(out, data, mark);
    if (!text_all_crlf(data, len))
        return edit_body(edit, data + mark, len - mark, shown, out, err);
    buf_init(&edit->body, len + 1);
    text_crlf_to_lf(data + mark, len - mark, &edit->body);
    text_take_given(&edit->given_old, &edit->old, &edit->old_len);
    text_take_given(&edit->given_new, &edit->new_text, &edit->new_len);
    autobuf lf = buf_max(out->max);
    int r = edit_body(edit, edit->body.data, edit->body.len, shown, &lf, err);
    if (r == 0)
        text_lf_to_crlf(lf.data, lf.len, out);
    out->failed |= lf.failed;
    return r;
}

int edit_text_apply(struct edit_text *edit, const uint8_t *data, size_t len, const char *shown, struct buf *out,
                    struct err *err) {
    static const uint8_t nothing[1];
    data = len ? data : nothing;
    edit->old = edit->old_len ? edit->old : nothing;
    edit->new_text = edit->new_len ? edit->new_text : nothing;
    int r = edit->text ? edit_as_text(edit, data, len, shown, out, err) : edit_body(edit, data, len, shown, out, err);
    if (r == 0 && out->failed)
        return err_set(err, ERR_TOO_LARGE, "'%s' would be larger than %zu bytes", shown, out->max);
    return r;
}

void edit_text_done(struct edit_text *edit) {
    buf_done(&edit->body);
    buf_done(&edit->given_old);
    buf_done(&edit->given_new);
}
