/* Layers and mounts as detached trees, idmapped for one box. Called once per box by the outer half (root), or by the
 * inner half of an ordinary user's box, which has nothing to idmap. Invariant: the only mapped id of a mount is that of
 * the directory's owner; mapping the host's root too would let a box leave setuid files of root on the host. */
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/base.h"
#include "runner/enter/enter.h"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

/* The id map of the last mount's owner, reused because most mounts of a box have one owner and each map costs a
 * process. */
struct owner_map {
    uid_t uid;
    gid_t gid;
    int userns; /* -1: none yet */
};

static int tree_layer_attributes(struct enter *enter, int tree, uint64_t flags, const char *path, struct err *err) {
    uint64_t idmap = enter->ranged ? MOUNT_ATTR_IDMAP : 0;
    int r = sys_mount_setattr(tree, flags | idmap | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                              enter->map_fd >= 0 ? enter->map_fd : enter->userns_fd);
    if (r == -EINVAL && idmap)
        return err_set(err, ERR_UNSUPPORTED,
                       "the file system of '%s' cannot be idmapped; move the state directory to ext4, xfs or btrfs",
                       path);
    return r < 0 ? err_errno(err, -r, "'%s'", path) : 0;
}

static int disk_tree(struct enter *enter, const char *path, uint64_t flags, int *ret_fd, struct err *err) {
    autofd tree = enter_disk(path, flags & MOUNT_ATTR_RDONLY, err);
    int r = tree < 0 ? tree : tree_layer_attributes(enter, tree, flags, path, err);
    if (r == 0)
        *ret_fd = fd_take(&tree);
    return r;
}

int enter_layers(struct enter *enter, struct err *err) {
    int r =
        enter_layer(enter, enter->template_dir, MOUNT_ATTR_RDONLY, &enter->lower_fd, err) ?: enter_lowers(enter, err);
    if (r == 0 && enter->disk)
        r = disk_tree(enter, enter->disk, 0, &enter->upper_fd, err);
    else if (r == 0 && enter->layers_dir)
        r = enter_layer(enter, enter->layers_dir, 0, &enter->upper_fd, err);
    for (size_t i = 0; r == 0 && i < enter->system_count; i++)
        r = enter_layer(enter, enter->system[i].source, MOUNT_ATTR_RDONLY, &enter->system[i].tree_fd, err);
    return r;
}

/* Maps only the owner's ids, to those of the box's user. */
static int tree_owner_namespace(struct enter *enter, struct owner_map *map, const struct stat *owner, struct err *err) {
    if (map->userns >= 0 && map->uid == owner->st_uid && map->gid == owner->st_gid)
        return 0;
    fd_close(&map->userns);
    int userns = enter_map(text_make(64, "%u %u 1\n", owner->st_uid, enter->owner_uid),
                           text_make(64, "%u %u 1\n", owner->st_gid, enter->owner_gid), err);
    if (userns < 0)
        return userns;
    *map = (struct owner_map){.uid = owner->st_uid, .gid = owner->st_gid, .userns = userns};
    return 0;
}

static int mount_tree(struct enter *enter, struct owner_map *map, struct enter_mount *mount, struct err *err) {
    struct stat owner;
    /* Without following links: the name was resolved when the box was made, and since then a box that may write there
     * could have made a link that leads anywhere on the host. */
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    autofd source = (int)syscall(SYS_openat2, AT_FDCWD, mount->source, &how, sizeof how);
    if (source < 0 && errno == ELOOP)
        return err_set(err, ERR_DENIED, "mount source '%s' passes a link", mount->source);
    autofd tree = source < 0 ? -errno : sys_open_tree(source, "", OPEN_TREE_CLONE | (enter->ranged ? 0 : AT_RECURSIVE));
    if (tree < 0 || fstat(tree, &owner) < 0)
        return err_errno(err, tree < 0 ? -tree : errno, "cannot open the mount source '%s'", mount->source);
    if (!S_ISDIR(owner.st_mode) && !S_ISREG(owner.st_mode))
        return err_set(err, ERR_INVALID, "mount source '%s' is neither a directory nor a file", mount->source);
    int mapped = enter->ranged ? tree_owner_namespace(enter, map, &owner, err) : 0;
    if (mapped < 0)
        return mapped;
    uint64_t flags = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (mount->read_only ? MOUNT_ATTR_RDONLY : 0);
    int r = sys_mount_setattr(tree, flags | (enter->ranged ? MOUNT_ATTR_IDMAP : 0), map->userns);
    if (r == -EINVAL && enter->ranged)
        return err_set(err, ERR_UNSUPPORTED,
                       "the file system of mount source '%s' cannot be idmapped; one on ext4, xfs, btrfs or tmpfs can",
                       mount->source);
    if (r < 0)
        return err_errno(err, -r, "cannot idmap the mount source '%s'", mount->source);
    mount->tree_fd = fd_take(&tree);
    return 0;
}

