/* Single files: read, write, stat, mkdir. Quick work, done on the loop with the agent's file-system ids; a read that is
 * streamed and not small goes to a worker. Called through the table of ops.
 * Invariant: nothing here may block (O_NONBLOCK opens, regular files only), and a write that does not come to its
 * end leaves no trace. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "runner/ops/op_file.h"
#include "runner/ops/ops.h"
#include "runner/ops/replace.h"
#include "runner/search/walk.h"

enum { READ_INLINE_BYTES = 65536 }; /* more is streamed by a worker: the loop does not wait for a disk */

/* ---- {file} ---- */

void runner_put_file(struct buf *out, int dirfd, const char *name, const struct stat *status) {
    mode_t mode = status->st_mode;
    enum file_type type = S_ISREG(mode)   ? FILE_REGULAR
                          : S_ISDIR(mode) ? FILE_DIR
                          : S_ISLNK(mode) ? FILE_SYMLINK
                                          : FILE_OTHER;
    field_number(out, FIELD_TYPE, type);
    field_number(out, FIELD_SIZE, (uint64_t)status->st_size);
    field_number(out, FIELD_MODE, mode & (type == FILE_OTHER ? 07777 | S_IFMT : 07777)); /* which other kind */
    field_number(out, FIELD_MTIME_NS,
                 (uint64_t)status->st_mtim.tv_sec * 1000000000u + (uint64_t)status->st_mtim.tv_nsec);
    field_number(out, FIELD_UID, status->st_uid);
    field_number(out, FIELD_GID, status->st_gid);
    field_number(out, FIELD_INODE, status->st_ino);
    if (type == FILE_SYMLINK) {
        char target[LIMIT_PATH_BYTES + 1];
        ssize_t len = readlinkat(dirfd, name, target, sizeof target - 1);
        if (len > 0)
            field_bytes(out, FIELD_TARGET, target, (size_t)len);
    }
}

int op_path(const struct runner_config *config, const struct fields *args, enum field_id id, unsigned how,
            int *ret_root, char *out, struct err *err) {
    if (!args->has[id])
        return err_set(err, ERR_PROTOCOL, "the call has no path");
    int r = path_check(args->text[id], args->len[id], err);
    if (r < 0)
        return r;
    return runner_path(config, args->text[id], how, ret_root, out, err);
}

/* The mode a call asks for. Bits that let a file run with its owner's rights are for commands in the box to set, where
 * the box's own walls judge: through here they could reach a mounted directory of the host. */
static int op_mode(const struct fields *args, mode_t otherwise, mode_t *ret_mode, struct err *err) {
    uint64_t mode = args->number[FIELD_MODE];
    if (mode > 07777)
        return err_set(err, ERR_INVALID, "mode %llo is out of range", (unsigned long long)mode);
    if (mode & (S_ISUID | S_ISGID))
        return err_set(err, ERR_INVALID, "mode %04llo: set-user-ID and set-group-ID are not given to files this way",
                       (unsigned long long)mode);
    *ret_mode = mode ? (mode_t)mode : otherwise;
    return 0;
}

int op_open_dir(const struct runner_config *config, const struct fields *args, int *ret_fd, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    const char *shown = args->has[FIELD_PATH] ? args->text[FIELD_PATH] : config->workspace;
    int r = args->has[FIELD_PATH] ? op_path(config, args, FIELD_PATH, PATH_READ, &root, path, err)
                                  : runner_path(config, shown, PATH_READ, &root, path, err);
    if (r < 0)
        return r;
    int fd = path_open(root, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOENT)
        return err_told(err, ENOENT, "no directory '%s'", shown);
    if (fd == -ENOTDIR)
        return err_told(err, ENOTDIR, "'%s' is not a directory", shown);
    if (fd < 0)
        return err_errno(err, -fd, "'%s'", shown);
    *ret_fd = fd;
    return 0;
}

int op_ignore(const struct fields *args, struct glob_names *ignore, struct walk *walk, struct err *err) {
    if (!args->has[FIELD_IGNORE] || args->len[FIELD_IGNORE] == 0)
        return 0;
    const char *why = glob_names_compile(ignore, args->text[FIELD_IGNORE], args->len[FIELD_IGNORE]);
    if (why)
        return err_set(err, ERR_INVALID, "names to ignore '%s': %s", args->text[FIELD_IGNORE], why);
    walk->ignore = ignore;
    return 0;
}

