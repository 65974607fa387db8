/* The body of a write: JSON whose member `content` may be of any length. It is extracted while the body arrives,
 * unescaped, and stored in an unnamed file if it is long; the rest is small and is bound by the route's rows. Called by
 * aio/file.c. Invariant: memory does not grow with the content, and only a JSON string becomes a file. */
#include <jansson.h>

#include "base/headtail.h"
#include "front/aio/file.h"
#include "skill/stage.h"

#define PIECE_BYTES (64u << 10)
#define MEMORY_BYTES (1u << 20) /* of content, before a file is used */
#define RAW_KEPT 12u            /* \\uD83D\\uDE00: longest sequence that must stay together */
#define ESCAPE_BYTES 6u         /* most bytes of JSON per byte of content */
#define REST_BYTES (256u << 10) /* of the body without the content */

/* ---- receiving the content ---- */

uint64_t aio_upload_most(struct http_request *request, const struct box *box, const char **ret_limit) {
    uint64_t most = front_settings(request)->max_upload_bytes, disk_mb = box->spec.limits.disk_mb;
    bool disk = disk_mb && disk_mb < most >> 20;
    *ret_limit = disk ? "the box's disk_mb" : "max_upload_bytes";
    return disk ? disk_mb << 20 : most;
}

static uint64_t content_encoded(uint64_t bytes) {
    return bytes / 3 * 4 + 4; /* as base64 */
}

static int content_not_json(struct err *err, const char *why) {
    return err_set(err, ERR_INVALID, "the content is not a JSON string: %s", why);
}

/* Writes the memory to the file. */
static int content_spill(struct aio_content *content, struct err *err) {
    struct skills *skills = front_of(content->request)->skills;
    if (content->file.fd < 0) {
        const char *limit;
        uint64_t most = aio_upload_most(content->request, content->box, &limit);
        if (!skills)
            return err_set(err, ERR_TOO_LARGE, "the content is larger than %u bytes", MEMORY_BYTES);
        TRY(skills_scratch(skills, content->box->user, content_encoded(most), limit, &content->file, err));
    }
    int failed = scratch_write(&content->file, content->memory.data, content->memory.len, err);
    buf_clear(&content->memory);
    return failed;
}

static int content_put(struct aio_content *content, const void *data, size_t len, struct err *err) {
    const char *limit;
    uint64_t most = aio_upload_most(content->request, content->box, &limit);
    int failed = 0;
    content->len += len;
    if (content->len > content_encoded(most))
        return err_set(err, ERR_TOO_LARGE, "the content is larger than %s allows (%llu)", limit,
                       (unsigned long long)most);
    if (content->memory.len + len > MEMORY_BYTES)
        failed = content_spill(content, err);
    if (failed >= 0)
        buf_put(&content->memory, data, len);
    return failed;
}

void aio_content_done(struct aio_content *content) {
    buf_done(&content->memory);
    scratch_done(&content->file);
    free(content->piece);
    content->piece = NULL;
}

/* ---- the body ---- */

/* The position in the body. Its syntax is not checked here: the rest is parsed with "" in place of the content. */
enum place { OUTSIDE, STRING, ESCAPE, KEY, VALUE, CONTENT };

struct body_reader {
    struct aio_content *content;
    struct buf rest;
    enum place place;
    unsigned depth;
    bool key_next;  /* the next string at depth 1 names a member */
    size_t key_at;  /* where it begins in rest */
    struct buf raw; /* a raw piece of the content, after a quote */
    bool escaped;   /* its last byte was a backslash that begins an escape */
};

/* Returns how much of the raw piece can be decoded: not inside a character or an escape, or between surrogates. */
static size_t content_whole(const struct buf *raw) {
    size_t at = 1;
    while (at < raw->len) {
        const uint8_t *data = raw->data + at;
        bool pair = at + RAW_KEPT <= raw->len && data[1] == 'u' && strchr("dD", data[2]) && strchr("89abAB", data[3]);
        if (*data == '\\' && at + RAW_KEPT > raw->len)
            break;
        at += *data != '\\' ? 1 : pair ? RAW_KEPT : data[1] == 'u' ? RAW_KEPT / 2 : 2;
    }
    at = at < raw->len ? at : raw->len;
    return at - headtail_partial(raw->data, at);
}

