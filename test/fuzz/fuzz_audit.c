/* What the audit log does with text from outside: times are read strictly, secrets never come through, rows survive their
 * encoding, and what is shown is harmless. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "store/audit_row.h"
#include "store/redact.h"

static void times(const char *text) {
    uint64_t ms, again;
    char back[CLOCK_TEXT_BYTES];
    if (!clock_parse(text, &ms))
        return;
    if (!clock_parse(clock_text(ms, back), &again) || again != ms)
        abort();
}

/* The first bytes are two secrets, the rest is the text. No whole secret may come out, cut or not. */
static void secrets(const uint8_t *data, size_t len) {
    autoarena arena = ARENA_EMPTY;
    struct redact redact = {.arena = &arena};
    if (len < 20)
        return;
    redact_add(&redact, "A", 1, (const char *)data, 4 + data[0] % 4);
    redact_add(&redact, "B", 1, (const char *)data + 8, 4 + data[1] % 4);
    autobuf out = buf_max(16 + data[2]);
    redact_text(&redact, &out, (const char *)data + 16, len - 16);
    for (size_t i = 0; i < redact.count; i++) {
        const struct redact_value *value = &redact.values[i];
        bool could_be_ours = memchr(value->value, '[', value->len) || memchr(value->value, ']', value->len);
        if (out.len && !could_be_ours && memmem(out.data, out.len, value->value, value->len))
            abort();
    }
}

static void rows(const uint8_t *data, size_t len) {
    struct view view = view_of(data, len);
    struct audit_row row;
    if (!audit_decode(&view, &row))
        return;
    for (int i = 0; i < AUDIT_TEXTS; i++)
        if (row.texts[i].len > audit_columns[i].max)
            return;
    autobuf encoded = buf_max(AUDIT_ROW_BYTES);
    audit_encode(&row, &encoded);
    struct audit_row again;
    view = view_of(encoded.data, encoded.len);
    if (encoded.failed || !audit_decode(&view, &again) || view.len || again.bytes_in != row.bytes_in ||
        !audit_alike(encoded.data, encoded.len, encoded.data, encoded.len))
        abort();
}

static void shown(const uint8_t *data, size_t len) {
    autobuf out = buf_max(len * 4 + 1);
    text_shown(&out, (const char *)data, len);
    if (out.failed || !text_utf8(out.data, out.len))
        abort();
    for (size_t i = 0; i < out.len; i++)
        if (out.data[i] < 32 || out.data[i] == 127 || (i && out.data[i - 1] == 0xc2 && out.data[i] < 0xa0))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    char *text = malloc(len + 1);
    if (!text)
        return 0;
    memcpy(text, data, len);
    text[len] = 0;
    times(text);
    free(text);
    secrets(data, len);
    rows(data, len);
    if (len)
        shown(data, len);
    return 0;
}
