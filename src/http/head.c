/* The head of a request, after head_text.c has parsed it: the meaning of headers for framing; then the target: origin
 * or absolute form, strictly percent-decoded in place, and query parameters. Called by conn.c. Invariants:
 * 1. Nothing after head_scan may be more lenient than it.
 * 2. A path that leaves here has no encoded slash or NUL and no segment "." or "..", so that no later layer sees
 *    another path than the router did. Only what "{x...}" takes is kept as sent: it is another server's path. */
#include <llhttp.h>

#include "base/base.h"
#include "base/url.h"
#include "http/internal.h"

/* Returns the status for the caller to return; err gets the text. */
__attribute__((format(printf, 4, 5))) static int head_refuse(struct err *err, int status, enum err_code code,
                                                             const char *format, ...) {
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    err_set(err, code, "%s", text);
    return status;
}

static int head_meaning(struct http_request *request, struct err *err);

/* ---- the target ---- */

/* "http://host/path": its host counts, not the header's (RFC 9112 3.2.2). Returns the path; NULL: malformed. */
static char *head_target_absolute(struct http_request *request, char *target, struct err *err) {
    static char root[] = "/";
    size_t scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
    char *host = target + scheme;
    size_t len = strcspn(host, "/?");
    if (!scheme || !len || memchr(host, '@', len)) {
        err_set(err, ERR_INVALID, "the request target is neither a path nor an http address");
        return NULL;
    }
    request->host = arena_copy(&request->arena, host, len);
    char *path = host + len;
    if (*path == '/')
        return path;
    /* "http://host?query" has an empty path; the byte before it is the host's, already copied. */
    if (*path == '?') {
        path[-1] = '/';
        return path - 1;
    }
    return arena_strdup(&request->arena, root);
}