int enter_mounts(struct enter *enter, struct err *err) {
    int r = 0;
    struct owner_map map = {.userns = -1};
    for (size_t i = 0; r == 0 && i < enter->mount_count; i++)
        r = mount_tree(enter, &map, &enter->mounts[i], err);
    fd_close(&map.userns);
    return r;
}

int enter_layer(struct enter *enter, const char *path, uint64_t flags, int *ret_fd, struct err *err) {
    autofd tree = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE);
    if (tree < 0)
        return err_errno(err, -tree, "'%s'", path);
    int r = tree_layer_attributes(enter, tree, flags, path, err);
    if (r == 0)
        *ret_fd = fd_take(&tree);
    return r;
}

/* A layer is a directory or an image. A layer without files was named by a daemon that ended before it moved them in:
 * the box still has them, and nothing is added. */
int enter_lowers(struct enter *enter, struct err *err) {
    size_t count = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < enter->lower_count; i++) {
        char path[LIMIT_PATH_BYTES + 32];
        struct stat status;
        snprintf(path, sizeof path, "%s/%s", enter->store, enter->lowers[i]);
        if (lstat(path, &status) < 0)
            return err_errno(err, errno, "cannot open the kept layer '%s'", path);
        strncat(path, "/fs", sizeof path - strlen(path) - 1);
        if (lstat(path, &status) < 0 && errno == ENOENT)
            continue;
        r = S_ISREG(status.st_mode) ? disk_tree(enter, path, MOUNT_ATTR_RDONLY, &enter->lower_fds[count], err)
                                    : enter_layer(enter, path, MOUNT_ATTR_RDONLY, &enter->lower_fds[count], err);
        count++;
    }
    enter->lower_count = count;
    return r;
}

/* A namespace must be made by a process, which ends as soon as a descriptor holds the namespace. */
int enter_map(const char *uid_map, const char *gid_map, struct err *err) {
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_FILES, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        for (;;)
            pause();
    if (pid < 0)
        return err_errno(err, errno, "cannot start a process for an id map");
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/uid_map", pid);
    int r = fd_write_file(AT_FDCWD, path, uid_map);
    snprintf(path, sizeof path, "/proc/%ld/gid_map", pid);
    if (r == 0)
        r = fd_write_file(AT_FDCWD, path, gid_map);
    snprintf(path, sizeof path, "/proc/%ld/ns/user", pid);
    int fd = r < 0 ? r : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        r = err_errno(err, r < 0 ? -r : errno, "cannot make the id map of a mount");
    kill((pid_t)pid, SIGKILL);
    waitpid((pid_t)pid, NULL, 0);
    return fd < 0 ? r : fd;
}

/* ---- attaching ---- */

int enter_put(struct enter *enter, int root, struct err *err) {
    for (size_t i = 0; i < enter->mount_count; i++) {
        struct enter_mount *mount = &enter->mounts[i];
        struct stat status;
        if (fstat(mount->tree_fd, &status) < 0)
            return err_errno(err, errno, "cannot copy the mount source '%s'", mount->source);
        TRY(enter_target(enter, root, mount->target, S_ISDIR(status.st_mode), err));
        autofd target = path_open(root, mount->target, O_PATH, 0);
        if (target < 0)
            return err_errno(err, -target, "cannot make the mount target '%s'", mount->target);
        int r = sys_move_mount(mount->tree_fd, target, "");
        fd_close(&mount->tree_fd);
        if (r < 0)
            return err_errno(err, -r, "cannot mount on '%s'", mount->target);
    }
    return 0;
}

