/* Copies of a tree that programs write to: equal to it at the moment at which the programs stand still. */
#include <dirent.h>
#include <linux/magic.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "tap.h"
#include "tree/live.h"
#include "tree/removal.h"

static char base[64];
static pid_t writers[8];
static size_t writer_count;
static int upper_fd, copy_fd;
static unsigned differences;

static void differs(const char *path, const char *name, const char *what) {
    if (differences++ < 10)
        printf("# %s/%s: %s\n", path, name, what);
}

static bool same_bytes(int a, int b) {
    static char x[1 << 16], y[1 << 16];
    for (off_t at = 0;;) {
        ssize_t n = pread(a, x, sizeof x, at);
        if (n < 0 || pread(b, y, sizeof y, at) != n || memcmp(x, y, (size_t)n) != 0)
            return false;
        if (n == 0)
            return true;
        at += n;
    }
}

static size_t attributes(int fd, char *out, size_t size) {
    char list[4096];
    size_t at = 0;
    ssize_t n = flistxattr(fd, list, sizeof list);
    for (char *name = list; n > 0 && name < list + n; name += strlen(name) + 1) {
        at += (size_t)snprintf(out + at, size - at, "%s=", name);
        ssize_t m = fgetxattr(fd, name, out + at, size - at);
        at += m > 0 ? (size_t)m : 0;
    }
    return at;
}

