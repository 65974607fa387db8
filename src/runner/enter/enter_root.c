/* Stage one of a jail, inner half: builds the box's root inside the new namespaces and becomes PID 1. Called by enter.c
 * in the cloned process. Invariant: the order of the steps; nothing of the host is reachable after `leave the host`,
 * and no path of the host may appear in the box's mountinfo (overlay options are relative names). */
#include <grp.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/base.h"
#include "runner/enter/enter.h"
#include "runner/runner.h"
#include "runner/enter/stack.h"
#include "wire/spec.h"

/* A directory of the host that always exists and from which nothing is mounted; covered only in this namespace. */
#define STAGE "/proc"
#define MOUNT_FLAGS (MS_NOSUID | MS_NODEV)

/* Waits for a byte from the outer half, or its death, in which case nothing can make this box. */
static int root_wait_outside(struct enter *enter, struct err *err) {
    struct pollfd polls[2] = {{.fd = enter->go_fd, .events = POLLIN}, {.fd = enter->outer_pidfd, .events = POLLIN}};
    while (poll(polls, 2, -1) < 0 && errno == EINTR)
        ;
    uint64_t count;
    if (!(polls[0].revents & POLLIN) || read(enter->go_fd, &count, sizeof count) != sizeof count)
        return err_set(err, ERR_GONE, "the outer half is gone");
    return 0;
}

/* Reads the plan directly from the daemon. The outer half is asked and waited for only if it has something left to
 * do. */
static int root_read_plan(struct enter *enter, struct err *err) {
    struct pollfd polls[2] = {{.fd = enter->stage_fd, .events = POLLIN}, {.fd = enter->outer_pidfd, .events = POLLIN}};
    while (poll(polls, 2, -1) < 0 && errno == EINTR)
        ;
    if (!polls[0].revents)
        return err_set(err, ERR_GONE, "the outer half is gone");
    int r = enter_plan(enter, err);
    uint64_t one = 1;
    if (r == 0 && (r = fd_write_all(enter->ask_fd, &one, sizeof one)) < 0)
        r = err_errno(err, -r, "eventfd");
    bool outside = enter->ranged && enter->mount_count > 0;
    return r == 0 && outside ? root_wait_outside(enter, err) : r;
}

/* An ordinary user has one id, already `agent`; its capabilities came with the namespace. */
static int become_root(struct enter *, struct err *err) {
    if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return err_errno(err, errno, "setresuid");
    return 0;
}

/* Writes "0" and not a pid, which would wait for RCU. Whoever opened the files may do this. */
static int root_join_cgroups(struct enter *enter, struct err *err) {
    for (size_t i = 0; i < enter->task_count; i++)
        if (write(enter->task_fds[i], "0", 1) != 1)
            return err_errno(err, errno, "'%s'", enter->tasks[i]);
    return 0;
}

static int root_own_names(struct enter *, struct err *err) {
    if (sethostname("cubby", 5) < 0)
        return err_errno(err, errno, "sethostname");
    /* Only now: a namespace made with the clone would be rooted in the outer half's cgroup. */
    if (unshare(CLONE_NEWCGROUP) < 0)
        return err_errno(err, errno, "unshare");
    return 0;
}

static int root_make_stage(struct enter *, struct err *err) {
    if (mount("tmpfs", STAGE, "tmpfs", MOUNT_FLAGS, "mode=0755,size=1m") < 0 || chdir(STAGE) < 0)
        return err_errno(err, errno, "tmpfs");
    static const char *const names[] = {"root", "lower", "upper", "empty", "covers"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mkdir(names[i], 0755) < 0)
            return err_errno(err, errno, "'%s'", names[i]);
    return 0;
}

static int root_attach_mounts(struct enter *enter, struct err *err) {
    if (enter->mount_count == 0)
        return 0;
    autofd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return err_errno(err, errno, "cannot open the root");
    if (enter->workspace) /* it is elsewhere, and a template's empty one would mislead */
        unlinkat(root, WORKSPACE_PATH + 1, AT_REMOVEDIR);
    return enter_put(enter, root, err);
}

/* Checks a mount target before the template is trusted: a directory of the root itself, reached by no link. No other
 * process is in this namespace yet, so it cannot change. */
static int root_check_target(const char *path, struct err *err) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    autofd fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (fd < 0)
        return err_set(err, ERR_INVALID, "'%s' of the template is not a directory: %s", path + strlen("root"),
                       strerror(errno));
    return 0;
}

