/* Removing files of boxes. Called by jail.c and template.c. Not to break: the trees are hostile (10,000 levels, a
 * million names, odd modes): nothing is resolved by path, no symbolic link is followed, memory stays constant.
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
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define QUEUE_MAX 256

struct trash {
    int dir;
    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock;
    pthread_cond_t more, less;
    unsigned queued;
    bool stop;
};

static void *trash_main(void *arg);
static void empty(int dir);

struct trash *trash_new(const char *dir) {
    struct trash *trash = calloc(1, sizeof *trash);
    if (!trash)
        abort();
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
    pthread_cond_signal(&trash->more);
    pthread_mutex_unlock(&trash->lock);
    if (trash->threaded)
        pthread_join(trash->thread, NULL);
    else if (trash->dir >= 0)
        empty(trash->dir);
    fd_close(&trash->dir);
    free(trash);
}

int trash_put(struct trash *trash, int dirfd, const char *name, struct err *err) {
    static atomic_uint count;
    char to[64];
    snprintf(to, sizeof to, "box-%d-%u-%s", getpid(), atomic_fetch_add(&count, 1), name);
    if (renameat(dirfd, name, trash->dir, to) < 0)
        return errno == ENOENT ? 0 : err_errno(err, errno, "cannot remove the files of '%s'", name);
    pthread_mutex_lock(&trash->lock);
    if (!trash->threaded)
        trash->threaded = pthread_create(&trash->thread, NULL, trash_main, trash) == 0;
    while (trash->threaded && trash->queued >= QUEUE_MAX)
        pthread_cond_wait(&trash->less, &trash->lock);
    trash->queued++;
    pthread_cond_signal(&trash->more);
    pthread_mutex_unlock(&trash->lock);
    return 0;
}

static void *trash_main(void *arg) {
    struct trash *trash = arg;
    pthread_mutex_lock(&trash->lock);
    for (;;) {
        while (trash->queued == 0 && !trash->stop)
            pthread_cond_wait(&trash->more, &trash->lock);
        if (trash->queued == 0)
            break;
        trash->queued = 0;
        pthread_cond_broadcast(&trash->less);
        pthread_mutex_unlock(&trash->lock);
        empty(trash->dir);
        pthread_mutex_lock(&trash->lock);
    }
    pthread_mutex_unlock(&trash->lock);
    return NULL;
}

void trash_remove(int dirfd, const char *name) {
    char own[300];
    snprintf(own, sizeof own, ".trash-%d-%.200s", getpid(), name);
    if (mkdirat(dirfd, own, 0700) < 0 && errno != EEXIST)
        return;
    autofd dir = openat(dirfd, own, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && (renameat(dirfd, name, dir, name) == 0 || errno == ENOENT))
        empty(dir);
    unlinkat(dirfd, own, AT_REMOVEDIR);
}

/* Unlinks what it can in directory `name` of top; subdirectories that are not empty are moved up into top, where their
 * turn comes: so the depth is always one. */
static void flatten(int top, const char *name, unsigned *moved) {
    int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* not as root: a directory its box made unreadable */
    if (fd < 0 && errno == EACCES && fchmodat(top, name, 0700, 0) == 0) {
        fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        fd_close(&fd);
        return;
    }
    struct stat status;
    if (geteuid() != 0 && fstat(fd, &status) == 0 && (status.st_mode & 0700) != 0700)
        fchmod(fd, 0700);
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        const char *each = entry->d_name;
        if (strcmp(each, ".") == 0 || strcmp(each, "..") == 0)
            continue;
        if (unlinkat(fd, each, 0) == 0 || (errno != EISDIR && errno != EPERM))
            continue;
        if (unlinkat(fd, each, AT_REMOVEDIR) == 0)
            continue;
        char to[32];
        snprintf(to, sizeof to, "d-%d-%u", getpid(), (*moved)++);
        renameat(fd, each, top, to);
    }
    closedir(dir);
}

/* Passes over top until nothing is left, or nothing more can be removed. */
static void empty(int top) {
    static atomic_uint moved_all;
    for (bool progress = true; progress;) {
        progress = false;
        int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;
        while (dir && (entry = readdir(dir))) {
            const char *each = entry->d_name;
            if (strcmp(each, ".") == 0 || strcmp(each, "..") == 0)
                continue;
            if (unlinkat(top, each, 0) == 0 || unlinkat(top, each, AT_REMOVEDIR) == 0) {
                progress = true;
                continue;
            }
            unsigned moved = atomic_fetch_add(&moved_all, 1u << 20), before = moved;
            flatten(top, each, &moved);
            progress |= unlinkat(top, each, AT_REMOVEDIR) == 0 || moved != before;
        }
        if (dir)
            closedir(dir);
    }
}
