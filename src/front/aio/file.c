/* The file group's table, its failures, and what is read: as text and as bytes. Called through aio_file_routes.
 * Invariant: a failure goes out with a status of its own and as the group's data, so that no client can take it for a
 * success; and no file is in memory twice. */
#include "front/aio/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "front/send.h"

#define PIECE_BYTES (64u << 10)
#define HOLD_STEP_BYTES (1u << 20)
#define PINNED_BYTES (1u << 20) /* so much of a download is looked at before anything is answered */

/* ---- failures ---- */

static const struct kind {
    int number, status;
    const char *type, *name, *exception;
} kinds[] = {
    {ENOENT, 404, "not_found", "ENOENT", "FileNotFoundError"},
    {EACCES, 403, "permission_denied", "EACCES", "PermissionError"},
    {EPERM, 403, "permission_denied", "EPERM", "PermissionError"},
    {EROFS, 403, "read_only_filesystem", "EROFS", "OSError"},
    {EISDIR, 400, "invalid_target", "EISDIR", "IsADirectoryError"},
    {ENOTDIR, 400, "invalid_target", "ENOTDIR", "NotADirectoryError"},
    {EINVAL, 400, "invalid_target", "EINVAL", "OSError"},
    {ENXIO, 400, "invalid_target", "ENXIO", "OSError"},
    {EXDEV, 400, "invalid_path", "EXDEV", "OSError"},
    {ELOOP, 400, "invalid_path", "ELOOP", "OSError"},
    {ENAMETOOLONG, 400, "invalid_path", "ENAMETOOLONG", "OSError"},
    {EEXIST, 409, "already_exists", "EEXIST", "FileExistsError"},
    {EFBIG, 413, "io_error", "EFBIG", "OSError"},
    {ENOSPC, 507, "no_space_left", "ENOSPC", "OSError"},
    {EDQUOT, 507, "no_space_left", "EDQUOT", "OSError"},
    {EIO, 500, "io_error", "EIO", "OSError"},
    {EBUSY, 503, "io_error", "EBUSY", "OSError"},
};

/* Where no system call failed: the code says what it was. EILSEQ stands for what is no text. */
static const struct kind codes[] = {
    {ERR_NOT_FOUND, 404, "not_found", NULL, "FileNotFoundError"},
    {ERR_DENIED, 403, "permission_denied", NULL, "PermissionError"},
    {ERR_EXISTS, 409, "already_exists", NULL, "FileExistsError"},
    {ERR_INVALID, 400, "invalid_path", NULL, "ValueError"},
    {ERR_TOO_LARGE, 413, "io_error", NULL, "OSError"},
    {ERR_IO, 500, "io_error", NULL, "OSError"},
};
static const struct kind undecodable = {EILSEQ, 400, "decode_error", NULL, "UnicodeDecodeError"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct kind *kind_of(const struct err *err) {
    if (err->number == EILSEQ)
        return &undecodable;
    for (size_t i = 0; err->number && i < COUNT(kinds); i++)
        if (kinds[i].number == err->number)
            return &kinds[i];
    for (size_t i = 0; i < COUNT(codes); i++)
        if (codes[i].number == err->code)
            return &codes[i];
    return NULL;
}

int aio_file_fail(struct http_request *request, const char *what, const char *operation, const char *path,
                  struct err *err) {
    const struct kind *kind = kind_of(err);
    if (!kind)
        return -err->code;
    struct arena *arena = http_arena(request);
    /* The kernel's words as its server has them; but what is no file we can say better. */
    const char *message =
        kind->name && kind->number != EINVAL && kind->number != ENXIO
            ? arena_printf(arena, "[Errno %d] %s: '%s'", kind->number, strerrordesc_np(kind->number), path)
            : err->text;
    bool envelope = ((const struct aio_settings *)front_own(request, &aio_dialect))->envelope;
    autoanswer answer;
    answer_init(&answer, request, envelope ? 200 : kind->status);
    json_open(&answer.json, '{');
    aio_put(&answer,
            AIO_MEMBERS(AIO_BOOL("success", false), AIO_STR("message", arena_printf(arena, "%s: %s", what, message))));
    json_key(&answer.json, "data");
    aio_object(&answer, AIO_MEMBERS(AIO_STR("path", path), AIO_STR("operation", operation), AIO_STR("message", message),
                                    AIO_STR("error_type", kind->type), AIO_BOOL("retryable", kind->status == 503),
                                    AIO_INT_IF(kind->name, "errno", kind->number), AIO_STR("errno_name", kind->name),
                                    AIO_STR("exception_type", kind->exception)));
    int code = err->code;
    int failed = aio_close(&answer, 0, err);
    return failed < 0 ? failed : code;
}

const char *aio_path(struct http_request *request, struct box *box, const struct row_text *path, bool change,
                     struct err *err) {
    return change ? front_target(request, box, path, false, err) : front_path(request, box, path, false, err);
}

/* ---- text ---- */

struct loading {
    struct http_request *request;
    struct aio_load *load;
    uint64_t line;
    size_t held;
    bool done; /* nothing behind is wanted */
    struct err *err;
};

/* Accounted for before it is there: what all requests hold together has a limit. */
static int loading_put(struct loading *loading, const uint8_t *data, size_t len) {
    struct buf *out = loading->load->out;
    if (out->len + len > AIO_TEXT_BYTES)
        return err_set(loading->err, ERR_TOO_LARGE, AIO_TEXT_LIMIT);
    while (out->len + len > loading->held) {
        int failed = http_hold(loading->request, HOLD_STEP_BYTES, loading->err);
        if (failed)
            return failed;
        loading->held += HOLD_STEP_BYTES;
    }
    buf_put(out, data, len);
    return 0;
}

static int loading_take(void *user, const uint8_t *data, size_t len) {
    struct loading *loading = user;
    const struct aio_load *load = loading->load;
    if (!load->ranged)
        return loading_put(loading, data, len);
    while (len && loading->line < load->last) {
        const uint8_t *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) + 1 : len;
        int failed = loading->line >= load->first ? loading_put(loading, data, n) : 0;
        if (failed)
            return failed;
        data += n, len -= n;
        loading->line += end != NULL;
    }
    loading->done = loading->line >= load->last;
    return loading->done ? -ERR_GONE : 0;
}

