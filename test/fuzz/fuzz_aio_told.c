/* What a session's shell tells of a command's end, among any bytes and cut anywhere: the one true report is found, whatever is
 * around it, a mark alone or a half of one is none, and there is always room for the next read. The first four bytes say
 * how it is cut, what stands before the report and how long its directory is. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exec/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char mark[] = "0123456789abcdef0123456789abcdef";

/* What is found in a text that comes in pieces. */
static bool feed(const struct buf *text, unsigned cut, unsigned *ret_status, char cwd[LIMIT_PATH_BYTES + 1]) {
    autobuf reports;
    bool found = false;
    buf_init(&reports, SESSION_REPORTS_BYTES);
    for (size_t at = 0, n; at < text->len && !found; at += n) {
        cut = cut * 1103515245u + 12345u;
        n = 1 + (cut >> 16) % (cut & 0x100 ? SESSION_REPORTS_READ_BYTES : 7);
        n = n < text->len - at ? n : text->len - at;
        uint8_t *room = buf_reserve(&reports, SESSION_REPORTS_READ_BYTES);
        assert(room);
        memcpy(room, text->data + at, n);
        reports.len += n;
        found = report_find(&reports, mark, ret_status, cwd);
    }
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned status = 0;
    char cwd[LIMIT_PATH_BYTES + 1], digits[8];
    if (size < 5)
        return 0;
    autobuf text = buf_max(4 << 20);
    size_t before = data[1] % (size - 4), long_by = (size_t)data[2] * 97, times = 1 + data[3] % 40u;
    for (size_t i = 0; i < times; i++) { /* what is around it, for more than there is room for */
        buf_put(&text, data + 4, before);
        buf_put(&text, mark, data[3] & 0x40 ? SESSION_MARK_BYTES - 1 - i % 3 : 0);
        buf_byte(&text, 'x');
    }
    struct buf around = {.data = text.data, .len = text.len};
    bool forged = memmem(text.data, text.len, mark, SESSION_MARK_BYTES);
    assert(forged || !feed(&around, data[0], &status, cwd));
    buf_put(&text, mark, sizeof mark);
    snprintf(digits, sizeof digits, "%u", data[2]);
    buf_put(&text, digits, strlen(digits) + 1);
    buf_byte(&text, '/');
    for (size_t i = 1; i < long_by; i++)
        buf_byte(&text, 'd');
    buf_byte(&text, 0);
    size_t len = long_by ? long_by : 1;
    buf_put(&text, data + 4 + before, size - 4 - before);
    bool found = feed(&text, data[0], &status, cwd);
    assert(forged || found);
    if (!forged) {
        assert(status == data[2]);
        assert(len > LIMIT_PATH_BYTES ? !*cwd : strlen(cwd) == len && cwd[0] == '/');
    }
    return 0;
}
