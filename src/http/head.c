/* The head of a request: a strict byte check, then llhttp, then what the headers mean for framing.
 *
 * The byte check stands in front because llhttp 8.1 lets bare CR or LF, folded lines and a space before the colon pass,
 * each of which another parser in the chain may read differently (request smuggling). It also finds the head's end, so
 * llhttp always sees a whole head and its spans are never split. Called by conn.c. Invariant: nothing after
 * head_scan may be more lenient than it. */
#include <llhttp.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "http/internal.h"

enum {
    SCAN_BEGIN,
    SCAN_SKIP_LF,
    SCAN_METHOD,
    SCAN_TARGET,
    SCAN_VERSION,
    SCAN_LINE_LF,
    SCAN_LINE,
    SCAN_NAME,
    SCAN_VALUE,
    SCAN_END_LF,
    SCAN_STATUS,
};

enum { METHOD_BYTES = 32, SKIP_BYTES = 4 };

static int scan_byte(struct head_scan *scan, const char *data, uint8_t c);
static int scan_version(const char *line_end, size_t len);
static bool is_token(uint8_t c);

void head_scan_answer(struct head_scan *scan) {
    *scan = (struct head_scan){.state = SCAN_STATUS};
}

int head_scan(struct head_scan *scan, const char *data, size_t len) {
    while (scan->at < len) {
        if (scan->state == SCAN_VALUE) { /* most bytes are these: run over them at once */
            while (scan->at < len && (uint8_t)data[scan->at] >= 0x20 && data[scan->at] != 0x7f)
                scan->at++;
            if (scan->at > LIMIT_HEAD_BYTES)
                return -431;
            if (scan->at == len)
                return 0;
        }
        uint8_t c = (uint8_t)data[scan->at];
        bool end = scan->state == SCAN_END_LF && c == '\n';
        int status = end ? 0 : scan_byte(scan, data, c);
        if (status)
            return -status;
        if (++scan->at > LIMIT_HEAD_BYTES)
            return scan->state == SCAN_TARGET ? -414 : -431;
        if (end)
            return (int)scan->at;
    }
    return 0;
}

/* One byte that is not the head's last. 0 or the status to refuse with. */
static int scan_byte(struct head_scan *scan, const char *data, uint8_t c) {
    switch (scan->state) {
    case SCAN_BEGIN: /* RFC 9112 2.2: an empty line or two before a request is ignored */
        scan->state = c == '\r' && scan->at < SKIP_BYTES ? SCAN_SKIP_LF : SCAN_METHOD;
        return c == '\r' ? (scan->at < SKIP_BYTES ? 0 : 400) : is_token(c) ? 0 : 400;
    case SCAN_SKIP_LF:
        scan->start = (uint8_t)(scan->at + 1);
        scan->state = SCAN_BEGIN;
        return c == '\n' ? 0 : 400;
    case SCAN_METHOD:
        if (c == ' ') {
            scan->state = SCAN_TARGET;
            scan->target = scan->at + 1;
            return 0;
        }
        return !is_token(c) ? 400 : scan->at - scan->start >= METHOD_BYTES ? 501 : 0;
    case SCAN_TARGET:
        if (c == ' ') {
            scan->state = SCAN_VERSION;
            return scan->at > scan->target ? 0 : 400;
        }
        return c < 0x21 || c > 0x7e ? 400 : scan->at - scan->target >= LIMIT_URI_BYTES ? 414 : 0;
    case SCAN_VERSION:
        if (c == '\r') {
            scan->state = SCAN_LINE_LF;
            return scan_version(data, scan->at);
        }
        return strchr("HTP/.0123456789", c) && c ? 0 : 400;
    case SCAN_LINE_LF:
        scan->state = SCAN_LINE;
        return c == '\n' ? 0 : 400;
    case SCAN_LINE:
        scan->state = c == '\r' ? SCAN_END_LF : SCAN_NAME;
        if (c == '\r')
            return 0;
        return !is_token(c) ? 400 : ++scan->headers > LIMIT_HEADERS ? 431 : 0;
    case SCAN_NAME:
        if (c == ':')
            scan->state = SCAN_VALUE;
        return c == ':' || is_token(c) ? 0 : 400;
    case SCAN_STATUS: /* its words are response.c's to judge */
    case SCAN_VALUE:
        if (c == '\r')
            scan->state = SCAN_LINE_LF;
        return c == '\r' || c == '\t' || (c >= 0x20 && c != 0x7f) ? 0 : 400;
    default: /* SCAN_END_LF with anything but LF */
        return 400;
    }
}