static void compare(int from, int to, const char *path) {
    for (int turn = 0; turn < 2; turn++) {
        int one = turn ? to : from, other = turn ? from : to;
        DIR *list = fdopendir(openat(one, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        must(list, strerror(errno));
        for (struct dirent *entry; (entry = readdir(list));) {
            const char *name = entry->d_name;
            struct stat a, b;
            char names[60];
            if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                continue;
            must(fstatat(one, name, &a, AT_SYMLINK_NOFOLLOW) == 0, strerror(errno));
            if (fstatat(other, name, &b, AT_SYMLINK_NOFOLLOW) < 0) {
                differs(path, name, turn ? "is only in the copy" : "is not in the copy");
                continue;
            }
            if (turn)
                continue;
            if (a.st_mode != b.st_mode || a.st_uid != b.st_uid || a.st_gid != b.st_gid)
                differs(path, name, "mode or owner");
            if (a.st_mtim.tv_sec != b.st_mtim.tv_sec || a.st_mtim.tv_nsec != b.st_mtim.tv_nsec)
                differs(path, name, "time");
            if (!S_ISDIR(a.st_mode) && !S_ISCHR(a.st_mode) && a.st_nlink != b.st_nlink)
                differs(path, name,
                        (snprintf(names, sizeof names, "%u names instead of %u, mode %o", (unsigned)b.st_nlink,
                                  (unsigned)a.st_nlink, a.st_mode),
                         names));
            if (S_ISLNK(a.st_mode)) {
                char p[4096] = "", q[4096] = "";
                ssize_t n = readlinkat(from, name, p, sizeof p), m = readlinkat(to, name, q, sizeof q);
                if (n != m || memcmp(p, q, (size_t)n) != 0)
                    differs(path, name, "target");
            }
            if (!S_ISREG(a.st_mode) && !S_ISDIR(a.st_mode))
                continue;
            autofd x = openat(from, name, O_RDONLY | O_CLOEXEC), y = openat(to, name, O_RDONLY | O_CLOEXEC);
            static char p[1 << 16], q[1 << 16];
            size_t n = attributes(x, p, sizeof p), m = attributes(y, q, sizeof q);
            if (n != m || memcmp(p, q, n) != 0)
                differs(path, name, "attributes");
            if (S_ISREG(a.st_mode) && (a.st_size != b.st_size || !same_bytes(x, y)))
                differs(path, name, "content");
            if (S_ISDIR(a.st_mode)) {
                char *below;
                must(asprintf(&below, "%s/%s", path, name) > 0, strerror(errno));
                compare(x, y, below);
                free(below);
            }
        }
        closedir(list);
    }
}

/* ---- programs ---- */

static uint64_t seed;
static unsigned pick(unsigned below) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(seed >> 33) % below;
}
static const char *some(char *out, const char *kind) {
    snprintf(out, 64, "%u/%s%u", pick(6), kind, pick(12));
    if (pick(3) == 0)
        snprintf(out, 64, "%u/d%u/%s%u", pick(6), pick(12), kind, pick(12));
    return out;
}

static void change(int merged) {
    char a[64], b[64], bytes[9000];
    memset(bytes, 'a' + (int)pick(26), sizeof bytes);
    const char *file = some(a, "f"), *other = some(b, "f");
    int fd = -1;
    switch (pick(16)) {
    case 0:
    case 1:
    case 2:
        fd = openat(merged, file, O_CREAT | O_RDWR | (pick(2) ? O_TRUNC : O_APPEND), 0644);
        (void)!write(fd, bytes, pick(sizeof bytes));
        break;
    case 3:
        renameat(merged, file, merged, other);
        break;
    case 4:
        renameat2(merged, file, merged, other, RENAME_EXCHANGE);
        break;
    case 5:
        unlinkat(merged, file, 0);
        break;
    case 6:
        linkat(merged, file, merged, other, 0);
        break;
    case 7:
        fchmodat(merged, file, pick(0777), 0);
        break;
    case 8:
        fd = openat(merged, file, O_RDWR);
        fsetxattr(fd, pick(2) ? "user.a" : "user.b", bytes, pick(40) + 1, 0);
        if (pick(2))
            fremovexattr(fd, "user.a");
        break;
    case 9: { /* a store through a mapping, with the descriptor kept or not */
        snprintf(a, sizeof a, "%u/own%d", pick(6), getpid()); /* no other process truncates it */
        fd = openat(merged, a, O_RDWR | O_CREAT, 0644);
        if (fd < 0 || ftruncate(fd, 4096) < 0)
            break;
        char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
            break;
        for (unsigned i = 0; i < 50; i++)
            at[pick(10)]++;
        munmap(at, 4096);
        break;
    }
    case 10:
        fd = openat(merged, file, O_RDWR);
        (void)!ftruncate(fd, pick(20000));
        break;
    case 11:
        mkdirat(merged, some(a, "d"), 0755);
        break;
    case 12:
        renameat(merged, some(a, "d"), merged, some(b, "d"));
        break;
    case 13:
        renameat2(merged, some(a, "d"), merged, some(b, "d"), RENAME_EXCHANGE);
        break;
    case 14:
        unlinkat(merged, some(a, "d"), AT_REMOVEDIR);
        break;
    case 15:
        if (symlinkat(other, merged, file) < 0)
            utimensat(merged, file, (struct timespec[]){{1, 2}, {3, 4}}, AT_SYMLINK_NOFOLLOW);
        break;
    }
    if (fd >= 0)
        close(fd);
}

/* A file mapped for good, stored to without end, in pairs that are always equal or one apart. */
static void map_forever(int merged, char *shared) {
    int fd = openat(merged, "0/mapped", O_CREAT | O_RDWR, 0644);
    must(fd >= 0 && ftruncate(fd, 8192) == 0, strerror(errno));
    volatile unsigned *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED, strerror(errno));
    *shared = 1;
    for (unsigned i = 0;; i++) {
        at[0] = i;
        __sync_synchronize();
        at[1024] = i;
    }
}

static void writer_start(unsigned number, char *shared) {
    char path[128];
    pid_t pid = fork();
    must(pid >= 0, strerror(errno));
    if (pid == 0) {
        snprintf(path, sizeof path, "%s/merged", base);
        int merged = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        seed = number * 77 + 5;
        if (number == 0)
            map_forever(merged, shared);
        for (;;) { /* some thousand changes a second */
            change(merged);
            poll(NULL, 0, number == 1);
        }
    }
    writers[writer_count++] = pid;
}

static int stop(void *user, struct err *err) {
    (void)user, (void)err;
    for (size_t i = 0; i < writer_count; i++) {
        int status;
        kill(writers[i], SIGSTOP);
        must(waitpid(writers[i], &status, WUNTRACED) == writers[i] && WIFSTOPPED(status), strerror(errno));
    }
    return 0;
}
/* They stay stopped until the copy has been compared. */
static int resume(void *user, struct err *err) {
    (void)user, (void)err;
    return 0;
}
static void each(void *user, void (*look)(void *copy, const char *process), void *copy) {
    (void)user;
    for (size_t i = 0; i < writer_count; i++) {
        char process[32];
        snprintf(process, sizeof process, "/proc/%d", writers[i]);
        look(copy, process);
    }
}

