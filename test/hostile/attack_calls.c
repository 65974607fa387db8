/* System calls a box has no business with: `attack_calls GROUP` tries each of a group and prints "NAME ANSWER", the
 * answer being OK or the error's name. `attack_calls scan NUMBER...` does so for bare numbers, `attack_calls kill WAY` for
 * ways to call that end the process. Every row is a real attempt: with the wall away it would have an effect or another
 * error. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define CALL(...) answer(syscall(__VA_ARGS__))
#define ONE(name, ...)                                                                                                 \
    static int name(void) {                                                                                            \
        return __VA_ARGS__;                                                                                            \
    }
static char memory[4096];

static int answer(long result) {
    return result < 0 ? errno : 0;
}

static int try_open(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/* ---- mounts ---- */

ONE(do_mount, CALL(SYS_mount, "tmpfs", "/mnt", "tmpfs", 0, NULL))
ONE(do_remount, CALL(SYS_mount, NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL))
ONE(do_umount, CALL(SYS_umount2, "/proc/kallsyms", MNT_DETACH))
ONE(do_pivot, CALL(SYS_pivot_root, ".", "."))
ONE(do_chroot, CALL(SYS_chroot, "/"))
ONE(do_fsopen, CALL(SYS_fsopen, "tmpfs", 0))
ONE(do_fsconfig, CALL(SYS_fsconfig, 0, 0, NULL, NULL, 0))
ONE(do_fsmount, CALL(SYS_fsmount, 0, 0, 0))
ONE(do_fspick, CALL(SYS_fspick, AT_FDCWD, "/", 0))
ONE(do_move_mount, CALL(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/mnt", 0))
ONE(do_open_tree, CALL(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE))
static int do_mount_setattr(void) {
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_NOSUID};
    return CALL(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof attr);
}
ONE(do_statmount, CALL(457, memory, memory, sizeof memory, 0))
ONE(do_listmount, CALL(458, memory, memory, 10, 0))
ONE(do_open_tree_attr, CALL(467, AT_FDCWD, "/", OPEN_TREE_CLONE, NULL, 0))
ONE(do_swapon, CALL(SYS_swapon, "/tmp/x", 0))
ONE(do_quotactl, CALL(SYS_quotactl, 0, "/", 0, memory))
ONE(do_quotactl_fd, CALL(443, 0, 0, 0, memory))

/* ---- namespaces ---- */

static int clone_with(unsigned long flags) {
    long pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return answer(pid);
}
ONE(do_clone_user, clone_with(CLONE_NEWUSER))
ONE(do_clone_user_high, clone_with(1ul << 40 | CLONE_NEWUSER | CLONE_NEWNS))
ONE(do_clone_net, clone_with(CLONE_NEWNET))
ONE(do_clone_plain, clone_with(0))
static int do_clone3(void) {
    struct clone_args args = {.exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        _exit(0);
    return answer(pid);
}
ONE(do_unshare_user, CALL(SYS_unshare, CLONE_NEWUSER))
ONE(do_unshare_mount, CALL(SYS_unshare, CLONE_NEWNS))
ONE(do_unshare_time, CALL(SYS_unshare, 0x80 /* CLONE_NEWTIME */))
static int do_setns(void) {
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? errno : CALL(SYS_setns, fd, 0);
}
static int do_setns_pid1(void) {
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    return fd < 0 ? errno : CALL(SYS_setns, fd, CLONE_NEWNS);
}

/* ---- devices ---- */

static int make_node(mode_t type, unsigned major, unsigned minor) {
    unlink("/tmp/node");
    return answer(mknod("/tmp/node", type | 0666, makedev(major, minor)));
}
ONE(do_mknod_disk, make_node(S_IFBLK, 8, 0))
ONE(do_mknod_mem, make_node(S_IFCHR, 1, 1))
ONE(do_mknod_whiteout, make_node(S_IFCHR, 0, 0))
ONE(do_mknod_fifo, make_node(S_IFIFO, 0, 0))
static int do_mknodat_disk(void) {
    unlink("/tmp/node");
    return CALL(SYS_mknodat, AT_FDCWD, "/tmp/node", S_IFBLK | 0666, makedev(8, 0));
}
ONE(do_open_kvm, try_open("/dev/kvm", O_RDWR))
ONE(do_open_mem, try_open("/dev/mem", O_RDWR))
ONE(do_open_fuse, try_open("/dev/fuse", O_RDWR))
ONE(do_open_loop, try_open("/dev/loop-control", O_RDWR))

/* ---- the kernel's machinery ---- */

static int do_bpf(void) {
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return CALL(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr);
}
static int do_perf(void) {
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .exclude_kernel = 1};
    return CALL(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}
ONE(do_add_key, CALL(SYS_add_key, "user", "cubby", "x", 1, KEY_SPEC_USER_KEYRING))
ONE(do_request_key, CALL(SYS_request_key, "user", "cubby", NULL, KEY_SPEC_USER_KEYRING))
ONE(do_keyctl, CALL(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1))
ONE(do_userfaultfd, CALL(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */))
ONE(do_io_uring, CALL(SYS_io_uring_setup, 1, memory))
static int do_io_setup(void) {
    unsigned long context = 0;
    return CALL(SYS_io_setup, 1, &context);
}
ONE(do_kexec, CALL(SYS_kexec_load, 0, 0, NULL, 0))
ONE(do_kexec_file, CALL(SYS_kexec_file_load, -1, -1, 0, "", 0))
ONE(do_init_module, CALL(SYS_init_module, memory, 1, ""))
ONE(do_finit_module, CALL(SYS_finit_module, -1, "", 0))
ONE(do_delete_module, CALL(SYS_delete_module, "x", 0))
ONE(do_iopl, CALL(SYS_iopl, 3))
ONE(do_ioperm, CALL(SYS_ioperm, 0, 1, 1))
ONE(do_modify_ldt, CALL(SYS_modify_ldt, 0, memory, sizeof memory))
ONE(do_acct, CALL(SYS_acct, NULL))
ONE(do_reboot, CALL(SYS_reboot, 0, 0, 0, NULL))
static int do_settime(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return CALL(SYS_clock_settime, CLOCK_REALTIME, &now);
}
ONE(do_sethostname, CALL(SYS_sethostname, "x", 1))
ONE(do_syslog, CALL(SYS_syslog, 3, memory, sizeof memory))
ONE(do_personality, CALL(SYS_personality, 0x0040000 /* ADDR_NO_RANDOMIZE */))
ONE(do_personality_ask, CALL(SYS_personality, 0xffffffff))
static union {
    struct file_handle head;
    char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
} handle = {.head.handle_bytes = MAX_HANDLE_SZ};
static int do_to_handle(void) {
    int mount;
    return CALL(SYS_name_to_handle_at, AT_FDCWD, "/", &handle, &mount, 0x200 /* AT_HANDLE_FID */);
}
ONE(do_handle, CALL(SYS_open_by_handle_at, AT_FDCWD, &handle, O_RDONLY))
ONE(do_syncfs, CALL(SYS_syncfs, open("/", O_RDONLY | O_CLOEXEC)))
ONE(do_fanotify, CALL(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, O_RDONLY))
ONE(do_kcmp, CALL(SYS_kcmp, 1, getpid(), 0, 0, 0))
ONE(do_move_pages, CALL(SYS_move_pages, 1, 0, NULL, NULL, NULL, 0))
ONE(do_migrate_pages, CALL(SYS_migrate_pages, 1, 8, memory, memory))
ONE(do_memfd_secret, CALL(SYS_memfd_secret, 0))
ONE(do_lookup_dcookie, CALL(SYS_lookup_dcookie, 0, memory, sizeof memory))
ONE(do_vhangup, CALL(SYS_vhangup))

/* ---- PID 1 ---- */

ONE(do_ptrace_attach, CALL(SYS_ptrace, PTRACE_ATTACH, 1, 0, 0))
ONE(do_ptrace_seize, CALL(SYS_ptrace, PTRACE_SEIZE, 1, 0, 0))
static int do_vm_read(void) {
    struct iovec mine = {memory, 8}, theirs = {(void *)(uintptr_t)0x400000, 8};
    return CALL(SYS_process_vm_readv, 1, &mine, 1, &theirs, 1, 0);
}
static int do_vm_write(void) {
    struct iovec mine = {memory, 8}, theirs = {(void *)(uintptr_t)0x400000, 8};
    return CALL(SYS_process_vm_writev, 1, &mine, 1, &theirs, 1, 0);
}
static int do_pidfd_getfd(void) {
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    return fd < 0 ? errno : CALL(SYS_pidfd_getfd, fd, 3, 0);
}
static int do_process_madvise(void) {
    int fd = (int)syscall(SYS_pidfd_open, 1, 0);
    struct iovec theirs = {(void *)(uintptr_t)0x400000, 4096};
    return fd < 0 ? errno : CALL(SYS_process_madvise, fd, &theirs, 1, 20, 0);
}
ONE(do_mem, try_open("/proc/1/mem", O_RDWR))
ONE(do_mem_read, try_open("/proc/1/mem", O_RDONLY))
ONE(do_environ, try_open("/proc/1/environ", O_RDONLY))
ONE(do_maps, try_open("/proc/1/maps", O_RDONLY))
ONE(do_root, try_open("/proc/1/root", O_RDONLY | O_DIRECTORY))
ONE(do_cwd, try_open("/proc/1/cwd", O_RDONLY | O_DIRECTORY))
ONE(do_fd, try_open("/proc/1/fd", O_RDONLY | O_DIRECTORY))
ONE(do_exe, try_open("/proc/1/exe", O_RDONLY))
ONE(do_exe_link, answer(readlink("/proc/1/exe", memory, sizeof memory)))
ONE(do_ns, try_open("/proc/1/ns/mnt", O_RDONLY))
ONE(do_map_files, try_open("/proc/1/map_files", O_RDONLY | O_DIRECTORY))
ONE(do_oom, try_open("/proc/1/oom_score_adj", O_WRONLY))

/* ---- the limits, the rank and the processors of PID 1; and the caller's own, which are its own affair ---- */

enum { IO_PROCESS = 1, IO_GROUP = 2, IO_USER = 3, IO_IDLE = 3 << 13 }; /* of ioprio_set, which has no header */

static int limit_of(pid_t pid) {
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    return CALL(SYS_prlimit64, pid, RLIMIT_CORE, &limit, NULL);
}
static int affinity_of(pid_t pid) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    return CALL(SYS_sched_setaffinity, pid, sizeof set, &set);
}
static int do_limit_of_1(void) {
    struct rlimit files = {4, 4};
    return CALL(SYS_prlimit64, 1, RLIMIT_NOFILE, &files, NULL);
}
/* The upper half of a pid does not count for the kernel. */
static int do_limit_of_1_high(void) {
    struct rlimit files = {4, 4};
    return CALL(SYS_prlimit64, 1l << 32 | 1, RLIMIT_NOFILE, &files, NULL);
}
ONE(do_limit_of_own, limit_of(0) ? limit_of(0) : limit_of(getpid()))
ONE(do_nice_1, CALL(SYS_setpriority, PRIO_PROCESS, 1, 19))
ONE(do_nice_group_1, CALL(SYS_setpriority, PRIO_PGRP, 1, 19))
ONE(do_nice_user, CALL(SYS_setpriority, PRIO_USER, 0, 19))
static int do_nice_own(void) {
    int number = CALL(SYS_setpriority, PRIO_PROCESS, 0, 1);
    return number ? number : CALL(SYS_setpriority, PRIO_PGRP, 0, 1);
}
ONE(do_affinity_of_1, affinity_of(1))
ONE(do_affinity_of_own, affinity_of(0) ? affinity_of(0) : affinity_of(getpid()))
static int do_scheduler_of_1(void) {
    struct sched_param none = {0};
    return CALL(SYS_sched_setscheduler, 1, SCHED_IDLE, &none);
}
static int do_parameter_of_1(void) {
    struct sched_param none = {0};
    return CALL(SYS_sched_setparam, 1, &none);
}
static int do_attribute_of_1(void) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t rest[7];
    } idle = {sizeof idle, SCHED_OTHER, 0, 19, {0}};
    return CALL(SYS_sched_setattr, 1, &idle, 0);
}
ONE(do_io_of_1, CALL(SYS_ioprio_set, IO_PROCESS, 1, IO_IDLE))
ONE(do_io_of_group_1, CALL(SYS_ioprio_set, IO_GROUP, 1, IO_IDLE))
ONE(do_io_of_user, CALL(SYS_ioprio_set, IO_USER, 0, IO_IDLE))
ONE(do_io_of_own, CALL(SYS_ioprio_set, IO_PROCESS, 0, IO_IDLE))
ONE(do_autogroup, try_open("/proc/1/autogroup", O_WRONLY))
static int do_timerslack(void) {
    int fd = open("/proc/1/timerslack_ns", O_WRONLY | O_CLOEXEC);
    return fd < 0 ? errno : answer(write(fd, "1000000000", 10));
}
ONE(do_join_group_1, setpgid(0, 1) < 0 ? errno : 0)

