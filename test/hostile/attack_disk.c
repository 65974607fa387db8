/* Takes space or names of a file system until it is refused: disk KIND DIRECTORY [MOST]. Prints "KIND COUNT ERRNO": bytes
 * or entries that it got, and what the refusal was (SIGBUS for memory that is a file; none: it got all of MOST). What it
 * took stays. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { CHUNK = 65536 };
static char chunk[CHUNK];
static const char *top;
static long long most;
static sigjmp_buf hole;

static long long fill(int fd, long long at) {
    for (; at < most; at += CHUNK) {
        ssize_t n = pwrite(fd, chunk, CHUNK, at);
        if (n < 0)
            return at;
        if (n < CHUNK)
            return pwrite(fd, chunk, 1, at + n) < 0 ? at + n : -1;
    }
    errno = 0;
    return at;
}

static int make(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", top, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        perror(path), exit(2);
    return fd;
}

static long long kind_write(void) {
    return fill(make("written"), 0);
}

/* The writer hears of it when it asks, not when the kernel writes back. */
static long long kind_sync(void) {
    int fd = make("synced");
    long long got = fill(fd, 0);
    int refused = errno;
    if (fsync(fd) < 0)
        refused = errno;
    errno = refused;
    return got;
}

static long long kind_allocate(void) {
    long long got = 0;
    for (int fd = make("allocated"); got < most; got += CHUNK)
        if (fallocate(fd, 0, got, CHUNK) < 0)
            return got;
    errno = 0;
    return got;
}

static long long kind_whole(void) {
    errno = 0;
    return fallocate(make("whole"), 0, 0, most) < 0 ? 0 : most;
}

/* A large file that is one hole costs nothing until it is written. */
static long long kind_sparse(void) {
    int fd = make("sparse");
    errno = 0;
    return ftruncate(fd, most) < 0 ? 0 : most;
}

static void bus(int number) {
    siglongjmp(hole, number);
}

/* Pages of a hole are asked for by writing to memory: there is no call that could fail. */
static long long kind_map(void) {
    static volatile long long got;
    int fd = make("mapped");
    if (ftruncate(fd, most) < 0)
        return 0;
    char *map = mmap(NULL, (size_t)most, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return 0;
    signal(SIGBUS, bus);
    if (sigsetjmp(hole, 1) == 0)
        for (; got < most; got += 4096)
            map[got] = 1;
    errno = got < most ? -SIGBUS : 0;
    return got;
}

static long long names(int (*one)(const char *path)) {
    char path[4096];
    long long got = 0;
    for (errno = 0; got < most; got++) {
        snprintf(path, sizeof path, "%s/%lld", top, got);
        if (one(path) < 0)
            return got;
    }
    return got;
}

static int one_file(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    return fd < 0 ? -1 : close(fd);
}

static int one_dir(const char *path) {
    return mkdir(path, 0700);
}

static int one_link(const char *path) {
    return symlink(path, path);
}

static int one_fifo(const char *path) {
    return mkfifo(path, 0600);
}

/* Attributes are space too, and not of the file's contents. */
static int one_attribute(const char *path) {
    return one_file(path) < 0 ? -1 : setxattr(path, "user.a", chunk, 3500, 0);
}

static long long kind_files(void) {
    return names(one_file);
}
static long long kind_dirs(void) {
    return names(one_dir);
}
static long long kind_links(void) {
    return names(one_link);
}
static long long kind_fifos(void) {
    return names(one_fifo);
}
static long long kind_attributes(void) {
    return names(one_attribute);
}

static const struct {
    const char *name;
    long long (*run)(void);
} kinds[] = {{"write", kind_write},   {"sync", kind_sync},   {"allocate", kind_allocate},    {"whole", kind_whole},
             {"sparse", kind_sparse}, {"map", kind_map},     {"files", kind_files},          {"dirs", kind_dirs},
             {"links", kind_links},   {"fifos", kind_fifos}, {"attributes", kind_attributes}};

int main(int argc, char **argv) {
    top = argc > 2 ? argv[2] : ".";
    most = argc > 3 ? atoll(argv[3]) : 1ll << 40;
    memset(chunk, 'x', sizeof chunk);
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, argv[1]) == 0) {
            long long got = kinds[i].run();
            int refused = errno;
            const char *name = refused == 0         ? "none"
                               : refused == ENOSPC  ? "ENOSPC"
                               : refused == EDQUOT  ? "EDQUOT"
                               : refused == -SIGBUS ? "SIGBUS"
                                                    : strerror(refused);
            printf("%s %lld %s\n", argv[1], got, name);
            return 0;
        }
    return 2;
}
