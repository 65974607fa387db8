/* The verbs of single files: read, write, stat, mkdir, remove, move, hash. Called by the dialects. Invariant: on this
 * machine bytes move once (a descriptor, not a copy through the wire), and whatever the daemon opens itself it opens
 * below the box's root with the box user's rights. */
#include <sys/fsuid.h>
#include <sys/mman.h>

#include "base/base.h"
#include "box/verb.h"

enum { ALL_PIECE_BYTES = 64 << 10, AGENT_ID = 1000 };

/* ---- {file} ---- */

bool file_field(struct file_stat *stat, const struct field *field) {
    uint64_t number = field->number;
    mode_t mode = (mode_t)number;
    switch (field->id) {
    case FIELD_TYPE:
        stat->type = number >= FILE_REGULAR && number <= FILE_OTHER ? (enum file_type)number : FILE_OTHER;
        break;
    case FIELD_SIZE:
        stat->size = number;
        break;
    case FIELD_MODE:
        stat->mode = number & 07777;
        stat->special = S_ISFIFO(mode)   ? "fifo"
                        : S_ISSOCK(mode) ? "socket"
                        : S_ISCHR(mode)  ? "char"
                        : S_ISBLK(mode)  ? "block"
                                         : NULL;
        break;
    case FIELD_MTIME_NS:
        stat->mtime_ns = number;
        break;
    case FIELD_UID:
        stat->uid = (uint32_t)number;
        break;
    case FIELD_GID:
        stat->gid = (uint32_t)number;
        break;
    case FIELD_INODE:
        stat->inode = number;
        break;
    case FIELD_RESOLVED_MODE:
        stat->resolved_mode = (uint32_t)number;
        break;
    default:
        return false;
    }
    return true;
}

