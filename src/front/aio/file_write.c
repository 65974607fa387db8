/* Files written: from JSON and from forms. Called through aio_file_routes. Invariant: what is answered as written was written,
 * whole; whatever fails before leaves the old file. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "front/aio/file.h"
#include "front/trail.h"
#include "http/multipart.h"
#include "skill/stage.h"

/* ---- write ---- */

struct write_args {
    struct row_text file, content, encoding;
    bool append, leading_newline, trailing_newline, sudo;
};

const struct row aio_write_fields[] = {
    AIO_PATH_ROW("file", write_args, file, "absolute path; directories on the way are made"),
    {AIO_ROW("content", TEXT, write_args, content), .flags = ROW_REQUIRED | ROW_NUL, .max = LIMIT_JSON_BYTES,
     .text = "what is written, of any length that an upload may have"},
    {AIO_ROW("encoding", TEXT, write_args, encoding), .choices = "utf-8|base64|raw",
     .text = "what content is: text, base64, or a character for each byte; default utf-8"},
    {AIO_ROW("append", BOOL, write_args, append), .text = "behind what is there"},
    {AIO_ROW("leading_newline", BOOL, write_args, leading_newline), .text = "utf-8: a newline before it"},
    {AIO_ROW("trailing_newline", BOOL, write_args, trailing_newline), .text = "utf-8: a newline behind it"},
    {AIO_ROW("sudo", BOOL, write_args, sudo), .text = "with the rights of the box's root"},
    {0},
};

static int write_run(struct http_request *request, struct box *box, const struct write_args *args,
                     struct aio_content *content, struct err *err) {
    struct file_stat stat = {0};
    bool created;
    if (!content->seen) { /* its name was written with escapes: it came with the rest */
        buf_put(&content->memory, args->content.data, args->content.len);
        content->len = content->memory.len;
    }
    content->encoding = args->encoding.data ? args->encoding.data : "utf-8";
    content->leading = args->leading_newline;
    content->trailing = args->trailing_newline;
    const struct write_request write = {.path = aio_path(request, box, &args->file, true, err),
                                        .parents = true,
                                        .append = args->append,
                                        .root = args->sudo,
                                        .size = -1,
                                        .max = front_settings(request)->max_upload_bytes};
    if (!write.path)
        return -err->code;
    return box_write(box, &write, aio_content_read, content, http_fd(request), &created, &stat, err);
}

int aio_file_write(struct http_request *request, struct box *box, struct err *err) {
    struct write_args args = {0};
    __attribute__((cleanup(aio_content_done))) struct aio_content content = {.file.fd = -1};
    int failed = aio_content_take(request, box, &content, &args, err);
    if (failed)
        return failed;
    failed = write_run(request, box, &args, &content, err);
    if (failed)
        return aio_file_fail(request, "Failed to write file", "write", args.file.data, err);
    return aio_reply(request, args.append ? "Content appended successfully" : "File written successfully",
                     AIO_MEMBERS(AIO_STR("file", args.file.data), AIO_INT("bytes_written", content.given)), err);
}

/* ---- upload ---- */

struct upload {
    int fd;
    uint64_t at;
};

static ssize_t upload_read(void *user, void *data, size_t size, struct err *err) {
    struct upload *upload = user;
    ssize_t n;
    while ((n = pread(upload->fd, data, size, (off_t)upload->at)) < 0 && errno == EINTR)
        continue;
    if (n < 0)
        return err_errno(err, errno, "what was received");
    upload->at += (uint64_t)n;
    return n;
}

/* The last name of what the client calls its file; NULL: it is none. */
static const char *upload_name(const char *name) {
    for (const char *at = name; at && *at; at++)
        if (*at == '/' || *at == '\\')
            name = at + 1;
    return name && *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 ? name : NULL;
}

/* Where it goes: to path; into it where that is a directory; without one into the workspace. */
static int upload_target(struct http_request *request, struct box *box, const struct multipart_form *form,
                         const char **ret_path, struct err *err) {
    struct arena *arena = http_arena(request);
    size_t len = 0;
    const char *path = multipart_field(form, "path", &len), *name = upload_name(form->file.file_name);
    struct file_stat stat = {0};
    if (path && (strlen(path) != len || len > LIMIT_PATH_BYTES))
        return err_set(err, ERR_INVALID, "the path holds a NUL byte, or is longer than %u bytes", LIMIT_PATH_BYTES);
    if (!path || !*path)
        path = box_workspace(box);
    len = strlen(path);
    struct err ignored;
    bool dir = path[len - 1] == '/' ||
               (box_stat(box, arena_printf(arena, "%s/.", path), arena, &stat, &ignored) == 0 && stat.type == FILE_DIR);
    if (dir && !name)
        return err_set(err, ERR_INVALID, "'%s' is a directory, and the file has no name", path);
    *ret_path = dir ? arena_printf(arena, "%s%s%s", path, path[len - 1] == '/' ? "" : "/", name) : path;
    return 0;
}

int aio_file_upload(struct http_request *request, struct box *box, struct err *err) {
    struct skills *skills = front_of(request)->skills;
    struct multipart_form form = {0};
    struct file_stat stat = {0};
    const char *shown = NULL, *limit;
    bool created;
    autoscratch file = {.fd = -1};
    uint64_t most = aio_upload_most(request, box, &limit);
    int failed = skills ? skills_scratch(skills, box->user, most, limit, &file, err)
                        : err_set(err, ERR_UNSUPPORTED, "this daemon has no directory for uploads");
    if (!failed)
        failed = multipart_form(request, "file", &file, &form, err);
    if (failed == -ERR_INVALID)
        return detail_unfit(request, "file", err->text);
    if (!failed && !form.has_file)
        return detail_unfit(request, "file", "Field required");
    if (failed)
        return failed;
    failed = upload_target(request, box, &form, &shown, err);
    if (failed)
        return detail_unfit(request, "path", err->text);
    trail_quote(request, shown);
    const struct row_text path = {.data = shown, .len = strlen(shown)};
    struct upload upload = {.fd = file.fd};
    struct write_request write = {
        .path = aio_path(request, box, &path, true, err), .parents = true, .size = (int64_t)file.bytes, .max = most};
    failed =
        write.path ? box_write(box, &write, upload_read, &upload, http_fd(request), &created, &stat, err) : -err->code;
    if (failed)
        return aio_file_fail(request, "Failed to upload file", "upload", shown, err);
    return aio_reply(
        request, "File uploaded successfully",
        AIO_MEMBERS(AIO_STR("file_path", write.path), AIO_INT("file_size", stat.size), AIO_BOOL("success", true)), err);
}