/* The request line ends at data + len: is its version one of ours? */
static int scan_version(const char *data, size_t len) {
    if (len < 9 || data[len - 9] != ' ' || memcmp(data + len - 8, "HTTP/", 5) != 0 || data[len - 2] != '.')
        return 400;
    return data[len - 3] == '1' && (data[len - 1] == '1' || data[len - 1] == '0') ? 0 : 505;
}

static bool is_token(uint8_t c) {
    static const uint8_t table[256] = {
        ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1,         ['&'] = 1,         ['\''] = 1,
        ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,         ['^'] = 1,         ['_'] = 1,
        ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1,
    };
    return table[c];
}

/* ---- llhttp ---- */

struct span {
    char *at;
    size_t len;
};

struct parse {
    llhttp_t parser; /* first: callbacks get its address */
    struct span target;
    struct span names[LIMIT_HEADERS], values[LIMIT_HEADERS];
    size_t count;
    bool complete;
};

static int on_url(llhttp_t *parser, const char *at, size_t len) {
    struct parse *parse = (struct parse *)parser;
    parse->target = (struct span){(char *)at, len};
    return 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t len) {
    struct parse *parse = (struct parse *)parser;
    if (parse->count >= LIMIT_HEADERS)
        return HPE_USER;
    parse->names[parse->count] = (struct span){(char *)at, len};
    parse->values[parse->count++] = (struct span){NULL, 0};
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len) {
    struct parse *parse = (struct parse *)parser;
    if (!parse->count)
        return HPE_USER;
    parse->values[parse->count - 1] = (struct span){(char *)at, len};
    return 0;
}

