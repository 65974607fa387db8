/* Stage one of a jail, outer half: a new, single-threaded process that the daemon spawned. It opens the box's cgroups,
 * makes the namespaces, writes the id maps, idmaps the layers, and ends; the inner half (enter_root.c) becomes PID 1.
 * Called by main for `enter FD`. Invariant: the order of the steps: each needs the one above it, and idmapped layers
 * can only be attached after the maps are written. */
#include <linux/sched.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/base.h"
#include "runner/enter/enter.h"
#include "runner/runner.h"

static int enter_read_slot(struct enter *enter, struct err *err) {
    TRY(enter_message(enter, enter->slot_bytes, sizeof enter->slot_bytes, err));
    bool layers = enter->layers_dir || (enter->disk && enter->ranged) || enter->tmpfs_bytes;
    if (!enter->template_dir || !layers || (enter->lower_count && !enter->store) ||
        enter->ranged != (enter->uid_base != 0))
        return err_set(err, ERR_PROTOCOL, "the slot has no layers or no ids");
    enter->agent_uid = enter->agent_gid = ENTER_AGENT_ID;
    enter->owner_uid = enter->owner_gid = enter->uid_base + ENTER_AGENT_ID;
    return 0;
}

/* For root the network namespace belongs to the host's user namespace: no process inside can configure it, whatever its
 * capabilities. So low ports are opened to the whole box here. */
static int enter_make_network(struct enter *enter, struct err *err) {
    if (unshare(CLONE_NEWNET) < 0)
        return err_errno(err, errno, "unshare");
    fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    return enter_loopback(enter, err);
}

/* Opens those of v1, which PID 1 joins by itself. This half does not belong to the box, and would count as one of its
 * processes until the daemon has waited for it. */
