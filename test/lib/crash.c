/* crash ARM -- PROGRAM [ARGUMENT...]: runs a program that is killed (SIGKILL) just before its n-th system call of a kind
 * that changes files or processes, counted from when the number n is written to the file ARM. "n files": only changes to
 * what a box or a layer is on the disk count, so that one kind of work can be cut at every step whatever the pool does
 * meanwhile. What it was killed before is then in the file ARM.hit. For tests that a daemon may die at any step.
 * `crash --list` names the calls.
 *
 * The calling process becomes the program, so its pid is the program's. A supervisor, an orphan of its own, answers for
 * every call of the filter until the last process below it has ended; only the program itself is counted and killed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    int call;
    const char *name;
    int path; /* which argument says what is changed, for those that "files" counts; 0: none */
} calls[] = {{SYS_mkdirat, "mkdirat", 1},     {SYS_openat, "openat", 1}, /* with O_CREAT */
             {SYS_renameat, "renameat", 1},   {SYS_renameat2, "renameat2", 1},
             {SYS_unlinkat, "unlinkat", 1},   {SYS_fchmodat, "fchmodat", 0},
             {SYS_fchownat, "fchownat", 0},   {SYS_rmdir, "rmdir", 0},
             {SYS_unlink, "unlink", 0},       {SYS_mkdir, "mkdir", 0},
             {SYS_rename, "rename", 0},       {SYS_clone, "clone", 0},
             {SYS_clone3, "clone3", 0},       {SYS_vfork, "vfork", 0},
             {SYS_bind, "bind", 0},           {SYS_sendmsg, "sendmsg", 0},
             {SYS_ftruncate, "ftruncate", 0}, {SYS_pidfd_send_signal, "pidfd_send_signal", 0}};
#define CALLS (sizeof calls / sizeof *calls)

static _Noreturn void die(const char *what) {
    fprintf(stderr, "crash: %s: %s\n", what, strerror(errno));
    exit(125);
}

static int filter(void) {
    struct sock_filter program[2 * CALLS + 8];
    unsigned short len = 0;
    program[len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    program[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 4);
    program[len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]));
    program[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 1, 0);
    program[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    for (size_t i = 0; i < CALLS; i++) {
        program[len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].call, 0, 1);
        program[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
    program[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog whole = {.len = len, .filter = program};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &whole);
}

struct order {
    unsigned long number; /* 0: none */
    int files;
};

static struct order armed(const char *path) {
    char text[32] = "", *end;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return (struct order){0};
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    struct order order = {.number = n > 0 ? strtoul(text, &end, 10) : 0};
    order.files = order.number && strncmp(end, " files", 6) == 0;
    return order;
}

/* What a box or a layer is, its records, owners and files; not what the pool makes meanwhile. */
static int concerns_files(const struct seccomp_notif *call) {
    char path[256] = "";
    int argument = 0;
    for (size_t i = 0; i < CALLS; i++)
        argument = calls[i].call == call->data.nr ? calls[i].path : argument;
    if (!argument)
        return 0;
    uintptr_t at = call->data.args[argument];
    size_t page = 4096 - at % 4096; /* the next one may not be there */
    struct iovec here = {path, sizeof path - 1};
    struct iovec there[] = {{(void *)at, page < here.iov_len ? page : here.iov_len},
                            {(void *)(at + page), page < here.iov_len ? here.iov_len - page : 0}};
    if (process_vm_readv((pid_t)call->pid, &here, 1, there, 2, 0) <= 0)
        return 0;
    return strstr(path, ".json") || strstr(path, "/refs") || strstr(path, "snapshots") || strcmp(path, "fs") == 0 ||
           strcmp(path, "old") == 0 || strcmp(path, "old/fs") == 0 || strcmp(path, "part") == 0 ||
           (strlen(path) == 16 && strspn(path, "0123456789abcdef") == 16);
}

static int belongs(pid_t thread, pid_t process) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d", process, thread);
    return access(path, F_OK) == 0;
}

static void hit(const char *arm, int call) {
    char path[4096];
    const char *name = "?";
    for (size_t i = 0; i < CALLS; i++)
        name = calls[i].call == call ? calls[i].name : name;
    snprintf(path, sizeof path, "%s.hit", arm);
    FILE *file = fopen(path, "w");
    if (file) {
        fprintf(file, "%s\n", name);
        fclose(file);
    }
}

static _Noreturn void supervise(int listener, const char *arm, pid_t program) {
    unsigned long count = 0;
    struct order last = {0};
    for (;;) {
        struct seccomp_notif call;
        memset(&call, 0, sizeof call);
        struct pollfd look = {.fd = listener, .events = POLLIN};
        if (poll(&look, 1, -1) < 0 || (look.revents & (POLLHUP | POLLERR)))
            exit(0);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
            continue;
        struct order wanted = armed(arm);
        count = wanted.number == last.number ? count : 0;
        last = wanted;
        if (wanted.number && belongs((pid_t)call.pid, program) && (!wanted.files || concerns_files(&call)) &&
            ++count == wanted.number) {
            hit(arm, call.data.nr);
            kill(program, SIGKILL);
        }
        struct seccomp_notif_resp answer = {.id = call.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < CALLS; i++)
            puts(calls[i].name);
        return 0;
    }
    if (argc < 4 || strcmp(argv[2], "--") != 0) {
        fprintf(stderr, "usage: crash ARM -- PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    int pair[2], ready;
    pid_t self = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        die("socketpair");
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) { /* twice: the supervisor is nobody's child */
        if (fork() != 0)
            _exit(0);
        if (read(pair[0], &ready, sizeof ready) != (ssize_t)sizeof ready)
            _exit(1);
        int pidfd = (int)syscall(SYS_pidfd_open, self, 0);
        int listener = (int)syscall(SYS_pidfd_getfd, pidfd, ready, 0);
        if (listener < 0 || write(pair[0], "", 1) != 1)
            _exit(1);
        close(pair[0]);
        close(pair[1]);
        setsid();
        supervise(listener, argv[1], self);
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    close(pair[0]);
    int listener = filter();
    if (listener < 0)
        die("seccomp");
    char taken;
    if (write(pair[1], &listener, sizeof listener) != (ssize_t)sizeof listener || read(pair[1], &taken, 1) != 1)
        die("the supervisor");
    execv(argv[3], argv + 3);
    die(argv[3]);
}
