/* Trees: list and remove. Called through the table of ops: list in a worker, a single remove on the loop, a recursive
 * one in a worker. Invariant: no link is followed, and stack and descriptors do not grow with the size of a tree. */
#include <linux/fs.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "runner/ops/attrs.h"
#include "runner/ops/op_file.h"
#include "runner/ops/ops.h"
#include "runner/ops/replace.h"
#include "runner/search/walk.h"
#include "tree/copytree.h"
#include "tree/removal.h"

/* ---- list: directory by directory, by name within each ---- */

struct list {
    struct worker *worker;
    bool follow;  /* describe a link by its target, if it exists */
    bool details; /* op_put_details */
    struct attrs attrs;
    struct walk walk;
    struct glob_names ignore;
    struct shown shown;
    uint64_t limit, sent;
    bool truncated;
};

/* Gets the target of the link inside of the box; a dangling link stays a link. */
static void tree_list_follow(const struct list *list, struct stat *status) {
    struct place at;
    struct stat target;
    if (runner_path(list->worker->config, list->shown.text, PATH_READ, &at, ERR_IGNORED) < 0)
        return;
    autofd fd = path_open(at.root, at.path, O_PATH, 0);
    if (fd >= 0 && fstat(fd, &target) == 0)
        *status = target;
}

