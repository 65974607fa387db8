/* The verbs of writing and editing: completely or not at all. Called by the dialects and tools. Contents go one of
 * three ways, the cheapest that fits: small ones travel with the call; on this machine larger ones are written
 * straight into the new file's descriptor; others are streamed. Invariants: the file becomes visible only with EOF,
 * so a failure before that leaves the old one. Data of a failed edit is bounded, since it comes from a box. */
#include "base/base.h"
#include "box/verb.h"

enum { WRITE_PIECE_BYTES = 256 << 10 };

struct box_write {
    struct box *box;
    struct call *call;
    int fd;
};

static bool write_as_root(const struct write_request *request) {
    return request->root || (request->rights && request->rights->root);
}

static int write_args(const struct box *box, const struct write_request *request, uint64_t flags, struct buf *args,
                      struct err *err) {
    uint64_t as_root = CALL_ROOT | (request->append ? 0 : CALL_OVERWRITE);
    const struct verb verb = {
        .op = OP_WRITE,
        FIELDS(F_PATH(PATH, request->path), F_NUM(MODE, request->mode), F_TEXT(IF_MATCH, request->if_match),
               F_BYTES(ATTRS, request->attributes_len ? request->attributes : NULL, request->attributes_len),
               {.id = FIELD_SIZE,
                .number = request->size > 0 ? (uint64_t)request->size : 0,
                .always = request->size >= 0}),
        .flags = flags | (request->parents ? CALL_PARENTS : 0) | (request->append ? CALL_APPEND : 0) |
                 (write_as_root(request) ? as_root : 0),
        .rights = request->rights,
        .gives = true};
    return verb_args(box, &verb, args, err);
}

static int write_too_large(const struct write_request *request, struct err *err) {
    return err_set(err, ERR_TOO_LARGE, "'%s' would be larger than the limit of %llu bytes", request->path,
                   (unsigned long long)request->max);
}

/* ---- in two steps, into a descriptor ---- */

static bool write_can_pass(const struct box *box, const struct write_request *request) {
    return !request->append && !write_as_root(request) && (wire_features(box->wire) & FEATURE_PASS_FD);
}

/* The rest of the call, and what became of the file. */
static int write_finish(struct box *box, struct call *call, const struct verb *verb, bool *ret_created,
                        struct file_stat *ret_stat, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    TRY(verb_finish(box, call, verb, &arena, &end, err));
    *ret_created = end.number[FIELD_CREATED];
    file_from_fields(&end, ret_stat);
    return 0;
}

int box_write_open(struct box *box, const struct write_request *request, int *ret_fd, struct box_write **ret_write,
                   struct err *err) {
    if (request->size >= 0 && (uint64_t)request->size > request->max)
        return write_too_large(request, err);
    *ret_fd = -1;
    if (!write_can_pass(box, request))
        return 0;
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    struct call *call;
    TRY(write_args(box, request, CALL_WANT_FD, &args, err)
            ?: call_open(box->wire, OP_WRITE, &args, NULL, 0, false, &call, err));
    /* STAT with the descriptor of the new file. */
    struct call_wait wait = {.fd = -1, .deadline_ms = clock_ms() + VERB_SHORT_MS};
    struct event event = {.fd = -1};
    int r = call_next(call, &wait, &event, err);
    if (r == 0 && (event.kind != EVENT_STAT || event.fd < 0))
        r = err_set(err, ERR_PROTOCOL, "the runner did not pass the new file's descriptor");
    if (r < 0) {
        fd_close(&event.fd);
        call_close(call);
        return r;
    }
    *ret_write = xmalloc(sizeof **ret_write);
    **ret_write = (struct box_write){.box = box, .call = call, .fd = event.fd};
    *ret_fd = event.fd;
    return 0;
}

int box_write_commit(struct box_write *write, bool *ret_created, struct file_stat *ret_stat, struct err *err) {
    const struct verb verb = {.op = OP_WRITE, .watch = -1, .timeout_ms = VERB_SHORT_MS};
    fd_close(&write->fd);
    int r = call_send_eof(write->call, err);
    if (r < 0) {
        box_write_abort(write);
        return r;
    }
    r = write_finish(write->box, write->call, &verb, ret_created, ret_stat, err);
    free(write);
    return r;
}

