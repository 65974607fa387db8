/* Removing files of boxes in the background. Called by jail.c and template.c; removal.c does the work. Invariant:
 * deleting a box waits for a rename, not for its files; the queue is bounded all the same.
 *
 * Rules: 1. `queued` and `stop` are read and written under `lock`. 2. The thread works without the lock. */
#include "backend/trash.h"

#include "base/base.h"
#include "backend/quota/quota.h"
#include "tree/removal.h"
#include "base/sync.h"

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
    atomic_bool hurry; /* no pauses: a thread waits, or will */
    atomic_bool large; /* it removes more than a jail that wrote nothing holds */
};

/* A jail that wrote nothing holds only these: its directories need not be read. false: there is more. */
static bool trash_remove_plain(int top, const char *name) {
    static const char *const files[] = {"jail", "sock", "box.json", "died"};
    static const char *const dirs[] = {"fs/upper.work/work",
                                       "fs/upper.0.work/work",
                                       "fs/upper.work",
                                       "fs/upper.0.work",
                                       "fs/upper.0",
                                       "fs/upper",
                                       "fs"};
    autofd dir = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return false;
    if (unlinkat(dir, "fs", 0) < 0) /* an image: all its files at once */
        quota_remove(dir);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (unlinkat(dir, files[i], 0) < 0 && errno != ENOENT)
            return false;
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (unlinkat(dir, dirs[i], AT_REMOVEDIR) < 0 && errno != ENOENT)
            return false;
    return unlinkat(top, name, AT_REMOVEDIR) == 0;
}

/* One pass: files that cannot be removed now (below a mount that the kernel is still removing) are left for the next
 * one. */
static void trash_empty(struct trash *trash) {
    autodir *dir = fd_opendir(trash->dir, ".", 0);
    for (struct dirent *entry; (entry = fd_readdir(dir));) {
        if (trash_remove_plain(trash->dir, entry->d_name))
            continue;
        atomic_store(&trash->large, true);
        removal_tree_gently(trash->dir, entry->d_name, &trash->hurry);
        atomic_store(&trash->large, false);
    }
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
        /* Requests go first, at the processor and at the disk, unless so much waits here that it must be done. */
        background_become(hurry);
        trash_empty(trash);
        pthread_mutex_lock(&trash->lock);
    }
    pthread_mutex_unlock(&trash->lock);
    return NULL;
}

struct trash *trash_new(const char *dir) {
    struct trash *trash = xcalloc(1, sizeof *trash);
    mkdir(dir, 0700);
    trash->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pthread_mutex_init(&trash->lock, NULL);
    pthread_cond_init(&trash->more, NULL);
    pthread_cond_init(&trash->less, NULL);
    trash->queued = 1; /* an earlier process may have left something there */
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
        trash_empty(trash);
    fd_close(&trash->dir);
    free(trash);
}

static void trash_start_locked(struct trash *trash) {
    if (!trash->threaded)
        trash->threaded = pthread_create(&trash->thread, NULL, trash_main, trash) == 0;
}

bool trash_is_large(const struct trash *trash) {
    return atomic_load(&trash->large) && !atomic_load(&trash->hurry);
}

bool trash_wake(struct trash *trash) {
    bool some = trash->dir >= 0 && !backend_is_empty(trash->dir, ".");
    autolock(&trash->lock);
    if (some) {
        trash_start_locked(trash);
        trash->queued++;
        pthread_cond_signal(&trash->more);
    }
    return some;
}

int trash_put(struct trash *trash, int dirfd, const char *name, struct err *err) {
    static atomic_uint count;
    const char *to = text_make(64, "box-%d-%u-%s", getpid(), atomic_fetch_add(&count, 1), name);
    int r = renameat(dirfd, name, trash->dir, to);
    for (int turn = 0; r < 0 && errno == ENOSPC && turn < FULL_TURNS; turn++) {
        syncfs(trash->dir); /* freed space becomes usable when that is written (btrfs) */
        r = renameat(dirfd, name, trash->dir, to);
    }
    if (r < 0)
        return errno == ENOENT ? 0 : err_errno(err, errno, "cannot remove the files of '%s'", name);
    autolock(&trash->lock);
    trash_start_locked(trash);
    while (trash->threaded && trash->queued >= QUEUE_MAX)
        pthread_cond_wait(&trash->less, &trash->lock);
    if (++trash->queued > QUEUE_LONG)
        atomic_store(&trash->hurry, true);
    pthread_cond_signal(&trash->more);
    return 0;
}
