/* Any text as HTML, CSV, TSV, JSON or plain text, as Markdown: UTF-8 comes out, never more than was allowed, and a text that
 * is a thousand times as long takes a thousand times as long. The first byte says which, and whether it is repeated. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "front/aio/markdown.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 128 << 10, MOST_MS = 3000 }; /* a hundred times what it takes, on a machine that is busy */

static uint64_t spent_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const enum markdown_kind kinds[] = {MARKDOWN_HTML, MARKDOWN_CSV,  MARKDOWN_TSV, MARKDOWN_JSON,
                                               MARKDOWN_HTML, MARKDOWN_TEXT, MARKDOWN_CSV, MARKDOWN_HTML};
    if (size < 2 || !text_utf8(data + 1, size - 1) || memchr(data + 1, 0, size - 1))
        return 0;
    size_t len = size - 1, times = data[0] & 8 ? MOST_BYTES / len / (1u << (data[0] >> 4 & 7)) : 1;
    times = times ? times : 1;
    char *text = malloc(times * len); /* exactly as long as it says */
    for (size_t i = 0; i < times; i++)
        memcpy(text + i * len, data + 1, len);
    len *= times;
    enum markdown_kind kind = kinds[data[0] & 7];
    autobuf out = buf_max(markdown_room(len));
    uint64_t before = spent_ms();
    markdown_write(kind, text, len, &out);
    assert(spent_ms() - before < MOST_MS);
    assert(out.len <= markdown_room(len));
    assert(out.failed || text_utf8(out.data, out.len));
    assert(out.failed || !out.len || !memchr(out.data, 0, out.len));
    assert(kind == MARKDOWN_HTML || !out.failed);
    assert(markdown_kind("/a.html", NULL, text, len) == MARKDOWN_HTML);
    free(text);
    return 0;
}