void box_write_abort(struct box_write *write) {
    if (!write)
        return;
    fd_close(&write->fd);
    call_close(write->call); /* cancels: the runner drops the nameless file */
    free(write);
}

/* ---- in one ---- */

/* The client's bytes so far, read ahead to see whether the content is small. */
struct content {
    box_reader read_fn;
    void *user;
    uint8_t *data;
    size_t at, len;
    bool whole; /* data[at..len] is all that is left */
};

static int write_content_read_ahead(struct content *content, size_t size, struct err *err) {
    while (content->len < size && !content->whole) {
        ssize_t n = content->read_fn(content->user, content->data + content->len, size - content->len, err);
        if (n < 0)
            return (int)n;
        content->len += (size_t)n;
        content->whole = n == 0;
    }
    return 0;
}

static ssize_t write_content_next(void *user, void *data, size_t size, struct err *err) {
    struct content *content = user;
    size_t held = content->len - content->at;
    if (held == 0)
        return content->whole ? 0 : content->read_fn(content->user, data, size, err);
    size_t n = held < size ? held : size;
    memcpy(data, content->data + content->at, n);
    content->at += n;
    return (ssize_t)n;
}

/* The content straight into the passed descriptor; data holds what was read ahead and is the buffer for the rest. */
static int write_into(const struct write_request *request, int fd, struct content *content, struct err *err) {
    uint64_t offset = 0;
    for (size_t at = 0; content->len > 0;) {
        if (offset + content->len - at > request->max)
            return write_too_large(request, err);
        ssize_t n = pwrite(fd, content->data + at, content->len - at, (off_t)offset);
        if (n < 0 && errno != EINTR)
            return err_errno(err, errno, "writing '%s'", request->path);
        at += n > 0 ? (size_t)n : 0;
        offset += n > 0 ? (uint64_t)n : 0;
        if (at < content->len)
            continue;
        at = content->len = 0;
        TRY(write_content_read_ahead(content, WRITE_PIECE_BYTES, err));
    }
    return 0;
}

static int write_passing(struct box *box, const struct write_request *request, struct content *content,
                         bool *ret_created, struct file_stat *ret_stat, struct err *err) {
    int fd;
    struct box_write *write;
    TRY(box_write_open(box, request, &fd, &write, err));
    content->data = xrealloc(content->data, WRITE_PIECE_BYTES);
    int r = write_into(request, fd, content, err);
    if (r < 0) {
        box_write_abort(write);
        return r;
    }
    return box_write_commit(write, ret_created, ret_stat, err);
}

/* CALL, DATA and EOF in one send when it is all at hand; else streamed within credit. */
static int write_sending(struct box *box, const struct write_request *request, struct content *content, int watch,
                         bool *ret_created, struct file_stat *ret_stat, struct err *err) {
    autobuf args = buf_max(LIMIT_CALL_ARGS_BYTES);
    struct call *call;
    bool small = content->whole;
    const struct verb verb = {.op = OP_WRITE,
                              .watch = watch,
                              .read_fn = small ? NULL : write_content_next,
                              .read_user = content,
                              .input_max = request->max};
    return write_args(box, request, 0, &args, err)
               ?: call_open(box->wire, OP_WRITE, &args, content->data, small ? content->len : 0, small, &call, err)
               ?: write_finish(box, call, &verb, ret_created, ret_stat, err);
}

int box_write(struct box *box, const struct write_request *request, box_reader read_fn, void *user, int watch,
              bool *ret_created, struct file_stat *ret_stat, struct err *err) {
    if (request->size >= 0 && (uint64_t)request->size > request->max)
        return write_too_large(request, err);
    struct content content = {.read_fn = read_fn, .user = user, .data = xmalloc(LIMIT_FRAME_PAYLOAD_BYTES + 1)};
    /* One byte more than a frame holds shows whether it is small. */
    int r = write_content_read_ahead(&content, LIMIT_FRAME_PAYLOAD_BYTES + 1, err);
    if (r == 0 && content.whole && content.len > request->max)
        r = write_too_large(request, err);
    if (r == 0 && (content.whole || !write_can_pass(box, request)))
        r = write_sending(box, request, &content, watch, ret_created, ret_stat, err);
    else if (r == 0)
        r = write_passing(box, request, &content, ret_created, ret_stat, err);
    free(content.data);
    return r;
}

/* ---- editing ---- */