static int enter_open_cgroups(struct enter *enter, struct err *err) {
    for (size_t i = 0; i < enter->task_count; i++) {
        enter->task_fds[i] = open(enter->tasks[i], O_WRONLY | O_CLOEXEC);
        if (enter->task_fds[i] < 0)
            return err_errno(err, errno, "'%s'", enter->tasks[i]);
    }
    if (enter->cgroup) {
        enter->cgroup_fd = open(enter->cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (enter->cgroup_fd < 0)
            return err_errno(err, errno, "'%s'", enter->cgroup);
    }
    if (enter->oom) /* without it only the note "killed for memory" is missing */
        enter->oom_fd = open(enter->oom, O_RDONLY | O_CLOEXEC);
    return 0;
}

static int enter_report_pid(struct enter *enter, struct err *err) {
    uint32_t pid = (uint32_t)enter->pid;
    /* An ordinary user cannot open it later: PID 1 will not be dumpable. Root can at any time. */
    autofd net = enter->ranged ? -1 : open(text_make(64, "/proc/%d/ns/net", enter->pid), O_RDONLY | O_CLOEXEC);
    ssize_t r = fd_send(enter->stage_fd, &pid, sizeof pid, net, 0);
    return r < 0 ? err_errno(err, (int)-r, "cannot write to the daemon's socket") : 0;
}

static int enter_wake_inside(struct enter *enter, struct err *err) {
    uint64_t one = 1;
    int r = fd_write_all(enter->go_fd, &one, sizeof one);
    return r < 0 ? err_errno(err, -r, "eventfd") : 0;
}

/* Waits until PID 1 has read the plan, or has ended, in which case nothing is left to do. */
static int enter_wait_inside(struct enter *enter, struct err *err) {
    struct pollfd polls[2] = {{.fd = enter->ask_fd, .events = POLLIN}, {.fd = enter->pidfd, .events = POLLIN}};
    while (poll(polls, 2, -1) < 0 && errno == EINTR)
        ;
    return polls[0].revents & POLLIN ? 0 : err_set(err, ERR_GONE, "PID 1 is gone");
}

/* Called before the network namespace is made: a socket belongs to the one it was made in, and /proc/net/unix lists it
 * only there. */
static int enter_make_socket(struct enter *enter, struct err *err) {
    enter->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return enter->listen_fd < 0 ? err_errno(err, errno, "socket") : 0;
}

/* Binds through the directory's descriptor, because sun_path has only 108 bytes. */
static int enter_listen_socket(struct enter *enter, struct err *err) {
    if (!enter->listen_dir) {
        fd_close(&enter->listen_fd);
        return 0;
    }
    autofd dir = open(enter->listen_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_errno(err, errno, "'%s'", enter->listen_dir);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/sock", dir);
    unlinkat(dir, "sock", 0);
    if (bind(enter->listen_fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(enter->listen_fd, 16) < 0)
        return err_errno(err, errno, "'%s/sock'", enter->listen_dir);
    return 0;
}

int enter_run(struct enter *enter, const struct enter_step *steps) {
    for (; steps->name; steps++) {
        struct err err = {0};
        if (steps->when && (steps->when == ENTER_RANGED) != enter->ranged)
            continue;
        int r = steps->run(enter, &err);
        if (r >= 0)
            continue;
        err_wrap(&err, "cannot %s", steps->name);
        char message[sizeof err.text + 1];
        message[0] = (char)err.code;
        size_t len = strlen(err.text);
        memcpy(message + 1, err.text, len);
        fd_write_all(enter->errors_fd, message, len + 1);
        return r;
    }
    return 0;
}

/* ---- the two messages ---- */

/* Where a record goes: its member of struct enter; for a list its counter, its capacity and the size of a row. */
struct enter_row {
    enum plan_key key;
    enum { ROW_TEXT, ROW_NUMBER, ROW_U32, ROW_BOOL, ROW_LIST } kind;
    size_t at, count, room, size;
};
#define ROW(key, kind, member)                                                                                         \
    { key, kind, offsetof(struct enter, member), 0, 0, 0 }
#define LIST(key, member, counter, room)                                                                               \
    {                                                                                                                  \
        key, ROW_LIST, offsetof(struct enter, member), offsetof(struct enter, counter), room,                          \
            sizeof((struct enter *)NULL)->member[0]                                                                    \
    }

static const struct enter_row enter_rows[] = {
    ROW(PLAN_VERSION_KEY, ROW_NUMBER, version),
    ROW(PLAN_UID_BASE, ROW_U32, uid_base),
    ROW(PLAN_CGROUP, ROW_TEXT, cgroup),
    LIST(PLAN_TASKS, tasks, task_count, ENTER_MAX_TASKS),
    ROW(PLAN_OOM, ROW_TEXT, oom),
    ROW(PLAN_TEMPLATE, ROW_TEXT, template_dir),
    ROW(PLAN_LAYERS, ROW_TEXT, layers_dir),
    ROW(PLAN_DISK, ROW_TEXT, disk),
    ROW(PLAN_TMPFS_BYTES, ROW_NUMBER, tmpfs_bytes),
    ROW(PLAN_TMPFS_INODES, ROW_NUMBER, tmpfs_inodes),
    LIST(PLAN_SYSTEM, system, system_count, ENTER_MAX_SYSTEM),
    ROW(PLAN_LISTEN, ROW_TEXT, listen_dir),
    ROW(PLAN_STORE, ROW_TEXT, store),
    LIST(PLAN_LOWER, lowers, lower_count, LIMIT_LAYERS),
    ROW(PLAN_OWN_SHOWN, ROW_BOOL, own_shown),
    LIST(PLAN_ENV, env, env_count, ENTER_BASE_ENV + LIMIT_ENV_COUNT),
    ROW(PLAN_SHELL, ROW_TEXT, shell),
    ROW(PLAN_RESOLV, ROW_TEXT, resolv),
    ROW(PLAN_MEMORY, ROW_NUMBER, memory_bytes),
    ROW(PLAN_PIDS, ROW_NUMBER, pids),
    ROW(PLAN_OPEN_FILES, ROW_NUMBER, open_files),
    ROW(PLAN_BLANK, ROW_BOOL, blank),
    ROW(PLAN_TERMINALS, ROW_NUMBER, terminals),
    ROW(PLAN_WORKSPACE, ROW_TEXT, workspace),
    ROW(PLAN_SKILL_STORE, ROW_TEXT, skills.store),
    LIST(PLAN_SKILL, skills.names, skills.count, LIMIT_SKILL_LAYERS),
    LIST(PLAN_SKILL_PATH, skills.paths, skills.path_count, LIMIT_SKILL_PATHS + 1),
    ROW(PLAN_REPLACE, ROW_BOOL, skills.replace),
    ROW(PLAN_UID_MAP, ROW_TEXT, uid_map),
    ROW(PLAN_GID_MAP, ROW_TEXT, gid_map),
    ROW(PLAN_OUTER_UID, ROW_U32, owner_uid),
    ROW(PLAN_OUTER_GID, ROW_U32, owner_gid),
    ROW(PLAN_INNER_UID, ROW_U32, agent_uid),
    ROW(PLAN_INNER_GID, ROW_U32, agent_gid),
};

static void enter_take(struct enter *enter, const struct plan_record *record) {
    struct enter_mount *mount = &enter->mounts[enter->mount_count];
    if (enter->mount_count < LIMIT_MOUNTS && record->key == PLAN_SOURCE)
        mount->source = record->text;
    else if (enter->mount_count < LIMIT_MOUNTS && record->key == PLAN_TARGET)
        mount->target = record->text;
    else if (enter->mount_count < LIMIT_MOUNTS && record->key == PLAN_READ_ONLY) {
        mount->read_only = record->number != 0;
        enter->mount_count++;
    }
    for (size_t i = 0; i < sizeof enter_rows / sizeof *enter_rows; i++) {
        const struct enter_row *row = &enter_rows[i];
        char *at = (char *)enter + row->at;
        size_t *count = (size_t *)(void *)((char *)enter + row->count);
        if (row->key != record->key)
            continue;
        if (row->kind == ROW_TEXT)
            *(const char **)(void *)at = record->text;
        else if (row->kind == ROW_NUMBER)
            *(uint64_t *)(void *)at = record->number;
        else if (row->kind == ROW_U32)
            *(uint32_t *)(void *)at = (uint32_t)record->number;
        else if (row->kind == ROW_BOOL)
            *(bool *)(void *)at = record->number != 0;
        else if (*count < row->room)
            *(const char **)(void *)(at + row->size * (*count)++) = record->text;
    }
}

int enter_message(struct enter *enter, char *bytes, size_t max, struct err *err) {
    uint8_t head[4];
    ssize_t n = fd_read_full(enter->stage_fd, head, sizeof head);
    if (n == 0) /* the daemon abandoned this half: end silently */
        return err_set(err, ERR_GONE, "the daemon is gone");
    struct view view = view_of(head, sizeof head);
    size_t len = view_u32(&view);
    if (n != sizeof head || len > max)
        return err_set(err, ERR_PROTOCOL, "a message has %zu bytes, which is too long", len);
    n = fd_read_full(enter->stage_fd, bytes, len);
    if (n != (ssize_t)len)
        return err_set(err, ERR_PROTOCOL, "the message is truncated");
    view = view_of(bytes, len);
    struct plan_record record;
    while (plan_next(&view, &record))
        enter_take(enter, &record);
    if (view.bad || enter->version != PLAN_VERSION)
        return err_set(err, ERR_PROTOCOL, "cubby-runner speaks plan %d, the daemon %llu; install both from one build",
                       PLAN_VERSION, (unsigned long long)enter->version);
    return 0;
}

/* Replaced by variables of the same name in the plan or a call. */
static const char *const base_env[ENTER_BASE_ENV] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/workspace", "LANG=C.UTF-8"};

int enter_plan(struct enter *enter, struct err *err) {
    memcpy(enter->env, base_env, sizeof base_env);
    enter->env_count = ENTER_BASE_ENV;
    return enter_message(enter, enter->plan_bytes, sizeof enter->plan_bytes, err);
}

/* ---- namespaces and id maps ---- */

/* A user namespace charges what its processes hold (inotify, pending signals and timers, message queues, locked memory)
 * to the user who made it. That is the box's own user, so that a box uses up its own share and not that of the host's
 * root and all other boxes. Capabilities stay. */
static int enter_take_owner(struct enter *enter, uid_t uid, struct err *err) {
    if (!enter->ranged)
        return 0;
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 || setresuid((uid_t)-1, uid, (uid_t)-1) < 0)
        return err_errno(err, errno, "setresuid");
    return 0;
}

static int enter_make_namespaces(struct enter *enter, struct err *err) {
    /* CLONE_PARENT: PID 1 is the daemon's child, which waits for it although this half ends. */
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_FILES | CLONE_PARENT |
                 CLONE_PIDFD | (enter->ranged ? 0 : CLONE_NEWNET),
        .pidfd = (uint64_t)(uintptr_t)&enter->pidfd,
    };
    if (enter->cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)enter->cgroup_fd;
    }
    TRY(enter_take_owner(enter, enter->uid_base, err));
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        enter_inside(enter);
    int number = errno;
    TRY(enter_take_owner(enter, 0, err));
    errno = number;
    if (pid < 0 && (errno == ENOSPC || errno == EUSERS))
        return err_set(err, ERR_LIMIT, "there are no more namespaces; raise user.max_user_namespaces and its siblings");
    if (pid < 0 && errno == EPERM)
        return err_set(err, ERR_UNSUPPORTED,
                       "the kernel refuses user namespaces here: not from a chroot, and not where "
                       "kernel.unprivileged_userns_clone is 0 or a security module restricts them");
    if (pid < 0)
        return err_errno(err, errno, "clone3");
    enter->pid = (pid_t)pid;
    return 0;
}