/* ---- sockets ---- */

static int sock(int family, int type, int protocol) {
    int fd = (int)syscall(SYS_socket, family, type, protocol);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}
ONE(do_unix, sock(AF_UNIX, SOCK_STREAM, 0))
ONE(do_tcp, sock(AF_INET, SOCK_STREAM, 0))
ONE(do_udp6, sock(AF_INET6, SOCK_DGRAM, 0))
ONE(do_route, sock(AF_NETLINK, SOCK_RAW, 0))
ONE(do_alg, sock(AF_ALG, SOCK_SEQPACKET, 0))
ONE(do_vsock, sock(AF_VSOCK, SOCK_STREAM, 0))
ONE(do_packet, sock(AF_PACKET, SOCK_RAW, 0x0300))
ONE(do_old_packet, sock(AF_INET, SOCK_PACKET, 0x0300))
ONE(do_raw, sock(AF_INET, SOCK_RAW, 255))
ONE(do_raw6, sock(AF_INET6, SOCK_RAW, 58))
ONE(do_ping, sock(AF_INET, SOCK_DGRAM, 1))
ONE(do_sctp, sock(AF_INET, SOCK_STREAM, 132))
ONE(do_mptcp, sock(AF_INET, SOCK_STREAM, 262))
ONE(do_bluetooth, sock(AF_BLUETOOTH, SOCK_RAW, 1))
ONE(do_can, sock(AF_CAN, SOCK_RAW, 1))
ONE(do_tipc, sock(AF_TIPC, SOCK_STREAM, 0))
ONE(do_rds, sock(AF_RDS, SOCK_SEQPACKET, 0))
ONE(do_xdp, sock(AF_XDP, SOCK_RAW, 0))
ONE(do_netfilter, sock(AF_NETLINK, SOCK_RAW, 12))
ONE(do_audit, sock(AF_NETLINK, SOCK_RAW, 9))
ONE(do_uevent, sock(AF_NETLINK, SOCK_RAW, 15))
ONE(do_sock_diag, sock(AF_NETLINK, SOCK_RAW, 4))
ONE(do_netlink_high, answer(syscall(SYS_socket, 1ul << 32 | AF_NETLINK, SOCK_RAW, 1ul << 32 | 12)))
static int do_pair(void) {
    int pair[2];
    return answer(socketpair(AF_TIPC, SOCK_STREAM, 0, pair));
}
static int do_urgent(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        return errno;
    return answer(send(pair[0], "x", 1, MSG_OOB));
}
static int do_link_up(void) {
    struct ifconf_request {
        char name[16];
        char rest[24];
    } request = {"lo", {0}};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    return answer(ioctl(fd, 0x8914 /* SIOCSIFFLAGS: down */, &request));
}

