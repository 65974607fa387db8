/* Move: a rename on the loop; between file systems a copy under a hidden name, a rename, and the removal of the source,
 * in a worker. Invariant: nothing is replaced unless asked for, and a copy that fails leaves the source whole and
 * nothing at the target. */
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
#include "tree/copytree.h"
#include "tree/removal.h"

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
    int r = copytree_shared(move->from_dirfd, move->from, move->to_dirfd, temp, move->shown_from, err);
    if (r == 0) {
        int moved = rename_to(move, move->to_dirfd, temp);
        if (moved < 0)
            r = move_error(move, -moved, err);
    }
    if (r < 0) {
        removal_shared(move->to_dirfd, temp, move->shown_to, &removed, &ignored);
        return r;
    }
    return removal_shared(move->from_dirfd, move->from, move->shown_from, &removed, err);
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
