/* killstep.so, preloaded: the process is killed just before the N-th change that it makes to files of boxes and layers, N
 * being in the file CRASH_FILE, as soon as that exists. For tests of what a daemon leaves that dies between two steps of
 * one kind of work; test/lib/crash.c counts all it does. */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of a box's or a layer's directory, and not of what the pool makes meanwhile. */
static int concerns(const char *path) {
    return strstr(path, ".json") || strstr(path, "/refs") || strstr(path, "snapshots") || strcmp(path, "fs") == 0 ||
           strcmp(path, "old") == 0 || strcmp(path, "old/fs") == 0 || strcmp(path, "part") == 0 ||
           (strlen(path) == 16 && strspn(path, "0123456789abcdef") == 16);
}

static void count(const char *path) {
    const char *file = getenv("CRASH_FILE");
    char text[16] = "", next[16];
    if (!file || !concerns(path))
        return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    long left = pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
    if (left == 1)
        kill(getpid(), SIGKILL);
    snprintf(next, sizeof next, "%03ld", left > 1 && left < 1000 ? left - 1 : 0);
    if (left > 1 && pwrite(fd, next, 3, 0) != 3)
        abort();
    close(fd);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    count(from);
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    count(from);
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

int mkdirat(int dir, const char *path, mode_t mode) {
    count(path);
    return (int)syscall(SYS_mkdirat, dir, path, mode);
}

int unlinkat(int dir, const char *path, int flags) {
    count(path);
    return (int)syscall(SYS_unlinkat, dir, path, flags);
}

int openat(int dir, const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    va_end(list);
    if (flags & O_CREAT)
        count(path);
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    va_end(list);
    return openat(dir, path, flags, mode);
}
