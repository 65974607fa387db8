/* Move: a rename on the loop; between file systems a copy under a hidden name, a rename, and the removal of the source,
 * in a worker. Invariant: nothing is replaced unless asked for, and a copy that fails leaves the source whole and
 * nothing at the target. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "runner/ops/op_file.h"
#include "runner/ops/ops.h"
#include "runner/ops/replace.h"
#include "runner/search/walk.h"

struct move {
    const char *shown_from, *shown_to;
    int from_dirfd, to_dirfd;
    char from[256], to[256];
    bool overwrite;
};

static int move_open(struct move *move, const struct runner_config *config, const struct fields *args,
                     struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    *move = (struct move){.from_dirfd = -1, .to_dirfd = -1};
    int r = op_path(config, args, FIELD_PATH, PATH_WRITE | PATH_ITSELF, &root, path, err);
    if (r == 0)
        r = path_open_parent(root, path, &move->from_dirfd, move->from, err);
    if (r == 0)
        r = op_path(config, args, FIELD_TO, PATH_WRITE | PATH_ITSELF, &root, path, err);
    if (r == 0)
        r = path_open_parent(root, path, &move->to_dirfd, move->to, err);
    move->shown_from = args->text[FIELD_PATH];
    move->shown_to = args->text[FIELD_TO];
    move->overwrite = args->number[FIELD_FLAGS] & CALL_OVERWRITE;
    return r;
}

static void move_close(struct move *move) {
    fd_close(&move->from_dirfd);
    fd_close(&move->to_dirfd);
}

/* 0 or -errno. */
static int rename_to(const struct move *move, int from_dirfd, const char *from) {
    if (move->overwrite)
        return renameat(from_dirfd, from, move->to_dirfd, move->to) < 0 ? -errno : 0;
    if (syscall(SYS_renameat2, from_dirfd, from, move->to_dirfd, move->to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    struct stat status; /* a file system that does not know the flag */
    if (fstatat(move->to_dirfd, move->to, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return renameat(from_dirfd, from, move->to_dirfd, move->to) < 0 ? -errno : 0;
}

static int move_error(const struct move *move, int number, struct err *err) {
    struct stat status;
    if (number == ENOENT && fstatat(move->from_dirfd, move->from, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return err_set(err, ERR_NOT_FOUND, "no file '%s'", move->shown_from);
    if (number == EEXIST && !move->overwrite)
        return err_set(err, ERR_EXISTS, "'%s' exists (overwrite replaces it)", move->shown_to);
    return err_errno(err, number, "moving '%s' to '%s'", move->shown_from, move->shown_to);
}

static const struct op_def op_move_copy;

static int move_begin(struct rcall *call, const struct fields *args, struct err *err) {
    struct move move;
    int r = move_open(&move, call->runner->config, args, err);
    if (r == 0) {
        int moved = rename_to(&move, move.from_dirfd, move.from);
        if (moved == -EXDEV) {
            move_close(&move);
            return op_to_worker(call, &op_move_copy, args, err);
        }
        if (moved < 0)
            r = move_error(&move, -moved, err);
    }
    move_close(&move);
    if (r == 0)
        reply_end(call, NULL);
    return r;
}

static int move_copy(const struct move *move, struct err *err) {
    struct stat status;
    if (!move->overwrite && fstatat(move->to_dirfd, move->to, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return move_error(move, EEXIST, err);
    char temp[REPLACE_NAME_BYTES];
    uint64_t removed = 0;
    struct err ignored;
    temp_name(temp, false);
    int r = copy_tree(move->from_dirfd, move->from, move->to_dirfd, temp, move->shown_from, err);
    if (r == 0) {
        int moved = rename_to(move, move->to_dirfd, temp);
        if (moved < 0)
            r = move_error(move, -moved, err);
    }
    if (r < 0) {
        remove_tree(move->to_dirfd, temp, move->shown_to, &removed, &ignored);
        return r;
    }
    return remove_tree(move->from_dirfd, move->from, move->shown_from, &removed, err);
}

static int move_work(struct worker *worker, const struct fields *args, struct err *err) {
    struct move move;
    int r = move_open(&move, worker->config, args, err);
    if (r == 0)
        r = move_copy(&move, err);
    move_close(&move);
    if (r == 0)
        worker_end(worker, NULL);
    return r;
}

static const struct op_def op_move_copy = {.op = OP_MOVE, .work = move_work};
const struct op_def op_move = {.op = OP_MOVE, .begin = move_begin};

/* ---- copying ---- */

static int copy_bytes(int from, int to) {
    static uint8_t data[128 << 10];
    for (;;) {
        ssize_t n = read(from, data, sizeof data);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        int r = fd_write_all(to, data, (size_t)n);
        if (r < 0)
            return r;
    }
}

static int copy_file(int from_dirfd, const char *from, int to_dirfd, const char *to, const struct stat *status) {
    autofd in = openat(from_dirfd, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (in < 0)
        return -errno;
    autofd out = openat(to_dirfd, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return -errno;
    int r = copy_bytes(in, out);
    if (r == 0 && fchmod(out, status->st_mode & 0777) < 0)
        r = -errno;
    if (r == 0)
        futimens(out, (struct timespec[]){status->st_atim, status->st_mtim});
    return r;
}

static int copy_link(int from_dirfd, const char *from, int to_dirfd, const char *to) {
    char target[LIMIT_PATH_BYTES + 1];
    ssize_t len = readlinkat(from_dirfd, from, target, sizeof target - 1);
    if (len < 0)
        return -errno;
    target[len] = 0;
    return symlinkat(target, to_dirfd, to) < 0 ? -errno : 0;
}

/* One entry, not what is below it. -errno. */
static int copy_entry(int from_dirfd, const char *from, int to_dirfd, const char *to) {
    struct stat status;
    if (fstatat(from_dirfd, from, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(status.st_mode))
        return mkdirat(to_dirfd, to, (status.st_mode & 0777) | 0700) < 0 ? -errno : 0;
    if (S_ISLNK(status.st_mode))
        return copy_link(from_dirfd, from, to_dirfd, to);
    if (S_ISFIFO(status.st_mode))
        return mkfifoat(to_dirfd, to, status.st_mode & 0777) < 0 ? -errno : 0;
    if (!S_ISREG(status.st_mode))
        return -EXDEV;
    return copy_file(from_dirfd, from, to_dirfd, to, &status);
}

static int copy_below(struct walk *walk, int target, const char *shown, struct err *err) {
    while (walk_next(walk) > 0) {
        autofd into = walk_open(target, walk->path_len ? walk->path : ".", O_RDONLY | O_DIRECTORY);
        if (into < 0)
            return err_errno(err, -into, "copying '%s/%s'", shown, walk->path);
        for (size_t i = 0; i < walk->count; i++) {
            const char *name = walk_name(walk, &walk->entries[i]);
            int r = copy_entry(walk->dirfd, name, into, name);
            if (r < 0)
                return err_errno(err, -r, "copying '%s/%s%s'", shown, walk->path, name);
        }
    }
    if (walk->unreadable || walk->too_long)
        return err_set(err, ERR_DENIED, "not all of '%s' can be read: it stays where it is", shown);
    return 0;
}

int copy_tree(int from_dirfd, const char *from, int to_dirfd, const char *to, const char *shown, struct err *err) {
    int r = copy_entry(from_dirfd, from, to_dirfd, to);
    if (r < 0)
        return err_errno(err, -r, "copying '%s'", shown);
    autofd source = openat(from_dirfd, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (source < 0)
        return errno == ENOTDIR || errno == ELOOP ? 0 : err_errno(err, errno, "copying '%s'", shown);
    autofd target = openat(to_dirfd, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0)
        return err_errno(err, errno, "copying '%s'", shown);
    static struct walk walk;
    walk_init(&walk, source);
    walk.sorted = false;
    r = copy_below(&walk, target, shown, err);
    walk_done(&walk);
    return r;
}
