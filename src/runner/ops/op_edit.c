/* Edit: changes a file, in a worker and in its turn (runner/ops/turn.h). Replaces a string, a range of lines, matches
 * of a regular expression or the whole content; or appends text. Called through the table of ops. Invariant: no change
 * of the file is lost, whether by another edit, a write or a program that renames a new file into place. The new
 * version replaces the one that was read, or the edit starts over. The turn only makes that rare: a lock on the file in
 * the box would stop no edit. */
#include <nettle/sha2.h>
#include <sys/time.h>

#include "base/base.h"
#include "runner/ops/edit_text.h"
#include "runner/ops/op_file.h"
#include "runner/ops/replace.h"
#include "runner/ops/turn.h"

enum {
    AGAIN_MS = 10000, /* how long to retry with a file that keeps changing */
    REGEX_SECONDS = 5,
    PIECE_BYTES = 65536,
};

struct edit {
    struct worker *worker;
    const struct fields *args;
    const char *shown;
    uint64_t flags;
    struct place at;
    struct buf input, file, out; /* old, then new text; old content; new content */
    struct edit_text text;
    struct replace replace;
    struct owner owner; /* of what is made; for WHOLE only */
    struct attrs attrs;
    uint8_t sha256[32]; /* of the new version */
    bool hashed, created;
    struct stat status;
};

/* ---- checking the version ---- */

static void edit_hash_of(const void *data, size_t len, uint8_t digest[32]) {
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, len, data);
    sha256_digest(&context, 32, digest);
}

static int edit_read_file(struct edit *edit, int fd, struct err *err) {
    edit->file.len = 0;
    for (;;) {
        uint8_t *at = buf_reserve(&edit->file, PIECE_BYTES);
        if (!at || edit->file.len > LIMIT_EDIT_BYTES)
            return err_set(err, ERR_TOO_LARGE, "'%s' is larger than %u bytes", edit->shown, LIMIT_EDIT_BYTES);
        ssize_t n = read(fd, at, PIECE_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "cannot read '%s'", edit->shown);
        if (n == 0)
            return 0;
        edit->file.len += (size_t)n;
    }
}

static int edit_open(const struct edit *edit, int flags, mode_t mode, int *ret_fd, struct err *err) {
    return path_open_file(edit->at.root, edit->at.above, edit->at.path, flags, mode, ret_fd, err);
}

/* Returns whether the current content has this hash. file: it was already read. */
static bool edit_hash_is(struct edit *edit, bool file, const uint8_t *wanted) {
    uint8_t digest[32];
    if (!file) {
        autofd fd = -1;
        if (edit_open(edit, O_RDONLY, 0, &fd, ERR_IGNORED) < 0 || edit_read_file(edit, fd, ERR_IGNORED) < 0)
            return false;
    }
    edit_hash_of(edit->file.data, edit->file.len, digest);
    return memcmp(digest, wanted, sizeof digest) == 0;
}

/* IF_MATCH names the version that the author has seen; versions that the author wrote later also count as seen. now
 * NULL: there is no file. Times of change are coarse: for a version noted in the same tick the hash decides. */
static int edit_check(struct edit *edit, const struct stat *now, bool file, struct err *err) {
    const struct fields *args = edit->args;
    const struct turn_version *last = edit->worker->version;
    char etag[ETAG_TEXT_BYTES];
    if (!args->has[FIELD_IF_MATCH] || (!now && (edit->flags & CALL_CREATE)))
        return 0;
    if (!now)
        return err_set(err, ERR_EXISTS, "no file '%s': If-Match needs an existing file", edit->shown);
    etag_text(now, etag);
    const uint8_t *hash = args->len[FIELD_SHA256] == 32 ? (const uint8_t *)args->text[FIELD_SHA256] : NULL;
    if (strcmp(args->text[FIELD_IF_MATCH], "*") == 0 ||
        (strcmp(args->text[FIELD_IF_MATCH], etag) == 0 && (!hash || edit_hash_is(edit, file, hash))))
        return 0;
    uint64_t mtime_ns = (uint64_t)now->st_mtim.tv_sec * 1000000000u + (uint64_t)now->st_mtim.tv_nsec;
    if (last && last->turn.author && last->turn.author == args->number[FIELD_AUTHOR] && last->inode == now->st_ino &&
        last->size == (uint64_t)now->st_size && last->mtime_ns == mtime_ns &&
        (!last->hashed || edit_hash_is(edit, file, last->sha256)))
        return 0;
    return err_set(err, ERR_EXISTS, "'%s' has changed: its ETag is now %s", edit->shown, etag);
}

