/* Heads of requests and answers as text (framing.h): a strict byte check, then llhttp.
 *
 * The byte check comes first because llhttp 8.1 accepts bare CR or LF, folded lines and a space before the colon, each
 * of which another parser in the chain may read differently (request smuggling). It also finds the end of the head, so
 * llhttp always sees a complete head and its spans are never split. Called by head.c, response.c and the gate. */
#include <llhttp.h>

#include "base/base.h"
#include "http/framing.h"
#include "http/response.h"

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

void head_scan_answer(struct head_scan *scan) {
    *scan = (struct head_scan){.state = SCAN_STATUS};
}

static bool head_is_token(uint8_t c) {
    static const uint8_t table[256] = {
        ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1,         ['&'] = 1,         ['\''] = 1,
        ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,         ['^'] = 1,         ['_'] = 1,
        ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1,
    };
    return table[c];
}

/* Checks one byte that is not the last of the head. Returns 0, or the status to refuse with. */
static int head_scan_byte(struct head_scan *scan, const char *data, uint8_t c) {
    switch (scan->state) {
    case SCAN_BEGIN: /* RFC 9112 2.2: an empty line or two before a request is ignored */
        scan->state = c == '\r' && scan->at < SKIP_BYTES ? SCAN_SKIP_LF : SCAN_METHOD;
        return c == '\r' ? (scan->at < SKIP_BYTES ? 0 : 400) : head_is_token(c) ? 0 : 400;
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
        return !head_is_token(c) ? 400 : scan->at - scan->start >= METHOD_BYTES ? 501 : 0;
    case SCAN_TARGET:
        if (c == ' ') {
            scan->state = SCAN_VERSION;
            return scan->at > scan->target ? 0 : 400;
        }
        return c < 0x21 || c > 0x7e ? 400 : scan->at - scan->target >= LIMIT_URI_BYTES ? 414 : 0;
    case SCAN_VERSION:
        if (c == '\r') {
            scan->state = SCAN_LINE_LF;
            /* The request line ends at data + len: is its version supported? */
            if (scan->at < 9 || data[scan->at - 9] != ' ' || memcmp(data + scan->at - 8, "HTTP/", 5) != 0 ||
                data[scan->at - 2] != '.')
                return 400;
            return data[scan->at - 3] == '1' && (data[scan->at - 1] == '1' || data[scan->at - 1] == '0') ? 0 : 505;
        }
        return strchr("HTP/.0123456789", c) && c ? 0 : 400;
    case SCAN_LINE_LF:
        scan->state = SCAN_LINE;
        return c == '\n' ? 0 : 400;
    case SCAN_LINE:
        scan->state = c == '\r' ? SCAN_END_LF : SCAN_NAME;
        if (c == '\r')
            return 0;
        return !head_is_token(c) ? 400 : ++scan->headers > LIMIT_HEADERS ? 431 : 0;
    case SCAN_NAME:
        if (c == ':')
            scan->state = SCAN_VALUE;
        return c == ':' || head_is_token(c) ? 0 : 400;
    case SCAN_STATUS: /* response.c checks its content */
    case SCAN_VALUE:
        if (c == '\r')
            scan->state = SCAN_LINE_LF;
        return c == '\r' || c == '\t' || (c >= 0x20 && c != 0x7f) ? 0 : 400;
    default: /* SCAN_END_LF with anything but LF */
        return 400;
    }
}

int head_scan(struct head_scan *scan, const char *data, size_t len) {
    while (scan->at < len) {
        if (scan->state == SCAN_VALUE) { /* the common case, in a tight loop */
            while (scan->at < len && (uint8_t)data[scan->at] >= 0x20 && data[scan->at] != 0x7f)
                scan->at++;
            if (scan->at > LIMIT_HEAD_BYTES)
                return -431;
            if (scan->at == len)
                return 0;
        }
        uint8_t c = (uint8_t)data[scan->at];
        bool end = scan->state == SCAN_END_LF && c == '\n';
        int status = end ? 0 : head_scan_byte(scan, data, c);
        if (status)
            return -status;
        if (++scan->at > LIMIT_HEAD_BYTES)
            return scan->state == SCAN_TARGET ? -414 : -431;
        if (end)
            return (int)scan->at;
    }
    return 0;
}

