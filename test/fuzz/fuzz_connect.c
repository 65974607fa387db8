/* Any bytes as the body of a Connect call: what is read of it never goes beyond the envelope or the limits, and the
 * answer is always whole: a stream is a row of envelopes that hold JSON, of which the last and no other is an end
 * frame; a unary answer is one JSON object. Paths come out absolute and clean. */
#define http_header fuzz_header
#define http_arena fuzz_arena
#define http_body_read fuzz_read
#define http_body_all fuzz_all
#define http_hold fuzz_hold
#define http_reply fuzz_reply
#define http_reply_header fuzz_reply_header
#define http_reply_begin fuzz_begin
#define http_reply_live fuzz_live
#define http_reply_write fuzz_write
#define http_reply_end fuzz_end
#define e2b_user fuzz_user
#define e2b_basic fuzz_basic
#include "../../src/front/e2b/connect.c"

#include <assert.h>

#include "base/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_inner {
    struct row_text stdin_text;
    struct row_number some_number;
};
struct fuzz_args {
    struct row_number pid;
    struct row_text tag, signal;
    struct fuzz_inner input;
    const char **args, **envs;
    bool flag;
    struct row_list list;
};
#define FUZZ_ROW(label, kind, args, member) .name = (label), .type = ROW_##kind, .offset = offsetof(struct args, member)
static const struct row fuzz_inner_rows[] = {
    {FUZZ_ROW("stdin", TEXT, fuzz_inner, stdin_text), .max = 1000},
    {FUZZ_ROW("someNumber", INT, fuzz_inner, some_number), .max = 1000},
    {0},
};
static const struct row fuzz_rows[] = {
    {FUZZ_ROW("pid", INT, fuzz_args, pid), .max = UINT32_MAX},
    {FUZZ_ROW("tag", TEXT, fuzz_args, tag), .max = 16},
    {FUZZ_ROW("signal", TEXT_OR_INT, fuzz_args, signal), .max = 64},
    {FUZZ_ROW("input", OBJECT, fuzz_args, input), .fields = fuzz_inner_rows},
    {FUZZ_ROW("args", TEXTS, fuzz_args, args), .max = 3},
    {FUZZ_ROW("envs", MAP, fuzz_args, envs), .max = 3},
    {FUZZ_ROW("flag", BOOL, fuzz_args, flag)},
    {FUZZ_ROW("list", OBJECTS, fuzz_args, list), .max = 3, .fields = fuzz_inner_rows,
     .item_size = sizeof(struct fuzz_inner)},
    {0},
};

static struct arena arena;
static struct view body;
static size_t piece; /* how much the body gives at a time */
static struct buf sent;
static int status;
static bool ended;

const char *fuzz_header(const struct http_request *request, const char *name) {
    (void)request;
    return !strcmp(name, "content-type") ? "application/connect+json; charset=utf-8" : NULL;
}

struct arena *fuzz_arena(struct http_request *request) {
    (void)request;
    return &arena;
}

ssize_t fuzz_read(struct http_request *request, void *data, size_t len, struct err *err) {
    (void)request;
    (void)err;
    len = len < piece ? len : piece;
    len = len < body.len ? len : body.len;
    if (len)
        memcpy(data, view_take(&body, len), len);
    return (ssize_t)len;
}

int fuzz_all(struct http_request *request, size_t max, char **ret_data, size_t *ret_len, struct err *err) {
    (void)request;
    (void)err;
    assert(body.len <= max);
    *ret_data = arena_copy(&arena, body.data, body.len);
    *ret_len = body.len;
    return 0;
}

int fuzz_hold(struct http_request *request, size_t bytes, struct err *err) {
    (void)request;
    return bytes > 64 << 20 ? err_set(err, ERR_BUSY, "too much") : 0;
}

int fuzz_begin(struct http_request *request, int code, const char *type, int64_t length) {
    (void)request;
    assert(!status && length == -1 && !strcmp(type, CONNECT_MEDIA_STREAM));
    status = code;
    return 0;
}

void fuzz_live(struct http_request *request) {
    (void)request;
}

int fuzz_write(struct http_request *request, const void *data, size_t len) {
    (void)request;
    assert(status && !ended);
    buf_put(&sent, data, len);
    return 0;
}

