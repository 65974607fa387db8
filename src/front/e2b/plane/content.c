/* The content of volumes over HTTP, by the token of a volume. Called through e2b_content_routes. Invariant: what is in a
 * volume is reached through box/volume.h, never by a path of the host. */
#include <ctype.h>

#include "base/fd.h"
#include "base/path.h"
#include "box/volume.h"
#include "front/answer.h"
#include "front/e2b/plane/plane.h"
#include "front/e2b/sandbox.h"

enum { CONTENT_DEPTH = 64 };

/* Errors of these routes have a text as their code. */
static int content_refuse(struct http_request *, int status, const char *code, const char *text, struct buf *out) {
    char lower[32];
    size_t i = 0;
    for (; code[i] && i + 1 < sizeof lower; i++)
        lower[i] = (char)tolower((unsigned char)code[i]);
    lower[i] = 0;
    struct json json = json_begin(out);
    json_put_str(&json, "code", lower);
    json_put_str(&json, "message", text);
    json_close(&json, '}');
    return status;
}

struct content_args {
    struct row_text path;
    struct row_number uid, gid, mode, depth;
    bool force;
};
#define CONTENT_ROW(label, kind, member, ...)                                                                          \
    { .name = (label), .type = ROW_##kind, .offset = offsetof(struct content_args, member), __VA_ARGS__ }
#define CONTENT_PATH                                                                                                   \
    CONTENT_ROW("path", TEXT, path, .flags = ROW_REQUIRED, .max = LIMIT_PATH_BYTES, .text = "From the volume's top.")
#define CONTENT_OWNER                                                                                                  \
    CONTENT_ROW("uid", INT, uid, .max = INT32_MAX, .text = "Owner."),                                                  \
        CONTENT_ROW("gid", INT, gid, .max = INT32_MAX, .text = "Group."),                                              \
        CONTENT_ROW("mode", INT, mode, .max = 07777, .text = "Permissions.")
static const struct row content_path[] = {CONTENT_PATH, {0}};
static const struct row content_list[] = {
    CONTENT_PATH, CONTENT_ROW("depth", INT, depth, .min = 1, .max = CONTENT_DEPTH, .text = "1 to 64; 1."), {0}};
static const struct row content_make[] = {
    CONTENT_PATH, CONTENT_OWNER, CONTENT_ROW("force", BOOL, force, .text = "Parents are made."), {0}};
static const struct row content_change[] = {CONTENT_OWNER, E2B_ROWS_END};

/* Arguments, and the volume's top. */
static int content_open(struct http_request *request, struct content_args *args, int *ret_top, struct err *err) {
    STEP(front_query(request, args, err));
    STEP(path_check(args->path.data, args->path.len, err));
    int top = volume_open(plane_of(request)->volumes_fd, http_param(request, "volume"), err);
    if (top < 0)
        return top;
    *ret_top = top;
    return 0;
}

static struct volume_owner content_owner(const struct content_args *args) {
    return (struct volume_owner){.uid = args->uid.has ? (int64_t)args->uid.value : -1,
                                 .gid = args->gid.has ? (int64_t)args->gid.value : -1,
                                 .mode = (uint32_t)args->mode.value};
}

static void content_put(struct json *json, const struct volume_entry *entry) {
    const struct stat *status = &entry->status;
    const struct {
        const char *key;
        struct timespec at;
    } times[] = {{"atime", status->st_atim}, {"mtime", status->st_mtim}, {"ctime", status->st_ctim}};
    json_open(json, '{');
    json_put_str(json, "name", entry->name);
    json_put_str(json, "type",
                 S_ISREG(status->st_mode)   ? "file"
                 : S_ISDIR(status->st_mode) ? "directory"
                 : S_ISLNK(status->st_mode) ? "symlink"
                                            : "unknown");
    json_put_str(json, "path", entry->path);
    json_put_uint(json, "size", (uint64_t)status->st_size);
    json_put_uint(json, "mode", status->st_mode & 07777);
    json_put_uint(json, "uid", status->st_uid);
    json_put_uint(json, "gid", status->st_gid);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        e2b_put_time(json, times[i].key, (uint64_t)times[i].at.tv_sec * 1000000 + (uint64_t)times[i].at.tv_nsec / 1000);
    json_put_some(json, "target", entry->target);
    json_close(json, '}');
}

static int content_answer(struct http_request *request, int top, const char *path, int status, struct err *err) {
    struct volume_entry entry;
    autobuf out = buf_max(65536);
    STEP(volume_stat(top, path, http_arena(request), &entry, err));
    struct json json = {.out = &out};
    content_put(&json, &entry);
    return e2b_json(request, status, &out, err);
}

static int content_stat(struct http_request *request, struct box *, struct err *err) {
    struct content_args args = {0};
    autofd top = -1;
    STEP(content_open(request, &args, &top, err));
    return content_answer(request, top, args.path.data, 200, err);
}

static int content_patch(struct http_request *request, struct box *, struct err *err) {
    struct content_args args = {0}, body = {0};
    autofd top = -1;
    STEP(e2b_body(request, &body, NULL, err));
    STEP(content_open(request, &args, &top, err));
    const struct volume_owner owner = content_owner(&body);
    return volume_change(top, args.path.data, &owner, err) ?: content_answer(request, top, args.path.data, 200, err);
}

static int content_remove(struct http_request *request, struct box *, struct err *err) {
    struct content_args args = {0};
    autofd top = -1;
    STEP(content_open(request, &args, &top, err));
    return volume_delete(top, args.path.data, err) ?: front_empty(request, 204);
}

static int content_entries(struct http_request *request, struct box *, struct err *err) {
    struct content_args args = {0};
    struct volume_entry *entries;
    size_t count;
    autofd top = -1;
    STEP(content_open(request, &args, &top, err));
    STEP(volume_list(top, args.path.data, args.depth.has ? (unsigned)args.depth.value : 1, http_arena(request),
                     &entries, &count, err));
    autoanswer answer;
    answer_init(&answer, request, 200);
    json_open(&answer.json, '[');
    int failed = 0;
    for (size_t i = 0; i < count && !failed; i++) {
        content_put(&answer.json, &entries[i]);
        failed = answer_spill(&answer);
    }
    json_close(&answer.json, ']');
    return answer_end(&answer, failed, err);
}

static int content_mkdir(struct http_request *request, struct box *, struct err *err) {
    struct content_args args = {0};
    autofd top = -1;
    STEP(content_open(request, &args, &top, err));
    const struct volume_owner owner = content_owner(&args);
    return volume_mkdir(top, args.path.data, args.force, &owner, err)
               ?: content_answer(request, top, args.path.data, 201, err);
}

static int content_read(struct http_request *request, struct box *, struct err *err) {
    struct content_args args = {0};
    struct stat status;
    autofd top = -1, fd = -1;
    STEP(content_open(request, &args, &top, err));
    STEP(path_open_stat(top, "", args.path.data, O_RDONLY, 0, &fd, &status, err));
    return http_reply_begin(request, 200, "application/octet-stream", status.st_size)
               ?: http_reply_file(request, fd, 0, (uint64_t)status.st_size) ?: http_reply_end(request);
}

static int content_write(struct http_request *request, struct box *, struct err *err) {
    struct content_args args = {0};
    struct volume_write write;
    autofd top = -1;
    STEP(content_open(request, &args, &top, err));
    STEP(provider_room(front_of(request)->provider, err));
    const struct volume_owner owner = content_owner(&args);
    STEP(volume_write_begin(top, args.path.data, args.force, &owner, &write, err));
    return volume_write_end(&write, plane_receive(request, write.fd, err), err)
               ?: content_answer(request, top, args.path.data, 201, err);
}

/* ---- the table ---- */

#define CONTENT_ROUTE(method, path, name, summary, ...)                                                                \
    {                                                                                                                  \
        (method), "/volumecontent/{volume}/" path, front_handle, 0, (name), (summary),                                 \
            ENDPOINT(.flags = ENDPOINT_LENIENT | ENDPOINT_NO_BOX, .refuse = content_refuse, __VA_ARGS__)               \
    }
const struct route e2b_content_routes[] = {
    CONTENT_ROUTE("GET", "path", "e2b_volume_stat", "E2B: an entry of a volume", .run = content_stat,
                  .query = content_path, .status = 200),
    CONTENT_ROUTE("PATCH", "path", "e2b_volume_change", "E2B: owner and mode of an entry", .run = content_patch,
                  .query = content_path, .body = content_change, .status = 200),
    CONTENT_ROUTE("DELETE", "path", "e2b_volume_remove", "E2B: remove an entry", .run = content_remove,
                  .query = content_path, .status = 204),
    CONTENT_ROUTE("GET", "dir", "e2b_volume_list", "E2B: a directory of a volume", .run = content_entries,
                  .query = content_list, .status = 200),
    CONTENT_ROUTE("POST", "dir", "e2b_volume_mkdir", "E2B: make a directory", .run = content_mkdir,
                  .query = content_make, .status = 201),
    CONTENT_ROUTE("GET", "file", "e2b_volume_read", "E2B: a file of a volume", .run = content_read,
                  .query = content_path, .status = 200, .answer_media = "application/octet-stream"),
    CONTENT_ROUTE("PUT", "file", "e2b_volume_write", "E2B: write a file", .run = content_write, .query = content_make,
                  .body_media = "application/octet-stream", .status = 201),
    {0},
};