enum { NEAR_MAX = 16 };

static const uint64_t edit_flags[] = {[EDIT_STRING] = 0,
                                      [EDIT_LINES] = CALL_LINES,
                                      [EDIT_REGEX] = CALL_REGEX,
                                      [EDIT_WHOLE] = CALL_OVERWRITE,
                                      [EDIT_APPEND] = CALL_APPEND};

struct edit_call {
    const char *part[2];
    size_t left[2];
    struct arena *arena;
    struct edit_result *result;
};

static ssize_t write_edit_read(void *user, void *data, size_t size, struct err *) {
    struct edit_call *call = user;
    int i = call->left[0] ? 0 : 1;
    size_t n = call->left[i] < size ? call->left[i] : size;
    if (n)
        memcpy(data, call->part[i], n);
    call->part[i] += n;
    call->left[i] -= n;
    return (ssize_t)n;
}

static int write_edit_item(void *user, struct view fields, struct err *err) {
    struct edit_call *call = user;
    struct edit_result *result = call->result;
    struct edit_line line = {0};
    struct field field;
    int r;
    while ((r = field_next(&fields, &field, err)) > 0) {
        if (field.id == FIELD_FILES)
            result->count = field.number;
        else if (field.id == FIELD_STATE)
            result->how = field.number == EDIT_NEAR_SPACES    ? EDIT_NEAR_SPACES
                          : field.number == EDIT_NEAR_OUTSIDE ? EDIT_NEAR_OUTSIDE
                                                              : EDIT_NEAR_ALIKE;
        else if (field.id == FIELD_LINE)
            line.line = field.number;
        else if (field.id == FIELD_TEXT)
            line.text = arena_copy(call->arena, field.data, field.len), line.len = field.len;
    }
    if (r < 0)
        return r;
    result->judged = true;
    if (!result->near)
        result->near = arena_alloc(call->arena, NEAR_MAX * sizeof *result->near);
    if (line.line && line.text && result->near_count < NEAR_MAX)
        result->near[result->near_count++] = line;
    return 0;
}

int box_edit(struct box *box, const struct edit_request *request, struct arena *arena, int watch,
             struct edit_result *ret_result, struct err *err) {
    static const struct verb_sink sink = {.item = write_edit_item};
    bool plain = request->kind == EDIT_STRING && !request->text && !request->first && !request->last &&
                 !request->if_match && !request->author;
    *ret_result = (struct edit_result){0};
    if (request->old_len == 0 && (request->kind == EDIT_STRING || request->kind == EDIT_REGEX))
        return err_set(err, ERR_INVALID, "the text to replace is empty");
    struct edit_call call = {
        {request->old, request->new_text}, {request->old_len, request->new_len}, arena, ret_result};
    const struct verb verb = {
        .op = OP_EDIT,
        FIELDS(F_PATH(PATH, request->path), F_NUM(LENGTH, request->old_len), F_NUM(FIRST, request->first),
               F_NUM(LAST, request->last), F_TEXT(IF_MATCH, request->if_match), F_NUM(AUTHOR, request->author),
               F_ALWAYS(SIZE, request->old_len + request->new_len), F_BYTES(SHA256, request->sha256, 32)),
        .flags = edit_flags[request->kind] | (request->all ? CALL_ALL : 0) | (request->text ? CALL_TEXT : 0) |
                 (request->parents ? CALL_PARENTS : 0) | (request->create ? CALL_CREATE : 0) |
                 (request->root ? CALL_ROOT : 0),
        .needs = plain ? 0 : FEATURE_EDIT,
        .watch = watch,
        .sink = &sink,
        .user = &call,
        .read_fn = write_edit_read,
        .read_user = &call};
    struct fields end;
    TRY(verb_run(box, &verb, arena, &end, err));
    file_from_fields(&end, &ret_result->stat);
    ret_result->count = end.number[FIELD_FILES];
    ret_result->line = end.number[FIELD_LINE];
    ret_result->lines = end.number[FIELD_LINES];
    ret_result->created = end.number[FIELD_CREATED];
    ret_result->hashed = end.len[FIELD_SHA256] == sizeof ret_result->sha256;
    if (ret_result->hashed)
        memcpy(ret_result->sha256, end.text[FIELD_SHA256], sizeof ret_result->sha256);
    return 0;
}
