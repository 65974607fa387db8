/* The verbs of single files: read, write, stat, mkdir, remove, move, hash. Called by the doors. Invariant: on
 * this machine bytes move once (a descriptor, not a copy through the wire), and whatever the daemon opens itself it opens
 * below the box's root with the box user's rights. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "box/file.h"

enum { ALL_PIECE_BYTES = 64 << 10 };

enum { AGENT_ID = 1000 };

/* ---- {file} ---- */

static const char *file_special(mode_t mode) {
    return S_ISFIFO(mode)   ? "fifo"
           : S_ISSOCK(mode) ? "socket"
           : S_ISCHR(mode)  ? "char"
           : S_ISBLK(mode)  ? "block"
                            : NULL;
}

bool file_field(struct file_stat *stat, const struct field *field) {
    switch (field->id) {
    case FIELD_TYPE:
        stat->type =
            field->number >= FILE_REGULAR && field->number <= FILE_OTHER ? (enum file_type)field->number : FILE_OTHER;
        return true;
    case FIELD_SIZE:
        stat->size = field->number;
        return true;
    case FIELD_MODE:
        stat->mode = field->number & 07777;
        stat->special = file_special((mode_t)field->number);
        return true;
    case FIELD_MTIME_NS:
        stat->mtime_ns = field->number;
        return true;
    case FIELD_UID:
        stat->uid = (uint32_t)field->number;
        return true;
    case FIELD_GID:
        stat->gid = (uint32_t)field->number;
        return true;
    case FIELD_INODE:
        stat->inode = field->number;
        return true;
    default:
        return false;
    }
}

static int file_decode(struct view view, struct file_stat *stat, struct err *err) {
    struct field field;
    int r;
    while ((r = field_next(&view, &field, err)) > 0)
        file_field(stat, &field);
    return r;
}

void file_from_fields(const struct fields *end, struct file_stat *stat) {
    static const enum field_id ids[] = {FIELD_TYPE, FIELD_SIZE, FIELD_MODE, FIELD_MTIME_NS,
                                        FIELD_UID,  FIELD_GID,  FIELD_INODE};
    *stat = (struct file_stat){.type = FILE_OTHER};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct field field = {.id = (uint8_t)ids[i], .number = end->number[ids[i]]};
        if (end->has[ids[i]])
            file_field(stat, &field);
    }
}

/* By hand: printf is a tenth of what a small file costs the daemon outside the kernel. */
const char *file_etag(const struct file_stat *stat, char text[ETAG_BYTES]) {
    const uint64_t numbers[] = {stat->inode, stat->size, stat->mtime_ns};
    char *at = text;
    *at++ = '"';
    for (size_t i = 0; i < 3; i++) {
        int digits = numbers[i] ? (67 - __builtin_clzll(numbers[i])) / 4 : 1;
        while (digits-- > 0)
            *at++ = "0123456789abcdef"[numbers[i] >> (4 * digits) & 15];
        *at++ = i < 2 ? '-' : '"';
    }
    *at = 0;
    return text;
}

/* ---- read ---- */

static uint32_t id_inside(uid_t host, uid_t agent) {
    return agent == (uid_t)-1 ? host : host - (agent - AGENT_ID);
}

/* fsuid and fsgid are the thread's own; the kernel drops the capabilities over files with fsuid 0 and gives them back
 * with it. Group first on the way down, user first on the way up: both need the rights of the other step. */
static int read_open_below(const struct wire *wire, const char *path, int *ret_fd, struct stat *ret_stat,
                           struct err *err) {
    uid_t uid = wire_uid(wire);
    gid_t gid = wire_gid(wire);
    if (uid == (uid_t)-1)
        return path_open_stat(wire_root(wire), path, O_RDONLY, 0, ret_fd, ret_stat, err);
    autofd fd = -1;
    int old_gid = setfsgid(gid), old_uid = setfsuid(uid);
    int r = path_open_stat(wire_root(wire), path, O_RDONLY, 0, &fd, ret_stat, err);
    /* Going back tells what it was: where the rights were not the box user's, nothing of this open counts. */
    bool ours = setfsuid((uid_t)old_uid) == (int)uid;
    ours = setfsgid((gid_t)old_gid) == (int)gid && ours;
    if (!ours)
        return err_set(err, ERR_INTERNAL, "the daemon cannot take the box user's rights");
    if (r == 0)
        *ret_fd = fd_take(&fd);
    return r;
}

