/* Connect over HTTP/1.1 with JSON. Called by the services of the data plane, and by the fuzzer (connect_envelope,
 * connect_bind).
 * Invariant: a stream that ends in order ends with exactly one frame with CONNECT_FLAG_END; any other is cut. */
#include "front/e2b/connect.h"

#include <jansson.h>
#include <math.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "front/e2b/e2b.h"

#define CONNECT_MEDIA_UNARY "application/json"
#define CONNECT_MEDIA_STREAM "application/connect+json"
enum {
    CONNECT_COST = 6, /* a message in memory costs that much of it: itself, the parser's copies, the handler's */
    CONNECT_TIMEOUT_DIGITS = 10,
    CONNECT_ALIVE_LEAST_S = 1,
    CONNECT_ALIVE_MOST_S = 3600,
    CONNECT_OUT_BYTES = 32 << 20,
};

void connect_init(struct connect *connect, struct http_request *request, struct box *box, enum connect_kind kind) {
    *connect = (struct connect){.request = request,
                                .box = box,
                                .kind = kind,
                                .alive_ms = CONNECT_DEFAULT_ALIVE_MS,
                                .sent_ms = clock_ms(),
                                .in = buf_max(LIMIT_JSON_BYTES),
                                .out = buf_max(CONNECT_OUT_BYTES)};
}

void connect_done(struct connect *connect) {
    buf_done(&connect->in);
    buf_done(&connect->out);
}

/* ---- codes ---- */

static const struct connect_status_row {
    const char *code;
    int status;
} connect_statuses[] = {
    {"canceled", 499},
    {"unknown", 500},
    {"invalid_argument", 400},
    {"deadline_exceeded", 504},
    {"not_found", 404},
    {"already_exists", 409},
    {"permission_denied", 403},
    {"resource_exhausted", 429},
    {"failed_precondition", 400},
    {"aborted", 409},
    {"out_of_range", 400},
    {"unimplemented", 501},
    {"internal", 500},
    {"unavailable", 503},
    {"data_loss", 500},
    {"unauthenticated", 401},
};

static int connect_status(const char *code) {
    for (size_t i = 0; i < sizeof connect_statuses / sizeof *connect_statuses; i++)
        if (!strcmp(connect_statuses[i].code, code))
            return connect_statuses[i].status;
    return 500;
}

static const char *connect_code(int err_code) {
    switch (err_code) {
    case ERR_INVALID:
    case ERR_TOO_LARGE:
        return "invalid_argument";
    case ERR_UNAUTHORIZED:
        return "unauthenticated";
    case ERR_DENIED:
        return "permission_denied";
    case ERR_NOT_FOUND:
        return "not_found";
    case ERR_EXISTS:
        return "already_exists";
    case ERR_LIMIT:
    case ERR_FULL:
        return "resource_exhausted";
    case ERR_UNSUPPORTED:
        return "unimplemented";
    case ERR_PROTOCOL:
    case ERR_BUSY:
        return "unavailable";
    case ERR_TIMEOUT:
        return "deadline_exceeded";
    case ERR_PAUSED:
        return "failed_precondition";
    default:
        return "internal";
    }
}

/* ---- headers ---- */

static bool connect_is_media(const char *type, const char *media) {
    size_t len = type ? strcspn(type, "; \t") : 0;
    return len == strlen(media) && !strncasecmp(type, media, len);
}

/* A codec that we do not have is refused by HTTP itself, as the protocol says. */
static int connect_check_media(struct connect *connect, struct err *err) {
    const char *media = connect->kind == CONNECT_STREAM ? CONNECT_MEDIA_STREAM : CONNECT_MEDIA_UNARY;
    const char *type = http_header(connect->request, "content-type");
    if (connect_is_media(type, media))
        return 0;
    err_set(err, ERR_INVALID, "this call takes %s, not %.100s", media, type ? type : "a body without a type");
    http_reply_header(connect->request, "Accept-Post", media);
    http_reply(connect->request, 415, "text/plain", err->text, strlen(err->text));
    return ERR_INVALID;
}

