/* Squashing layers. Called by main, in a separate process on the host: the content of layers is hostile, and the work
 * may take long. Invariant: layers are only read, and the result together with the layers below it shows exactly the
 * same files: whiteouts and opaque directories stay wherever something could still show through. */
#include <sys/prctl.h>
#include <sys/xattr.h>

#include "base/base.h"
#include "base/sync.h"
#include "runner/ops/squash.h"
#include "runner/enter/enter.h"
#include "tree/copytree.h"

#define OVERLAY_XATTRS "user.overlay."
enum { PARTS_MAX = 9 };

struct squash {
    struct stack *stack;
    int target, dir;       /* its root; the current directory in it */
    struct copytree *copy; /* if linking is impossible: from an image, or between subvolumes */
};

/* ---- one directory ---- */

static int squash_failed(const struct squash *squash, const char *name, struct err *err) {
    int number = errno;
    return err_errno(err, number, "'/%s%s'", squash->stack->path, name);
}

static int squash_merge_entry(struct squash *squash, const struct stack_entry *entry, struct err *err) {
    struct stack *stack = squash->stack;
    const char *name = stack_name(stack, entry);
    if (entry->kind == STACK_DIR)
        return mkdirat(squash->dir, name, 0700) < 0 ? squash_failed(squash, name, err) : 0;
    if (entry->kind == STACK_WHITEOUT && stack->hidden)
        return 0; /* nothing shows there anyway */
    if (linkat(stack->fds[entry->layer], name, squash->dir, name, 0) == 0)
        return 0;
    if (errno != EXDEV && errno != EMLINK && errno != EPERM && errno != EOPNOTSUPP)
        return squash_failed(squash, name, err);
    int r = copytree_entry(squash->copy, stack->fds[entry->layer], squash->dir, name, err);
    return r < 0 ? err_wrap(err, "'/%s'", stack->path) : 0;
}

/* Sets owner, mode and times of the uppermost; opaque if it must hide layers below the stack. */
static int squash_finish_directory(struct squash *squash, struct err *err) {
    struct stack *stack = squash->stack;
    if (stack->hidden && fsetxattr(squash->dir, STACK_OPAQUE, "y", 1, 0) < 0)
        return squash_failed(squash, "", err);
    int r = copytree_directory(squash->copy, stack->fds[stack->top], squash->dir, err);
    return r < 0 ? err_wrap(err, "'/%s'", stack->path) : 0;
}

static int squash_merge_all(struct squash *squash, struct err *err) {
    struct stack *stack = squash->stack;
    while (stack_next(stack)) {
        autofd dir = path_below(squash->target, stack->path, O_RDONLY | O_DIRECTORY, true);
        if (dir < 0)
            return squash_failed(squash, "", err);
        squash->dir = dir;
        for (size_t i = 0; i < stack->count_entries; i++)
            TRY(squash_merge_entry(squash, &stack->entries[i], err));
        TRY(squash_finish_directory(squash, err));
    }
    if (stack->too_deep || stack->timed_out)
        return err_set(err, ERR_TOO_LARGE, "the tree is deeper than the longest path");
    return 0;
}

int squash_merge(struct stack *stack, int target, struct err *err) {
    struct squash squash = {.stack = stack, .target = target, .copy = copytree_begin(target, OVERLAY_XATTRS)};
    int r = squash_merge_all(&squash, err);
    copytree_end(squash.copy);
    return r;
}

/* ---- the program ---- */

/* Squashes one of upper, upper.0, ..., skills of all layers. Also 0 if no layer has it. */
static int squash_part(const int *layers, size_t count, const char *name, int target, struct err *err) {
    struct stack stack;
    stack_init(&stack);
    for (size_t i = 0; i < count; i++)
        stack_add_root(&stack, layers[i], name);
    int r = 0;
    if (stack.count > 0 && mkdirat(target, name, 0755) < 0)
        r = err_errno(err, errno, "'%s'", name);
    autofd dir = r == 0 && stack.count > 0 ? openat(target, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir >= 0)
        r = squash_merge(&stack, dir, err);
    stack_done(&stack);
    return r;
}

static int squash_open_layer(const char *path, struct err *err) {
    struct stat status;
    if (lstat(path, &status) < 0)
        return err_errno(err, errno, "'%s'", path);
    if (S_ISREG(status.st_mode))
        return enter_disk(path, true, err);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_errno(err, errno, "'%s'", path) : fd;
}

static int squash_paths(int count, char **paths, struct err *err) {
    int layers[STACK_MAX];
    autofd target = open(paths[0], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0)
        return err_errno(err, errno, "'%s'", paths[0]);
    for (int i = 1; i < count; i++)
        if ((layers[i - 1] = squash_open_layer(paths[i], err)) < 0)
            return layers[i - 1];
    int r = squash_part(layers, (size_t)count - 1, "skills", target, err);
    for (int i = -1; r == 0 && i < PARTS_MAX - 1; i++) {
        char name[32] = "upper";
        if (i >= 0)
            snprintf(name, sizeof name, "upper.%d", i);
        r = squash_part(layers, (size_t)count - 1, name, target, err);
    }
    return r;
}

int squash_main(int count, char **paths) {
    struct err err = {0};
    if (count < 2 || (size_t)count - 1 > STACK_MAX)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    umask(0);
    background_become(false);
    if (squash_paths(count, paths, &err) == 0)
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return 125;
}
