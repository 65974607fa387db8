/* Files on a machine of the text form: contents, stat, directories. Called through the table of machine_text_wire.c. Not to
 * break: no content goes into a message above LIMIT_TEXT_FILE_BYTES, and none above the limit is asked for at all. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/machine_text_call.h"
#include "base/clock.h"
#include "base/text.h"

enum { PIECE_BYTES = 64 << 10, TRANSFER_ANSWER_MS = 60000 };

static void member_path(struct json *json, struct buf *members, const char *path) {
    buf_init(members, LIMIT_PATH_BYTES * 6 + 1024);
    json_init(json, members);
    json_key(json, "path");
    json_str(json, path);
}

static int ask_path(struct text_call *call, enum text_type type, const char *path, uint64_t perm, struct err *err) {
    autobuf members;
    struct json json;
    member_path(&json, &members, path);
    if (perm) {
        json_key(&json, "perm");
        json_uint(&json, perm);
    }
    return text_ask(call->text, call, type, &members, TEXT_ASK_MS, NULL, err);
}

/* ---- stat ---- */

/* Types of a mode as Go writes it. */
static enum file_type type_of(const struct text_answer *answer, int64_t mode) {
    static const char *const names[] = {
        [FILE_REGULAR] = "file", [FILE_DIR] = "dir", [FILE_SYMLINK] = "symlink", [FILE_OTHER] = "other"};
    const char *type = text_member(answer, "file_type", NULL);
    for (int i = FILE_REGULAR; type && i <= FILE_OTHER; i++)
        if (strcmp(type, names[i]) == 0)
            return (enum file_type)i;
    if (text_truth(answer, "is_dir") || mode & 1ll << 31)
        return FILE_DIR;
    if (mode & 1ll << 27)
        return FILE_SYMLINK;
    return mode & (1ll << 26 | 1ll << 25 | 1ll << 24 | 1ll << 21) ? FILE_OTHER : FILE_REGULAR;
}

static int file_of(struct text_call *call, const struct text_answer *answer, struct text_file *ret_file,
                   struct err *err) {
    int64_t size = text_number(answer, "size", -1), mode = text_number(answer, "mode", 0);
    int64_t mtime_ns = text_number(answer, "mtime_ns", -1);
    const char *time = text_member(answer, "mod_time", NULL), *name = text_member(answer, "name", NULL),
               *target = text_member(answer, "link_target", NULL);
    uint64_t wall_ms = 0;
    if (size < 0)
        return err_set(err, ERR_PROTOCOL, "machine %s told no size of a file", call->text->name);
    if (mtime_ns < 0)
        mtime_ns = time && clock_parse(time, &wall_ms) ? (int64_t)(wall_ms * 1000000) : 0;
    *ret_file = (struct text_file){
        .type = type_of(answer, mode),
        .size = (uint64_t)size,
        .mtime_ns = (uint64_t)mtime_ns,
        .inode = (uint64_t)text_number(answer, "inode", 0),
        .mode = (uint32_t)mode & 0777,
        .uid = (uint32_t)text_number(answer, "uid", 0),
        .gid = (uint32_t)text_number(answer, "gid", 0),
        .name = name && strlen(name) <= LIMIT_NAME_BYTES ? arena_strdup(&call->arena, name) : NULL,
        .target = target && strlen(target) <= LIMIT_PATH_BYTES ? arena_strdup(&call->arena, target) : NULL,
    };
    return 0;
}

int text_file_stat(struct text_call *call, const char *path, bool follow, struct text_file *ret_file, struct err *err) {
    autobuf members;
    struct json json;
    member_path(&json, &members, path);
    json_key(&json, "follow");
    json_bool(&json, follow);
    struct text_answer answer;
    int r = text_ask(call->text, call, TEXT_STAT, &members, TEXT_ASK_MS, &answer, err);
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "no file '%s'", path);
    if (r < 0)
        return r;
    r = file_of(call, &answer, ret_file, err);
    text_answer_done(call->text, &answer);
    return r;
}

void text_file_fields(struct buf *out, const struct text_file *file) {
    field_number(out, FIELD_TYPE, file->type);
    field_number(out, FIELD_SIZE, file->size);
    field_number(out, FIELD_MODE, file->mode);
    field_number(out, FIELD_MTIME_NS, file->mtime_ns);
    field_number(out, FIELD_UID, file->uid);
    field_number(out, FIELD_GID, file->gid);
    field_number(out, FIELD_INODE, file->inode);
    if (file->target)
        field_text(out, FIELD_TARGET, file->target);
}

