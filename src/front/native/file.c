/* File contents over HTTP: GET with ranges, PUT, DELETE, stat, archives. Called through native_routes. Invariant:
 * contents are never in the daemon's memory as a whole, whatever their size. */
#include "front/native/native.h"

#define PUT_SPLICE_BYTES (256 << 10) /* above this, two more calls to the runner cost less than copying */
#define PUT_PIECE_BYTES (8u << 20)   /* how far an upload may exceed its limit before that is noticed */

int native_get(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    const char *path;
    int failed = front_query(request, &args, err) ?: front_path(request, box, &args.path, false, &path, err);
    if (!failed && !box_direct(box) && !http_blocks(request)) /* quick only if the daemon opens the file itself */
        return err_set(err, ERR_BUSY, "all threads are busy; try again later");
    if (!failed)
        front_saved_as(request, path, "");
    return failed ?: front_send(request, box, path, err);
}

/* ---- PUT ---- */

struct native_upload {
    struct http_request *request;
    uint64_t left;
};

static ssize_t native_put_read(void *user, void *data, size_t size, struct err *err) {
    struct native_upload *upload = user;
    ssize_t n = http_body_read(upload->request, data, size, err);
    if (n <= 0)
        return n;
    if ((uint64_t)n > upload->left)
        return err_set(err, ERR_TOO_LARGE, "the upload is larger than max_upload_bytes allows");
    upload->left -= (uint64_t)n;
    return n;
}

/* Refuses a body that announces too large a size without reading it. */
static int native_upload_fits(struct http_request *request, struct err *err) {
    int64_t length = http_body_length(request);
    uint64_t max = front_settings(request)->max_upload_bytes;
    if (length <= 0 || (uint64_t)length <= max)
        return 0;
    return err_set(err, ERR_TOO_LARGE, "the upload has %lld bytes; the limit is %llu (max_upload_bytes)",
                   (long long)length, (unsigned long long)max);
}

/* Splices from the socket into the new file. Returns 1 if this box or request cannot; then nothing was read. */
static int native_put_large(struct http_request *request, struct box *box, const struct write_request *write,
                            bool *ret_created, struct file_stat *ret_stat, struct err *err) {
    int fd;
    struct box_write *open = NULL;
    uint64_t total = 0;
    int failed = box_write_open(box, write, &fd, &open, err);
    if (failed < 0 || fd < 0)
        return failed < 0 ? failed : 1;
    for (;;) {
        ssize_t n = http_body_splice(request, fd, PUT_PIECE_BYTES, err);
        if (n == 0)
            return box_write_commit(open, ret_created, ret_stat, err);
        total += n > 0 ? (uint64_t)n : 0;
        if (n > 0 && total <= write->max)
            continue;
        box_write_abort(open);
        return n < 0 ? (int)n
                     : err_set(err, ERR_TOO_LARGE, "the upload is larger than %llu bytes; see max_upload_bytes",
                               (unsigned long long)write->max);
    }
}

/* A failed If-Match is 412, for which there is no error code; the code stays EXISTS. */
static int native_put_conflict(struct http_request *request, const struct err *err) {
    autobuf out = buf_max(8192);
    struct json json;
    json_init(&json, &out);
    json_failure(&json, err_name(err->code), err->text);
    return http_reply(request, 412, "application/json", out.data, out.len) ?: err->code;
}

