/* lack WHAT[,WHAT...] -- PROGRAM [ARGUMENT...]: runs a program, and all it starts, on a machine that lacks something. For
 * tests of walls where they are missing; `lack --list` names what can be taken away.
 *
 * The calling process becomes the program, so its pid and its exit status are the program's. Calls told by their number
 * and plain arguments are refused by a seccomp filter; where the answer is in memory (clone3's flags, a file system's
 * name) a supervisor, an orphan of its own, reads it and answers, until the last process under the filter has ended.
 * What is missing in the file tree is covered in a mount namespace of its own. Invariant: everything not asked for
 * goes on as before. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void take_calls(const char *name, const void *data);
static void take_userns(const char *name, const void *data);
static void take_overlay(const char *name, const void *data);
static void take_idmap(const char *name, const void *data);
static void take_cgroup(const char *name, const void *data);
static void take_read_only(const char *name, const void *data);
static void take_hierarchy(const char *name, const void *data);
static void take_nft(const char *name, const void *data);
static void take_proc(const char *name, const void *data);
static void take_capability(const char *name, const void *data);

struct refusal {
    int call, number; /* the errno */
};
static const struct refusal without_landlock[] = {{SYS_landlock_create_ruleset, ENOSYS}, {0, 0}};
static const struct refusal without_landlock_off[] = {{SYS_landlock_create_ruleset, EOPNOTSUPP},
                                                      {0, 0}}; /* in the kernel, not among its modules */
static const struct refusal without_seccomp[] = {{SYS_seccomp, EINVAL}, {0, 0}};
static const struct refusal without_openat2[] = {{SYS_openat2, ENOSYS}, {0, 0}};
static const struct refusal without_pidfd[] = {{SYS_pidfd_open, ENOSYS}, {0, 0}};
static const struct refusal without_close_range[] = {{SYS_close_range, ENOSYS}, {0, 0}};
static const struct refusal without_clone3[] = {{SYS_clone3, ENOSYS}, {0, 0}};
static const struct refusal without_mount_setattr[] = {{SYS_mount_setattr, ENOSYS}, {0, 0}};

static const struct {
    const char *name;
    void (*take)(const char *name, const void *data);
    const void *data;
    const char *text;
} features[] = {
    {"landlock", take_calls, without_landlock, "Landlock, as on a kernel before 5.13"},
    {"landlock-off", take_calls, without_landlock_off, "Landlock, built in and not switched on"},
    {"seccomp", take_calls, without_seccomp, "system call filters"},
    {"openat2", take_calls, without_openat2, "openat2(2)"},
    {"pidfd", take_calls, without_pidfd, "pidfd_open(2)"},
    {"close_range", take_calls, without_close_range, "close_range(2)"},
    {"clone3", take_calls, without_clone3, "clone3(2)"},
    {"mount_setattr", take_calls, without_mount_setattr, "mount_setattr(2)"},
    {"userns", take_userns, NULL, "user namespaces"},
    {"overlay", take_overlay, NULL, "overlayfs"},
    {"idmap", take_idmap, NULL, "idmapped mounts"},
    {"cgroup", take_cgroup, NULL, "every cgroup hierarchy"},
    {"cgroup-write", take_read_only, NULL, "the right to write to cgroups, as in a container"},
    {"cgroup2", take_hierarchy, "unified", "cgroup v2 where controllers are on v1"},
    {"memory", take_hierarchy, "memory", "the memory controller (v1)"},
    {"pids", take_hierarchy, "pids", "the pids controller (v1)"},
    {"cpu", take_hierarchy, "cpu", "the cpu controller (v1)"},
    {"nft", take_nft, NULL, "nf_tables in the kernel"},
    {"proc", take_proc, NULL, "a /proc that is not masked, as in a container"},
    {"sys_admin", take_capability, (const void *)(uintptr_t)CAP_SYS_ADMIN, "root's CAP_SYS_ADMIN, as in a container"},
    {"net_admin", take_capability, (const void *)(uintptr_t)CAP_NET_ADMIN, "root's CAP_NET_ADMIN"},
    {"mknod", take_capability, (const void *)(uintptr_t)CAP_MKNOD, "root's CAP_MKNOD"},
};
#define FEATURES (sizeof features / sizeof *features)

static struct sock_filter program[128];
static unsigned short program_len;
static bool watch_clone3, watch_overlay, watch_idmap, own_mounts;

