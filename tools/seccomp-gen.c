/* Writes the system call filters of a box as C arrays (build/gen/seccomp_filter.h). Run by the build.
 *
 * The policy is the tables below: what is allowed, in groups that each say why, and what is refused with another
 * answer than EPERM. Whatever is in no table is refused with EPERM; numbers newer than this list answer ENOSYS, as an
 * older kernel would, so that libraries fall back. Other architectures and x32 kill the process.
 *
 * It comes in two programs, because a large one takes 120 us to install and a small one 25: `seccomp_box` is installed
 * once, by PID 1 before it builds the box, and inherited; `seccomp_command` takes from every command what only that
 * building and the runner need.
 *
 * ptrace is allowed on purpose: debuggers are an agent's tools. It reaches only processes of the same user in the same
 * box; the runner is not dumpable and of another user, and commands of different calls are in different Landlock
 * domains. process_vm_* and pidfd_getfd, which debuggers can do without, are not. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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
     "dup3 pipe pipe2 fcntl sendfile splice tee vmsplice copy_file_range fsync fdatasync sync syncfs sync_file_range "
     "readahead fadvise64 ftruncate fallocate flock"},
    {"files by name, within the box's root and the user's rights",
     "open openat openat2 creat access faccessat faccessat2 stat lstat fstat newfstatat statx statfs fstatfs readlink "
     "readlinkat getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 "
     "link linkat symlink symlinkat truncate chmod fchmod fchmodat chown fchown lchown fchownat utime utimes utimensat "
     "futimesat umask name_to_handle_at memfd_create"},
    {"extended attributes: security.* and trusted.* need capabilities nobody has here",
     "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr removexattr "
     "lremovexattr fremovexattr"},
    {"memory of its own",
     "brk mmap munmap mremap mprotect madvise mincore msync mlock mlock2 mlockall munlock munlockall membarrier "
     "pkey_alloc pkey_free pkey_mprotect set_mempolicy get_mempolicy mbind memfd_secret"},
    {"processes of its own; clone is looked into below",
     "fork vfork execve execveat exit exit_group wait4 waitid set_tid_address set_robust_list get_robust_list rseq "
     "getpid getppid gettid getpgid setpgid getpgrp getsid setsid kill tkill tgkill pidfd_open pidfd_send_signal "
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
     "inotify_rm_watch io_setup io_submit io_getevents io_pgetevents io_cancel io_destroy"},
    {"time and timers; setting the clock needs a capability of the host",
     "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep times getitimer setitimer timer_create "
     "timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime"},
    {"scheduling and limits: the cgroup is the real limit",
     "sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam sched_getscheduler "
     "sched_setscheduler sched_getattr sched_setattr sched_get_priority_max sched_get_priority_min "
     "sched_rr_get_interval getpriority setpriority ioprio_get ioprio_set getrlimit setrlimit prlimit64 getrusage"},
    {"sockets; which families is looked into below",
     "bind connect listen accept accept4 getsockname getpeername getsockopt setsockopt sendto recvfrom sendmsg recvmsg "
     "sendmmsg recvmmsg shutdown"},
    {"System V and POSIX message queues and memory: the IPC namespace is the box's own",
     "shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink "
     "mq_timedsend mq_timedreceive mq_notify mq_getsetattr"},
    {"questions about the system", "uname sysinfo getrandom"},
    {"walls of its own: they can only be added to",
     "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self"},
    {"devices; the two ways to type into a terminal are looked into below", "ioctl"},
    {"PID 1 builds the box, and clones commands into their cgroups; taken from every command below",
     "mount umount2 pivot_root move_mount open_tree mount_setattr sethostname unshare clone3"},
};

/* What seccomp_command takes away. clone3 is absent rather than forbidden, so that libraries use clone, whose flags can
 * be looked into. */
static const struct {
    const char *name;
    int answer;
} runner_only[] = {{"clone3", ENOSYS},       {"mount", EPERM},       {"umount2", EPERM},
                   {"pivot_root", EPERM},    {"move_mount", EPERM},  {"open_tree", EPERM},
                   {"mount_setattr", EPERM}, {"sethostname", EPERM}, {"unshare", EPERM}};

/* Newer than libseccomp's list. The same numbers on every architecture. */
static const struct {
    const char *name;
    int number;
} allowed_new[] = {{"cachestat", 451},   {"fchmodat2", 452},    {"map_shadow_stack", 453},
                   {"futex_wake", 454},  {"futex_wait", 455},   {"futex_requeue", 456},
                   {"mseal", 462},       {"setxattrat", 463},   {"getxattrat", 464},
                   {"listxattrat", 465}, {"removexattrat", 466}};

