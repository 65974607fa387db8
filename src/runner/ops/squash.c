/* Squashing layers. Called by main, in a process of its own on the host: what boxes have put into layers is hostile, and
 * may take long. Invariant: layers are only read, and the result together with what lies below it shows exactly what
 * they showed: whiteouts and opaque directories stay wherever something could still show through. */
#include "runner/ops/squash.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "runner/enter/enter.h"

#define OVERLAY_XATTRS "user.overlay."
enum { NAMES_BYTES = 65536, COPY_BYTES = 1 << 20, PARTS_MAX = 9 };

/* Files with several names that were copied: the next name is a link to the first. */
struct twin {
    uint64_t inode;
    uint8_t layer;
    char *path; /* below target */
};

struct squash {
    struct stack *stack;
    int target, dir; /* its root; the current directory in it */
    struct twin *twins;
    size_t twin_count, twin_cap;
    char *buffer; /* COPY_BYTES */
};

static int copy_entry(struct squash *squash, const struct stack_entry *entry, struct err *err);
static int copy_attributes(int from, int to, struct err *err);

/* ---- one directory ---- */

static int failed(const struct squash *squash, const char *name, struct err *err) {
    int number = errno;
    return err_errno(err, number, "'/%s%s'", squash->stack->path, name);
}

static int merge_entry(struct squash *squash, const struct stack_entry *entry, struct err *err) {
    struct stack *stack = squash->stack;
    const char *name = stack_name(stack, entry);
    if (entry->kind == STACK_DIR)
        return mkdirat(squash->dir, name, 0700) < 0 ? failed(squash, name, err) : 0;
    if (entry->kind == STACK_WHITEOUT && stack->hidden)
        return 0; /* nothing shows there anyway */
    if (linkat(stack->fds[entry->layer], name, squash->dir, name, 0) == 0)
        return 0;
    if (errno != EXDEV && errno != EMLINK && errno != EPERM && errno != EOPNOTSUPP)
        return failed(squash, name, err);
    return copy_entry(squash, entry, err);
}

/* Owner, mode and times of the uppermost; opaque where what lies below the stack is not to show. */
static int finish_directory(struct squash *squash, struct err *err) {
    struct stack *stack = squash->stack;
    struct stat status;
    int from = stack->fds[stack->top];
    if (fstat(from, &status) < 0 || fchown(squash->dir, status.st_uid, status.st_gid) < 0 ||
        fchmod(squash->dir, status.st_mode & 07777) < 0)
        return failed(squash, "", err);
    int r = copy_attributes(from, squash->dir, err);
    if (r == 0 && stack->hidden && fsetxattr(squash->dir, STACK_OPAQUE, "y", 1, 0) < 0)
        r = failed(squash, "", err);
    if (r == 0 && futimens(squash->dir, (struct timespec[]){status.st_atim, status.st_mtim}) < 0)
        r = failed(squash, "", err);
    return r;
}