/* ---- terminals: on one of our own, which the kernel would allow ---- */

static int terminal(unsigned long request) {
    pid_t pid = fork(); /* closing the terminal hangs up whoever leads its session */
    if (pid == 0) {
        int master, slave;
        char byte = 'x';
        if (setsid() < 0 || openpty(&master, &slave, NULL, NULL, NULL) < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
            _exit(200);
        _exit(answer(syscall(SYS_ioctl, slave, request, &byte)));
    }
    int status;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}
ONE(do_sti, terminal(TIOCSTI))
ONE(do_sti_high, terminal(0xdeadbeef00000000ul | TIOCSTI))
ONE(do_linux, terminal(0x541C))
ONE(do_linux_high, terminal(1ul << 32 | 0x541C))
ONE(do_setd, terminal(TIOCSETD))
ONE(do_cons, terminal(TIOCCONS))
static int do_winsize(void) {
    struct winsize size = {.ws_row = 1, .ws_col = 1};
    int master, slave;
    if (openpty(&master, &slave, NULL, NULL, NULL) < 0)
        return errno;
    return answer(ioctl(slave, TIOCSWINSZ, &size));
}

/* ---- rights ---- */

static int do_setuid(void) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(answer(syscall(SYS_setresuid, 4321, 4321, 4321)));
    int status;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}
