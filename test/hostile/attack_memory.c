/* Takes memory of one kind: memory KIND MIB [hold]. Prints "KIND MIB-GOT ERRNO"; with hold it then stays until its
 * standard input ends, so that somebody can look who was charged. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1l << 20)

static char block[MIB];

/* Each takes up to `bytes` and returns how much it got; errno says why it stopped. */

static long take_anon(long bytes) {
    for (long done = 0; done < bytes; done += MIB) {
        char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            return done;
        memset(at, 1, MIB);
    }
    return bytes;
}

static long fill(int fd, long bytes) {
    long done = 0;
    while (fd >= 0 && done < bytes) {
        ssize_t n = write(fd, block, MIB);
        if (n <= 0)
            break;
        done += n;
    }
    return done;
}

static long take_shm(long bytes) {
    return fill(open("/dev/shm/taken", O_RDWR | O_CREAT | O_APPEND, 0600), bytes);
}

static long take_memfd(long bytes) {
    return fill(memfd_create("taken", 0), bytes);
}

static long take_sysv(long bytes) {
    long done = 0;
    for (; done < bytes; done += MIB) {
        int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);
        char *at = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
        if (at == (void *)-1)
            break;
        memset(at, 1, MIB);
        shmdt(at);
    }
    return done;
}

static long take_msg(long bytes) {
    struct {
        long type;
        char text[8192];
    } message = {.type = 1};
    long done = 0;
    while (done < bytes) {
        int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
        if (id < 0)
            break;
        while (done < bytes && msgsnd(id, &message, sizeof message.text, IPC_NOWAIT) == 0)
            done += (long)sizeof message.text;
    }
    return done;
}

/* Pipes, pairs and connections as many as it takes, each filled until it would block. */
static long take_each(long bytes, int (*make)(void)) {
    long done = 0;
    while (done < bytes) {
        int fd = make();
        if (fd < 0)
            break;
        fcntl(fd, F_SETFL, O_NONBLOCK);
        ssize_t n;
        while (done < bytes && (n = write(fd, block, 65536)) > 0)
            done += n;
        if (errno != EAGAIN)
            break;
        errno = 0;
    }
    return done;
}

static int make_pipe(void) {
    int pair[2];
    return pipe(pair) < 0 ? -1 : pair[1];
}

static int make_unix(void) {
    int pair[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ? -1 : pair[1];
}

static int make_tcp(void) {
    static int listener = -1;
    static struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    if (listener < 0) {
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        listener = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, 512) < 0 ||
            getsockname(listener, (struct sockaddr *)&address, &len) < 0)
            return -1;
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, len) < 0)
        return -1;
    return accept(listener, NULL, NULL) < 0 ? -1 : fd;
}

static long take_pipe(long bytes) {
    return take_each(bytes, make_pipe);
}
static long take_unix(long bytes) {
    return take_each(bytes, make_unix);
}
static long take_tcp(long bytes) {
    return take_each(bytes, make_tcp);
}

/* One byte read of each 2 MiB: the zero page is mapped, a page table is made. */
static long take_tables(long bytes) {
    long done = 0, step = 2 * MIB, chunk = 64l << 30;
    while (done < bytes) {
        volatile char *at = mmap(NULL, (size_t)chunk, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            break;
        madvise((void *)(uintptr_t)at, (size_t)chunk, MADV_NOHUGEPAGE);
        for (long i = 0; i < chunk && done < bytes; i += step, done += 4096)
            (void)at[i];
    }
    return done;
}

/* Open files: what the kernel keeps of each. */
static long take_files(long bytes) {
    long done = 0;
    while (done < bytes) {
        if (open("/dev/null", O_RDONLY) >= 0) {
            done += 256;
            continue;
        }
        if (errno != EMFILE)
            break;
        pid_t pid = fork(); /* the child has a copy of the table, and empties its own */
        if (pid < 0)
            break;
        if (pid > 0)
            return waitpid(pid, NULL, 0) == pid ? done : done;
        for (int fd = 3; fd < 1 << 20 && close(fd) == 0; fd++)
            ;
    }
    return done;
}

static const struct {
    const char *name;
    long (*take)(long bytes);
} kinds[] = {{"anon", take_anon},     {"shm", take_shm},    {"memfd", take_memfd}, {"sysv", take_sysv},
             {"msg", take_msg},       {"pipe", take_pipe},  {"unix", take_unix},   {"tcp", take_tcp},
             {"tables", take_tables}, {"files", take_files}};

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    memset(block, 1, sizeof block);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(argv[1], kinds[i].name) != 0)
            continue;
        errno = 0;
        long got = kinds[i].take(strtol(argv[2], NULL, 10) * MIB);
        printf("%s %ld %s\n", argv[1], got / MIB, errno ? strerrorname_np(errno) : "0");
        fflush(stdout);
        char byte;
        return argc > 3 && read(0, &byte, 1) < 0;
    }
    return 2;
}
