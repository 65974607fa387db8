/* Server-sent events: lines into events. Not to break: one line and one event are bounded, whatever the daemon sends. */
#include "cli/event.h"

#include <jansson.h>
#include <string.h>

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

static int event_end(struct event_reader *reader) {
    int code = 0;
    if (reader->data.len)
        code = reader->each(reader->user, reader->name, (const char *)reader->data.data, reader->data.len);
    buf_clear(&reader->data);
    reader->name[0] = 0;
    return code;
}

static int event_line(struct event_reader *reader) {
    size_t len = reader->line.len;
    const char *line = (const char *)reader->line.data;
    if (len && line[len - 1] == '\r')
        len--;
    if (len == 0)
        return event_end(reader);
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

void event_error(const json_t *json, struct err *ret_error) {
    char *text = json_dumps(json, JSON_COMPACT);
    struct buf body = {.data = (uint8_t *)text, .len = text ? strlen(text) : 0};
    remote_status(500, &body, ret_error);
    free(text);
}
