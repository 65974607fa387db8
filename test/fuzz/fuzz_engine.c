/* Any bytes as frames of a container engine's stream. Beyond crashes: cuts do not matter, and there is no more content than
 * bytes. The first byte says how the stream is cut. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker/engine/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    int result;
    size_t content;
    uint64_t hash;
};

static struct seen frames(const uint8_t *data, size_t size, size_t step) {
    struct seen seen = {0};
    struct engine_frames frames = {0};
    struct err err;
    for (size_t at = 0; at < size && seen.result == 0;) {
        size_t len = size - at < step ? size - at : step, used = 0, part = 0;
        int which = 0;
        uint8_t *piece = malloc(len); /* of just that size: an over-read shows */
        memcpy(piece, data + at, len);
        seen.result = engine_frames_take(&frames, piece, len, &used, &part, &which, &err);
        if (seen.result == 0) {
            assert(used <= len && part <= used && used > 0 && (which == 1 || which == 2));
            seen.content += part;
            for (size_t i = used - part; i < used; i++)
                seen.hash = seen.hash * 31 + piece[i] + (uint64_t)which;
            at += used;
        }
        free(piece);
    }
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    size_t step = data[0] ? data[0] : 1;
    struct seen whole = frames(data + 1, size - 1, size), pieces = frames(data + 1, size - 1, step);
    assert(whole.result == pieces.result && whole.content <= size);
    assert(whole.result < 0 || (whole.content == pieces.content && whole.hash == pieces.hash));
    return 0;
}
