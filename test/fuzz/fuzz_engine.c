/* Any bytes as the answer of a container engine: its head, its body in whichever form, and the same bytes as frames of a
 * stream. Beyond crashes: cuts do not matter, and no more content than bytes. The first byte says whether the request was a
 * HEAD, the second how the stream is cut. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker/engine/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    int result;
    size_t content;
    uint64_t hash;
};

static void see(struct seen *seen, const uint8_t *data, size_t len, int which) {
    seen->content += len;
    for (size_t i = 0; i < len; i++)
        seen->hash = seen->hash * 31 + data[i] + (uint64_t)which;
}

static struct seen body(const struct engine_head *head, const char *method, const uint8_t *data, size_t size,
                        size_t step) {
    struct seen seen = {0};
    struct engine_body body;
    struct err err;
    engine_body_init(&body, head, method);
    for (size_t at = 0; at < size && !body.done && seen.result == 0;) {
        size_t len = size - at < step ? size - at : step, used = 0, part = 0;
        uint8_t *piece = malloc(len); /* of just that size: an over-read shows */
        memcpy(piece, data + at, len);
        seen.result = engine_body_take(&body, piece, len, &used, &part, &err);
        if (seen.result == 0) {
            assert(used <= len && part <= used && (used > 0 || body.done));
            see(&seen, piece + used - part, part, 0);
            at += used;
        }
        free(piece);
    }
    seen.result = seen.result ? seen.result : body.done;
    return seen;
}

static struct seen frames(const uint8_t *data, size_t size, size_t step) {
    struct seen seen = {0};
    struct engine_frames frames = {0};
    struct err err;
    for (size_t at = 0; at < size && seen.result == 0;) {
        size_t len = size - at < step ? size - at : step, used = 0, part = 0;
        int which = 0;
        uint8_t *piece = malloc(len);
        memcpy(piece, data + at, len);
        seen.result = engine_frames_take(&frames, piece, len, &used, &part, &which, &err);
        if (seen.result == 0) {
            assert(used <= len && part <= used && used > 0 && (which == 1 || which == 2));
            see(&seen, piece + used - part, part, which);
            at += used;
        }
        free(piece);
    }
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3)
        return 0;
    const char *method = data[0] & 1 ? "HEAD" : "GET";
    size_t step = data[1] ? data[1] : 1;
    data += 2, size -= 2;
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    struct engine_head head;
    struct err err;
    int used = engine_head_read((const char *)copy, size, &head, &err);
    assert(used <= (int)ENGINE_HEAD_BYTES);
    if (used > 0) {
        assert(head.status >= 100 && head.status < 600 && head.length >= -1);
        for (size_t cut = 0; cut < (size_t)used; cut += (size_t)used / 16 + 1) { /* a begin of it is not whole */
            struct engine_head other;
            assert(engine_head_read((const char *)copy, cut, &other, &err) == 0);
        }
        struct seen whole = body(&head, method, copy + used, size - (size_t)used, size);
        struct seen pieces = body(&head, method, copy + used, size - (size_t)used, step);
        assert(whole.result == pieces.result && whole.content <= size);
        assert(whole.result < 0 || (whole.content == pieces.content && whole.hash == pieces.hash));
    }
    struct seen whole = frames(copy, size, size), pieces = frames(copy, size, step);
    assert(whole.result == pieces.result && (whole.result < 0 || whole.hash == pieces.hash));
    free(copy);
    return 0;
}
