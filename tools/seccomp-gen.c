/* Writes the system call filters of a box as C arrays (build/gen/seccomp_filter.h). Run by the build; with `--table` it
 * prints what every number answers to a command, which a test compares with what the kernel really does.
 *
 * The policy is the tables below: what is allowed, in groups that each say why; what is refused for its arguments;
 * and what is refused with another answer than EPERM. Whatever is in no table is refused with EPERM; numbers newer
 * than this list answer ENOSYS, as an older kernel would, so that libraries fall back. Other architectures and x32 kill
 * the process.
 *
 * It comes in several programs, because a large one takes 120 us to install and a small one 25: `seccomp_box` is
 * installed once, by PID 1 before it builds the box, and inherited; `seccomp_command` takes from every command what
 * only that building and the runner need. Boxes with a writable mount get `seccomp_set_id`, once and inherited: whoever
 * makes a set-user-ID file there makes it on the host, and it is the directory owner's. Their commands have
 * `seccomp_command_set_id`, which takes openat2 away too: its mode lies in memory, where a filter cannot look.
 * A container has its engine's filter, and with a writable mount `seccomp_container` and `seccomp_container_command` besides,
 * which do the same.
 *
 * ptrace is allowed on purpose: debuggers are an agent's tools. It reaches only processes of the same user in the same
 * box; the runner is not dumpable and of another user. process_vm_* and pidfd_getfd, which debuggers can do without, are not. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMESPACES                                                                                                     \
    (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP)
#define LAST_KNOWN 450    /* newest number this policy was written against ... */
#define LAST_ANSWERED 520 /* ... and how far ahead ENOSYS is the answer */

struct group {
    const char *reason;
    const char *names; /* separated by spaces; those an architecture does not have are skipped */
};

static const struct group allowed[] = {
    {"bytes in and out of descriptors one already has",
     "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek _llseek close close_range dup dup2 "
     "dup3 pipe pipe2 fcntl sendfile splice tee vmsplice copy_file_range fsync fdatasync sync sync_file_range "
     "readahead fadvise64 ftruncate fallocate flock"},
    {"files by name, within the box's root and the user's rights",
     "open openat openat2 creat access faccessat faccessat2 stat lstat fstat newfstatat statx statfs fstatfs readlink "
     "readlinkat getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 "
     "link linkat symlink symlinkat truncate chmod fchmod fchmodat chown fchown lchown fchownat utime utimes utimensat "
     "futimesat umask mknod mknodat memfd_create"},
    {"extended attributes: security.* and trusted.* need capabilities nobody has here",
     "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr removexattr "
     "lremovexattr fremovexattr"},
    {"memory of its own",
     "brk mmap munmap mremap mprotect madvise mincore msync mlock mlock2 mlockall munlock munlockall membarrier "
     "pkey_alloc pkey_free pkey_mprotect set_mempolicy get_mempolicy mbind"},
    {"processes of its own; clone is looked into below",
     "clone fork vfork execve execveat exit exit_group wait4 waitid set_tid_address set_robust_list get_robust_list "
     "rseq getpid getppid gettid getpgid setpgid getpgrp getsid setsid kill tkill tgkill pidfd_open pidfd_send_signal "
     "prctl arch_prctl ptrace restart_syscall getcpu"},
    {"signals",
     "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo "
     "rt_sigsuspend sigaltstack pause alarm signalfd signalfd4"},
    {"who one is; changing it needs capabilities that only the box's root has, in its own user namespace",
     "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid setresgid "
     "setfsuid setfsgid setgroups capget capset"},
    {"waiting and waking",
     "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_wait epoll_wait_old "
     "epoll_pwait epoll_pwait2 eventfd eventfd2 futex futex_waitv inotify_init inotify_init1 inotify_add_watch "
     "inotify_rm_watch"},
    {"time and timers; setting the clock needs a capability of the host",
     "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep times getitimer setitimer timer_create "
     "timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime"},
    {"scheduling and limits: the cgroup is the real limit",
     "sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam sched_getscheduler "
     "sched_setscheduler sched_getattr sched_setattr sched_get_priority_max sched_get_priority_min "
     "sched_rr_get_interval getpriority setpriority ioprio_get ioprio_set getrlimit setrlimit prlimit64 getrusage"},
    {"sockets; which families is looked into below",
     "socket socketpair bind connect listen accept accept4 getsockname getpeername getsockopt setsockopt sendto "
     "recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown"},
    {"System V and POSIX message queues and memory: the IPC namespace is the box's own",
     "shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink "
     "mq_timedsend mq_timedreceive mq_notify mq_getsetattr"},
    {"questions about the system; of personality only the question is left below",
     "uname sysinfo getrandom personality"},
    {"walls of its own: they can only be added to",
     "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self"},
    {"devices; the two ways to type into a terminal are looked into below", "ioctl"},
    {"PID 1 builds the box, and clones commands into their cgroups; taken from every command below",
     "mount umount2 pivot_root move_mount open_tree mount_setattr fsopen fsconfig fsmount sethostname unshare clone3"},
};

