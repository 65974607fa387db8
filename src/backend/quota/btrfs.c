/* Disk quota on btrfs: box/fs is a subvolume with a limited qgroup. Needs root and quotas turned on, which is the
 * administrator's decision. The number of files is bounded through the bytes that their metadata takes. Invariant: a
 * subvolume looks like a directory and is on another device: it goes with its own ioctl, at once and whole. */
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "base/base.h"
#include "backend/quota/quota.h"
#include "backend/quota/store.h"

static bool btrfs_is(int fd) {
    struct statfs system;
    return fstatfs(fd, &system) == 0 && (unsigned long)system.f_type == BTRFS_SUPER_MAGIC;
}

/* One item of the quota tree, its first `size` bytes. */
static int btrfs_item(int fd, uint32_t type, uint64_t offset, void *ret_item, size_t size) {
    struct btrfs_ioctl_search_args args = {.key = {.tree_id = BTRFS_QUOTA_TREE_OBJECTID,
                                                   .max_objectid = 0,
                                                   .min_offset = offset,
                                                   .max_offset = offset,
                                                   .max_transid = UINT64_MAX,
                                                   .min_type = type,
                                                   .max_type = type,
                                                   .nr_items = 1}};
    if (ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0)
        return -errno;
    struct btrfs_ioctl_search_header head;
    memcpy(&head, args.buf, sizeof head);
    if (args.key.nr_items != 1 || head.type != type || head.offset != offset || head.len < size)
        return -ENOENT;
    memcpy(ret_item, args.buf + sizeof head, size);
    return 0;
}

static int btrfs_probe(const struct backend_env *env, struct err *err) {
    struct btrfs_qgroup_status_item status;
    autofd state = quota_place(env);
    if (state < 0 || !btrfs_is(state))
        return err_set(err, ERR_UNSUPPORTED, "the state directory is not on btrfs, and has no store (store: btrfs)");
    if (geteuid() != 0)
        return err_set(err, ERR_UNSUPPORTED, "needs root; run cubbyd as root");
    if (btrfs_item(state, BTRFS_QGROUP_STATUS_KEY, 0, &status, sizeof status.version + sizeof status.generation) < 0)
        return err_set(err, ERR_UNSUPPORTED, "quotas are off; btrfs quota enable %s", env->state_dir);
    return 0;
}

static int btrfs_limit(int fs, const struct quota_size *size, struct err *err) {
    struct btrfs_ioctl_qgroup_limit_args args = {
        /* 0: the subvolume's own group */
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = size->bytes}};
    return ioctl(fs, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? err_errno(err, errno, "the box's qgroup") : 0;
}

bool quota_in_store(int box_dir) {
    struct btrfs_qgroup_limit_item item;
    return btrfs_is(box_dir) && btrfs_item(box_dir, BTRFS_QGROUP_LIMIT_KEY, STORE_GROUP, &item, sizeof item) == 0;
}

/* The quotas of kernels before 6.7 lose count when a member of a group is snapshotted, and with it the limits. */
bool quota_can_snapshot(int box_dir) {
    enum { SIMPLE_MODE = 1 << 3 }; /* BTRFS_QGROUP_STATUS_FLAG_SIMPLE_MODE */
    struct btrfs_qgroup_status_item status;
    if (!quota_in_store(box_dir))
        return true;
    return btrfs_item(box_dir, BTRFS_QGROUP_STATUS_KEY, 0, &status,
                      sizeof status.version + sizeof status.generation + sizeof status.flags) == 0 &&
           (status.flags & SIMPLE_MODE);
}

static int btrfs_make(const struct backend_env *env, int box_dir, const struct quota_size *size, struct err *err) {
    _Alignas(struct btrfs_qgroup_inherit) uint8_t room[sizeof(struct btrfs_qgroup_inherit) + sizeof(uint64_t)] = {0};
    struct btrfs_qgroup_inherit *inherit = (struct btrfs_qgroup_inherit *)(void *)room;
    inherit->num_qgroups = 1;
    inherit->qgroups[0] = STORE_GROUP;
    struct btrfs_ioctl_vol_args_v2 args = {.name = "fs"};
    (void)env;
    if (quota_in_store(box_dir)) {
        args.flags = BTRFS_SUBVOL_QGROUP_INHERIT;
        args.size = sizeof room;
        args.qgroup_inherit = inherit;
    }
    if (ioctl(box_dir, BTRFS_IOC_SUBVOL_CREATE_V2, &args) < 0)
        return err_errno(err, errno, "the box's subvolume");
    autofd fs = openat(box_dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fs < 0)
        return err_errno(err, errno, "the box's subvolume");
    int r = size->bytes ? btrfs_limit(fs, size, err) : 0;
    return r < 0 ? r : quota_layers(fs, err);
}

static int btrfs_open(int box_dir) {
    struct stat status;
    autofd fs = openat(box_dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fs < 0 || !btrfs_is(fs) || fstat(fs, &status) < 0 || status.st_ino != BTRFS_FIRST_FREE_OBJECTID)
        return -ENOENT;
    return fd_take(&fs);
}

static int btrfs_again(const struct backend_env *env, int box_dir, const struct quota_size *size, struct err *err) {
    autofd fs = btrfs_open(box_dir);
    if (fs < 0)
        return -ERR_NOT_FOUND;
    int r = btrfs_probe(env, err);
    return r < 0 ? r : btrfs_limit(fs, size, err);
}

static int btrfs_used(int box_dir, uint64_t *ret_bytes) {
    autofd fs = btrfs_open(box_dir);
    struct btrfs_ioctl_get_subvol_info_args info;
    struct btrfs_qgroup_info_item item;
    if (fs < 0)
        return fs;
    if (ioctl(fs, BTRFS_IOC_GET_SUBVOL_INFO, &info) < 0)
        return -errno;
    int r = btrfs_item(fs, BTRFS_QGROUP_INFO_KEY, info.treeid, &item, sizeof item);
    if (r == 0)
        *ret_bytes = item.rfer;
    return r;
}

/* The group stays if the kernel does not remove it as well; one that is still counted is left for later. */
static bool btrfs_remove(int box_dir) {
    autofd fs = btrfs_open(box_dir);
    if (fs < 0)
        return false;
    struct btrfs_ioctl_get_subvol_info_args info = {0};
    bool known = ioctl(fs, BTRFS_IOC_GET_SUBVOL_INFO, &info) == 0;
    struct btrfs_ioctl_vol_args args = {.name = "fs"};
    if (ioctl(box_dir, BTRFS_IOC_SNAP_DESTROY, &args) < 0)
        return false;
    struct btrfs_ioctl_qgroup_create_args group = {.create = 0, .qgroupid = info.treeid};
    if (known)
        ioctl(box_dir, BTRFS_IOC_QGROUP_CREATE, &group);
    return true;
}

const struct quota_method quota_btrfs = {
    .name = "btrfs",
    .form = QUOTA_DIRECTORY,
    .probe = btrfs_probe,
    .make = btrfs_make,
    .again = btrfs_again,
    .used = btrfs_used,
    .remove = btrfs_remove,
};
