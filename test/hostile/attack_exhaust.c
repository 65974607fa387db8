/* Takes as many as it can get of something that the kernel counts: exhaust KIND [hold]. Prints "KIND COUNT ERRNO"; with
 * hold it then stays until its standard input ends. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 300000 };

/* Each takes the next one: negative, with errno, when there is none. */

static int take_fd(int number) {
    (void)number;
    return open("/dev/null", O_RDONLY);
}

static int take_inotify(int number) {
    (void)number;
    return inotify_init1(0);
}

static int take_watch(int number) {
    static int fd = -1;
    char name[64];
    if (fd < 0)
        fd = inotify_init1(0);
    snprintf(name, sizeof name, "/dev/shm/watch%d", number);
    int file = fd < 0 || number >= 2000 ? -1 : open(name, O_RDWR | O_CREAT, 0600);
    close(file);
    return inotify_add_watch(fd, name, IN_MODIFY);
}

static int take_timer(int number) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    (void)number;
    return timer_create(CLOCK_MONOTONIC, &event, &timer);
}

static int take_mq(int number) {
    char name[32];
    struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 8192};
    snprintf(name, sizeof name, "/q%d", number);
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
    if (queue >= 0)
        mq_close(queue); /* it stays, with its bytes */
    return queue;
}

static int take_sem(int number) {
    (void)number;
    return semget(IPC_PRIVATE, 250, IPC_CREAT | 0600);
}

static int take_pty(int number) {
    (void)number;
    return open("/dev/ptmx", O_RDWR | O_NOCTTY);
}

static int take_aio(int number) {
    static unsigned long contexts[MOST];
    return (int)syscall(SYS_io_setup, 1000, &contexts[number]);
}

static int take_key(int number) {
    char name[32];
    snprintf(name, sizeof name, "key%d", number);
    return (int)syscall(SYS_add_key, "user", name, "payload", 7, -2 /* the process's keyring */);
}

static int take_fork(int number) {
    (void)number;
    pid_t pid = fork();
    while (pid == 0)
        pause();
    return pid;
}

static int take_lock(int number) { /* locked memory: a page each */
    (void)number;
    void *at = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? -1 : mlock(at, 65536);
}

static const struct {
    const char *name;
    int (*take)(int number);
} kinds[] = {{"fd", take_fd},     {"inotify", take_inotify}, {"watch", take_watch}, {"timer", take_timer},
             {"mq", take_mq},     {"sem", take_sem},         {"pty", take_pty},     {"aio", take_aio},
             {"fork", take_fork}, {"key", take_key},         {"lock", take_lock}};

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(argv[1], kinds[i].name) != 0)
            continue;
        int count = 0;
        errno = 0;
        while (count < MOST && kinds[i].take(count) >= 0)
            count++;
        printf("%s %d %s\n", argv[1], count, count < MOST ? strerrorname_np(errno) : "0");
        fflush(stdout);
        char byte;
        return argc > 2 && read(0, &byte, 1) < 0;
    }
    return 2;
}
