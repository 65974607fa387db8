/* A tree as a tar stream out of the box. In a worker. Called through the table of ops; op_untar.c is the way in.
 * Invariant: no link is followed, and what an entry's head says is what follows it, whatever the file does meanwhile. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "runner/ops/op_file.h"
#include "runner/ops/ops.h"
#include "runner/ops/replace.h"
#include "base/tarfmt.h"
#include "runner/search/walk.h"

static uint8_t tar_data[LIMIT_FRAME_PAYLOAD_BYTES];

struct tar_out {
    struct worker *worker;
    uint64_t files;
    size_t held; /* bytes in tar_data not sent yet */
};

static int out_flush(struct tar_out *out, struct err *err) {
    size_t len = out->held;
    out->held = 0;
    return len ? worker_data(out->worker, tar_data, len, err) : 0;
}

static int out_bytes(struct tar_out *out, const void *data, size_t len, struct err *err) {
    while (len > 0) {
        size_t n = sizeof tar_data - out->held < len ? sizeof tar_data - out->held : len;
        if (data) {
            memcpy(tar_data + out->held, data, n);
            data = (const uint8_t *)data + n;
        } else {
            memset(tar_data + out->held, 0, n); /* no data: zeros */
        }
        out->held += n;
        len -= n;
        int r = out->held == sizeof tar_data ? out_flush(out, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* The size is in the head already: a file that grew is cut, one that shrank is filled with zeros. */
static int out_content(struct tar_out *out, int fd, uint64_t size, struct err *err) {
    uint64_t left = size;
    while (left > 0) {
        size_t room = sizeof tar_data - out->held;
        ssize_t n = read(fd, tar_data + out->held, left < room ? (size_t)left : room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        left -= (uint64_t)n;
        out->held += (size_t)n;
        int r = out->held == sizeof tar_data ? out_flush(out, err) : 0;
        if (r < 0)
            return r;
    }
    while (left > 0) {
        size_t n = left < sizeof tar_data ? (size_t)left : sizeof tar_data;
        int r = out_bytes(out, NULL, n, err);
        if (r < 0)
            return r;
        left -= n;
    }
    return out_bytes(out, NULL, (size_t)tar_padding(size), err);
}

static char tar_type(mode_t mode) {
    return S_ISREG(mode) ? TAR_FILE : S_ISDIR(mode) ? TAR_DIR : S_ISLNK(mode) ? TAR_SYMLINK : 0;
}

/* One entry called `name` in the archive. Sockets, FIFOs and devices are left out: no archive should carry them. */
static int out_entry(struct tar_out *out, int dirfd, const char *base, const char *name, struct err *err) {
    static struct tar_entry entry;
    static uint8_t head[TAR_HEAD_BYTES];
    struct stat status;
    if (fstatat(dirfd, base, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* gone meanwhile */
    tar_reset(&entry);
    entry.type = tar_type(status.st_mode);
    autofd fd = -1;
    if (entry.type == 0)
        return 0;
    if (entry.type == TAR_FILE) {
        fd = openat(dirfd, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
            return err_errno(err, fd < 0 ? errno : EINVAL, "'%s'", name);
    }
    if (entry.type == TAR_SYMLINK) {
        ssize_t n = readlinkat(dirfd, base, entry.link, sizeof entry.link - 1);
        if (n < 0)
            return 0;
        entry.link[n] = 0;
    }
    snprintf(entry.name, sizeof entry.name, "%s%s", name, entry.type == TAR_DIR ? "/" : "");
    entry.size = entry.type == TAR_FILE ? (uint64_t)status.st_size : 0;
    entry.mode = status.st_mode & 07777;
    entry.mtime = status.st_mtim.tv_sec;
    int r = out_bytes(out, head, tar_format(head, &entry, status.st_uid, status.st_gid), err);
    out->files++;
    return r < 0 || fd < 0 ? r : out_content(out, fd, entry.size, err);
}

static int out_tree(struct tar_out *out, int fd, struct err *err) {
    static struct walk walk;
    char name[2 * LIMIT_PATH_BYTES];
    walk_init(&walk, fd);
    int r = 0;
    while (r >= 0 && walk_next(&walk) > 0) {
        for (size_t i = 0; r >= 0 && i < walk.count; i++) {
            snprintf(name, sizeof name, "%s%s", walk.path, walk_name(&walk, &walk.entries[i]));
            r = out_entry(out, walk.dirfd, walk_name(&walk, &walk.entries[i]), name, err);
        }
    }
    if (r >= 0 && walk.too_long)
        r = err_set(err, ERR_TOO_LARGE, "a path in the tree is longer than %u bytes", LIMIT_PATH_BYTES);
    if (r >= 0 && walk.unreadable)
        r = err_set(err, ERR_DENIED, "%llu directories below cannot be read", (unsigned long long)walk.unreadable);
    walk_done(&walk);
    return r;
}

static int tar_out_work(struct worker *worker, const struct fields *args, struct err *err) {
    struct tar_out out = {.worker = worker};
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    int r = op_path(worker->config, args, FIELD_PATH, PATH_READ, &root, path, err);
    if (r < 0)
        return r;
    autofd fd = path_open(root, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOTDIR) {
        struct replace replace;
        r = replace_resolve(&replace, root, path, args->text[FIELD_PATH], err);
        if (r == 0)
            r = out_entry(&out, replace.dirfd, replace.name, replace.name, err);
        if (r >= 0 && out.files == 0)
            r = err_set(err, ERR_INVALID, "'%s' is neither a file nor a directory", args->text[FIELD_PATH]);
        replace_done(&replace);
    } else {
        r = fd < 0 ? err_errno(err, -fd, "'%s'", args->text[FIELD_PATH]) : out_tree(&out, fd, err);
    }
    if (r >= 0)
        r = out_bytes(&out, NULL, 2 * TAR_BLOCK_BYTES, err);
    if (r >= 0)
        r = out_flush(&out, err);
    if (r < 0)
        return r;
    autobuf end = buf_max(64);
    field_number(&end, FIELD_FILES, out.files);
    worker_end(worker, &end);
    return 0;
}

const struct op_def op_tar_out = {.op = OP_TAR_OUT, .work = tar_out_work};
