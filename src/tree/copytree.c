/* Copying the files of a box, for a layer of its own. Called by layer.c with the box frozen. Invariant: the tree is
 * hostile, so names are one component below an open directory, and nothing is followed, opened to wait, or trusted to be
 * short.
 *
 * 1. Iterative: a stack of levels; only the deepest LEVELS_OPEN hold descriptors. Going up past those, ".." is opened and
 *    must be the directory that was left, by device and inode.
 * 2. A level that is opened again goes on where it was: nobody writes meanwhile, so the offsets of its entries hold.
 * 3. Files of several names get one in a directory of their own beside the copy, named by inode; the other names are
 *    links to that. So no table grows with them. The directory goes at the end. */
#include "tree/copytree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mem.h"
#include "tree/removal.h"
#include "base/dent.h"
#include "base/fd.h"

enum { LEVELS_OPEN = 48, DENTS_BYTES = 16384, CHUNK_BYTES = 1 << 20 };

struct level {
    int from, to;            /* -1: closed, reached again by ".." */
    struct stat from_status; /* for the end, and to know it again */
    dev_t to_device;
    ino_t to_inode;
    int64_t offset; /* of the next entry */
    char *dents;    /* read and not looked at yet; NULL: none */
    size_t dents_len, dents_at;
};

struct copytree {
    struct level *levels;
    size_t depth, cap;
    int from, to; /* the tops, the caller's */
    int links;    /* the copy's directory of hard links; -1: none yet */
    char links_name[32];
    char *bytes; /* CHUNK_BYTES */
    bool no_clone, cloned;
    struct copied copied;
};

static int tree_run(struct copytree *tree, struct err *err);
static int level_push(struct copytree *tree, int from, int to, struct err *err);
static int level_pop(struct copytree *tree, struct err *err);
static void level_close(struct level *level);
static int level_open(struct copytree *tree, struct err *err);
static int copy_entry(struct copytree *tree, const char *name, struct err *err);
static int copy_attributes(int from, int to, const char *name, char *bytes, struct err *err);
static int copy_content(struct copytree *tree, int from, int to, off_t size, struct err *err);

static void tree_init(struct copytree *tree, int from, int to) {
    *tree = (struct copytree){.from = from, .to = to, .links = -1, .bytes = xmalloc(CHUNK_BYTES)};
}

static void tree_done(struct copytree *tree, int r, struct copied *ret_copied) {
    for (size_t i = 0; i < tree->depth; i++)
        level_close(&tree->levels[i]);
    if (tree->links >= 0) {
        fd_close(&tree->links);
        removal_tree(tree->to, tree->links_name);
    }
    if (r == 0) {
        tree->copied.method = tree->cloned && tree->copied.bytes == 0 ? "reflink" : "copy";
        *ret_copied = tree->copied;
    }
    free(tree->levels);
    free(tree->bytes);
}

