/* Copying the files of a box. Called for a layer with the box frozen, for moves between file systems, and for merging
 * layers. Invariant: the tree is hostile, so names are one component below an open directory, and nothing is followed,
 * opened in a way that blocks, or trusted to be short.
 *
 * 1. Iterative: a stack of levels; only the deepest LEVELS_OPEN hold descriptors. Above those, ".." is
 *    opened and must be the directory that was left, by device and inode.
 * 2. A reopened level continues where it was: without writers, the offsets of its entries are valid; with
 *    writers, entries may be missed, but nothing worse happens.
 * 3. A file with several names gets one in a directory next to the copy, named by device and inode; the
 *    other names are links to that. So no table is needed. The directory is removed at the end. */
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/base.h"
#include "tree/copytree.h"
#include "tree/dent.h"
#include "tree/removal.h"

enum { LEVELS_OPEN = 48, DENTS_BYTES = 16384, CHUNK_BYTES = 1 << 20, SMALL_BYTES = 16384 };

struct copytree_level {
    int from, to;            /* -1: closed; reopened by ".." */
    struct stat from_status; /* for its status at the end, and to recognize it */
    dev_t to_device;
    ino_t to_inode;
    int64_t offset; /* of the next entry */
    char *dents;    /* read but not processed; may be NULL */
    size_t dents_len, dents_at;
};

/* One entry: where it is, and where its copy goes. */
struct spot {
    int from, to;
    const char *name, *as;
    struct stat status;
};

struct copytree {
    struct copytree_level *levels;
    size_t depth, cap;
    bool live;           /* programs may write: a file that shrinks or disappears is not a failure */
    bool shared;         /* others may write: no owners, attributes, hard links or set-id bits */
    const char *without; /* prefix of attributes to skip; may be NULL */
    int to;              /* the top, owned by the caller */
    int links;           /* the copy's directory of hard links; -1: none yet */
    char links_name[32];
    char *bytes; /* CHUNK_BYTES */
    bool no_clone, cloned;
    struct copied copied;
};

static int tree_run(struct copytree *tree, struct err *err);
static int copytree_level_push(struct copytree *tree, int from, int to, struct err *err);
static int copytree_level_pop(struct copytree *tree, struct err *err);
static void copytree_level_close(struct copytree_level *level);
static int copytree_level_open(struct copytree *tree, struct err *err);
static int copytree_copy_entry(struct copytree *tree, struct spot *spot, struct err *err);
static int copytree_copy_attributes(struct copytree *tree, int from, const char *name, int to, const char *as,
                                    struct err *err);
static int copytree_copy_content(struct copytree *tree, int from, int to, off_t size, struct err *err);
static void copytree_links_remove(struct copytree *tree);

static void tree_init(struct copytree *tree, int to) {
    *tree = (struct copytree){.to = to, .links = -1, .bytes = xmalloc(CHUNK_BYTES)};
}

static void tree_done(struct copytree *tree) {
    for (size_t i = 0; i < tree->depth; i++)
        copytree_level_close(&tree->levels[i]);
    copytree_links_remove(tree);
    copytree_count(tree, &tree->copied);
    free(tree->levels);
    free(tree->bytes);
}

