/* Chunked coding (framing.h). Our own decoder: llhttp 8.1 accepts endless chunk extensions and bare LF. */
#include "base/base.h"
#include "http/framing.h"

enum { CHUNK_LINE_BYTES = 4096 };

enum {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER,
    CHUNK_TRAILER_LINE,
    CHUNK_TRAILER_LF,
    CHUNK_END_LF,
    CHUNK_DONE
};

static int chunk_byte(struct chunk *chunk, char c) {
    if (++chunk->line > CHUNK_LINE_BYTES)
        return -1;
    switch (chunk->state) {
    case CHUNK_SIZE: {
        int digit = c >= '0' && c <= '9'                     ? c - '0'
                    : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                             : -1;
        if (digit >= 0) {
            if (++chunk->digits > 15) /* 2^60 is more than any limit */
                return -1;
            chunk->left = chunk->left << 4 | (unsigned)digit;
            return 0;
        }
        if (!chunk->digits || (c != '\r' && c != ';'))
            return -1;
        chunk->state = c == ';' ? CHUNK_EXTENSION : CHUNK_SIZE_LF;
        return 0;
    }
    case CHUNK_EXTENSION:
        if (c == '\r')
            chunk->state = CHUNK_SIZE_LF;
        return c == '\r' || c == '\t' || ((uint8_t)c >= 0x20 && c != 0x7f) ? 0 : -1;
    case CHUNK_SIZE_LF:
        chunk->state = chunk->left ? CHUNK_DATA : CHUNK_TRAILER;
        chunk->digits = 0;
        chunk->line = 0;
        return c == '\n' ? 0 : -1;
    case CHUNK_DATA_CR:
        chunk->state = CHUNK_DATA_LF;
        return c == '\r' ? 0 : -1;
    case CHUNK_DATA_LF:
        chunk->state = CHUNK_SIZE;
        chunk->line = 0;
        return c == '\n' ? 0 : -1;
    case CHUNK_TRAILER:
        chunk->state = c == '\r' ? CHUNK_END_LF : CHUNK_TRAILER_LINE;
        return (uint8_t)c > 0x20 || c == '\r' ? 0 : -1;
    case CHUNK_TRAILER_LINE:
        if (c == '\r')
            chunk->state = CHUNK_TRAILER_LF;
        return c == '\r' || c == '\t' || ((uint8_t)c >= 0x20 && c != 0x7f) ? 0 : -1;
    case CHUNK_TRAILER_LF:
        chunk->state = CHUNK_TRAILER;
        return c == '\n' ? 0 : -1;
    default: /* CHUNK_END_LF */
        chunk->state = CHUNK_DONE;
        return c == '\n' ? 0 : -1;
    }
}

ssize_t chunk_take(struct chunk *chunk, const char *in, size_t len, const char **ret_data, size_t *ret_len) {
    *ret_data = in;
    *ret_len = 0;
    for (size_t i = 0; i < len; i++) {
        if (chunk->state == CHUNK_DONE)
            return (ssize_t)i;
        if (chunk->state == CHUNK_DATA) {
            *ret_data = in + i;
            *ret_len = len - i < chunk->left ? len - i : (size_t)chunk->left;
            chunk->left -= *ret_len;
            if (!chunk->left)
                chunk->state = CHUNK_DATA_CR;
            return (ssize_t)(i + *ret_len);
        }
        if (chunk_byte(chunk, in[i]) < 0)
            return -1;
    }
    return (ssize_t)len;
}

bool chunk_done(const struct chunk *chunk) {
    return chunk->state == CHUNK_DONE;
}
