/* Heads, chunks and frames of an engine's answers: see engine/http.h. Called by the engine client alone. */
#include "backend/docker/engine/http.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define CHUNK_DIGITS 15u           /* of a size: more than any disk has */
#define CHUNK_EXTENSION_BYTES 256u /* behind it */
#define TRAILER_BYTES 8192u        /* behind the last one */

static int head_broken(struct err *err, const char *what) {
    return err_set(err, ERR_PROTOCOL, "its answer is no HTTP (%s)", what);
}

/* ---- heads ---- */

static bool word_in(const char *value, size_t len, const char *word) {
    size_t word_len = strlen(word);
    while (len) {
        const char *comma = memchr(value, ',', len);
        size_t part = comma ? (size_t)(comma - value) : len, from = 0, to = part;
        while (from < to && isspace((unsigned char)value[from]))
            from++;
        while (to > from && isspace((unsigned char)value[to - 1]))
            to--;
        if (to - from == word_len && strncasecmp(value + from, word, word_len) == 0)
            return true;
        value += comma ? part + 1 : part;
        len -= comma ? part + 1 : part;
    }
    return false;
}

static bool decimal(const char *value, size_t len, int64_t *ret_number) {
    int64_t number = 0;
    if (!len || len > 18)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)value[i]))
            return false;
        number = number * 10 + (value[i] - '0');
    }
    *ret_number = number;
    return true;
}

static int head_field(struct engine_head *head, const char *line, size_t len, struct err *err) {
    const char *colon = memchr(line, ':', len);
    if (!colon || colon == line)
        return head_broken(err, "a field without a name");
    size_t name = (size_t)(colon - line);
    const char *value = colon + 1;
    size_t value_len = len - name - 1;
    while (value_len && (*value == ' ' || *value == '\t'))
        value++, value_len--;
    while (value_len && (value[value_len - 1] == ' ' || value[value_len - 1] == '\t'))
        value_len--;
    if (name == 17 && strncasecmp(line, "Transfer-Encoding", name) == 0) {
        if (value_len != 7 || strncasecmp(value, "chunked", value_len) != 0)
            return head_broken(err, "an encoding that was not asked for");
        head->chunked = true;
    } else if (name == 14 && strncasecmp(line, "Content-Length", name) == 0) {
        int64_t length = 0;
        if (!decimal(value, value_len, &length) || (head->length >= 0 && head->length != length))
            return head_broken(err, "a length that is none");
        head->length = length;
    } else if (name == 10 && strncasecmp(line, "Connection", name) == 0) {
        head->ends |= word_in(value, value_len, "close");
    }
    return 0;
}

static int head_status(struct engine_head *head, const char *line, size_t len, struct err *err) {
    if (len < 12 || strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') || line[8] != ' ' ||
        (len > 12 && line[12] != ' '))
        return head_broken(err, "its first line");
    head->ends = line[7] == '0';
    head->status = 0;
    for (size_t i = 9; i < 12; i++) {
        if (!isdigit((unsigned char)line[i]))
            return head_broken(err, "its status");
        head->status = head->status * 10 + (line[i] - '0');
    }
    return head->status >= 100 && head->status < 600 ? 0 : head_broken(err, "its status");
}

int engine_head_read(const char *data, size_t len, struct engine_head *ret_head, struct err *err) {
    struct engine_head head = {.length = -1};
    size_t at = 0;
    int code = 0;
    for (unsigned lines = 0; at < len; lines++) {
        const char *line = data + at, *end = memchr(line, '\n', len - at);
        if (!end)
            break;
        size_t line_len = (size_t)(end - line);
        at += line_len + 1;
        if (line_len && line[line_len - 1] == '\r')
            line_len--;
        if (at > ENGINE_HEAD_BYTES)
            break;
        if (lines && !line_len) {
            *ret_head = head;
            return (int)at;
        }
        code = lines ? head_field(&head, line, line_len, err) : head_status(&head, line, line_len, err);
        if (code < 0)
            return code;
    }
    if (len >= ENGINE_HEAD_BYTES)
        return head_broken(err, "its head has no end");
    return len >= 5 && strncmp(data, "HTTP/", 5) != 0 ? head_broken(err, "its first line") : 0;
}

/* ---- bodies ---- */

