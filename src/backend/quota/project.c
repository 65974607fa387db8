/* Disk quota by projects of ext4 and XFS: box/fs carries a project id of its own, which everything made below
 * inherits, and the file system bounds the usage of a project. Needs root and a file system mounted with project
 * quota. Invariant: the id is unique, and is set on `fs` before anything is made in it. */
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "backend/quota/quota.h"

#ifndef PRJQUOTA
#define PRJQUOTA 2
#endif
#define PROJECT_FIRST 0x40000000u /* a range that is not used in /etc/projid by hand */
#define PROJECT_TRIES 64
#define BLOCK_BYTES 1024u /* what dqb_bhardlimit counts in, whatever the file system's blocks are */

static int project_control(int fd, int command, uint32_t id, void *data) {
    return syscall(SYS_quotactl_fd, fd, QCMD(command, PRJQUOTA), id, data) < 0 ? -errno : 0;
}

/* Counting alone is not enough: limits must be enforced. */
static int project_enforced(int state, struct err *err) {
    struct fsxattr attributes;
    struct fs_quota_statv status = {.qs_version = FS_QSTATV_VERSION1};
    const unsigned both = FS_QUOTA_PDQ_ACCT | FS_QUOTA_PDQ_ENFD;
    if (geteuid() != 0)
        return err_set(err, ERR_UNSUPPORTED, "needs root; run cubbyd as root");
    if (state < 0 || ioctl(state, FS_IOC_FSGETXATTR, &attributes) < 0)
        return err_set(err, ERR_UNSUPPORTED, "the file system of the state directory has no projects");
    if (project_control(state, Q_XGETQSTATV, 0, &status) < 0 || (status.qs_flags & both) != both)
        return err_set(err, ERR_UNSUPPORTED,
                       "the state directory's file system is not mounted with prjquota (ext4: first tune2fs -O "
                       "project,quota)");
    return 0;
}

static int project_probe(const struct backend_env *env, struct err *err) {
    autofd state = quota_place(env);
    return project_enforced(state, err);
}

/* An id that counts nothing and bounds nothing is free. */
static int project_free_id(int fd, uint32_t *ret_id, struct err *err) {
    for (int tries = 0; tries < PROJECT_TRIES; tries++) {
        uint32_t id;
        struct dqblk block = {0};
        if (getrandom(&id, sizeof id, 0) != sizeof id)
            return err_errno(err, errno, "getrandom");
        id = PROJECT_FIRST | (id & (PROJECT_FIRST - 1));
        int r = project_control(fd, Q_GETQUOTA, id, &block);
        if (r < 0 && r != -ENOENT && r != -ESRCH)
            return err_errno(err, -r, "the box's project");
        if (r < 0 || (block.dqb_bhardlimit == 0 && block.dqb_curspace == 0 && block.dqb_curinodes == 0)) {
            *ret_id = id;
            return 0;
        }
    }
    return err_set(err, ERR_LIMIT, "no free project id was found in %d tries", PROJECT_TRIES);
}

static int project_limit(int fs, uint32_t id, const struct quota_size *size, struct err *err) {
    struct dqblk block = {
        .dqb_bhardlimit = size->bytes / BLOCK_BYTES, .dqb_ihardlimit = size->inodes, .dqb_valid = QIF_LIMITS};
    int r = project_control(fs, Q_SETQUOTA, id, &block);
    return r < 0 ? err_errno(err, -r, "the box's project") : 0;
}

static int project_bind(int fs, const struct quota_size *size, struct err *err) {
    struct fsxattr attributes;
    uint32_t id = 0;
    if (ioctl(fs, FS_IOC_FSGETXATTR, &attributes) < 0)
        return err_errno(err, errno, "the box's files");
    int r = project_free_id(fs, &id, err);
    if (r == 0)
        r = project_limit(fs, id, size, err);
    if (r < 0)
        return r;
    attributes.fsx_projid = id;
    attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    return ioctl(fs, FS_IOC_FSSETXATTR, &attributes) < 0 ? err_errno(err, errno, "the box's project") : 0;
}

static int project_make(const struct backend_env *env, int box_dir, const struct quota_size *size, struct err *err) {
    (void)env;
    if (mkdirat(box_dir, "fs", 0755) < 0)
        return err_errno(err, errno, "the box's files");
    autofd fs = openat(box_dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fs < 0)
        return err_errno(err, errno, "the box's files");
    TRY(project_bind(fs, size, err));
    return quota_layers(fs, err);
}

int quota_bind(int dir, uint64_t mb, struct err *err) {
    const struct quota_size size = quota_size(mb);
    TRY(project_enforced(dir, err));
    return project_bind(dir, &size, err);
}

void quota_unbind(int dir) {
    struct fsxattr attributes;
    struct dqblk none = {.dqb_valid = QIF_LIMITS};
    if (ioctl(dir, FS_IOC_FSGETXATTR, &attributes) == 0 && attributes.fsx_projid >= PROJECT_FIRST)
        project_control(dir, Q_SETQUOTA, attributes.fsx_projid, &none);
}

static int project_open(int box_dir, uint32_t *ret_id) {
    struct fsxattr attributes;
    autofd fs = openat(box_dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fs < 0 || ioctl(fs, FS_IOC_FSGETXATTR, &attributes) < 0 || attributes.fsx_projid < PROJECT_FIRST ||
        !(attributes.fsx_xflags & FS_XFLAG_PROJINHERIT))
        return -ENOENT;
    *ret_id = attributes.fsx_projid;
    return fd_take(&fs);
}

static int project_again(const struct backend_env *env, int box_dir, const struct quota_size *size, struct err *err) {
    uint32_t id;
    autofd fs = project_open(box_dir, &id);
    if (fs < 0)
        return -ERR_NOT_FOUND;
    int r = project_probe(env, err);
    return r < 0 ? r : project_limit(fs, id, size, err);
}

static int project_used(int box_dir, uint64_t *ret_bytes) {
    uint32_t id;
    struct dqblk block = {0};
    autofd fs = project_open(box_dir, &id);
    int r = fs < 0 ? fs : project_control(fs, Q_GETQUOTA, id, &block);
    if (r == 0)
        *ret_bytes = block.dqb_curspace;
    return r;
}

/* The id is free again; its files are still to be removed. */
static bool project_remove(int box_dir) {
    uint32_t id;
    struct dqblk none = {.dqb_valid = QIF_LIMITS};
    autofd fs = project_open(box_dir, &id);
    if (fs >= 0)
        project_control(fs, Q_SETQUOTA, id, &none);
    return false;
}

const struct quota_method quota_project = {
    .name = "project",
    .form = QUOTA_DIRECTORY,
    .probe = project_probe,
    .make = project_make,
    .again = project_again,
    .used = project_used,
    .remove = project_remove,
};
