/* The REST half of envd: files down and up, composed ones, variables, metrics. Called through e2b_file_routes; who may
 * is decided before (e2b_admit). Invariant: what is answered as written was written whole, and belongs to the user. */

#include "base/clock.h"
#include "base/mem.h"
#include "front/e2b/entry.h"
#include "front/e2b/record.h"
#include "front/e2b/sandbox.h"
#include "front/e2b/upload.h"
#include "front/send.h"
#include "front/trail.h"

enum {
    FILES_KEY_BYTES = 246, /* with the prefix it is the longest name of an attribute */
    FILES_METADATA_BYTES = 4096,
    FILES_ANSWER_BYTES = 16 << 20,
    FILES_SOURCES = 1000,
    FILES_AUDITED = 16, /* of one upload: the audit log names them */
    FILES_PIECE_BYTES = 1 << 20,
};

struct files_query {
    struct row_text path, username, signature, signature_expiration;
};

#define FILES_ROW(label, member)                                                                                       \
    { .name = (label), .type = ROW_TEXT, .offset = offsetof(struct files_query, member), .max = LIMIT_PATH_BYTES }
static const struct row files_rows[] = {
    FILES_ROW("path", path),
    FILES_ROW("username", username),
    FILES_ROW("signature", signature),
    FILES_ROW("signature_expiration", signature_expiration),
    {0},
};

/* Signed URLs are made for pages of any site. What they may is in the URL, and no cookie counts here. */
static void files_allow_pages(struct http_request *request) {
    if (http_header(request, "origin"))
        http_reply_header(request, "Access-Control-Allow-Origin", "*");
}

/* ---- download ---- */

static void files_disposition(struct http_request *request, const char *path) {
    const char *name = strrchr(path, '/') + 1;
    autobuf text = buf_max(4 * LIMIT_PATH_BYTES + 64);
    bool plain = true;
    for (const char *at = name; *at; at++)
        plain &= *at > 0x20 && *at < 0x7f && !strchr("\"\\;,()<>@:/[]?={}%'*", *at);
    if (plain) {
        buf_printf(&text, "inline; filename=%s", name);
    } else {
        buf_puts(&text, "inline; filename*=utf-8''");
        for (const unsigned char *at = (const unsigned char *)name; *at; at++)
            buf_printf(&text, "%%%02X", *at);
    }
    http_reply_header(request, "Content-Disposition", buf_cstr(&text));
    http_reply_header(request, "Vary", "Accept-Encoding");
}

static int files_root_begin(void *user, const struct file_stat *stat) {
    return http_reply_begin(user, 200, "application/octet-stream", (int64_t)stat->size);
}

static int files_root_data(void *user, const uint8_t *data, size_t len) {
    return http_reply_write(user, data, len);
}

/* What the agent may not read, as the box's root: streamed, without ranges. */
static int files_send_root(struct http_request *request, struct box *box, const char *path, struct err *err) {
    const struct read_sink sink = {.begin = files_root_begin, .data = files_root_data, .user = request};
    return box_read_root_file(box, path, 0, INT64_MAX, http_fd(request), &sink, err) ?: http_reply_end(request);
}

static int files_get(struct http_request *request, struct box *box, struct err *err) {
    struct files_query query = {0};
    const char *path;
    struct e2b_account account;
    STEP(front_query(request, &query, err)
             ?: e2b_account(box, query.username.data, http_arena(request), &account, err)
             ?: entry_path(http_arena(request), query.path.data ? query.path.data : "", &account, &path, err));
    trail_quote(request, path);
    files_allow_pages(request);
    files_disposition(request, path);
    int failed = front_send(request, box, path, err);
    if (failed == -ERR_DENIED && box_has_root(box) && !http_replied(request))
        failed = files_send_root(request, box, path, err);
    if (failed == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "path '%.400s' does not exist", path);
    if (failed < 0 && err->number == EISDIR)
        return err_set(err, ERR_INVALID, "path '%.400s' is a directory", path);
    return failed;
}

/* ---- metadata ---- */

