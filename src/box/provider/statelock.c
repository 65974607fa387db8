/* Locks of several daemons on one state directory. Called by the provider and by the clean-up. Invariant: locks
 * belong to the open file (OFD), so a lock never survives its process, and two openings in one process exclude each
 * other too. */
#include "box/provider/statelock.h"

#include <assert.h>
#include <sys/mman.h>

#include "base/base.h"
#include "base/sync.h"

/* Bytes of the file; a lock may lie beyond its end. Its content is one number, the visits. */
enum { AT_SERVE = 0, AT_REAPER = 1, AT_VISITS = 2, AT_BOXES = 16 };

static bool statelock_take(const struct statelock *lock, short type, off_t at) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(lock->fd, F_OFD_SETLK, &range) == 0;
}

int statelock_open(struct statelock *lock, int state_fd, struct err *err) {
    *lock = (struct statelock){.fd = -1};
    pthread_mutex_init(&lock->held_lock, NULL);
    lock->fd = openat(state_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return lock->fd < 0 ? err_errno(err, errno, "the lock of the state directory") : 0;
}

void statelock_done(struct statelock *lock) {
    if (lock->visits)
        munmap((void *)(uintptr_t)lock->visits, sizeof *lock->visits);
    lock->visits = NULL;
    fd_close(&lock->fd);
    free(lock->held);
    lock->held = NULL;
}

uint64_t statelock_visits(struct statelock *lock) {
    uint64_t visits = 0;
    if (lock->visits)
        return *lock->visits;
    return pread(lock->fd, &visits, sizeof visits, 0) == (ssize_t)sizeof visits ? visits : 0;
}

int statelock_serve(struct statelock *lock, struct err *err) {
    struct flock alone = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = AT_VISITS, .l_len = 1};
    if (!statelock_take(lock, F_RDLCK, AT_SERVE))
        return err_set(err, ERR_BUSY, "the state directory is just being cleaned up (cubbyd --cleanup); try again");
    if (fcntl(lock->fd, F_OFD_SETLKW, &alone) < 0)
        return err_errno(err, errno, "the lock of the state directory");
    uint64_t visits = statelock_visits(lock) + 1;
    ssize_t n = pwrite(lock->fd, &visits, sizeof visits, 0);
    statelock_take(lock, F_UNLCK, AT_VISITS);
    void *mapped = n == (ssize_t)sizeof visits && !lock->visits
                       ? mmap(NULL, sizeof visits, PROT_READ, MAP_SHARED, lock->fd, 0)
                       : MAP_FAILED;
    if (mapped != MAP_FAILED)
        lock->visits = mapped;
    return n == (ssize_t)sizeof visits ? 0 : err_errno(err, errno, "the lock of the state directory");
}

int statelock_alone(struct statelock *lock, struct err *err) {
    return statelock_take(lock, F_WRLCK, AT_SERVE)
               ? 0
               : err_set(err, ERR_BUSY, "a daemon serves this state directory; stop it first");
}

bool statelock_crowded(struct statelock *lock) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = AT_SERVE, .l_len = 1};
    return fcntl(lock->fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

bool statelock_reaper(struct statelock *lock) {
    return statelock_take(lock, F_WRLCK, AT_REAPER);
}

/* Ids are 64 bits, positions 63: two boxes that share one wait for each other, nothing worse. */
static off_t box_at(const char *id) {
    return (off_t)(strtoull(id, NULL, 16) >> 2) + AT_BOXES;
}

/* Where in the list the position is; held_count: nowhere. */
static size_t statelock_find_locked(const struct statelock *lock, off_t at) {
    size_t i = 0;
    while (i < lock->held_count && lock->held[i] != at)
        i++;
    return i;
}

static bool statelock_hold(struct statelock *lock, off_t at) {
    autolock(&lock->held_lock);
    bool ours = statelock_find_locked(lock, at) == lock->held_count;
    if (ours)
        vec_add(lock->held, lock->held_count, lock->held_max) = at;
    errno = EAGAIN;
    return ours;
}

static void statelock_let_go(struct statelock *lock, off_t at) {
    int number = errno;
    autolock(&lock->held_lock);
    size_t i = statelock_find_locked(lock, at);
    assert(i < lock->held_count);
    lock->held[i] = lock->held[--lock->held_count];
    errno = number;
}

static bool take_box(struct statelock *lock, off_t at) {
    if (!statelock_hold(lock, at))
        return false;
    if (statelock_take(lock, F_WRLCK, at))
        return true;
    statelock_let_go(lock, at);
    return false;
}

int statelock_box(struct statelock *lock, const char *id, unsigned wait_ms, struct err *err) {
    uint64_t until_ms = clock_ms() + wait_ms;
    struct timespec pause = {.tv_nsec = 1000000};
    while (!take_box(lock, box_at(id))) { /* asked again and again: the kernel's own waiting has no time-out */
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return err_errno(err, errno, "the lock of box %s", id);
        if (clock_ms() >= until_ms)
            return err_set(err, ERR_BUSY, "another daemon is busy with box %s; try again", id);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 20000000)
            pause.tv_nsec *= 2;
    }
    return 0;
}

void statelock_box_end(struct statelock *lock, const char *id) {
    statelock_take(lock, F_UNLCK, box_at(id));
    statelock_let_go(lock, box_at(id));
}