void text_file_etag(const struct text_file *file, char etag[64]) {
    snprintf(etag, 64, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", file->inode, file->size, file->mtime_ns);
}

/* Runners that follow every link do not know of one: a shell does. */
static void stat_link(struct text_call *call, const char *path, struct text_file *file) {
    static const char script[] = "[ -L \"$1\" ] || exit 0; printf 'link '; exec readlink -- \"$1\"";
    const char *const args[] = {path, NULL};
    autobuf out;
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    struct err unheard;
    if (text_script(call->text, call, script, args, NULL, TEXT_ASK_MS, &out, &unheard) < 0 || out.len < 6 ||
        memcmp(out.data, "link ", 5) != 0 || out.len > LIMIT_PATH_BYTES || memchr(out.data, 0, out.len))
        return;
    size_t len = out.data[out.len - 1] == '\n' ? out.len - 6 : out.len - 5;
    file->type = FILE_SYMLINK;
    file->target = arena_copy(&call->arena, out.data + 5, len);
    file->size = len;
}

int text_op_stat(struct text_call *call, struct err *err) {
    const char *path;
    bool follow = call->args.number[FIELD_FLAGS] & CALL_FOLLOW;
    struct text_file file = {0};
    int r = text_path(call, FIELD_PATH, &path, err);
    if (r == 0) {
        r = text_file_stat(call, path, follow, &file, err);
        bool dangling = r == -ERR_NOT_FOUND;
        if (!follow && (dangling || (r == 0 && (file.type == FILE_SYMLINK ? !file.target : !file.inode))))
            stat_link(call, path, &file);
        if (dangling && file.type == FILE_SYMLINK)
            r = 0;
    }
    if (r < 0)
        return r;
    text_file_fields(&call->end, &file);
    const char *slash = strrchr(path, '/');
    field_text(&call->end, FIELD_NAME, file.name ? file.name : slash && slash[1] ? slash + 1 : path);
    return 0;
}

/* ---- read ---- */

typedef int (*file_sink)(void *user, const uint8_t *data, size_t len, struct err *err);

static int read_inline(struct text_call *call, const char *path, file_sink sink, void *user, struct err *err) {
    autobuf members, content;
    struct json json;
    member_path(&json, &members, path);
    buf_init(&content, LIMIT_TEXT_MESSAGE_BYTES);
    struct text_answer answer;
    int r = text_ask(call->text, call, TEXT_READ_FILE, &members, TEXT_ASK_MS, &answer, err);
    if (r < 0)
        return r;
    size_t len = 0;
    const char *data = text_member(&answer, "data", &len);
    if (!data || !text_unbase64(&content, data, len))
        r = err_set(err, ERR_PROTOCOL, "machine %s sent a content that is not base64", call->text->name);
    text_answer_done(call->text, &answer);
    return r < 0 || content.len == 0 ? r : sink(user, content.data, content.len, err);
}

static void call_transfer(struct text_call *call, struct machine_transfer *transfer) {
    pthread_mutex_lock(&call->text->lock);
    call->transfer = transfer;
    pthread_mutex_unlock(&call->text->lock);
}

/* The request with the path of the transfer; perm as for write_file. */
static int transfer_begin(struct text_call *call, enum text_type type, const char *path, uint64_t perm,
                          struct machine_transfer *transfer, struct text_request **ret_request, struct err *err) {
    autobuf members;
    struct json json;
    member_path(&json, &members, path);
    char where[MACHINE_TRANSFER_ID_BYTES + 16];
    snprintf(where, sizeof where, "/runner/files/%s", machine_transfer_id(transfer));
    json_key(&json, "transfer");
    json_str(&json, where);
    if (type == TEXT_WRITE_FILE) {
        json_key(&json, "perm");
        json_uint(&json, perm);
    }
    return text_ask_begin(call->text, call, type, &members, ret_request, err);
}

static int transfer_drain(struct machine_transfer *transfer, file_sink sink, void *user, struct err *err) {
    uint8_t *piece = malloc(PIECE_BYTES);
    if (!piece)
        abort();
    ssize_t n = 0;
    int r = 0;
    while (r == 0 && (n = machine_transfer_get(transfer, piece, PIECE_BYTES, err)) > 0)
        r = sink(user, piece, (size_t)n, err);
    free(piece);
    return r < 0 ? r : (int)n;
}

/* What the machine said counts before what the transfer says of it. */
static int transfer_finish(struct text_call *call, struct text_request *request, struct machine_transfer *transfer,
                           int moved, struct err *err) {
    struct err said = {0};
    int answered = text_ask_end(call->text, request, moved < 0 ? 1000 : TRANSFER_ANSWER_MS, NULL, &said);
    call_transfer(call, NULL);
    machine_transfer_close(transfer, moved < 0 ? err->text : answered < 0 ? said.text : NULL);
    if (answered < 0 && (moved >= 0 || (answered != -ERR_TIMEOUT && answered != -ERR_GONE))) {
        *err = said;
        return answered;
    }
    return moved;
}

static int read_transfer(struct text_call *call, const char *path, uint64_t size, file_sink sink, void *user,
                         struct err *err) {
    struct machine_text *text = call->text;
    struct machine_transfer *transfer;
    struct text_request *request;
    int r = machine_transfer_new(text->options.transfers, text->user, text->name, true, size,
                                 text->options.max_file_bytes, &transfer, err);
    if (r < 0)
        return r;
    call_transfer(call, transfer);
    r = transfer_begin(call, TEXT_READ_FILE, path, 0, transfer, &request, err);
    if (r < 0) {
        call_transfer(call, NULL);
        machine_transfer_close(transfer, err->text);
        return r;
    }
    r = transfer_drain(transfer, sink, user, err);
    return transfer_finish(call, request, transfer, r, err);
}

static int too_large(const struct text_call *call, const char *path, uint64_t size, struct err *err) {
    uint64_t max = call->text->options.max_file_bytes;
    if (size != UINT64_MAX && size > max)
        return err_set(err, ERR_TOO_LARGE, "'%s' has %" PRIu64 " bytes, the limit is %" PRIu64, path, size, max);
    return err_set(err, ERR_TOO_LARGE,
                   "'%s' is larger than the %u bytes that the runner of machine %s can move; `cubby join` moves any",
                   path, LIMIT_TEXT_FILE_BYTES, call->text->name);
}

/* Whether there is a way to read it. */
static int read_can(const struct text_call *call, const char *path, uint64_t size, struct err *err) {
    const struct machine_text_options *options = &call->text->options;
    bool way = size <= LIMIT_TEXT_FILE_BYTES || options->transfers || options->http_address;
    return way && size <= options->max_file_bytes ? 0 : too_large(call, path, size, err);
}

int text_file_read(struct text_call *call, const char *path, uint64_t size, file_sink sink, void *user,
                   struct err *err) {
    int r = read_can(call, path, size, err);
    if (r < 0)
        return r;
    if (size <= LIMIT_TEXT_FILE_BYTES)
        return read_inline(call, path, sink, user, err);
    if (call->text->options.transfers)
        return read_transfer(call, path, size, sink, user, err);
    return text_http_get(call, path, sink, user, err);
}

struct read_range {
    struct text_call *call;
    uint64_t skip, left;
};

static int read_sink(void *user, const uint8_t *data, size_t len, struct err *err) {
    struct read_range *range = user;
    if (range->skip >= len) {
        range->skip -= len;
        return 0;
    }
    data += range->skip;
    len -= (size_t)range->skip;
    range->skip = 0;
    len = len < range->left ? len : (size_t)range->left;
    range->left -= len;
    return text_data(range->call, STREAM_STDOUT, data, len, err);
}

static int read_regular(const char *path, const struct text_file *file, struct err *err) {
    if (file->type == FILE_REGULAR)
        return 0;
    return err_set(err, ERR_INVALID, file->type == FILE_DIR ? "'%s' is a directory" : "'%s' is not a regular file",
                   path);
}

int text_op_read(struct text_call *call, struct err *err) {
    const char *path;
    struct text_file file;
    autobuf fields;
    buf_init(&fields, 2 * LIMIT_PATH_BYTES);
    int r = text_path(call, FIELD_PATH, &path, err);
    if (r == 0)
        r = text_file_stat(call, path, true, &file, err);
    if (r == 0)
        r = read_regular(path, &file, err);
    if (r == 0)
        r = read_can(call, path, file.size, err); /* said before anybody is promised so many bytes */
    if (r < 0)
        return r;
    text_file_fields(&fields, &file);
    r = text_stat(call, &fields, err);
    struct read_range range = {.call = call,
                               .skip = call->args.number[FIELD_OFFSET],
                               .left = call->args.has[FIELD_LENGTH] ? call->args.number[FIELD_LENGTH] : UINT64_MAX};
    if (r < 0 || range.left == 0 || range.skip >= file.size)
        return r;
    if (call->args.number[FIELD_FLAGS] & CALL_ALL && file.size - range.skip > range.left)
        return 0;
    return text_file_read(call, path, file.size, read_sink, &range, err);
}

/* ---- write ---- */

static int write_inline(struct text_call *call, const char *path, uint32_t mode, const struct buf *content,
                        struct err *err) {
    autobuf members, coded;
    buf_init(&members, LIMIT_TEXT_MESSAGE_BYTES);
    buf_init(&coded, LIMIT_TEXT_MESSAGE_BYTES);
    struct json json;
    json_init(&json, &members);
    json_key(&json, "path");
    json_str(&json, path);
    json_key(&json, "data");
    text_base64(&coded, content->data, content->len);
    json_strn(&json, (const char *)coded.data, coded.len);
    json_key(&json, "perm");
    json_uint(&json, mode);
    return text_ask(call->text, call, TEXT_WRITE_FILE, &members, TEXT_ASK_MS, NULL, err);
}

static int transfer_fill(struct machine_transfer *transfer, const struct buf *head, const struct text_source *source,
                         struct err *err) {
    int r = machine_transfer_put(transfer, head->data, head->len, err);
    uint8_t *piece = malloc(PIECE_BYTES);
    if (!piece)
        abort();
    while (r == 0) {
        ssize_t n = source->read(source->user, piece, PIECE_BYTES, err);
        if (n == 0)
            break;
        r = n < 0 ? (int)n : machine_transfer_put(transfer, piece, (size_t)n, err);
    }
    free(piece);
    if (r == 0)
        machine_transfer_end(transfer);
    return r;
}

static int write_transfer(struct text_call *call, const char *path, uint32_t mode, const struct buf *head,
                          const struct text_source *source, struct err *err) {
    struct machine_text *text = call->text;
    struct machine_transfer *transfer;
    struct text_request *request;
    int r = machine_transfer_new(text->options.transfers, text->user, text->name, false, source->size,
                                 text->options.max_file_bytes, &transfer, err);
    if (r < 0)
        return r;
    call_transfer(call, transfer);
    r = transfer_begin(call, TEXT_WRITE_FILE, path, mode, transfer, &request, err);
    if (r < 0) {
        call_transfer(call, NULL);
        machine_transfer_close(transfer, err->text);
        return r;
    }
    r = transfer_fill(transfer, head, source, err);
    if (r < 0)
        machine_transfer_fail(transfer, err->text);
    return transfer_finish(call, request, transfer, r, err);
}

int text_file_write(struct text_call *call, const char *path, uint32_t mode, const struct text_source *source,
                    struct err *err) {
    const struct machine_text_options *options = &call->text->options;
    if (source->size != UINT64_MAX && source->size > options->max_file_bytes)
        return too_large(call, path, source->size, err);
    autobuf head; /* one byte more than a message holds tells which way it goes */
    buf_init(&head, LIMIT_TEXT_FILE_BYTES + PIECE_BYTES);
    while (head.len <= LIMIT_TEXT_FILE_BYTES) {
        uint8_t *room = buf_reserve(&head, PIECE_BYTES);
        ssize_t n = room ? source->read(source->user, room, PIECE_BYTES, err) : 0;
        if (n < 0)
            return (int)n;
        if (n == 0)
            return write_inline(call, path, mode, &head, err);
        head.len += (size_t)n;
    }
    if (options->transfers)
        return write_transfer(call, path, mode, &head, source, err);
    if (options->http_address)
        return text_http_post(call, path, mode, &head, source, err);
    return too_large(call, path, source->size, err);
}

static ssize_t input_read(void *user, void *data, size_t size, struct err *err) {
    return text_input(user, data, size, 0, err);
}

static int write_append(struct text_call *call, const char *path, struct err *err) {
    static const char script[] = "[ ! -d \"$1\" ] || { echo \"'$1' is a directory\" >&2; exit 12; }\n"
                                 "base64 -d >> \"$1\" || { [ -e \"$1\" ] && exit 13; exit 10; }";
    const char *const args[] = {path, NULL};
    autobuf input, coded, out;
    buf_init(&input, LIMIT_TEXT_FILE_BYTES);
    buf_init(&coded, LIMIT_TEXT_MESSAGE_BYTES);
    buf_init(&out, SCRIPT_OUTPUT_BYTES);
    int r = text_input_all(call, &input, err);
    text_base64(&coded, input.data, input.len);
    return r < 0 ? r : text_script(call->text, call, script, args, &coded, TEXT_ASK_MS, &out, err);
}

static int make_parents(struct text_call *call, const char *path, struct err *err) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return 0;
    return ask_path(call, TEXT_MKDIR_ALL, arena_copy(&call->arena, path, (size_t)(slash - path)), 0755, err);
}