static int directory(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", base, name);
    must(mkdir(path, 0755) == 0, strerror(errno));
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* A tree of which most comes from below, and the overlay over it. */
static int lab_open(void) {
    char options[512], text[128];
    const char *wanted = getenv("TMPDIR");
    struct statfs system; /* in memory no file tells that a mapping was written to: nothing is copied ahead there */
    bool disk = wanted && statfs(wanted, &system) == 0 && system.f_type != TMPFS_MAGIC;
    snprintf(base, sizeof base, "%s/cubby-live.XXXXXX", disk ? wanted : "/var/tmp");
    must(mkdtemp(base) && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0,
         strerror(errno));
    int lower = directory("lower");
    close(directory("work"));
    close(directory("merged"));
    upper_fd = directory("upper");
    for (unsigned i = 0; i < 6; i++) {
        snprintf(text, sizeof text, "%u", i);
        must(mkdirat(lower, text, 0755) == 0, strerror(errno));
        for (unsigned k = 0; k < 6; k++) {
            snprintf(text, sizeof text, "%u/d%u", i, k);
            must(mkdirat(lower, text, 0755) == 0, strerror(errno));
            snprintf(text, sizeof text, "%u/f%u", i, k);
            close(openat(lower, text, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
        }
    }
    snprintf(options, sizeof options, "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work,userxattr", base, base,
             base);
    snprintf(text, sizeof text, "%s/merged", base);
    must(mount("overlay", text, "overlay", 0, options) == 0, strerror(errno));
    close(lower);
    return open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void lab_close(void) {
    char text[128];
    for (size_t i = 0; i < writer_count; i++) {
        kill(writers[i], SIGKILL);
        waitpid(writers[i], NULL, 0);
    }
    snprintf(text, sizeof text, "%s/merged", base);
    umount2(text, MNT_DETACH);
    must(removal_tree(AT_FDCWD, base) == 0, base);
}

static int copy_once(unsigned round, int merged, uint64_t *ret_stopped_us, struct err *err) {
    char name[32], at[128];
    struct live *live = NULL;
    struct copied copied;
    snprintf(name, sizeof name, "copy.%u", round);
    snprintf(at, sizeof at, "%s/merged", base);
    copy_fd = directory(name);
    struct live_part part = {dup(upper_fd), dup(copy_fd), dup(merged), at};
    struct live_programs programs = {stop, resume, each, NULL};
    int r = live_begin(&part, 1, &live, err);
    if (r == 0)
        r = live_finish(live, &programs, &copied, ret_stopped_us, err);
    live_end(live);
    return r;
}

int main(int argc, char **argv) {
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2;
    struct err err = {0};
    uint64_t longest = 0;
    umask(0);
    if (geteuid() != 0) {
        printf("ok 1 - copies of live trees # SKIP needs root\n1..1\n");
        return 0;
    }
    int merged = lab_open();
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < 2; i++)
        writer_start(i, shared);
    while (!*(volatile char *)shared)
        sched_yield();
    for (unsigned round = 0; round < rounds; round++) {
        uint64_t stopped_us = 0;
        int r = copy_once(round, merged, &stopped_us, &err);
        ok(r == 0, "a tree that programs write to is copied %s", err.text);
        differences = 0;
        if (r == 0)
            compare(upper_fd, copy_fd, "");
        ok(differences == 0, "the copy is what the tree was while they were stopped");
        for (size_t i = 0; i < writer_count; i++)
            kill(writers[i], SIGCONT);
        autofd mapped = openat(copy_fd, "0/mapped", O_RDONLY | O_CLOEXEC);
        unsigned pair[2] = {0, 9};
        bool read = pread(mapped, &pair[0], 4, 0) == 4 && pread(mapped, &pair[1], 4, 4096) == 4;
        ok(read && pair[0] - pair[1] <= 1, "two mapped pages are of one moment");
        longest = stopped_us > longest ? stopped_us : longest;
        close(copy_fd);
    }
    printf("# longest stop %llu us\n", (unsigned long long)longest);
    lab_close();
    return tap_end();
}