/* What is refused for an argument. Compared as 32 bits, as the kernel does with these: a filter that compares 64 can be
 * passed by setting the upper half. Where there are two conditions, both must hold. */
enum test { UNUSED, IS, IS_NOT };
struct condition {
    enum test test; /* the masked argument is one of the values, or none of them */
    unsigned argument;
    uint32_t mask;
    uint32_t values[8];
    unsigned count;
};
struct refusal {
    const char *names; /* separated by spaces */
    int answer;
    struct condition conditions[2];
};
#define ONE(test, argument, mask, value)                                                                               \
    { test, argument, mask, {value}, 1 }
#define SET_ID (S_ISUID | S_ISGID)
#define IOPRIO_WHO_USER 3 /* ioprio_set has no header */
#define MAKES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
#define INTERNET                                                                                                       \
    { IS, 0, ~0u, {AF_INET, AF_INET6}, 2 }

static const struct refusal box_refusals[] = {
    /* what pushes bytes or settings into a terminal one does not own */
    {"ioctl", EPERM, {{IS, 1, ~0u, {TIOCSTI, 0x541C /* TIOCLINUX */, TIOCSETD, TIOCCONS}, 4}}},
    /* no new namespaces */
    {"clone", EPERM, {ONE(IS_NOT, 0, NAMESPACES, 0)}},
    /* families and protocols without a history of holes; the errors are those of a kernel that lacks them */
    {"socket", EAFNOSUPPORT, {{IS_NOT, 0, ~0u, {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}, 4}}},
    {"socketpair", EAFNOSUPPORT, {ONE(IS_NOT, 0, ~0u, AF_UNIX)}},
    {"socket", EPROTONOSUPPORT, {ONE(IS, 0, ~0u, AF_NETLINK), ONE(IS_NOT, 2, ~0u, 0 /* NETLINK_ROUTE */)}},
    {"socket", EPERM, {INTERNET, {IS, 1, 0xf, {SOCK_RAW, 10 /* SOCK_PACKET: AF_PACKET in disguise */}, 2}}},
    {"socket", EPROTONOSUPPORT, {INTERNET, {IS_NOT, 2, ~0u, {0, 1 /* ICMP */, 6 /* TCP */, 17 /* UDP */, 58}, 5}}},
    /* urgent data: nearly nobody's, and a way to a kernel bug through unix sockets (CVE-2025-38236) */
    {"sendmsg recvmsg", EOPNOTSUPP, {ONE(IS, 2, MSG_OOB, MSG_OOB)}},
    {"sendto recvfrom sendmmsg recvmmsg", EOPNOTSUPP, {ONE(IS, 3, MSG_OOB, MSG_OOB)}},
    /* the native personality, and the question which it is */
    {"personality", EPERM, {{IS_NOT, 0, ~0u, {0, 0xffffffffu}, 2}}},
    /* PID 1 and root's commands are one user, so the kernel would let these limit it, and let it fall behind them. Whoever
     * names a user may name PID 1's. Its process group has only itself: commands are sessions of their own. */
    {"prlimit64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler", EPERM, {ONE(IS, 0, ~0u, 1)}},
    {"setpriority", EPERM, {ONE(IS_NOT, 0, ~0u, PRIO_USER), ONE(IS, 1, ~0u, 1)}},
    {"setpriority", EPERM, {ONE(IS, 0, ~0u, PRIO_USER)}},
    {"ioprio_set", EPERM, {ONE(IS_NOT, 0, ~0u, IOPRIO_WHO_USER), ONE(IS, 1, ~0u, 1)}},
    {"ioprio_set", EPERM, {ONE(IS, 0, ~0u, IOPRIO_WHO_USER)}},
    /* Every file system of the host would be written out, as often as a box likes. The kernel writes a box's files out soon in
     * any case, which is what sync promises; whoever must know has fsync. */
    {"sync", 0, {{0}}},
    /* files, FIFOs and sockets, no devices: also not overlayfs's whiteouts */
    {"mknod", EPERM, {{IS_NOT, 1, S_IFMT, {0, S_IFREG, S_IFIFO, S_IFSOCK}, 4}}},
    {"mknodat", EPERM, {{IS_NOT, 2, S_IFMT, {0, S_IFREG, S_IFIFO, S_IFSOCK}, 4}}},
};

