/* The JSON writer. Called by dialects and the command line. Invariant: its output is always valid UTF-8 JSON. */
#include <math.h>

#include "base/base.h"
#include "base/json.h"

enum { JSON_ESCAPE_BYTES = 6 };

void json_init(struct json *json, struct buf *out) {
    *json = (struct json){.out = out};
}

void json_put_texts(struct json *json, const char *key, const char *const *list) {
    json_put_open(json, key, '[');
    for (; list && *list; list++)
        json_str(json, *list);
    json_close(json, ']');
}

struct json json_list(struct buf *out) {
    struct json json = {.out = out};
    json_open(&json, '[');
    return json;
}

struct json json_begin(struct buf *out) {
    struct json json = {.out = out};
    json_open(&json, '{');
    return json;
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

/* One byte that needs it as its escape, at most JSON_ESCAPE_BYTES. */
static size_t json_escape(uint8_t c, char out[JSON_ESCAPE_BYTES]) {
    static const char short_names[] = "btn?fr", digits[] = "0123456789abcdef";
    out[0] = '\\';
    if (c == '"' || c == '\\') {
        out[1] = (char)c;
        return 2;
    }
    if (c >= 8 && c <= 13 && c != 11) {
        out[1] = short_names[c - 8];
        return 2;
    }
    memcpy(out + 1, "u00", 3);
    out[4] = digits[c >> 4];
    out[5] = digits[c & 15];
    return 6;
}

/* Which of eight bytes, the first in the lowest, need an escape: 0 when none; else the lowest bit that is set belongs
 * to the first of them (those above it may err). */
static uint64_t json_marks(uint64_t eight) {
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    uint64_t quote = eight ^ ones * '"', back = eight ^ ones * '\\', del = eight ^ ones * 127;
    return (((eight - ones * 32) & ~eight) | ((quote - ones) & ~quote) | ((back - ones) & ~back) |
            ((del - ones) & ~del)) &
           highs;
}

/* How many of the first bytes, in sixteens, need no escape. */
static size_t json_plain(const uint8_t *p, size_t len) {
    typedef uint8_t sixteen __attribute__((vector_size(16)));
    size_t at = 0;
    for (sixteen x; len - at >= sizeof x; at += sizeof x) {
        uint64_t marks[2];
        memcpy(&x, p + at, sizeof x);
        sixteen found = (sixteen)(x < 32) | (sixteen)(x == '"') | (sixteen)(x == '\\') | (sixteen)(x == 127);
        memcpy(marks, &found, sizeof marks);
        if (marks[0] | marks[1])
            break;
    }
    return at;
}

/* Every text of every answer comes by here: many bytes at a time, straight into memory that holds the worst case. */
static size_t json_quote_piece(uint8_t *to, const uint8_t *p, size_t len) {
    uint8_t *start = to;
    for (size_t at = 0; at < len;) {
        size_t plain = json_plain(p + at, len - at);
        memcpy(to, p + at, plain);
        to += plain;
        at += plain;
        uint64_t eight = 0x2020202020202020u;
        size_t n = len - at < sizeof eight ? len - at : sizeof eight;
        memcpy(&eight, p + at, n);
        uint64_t marks = json_marks(le64toh(eight));
        plain = marks ? (size_t)__builtin_ctzll(marks) / 8 : n;
        memcpy(to, &eight, sizeof eight);
        to += plain;
        at += plain;
        if (marks)
            to += json_escape(p[at++], (char *)to);
    }
    return (size_t)(to - start);
}

static void json_quoted(struct buf *out, const uint8_t *p, size_t len) {
    enum { PIECE_BYTES = 1024 };
    buf_byte(out, '"');
    while (len && !out->failed) {
        uint8_t worst[PIECE_BYTES * JSON_ESCAPE_BYTES + 8];
        size_t n = len < PIECE_BYTES ? len : PIECE_BYTES, room = n * JSON_ESCAPE_BYTES + 8;
        if (out->max - out->len > room) {
            uint8_t *to = buf_reserve(out, room);
            out->len += json_quote_piece(to, p, n);
        } else { /* near the maximum it is the real length that counts */
            buf_put(out, worst, json_quote_piece(worst, p, n));
        }
        p += n;
        len -= n;
    }
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
        if (n == 1 && (p[i] < 32 || p[i] == '"' || p[i] == '\\' || p[i] == 127)) {
            char text[JSON_ESCAPE_BYTES];
            buf_put(out, text, json_escape(p[i], text));
        } else {
            buf_put(out, p + i, n);
        }
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

void json_keyn(struct json *json, const char *key, size_t len) {
    json_strn(json, key, len);
    buf_byte(json->out, ':');
    json->comma = false;
}

void json_key(struct json *json, const char *key) {
    json_keyn(json, key, strlen(key));
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
    json_put_open(json, "error", '{');
    json_put_str(json, "code", code);
    json_put_str(json, "message", message);
    json_close(json, '}');
    json_close(json, '}');
}

enum json_size json_measure(const char *data, size_t len, unsigned depth_max, unsigned values_max) {
    unsigned depth = 0, values = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
            continue;
        }
        quoted = c == '"';
        bool opens = c == '{' || c == '[';
        if (opens && ++depth > depth_max)
            return JSON_DEEP;
        if ((c == '}' || c == ']') && depth)
            depth--;
        if ((opens || c == ',') && ++values > values_max)
            return JSON_MANY;
    }
    return JSON_FITS;
}