int op_globs(const char *const *patterns, size_t count, const char *what, struct glob *glob,
             const struct glob **ret_use, struct err *err) {
    const char *bad = "";
    *ret_use = NULL;
    for (size_t i = 0; i < count; i++)
        if (strlen(patterns[i]) > LIMIT_PATTERN_BYTES)
            return err_set(err, ERR_INVALID, "%s: a pattern must have at most %u bytes", what, LIMIT_PATTERN_BYTES);
    const char *why = count ? glob_compile_any(glob, patterns, count, &bad) : NULL;
    if (why)
        return err_set(err, ERR_INVALID, "%s '%s': %s", what, bad, why);
    *ret_use = count ? glob : NULL;
    return 0;
}

void shown_init(struct shown *shown, const char *path) {
    size_t len = path ? strlen(path) : 0;
    while (len > 0 && path[len - 1] == '/')
        len--;
    if (len > LIMIT_PATH_BYTES)
        len = LIMIT_PATH_BYTES;
    memcpy(shown->text, path ? path : "", len);
    if (path && *path)
        shown->text[len++] = '/';
    shown->text[len] = 0;
    shown->base = len;
}

size_t shown_set(struct shown *shown, const char *dir, size_t dir_len, const char *name, size_t name_len) {
    size_t len = shown->base + dir_len + name_len;
    if (len > LIMIT_PATH_BYTES)
        return 0;
    memcpy(shown->text + shown->base, dir, dir_len);
    memcpy(shown->text + shown->base + dir_len, name, name_len);
    shown->text[len] = 0;
    return len;
}

int op_to_worker(struct rcall *call, const struct op_def *def, const struct fields *args, struct err *err) {
    static const enum field_id numbers[] = {FIELD_FLAGS, FIELD_OFFSET, FIELD_LENGTH, FIELD_MODE, FIELD_SIZE};
    static const enum field_id texts[] = {FIELD_PATH, FIELD_TO, FIELD_IF_MATCH};
    autobuf payload = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    field_number(&payload, FIELD_OP, def->op);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (args->has[numbers[i]])
            field_number(&payload, numbers[i], args->number[numbers[i]]);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (args->has[texts[i]])
            field_text(&payload, texts[i], args->text[texts[i]]);
    call->def = def; /* from now on the call is the worker's: input, end and cancel */
    return worker_start(call, def, &payload, err);
}

static void reply_file(struct rcall *call, int fd, const struct stat *status, const char *name, int created) {
    autobuf out = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    runner_put_file(&out, fd, "", status);
    if (name)
        field_text(&out, FIELD_NAME, name);
    if (created >= 0)
        field_number(&out, FIELD_CREATED, (uint64_t)created);
    reply_end(call, &out);
}

/* ---- read ---- */

struct reading {
    size_t at, len;
    uint8_t data[];
};

static const struct op_def op_read_stream;

/* Sends what credit allows; the rest when `writable` comes. */
static void read_send(struct rcall *call) {
    struct reading *reading = call->state;
    while (reading->at < reading->len && reply_room(call)) {
        size_t sent = reply_data(call, STREAM_STDOUT, reading->data + reading->at, reading->len - reading->at);
        if (sent == 0)
            break;
        reading->at += sent;
    }
    call->writable = reading->at < reading->len ? read_send : NULL;
    if (reading->at < reading->len)
        return;
    free(reading);
    call->state = NULL;
    reply_end(call, NULL);
}

static int read_inline(struct rcall *call, int fd, uint64_t offset, size_t len, const char *path, struct err *err) {
    struct reading *reading = xmalloc(sizeof *reading + len);
    *reading = (struct reading){0};
    ssize_t n = pread(fd, reading->data, len, (off_t)offset);
    if (n < 0) {
        free(reading);
        return err_errno(err, errno, "'%s'", path);
    }
    reading->len = (size_t)n;
    call->state = reading;
    return 0;
}

static int read_check(const struct fields *args, const struct stat *status, uint64_t *ret_len, struct err *err) {
    uint64_t size = (uint64_t)status->st_size, offset = args->number[FIELD_OFFSET];
    if (offset > INT64_MAX)
        return err_set(err, ERR_INVALID, "offset %llu is out of range", (unsigned long long)offset);
    uint64_t left = offset < size ? size - offset : 0;
    uint64_t wanted = args->has[FIELD_LENGTH] ? args->number[FIELD_LENGTH] : UINT64_MAX;
    bool only_all = args->number[FIELD_FLAGS] & CALL_ALL;
    *ret_len = left <= wanted ? left : only_all ? 0 : wanted;
    return 0;
}