static int do_back_to_root(void) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(syscall(SYS_setresuid, 1000, 1000, 1000) < 0 ? errno : answer(syscall(SYS_setresuid, 0, 0, 0)));
    int status;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}
ONE(do_ambient, answer(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0)))
static int do_capset(void) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = ~0u, .permitted = ~0u}, {.effective = 1, .permitted = 1}};
    return CALL(SYS_capset, &head, data);
}
static int do_file_caps(void) {
    static const char value[20] = {0, 0, 0, 2, (char)0xff}; /* all of the first byte, permitted */
    close(open("/tmp/capable", O_CREAT | O_WRONLY | O_CLOEXEC, 0755));
    return answer(setxattr("/tmp/capable", "security.capability", value, sizeof value, 0));
}
static int do_trusted(void) {
    close(open("/tmp/capable", O_CREAT | O_WRONLY | O_CLOEXEC, 0755));
    return answer(setxattr("/tmp/capable", "trusted.overlay.opaque", "y", 1, 0));
}
static int do_dumpable_core(void) {
    struct rlimit limit = {1 << 20, 1 << 20};
    return answer(setrlimit(RLIMIT_CORE, &limit));
}
ONE(do_no_new_privs, answer(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)))

static const struct {
    const char *group, *name;
    int (*run)(void);
} rows[] = {
    {"mount", "mount", do_mount},
    {"mount", "remount", do_remount},
    {"mount", "umount2", do_umount},
    {"mount", "pivot_root", do_pivot},
    {"mount", "chroot", do_chroot},
    {"mount", "fsopen", do_fsopen},
    {"mount", "fsconfig", do_fsconfig},
    {"mount", "fsmount", do_fsmount},
    {"mount", "fspick", do_fspick},
    {"mount", "move_mount", do_move_mount},
    {"mount", "open_tree", do_open_tree},
    {"mount", "mount_setattr", do_mount_setattr},
    {"mount", "statmount", do_statmount},
    {"mount", "listmount", do_listmount},
    {"mount", "open_tree_attr", do_open_tree_attr},
    {"mount", "swapon", do_swapon},
    {"mount", "quotactl", do_quotactl},
    {"mount", "quotactl_fd", do_quotactl_fd},
    {"namespace", "clone", do_clone_plain},
    {"namespace", "clone_user", do_clone_user},
    {"namespace", "clone_user_high", do_clone_user_high},
    {"namespace", "clone_net", do_clone_net},
    {"namespace", "clone3", do_clone3},
    {"namespace", "unshare_user", do_unshare_user},
    {"namespace", "unshare_mount", do_unshare_mount},
    {"namespace", "unshare_time", do_unshare_time},
    {"namespace", "setns", do_setns},
    {"namespace", "setns_pid1", do_setns_pid1},
    {"device", "mknod_fifo", do_mknod_fifo},
    {"device", "mknod_disk", do_mknod_disk},
    {"device", "mknod_mem", do_mknod_mem},
    {"device", "mknod_whiteout", do_mknod_whiteout},
    {"device", "mknodat_disk", do_mknodat_disk},
    {"device", "open_kvm", do_open_kvm},
    {"device", "open_mem", do_open_mem},
    {"device", "open_fuse", do_open_fuse},
    {"device", "open_loop", do_open_loop},
    {"kernel", "bpf", do_bpf},
    {"kernel", "perf_event_open", do_perf},
    {"kernel", "add_key", do_add_key},
    {"kernel", "request_key", do_request_key},
    {"kernel", "keyctl", do_keyctl},
    {"kernel", "userfaultfd", do_userfaultfd},
    {"kernel", "io_uring_setup", do_io_uring},
    {"kernel", "io_setup", do_io_setup},
    {"kernel", "kexec_load", do_kexec},
    {"kernel", "kexec_file_load", do_kexec_file},
    {"kernel", "init_module", do_init_module},
    {"kernel", "finit_module", do_finit_module},
    {"kernel", "delete_module", do_delete_module},
    {"kernel", "iopl", do_iopl},
    {"kernel", "ioperm", do_ioperm},
    {"kernel", "modify_ldt", do_modify_ldt},
    {"kernel", "acct", do_acct},
    {"kernel", "reboot", do_reboot},
    {"kernel", "clock_settime", do_settime},
    {"kernel", "sethostname", do_sethostname},
    {"kernel", "syslog", do_syslog},
    {"kernel", "personality", do_personality},
    {"kernel", "personality_ask", do_personality_ask},
    {"kernel", "name_to_handle_at", do_to_handle},
    {"kernel", "open_by_handle_at", do_handle},
    {"kernel", "syncfs", do_syncfs},
    {"kernel", "fanotify_init", do_fanotify},
    {"kernel", "kcmp", do_kcmp},
    {"kernel", "move_pages", do_move_pages},
    {"kernel", "migrate_pages", do_migrate_pages},
    {"kernel", "memfd_secret", do_memfd_secret},
    {"kernel", "lookup_dcookie", do_lookup_dcookie},
    {"kernel", "vhangup", do_vhangup},
    {"runner", "ptrace_attach", do_ptrace_attach},
    {"runner", "ptrace_seize", do_ptrace_seize},
    {"runner", "process_vm_readv", do_vm_read},
    {"runner", "process_vm_writev", do_vm_write},
    {"runner", "pidfd_getfd", do_pidfd_getfd},
    {"runner", "process_madvise", do_process_madvise},
    {"runner", "mem", do_mem},
    {"runner", "mem_read", do_mem_read},
    {"runner", "environ", do_environ},
    {"runner", "maps", do_maps},
    {"runner", "root", do_root},
    {"runner", "cwd", do_cwd},
    {"runner", "fd", do_fd},
    {"runner", "exe", do_exe},
    {"runner", "exe_link", do_exe_link},
    {"runner", "ns", do_ns},
    {"runner", "map_files", do_map_files},
    {"runner", "oom_score_adj", do_oom},
    {"first", "join_group_1", do_join_group_1},
    {"first", "limit_of_1", do_limit_of_1},
    {"first", "limit_of_1_high", do_limit_of_1_high},
    {"first", "limit_of_own", do_limit_of_own},
    {"first", "nice_1", do_nice_1},
    {"first", "nice_group_1", do_nice_group_1},
    {"first", "nice_user", do_nice_user},
    {"first", "nice_own", do_nice_own},
    {"first", "affinity_of_1", do_affinity_of_1},
    {"first", "affinity_of_own", do_affinity_of_own},
    {"first", "scheduler_of_1", do_scheduler_of_1},
    {"first", "parameter_of_1", do_parameter_of_1},
    {"first", "attribute_of_1", do_attribute_of_1},
    {"first", "io_of_1", do_io_of_1},
    {"first", "io_of_group_1", do_io_of_group_1},
    {"first", "io_of_user", do_io_of_user},
    {"first", "io_of_own", do_io_of_own},
    {"first", "autogroup", do_autogroup},
    {"first", "timerslack", do_timerslack},
    {"socket", "unix", do_unix},
    {"socket", "tcp", do_tcp},
    {"socket", "udp6", do_udp6},
    {"socket", "netlink_route", do_route},
    {"socket", "alg", do_alg},
    {"socket", "vsock", do_vsock},
    {"socket", "packet", do_packet},
    {"socket", "old_packet", do_old_packet},
    {"socket", "raw", do_raw},
    {"socket", "raw6", do_raw6},
    {"socket", "ping", do_ping},
    {"socket", "sctp", do_sctp},
    {"socket", "mptcp", do_mptcp},
    {"socket", "bluetooth", do_bluetooth},
    {"socket", "can", do_can},
    {"socket", "tipc", do_tipc},
    {"socket", "rds", do_rds},
    {"socket", "xdp", do_xdp},
    {"socket", "netlink_netfilter", do_netfilter},
    {"socket", "netlink_audit", do_audit},
    {"socket", "netlink_uevent", do_uevent},
    {"socket", "netlink_sock_diag", do_sock_diag},
    {"socket", "netlink_high", do_netlink_high},
    {"socket", "socketpair", do_pair},
    {"socket", "urgent", do_urgent},
    {"socket", "interface_down", do_link_up},
    {"terminal", "winsize", do_winsize},
    {"terminal", "sti", do_sti},
    {"terminal", "sti_high", do_sti_high},
    {"terminal", "linux", do_linux},
    {"terminal", "linux_high", do_linux_high},
    {"terminal", "setd", do_setd},
    {"terminal", "cons", do_cons},
    {"right", "setresuid", do_setuid},
    {"right", "back_to_root", do_back_to_root},
    {"right", "ambient", do_ambient},
    {"right", "capset", do_capset},
    {"right", "file_capability", do_file_caps},
    {"right", "trusted_xattr", do_trusted},
    {"right", "core_limit", do_dumpable_core},
    {"right", "no_new_privs_off", do_no_new_privs},
};

