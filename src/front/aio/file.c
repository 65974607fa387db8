/* The file group's table, its failures, and reading: as text and as bytes. Called through aio_file_routes. Invariant: a
 * failure has a status of its own and the group's data, so that no client takes it for a success; and no file is in
 * memory twice. */
#include "front/aio/file.h"

#include "http/multipart.h"
#include "skill/stage.h"

#define LIST_MOST 10000u        /* entries per answer, as in the original server */
#define PINNED_BYTES (1u << 20) /* smaller files are read completely before the answer begins */

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

/* Used if no system call failed. EILSEQ: not a text. */
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
    /* The kernel's text, as in the original server; if the path is not a file, ours is clearer. */
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
    int failed = aio_close(&answer, 0, 0, err);
    return failed < 0 ? failed : code;
}

/* ---- text ---- */

int aio_load_text(struct http_request *request, struct box *box, struct front_load *load, struct err *err) {
    const struct buf *text = load->out;
    size_t at = 0, n;
    uint32_t character;
    load->too_large = AIO_TEXT_LIMIT;
    int failed = front_load(request, box, load, err);
    if (failed || text_utf8(text->data, text->len))
        return failed;
    while (at < text->len && (n = text_character(text->data + at, text->len - at, &character)) > 0)
        at += n;
    return err_text(err, EILSEQ,
                    "'utf-8' codec can't decode byte 0x%02x in position %zu: it is not a text; download it",
                    at < text->len ? text->data[at] : 0, at);
}

static const struct row read_fields[] = {
    AIO_PATH_ROW(file, "absolute path"),
    {AIO_IN(start_line, INT), .max = INT64_MAX, .text = "first line, counted from 0"},
    {AIO_IN(end_line, INT), .max = INT64_MAX, .text = "the line after the last one"},
    {AIO_IN(sudo, BOOL), .text = "with the rights of the box's root"},
    {0},
};

static int file_read(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    STEP(detail_body(request, &args, err));
    autobuf text = buf_max(AIO_TEXT_BYTES);
    struct front_load load = {.root = args.sudo,
                              .ranged = args.start_line.has || args.end_line.has,
                              .first = args.start_line.value,
                              .last = args.end_line.has ? args.end_line.value : UINT64_MAX,
                              .out = &text};
    if (front_path(request, box, &args.file, false, &load.path, err) || aio_load_text(request, box, &load, err))
        return aio_file_fail(request, "Failed to read file", "read", args.file.data, err);
    return aio_reply(request, "File read successfully",
                     AIO_MEMBERS(AIO_TEXT("content", text.data, text.len), AIO_STR("file", args.file.data)), err);
}

/* ---- bytes ---- */

static const struct row download_query[] = {
    AIO_PATH_ROW(path, "absolute path"),
    {AIO_IN(change_policy, TEXT), .choices = "ignore|abort",
     .text = "abort: a file that changes during the read is 409, or a connection cut off; default ignore"},
    {0},
};

struct pinned {
    struct http_request *request;
    struct buf small;
};

static int file_pinned_take(void *user, const uint8_t *data, size_t len) {
    struct pinned *pinned = user;
    if (!http_replied(pinned->request)) {
        buf_put(&pinned->small, data, len);
        return 0;
    }
    return http_reply_write(pinned->request, data, len);
}

/* A small file is read before the answer begins. The last byte of a larger one is sent only if it has not changed. */
static int file_download_pinned(struct http_request *request, struct box *box, const char *path, struct err *err) {
    struct file_stat stat = {0};
    struct pinned pinned = {.request = request};
    autofd fd = -1;
    bool changed = false;
    int failed = 0;
    STEP(box_read_open(box, path, &fd, &stat, err));
    uint64_t size = stat.size, first = size > PINNED_BYTES ? size - 1 : size;
    buf_init(&pinned.small, PINNED_BYTES);
    if (size > PINNED_BYTES)
        failed = http_reply_begin(request, 200, "application/octet-stream", (int64_t)size);
    if (!failed && first)
        failed = box_read_stream(box, path, 0, first, http_fd(request), file_pinned_take, &pinned, err);
    if (!failed) {
        struct file_stat now = {0};
        autofd again = -1;
        failed = box_read_open(box, path, &again, &now, err);
        changed = failed == -ERR_NOT_FOUND || now.inode != stat.inode || now.size != size ||
                  now.mtime_ns != stat.mtime_ns || (size <= PINNED_BYTES && pinned.small.len != size);
        failed = failed == -ERR_NOT_FOUND ? 0 : failed;
    }
    if (!failed && changed)
        failed =
            http_replied(request) ? -ERR_EXISTS : aio_fail(request, 409, ERR_EXISTS, "File changed during download");
    else if (!failed && first < size)
        failed = box_read_stream(box, path, first, 1, http_fd(request), file_pinned_take, &pinned, err);
    if (!failed)
        failed = size > PINNED_BYTES
                     ? http_reply_end(request)
                     : http_reply(request, 200, "application/octet-stream", pinned.small.data, pinned.small.len);
    buf_done(&pinned.small);
    return failed;
}

