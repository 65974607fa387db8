/* The util group of the AIO dialect: a file of the box as Markdown. Called through aio_util_routes. Invariant: nothing is
 * fetched, by whatever address; what cannot be converted is a clear 501, never an empty text. */
#include <string.h>
#include <strings.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "front/aio/aio.h"
#include "front/aio/markdown.h"

struct convert_args {
    struct row_text uri;
};

static const struct row convert_fields[] = {
    {.name = "uri",
     .type = ROW_TEXT,
     .flags = ROW_REQUIRED | ROW_AUDITED,
     .offset = offsetof(struct convert_args, uri),
     .min = 1,
     .max = LIMIT_EDIT_BYTES,
     .text = "file:///PATH, an absolute path in the box, or data:MEDIA[;base64],TEXT."},
    {0},
};

struct source {
    const char *name, *media; /* NULL: not known */
    const char *data;
    size_t len;
};

static int hex(char digit) {
    const char *digits = "0123456789abcdef",
               *at = digit ? strchr(digits, digit >= 'A' && digit <= 'F' ? digit | 32 : digit) : NULL;
    return at ? (int)(at - digits) : -1;
}

static void unescape(struct buf *out, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        int high = text[i] == '%' && len - i > 2 ? hex(text[i + 1]) : -1, low = high >= 0 ? hex(text[i + 2]) : -1;
        if (low >= 0)
            i += 2;
        buf_byte(out, low >= 0 ? (uint8_t)(high << 4 | low) : (uint8_t)text[i]);
    }
}

/* data:text/html;charset=utf-8;base64,PGI+ */
static int source_data(struct http_request *request, const struct row_text *uri, struct source *ret, struct err *err) {
    const char *media = uri->data + strlen("data:"), *comma = strchr(media, ',');
    if (!comma)
        return err_set(err, ERR_INVALID, "the data: address has no ','");
    const char *text = comma + 1;
    size_t len = uri->len - (size_t)(text - uri->data), head = (size_t)(comma - media);
    bool base64 = head >= 7 && !strncasecmp(comma - 7, ";base64", 7);
    autobuf out = buf_max(LIMIT_EDIT_BYTES);
    if (!base64)
        unescape(&out, text, len);
    else if (!text_unbase64(&out, text, len))
        return err_set(err, ERR_INVALID, "the data: address does not hold base64, which it says it does");
    ret->media = arena_copy(http_arena(request), media, strcspn(media, ";,"));
    ret->data = arena_copy(http_arena(request), out.data, out.len);
    ret->len = out.len;
    return 0;
}

static int keep(void *user, const uint8_t *data, size_t len) {
    buf_put(user, data, len);
    return ((struct buf *)user)->failed ? -ERR_TOO_LARGE : 0;
}

static int source_file(struct http_request *request, struct box *box, const char *path, struct source *ret,
                       struct err *err) {
    struct file_stat status;
    autofd fd = -1;
    autobuf out = buf_max(LIMIT_EDIT_BYTES);
    int failed = box_read_open(box, path, &fd, &status, err);
    if (!failed && status.size > LIMIT_EDIT_BYTES)
        failed = err_set(err, ERR_TOO_LARGE, "'%.200s' is larger than %u bytes", path, LIMIT_EDIT_BYTES);
    if (!failed)
        failed = http_hold(request, 3 * (size_t)status.size, err);
    if (failed)
        return failed;
    if (fd < 0) {
        failed = box_read_stream(box, path, 0, LIMIT_EDIT_BYTES, http_fd(request), keep, &out, err);
        if (failed)
            return failed;
    }
    char *data = arena_alloc(http_arena(request), status.size + 1);
    ssize_t len = fd < 0 ? (ssize_t)out.len : fd_read_full(fd, data, status.size);
    if (len < 0)
        return err_errno(err, (int)-len, "'%.200s'", path);
    ret->name = path;
    ret->data = fd < 0 ? arena_copy(http_arena(request), out.data, out.len) : data;
    ret->len = (size_t)len;
    return 0;
}

static int source_read(struct http_request *request, struct box *box, const struct row_text *uri, struct source *ret,
                       struct err *err) {
    autobuf path = buf_max(LIMIT_PATH_BYTES);
    if (!strncasecmp(uri->data, "data:", 5))
        return source_data(request, uri, ret, err);
    if (uri->data[0] == '/')
        return source_file(request, box, uri->data, ret, err);
    if (strncasecmp(uri->data, "file://", 7))
        return err_set(
            err, ERR_UNSUPPORTED,
            "nothing is fetched here: get it with a command in the box, whose network rules hold then, and give "
            "the file's path");
    const char *rest = uri->data + 7;
    rest += !strncasecmp(rest, "localhost/", 10) ? 9 : 0;
    if (*rest != '/')
        return err_set(err, ERR_INVALID, "a file: address names an absolute path of the box: file:///PATH");
    unescape(&path, rest, strlen(rest));
    if (path.failed || memchr(path.data, 0, path.len))
        return err_set(err, ERR_INVALID, "the path is too long, or holds a NUL");
    return source_file(request, box, arena_copy(http_arena(request), path.data, path.len), ret, err);
}

static int convert(struct http_request *request, struct box *box, struct err *err) {
    struct convert_args args = {0};
    struct source source = {0};
    int failed = aio_body(request, &args, err);
    if (!failed)
        failed = source_read(request, box, &args.uri, &source, err);
    if (failed)
        return failed;
    enum markdown_kind kind = markdown_kind(source.name, source.media, source.data, source.len);
    if (kind == MARKDOWN_NONE)
        return err_set(
            err, ERR_UNSUPPORTED,
            "this is no text in UTF-8: only text, HTML, JSON and CSV are converted here; for other documents run a "
            "converter in the box");
    autobuf out = buf_max(markdown_room(source.len));
    failed = http_hold(request, out.max, err);
    if (failed)
        return failed;
    markdown_write(kind, source.data, source.len, &out);
    if (out.failed)
        return err_set(err, ERR_TOO_LARGE, "as Markdown it would be larger than %zu bytes", out.max);
    autoanswer answer;
    aio_open(&answer, request, NULL);
    aio_text(&answer, out.data, out.len);
    return aio_close(&answer, 0, err);
}

const struct route aio_util_routes[] = {
    {"POST", "/aio/{id}/v1/util/convert_to_markdown", front_handle, 0, "aio_convert",
     "A text, HTML, JSON or CSV file of a box as Markdown", AIO_ENDPOINT(.run = convert, .body = convert_fields)},
    {0},
};