/* Every way to give a file the bits set-user-ID and set-group-ID. mkdir ignores them. The mode of an open that makes
 * nothing is whatever lay in the register. */
static const struct refusal set_id_refusals[] = {
    {"chmod fchmod creat mknod", EPERM, {ONE(IS_NOT, 1, SET_ID, 0)}},
    {"fchmodat fchmodat2 mknodat", EPERM, {ONE(IS_NOT, 2, SET_ID, 0)}},
    {"open", EPERM, {ONE(IS_NOT, 1, MAKES, 0), ONE(IS_NOT, 2, SET_ID, 0)}},
    {"openat", EPERM, {ONE(IS_NOT, 2, MAKES, 0), ONE(IS_NOT, 3, SET_ID, 0)}},
};

/* What seccomp_command takes away. clone3 is absent rather than forbidden, so that libraries use clone, whose flags can
 * be looked into. The last row only where set-user-ID is refused. */
static const struct {
    const char *name;
    int answer;
} runner_only[] = {{"clone3", ENOSYS},    {"mount", EPERM},     {"umount2", EPERM},       {"pivot_root", EPERM},
                   {"move_mount", EPERM}, {"open_tree", EPERM}, {"mount_setattr", EPERM}, {"fsopen", EPERM},
                   {"fsconfig", EPERM},   {"fsmount", EPERM},   {"sethostname", EPERM},   {"unshare", EPERM},
                   {"openat2", ENOSYS}};

/* Newer than libseccomp's list. The same numbers on every architecture. */
static const struct {
    const char *name;
    int number;
} allowed_new[] = {{"cachestat", 451},   {"fchmodat2", 452},    {"map_shadow_stack", 453},
                   {"futex_wake", 454},  {"futex_wait", 455},   {"futex_requeue", 456},
                   {"mseal", 462},       {"setxattrat", 463},   {"getxattrat", 464},
                   {"listxattrat", 465}, {"removexattrat", 466}};

/* Absent rather than forbidden, so that libraries use what came before. The events of io_setup are one number for the
 * whole machine (fs.aio-max-nr), which one box could use up; syncfs writes out what all boxes of a file system have written. */
static const char *const absent[] = {
    "io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup",     "io_submit", "io_getevents",
    "io_pgetevents",  "io_cancel",      "io_destroy",        "memfd_secret", "syncfs"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void must(int r, const char *what) {
    if (r < 0) {
        fprintf(stderr, "seccomp-gen: %s: %d\n", what, r);
        exit(1);
    }
}

static int number_of(const char *name) {
    for (size_t i = 0; i < COUNT(allowed_new); i++)
        if (strcmp(name, allowed_new[i].name) == 0)
            return allowed_new[i].number;
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR) {
        fprintf(stderr, "seccomp-gen: no system call '%s'\n", name);
        exit(1);
    }
    return number; /* negative: not on this architecture */
}

