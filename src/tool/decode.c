/* Decoding of files. Called by read_file. Invariant: the result is UTF-8, and nothing is replaced silently: text
 * that cannot be decoded is refused with its position. */
#include "base/base.h"
#include "tool/decode.h"
#include "base/headtail.h"

enum {
    DECODE_PIECE_BYTES = 1 << 20
}; /* largest piece; decoding Latin-1 doubles it, UTF-16 makes it 1.5 times as long */

void decode_init(struct decode *decode, enum decode_kind kind) {
    *decode = (struct decode){.kind = kind};
    buf_init(&decode->text, 2 * DECODE_PIECE_BYTES + 16);
}

void decode_done(struct decode *decode) {
    buf_done(&decode->text);
}

static void decode_put(struct buf *out, uint32_t c) {
    if (c)
        text_point(out, c);
    else
        buf_byte(out, 0);
}

/* Returns the offset of the first byte that cannot be part of UTF-8. */
static size_t decode_bad(const uint8_t *text, size_t len) {
    size_t at = 0;
    uint32_t character;
    for (size_t n; at < len && (n = text_character(text + at, len - at, &character)); at += n)
        ;
    return at;
}

static int decode_utf8(struct decode *decode, const uint8_t *data, size_t len, bool last, const uint8_t **ret_text,
                       size_t *ret_len, struct err *err) {
    const uint8_t *text = data;
    uint64_t before = decode->at - decode->carried;
    if (decode->carried) { /* rare: a piece ends inside a character */
        buf_clear(&decode->text);
        buf_put(&decode->text, decode->carry, decode->carried);
        buf_put(&decode->text, data, len);
        text = decode->text.data;
        len = decode->text.len;
    }
    size_t partial = last ? 0 : headtail_partial(text, len);
    if (!text_utf8(text, len - partial)) {
        size_t bad = decode_bad(text, len - partial);
        return err_set(err, ERR_INVALID, "byte 0x%02x at offset %llu is not UTF-8", text[bad],
                       (unsigned long long)(before + bad));
    }
    memcpy(decode->carry, text + len - partial, partial);
    decode->carried = partial;
    *ret_text = text;
    *ret_len = len - partial;
    return 0;
}

static int decode_utf16(struct decode *decode, const uint8_t *data, size_t len, bool last, struct err *err) {
    unsigned big = decode->kind == DECODE_UTF16BE;
    uint64_t at = decode->at;
    for (size_t i = 0; i < len; i++) {
        decode->carry[decode->carried++] = data[i];
        if (decode->carried % 2)
            continue;
        const uint8_t *c = decode->carry;
        uint32_t first = (uint32_t)(c[!big] << 8 | c[big]);
        bool high = first >= 0xd800 && first < 0xdc00;
        if (high && decode->carried == 2)
            continue;
        uint32_t second = high ? (uint32_t)(c[2 + !big] << 8 | c[2 + big]) : 0;
        if ((first >= 0xdc00 && first < 0xe000) || (high && (second < 0xdc00 || second >= 0xe000)))
            return err_set(err, ERR_INVALID, "half a UTF-16 pair ends at offset %llu", (unsigned long long)(at + i));
        bool mark = first == 0xfeff && at + i == 1; /* a byte order mark, which is not part of the text */
        if (!mark)
            decode_put(&decode->text, high ? 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00) : first);
        decode->carried = 0;
    }
    if (last && decode->carried)
        return err_set(err, ERR_INVALID, "it ends inside a UTF-16 character");
    return 0;
}

int decode_piece(struct decode *decode, const uint8_t *data, size_t len, bool last, const uint8_t **ret_text,
                 size_t *ret_len, struct err *err) {
    int code = 0;
    if (decode->kind == DECODE_UTF8) {
        code = decode_utf8(decode, data, len, last, ret_text, ret_len, err);
    } else {
        buf_clear(&decode->text);
        if (decode->kind == DECODE_LATIN1)
            for (size_t i = 0; i < len; i++)
                decode_put(&decode->text, data[i]);
        else
            code = decode_utf16(decode, data, len, last, err);
        *ret_text = decode->text.data;
        *ret_len = decode->text.len;
    }
    decode->at += len;
    return code;
}
