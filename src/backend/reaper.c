/* Taking apart what ended boxes leave. Called by jail.c. Not to break: the claim goes last, because it is what leads a
 * later daemon to the rest when this one is killed in between.
 *
 * The mount namespace is the expensive part: an overlay that goes writes the whole file system below it to the disk.
 *
 * Rules: 1. `queue`, `count`, `stop` under `lock`. 2. The thread works without the lock. */
#include "backend/reaper.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "backend/ids.h"
#include "base/fd.h"

#define QUEUE_MAX 64

struct reaper {
    struct backend *backend;
    pthread_t thread;
    bool threaded, stop;
    pthread_mutex_t lock;
    pthread_cond_t more, less;
    struct remains queue[QUEUE_MAX]; /* a ring */
    unsigned first, count;
};

static void *reaper_main(void *arg);

struct reaper *reaper_new(struct backend *backend) {
    struct reaper *reaper = calloc(1, sizeof *reaper);
    if (!reaper)
        abort();
    reaper->backend = backend;
    pthread_mutex_init(&reaper->lock, NULL);
    pthread_cond_init(&reaper->more, NULL);
    pthread_cond_init(&reaper->less, NULL);
    return reaper;
}

void reaper_free(struct reaper *reaper) {
    if (!reaper)
        return;
    pthread_mutex_lock(&reaper->lock);
    reaper->stop = true;
    pthread_cond_signal(&reaper->more);
    pthread_mutex_unlock(&reaper->lock);
    if (reaper->threaded)
        pthread_join(reaper->thread, NULL);
    free(reaper);
}

void reaper_put(struct reaper *reaper, const struct remains *remains) {
    pthread_mutex_lock(&reaper->lock);
    if (!reaper->threaded)
        reaper->threaded = pthread_create(&reaper->thread, NULL, reaper_main, reaper) == 0;
    while (reaper->threaded && reaper->count == QUEUE_MAX)
        pthread_cond_wait(&reaper->less, &reaper->lock);
    bool queued = reaper->threaded;
    if (queued) {
        reaper->queue[(reaper->first + reaper->count++) % QUEUE_MAX] = *remains;
        pthread_cond_signal(&reaper->more);
    }
    pthread_mutex_unlock(&reaper->lock);
    if (!queued) {
        struct remains own = *remains;
        reaper_bury(reaper->backend, &own);
    }
}

void reaper_bury(struct backend *backend, struct remains *remains) {
    if (remains->outer_pid) {
        waitpid(remains->outer_pid, NULL, 0);
        return;
    }
    cgroup_remove(&backend->cgroups, &remains->cgroup);
    if (remains->net)
        net_detach(remains->slot);
    fd_close(&remains->mounts_fd); /* late: whoever lets go of the box's root last, takes its overlay apart */
    if (remains->claimed)
        ids_release(remains->slot);
}

static void *reaper_main(void *arg) {
    struct reaper *reaper = arg;
    pthread_mutex_lock(&reaper->lock);
    for (;;) {
        while (reaper->count == 0 && !reaper->stop)
            pthread_cond_wait(&reaper->more, &reaper->lock);
        if (reaper->count == 0)
            break;
        struct remains remains = reaper->queue[reaper->first];
        reaper->first = (reaper->first + 1) % QUEUE_MAX;
        reaper->count--;
        pthread_cond_signal(&reaper->less);
        pthread_mutex_unlock(&reaper->lock);
        reaper_bury(reaper->backend, &remains);
        pthread_mutex_lock(&reaper->lock);
    }
    pthread_mutex_unlock(&reaper->lock);
    return NULL;
}
