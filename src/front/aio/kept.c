/* Printed text cut in the middle. Invariant: it is cut between characters, and who reads it sees that it was cut. */
#include "front/aio/kept.h"

#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "front/collect.h"

#define LINE_CHARACTERS 80u /* of the line between head and tail, at most */

void aio_kept_init(struct aio_kept *kept, size_t limit, size_t most_bytes) {
    *kept = (struct aio_kept){.limit = limit};
    size_t bytes = limit && limit < most_bytes / 4 ? 4 * limit : most_bytes; /* a character has four at most */
    headtail_init(&kept->bytes, bytes);
}

void aio_kept_done(struct aio_kept *kept) {
    headtail_done(&kept->bytes);
}

int aio_kept_put(struct aio_kept *kept, struct http_request *request, const uint8_t *data, size_t len,
                 struct err *err) {
    for (size_t i = 0; i < len; i++)
        kept->characters += (data[i] & 0xc0) != 0x80;
    return collect_bytes(&kept->bytes, request, data, len, err);
}

/* Bytes of the first `count` characters of data. */
static size_t kept_head(const uint8_t *data, size_t len, size_t count) {
    size_t at = 0;
    while (at < len && count--)
        do
            at++;
        while (at < len && (data[at] & 0xc0) == 0x80);
    return at;
}

/* Where the last `count` characters of data begin. */
static size_t kept_tail(const uint8_t *data, size_t len, size_t count) {
    size_t at = len;
    while (at && count--)
        do
            at--;
        while (at && (data[at] & 0xc0) == 0x80);
    return at;
}

const uint8_t *aio_kept_text(struct aio_kept *kept, struct http_request *request, size_t *ret_len) {
    bool cut = headtail_truncated(&kept->bytes);
    const uint8_t *data = headtail_finish(&kept->bytes, ret_len);
    size_t gap = kept->bytes.gap, len = *ret_len, head = gap, tail = gap;
    size_t half = kept->limit > LINE_CHARACTERS ? (kept->limit - LINE_CHARACTERS) / 2 : kept->limit / 2;
    uint64_t left = 0;
    if (kept->limit && kept->characters > kept->limit) {
        head = kept_head(data, cut ? gap : len, half);
        tail = kept_tail(data, len, half);
        tail = cut && tail < gap ? gap : tail; /* the head is told already */
        left = kept->characters - 2 * (uint64_t)half;
    } else if (!cut) {
        return data;
    }
    struct arena *arena = http_arena(request);
    const char *line =
        left ? arena_printf(arena, "\n[... %llu characters left out ...]\n", (unsigned long long)left)
             : arena_printf(arena, "\n[... %llu bytes left out ...]\n", (unsigned long long)(kept->bytes.total - len));
    size_t between = strlen(line), end = len - tail;
    uint8_t *text = arena_alloc(arena, head + between + end + 1);
    memcpy(text, data, head);
    memcpy(text + head, line, between);
    memcpy(text + head + between, data + tail, end);
    *ret_len = head + between + end;
    return text;
}
