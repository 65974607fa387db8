/* The verb of writing: whole or not at all. Called by the doors. Three ways, the cheapest that fits: small contents
 * travel with the call; on this machine larger ones are written straight into the new file's descriptor; else they are
 * streamed. Invariant: the file becomes visible only with EOF, so whatever fails before leaves the old one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "box/file.h"

enum { WRITE_PIECE_BYTES = 256 << 10 };

struct box_write {
    struct box *box;
    struct call *call;
    int fd;
};

static int write_args(const struct box *box, const struct write_request *request, uint64_t flags, struct buf *args,
                      struct err *err) {
    int r = verb_path(args, FIELD_PATH, request->path, err);
    if (request->mode)
        field_number(args, FIELD_MODE, request->mode);
    if (request->size >= 0)
        field_number(args, FIELD_SIZE, (uint64_t)request->size);
    if (request->if_match)
        field_text(args, FIELD_IF_MATCH, request->if_match);
    flags |= (request->parents ? CALL_PARENTS : 0) | (request->append ? CALL_APPEND : 0);
    if (request->root)
        flags |= CALL_ROOT | (request->append ? 0 : CALL_OVERWRITE);
    if (r == 0 && request->root)
        r = verb_root(box, err);
    field_number(args, FIELD_FLAGS, flags);
    return r < 0 ? r : args->failed ? err_set(err, ERR_TOO_LARGE, "the arguments are too long") : 0;
}

static int write_too_large(const struct write_request *request, struct err *err) {
    return err_set(err, ERR_TOO_LARGE, "'%s' would be larger than the limit of %llu bytes", request->path,
                   (unsigned long long)request->max);
}

static void write_result(const struct fields *end, bool *ret_created, struct file_stat *ret_stat) {
    *ret_created = end->number[FIELD_CREATED];
    file_from_fields(end, ret_stat);
}

/* ---- in two steps, into a descriptor ---- */

static bool write_can_pass(const struct box *box, const struct write_request *request) {
    return !request->append && !request->root && (wire_features(box->wire) & FEATURE_PASS_FD);
}

/* STAT with the descriptor of the new file; NULL fd means the runner would rather be sent the bytes. */
static int write_open_fd(struct call *call, int *ret_fd, struct err *err) {
    struct call_wait wait = {.fd = -1, .deadline_ms = clock_ms() + VERB_SHORT_MS};
    struct event event;
    int r = call_next(call, &wait, &event, err);
    if (r < 0)
        return r;
    if (event.kind != EVENT_STAT || event.fd < 0) {
        fd_close(&event.fd);
        return err_set(err, ERR_PROTOCOL, "the runner did not pass the new file's descriptor");
    }
    *ret_fd = event.fd;
    return 0;
}

int box_write_open(struct box *box, const struct write_request *request, int *ret_fd, struct box_write **ret_write,
                   struct err *err) {
    if (request->size >= 0 && (uint64_t)request->size > request->max)
        return write_too_large(request, err);
    if (!write_can_pass(box, request)) {
        *ret_fd = -1;
        return 0;
    }
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    int r = write_args(box, request, CALL_WANT_FD, &args, err);
    if (r < 0)
        return r;
    struct call *call;
    r = call_open(box->wire, OP_WRITE, &args, NULL, 0, false, &call, err);
    if (r < 0)
        return r;
    autofd fd = -1;
    r = write_open_fd(call, &fd, err);
    if (r < 0) {
        call_close(call);
        return r;
    }
    struct box_write *write = xmalloc(sizeof *write);
    *write = (struct box_write){.box = box, .call = call, .fd = fd_take(&fd)};
    *ret_fd = write->fd;
    *ret_write = write;
    return 0;
}

