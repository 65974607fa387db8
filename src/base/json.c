/* The JSON writer. Called by doors and the command line. Not to break: its output is always valid UTF-8 JSON. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"

void json_init(struct json *json, struct buf *out) {
    *json = (struct json){.out = out};
}

static void json_next(struct json *json) {
    if (json->comma)
        buf_byte(json->out, ',');
    json->comma = true;
}

void json_open(struct json *json, char bracket) {
    json_next(json);
    buf_byte(json->out, (uint8_t)bracket);
    json->comma = false;
}

void json_close(struct json *json, char bracket) {
    buf_byte(json->out, (uint8_t)bracket);
    json->comma = true;
}

static void json_escaped(struct buf *out, uint8_t c) {
    static const char short_names[] = "btn?fr";
    if (c == '"' || c == '\\') {
        uint8_t pair[2] = {'\\', c};
        buf_put(out, pair, 2);
    } else if (c >= 8 && c <= 13 && c != 11) {
        uint8_t pair[2] = {'\\', (uint8_t)short_names[c - 8]};
        buf_put(out, pair, 2);
    } else {
        buf_printf(out, "\\u%04x", c);
    }
}

static void json_quoted(struct buf *out, const uint8_t *p, size_t len) {
    buf_byte(out, '"');
    size_t start = 0;
    for (size_t i = 0; i < len; i++) {
        if (p[i] >= 32 && p[i] != '"' && p[i] != '\\' && p[i] != 127)
            continue;
        buf_put(out, p + start, i - start);
        json_escaped(out, p[i]);
        start = i + 1;
    }
    buf_put(out, p + start, len - start);
    buf_byte(out, '"');
}

/* Names that should be text but came as other bytes: each bad byte shown as U+FFFD. */
static void json_repaired(struct buf *out, const uint8_t *p, size_t len) {
    buf_byte(out, '"');
    for (size_t i = 0; i < len;) {
        size_t n = 1;
        while (n < 4 && i + n < len && !text_utf8(p + i, n))
            n++;
        if (!text_utf8(p + i, n)) {
            buf_puts(out, "\xef\xbf\xbd");
            i++;
            continue;
        }
        if (n == 1 && (p[i] < 32 || p[i] == '"' || p[i] == '\\' || p[i] == 127))
            json_escaped(out, p[i]);
        else
            buf_put(out, p + i, n);
        i += n;
    }
    buf_byte(out, '"');
}

void json_strn(struct json *json, const void *text, size_t len) {
    json_next(json);
    if (text_utf8(text, len))
        json_quoted(json->out, text, len);
    else
        json_repaired(json->out, text, len);
}

void json_str(struct json *json, const char *text) {
    if (text)
        json_strn(json, text, strlen(text));
    else
        json_nil(json);
}

void json_key(struct json *json, const char *key) {
    json_str(json, key);
    buf_byte(json->out, ':');
    json->comma = false;
}

void json_int(struct json *json, int64_t value) {
    json_next(json);
    buf_printf(json->out, "%lld", (long long)value);
}

void json_uint(struct json *json, uint64_t value) {
    json_next(json);
    buf_printf(json->out, "%llu", (unsigned long long)value);
}

void json_double(struct json *json, double value) {
    if (!isfinite(value)) {
        json_nil(json);
        return;
    }
    json_next(json);
    buf_printf(json->out, "%.3f", value);
}

void json_bool(struct json *json, bool value) {
    json_next(json);
    buf_puts(json->out, value ? "true" : "false");
}

void json_raw(struct json *json, const char *text, size_t len) {
    json_next(json);
    buf_put(json->out, text, len);
}

void json_nil(struct json *json) {
    json_next(json);
    buf_puts(json->out, "null");
}

void json_time(struct json *json, uint64_t wall_ms) {
    char text[CLOCK_TEXT_BYTES];
    json_str(json, wall_ms ? clock_text(wall_ms, text) : NULL);
}

void json_bytes(struct json *json, const void *data, size_t len, bool utf8) {
    json_next(json);
    if (utf8) {
        json_quoted(json->out, data, len);
        return;
    }
    buf_byte(json->out, '"');
    text_base64(json->out, data, len);
    buf_byte(json->out, '"');
}

void json_failure(struct json *json, const char *code, const char *message) {
    json_open(json, '{');
    json_key(json, "error");
    json_open(json, '{');
    json_key(json, "code");
    json_str(json, code);
    json_key(json, "message");
    json_str(json, message);
    json_close(json, '}');
    json_close(json, '}');
}