void engine_body_init(struct engine_body *body, const struct engine_head *head, const char *method) {
    *body = (struct engine_body){.kind = BODY_UNTIL_END};
    if (strcmp(method, "HEAD") == 0 || head->status < 200 || head->status == 204 || head->status == 304)
        body->kind = BODY_NONE;
    else if (head->chunked)
        body->kind = BODY_CHUNKS;
    else if (head->length >= 0) {
        body->kind = BODY_LENGTH;
        body->left = (uint64_t)head->length;
    }
    body->done = body->kind == BODY_NONE || (body->kind == BODY_LENGTH && !body->left);
}

static int chunk_broken(struct err *err) {
    return err_set(err, ERR_PROTOCOL, "its answer comes in broken chunks");
}

static int chunk_size_byte(struct engine_body *body, uint8_t byte, struct err *err) {
    if (body->state == CHUNK_SIZE && isxdigit(byte)) {
        if (++body->digits > CHUNK_DIGITS)
            return chunk_broken(err);
        body->left = body->left * 16 + (unsigned)(isdigit(byte) ? byte - '0' : tolower(byte) - 'a' + 10);
        return 0;
    }
    if (!body->digits)
        return chunk_broken(err);
    if (byte == '\n') {
        body->state = body->left ? CHUNK_DATA : CHUNK_TRAILER;
        body->digits = body->line_bytes = 0;
        return 0;
    }
    if (body->state == CHUNK_SIZE && byte != ';' && byte != '\r' && byte != ' ')
        return chunk_broken(err);
    body->state = CHUNK_REST;
    return ++body->line_bytes > CHUNK_EXTENSION_BYTES ? chunk_broken(err) : 0;
}

static int chunk_byte(struct engine_body *body, uint8_t byte, struct err *err) {
    switch (body->state) {
    case CHUNK_SIZE:
    case CHUNK_REST:
        return chunk_size_byte(body, byte, err);
    case CHUNK_CR:
        body->state = CHUNK_LF;
        if (byte == '\r')
            return 0;
        /* fall through */
    case CHUNK_LF:
        body->state = CHUNK_SIZE;
        return byte == '\n' ? 0 : chunk_broken(err);
    case CHUNK_TRAILER:
        if (++body->trailer_bytes > TRAILER_BYTES)
            return chunk_broken(err);
        if (byte == '\n' && !body->line_bytes)
            body->done = true;
        body->line_bytes = byte == '\n' ? 0 : body->line_bytes + (byte != '\r');
        return 0;
    case CHUNK_DATA:
        break;
    }
    return 0;
}

int engine_body_take(struct engine_body *body, const uint8_t *data, size_t len, size_t *ret_used, size_t *ret_len,
                     struct err *err) {
    size_t used = 0, part = 0;
    while (body->kind == BODY_CHUNKS && body->state != CHUNK_DATA && used < len && !body->done) {
        int code = chunk_byte(body, data[used++], err);
        if (code < 0)
            return code;
    }
    if (!body->done && used < len) {
        part = len - used;
        if (body->kind != BODY_UNTIL_END) {
            part = part > body->left ? (size_t)body->left : part;
            body->left -= part;
        }
        if (body->kind == BODY_CHUNKS && !body->left)
            body->state = CHUNK_CR;
        body->done = body->kind == BODY_LENGTH && !body->left;
    }
    *ret_used = used + part;
    *ret_len = part;
    return 0;
}

/* ---- frames ---- */

int engine_frames_take(struct engine_frames *frames, const uint8_t *data, size_t len, size_t *ret_used, size_t *ret_len,
                       int *ret_stream, struct err *err) {
    size_t used = 0, part = 0;
    while (!frames->left && used < len) {
        frames->header[frames->have++] = data[used++];
        if (frames->have < sizeof frames->header)
            continue;
        const uint8_t *h = frames->header;
        if (h[0] > 3 || h[1] || h[2] || h[3])
            return err_set(err, ERR_PROTOCOL, "it sends what is no frame of a stream");
        frames->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
        frames->have = 0;
    }
    if (frames->left) {
        part = len - used > frames->left ? frames->left : len - used;
        frames->left -= (uint32_t)part;
    }
    *ret_used = used + part;
    *ret_len = part;
    *ret_stream = frames->header[0] >= 2 ? 2 : 1;
    return 0;
}