/* The directory of links goes before the top gets its time. */
int copytree(int from, int to, struct copied *ret_copied, struct err *err) {
    struct copytree tree;
    tree_init(&tree, from, to);
    autofd own_from = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofd own_to = openat(to, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat status;
    int r = own_from < 0 || own_to < 0 || fstat(own_from, &status) < 0
                ? err_errno(err, errno, "the files to be copied")
                : level_push(&tree, fd_take(&own_from), fd_take(&own_to), err);
    if (r == 0)
        r = tree_run(&tree, err);
    tree_done(&tree, r, ret_copied);
    const struct timespec times[] = {status.st_atim, status.st_mtim};
    if (r == 0 && futimens(to, times) < 0)
        r = err_errno(err, errno, "the copy");
    return r;
}

int copytree_file(int from, int to, struct copied *ret_copied, struct err *err) {
    struct copytree tree;
    struct stat status;
    tree_init(&tree, -1, -1);
    tree.copied.files = 1;
    int r = fstat(from, &status) < 0 ? err_errno(err, errno, "the file to be copied")
                                     : copy_content(&tree, from, to, status.st_size, err);
    tree_done(&tree, r, ret_copied);
    return r;
}

static int tree_run(struct copytree *tree, struct err *err) {
    while (tree->depth > 0) {
        struct level *level = &tree->levels[tree->depth - 1];
        if (level->dents_at == level->dents_len) {
            if (!level->dents && !(level->dents = malloc(DENTS_BYTES)))
                abort();
            long n = syscall(SYS_getdents64, level->from, level->dents, DENTS_BYTES);
            if (n < 0)
                return err_errno(err, errno, "a directory to be copied");
            level->dents_len = (size_t)n;
            level->dents_at = 0;
        }
        int r = 0;
        if (level->dents_len == 0) {
            r = level_pop(tree, err);
        } else {
            const struct dent *dent = (const void *)(level->dents + level->dents_at);
            level->dents_at += dent->size;
            level->offset = dent->offset;
            char name[NAME_MAX + 1];
            snprintf(name, sizeof name, "%s", dent->name); /* the level may move */
            if (!dent_dots(name))
                r = copy_entry(tree, name, err);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- levels ---- */

static int level_push(struct copytree *tree, int from, int to, struct err *err) {
    struct level level = {.from = from, .to = to};
    struct stat to_status;
    if (fstat(from, &level.from_status) < 0 || fstat(to, &to_status) < 0) {
        close(from);
        close(to);
        return err_errno(err, errno, "a directory to be copied");
    }
    level.to_device = to_status.st_dev;
    level.to_inode = to_status.st_ino;
    if (tree->depth == tree->cap) {
        tree->cap = tree->cap ? tree->cap * 2 : 64;
        tree->levels = xrealloc(tree->levels, tree->cap * sizeof *tree->levels);
    }
    tree->levels[tree->depth++] = level;
    if (tree->depth > LEVELS_OPEN)
        level_close(&tree->levels[tree->depth - 1 - LEVELS_OPEN]);
    tree->copied.files++;
    return 0;
}

static void level_close(struct level *level) {
    fd_close(&level->from);
    fd_close(&level->to);
    free(level->dents);
    level->dents = NULL;
    level->dents_len = level->dents_at = 0;
}

static int directory_end(struct copytree *tree, const struct level *level, struct err *err) {
    const struct stat *status = &level->from_status;
    const struct timespec times[] = {status->st_atim, status->st_mtim};
    if (fchown(level->to, status->st_uid, status->st_gid) < 0)
        return err_errno(err, errno, "the copy of a directory");
    int r = copy_attributes(level->from, level->to, NULL, tree->bytes, err);
    if (r == 0 && (fchmod(level->to, status->st_mode & 07777) < 0 || futimens(level->to, times) < 0))
        r = err_errno(err, errno, "the copy of a directory");
    return r;
}

/* The one above is opened while this one still leads there. */
static int level_pop(struct copytree *tree, struct err *err) {
    struct level *level = &tree->levels[tree->depth - 1], *above = tree->depth > 1 ? level - 1 : NULL;
    int r = directory_end(tree, level, err);
    if (r == 0 && above && above->from < 0) {
        above->from = openat(level->from, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        above->to = openat(level->to, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = level_open(tree, err);
    }
    level_close(level);
    tree->depth--;
    return r;
}

/* The level above the deepest, just opened by "..": it must be the one we came from, and goes on where it was. */
static int level_open(struct copytree *tree, struct err *err) {
    struct level *level = &tree->levels[tree->depth - 2];
    struct stat from, to;
    if (level->from < 0 || level->to < 0 || fstat(level->from, &from) < 0 || fstat(level->to, &to) < 0)
        return err_errno(err, errno, "a directory to be copied");
    if (from.st_dev != level->from_status.st_dev || from.st_ino != level->from_status.st_ino ||
        to.st_dev != level->to_device || to.st_ino != level->to_inode)
        return err_set(err, ERR_IO, "a directory was moved while it was copied");
    if (lseek(level->from, level->offset, SEEK_SET) < 0)
        return err_errno(err, errno, "a directory to be copied");
    return 0;
}

/* ---- one entry ---- */

static int failed(const char *name, struct err *err) {
    return err_errno(err, errno, "'%.100s', while it was copied", name);
}

/* Without root's rights a mode may be in the way of the owner himself: for a moment it is not. */
static int open_from(int dirfd, const char *name, int flags, const struct stat *status) {
    flags |= O_RDONLY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dirfd, name, flags);
    if (fd >= 0 || errno != EACCES || status->st_uid != geteuid() ||
        fchmodat(dirfd, name, (status->st_mode & 07777) | 0500, 0) < 0)
        return fd;
    fd = openat(dirfd, name, flags);
    int saved = errno;
    if (fchmodat(dirfd, name, status->st_mode & 07777, 0) < 0)
        fd_close(&fd);
    errno = saved;
    return fd;
}

static int copy_directory(struct copytree *tree, const char *name, const struct stat *status, struct err *err) {
    const struct level *level = &tree->levels[tree->depth - 1];
    autofd from = open_from(level->from, name, O_DIRECTORY, status);
    if (from < 0)
        return failed(name, err);
    if (status->st_dev != level->from_status.st_dev)
        return err_set(err, ERR_UNSUPPORTED, "'%.100s' is another file system, which is not copied", name);
    if (mkdirat(level->to, name, 0700) < 0)
        return failed(name, err);
    autofd to = openat(level->to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return to < 0 ? failed(name, err) : level_push(tree, fd_take(&from), fd_take(&to), err);
}

static int copy_file(struct copytree *tree, const char *name, const struct stat *status, struct err *err) {
    const struct level *level = &tree->levels[tree->depth - 1];
    struct stat opened;
    autofd from = open_from(level->from, name, O_NONBLOCK, status);
    if (from < 0 || fstat(from, &opened) < 0)
        return failed(name, err);
    if (!S_ISREG(opened.st_mode) || opened.st_ino != status->st_ino)
        return err_set(err, ERR_IO, "'%.100s' was changed while it was copied", name);
    autofd to = openat(level->to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return failed(name, err);
    int r = copy_content(tree, from, to, opened.st_size, err);
    return r < 0 ? err_wrap(err, "'%.100s'", name) : 0;
}

static int copy_symlink(struct copytree *tree, const char *name, struct err *err) {
    const struct level *level = &tree->levels[tree->depth - 1];
    ssize_t n = readlinkat(level->from, name, tree->bytes, CHUNK_BYTES - 1);
    if (n < 0)
        return failed(name, err);
    tree->bytes[n] = 0;
    return symlinkat(tree->bytes, level->to, name) < 0 ? failed(name, err) : 0;
}

/* A device that is no whiteout could not have been made in a box: what it leads to would be the host's. */
static int copy_special(struct copytree *tree, const char *name, const struct stat *status, struct err *err) {
    const struct level *level = &tree->levels[tree->depth - 1];
    mode_t type = status->st_mode & S_IFMT;
    bool whiteout = type == S_IFCHR && status->st_rdev == makedev(0, 0);
    if (type != S_IFIFO && type != S_IFSOCK && !whiteout)
        return err_set(err, ERR_DENIED, "'%.100s' is a device, which no box can have made", name);
    return mknodat(level->to, name, type | 0600, 0) < 0 ? failed(name, err) : 0;
}

static bool open_links(struct copytree *tree) {
    for (unsigned i = 0; tree->links < 0 && i < 1000; i++) { /* the tree may hold such a name */
        snprintf(tree->links_name, sizeof tree->links_name, ".links-%u", i);
        if (faccessat(tree->from, tree->links_name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
            mkdirat(tree->to, tree->links_name, 0700) == 0)
            tree->links = openat(tree->to, tree->links_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return tree->links >= 0;
}

/* Another name of something that was copied before. */
static bool link_again(struct copytree *tree, const char *name, ino_t inode) {
    char own[32];
    snprintf(own, sizeof own, "%llu", (unsigned long long)inode);
    return tree->links >= 0 && linkat(tree->links, own, tree->levels[tree->depth - 1].to, name, 0) == 0;
}

/* It may have as many names as it can have: then the next one is a copy. */
static int link_first(struct copytree *tree, const char *name, ino_t inode, struct err *err) {
    char own[32];
    snprintf(own, sizeof own, "%llu", (unsigned long long)inode);
    if (!open_links(tree) ||
        (linkat(tree->levels[tree->depth - 1].to, name, tree->links, own, 0) < 0 && errno != EMLINK && errno != EEXIST))
        return failed(name, err);
    return 0;
}

/* The owner first: its change takes capabilities and set-id bits away. */
static int copy_status(struct copytree *tree, const char *name, const struct stat *status, struct err *err) {
    const struct level *level = &tree->levels[tree->depth - 1];
    const struct timespec times[] = {status->st_atim, status->st_mtim};
    if (fchownat(level->to, name, status->st_uid, status->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(name, err);
    int r = copy_attributes(level->from, level->to, name, tree->bytes, err);
    if (r == 0 && ((!S_ISLNK(status->st_mode) && fchmodat(level->to, name, status->st_mode & 07777, 0) < 0) ||
                   utimensat(level->to, name, times, AT_SYMLINK_NOFOLLOW) < 0))
        r = failed(name, err);
    return r;
}

static int copy_entry(struct copytree *tree, const char *name, struct err *err) {
    const struct level *level = &tree->levels[tree->depth - 1];
    struct stat status;
    if (fstatat(level->from, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(name, err);
    if (S_ISDIR(status.st_mode))
        return copy_directory(tree, name, &status, err);
    tree->copied.files++;
    bool several =
        status.st_nlink > 1 && !S_ISCHR(status.st_mode); /* the kernel shares whiteouts, which is its affair */
    if (several && link_again(tree, name, status.st_ino))
        return 0;
    int r = S_ISREG(status.st_mode)   ? copy_file(tree, name, &status, err)
            : S_ISLNK(status.st_mode) ? copy_symlink(tree, name, err)
                                      : copy_special(tree, name, &status, err);
    if (r == 0)
        r = copy_status(tree, name, &status, err);
    return r == 0 && several ? link_first(tree, name, status.st_ino, err) : r;
}

/* ---- attributes ---- */

/* Labels of the host's own security modules are not the box's to keep. */
static bool wanted(const char *attribute) {
    static const char *const prefixes[] = {"user.", "trusted.", "security.capability", "system.posix_acl_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(attribute, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* name NULL: of the directories themselves. */
static int copy_attributes(int from, int to, const char *name, char *bytes, struct err *err) {
    char path_from[NAME_MAX + 64], path_to[NAME_MAX + 64];
    snprintf(path_from, sizeof path_from, "/proc/self/fd/%d/%s", from, name ? name : ".");
    snprintf(path_to, sizeof path_to, "/proc/self/fd/%d/%s", to, name ? name : ".");
    char *names = bytes, *value = bytes + XATTR_LIST_MAX + 1;
    _Static_assert(XATTR_LIST_MAX + 1 + XATTR_SIZE_MAX <= CHUNK_BYTES, "room for a list and a value");
    ssize_t n = llistxattr(path_from, names, XATTR_LIST_MAX);
    if (n < 0)
        return errno == ENOTSUP ? 0 : failed(name ? name : ".", err);
    names[n] = 0;
    for (const char *at = names; at < names + n; at += strlen(at) + 1) {
        if (!wanted(at))
            continue;
        ssize_t len = lgetxattr(path_from, at, value, XATTR_SIZE_MAX);
        if (len < 0 || lsetxattr(path_to, at, value, (size_t)len, 0) < 0)
            return failed(name ? name : ".", err);
    }
    return 0;
}

/* ---- content ---- */

static bool is_unsupported(int number) {
    return number == EOPNOTSUPP || number == ENOTTY || number == EXDEV || number == EINVAL || number == ENOSYS ||
           number == ETXTBSY;
}

static int copy_range(struct copytree *tree, int from, int to, off_t at, off_t end) {
    bool by_kernel = true;
    while (at < end) {
        off_t here = at, there = at;
        size_t want = end - at < CHUNK_BYTES || by_kernel ? (size_t)(end - at) : CHUNK_BYTES;
        ssize_t n;
        if (by_kernel) {
            n = copy_file_range(from, &here, to, &there, want, 0);
            by_kernel = n > 0 || !(n == 0 || is_unsupported(errno));
            if (!by_kernel)
                continue;
        } else {
            n = pread(from, tree->bytes, want, at);
            if (n > 0)
                n = pwrite(to, tree->bytes, (size_t)n, at);
        }
        if (n <= 0)
            return n == 0 ? -EIO : -errno;
        at += n;
        tree->copied.bytes += (uint64_t)n;
    }
    return 0;
}

static int copy_content(struct copytree *tree, int from, int to, off_t size, struct err *err) {
    if (size == 0)
        return 0;
    if (!tree->no_clone && ioctl(to, FICLONE, from) == 0) {
        tree->cloned = true;
        return 0;
    }
    if (!tree->no_clone && !is_unsupported(errno))
        return err_errno(err, errno, "the copy");
    tree->no_clone = true;
    if (ftruncate(to, size) < 0)
        return err_errno(err, errno, "the copy");
    off_t at = 0;
    while (at < size && (at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(from, at, SEEK_HOLE);
        int r = end < 0 ? -errno : copy_range(tree, from, to, at, end < size ? end : size);
        if (r < 0)
            return err_errno(err, -r, "the copy");
        at = end;
    }
    return at >= 0 || errno == ENXIO ? 0 : err_errno(err, errno, "the copy");
}
