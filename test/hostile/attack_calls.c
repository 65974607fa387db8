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

static int do_mount(void) {
    return CALL(SYS_mount, "tmpfs", "/mnt", "tmpfs", 0, NULL);
}
static int do_remount(void) {
    return CALL(SYS_mount, NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL);
}
static int do_umount(void) {
    return CALL(SYS_umount2, "/proc/kallsyms", MNT_DETACH);
}
static int do_pivot(void) {
    return CALL(SYS_pivot_root, ".", ".");
}
static int do_chroot(void) {
    return CALL(SYS_chroot, "/");
}
static int do_fsopen(void) {
    return CALL(SYS_fsopen, "tmpfs", 0);
}
static int do_fsconfig(void) {
    return CALL(SYS_fsconfig, 0, 0, NULL, NULL, 0);
}
static int do_fsmount(void) {
    return CALL(SYS_fsmount, 0, 0, 0);
}
static int do_fspick(void) {
    return CALL(SYS_fspick, AT_FDCWD, "/", 0);
}
static int do_move_mount(void) {
    return CALL(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/mnt", 0);
}
static int do_open_tree(void) {
    return CALL(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE);
}
static int do_mount_setattr(void) {
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_NOSUID};
    return CALL(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof attr);
}
static int do_statmount(void) {
    return CALL(457, memory, memory, sizeof memory, 0);
}
static int do_listmount(void) {
    return CALL(458, memory, memory, 10, 0);
}
static int do_open_tree_attr(void) {
    return CALL(467, AT_FDCWD, "/", OPEN_TREE_CLONE, NULL, 0);
}
static int do_swapon(void) {
    return CALL(SYS_swapon, "/tmp/x", 0);
}
static int do_quotactl(void) {
    return CALL(SYS_quotactl, 0, "/", 0, memory);
}
static int do_quotactl_fd(void) {
    return CALL(443, 0, 0, 0, memory);
}

/* ---- namespaces ---- */