static int file_download(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    STEP(detail_query(request, &args, err));
    bool pinned = args.change_policy.data && !strcmp(args.change_policy.data, "abort");
    const char *path;
    int failed = front_path(request, box, &args.path, false, &path, err)
                     ?: (pinned ? file_download_pinned : front_send)(request, box, path, err);
    if (failed >= 0 || http_replied(request))
        return failed;
    /* Ignores the configuration: a body with status 200 would be taken for the file. */
    const struct kind *kind = kind_of(err);
    return kind ? aio_fail(request, kind->status, err->code,
                           arena_printf(http_arena(request), "Failed to download file: %s", err->text))
                : failed;
}

/* ---- list ---- */

static const struct row list_fields[] = {
    AIO_PATH_ROW(path, "absolute path of a directory"),
    {AIO_IN(recursive, BOOL), .text = "with all that is below"},
    {AIO_IN(show_hidden, BOOL), .text = "names that begin with a dot, too; default true"},
    {AIO_IN(file_types, TEXTS), .max = 256, .text = "of files only those with one of these extensions, e.g. .py"},
    {AIO_IN(max_depth, INT), .min = 1, .max = LIMIT_LIST_DEPTH, .text = "how deep recursive goes; default: to the end"},
    {AIO_IN(include_size, BOOL), .text = "sizes of files; default true"},
    {AIO_IN(include_permissions, BOOL), .text = "as in rwxr-xr-x"},
    {AIO_IN(sort_by, TEXT), .choices = "name|size|modified|type", .text = "default name"},
    {AIO_IN(sort_desc, BOOL), .text = "the other way round"},
    {0},
};

struct list_entry {
    const char *name, *path;
    uint64_t size, mtime_ns;
    uint32_t mode;
    bool dir;
};

struct list {
    const struct aio_args *args;
    struct http_request *request;
    struct list_entry *entries;
    size_t count, room;
    bool more;
    struct err *err;
};

static const char *file_list_extension(const struct list_entry *entry) {
    const char *dot = strrchr(entry->name, '.');
    return !entry->dir && dot && dot != entry->name ? dot : "";
}

static int file_list_each(void *user, const struct file_stat *stat) {
    struct list *list = user;
    struct list_entry entry = {stat->name, stat->path, stat->size, stat->mtime_ns, stat->mode, stat->type == FILE_DIR};
    const char *const *type = list->args->file_types;
    if (!list->args->show_hidden && entry.name[0] == '.')
        return 0;
    if (type && *type && !entry.dir) {
        const char *have = file_list_extension(&entry);
        while (*type && strcasecmp(have + (*have == '.' && **type != '.'), *type) != 0)
            type++;
        if (!*type)
            return 0;
    }
    if (list->count == LIST_MOST) {
        list->more = true;
        return -ERR_LIMIT;
    }
    struct arena *arena = http_arena(list->request);
    size_t bytes = sizeof entry + strlen(entry.name) + strlen(entry.path) + 2;
    STEP(http_hold(list->request, bytes, list->err));
    entry.path = arena_strdup(arena, stat->path);
    const char *slash = strrchr(entry.path, '/');
    entry.name = slash ? slash + 1 : entry.path;
    vec_add(list->entries, list->count, list->room) = entry;
    return 0;
}