static int edit_again(const struct edit *edit, struct err *err) {
    return err_set(err, ERR_BUSY, "'%s' keeps changing; try again", edit->shown);
}

/* ---- changing a part ---- */

/* A cancelled call is not killed: its input ends early, so that it can clean up. */
static int edit_whole_input(const struct edit *edit, uint64_t len, struct err *err) {
    if (edit->args->has[FIELD_SIZE] && edit->args->number[FIELD_SIZE] != len)
        return err_set(err, ERR_GONE, "the input for '%s' ended early", edit->shown);
    return 0;
}

static int edit_read_input(struct edit *edit, struct err *err) {
    for (;;) {
        uint8_t *at = buf_reserve(&edit->input, 16384);
        if (!at)
            return err_set(err, ERR_TOO_LARGE, "old and new text are longer than %u bytes", 2 * LIMIT_EDIT_BYTES);
        ssize_t n = worker_read(edit->worker, at, 16384, err);
        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        edit->input.len += (size_t)n;
    }
    uint64_t old_len = edit->args->number[FIELD_LENGTH];
    if (old_len > edit->input.len)
        return err_set(err, ERR_PROTOCOL, "the input of edit is shorter than its old text");
    return edit_whole_input(edit, edit->input.len, err);
}

/* A regular expression is stopped after this time: pcre2 bounds the steps of one attempt, but a text has many places to
 * try. Until then nothing was written, neither an answer nor a file, so the process can answer and exit at any
 * moment. */
static struct {
    int fd;
    struct buf frame;
} overdue;

static void edit_overdue(int) {
    (void)!write(overdue.fd, overdue.frame.data, overdue.frame.len);
    _exit(0);
}

static void edit_clock(struct edit *edit, unsigned seconds) {
    if (seconds && !overdue.frame.data) {
        autobuf fields = buf_max(1024);
        field_number(&fields, FIELD_CODE, ERR_INVALID);
        field_text(&fields, FIELD_MESSAGE,
                   "the pattern takes too long on this text: make it more specific, without nested repetitions");
        buf_init(&overdue.frame, 2048);
        frame_put(&overdue.frame, FRAME_FAIL, 0, 0, fields.data, fields.len);
        overdue.fd = edit->worker->out_fd;
        signal(SIGALRM, edit_overdue);
    }
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_sec = (time_t)seconds}, NULL);
}

static int edit_change(struct edit *edit, struct err *err) {
    const struct fields *args = edit->args;
    size_t old_len = (size_t)args->number[FIELD_LENGTH];
    edit_text_done(&edit->text);
    edit->text = (struct edit_text){.lines = edit->flags & CALL_LINES,
                                    .regex = edit->flags & CALL_REGEX,
                                    .all = edit->flags & CALL_ALL,
                                    .text = edit->flags & CALL_TEXT,
                                    .first = args->number[FIELD_FIRST],
                                    .last = args->number[FIELD_LAST],
                                    .old = edit->input.data,
                                    .old_len = old_len,
                                    .new_text = edit->input.data + old_len,
                                    .new_len = edit->input.len - old_len};
    buf_clear(&edit->out);
    if (edit->text.regex)
        edit_clock(edit, REGEX_SECONDS);
    int r = edit_text_apply(&edit->text, edit->file.data, edit->file.len, edit->shown, &edit->out, err);
    if (edit->text.regex)
        edit_clock(edit, 0);
    return r;
}

