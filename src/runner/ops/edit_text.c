/* Changing a text: strings and lines. Called by op_edit. Invariant: every byte outside of what was asked for stays as it
 * is, byte order marks, line ends and a missing last newline included. */
#include "runner/ops/edit_text.h"

#include <string.h>

#include "base/limits.h"

static int edit_string(struct edit_text *edit, const struct edit_span *span, struct buf *out);
static void edit_lines(const struct edit_text *edit, const struct edit_span *span, struct buf *out);

/* ---- line ends ---- */

static bool all_crlf(const uint8_t *data, size_t len) {
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

static void crlf_to_lf(const uint8_t *data, size_t len, struct buf *out) {
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

static void lf_to_crlf(const uint8_t *data, size_t len, struct buf *out) {
    if (len == 0) /* and then data may be NULL, here and above */
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

/* Newlines, and what stands behind the last one. */
static uint64_t count_lines(const uint8_t *data, size_t len) {
    uint64_t count = len && data[len - 1] != '\n';
    for (const uint8_t *at = data, *end = data + len; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        count++;
    return count;
}

/* Where a line begins; line total + 1 is the end. */
static size_t line_begin(const uint8_t *data, size_t len, uint64_t line) {
    const uint8_t *at = data, *end = data + len;
    while (line > 1 && at < end) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
        line--;
    }
    return (size_t)(at - data);
}

static int find_span(const struct edit_text *edit, struct edit_span *span, struct err *err) {
    uint64_t total = count_lines(span->data, span->len);
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
    span->from = line_begin(span->data, span->len, first);
    span->to = last >= first
                   ? span->from + line_begin(span->data + span->from, span->len - span->from, last - first + 2)
                   : span->from;
    return 0;
}

/* ---- the change ---- */

void edit_text_place(struct edit_text *edit, const struct edit_span *span, size_t at) {
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

static void edit_look_around(struct edit_text *edit, const struct edit_span *span) {
    const uint8_t *hit = memmem(span->data, span->len, edit->old, edit->old_len);
    if (!hit) {
        edit_near_find(edit, span->data, span->len);
        return;
    }
    edit->how = EDIT_OUTSIDE;
    edit->all = false; /* so that it is shown */
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
        return err_set(err, ERR_INVALID, "the %s is in '%s' %llu times: give more of it, or all=true", what, shown,
                       (unsigned long long)edit->count);
    if (!edit->regex)
        edit_look_around(edit, span);
    return err_set(err, ERR_NOT_FOUND, "the %s is not in '%s'", what, shown);
}

static int edit_body(struct edit_text *edit, const uint8_t *data, size_t len, const char *shown, struct buf *out,
                     struct err *err) {
    struct edit_span span = {.data = data, .len = len};
    int r = find_span(edit, &span, err);
    if (r < 0)
        return r;
    if (!edit->lines && edit->old_len == 0)
        return err_set(err, ERR_INVALID, "the text to replace is empty");
    size_t start = out->len;
    buf_put(out, data, span.from);
    if (edit->lines)
        edit_lines(edit, &span, out), edit->count = 1, edit->line = span.first;
    else
        r = edit->regex ? edit_regex(edit, &span, shown, out, err) : edit_string(edit, &span, out);
    buf_put(out, data + span.to, len - span.to);
    if (r == 0 && !edit->lines)
        r = edit_judge(edit, &span, shown, err);
    if (r == 0 && !out->failed)
        edit->total = out->len > start ? count_lines(out->data + start, out->len - start) : 0;
    return r;
}

static int edit_string(struct edit_text *edit, const struct edit_span *span, struct buf *out) {
    const uint8_t *at = span->data + span->from, *end = span->data + span->to, *hit;
    while (at < end && (hit = memmem(at, (size_t)(end - at), edit->old, edit->old_len))) {
        edit_text_place(edit, span, (size_t)(hit - span->data));
        buf_put(out, at, (size_t)(hit - at));
        buf_put(out, edit->new_text, edit->new_len);
        at = hit + edit->old_len;
    }
    buf_put(out, at, (size_t)(end - at));
    return 0;
}

/* Given lines need not end with a newline: they get one, but for the last of a file whose last line has none. */
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

/* What is given, in the file's line ends. */
static void take_given(struct buf *given, const uint8_t **text, size_t *len) {
    buf_init(given, *len + 1);
    crlf_to_lf(*text, *len, given);
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
    if (!all_crlf(data, len))
        return edit_body(edit, data + mark, len - mark, shown, out, err);
    buf_init(&edit->body, len + 1);
    crlf_to_lf(data + mark, len - mark, &edit->body);
    take_given(&edit->given_old, &edit->old, &edit->old_len);
    take_given(&edit->given_new, &edit->new_text, &edit->new_len);
    autobuf lf = buf_max(out->max);
    int r = edit_body(edit, edit->body.data, edit->body.len, shown, &lf, err);
    if (r == 0)
        lf_to_crlf(lf.data, lf.len, out);
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