static int clone_with(unsigned long flags) {
    long pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return answer(pid);
}
static int do_clone_user(void) {
    return clone_with(CLONE_NEWUSER);
}
static int do_clone_user_high(void) {
    return clone_with(1ul << 40 | CLONE_NEWUSER | CLONE_NEWNS);
}
static int do_clone_net(void) {
    return clone_with(CLONE_NEWNET);
}
static int do_clone_plain(void) {
    return clone_with(0);
}
static int do_clone3(void) {
    struct clone_args args = {.exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        _exit(0);
    return answer(pid);
}
static int do_unshare_user(void) {
    return CALL(SYS_unshare, CLONE_NEWUSER);
}
static int do_unshare_mount(void) {
    return CALL(SYS_unshare, CLONE_NEWNS);
}
static int do_unshare_time(void) {
    return CALL(SYS_unshare, 0x80 /* CLONE_NEWTIME */);
}
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
static int do_mknod_disk(void) {
    return make_node(S_IFBLK, 8, 0);
}
static int do_mknod_mem(void) {
    return make_node(S_IFCHR, 1, 1);
}
static int do_mknod_whiteout(void) {
    return make_node(S_IFCHR, 0, 0);
}
static int do_mknod_fifo(void) {
    return make_node(S_IFIFO, 0, 0);
}
static int do_mknodat_disk(void) {
    unlink("/tmp/node");
    return CALL(SYS_mknodat, AT_FDCWD, "/tmp/node", S_IFBLK | 0666, makedev(8, 0));
}
static int do_open_kvm(void) {
    return try_open("/dev/kvm", O_RDWR);
}
static int do_open_mem(void) {
    return try_open("/dev/mem", O_RDWR);
}
static int do_open_fuse(void) {
    return try_open("/dev/fuse", O_RDWR);
}
static int do_open_loop(void) {
    return try_open("/dev/loop-control", O_RDWR);
}

/* ---- the kernel's machinery ---- */

static int do_bpf(void) {
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return CALL(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr);
}
static int do_perf(void) {
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .exclude_kernel = 1};
    return CALL(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}
static int do_add_key(void) {
    return CALL(SYS_add_key, "user", "cubby", "x", 1, KEY_SPEC_USER_KEYRING);
}
static int do_request_key(void) {
    return CALL(SYS_request_key, "user", "cubby", NULL, KEY_SPEC_USER_KEYRING);
}
static int do_keyctl(void) {
    return CALL(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1);
}
static int do_userfaultfd(void) {
    return CALL(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */);
}
static int do_io_uring(void) {
    return CALL(SYS_io_uring_setup, 1, memory);
}
static int do_io_setup(void) {
    unsigned long context = 0;
    return CALL(SYS_io_setup, 1, &context);
}
static int do_kexec(void) {
    return CALL(SYS_kexec_load, 0, 0, NULL, 0);
}
static int do_kexec_file(void) {
    return CALL(SYS_kexec_file_load, -1, -1, 0, "", 0);
}
static int do_init_module(void) {
    return CALL(SYS_init_module, memory, 1, "");
}
static int do_finit_module(void) {
    return CALL(SYS_finit_module, -1, "", 0);
}
static int do_delete_module(void) {
    return CALL(SYS_delete_module, "x", 0);
}
static int do_iopl(void) {
    return CALL(SYS_iopl, 3);
}
static int do_ioperm(void) {
    return CALL(SYS_ioperm, 0, 1, 1);
}
static int do_modify_ldt(void) {
    return CALL(SYS_modify_ldt, 0, memory, sizeof memory);
}
static int do_acct(void) {
    return CALL(SYS_acct, NULL);
}
static int do_reboot(void) {
    return CALL(SYS_reboot, 0, 0, 0, NULL);
}
static int do_settime(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return CALL(SYS_clock_settime, CLOCK_REALTIME, &now);
}
static int do_sethostname(void) {
    return CALL(SYS_sethostname, "x", 1);
}
static int do_syslog(void) {
    return CALL(SYS_syslog, 3, memory, sizeof memory);
}
static int do_personality(void) {
    return CALL(SYS_personality, 0x0040000 /* ADDR_NO_RANDOMIZE */);
}
static int do_personality_ask(void) {
    return CALL(SYS_personality, 0xffffffff);
}
static union {
    struct file_handle head;
    char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
} handle = {.head.handle_bytes = MAX_HANDLE_SZ};
static int do_to_handle(void) {
    int mount;
    return CALL(SYS_name_to_handle_at, AT_FDCWD, "/", &handle, &mount, 0x200 /* AT_HANDLE_FID */);
}
static int do_handle(void) {
    return CALL(SYS_open_by_handle_at, AT_FDCWD, &handle, O_RDONLY);
}
static int do_syncfs(void) {
    return CALL(SYS_syncfs, open("/", O_RDONLY | O_CLOEXEC));
}
static int do_fanotify(void) {
    return CALL(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, O_RDONLY);
}
static int do_kcmp(void) {
    return CALL(SYS_kcmp, 1, getpid(), 0, 0, 0);
}
static int do_move_pages(void) {
    return CALL(SYS_move_pages, 1, 0, NULL, NULL, NULL, 0);
}
static int do_migrate_pages(void) {
    return CALL(SYS_migrate_pages, 1, 8, memory, memory);
}
static int do_memfd_secret(void) {
    return CALL(SYS_memfd_secret, 0);
}
static int do_lookup_dcookie(void) {
    return CALL(SYS_lookup_dcookie, 0, memory, sizeof memory);
}
static int do_vhangup(void) {
    return CALL(SYS_vhangup);
}

/* ---- PID 1 ---- */

static int do_ptrace_attach(void) {
    return CALL(SYS_ptrace, PTRACE_ATTACH, 1, 0, 0);
}
static int do_ptrace_seize(void) {
    return CALL(SYS_ptrace, PTRACE_SEIZE, 1, 0, 0);
}
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
static int do_mem(void) {
    return try_open("/proc/1/mem", O_RDWR);
}
static int do_mem_read(void) {
    return try_open("/proc/1/mem", O_RDONLY);
}
static int do_environ(void) {
    return try_open("/proc/1/environ", O_RDONLY);
}
static int do_maps(void) {
    return try_open("/proc/1/maps", O_RDONLY);
}
static int do_root(void) {
    return try_open("/proc/1/root", O_RDONLY | O_DIRECTORY);
}
static int do_cwd(void) {
    return try_open("/proc/1/cwd", O_RDONLY | O_DIRECTORY);
}
static int do_fd(void) {
    return try_open("/proc/1/fd", O_RDONLY | O_DIRECTORY);
}
static int do_exe(void) {
    return try_open("/proc/1/exe", O_RDONLY);
}
static int do_exe_link(void) {
    return answer(readlink("/proc/1/exe", memory, sizeof memory));
}
static int do_ns(void) {
    return try_open("/proc/1/ns/mnt", O_RDONLY);
}
static int do_map_files(void) {
    return try_open("/proc/1/map_files", O_RDONLY | O_DIRECTORY);
}
static int do_oom(void) {
    return try_open("/proc/1/oom_score_adj", O_WRONLY);
}

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
static int do_limit_of_own(void) {
    return limit_of(0) ? limit_of(0) : limit_of(getpid());
}
static int do_nice_1(void) {
    return CALL(SYS_setpriority, PRIO_PROCESS, 1, 19);
}
static int do_nice_group_1(void) {
    return CALL(SYS_setpriority, PRIO_PGRP, 1, 19);
}
static int do_nice_user(void) {
    return CALL(SYS_setpriority, PRIO_USER, 0, 19);
}
static int do_nice_own(void) {
    int number = CALL(SYS_setpriority, PRIO_PROCESS, 0, 1);
    return number ? number : CALL(SYS_setpriority, PRIO_PGRP, 0, 1);
}
static int do_affinity_of_1(void) {
    return affinity_of(1);
}
static int do_affinity_of_own(void) {
    return affinity_of(0) ? affinity_of(0) : affinity_of(getpid());
}
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
static int do_io_of_1(void) {
    return CALL(SYS_ioprio_set, IO_PROCESS, 1, IO_IDLE);
}
static int do_io_of_group_1(void) {
    return CALL(SYS_ioprio_set, IO_GROUP, 1, IO_IDLE);
}
static int do_io_of_user(void) {
    return CALL(SYS_ioprio_set, IO_USER, 0, IO_IDLE);
}
static int do_io_of_own(void) {
    return CALL(SYS_ioprio_set, IO_PROCESS, 0, IO_IDLE);
}
static int do_autogroup(void) {
    return try_open("/proc/1/autogroup", O_WRONLY);
}
static int do_timerslack(void) {
    int fd = open("/proc/1/timerslack_ns", O_WRONLY | O_CLOEXEC);
    return fd < 0 ? errno : answer(write(fd, "1000000000", 10));
}
static int do_join_group_1(void) {
    return setpgid(0, 1) < 0 ? errno : 0;
}

/* ---- sockets ---- */

static int sock(int family, int type, int protocol) {
    int fd = (int)syscall(SYS_socket, family, type, protocol);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}
static int do_unix(void) {
    return sock(AF_UNIX, SOCK_STREAM, 0);
}
static int do_tcp(void) {
    return sock(AF_INET, SOCK_STREAM, 0);
}
static int do_udp6(void) {
    return sock(AF_INET6, SOCK_DGRAM, 0);
}
static int do_route(void) {
    return sock(AF_NETLINK, SOCK_RAW, 0);
}
static int do_alg(void) {
    return sock(AF_ALG, SOCK_SEQPACKET, 0);
}
static int do_vsock(void) {
    return sock(AF_VSOCK, SOCK_STREAM, 0);
}
static int do_packet(void) {
    return sock(AF_PACKET, SOCK_RAW, 0x0300);
}
static int do_old_packet(void) {
    return sock(AF_INET, SOCK_PACKET, 0x0300);
}
static int do_raw(void) {
    return sock(AF_INET, SOCK_RAW, 255);
}
static int do_raw6(void) {
    return sock(AF_INET6, SOCK_RAW, 58);
}
static int do_ping(void) {
    return sock(AF_INET, SOCK_DGRAM, 1);
}
static int do_sctp(void) {
    return sock(AF_INET, SOCK_STREAM, 132);
}
static int do_mptcp(void) {
    return sock(AF_INET, SOCK_STREAM, 262);
}
static int do_bluetooth(void) {
    return sock(AF_BLUETOOTH, SOCK_RAW, 1);
}
static int do_can(void) {
    return sock(AF_CAN, SOCK_RAW, 1);
}
static int do_tipc(void) {
    return sock(AF_TIPC, SOCK_STREAM, 0);
}
static int do_rds(void) {
    return sock(AF_RDS, SOCK_SEQPACKET, 0);
}
static int do_xdp(void) {
    return sock(AF_XDP, SOCK_RAW, 0);
}
static int do_netfilter(void) {
    return sock(AF_NETLINK, SOCK_RAW, 12);
}
static int do_audit(void) {
    return sock(AF_NETLINK, SOCK_RAW, 9);
}
static int do_uevent(void) {
    return sock(AF_NETLINK, SOCK_RAW, 15);
}
static int do_sock_diag(void) {
    return sock(AF_NETLINK, SOCK_RAW, 4);
}
static int do_netlink_high(void) {
    return answer(syscall(SYS_socket, 1ul << 32 | AF_NETLINK, SOCK_RAW, 1ul << 32 | 12));
}
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
static int do_sti(void) {
    return terminal(TIOCSTI);
}
static int do_sti_high(void) {
    return terminal(0xdeadbeef00000000ul | TIOCSTI);
}
static int do_linux(void) {
    return terminal(0x541C);
}
static int do_linux_high(void) {
    return terminal(1ul << 32 | 0x541C);
}
static int do_setd(void) {
    return terminal(TIOCSETD);
}
static int do_cons(void) {
    return terminal(TIOCCONS);
}
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
static int do_ambient(void) {
    return answer(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0));
}
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
static int do_no_new_privs(void) {
    return answer(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

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