static int edit_read_target(struct edit *edit, struct stat *ret_read, struct err *err) {
    const struct replace *replace = &edit->replace;
    autofd fd = openat(replace->dirfd, replace->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return err_text(err, ENOENT, "no file '%s'", edit->shown);
    if (fd < 0 || fstat(fd, ret_read) < 0)
        return err_errno(err, errno, "'%s'", edit->shown);
    if (!S_ISREG(ret_read->st_mode))
        return err_text(err, S_ISDIR(ret_read->st_mode) ? EISDIR : EINVAL, "'%s' is %s, not a regular file",
                        edit->shown, path_kind(ret_read->st_mode));
    return edit_read_file(edit, fd, err);
}

/* Returns 1 if the file has changed. */
static int edit_text_once(struct edit *edit, struct err *err) {
    struct replace *replace = &edit->replace;
    struct stat read;
    replace_done(replace);
    TRY(replace_find(replace, &edit->at, edit->shown, NULL, err));
    TRY(edit_read_target(edit, &read, err) ?: edit_check(edit, &read, true, err));
    TRY(edit_change(edit, err) ?: replace_open(replace, edit->shown, err));
    int r = fd_write_all(replace->fd, edit->out.data, edit->out.len);
    if (r < 0)
        return err_errno(err, -r, "cannot write '%s'", edit->shown);
    return replace_exchange(replace, edit->shown, 0, &read, &edit->status, err);
}

static int edit_text_run(struct edit *edit, struct err *err) {
    int r = edit_read_input(edit, err);
    uint64_t until_ms = clock_ms() + AGAIN_MS;
    if (r == 0)
        do
            r = edit_text_once(edit, err);
        while (r == 1 && clock_ms() < until_ms);
    if (r == 0) {
        edit_hash_of(edit->out.data, edit->out.len, edit->sha256);
        edit->hashed = true;
    }
    return r == 1 ? edit_again(edit, err) : r;
}

/* ---- replacing the whole content ---- */

static int edit_take(struct edit *edit, int fd, uint64_t *ret_len, struct err *err) {
    static uint8_t data[PIECE_BYTES];
    struct sha256_ctx context;
    sha256_init(&context);
    for (*ret_len = 0;;) {
        ssize_t n = worker_read(edit->worker, data, sizeof data, err);
        if (n < 0)
            return (int)n;
        if (n == 0)
            break;
        sha256_update(&context, (size_t)n, data);
        for (ssize_t done = 0, wrote; done < n; done += wrote) {
            wrote = write(fd, data + done, (size_t)(n - done));
            if (wrote < 0 && errno != EINTR)
                return err_errno(err, errno, "cannot write '%s'", edit->shown);
            wrote = wrote < 0 ? 0 : wrote;
            *ret_len += (uint64_t)wrote;
        }
    }
    sha256_digest(&context, sizeof edit->sha256, edit->sha256);
    return edit_whole_input(edit, *ret_len, err);
}

/* Returns 1 if another file is there now. */
static int edit_whole_once(struct edit *edit, struct err *err) {
    struct replace *replace = &edit->replace;
    TRY(replace_look(replace, edit->shown, err));
    TRY(edit_check(edit, replace->existed ? &replace->old : NULL, false, err));
    edit->created = !replace->existed;
    mode_t mode = (mode_t)edit->args->number[FIELD_MODE] & 01777;
    return replace->existed ? replace_exchange(replace, edit->shown, mode, &replace->old, &edit->status, err)
                            : replace_create(replace, edit->shown, mode, &edit->status, err);
}

static int edit_whole_run(struct edit *edit, struct err *err) {
    uint64_t len, until_ms = clock_ms() + AGAIN_MS;
    int r = replace_find(&edit->replace, &edit->at, edit->shown, NULL, err);
    edit->replace.owner = edit->owner;
    edit->replace.attrs = edit->attrs;
    if (r == 0)
        r = replace_open(&edit->replace, edit->shown, err);
    if (r == 0)
        r = edit_take(edit, edit->replace.fd, &len, err);
    if (r == 0)
        do
            r = edit_whole_once(edit, err);
        while (r == 1 && clock_ms() < until_ms);
    edit->hashed = r == 0;
    return r == 1 ? edit_again(edit, err) : r;
}

/* ---- appending ---- */

/* Returns 1 if a file has appeared: look again. */
static int edit_append_open(struct edit *edit, int *ret_fd, struct err *err) {
    bool guarded = edit->args->has[FIELD_IF_MATCH];
    mode_t mode = (mode_t)edit->args->number[FIELD_MODE];
    int flags = O_WRONLY | O_APPEND;
    int r = edit_open(edit, flags, 0, ret_fd, err);
    edit->created = r == -ERR_NOT_FOUND;
    if (r == 0)
        r = fstat(*ret_fd, &edit->status) < 0 ? err_errno(err, errno, "'%s'", edit->shown)
                                              : edit_check(edit, &edit->status, false, err);
    if (!edit->created)
        return r;
    TRY(edit_check(edit, NULL, false, err));
    flags |= O_CREAT | (guarded ? O_EXCL : 0);
    mode_t mask = umask(0);
    r = edit_open(edit, flags, mode ? mode & 01777 : 0644, ret_fd, err);
    umask(mask);
    edit->status.st_size = 0;
    return r == -ERR_EXISTS && guarded ? 1 : r;
}

static int edit_append_run(struct edit *edit, struct err *err) {
    autofd fd = -1;
    uint64_t len = 0, until_ms = clock_ms() + AGAIN_MS;
    int r;
    do
        r = edit_append_open(edit, &fd, err);
    while (r == 1 && clock_ms() < until_ms);
    if (r != 0)
        return r == 1 ? edit_again(edit, err) : r;
    off_t old = edit->status.st_size;
    r = edit_take(edit, fd, &len, err);
    if (fstat(fd, &edit->status) < 0 && r == 0)
        r = err_errno(err, errno, "'%s'", edit->shown);
    /* A partial append (disk full) is undone, unless a program in the box has also written. */
    if (r < 0 && edit->status.st_size == old + (off_t)len)
        (void)!ftruncate(fd, old);
    edit->hashed = edit->created && r == 0; /* else it would be the hash of the appended text */
    return r;
}

/* ---- the call ---- */

/* Sends similar lines before the failure. */
static void edit_send_near(const struct edit *edit) {
    const struct edit_text *text = &edit->text;
    struct worker *worker = edit->worker;
    struct buf *out = worker_item(worker);
    field_number(out, FIELD_FILES, text->count);
    field_number(out, FIELD_STATE, text->how);
    int r = worker_item_end(worker, ERR_IGNORED);
    for (size_t i = 0; i < text->near_count && r == 0; i++) {
        out = worker_item(worker);
        field_number(out, FIELD_LINE, text->near[i].line);
        field_bytes(out, FIELD_TEXT, text->near[i].text, text->near[i].len);
        r = worker_item_end(worker, ERR_IGNORED);
    }
    (void)worker_flush(worker, ERR_IGNORED);
}

static int edit_given(struct edit *edit, struct err *err) {
    int r = owner_args(edit->args, &edit->owner, err) ?: attrs_args(edit->args, &edit->attrs, err);
    if (r == 0 && (edit->owner.given || edit->attrs.prefix) && !(edit->flags & CALL_OVERWRITE))
        r = err_set(err, ERR_INVALID, "owner and attributes are only possible for a file that is written as a whole");
    return r;
}

static int edit_work(struct worker *worker, const struct fields *args, struct err *err) {
    struct edit *edit =
        xcalloc(1, sizeof *edit); /* too large for some stacks; freed when the process ends with the call */
    edit->worker = worker;
    edit->args = args;
    edit->shown = args->has[FIELD_PATH] ? args->text[FIELD_PATH] : "";
    edit->flags = args->number[FIELD_FLAGS];
    edit->replace = (struct replace){.dirfd = -1, .fd = -1};
    buf_init(&edit->input, 2 * LIMIT_EDIT_BYTES);
    buf_init(&edit->file, LIMIT_EDIT_BYTES + PIECE_BYTES);
    buf_init(&edit->out, LIMIT_EDIT_BYTES);
    int r = op_path(worker->config, args, FIELD_PATH, PATH_WRITE, &edit->at, err) ?: edit_given(edit, err);
    if (r == 0 && (edit->flags & CALL_ROOT) &&
        (edit->flags & CALL_PARENTS)) /* for directories that the agent may not make */
        r = replace_mkdirs(&edit->at, edit->shown, 0755, true, &edit->owner, err);
    if (r >= 0)
        r = edit->flags & CALL_APPEND      ? edit_append_run(edit, err)
            : edit->flags & CALL_OVERWRITE ? edit_whole_run(edit, err)
                                           : edit_text_run(edit, err);
    replace_done(&edit->replace);
    if (r == 0) {
        autobuf out = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
        runner_put_file(&out, -1, "", &edit->status);
        field_number(&out, FIELD_FILES, edit->text.count);
        field_number(&out, FIELD_LINE, edit->text.line);
        field_number(&out, FIELD_LINES, edit->text.total);
        field_number(&out, FIELD_CREATED, edit->created);
        if (edit->hashed)
            field_bytes(&out, FIELD_SHA256, edit->sha256, sizeof edit->sha256);
        worker_end(edit->worker, &out);
    } else if (edit->text.judged)
        edit_send_near(edit);
    return r;
}

const struct op_def op_edit = {.op = OP_EDIT, .work = edit_work, .turns = true, .cleans = true, .root = &op_edit};