static int root_make_dev(struct enter *enter, struct err *err) {
    TRY(root_check_target("root/dev", err) ?: enter_dev_attach(enter, "root/dev", err));
    /* both separate from /dev, so that they get their size when the plan is known: enter_bounds */
    TRY(enter_pts(enter, "root/dev/pts", 0, DEFAULT_TERMINALS, err));
    if (mount("tmpfs", "root/dev/shm", "tmpfs", MOUNT_FLAGS, "mode=1777") < 0)
        return err_errno(err, errno, "tmpfs");
    return 0;
}

/* ---- /proc: its own, with files about the whole machine covered ---- */

static const struct {
    const char *path, *cover;
} proc_covers[] = {
    /* switches of the kernel */
    {"root/proc/sysrq-trigger", "covers/nothing"},
    /* the machine's memory, keys, timers, symbols */
    {"root/proc/kcore", "covers/nothing"},
    {"root/proc/keys", "covers/nothing"},
    {"root/proc/key-users", "covers/nothing"},
    {"root/proc/timer_list", "covers/nothing"},
    {"root/proc/latency_stats", "covers/nothing"},
    {"root/proc/sched_debug", "covers/nothing"},
    {"root/proc/kallsyms", "covers/nothing"},
    {"root/proc/modules", "covers/nothing"},
    {"root/proc/config.gz", "covers/nothing"},
    /* how it was started, its disks, activity on disks and devices; swap files are host paths */
    {"root/proc/cmdline", "covers/nothing"},
    {"root/proc/swaps", "covers/nothing"},
    {"root/proc/partitions", "covers/nothing"},
    {"root/proc/diskstats", "covers/nothing"},
    {"root/proc/mdstat", "covers/nothing"},
    {"root/proc/locks", "covers/nothing"}, /* locks of open files have no pid and are listed in every pid namespace */
    {"root/proc/interrupts", "covers/nothing"},
    {"root/proc/softirqs", "covers/nothing"},
    {"root/proc/fs", "covers/empty"},
    {"root/proc/bus", "covers/empty"},
    {"root/proc/irq", "covers/empty"},
    {"root/proc/driver", "covers/empty"},
    {"root/proc/dynamic_debug", "covers/empty"},
    {"root/proc/acpi", "covers/empty"},
    {"root/proc/asound", "covers/empty"},
    {"root/proc/scsi", "covers/empty"},
    /* the identity of the machine */
    {"root/proc/sys/kernel/random/boot_id", "covers/boot_id"},
};

static int root_read_only(const char *from, const char *to, struct err *err) {
    autofd tree = sys_open_tree(AT_FDCWD, from, OPEN_TREE_CLONE);
    int r = tree < 0 ? tree : sys_mount_setattr(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1);
    if (r >= 0)
        r = sys_move_mount(tree, AT_FDCWD, to);
    return r < 0 ? err_errno(err, -r, "'%s'", to) : 0;
}

/* Makes the files that cover others in /proc: an empty one, and a boot id of the box's own. They are bound from a
 * read-only mount, and so are read-only without another call. /proc/sys stays visible, read-only. */