/* X-Metadata-KEY: VALUE as attributes, "key NUL value NUL". */
static int files_metadata(struct http_request *request, struct buf *out, struct err *err) {
    static const char prefix[] = "x-metadata-";
    const char *name, *value;
    size_t all = 0;
    for (size_t i = 0; http_header_at(request, i, &name, &value); i++) {
        if (strncmp(name, prefix, sizeof prefix - 1) != 0)
            continue;
        const char *key = name + sizeof prefix - 1;
        if (!*key || strlen(key) > FILES_KEY_BYTES)
            return err_set(err, ERR_INVALID, "metadata key '%.100s' must have 1 to %d bytes", key, FILES_KEY_BYTES);
        for (const char *at = value; *at; at++)
            if (*at < 0x20 || *at > 0x7e)
                return err_set(err, ERR_INVALID, "metadata value of '%.100s' must be printable ASCII", key);
        all += strlen(ENTRY_ATTRIBUTES) + strlen(key) + strlen(value);
        if (all > FILES_METADATA_BYTES)
            return err_set(err, ERR_INVALID, "the metadata has more than %d bytes", FILES_METADATA_BYTES);
        buf_put(out, key, strlen(key) + 1);
        buf_put(out, value, strlen(value) + 1);
    }
    return 0;
}

/* ---- upload ---- */

struct files_upload {
    struct http_request *request;
    struct box *box;
    struct file_rights rights;
    struct e2b_account account;
    const char *path; /* of the query; "" or NULL: each file has its own */
    struct buf metadata, answer;
    struct json json;
    const char **written;
    uint32_t *hashes;
    size_t count, room;
};

static uint32_t files_hash(const char *text) {
    uint32_t hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    return hash;
}

static int files_once(struct files_upload *upload, const char *path, struct err *err) {
    uint32_t hash = files_hash(path);
    for (size_t i = 0; i < upload->count; i++)
        if (upload->hashes[i] == hash && !strcmp(upload->written[i], path))
            return err_set(err, ERR_INVALID,
                           "you cannot upload multiple files to the same path '%.300s' in one upload request", path);
    if (upload->count == upload->room) {
        upload->room = upload->room ? 2 * upload->room : 16;
        upload->written = xrealloc(upload->written, upload->room * sizeof *upload->written);
        upload->hashes = xrealloc(upload->hashes, upload->room * sizeof *upload->hashes);
    }
    upload->written[upload->count] = path;
    upload->hashes[upload->count++] = hash;
    return http_hold(upload->request, strlen(path) * 2 + 32, err);
}

static void files_put_written(struct files_upload *upload, const char *path) {
    struct json *json = &upload->json;
    json_open(json, '{');
    json_put_str(json, "path", path);
    json_put_str(json, "name", strrchr(path, '/') + 1);
    json_put_str(json, "type", "file");
    entry_put_metadata(json, (const char *)upload->metadata.data, upload->metadata.len);
    json_close(json, '}');
}

static int files_write(struct files_upload *upload, const char *path, box_reader read_fn, void *user, int64_t size,
                       struct err *err) {
    struct file_stat stat;
    bool created;
    const struct write_request write = {.path = path,
                                        .parents = true,
                                        .rights = &upload->rights,
                                        .attributes = (const char *)upload->metadata.data,
                                        .attributes_len = upload->metadata.len,
                                        .size = size,
                                        .max = front_settings(upload->request)->max_upload_bytes};
    int failed = box_write(upload->box, &write, read_fn, user, http_fd(upload->request), &created, &stat, err);
    if (failed < 0 && err->number == EISDIR)
        return err_set(err, ERR_INVALID, "path is a directory: %.400s", path);
    if (failed == -ERR_FULL)
        return err_set(err, ERR_FULL, "not enough disk space available for '%.400s'", path);
    return failed;
}

static int files_each(struct files_upload *upload, struct upload_body *body, struct err *err) {
    const char *name, *path;
    int r;
    while ((r = upload_next(body, &name, err)) > 0) {
        const char *given = upload->path && *upload->path ? upload->path : name;
        if (!given || !*given)
            return err_set(err, ERR_INVALID, "the upload has no path: neither in the query nor as a file name");
        int failed = entry_path(http_arena(upload->request), given, &upload->account, &path, err)
                         ?: files_once(upload, path, err)
                         ?: files_write(upload, path, upload_read, body, upload_size(body), err);
        if (failed)
            return failed;
        if (upload->count <= FILES_AUDITED)
            trail_quote(upload->request, path);
        files_put_written(upload, path);
    }
    if (r == 0 && !upload->count)
        return err_set(err, ERR_INVALID, "the upload has no part named 'file'");
    return r;
}

static void files_upload_init(struct files_upload *upload, struct http_request *request, struct box *box,
                              const struct e2b_account *account) {
    *upload = (struct files_upload){
        .request = request, .box = box, .account = *account, .rights = entry_rights(box, account)};
    buf_init(&upload->metadata, 2 * FILES_METADATA_BYTES);
    buf_init(&upload->answer, FILES_ANSWER_BYTES);
    json_init(&upload->json, &upload->answer);
}