static int tree_make_part(const struct enter *enter, int root, const char *path, bool dir) {
    autofd parent = -1;
    char name[256];
    struct err err;
    if (path_open_parent(root, "", path, &parent, name, &err) < 0)
        return -ENOENT;
    if (dir ? mkdirat(parent, name, 0755) < 0 : mknodat(parent, name, S_IFREG | 0644, 0) < 0)
        return -errno;
    return fchownat(parent, name, enter->agent_uid, enter->agent_gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* A read-only root of a container is read-only for its processes; our mounts still need their targets. */
static int tree_make_part_below(const struct enter *enter, int root, const char *path, bool dir) {
    autofd tree = sys_open_tree(root, "", OPEN_TREE_CLONE);
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
    if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -EROFS;
    return tree_make_part(enter, tree, path, dir);
}

int enter_target(const struct enter *enter, int root, const char *target, bool dir, struct err *err) {
    char path[LIMIT_PATH_BYTES + 1];
    size_t len = strlen(target);
    for (size_t i = 1; i <= len; i++) {
        if (target[i] != '/' && target[i] != 0)
            continue;
        memcpy(path, target, i);
        path[i] = 0;
        autofd have = path_open(root, path, O_PATH, 0);
        if (have >= 0)
            continue;
        int r = tree_make_part(enter, root, path, target[i] || dir);
        if (r == -EROFS)
            r = tree_make_part_below(enter, root, path, target[i] || dir);
        if (r < 0)
            return err_errno(err, -r, "cannot make the mount target '%s'", target);
    }
    return 0;
}

int sys_open_tree(int dirfd, const char *path, unsigned flags) {
    flags |= OPEN_TREE_CLOEXEC | (*path ? 0 : AT_EMPTY_PATH);
    int fd = (int)syscall(SYS_open_tree, dirfd, path, flags);
    return fd < 0 ? -errno : fd;
}

int sys_move_mount(int from_fd, int to_fd, const char *to) {
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*to ? 0 : MOVE_MOUNT_T_EMPTY_PATH);
    return syscall(SYS_move_mount, from_fd, "", to_fd, to, flags) < 0 ? -errno : 0;
}

int sys_mount_setattr(int fd, uint64_t set, int userns_fd) {
    struct mount_attr attr = {.attr_set = set, .userns_fd = set & MOUNT_ATTR_IDMAP ? (uint64_t)userns_fd : 0};
    return syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ? -errno : 0;
}

/* Names are relative, because they show in the box's mountinfo.
 * userxattr: trusted.* is not available in a user namespace, and without either a removed directory could not be made
 * again. It also implies no redirects and no metacopy. The box cannot write user.overlay.* through the overlay. */
int enter_overlay(const struct enter *enter, const char *own, const char *upper, const char *lowest, const char *target,
                  struct err *err) {
    char options[2048] = "lowerdir="; /* part of a page; a layer takes at most 12 */
    size_t at = strlen(options);
    for (size_t i = 0; i < enter->lower_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "l%zu/%s", i, upper);
        if (access(name, F_OK) == 0) /* a box with fewer system directories, or without an agent, lacks it */
            at += (size_t)snprintf(options + at, sizeof options - at, "%s:", name);
    }
    snprintf(options + at, sizeof options - at, "%s,upperdir=%s/%s,workdir=%s/%s.work,index=off,userxattr", lowest, own,
             upper, own, upper);
    int r = mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, options);
    if (r < 0 && errno == ENODEV)
        return err_set(err, ERR_UNSUPPORTED, "the kernel has no overlayfs; modprobe overlay");
    return r < 0 ? err_errno(err, errno, "cannot mount the overlay on '%s'", target) : 0;
}