static _Noreturn void die(const char *what) {
    fprintf(stderr, "lack: %s: %s\n", what, strerror(errno));
    exit(125);
}

/* ---- the filter ---- */

static void emit(struct sock_filter line) {
    if (program_len == sizeof program / sizeof *program) {
        errno = E2BIG;
        die("the filter");
    }
    program[program_len++] = line;
}

static void load(uint32_t offset) {
    emit((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void refuse(int call, uint32_t answer) {
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1));
    emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer));
}

/* Refuses the call when its first argument has one of these bits. */
static void refuse_flags(int call, uint32_t flags, int number) {
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4));
    load(offsetof(struct seccomp_data, args[0]));
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flags, 0, 1));
    emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)number));
    load(offsetof(struct seccomp_data, nr));
}

static void take_calls(const char *name, const void *data) {
    (void)name;
    for (const struct refusal *row = data; row->call; row++)
        refuse(row->call, SECCOMP_RET_ERRNO | (uint32_t)row->number);
}

static void take_userns(const char *name, const void *data) {
    (void)name, (void)data;
    refuse_flags(SYS_clone, CLONE_NEWUSER, EPERM);
    refuse_flags(SYS_unshare, CLONE_NEWUSER, EPERM);
    if (!watch_clone3)
        refuse(SYS_clone3, SECCOMP_RET_USER_NOTIF);
    watch_clone3 = true;
}

static void take_overlay(const char *name, const void *data) {
    (void)name, (void)data;
    refuse(SYS_mount, SECCOMP_RET_USER_NOTIF);
    refuse(SYS_fsopen, SECCOMP_RET_USER_NOTIF);
    watch_overlay = true;
}

static void take_idmap(const char *name, const void *data) {
    (void)name, (void)data;
    refuse(SYS_mount_setattr, SECCOMP_RET_USER_NOTIF);
    watch_idmap = true;
}

/* ---- the supervisor ---- */

static bool peek(int memory, uint64_t at, void *out, size_t size) {
    return pread(memory, out, size, (off_t)at) == (ssize_t)size;
}

static bool is_overlay(int memory, uint64_t at) {
    char text[8];
    return at && peek(memory, at, text, sizeof text) && memcmp(text, "overlay", 8) == 0;
}

/* The errno for this call, 0: it goes on. */
static int judge(const struct seccomp_notif *call) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/mem", call->pid);
    int memory = open(path, O_RDONLY | O_CLOEXEC), number = 0;
    uint64_t flags = 0;
    struct mount_attr attr;
    if (memory < 0)
        return 0;
    switch (call->data.nr) {
    case SYS_clone3:
        if (watch_clone3 && peek(memory, call->data.args[0], &flags, sizeof flags) && (flags & CLONE_NEWUSER))
            number = EPERM;
        break;
    case SYS_mount:
        if (watch_overlay && is_overlay(memory, call->data.args[2]))
            number = ENODEV;
        break;
    case SYS_fsopen:
        if (watch_overlay && is_overlay(memory, call->data.args[0]))
            number = ENODEV;
        break;
    case SYS_mount_setattr:
        if (watch_idmap && peek(memory, call->data.args[3], &attr, sizeof attr) && (attr.attr_set & MOUNT_ATTR_IDMAP))
            number = EINVAL;
        break;
    }
    close(memory);
    return number;
}

