/* Choosing and using a method of disk quota. Called by jail.c, slot.c and trash.c. Invariant: where a bound was asked
 * for, either it holds or there is no box. */
#include "backend/quota/quota.h"

#include <sys/utsname.h>
#include <sys/vfs.h>

#include "base/base.h"
#include "base/sync.h"

#define BYTES_PER_INODE 16384u /* as mke2fs has it: a tree of sources has about so much a file */
#define INODES_MIN 1024u
#define INODES_MAX (1ull << 31)
#define HALF "half" /* where a box's files are made before they are all there */

const struct quota_method *const quota_methods[] = {&quota_project, &quota_btrfs, &quota_loop, &quota_tmpfs, NULL};

/* ---- which ---- */

void quota_init(struct quota *quota, const struct backend_env *env) {
    *quota = (struct quota){.env = env};
    pthread_mutex_init(&quota->lock, NULL);
}

void quota_done(struct quota *quota) {
    while (quota->env->pool_size && quota_tidy(0))
        ;
    pthread_mutex_destroy(&quota->lock);
}

struct quota_size quota_size(uint64_t disk_mb) {
    uint64_t bytes = disk_mb << 20, inodes = bytes / BYTES_PER_INODE;
    inodes = inodes < INODES_MIN ? INODES_MIN : inodes > INODES_MAX ? INODES_MAX : inodes;
    return (struct quota_size){.mb = disk_mb, .bytes = bytes, .inodes = inodes};
}

/* Automatically, memory is used only for files that end with their box. */
static int quota_choose(const struct backend_env *env, bool one_shot, const struct quota_method **ret_method,
                        struct err *err) {
    const char *name = env->disk_quota ? env->disk_quota : "auto";
    bool automatic = strcmp(name, "auto") == 0;
    char why[sizeof err->text - 200] = "";
    size_t len = 0;
    if (automatic && one_shot && quota_tmpfs.probe(env, err) == 0) {
        *ret_method = &quota_tmpfs;
        return 0;
    }
    for (const struct quota_method *const *method = quota_methods; *method; method++) {
        if (automatic ? *method == &quota_tmpfs : strcmp((*method)->name, name) != 0)
            continue;
        if ((*method)->probe(env, err) == 0) {
            *ret_method = *method;
            return 0;
        }
        if (!automatic)
            return err_wrap(err, "a disk limit by the method '%s' (disk_quota)", name);
        if (len < sizeof why)
            len +=
                (size_t)snprintf(why + len, sizeof why - len, "%s%s: %s", len ? "; " : "", (*method)->name, err->text);
    }
    if (!automatic)
        return err_set(err, ERR_INVALID, "disk_quota: there is no method '%s'", name);
    if (geteuid() != 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "disk limits need cubbyd as root, or its state directory on btrfs. Without root, disk_quota: "
                       "tmpfs keeps files in memory, gone with the box's processes");
    return err_set(err, ERR_UNSUPPORTED,
                   "no way to limit disk space works here (%s); disk_quota: tmpfs keeps files in memory, gone with the "
                   "box's processes",
                   why);
}

int quota_find(struct quota *quota, bool one_shot, const struct quota_method **ret_method, struct err *err) {
    autolock(&quota->lock);
    int r = quota->method ? 0 : quota_choose(quota->env, one_shot, &quota->method, err);
    if (r == 0)
        *ret_method = quota->method;
    return r;
}

const struct quota_method *quota_probe(const struct backend_env *env, struct err *err) {
    const struct quota_method *method = NULL;
    return quota_choose(env, env->one_shot, &method, err) == 0 ? method : NULL;
}

/* ---- files ---- */

static const char *const quota_layer_names[] = {"upper", "upper.work", "upper.0", "upper.0.work", NULL};

/* Mode 0755 for the upper directories: they become the modes of / and /usr. An existing one is left as it is. */
int quota_layers(int fs, struct err *err) {
    if (fchmod(fs, 0755) < 0)
        return err_errno(err, errno, "the box's files");
    for (const char *const *name = quota_layer_names; *name; name++) {
        int r = mkdirat(fs, *name, 0755);
        if (r < 0 && errno == EEXIST)
            continue;
        if (r < 0 || fchmodat(fs, *name, 0755, 0) < 0)
            return err_errno(err, errno, "the box's '%s'", *name);
    }
    return 0;
}