void file_from_fields(const struct fields *end, struct file_stat *stat) {
    *stat = (struct file_stat){.type = FILE_OTHER};
    for (unsigned id = 0; id < FIELD_IDS; id++)
        if (end->has[id])
            file_field(stat, &(struct field){.id = (uint8_t)id, .number = end->number[id]});
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

static uint32_t file_id_inside(uid_t host, uid_t agent) {
    return agent == (uid_t)-1 ? host : host - (agent - AGENT_ID);
}

/* fsuid and fsgid are the thread's own; the kernel drops the capabilities over files with fsuid 0 and gives them back
 * with it. Group first on the way down, user first on the way up: both need the rights of the other step. */
static int file_read_open_below(const struct wire *wire, const char *path, int *ret_fd, struct stat *ret_stat,
                                struct err *err) {
    uid_t uid = wire_uid(wire);
    gid_t gid = wire_gid(wire);
    if (uid == (uid_t)-1)
        return path_open_stat(wire_root(wire), "", path, O_RDONLY, 0, ret_fd, ret_stat, err);
    autofd fd = -1;
    int old_gid = setfsgid(gid), old_uid = setfsuid(uid);
    int r = path_open_stat(wire_root(wire), "", path, O_RDONLY, 0, &fd, ret_stat, err);
    /* Going back returns what it was: if the rights were not the box user's, this open does not count. */
    bool ours = setfsuid((uid_t)old_uid) == (int)uid;
    ours = setfsgid((gid_t)old_gid) == (int)gid && ours;
    if (!ours)
        return err_set(err, ERR_INTERNAL, "the daemon cannot take the box user's rights");
    if (r == 0)
        *ret_fd = fd_take(&fd);
    return r;
}

static int file_read_open_direct(struct box *box, const char *path, int *ret_fd, struct file_stat *ret_stat,
                                 struct err *err) {
    char whole[LIMIT_PATH_BYTES + 1];
    if (!path_join(whole, sizeof whole, box_workspace(box), path))
        return err_set(err, ERR_INVALID, "the path is longer than %u bytes", LIMIT_PATH_BYTES);
    autofd fd = -1;
    struct stat status;
    TRY(file_read_open_below(box->wire, whole, &fd, &status, err));
    *ret_stat = (struct file_stat){
        .type = FILE_REGULAR,
        .size = (uint64_t)status.st_size,
        .mtime_ns = (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec,
        .inode = status.st_ino,
        .mode = status.st_mode & 07777,
        .uid = file_id_inside(status.st_uid, wire_uid(box->wire)),
        .gid = file_id_inside(status.st_gid, wire_gid(box->wire)),
    };
    *ret_fd = fd_take(&fd);
    return 0;
}

struct read_take {
    int fd;
    struct file_stat stat;
    int (*sink)(void *user, const uint8_t *data, size_t len);
    int (*begin)(void *user, const struct file_stat *stat); /* may be NULL */
    void *user;
    uint64_t left;
};

static int file_read_stat(void *user, struct view view, int *fd, struct err *err) {
    struct read_take *take = user;
    take->fd = fd_take(fd);
    struct field field;
    int r;
    while ((r = field_next(&view, &field, err)) > 0)
        file_field(&take->stat, &field);
    return r == 0 && take->begin ? take->begin(take->user, &take->stat) : r;
}

static int file_read_data(void *user, int, const uint8_t *data, size_t len, struct err *err) {
    struct read_take *take = user;
    if (len > take->left)
        return err_set(err, ERR_PROTOCOL, "the runner sent more than was asked for");
    take->left -= len;
    return take->sink(take->user, data, len);
}

/* TOO_LARGE: it does not fit. */
static int file_all_put(void *user, const uint8_t *data, size_t len) {
    struct buf *out = user;
    buf_put(out, data, len);
    return out->failed ? -ERR_TOO_LARGE : 0;
}

static int file_read_kept(struct read_take *take, const struct buf *content, struct err *err) {
    const struct timespec changed = {.tv_sec = (time_t)(take->stat.mtime_ns / 1000000000u),
                                     .tv_nsec = (long)(take->stat.mtime_ns % 1000000000u)};
    const struct timespec times[2] = {changed, changed}; /* fstat of the descriptor gives the file's */
    take->fd = memfd_create("file", MFD_CLOEXEC);
    int r = take->fd < 0 ? -errno : fd_write_all(take->fd, content->data, content->len);
    if (r == 0 && (lseek(take->fd, 0, SEEK_SET) < 0 || futimens(take->fd, times) < 0))
        r = -errno;
    return r < 0 ? err_errno(err, -r, "no space for a file") : 0;
}

/* On this machine the runner passes a descriptor. From far away a small file comes with its stat: one round trip, and a
 * descriptor like any other. */
int box_read_open(struct box *box, const char *path, int *ret_fd, struct file_stat *ret_stat, struct err *err) {
    static const struct verb_sink sink = {.stat = file_read_stat},
                                  far_sink = {.stat = file_read_stat, .data = file_read_data};
    TRY(path_check(path, strlen(path), err));
    if (box_direct(box))
        return file_read_open_direct(box, path, ret_fd, ret_stat, err);
    bool pass = wire_features(box->wire) & FEATURE_PASS_FD;
    autobuf content = buf_max(LIMIT_FRAME_PAYLOAD_BYTES);
    struct read_take take = {.fd = -1,
                             .stat = {.type = FILE_REGULAR},
                             .sink = file_all_put,
                             .user = &content,
                             .left = LIMIT_FRAME_PAYLOAD_BYTES};
    const struct verb verb = {.op = OP_READ,
                              FIELDS(F_TEXT(PATH, path), F_ALWAYS(LENGTH, pass ? 0 : LIMIT_FRAME_PAYLOAD_BYTES)),
                              .flags = pass ? CALL_WANT_FD : CALL_ALL,
                              .watch = -1,
                              .timeout_ms = VERB_SHORT_MS,
                              .sink = pass ? &sink : &far_sink,
                              .user = &take};
    int r = verb_only(box, &verb, err);
    struct stat status;
    if (r == 0 && !pass && take.fd < 0 && content.len == take.stat.size)
        r = file_read_kept(&take, &content, err);
    autofd fd = take.fd;
    if (r < 0)
        return r;
    if (fd >= 0 && fstat(fd, &status) == 0)
        take.stat.size = (uint64_t)status.st_size; /* send the actual bytes, whatever the runner said */
    *ret_fd = fd_take(&fd);
    *ret_stat = take.stat;
    return 0;
}

static int file_read_stream(struct box *box, const char *path, uint64_t offset, uint64_t length, uint64_t flags,
                            int watch, const struct read_sink *sink, struct err *err) {
    static const struct verb_sink to_sink = {.stat = file_read_stat, .data = file_read_data};
    struct read_take take = {.fd = -1, .begin = sink->begin, .sink = sink->data, .user = sink->user, .left = length};
    const struct verb verb = {.op = OP_READ,
                              FIELDS(F_PATH(PATH, path), F_NUM(OFFSET, offset), F_ALWAYS(LENGTH, length)),
                              .flags = flags,
                              .watch = watch,
                              .sink = &to_sink,
                              .user = &take};
    int r = verb_only(box, &verb, err);
    fd_close(&take.fd);
    return r;
}

int box_read_stream(struct box *box, const char *path, uint64_t offset, uint64_t length, int watch,
                    int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err) {
    return file_read_stream(box, path, offset, length, 0, watch, &(struct read_sink){.data = sink, .user = user}, err);
}

int box_read_root_file(struct box *box, const char *path, uint64_t offset, uint64_t length, int watch,
                       const struct read_sink *sink, struct err *err) {
    return file_read_stream(box, path, offset, length, CALL_ROOT, watch, sink, err);
}

int box_read_root(struct box *box, const char *path, uint64_t length, int watch,
                  int (*sink)(void *user, const uint8_t *data, size_t len), void *user, struct err *err) {
    return box_read_root_file(box, path, 0, length, watch, &(struct read_sink){.data = sink, .user = user}, err);
}

int box_read_file(struct box *box, const char *path, uint64_t offset, uint64_t length, int watch,
                  const struct read_sink *sink, struct err *err) {
    struct file_stat stat = {0};
    autofd fd = -1;
    int r = box_read_open(box, path, &fd, &stat, err);
    if (r == 0 && sink->begin)
        r = sink->begin(sink->user, &stat);
    if (r == 0 && fd < 0)
        return box_read_stream(box, path, offset, length, watch, sink->data, sink->user, err);
    while (r == 0 && length > 0) {
        uint8_t piece[ALL_PIECE_BYTES];
        ssize_t n = pread(fd, piece, length < sizeof piece ? (size_t)length : sizeof piece, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? err_errno(err, errno, "reading '%.300s'", path) : 0;
        r = sink->data(sink->user, piece, (size_t)n);
        offset += (uint64_t)n;
        length -= (uint64_t)n;
    }
    return r;
}

int box_read_all(struct box *box, const char *path, size_t most, int watch, struct buf *out, struct err *err) {
    const struct read_sink sink = {.data = file_all_put, .user = out};
    int r = box_read_file(box, path, 0, most, watch, &sink, err);
    return out->failed ? err_set(err, ERR_TOO_LARGE, "'%.300s' is larger than %zu bytes", path, out->max) : r;
}

/* ---- the rest ---- */

int box_changes(struct box *box, uint64_t *ret_changes, struct err *err) {
    const struct verb verb = {.op = OP_PING, .watch = -1, .timeout_ms = VERB_SHORT_MS};
    struct fields end;
    *ret_changes = 0;
    if (!box->ops->attach) /* its files are the machine's */
        return 0;
    TRY(verb_numbers(box, &verb, &end, err));
    *ret_changes = end.number[FIELD_CHANGES];
    return 0;
}

int box_stat(struct box *box, const char *path, struct arena *arena, struct file_stat *ret_stat, struct err *err) {
    return box_stat_as(box, path, NULL, arena, ret_stat, err);
}

int box_stat_as(struct box *box, const char *path, const struct file_rights *rights, struct arena *arena,
                struct file_stat *ret_stat, struct err *err) {
    const struct verb verb = {.op = OP_STAT,
                              FIELDS(F_PATH(PATH, path)),
                              .flags = rights ? CALL_DETAILS : 0,
                              .rights = rights,
                              .watch = -1,
                              .timeout_ms = VERB_SHORT_MS};
    struct fields end;
    TRY(verb_run(box, &verb, arena, &end, err));
    file_from_fields(&end, ret_stat);
    ret_stat->target = end.text[FIELD_TARGET];
    ret_stat->resolved = end.text[FIELD_RESOLVED];
    ret_stat->attributes = end.text[FIELD_ATTRS];
    ret_stat->attributes_len = end.len[FIELD_ATTRS];
    ret_stat->path = *path == '/' ? arena_strdup(arena, path) : arena_printf(arena, "%s/%s", box_workspace(box), path);
    const char *slash = strrchr(ret_stat->path, '/');
    ret_stat->name = end.text[FIELD_NAME] ? end.text[FIELD_NAME] : slash && slash[1] ? slash + 1 : ret_stat->path;
    return 0;
}

int box_mkdir(struct box *box, const char *path, uint32_t mode, bool parents, struct err *err) {
    return verb_simple(box, OP_MKDIR, err, F_PATH(PATH, path), F_NUM(MODE, mode),
                       F_NUM(FLAGS, parents ? CALL_PARENTS : 0));
}

int box_remove(struct box *box, const char *path, bool recursive, int watch, struct err *err) {
    const struct verb verb = {
        .op = OP_REMOVE, FIELDS(F_PATH(PATH, path)), .flags = recursive ? CALL_RECURSIVE : 0, .watch = watch};
    return verb_only(box, &verb, err);
}

int box_move(struct box *box, const char *from, const char *to, bool overwrite, struct err *err) {
    return verb_simple(box, OP_MOVE, err, F_PATH(PATH, from), F_PATH(TO, to),
                       F_NUM(FLAGS, overwrite ? CALL_OVERWRITE : 0));
}

int box_mkdir_as(struct box *box, const char *path, uint32_t mode, const struct file_rights *rights, bool *ret_created,
                 struct err *err) {
    const struct verb verb = {.op = OP_MKDIR,
                              FIELDS(F_PATH(PATH, path), F_NUM(MODE, mode)),
                              .flags = CALL_PARENTS,
                              .rights = rights,
                              .gives = true,
                              .watch = -1,
                              .timeout_ms = VERB_SHORT_MS};
    struct fields end;
    TRY(verb_numbers(box, &verb, &end, err));
    *ret_created = end.number[FIELD_CREATED];
    return 0;
}

int box_move_as(struct box *box, const char *from, const char *to, const struct file_rights *rights, struct err *err) {
    const struct verb verb = {.op = OP_MOVE,
                              FIELDS(F_PATH(PATH, from), F_PATH(TO, to)),
                              .flags = CALL_PARENTS | CALL_OVERWRITE,
                              .rights = rights,
                              .gives = true,
                              .watch = -1};
    return verb_only(box, &verb, err);
}

int box_remove_as(struct box *box, const char *path, const struct file_rights *rights, int watch, struct err *err) {
    const struct verb verb = {
        .op = OP_REMOVE, FIELDS(F_PATH(PATH, path)), .flags = CALL_RECURSIVE, .rights = rights, .watch = watch};
    return verb_only(box, &verb, err);
}

int box_hash(struct box *box, const char *path, int watch, uint8_t ret_sha256[32], uint64_t *ret_size,
             struct err *err) {
    const struct verb verb = {.op = OP_HASH, FIELDS(F_PATH(PATH, path)), .watch = watch};
    autoarena arena = ARENA_EMPTY;
    struct fields end;
    TRY(verb_run(box, &verb, &arena, &end, err));
    if (end.len[FIELD_SHA256] != 32) {
        err_set(err, ERR_PROTOCOL, "the runner sent a hash of %zu bytes", end.len[FIELD_SHA256]);
        return verb_broken(box, err);
    }
    memcpy(ret_sha256, end.text[FIELD_SHA256], 32);
    *ret_size = end.number[FIELD_SIZE];
    return 0;
}
