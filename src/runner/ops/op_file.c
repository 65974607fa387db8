/* Single files: read, write, stat, mkdir. Quick work, done on the loop with the agent's file-system ids; a streamed
 * read that is not small goes to a worker. Called through the table of ops. Invariant: nothing here may block
 * (O_NONBLOCK opens, regular files only), and an incomplete write leaves no trace. */
#include <nettle/sha2.h>

#include "base/base.h"
#include "runner/ops/op_file.h"
#include "runner/ops/attrs.h"
#include "runner/ops/ops.h"
#include "runner/ops/replace.h"
#include "runner/search/walk.h"

enum { READ_INLINE_BYTES = 65536 }; /* a worker streams more: the loop does not wait for a disk */

/* ---- {file} ---- */

void runner_put_file(struct buf *out, int dirfd, const char *name, const struct stat *status) {
    mode_t mode = status->st_mode;
    enum file_type type = S_ISREG(mode)   ? FILE_REGULAR
                          : S_ISDIR(mode) ? FILE_DIR
                          : S_ISLNK(mode) ? FILE_SYMLINK
                                          : FILE_OTHER;
    field_number(out, FIELD_TYPE, type);
    field_number(out, FIELD_SIZE, (uint64_t)status->st_size);
    field_number(out, FIELD_MODE,
                 mode & (type == FILE_OTHER ? 07777 | S_IFMT : 07777)); /* for FILE_OTHER with its kind */
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

/* Adds where it leads inside of the box. Not in `local`, where that would be a path of the machine. */
static void op_put_resolved(const struct runner_config *config, struct buf *out, const char *path) {
    struct place at;
    char target[LIMIT_PATH_BYTES + 1];
    struct stat status;
    if (config->maps || runner_path(config, path, PATH_READ, &at, ERR_IGNORED) < 0)
        return;
    autofd fd = path_open(at.root, at.path, O_PATH, 0);
    if (fd < 0 || fstat(fd, &status) < 0)
        return;
    ssize_t len = readlink(text_make(64, "/proc/self/fd/%d", fd), target, sizeof target - 1);
    if (len <= 0 || len >= (ssize_t)sizeof target - 1 || target[0] != '/')
        return;
    field_bytes(out, FIELD_RESOLVED, target, (size_t)len);
    field_number(out, FIELD_RESOLVED_MODE, status.st_mode);
}

void op_put_details(const struct runner_config *config, struct buf *out, int dirfd, const char *name, const char *path,
                    bool link, const char *prefix) {
    if (link)
        op_put_resolved(config, out, path);
    if (link || !prefix)
        return;
    autofd fd = *name ? openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
    attrs_put(out, text_make(64, "/proc/self/fd/%d", *name ? fd : dirfd), prefix);
}

int op_path(const struct runner_config *config, const struct fields *args, enum field_id id, unsigned how,
            struct place *ret_place, struct err *err) {
    if (!args->has[id])
        return err_set(err, ERR_PROTOCOL, "the call has no path");
    return path_check(args->text[id], args->len[id], err) ?: runner_path(config, args->text[id], how, ret_place, err);
}

int op_path_or_workspace(const struct runner_config *config, const struct fields *args, struct place *ret_place,
                         struct err *err) {
    return args->has[FIELD_PATH] ? op_path(config, args, FIELD_PATH, PATH_READ, ret_place, err)
                                 : runner_path(config, config->workspace, PATH_READ, ret_place, err);
}

/* Reads the requested mode. Bits that make a file run with its owner's rights may only be set by commands in the box,
 * where the box's confinement applies: through here they could reach a mounted directory of the host. */
static int op_mode(const struct fields *args, mode_t otherwise, mode_t *ret_mode, struct err *err) {
    uint64_t mode = args->number[FIELD_MODE];
    if (mode > 07777)
        return err_set(err, ERR_INVALID, "mode %llo is out of range", (unsigned long long)mode);
    if (mode & (S_ISUID | S_ISGID))
        return err_set(err, ERR_INVALID, "mode %04llo: set-user-ID and set-group-ID bits are not allowed here",
                       (unsigned long long)mode);
    *ret_mode = mode ? (mode_t)mode : otherwise;
    return 0;
}

int op_open_dir(const struct runner_config *config, const struct fields *args, int *ret_fd, struct err *err) {
    struct place at;
    const char *shown = args->has[FIELD_PATH] ? args->text[FIELD_PATH] : config->workspace;
    TRY(op_path_or_workspace(config, args, &at, err));
    int fd = path_open(at.root, at.path, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOENT)
        return err_text(err, ENOENT, "no directory '%s'", shown);
    if (fd == -ENOTDIR)
        return err_text(err, ENOTDIR, "'%s' is not a directory", shown);
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
    call->def = def; /* the worker now handles input, end and cancel */
    return worker_start(call, &payload, err);
}

/* ---- read ---- */

struct reading {
    size_t at, len;
    uint8_t data[];
};

/* Sends what credit allows; `writable` sends the rest. */
static void file_read_send(struct rcall *call) {
    struct reading *reading = call->state;
    while (reading->at < reading->len && reply_room(call)) {
        size_t sent = reply_data(call, STREAM_STDOUT, reading->data + reading->at, reading->len - reading->at);
        if (sent == 0)
            break;
        reading->at += sent;
    }
    call->writable = reading->at < reading->len ? file_read_send : NULL;
    if (reading->at < reading->len)
        return;
    free(reading);
    call->state = NULL;
    reply_end(call, NULL);
}

static int op_open_file(const struct runner_config *config, const struct fields *args, int *ret_fd, struct err *err) {
    struct place at;
    TRY(op_path(config, args, FIELD_PATH, PATH_READ, &at, err));
    return path_open_file(at.root, at.above, at.path, O_RDONLY, 0, ret_fd, err);
}

/* *ret_len: how many bytes are wanted. */
static int file_read_open(const struct runner_config *config, const struct fields *args, int *ret_fd,
                          struct stat *status, uint64_t *ret_len, struct err *err) {
    uint64_t offset = args->number[FIELD_OFFSET];
    TRY(op_open_file(config, args, ret_fd, err));
    if (fstat(*ret_fd, status) < 0)
        return err_errno(err, errno, "'%s'", args->text[FIELD_PATH]);
    if (offset > INT64_MAX)
        return err_set(err, ERR_INVALID, "offset %llu is out of range", (unsigned long long)offset);
    uint64_t size = (uint64_t)status->st_size, left = offset < size ? size - offset : 0;
    uint64_t wanted = args->has[FIELD_LENGTH] ? args->number[FIELD_LENGTH] : UINT64_MAX;
    *ret_len = left <= wanted ? left : args->number[FIELD_FLAGS] & CALL_ALL ? 0 : wanted;
    return 0;
}

static int file_read_begin(struct rcall *call, const struct fields *args, struct err *err) {
    autofd fd = -1;
    struct stat status;
    uint64_t len;
    TRY(file_read_open(call->runner->config, args, &fd, &status, &len, err));
    bool want_fd = args->number[FIELD_FLAGS] & CALL_WANT_FD;
    if (!want_fd && len > READ_INLINE_BYTES)
        return op_to_worker(call, &op_read, args, err);
    if (!want_fd) {
        struct reading *reading = xmalloc(sizeof *reading + len);
        ssize_t n = pread(fd, reading->data, len, (off_t)args->number[FIELD_OFFSET]);
        if (n < 0) {
            free(reading);
            return err_errno(err, errno, "'%s'", args->text[FIELD_PATH]);
        }
        reading->at = 0;
        reading->len = (size_t)n;
        call->state = reading;
    }
    autobuf out = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    runner_put_file(&out, fd, "", &status);
    reply_stat(call, &out, want_fd ? fd : -1);
    if (want_fd)
        reply_end(call, NULL);
    else
        file_read_send(call);
    return 0;
}

static void file_read_cancel(struct rcall *call) {
    free(call->state);
    call->state = NULL;
}

static int file_read_work(struct worker *worker, const struct fields *args, struct err *err) {
    static uint8_t data[65536];
    autofd fd = -1;
    struct stat status;
    uint64_t len, offset = args->number[FIELD_OFFSET];
    TRY(file_read_open(worker->config, args, &fd, &status, &len, err));
    autobuf out = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    runner_put_file(&out, fd, "", &status);
    TRY(worker_stat(worker, &out, err));
    while (len > 0) {
        ssize_t n = pread(fd, data, len < sizeof data ? (size_t)len : sizeof data, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "reading");
        if (n == 0) /* the file has shrunk: answers what there is */
            break;
        TRY(worker_data(worker, data, (size_t)n, err));
        offset += (uint64_t)n;
        len -= (uint64_t)n;
    }
    return 0;
}

const struct op_def op_read = {.op = OP_READ,
                               .looks = true,
                               .begin = file_read_begin,
                               .cancel = file_read_cancel,
                               .work = file_read_work,
                               .root = &op_read};

/* ---- write ---- */

struct writing {
    struct replace replace;
    bool created;
    mode_t mode;
    char *shown, *if_match, *prefix, *pairs;
    size_t pairs_len;
};

static void file_write_free(struct rcall *call) {
    struct writing *writing = call->state;
    call->state = NULL;
    if (!writing)
        return;
    replace_done(&writing->replace);
    free(writing->shown);
    free(writing->if_match);
    free(writing->prefix);
    free(writing->pairs);
    free(writing);
}

static int file_write_open(struct writing *writing, const struct runner_config *config, const struct fields *args,
                           struct err *err) {
    struct place at;
    TRY(op_mode(args, 0, &writing->mode, err) ?: op_path(config, args, FIELD_PATH, PATH_WRITE, &at, err));
    if (args->number[FIELD_FLAGS] & CALL_PARENTS)
        TRY(replace_mkdirs(&at, writing->shown, 0755, true, NULL, err));
    TRY(replace_find(&writing->replace, &at, writing->shown, writing->if_match, err));
    writing->replace.attrs =
        (struct attrs){.prefix = writing->prefix, .pairs = writing->pairs, .len = writing->pairs_len};
    writing->created = !writing->replace.existed;
    return replace_open(&writing->replace, writing->shown, err);
}

static int file_write_begin(struct rcall *call, const struct fields *args, struct err *err) {
    mode_t mode;
    if (args->number[FIELD_FLAGS] & CALL_APPEND) /* serialized with edits of the same file */
        return op_mode(args, 0, &mode, err) < 0 ? -err->code : op_to_worker(call, &op_edit, args, err);
    struct attrs attrs;
    struct owner owner;
    if (attrs_args(args, &attrs, err) < 0 || owner_args(args, &owner, err) < 0)
        return -err->code;
    struct writing *writing = xcalloc(1, sizeof *writing);
    writing->prefix = attrs.prefix ? xstrdup(attrs.prefix) : NULL;
    writing->pairs = attrs.len ? xmalloc(attrs.len) : NULL;
    writing->pairs_len = attrs.len;
    if (attrs.len)
        memcpy(writing->pairs, attrs.pairs, attrs.len);
    writing->replace = (struct replace){.dirfd = -1, .fd = -1};
    writing->shown = strdup(args->has[FIELD_PATH] ? args->text[FIELD_PATH] : "");
    writing->if_match = args->has[FIELD_IF_MATCH] ? strdup(args->text[FIELD_IF_MATCH]) : NULL;
    call->state = writing;
    int r = file_write_open(writing, call->runner->config, args, err);
    if (r < 0) {
        file_write_free(call);
        return r;
    }
    if (args->number[FIELD_FLAGS] & CALL_WANT_FD) {
        autobuf none = buf_max(64);
        reply_stat(call, &none, writing->replace.fd);
    }
    return 0;
}

static int file_write_input(struct rcall *call, const uint8_t *data, size_t len, struct err *err) {
    struct writing *writing = call->state;
    int r = fd_write_all(writing->replace.fd, data, len);
    if (r < 0) {
        err_errno(err, -r, "cannot write '%s'", writing->shown);
        file_write_free(call);
        return -err->code;
    }
    reply_credit(call, (uint32_t)len);
    return 0;
}

static int file_write_finish(struct rcall *call, struct err *err) {
    struct writing *writing = call->state;
    struct stat status;
    int r = replace_commit(&writing->replace, writing->shown, writing->mode, writing->if_match, &status, err);
    bool created = writing->created;
    file_write_free(call);
    TRY(r);
    autobuf out = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    runner_put_file(&out, -1, "", &status);
    field_number(&out, FIELD_CREATED, created);
    reply_end(call, &out);
    return 0;
}

const struct op_def op_write = {.op = OP_WRITE,
                                .begin = file_write_begin,
                                .input = file_write_input,
                                .finish = file_write_finish,
                                .cancel = file_write_free,
                                .root = &op_edit};

/* ---- stat ---- */

static int file_stat(const struct runner_config *config, const struct fields *args, struct buf *out, struct err *err) {
    struct place at;
    int follow = args->number[FIELD_FLAGS] & CALL_FOLLOW ? 0 : O_NOFOLLOW;
    struct attrs attrs;
    TRY(op_path(config, args, FIELD_PATH, follow ? PATH_ITSELF : PATH_READ, &at, err));
    TRY(attrs_args(args, &attrs, err));
    autofd fd = path_open(at.root, at.path, O_PATH | follow, 0);
    struct stat status;
    if (fd == -ENOENT)
        return err_text(err, ENOENT, "no file '%s'", args->text[FIELD_PATH]);
    if (fd < 0)
        return err_errno(err, -fd, "'%s'", args->text[FIELD_PATH]);
    if (fstat(fd, &status) < 0)
        return err_errno(err, errno, "'%s'", args->text[FIELD_PATH]);
    /* The last name of a path, without final slashes; "/" for the root. */
    const char *path = args->text[FIELD_PATH];
    size_t len = strlen(path), start;
    while (len > 1 && path[len - 1] == '/')
        len--;
    for (start = len; start > 0 && path[start - 1] != '/';)
        start--;
    if (start == len)
        start = 0;
    runner_put_file(out, fd, "", &status);
    field_bytes(out, FIELD_NAME, path + start, len - start);
    if (args->number[FIELD_FLAGS] & CALL_DETAILS)
        op_put_details(config, out, fd, "", path, S_ISLNK(status.st_mode), attrs.prefix);
    return 0;
}

const struct op_def op_stat = {.op = OP_STAT, .looks = true, .quick = file_stat, .root = &op_stat};

/* ---- mkdir ---- */

static int file_mkdir_last(const struct place *at, const char *shown, mode_t mode, struct err *err) {
    autofd dirfd = -1;
    char name[256];
    TRY(path_open_parent(at->root, at->above, at->path, &dirfd, name, err));
    mode_t mask = umask(0);
    int r = mkdirat(dirfd, name, mode) < 0 ? -errno : 0;
    umask(mask);
    if (r == -EEXIST)
        return err_set(err, ERR_EXISTS, "'%s' exists", shown);
    return r < 0 ? err_errno(err, -r, "'%s'", shown) : 1;
}

static int file_mkdir(const struct runner_config *config, const struct fields *args, struct buf *out, struct err *err) {
    struct place at;
    mode_t mode = 0;
    struct owner owner;
    bool parents = args->number[FIELD_FLAGS] & CALL_PARENTS;
    const char *shown = args->text[FIELD_PATH];
    TRY(op_path(config, args, FIELD_PATH, PATH_WRITE, &at, err));
    TRY(op_mode(args, 0755, &mode, err) ?: owner_args(args, &owner, err));
    if (owner.given && !parents)
        return err_set(err, ERR_INVALID, "an owner is only possible for directories that are made with their parents");
    int made = parents ? replace_mkdirs(&at, shown, mode, false, &owner, err) : file_mkdir_last(&at, shown, mode, err);
    if (made < 0)
        return made;
    field_number(out, FIELD_CREATED, (uint64_t)made);
    return 0;
}

const struct op_def op_mkdir = {.op = OP_MKDIR, .quick = file_mkdir, .root = &op_mkdir};

/* ---- hash: in a worker. The size in the answer counts the bytes read, not those that stat reported. ---- */

static int file_hash_work(struct worker *worker, const struct fields *args, struct err *err) {
    static uint8_t data[256 << 10];
    autofd fd = -1;
    TRY(op_open_file(worker->config, args, &fd, err));
    struct sha256_ctx context;
    sha256_init(&context);
    uint64_t size = 0;
    for (;;) {
        ssize_t n = read(fd, data, sizeof data);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "cannot read '%s'", args->text[FIELD_PATH]);
        if (n == 0)
            break;
        sha256_update(&context, (size_t)n, data);
        size += (uint64_t)n;
    }
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_digest(&context, sizeof digest, digest);
    autobuf out = buf_max(128);
    field_bytes(&out, FIELD_SHA256, digest, sizeof digest);
    field_number(&out, FIELD_SIZE, size);
    worker_end(worker, &out);
    return 0;
}

const struct op_def op_hash = {.op = OP_HASH, .looks = true, .work = file_hash_work};