int text_file_ready(struct text_call *call, const char *path, bool parents, struct text_file *ret_old,
                    bool *ret_created, struct err *err) {
    int r = text_file_stat(call, path, true, ret_old, err);
    *ret_created = r == -ERR_NOT_FOUND;
    if (*ret_created)
        return parents ? make_parents(call, path, err) : 0;
    return r < 0 ? r : read_regular(path, ret_old, err);
}

static int write_matches(struct text_call *call, const char *path, bool created, const struct text_file *old,
                         struct err *err) {
    const char *wanted = call->args.text[FIELD_IF_MATCH];
    char etag[64];
    if (!wanted)
        return 0;
    if (created)
        return err_set(err, ERR_EXISTS, "no file '%s' that If-Match could be true of", path);
    text_file_etag(old, etag);
    if (strcmp(wanted, "*") == 0 || strcmp(wanted, etag) == 0)
        return 0;
    return err_set(err, ERR_EXISTS, "'%s' has changed: its ETag is now %s", path, etag);
}

int text_op_write(struct text_call *call, struct err *err) {
    const struct fields *args = &call->args;
    uint64_t flags = args->number[FIELD_FLAGS];
    const char *path;
    struct text_file file = {0};
    bool created;
    int r = text_path(call, FIELD_PATH, &path, err);
    if (r == 0)
        r = text_file_ready(call, path, flags & CALL_PARENTS, &file, &created, err);
    if (r == 0)
        r = write_matches(call, path, created, &file, err);
    if (r < 0)
        return r;
    uint32_t mode = args->has[FIELD_MODE] ? (uint32_t)args->number[FIELD_MODE] & 0777 : created ? 0644 : file.mode;
    struct text_source source = {
        .read = input_read, .user = call, .size = args->has[FIELD_SIZE] ? args->number[FIELD_SIZE] : UINT64_MAX};
    r = flags & CALL_APPEND ? write_append(call, path, err) : text_file_write(call, path, mode, &source, err);
    if (r == 0)
        r = text_file_stat(call, path, true, &file, err);
    if (r < 0)
        return r;
    text_file_fields(&call->end, &file);
    field_number(&call->end, FIELD_CREATED, created);
    return 0;
}

