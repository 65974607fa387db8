/* What cubby-gate gives up before the first byte of a box: files, other programs, other users, capabilities, and every
 * system call but those below (program.h). As root it also gets an empty root directory and a user of its own. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "gate/program.h"

enum { CONFINE_FILES = 65536, CONFINE_OWN = 1024 };

#if defined(__x86_64__)
#define CONFINE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CONFINE_ARCH AUDIT_ARCH_AARCH64
#else
#error "name this architecture here"
#endif

/* ---- system calls ---- */

static const int confine_calls[] = {
    /* descriptors that it has, and sockets it makes (below) */
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_close,
    SYS_lseek,
    SYS_fcntl,
    SYS_splice,
    SYS_pipe2,
    SYS_accept4,
    SYS_connect,
    SYS_getsockname,
    SYS_getpeername,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_shutdown,
    SYS_bind,
    SYS_ioctl,
    /* waiting and time */
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_ppoll,
    SYS_clock_gettime,
    SYS_gettimeofday,
    SYS_clock_nanosleep,
    SYS_futex,
    /* memory, and its end */
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_brk,
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_getrandom,
    SYS_getpid,
    SYS_gettid,
    SYS_tgkill,
    SYS_sigaltstack,
#ifdef __x86_64__
    SYS_epoll_wait,
    SYS_poll,
    SYS_time,
#endif
};

/* Everything else answers EPERM. socket(): only TCP and UDP of IPv4 and IPv6. */
static bool confine_filter(void) {
    enum { CALLS = sizeof confine_calls / sizeof *confine_calls };
    struct sock_filter program[CALLS + 24];
    unsigned short at = 0;
    const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;
#define WORD(member) (uint32_t) offsetof(struct seccomp_data, member)
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WORD(arch));
    program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CONFINE_ARCH, 1, 0);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WORD(nr));
    for (size_t i = 0; i < CALLS; i++)
        program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)confine_calls[i],
                                                     (uint8_t)(CALLS - i + 8), 0);
    program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 7);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WORD(args[0]));
    program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0);
    program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 4);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, WORD(args[1]));
    program[at++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf);
    program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0);
    program[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 1, 0);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, refuse);
    program[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
#undef WORD
    struct sock_fprog filter = {.len = at, .filter = program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static void confine_must(bool done, const char *what) {
    if (done)
        return;
    fprintf(stderr, "cubby-gate: %s: %s\n", what, strerror(errno));
    exit(1);
}

void confine(const json_t *hello) {
    const char *root = json_string_value(json_object_get(hello, "root"));
    uid_t uid = (uid_t)json_integer_value(json_object_get(hello, "uid"));
    struct rlimit files = {CONFINE_FILES, CONFINE_FILES}, none = {0, 0};
    signal(SIGPIPE, SIG_IGN); /* splice raises it */
    if (setrlimit(RLIMIT_NOFILE, &files) < 0) {
        getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_FSIZE, &none);
    if (uid) {
        confine_must(chown(root, 0, 0) == 0 && chmod(root, 0555) == 0, "its root directory");
        confine_must(chroot(root) == 0 && chdir("/") == 0, "chroot");
        confine_must(setresgid(uid, uid, uid) == 0 && syscall(SYS_setgroups, 0, NULL) == 0, "setgid");
        confine_must(setresuid(uid, uid, uid) == 0, "setuid");
    }
    prctl(PR_SET_DUMPABLE, 0);
    confine_must(confine_filter(), "seccomp");
}

/* ---- this machine's addresses ---- */

static struct address confine_own[CONFINE_OWN];
static struct watch confine_watch;

static void confine_ask_addresses(void) {
    struct {
        struct nlmsghdr head;
        struct rtgenmsg body;
    } question = {.head = {.nlmsg_len = sizeof question,
                           .nlmsg_type = RTM_GETADDR,
                           .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                           .nlmsg_seq = 1}};
    machine.own = confine_own;
    send(confine_watch.fd, &question, sizeof question, 0);
}

static void confine_take_address(const struct nlmsghdr *head) {
    const struct ifaddrmsg *body = NLMSG_DATA(head);
    const struct rtattr *part = IFA_RTA(body);
    struct address address = {{[10] = 0xff, [11] = 0xff}};
    size_t left = IFA_PAYLOAD(head), size = body->ifa_family == AF_INET ? 4 : 16;
    bool found = false;
    for (; RTA_OK(part, left); part = RTA_NEXT(part, left)) {
        bool local = part->rta_type == IFA_LOCAL;
        if ((!local && (part->rta_type != IFA_ADDRESS || found)) || RTA_PAYLOAD(part) != size)
            continue;
        memcpy(address.bytes + 16 - size, RTA_DATA(part), size);
        found = true;
    }
    for (size_t i = 0; i < machine.own_count; i++)
        found &= memcmp(&confine_own[i], &address, sizeof address) != 0;
    /* One that went stays refused until the next start: harmless, and no look-up misses one that moves. */
    if (found && machine.own_count < CONFINE_OWN)
        confine_own[machine.own_count++] = address;
}

static void confine_addresses_ready(struct watch *watch, uint32_t events) {
    union {
        struct nlmsghdr head;
        char bytes[32768];
    } message;
    (void)events;
    for (;;) {
        ssize_t n = recv(watch->fd, &message, sizeof message, MSG_DONTWAIT);
        if (n < 0 && errno == ENOBUFS)
            confine_ask_addresses();
        else if (n <= 0)
            return;
        for (struct nlmsghdr *head = &message.head; n > 0 && NLMSG_OK(head, n); head = NLMSG_NEXT(head, n))
            if (head->nlmsg_type == RTM_NEWADDR)
                confine_take_address(head);
    }
}

void confine_own_addresses(void) {
    struct sockaddr_nl groups = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    confine_must(fd >= 0 && bind(fd, (struct sockaddr *)&groups, sizeof groups) == 0, "rtnetlink");
    watch_add(&confine_watch, fd, EPOLLIN, confine_addresses_ready);
    confine_ask_addresses();
    confine_addresses_ready(&confine_watch, EPOLLIN);
}