static void files_upload_done(struct files_upload *upload) {
    buf_done(&upload->metadata);
    buf_done(&upload->answer);
    free(upload->written);
    free(upload->hashes);
}

static int files_post(struct http_request *request, struct box *box, struct err *err) {
    struct files_query query = {0};
    struct e2b_account account;
    struct upload_body *body = NULL;
    STEP(front_query(request, &query, err)
             ?: e2b_account(box, query.username.data, http_arena(request), &account, err));
    files_allow_pages(request);
    __attribute__((cleanup(files_upload_done))) struct files_upload upload;
    files_upload_init(&upload, request, box, &account);
    upload.path = query.path.data;
    int failed = files_metadata(request, &upload.metadata, err)
                     ?: upload_open(request, front_settings(request)->max_upload_bytes, &body, err);
    if (!failed) {
        json_open(&upload.json, '[');
        failed = files_each(&upload, body, err);
        json_close(&upload.json, ']');
    }
    upload_close(body);
    return failed ?: e2b_json(request, 200, &upload.answer, err);
}

/* ---- compose ---- */

struct files_compose {
    const char **source_paths;
    struct row_text destination, username;
};

#define FILES_COMPOSE_ROW(label, kind, member)                                                                         \
    .name = (label), .type = ROW_##kind, .offset = offsetof(struct files_compose, member)
static const struct row files_compose_rows[] = {
    {FILES_COMPOSE_ROW("source_paths", TEXTS, source_paths), .max = FILES_SOURCES, .flags = ROW_REQUIRED | ROW_AUDITED,
     .text = "files that become one, in this order; then they are removed"},
    {FILES_COMPOSE_ROW("destination", TEXT, destination), .max = LIMIT_PATH_BYTES, .flags = ROW_REQUIRED | ROW_AUDITED,
     .text = "the one"},
    {FILES_COMPOSE_ROW("username", TEXT, username), .max = 256, .text = "whose it is"},
    E2B_ROWS_END,
};

struct files_sources {
    struct files_upload *upload;
    const char **paths; /* NULL-terminated */
    uint64_t offset;    /* in the first of them */
    uint8_t *piece;     /* FILES_PIECE_BYTES, read at once: each read costs a process in the box */
    size_t at, len;
};

/* The verb keeps to the length that was asked for, so the piece fits. */
static int files_piece(void *user, const uint8_t *data, size_t len) {
    struct files_sources *sources = user;
    memcpy(sources->piece + sources->len, data, len);
    sources->len += len;
    return 0;
}

static int files_sources_fill(struct files_sources *sources, struct err *err) {
    const struct files_upload *upload = sources->upload;
    const struct read_sink sink = {.data = files_piece, .user = sources};
    int fd = http_fd(upload->request);
    sources->at = sources->len = 0;
    while (*sources->paths && !sources->len) {
        const char *path = *sources->paths;
        int failed =
            upload->rights.root
                ? box_read_root_file(upload->box, path, sources->offset, FILES_PIECE_BYTES, fd, &sink, err)
                : box_read_stream(upload->box, path, sources->offset, FILES_PIECE_BYTES, fd, files_piece, sources, err);
        if (failed)
            return failed;
        sources->offset += sources->len;
        if (!sources->len) {
            sources->paths++;
            sources->offset = 0;
        }
    }
    return 0;
}

static ssize_t files_sources_read(void *user, void *data, size_t size, struct err *err) {
    struct files_sources *sources = user;
    STEP(sources->at == sources->len ? files_sources_fill(sources, err) : 0);
    size_t held = sources->len - sources->at, n = held < size ? held : size;
    memcpy(data, sources->piece + sources->at, n);
    sources->at += n;
    return (ssize_t)n;
}

/* Resolved, each once, none of them the destination: it would be removed. */
static int files_compose_paths(struct files_upload *upload, const char **given, const char *destination,
                               const char ***ret_paths, struct err *err) {
    size_t count = 0;
    while (given && given[count])
        count++;
    if (!count)
        return err_set(err, ERR_INVALID, "source_paths must name at least one file");
    const char **paths = arena_alloc(http_arena(upload->request), (count + 1) * sizeof *paths);
    for (size_t i = 0; i < count; i++) {
        int failed = entry_path(http_arena(upload->request), given[i], &upload->account, &paths[i], err);
        if (failed)
            return failed;
        if (!strcmp(paths[i], destination))
            return err_set(err, ERR_INVALID, "the destination '%.400s' is one of source_paths", destination);
    }
    paths[count] = NULL;
    *ret_paths = paths;
    return 0;
}