/* ---- the list, compiled by libseccomp ---- */

static void allow_groups(scmp_filter_ctx ctx) {
    for (size_t i = 0; i < COUNT(allowed); i++) {
        char name[64];
        int used = 0;
        for (const char *at = allowed[i].names; sscanf(at, "%63s%n", name, &used) == 1; at += used) {
            int number = number_of(name);
            if (number >= 0)
                must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, number, 0), name);
        }
    }
    for (size_t i = 0; i < COUNT(allowed_new); i++)
        must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed_new[i].number, 0), allowed_new[i].name);
}

static bool is_new(int number) {
    for (size_t i = 0; i < COUNT(allowed_new); i++)
        if (allowed_new[i].number == number)
            return true;
    return false;
}

static void answer_absent(scmp_filter_ctx ctx) {
    for (size_t i = 0; i < COUNT(absent); i++)
        must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), number_of(absent[i]), 0), absent[i]);
    for (int number = LAST_KNOWN + 1; number <= LAST_ANSWERED; number++)
        if (!is_new(number))
            must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), number, 0), "a number of the future");
}

static void print_one(struct sock_filter f) {
    printf("    {0x%02x, %u, %u, 0x%08x},\n", f.code, f.jt, f.jf, f.k);
}

static void print_list(void) {
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!ctx)
        exit(1);
    must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "bad architecture");
    must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "balanced tree");
    allow_groups(ctx);
    answer_absent(ctx);
    int fd = memfd_create("filter", 0);
    must(fd, "memfd_create");
    must(seccomp_export_bpf(ctx, fd), "export");
    lseek(fd, 0, SEEK_SET);
    struct sock_filter one;
    while (read(fd, &one, sizeof one) == (ssize_t)sizeof one)
        print_one(one);
    seccomp_release(ctx);
    close(fd);
}

/* ---- the refusals, compiled here ---- */

