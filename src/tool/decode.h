/* A file's bytes as UTF-8, piece by piece: checked, or decoded from UTF-16 or Latin-1. */
#ifndef CUBBY_TOOL_DECODE_H
#define CUBBY_TOOL_DECODE_H

#include "base/buf.h"
#include "base/err.h"

enum decode_kind { DECODE_UTF8, DECODE_UTF16LE, DECODE_UTF16BE, DECODE_LATIN1 };

struct decode {
    enum decode_kind kind;
    uint8_t carry[4]; /* start of a character that ends in the next piece */
    size_t carried;
    uint64_t at;     /* bytes of the file before this piece, without the carried ones */
    struct buf text; /* of the last piece */
};

void decode_init(struct decode *decode, enum decode_kind kind);
void decode_done(struct decode *decode);
/* Returns the text of the next piece, which may end inside a character; valid until the next call. last: nothing
 * follows. INVALID: not in that encoding; the error has the offset. */
int decode_piece(struct decode *decode, const uint8_t *data, size_t len, bool last, const uint8_t **ret_text,
                 size_t *ret_len, struct err *err);

#endif