/* ---- directories ---- */

int text_op_mkdir(struct text_call *call, struct err *err) {
    bool parents = call->args.number[FIELD_FLAGS] & CALL_PARENTS;
    uint64_t mode = call->args.number[FIELD_MODE] & 0777;
    const char *path;
    struct text_file file;
    int r = text_path(call, FIELD_PATH, &path, err);
    if (r < 0)
        return r;
    r = text_file_stat(call, path, true, &file, err);
    if (r == 0 && (!parents || file.type != FILE_DIR))
        return err_set(err, ERR_EXISTS, "'%s' exists", path);
    bool created = r == -ERR_NOT_FOUND;
    if (r < 0 && !created)
        return r;
    const char *slash = strrchr(path, '/');
    if (created && !parents && slash && slash > path) {
        const char *parent = arena_copy(&call->arena, path, (size_t)(slash - path));
        r = text_file_stat(call, parent, true, &file, err);
        if (r == -ERR_NOT_FOUND)
            return err_set(err, ERR_NOT_FOUND, "no directory '%s' (parents=1 makes it)", parent);
        if (r == 0 && file.type != FILE_DIR)
            return err_set(err, ERR_INVALID, "'%s' is not a directory", parent);
        if (r < 0)
            return r;
    }
    r = created ? ask_path(call, TEXT_MKDIR_ALL, path, mode ? mode : 0755, err) : 0;
    field_number(&call->end, FIELD_CREATED, created);
    return r;
}

int text_op_remove(struct text_call *call, struct err *err) {
    bool recursive = call->args.number[FIELD_FLAGS] & CALL_RECURSIVE;
    const char *path;
    struct text_file file;
    int r = text_path(call, FIELD_PATH, &path, err);
    if (r < 0)
        return r;
    /* remove_all says nothing of what is not there. */
    r = recursive ? text_file_stat(call, path, false, &file, err) : 0;
    bool dangling = r == -ERR_NOT_FOUND;
    if (dangling || r == 0)
        r = ask_path(call, dangling || !recursive ? TEXT_REMOVE : TEXT_REMOVE_ALL, path, 0, err);
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND, "no file '%s'", path);
    field_number(&call->end, FIELD_FILES, 1);
    return r;
}