static _Noreturn void supervise(int listener) {
    struct pollfd polls = {.fd = listener, .events = POLLIN};
    for (;;) {
        struct seccomp_notif call = {0};
        if (poll(&polls, 1, -1) < 0 && errno != EINTR)
            _exit(1);
        if (polls.revents & POLLHUP) /* nobody is left under the filter */
            _exit(0);
        if (!(polls.revents & POLLIN) || ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
            continue;
        int number = judge(&call);
        struct seccomp_notif_resp answer = {
            .id = call.id, .error = -number, .flags = number ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer); /* the caller may be gone: its loss */
    }
}

static int take_fd(int from) {
    char byte, space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    int fd;
    if (recvmsg(from, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
        _exit(1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static void give_fd(int to, int fd) {
    char byte = 0, space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(to, &message, 0) != 1)
        die("sendmsg");
    close(fd);
    close(to);
}

/* The supervisor is nobody's child, so that whoever waits for the program's children does not find it among them; and it
 * is born before the filter: one that is under it would keep it alive for ever. Returns where its descriptor goes. */
static int start_supervisor(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        die("socketpair");
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child > 0) {
        waitpid(child, NULL, 0);
        close(pair[0]);
        return pair[1];
    }
    setsid();
    if (fork() != 0)
        _exit(0);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2; fd++)
        dup2(null, fd);
    for (int fd = 3; fd < 256; fd++)
        if (fd != pair[0])
            close(fd);
    for (int number = 1; number < NSIG; number++)
        signal(number, number == SIGCHLD ? SIG_DFL : SIG_IGN);
    supervise(take_fd(pair[0]));
}

static void install_filter(void) {
    struct sock_fprog filter = {.len = program_len, .filter = program};
    bool watch = watch_clone3 || watch_overlay || watch_idmap;
    int supervisor = watch ? start_supervisor() : -1;
    if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        die("no_new_privs");
    long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, watch ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0, &filter);
    if (fd < 0)
        die("seccomp");
    if (watch)
        give_fd(supervisor, (int)fd);
}

/* ---- the file tree ---- */

static void need_mounts(void) {
    if (own_mounts)
        return;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        die("a mount namespace");
    own_mounts = true;
}

static void take_cgroup(const char *name, const void *data) {
    (void)name, (void)data;
    need_mounts();
    if (mount("none", "/sys/fs/cgroup", "tmpfs", MS_RDONLY, "mode=0555") < 0)
        die("/sys/fs/cgroup");
}

static void take_read_only(const char *name, const void *data) {
    (void)name, (void)data;
    need_mounts();
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (syscall(SYS_mount_setattr, AT_FDCWD, "/sys/fs/cgroup", AT_RECURSIVE, &attr, sizeof attr) < 0)
        die("/sys/fs/cgroup");
}

static void take_hierarchy(const char *name, const void *data) {
    char path[64];
    (void)name;
    need_mounts();
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s", (const char *)data);
    if (mount("none", path, "tmpfs", MS_RDONLY, "mode=0555") < 0)
        die(path);
}

static void take_nft(const char *name, const void *data) {
    (void)name, (void)data;
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 6));
    load(offsetof(struct seccomp_data, args[0]));
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3));
    load(offsetof(struct seccomp_data, args[2]));
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_NETFILTER, 0, 1));
    emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT));
    load(offsetof(struct seccomp_data, nr));
}

static void take_proc(const char *name, const void *data) {
    (void)name, (void)data;
    need_mounts();
    if (mount("/dev/null", "/proc/version", NULL, MS_BIND, NULL) < 0)
        die("/proc/version");
}

static void take_capability(const char *name, const void *data) {
    int cap = (int)(uintptr_t)data;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    if (prctl(PR_CAPBSET_DROP, cap) < 0 || syscall(SYS_capget, &head, sets) < 0)
        die(name);
    sets[cap / 32].effective &= ~(1u << cap % 32);
    sets[cap / 32].permitted &= ~(1u << cap % 32);
    sets[cap / 32].inheritable &= ~(1u << cap % 32);
    if (syscall(SYS_capset, &head, sets) < 0)
        die(name);
}

/* ---- the words ---- */

/* Capabilities last: what is done before needs them. */
static void take(char *words, bool capabilities) {
    char *rest = words;
    for (char *word; (word = strsep(&rest, ","));) {
        size_t i = 0;
        while (i < FEATURES && strcmp(features[i].name, word) != 0)
            i++;
        if (i == FEATURES) {
            fprintf(stderr, "lack: what is '%s'? see lack --list\n", word);
            exit(125);
        }
        if ((features[i].take == take_capability) == capabilities)
            features[i].take(word, features[i].data);
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < FEATURES; i++)
            printf("%-16s %s\n", features[i].name, features[i].text);
        return 0;
    }
    if (argc < 4 || strcmp(argv[2], "--") != 0) {
        fprintf(stderr, "usage: lack WHAT[,WHAT...] -- PROGRAM [ARGUMENT...]\n       lack --list\n");
        return 125;
    }
    char *again = strdup(argv[1]);
    load(offsetof(struct seccomp_data, arch));
    emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
    emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    load(offsetof(struct seccomp_data, nr));
    take(argv[1], false);
    emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    install_filter();
    take(again, true);
    execvp(argv[3], argv + 3);
    die(argv[3]);
}
