/* Malformed and hostile requests, each with the one status it must get, whole and byte by byte; and the pure functions
 * below them (byte check, targets, routes, chunks). */
#include "http_lab.h"

#include "http/internal.h"

static void handle_echo(struct http_request *request) {
    char *data;
    size_t len;
    struct err err;
    if (http_body_all(request, 1000, &data, &len, &err) < 0)
        http_reply_error(request, &err);
    else
        http_reply(request, 200, "text/plain", data, len);
}

static void handle_param(struct http_request *request) {
    const char *text = http_param(request, "x");
    http_reply(request, 200, "text/plain", text, strlen(text));
}

static void handle_word(struct http_request *request) {
    http_reply(request, 200, "text/plain", "word", 4);
}

static void handle_query(struct http_request *request) {
    size_t len = 0;
    const char *text = http_query(request, "q", &len);
    http_reply(request, 200, "text/plain", text ? text : "none", text ? len : 4);
}

static void handle_tail(struct http_request *request) {
    const char *tail = http_tail(request);
    http_reply(request, 200, "text/plain", tail ? tail : "none", tail ? strlen(tail) : 4);
}

static const struct route routes[] = {
    {"GET", "/", handle_word, ROUTE_QUICK, "root", "", NULL},
    {"GET", "/echo", handle_echo, ROUTE_QUICK, "echo", "", NULL},
    {"POST", "/echo", handle_echo, ROUTE_QUICK, "echo", "", NULL},
    {"GET", "/p/{x}", handle_param, ROUTE_QUICK, "param", "", NULL},
    {"GET", "/p/word", handle_word, ROUTE_QUICK, "word", "", NULL},
    {"GET", "/p/{x}/deep", handle_param, 0, "deep", "", NULL},
    {"GET", "/p/word/other", handle_word, 0, "other", "", NULL},
    {"GET", "/q", handle_query, ROUTE_QUICK, "query", "", NULL},
    {"ANY", "/t/{x}/{rest...}", handle_tail, ROUTE_EMBED, "tail", "", NULL},
    {"GET", "/t/{x}", handle_tail, 0, "before", "", NULL},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

#define H "Host: localhost\r\n"
#define POST "POST /echo HTTP/1.1\r\n" H

struct row {
    int status;
    const char *name, *bytes;
    size_t len; /* 0: strlen */
};
#define NUL_ROW(status, name, bytes)                                                                                   \
    { status, name, bytes, sizeof(bytes) - 1 }

static const struct row rows[] = {
    {200, "plain GET", "GET /echo HTTP/1.1\r\n" H "\r\n", 0},
    {200, "body with length", POST "Content-Length: 5\r\n\r\nhello", 0},
    {200, "chunked body", POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 0},
    {200, "chunked, upper case, extension, trailer",
     POST "Transfer-Encoding: Chunked\r\n\r\nA;x=y\r\nhellohello\r\n0\r\nX: y\r\n\r\n", 0},
    {200, "empty line before the request", "\r\nGET /echo HTTP/1.1\r\n" H "\r\n", 0},
    {200, "empty header value", "GET /echo HTTP/1.1\r\n" H "X:\r\n\r\n", 0},
    {200, "absolute form", "GET http://localhost/echo HTTP/1.1\r\n" H "\r\n", 0},
    {200, "absolute form without a path", "GET http://localhost HTTP/1.1\r\n" H "\r\n", 0},
    {204, "OPTIONS *", "OPTIONS * HTTP/1.1\r\n" H "\r\n", 0},
    {200, "HTTP/1.0 without Host", "GET /echo HTTP/1.0\r\n\r\n", 0},
    {400, "Content-Length and Transfer-Encoding",
     POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0},
    {400, "Transfer-Encoding and Content-Length",
     POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 0},
    {400, "two different Content-Length", POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 0},
    {400, "two equal Content-Length", POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 0},
    {400, "Content-Length list", POST "Content-Length: 5, 5\r\n\r\nhello", 0},
    {400, "Content-Length +5", POST "Content-Length: +5\r\n\r\nhello", 0},
    {400, "Content-Length -5", POST "Content-Length: -5\r\n\r\nhello", 0},
    {400, "Content-Length 0x5", POST "Content-Length: 0x5\r\n\r\nhello", 0},
    {400, "Content-Length empty", POST "Content-Length:\r\n\r\n", 0},
    {400, "Content-Length overflow", POST "Content-Length: 99999999999999999999999\r\n\r\n", 0},
    {400, "Content-Length 2^63", POST "Content-Length: 9223372036854775808\r\n\r\n", 0},
    {501, "Transfer-Encoding xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n", 0},
    {501, "Transfer-Encoding gzip, chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 0},
    {501, "Transfer-Encoding chunked, identity", POST "Transfer-Encoding: chunked, identity\r\n\r\n", 0},
    {501, "two Transfer-Encoding", POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0},
    {400, "Transfer-Encoding in HTTP/1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0},
    {400, "space before colon", "GET /echo HTTP/1.1\r\nHost : localhost\r\n\r\n", 0},
    {400, "folded line", "GET /echo HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n", 0},
    {400, "space before the first header", "GET /echo HTTP/1.1\r\n Host: localhost\r\n\r\n", 0},
    {400, "bare CR in a value", "GET /echo HTTP/1.1\r\n" H "X: a\rb\r\n\r\n", 0},
    {400, "bare LF after a value", "GET /echo HTTP/1.1\r\n" H "X: a\nY: b\r\n\r\n", 0},
    {400, "bare LF everywhere", "GET /echo HTTP/1.1\nHost: localhost\n\n", 0},
    {400, "LF CR", "GET /echo HTTP/1.1\n\rHost: localhost\n\r\n\r", 0},
    NUL_ROW(400, "NUL in a value", "GET /echo HTTP/1.1\r\n" H "X: a\0b\r\n\r\n"),
    NUL_ROW(400, "NUL in a name", "GET /echo HTTP/1.1\r\n" H "X\0: a\r\n\r\n"),
    NUL_ROW(400, "NUL in the target", "GET /ec\0ho HTTP/1.1\r\n" H "\r\n"),
    {400, "control character in a value", "GET /echo HTTP/1.1\r\n" H "X: a\x01\r\n\r\n", 0},
    {400, "DEL in a value", "GET /echo HTTP/1.1\r\n" H "X: a\x7f\r\n\r\n", 0},
    {400, "empty header name", "GET /echo HTTP/1.1\r\n" H ": a\r\n\r\n", 0},
    {400, "header without colon", "GET /echo HTTP/1.1\r\n" H "abc\r\n\r\n", 0},
    {400, "slash in a header name", "GET /echo HTTP/1.1\r\n" H "a/b: c\r\n\r\n", 0},
    {400, "no Host", "GET /echo HTTP/1.1\r\n\r\n", 0},
    {400, "two Host", "GET /echo HTTP/1.1\r\n" H H "\r\n", 0},
    {400, "Host with a slash", "GET /echo HTTP/1.1\r\nHost: local/host\r\n\r\n", 0},
    {400, "Host with an at sign", "GET /echo HTTP/1.1\r\nHost: a@localhost\r\n\r\n", 0},
    {400, "two Authorization", "GET /echo HTTP/1.1\r\n" H "Authorization: a\r\nAuthorization: b\r\n\r\n", 0},
    {505, "HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0},
    {505, "HTTP/1.2", "GET /echo HTTP/1.2\r\n" H "\r\n", 0},
    {505, "HTTP/3.1", "GET /echo HTTP/3.1\r\n" H "\r\n", 0},
    {400, "HTTP/0.9", "GET /echo\r\n", 0},
    {400, "lower-case version", "GET /echo http/1.1\r\n" H "\r\n", 0},
    {400, "HTTP/1.10", "GET /echo HTTP/1.10\r\n" H "\r\n", 0},
    {400, "two spaces", "GET  /echo HTTP/1.1\r\n" H "\r\n", 0},
    {400, "space inside the target", "GET /ec ho HTTP/1.1\r\n" H "\r\n", 0},
    {400, "space after the version", "GET /echo HTTP/1.1 \r\n" H "\r\n", 0},
    {400, "tab in the request line", "GET\t/echo HTTP/1.1\r\n" H "\r\n", 0},
    {400, "no target", "GET HTTP/1.1\r\n" H "\r\n", 0},
    {400, "TLS client hello", "\x16\x03\x01\x02\x01\x01\x01", 0},
    {400, "high byte in the target", "GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n", 0},
    {501, "unknown method", "BREW /echo HTTP/1.1\r\n" H "\r\n", 0},
    {501, "lower-case method", "get /echo HTTP/1.1\r\n" H "\r\n", 0},
    {501, "endless method", "GGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGG /echo HTTP/1.1\r\n" H "\r\n", 0},
    {501, "CONNECT", "CONNECT localhost:80 HTTP/1.1\r\n" H "\r\n", 0},
    {405, "known method, wrong path", "DELETE /echo HTTP/1.1\r\n" H "\r\n", 0},
    {404, "unknown path", "GET /nowhere HTTP/1.1\r\n" H "\r\n", 0},
    {404, "empty segment", "GET /p/ HTTP/1.1\r\n" H "\r\n", 0},
    {404, "double slash", "GET //echo HTTP/1.1\r\n" H "\r\n", 0},
    {417, "other expectation", POST "Content-Length: 1\r\nExpect: pigs\r\n\r\nx", 0},
    {400, "relative target", "GET echo HTTP/1.1\r\n" H "\r\n", 0},
    {400, "asterisk with GET", "GET * HTTP/1.1\r\n" H "\r\n", 0},
    {400, "ftp target", "GET ftp://localhost/echo HTTP/1.1\r\n" H "\r\n", 0},
    {400, "user in the target", "GET http://me@localhost/echo HTTP/1.1\r\n" H "\r\n", 0},
    {400, "fragment", "GET /echo#x HTTP/1.1\r\n" H "\r\n", 0},
    {400, "bad escape", "GET /p/%zz HTTP/1.1\r\n" H "\r\n", 0},
    {400, "cut escape", "GET /p/%4 HTTP/1.1\r\n" H "\r\n", 0},
    {400, "encoded NUL", "GET /p/a%00b HTTP/1.1\r\n" H "\r\n", 0},
    {400, "encoded slash", "GET /p/a%2fb HTTP/1.1\r\n" H "\r\n", 0},
    {400, "dot segment", "GET /p/./x HTTP/1.1\r\n" H "\r\n", 0},
    {400, "dot dot", "GET /p/../echo HTTP/1.1\r\n" H "\r\n", 0},
    {400, "encoded dot dot", "GET /p/%2e%2e HTTP/1.1\r\n" H "\r\n", 0},
    {400, "query name twice", "GET /q?q=1&q=2 HTTP/1.1\r\n" H "\r\n", 0},
    {400, "query name twice, encoded", "GET /q?q=1&%71=2 HTTP/1.1\r\n" H "\r\n", 0},
    {400, "bad escape in the query", "GET /q?q=%g1 HTTP/1.1\r\n" H "\r\n", 0},
    {400, "NUL in a query name", "GET /q?a%00=1 HTTP/1.1\r\n" H "\r\n", 0},
    {413, "body over the limit", POST "Content-Length: 1001\r\n\r\n", 0},
    {400, "chunk size 0x5", POST "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", 0},
    {400, "chunk size -5", POST "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n", 0},
    {400, "chunk size empty", POST "Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n", 0},
    {400, "chunk size with a space", POST "Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n", 0},
    {400, "chunk size overflow", POST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n", 0},
    {400, "chunk with bare LF", POST "Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n", 0},
    {400, "chunk without CRLF after data", POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX0\r\n\r\n", 0},
    {400, "chunk extension with a control character",
     POST "Transfer-Encoding: chunked\r\n\r\n5;\x01\r\nhello\r\n0\r\n\r\n", 0},
    {400, "chunk trailer with a fold", POST "Transfer-Encoding: chunked\r\n\r\n0\r\n a\r\n\r\n", 0},
};

static bool well_formed(const struct answer *answer, int status) {
    if (!answer_header(answer, "x-request-id"))
        return false;
    if (status < 400)
        return true;
    return strncmp(answer->body, "{\"error\":{\"code\":\"", 18) == 0 && answer_header(answer, "content-type");
}

static void test_rows(struct lab *lab) {
    static struct answer answer;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t len = rows[i].len ? rows[i].len : strlen(rows[i].bytes);
        int status = lab_ask(lab, rows[i].bytes, len, &answer);
        if (!ok(status == rows[i].status && well_formed(&answer, status), rows[i].name))
            printf("# wanted %d, got %d: %s\n", rows[i].status, status, answer.body);
    }
    free(answer.body);
}

/* The same rows through the pure functions, one byte at a time: where the head is cut must not matter. */
static void test_pieces(void) {
    bool same = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t len = rows[i].len ? rows[i].len : strlen(rows[i].bytes);
        struct head_scan whole = {0}, pieces = {0};
        int once = head_scan(&whole, rows[i].bytes, len), bit = 0;
        for (size_t n = 1; n <= len && bit == 0; n++)
            bit = head_scan(&pieces, rows[i].bytes, n);
        same = same && once == bit;
    }
    ok(same, "the byte check finds the same byte by byte");
}

static char *repeat(const char *before, const char *piece, size_t count, const char *after) {
    size_t len = strlen(before) + strlen(piece) * count + strlen(after) + 1;
    char *text = malloc(len), *at = stpcpy(text, before);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, piece);
    stpcpy(at, after);
    return text;
}

static void test_sizes(struct lab *lab) {
    static struct answer answer;
    const struct {
        int status;
        const char *name;
        char *text;
    } big[] = {
        {404, "target of just the limit", repeat("GET /", "a", LIMIT_URI_BYTES - 1, " HTTP/1.1\r\n" H "\r\n")},
        {414, "target over the limit", repeat("GET /", "a", LIMIT_URI_BYTES, " HTTP/1.1\r\n" H "\r\n")},
        {414, "target without end", repeat("GET /", "a", 60000, "")},
        {431, "value over the limit", repeat("GET /echo HTTP/1.1\r\n" H "X: ", "a", LIMIT_HEAD_BYTES, "\r\n\r\n")},
        {431, "value without end", repeat("GET /echo HTTP/1.1\r\n" H "X: ", "a", 65000, "")},
        {431, "name without end", repeat("GET /echo HTTP/1.1\r\n" H, "a", 65000, "")},
        {200, "as many headers as allowed", repeat("GET /echo HTTP/1.1\r\n" H, "a: b\r\n", LIMIT_HEADERS - 1, "\r\n")},
        {431, "one header too many", repeat("GET /echo HTTP/1.1\r\n" H, "a: b\r\n", LIMIT_HEADERS, "\r\n")},
        {400, "chunk extension without end", repeat(POST "Transfer-Encoding: chunked\r\n\r\n5;", "a", 6000, "")},
        {400, "trailers without end", repeat(POST "Transfer-Encoding: chunked\r\n\r\n0\r\n", "a: b\r\n", 1000, "")},
        {413, "chunked body over the limit",
         repeat(POST "Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n", 300, "0\r\n\r\n")},
    };
    for (size_t i = 0; i < sizeof big / sizeof big[0]; i++) {
        int status = lab_ask_text(lab, big[i].text, &answer);
        if (!ok(status == big[i].status && well_formed(&answer, status), big[i].name))
            printf("# wanted %d, got %d\n", big[i].status, status);
        free(big[i].text);
    }
    char text[1000] = "GET /q?z";
    size_t at = strlen(text);
    for (size_t i = 0; i < HTTP_QUERIES; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "&a%zu", i);
    snprintf(text + at, sizeof text - at, " HTTP/1.1\r\n" H "\r\n");
    ok(lab_ask_text(lab, text, &answer) == 400, "too many query parameters");
    free(answer.body);
}

static void test_decoding(struct lab *lab) {
    static struct answer answer;
    const struct {
        const char *target, *body;
        size_t len;
    } good[] = {
        {"/p/a%20b+c", "a b+c", 5},   {"/p/%C3%A9", "\xc3\xa9", 2},
        {"/p/word", "word", 4},       {"/p/wor%64", "word", 4},
        {"/p/word/deep", "word", 4},  {"/p/x/deep", "x", 1},
        {"/p/word/other", "word", 4}, {"/q?q=a%20b+c", "a b c", 5},
        {"/q?q=a%00b", "a\0b", 3},    {"/q?q", "", 0},
        {"/q?&&x=1&q=%26", "&", 1},   {"/q?Q=1", "none", 4},
        {"/p/..a", "..a", 3},         {"/q?q=../..", "../..", 5},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" H "\r\n", good[i].target);
        lab_ask_text(lab, text, &answer);
        ok_all(good[i].target, answer.status == 200, answer.len == good[i].len,
               memcmp(answer.body, good[i].body, answer.len) == 0);
    }
    lab_ask_text(lab, "DELETE /echo HTTP/1.1\r\n" H "\r\n", &answer);
    const char *allow = answer_header(&answer, "allow");
    ok_all("405 says what is allowed", allow, strstr(allow, "GET"), strstr(allow, "HEAD"), strstr(allow, "POST"));
    free(answer.body);
}

static void test_hosts(struct lab *lab) {
    static struct answer answer;
    const struct {
        int status;
        const char *headers;
    } hosts[] = {
        {200, "Host: localhost:1\r\n"},
        {200, "Host: 127.0.0.1\r\n"},
        {200, "Host: [::1]:7070\r\n"},
        {200, "Host: LocalHost\r\n"},
        {200, "Host: box.example\r\n"},
        {403, "Host: evil.example\r\n"},
        {403, "Host: 127.0.0.1.evil.example\r\n"},
        {403, "Host: 127.evil\r\n"},
        {403, "Host:\r\n"},
        {403, "Host: localhost.evil.example\r\n"},
        {200, "Host: localhost:7070\r\nOrigin: http://LocalHost:7070\r\n"},
        {403, "Host: localhost:7070\r\nOrigin: http://localhost:3000\r\n"}, /* another server of this machine */
        {403, "Host: localhost:7070\r\nOrigin: http://127.0.0.1:7070\r\n"},
        {403, "Host: localhost:7070\r\nOrigin: http://localhost\r\n"},
        {200, H "Origin: https://box.example:3000\r\n"},
        {200, H "Sec-Fetch-Site: none\r\n"},
        {200, H "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n"},
        {403, H "Sec-Fetch-Site: cross-site\r\n"},
        {403, H "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: script\r\n"},
        {403, H "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n"},
        {200, H "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n"},
        {200, H "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\nOrigin: http://box.example\r\n"},
        {403, H "Origin: http://evil.example\r\n"},
        {403, H "Origin: null\r\n"},
        {200, H "Origin: https://box.example\r\n"},
        {403, H "Origin: http://localhost.evil.example\r\n"},
    };
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        char text[400];
        snprintf(text, sizeof text, "GET /echo HTTP/1.1\r\n%s\r\n", hosts[i].headers);
        char name[200];
        const char *what = strstr(hosts[i].headers, "Origin") ? strstr(hosts[i].headers, "Origin") : hosts[i].headers;
        what = strstr(what, "Sec-") ? strstr(what, "Sec-") : what;
        snprintf(name, sizeof name, "%.*s gets %d", (int)strcspn(what, "\r"), what, hosts[i].status);
        ok(lab_ask_text(lab, text, &answer) == hosts[i].status, name);
    }
    ok(lab_ask_text(lab, "GET http://evil.example/echo HTTP/1.1\r\n" H "\r\n", &answer) == 403,
       "the host of an absolute target counts");
    free(answer.body);
}

static void test_tail(struct lab *lab) {
    static struct answer answer;
    static const struct {
        const char *line, *body; /* body NULL: refused */
    } tails[] = {
        {"GET /t/a/b/c", "/b/c"}, {"PROPFIND /t/a/", "/"},
        {"POST /t/a//", "//"},    {"GET /t/a/b%2Fc/../d/./%zz?x=1&x=2&%", "/b%2Fc/../d/./%zz?x=1&x=2&%"},
        {"GET /t/%61/x", "/x"},   {"GET http://localhost/t/a/x?y", "/x?y"},
        {"GET /t/a", "none"},     {"GET /t/a?q=/x", "none"},
        {"POST /t/a", NULL},      {"GET /t/../x", NULL},
        {"GET /t/a%2Fb/x", NULL}, {"GET /t//x", NULL},
        {"GET /t/a/x#y", NULL},   {"GET /%74/a/x", NULL}, /* routes are found before anything is decoded */
    };
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "%s HTTP/1.1\r\n" H "\r\n", tails[i].line);
        int status = lab_ask_text(lab, text, &answer);
        bool same = answer.body && tails[i].body && strcmp(answer.body, tails[i].body) == 0;
        ok(tails[i].body ? status == 200 && same : status >= 400 && status < 500, tails[i].line);
    }
    ok(lab_ask_text(lab, "GET /t/a/x HTTP/1.1\r\n" H "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n\r\n",
                    &answer) == 200,
       "a part of a sandboxed page");
    ok(lab_ask_text(lab, "GET /t/a/x HTTP/1.1\r\n" H "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n\r\n",
                    &answer) == 403,
       "is not fetched by its scripts");
    ok(lab_ask_text(lab,
                    "POST /t/a/x HTTP/1.1\r\n" H "Content-Length: 0\r\nSec-Fetch-Site: cross-site\r\n"
                    "Sec-Fetch-Mode: no-cors\r\n\r\n",
                    &answer) == 403,
       "nor posted to");
    ok(lab_ask_text(lab, "POST /t/a/x HTTP/1.1\r\n" H "Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", &answer) ==
           200,
       "a coded body is somebody else's to undo");
    free(answer.body);
}