static int quota_fill(int box_dir, struct err *err) {
    autofd fs = openat(box_dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fs < 0 ? err_errno(err, errno, "the box's files") : quota_layers(fs, err);
}

int quota_make(struct quota *quota, int box_dir, uint64_t disk_mb, bool one_shot, enum quota_form *ret_form,
               struct err *err) {
    const struct quota_method *method = !disk_mb && quota_in_store(box_dir) ? &quota_btrfs : NULL;
    struct quota_size size = quota_size(disk_mb);
    int r = 0;
    if (disk_mb)
        r = quota_find(quota, one_shot, &method, err);
    else
        size = (struct quota_size){0};
    if (r == 0 && method)
        r = method->make(quota->env, box_dir, &size, err);
    else if (r == 0)
        r = mkdirat(box_dir, "fs", 0755) < 0 ? err_errno(err, errno, "the box's files") : quota_fill(box_dir, err);
    if (r == 0)
        *ret_form = disk_mb ? method->form : QUOTA_DIRECTORY;
    return r;
}

bool quota_stock(struct quota *quota, uint64_t disk_mb) {
    const struct quota_method *method = NULL;
    const struct quota_size size = quota_size(disk_mb);
    struct err ignored; /* the next box says it */
    return disk_mb && quota_find(quota, false, &method, &ignored) == 0 && method->stock &&
           method->stock(quota->env, &size);
}

/* Remains of a daemon that was killed in quota_whole: they were never used. */
static void quota_drop_half(int box_dir) {
    autofd half = openat(box_dir, HALF, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (half < 0)
        return;
    autofd fs = openat(half, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (const char *const *name = quota_layer_names; fs >= 0 && *name; name++)
        unlinkat(fs, *name, AT_REMOVEDIR);
    if (!quota_remove(half) && unlinkat(half, "fs", 0) < 0)
        unlinkat(half, "fs", AT_REMOVEDIR);
    unlinkat(box_dir, HALF, AT_REMOVEDIR);
}

int quota_whole(struct quota *quota, int box_dir, uint64_t disk_mb, enum quota_form *ret_form, struct err *err) {
    quota_drop_half(box_dir);
    if (mkdirat(box_dir, HALF, 0700) < 0)
        return err_errno(err, errno, "the box's files");
    autofd half = openat(box_dir, HALF, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r =
        half < 0 ? err_errno(err, errno, "the box's files") : quota_make(quota, half, disk_mb, false, ret_form, err);
    if (r == 0 && renameat(half, "fs", box_dir, "fs") < 0)
        r = err_errno(err, errno, "the box's files");
    quota_drop_half(box_dir);
    return r;
}

bool quota_remove(int box_dir) {
    for (const struct quota_method *const *method = quota_methods; *method; method++)
        if ((*method)->remove && (*method)->remove(box_dir))
            return true;
    return false;
}

/* A daemon of an earlier version that was killed may have made only some of the layers. */
static int quota_complete(int box_dir, struct err *err) {
    bool all = faccessat(box_dir, "fs/upper.0.work", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    return all ? 0 : quota_fill(box_dir, err);
}

int quota_again(struct quota *quota, int box_dir, uint64_t disk_mb, enum quota_form *ret_form, struct err *err) {
    struct stat status;
    if (fstatat(box_dir, "fs", &status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? quota_whole(quota, box_dir, disk_mb, ret_form, err)
                               : err_errno(err, errno, "the box's files");
    if (disk_mb == 0 && S_ISDIR(status.st_mode)) {
        *ret_form = QUOTA_DIRECTORY;
        return quota_complete(box_dir, err);
    }
    struct quota_size size = quota_size(disk_mb);
    for (const struct quota_method *const *method = quota_methods; *method; method++) {
        int r = (*method)->again(quota->env, box_dir, &size, err);
        if (r == -ERR_NOT_FOUND)
            continue;
        if (r == 0 && (*method)->form == QUOTA_DIRECTORY)
            r = quota_complete(box_dir, err);
        if (r == 0)
            *ret_form = (*method)->form;
        return r;
    }
    return err_set(err, ERR_UNSUPPORTED,
                   "the box's files were made without a disk limit, or by a method that this machine no longer has; "
                   "delete the box to start over");
}

int quota_counted(int box_dir, uint64_t *ret_bytes) {
    for (const struct quota_method *const *method = quota_methods; *method; method++)
        if ((*method)->used && (*method)->used(box_dir, ret_bytes) == 0)
            return 0;
    return -ENOENT;
}

int quota_used(int box_dir, int root, uint64_t *ret_bytes) {
    struct statfs system;
    if (quota_counted(box_dir, ret_bytes) == 0)
        return 0;
    if (fstatfs(root, &system) < 0)
        return -errno;
    *ret_bytes = (uint64_t)(system.f_blocks - system.f_bfree) * (uint64_t)system.f_bsize;
    return 0;
}

/* ---- tmpfs: memory of the box, made by the runner; works for ordinary users too ---- */

static int quota_tmpfs_probe(const struct backend_env *env, struct err *err) {
    struct utsname name;
    unsigned major = 0, minor = 0;
    (void)env;
    uname(&name);
    sscanf(name.release, "%u.%u", &major, &minor);
    if (major < 6 || (major == 6 && minor < 6)) /* user.* attributes, which an overlay's upper layer needs */
        return err_set(err, ERR_UNSUPPORTED, "tmpfs below an overlay needs a kernel of at least 6.6");
    return 0;
}

/* An empty directory marks the box: it has files, and they are not here. */
static int quota_tmpfs_make(const struct backend_env *env, int box_dir, const struct quota_size *size,
                            struct err *err) {
    (void)env;
    (void)size;
    return mkdirat(box_dir, "fs", 0700) < 0 ? err_errno(err, errno, "the box's files") : 0;
}

static int quota_tmpfs_again(const struct backend_env *env, int box_dir, const struct quota_size *size,
                             struct err *err) {
    (void)env;
    (void)size;
    struct stat status;
    if (fstatat(box_dir, "fs", &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(status.st_mode) ||
        faccessat(box_dir, "fs/upper", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return -ERR_NOT_FOUND;
    return quota_tmpfs_probe(env, err);
}

const struct quota_method quota_tmpfs = {
    .name = "tmpfs",
    .form = QUOTA_MEMORY,
    .probe = quota_tmpfs_probe,
    .make = quota_tmpfs_make,
    .again = quota_tmpfs_again,
};

/* In a store STATE/boxes leads to another file system than the state directory's; it does not exist before the first
 * start. */
int quota_place(const struct backend_env *env) {
    int boxes = open(text_make(4200, "%s/boxes", env->state_dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return boxes >= 0 ? boxes : open(env->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}
