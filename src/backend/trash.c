/* Removing files of boxes in the background. Called by jail.c and template.c; removal.c does the work. Invariant:
 * whoever deletes a box waits for a rename, not for its files; the queue is bounded all the same.
 *
 * Rules: 1. `queued` and `stop` are read and written under `lock`. 2. The thread works without the lock. */
#include "backend/trash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/quota/quota.h"
#include "base/mem.h"
#include "tree/removal.h"
#include "base/fd.h"

#define QUEUE_MAX 256
#define FULL_TURNS 3
#define QUEUE_LONG 32 /* from here on the work is done without pauses, or it would never be done */

struct trash {
    int dir;
    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock;
    pthread_cond_t more, less;
    unsigned queued;
    bool stop;
    atomic_bool hurry; /* no pauses: somebody waits, or will */
};

static void *trash_main(void *arg);
static void empty(struct trash *trash);
static bool remove_plain(int top, const char *name);

struct trash *trash_new(const char *dir) {
    struct trash *trash = xcalloc(1, sizeof *trash);
    mkdir(dir, 0700);
    trash->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pthread_mutex_init(&trash->lock, NULL);
    pthread_cond_init(&trash->more, NULL);
    pthread_cond_init(&trash->less, NULL);
    trash->queued = 1; /* whatever lies there already */
    return trash;
}

void trash_free(struct trash *trash) {
    if (!trash)
        return;
    pthread_mutex_lock(&trash->lock);
    trash->stop = true;
    atomic_store(&trash->hurry, true);
    pthread_cond_signal(&trash->more);
    pthread_mutex_unlock(&trash->lock);
    if (trash->threaded)
        pthread_join(trash->thread, NULL);
    else if (trash->dir >= 0)
        empty(trash);
    fd_close(&trash->dir);
    free(trash);
}

static void thread_start_locked(struct trash *trash) {
    if (!trash->threaded)
        trash->threaded = pthread_create(&trash->thread, NULL, trash_main, trash) == 0;
}

bool trash_wake(struct trash *trash) {
    int fd = trash->dir < 0 ? -1 : openat(trash->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    bool some = false;
    while (dir && !some && (entry = readdir(dir)))
        some = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (dir)
        closedir(dir);
    pthread_mutex_lock(&trash->lock);
    if (some) {
        thread_start_locked(trash);
        trash->queued++;
        pthread_cond_signal(&trash->more);
    }
    pthread_mutex_unlock(&trash->lock);
    return some;
}

int trash_put(struct trash *trash, int dirfd, const char *name, struct err *err) {
    static atomic_uint count;
    char to[64];
    snprintf(to, sizeof to, "box-%d-%u-%s", getpid(), atomic_fetch_add(&count, 1), name);
    int r = renameat(dirfd, name, trash->dir, to);
    for (int turn = 0; r < 0 && errno == ENOSPC && turn < FULL_TURNS; turn++) {
        syncfs(trash->dir); /* space that was freed can be used when that is written down (btrfs) */
        r = renameat(dirfd, name, trash->dir, to);
    }
    if (r < 0)
        return errno == ENOENT ? 0 : err_errno(err, errno, "cannot remove the files of '%s'", name);
    pthread_mutex_lock(&trash->lock);
    thread_start_locked(trash);
    while (trash->threaded && trash->queued >= QUEUE_MAX)
        pthread_cond_wait(&trash->less, &trash->lock);
    if (++trash->queued > QUEUE_LONG)
        atomic_store(&trash->hurry, true);
    pthread_cond_signal(&trash->more);
    pthread_mutex_unlock(&trash->lock);
    return 0;
}

/* Whoever is being served goes first, at the processor and at the disk; unless so much waits here that it must be done. */
static void be_humble(bool hurry) {
    enum { WHO_THREAD = 1, CLASS_IDLE = 3 << 13 }; /* of ioprio_set, which has no header */
    setpriority(PRIO_PROCESS, (id_t)gettid(), hurry ? 0 : 19);
    syscall(SYS_ioprio_set, WHO_THREAD, 0, CLASS_IDLE);
}

static void *trash_main(void *arg) {
    struct trash *trash = arg;
    pthread_mutex_lock(&trash->lock);
    for (;;) {
        while (trash->queued == 0 && !trash->stop)
            pthread_cond_wait(&trash->more, &trash->lock);
        if (trash->queued == 0)
            break;
        bool hurry = trash->stop || trash->queued > QUEUE_LONG;
        atomic_store(&trash->hurry, hurry);
        trash->queued = 0;
        pthread_cond_broadcast(&trash->less);
        pthread_mutex_unlock(&trash->lock);
        be_humble(hurry);
        empty(trash);
        pthread_mutex_lock(&trash->lock);
    }
    pthread_mutex_unlock(&trash->lock);
    return NULL;
}

/* One pass: what cannot be removed now (a mount the kernel still takes apart) is left for the next one. */
static void empty(struct trash *trash) {
    int top = trash->dir;
    int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && !remove_plain(top, entry->d_name))
            removal_tree_gently(top, entry->d_name, &trash->hurry);
    if (dir)
        closedir(dir);
}

/* A jail that wrote nothing holds just these: no need to read its directories. false: there is more. */
static bool remove_plain(int top, const char *name) {
    static const struct {
        const char *path;
        int flags;
    } entries[] = {{"jail", 0},
                   {"sock", 0},
                   {"box.json", 0},
                   {"died", 0},
                   {"fs/upper.work/work", AT_REMOVEDIR},
                   {"fs/upper.0.work/work", AT_REMOVEDIR},
                   {"fs/upper.work", AT_REMOVEDIR},
                   {"fs/upper.0.work", AT_REMOVEDIR},
                   {"fs/upper.0", AT_REMOVEDIR},
                   {"fs/upper", AT_REMOVEDIR},
                   {"fs", AT_REMOVEDIR}};
    autofd dir = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && unlinkat(dir, "fs", 0) < 0) /* an image: all its files at once */
        quota_remove(dir);
    for (size_t i = 0; dir >= 0 && i < sizeof entries / sizeof *entries; i++)
        if (unlinkat(dir, entries[i].path, entries[i].flags) < 0 && errno != ENOENT)
            return false;
    return dir >= 0 && unlinkat(top, name, AT_REMOVEDIR) == 0;
}
