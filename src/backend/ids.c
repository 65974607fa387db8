/* Claims of slots: one small file each in /run/cubby/ids, holding "PID START" of whom it belongs to. Called by
 * jail_slot.c. Not to break: a claim is taken over only under the directory's lock and only when its process is gone,
 * so that no two live boxes share host ids. */
#include "backend/ids.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"

static int ids_dir(struct err *err);
static int ids_try(int dir, const char *name);
static bool ids_stale(int dir, const char *name);
static int ids_write(int fd, pid_t pid, uint64_t start);

uint64_t process_start(pid_t pid) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    char *at = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

bool process_alive(pid_t pid, uint64_t start) {
    return pid > 0 && start != 0 && process_start(pid) == start;
}

int ids_claim(unsigned *ret_slot, struct err *err) {
    static atomic_uint next; /* where to go on looking; only a hint */
    autofd dir = ids_dir(err);
    if (dir < 0)
        return dir;
    unsigned first = atomic_fetch_add(&next, 1);
    if (first == 0) { /* processes begin far apart, so that they rarely meet */
        first = (unsigned)((uint64_t)getpid() * 2654435761u >> 7) % IDS_SLOTS;
        atomic_store(&next, first + 1);
    }
    for (unsigned i = 0; i < IDS_SLOTS; i++) {
        unsigned slot = (first + i) % IDS_SLOTS;
        char name[16];
        snprintf(name, sizeof name, "%u", slot);
        int r = ids_try(dir, name);
        if (r == -EEXIST)
            continue;
        if (r < 0)
            return err_errno(err, -r, IDS_DIR "/%s", name);
        if (i)
            atomic_store(&next, slot + 1);
        *ret_slot = slot;
        return 0;
    }
    return err_set(err, ERR_LIMIT, "all %u ranges of host ids are in use (" IDS_DIR ")", IDS_SLOTS);
}

int ids_assign(unsigned slot, pid_t pid, uint64_t start, struct err *err) {
    char path[64];
    snprintf(path, sizeof path, IDS_DIR "/%u", slot);
    autofd fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    int r = fd < 0 ? -errno : ids_write(fd, pid, start);
    return r < 0 ? err_errno(err, -r, "'%s'", path) : 0;
}

bool ids_inherit(unsigned slot, pid_t pid, uint64_t start) {
    char name[16], text[64];
    int claimed = 0;
    unsigned long long began = 0;
    struct err ignored;
    autofd dir = ids_dir(&ignored);
    if (dir < 0 || flock(dir, LOCK_EX) < 0) /* nobody takes over a stale claim meanwhile */
        return false;
    snprintf(name, sizeof name, "%u", slot);
    bool owned = fd_read_file(dir, name, text, sizeof text) > 0 && sscanf(text, "%d %llu", &claimed, &began) == 2 &&
                 claimed == pid && began == start;
    if (owned) {
        autofd fd = openat(dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        owned = fd >= 0 && ids_write(fd, getpid(), process_start(getpid())) == 0;
    }
    flock(dir, LOCK_UN);
    return owned;
}

void ids_reclaim(void (*each)(void *user, unsigned slot), void *user) {
    autofd fd = open(IDS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) < 0) /* nobody takes over a stale claim meanwhile */
        return;
    DIR *dir = fdopendir(dup(fd));
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        uint64_t slot;
        if (!text_u64(entry->d_name, IDS_SLOTS - 1, &slot) || !ids_stale(fd, entry->d_name))
            continue;
        each(user, (unsigned)slot);
        unlinkat(fd, entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
    flock(fd, LOCK_UN);
}

void ids_release(unsigned slot) {
    char path[64];
    snprintf(path, sizeof path, IDS_DIR "/%u", slot);
    unlink(path);
}

static int ids_dir(struct err *err) {
    int fd = open(IDS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        mkdir("/run/cubby", 0700);
        mkdir(IDS_DIR, 0700);
        fd = open(IDS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return fd < 0 ? err_errno(err, errno, "'" IDS_DIR "'") : fd;
}

/* 0, -EEXIST when somebody living has it, or another -errno. */
static int ids_try(int dir, const char *name) {
    autofd fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        return ids_write(fd, getpid(), process_start(getpid()));
    if (errno != EEXIST || !ids_stale(dir, name))
        return -errno;
    if (flock(dir, LOCK_EX) < 0)
        return -errno;
    int r = -EEXIST; /* looked at again under the lock: another process may have taken it meanwhile */
    if (ids_stale(dir, name)) {
        fd = openat(dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        r = fd < 0 ? -errno : ids_write(fd, getpid(), process_start(getpid()));
    }
    flock(dir, LOCK_UN);
    return r;
}

static bool ids_stale(int dir, const char *name) {
    char text[64];
    bool stale = false;
    if (fd_read_file(dir, name, text, sizeof text) >= 0) {
        int pid = 0;
        unsigned long long start = 0;
        int got = sscanf(text, "%d %llu", &pid, &start);
        /* an empty one is just being written, unless it is old */
        struct stat status;
        if (got == 2)
            stale = !process_alive(pid, start);
        else if (fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
            stale = (uint64_t)status.st_mtime * 1000 + 10000 < clock_wall_ms();
    }
    errno = EEXIST;
    return stale;
}

static int ids_write(int fd, pid_t pid, uint64_t start) {
    char text[64]; /* one fixed width, so that a shorter one leaves nothing of a longer one behind */
    int len = snprintf(text, sizeof text, "%-10d %-20llu\n", pid, (unsigned long long)start);
    ssize_t n = pwrite(fd, text, (size_t)len, 0);
    return n == len ? 0 : n < 0 ? -errno : -EIO;
}