static int loading_fd(struct loading *loading, int fd) {
    uint8_t *piece = arena_alloc(http_arena(loading->request), PIECE_BYTES);
    for (;;) {
        ssize_t n = read(fd, piece, PIECE_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(loading->err, errno, "reading '%s'", loading->load->path);
        int failed = n ? loading_take(loading, piece, (size_t)n) : 0;
        if (failed || !n)
            return failed;
    }
}

int aio_load(struct http_request *request, struct box *box, struct aio_load *load, struct err *err) {
    struct loading loading = {.request = request, .load = load, .err = err};
    autofd fd = -1;
    int failed;
    if (load->root) {
        failed = box_read_root(box, load->path, INT64_MAX, http_fd(request), loading_take, &loading, err);
    } else {
        failed = box_read_open(box, load->path, &fd, &load->stat, err);
        if (!failed && !load->ranged && load->stat.size > AIO_TEXT_BYTES)
            failed = err_set(err, ERR_TOO_LARGE, AIO_TEXT_LIMIT);
        if (!failed)
            failed = fd >= 0 ? loading_fd(&loading, fd)
                             : box_read_stream(box, load->path, 0, load->stat.size, http_fd(request), loading_take,
                                               &loading, err);
    }
    if (failed && !loading.done)
        return failed;
    struct buf *out = load->out;
    if (load->ranged && out->len && out->data[out->len - 1] == '\n')
        out->len -= out->len > 1 && out->data[out->len - 2] == '\r' ? 2 : 1;
    return 0;
}

static int not_text(const struct buf *text, struct err *err) {
    size_t at = 0, n = 1;
    uint32_t character;
    while (at < text->len && (n = text_character(text->data + at, text->len - at, &character)) > 0)
        at += n;
    uint8_t byte = at < text->len ? text->data[at] : 0;
    return err_told(err, EILSEQ,
                    "'utf-8' codec can't decode byte 0x%02x in position %zu: it is not a text; download it", byte, at);
}

int aio_load_text(struct http_request *request, struct box *box, struct aio_load *load, struct err *err) {
    int failed = aio_load(request, box, load, err);
    return failed || text_utf8(load->out->data, load->out->len) ? failed : not_text(load->out, err);
}

struct read_args {
    struct row_text file;
    struct row_number start_line, end_line;
    bool sudo;
};

static const struct row read_fields[] = {
    AIO_PATH_ROW("file", read_args, file, "absolute path"),
    {AIO_ROW("start_line", INT, read_args, start_line), .max = INT64_MAX, .text = "first line, counted from 0"},
    {AIO_ROW("end_line", INT, read_args, end_line), .max = INT64_MAX, .text = "the line behind the last one"},
    {AIO_ROW("sudo", BOOL, read_args, sudo), .text = "with the rights of the box's root"},
    {0},
};

int aio_file_read(struct http_request *request, struct box *box, struct err *err) {
    struct read_args args = {0};
    int failed = detail_body(request, &args, err);
    if (failed)
        return failed;
    autobuf text = buf_max(AIO_TEXT_BYTES);
    struct aio_load load = {.path = aio_path(request, box, &args.file, false, err),
                            .root = args.sudo,
                            .ranged = args.start_line.has || args.end_line.has,
                            .first = args.start_line.value,
                            .last = args.end_line.has ? args.end_line.value : UINT64_MAX,
                            .out = &text};
    failed = load.path ? aio_load_text(request, box, &load, err) : -err->code;
    if (failed)
        return aio_file_fail(request, "Failed to read file", "read", args.file.data, err);
    return aio_reply(request, "File read successfully",
                     AIO_MEMBERS(AIO_TEXT("content", text.data, text.len), AIO_STR("file", args.file.data)), err);
}

/* ---- bytes ---- */

struct download_args {
    struct row_text path, change_policy;
};

static const struct row download_query[] = {
    AIO_PATH_ROW("path", download_args, path, "absolute path"),
    {AIO_ROW("change_policy", TEXT, download_args, change_policy), .choices = "ignore|abort",
     .text = "abort: a file that is changed meanwhile is no answer, 409 or a connection cut off; default ignore"},
    {0},
};

static int download_changed(struct box *box, const char *path, const struct file_stat *was, bool *ret_changed,
                            struct err *err) {
    struct file_stat now = {0};
    autofd fd = -1;
    int failed = box_read_open(box, path, &fd, &now, err);
    *ret_changed =
        failed == -ERR_NOT_FOUND || now.inode != was->inode || now.size != was->size || now.mtime_ns != was->mtime_ns;
    return failed == -ERR_NOT_FOUND ? 0 : failed;
}

static int download_conflict(struct http_request *request) {
    return aio_fail(request, 409, ERR_EXISTS, "File changed during download");
}

struct pinned {
    struct http_request *request;
    struct buf small;
    uint64_t left; /* until the last piece */
};

static int pinned_take(void *user, const uint8_t *data, size_t len) {
    struct pinned *pinned = user;
    if (!http_replied(pinned->request)) {
        buf_put(&pinned->small, data, len);
        return 0;
    }
    return http_reply_write(pinned->request, data, len);
}

/* What is small is read before anything is answered; of what is not, the last byte goes out when nothing has changed. */
static int download_pinned(struct http_request *request, struct box *box, const char *path, struct err *err) {
    struct file_stat stat = {0};
    struct pinned pinned = {.request = request};
    autofd fd = -1;
    bool changed = false;
    int failed = box_read_open(box, path, &fd, &stat, err);
    if (failed)
        return failed;
    uint64_t size = stat.size, first = size > PINNED_BYTES ? size - 1 : size;
    buf_init(&pinned.small, PINNED_BYTES);
    if (size > PINNED_BYTES)
        failed = http_reply_begin(request, 200, "application/octet-stream", (int64_t)size);
    if (!failed && first)
        failed = box_read_stream(box, path, 0, first, http_fd(request), pinned_take, &pinned, err);
    if (!failed)
        failed = download_changed(box, path, &stat, &changed, err);
    changed |= size <= PINNED_BYTES && pinned.small.len != size;
    if (!failed && changed)
        failed = http_replied(request) ? -ERR_EXISTS : download_conflict(request);
    else if (!failed && first < size)
        failed = box_read_stream(box, path, first, 1, http_fd(request), pinned_take, &pinned, err);
    if (!failed)
        failed = size > PINNED_BYTES
                     ? http_reply_end(request)
                     : http_reply(request, 200, "application/octet-stream", pinned.small.data, pinned.small.len);
    buf_done(&pinned.small);
    return failed;
}

int aio_file_download(struct http_request *request, struct box *box, struct err *err) {
    struct download_args args = {0};
    int failed = detail_query(request, &args, err);
    if (failed)
        return failed;
    bool pinned = args.change_policy.data && !strcmp(args.change_policy.data, "abort");
    const char *path = aio_path(request, box, &args.path, false, err);
    failed = !path    ? -err->code
             : pinned ? download_pinned(request, box, path, err)
                      : front_send(request, box, path, err);
    if (failed >= 0 || http_replied(request))
        return failed;
    /* Whatever the configuration says about failures: a body of 200 would be the file. */
    const struct kind *kind = kind_of(err);
    return kind ? aio_fail(request, kind->status, err->code,
                           arena_printf(http_arena(request), "Failed to download file: %s", err->text))
                : failed;
}

/* ---- the table ---- */

const struct route aio_file_routes[] = {
    AIO_ROUTE("POST", "/file/read", "aio_file_read", "A file of a box as text, or some of its lines",
              .run = aio_file_read, .body = read_fields),
    AIO_ROUTE("POST", "/file/write", "aio_file_write", "Write a file of a box, or append to it", .run = aio_file_write,
              .body = aio_write_fields),
    AIO_ROUTE("POST", "/file/replace", "aio_file_replace", "Replace every place of a text in a file",
              .run = aio_file_replace, .body = aio_replace_fields),
    AIO_ROUTE("POST", "/file/search", "aio_file_search", "Lines of one file that match an expression",
              .run = aio_file_search, .body = aio_search_fields),
    AIO_ROUTE("POST", "/file/find", "aio_file_find", "Files of a box whose names match a glob", .run = aio_file_find,
              .body = aio_find_fields),
    AIO_ROUTE("POST", "/file/list", "aio_file_list", "What is in a directory of a box", .run = aio_file_list,
              .body = aio_list_fields),
    AIO_ROUTE("POST", "/file/upload", "aio_file_upload", "Write a file of a box from a form", .run = aio_file_upload,
              .body_media = "multipart/form-data"),
    AIO_ROUTE("GET", "/file/download", "aio_file_download", "A file of a box as it is", .run = aio_file_download,
              .query = download_query, .answer_media = "application/octet-stream"),
    AIO_ROUTE("POST", "/file/str_replace_editor", "aio_file_editor",
              "View, create, change a file, and take the last change back", .run = aio_file_editor,
              .body = aio_editor_fields),
    {0},
};
