/* Truncates and repairs texts of tools. Called by tool.c and read_file. Invariant: a truncated text has at most the
 * allowed number of characters, including its marker, and is UTF-8 if the text was. */
#include "base/base.h"
#include "tool/truncate.h"
#include "tool/secret.h"

#define TRUNCATE_HEAD "\n... [truncated: showing first %llu of %llu chars. %s] ..."
#define TRUNCATE_MIDDLE "\n... [middle truncated: %llu chars skipped] ...\n"
#define TRUNCATE_LOST "\n... [%llu bytes dropped: the result was too long to keep] ...\n"

static bool truncate_begins(uint8_t byte) {
    return (byte & 0xc0) != 0x80;
}

size_t truncate_chars(const uint8_t *text, size_t len) {
    const uint64_t ones = 0x0101010101010101u;
    size_t n = 0, i = 0;
    for (uint64_t eight; len - i >= sizeof eight; i += sizeof eight) { /* every byte but 10xxxxxx begins a character */
        memcpy(&eight, text + i, sizeof eight);
        n += (size_t)((((~eight >> 7) | (eight >> 6)) & ones) * ones >> 56);
    }
    for (; i < len; i++)
        n += truncate_begins(text[i]);
    return n;
}

size_t truncate_head(const uint8_t *text, size_t len, size_t n) {
    size_t at = 0;
    for (; at < len; at++)
        if (truncate_begins(text[at]) && n-- == 0)
            break;
    return at;
}

size_t truncate_tail(const uint8_t *text, size_t len, size_t n) {
    size_t at = len;
    while (at > 0 && n > 0)
        n -= truncate_begins(text[--at]);
    return len - at;
}

void truncate_text(const uint8_t *text, size_t len, uint64_t total, size_t limit, enum tool_cut cut, const char *hint,
                   struct buf *out) {
    unsigned long long all = total;
    bool middle = cut == TOOL_MIDDLE;
    int room = middle ? snprintf(NULL, 0, TRUNCATE_MIDDLE, all) : snprintf(NULL, 0, TRUNCATE_HEAD, all, all, hint);
    size_t marker = (size_t)room; /* its greatest length; hints are ASCII */
    if (limit <= marker) {
        buf_put(out, text, truncate_head(text, len, limit));
        return;
    }
    size_t kept = limit - marker;
    size_t head = truncate_head(text, len, middle ? kept / 2 : kept);
    buf_put(out, text, head);
    if (middle) {
        size_t tail = truncate_tail(text + head, len - head, kept - kept / 2);
        buf_printf(out, TRUNCATE_MIDDLE, all - kept);
        buf_put(out, text + len - tail, tail);
    } else {
        buf_printf(out, TRUNCATE_HEAD, (unsigned long long)kept, all, hint);
    }
}

uint64_t truncate_limit(const struct tool_call *call) {
    const struct tool *tool = call->tool;
    return tool->cut == TOOL_WHOLE ? 0 : *(const uint64_t *)((const char *)call->settings + tool->cut_setting);
}

static void truncate_to(struct tool_call *call, const uint8_t *text, size_t len, uint64_t total, uint64_t limit) {
    const struct tool *tool = call->tool;
    autobuf cut = buf_max(len + 512);
    truncate_text(text, len, total, (size_t)limit, tool->cut, tool->cut_hint ? tool->cut_hint : "", &cut);
    spool_clear(&call->result.text);
    spool_put(&call->result.text, cut.data, cut.len);
}

void truncate_result(struct tool_call *call) {
    uint64_t limit = truncate_limit(call);
    size_t len;
    if (call->result.whole || limit == 0)
        return;
    const uint8_t *text = spool_view(&call->result.text, &len);
    if (len <= limit && call->result.text.total == len)
        return;
    uint64_t total = truncate_chars(text, len) + (call->result.text.total - len);
    if (total > limit)
        truncate_to(call, text, len, total, limit);
}

void truncate_part(struct tool_call *call, uint64_t total) {
    size_t len;
    secret_settle(call);
    const uint8_t *text = spool_view(&call->result.text, &len);
    truncate_to(call, text, len, total, truncate_limit(call));
    call->result.whole = true;
}

/* Replaces each byte that belongs to no character by U+FFFD. */
static void truncate_sane(struct spool *to, const uint8_t *text, size_t len) {
    size_t from = 0;
    uint32_t character;
    for (size_t at = 0, n; at < len; at += n) {
        n = text[at] < 0x80 ? 1 : text_character(text + at, len - at, &character);
        if (n)
            continue;
        spool_put(to, text + from, at - from);
        spool_put(to, "\xef\xbf\xbd", 3);
        from = at + 1;
        n = 1;
    }
    spool_put(to, text + from, len - from);
}

void truncate_repair(struct tool_call *call) {
    struct spool *text = &call->result.text, fixed;
    size_t len;
    const uint8_t *data = spool_view(text, &len);
    uint64_t lost = text->total - len;
    if (lost == 0 && text_utf8(data, len))
        return;
    size_t gap = text->dropping ? text->ends.gap : len;
    spool_init(&fixed, text->dir);
    truncate_sane(&fixed, data, gap);
    if (lost) {
        char marker[128];
        int n = snprintf(marker, sizeof marker, TRUNCATE_LOST, (unsigned long long)lost);
        spool_put(&fixed, marker, (size_t)n);
        lost -= lost < (uint64_t)n ? lost : (uint64_t)n; /* the marker counts as that many */
    }
    truncate_sane(&fixed, data + gap, len - gap);
    fixed.total += lost;
    spool_done(text);
    *text = fixed;
}