static int connect_check_encoding(struct connect *connect, struct err *err) {
    const char *name = connect->kind == CONNECT_STREAM ? "connect-content-encoding" : "content-encoding";
    const char *encoding = http_header(connect->request, name);
    if (!encoding || !*encoding || !strcasecmp(encoding, "identity"))
        return 0;
    return err_set(err, ERR_UNSUPPORTED, "unknown compression \"%.40s\": messages are sent as they are (identity)",
                   encoding);
}

static int connect_check_version(struct connect *connect, struct err *err) {
    const char *version = http_header(connect->request, "connect-protocol-version");
    if (!version || !strcmp(version, "1"))
        return 0;
    return err_set(err, ERR_INVALID, "Connect-Protocol-Version must be \"1\", not \"%.40s\"", version);
}

static int connect_take_times(struct connect *connect, struct err *err) {
    const char *timeout = http_header(connect->request, "connect-timeout-ms");
    const char *alive = http_header(connect->request, "keepalive-ping-interval");
    uint64_t seconds;
    if (timeout && (strlen(timeout) > CONNECT_TIMEOUT_DIGITS || !text_u64(timeout, UINT64_MAX, &connect->timeout_ms)))
        return err_set(err, ERR_INVALID, "Connect-Timeout-Ms must be a number of at most %d digits, not \"%.40s\"",
                       CONNECT_TIMEOUT_DIGITS, timeout);
    if (connect->timeout_ms)
        connect->deadline_ms = clock_ms() + connect->timeout_ms;
    if (alive && text_u64(alive, CONNECT_ALIVE_MOST_S, &seconds) && seconds >= CONNECT_ALIVE_LEAST_S)
        connect->alive_ms = seconds * 1000;
    return 0;
}

static int connect_take_user(struct connect *connect, struct err *err) {
    return e2b_account(connect->box, e2b_basic(connect->request), http_arena(connect->request), &connect->account, err);
}

int connect_take_head(struct connect *connect, struct err *err) {
    return connect_check_media(connect, err)
               ?: connect_check_version(connect, err)
               ?: connect_check_encoding(connect, err)
               ?: connect_take_times(connect, err)
               ?: connect_take_user(connect, err);
}

/* ---- messages of the client ---- */