static int files_compose_do(struct files_upload *upload, const struct files_compose *args, struct err *err) {
    const char *destination, **paths = NULL;
    STEP(entry_path(http_arena(upload->request), args->destination.data, &upload->account, &destination, err)
             ?: files_compose_paths(upload, args->source_paths, destination, &paths, err));
    struct files_sources sources = {.upload = upload, .paths = paths, .piece = xmalloc(FILES_PIECE_BYTES)};
    int failed = files_write(upload, destination, files_sources_read, &sources, -1, err);
    free(sources.piece);
    for (size_t i = 0; !failed && paths[i]; i++) {
        failed = box_remove_as(upload->box, paths[i], &upload->rights, -1, err);
        failed = failed == -ERR_NOT_FOUND ? 0 : failed; /* named twice */
    }
    if (!failed)
        files_put_written(upload, destination);
    return failed;
}

static int files_compose(struct http_request *request, struct box *box, struct err *err) {
    struct files_compose args = {0};
    struct e2b_account account;
    STEP(front_body(request, &args, err) ?: e2b_account(box, args.username.data, http_arena(request), &account, err));
    __attribute__((cleanup(files_upload_done))) struct files_upload upload;
    files_upload_init(&upload, request, box, &account);
    return files_compose_do(&upload, &args, err) ?: e2b_json(request, 200, &upload.answer, err);
}

/* ---- variables, metrics ---- */

static int files_envs(struct http_request *request, struct box *box, struct err *err) {
    struct e2b_record record;
    bool held;
    int failed = e2b_record_read(request, box->id, &record, &held, err);
    const char *env = !failed && record.env ? record.env : "{}";
    return failed ?: http_reply(request, 200, "application/json", env, strlen(env));
}

static int files_metrics(struct http_request *request, struct box *box, struct err *err) {
    struct usage usage = {0};
    STEP(box_usage(box, &usage, err));
    uint64_t memory_mb = e2b_memory_mb(box);
    uint64_t up_ms = clock_wall_ms() - box->created_ms;
    autobuf out = buf_max(4096);
    struct json json = json_begin(&out);
    json_put_uint(&json, "ts", clock_wall_ms() / 1000);
    json_put_uint(&json, "cpu_count", e2b_cpus(box));
    json_put_double(&json, "cpu_used_pct", up_ms ? 100.0 * (double)usage.cpu_ms / (double)up_ms : 0);
    json_put_uint(&json, "mem_total", memory_mb << 20);
    json_put_uint(&json, "mem_used", usage.memory_bytes);
    json_put_uint(&json, "mem_cache", usage.cache_bytes);
    json_put_uint(&json, "mem_total_mib", memory_mb);
    json_put_uint(&json, "mem_used_mib", usage.memory_bytes >> 20);
    json_put_uint(&json, "disk_used", usage.disk_bytes);
    json_put_uint(&json, "disk_total", e2b_disk_mb(request, box) << 20);
    json_close(&json, '}');
    return e2b_json(request, 200, &out, err);
}

const struct route e2b_file_routes[] = {
    {"GET", E2B_ENVD "/files", front_handle, 0, "e2b_download", "E2B: the content of a file",
     ENDPOINT(.run = files_get, .flags = ENDPOINT_LENIENT, .query = files_rows, .status = 200,
              .answer_media = "application/octet-stream")},
    {"POST", E2B_ENVD "/files", front_handle, ROUTE_CODED, "e2b_upload", "E2B: writes one or more files",
     ENDPOINT(.run = files_post, .flags = ENDPOINT_LENIENT, .query = files_rows, .body_media = "multipart/form-data",
              .status = 200)},
    {"POST", E2B_ENVD "/files/compose", front_handle, 0, "e2b_compose", "E2B: several files become one",
     ENDPOINT(.run = files_compose, .flags = ENDPOINT_LENIENT, .body = files_compose_rows, .status = 200)},
    {"GET", E2B_ENVD "/envs", front_handle, 0, "e2b_envs", "E2B: the variables of a sandbox",
     ENDPOINT(.run = files_envs, .flags = ENDPOINT_LENIENT | ENDPOINT_QUIET, .status = 200)},
    {"GET", E2B_ENVD "/metrics", front_handle, 0, "e2b_envd_metrics", "E2B: what a sandbox uses now",
     ENDPOINT(.run = files_metrics, .flags = ENDPOINT_LENIENT | ENDPOINT_QUIET, .status = 200)},
    {0},
};
