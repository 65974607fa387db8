/* Answers of servers in boxes: framing, refusals, cuts anywhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "http/response.h"
#include "tap.h"

struct outcome {
    int status; /* 0: refused before an answer */
    int result; /* 1: whole; 0: not yet; negative: refused */
    char body[256];
};

/* The stream in pieces of `step` bytes, then its end. */
static struct outcome take(const char *stream, size_t len, size_t step, bool is_head) {
    struct outcome outcome = {0};
    struct response *response = response_new();
    struct err err;
    bool head = true;
    for (size_t at = 0; at < len && outcome.result == 0; at += step) {
        size_t left = len - at < step ? len - at : step;
        const char *data = stream + at;
        while (left && outcome.result == 0) {
            size_t used = 0, found = 0;
            const void *content;
            if (head) {
                int r = response_head(response, data, left, is_head, &used, &err);
                outcome.result = r < 0 ? r : 0;
                outcome.status = r > 0 ? response->status : outcome.status;
                head = r <= 0 || response->status < 200;
            } else {
                ssize_t r = response_body(response, data, left, &content, &found, &err);
                outcome.result = r < 0 ? (int)r : 0;
                used = r < 0 ? 0 : (size_t)r;
                strncat(outcome.body, content, found);
                if (!used)
                    break;
            }
            data += used, left -= used;
        }
        if (outcome.result == 0 && !head && response_done(response))
            outcome.result = 1;
    }
    if (outcome.result == 0)
        outcome.result = head || response_end(response, &err) < 0 ? -ERR_PROTOCOL : 1;
    response_free(response);
    return outcome;
}

static const struct {
    const char *stream;
    int status, result;
    const char *body;
} rows[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, 1, "abc"},
    {"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabcdef", 200, 1, "abc"},
    {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", 200, 1, ""},
    {"HTTP/1.0 200 OK\r\n\r\nall of it", 200, 1, "all of it"},
    {"HTTP/1.1 200 OK\r\n\r\nall of it", 200, 1, "all of it"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\nA\r\nbbbbbbbbbb\r\n0\r\n\r\nrest", 200, 1,
     "abbbbbbbbbb"},
    {"HTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\nx", 204, 1, ""},
    {"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n", 304, 1, ""},
    {"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 H\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nz", 200, 1,
     "z"},
    {"HTTP/1.1 200 OK\r\nX:\r\nY: \t \r\nContent-Length:1\r\n\r\nz", 200, 1, "z"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", 200, -ERR_PROTOCOL, "ab"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", 200, -ERR_PROTOCOL, "ab"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 200, -ERR_PROTOCOL, "abc"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", 200, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", 200, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\nContent-Length: 0x3\r\n\r\nabc", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nabc", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\nContent-Length: 0\n\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\nX: a\r\n\tb\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\nX : a\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\n: a\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 20 OK\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1  200 OK\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.2 200 OK\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 099 OK\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"ICY 200 OK\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"\r\nHTTP/1.1 200 OK\r\n\r\n", 0, -ERR_PROTOCOL, ""},
    {"HTTP/1.1 200 OK\r\nX: y", 0, -ERR_PROTOCOL, ""},
    {"", 0, -ERR_PROTOCOL, ""},
};

static void test_rows(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool fine = true;
        for (size_t step = 1; step <= 100 && fine; step += 1 + step / 3) {
            struct outcome got = take(rows[i].stream, strlen(rows[i].stream), step, false);
            fine = got.status == rows[i].status && got.result == rows[i].result && strcmp(got.body, rows[i].body) == 0;
            if (!fine)
                printf("# step %zu: status %d result %d body '%s'\n", step, got.status, got.result, got.body);
        }
        ok(fine, "row %zu: %.*s", i, (int)strcspn(rows[i].stream, "\r\n"), rows[i].stream);
    }
}

static void test_bounds(void) {
    autobuf text = buf_max(1 << 20);
    buf_puts(&text, "HTTP/1.1 200 OK\r\nX: ");
    for (int i = 0; i < 40000; i++)
        buf_byte(&text, 'x');
    struct outcome got = take((const char *)text.data, text.len, 1000, false);
    ok(got.result == -ERR_PROTOCOL && !got.status, "a head without an end is refused at its limit");
    buf_clear(&text);
    buf_puts(&text, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 101; i++)
        buf_puts(&text, "X: y\r\n");
    buf_puts(&text, "\r\n");
    got = take((const char *)text.data, text.len, 1000, false);
    ok(got.result == -ERR_PROTOCOL && !got.status, "so are too many headers");
    buf_clear(&text);
    for (int i = 0; i < 17; i++)
        buf_puts(&text, "HTTP/1.1 102 P\r\n\r\n");
    buf_puts(&text, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    got = take((const char *)text.data, text.len, 1000, false);
    ok(got.result == -ERR_PROTOCOL, "and interim answers without end");
    const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    got = take(head, sizeof head - 1, 7, true);
    ok_all("the answer to a HEAD has no body, whatever it says", got.result == 1, got.status == 200, !got.body[0]);
    const char nul[] = "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n";
    got = take(nul, sizeof nul - 1, 7, false);
    ok(got.result == -ERR_PROTOCOL && !got.status, "a NUL is refused");
}

/* Whether the connection can be used again, and bodies that go another way. */
static void test_last(void) {
    static const struct {
        const char *head;
        bool last;
    } heads[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n", false},
        {"HTTP/1.1 204 No\r\n\r\n", false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: x, Close\r\n\r\n", true},
        {"HTTP/1.0 200 OK\r\nContent-Length: 9\r\nConnection: keep-alive\r\n\r\n", true},
        {"HTTP/1.1 200 OK\r\n\r\n", true},
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct response *response = response_new();
        struct err err;
        size_t used = 0;
        int r = response_head(response, heads[i].head, strlen(heads[i].head), false, &used, &err);
        ok(r == 1 && response->last == heads[i].last, "head %zu: %s", i,
           heads[i].last ? "the last one" : "more may come");
        uint64_t left = response_left(response);
        ok(left == (i == 0 || i == 3 || i == 4 ? 9 : 0), "head %zu: how much is left", i);
        response_skip(response, left);
        ok(!left || response_done(response), "head %zu: all of it went another way", i);
        response_free(response);
    }
}

int main(void) {
    test_rows();
    test_last();
    test_bounds();
    return tap_end();
}