int native_put(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct file_stat stat = {0};
    struct native_upload upload = {.request = request, .left = front_settings(request)->max_upload_bytes};
    bool created = false;
    const char *path;
    int failed = front_query(request, &args, err) ?: native_upload_fits(request, err)
                     ?: front_target(request, box, &args.path, &path, err);
    if (failed)
        return failed;
    int64_t length = http_body_length(request);
    const struct write_request write = {.path = path,
                                        .mode = (uint32_t)args.mode.value,
                                        .parents = args.parents,
                                        .append = args.append,
                                        .if_match = http_header(request, "if-match"),
                                        .size = length,
                                        .max = upload.left};
    failed =
        length < 0 || length >= PUT_SPLICE_BYTES ? native_put_large(request, box, &write, &created, &stat, err) : 1;
    if (failed > 0)
        failed = box_write(box, &write, native_put_read, &upload, http_fd(request), &created, &stat, err);
    if (failed == -ERR_EXISTS && write.if_match)
        return native_put_conflict(request, err);
    if (failed)
        return failed;
    char etag[ETAG_BYTES];
    http_reply_header(request, "ETag", file_etag(&stat, etag));
    return front_empty(request, created ? 201 : 200);
}

int native_remove(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    const char *path;
    return front_query(request, &args, err)
               ?: front_target(request, box, &args.path, &path, err)
               ?: box_remove(box, path, args.recursive, http_fd(request), err)
               ?: front_empty(request, 204);
}

/* ---- stat ---- */

const char *native_type_name(enum file_type type) {
    static const char *const types[] = {
        [FILE_REGULAR] = "file", [FILE_DIR] = "dir", [FILE_SYMLINK] = "symlink", [FILE_OTHER] = "other"};
    return type >= FILE_REGULAR && type <= FILE_OTHER ? types[type] : "other";
}

struct file_out native_file_out(const struct file_stat *stat) {
    return (struct file_out){.name = native_text(stat->name ? stat->name : ""),
                             .path = native_text(stat->path ? stat->path : ""),
                             .target = native_text(stat->target),
                             .type = native_type_name(stat->type),
                             .special = stat->type == FILE_OTHER ? stat->special : NULL,
                             .size = stat->size,
                             .mtime_ms = stat->mtime_ns / 1000000,
                             .mode = stat->mode,
                             .uid = stat->uid,
                             .gid = stat->gid};
}

int native_stat(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    struct file_stat stat = {0};
    const char *path;
    int failed = front_query(request, &args, err)
                     ?: front_path(request, box, &args.path, false, &path, err)
                     ?: box_stat(box, path, http_arena(request), &stat, err);
    const struct file_out out = native_file_out(&stat);
    return failed ?: answer_rows(request, 200, stat_answer, &out, err);
}

/* ---- archives ---- */

static int native_archive_begin(struct http_request *request) {
    return http_replied(request) ? 0 : http_reply_begin(request, 200, "application/x-tar", -1);
}

static int native_archive_write(void *user, const uint8_t *data, size_t len) {
    struct http_request *request = user;
    return native_archive_begin(request) ?: http_reply_write(request, data, len);
}

int native_archive(struct http_request *request, struct box *box, struct err *err) {
    struct native_args args = {0};
    const char *path;
    int failed = front_query(request, &args, err)
                     ?: front_path(request, box, &args.path, true, &path, err)
                     ?: box_tar_out(box, path, http_fd(request), native_archive_write, request, err)
                     ?: native_archive_begin(request);
    return failed ?: http_reply_end(request);
}

static int native_unpack_skipped(void *user, const char *name, const char *why) {
    return answer_item(user, &(const struct skipped_out){native_text(name), why});
}

int native_unpack(struct http_request *request, struct box *box, struct err *err) {
    struct native_upload upload = {.request = request, .left = front_settings(request)->max_upload_bytes};
    struct native_args args = {0};
    struct unpack_result result = {0};
    const char *path;
    STEP(front_query(request, &args, err) ?: native_upload_fits(request, err)
                     ?: front_path(request, box, &args.path, true, &path, err));
    autoanswer answer;
    answer_list(&answer, request, unpack_answer);
    const struct unpack_request unpack = {.path = path,
                                          .max_entries = front_settings(request)->max_unpack_entries,
                                          .skipped = native_unpack_skipped,
                                          .user = &answer};
    int failed = box_tar_in(box, &unpack, native_put_read, &upload, http_fd(request), &result, err);
    return answer_list_end(&answer, &result, failed, err);
}