static void print_load(size_t offset) {
    print_one((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void print_jump(uint32_t value, unsigned yes, unsigned no) {
    print_one((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, (uint8_t)yes, (uint8_t)no));
}

static void print_answer(uint32_t answer) {
    print_one((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer));
}

static unsigned condition_length(const struct condition *condition) {
    return condition->test == UNUSED ? 0 : 2 + condition->count;
}

/* `after`: how many instructions stand between this condition and the one that lets the call pass. */
static void print_condition(const struct condition *condition, unsigned after) {
    if (condition->test == UNUSED)
        return;
    print_load(offsetof(struct seccomp_data, args) + condition->argument * sizeof(uint64_t));
    print_one((struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, condition->mask));
    for (unsigned i = 0; i < condition->count; i++) {
        unsigned left = condition->count - 1 - i;
        if (condition->test == IS)
            print_jump(condition->values[i], left, left ? 0 : after);
        else
            print_jump(condition->values[i], left + after, 0);
    }
}

/* Ahead of each: the number is loaded. Behind it as well. */
static void print_refusal(int number, const struct refusal *refusal) {
    const struct condition *first = &refusal->conditions[0], *second = &refusal->conditions[1];
    unsigned second_length = condition_length(second);
    print_jump((uint32_t)number, 0, condition_length(first) + second_length + 2);
    print_condition(first, second_length + 1);
    print_condition(second, 1);
    print_answer(SECCOMP_RET_ERRNO | (uint32_t)refusal->answer);
    print_load(offsetof(struct seccomp_data, nr));
}

static void print_refusals(const struct refusal *refusals, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char name[64];
        int used = 0;
        for (const char *at = refusals[i].names; sscanf(at, "%63s%n", name, &used) == 1; at += used)
            if (number_of(name) >= 0)
                print_refusal(number_of(name), &refusals[i]);
    }
}

/* The numbers mean nothing before this. */
static void print_native(void) {
    print_load(offsetof(struct seccomp_data, arch));
    print_jump(seccomp_arch_native() == SCMP_ARCH_AARCH64 ? AUDIT_ARCH_AARCH64 : AUDIT_ARCH_X86_64, 1, 0);
    print_answer(SECCOMP_RET_KILL_PROCESS);
    print_load(offsetof(struct seccomp_data, nr));
}

static void print_box(void) {
    printf("static const struct sock_filter seccomp_box[] = {\n");
    print_native();
    print_refusals(box_refusals, COUNT(box_refusals));
    print_list();
    printf("};\n");
}

static void print_set_id(void) {
    printf("static const struct sock_filter seccomp_set_id[] = {\n");
    print_load(offsetof(struct seccomp_data, nr));
    print_refusals(set_id_refusals, COUNT(set_id_refusals));
    print_answer(SECCOMP_RET_ALLOW);
    printf("};\n");
}

#define X32_BIT 0x40000000u /* of every number of that architecture */

/* An engine's filter lets pass what would get around it: system calls of other architectures, and rings of them. */
static void print_container(void) {
    printf("static const struct sock_filter seccomp_container[] = {\n");
    print_native();
    print_one((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
    print_answer(SECCOMP_RET_KILL_PROCESS);
    print_refusals(set_id_refusals, COUNT(set_id_refusals));
    print_jump((uint32_t)number_of("io_uring_setup"), 0, 1);
    print_answer(SECCOMP_RET_ERRNO | ENOSYS);
    print_answer(SECCOMP_RET_ALLOW);
    printf("};\n");
}

static void print_command(const char *name, size_t first, size_t count) {
    printf("static const struct sock_filter %s[] = {\n", name);
    print_load(offsetof(struct seccomp_data, nr));
    for (size_t i = first; i < count; i++) {
        print_jump((uint32_t)number_of(runner_only[i].name), 0, 1);
        print_answer(SECCOMP_RET_ERRNO | (uint32_t)runner_only[i].answer);
    }
    print_answer(SECCOMP_RET_ALLOW);
    printf("};\n");
}

/* ---- the table ---- */

static bool listed(const char *names, const char *name) {
    char one[64];
    int used = 0;
    for (const char *at = names; sscanf(at, "%63s%n", one, &used) == 1; at += used)
        if (strcmp(one, name) == 0)
            return true;
    return false;
}

static const char *table_answer(int number, const char *name) {
    for (size_t i = 0; i + 1 < COUNT(runner_only); i++)
        if (number_of(runner_only[i].name) == number)
            return runner_only[i].answer == ENOSYS ? "ENOSYS" : "EPERM";
    for (size_t i = 0; i < COUNT(box_refusals); i++)
        if (listed(box_refusals[i].names, name))
            return "argument";
    for (size_t i = 0; i < COUNT(allowed); i++)
        if (listed(allowed[i].names, name))
            return "allow";
    for (size_t i = 0; i < COUNT(absent); i++)
        if (strcmp(absent[i], name) == 0)
            return "ENOSYS";
    if (is_new(number))
        return "allow";
    return number > LAST_KNOWN && number <= LAST_ANSWERED ? "ENOSYS" : "EPERM";
}

static void print_table(void) {
    for (int number = 0; number <= 600; number++) {
        char *name = seccomp_syscall_resolve_num_arch(seccomp_arch_native(), number);
        printf("%d\t%s\t%s\n", number, name ? name : "-", table_answer(number, name ? name : "-"));
        free(name);
    }
}

int main(int argc, char **argv) {
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "an argument is read as its lower half");
    if (argc == 2 && strcmp(argv[1], "--table") == 0) {
        print_table();
        return fflush(stdout) != 0;
    }
    printf("/* Generated by tools/seccomp-gen.c. */\n");
    print_box();
    print_set_id();
    print_container();
    print_command("seccomp_command", 0, COUNT(runner_only) - 1);
    print_command("seccomp_command_set_id", 0, COUNT(runner_only));
    print_command("seccomp_container_command", COUNT(runner_only) - 1, COUNT(runner_only));
    return fflush(stdout) != 0;
}