static const char *name_of(int number) {
    return number == 0 ? "OK" : strerrorname_np(number) ? strerrorname_np(number) : "?";
}

/* A bare number, in a child: some would end or stop the caller if they were let through. */
static void scan(long number) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(2);
        long result = syscall(number, -1, -1, -1, -1, -1, -1);
        _exit(result < 0 ? errno & 0xff : 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("%ld signal-%d\n", number, WTERMSIG(status));
    else
        printf("%ld %s\n", number, name_of(WEXITSTATUS(status)));
}

/* getpid in ways that are not this architecture's. Prints the signal that ended the child, or what it got. */
static int foreign(const char *way) {
    pid_t pid = fork();
    if (pid == 0) {
        long result = -1;
        if (strcmp(way, "x32") == 0)
            result = syscall(0x40000000 | SYS_getpid);
        else if (strcmp(way, "x32-ioctl") == 0)
            result = syscall(0x40000000 | 514, 0, TIOCSTI, "x");
#ifdef __x86_64__
        else if (strcmp(way, "i386") == 0)
            __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory"); /* getpid */
        else if (strcmp(way, "i386-lchown") == 0)                               /* its number is ioctl's of x86-64 */
            __asm__ volatile("int $0x80" : "=a"(result) : "a"(16L), "b"(0L), "c"((long)TIOCSTI), "d"(0L) : "memory");
#endif
        _exit(result >= 0 ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        return printf("signal-%d\n", WTERMSIG(status)) < 0;
    return printf("ended-%d\n", WEXITSTATUS(status)) < 0;
}

int main(int argc, char **argv) {
    if (argc >= 2 && strcmp(argv[1], "scan") == 0) {
        for (int i = 2; i < argc; i++)
            scan(strtol(argv[i], NULL, 10));
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "kill") == 0)
        return foreign(argv[2]);
    unsigned found = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (argc != 2 || strcmp(argv[1], rows[i].group) != 0)
            continue;
        found++;
        printf("%s %s\n", rows[i].name, name_of(rows[i].run()));
    }
    return found == 0;
}
