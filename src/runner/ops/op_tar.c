/* A tree as a tar stream out of the box. In a worker. Called through the table of ops; op_untar.c is the way in.
 * Invariant: no link is followed, and what an entry's head says is what follows it, whatever the file does meanwhile. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "runner/ops/op_file.h"
#include "runner/ops/ops.h"
#include "runner/ops/replace.h"
#include "runner/search/walk.h"
#include "tree/tar.h"

static uint8_t tar_data[LIMIT_FRAME_PAYLOAD_BYTES];

struct packing {
    struct tar_out tar;
    uint64_t files;
};

static int pack_put(void *user, const uint8_t *data, size_t len, struct err *err) {
    return worker_data(user, data, len, err);
}

static char tar_type(mode_t mode) {
    return S_ISREG(mode) ? TAR_FILE : S_ISDIR(mode) ? TAR_DIR : S_ISLNK(mode) ? TAR_SYMLINK : 0;
}

/* One entry called `name` in the archive. Sockets, FIFOs and devices are left out: no archive should carry them. */
static int pack_entry(struct packing *out, int dirfd, const char *base, const char *name, struct err *err) {
    static struct tar_entry entry;
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
    int r = tar_out_head(&out->tar, &entry, status.st_uid, status.st_gid, err);
    out->files++;
    return r < 0 || fd < 0 ? r : tar_out_content(&out->tar, fd, entry.size, err);
}

static int pack_tree(struct packing *out, int fd, struct err *err) {
    static struct walk walk;
    char name[2 * LIMIT_PATH_BYTES];
    walk_init(&walk, fd);
    int r = 0;
    while (r >= 0 && walk_next(&walk) > 0) {
        for (size_t i = 0; r >= 0 && i < walk.count; i++) {
            snprintf(name, sizeof name, "%s%s", walk.path, walk_name(&walk, &walk.entries[i]));
            r = pack_entry(out, walk.dirfd, walk_name(&walk, &walk.entries[i]), name, err);
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
    struct packing out = {.tar = {.put = pack_put, .user = worker, .data = tar_data, .size = sizeof tar_data}};
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
            r = pack_entry(&out, replace.dirfd, replace.name, replace.name, err);
        if (r >= 0 && out.files == 0)
            r = err_set(err, ERR_INVALID, "'%s' is neither a file nor a directory", args->text[FIELD_PATH]);
        replace_done(&replace);
    } else {
        r = fd < 0 ? err_errno(err, -fd, "'%s'", args->text[FIELD_PATH]) : pack_tree(&out, fd, err);
    }
    if (r >= 0)
        r = tar_out_end(&out.tar, err);
    if (r < 0)
        return r;
    autobuf end = buf_max(64);
    field_number(&end, FIELD_FILES, out.files);
    worker_end(worker, &end);
    return 0;
}

const struct op_def op_tar_out = {.op = OP_TAR_OUT, .work = tar_out_work};