static int enter_write_proc(struct enter *enter, const char *name, const char *text, struct err *err) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", enter->pid, name);
    int r = fd_write_file(AT_FDCWD, path, text);
    return r < 0 ? err_errno(err, -r, "'%s'", path) : 0;
}

static int enter_write_maps(struct enter *enter, struct err *err) {
    char uids[64], gids[64];
    if (enter->ranged) {
        snprintf(uids, sizeof uids, "0 %u %u\n", enter->uid_base, ENTER_RANGE);
        memcpy(gids, uids, sizeof gids);
    } else {
        snprintf(uids, sizeof uids, "%u %u 1\n", ENTER_AGENT_ID, enter->outer_uid);
        snprintf(gids, sizeof gids, "%u %u 1\n", ENTER_AGENT_ID, enter->outer_gid);
        TRY(enter_write_proc(enter, "setgroups", "deny", err));
    }
    TRY(enter_write_proc(enter, "uid_map", uids, err) ?: enter_write_proc(enter, "gid_map", gids, err));
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", enter->pid);
    enter->userns_fd = open(path, O_RDONLY | O_CLOEXEC);
    return enter->userns_fd < 0 ? err_errno(err, errno, "'%s'", path) : 0;
}

/* ---- the steps of the outer half ---- */

/* An ordinary user has no rights out here: the inner half opens layers and mounts itself, and its network namespace is
 * made with the others, by the clone. */