static bool head_dot_segment(const char *path) {
    for (const char *p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        size_t len = strcspn(p, "/");
        if ((len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
            return true;
    }
    return false;
}

static int head_target_path(struct http_request *request, char *path, struct err *err) {
    size_t slashes = 0, after = 0;
    for (const char *p = path; *p; p++)
        slashes += *p == '/';
    ssize_t len = url_decode(path, false);
    const char *fault = len < 0 ? "has a bad percent escape" : NULL;
    if (!fault && memchr(path, 0, (size_t)len))
        fault = "has an encoded NUL";
    for (ssize_t i = 0; !fault && i < len; i++)
        after += path[i] == '/';
    if (!fault && after != slashes)
        fault = "has an encoded slash";
    if (!fault) /* so that the refusal has the form of the path's dialect */
        request->path = path;
    if (!fault && head_dot_segment(path))
        fault = "has a segment '.' or '..'";
    if (!fault)
        return 0;
    return head_refuse(err, 400, ERR_INVALID, "the request path %s", fault);
}

static int head_target_query(struct http_request *request, char *query, struct err *err) {
    char *rest = query;
    for (char *piece; (piece = strsep(&rest, "&"));) {
        if (!*piece)
            continue;
        char *value = strchr(piece, '=');
        if (value)
            *value++ = 0;
        ssize_t name_len = url_decode(piece, true);
        ssize_t len = value ? url_decode(value, true) : 0;
        if (name_len < 0 || len < 0 || memchr(piece, 0, (size_t)name_len))
            return head_refuse(err, 400, ERR_INVALID, "the query has a bad percent escape");
        for (size_t i = 0; i < request->query_count; i++) {
            if (strcmp(request->queries[i].name, piece) == 0)
                return head_refuse(err, 400, ERR_INVALID, "query parameter '%.100s' is given twice", piece);
        }
        if (request->query_count == HTTP_QUERIES)
            return head_refuse(err, 400, ERR_INVALID, "more than %d query parameters", HTTP_QUERIES);
        request->queries[request->query_count++] = (struct request_query){piece, value ? value : "", (size_t)len};
    }
    return 0;
}

static int head_target(struct http_request *request, char *target, struct err *err) {
    if (strcmp(target, "*") == 0 && strcmp(request->method, "OPTIONS") == 0) {
        request->path = target;
        return 0;
    }
    if (strchr(target, '#'))
        return head_refuse(err, 400, ERR_INVALID, "a fragment ('#') has no place in a request");
    if (target[0] != '/') {
        target = head_target_absolute(request, target, err);
        if (!target)
            return 400;
    }
    const char *(*locate)(struct http_request *, const char *) =
        request->server ? request->server->config.locate : NULL;
    const char *other = locate ? locate(request, target) : NULL;
    if (other) {
        target = arena_strdup(&request->arena, other);
        request->located = true;
    }
    size_t before = request->server ? route_tail(request->server->tree, target) : 0;
    if (before) {
        request->tail = arena_strdup(&request->arena, target + before);
        target[before] = 0;
    }
    char *query = strchr(target, '?');
    if (query)
        *query++ = 0;
    int status = head_target_path(request, target, err);
    if (status)
        return status;
    return query ? head_target_query(request, query, err) : 0;
}

int head_parse(struct http_request *request, char *data, size_t len, struct err *err) {
    struct head_words words = {.fields = request->headers};
    head_words(false, data, len, &words);
    if (words.error == HPE_INVALID_METHOD)
        return head_refuse(err, 501, ERR_UNSUPPORTED, "this server does not know the request's method");
    if (words.error == HPE_INVALID_TRANSFER_ENCODING)
        return head_refuse(err, 501, ERR_UNSUPPORTED, "Transfer-Encoding may only be 'chunked'");
    if (words.reason)
        return head_refuse(err, 400, ERR_INVALID, "malformed request head: %s", words.reason);
    request->method = llhttp_method_name((llhttp_method_t)words.method);
    request->is_head = words.method == HTTP_HEAD;
    request->http10 = words.minor == 0;
    request->target = words.target;
    request->header_count = words.count;
    if (words.method == HTTP_CONNECT)
        return head_refuse(err, 501, ERR_UNSUPPORTED, "this server is not a proxy: CONNECT is not supported");
    int status = head_meaning(request, err);
    return status ? status : head_target(request, request->target, err);
}

/* ---- meaning of headers ---- */

enum {
    SEEN_HOST = 1,
    SEEN_LENGTH = 2,
    SEEN_CODING = 4,
    SEEN_EXPECT = 8,
    SEEN_AUTHORIZATION = 16,
    SEEN_CONNECTION = 32
};

static const struct {
    const char *name;
    unsigned bit;
    bool many;
} head_known[] = {
    {"host", SEEN_HOST, false},
    {"content-length", SEEN_LENGTH, false},
    {"expect", SEEN_EXPECT, false},
    {"transfer-encoding", SEEN_CODING, false},
    {"connection", SEEN_CONNECTION, true},
    {"authorization", SEEN_AUTHORIZATION, false},
};

static bool head_host_text(const char *host) {
    for (const char *p = host; *p; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (!letter && !strchr(".-_:[]", *p))
            return false;
    }
    return true;
}

static int head_value(struct http_request *request, unsigned bit, const char *value, struct err *err) {
    uint64_t length;
    switch (bit) {
    case SEEN_HOST:
        request->host = value;
        if (head_host_text(value))
            return 0;
        return head_refuse(err, 400, ERR_INVALID, "the Host header is not a host name");
    case SEEN_LENGTH:
        if (!text_u64(value, INT64_MAX, &length))
            return head_refuse(err, 400, ERR_INVALID, "Content-Length is not a number");
        request->body_kind = length ? BODY_LENGTH : BODY_NONE;
        request->body_left = length;
        request->body_length = (int64_t)length;
        return 0;
    case SEEN_CODING:
        if (strcasecmp(value, "chunked") != 0)
            return head_refuse(err, 501, ERR_UNSUPPORTED, "Transfer-Encoding may only be 'chunked'");
        if (request->http10)
            return head_refuse(err, 400, ERR_INVALID, "HTTP/1.0 has no Transfer-Encoding");
        request->body_kind = BODY_CHUNKED;
        request->body_length = -1;
        return 0;
    case SEEN_EXPECT:
        if (strcasecmp(value, "100-continue") != 0)
            return head_refuse(err, 417, ERR_INVALID, "Expect may only be '100-continue'");
        request->expect = !request->http10;
        return 0;
    case SEEN_CONNECTION:
        if (http_list_has(value, "close"))
            request->keep_alive = false;
        if (http_list_has(value, "upgrade"))
            request->upgrade = true;
        return 0;
    default:
        return 0;
    }
}

static int head_meaning(struct http_request *request, struct err *err) {
    unsigned seen = 0;
    request->keep_alive = !request->http10;
    for (size_t i = 0; i < request->header_count; i++) {
        for (size_t k = 0; k < sizeof head_known / sizeof head_known[0]; k++) {
            if (strcmp(request->headers[i].name, head_known[k].name) != 0)
                continue;
            if ((seen & head_known[k].bit) && !head_known[k].many)
                return head_refuse(err, 400, ERR_INVALID, "header '%s' is given twice", head_known[k].name);
            seen |= head_known[k].bit;
            int status = head_value(request, head_known[k].bit, request->headers[i].value, err);
            if (status)
                return status;
            break;
        }
    }
    if ((seen & SEEN_LENGTH) && (seen & SEEN_CODING))
        return head_refuse(err, 400, ERR_INVALID, "Content-Length and Transfer-Encoding exclude each other");
    if (!(seen & SEEN_HOST) && !request->http10)
        return head_refuse(err, 400, ERR_INVALID, "a request of HTTP/1.1 needs a Host header");
    return 0;
}