static int root_make_covers(struct err *err) {
    char uuid[64];
    ssize_t n = fd_read_file(AT_FDCWD, "root/proc/sys/kernel/random/uuid", uuid, sizeof uuid);
    autofd nothing = open("nothing", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    autofd boot = open("boot_id", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (n < 0 || nothing < 0 || boot < 0 || fd_write_all(boot, uuid, (size_t)n) < 0)
        return err_errno(err, n < 0 ? (int)-n : errno, "cannot make files that cover others");
    return root_read_only(".", "covers", err) ?: root_read_only("root/proc/sys", "root/proc/sys", err);
}

static int root_make_proc(struct enter *enter, struct err *err) {
    TRY(root_check_target("root/proc", err));
    if (mount("proc", "root/proc", "proc", MOUNT_FLAGS | MS_NOEXEC, NULL) < 0)
        return err_errno(err, errno, "cannot mount proc (inside a container, /proc must not be masked)");
    enter->sysctl_fd = open("root/proc/sys/kernel", O_PATH | O_DIRECTORY | O_CLOEXEC); /* before it is covered */
    int r = root_make_covers(err);
    for (size_t i = 0; r == 0 && i < sizeof proc_covers / sizeof *proc_covers; i++)
        if (mount(proc_covers[i].cover, proc_covers[i].path, NULL, MS_BIND, NULL) < 0 &&
            (errno != ENOENT || access(proc_covers[i].cover, F_OK) < 0)) /* otherwise this kernel does not have it */
            r = err_errno(err, errno, "'%s'", proc_covers[i].path);
    return r;
}

/* ---- the root ---- */

/* Removes everything but the box's root. */
static int root_pivot(struct enter *, struct err *err) {
    if (chdir("root") < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
        return err_errno(err, errno, "pivot_root");
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return err_errno(err, errno, "cannot unmount the old root");
    return 0;
}

/* For an ordinary user's box, which cannot be entered later: skills become mounts like others. */
static int root_mount_skills(struct enter *enter, struct err *err) {
    int r = attach_open(enter, err) ?: attach_stage(enter, "upper", err) ?: attach_overlay(enter, "upper", err);
    for (size_t i = 0; r == 0 && i < enter->skills.path_count; i++) {
        int tree = sys_open_tree(AT_FDCWD, "merged", OPEN_TREE_CLONE);
        enter->mounts[enter->mount_count++] =
            (struct enter_mount){.source = SKILLS_PATH, .target = enter->skills.paths[i], .tree_fd = tree};
        r = tree < 0 ? err_errno(err, -tree, SKILLS_PATH) : 0;
    }
    return r;
}

/* An ordinary user's mounts are opened from in here, so leaving waits until they are known. */
static int root_leave_host_late(struct enter *enter, struct err *err) {
    TRY(enter_mounts(enter, err));
    if (enter->skills.path_count)
        TRY(root_mount_skills(enter, err));
    return root_pivot(enter, err);
}

/* The descriptor stays open: the runner looks into layers through it (op_diff.c). */
static int root_attach(int tree_fd, const char *to, struct err *err) {
    int r = sys_move_mount(tree_fd, AT_FDCWD, to);
    return r < 0 ? err_errno(err, -r, "'%s'", to) : 0;
}

static int root_attach_layers(struct enter *enter, struct err *err) {
    TRY(root_attach(enter->lower_fd, "lower", err));
    for (size_t i = 0; i < enter->lower_count; i++) {
        const char *name = text_make(32, "l%zu", i);
        TRY(mkdir(name, 0755) < 0 ? err_errno(err, errno, "'%s'", name) : root_attach(enter->lower_fds[i], name, err));
    }
    if (!enter->tmpfs_bytes)
        return root_attach(enter->upper_fd, "upper", err);
    TRY(enter_tmpfs(enter, "upper", err));
    enter->upper_fd = open("upper", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return enter->upper_fd < 0 ? err_errno(err, errno, "'upper'") : 0;
}

/* For an agent's box: its own file system, which has no other name, stays in the namespace for the process that mounts
 * /skills over it (attach.c), before any other process is there. */
static int root_show_own(struct err *err) {
    if (mkdir("root" SKILLS_PATH, 0755) < 0 && errno != EEXIST)
        return err_errno(err, errno, SKILLS_PATH);
    TRY(root_check_target("root" SKILLS_PATH, err));
    autofd tree = sys_open_tree(AT_FDCWD, "upper", OPEN_TREE_CLONE);
    int r = tree < 0 ? tree : sys_move_mount(tree, AT_FDCWD, "root" SKILLS_PATH);
    return r < 0 ? err_errno(err, -r, SKILLS_PATH) : 0;
}

static int mount_root(struct enter *enter, struct err *err) {
    int r = enter_overlay(enter, "upper", "upper", "lower", "root", err);
    return r == 0 && enter->own_shown ? root_show_own(err) : r;
}

/* fs/upper.N and fs/upper.N.work belong to the N-th system directory. */
static int root_mount_system(struct enter *enter, struct err *err) {
    for (size_t i = 0; i < enter->system_count; i++) {
        const char *name = text_make(32, "system%zu", i), *upper = text_make(32, "upper.%zu", i);
        const char *target = text_make(LIMIT_PATH_BYTES + 8, "root%s", enter->system[i].source);
        if (mkdir(name, 0755) < 0)
            return err_errno(err, errno, "'%s'", name);
        TRY(root_check_target(target, err));
        TRY(root_attach(enter->system[i].tree_fd, name, err));
        /* The template's own files below it are laid over the host's. */
        const char *source = enter->system[i].source;
        bool own = access(text_make(LIMIT_PATH_BYTES + 16, "lower%s/local", source), F_OK) == 0 ||
                   access(text_make(LIMIT_PATH_BYTES + 16, "lower%s/lib", source), F_OK) == 0;
        const char *both = text_make(LIMIT_PATH_BYTES + 64, "lower%s:%s", source, name);
        TRY(enter_overlay(enter, "upper", upper, own ? both : name, target, err));
    }
    return 0;
}

/* ---- the runner ---- */

/* Looks up files that a first command will need: a jail made in advance has time for it. Absent files count too. */
static void root_warm_up(void) {
    static const char *const paths[] = {
        "/workspace",
        "/bin/bash",
        "/bin/sh",
        "/lib64/ld-linux-x86-64.so.2",
        "/etc/ld.so.preload",
        "/etc/ld.so.cache",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/x86_64-linux-gnu/libtinfo.so.6",
        "/usr/lib/locale/locale-archive",
    };
    struct stat status;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        (void)stat(paths[i], &status);
}

/* Makes the workspace, which the template may lack. A failure shows when it is used. */
static void root_make_workspace(const char *workspace) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", workspace);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    if (mkdir(path, 0755) == 0)
        (void)!lchown(path, ENTER_AGENT_ID, ENTER_AGENT_ID);
}

static int start_runner(struct enter *enter, struct err *err) {
    struct runner_config config = {
        .wire_fd = enter->stage_fd,
        .listen_fd = enter->listen_fd,
        .cgroup_fd = enter->cgroup_fd,
        .oom_fd = enter->oom_fd,
        .jail = true,
        .blank = enter->blank,
        .can_root = enter->ranged,
        .agent_uid = ENTER_AGENT_ID,
        .agent_gid = ENTER_AGENT_ID,
        .workspace = enter->workspace ? enter->workspace : WORKSPACE_PATH,
        .shell = enter->shell,
        .env = enter->env,
        .pids = enter->pids,
        .open_files = init_open_files(enter->open_files),
    };
    if (enter->workspace)
        root_make_workspace(enter->workspace);
    if (!config.shell)
        config.shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
    config.root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (config.root_fd < 0)
        return err_errno(err, errno, "cannot open the root");
    if (enter->blank)
        root_warm_up();
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    umask(022);
    for (size_t i = 0; i < enter->mount_count; i++)
        config.no_set_id |= !enter->mounts[i].read_only;
    TRY(confine_runner(enter->ranged, config.no_set_id, &config.landlock_fd, err));
    if (unshare(CLONE_FILES) < 0) /* the outer half may still be using its own */
        return err_errno(err, errno, "unshare");
    static struct stack_roots layers;
    layers.own = enter->upper_fd;
    layers.template = enter->lower_fd;
    layers.kept_count = enter->lower_count;
    memcpy(layers.kept, enter->lower_fds, sizeof layers.kept);
    for (size_t i = 0; i < enter->system_count; i++) {
        layers.system[i].path = enter->system[i].source;
        layers.system[i].fd = enter->system[i].tree_fd;
    }
    layers.system_count = enter->system_count;
    config.layers = &layers;
    int keep[6 + STACK_ROOTS_MAX] = {config.wire_fd, config.listen_fd, config.cgroup_fd,
                                     config.oom_fd,  config.root_fd,   config.landlock_fd};
    runner_close_others(keep, 6 + stack_roots_fds(&layers, keep + 6));
    init_main(&config);
}

/* ---- the steps of the inner half ---- */

static const struct enter_step inner_steps[] = {
    /* these need no ids: done while the outer half writes the maps */
    {"join the cgroups", root_join_cgroups, ENTER_ALWAYS},
    {"set the host name", root_own_names, ENTER_ALWAYS},
    {"drop capabilities", confine_bounding, ENTER_ALWAYS},
    {"bring up the loopback", enter_loopback, ENTER_USER},
    {"wait for the id maps", root_wait_outside, ENTER_ALWAYS},
    {"become the box's root", become_root, ENTER_RANGED},
    {"open the layers", enter_layers, ENTER_USER},
    {"mount the stage", root_make_stage, ENTER_ALWAYS},
    {"attach the layers", root_attach_layers, ENTER_ALWAYS},
    {"mount the root", mount_root, ENTER_ALWAYS},
    {"mount the system directories", root_mount_system, ENTER_ALWAYS},
    {"make /dev", root_make_dev, ENTER_ALWAYS},
    {"make /proc", root_make_proc, ENTER_ALWAYS},
    {"leave the host", root_pivot, ENTER_RANGED},
    {"read the plan", root_read_plan, ENTER_ALWAYS},
    /* from here on it is a specific box */
    {"leave the host", root_leave_host_late, ENTER_USER},
    {"bound what outlives processes", enter_bounds, ENTER_ALWAYS},
    {"attach the mounts", root_attach_mounts, ENTER_ALWAYS},
    {"write resolv.conf", enter_resolv, ENTER_ALWAYS},
    {"start the runner", start_runner, ENTER_ALWAYS},
    {0},
};

_Noreturn void enter_inside(struct enter *enter) {
    umask(0);
    enter_run(enter, inner_steps);
    _exit(125);
}