static void test_routes(void) {
    struct route twice[] = {routes[1], routes[1], {NULL, NULL, NULL, 0, NULL, NULL, NULL}};
    struct route names[] = {
        routes[3], {"GET", "/p/{y}", handle_param, 0, "y", "", NULL}, {NULL, NULL, NULL, 0, NULL, NULL, NULL}};
    struct http_config config = {.routes = twice};
    struct http_server *server;
    struct err err;
    ok(http_server_new("127.0.0.1:0", &config, &server, &err) == -ERR_EXISTS,
       "a route given twice is refused at start");
    config.routes = names;
    ok(http_server_new("127.0.0.1:0", &config, &server, &err) == -ERR_EXISTS,
       "two names for one parameter are the same route");
}

int main(void) {
    static const char *const allowed[] = {"box.example", NULL};
    struct http_config config = {
        .routes = routes, .check_host = true, .allowed_hosts = allowed, .body_timeout_ms = 5000};
    struct lab lab;
    signal(SIGPIPE, SIG_IGN);
    lab_start(&lab, "127.0.0.1:0", &config);
    test_rows(&lab);
    test_pieces();
    test_sizes(&lab);
    test_decoding(&lab);
    test_hosts(&lab);
    test_tail(&lab);
    test_routes();
    ok(lab_stop(&lab, 3000) == 0, "stops cleanly");
    return tap_end();
}
