/* The body of a write. Any bytes as a body: where it is cut makes no difference, and what is taken out of it is what jansson
 * reads in the whole. Any text as content: what is written is what its encoding says, however it is read. The first byte says
 * which of the two and how it is cut. */
#define front_of fuzz_front_of
#define front_settings fuzz_front_settings
#define http_body_length fuzz_body_length
#define http_body_read fuzz_body_read
#define detail_body_text fuzz_body_text
#define detail_unfit fuzz_unfit
#include "../../src/front/aio/content.c"

#include <assert.h>
#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    const uint8_t *data; /* of the body, what has not been read */
    size_t len;
    unsigned cut; /* 0: in one piece */
    struct buf rest;
} body;

struct taken {
    int result;
    bool seen;
    struct buf content, rest;
};

struct front *fuzz_front_of(const struct http_request *request) {
    static struct front front;
    (void)request;
    return &front;
}

const struct front_settings *fuzz_front_settings(const struct http_request *request) {
    static struct front_settings settings = {.max_upload_bytes = 1 << 20};
    (void)request;
    return &settings;
}

int64_t fuzz_body_length(const struct http_request *request) {
    (void)request;
    return (int64_t)body.len;
}

static size_t piece_of(size_t len) {
    body.cut = body.cut * 1103515245u + 12345u;
    size_t n = 1 + (body.cut >> 16) % 5u;
    return n < len ? n : len;
}

ssize_t fuzz_body_read(struct http_request *request, void *data, size_t size, struct err *err) {
    (void)request, (void)err;
    size_t n = body.len < size ? body.len : size;
    if (body.cut && n)
        n = piece_of(n);
    if (n)
        memcpy(data, body.data, n);
    body.data += n;
    body.len -= n;
    return (ssize_t)n;
}

int fuzz_body_text(struct http_request *request, const char *text, size_t len, void *ret_args, struct err *err) {
    (void)request, (void)ret_args;
    json_t *root;
    buf_clear(&body.rest);
    buf_put(&body.rest, text, len);
    if (rows_load(text, len, &root, err) < 0)
        return ERR_INVALID;
    json_decref(root);
    return 0;
}

int fuzz_unfit(struct http_request *request, const char *member, const char *text) {
    (void)request;
    assert(!strcmp(member, "content") && *text);
    return ERR_INVALID;
}

static void take(const uint8_t *data, size_t size, unsigned cut, struct taken *ret) {
    struct aio_content content = {.file.fd = -1};
    static const struct box box;
    struct err err = {0};
    body.data = data, body.len = size, body.cut = cut;
    buf_clear(&body.rest);
    buf_init(&ret->content, 1 << 20);
    buf_init(&ret->rest, 1 << 20);
    ret->result = aio_content_take(NULL, &box, &content, NULL, &err);
    assert(ret->result >= 0 || ret->result == -err.code);
    ret->seen = content.seen;
    buf_put(&ret->content, content.memory.data, content.memory.len);
    buf_put(&ret->rest, body.rest.data, body.rest.len);
    aio_content_done(&content);
}

static bool same(const struct buf *a, const void *data, size_t len) {
    return a->len == len && (!len || !memcmp(a->data, data, len));
}

/* The rest with "" for the content: all but that one member is as it was. */
static void compare(const uint8_t *data, size_t size, const struct taken *taken) {
    struct err err = {0};
    json_t *whole = NULL, *rest = NULL;
    int judged = rows_load((const char *)data, size, &whole, &err);
    if (judged < 0) {
        assert(taken->result || err.code != ERR_INVALID);
        return;
    }
    assert(taken->result == 0);
    json_t *content = json_object_get(whole, "content");
    assert(!taken->seen || json_is_string(content));
    if (taken->seen) {
        assert(same(&taken->content, json_string_value(content), json_string_length(content)));
        json_object_set_new(whole, "content", json_string(""));
    }
    assert(rows_load((const char *)taken->rest.data, taken->rest.len, &rest, &err) == 0);
    assert(json_equal(whole, rest));
    json_decref(whole);
    json_decref(rest);
}

static void fuzz_take(const uint8_t *data, size_t size, unsigned cut) {
    struct taken whole, pieces;
    take(data, size, 0, &whole);
    take(data, size, cut, &pieces);
    assert((whole.result == 0) == (pieces.result == 0));
    if (!whole.result) {
        assert(whole.seen == pieces.seen);
        assert(same(&whole.content, pieces.content.data, pieces.content.len));
        assert(same(&whole.rest, pieces.rest.data, pieces.rest.len));
    }
    compare(data, size, &whole);
    buf_done(&whole.content), buf_done(&whole.rest), buf_done(&pieces.content), buf_done(&pieces.rest);
}

/* ---- how it is read ---- */

/* false: the encoding does not allow it. */
static bool expected(const char *encoding, const uint8_t *text, size_t len, struct buf *out) {
    uint32_t point;
    if (!strcmp(encoding, "utf-8")) {
        buf_put(out, text, len);
        return true;
    }
    if (!strcmp(encoding, "raw")) {
        for (size_t n; len; text += n, len -= n) {
            n = text_character(text, len, &point);
            if (point > 255)
                return false;
            buf_byte(out, (uint8_t)point);
        }
        return true;
    }
    autobuf packed = buf_max(1 << 20);
    for (size_t i = 0; i < len; i++)
        if (!text[i] || !strchr(" \t\r\n", text[i]))
            buf_byte(&packed, text[i]);
    return text_unbase64(out, (const char *)packed.data, packed.len);
}

static void fuzz_read(const uint8_t *data, size_t size, unsigned how) {
    static const char *const encodings[] = {"utf-8", "base64", "raw"};
    struct aio_content content = {.file.fd = -1, .encoding = encodings[how % 3], .piece = malloc(PIECE_BYTES)};
    struct err err = {0};
    autobuf want, got;
    buf_init(&content.memory, 1 << 20);
    buf_init(&want, 1 << 20);
    buf_init(&got, 1 << 20);
    for (unsigned i = 0; how & 8 && i < PIECE_BYTES - 16; i++) /* so that a piece ends in the input */
        buf_byte(&content.memory, "A"[0]);
    buf_put(&content.memory, data, size);
    content.len = content.memory.len;
    bool allowed = expected(content.encoding, content.memory.data, content.memory.len, &want);
    ssize_t n;
    uint8_t room[5000];
    body.cut = how;
    do {
        n = aio_content_read(&content, room, how & 16 ? sizeof room : piece_of(7), &err);
        if (n > 0)
            buf_put(&got, room, (size_t)n);
    } while (n > 0);
    assert(allowed == (n == 0));
    assert(!allowed || same(&got, want.data, want.len));
    assert(!allowed || content.given == want.len);
    aio_content_done(&content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    if (!body.rest.max)
        buf_init(&body.rest, 1 << 20);
    if (data[0] & 1)
        fuzz_take(data + 1, size - 1, data[0]);
    else if (text_utf8(data + 1, size - 1))
        fuzz_read(data + 1, size - 1, data[0] >> 1);
    return 0;
}
