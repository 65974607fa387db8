/* Mounts /skills of a running box: an overlay of its user's layer, its kept layers, and the layers of its agent's
 * public skills; in a container also the users' mounts. Called by main for `attach`: a new, single-threaded process
 * that the daemon spawned on the host, and the only one that ever mounts anything into a running box; and by the inner
 * half of an ordinary user's box, which cannot be entered later. Invariant: two overlays never use one upper layer at
 * the same time, so the old one is unmounted first, and only if it is not in use; the daemon pauses the box during that
 * time. A failure leaves the old one in place.
 *
 * The layers are assembled in a private copy of the box's mounts, because an overlay accepts only layers that are
 * mounted where it is made. That copy also keeps the old overlay from ending while the box is paused: an overlay that
 * ends writes its file system to the disk. */
#include <grp.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "base/base.h"
#include "runner/enter/enter.h"
#include "runner/runner.h"
#include "wire/spec.h"

/* Covered only in the copy. */
#define STAGE "/proc"

struct attach_state {
    struct enter enter;
    int self_fd, box_fd, copy_fd, stage_fd, root_fd;
    int own_fd;
    int old_fds[LIMIT_SKILL_PATHS + 1], new_fds[LIMIT_SKILL_PATHS + 1];
    bool gone[LIMIT_SKILL_PATHS + 1],
        come[LIMIT_SKILL_PATHS + 1]; /* the old one was removed, the new one mounted, at that path */
};

static struct attach_state *attach_of(struct enter *enter) {
    return (struct attach_state *)enter; /* its first member */
}

static int attach_make_map(struct enter *enter, struct err *err) {
    return enter->uid_map && (enter->map_fd = enter_map(enter->uid_map, enter->gid_map, err)) < 0 ? enter->map_fd : 0;
}

