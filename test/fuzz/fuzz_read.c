/* Any bytes as a file that read_file shows: told apart, decoded in pieces, cut. What comes out is UTF-8, the same however the
 * file was cut into pieces, and within the limit. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tool/decode.h"
#include "tool/offload/sniff.h"
#include "tool/truncate.h"

/* Decodes in pieces of `step` bytes; false: refused. */
static bool decodes(enum decode_kind kind, const uint8_t *data, size_t len, size_t step, struct buf *out) {
    struct decode decode;
    struct err err = {0};
    const uint8_t *text;
    size_t text_len;
    int code = 0;
    decode_init(&decode, kind);
    for (size_t at = 0; code == 0;) {
        size_t n = len - at < step ? len - at : step;
        bool last = n < step;
        code = decode_piece(&decode, data + at, n, last, &text, &text_len, &err);
        if (code == 0)
            buf_put(out, text, text_len);
        at += n;
        if (last)
            break;
    }
    decode_done(&decode);
    return code == 0;
}

static void cut(const struct buf *text, size_t limit, enum tool_cut how) {
    size_t chars = truncate_chars(text->data, text->len);
    struct buf out;
    if (chars <= limit || limit == 0)
        return;
    buf_init(&out, text->len + 512);
    truncate_text(text->data, text->len, chars, limit, how, "Look closer", &out);
    if (out.failed || !text_utf8(out.data, out.len) || truncate_chars(out.data, out.len) > limit)
        abort();
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    struct sniff sniff;
    unsigned width, height;
    if (len < 3 || len > 65536)
        return 0;
    enum decode_kind kind = data[0] % 4;
    size_t step = 1 + data[1] % 64, limit = data[2];
    data += 3, len -= 3;
    sniff_head(data, len < SNIFF_BYTES ? len : SNIFF_BYTES, &sniff);
    sniff_size(data, len, &width, &height);
    struct buf whole, pieces;
    buf_init(&whole, 1 << 20);
    buf_init(&pieces, 1 << 20);
    bool one = decodes(kind, data, len, len + 1, &whole), many = decodes(kind, data, len, step, &pieces);
    if (one != many || (one && (whole.len != pieces.len || (whole.len && memcmp(whole.data, pieces.data, whole.len)))))
        abort();
    if (one && whole.len && !text_utf8(whole.data, whole.len))
        abort();
    if (one && whole.len) {
        cut(&whole, limit, TOOL_HEAD);
        cut(&whole, limit, TOOL_MIDDLE);
    }
    buf_done(&whole);
    buf_done(&pieces);
    return 0;
}
