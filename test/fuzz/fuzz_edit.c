/* Any bytes as a text, an old and a new one, with any lines: nothing is read outside, what is not text is refused, a string
 * replaced by itself and lines taken out and put back leave the text as it was. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runner/ops/edit_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int apply(struct edit_text *edit, const uint8_t *data, size_t len, struct buf *out) {
    struct err err;
    buf_init(out, 1 << 20);
    int r = edit_text_apply(edit, data, len, "f", out, &err);
    for (size_t i = 0; i < edit->near_count; i++) {
        volatile uint8_t seen = 0;
        for (size_t k = 0; k < edit->near[i].len; k++)
            seen ^= edit->near[i].text[k];
        assert(edit->near[i].len <= EDIT_NEAR_TEXT_BYTES);
    }
    edit_text_done(edit);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 5)
        return 0;
    size_t left = size - 5, old_len = data[0] % (left + 1), new_len = data[1] % (left - old_len + 1);
    size_t len = left - old_len - new_len;
    uint8_t *old = malloc(old_len + 1), *given = malloc(new_len + 1), *text = malloc(len + 1);
    memcpy(old, data + 5, old_len);
    memcpy(given, data + 5 + old_len, new_len);
    memcpy(text, data + 5 + old_len + new_len, len);
    bool as_text = data[4] & 1;
    autobuf out;
    struct edit_text edit = {.all = data[4] & 2,
                             .text = as_text,
                             .lines = data[4] & 4,
                             .first = data[2],
                             .last = data[3],
                             .old = old,
                             .old_len = old_len,
                             .new_text = given,
                             .new_len = new_len};
    int r = apply(&edit, text, len, &out);
    assert(r < 0 || !as_text || !memchr(text, 0, len));
    buf_done(&out);
    struct edit_text same = {
        .all = true, .text = as_text, .old = old, .old_len = old_len, .new_text = old, .new_len = old_len};
    if (apply(&same, text, len, &out) == 0)
        assert(out.len == len && (len == 0 || memcmp(out.data, text, len) == 0));
    buf_done(&out);
    struct edit_text whole = {
        .text = as_text, .lines = true, .first = 1, .last = edit.total, .new_text = given, .new_len = 0};
    if (edit.total && apply(&whole, text, len, &out) == 0)
        assert(out.len <= len);
    free(old);
    free(given);
    free(text);
    return 0;
}