int copytree(int from, int to, struct copied *ret_copied, struct err *err) {
    struct copytree tree;
    tree_init(&tree, to);
    autofd own_from = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofd own_to = openat(to, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = own_from < 0 || own_to < 0 ? err_errno(err, errno, "cannot open the files to copy")
                                       : copytree_level_push(&tree, fd_take(&own_from), fd_take(&own_to), err);
    if (r == 0)
        r = tree_run(&tree, err);
    tree_done(&tree);
    if (r == 0)
        *ret_copied = tree.copied;
    return r;
}

int copytree_file(int from, int to, struct copied *ret_copied, struct err *err) {
    struct copytree tree;
    struct stat status;
    tree_init(&tree, -1);
    tree.copied.files = 1;
    int r = fstat(from, &status) < 0 ? err_errno(err, errno, "cannot read the file to copy")
                                     : copytree_copy_content(&tree, from, to, status.st_size, err);
    tree_done(&tree);
    if (r == 0)
        *ret_copied = tree.copied;
    return r;
}

int copytree_shared(int from_dir, const char *from, int to_dir, const char *to, const char *shown, struct err *err) {
    struct copytree tree;
    tree_init(&tree, -1);
    tree.shared = true;
    int r = copytree_copy_entry(&tree, &(struct spot){from_dir, to_dir, from, to, {0}}, err) ?: tree_run(&tree, err);
    tree_done(&tree);
    return r < 0 ? err_wrap(err, "copying '%s'", shown) : 0;
}

struct copytree *copytree_begin(int to, const char *without) {
    struct copytree *tree = xcalloc(1, sizeof *tree);
    tree_init(tree, to);
    tree->without = without;
    return tree;
}

int copytree_entry(struct copytree *tree, int from_dir, int to_dir, const char *name, struct err *err) {
    return copytree_copy_entry(tree, &(struct spot){from_dir, to_dir, name, name, {0}}, err);
}

void copytree_count(const struct copytree *tree, struct copied *ret_copied) {
    *ret_copied = tree->copied;
    ret_copied->method = tree->cloned && tree->copied.bytes == 0 ? "reflink" : "copy";
}

void copytree_end(struct copytree *tree) {
    tree_done(tree);
    free(tree);
}

static int tree_run(struct copytree *tree, struct err *err) {
    while (tree->depth > 0) {
        struct copytree_level *level = &tree->levels[tree->depth - 1];
        if (level->dents_at == level->dents_len) {
            if (!level->dents)
                level->dents = xmalloc(DENTS_BYTES);
            long n = syscall(SYS_getdents64, level->from, level->dents, DENTS_BYTES);
            if (n < 0)
                return err_errno(err, errno, "cannot read a directory to copy");
            level->dents_len = (size_t)n;
            level->dents_at = 0;
        }
        int r = 0;
        if (level->dents_len == 0) {
            r = copytree_level_pop(tree, err);
        } else {
            const struct dent *dent = (const void *)(level->dents + level->dents_at);
            level->dents_at += dent->size;
            level->offset = dent->offset;
            char name[NAME_MAX + 1];
            snprintf(name, sizeof name, "%s", dent->name); /* the level may move */
            if (!dent_dots(name))
                r = copytree_copy_entry(tree, &(struct spot){level->from, level->to, name, name, {0}}, err);
        }
        TRY(r);
    }
    return 0;
}

/* ---- levels ---- */

static int copytree_level_push(struct copytree *tree, int from, int to, struct err *err) {
    struct copytree_level level = {.from = from, .to = to};
    struct stat to_status;
    if (fstat(from, &level.from_status) < 0 || fstat(to, &to_status) < 0) {
        close(from);
        close(to);
        return err_errno(err, errno, "cannot read a directory to copy");
    }
    level.to_device = to_status.st_dev;
    level.to_inode = to_status.st_ino;
    vec_add(tree->levels, tree->depth, tree->cap) = level;
    if (tree->depth > LEVELS_OPEN)
        copytree_level_close(&tree->levels[tree->depth - 1 - LEVELS_OPEN]);
    tree->copied.files++;
    return 0;
}

static void copytree_level_close(struct copytree_level *level) {
    fd_close(&level->from);
    fd_close(&level->to);
    free(level->dents);
    level->dents = NULL;
    level->dents_len = level->dents_at = 0;
}

/* Sets the owner first, because that clears capabilities and set-id bits. */
static int copytree_directory_status(struct copytree *tree, int from, const struct stat *status, int to,
                                     struct err *err) {
    const struct timespec times[] = {status->st_atim, status->st_mtim};
    if (!tree->shared && fchown(to, status->st_uid, status->st_gid) < 0)
        return err_errno(err, errno, "cannot set the owner of a copied directory");
    int r = copytree_copy_attributes(tree, from, ".", to, ".", err);
    if (r == 0 && (fchmod(to, status->st_mode & (tree->shared ? 0777 : 07777)) < 0 || futimens(to, times) < 0))
        r = err_errno(err, errno, "cannot set mode and times of a copied directory");
    return r;
}

int copytree_directory(struct copytree *tree, int from, int to, struct err *err) {
    struct stat status;
    return fstat(from, &status) < 0 ? err_errno(err, errno, "cannot read a directory to copy")
                                    : copytree_directory_status(tree, from, &status, to, err);
}

/* Opens the parent while this level still leads there. */
static int copytree_level_pop(struct copytree *tree, struct err *err) {
    struct copytree_level *level = &tree->levels[tree->depth - 1], *above = tree->depth > 1 ? level - 1 : NULL;
    int r = copytree_directory_status(tree, level->from, &level->from_status, level->to, err);
    if (r == 0 && above && above->from < 0) {
        above->from = openat(level->from, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        above->to = openat(level->to, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = copytree_level_open(tree, err);
    }
    copytree_level_close(level);
    tree->depth--;
    return r;
}

/* Checks that the level above the deepest, just opened by "..", is the one we came from, and continues it. */
static int copytree_level_open(struct copytree *tree, struct err *err) {
    struct copytree_level *level = &tree->levels[tree->depth - 2];
    struct stat from, to;
    if (level->from < 0 || level->to < 0 || fstat(level->from, &from) < 0 || fstat(level->to, &to) < 0)
        return err_errno(err, errno, "cannot read a directory to copy");
    if (from.st_dev != level->from_status.st_dev || from.st_ino != level->from_status.st_ino ||
        to.st_dev != level->to_device || to.st_ino != level->to_inode)
        return err_set(err, ERR_IO, "a directory was moved while it was copied");
    if (lseek(level->from, level->offset, SEEK_SET) < 0)
        return err_errno(err, errno, "cannot read a directory to copy");
    return 0;
}

/* ---- one entry ---- */

static int copytree_failed(const struct spot *spot, struct err *err) {
    return err_errno(err, errno, "cannot copy '%.100s'", spot->name);
}

/* Without root's rights a mode may lock out the owner, so it is changed for a moment. */
static int copytree_open_from(const struct copytree *tree, const struct spot *spot, int flags) {
    flags |= O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
    const struct stat *status = &spot->status;
    int fd = openat(spot->from, spot->name, flags);
    if (fd >= 0 || errno != EACCES || tree->shared || status->st_uid != geteuid() ||
        fchmodat(spot->from, spot->name, (status->st_mode & 07777) | 0500, 0) < 0)
        return fd;
    fd = openat(spot->from, spot->name, flags);
    int saved = errno;
    if (fchmodat(spot->from, spot->name, status->st_mode & 07777, 0) < 0)
        fd_close(&fd);
    errno = saved;
    return fd;
}

static int copytree_copy_file(struct copytree *tree, const struct spot *spot, struct err *err) {
    struct stat opened;
    autofd from = copytree_open_from(tree, spot, O_NONBLOCK);
    if (from < 0 || fstat(from, &opened) < 0)
        return copytree_failed(spot, err);
    if (!S_ISREG(opened.st_mode) || opened.st_ino != spot->status.st_ino)
        return err_set(err, ERR_IO, "'%.100s' was changed while it was copied", spot->name);
    autofd to = openat(spot->to, spot->as, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return copytree_failed(spot, err);
    int r = copytree_copy_content(tree, from, to, opened.st_size, err);
    return r < 0 ? err_wrap(err, "'%.100s'", spot->name) : 0;
}

static int copytree_copy_symlink(struct copytree *tree, const struct spot *spot, struct err *err) {
    ssize_t n = readlinkat(spot->from, spot->name, tree->bytes, CHUNK_BYTES - 1);
    if (n < 0)
        return copytree_failed(spot, err);
    tree->bytes[n] = 0;
    return symlinkat(tree->bytes, spot->to, spot->as) < 0 ? copytree_failed(spot, err) : 0;
}

/* A device that is not a whiteout cannot come from a box; it would lead to the host's. */
static int copytree_copy_special(struct copytree *tree, const struct spot *spot, struct err *err) {
    mode_t type = spot->status.st_mode & S_IFMT;
    bool whiteout = type == S_IFCHR && spot->status.st_rdev == makedev(0, 0);
    if (tree->shared && type != S_IFIFO)
        return err_errno(err, EXDEV, "'%.100s'", spot->name);
    if (type != S_IFIFO && type != S_IFSOCK && !whiteout)
        return err_set(err, ERR_DENIED, "'%.100s' is a device, which no box can have made", spot->name);
    return mknodat(spot->to, spot->as, type | 0600, 0) < 0 ? copytree_failed(spot, err) : 0;
}

/* Sets the owner first, as for a directory. */
static int copytree_copy_status(struct copytree *tree, const struct spot *spot, struct err *err) {
    const struct stat *status = &spot->status;
    const struct timespec times[] = {status->st_atim, status->st_mtim};
    mode_t mode = status->st_mode & (tree->shared ? 0777 : 07777);
    if (!tree->shared && fchownat(spot->to, spot->as, status->st_uid, status->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return copytree_failed(spot, err);
    int r = copytree_copy_attributes(tree, spot->from, spot->name, spot->to, spot->as, err);
    if (r == 0 && ((!S_ISLNK(status->st_mode) && fchmodat(spot->to, spot->as, mode, 0) < 0) ||
                   utimensat(spot->to, spot->as, times, AT_SYMLINK_NOFOLLOW) < 0))
        r = copytree_failed(spot, err);
    return r;
}

/* ---- files that are being written ---- */

/* Returns whether a program has it open for writing. A lease that is broken at once sends a signal, ignored by
 * default. */
static bool copytree_is_written(int fd) {
    fcntl(fd, F_SETSIG, SIGURG);
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
        fcntl(fd, F_SETLEASE, F_UNLCK);
        return false;
    }
    return true;
}

/* Returns 1 if it is gone, or another file. If a program may have it mapped, its pages are cleaned before its times are
 * read, so that the next store changes the times. */
static int copytree_live_file(struct copytree *tree, struct spot *spot, bool there, bool *ret_hot, struct err *err) {
    autofd from = openat(spot->from, spot->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOATIME);
    struct stat status;
    if (from < 0 || fstat(from, &status) < 0)
        return errno == ENOENT || errno == ELOOP || errno == ENXIO ? 1 : copytree_failed(spot, err);
    if (!S_ISREG(status.st_mode) || status.st_ino != spot->status.st_ino)
        return 1;
    *ret_hot = copytree_is_written(from);
    if (*ret_hot &&
        (sync_file_range(from, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) <
             0 ||
         fstat(from, &status) < 0))
        return copytree_failed(spot, err);
    spot->status = status;
    autofd to =
        openat(spot->to, spot->as, O_WRONLY | (there ? O_TRUNC : O_CREAT | O_EXCL) | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return copytree_failed(spot, err);
    int r = copytree_copy_content(tree, from, to, status.st_size, err);
    if (r < 0)
        return err_wrap(err, "'%.100s'", spot->name);
    return copytree_directory_status(tree, from, &status, to, err);
}

int copytree_live(struct copytree *tree, int from_dir, int to_dir, const char *name, bool there,
                  struct stat *ret_status, bool *ret_hot, struct err *err) {
    struct spot spot = {from_dir, to_dir, name, name, {0}};
    tree->live = true;
    if (fstatat(from_dir, name, &spot.status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 1 : copytree_failed(&spot, err);
    if (S_ISDIR(spot.status.st_mode) || ((spot.status.st_mode ^ ret_status->st_mode) & S_IFMT) != 0 ||
        spot.status.st_ino != ret_status->st_ino)
        return 1;
    int r = S_ISREG(spot.status.st_mode)   ? copytree_live_file(tree, &spot, there, ret_hot, err)
            : there                        ? 0
            : S_ISLNK(spot.status.st_mode) ? copytree_copy_symlink(tree, &spot, err)
                                           : copytree_copy_special(tree, &spot, err);
    if (r == 0 && !S_ISREG(spot.status.st_mode))
        r = copytree_copy_status(tree, &spot, err);
    tree->copied.files++;
    *ret_status = spot.status;
    return r;
}

/* ---- files of several names ---- */

static void copytree_link_name(char name[40], const struct stat *status) {
    snprintf(name, 40, "%llx-%llx", (unsigned long long)status->st_dev, (unsigned long long)status->st_ino);
}

/* Uses a name that no tree can contain; the time of the containing directory stays. */
static bool copytree_links_open(struct copytree *tree) {
    uint64_t random;
    struct stat status;
    if (tree->links >= 0)
        return true;
    if (getrandom(&random, sizeof random, 0) != sizeof random || fstat(tree->to, &status) < 0)
        return false;
    snprintf(tree->links_name, sizeof tree->links_name, ".links-%llx", (unsigned long long)random);
    if (mkdirat(tree->to, tree->links_name, 0700) == 0)
        tree->links = openat(tree->to, tree->links_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return tree->links >= 0 && futimens(tree->to, (struct timespec[]){status.st_atim, status.st_mtim}) == 0;
}

static void copytree_links_remove(struct copytree *tree) {
    struct stat status;
    if (tree->links < 0)
        return;
    bool known = fstat(tree->to, &status) == 0;
    fd_close(&tree->links);
    removal_tree(tree->to, tree->links_name);
    if (known)
        futimens(tree->to, (struct timespec[]){status.st_atim, status.st_mtim});
}

/* Links another name of a file that was already copied. */
static bool copytree_link_again(const struct copytree *tree, const struct spot *spot) {
    char own[40];
    copytree_link_name(own, &spot->status);
    return tree->links >= 0 && linkat(tree->links, own, spot->to, spot->as, 0) == 0;
}

/* If it has as many names as possible, the next one is a copy. */
static int copytree_link_first(struct copytree *tree, const struct spot *spot, struct err *err) {
    char own[40];
    copytree_link_name(own, &spot->status);
    if (!copytree_links_open(tree) ||
        (linkat(spot->to, spot->as, tree->links, own, 0) < 0 && errno != EMLINK && errno != EEXIST))
        return copytree_failed(spot, err);
    return 0;
}

static int copytree_copy_entry(struct copytree *tree, struct spot *spot, struct err *err) {
    if (fstatat(spot->from, spot->name, &spot->status, AT_SYMLINK_NOFOLLOW) < 0)
        return tree->shared && errno == ENOENT && tree->depth > 0 ? 0 : copytree_failed(spot, err);
    mode_t mode = spot->status.st_mode;
    if (S_ISDIR(mode)) {
        autofd from = copytree_open_from(tree, spot, O_DIRECTORY);
        if (from < 0)
            return copytree_failed(spot, err);
        if (!tree->shared && tree->depth > 0 && spot->status.st_dev != tree->levels[0].from_status.st_dev)
            return err_set(err, ERR_UNSUPPORTED, "'%.100s' is another file system, which is not copied", spot->name);
        if (mkdirat(spot->to, spot->as, 0700) < 0)
            return copytree_failed(spot, err);
        autofd to = openat(spot->to, spot->as, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return to < 0 ? copytree_failed(spot, err) : copytree_level_push(tree, fd_take(&from), fd_take(&to), err);
    }
    tree->copied.files++;
    /* The kernel shares whiteouts among names, which need not be kept. */
    bool several = spot->status.st_nlink > 1 && !S_ISCHR(mode) && !tree->shared;
    if (several && copytree_link_again(tree, spot))
        return 0;
    TRY(S_ISREG(mode)   ? copytree_copy_file(tree, spot, err)
        : S_ISLNK(mode) ? copytree_copy_symlink(tree, spot, err)
                        : copytree_copy_special(tree, spot, err));
    TRY(copytree_copy_status(tree, spot, err));
    return several ? copytree_link_first(tree, spot, err) : 0;
}

/* ---- attributes ---- */

/* Labels of the host's security modules are not copied. */
static bool copytree_wanted(const char *attribute) {
    static const char *const prefixes[] = {"user.", "trusted.", "security.capability", "system.posix_acl_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(attribute, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static int copytree_copy_attributes(struct copytree *tree, int from, const char *name, int to, const char *as,
                                    struct err *err) {
    char path_from[NAME_MAX + 64], path_to[NAME_MAX + 64];
    char *names = tree->bytes, *value = names + XATTR_LIST_MAX + 1;
    _Static_assert(XATTR_LIST_MAX + 1 + XATTR_SIZE_MAX <= CHUNK_BYTES, "room for a list and a value");
    if (tree->shared)
        return 0;
    bool whole = strcmp(name, ".") == 0; /* on the descriptors themselves */
    if (tree->live && !whole)
        return 0; /* links and devices have none of a box's own */
    snprintf(path_from, sizeof path_from, whole ? "/proc/self/fd/%d" : "/proc/self/fd/%d/%s", from, name);
    snprintf(path_to, sizeof path_to, whole ? "/proc/self/fd/%d" : "/proc/self/fd/%d/%s", to, as);
    ssize_t n = tree->live ? flistxattr(to, names, XATTR_LIST_MAX) : 0;
    for (const char *at = names; at < names + n; at += strlen(at) + 1) /* it may have had others */
        if (copytree_wanted(at))
            fremovexattr(to, at);
    n = whole ? flistxattr(from, names, XATTR_LIST_MAX) : llistxattr(path_from, names, XATTR_LIST_MAX);
    if (n < 0 && tree->live && errno == ENOENT)
        return 0;
    if (n < 0)
        return errno == ENOTSUP ? 0 : err_errno(err, errno, "cannot read attributes of '%.100s'", name);
    names[n] = 0;
    for (const char *at = names; at < names + n; at += strlen(at) + 1) {
        if (!copytree_wanted(at) || (tree->without && strncmp(at, tree->without, strlen(tree->without)) == 0))
            continue;
        ssize_t len =
            whole ? fgetxattr(from, at, value, XATTR_SIZE_MAX) : lgetxattr(path_from, at, value, XATTR_SIZE_MAX);
        if (len < 0 && tree->live && (errno == ENODATA || errno == ENOENT))
            continue;
        if (len < 0 ||
            (whole ? fsetxattr(to, at, value, (size_t)len, 0) : lsetxattr(path_to, at, value, (size_t)len, 0)) < 0)
            return err_errno(err, errno, "cannot copy the attribute '%.100s' of '%.100s'", at, name);
    }
    return 0;
}

/* ---- content ---- */

static bool copytree_is_unsupported(int number) {
    return number == EOPNOTSUPP || number == ENOTTY || number == EXDEV || number == EINVAL || number == ENOSYS ||
           number == ETXTBSY || number == EPERM;
}

static int copytree_copy_range(struct copytree *tree, int from, int to, off_t at, off_t end) {
    bool by_kernel = true;
    while (at < end) {
        off_t here = at, there = at;
        size_t want = end - at < CHUNK_BYTES || by_kernel ? (size_t)(end - at) : CHUNK_BYTES;
        ssize_t n;
        if (by_kernel) {
            n = copy_file_range(from, &here, to, &there, want, 0);
            by_kernel = n > 0 || !(n == 0 || copytree_is_unsupported(errno));
            if (!by_kernel)
                continue;
        } else {
            n = pread(from, tree->bytes, want, at);
            if (n > 0)
                n = pwrite(to, tree->bytes, (size_t)n, at);
        }
        if (n == 0 && tree->live)
            return 0; /* it shrank, so its time has changed */
        if (n <= 0)
            return n == 0 ? -EIO : -errno;
        at += n;
        tree->copied.bytes += (uint64_t)n;
    }
    return 0;
}

static int copytree_copy_content(struct copytree *tree, int from, int to, off_t size, struct err *err) {
    if (size == 0)
        return 0;
    if (!tree->no_clone && ioctl(to, FICLONE, from) == 0) {
        tree->cloned = true;
        return 0;
    }
    if (!tree->no_clone && !copytree_is_unsupported(errno))
        return err_errno(err, errno, "cannot write the copy");
    tree->no_clone = true;
    if (size <= SMALL_BYTES) { /* not worth the calls for holes */
        ssize_t n = pread(from, tree->bytes, (size_t)size, 0);
        if (n < 0 || pwrite(to, tree->bytes, (size_t)n, 0) != n || (n < size && !tree->live && ftruncate(to, size) < 0))
            return err_errno(err, n < 0 || errno ? errno : EIO, "cannot write the copy");
        tree->copied.bytes += (uint64_t)n;
        return 0;
    }
    if (ftruncate(to, size) < 0)
        return err_errno(err, errno, "cannot write the copy");
    off_t at = 0;
    while (at < size && (at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(from, at, SEEK_HOLE);
        int r = end < 0 ? -errno : copytree_copy_range(tree, from, to, at, end < size ? end : size);
        if (r < 0)
            return err_errno(err, -r, "cannot write the copy");
        at = end;
    }
    return at >= 0 || errno == ENXIO ? 0 : err_errno(err, errno, "cannot write the copy");
}