static int enter_user(struct enter *enter, struct err *err) {
    /* A container may share the host's, and a process cannot enter the namespace it is in. */
    struct stat own, box;
    if (fstatat(attach_of(enter)->self_fd, "ns/user", &own, 0) == 0 && fstat(enter->userns_fd, &box) == 0 &&
        own.st_ino == box.st_ino && own.st_dev == box.st_dev)
        return 0;
    if (setns(enter->userns_fd, CLONE_NEWUSER) < 0)
        return err_errno(err, errno, "setns");
    if (enter->ranged && (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
        return err_errno(err, errno, "setresuid");
    return 0;
}

static int attach_put_mounts(struct enter *enter, struct err *err) {
    return enter_put(enter, attach_of(enter)->root_fd, err);
}

/* In a container mounts may be shared with others: changes in the copy must stay there. */
static int attach_copy_mounts(struct enter *enter, struct err *err) {
    struct attach_state *attach = attach_of(enter);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return err_errno(err, errno, "unshare");
    attach->copy_fd = openat(attach->self_fd, "ns/mnt", O_RDONLY | O_CLOEXEC);
    return attach->copy_fd < 0 ? err_errno(err, errno, "cannot use the copy") : 0;
}

static int read_attach(struct enter *enter, struct err *err) {
    TRY(enter_message(enter, enter->plan_bytes, sizeof enter->plan_bytes, err));
    if ((enter->mount_count && !enter->uid_map) || !enter->uid_map != !enter->gid_map ||
        (enter->skills.count && !enter->skills.store) || (enter->lower_count && !enter->store))
        return err_set(err, ERR_PROTOCOL, "the message for attach is incomplete");
    return 0;
}

/* ---- the layers, as detached trees ---- */

int attach_open(struct enter *enter, struct err *err) {
    struct enter_skills *skills = &enter->skills;
    for (size_t i = 0; i < skills->count; i++) {
        const char *path = text_make(LIMIT_PATH_BYTES + 32, "%s/%s", skills->store, skills->names[i]);
        TRY(enter_layer(enter, path, MOUNT_ATTR_RDONLY, &skills->fds[i], err));
    }
    return 0;
}

static int attach_open_all(struct enter *enter, struct err *err) {
    TRY(enter_mounts(enter, err) ?: enter_lowers(enter, err));
    if (enter->layers_dir)
        TRY(enter_layer(enter, enter->layers_dir, 0, &attach_of(enter)->own_fd, err));
    return attach_open(enter, err);
}

/* An ordinary user can only do this among their own mounts. */
static int attach_inner_open(struct enter *enter, struct err *err) {
    return unshare(CLONE_NEWNS) < 0 ? err_errno(err, errno, "unshare") : attach_open_all(enter, err);
}

/* ---- into the box ---- */

static int enter_space(int fd, struct err *err) {
    return setns(fd, CLONE_NEWNS) < 0 ? err_errno(err, errno, "setns") : 0;
}

static int enter_mount_space(struct enter *enter, struct err *err) {
    struct attach_state *attach = attach_of(enter);
    TRY(enter_space(attach->box_fd, err));
    attach->root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC); /* the box's, not the copy's */
    return attach->root_fd < 0 ? err_errno(err, errno, "cannot open its root") : 0;
}

static bool attach_is_overlay(int fd) {
    struct statfs status;
    return fstatfs(fd, &status) == 0 && status.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* A file system without a name on the host was left where the overlay is: enter_root.c, show_own. */
static int attach_find_own(struct enter *enter, struct err *err) {
    struct attach_state *attach = attach_of(enter);
    if (enter->layers_dir)
        return 0;
    for (;;) {
        autofd top = open(SKILLS_PATH, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (top < 0)
            return err_errno(err, errno, SKILLS_PATH);
        bool covered = attach_is_overlay(top);
        fd_close(&top);
        if (!covered)
            break;
        if (umount2(SKILLS_PATH, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
            return err_errno(err, errno, SKILLS_PATH);
    }
    attach->own_fd = sys_open_tree(AT_FDCWD, SKILLS_PATH, OPEN_TREE_CLONE);
    return attach->own_fd < 0 ? err_errno(err, -attach->own_fd, SKILLS_PATH) : 0;
}

/* ---- the stage ---- */

static int attach_put(int tree_fd, const char *name, struct err *err) {
    int r = mkdir(name, 0755) < 0 ? -errno : sys_move_mount(tree_fd, AT_FDCWD, name);
    return r < 0 ? err_errno(err, -r, "'%s'", name) : 0;
}

static int attach_make_stage(struct enter *enter, struct err *err) {
    struct attach_state *attach = attach_of(enter);
    if (mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") < 0 || chdir(STAGE) < 0)
        return err_errno(err, errno, "tmpfs");
    attach->stage_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (attach->stage_fd < 0)
        return err_errno(err, errno, "cannot make the stage");
    TRY(attach_put(attach->own_fd, "own", err));
    for (size_t i = 0; i < enter->lower_count; i++)
        TRY(attach_put(enter->lower_fds[i], text_make(32, "l%zu", i), err));
    return attach_stage(enter, "own", err);
}

static int attach_make_upper(const struct enter *enter, const char *own, struct err *err) {
    char path[64], work[64];
    snprintf(path, sizeof path, "%s/skills", own);
    snprintf(work, sizeof work, "%s/skills.work", own);
    if (mkdir(path, 0755) == 0) {
        if (chown(path, enter->agent_uid, enter->agent_gid) < 0)
            return err_errno(err, errno, "'%s'", path);
    } else if (errno != EEXIST) {
        return err_errno(err, errno, "'%s'", path);
    }
    return mkdir(work, 0755) < 0 && errno != EEXIST ? err_errno(err, errno, "'%s'", work) : 0;
}

/* Makes the lowest layer, with one directory: a tree that is moved through it hides whatever later layers have under
 * its name (skill/own/change.c). */
static int attach_make_lowest(const struct enter *enter) {
    static const char *const names[] = {"lowest", "lowest/" SKILLS_CHANGES, "lowest/" SKILLS_CHANGES "/whole"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mkdir(names[i], 0755) < 0 || chown(names[i], enter->agent_uid, enter->agent_gid) < 0)
            return -errno;
    return 0;
}

int attach_stage(struct enter *enter, const char *own, struct err *err) {
    if (mkdir("merged", 0755) < 0 || attach_make_lowest(enter) < 0)
        return err_errno(err, errno, "cannot open the stage");
    TRY(attach_make_upper(enter, own, err));
    for (size_t i = 0; i < enter->skills.count; i++)
        TRY(attach_put(enter->skills.fds[i], text_make(32, "s%zu", i), err));
    return 0;
}

int attach_overlay(struct enter *enter, const char *own, struct err *err) {
    char lowest[1024] = "";
    size_t at = 0;
    for (size_t i = 0; i < enter->skills.count; i++)
        at += (size_t)snprintf(lowest + at, sizeof lowest - at, "s%zu:", i);
    snprintf(lowest + at, sizeof lowest - at, "lowest");
    return enter_overlay(enter, own, "skills", lowest, "merged", err);
}

static int attach_make_new(struct enter *enter, struct err *err) {
    struct attach_state *attach = attach_of(enter);
    int r = enter_space(attach->copy_fd, err);
    if (r == 0 && fchdir(attach->stage_fd) < 0)
        r = err_errno(err, errno, "cannot open the stage");
    if (r == 0)
        r = attach_overlay(enter, "own", err);
    for (size_t i = 0; r == 0 && i < enter->skills.path_count; i++) {
        attach->new_fds[i] = sys_open_tree(AT_FDCWD, "merged", OPEN_TREE_CLONE);
        if (attach->new_fds[i] < 0)
            r = err_errno(err, -attach->new_fds[i], "overlay");
    }
    return enter_space(attach->box_fd, r == 0 ? err : ERR_IGNORED) < 0 && r == 0 ? -err->code : r;
}

/* ---- exchanging overlays ---- */

/* Goes to the parent of the directory it is mounted on; name gets the last part, which must not be a link. */
static int attach_go_to(struct attach_state *attach, const char *path, char name[256], struct err *err) {
    autofd parent = -1;
    int r = path_open_parent(attach->root_fd, "", path, &parent, name, err);
    return r == 0 && fchdir(parent) < 0 ? err_errno(err, errno, "'%s'", path) : r;
}

/* Returns whether an overlay, and so one of ours, is mounted on name in the working directory. */
static bool attach_is_mounted(const char *name) {
    autofd fd = open(name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat there, here;
    return fd >= 0 && attach_is_overlay(fd) && fstat(fd, &there) == 0 && stat(".", &here) == 0 &&
           there.st_dev != here.st_dev;
}

/* Does not follow links that root of the box has made. */
static int attach_make_target(struct attach_state *attach, const char *path, struct err *err) {
    char name[256];
    struct stat status;
    if (attach_go_to(attach, path, name, err) == 0 && lstat(name, &status) == 0 && !S_ISDIR(status.st_mode) &&
        unlink(name) < 0)
        return err_errno(err, errno, "'%s'", path);
    return enter_target(&attach->enter, attach->root_fd, path, true, err);
}

/* Then closes the descriptor, which would count as a use until we end. */
static int attach_put_at(struct attach_state *attach, int *tree_fd, const char *path, struct err *err) {
    char name[256];
    TRY(attach_go_to(attach, path, name, err));
    autofd target = open(name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = target < 0 ? -errno : sys_move_mount(*tree_fd, target, "");
    if (r == 0)
        fd_close(tree_fd);
    return r < 0 ? err_errno(err, -r, "'%s'", path) : 0;
}

static int attach_drop_old(struct attach_state *attach, size_t i, struct err *err) {
    const char *path = attach->enter.skills.paths[i];
    char name[256];
    int r = attach_go_to(attach, path, name, err);
    if (r < 0 || !attach_is_mounted(name))
        return r;
    attach->old_fds[i] =
        sys_open_tree(AT_FDCWD, name, OPEN_TREE_CLONE); /* a separate mount, which does not count as a use */
    if (attach->old_fds[i] < 0)
        return err_errno(err, -attach->old_fds[i], "'%s'", path);
    if (umount2(name, UMOUNT_NOFOLLOW) < 0)
        return errno == EBUSY ? err_set(err, ERR_BUSY, "processes in the box use files or directories below %s", path)
                              : err_errno(err, errno, "'%s'", path);
    attach->gone[i] = true;
    return 0;
}

/* Root of the box may have renamed what is above a mount of ours, which then is not where it was put. While frozen, it
 * stays where it is now. */
static int attach_drop_strays(struct attach_state *attach, dev_t device, struct err *err) {
    static char text[1 << 18];
    ssize_t n = fd_read_file(attach->self_fd, "mountinfo", text, sizeof text);
    if (n < 0)
        return err_errno(err, (int)-n, "mountinfo");
    char *rest = text, path[LIMIT_PATH_BYTES + 1];
    for (char *line; (line = strsep(&rest, "\n"));) {
        unsigned major_id, minor_id;
        if (sscanf(line, "%*u %*u %u:%u %*s %4095s", &major_id, &minor_id, path) != 3 ||
            makedev(major_id, minor_id) != device)
            continue;
        path_unescape(path);
        if (umount2(path, UMOUNT_NOFOLLOW) < 0)
            return errno == EBUSY
                       ? err_set(err, ERR_BUSY, "processes in the box use files or directories below %s", path)
                       : err_errno(err, errno, "'%s'", path);
    }
    return 0;
}

static int attach_drop_all(struct attach_state *attach, struct err *err) {
    struct stat status;
    int r = 0;
    bool there = attach_is_mounted(SKILLS_PATH) && stat(SKILLS_PATH, &status) == 0;
    for (size_t i = attach->enter.skills.path_count; r == 0 && i-- > 0;) /* /skills itself last */
        r = attach_drop_old(attach, i, err);
    return r == 0 && there ? attach_drop_strays(attach, status.st_dev, err) : r;
}

static int attach_swap(struct enter *enter, struct err *err) {
    struct attach_state *attach = attach_of(enter);
    size_t count = enter->skills.path_count;
    int r = enter_space(attach->box_fd, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = attach_make_target(attach, enter->skills.paths[i], err);
    if (r == 0 && enter->skills.replace)
        r = attach_drop_all(attach, err);
    if (r == 0)
        r = attach_make_new(enter, err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        r = attach_put_at(attach, &attach->new_fds[i], enter->skills.paths[i], err);
        attach->come[i] = r == 0;
    }
    if (r < 0) {
        char name[256];
        for (size_t i = 0; i < count; i++) {
            const char *path = enter->skills.paths[i];
            if (attach->come[i] && attach_go_to(attach, path, name, ERR_IGNORED) == 0)
                umount2(name, MNT_DETACH | UMOUNT_NOFOLLOW);
            if (attach->gone[i])
                attach_put_at(attach, &attach->old_fds[i], path, ERR_IGNORED);
        }
    }
    return r;
}

/* ---- the steps: for containers and boxes, then only for boxes with skills ---- */

static const struct enter_step steps[] = {
    {"read what is to be attached", read_attach, ENTER_ALWAYS},
    {"make the map of ids", attach_make_map, ENTER_ALWAYS},
    {"open what is to be mounted", attach_open_all, ENTER_RANGED},
    {"enter the box's user namespace", enter_user, ENTER_ALWAYS},
    {"open what is to be mounted", attach_inner_open, ENTER_USER},
    {"enter the box's mounts", enter_mount_space, ENTER_ALWAYS},
    {"mount what the box was promised", attach_put_mounts, ENTER_ALWAYS},
    {"write resolv.conf", enter_resolv, ENTER_ALWAYS},
    {0},
};

static const struct enter_step skill_steps[] = {
    {"copy the box's mounts", attach_copy_mounts, ENTER_ALWAYS},
    {"find the box's own files", attach_find_own, ENTER_ALWAYS},
    {"mount the stage", attach_make_stage, ENTER_ALWAYS},
    {"attach the skills", attach_swap, ENTER_ALWAYS},
    {0},
};

_Noreturn void attach_main(void) {
    struct attach_state *attach =
        mmap(NULL, sizeof *attach, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (attach == MAP_FAILED)
        _exit(125);
    struct enter *enter = &attach->enter;
    enter->stage_fd = PLAN_STAGE_FD;
    enter->errors_fd = PLAN_ERRORS_FD;
    enter->userns_fd = PLAN_USER_FD;
    attach->box_fd = PLAN_MOUNTS_FD;
    attach->own_fd = attach->root_fd = enter->map_fd = -1;
    enter->agent_uid = enter->agent_gid = ENTER_AGENT_ID;
    enter->ranged = geteuid() == 0;
    attach->self_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    umask(0);
    if (attach->self_fd < 0 || enter_run(enter, steps) < 0 ||
        (enter->skills.path_count && enter_run(enter, skill_steps) < 0))
        _exit(125);
    fd_write_all(enter->errors_fd, "", 1);
    _exit(0); /* the old overlay ends here, and no process waits for it */
}
