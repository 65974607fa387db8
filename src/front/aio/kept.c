/* Printed text cut in the middle. Invariant: it is cut between characters, and a reader sees that it was cut. */
#include "front/aio/kept.h"

#include <string.h>

#include "base/limits.h"
#include "front/collect.h"

#define LINE_CHARACTERS 80u /* of the line between head and tail, at most */

int aio_output_init(struct aio_output *output, struct http_request *request, struct box *box, size_t limit,
                    struct err *err) {
    size_t most;
    TRY(box_output_limit(box, false, 0, LIMIT_OUTPUT_LIMIT_BYTES, &most, err));
    *output = (struct aio_output){.request = request, .err = err};
    for (int i = 0; i < 2; i++) {
        output->streams[i].limit = limit;
        headtail_init(&output->streams[i].bytes,
                      limit && limit < most / 4 ? 4 * limit : most); /* a character has four */
    }
    return 0;
}

void aio_output_done(struct aio_output *output) {
    headtail_done(&output->streams[0].bytes);
    headtail_done(&output->streams[1].bytes);
}

int aio_output_started(void *user, uint64_t pid) {
    ((struct aio_output *)user)->pid = pid;
    return 0;
}

int aio_output_put(void *user, int stream, const uint8_t *data, size_t len) {
    struct aio_output *output = user;
    struct aio_kept *kept = &output->streams[stream == STREAM_STDERR];
    for (size_t i = 0; i < len; i++)
        kept->characters += (data[i] & 0xc0) != 0x80;
    return collect_bytes(&kept->bytes, output->request, data, len, output->err);
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
        tail = cut && tail < gap ? gap : tail; /* the head has it already */
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