static int open_below(int root, const char *path) {
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    return (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
}

static int merge_all(struct squash *squash, struct err *err) {
    struct stack *stack = squash->stack;
    while (stack_next(stack)) {
        autofd dir = open_below(squash->target, stack->path);
        if (dir < 0)
            return failed(squash, "", err);
        squash->dir = dir;
        int r = 0;
        for (size_t i = 0; r == 0 && i < stack->count_entries; i++)
            r = merge_entry(squash, &stack->entries[i], err);
        if (r == 0)
            r = finish_directory(squash, err);
        if (r < 0)
            return r;
    }
    if (stack->too_deep || stack->timed_out)
        return err_set(err, ERR_TOO_LARGE, "a tree is deeper than a path may be long");
    return 0;
}

int squash_merge(struct stack *stack, int target, struct err *err) {
    struct squash squash = {.stack = stack, .target = target, .buffer = xmalloc(COPY_BYTES)};
    int r = merge_all(&squash, err);
    for (size_t i = 0; i < squash.twin_cap; i++)
        free(squash.twins[i].path);
    free(squash.twins);
    free(squash.buffer);
    return r;
}

/* ---- copies, where a link cannot be: from an image, or between subvolumes ---- */

static int copy_attributes(int from, int to, struct err *err) {
    static char names[NAMES_BYTES], value[NAMES_BYTES];
    ssize_t n = flistxattr(from, names, sizeof names);
    if (n < 0 && errno != EOPNOTSUPP)
        return err_errno(err, errno, "extended attributes");
    for (const char *name = names; n > 0 && name < names + n; name += strlen(name) + 1) {
        if (strncmp(name, OVERLAY_XATTRS, strlen(OVERLAY_XATTRS)) == 0)
            continue;
        ssize_t size = fgetxattr(from, name, value, sizeof value);
        if (size < 0 || fsetxattr(to, name, value, (size_t)size, 0) < 0)
            return err_errno(err, errno, "the extended attribute '%s'", name);
    }
    return 0;
}

static int copy_bytes(struct squash *squash, int from, int to, off_t size) {
    if (ftruncate(to, size) < 0)
        return -errno;
    for (off_t at = 0; (at = lseek(from, at, SEEK_DATA)) >= 0;) {
        off_t end = lseek(from, at, SEEK_HOLE);
        for (ssize_t n; at < end; at += n) {
            size_t want = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES;
            n = pread(from, squash->buffer, want, at);
            if (n <= 0 || pwrite(to, squash->buffer, (size_t)n, at) != n)
                return n < 0 ? -errno : -EIO;
        }
    }
    return errno == ENXIO ? 0 : -errno;
}

static int copy_regular(struct squash *squash, int from_dir, const char *name, const struct stat *status,
                        struct err *err) {
    autofd from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    autofd to = openat(squash->dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (from < 0 || to < 0)
        return failed(squash, name, err);
    int r = copy_bytes(squash, from, to, status->st_size);
    if (r < 0)
        return err_errno(err, -r, "'/%s%s'", squash->stack->path, name);
    if (fchown(to, status->st_uid, status->st_gid) < 0 || fchmod(to, status->st_mode & 07777) < 0)
        return failed(squash, name, err);
    r = copy_attributes(from, to, err);
    if (r == 0 && futimens(to, (struct timespec[]){status->st_atim, status->st_mtim}) < 0)
        r = failed(squash, name, err);
    return r;
}

static int copy_special(struct squash *squash, int from_dir, const char *name, const struct stat *status,
                        struct err *err) {
    char target[LIMIT_PATH_BYTES + 1];
    bool link = S_ISLNK(status->st_mode);
    ssize_t n = link ? readlinkat(from_dir, name, target, sizeof target - 1) : 0;
    if (n < 0)
        return failed(squash, name, err);
    target[n] = 0;
    int r = link ? symlinkat(target, squash->dir, name) : mknodat(squash->dir, name, status->st_mode, status->st_rdev);
    if (r < 0 || fchownat(squash->dir, name, status->st_uid, status->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        (!link && fchmodat(squash->dir, name, status->st_mode & 07777, 0) < 0) ||
        utimensat(squash->dir, name, (struct timespec[]){status->st_atim, status->st_mtim}, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(squash, name, err);
    return 0;
}

/* Where a file with that inode was put, or would be noted. */
static struct twin *twin_find(struct squash *squash, uint8_t layer, uint64_t inode) {
    if (2 * squash->twin_count >= squash->twin_cap) {
        size_t old_cap = squash->twin_cap;
        struct twin *old = squash->twins;
        squash->twin_cap = old_cap ? 2 * old_cap : 256;
        squash->twins = xcalloc(squash->twin_cap, sizeof *squash->twins);
        squash->twin_count = 0;
        for (size_t i = 0; i < old_cap; i++)
            if (old[i].path) {
                *twin_find(squash, old[i].layer, old[i].inode) = old[i];
                squash->twin_count++;
            }
        free(old);
    }
    size_t at = (size_t)(inode * 0x9e3779b97f4a7c15ull >> 20) & (squash->twin_cap - 1);
    while (squash->twins[at].path && (squash->twins[at].inode != inode || squash->twins[at].layer != layer))
        at = (at + 1) & (squash->twin_cap - 1);
    return &squash->twins[at];
}

static int copy_entry(struct squash *squash, const struct stack_entry *entry, struct err *err) {
    struct stack *stack = squash->stack;
    const char *name = stack_name(stack, entry);
    int from_dir = stack->fds[entry->layer];
    struct stat status;
    if (fstatat(from_dir, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(squash, name, err);
    struct twin *twin = status.st_nlink > 1 ? twin_find(squash, entry->layer, status.st_ino) : NULL;
    if (twin && twin->path)
        return linkat(squash->target, twin->path, squash->dir, name, 0) < 0 ? failed(squash, name, err) : 0;
    int r = S_ISREG(status.st_mode) ? copy_regular(squash, from_dir, name, &status, err)
                                    : copy_special(squash, from_dir, name, &status, err);
    if (r < 0 || !twin)
        return r;
    size_t size = stack->path_len + entry->len + 1;
    *twin = (struct twin){.inode = status.st_ino, .layer = entry->layer, .path = xmalloc(size)};
    snprintf(twin->path, size, "%s%s", stack->path, name);
    squash->twin_count++;
    return 0;
}

/* ---- the program ---- */

/* One of upper, upper.0, ..., skills of all layers. 0 as well where no layer has it. */
static int squash_part(const int *layers, size_t count, const char *name, int target, struct err *err) {
    struct stack stack;
    stack_init(&stack);
    for (size_t i = 0; i < count; i++) {
        int fd = openat(layers[i], name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            stack.roots[stack.count++] = fd;
    }
    int r = 0;
    if (stack.count > 0 && mkdirat(target, name, 0755) < 0)
        r = err_errno(err, errno, "'%s'", name);
    autofd dir = r == 0 && stack.count > 0 ? openat(target, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir >= 0)
        r = squash_merge(&stack, dir, err);
    for (size_t i = 0; i < stack.count; i++)
        close(stack.roots[i]);
    stack_done(&stack);
    return r;
}

static int open_layer(const char *path, struct err *err) {
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
        if ((layers[i - 1] = open_layer(paths[i], err)) < 0)
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
    enum { WHO_PROCESS = 1, CLASS_IDLE = 3 << 13 }; /* of ioprio_set, which has no header */
    struct err err = {0};
    if (count < 2 || (size_t)count - 1 > STACK_MAX)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    umask(0);
    setpriority(PRIO_PROCESS, 0, 19); /* whoever is being served goes first */
    syscall(SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE);
    if (squash_paths(count, paths, &err) == 0)
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return 125;
}
