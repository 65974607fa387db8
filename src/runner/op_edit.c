/* Edit: replace a string in a file, atomically, in a worker. Called through the table of ops.
 * Not to break: no change of the file is lost, be it another edit's, a write's or a program's that renames a new file
 * into place. The new version takes the place of the one that was read or of none; then the edit begins again. No lock is
 * involved: whoever holds one on the file in the box stops nobody. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "runner/op_file.h"
#include "runner/ops.h"
#include "runner/replace.h"

enum { AGAIN_MS = 10000 }; /* how long a file that changes all the time is tried */

struct edit {
    const char *shown;
    struct buf input; /* old, then new */
    size_t old_len;
    struct buf file;
    uint64_t count;
    bool all;
};

static int edit_read_input(struct edit *edit, struct worker *worker, const struct fields *args, struct err *err);
static int edit_read_file(struct edit *edit, const struct replace *replace, struct stat *ret_read, struct err *err);
static int edit_count(struct edit *edit, struct err *err);
static int edit_write(const struct edit *edit, int fd, struct err *err);

/* 1: the file changed meanwhile. */
static int edit_once(struct edit *edit, struct replace *replace, int root, const char *path, struct stat *ret_status,
                     struct err *err) {
    struct stat read;
    int r = replace_find(replace, root, path, edit->shown, NULL, err);
    if (r == 0)
        r = edit_read_file(edit, replace, &read, err);
    if (r == 0)
        r = edit_count(edit, err);
    if (r == 0)
        r = replace_open(replace, edit->shown, err);
    if (r == 0)
        r = edit_write(edit, replace->fd, err);
    if (r == 0)
        r = replace_exchange(replace, edit->shown, 0, &read, ret_status, err);
    replace_done(replace);
    return r;
}

static int edit_run(struct edit *edit, struct worker *worker, const struct fields *args, struct stat *ret_status,
                    struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    struct replace replace = {.dirfd = -1, .fd = -1};
    int r = op_path(worker->config, args, FIELD_PATH, true, &root, path, err);
    if (r == 0)
        r = edit_read_input(edit, worker, args, err);
    uint64_t until_ms = clock_ms() + AGAIN_MS;
    if (r == 0)
        do
            r = edit_once(edit, &replace, root, path, ret_status, err);
        while (r == 1 && clock_ms() < until_ms);
    return r == 1 ? err_set(err, ERR_BUSY, "'%s' changes all the time", edit->shown) : r;
}

static int edit_work(struct worker *worker, const struct fields *args, struct err *err) {
    struct edit edit = {.shown = args->has[FIELD_PATH] ? args->text[FIELD_PATH] : "",
                        .all = args->number[FIELD_FLAGS] & CALL_ALL};
    buf_init(&edit.input, 2 * LIMIT_EDIT_BYTES);
    buf_init(&edit.file, LIMIT_EDIT_BYTES + 65536);
    struct stat status;
    int r = edit_run(&edit, worker, args, &status, err);
    buf_done(&edit.input);
    buf_done(&edit.file);
    if (r < 0)
        return r;
    autobuf out;
    buf_init(&out, LIMIT_FRAME_PAYLOAD_BYTES);
    runner_put_file(&out, -1, "", &status);
    field_number(&out, FIELD_FILES, edit.count);
    worker_end(worker, &out);
    return 0;
}

static int edit_read_input(struct edit *edit, struct worker *worker, const struct fields *args, struct err *err) {
    for (;;) {
        uint8_t *at = buf_reserve(&edit->input, 16384);
        if (!at)
            return err_set(err, ERR_TOO_LARGE, "old and new text are longer than %u bytes", 2 * LIMIT_EDIT_BYTES);
        ssize_t n = worker_read(worker, at, 16384, err);
        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        edit->input.len += (size_t)n;
    }
    if (args->number[FIELD_LENGTH] > edit->input.len)
        return err_set(err, ERR_PROTOCOL, "the input of edit is shorter than its old text");
    edit->old_len = (size_t)args->number[FIELD_LENGTH];
    if (edit->old_len == 0)
        return err_set(err, ERR_INVALID, "the text to replace is empty");
    return 0;
}

static int edit_read_file(struct edit *edit, const struct replace *replace, struct stat *ret_read, struct err *err) {
    edit->file.len = 0;
    autofd fd = openat(replace->dirfd, replace->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no file '%s'", edit->shown);
    if (fd < 0 || fstat(fd, ret_read) < 0)
        return err_errno(err, errno, "'%s'", edit->shown);
    if (!S_ISREG(ret_read->st_mode))
        return err_set(err, ERR_INVALID, "'%s' is %s, not a regular file", edit->shown,
                       file_kind_text(ret_read->st_mode));
    for (;;) {
        uint8_t *at = buf_reserve(&edit->file, 65536);
        if (!at || edit->file.len > LIMIT_EDIT_BYTES)
            return err_set(err, ERR_TOO_LARGE, "'%s' is larger than %u bytes", edit->shown, LIMIT_EDIT_BYTES);
        ssize_t n = read(fd, at, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "reading '%s'", edit->shown);
        if (n == 0)
            return 0;
        edit->file.len += (size_t)n;
    }
}

static int edit_count(struct edit *edit, struct err *err) {
    const uint8_t *at = edit->file.data, *end = at + edit->file.len;
    const uint8_t *old = edit->input.data;
    edit->count = 0;
    while (edit->file.len && (at = memmem(at, (size_t)(end - at), old, edit->old_len))) {
        edit->count++;
        at += edit->old_len;
    }
    if (edit->count == 0)
        return err_set(err, ERR_NOT_FOUND, "the text to replace is not in '%s'", edit->shown);
    if (edit->count > 1 && !edit->all)
        return err_set(err, ERR_INVALID, "the text to replace is in '%s' %llu times: give more of it, or all=true",
                       edit->shown, (unsigned long long)edit->count);
    uint64_t new_len = edit->input.len - edit->old_len;
    if (edit->file.len - edit->count * edit->old_len + edit->count * new_len > LIMIT_EDIT_BYTES)
        return err_set(err, ERR_TOO_LARGE, "'%s' would be larger than %u bytes", edit->shown, LIMIT_EDIT_BYTES);
    return 0;
}

static int edit_write(const struct edit *edit, int fd, struct err *err) {
    const uint8_t *at = edit->file.data, *end = at + edit->file.len, *hit;
    const uint8_t *old = edit->input.data, *new_text = old + edit->old_len;
    size_t new_len = edit->input.len - edit->old_len;
    autobuf out;
    buf_init(&out, LIMIT_EDIT_BYTES);
    while ((hit = memmem(at, (size_t)(end - at), old, edit->old_len))) {
        buf_put(&out, at, (size_t)(hit - at));
        buf_put(&out, new_text, new_len);
        at = hit + edit->old_len;
    }
    buf_put(&out, at, (size_t)(end - at));
    int r = fd_write_all(fd, out.data, out.len);
    return r < 0 ? err_errno(err, -r, "writing '%s'", edit->shown) : 0;
}

const struct op_def op_edit = {.op = OP_EDIT, .work = edit_work};