static int file_list_three_way(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int file_list_compare(const void *left, const void *right, void *user) {
    const struct aio_args *args = user;
    const struct list_entry *a = left, *b = right;
    const char *by = args->sort_by.data ? args->sort_by.data : "name";
    int order = 0;
    if (!strcmp(by, "size"))
        order = file_list_three_way(a->size, b->size);
    else if (!strcmp(by, "modified"))
        order = file_list_three_way(a->mtime_ns, b->mtime_ns);
    else if (!strcmp(by, "type"))
        order = a->dir != b->dir ? (int)b->dir - (int)a->dir : strcmp(file_list_extension(a), file_list_extension(b));
    order = order ? order : strcmp(a->name, b->name);
    order = order ? order : strcmp(a->path, b->path);
    return args->sort_desc ? -order : order;
}

static int file_list_answer(struct list *list, struct err *err) {
    const struct aio_args *args = list->args;
    size_t dirs = 0;
    autoanswer answer;
    aio_open(&answer, list->request,
             list->more ? "The list is truncated: use a more specific path" : "Directory listed successfully", '{');
    json_put_str(&answer.json, "path", args->path.data);
    json_put_open(&answer.json, "files", '[');
    for (size_t i = 0; i < list->count && !answer.failed; i++) {
        const struct list_entry *entry = &list->entries[i];
        char mode[10] = "";
        for (unsigned bit = 0; bit < 9; bit++)
            mode[bit] = entry->mode & (0400u >> bit) ? "rwx"[bit % 3] : '-';
        dirs += entry->dir;
        aio_object(&answer,
                   AIO_MEMBERS(AIO_STR("name", entry->name), AIO_STR("path", entry->path),
                               AIO_BOOL("is_directory", entry->dir),
                               AIO_INT_IF(args->include_size && !entry->dir, "size", entry->size),
                               AIO_TIME("modified_time", entry->mtime_ns / 1000000),
                               AIO_STR("permissions", args->include_permissions ? mode : NULL),
                               AIO_STR("extension", *file_list_extension(entry) ? file_list_extension(entry) : NULL)));
    }
    json_close(&answer.json, ']');
    aio_put(&answer, AIO_MEMBERS(AIO_INT("total_count", list->count), AIO_INT("directory_count", dirs),
                                 AIO_INT("file_count", list->count - dirs), AIO_BOOL("truncated", list->more)));
    return aio_close(&answer, '}', 0, err);
}

static int file_list(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {.show_hidden = true, .include_size = true};
    struct list list = {.args = &args, .request = request, .err = err};
    bool truncated = false;
    STEP(detail_body(request, &args, err));
    struct list_request wanted = {.depth = !args.recursive      ? 1
                                           : args.max_depth.has ? (unsigned)args.max_depth.value
                                                                : LIMIT_LIST_DEPTH,
                                  .limit = LIMIT_LIST_LIMIT,
                                  .ignore = args.show_hidden ? NULL : ".*", /* hidden directories are not entered */
                                  .follow = true};
    int failed = front_path(request, box, &args.path, false, &wanted.path, err)
                     ?: box_list(box, &wanted, http_fd(request), file_list_each, &list, &truncated, err);
    if (failed && !list.more) {
        failed = aio_file_fail(request, "Failed to list path", "list", args.path.data, err);
    } else {
        list.more |= truncated;
        if (list.count)
            qsort_r(list.entries, list.count, sizeof *list.entries, file_list_compare, &args);
        failed = file_list_answer(&list, err);
    }
    free(list.entries);
    return failed;
}

/* ---- write ---- */

static const struct row write_fields[] = {
    AIO_PATH_ROW(file, "absolute path; directories on the way are made"),
    {AIO_IN(content, TEXT), .flags = ROW_REQUIRED | ROW_NUL, .max = LIMIT_JSON_BYTES,
     .text = "what is written, of any length that an upload may have"},
    {AIO_IN(encoding, TEXT), .choices = "utf-8|base64|raw",
     .text = "what content is: text, base64, or a character for each byte; default utf-8"},
    {AIO_IN(append, BOOL), .text = "after what is there"},
    {AIO_IN(leading_newline, BOOL), .text = "utf-8: a newline before it"},
    {AIO_IN(trailing_newline, BOOL), .text = "utf-8: a newline after it"},
    {AIO_IN(sudo, BOOL), .text = "with the rights of the box's root"},
    {0},
};

static int file_write(struct http_request *request, struct box *box, struct err *err) {
    struct aio_args args = {0};
    struct file_stat stat = {0};
    bool created;
    __attribute__((cleanup(aio_content_done))) struct aio_content content = {.file.fd = -1};
    STEP(aio_content_take(request, box, &content, &args, err));
    if (!content.seen) { /* its name has escapes, so it came with the rest */
        buf_put(&content.memory, args.content.data, args.content.len);
        content.len = content.memory.len;
    }
    content.encoding = args.encoding.data ? args.encoding.data : "utf-8";
    content.leading = args.leading_newline;
    content.trailing = args.trailing_newline;
    struct write_request write = {.parents = true,
                                  .append = args.append,
                                  .root = args.sudo,
                                  .size = -1,
                                  .max = front_settings(request)->max_upload_bytes};
    int failed = front_target(request, box, &args.file, &write.path, err)
                     ?: box_write(box, &write, aio_content_read, &content, http_fd(request), &created, &stat, err);
    if (failed)
        return aio_file_fail(request, "Failed to write file", "write", args.file.data, err);
    return aio_reply(request, args.append ? "Content appended successfully" : "File written successfully",
                     AIO_MEMBERS(AIO_STR("file", args.file.data), AIO_INT("bytes_written", content.given)), err);
}

/* ---- upload ---- */

/* Finds the target: path; a file in it if it is a directory; without a path, a file in the workspace. */
static int file_upload_target(struct http_request *request, struct box *box, const struct multipart_form *form,
                              const char **ret_path, struct err *err) {
    struct arena *arena = http_arena(request);
    size_t len = 0;
    const char *path = multipart_field(form, "path", &len), *name = form->file.file_name;
    struct file_stat stat = {0};
    if (path && (strlen(path) != len || len > LIMIT_PATH_BYTES))
        return err_set(err, ERR_INVALID, "the path contains a NUL byte, or is longer than %u bytes", LIMIT_PATH_BYTES);
    for (const char *at = name; at && *at; at++) /* the last part of the client's file name */
        name = *at == '/' || *at == '\\' ? at + 1 : name;
    if (!path || !*path)
        path = box_workspace(box);
    len = strlen(path);
    bool dir =
        path[len - 1] == '/' ||
        (box_stat(box, arena_printf(arena, "%s/.", path), arena, &stat, ERR_IGNORED) == 0 && stat.type == FILE_DIR);
    if (dir && (!name || !*name || !strcmp(name, ".") || !strcmp(name, "..")))
        return err_set(err, ERR_INVALID, "'%s' is a directory, and the upload has no file name to put there", path);
    *ret_path = dir ? arena_printf(arena, "%s%s%s", path, path[len - 1] == '/' ? "" : "/", name) : path;
    return 0;
}

static int file_upload(struct http_request *request, struct box *box, struct err *err) {
    struct skills *skills = front_of(request)->skills;
    struct multipart_form form = {0};
    struct file_stat stat = {0};
    const char *shown = NULL, *limit;
    bool created;
    autoscratch file = {.fd = -1};
    uint64_t most = aio_upload_most(request, box, &limit);
    int failed = (skills ? skills_scratch(skills, box->user, most, limit, &file, err)
                         : err_set(err, ERR_UNSUPPORTED, "this daemon has no directory for uploads"))
                     ?: multipart_form(request, "file", &file, &form, err);
    if (failed == -ERR_INVALID)
        return detail_unfit(request, "file", err->text);
    if (!failed && !form.has_file)
        return detail_unfit(request, "file", "Field required");
    if (failed)
        return failed;
    failed = file_upload_target(request, box, &form, &shown, err);
    if (failed)
        return detail_unfit(request, "path", err->text);
    trail_quote(request, shown);
    const struct row_text path = {.data = shown, .len = strlen(shown)};
    struct write_request write = {.parents = true, .size = (int64_t)file.bytes, .max = most};
    failed = front_target(request, box, &path, &write.path, err)
                 ?: box_write(box, &write, scratch_read, &file, http_fd(request), &created, &stat, err);
    if (failed)
        return aio_file_fail(request, "Failed to upload file", "upload", shown, err);
    return aio_reply(
        request, "File uploaded successfully",
        AIO_MEMBERS(AIO_STR("file_path", write.path), AIO_INT("file_size", stat.size), AIO_BOOL("success", true)), err);
}

const struct route aio_file_routes[] = {
    AIO_ROUTE("POST", "/file/read", "aio_file_read", "A file of a box as text, or some of its lines", .run = file_read,
              .body = read_fields),
    AIO_ROUTE("POST", "/file/write", "aio_file_write", "Write a file of a box, or append to it", .run = file_write,
              .body = write_fields),
    AIO_ROUTE("POST", "/file/list", "aio_file_list", "What is in a directory of a box", .run = file_list,
              .body = list_fields),
    AIO_ROUTE("POST", "/file/upload", "aio_file_upload", "Write a file of a box from a form", .run = file_upload,
              .body_media = "multipart/form-data"),
    AIO_ROUTE("GET", "/file/download", "aio_file_download", "A file of a box as it is", .run = file_download,
              .query = download_query, .answer_media = "application/octet-stream"),
    {0},
};
