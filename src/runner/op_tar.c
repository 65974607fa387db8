/* Trees as tar streams: out of the box, and into it. In a worker. Called through the table of ops.
 * Not to break: what an archive says is never followed out of the destination. Every name is checked, every directory
 * on the way is opened below the destination with no link allowed, and files are made new, never opened. */
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
#include "runner/op_file.h"
#include "runner/ops.h"
#include "runner/replace.h"
#include "runner/tarfmt.h"
#include "runner/walk.h"

static uint8_t tar_data[LIMIT_FRAME_PAYLOAD_BYTES];

/* ---- out ---- */

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
    int r = op_path(worker->config, args, FIELD_PATH, false, &root, path, err);
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
    autobuf end;
    buf_init(&end, 64);
    field_number(&end, FIELD_FILES, out.files);
    worker_end(worker, &end);
    return 0;
}

const struct op_def op_tar_out = {.op = OP_TAR_OUT, .work = tar_out_work};

/* ---- in ---- */

struct tar_in {
    struct worker *worker;
    int top; /* the destination */
    struct tar_entry entry;
    uint64_t files, size;
    char dir[TAR_NAME_BYTES]; /* the directory open at dir_fd: entries mostly follow each other in one */
    int dir_fd;
};

/* Bytes read until len or the end of the input. */
static ssize_t in_full(struct tar_in *in, void *data, size_t len, struct err *err) {
    size_t got = 0;
    while (got < len) {
        ssize_t n = worker_read(in->worker, (uint8_t *)data + got, len - got, err);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static int in_invalid(const struct tar_in *in, const char *why, struct err *err) {
    return err_set(err, ERR_INVALID, "archive entry '%s': %s", in->entry.name, why);
}

static int in_errno(const struct tar_in *in, int number, struct err *err) {
    if (number == ELOOP || number == ENOTDIR)
        return in_invalid(in, "a part of its path is a link or a file", err);
    return err_errno(err, number, "archive entry '%s'", in->entry.name);
}

/* The content of an entry, with its padding, to fd (-1: dropped). */
static int in_content(struct tar_in *in, int fd, struct err *err) {
    uint64_t left = in->entry.size, all = left + tar_padding(left);
    while (all > 0) {
        ssize_t n = in_full(in, tar_data, all < sizeof tar_data ? (size_t)all : sizeof tar_data, err);
        if (n < 0)
            return (int)n;
        if (n == 0)
            return in_invalid(in, "the archive ends inside it", err);
        size_t use = left < (uint64_t)n ? (size_t)left : (size_t)n;
        int r = fd >= 0 ? fd_write_all(fd, tar_data, use) : 0;
        if (r < 0)
            return in_errno(in, -r, err);
        left -= use;
        all -= (uint64_t)n;
    }
    return 0;
}

/* Opens the directory `path` below the destination, making what is missing. */
static int in_directory(struct tar_in *in, const char *path, struct err *err) {
    if (in->dir_fd >= 0 && strcmp(in->dir, path) == 0)
        return 0;
    fd_close(&in->dir_fd);
    char part[TAR_NAME_BYTES];
    int fd = walk_open(in->top, *path ? path : ".", O_RDONLY | O_DIRECTORY);
    for (size_t at = 0, len = strlen(path); fd == -ENOENT && at < len;) {
        at += strcspn(path + at, "/");
        memcpy(part, path, at);
        part[at] = 0;
        char *slash = strrchr(part, '/');
        autofd parent = -1;
        if (slash)
            *slash = 0;
        parent = walk_open(in->top, slash ? part : ".", O_RDONLY | O_DIRECTORY);
        if (parent < 0)
            return in_errno(in, -parent, err);
        if (mkdirat(parent, slash ? slash + 1 : part, 0755) < 0 && errno != EEXIST)
            return in_errno(in, errno, err);
        if (at++ == len)
            fd = walk_open(in->top, path, O_RDONLY | O_DIRECTORY);
    }
    if (fd < 0)
        return in_errno(in, -fd, err);
    in->dir_fd = fd;
    snprintf(in->dir, sizeof in->dir, "%s", path);
    return 0;
}

/* Splits a safe name, opens its directory; *ret_base is the last part. */
static int in_parent(struct tar_in *in, char *name, const char **ret_base, struct err *err) {
    char dir[TAR_NAME_BYTES];
    char *slash = strrchr(name, '/');
    size_t len = slash ? (size_t)(slash - name) : 0;
    memcpy(dir, name, len);
    dir[len] = 0;
    *ret_base = slash ? slash + 1 : name;
    return in_directory(in, dir, err);
}

static int in_file(struct tar_in *in, const char *base, struct err *err) {
    autofd fd = openat(in->dir_fd, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST && unlinkat(in->dir_fd, base, 0) == 0)
        fd = openat(in->dir_fd, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return in_errno(in, errno, err);
    int r = in_content(in, fd, err);
    if (r < 0) {
        unlinkat(in->dir_fd, base, 0); /* half a file is none */
        return r;
    }
    if (fchmod(fd, in->entry.mode & 0777) < 0)
        return in_errno(in, errno, err);
    if (in->entry.mtime > 0)
        futimens(fd, (struct timespec[]){{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)in->entry.mtime}});
    in->size += in->entry.size;
    return 0;
}

static int in_symlink(struct tar_in *in, const char *base, struct err *err) {
    if (!in->entry.link[0])
        return in_invalid(in, "a link to nothing", err);
    if (symlinkat(in->entry.link, in->dir_fd, base) == 0)
        return 0;
    if (errno != EEXIST || unlinkat(in->dir_fd, base, 0) < 0 || symlinkat(in->entry.link, in->dir_fd, base) < 0)
        return in_errno(in, errno, err);
    return 0;
}

/* Only to a regular file below the destination. */
static int in_hard_link(struct tar_in *in, const char *base, struct err *err) {
    const char *why, *link = tar_safe_name(in->entry.link, &why);
    if (!link || !*link)
        return in_invalid(in, "it is a hard link out of the archive", err);
    char *slash = strrchr(in->entry.link, '/');
    if (slash)
        *slash = 0;
    autofd from = walk_open(in->top, slash ? in->entry.link : ".", O_PATH | O_DIRECTORY);
    if (from < 0)
        return in_errno(in, -from, err);
    const char *source = slash ? slash + 1 : in->entry.link;
    struct stat status;
    if (fstatat(from, source, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return in_errno(in, errno, err);
    if (!S_ISREG(status.st_mode))
        return in_invalid(in, "it is a hard link to something that is not a file", err);
    if (linkat(from, source, in->dir_fd, base, 0) == 0)
        return 0;
    if (errno != EEXIST || unlinkat(in->dir_fd, base, 0) < 0 || linkat(from, source, in->dir_fd, base, 0) < 0)
        return in_errno(in, errno, err);
    return 0;
}

/* Never less than the owner's rights: the entries below still have to come. */
static int in_make_dir(struct tar_in *in, const char *name, struct err *err) {
    int r = in_directory(in, name, err);
    if (r == 0 && *name && fchmod(in->dir_fd, (in->entry.mode & 0777) | 0700) < 0 && errno != EPERM)
        r = in_errno(in, errno, err);
    return r;
}

static int in_entry(struct tar_in *in, struct err *err) {
    const char *why, *base = NULL;
    char *name = in->entry.name;
    if (!strchr("0125", in->entry.type))
        return in_invalid(in, "neither a file, a directory nor a link", err);
    if (!tar_safe_name(name, &why))
        return in_invalid(in, why, err);
    in->files++;
    int r;
    if (in->entry.type == TAR_DIR) {
        r = in_make_dir(in, name, err);
        return r < 0 ? r : in_content(in, -1, err);
    }
    if (!*name)
        return in_invalid(in, "it has no name", err);
    r = in_parent(in, name, &base, err);
    if (r < 0)
        return r;
    if (in->entry.type == TAR_FILE)
        return in_file(in, base, err);
    r = in->entry.type == TAR_SYMLINK ? in_symlink(in, base, err) : in_hard_link(in, base, err);
    return r < 0 ? r : in_content(in, -1, err);
}

static int in_extension(struct tar_in *in, struct err *err) {
    static char data[TAR_EXTENSION_BYTES + TAR_BLOCK_BYTES];
    uint64_t size = in->entry.size;
    if (size > TAR_EXTENSION_BYTES)
        return in_invalid(in, "its extended head is too large", err);
    size_t padded = (size_t)(size + tar_padding(size));
    ssize_t n = in_full(in, data, padded, err);
    if (n < 0)
        return (int)n;
    if ((size_t)n < padded)
        return in_invalid(in, "the archive ends inside its extended head", err);
    const char *why = tar_extend(&in->entry, in->entry.type, data, (size_t)size);
    return why ? in_invalid(in, why, err) : 0;
}

static int in_run(struct tar_in *in, struct err *err) {
    uint8_t block[TAR_BLOCK_BYTES];
    for (;;) {
        ssize_t n = in_full(in, block, sizeof block, err);
        bool zero;
        if (n <= 0)
            return (int)n;
        if (n < (ssize_t)sizeof block)
            return in_invalid(in, "the archive is cut off behind it", err);
        const char *why = tar_parse(block, &in->entry, &zero);
        if (why)
            return in_invalid(in, why, err);
        if (zero)
            break;
        if (strchr("xgLK", in->entry.type)) {
            int r = in_extension(in, err);
            if (r < 0)
                return r;
            continue;
        }
        int r = in_entry(in, err);
        if (r < 0)
            return r;
        tar_reset(&in->entry);
    }
    ssize_t n;
    while ((n = worker_read(in->worker, tar_data, sizeof tar_data, err)) > 0)
        continue; /* the padding behind the end */
    return (int)n;
}

static int tar_in_work(struct worker *worker, const struct fields *args, struct err *err) {
    static struct tar_in in;
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    int r = op_path(worker->config, args, FIELD_PATH, true, &root, path, err);
    if (r == 0 && (args->number[FIELD_FLAGS] & CALL_PARENTS))
        r = replace_mkdirs(root, path, args->text[FIELD_PATH], 0755, false, err);
    if (r < 0)
        return r;
    autofd top = path_open(root, path, O_RDONLY | O_DIRECTORY, 0);
    if (top == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no directory '%s'", args->text[FIELD_PATH]);
    if (top < 0)
        return err_errno(err, -top, "'%s'", args->text[FIELD_PATH]);
    in.worker = worker;
    in.top = top;
    in.dir_fd = -1;
    umask(022);
    r = in_run(&in, err);
    fd_close(&in.dir_fd);
    if (r < 0)
        return r;
    autobuf end;
    buf_init(&end, 64);
    field_number(&end, FIELD_FILES, in.files);
    field_number(&end, FIELD_SIZE, in.size);
    worker_end(worker, &end);
    return 0;
}

const struct op_def op_tar_in = {.op = OP_TAR_IN, .work = tar_in_work};
