/* Taking apart what ended boxes leave. Called by jail.c. Invariant: the claim goes last, because it is what leads a
 * later daemon to the rest when this one is killed in between.
 *
 * The mount namespace is the expensive part: an overlay that goes writes the whole file system below it to the disk.
 * So its last descriptor must be held by a thread of this file. In the daemon's table it could be copied to a runner
 * that is just being spawned, and that one would take the mounts apart before it starts. Hence these threads have tables
 * of their own, and get the descriptors through a socket.
 *
 * Rules: 1. `queue`, `count`, `stop`, `untidy` and the traffic of `door` under `lock`. 2. The threads work without it. */
#include "backend/jail/reaper.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/ids.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/sync.h"

#define QUEUE_MAX 64
#define DEVICES_KEPT 16 /* free loop devices, for the next boxes */
#define THREADS 2       /* one waits for the disk while the other works */
/* Several at a time, one right after the other: what the first has written to the disk, the next ones need not. */
#define TOGETHER 8
#define GATHER_MS 30 /* how long the first waits for company */
#define LATE_MAX 64
#define LATE_MS 1000 /* how often is looked after those */

struct reaper {
    struct backend *backend;
    pthread_t threads[THREADS];
    unsigned thread_count;
    bool stop, untidy;
    pthread_mutex_t lock;
    pthread_cond_t more, less;
    struct remains queue[QUEUE_MAX]; /* a ring */
    unsigned first, count;
    pid_t late[LATE_MAX]; /* killed, and not gone when they were waited for: they will be, and are ours */
    unsigned late_count;
    int door[2]; /* [1] is the threads' */
};

static void *reaper_main(void *arg);
static void give_mounts(struct reaper *reaper, struct remains *remains);
static void take_mounts(struct reaper *reaper, struct remains *remains);

struct reaper *reaper_new(struct backend *backend) {
    struct reaper *reaper = xcalloc(1, sizeof *reaper);
    reaper->backend = backend;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, reaper->door) < 0)
        reaper->door[0] = reaper->door[1] = -1;
    pthread_mutex_init(&reaper->lock, NULL);
    cond_init(&reaper->more);
    pthread_cond_init(&reaper->less, NULL);
    return reaper;
}

void reaper_free(struct reaper *reaper) {
    if (!reaper)
        return;
    pthread_mutex_lock(&reaper->lock);
    reaper->stop = true;
    pthread_cond_broadcast(&reaper->more);
    pthread_mutex_unlock(&reaper->lock);
    for (unsigned i = 0; i < reaper->thread_count; i++)
        pthread_join(reaper->threads[i], NULL);
    fd_close(&reaper->door[0]);
    fd_close(&reaper->door[1]);
    free(reaper);
}

void reaper_put(struct reaper *reaper, const struct remains *given) {
    struct remains remains = *given;
    pthread_mutex_lock(&reaper->lock);
    while (reaper->thread_count < THREADS &&
           pthread_create(&reaper->threads[reaper->thread_count], NULL, reaper_main, reaper) == 0)
        reaper->thread_count++;
    while (reaper->thread_count > 0 && reaper->count == QUEUE_MAX)
        pthread_cond_wait(&reaper->less, &reaper->lock);
    bool queued = reaper->thread_count > 0;
    if (queued) {
        give_mounts(reaper, &remains);
        reaper->queue[(reaper->first + reaper->count++) % QUEUE_MAX] = remains;
        pthread_cond_signal(&reaper->more);
    }
    pthread_mutex_unlock(&reaper->lock);
    if (!queued)
        reaper_bury(reaper->backend, &remains);
}

/* Failing that, the namespace goes here and now: slow, but gone. */
static void give_mounts(struct reaper *reaper, struct remains *remains) {
    if (remains->mounts_fd < 0)
        return;
    remains->mounts_sent = fd_send(reaper->door[0], "", 1, remains->mounts_fd, MSG_DONTWAIT) == 1;
    fd_close(&remains->mounts_fd);
}

static void take_mounts(struct reaper *reaper, struct remains *remains) {
    char byte;
    if (remains->mounts_sent)
        fd_recv(reaper->door[1], &byte, 1, &remains->mounts_fd, MSG_DONTWAIT);
}

