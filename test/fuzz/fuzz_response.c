/* Any bytes as the answer of a server in a box. Beyond crashes: cuts do not matter, nothing leaves with a line break in it,
 * and no more content than bytes. The first byte says whether the request was a HEAD, the second how the stream is cut. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "front/port_head.h"
#include "http/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    int status, result;
    size_t content, hash;
};

static void check_fields(const struct response *response) {
    struct port_path path;
    port_path_init(&path, "0123456789abcdef", 8080);
    assert(response->status >= 100 && response->status <= 599 && response->count <= LIMIT_HEADERS);
    for (size_t i = 0; i < response->count; i++) {
        autobuf out = buf_max(4 * LIMIT_HEAD_BYTES);
        assert(response->fields[i].name[0] && !strpbrk(response->fields[i].name, "\r\n: "));
        assert(!strpbrk(response->fields[i].value, "\r\n"));
        port_cookie_out(&path, response->fields[i].value, &out);
        port_location(&path, response->fields[i].value, &out);
        port_cookies_in(&path, response->fields[i].value, &out);
        assert(!out.failed && !memchr(out.len ? out.data : (const uint8_t *)"", '\n', out.len));
    }
}

static struct seen run(const uint8_t *data, size_t size, size_t step, bool is_head) {
    struct seen seen = {0};
    struct err err;
    struct response *response = response_new();
    bool head = true;
    for (size_t at = 0; at < size && seen.result == 0; at += step) {
        size_t left = size - at < step ? size - at : step;
        uint8_t *piece = malloc(left), *from = piece; /* of just that size: an over-read shows */
        memcpy(piece, data + at, left);
        while (left && seen.result == 0) {
            size_t used = 0, found = 0;
            const void *content;
            if (head) {
                int r = response_head(response, from, left, is_head, &used, &err);
                seen.result = r < 0 ? r : 0;
                if (r > 0) {
                    check_fields(response);
                    seen.status = response->status;
                    head = response->status < 200;
                }
            } else {
                ssize_t r = response_body(response, from, left, &content, &found, &err);
                seen.result = r < 0 ? (int)r : 0;
                used = r < 0 ? 0 : (size_t)r;
                for (size_t i = 0; i < found; i++)
                    seen.hash = seen.hash * 31 + ((const uint8_t *)content)[i];
                seen.content += found;
                if (!used)
                    break;
            }
            assert(used <= left);
            from += used, left -= used;
        }
        free(piece);
        if (seen.result == 0 && !head && response_done(response))
            seen.result = 1;
    }
    if (seen.result == 0 && !head)
        seen.result = response_end(response, &err) < 0 ? -ERR_PROTOCOL : 2;
    response_free(response);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    bool is_head = data[0] & 1;
    struct seen whole = run(data + 2, size - 2, size, is_head),
                cut = run(data + 2, size - 2, 1 + data[1] % 64, is_head);
    assert(whole.status == cut.status && whole.result == cut.result && whole.content == cut.content &&
           whole.hash == cut.hash);
    assert(whole.content <= size);
    return 0;
}