/* Returns 1 to continue, 0 if the limit is reached. */
static int tree_list_entry(void *user, const struct walk_entry *entry, struct err *err) {
    struct list *list = user;
    struct walk *walk = &list->walk;
    const char *name = walk_name(walk, entry);
    struct stat status;
    if (fstatat(walk->dirfd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return 1; /* already gone */
    size_t len = shown_set(&list->shown, walk->path, walk->path_len, name, entry->len);
    if (list->sent == list->limit || len == 0) {
        list->truncated = true;
        return list->sent < list->limit;
    }
    if (list->follow && S_ISLNK(status.st_mode))
        tree_list_follow(list, &status);
    struct buf *item = worker_item(list->worker);
    field_bytes(item, FIELD_NAME, name, entry->len);
    field_bytes(item, FIELD_PATH, list->shown.text, len);
    runner_put_file(item, walk->dirfd, name, &status);
    if (list->details)
        op_put_details(list->worker->config, item, walk->dirfd, name, list->shown.text, S_ISLNK(status.st_mode),
                       list->attrs.prefix);
    list->sent++;
    int r = worker_item_end(list->worker, err);
    return r < 0 ? r : 1;
}

static int tree_list_work(struct worker *worker, const struct fields *args, struct err *err) {
    static struct list list;
    uint64_t depth = args->has[FIELD_DEPTH] ? args->number[FIELD_DEPTH] : 1;
    list.worker = worker;
    list.follow = args->number[FIELD_FLAGS] & CALL_FOLLOW;
    list.details = args->number[FIELD_FLAGS] & CALL_DETAILS;
    list.limit = args->has[FIELD_LIMIT] ? args->number[FIELD_LIMIT] : DEFAULT_LIST_LIMIT;
    if (depth < 1 || depth > LIMIT_LIST_DEPTH)
        return err_set(err, ERR_INVALID, "depth must be 1 to %u", LIMIT_LIST_DEPTH);
    if (list.limit > LIMIT_LIST_LIMIT)
        return err_set(err, ERR_INVALID, "limit must be at most %u", LIMIT_LIST_LIMIT);
    autofd fd = -1;
    TRY(attrs_args(args, &list.attrs, err) ?: op_open_dir(worker->config, args, &fd, err));
    walk_init(&list.walk, fd);
    list.walk.max_depth = (unsigned)depth;
    list.walk.keep_max = (size_t)list.limit + 1;
    list.walk.deadline_ms = clock_ms() + DEFAULT_WALK_TIMEOUT_MS;
    shown_init(&list.shown, args->has[FIELD_PATH] ? args->text[FIELD_PATH] : worker->config->workspace);
    list.walk.keep_ignored = true;
    int r = op_ignore(args, &list.ignore, &list.walk, err) ?: walk_each(&list.walk, tree_list_entry, &list, err);
    bool truncated = list.truncated || list.walk.too_long || list.walk.dropped || list.walk.timed_out;
    walk_done(&list.walk);
    TRY(r);
    autobuf out = buf_max(64);
    field_number(&out, FIELD_TRUNCATED, truncated);
    worker_end(worker, &out);
    return 0;
}

const struct op_def op_list = {.op = OP_LIST, .looks = true, .work = tree_list_work, .root = &op_list};

/* ---- remove ---- */

static int tree_remove_open(const struct runner_config *config, const struct fields *args, int *ret_dirfd,
                            char name[256], struct err *err) {
    struct place at;
    TRY(op_path(config, args, FIELD_PATH, PATH_WRITE | PATH_ITSELF, &at, err));
    return path_open_parent(at.root, at.above, at.path, ret_dirfd, name, err);
}

/* Returns 1 if removed, 0 for a directory that is not empty and must be removed recursively. */
static int tree_remove_one(const struct runner_config *config, const struct fields *args, struct err *err) {
    autofd dirfd = -1;
    char name[256];
    TRY(tree_remove_open(config, args, &dirfd, name, err));
    const char *shown = args->text[FIELD_PATH];
    struct stat status;
    if (fstatat(dirfd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, errno, "'%s'", shown);
    bool dir = S_ISDIR(status.st_mode);
    if (unlinkat(dirfd, name, dir ? AT_REMOVEDIR : 0) < 0) {
        bool full = dir && (errno == ENOTEMPTY || errno == EEXIST);
        if (full && (args->number[FIELD_FLAGS] & CALL_RECURSIVE))
            return 0;
        if (full)
            return err_set(err, ERR_EXISTS, "the directory '%s' is not empty (recursive=1 removes it)", shown);
        if (errno == EBUSY)
            return err_set(err, ERR_DENIED, "'%s' is a mount: its content can be removed, but the mount cannot", shown);
        return err_errno(err, errno, "'%s'", shown);
    }
    return 1;
}

static int tree_remove_begin(struct rcall *call, const struct fields *args, struct err *err) {
    int r = tree_remove_one(call->runner->config, args, err);
    if (r <= 0)
        return r < 0 ? r : op_to_worker(call, &op_remove, args, err);
    autobuf out = buf_max(64);
    field_number(&out, FIELD_FILES, 1);
    reply_end(call, &out);
    return 0;
}

static int tree_remove_work(struct worker *worker, const struct fields *args, struct err *err) {
    autofd dirfd = -1;
    char name[256];
    int removed = args->number[FIELD_FLAGS] & CALL_ROOT ? tree_remove_one(worker->config, args, err) : 0;
    TRY(removed);
    uint64_t files = (uint64_t)removed;
    if (!removed) {
        TRY(tree_remove_open(worker->config, args, &dirfd, name, err));
        TRY(removal_shared(dirfd, name, args->text[FIELD_PATH], &files, err));
    }
    autobuf out = buf_max(64);
    field_number(&out, FIELD_FILES, files);
    worker_end(worker, &out);
    return 0;
}

const struct op_def op_remove = {
    .op = OP_REMOVE, .begin = tree_remove_begin, .work = tree_remove_work, .root = &op_remove};

/* ---- move ----
 *
 * A rename on the loop; between file systems a copy under a hidden name, a rename, and the removal of the source.
 * Invariant: nothing is replaced unless asked for. A copy that fails leaves the source whole and nothing at the
 * target. */

struct move {
    const char *shown_from, *shown_to;
    int from_dirfd, to_dirfd;
    char from[256], to[256];
    bool overwrite;
    struct owner owner;
};
#define automove __attribute__((cleanup(tree_move_close))) struct move

static void tree_move_close(struct move *move) {
    fd_close(&move->from_dirfd);
    fd_close(&move->to_dirfd);
}

static int tree_move_open(struct move *move, const struct runner_config *config, const struct fields *args,
                          struct err *err) {
    struct place at;
    struct stat status;
    bool parents = args->number[FIELD_FLAGS] & CALL_PARENTS;
    *move = (struct move){.shown_from = args->text[FIELD_PATH],
                          .shown_to = args->text[FIELD_TO],
                          .from_dirfd = -1,
                          .to_dirfd = -1,
                          .overwrite = args->number[FIELD_FLAGS] & CALL_OVERWRITE};
    TRY(owner_args(args, &move->owner, err));
    TRY(op_path(config, args, FIELD_PATH, PATH_WRITE | PATH_ITSELF, &at, err));
    TRY(path_open_parent(at.root, at.above, at.path, &move->from_dirfd, move->from, err));
    if (parents && fstatat(move->from_dirfd, move->from, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, errno, "'%s'", move->shown_from);
    TRY(op_path(config, args, FIELD_TO, PATH_WRITE | PATH_ITSELF, &at, err));
    if (parents)
        TRY(replace_mkdirs(&at, move->shown_to, 0755, true, &move->owner, err));
    return path_open_parent(at.root, at.above, at.path, &move->to_dirfd, move->to, err);
}

/* Returns 0 or -errno. */
static int tree_rename_to(const struct move *move, int from_dirfd, const char *from) {
    if (move->overwrite)
        return renameat(from_dirfd, from, move->to_dirfd, move->to) < 0 ? -errno : 0;
    if (syscall(SYS_renameat2, from_dirfd, from, move->to_dirfd, move->to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    struct stat status; /* for a file system that does not support the flag */
    if (fstatat(move->to_dirfd, move->to, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return renameat(from_dirfd, from, move->to_dirfd, move->to) < 0 ? -errno : 0;
}

static int tree_move_error(const struct move *move, int number, struct err *err) {
    struct stat status;
    if (number == ENOENT && fstatat(move->from_dirfd, move->from, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return err_set(err, ERR_NOT_FOUND, "no file '%s'", move->shown_from);
    if (number == EEXIST && !move->overwrite)
        return err_set(err, ERR_EXISTS, "'%s' exists (overwrite replaces it)", move->shown_to);
    return err_errno(err, number, "cannot move '%s' to '%s'", move->shown_from, move->shown_to);
}

static int tree_move_begin(struct rcall *call, const struct fields *args, struct err *err) {
    automove move;
    TRY(tree_move_open(&move, call->runner->config, args, err));
    int moved = tree_rename_to(&move, move.from_dirfd, move.from);
    if (moved == -EXDEV)
        return op_to_worker(call, &op_move, args, err);
    if (moved < 0)
        return tree_move_error(&move, -moved, err);
    reply_end(call, NULL);
    return 0;
}

/* Renames a copy of the source to the target's name. */
static int tree_move_over(const struct move *move, struct err *err) {
    struct stat status;
    if (!move->overwrite && fstatat(move->to_dirfd, move->to, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return tree_move_error(move, EEXIST, err);
    char temp[REPLACE_NAME_BYTES];
    uint64_t removed = 0;
    temp_name(temp, false);
    int r = copytree_shared(move->from_dirfd, move->from, move->to_dirfd, temp, move->shown_from, err);
    if (r == 0) {
        int moved = tree_rename_to(move, move->to_dirfd, temp);
        if (moved < 0)
            r = tree_move_error(move, -moved, err);
    }
    if (r < 0)
        removal_shared(move->to_dirfd, temp, move->shown_to, &removed, ERR_IGNORED);
    return r;
}

/* As root the copy is made with the rights of its future owner, so that the owner owns it; if these do not suffice,
 * with those of root. */
static int tree_move_copy(const struct move *move, struct err *err) {
    uint64_t removed = 0;
    bool given = move->owner.given && move->owner.uid;
    if (given) {
        setfsgid(move->owner.gid);
        setfsuid(move->owner.uid);
    }
    int r = tree_move_over(move, err);
    if (given) {
        setfsuid(0);
        setfsgid(0);
    }
    if ((given && r == -ERR_DENIED) || (r < 0 && confine_step_down(err->number)))
        r = tree_move_over(move, err);
    return r < 0 ? r : removal_shared(move->from_dirfd, move->from, move->shown_from, &removed, err);
}

static int tree_move_work(struct worker *worker, const struct fields *args, struct err *err) {
    automove move;
    TRY(tree_move_open(&move, worker->config, args, err));
    bool root = args->number[FIELD_FLAGS] & CALL_ROOT;
    int moved = root ? tree_rename_to(&move, move.from_dirfd, move.from) : -EXDEV;
    if (moved == -EXDEV)
        return tree_move_copy(&move, err);
    return moved < 0 ? tree_move_error(&move, -moved, err) : 0;
}

const struct op_def op_move = {.op = OP_MOVE, .begin = tree_move_begin, .work = tree_move_work, .root = &op_move};