/* Late: whoever lets go of the box's root last, takes its overlay apart. */
static void bury_mounts(struct remains *remains) {
    fd_close(&remains->mounts_fd);
    if (remains->claimed)
        ids_release(remains->slot);
}

/* false: its PID 1 is still there. */
static bool bury_rest(struct backend *backend, struct remains *remains) {
    if (remains->outer_pid) {
        waitpid(remains->outer_pid, NULL, 0);
        return true;
    }
    bool gone = jail_await(remains->pid, remains->start);
    cgroup_remove(&backend->cgroups, &remains->cgroup);
    if (remains->net)
        net_detach(remains->slot);
    return gone;
}

void reaper_bury(struct backend *backend, struct remains *remains) {
    bury_rest(backend, remains);
    bury_mounts(remains);
}

/* In a lull after boxes have gone: loop devices, which take long. false: nothing to do. */
static bool tidy_locked(struct reaper *reaper) {
    if (!reaper->untidy)
        return false;
    reaper->untidy = false;
    pthread_mutex_unlock(&reaper->lock);
    bool more = quota_tidy(DEVICES_KEPT);
    pthread_mutex_lock(&reaper->lock);
    reaper->untidy |= more;
    return true;
}

/* A loaded machine may take longer with a process than anybody waits for it; nobody else ends what is left of it then. */
static void late_locked(struct reaper *reaper) {
    for (unsigned i = 0; i < reaper->late_count;)
        if (waitpid(reaper->late[i], NULL, WNOHANG) != 0) /* gone, or an earlier daemon's */
            reaper->late[i] = reaper->late[--reaper->late_count];
        else
            i++;
}

static void rest_locked(struct reaper *reaper) {
    if (!cond_wait_until(&reaper->more, &reaper->lock, reaper->late_count ? clock_ms() + LATE_MS : 0))
        late_locked(reaper);
}

static void gather_locked(struct reaper *reaper) {
    uint64_t until_ms = clock_ms() + GATHER_MS;
    while (reaper->count > 0 && reaper->count < TOGETHER && !reaper->stop)
        if (!cond_wait_until(&reaper->more, &reaper->lock, until_ms))
            break;
}

static void bury_locked(struct reaper *reaper) {
    struct remains batch[TOGETHER];
    unsigned count = 0;
    for (; count < TOGETHER && reaper->count > 0; count++) {
        batch[count] = reaper->queue[reaper->first];
        reaper->first = (reaper->first + 1) % QUEUE_MAX;
        reaper->count--;
        take_mounts(reaper, &batch[count]);
        pthread_cond_signal(&reaper->less);
    }
    pthread_mutex_unlock(&reaper->lock);
    bool gone[TOGETHER];
    for (unsigned i = 0; i < count; i++)
        gone[i] = bury_rest(reaper->backend, &batch[i]);
    for (unsigned i = 0; i < count; i++)
        bury_mounts(&batch[i]);
    pthread_mutex_lock(&reaper->lock);
    for (unsigned i = 0; i < count && reaper->late_count < LATE_MAX; i++)
        if (!gone[i])
            reaper->late[reaper->late_count++] = batch[i].pid;
    late_locked(reaper);
    reaper->untidy = true;
}

static void *reaper_main(void *arg) {
    struct reaper *reaper = arg;
    if (reaper->door[1] > 2 && unshare(CLONE_FILES) == 0) { /* and nobody's connection is kept open by the copies */
        if (reaper->door[1] > 3)
            close_range(3, (unsigned)reaper->door[1] - 1, 0);
        close_range((unsigned)reaper->door[1] + 1, ~0u, 0);
    }
    pthread_mutex_lock(&reaper->lock);
    for (;;) {
        while (reaper->count == 0 && !reaper->stop)
            if (!tidy_locked(reaper))
                rest_locked(reaper);
        gather_locked(reaper);
        if (reaper->count == 0 && reaper->stop)
            break;
        bury_locked(reaper);
    }
    pthread_mutex_unlock(&reaper->lock);
    return NULL;
}