/* Absent rather than forbidden, so that libraries use what came before. */
static const char *const absent[] = {"io_uring_setup", "io_uring_enter", "io_uring_register"};

/* ioctl requests that push bytes or settings into a terminal one does not own. Compared as 32 bits, as the kernel does:
 * a filter that compares 64 can be passed by setting the upper half. */
static const uint32_t forbidden_ioctls[] = {TIOCSTI, 0x541C /* TIOCLINUX */, TIOCSETD, TIOCCONS};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void must(int r, const char *what) {
    if (r < 0) {
        fprintf(stderr, "seccomp-gen: %s: %d\n", what, r);
        exit(1);
    }
}

static int number_of(const char *name) {
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR) {
        fprintf(stderr, "seccomp-gen: no system call '%s'\n", name);
        exit(1);
    }
    return number; /* negative: not on this architecture */
}

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

static void allow_by_argument(scmp_filter_ctx ctx) {
    /* no new namespaces */
    must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, number_of("clone"), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES, 0)),
         "clone");
    /* families without a history of holes */
    static const int families[] = {AF_UNIX, AF_INET, AF_INET6};
    for (size_t i = 0; i < COUNT(families); i++)
        must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, number_of("socket"), 1,
                              SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i])),
             "socket");
    must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, number_of("socket"), 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
                          SCMP_A2(SCMP_CMP_EQ, 0 /* NETLINK_ROUTE */)),
         "socket");
    must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, number_of("socketpair"), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX)),
         "socketpair");
    /* the native personality, and the question which it is */
    must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, number_of("personality"), 1, SCMP_A0(SCMP_CMP_EQ, 0)), "personality");
    must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, number_of("personality"), 1, SCMP_A0(SCMP_CMP_EQ, 0xffffffffu)),
         "personality");
    /* files, FIFOs and sockets, no devices: also not overlayfs's whiteouts */
    static const unsigned types[] = {0, S_IFREG, S_IFIFO, S_IFSOCK};
    for (size_t i = 0; i < COUNT(types); i++) {
        if (number_of("mknod") >= 0)
            must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, number_of("mknod"), 1,
                                  SCMP_A1(SCMP_CMP_MASKED_EQ, S_IFMT, types[i])),
                 "mknod");
        must(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, number_of("mknodat"), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, types[i])),
             "mknodat");
    }
}

static void answer_absent(scmp_filter_ctx ctx) {
    for (size_t i = 0; i < COUNT(absent); i++)
        must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), number_of(absent[i]), 0), absent[i]);
    for (int number = LAST_KNOWN + 1; number <= LAST_ANSWERED; number++) {
        size_t i = 0;
        while (i < COUNT(allowed_new) && allowed_new[i].number != number)
            i++;
        if (i == COUNT(allowed_new))
            must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), number, 0), "a number of the future");
    }
}

static void print_one(struct sock_filter f) {
    printf("    {0x%02x, %u, %u, 0x%08x},\n", f.code, f.jt, f.jf, f.k);
}

/* Ahead of the generated program: load the number; when it is ioctl, look at the request. */
static void print_prefix(void) {
    unsigned count = COUNT(forbidden_ioctls);
    print_one((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    print_one(
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number_of("ioctl"), 0, (uint8_t)(count + 2)));
    print_one((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])));
    for (unsigned i = 0; i < count; i++)
        print_one((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden_ioctls[i],
                                               (uint8_t)(i + 1 == count ? 0 : count - i - 1),
                                               (uint8_t)(i + 1 == count ? 1 : 0)));
    print_one((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
}

static void print_command_filter(void) {
    unsigned count = COUNT(runner_only);
    printf("static const struct sock_filter seccomp_command[] = {\n");
    print_one((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (unsigned i = 0; i < count; i++) {
        int number = number_of(runner_only[i].name);
        print_one((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1));
        print_one((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)runner_only[i].answer));
    }
    print_one((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    printf("};\n");
}

int main(void) {
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "args[1] is read as its lower half");
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!ctx)
        return 1;
    must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "bad architecture");
    must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "balanced tree");
    allow_groups(ctx);
    allow_by_argument(ctx);
    answer_absent(ctx);
    int fd = memfd_create("filter", 0);
    must(fd, "memfd_create");
    must(seccomp_export_bpf(ctx, fd), "export");
    lseek(fd, 0, SEEK_SET);
    printf("/* Generated by tools/seccomp-gen.c. */\nstatic const struct sock_filter seccomp_box[] = {\n");
    print_prefix();
    struct sock_filter one;
    while (read(fd, &one, sizeof one) == (ssize_t)sizeof one)
        print_one(one);
    printf("};\n");
    print_command_filter();
    return fflush(stdout) != 0;
}
