/* Keeps the first half and the last half of a stream. Called by the exec handler for each of its two streams.
 * Invariant: memory is at most the limit while bytes come, and twice that at the end. */
#include <assert.h>

#include "base/base.h"
#include "base/headtail.h"

void headtail_init(struct headtail *headtail, size_t limit) {
    *headtail = (struct headtail){.head_max = limit / 2, .tail_max = limit - limit / 2};
    buf_init(&headtail->head, limit + 1); /* half of it until finish joins the tail; a buf has a maximum above 0 */
    buf_init(&headtail->tail, limit + 1);
}

void headtail_done(struct headtail *headtail) {
    buf_done(&headtail->head);
    buf_done(&headtail->tail);
}

static size_t headtail_less(size_t a, size_t b) {
    return a < b ? a : b;
}

void headtail_put(struct headtail *headtail, const void *data, size_t len) {
    struct buf *head = &headtail->head, *tail = &headtail->tail;
    const uint8_t *p = data;
    headtail->total += len;
    size_t n = headtail_less(len, headtail->head_max - head->len), max = headtail->tail_max;
    buf_put(head, p, n);
    p += n, len -= n;
    if (len > max) { /* only the last bytes can stay */
        p += len - max;
        len = max;
    }
    n = headtail_less(len, max - tail->len);
    buf_put(tail, p, n);
    p += n, len -= n;
    while (len) {
        n = headtail_less(len, max - headtail->tail_at);
        memcpy(tail->data + headtail->tail_at, p, n);
        headtail->tail_at = (headtail->tail_at + n) % max;
        p += n, len -= n;
    }
}

bool headtail_truncated(const struct headtail *headtail) {
    return headtail->total > headtail->head.len + headtail->tail.len;
}

const uint8_t *headtail_finish(struct headtail *headtail, size_t *ret_len) {
    struct buf *head = &headtail->head, *tail = &headtail->tail;
    if (headtail_truncated(headtail) && tail->len) {
        head->len -= headtail_partial(head->data, head->len);
        headtail->gap = head->len;
        uint8_t start[4];
        size_t probe = headtail_less(sizeof start, tail->len);
        for (size_t i = 0; i < probe; i++)
            start[i] = tail->data[(headtail->tail_at + i) % tail->len];
        size_t skip = 0; /* continuation bytes at the front that nothing before them explains */
        while (skip < 3 && skip < probe && (start[skip] & 0xc0) == 0x80)
            skip++;
        size_t from = tail->len ? (headtail->tail_at + skip) % tail->len : 0, left = tail->len - skip;
        size_t first = headtail_less(left, tail->len - from);
        if (left) {
            buf_put(head, tail->data + from, first);
            buf_put(head, tail->data, left - first);
        }
    } else if (tail->len) {
        buf_put(head, tail->data, tail->len);
    }
    assert(!head->failed);
    buf_done(tail);
    *ret_len = head->len;
    return head->data ? head->data : (const uint8_t *)"";
}

size_t headtail_partial(const uint8_t *data, size_t len) {
    for (size_t n = 1; n <= 3 && n <= len; n++) {
        uint8_t c = data[len - n];
        if ((c & 0xc0) == 0x80)
            continue;
        size_t whole = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;
        if (n >= whole)
            return 0;
        /* Only what may still become a sequence: complete it with the bytes its lead allows and ask the one judge. */
        static const uint8_t fills[] = {0x80, 0x90, 0xa0, 0xbf};
        for (size_t f = 0; f < sizeof fills; f++) {
            uint8_t whole_text[4] = {0x80, 0x80, 0x80, 0x80};
            memcpy(whole_text, data + len - n, n);
            for (size_t i = n; i < whole; i++)
                whole_text[i] = i == 1 ? fills[f] : 0x80;
            if (text_utf8(whole_text, whole))
                return n;
        }
        return 0;
    }
    return 0;
}