static int on_complete(llhttp_t *parser) {
    ((struct parse *)parser)->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t head_settings = {
    .on_url = on_url,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_complete,
};

static void head_strings(struct http_request *request, struct parse *parse);
static int head_meaning(struct http_request *request, struct err *err);

int head_parse(struct http_request *request, char *data, size_t len, struct err *err) {
    struct parse parse;
    parse.count = 0;
    parse.complete = false;
    parse.target = (struct span){NULL, 0};
    llhttp_init(&parse.parser, HTTP_REQUEST, &head_settings);
    llhttp_errno_t result = llhttp_execute(&parse.parser, data, len);
    if (result == HPE_INVALID_METHOD) {
        err_set(err, ERR_UNSUPPORTED, "this server does not know the request's method");
        return 501;
    }
    if (result == HPE_INVALID_TRANSFER_ENCODING) {
        err_set(err, ERR_UNSUPPORTED, "Transfer-Encoding may only be 'chunked'");
        return 501;
    }
    if (!parse.complete || !parse.target.len) {
        const char *reason = llhttp_get_error_reason(&parse.parser);
        err_set(err, ERR_INVALID, "malformed request head: %s", reason ? reason : "incomplete");
        return 400;
    }
    request->method = llhttp_method_name((llhttp_method_t)llhttp_get_method(&parse.parser));
    request->is_head = llhttp_get_method(&parse.parser) == HTTP_HEAD;
    request->http10 = llhttp_get_http_minor(&parse.parser) == 0;
    head_strings(request, &parse);
    if (llhttp_get_method(&parse.parser) == HTTP_CONNECT) {
        err_set(err, ERR_UNSUPPORTED, "this server is no proxy: CONNECT is not served");
        return 501;
    }
    int status = head_meaning(request, err);
    return status ? status : head_target(request, request->target, err);
}

/* Ends every span with a NUL: behind each stands a colon, a space or a CR that nobody needs any more. */
static void head_strings(struct http_request *request, struct parse *parse) {
    parse->target.at[parse->target.len] = 0;
    request->target = parse->target.at;
    for (size_t i = 0; i < parse->count; i++) {
        struct span name = parse->names[i], value = parse->values[i];
        for (size_t k = 0; k < name.len; k++)
            if (name.at[k] >= 'A' && name.at[k] <= 'Z')
                name.at[k] = (char)(name.at[k] | 0x20);
        name.at[name.len] = 0;
        while (value.len && (value.at[value.len - 1] == ' ' || value.at[value.len - 1] == '\t'))
            value.len--;
        if (value.at)
            value.at[value.len] = 0;
        request->headers[i] = (struct header){name.at, value.at ? value.at : ""};
    }
    request->header_count = parse->count;
}

/* ---- what the headers mean ---- */

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

static int head_value(struct http_request *request, unsigned bit, const char *value, struct err *err);
static bool host_text(const char *host);

static int head_meaning(struct http_request *request, struct err *err) {
    unsigned seen = 0;
    request->keep_alive = !request->http10;
    for (size_t i = 0; i < request->header_count; i++) {
        for (size_t k = 0; k < sizeof head_known / sizeof head_known[0]; k++) {
            if (strcmp(request->headers[i].name, head_known[k].name) != 0)
                continue;
            if ((seen & head_known[k].bit) && !head_known[k].many) {
                err_set(err, ERR_INVALID, "header '%s' is given twice", head_known[k].name);
                return 400;
            }
            seen |= head_known[k].bit;
            int status = head_value(request, head_known[k].bit, request->headers[i].value, err);
            if (status)
                return status;
            break;
        }
    }
    if ((seen & SEEN_LENGTH) && (seen & SEEN_CODING)) {
        err_set(err, ERR_INVALID, "Content-Length and Transfer-Encoding exclude each other");
        return 400;
    }
    if (!(seen & SEEN_HOST) && !request->http10) {
        err_set(err, ERR_INVALID, "a request of HTTP/1.1 needs a Host header");
        return 400;
    }
    return 0;
}

static int head_value(struct http_request *request, unsigned bit, const char *value, struct err *err) {
    uint64_t length;
    switch (bit) {
    case SEEN_HOST:
        request->host = value;
        if (host_text(value))
            return 0;
        err_set(err, ERR_INVALID, "the Host header is not a host name");
        return 400;
    case SEEN_LENGTH:
        if (!text_u64(value, INT64_MAX, &length)) {
            err_set(err, ERR_INVALID, "Content-Length is not a number");
            return 400;
        }
        request->body_kind = length ? BODY_LENGTH : BODY_NONE;
        request->body_left = length;
        request->body_length = (int64_t)length;
        return 0;
    case SEEN_CODING:
        if (strcasecmp(value, "chunked") != 0) {
            err_set(err, ERR_UNSUPPORTED, "Transfer-Encoding may only be 'chunked'");
            return 501;
        }
        if (request->http10) {
            err_set(err, ERR_INVALID, "HTTP/1.0 has no Transfer-Encoding");
            return 400;
        }
        request->body_kind = BODY_CHUNKED;
        request->body_length = -1;
        return 0;
    case SEEN_EXPECT:
        if (strcasecmp(value, "100-continue") != 0) {
            err_set(err, ERR_INVALID, "Expect may only be '100-continue'");
            return 417;
        }
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

static bool host_text(const char *host) {
    for (const char *p = host; *p; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (!letter && !strchr(".-_:[]", *p))
            return false;
    }
    return true;
}
