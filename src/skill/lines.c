/* Lines by the dialect's rules. Called by its front. Invariant: each line of the old text is in the result at most
 * once, and a request adds at most LINES_PAD_MAX empty lines. */
#include "skill/lines.h"

#include <string.h>

#include "base/text.h"

bool lines_next(struct lines *lines, const char **ret_line, size_t *ret_len) {
    const char *at = lines->at;
    if (at == lines->end)
        return false;
    while (at < lines->end && *at != '\n' && *at != '\r')
        at++;
    *ret_line = lines->at;
    *ret_len = (size_t)(at - lines->at);
    if (at < lines->end)
        at += at[0] == '\r' && at + 1 < lines->end && at[1] == '\n' ? 2 : 1;
    lines->at = at;
    return true;
}

static void lines_put(struct buf *out, const char *line, size_t len) {
    buf_put(out, line, len);
    buf_byte(out, '\n');
}

static void lines_put_fresh(struct buf *out, const char *fresh, size_t len) {
    if (!len) {
        buf_byte(out, '\n');
        return;
    }
    while (len && fresh[len - 1] == '\n') /* drop empty pieces at the end */
        len -= len > 1 && fresh[len - 2] == '\r' ? 2 : 1;
    for (const char *end = fresh + len; fresh < end;) {
        const char *lf = memchr(fresh, '\n', (size_t)(end - fresh));
        size_t n = (size_t)((lf ? lf : end) - fresh);
        lines_put(out, fresh, n - (lf && n && fresh[n - 1] == '\r'));
        fresh += n + (lf ? 1 : 0);
    }
}

int lines_replace(const char *text, size_t len, const char *fresh, size_t fresh_len, const struct lines_range *range,
                  struct buf *out, struct err *err) {
    int64_t skip = range->has_start && range->start > 1 ? range->start - 1 : 0, count = 0;
    if (range->has_end && range->end < skip)
        return err_set(err, ERR_INVALID, "end %lld is before start %lld", (long long)range->end,
                       (long long)(range->has_start ? range->start : 1));
    if (!text_utf8(text, len) || !text_utf8(fresh, fresh_len))
        return err_set(err, ERR_INVALID, "%s is not UTF-8, so its lines cannot be replaced",
                       text_utf8(text, len) ? "the new text" : "the file");
    struct lines lines = {text, text + len};
    const char *line;
    size_t line_len;
    for (; count < skip && lines_next(&lines, &line, &line_len); count++)
        lines_put(out, line, line_len);
    if (skip - count > LINES_PAD_MAX)
        return err_set(err, ERR_INVALID, "start %lld is more than %d lines after the end of the file (%lld lines)",
                       (long long)range->start, LINES_PAD_MAX, (long long)count);
    for (; count < skip; count++)
        buf_byte(out, '\n');
    lines_put_fresh(out, fresh, fresh_len);
    while ((!range->has_end || count < range->end) && lines_next(&lines, &line, &line_len))
        count++;
    while (lines_next(&lines, &line, &line_len))
        lines_put(out, line, line_len);
    return out->failed ? err_set(err, ERR_TOO_LARGE, "the file would be larger than %zu bytes", out->max) : 0;
}
