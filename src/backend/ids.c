/* Claims of slots: one small file each in /run/cubby/ids, holding "PID START OWNER START STATE": its owner, its
 * maker, and its state directory. Called by slot.c, jail.c and reaper.c. Invariant: a claim is taken over only under
 * the directory's lock and only when its process is gone, so that no two live boxes share host ids. */
#include "backend/ids.h"

#include <stdatomic.h>
#include <sys/file.h>
#include <sys/pidfd.h>

#include "base/base.h"

/* Fixed widths, so that a shorter number leaves no rest of a longer one: of one process, and the head of all. */
#define PROCESS_FORMAT "%-10d %-20llu "
enum { PROCESS_BYTES = 32, CLAIM_BYTES = 2 * PROCESS_BYTES + 4096 + 2, UNWRITTEN_MS = 10000 };

/* state: as in /proc/PID/stat. */
static uint64_t ids_process_look(pid_t pid, char *ret_state) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    char *at = strrchr(text, ')'); /* the name before it may hold anything */
    *ret_state = at && at[1] ? at[2] : 0;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

uint64_t process_start(pid_t pid) {
    char state;
    return ids_process_look(pid, &state);
}

/* Of this process: it does not change, and every box needs it twice. */
static uint64_t ids_own_start(void) {
    static atomic_ullong start;
    if (!atomic_load(&start))
        atomic_store(&start, process_start(getpid()));
    return atomic_load(&start);
}

bool process_alive(pid_t pid, uint64_t start) {
    return pid > 0 && start != 0 && process_start(pid) == start;
}

/* The descriptor first, then the start time: so it is of that very process. */
int process_pidfd(pid_t pid, uint64_t start) {
    int fd = pid > 0 ? pidfd_open(pid, 0) : -1;
    if (fd >= 0 && !process_alive(pid, start))
        fd_close(&fd);
    return fd;
}

bool process_asleep(pid_t pid, uint64_t start) {
    char state = 0;
    return ids_process_look(pid, &state) == start && state == 'S';
}

bool claim_dead(const struct claim *claim) {
    char state = 0; /* an unreaped one is gone, too: on some machines init does not reap */
    return claim->pid <= 0 || claim->start == 0 || ids_process_look(claim->pid, &state) != claim->start ||
           state == 'Z' || state == 'X';
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

/* processes: the first only, or the owner too. state_dir NULL: it stays. */
static int ids_write(int fd, unsigned processes, const char *state_dir, pid_t pid, uint64_t start) {
    char text[CLAIM_BYTES];
    size_t len = 0;
    for (unsigned i = 0; i < processes; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, PROCESS_FORMAT, pid, (unsigned long long)start);
    if (state_dir)
        len += (size_t)snprintf(text + len, sizeof text - len, "%.4095s\n", state_dir);
    ssize_t n = pwrite(fd, text, len, 0);
    return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EIO;
}

/* false: no record, or one that is just being written. A short record is an older daemon's. */
static bool ids_read(int dir, const char *name, struct claim *ret_claim) {
    char text[CLAIM_BYTES];
    struct stat status;
    unsigned long long start = 0, owner_start = 0;
    *ret_claim = (struct claim){.slot = (unsigned)strtoul(name, NULL, 10)};
    if (fd_read_file(dir, name, text, sizeof text) < 0)
        return false;
    int got = sscanf(text, "%d %llu %d %llu %4095[^\n]", &ret_claim->pid, &start, &ret_claim->owner, &owner_start,
                     ret_claim->state);
    ret_claim->start = start;
    ret_claim->owner_start = owner_start;
    return got >= 2 || (fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                        (uint64_t)status.st_mtime * 1000 + UNWRITTEN_MS < clock_wall_ms());
}

static bool ids_stale(int dir, const char *name) {
    struct claim claim;
    return ids_read(dir, name, &claim) && claim_dead(&claim);
}

/* 0, -EEXIST when a living process has it, or another -errno. */
static int ids_try(int dir, const char *name, const char *state_dir) {
    uint64_t start = ids_own_start();
    autofd fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0)
        return ids_write(fd, 2, state_dir, getpid(), start);
    if (errno != EEXIST)
        return -errno;
    if (!ids_stale(dir, name))
        return -EEXIST;
    if (flock(dir, LOCK_EX) < 0)
        return -errno;
    int r = -EEXIST; /* checked again under the lock: another process may have taken it */
    if (ids_stale(dir, name)) {
        fd = openat(dir, name, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
        r = fd < 0 ? -errno : ids_write(fd, 2, state_dir, getpid(), start);
    }
    flock(dir, LOCK_UN);
    return r;
}

int ids_claim(const char *state_dir, unsigned *ret_slot, struct err *err) {
    static atomic_uint next; /* where to continue the search; only a hint */
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
        const char *name = text_make(16, "%u", slot);
        int r = ids_try(dir, name, state_dir);
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
    const char *path = text_make(64, IDS_DIR "/%u", slot);
    autofd fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    int r = fd < 0 ? -errno : ids_write(fd, 1, NULL, pid, start);
    return r < 0 ? err_errno(err, -r, "'%s'", path) : 0;
}

bool ids_inherit(unsigned slot, pid_t pid, uint64_t start) {
    struct claim claim;
    struct err ignored;
    autofd dir = ids_dir(&ignored);
    if (dir < 0 || flock(dir, LOCK_EX) < 0) /* no process takes over a stale claim now */
        return false;
    const char *name = text_make(16, "%u", slot);
    bool owned = ids_read(dir, name, &claim) && claim.pid == pid && claim.start == start;
    if (owned) {
        autofd fd = openat(dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        owned = fd >= 0 && ids_write(fd, 2, NULL, getpid(), ids_own_start()) == 0;
    }
    flock(dir, LOCK_UN);
    return owned;
}

void ids_each(bool (*gone)(void *user, const struct claim *claim), void *user) {
    autofd fd = open(IDS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        return;
    autodir *dir = fd_opendir(fd, ".", 0);
    struct claim *claim = xmalloc(sizeof *claim);
    for (struct dirent *entry; (entry = fd_readdir(dir));) {
        uint64_t slot;
        if (text_u64(entry->d_name, IDS_SLOTS - 1, &slot) && ids_read(fd, entry->d_name, claim) && gone(user, claim))
            unlinkat(fd, entry->d_name, 0);
    }
    free(claim);
    flock(fd, LOCK_UN);
}

bool ids_claimed(unsigned slot, const char *state_dir) {
    struct claim claim;
    struct err ignored;
    autofd dir = ids_dir(&ignored);
    return dir >= 0 && ids_read(dir, text_make(16, "%u", slot), &claim) && strcmp(claim.state, state_dir) == 0;
}

bool ids_take(unsigned slot, const char *state_dir) {
    struct err ignored;
    autofd dir = ids_dir(&ignored);
    return dir >= 0 && ids_try(dir, text_make(16, "%u", slot), state_dir) == 0;
}

void ids_release(unsigned slot) {
    unlink(text_make(64, IDS_DIR "/%u", slot));
}