static int connect_envelope(const uint8_t head[CONNECT_HEAD_BYTES], uint32_t *ret_len, struct err *err) {
    uint32_t len = (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
    if (head[0] & CONNECT_FLAG_COMPRESSED)
        return err_set(err, ERR_INVALID, "protocol error: a compressed message, and no compression was agreed on");
    if (head[0])
        return err_set(err, ERR_INVALID, "protocol error: invalid envelope flags %u", head[0]);
    if (len > LIMIT_JSON_BYTES)
        return err_set(err, ERR_LIMIT, "message size %u is larger than configured max %u", len, LIMIT_JSON_BYTES);
    *ret_len = len;
    return 0;
}

/* A member under the name that its row has, wherever the client wrote it with underscores. */
static void connect_rename(json_t *object, const char *name) {
    char snake[64];
    size_t len = 0;
    for (const char *c = name; *c && len + 2 < sizeof snake; c++) {
        bool upper = *c >= 'A' && *c <= 'Z';
        if (upper)
            snake[len++] = '_';
        snake[len++] = upper ? (char)(*c + 'a' - 'A') : *c;
    }
    snake[len] = 0;
    json_t *value = json_object_get(object, snake);
    if (value && strcmp(snake, name) != 0 && !json_object_get(object, name))
        json_object_set(object, name, value);
}

/* "5" and 5.0 are integers to protojson. NULL: it is as rows want it, or they refuse it. */
static json_t *connect_integer(json_t *value) {
    uint64_t number;
    double real = json_real_value(value);
    if (json_is_string(value) && json_string_length(value) == strlen(json_string_value(value)) &&
        text_u64(json_string_value(value), INT64_MAX, &number))
        return json_integer((json_int_t)number);
    if (json_is_real(value) && real >= 0 && real < 9e15 && floor(real) == real)
        return json_integer((json_int_t)real);
    return NULL;
}

static void connect_relax(json_t *object, const struct row *fields) {
    const char *key;
    json_t *value;
    void *next;
    for (const struct row *row = fields; row->name; row++) {
        connect_rename(object, row->name);
        value = json_object_get(object, row->name);
        json_t *number = value && row->type == ROW_INT ? connect_integer(value) : NULL;
        if (number)
            json_object_set_new(object, row->name, number);
        if (row->type == ROW_OBJECT && json_is_object(value))
            connect_relax(value, row->fields);
        for (size_t i = 0; row->type == ROW_OBJECTS && i < json_array_size(value); i++)
            if (json_is_object(json_array_get(value, i)))
                connect_relax(json_array_get(value, i), row->fields);
    }
    json_object_foreach_safe(object, next, key, value) {
        if (!rows_find(fields, key, strlen(key)))
            json_object_del(object, key);
    }
}

int connect_bind(const char *data, size_t len, const struct row *fields, struct arena *arena, void *ret_args,
                 struct err *err) {
    json_t *root;
    STEP(rows_load(data, len, &root, err));
    if (json_is_object(root))
        connect_relax(root, fields);
    int failed = rows_bind(root, fields, arena, ret_args, err);
    json_decref(root);
    return failed;
}

int connect_bytes(const struct row_text *text, const char *member, struct buf *out, struct err *err) {
    return text_unbase64_any(out, text->data, text->len) ? 0 : err_set(err, ERR_INVALID, "'%s' is not base64", member);
}

/* All of len; 1, or 0 when the body ended before its first byte. */
static int connect_read(struct connect *connect, void *data, size_t len, struct err *err) {
    size_t got = 0;
    while (got < len) {
        ssize_t n = http_body_read(connect->request, (char *)data + got, len - got, err);
        if (n < 0)
            return (int)n;
        if (n == 0)
            return got ? err_set(err, ERR_INVALID,
                                 "protocol error: promised %zu bytes in an enveloped message, got %zu", len, got)
                       : 0;
        got += (size_t)n;
    }
    return 1;
}

static int connect_hold(struct connect *connect, size_t len, struct err *err) {
    if (len * CONNECT_COST <= connect->held)
        return 0;
    int failed = http_hold(connect->request, len * CONNECT_COST - connect->held, err);
    if (failed >= 0)
        connect->held = len * CONNECT_COST;
    return failed;
}

int connect_next(struct connect *connect, const struct row *fields, struct arena *arena, void *ret_args,
                 struct err *err) {
    uint8_t head[CONNECT_HEAD_BYTES];
    uint32_t len = 0;
    int r = connect_read(connect, head, sizeof head, err);
    if (r <= 0)
        return r;
    r = connect_envelope(head, &len, err) ?: connect_hold(connect, len, err);
    if (r < 0)
        return r;
    buf_clear(&connect->in);
    if (len) {
        r = connect_read(connect, buf_reserve(&connect->in, len), len, err);
        if (r == 0)
            return err_set(err, ERR_INVALID, "protocol error: promised %u bytes in an enveloped message, got 0", len);
        if (r < 0)
            return r;
        connect->in.len = len;
    }
    r = connect_bind((const char *)connect->in.data, len, fields, arena, ret_args, err);
    return r < 0 ? r : 1;
}

static int connect_take_only(struct connect *connect, const struct row *fields, void *ret_args, struct err *err) {
    uint8_t more;
    int r = connect_next(connect, fields, http_arena(connect->request), ret_args, err);
    if (r == 0)
        return err_set(err, ERR_INVALID, "protocol error: the request has no message");
    if (r == 1)
        r = connect_read(connect, &more, 1, err);
    return r <= 0 ? r : err_set(err, ERR_INVALID, "protocol error: the request has more than one message");
}

int connect_take(struct connect *connect, const struct row *fields, void *ret_args, struct err *err) {
    char *data;
    size_t len;
    STEP(connect_take_head(connect, err));
    if (connect->kind == CONNECT_STREAM)
        return connect_take_only(connect, fields, ret_args, err);
    return http_body_all(connect->request, LIMIT_JSON_BYTES, &data, &len, err)
               ?: connect_bind(data, len, fields, http_arena(connect->request), ret_args, err);
}

/* ---- paths ---- */

/* ".", ".." and empty names are taken out by their names alone, as the clients' own server does it. */
static void connect_clean(char *path) {
    char *out = path + 1;
    for (char *at = path + 1; *at;) {
        size_t len = strcspn(at, "/");
        bool up = len == 2 && at[0] == '.' && at[1] == '.';
        char *next = at + len + (at[len] == '/');
        if (up) {
            while (out > path + 1 && *--out != '/')
                ;
        } else if (len && !(len == 1 && *at == '.')) {
            if (out > path + 1)
                *out++ = '/';
            memmove(out, at, len);
            out += len;
        }
        at = next;
    }
    *out = 0;
}

int connect_path(struct arena *arena, const char *home, const char *path, const char **ret_path, struct err *err) {
    char *whole;
    if (!path || !*path)
        path = "~";
    if (path[0] == '~' && path[1] && path[1] != '/')
        return err_set(err, ERR_INVALID,
                       "the path '%.100s' begins with ~ and a name: only ~ and ~/ are the user's home", path);
    if (*path == '/')
        whole = arena_strdup(arena, path);
    else
        whole = arena_printf(arena, "%s/%s", home, *path == '~' ? path + 1 : path);
    connect_clean(whole);
    if (strlen(whole) > LIMIT_PATH_BYTES)
        return err_set(err, ERR_INVALID, "a path has at most %u bytes", LIMIT_PATH_BYTES);
    *ret_path = whole;
    return 0;
}

/* ---- the answer ---- */

struct json *connect_open(struct connect *connect) {
    buf_clear(&connect->out);
    if (connect->kind == CONNECT_STREAM)
        buf_put(&connect->out, "\0\0\0\0\0", CONNECT_HEAD_BYTES);
    connect->json = json_begin(&connect->out);
    return &connect->json;
}

/* A stream begins to answer before its first message. */
static int connect_begin(struct connect *connect) {
    if (connect->begun)
        return 0;
    connect->begun = true;
    http_reply_live(connect->request);
    int r = http_reply_begin(connect->request, 200, CONNECT_MEDIA_STREAM, -1);
    connect->lost = r < 0;
    return r;
}

static int connect_write(struct connect *connect, uint8_t flags) {
    uint8_t *head = connect->out.data;
    size_t len = connect->out.len - CONNECT_HEAD_BYTES;
    head[0] = flags;
    for (int i = 1; i <= 4; i++)
        head[i] = (uint8_t)(len >> (32 - 8 * i));
    int r = connect_begin(connect);
    if (r >= 0)
        r = http_reply_write(connect->request, connect->out.data, connect->out.len);
    connect->lost = connect->lost || r < 0;
    connect->sent_ms = clock_ms();
    return r < 0 ? r : 0;
}

int connect_send(struct connect *connect) {
    json_close(&connect->json, '}');
    if (connect->out.failed)
        return -ERR_TOO_LARGE;
    if (connect->kind == CONNECT_STREAM)
        return connect_write(connect, 0);
    connect->begun = true;
    int r = http_reply(connect->request, 200, CONNECT_MEDIA_UNARY, connect->out.data, connect->out.len);
    connect->lost = r < 0;
    return r < 0 ? r : 0;
}

static void connect_put_error(struct connect *connect, const char *code, const char *text) {
    json_put_str(&connect->json, "code", code);
    json_put_str(&connect->json, "message", text);
}

static int connect_end_unary(struct connect *connect, int failed, struct err *err) {
    if (!failed && connect->begun)
        return 0;
    connect_open(connect);
    if (!failed)
        return connect_send(connect);
    if (connect->begun)
        return failed;
    const char *code = connect->code ? connect->code : connect_code(-failed);
    connect_put_error(connect, code, err->text);
    json_close(&connect->json, '}');
    http_reply(connect->request, connect_status(code), CONNECT_MEDIA_UNARY, connect->out.data, connect->out.len);
    return -failed;
}

static int connect_end_stream(struct connect *connect, int failed, struct err *err) {
    connect_open(connect);
    if (failed) {
        json_put_open(&connect->json, "error", '{');
        connect_put_error(connect, connect->code ? connect->code : connect_code(-failed), err->text);
        json_close(&connect->json, '}');
    }
    json_close(&connect->json, '}');
    int r = connect_write(connect, CONNECT_FLAG_END);
    if (r >= 0)
        r = http_reply_end(connect->request);
    return r < 0 ? r : -failed;
}

int connect_end(struct connect *connect, int failed, struct err *err) {
    if (failed > 0)
        return failed;
    if (failed < 0 && (connect->lost || (connect->box && !box_alive(connect->box))))
        return failed;
    if (failed == -ERR_TOO_LARGE && connect->out.failed)
        err_set(err, ERR_TOO_LARGE, "the answer is larger than %u bytes", (unsigned)CONNECT_OUT_BYTES);
    return connect->kind == CONNECT_STREAM ? connect_end_stream(connect, failed, err)
                                           : connect_end_unary(connect, failed, err);
}

int connect_handle(struct http_request *request, struct box *box, struct err *err) {
    const struct connect_rpc *rpc = http_route(request)->extra; /* its first member is the endpoint */
    void *args = rpc->args ? arena_alloc(http_arena(request), rpc->args) : NULL;
    autoconnect connect;
    connect_init(&connect, request, box, rpc->kind);
    int failed = args ? connect_take(&connect, rpc->endpoint.body, args, err) : 0;
    return connect_end(&connect, failed ?: rpc->call(&connect, args, err), err);
}

/* ---- waiting ---- */

uint64_t connect_wait_ms(const struct connect *connect) {
    uint64_t now = clock_ms(), until = connect->sent_ms + connect->alive_ms;
    if (connect->deadline_ms && connect->deadline_ms < until)
        until = connect->deadline_ms;
    return until > now ? until - now : 1;
}

int connect_idle(struct connect *connect, bool wrapped, struct err *err) {
    uint64_t now = clock_ms();
    if (connect->deadline_ms && now >= connect->deadline_ms)
        return err_set(err, ERR_TIMEOUT, "the time of this call (Connect-Timeout-Ms: %llu) is over",
                       (unsigned long long)connect->timeout_ms);
    if (now < connect->sent_ms + connect->alive_ms)
        return 0;
    struct json *json = connect_open(connect);
    if (wrapped)
        json_put_open(json, "event", '{');
    json_put_open(json, "keepalive", '{');
    json_close(json, '}');
    if (wrapped)
        json_close(json, '}');
    return connect_send(connect);
}

/* ---- protojson values ---- */

void connect_put_int64(struct json *json, const char *key, int64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    json_put_str(json, key, digits);
}

void connect_put_bytes(struct json *json, const char *key, const void *data, size_t len) {
    json_put_bytes(json, key, data, len, false);
}

void connect_put_time(struct json *json, const char *key, uint64_t wall_ns) {
    char text[CLOCK_TEXT_BYTES], whole[CLOCK_TEXT_BYTES + 16];
    clock_text(wall_ns / 1000000, text);
    text[strcspn(text, ".")] = 0;
    snprintf(whole, sizeof whole, "%s.%09lluZ", text, (unsigned long long)(wall_ns % 1000000000));
    json_put_str(json, key, whole);
}