int op_open_file(const struct runner_config *config, const struct fields *args, int *ret_fd, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    int r = op_path(config, args, FIELD_PATH, PATH_READ, &root, path, err);
    return r < 0 ? r : path_open_file(root, path, O_RDONLY, 0, ret_fd, err);
}

static int read_begin(struct rcall *call, const struct fields *args, struct err *err) {
    autofd fd = -1;
    int r = op_open_file(call->runner->config, args, &fd, err);
    if (r < 0)
        return r;
    struct stat status;
    uint64_t len = 0;
    if (fstat(fd, &status) < 0)
        return err_errno(err, errno, "'%s'", args->text[FIELD_PATH]);
    r = read_check(args, &status, &len, err);
    if (r < 0)
        return r;
    bool want_fd = args->number[FIELD_FLAGS] & CALL_WANT_FD;
    if (!want_fd && len > READ_INLINE_BYTES)
        return op_to_worker(call, &op_read_stream, args, err);
    if (!want_fd) {
        r = read_inline(call, fd, args->number[FIELD_OFFSET], (size_t)len, args->text[FIELD_PATH], err);
        if (r < 0)
            return r;
    }
    autobuf out = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    runner_put_file(&out, fd, "", &status);
    reply_stat(call, &out, want_fd ? fd : -1);
    if (want_fd)
        reply_end(call, NULL);
    else
        read_send(call);
    return 0;
}

static void read_cancel(struct rcall *call) {
    free(call->state);
    call->state = NULL;
}

/* The file may shrink meanwhile: what comes is what was there. */
static int read_pump(struct worker *worker, int fd, uint64_t offset, uint64_t len, struct err *err) {
    static uint8_t data[65536];
    while (len > 0) {
        ssize_t n = pread(fd, data, len < sizeof data ? (size_t)len : sizeof data, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "reading");
        if (n == 0)
            break;
        int r = worker_data(worker, data, (size_t)n, err);
        if (r < 0)
            return r;
        offset += (uint64_t)n;
        len -= (uint64_t)n;
    }
    worker_end(worker, NULL);
    return 0;
}

static int read_work(struct worker *worker, const struct fields *args, struct err *err) {
    autofd fd = -1;
    int r = op_open_file(worker->config, args, &fd, err);
    if (r < 0)
        return r;
    struct stat status;
    uint64_t len = 0;
    if (fstat(fd, &status) < 0)
        return err_errno(err, errno, "'%s'", args->text[FIELD_PATH]);
    r = read_check(args, &status, &len, err);
    if (r < 0)
        return r;
    autobuf out = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    runner_put_file(&out, fd, "", &status);
    r = worker_stat(worker, &out, err);
    return r < 0 ? r : read_pump(worker, fd, args->number[FIELD_OFFSET], len, err);
}

static const struct op_def op_read_stream = {.op = OP_READ, .work = read_work};
static const struct op_def op_read_root = {.op = OP_READ, .work = read_work, .as_root = true};
const struct op_def op_read = {.op = OP_READ, .begin = read_begin, .cancel = read_cancel, .root = &op_read_root};

/* ---- write ---- */

struct writing {
    struct replace replace;
    bool created;
    mode_t mode;
    char *shown, *if_match;
};

static void write_free(struct rcall *call) {
    struct writing *writing = call->state;
    call->state = NULL;
    if (!writing)
        return;
    replace_done(&writing->replace);
    free(writing->shown);
    free(writing->if_match);
    free(writing);
}

static int write_open(struct writing *writing, const struct runner_config *config, const struct fields *args,
                      struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    uint64_t flags = args->number[FIELD_FLAGS];
    int r = op_mode(args, 0, &writing->mode, err);
    if (r == 0)
        r = op_path(config, args, FIELD_PATH, PATH_WRITE, &root, path, err);
    if (r == 0 && (flags & CALL_PARENTS))
        r = replace_mkdirs(root, path, writing->shown, 0755, true, err);
    if (r < 0)
        return r;
    r = replace_find(&writing->replace, root, path, writing->shown, writing->if_match, err);
    if (r == 0)
        r = replace_open(&writing->replace, writing->shown, err);
    writing->created = !writing->replace.existed;
    return r;
}

