/* Server-sent events: makes events of lines. Invariant: a line and an event are bounded, whatever the daemon sends. */
#include "cli/rest/event.h"

#include <jansson.h>

#include "base/base.h"
#include "base/url.h"
#include "cli/cli.h"

#define EVENT_BYTES (4u << 20)

void event_init(struct event_reader *reader, int (*each)(void *user, const char *name, const char *data, size_t len),
                void *user) {
    *reader = (struct event_reader){.each = each, .user = user};
    buf_init(&reader->line, EVENT_BYTES);
    buf_init(&reader->data, EVENT_BYTES);
}

void event_done(struct event_reader *reader) {
    buf_done(&reader->line);
    buf_done(&reader->data);
}

static int event_line(struct event_reader *reader) {
    size_t len = reader->line.len;
    const char *line = (const char *)reader->line.data;
    if (len && line[len - 1] == '\r')
        len--;
    if (len == 0) { /* the end of an event */
        const char *data = (const char *)reader->data.data;
        int code = reader->data.len ? reader->each(reader->user, reader->name, data, reader->data.len) : 0;
        buf_clear(&reader->data);
        reader->name[0] = 0;
        return code;
    }
    const char *colon = memchr(line, ':', len);
    size_t key = colon ? (size_t)(colon - line) : len, skip = key + (colon ? 1 : 0);
    if (skip < len && line[skip] == ' ')
        skip++;
    if (key == 5 && memcmp(line, "event", 5) == 0)
        snprintf(reader->name, sizeof reader->name, "%.*s", (int)(len - skip), line + skip);
    if (key == 4 && memcmp(line, "data", 4) == 0) {
        if (reader->data.len)
            buf_byte(&reader->data, '\n');
        buf_put(&reader->data, line + skip, len - skip);
    }
    return reader->data.failed ? -1 : 0;
}

int event_feed(struct event_reader *reader, const char *data, size_t len) {
    while (len) {
        const char *end = memchr(data, '\n', len);
        size_t piece = end ? (size_t)(end - data) : len;
        buf_put(&reader->line, data, piece);
        if (reader->line.failed)
            return -1;
        if (!end)
            return 0;
        int code = event_line(reader);
        buf_clear(&reader->line);
        if (code < 0)
            return code;
        data += piece + 1;
        len -= piece + 1;
    }
    return 0;
}

/* Parses four hexadecimal digits. Returns -1 if they are not. */
static int event_hex(const char *p, const char *end) {
    int value = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = url_digit(p[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Decodes one escape at p (after the backslash) into out. Returns the bytes it took, or 0 if it is not a plain one. */
static size_t event_escape(const char *p, const char *end, struct buf *out) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (p == end)
        return 0;
    const char *at = *p ? strchr(names, *p) : NULL;
    if (at) {
        buf_byte(out, (uint8_t)values[at - names]);
        return 1;
    }
    /* The daemon escapes only control characters this way; everything else is left to the parser. */
    int value = *p == 'u' ? event_hex(p + 1, end) : -1;
    if (value < 0 || value >= 128)
        return 0;
    buf_byte(out, (uint8_t)value);
    return 5;
}

bool event_data(const char *data, size_t len, struct buf *out) {
    static const char begin[] = "{\"data\":\"", utf8[] = "\",\"encoding\":\"utf-8\"}";
    static const char base64[] = "\",\"encoding\":\"base64\"}";
    size_t head = sizeof begin - 1;
    if (len < head || memcmp(data, begin, head) != 0)
        return false;
    const char *p = data + head, *end = data + len;
    if (len > head + sizeof base64 - 1 && memcmp(end - sizeof base64 + 1, base64, sizeof base64 - 1) == 0)
        return text_unbase64(out, p, (size_t)(end - p) - (sizeof base64 - 1));
    if (len < head + sizeof utf8 - 1 || memcmp(end - sizeof utf8 + 1, utf8, sizeof utf8 - 1) != 0)
        return false;
    end -= sizeof utf8 - 1;
    while (p < end) {
        const char *stop = p;
        while (stop < end && *stop != '\\' && *stop != '"')
            stop++;
        buf_put(out, p, (size_t)(stop - p));
        if (stop == end)
            break;
        size_t took = *stop == '"' ? 0 : event_escape(stop + 1, end, out);
        if (took == 0)
            return false;
        p = stop + 1 + took;
    }
    return !out->failed;
}

void event_error(const json_t *json, struct err *ret_error) {
    const json_t *error = json_object_get(json, "error") ? json_object_get(json, "error") : json;
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *message = json_string_value(json_object_get(error, "message"));
    err_set(ret_error, (enum err_code)remote_code(code ? code : ""), "%s",
            message ? message : "the daemon gave no reason");
}