int box_write_commit(struct box_write *write, bool *ret_created, struct file_stat *ret_stat, struct err *err) {
    fd_close(&write->fd);
    struct verb verb = {.op = OP_WRITE, .watch = -1, .timeout_ms = VERB_SHORT_MS};
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    int r = call_send_eof(write->call, err);
    if (r < 0) {
        box_write_abort(write);
        return r;
    }
    r = verb_finish(write->box, write->call, &verb, &arena, &end, err);
    free(write);
    if (r == 0)
        write_result(&end, ret_created, ret_stat);
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

/* What the client has sent so far, read ahead to see whether it is small. */
struct content {
    box_reader read_fn;
    void *user;
    uint8_t *data;
    size_t at, len;
    bool whole; /* data[at..len] is all that is left */
};

static int content_read_ahead(struct content *content, size_t size, struct err *err) {
    while (content->len < size) {
        ssize_t n = content->read_fn(content->user, content->data + content->len, size - content->len, err);
        if (n < 0)
            return (int)n;
        content->len += (size_t)n;
        content->whole = n == 0;
        if (n == 0)
            break;
    }
    return 0;
}

static ssize_t content_next(void *user, void *data, size_t size, struct err *err) {
    struct content *content = user;
    size_t held = content->len - content->at;
    if (held == 0)
        return content->whole ? 0 : content->read_fn(content->user, data, size, err);
    size_t n = held < size ? held : size;
    memcpy(data, content->data + content->at, n);
    content->at += n;
    return (ssize_t)n;
}

static int pwrite_all(int fd, const uint8_t *data, size_t len, uint64_t offset) {
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, (off_t)offset);
        if (n < 0 && errno != EINTR)
            return -errno;
        n = n < 0 ? 0 : n;
        data += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

/* The content straight into the passed descriptor; data holds what was read ahead and is the buffer for the rest. */
static int write_into(const struct write_request *request, int fd, struct content *content, struct err *err) {
    uint64_t offset = 0;
    size_t n = content->len;
    while (n > 0) {
        if (offset + n > request->max)
            return write_too_large(request, err);
        int r = pwrite_all(fd, content->data, n, offset);
        if (r < 0)
            return err_errno(err, -r, "writing '%s'", request->path);
        offset += n;
        content->len = 0;
        if (content->whole)
            break;
        r = content_read_ahead(content, WRITE_PIECE_BYTES, err);
        if (r < 0)
            return r;
        n = content->len;
    }
    return 0;
}

static int write_passing(struct box *box, const struct write_request *request, struct content *content,
                         bool *ret_created, struct file_stat *ret_stat, struct err *err) {
    int fd;
    struct box_write *write;
    int r = box_write_open(box, request, &fd, &write, err);
    if (r < 0)
        return r;
    content->data = xrealloc(content->data, WRITE_PIECE_BYTES);
    r = write_into(request, fd, content, err);
    if (r < 0) {
        box_write_abort(write);
        return r;
    }
    return box_write_commit(write, ret_created, ret_stat, err);
}

/* CALL, DATA and EOF in one send when it is all at hand; else streamed within credit. */
static int write_sending(struct box *box, const struct write_request *request, struct content *content, int watch,
                         bool *ret_created, struct file_stat *ret_stat, struct err *err) {
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    int r = write_args(box, request, 0, &args, err);
    if (r < 0)
        return r;
    struct call *call;
    bool small = content->whole;
    r = call_open(box->wire, OP_WRITE, &args, content->data, small ? content->len : 0, small, &call, err);
    if (r < 0)
        return r;
    struct verb verb = {.op = OP_WRITE,
                        .watch = watch,
                        .read_fn = small ? NULL : content_next,
                        .read_user = content,
                        .input_max = request->max};
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    r = verb_finish(box, call, &verb, &arena, &end, err);
    if (r == 0)
        write_result(&end, ret_created, ret_stat);
    return r;
}

int box_write(struct box *box, const struct write_request *request, box_reader read_fn, void *user, int watch,
              bool *ret_created, struct file_stat *ret_stat, struct err *err) {
    if (request->size >= 0 && (uint64_t)request->size > request->max)
        return write_too_large(request, err);
    struct content content = {.read_fn = read_fn, .user = user, .data = xmalloc(LIMIT_FRAME_PAYLOAD_BYTES + 1)};
    /* One byte more than a frame holds tells small from large. */
    int r = content_read_ahead(&content, LIMIT_FRAME_PAYLOAD_BYTES + 1, err);
    if (r == 0 && content.whole && content.len > request->max)
        r = write_too_large(request, err);
    if (r == 0 && (content.whole || !write_can_pass(box, request)))
        r = write_sending(box, request, &content, watch, ret_created, ret_stat, err);
    else if (r == 0)
        r = write_passing(box, request, &content, ret_created, ret_stat, err);
    free(content.data);
    return r;
}