static const struct enter_step outer_steps[] = {
    /* these need no slot: done while the daemon makes it */
    {"make the box's devices", enter_dev_make, ENTER_RANGED},
    {"filter system calls", confine_early, ENTER_ALWAYS},
    {"make the box's socket", enter_make_socket, ENTER_ALWAYS},
    {"make the network namespace", enter_make_network, ENTER_RANGED},
    {"read the slot", enter_read_slot, ENTER_ALWAYS},
    {"give the box its devices", enter_dev_own, ENTER_ALWAYS},
    {"open the cgroups", enter_open_cgroups, ENTER_ALWAYS},
    {"make the namespaces", enter_make_namespaces, ENTER_ALWAYS},
    {"write the id maps", enter_write_maps, ENTER_ALWAYS},
    {"open the layers", enter_layers, ENTER_RANGED},
    {"listen on the box's socket", enter_listen_socket, ENTER_ALWAYS},
    {"report the pid", enter_report_pid, ENTER_ALWAYS}, /* first: PID 1's first message comes over the same socket */
    {"wake PID 1", enter_wake_inside, ENTER_ALWAYS},
    {"wait for the plan", enter_wait_inside, ENTER_ALWAYS},
    /* only boxes with mounts wait for these */
    {"open the mounts", enter_mounts, ENTER_RANGED},
    {"wake PID 1", enter_wake_inside, ENTER_ALWAYS},
    {0},
};

_Noreturn void enter_main(int plan_fd) {
    struct enter *enter = mmap(NULL, sizeof *enter, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (enter == MAP_FAILED)
        _exit(125);
    enter->stage_fd = plan_fd;
    enter->errors_fd = PLAN_ERRORS_FD;
    enter->pidfd = enter->userns_fd = enter->cgroup_fd = enter->oom_fd = enter->sysctl_fd = -1;
    enter->lower_fd = enter->upper_fd = enter->dev_fd = enter->listen_fd = enter->map_fd = -1;
    enter->outer_uid = geteuid();
    enter->outer_gid = getegid();
    enter->ranged = enter->outer_uid == 0;
    fcntl(plan_fd, F_SETFD, FD_CLOEXEC);
    fcntl(enter->errors_fd, F_SETFD, FD_CLOEXEC);
    enter->go_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    enter->ask_fd = eventfd(0, EFD_CLOEXEC);
    enter->outer_pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (enter->go_fd < 0 || enter->ask_fd < 0 || enter->outer_pidfd < 0 || enter_run(enter, outer_steps) < 0) {
        if (enter->pidfd >= 0)
            syscall(SYS_pidfd_send_signal, enter->pidfd, SIGKILL, NULL, 0);
        _exit(125);
    }
    _exit(0);
}
