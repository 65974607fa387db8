/* What an engine's bytes mean: heads of answers, bodies in chunks, frames of a hijacked connection. Pure: bytes in, bytes
 * out, nothing kept but counters. Called by engine/link.c, engine.c and engine/stream.c, and by the fuzzer. Invariant:
 * every byte may be a lie. */
#ifndef CUBBY_BACKEND_ENGINE_HTTP_H
#define CUBBY_BACKEND_ENGINE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define ENGINE_HEAD_BYTES 32768u /* of one answer, the empty line included */

struct engine_head {
    int status;
    bool chunked, ends; /* ends: the connection is of no use after this answer */
    int64_t length;     /* -1: none was told */
};
/* Length of the head at the front of data, its empty line included; 0: it is not whole yet; PROTOCOL: it is none. */
int engine_head_read(const char *data, size_t len, struct engine_head *ret_head, struct err *err);

/* A body, whichever way it is told where it ends. */
struct engine_body {
    enum { BODY_NONE, BODY_LENGTH, BODY_CHUNKS, BODY_UNTIL_END } kind;
    enum { CHUNK_SIZE, CHUNK_REST, CHUNK_DATA, CHUNK_CR, CHUNK_LF, CHUNK_TRAILER } state;
    uint64_t left;       /* of the length, or of this chunk */
    unsigned digits;     /* of a chunk's size so far */
    unsigned line_bytes; /* of a trailer's line; of an extension */
    unsigned trailer_bytes;
    bool done;
};
void engine_body_init(struct engine_body *body, const struct engine_head *head, const char *method);
/* Takes from the front of data: how many bytes were used up; of them the last *ret_len are part of the body. done: what
 * follows is not of this answer. PROTOCOL. */
int engine_body_take(struct engine_body *body, const uint8_t *data, size_t len, size_t *ret_used, size_t *ret_len,
                     struct err *err);

/* Frames: 1 byte which stream, 3 zeros, 4 bytes length (big endian), payload. */
struct engine_frames {
    uint8_t header[8];
    unsigned have;
    uint32_t left;
};
/* The same, with *ret_stream: 1 stdout, 2 stderr (0, stdin, is stdout; 3, the engine's own error, is stderr). */
int engine_frames_take(struct engine_frames *frames, const uint8_t *data, size_t len, size_t *ret_used, size_t *ret_len,
                       int *ret_stream, struct err *err);

#endif