int fuzz_end(struct http_request *request) {
    (void)request;
    ended = true;
    return 0;
}

int fuzz_reply(struct http_request *request, int code, const char *type, const void *data, size_t len) {
    assert(!status && !strcmp(type, CONNECT_MEDIA_UNARY));
    status = code;
    ended = true;
    buf_put(&sent, data, len);
    (void)request;
    return 0;
}

void fuzz_reply_header(struct http_request *request, const char *name, const char *value) {
    (void)request;
    (void)name;
    (void)value;
}

int fuzz_user(const char *name, bool *ret_root, struct err *err) {
    (void)name;
    (void)err;
    *ret_root = false;
    return 0;
}

const char *fuzz_basic(struct http_request *request) {
    (void)request;
    return NULL;
}

static void fuzz_is_object(const uint8_t *data, size_t len) {
    json_t *root = json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES, NULL);
    assert(json_is_object(root));
    json_decref(root);
}

static void fuzz_check_stream(void) {
    size_t at = 0;
    bool last = false;
    assert(status == 200 && ended);
    while (at < sent.len) {
        const uint8_t *head = sent.data + at;
        assert(!last && sent.len - at >= CONNECT_HEAD_BYTES);
        size_t len = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
        assert(sent.len - at - CONNECT_HEAD_BYTES >= len && (head[0] & ~CONNECT_FLAG_END) == 0);
        fuzz_is_object(head + CONNECT_HEAD_BYTES, len);
        last = head[0] & CONNECT_FLAG_END;
        at += CONNECT_HEAD_BYTES + len;
    }
    assert(last);
}

static void fuzz_stream(bool client) {
    autoconnect connect;
    struct err err = {0};
    struct fuzz_args args = {0};
    connect_init(&connect, NULL, NULL, CONNECT_STREAM);
    int failed = client ? connect_take_head(&connect, &err) : connect_take(&connect, fuzz_rows, &args, &err);
    while (client && !failed && (failed = connect_next(&connect, fuzz_rows, &arena, &args, &err)) == 1) {
        failed = 0;
        connect_put_bytes(connect_open(&connect), "tag", args.tag.data, args.tag.len);
        assert(connect_send(&connect) == 0);
    }
    assert(failed <= 0 && (!failed || (err.code == -failed && err.text[0])));
    connect_end(&connect, failed, &err);
    fuzz_check_stream();
}

static void fuzz_unary(void) {
    autoconnect connect;
    struct err err = {0};
    struct fuzz_args args = {0};
    connect_init(&connect, NULL, NULL, CONNECT_UNARY);
    int failed = connect_bind((const char *)body.data, body.len, fuzz_rows, &arena, &args, &err);
    if (!failed && args.input.stdin_text.data) {
        autobuf out = buf_max(1 << 20);
        failed = connect_bytes(&args.input.stdin_text, "stdin", &out, &err);
    }
    connect_end(&connect, failed, &err);
    assert((failed != 0) == (status >= 400) && ended);
    fuzz_is_object(sent.data, sent.len);
}

static void fuzz_path(const uint8_t *data, size_t size) {
    struct err err;
    const char *path;
    if (connect_path(&arena, size & 1 ? "/root" : E2B_HOME, arena_copy(&arena, data, size), &path, &err) < 0)
        return;
    assert(path[0] == '/' && (!path[1] || path_normal(path) || strlen(path) > LIMIT_NAME_BYTES));
    for (const char *at = path; (at = strchr(at, '/')); at++)
        assert(strncmp(at, "/../", 4) != 0 && strcmp(at, "/..") != 0 && strncmp(at, "//", 2) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    arena = ARENA_EMPTY;
    body = view_of(data + 2, size - 2);
    piece = (size_t)data[1] + 1;
    buf_init(&sent, 64 << 20);
    status = 0;
    ended = false;
    if (data[0] % 4 == 3)
        fuzz_path(data + 2, size - 2);
    else if (data[0] % 4 == 2)
        fuzz_unary();
    else
        fuzz_stream(data[0] % 4);
    buf_done(&sent);
    arena_done(&arena);
    return 0;
}