/* Decodes the complete part of the raw piece by the JSON library, which checks escapes and UTF-8. last: all of it. */
static int content_decode(struct body_reader *reader, bool last, struct err *err) {
    struct buf *raw = &reader->raw;
    size_t whole = last ? raw->len : content_whole(raw), left = raw->len - whole;
    uint8_t rest[2 * RAW_KEPT];
    json_error_t why;
    memcpy(rest, raw->data + whole, left);
    raw->len = whole;
    buf_byte(raw, '"');
    json_t *text = json_loadb((const char *)raw->data, raw->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    int failed = text ? content_put(reader->content, json_string_value(text), json_string_length(text), err)
                      : content_not_json(err, why.text);
    json_decref(text);
    buf_clear(raw);
    buf_byte(raw, '"');
    buf_put(raw, rest, left);
    return failed;
}

/* Takes bytes up to the closing quote. Returns how many. */
static ssize_t content_span(struct body_reader *reader, const uint8_t *data, size_t len, struct err *err) {
    size_t n = 0;
    for (; n < len && (reader->escaped || data[n] != '"'); n++)
        reader->escaped = !reader->escaped && data[n] == '\\';
    bool last = n < len;
    buf_put(&reader->raw, data, n);
    TRY(content_decode(reader, last, err));
    if (last) {
        buf_byte(&reader->rest, '"');
        reader->place = OUTSIDE;
    }
    return (ssize_t)(n + last);
}

static void content_rest_byte(struct body_reader *reader, uint8_t byte) {
    buf_byte(&reader->rest, byte);
    bool inside = reader->place == STRING || reader->place == KEY;
    if (reader->place == ESCAPE) {
        reader->place = STRING; /* a name with escapes is not compared: its value is small, or refused */
    } else if (inside && byte == '\\') {
        reader->place = ESCAPE;
    } else if (inside) {
        static const char name[] = "\"content\"";
        const struct buf *rest = &reader->rest;
        if (byte == '"') { /* is it the content's name? */
            bool is = reader->place == KEY && rest->len - reader->key_at == sizeof name - 1 &&
                      !memcmp(rest->data + reader->key_at, name, sizeof name - 1);
            reader->place = is ? VALUE : OUTSIDE;
            reader->key_next = false;
        }
    } else if (byte == '"') {
        bool content = reader->place == VALUE && !reader->content->seen;
        reader->content->seen |= content;
        if (content)
            buf_byte(&reader->raw, '"');
        reader->place = content ? CONTENT : reader->depth == 1 && reader->key_next ? KEY : STRING;
        reader->key_at = reader->rest.len - 1;
    } else if (byte == '{' || byte == '[') {
        reader->depth++;
        reader->key_next = byte == '{';
        reader->place = OUTSIDE;
    } else if (byte == '}' || byte == ']') {
        reader->depth -= reader->depth > 0;
    } else if (byte == ',') {
        reader->key_next = true;
        reader->place = OUTSIDE;
    }
}

static int content_reader_feed(struct body_reader *reader, const uint8_t *data, size_t len, struct err *err) {
    while (len) {
        ssize_t n = 1;
        if (reader->place == CONTENT)
            n = content_span(reader, data, len, err);
        else
            content_rest_byte(reader, *data);
        if (n < 0)
            return -err->code;
        if (reader->rest.failed)
            return err_set(err, ERR_TOO_LARGE, "the body has more than %u bytes in addition to its content",
                           REST_BYTES);
        data += n, len -= (size_t)n;
    }
    return 0;
}

int aio_content_take(struct http_request *request, const struct box *box, struct aio_content *ret_content,
                     void *ret_args, struct err *err) {
    struct aio_content *content = ret_content;
    struct body_reader reader = {.content = content};
    *content = (struct aio_content){.request = request, .box = box, .file.fd = -1};
    buf_init(&content->memory, MEMORY_BYTES);
    buf_init(&reader.rest, REST_BYTES);
    buf_init(&reader.raw, PIECE_BYTES + 3 * RAW_KEPT);
    content->piece = xmalloc(PIECE_BYTES);
    ssize_t n;
    int failed = 0;
    const char *limit;
    uint64_t most = aio_upload_most(request, box, &limit);
    int64_t length = http_body_length(request);
    /* Refuses a body that is too long for any allowed content, even with each byte as \u0000. */
    if (length > 0 && (uint64_t)length > ESCAPE_BYTES * content_encoded(most) + REST_BYTES)
        failed = err_set(err, ERR_TOO_LARGE, "the body has %lld bytes, too many for content that %s allows (%llu)",
                         (long long)length, limit, (unsigned long long)most);
    while (!failed && (n = http_body_read(request, content->piece, PIECE_BYTES, err)) != 0)
        failed = n < 0 ? (int)n : content_reader_feed(&reader, content->piece, (size_t)n, err);
    bool inside = reader.place == CONTENT;
    if (!failed && !inside && content->file.fd >= 0)
        failed = content_spill(content, err);
    if (failed == -ERR_INVALID && inside)
        failed = detail_unfit(request, "content", err->text);
    else if (!failed)
        failed = detail_body_text(request, (const char *)reader.rest.data, reader.rest.len, ret_args, err);
    buf_done(&reader.rest);
    buf_done(&reader.raw);
    return failed;
}

/* ---- reading the content ---- */

/* Reads the next bytes, from memory or the file. */
static ssize_t content_next(struct aio_content *content, void *data, size_t size, struct err *err) {
    uint64_t left = content->len - content->at;
    size = size < left ? size : (size_t)left;
    ssize_t n = (ssize_t)size;
    if (content->file.fd < 0)
        memcpy(data, content->memory.data + content->at, size);
    else
        while ((n = pread(content->file.fd, data, size, (off_t)content->at)) < 0 && errno == EINTR)
            continue;
    if (n < 0 || (!n && size))
        return err_errno(err, n < 0 ? errno : EIO, "cannot read the received content");
    content->at += (uint64_t)n;
    return n;
}

/* Decodes complete groups of four in the piece, in place. White space is skipped. */
static ssize_t content_piece_base64(struct aio_content *content, size_t len, struct err *err) {
    size_t kept = 0;
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r\n", content->piece[i]) || !content->piece[i])
            content->piece[kept++] = content->piece[i];
    bool last = content->at == content->len;
    size_t groups = kept / 4 * 4;
    autobuf out = buf_max(PIECE_BYTES);
    if ((last && groups != kept) || (groups && content->ended) ||
        !text_unbase64(&out, (const char *)content->piece, groups))
        return err_text(err, EILSEQ, "the encoding is base64, but the content is not base64");
    content->ended |= groups && content->piece[groups - 1] == '='; /* nothing may follow padding */
    uint8_t tail[4];
    memcpy(tail, content->piece + groups, kept - groups);
    if (out.len)
        memcpy(content->piece, out.data, out.len);
    content->kept = kept - groups;
    memcpy(content->piece + PIECE_BYTES - content->kept, tail, content->kept);
    return (ssize_t)out.len;
}

/* Each character is one byte. */
static ssize_t content_piece_raw(struct aio_content *content, size_t len, struct err *err) {
    size_t at = 0, to = 0, n;
    uint32_t character;
    for (; at < len && (n = text_character(content->piece + at, len - at, &character)) > 0; at += n) {
        if (character > 255)
            return err_text(err, EILSEQ,
                            "'latin-1' codec can't encode character U+%04X: encoding raw allows only U+0000 to U+00FF",
                            character);
        content->piece[to++] = (uint8_t)character;
    }
    content->kept = len - at; /* an incomplete character */
    memmove(content->piece + PIECE_BYTES - content->kept, content->piece + at, content->kept);
    return (ssize_t)to;
}

/* Fills the piece: what the last one left over, then more. Returns 0 at the end. */
static ssize_t content_piece_fill(struct aio_content *content, struct err *err) {
    bool text = !strcmp(content->encoding, "utf-8");
    while (content->at < content->len) {
        size_t kept = content->kept;
        memmove(content->piece, content->piece + PIECE_BYTES - kept, kept);
        content->kept = 0;
        ssize_t n = content_next(content, content->piece + kept, PIECE_BYTES - 8 - kept, err);
        if (n < 0)
            return n;
        size_t len = kept + (size_t)n;
        n = text                                ? (ssize_t)len
            : !strcmp(content->encoding, "raw") ? content_piece_raw(content, len, err)
                                                : content_piece_base64(content, len, err);
        if (n != 0)
            return n;
    }
    return 0;
}

ssize_t aio_content_read(void *user, void *data, size_t size, struct err *err) {
    struct aio_content *content = user;
    bool text = !strcmp(content->encoding, "utf-8");
    if (content->leading && text && size) {
        content->leading = false;
        *(char *)data = '\n';
        content->given++;
        return 1;
    }
    if (content->piece_at == content->piece_len) {
        ssize_t n = content_piece_fill(content, err);
        if (n < 0)
            return n;
        content->piece_at = 0;
        content->piece_len = (size_t)n;
    }
    size_t n = content->piece_len - content->piece_at;
    n = n < size ? n : size;
    memcpy(data, content->piece + content->piece_at, n);
    content->piece_at += n;
    if (!n && content->trailing && text && size) {
        content->trailing = false;
        *(char *)data = '\n';
        n = 1;
    }
    content->given += n;
    return (ssize_t)n;
}
