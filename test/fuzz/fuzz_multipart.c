/* Any bytes as a form: where the body is cut makes no difference, names are clean. The first byte says how it is cut; up to
 * the first line feed is the content type, unless that is empty. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "http/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text) {
    assert(!text || text_utf8(text, strlen(text)));
    for (const char *c = text; c && *c; c++)
        assert((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static int part(void *user, const struct multipart_part *part, struct err *err) {
    (void)err;
    assert(part->name);
    check_text(part->name);
    check_text(part->file_name);
    check_text(part->type);
    buf_printf(user, "[%s %s]", part->name, part->file_name ? part->file_name : "");
    return 0;
}

static int content(void *user, const uint8_t *data, size_t len, struct err *err) {
    (void)err;
    assert(len);
    buf_put(user, data, len);
    return 0;
}

static int feed(const char *type, const uint8_t *data, size_t len, size_t step, struct buf *out) {
    struct multipart_sink sink = {.part = part, .data = content, .user = out};
    struct multipart *multipart = NULL;
    struct err err = {0};
    int r = multipart_new(type, &sink, &multipart, &err);
    for (size_t at = 0; r == 0 && at < len; at += step) {
        size_t n = len - at < step ? len - at : step;
        uint8_t *copy = malloc(n); /* so that reading past a piece is seen */
        memcpy(copy, data + at, n);
        r = multipart_feed(multipart, copy, n, &err);
        free(copy);
    }
    r = r < 0 ? r : multipart_end(multipart, &err);
    assert((r < 0) == (err.text[0] != 0));
    multipart_free(multipart);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    size_t step = 1 + data[0] % 40u;
    const uint8_t *line = memchr(data + 1, '\n', size - 1);
    size_t type_len = line ? (size_t)(line - data) - 1 : 0;
    char *type = type_len ? strndup((const char *)data + 1, type_len) : strdup("multipart/form-data; boundary=b");
    size_t at = 1 + type_len + (line != NULL);
    autobuf whole = buf_max(1 << 20);
    autobuf pieces = buf_max(1 << 20);
    int r = feed(type, data + at, size - at, size, &whole), again = feed(type, data + at, size - at, step, &pieces);
    assert((r < 0) == (again < 0));
    assert(r < 0 || (whole.len == pieces.len && (!whole.len || memcmp(whole.data, pieces.data, whole.len) == 0)));
    free(type);
    return 0;
}