static int write_begin(struct rcall *call, const struct fields *args, struct err *err) {
    mode_t mode;
    if (args->number[FIELD_FLAGS] & CALL_APPEND) /* takes turns with edits of the same file */
        return op_mode(args, 0, &mode, err) < 0 ? -err->code : op_to_worker(call, &op_edit, args, err);
    struct writing *writing = xcalloc(1, sizeof *writing);
    writing->replace = (struct replace){.dirfd = -1, .fd = -1};
    writing->shown = strdup(args->has[FIELD_PATH] ? args->text[FIELD_PATH] : "");
    writing->if_match = args->has[FIELD_IF_MATCH] ? strdup(args->text[FIELD_IF_MATCH]) : NULL;
    call->state = writing;
    int r = write_open(writing, call->runner->config, args, err);
    if (r < 0) {
        write_free(call);
        return r;
    }
    if (args->number[FIELD_FLAGS] & CALL_WANT_FD) {
        autobuf none = buf_max(64);
        reply_stat(call, &none, writing->replace.fd);
    }
    return 0;
}

static int write_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err) {
    struct writing *writing = call->state;
    int r = fd_write_all(writing->replace.fd, data, len);
    if (r < 0) {
        err_errno(err, -r, "writing '%s'", writing->shown);
        write_free(call);
        return -err->code;
    }
    reply_credit(call, (uint32_t)len);
    return 0;
}

static int write_finish(struct rcall *call, struct err *err) {
    struct writing *writing = call->state;
    struct stat status;
    int r = replace_commit(&writing->replace, writing->shown, writing->mode, writing->if_match, &status, err);
    bool created = writing->created;
    write_free(call);
    if (r < 0)
        return r;
    reply_file(call, -1, &status, NULL, created);
    return 0;
}

const struct op_def op_write = {.op = OP_WRITE,
                                .begin = write_begin,
                                .input = write_input,
                                .finish = write_finish,
                                .cancel = write_free,
                                .root = &op_edit_root};

/* ---- stat ---- */

/* The last name of a path, slashes behind it left out; "/" for the root. */
static void base_name(const char *path, char name[LIMIT_PATH_BYTES + 1]) {
    size_t len = strlen(path), start;
    while (len > 1 && path[len - 1] == '/')
        len--;
    for (start = len; start > 0 && path[start - 1] != '/';)
        start--;
    if (start == len)
        start = 0;
    memcpy(name, path + start, len - start);
    name[len - start] = 0;
}

static int stat_begin(struct rcall *call, const struct fields *args, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    int follow = args->number[FIELD_FLAGS] & CALL_FOLLOW ? 0 : O_NOFOLLOW;
    int r = op_path(call->runner->config, args, FIELD_PATH, follow ? PATH_ITSELF : PATH_READ, &root, path, err);
    if (r < 0)
        return r;
    autofd fd = path_open(root, path, O_PATH | follow, 0);
    struct stat status;
    if (fd == -ENOENT)
        return err_told(err, ENOENT, "no file '%s'", args->text[FIELD_PATH]);
    if (fd < 0)
        return err_errno(err, -fd, "'%s'", args->text[FIELD_PATH]);
    if (fstat(fd, &status) < 0)
        return err_errno(err, errno, "'%s'", args->text[FIELD_PATH]);
    base_name(args->text[FIELD_PATH], path);
    reply_file(call, fd, &status, path, -1);
    return 0;
}

const struct op_def op_stat = {.op = OP_STAT, .begin = stat_begin};

/* ---- mkdir ---- */

static int mkdir_last(int root, const char *path, const char *shown, mode_t mode, struct err *err) {
    autofd dirfd = -1;
    char name[256];
    int r = path_open_parent(root, path, &dirfd, name, err);
    if (r < 0)
        return r;
    mode_t mask = umask(0);
    r = mkdirat(dirfd, name, mode) < 0 ? -errno : 0;
    umask(mask);
    if (r == -EEXIST)
        return err_set(err, ERR_EXISTS, "'%s' exists", shown);
    return r < 0 ? err_errno(err, -r, "'%s'", shown) : 1;
}

static int mkdir_begin(struct rcall *call, const struct fields *args, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    int r = op_path(call->runner->config, args, FIELD_PATH, PATH_WRITE, &root, path, err);
    mode_t mode = 0;
    if (r == 0)
        r = op_mode(args, 0755, &mode, err);
    if (r < 0)
        return r;
    const char *shown = args->text[FIELD_PATH];
    r = args->number[FIELD_FLAGS] & CALL_PARENTS ? replace_mkdirs(root, path, shown, mode, false, err)
                                                 : mkdir_last(root, path, shown, mode, err);
    if (r < 0)
        return r;
    autobuf out = buf_max(64);
    field_number(&out, FIELD_CREATED, (uint64_t)r);
    reply_end(call, &out);
    return 0;
}

const struct op_def op_mkdir = {.op = OP_MKDIR, .begin = mkdir_begin};