static int read_open_direct(struct box *box, const char *path, int *ret_fd, struct file_stat *ret_stat,
                            struct err *err) {
    char whole[LIMIT_PATH_BYTES + 1];
    if (!path_join(whole, sizeof whole, box_workspace(box), path))
        return err_set(err, ERR_INVALID, "the path is longer than %u bytes", LIMIT_PATH_BYTES);
    autofd fd = -1;
    struct stat status;
    int r = read_open_below(box->wire, whole, &fd, &status, err);
    if (r < 0)
        return r;
    *ret_stat = (struct file_stat){
        .type = FILE_REGULAR,
        .size = (uint64_t)status.st_size,
        .mtime_ns = (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec,
        .inode = status.st_ino,
        .mode = status.st_mode & 07777,
        .uid = id_inside(status.st_uid, wire_uid(box->wire)),
        .gid = id_inside(status.st_gid, wire_gid(box->wire)),
    };
    *ret_fd = fd_take(&fd);
    return 0;
}

struct read_take {
    int fd;
    struct file_stat stat;
    int (*sink)(void *user, const uint8_t *data, size_t len);
    void *user;
    uint64_t left;
};

static int read_stat(void *user, struct view view, int *fd, struct err *err) {
    struct read_take *take = user;
    take->fd = fd_take(fd);
    return file_decode(view, &take->stat, err);
}

static int read_data(void *user, int stream, const uint8_t *data, size_t len, struct err *err) {
    (void)stream;
    struct read_take *take = user;
    if (len > take->left)
        return err_set(err, ERR_PROTOCOL, "the runner sent more than was asked for");
    take->left -= len;
    return take->sink(take->user, data, len);
}

/* From far away a small file comes along with what it is: one round trip, and a descriptor like any other. */
static int read_keep(void *user, const uint8_t *data, size_t len) {
    buf_put(user, data, len);
    return 0;
}

static int read_kept(struct read_take *take, const struct buf *content, struct err *err) {
    const struct timespec changed = {.tv_sec = (time_t)(take->stat.mtime_ns / 1000000000u),
                                     .tv_nsec = (long)(take->stat.mtime_ns % 1000000000u)};
    const struct timespec times[2] = {changed, changed}; /* whoever asks the descriptor gets the file's */
    take->fd = memfd_create("file", MFD_CLOEXEC);
    int r = take->fd < 0 ? -errno : fd_write_all(take->fd, content->data, content->len);
    if (r == 0 && (lseek(take->fd, 0, SEEK_SET) < 0 || futimens(take->fd, times) < 0))
        r = -errno;
    return r < 0 ? err_errno(err, -r, "no room for a file") : 0;
}

int box_read_open(struct box *box, const char *path, int *ret_fd, struct file_stat *ret_stat, struct err *err) {
    static const struct verb_sink sink = {.stat = read_stat}, far_sink = {.stat = read_stat, .data = read_data};
    int r = path_check(path, strlen(path), err);
    if (r < 0)
        return r;
    if (wire_root(box->wire) >= 0)
        return read_open_direct(box, path, ret_fd, ret_stat, err);
    bool pass = wire_features(box->wire) & FEATURE_PASS_FD;
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    autobuf content = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    field_text(&args, FIELD_PATH, path);
    field_number(&args, FIELD_LENGTH, pass ? 0 : LIMIT_FRAME_PAYLOAD_BYTES);
    field_number(&args, FIELD_FLAGS, pass ? CALL_WANT_FD : CALL_ALL);
    struct read_take take = {.fd = -1,
                             .stat = {.type = FILE_REGULAR},
                             .sink = read_keep,
                             .user = &content,
                             .left = LIMIT_FRAME_PAYLOAD_BYTES};
    struct verb verb = {.op = OP_READ,
                        .args = &args,
                        .watch = -1,
                        .timeout_ms = VERB_SHORT_MS,
                        .sink = pass ? &sink : &far_sink,
                        .user = &take};
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    r = verb_run(box, &verb, &arena, &end, err);
    struct stat status;
    if (r == 0 && !pass && take.fd < 0 && content.len == take.stat.size)
        r = read_kept(&take, &content, err);
    if (r == 0 && take.fd >= 0 && fstat(take.fd, &status) == 0)
        take.stat.size = (uint64_t)status.st_size; /* what will be sent is what is there, whatever the runner said */
    if (r < 0) {
        fd_close(&take.fd);
        return r;
    }
    *ret_fd = take.fd;
    *ret_stat = take.stat;
    return 0;
}

static int read_stream(struct box *box, const char *path, uint64_t offset, uint64_t length, uint64_t flags, int watch,
                       int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err) {
    static const struct verb_sink to_sink = {.stat = read_stat, .data = read_data};
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    int r = verb_path(&args, FIELD_PATH, path, err);
    if (r < 0)
        return r;
    field_number(&args, FIELD_OFFSET, offset);
    field_number(&args, FIELD_LENGTH, length);
    if (flags)
        field_number(&args, FIELD_FLAGS, flags);
    struct read_take take = {.fd = -1, .sink = sink, .user = user, .left = length};
    struct verb verb = {.op = OP_READ, .args = &args, .watch = watch, .sink = &to_sink, .user = &take};
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    r = verb_run(box, &verb, &arena, &end, err);
    fd_close(&take.fd);
    return r;
}

int box_read_stream(struct box *box, const char *path, uint64_t offset, uint64_t length, int watch,
                    int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err) {
    return read_stream(box, path, offset, length, 0, watch, sink, user, err);
}

int box_read_root(struct box *box, const char *path, uint64_t length, int watch,
                  int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err) {
    int r = verb_root(box, err);
    return r < 0 ? r : read_stream(box, path, 0, length, CALL_ROOT, watch, sink, user, err);
}

static int all_put(void *user, const uint8_t *data, size_t len) {
    struct buf *out = user;
    buf_put(out, data, len);
    return out->failed ? -ERR_TOO_LARGE : 0;
}

int box_read_all(struct box *box, const char *path, size_t most, int watch, struct buf *out, struct err *err) {
    struct file_stat stat = {0};
    autofd fd = -1;
    int r = box_read_open(box, path, &fd, &stat, err);
    if (r == 0 && fd < 0)
        r = box_read_stream(box, path, 0, most, watch, all_put, out, err);
    for (size_t left = most; r == 0 && fd >= 0 && left > 0;) {
        size_t size = left < ALL_PIECE_BYTES ? left : ALL_PIECE_BYTES;
        uint8_t *room = buf_reserve(out, size);
        ssize_t n = room ? read(fd, room, size) : 0;
        if (n < 0 && errno != EINTR)
            r = err_errno(err, errno, "reading '%.300s'", path);
        if (n == 0)
            break;
        out->len += n > 0 ? (size_t)n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return out->failed ? err_set(err, ERR_TOO_LARGE, "'%.300s' is larger than %zu bytes", path, out->max) : r;
}

/* ---- the rest ---- */

int box_changes(struct box *box, uint64_t *ret_changes, struct err *err) {
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    *ret_changes = 0;
    if (!box->ops->attach) /* its files are the machine's */
        return 0;
    int r = verb_short(box, OP_PING, NULL, &arena, &end, err);
    if (r == 0)
        *ret_changes = end.number[FIELD_CHANGES];
    return r;
}

int box_stat(struct box *box, const char *path, struct arena *arena, struct file_stat *ret_stat, struct err *err) {
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    int r = verb_path(&args, FIELD_PATH, path, err);
    struct fields end;
    if (r == 0)
        r = verb_short(box, OP_STAT, &args, arena, &end, err);
    if (r < 0)
        return r;
    file_from_fields(&end, ret_stat);
    ret_stat->target = end.text[FIELD_TARGET];
    ret_stat->path = *path == '/' ? arena_strdup(arena, path) : arena_printf(arena, "%s/%s", box_workspace(box), path);
    const char *slash = strrchr(ret_stat->path, '/');
    ret_stat->name = end.text[FIELD_NAME] ? end.text[FIELD_NAME] : slash && slash[1] ? slash + 1 : ret_stat->path;
    return 0;
}

int box_mkdir(struct box *box, const char *path, uint32_t mode, bool parents, struct err *err) {
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    int r = verb_path(&args, FIELD_PATH, path, err);
    field_number(&args, FIELD_MODE, mode);
    field_number(&args, FIELD_FLAGS, parents ? CALL_PARENTS : 0);
    return r < 0 ? r : verb_short(box, OP_MKDIR, &args, &arena, &end, err);
}

int box_remove(struct box *box, const char *path, bool recursive, int watch, struct err *err) {
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    int r = verb_path(&args, FIELD_PATH, path, err);
    field_number(&args, FIELD_FLAGS, recursive ? CALL_RECURSIVE : 0);
    struct verb verb = {.op = OP_REMOVE, .args = &args, .watch = watch};
    return r < 0 ? r : verb_run(box, &verb, &arena, &end, err);
}

int box_move(struct box *box, const char *from, const char *to, bool overwrite, struct err *err) {
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    int r = verb_path(&args, FIELD_PATH, from, err);
    if (r == 0)
        r = verb_path(&args, FIELD_TO, to, err);
    field_number(&args, FIELD_FLAGS, overwrite ? CALL_OVERWRITE : 0);
    return r < 0 ? r : verb_short(box, OP_MOVE, &args, &arena, &end, err);
}

int box_hash(struct box *box, const char *path, int watch, uint8_t ret_sha256[32], uint64_t *ret_size,
             struct err *err) {
    autobuf args = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    int r = verb_path(&args, FIELD_PATH, path, err);
    struct verb verb = {.op = OP_HASH, .args = &args, .watch = watch};
    if (r == 0)
        r = verb_run(box, &verb, &arena, &end, err);
    if (r < 0)
        return r;
    if (end.len[FIELD_SHA256] != 32) {
        err_set(err, ERR_PROTOCOL, "the runner sent a hash of %zu bytes", end.len[FIELD_SHA256]);
        return verb_broken(box, err);
    }
    memcpy(ret_sha256, end.text[FIELD_SHA256], 32);
    *ret_size = end.number[FIELD_SIZE];
    return 0;
}