/* ---- llhttp ---- */

struct head_parse {
    llhttp_t parser; /* must be first: callbacks get its address */
    struct head_words *words;
    size_t target_len, name_len[LIMIT_HEADERS], value_len[LIMIT_HEADERS];
    bool complete;
};

static int head_on_url(llhttp_t *parser, const char *at, size_t len) {
    struct head_parse *parse = (struct head_parse *)parser;
    parse->words->target = len ? (char *)(uintptr_t)at : NULL;
    parse->target_len = len;
    return 0;
}

static int head_on_name(llhttp_t *parser, const char *at, size_t len) {
    struct head_parse *parse = (struct head_parse *)parser;
    struct head_words *words = parse->words;
    if (words->count >= LIMIT_HEADERS)
        return HPE_USER;
    words->fields[words->count] = (struct http_field){at, ""};
    parse->value_len[words->count] = 0;
    parse->name_len[words->count++] = len;
    return 0;
}

static int head_on_value(llhttp_t *parser, const char *at, size_t len) {
    struct head_parse *parse = (struct head_parse *)parser;
    struct head_words *words = parse->words;
    if (!words->count)
        return HPE_USER;
    words->fields[words->count - 1].value = len ? at : "";
    parse->value_len[words->count - 1] = len;
    return 0;
}

static int head_on_complete(llhttp_t *parser) {
    ((struct head_parse *)parser)->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t head_settings = {
    .on_url = head_on_url,
    .on_header_field = head_on_name,
    .on_header_value = head_on_value,
    .on_headers_complete = head_on_complete,
};

/* Ends every span with a NUL, over the colon, space or CR that follows it. */
void head_words(bool answer, char *data, size_t len, struct head_words *words) {
    struct head_parse parse;
    parse.words = words;
    parse.complete = false;
    words->target = NULL;
    words->count = 0;
    llhttp_init(&parse.parser, answer ? HTTP_RESPONSE : HTTP_REQUEST, &head_settings);
    words->error = (int)llhttp_execute(&parse.parser, data, len);
    const char *reason = llhttp_get_error_reason(&parse.parser);
    words->reason = parse.complete && (answer || words->target) ? NULL : reason ? reason : "incomplete";
    words->method = llhttp_get_method(&parse.parser);
    words->minor = llhttp_get_http_minor(&parse.parser);
    words->status = llhttp_get_status_code(&parse.parser);
    if (words->reason)
        return;
    if (words->target)
        words->target[parse.target_len] = 0;
    for (size_t i = 0; i < words->count; i++) {
        char *name = (char *)(uintptr_t)words->fields[i].name, *value = (char *)(uintptr_t)words->fields[i].value;
        size_t end = parse.value_len[i];
        for (size_t k = 0; k < parse.name_len[i]; k++)
            if (name[k] >= 'A' && name[k] <= 'Z')
                name[k] = (char)(name[k] | 0x20);
        name[parse.name_len[i]] = 0;
        while (end && (value[end - 1] == ' ' || value[end - 1] == '\t'))
            end--;
        if (parse.value_len[i])
            value[end] = 0;
    }
}

bool http_list_has(const char *list, const char *token) {
    size_t want = strlen(token);
    while (*list) {
        list += strspn(list, " \t,");
        size_t len = strcspn(list, ",");
        size_t word = len;
        while (word && (list[word - 1] == ' ' || list[word - 1] == '\t'))
            word--;
        if (word == want && strncasecmp(list, token, want) == 0)
            return true;
        list += len;
    }
    return false;
}
