/* Trees: list, and remove. Called through the table of ops: list in a worker, a single remove on the loop, a recursive
 * one in a worker. Invariant: no link is followed, and sizes of trees bound neither stack nor descriptors. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "runner/ops/op_file.h"
#include "runner/ops/ops.h"
#include "runner/search/walk.h"
#include "tree/removal.h"

/* ---- list: directory by directory, by name within each ---- */

struct list {
    struct worker *worker;
    bool follow; /* links are told as what they lead to, where they do */
    struct walk walk;
    struct glob_names ignore;
    struct shown shown;
    uint64_t limit, sent;
    bool truncated;
};

/* What the link leads to inside of the box; a link that leads nowhere stays one. */
static void list_follow(const struct list *list, struct stat *status) {
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    struct err err;
    struct stat target;
    if (runner_path(list->worker->config, list->shown.text, PATH_READ, &root, path, &err) < 0)
        return;
    autofd fd = path_open(root, path, O_PATH, 0);
    if (fd >= 0 && fstat(fd, &target) == 0)
        *status = target;
}

/* 1: go on. 0: the limit is reached. */
static int list_entry(void *user, const struct walk_entry *entry, struct err *err) {
    struct list *list = user;
    struct walk *walk = &list->walk;
    const char *name = walk_name(walk, entry);
    struct stat status;
    if (fstatat(walk->dirfd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return 1; /* gone meanwhile */
    size_t len = shown_set(&list->shown, walk->path, walk->path_len, name, entry->len);
    if (list->sent == list->limit || len == 0) {
        list->truncated = true;
        return list->sent < list->limit;
    }
    if (list->follow && S_ISLNK(status.st_mode))
        list_follow(list, &status);
    struct buf *item = worker_item(list->worker);
    field_bytes(item, FIELD_NAME, name, entry->len);
    field_bytes(item, FIELD_PATH, list->shown.text, len);
    runner_put_file(item, walk->dirfd, name, &status);
    list->sent++;
    int r = worker_item_end(list->worker, err);
    return r < 0 ? r : 1;
}

static int list_work(struct worker *worker, const struct fields *args, struct err *err) {
    static struct list list;
    uint64_t depth = args->has[FIELD_DEPTH] ? args->number[FIELD_DEPTH] : 1;
    list.worker = worker;
    list.follow = args->number[FIELD_FLAGS] & CALL_FOLLOW;
    list.limit = args->has[FIELD_LIMIT] ? args->number[FIELD_LIMIT] : DEFAULT_LIST_LIMIT;
    if (depth < 1 || depth > LIMIT_LIST_DEPTH)
        return err_set(err, ERR_INVALID, "depth must be 1 to %u", LIMIT_LIST_DEPTH);
    if (list.limit > LIMIT_LIST_LIMIT)
        return err_set(err, ERR_INVALID, "limit must be at most %u", LIMIT_LIST_LIMIT);
    autofd fd = -1;
    int r = op_open_dir(worker->config, args, &fd, err);
    if (r < 0)
        return r;
    walk_init(&list.walk, fd);
    list.walk.max_depth = (unsigned)depth;
    list.walk.keep_max = (size_t)list.limit + 1;
    list.walk.deadline_ms = clock_ms() + DEFAULT_WALK_TIMEOUT_MS;
    shown_init(&list.shown, args->has[FIELD_PATH] ? args->text[FIELD_PATH] : worker->config->workspace);
    list.walk.keep_ignored = true;
    r = op_ignore(args, &list.ignore, &list.walk, err);
    if (r == 0)
        r = walk_each(&list.walk, list_entry, &list, err);
    bool truncated = list.truncated || list.walk.too_long || list.walk.dropped || list.walk.timed_out;
    walk_done(&list.walk);
    if (r < 0)
        return r;
    autobuf out = buf_max(64);
    field_number(&out, FIELD_TRUNCATED, truncated);
    worker_end(worker, &out);
    return 0;
}

const struct op_def op_list = {.op = OP_LIST, .work = list_work};

/* ---- remove ---- */

static const struct op_def op_remove_tree;

static void put_files(struct buf *out, uint64_t files) {
    buf_init(out, 64);
    field_number(out, FIELD_FILES, files);
}

static int remove_open(const struct runner_config *config, const struct fields *args, int *ret_dirfd, char name[256],
                       struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    int root;
    int r = op_path(config, args, FIELD_PATH, PATH_WRITE | PATH_ITSELF, &root, path, err);
    return r < 0 ? r : path_open_parent(root, path, ret_dirfd, name, err);
}

static int remove_begin(struct rcall *call, const struct fields *args, struct err *err) {
    autofd dirfd = -1;
    char name[256];
    int r = remove_open(call->runner->config, args, &dirfd, name, err);
    if (r < 0)
        return r;
    const char *shown = args->text[FIELD_PATH];
    struct stat status;
    if (fstatat(dirfd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, errno, "'%s'", shown);
    bool dir = S_ISDIR(status.st_mode);
    if (unlinkat(dirfd, name, dir ? AT_REMOVEDIR : 0) < 0) {
        bool full = dir && (errno == ENOTEMPTY || errno == EEXIST);
        if (full && (args->number[FIELD_FLAGS] & CALL_RECURSIVE))
            return op_to_worker(call, &op_remove_tree, args, err);
        if (full)
            return err_set(err, ERR_EXISTS, "the directory '%s' is not empty (recursive=1 removes it)", shown);
        if (errno == EBUSY)
            return err_set(err, ERR_DENIED, "'%s' is a mount: what is in it can be removed, itself it cannot", shown);
        return err_errno(err, errno, "'%s'", shown);
    }
    autobuf out;
    put_files(&out, 1);
    reply_end(call, &out);
    return 0;
}

static int remove_work(struct worker *worker, const struct fields *args, struct err *err) {
    autofd dirfd = -1;
    char name[256];
    uint64_t files = 0;
    int r = remove_open(worker->config, args, &dirfd, name, err);
    if (r == 0)
        r = removal_shared(dirfd, name, args->text[FIELD_PATH], &files, err);
    if (r < 0)
        return r;
    autobuf out;
    put_files(&out, files);
    worker_end(worker, &out);
    return 0;
}

static const struct op_def op_remove_tree = {.op = OP_REMOVE, .work = remove_work};
const struct op_def op_remove = {.op = OP_REMOVE, .begin = remove_begin};
