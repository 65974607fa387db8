/* Printed text cut in the middle. Invariant: it is cut between characters, and the cut is visible. */
#include "front/aio/kept.h"

#include "base/base.h"

#define LINE_CHARACTERS 80u /* longest line between head and tail */

int aio_output_init(struct aio_output *output, struct http_request *request, struct box *box, size_t limit,
                    struct err *err) {
    size_t most;
    TRY(box_output_limit(box, false, 0, LIMIT_OUTPUT_LIMIT_BYTES, &most, err));
    *output = (struct aio_output){.limit = limit};
    collect_init(&output->kept, request, limit && limit < most / 4 ? 4 * limit : most,
                 err); /* a character has up to four bytes */
    return 0;
}

void aio_output_done(struct aio_output *output) {
    collect_done(&output->kept);
}

int aio_output_started(void *user, uint64_t pid) {
    ((struct aio_output *)user)->pid = pid;
    return 0;
}

int aio_output_put(void *user, int stream, const uint8_t *data, size_t len) {
    struct aio_output *output = user;
    for (size_t i = 0; i < len; i++)
        output->characters[stream == STREAM_STDERR] += (data[i] & 0xc0) != 0x80;
    return collect_put(&output->kept, stream, data, len);
}

/* Returns the bytes of the first `count` characters of data. */
static size_t kept_head(const uint8_t *data, size_t len, size_t count) {
    size_t at = 0;
    while (at < len && count--)
        do
            at++;
        while (at < len && (data[at] & 0xc0) == 0x80);
    return at;
}

/* Returns where the last `count` characters of data begin. */
static size_t kept_tail(const uint8_t *data, size_t len, size_t count) {
    size_t at = len;
    while (at && count--)
        do
            at--;
        while (at && (data[at] & 0xc0) == 0x80);
    return at;
}

const uint8_t *aio_output_text(struct aio_output *output, int stream, size_t *ret_len) {
    struct headtail *bytes = &output->kept.streams[stream];
    bool cut = headtail_truncated(bytes);
    const uint8_t *data = headtail_finish(bytes, ret_len);
    size_t limit = output->limit, gap = bytes->gap, len = *ret_len, head = gap, tail = gap;
    size_t half = limit > LINE_CHARACTERS ? (limit - LINE_CHARACTERS) / 2 : limit / 2;
    uint64_t left = 0;
    if (limit && output->characters[stream] > limit) {
        head = kept_head(data, cut ? gap : len, half);
        tail = kept_tail(data, len, half);
        tail = cut && tail < gap ? gap : tail; /* the head already has it */
        left = output->characters[stream] - 2 * (uint64_t)half;
    } else if (!cut) {
        return data;
    }
    struct arena *arena = http_arena(output->kept.request);
    const char *line =
        left ? arena_printf(arena, "\n[... %llu characters left out ...]\n", (unsigned long long)left)
             : arena_printf(arena, "\n[... %llu bytes left out ...]\n", (unsigned long long)(bytes->total - len));
    size_t between = strlen(line), end = len - tail;
    uint8_t *text = arena_alloc(arena, head + between + end + 1);
    memcpy(text, data, head);
    memcpy(text + head, line, between);
    memcpy(text + head + between, data + tail, end);
    *ret_len = head + between + end;
    return text;
}
