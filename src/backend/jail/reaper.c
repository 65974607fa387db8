/* Takes ended boxes apart. Called by jail.c. Invariant: the claim goes last, because it leads a later daemon to the
 * rest when this one is killed in between.
 *
 * The mount namespace is the expensive part: an overlay that goes writes the whole file system below it to the disk. So
 * its last descriptor must be held by a thread of this file. In the daemon's table it could be copied to a runner that
 * is just being spawned, which would take the mounts apart before it starts. Hence these threads have tables of their
 * own, and get the descriptors through a socket.
 *
 * Rules: 1. `queue`, `count`, `stop`, `untidy` and the traffic of `pair` under `lock`. 2. The threads work without
 * it. */
#include <sys/wait.h>

#include "base/base.h"
#include "backend/ids.h"
#include "backend/jail/jail.h"
#include "base/sync.h"

#define QUEUE_MAX 64
#define DEVICES_KEPT 16 /* free loop devices, for the next boxes */
/* One waits for the disk while the other works. Where others write to it, a box takes 12 ms: then there are more. */
#define THREADS 2
#define THREADS_MAX 4
/* Several at a time, one right after the other: the first one's writes to the disk spare the next ones theirs. */
#define TOGETHER 8
#define GATHER_MS 30 /* how long the first waits for company */
/* Files that are gone need not be written to the disk: mounts wait for their removal, while few boxes wait. */
#define FILES_MS 10000
#define FILES_LOOK_MS 20
#define WAITING_MAX 16
#define YIELD_MS 20 /* how long requests hold up a box that is taken apart */
#define LATE_MAX 64
#define LATE_MS 1000 /* how often is looked after those */

struct reaper {
    struct backend *backend;
    pthread_t threads[THREADS_MAX];
    unsigned thread_count;
    bool stop, untidy;
    pthread_mutex_t lock;
    pthread_cond_t more, less;
    struct reaper_job queue[QUEUE_MAX]; /* a ring */
    unsigned first, count;
    pid_t late[LATE_MAX]; /* killed, and not gone when they were waited for: they will be, and are ours */
    unsigned late_count;
    int pair[2]; /* of sockets; [1] is the threads' */
};

struct reaper *reaper_new(struct backend *backend) {
    struct reaper *reaper = xcalloc(1, sizeof *reaper);
    reaper->backend = backend;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, reaper->pair) < 0)
        reaper->pair[0] = reaper->pair[1] = -1;
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
    fd_close(&reaper->pair[0]);
    fd_close(&reaper->pair[1]);
    free(reaper);
}

/* A loaded machine may take longer to end a process than the wait for it; only this collects it then. */
static void reaper_late_locked(struct reaper *reaper) {
    for (unsigned i = 0; i < reaper->late_count;)
        if (waitpid(reaper->late[i], NULL, WNOHANG) != 0) /* gone, or an earlier daemon's */
            reaper->late[i] = reaper->late[--reaper->late_count];
        else
            i++;
}

/* Until there is something to do, or the end. */
static void reaper_wait_locked(struct reaper *reaper) {
    while (reaper->count == 0 && !reaper->stop) {
        if (reaper->untidy) { /* in a lull after boxes have gone: loop devices, which take long */
            reaper->untidy = false;
            pthread_mutex_unlock(&reaper->lock);
            bool more = quota_tidy(DEVICES_KEPT);
            pthread_mutex_lock(&reaper->lock);
            reaper->untidy |= more;
        } else if (!cond_wait_until(&reaper->more, &reaper->lock, reaper->late_count ? clock_ms() + LATE_MS : 0)) {
            reaper_late_locked(reaper);
        }
    }
    uint64_t until_ms = clock_ms() + GATHER_MS;
    while (reaper->count > 0 && reaper->count < TOGETHER && !reaper->stop)
        if (!cond_wait_until(&reaper->more, &reaper->lock, until_ms))
            break;
}

/* All but the mounts. false: its PID 1 is still there. */
static bool reaper_first(struct backend *backend, struct reaper_job *job) {
    if (job->outer_pid) {
        waitpid(job->outer_pid, NULL, 0);
        return true;
    }
    bool gone = jail_await(job->pid, job->start);
    cgroup_remove(&backend->cgroups, &job->cgroup);
    if (job->net)
        net_detach(job->slot);
    return gone;
}

/* The mounts, after that: the last process to close the box's root unmounts its overlay. And the claim. */
static void reaper_second(struct reaper_job *job) {
    fd_close(&job->mounts_fd);
    if (job->claimed)
        ids_release(job->slot);
}

static void reaper_await_files(struct reaper *reaper) {
    uint64_t until_ms = clock_ms() + FILES_MS;
    autolock(&reaper->lock);
    while (trash_is_large(reaper->backend->trash) && reaper->count < WAITING_MAX && !reaper->stop &&
           clock_ms() < until_ms)
        cond_wait_until(&reaper->more, &reaper->lock, clock_ms() + FILES_LOOK_MS);
}

static void reaper_batch_locked(struct reaper *reaper) {
    struct reaper_job batch[TOGETHER];
    bool gone[TOGETHER];
    unsigned count = 0;
    for (; count < TOGETHER && reaper->count > 0; count++) {
        char byte;
        batch[count] = reaper->queue[reaper->first];
        reaper->first = (reaper->first + 1) % QUEUE_MAX;
        reaper->count--;
        if (batch[count].mounts_sent)
            fd_recv(reaper->pair[1], &byte, 1, &batch[count].mounts_fd, MSG_DONTWAIT);
        pthread_cond_signal(&reaper->less);
    }
    pthread_mutex_unlock(&reaper->lock);
    for (unsigned i = 0; i < count; i++)
        gone[i] = reaper_first(reaper->backend, &batch[i]);
    reaper_await_files(reaper);
    for (unsigned i = 0; i < count; i++) {
        if (count < TOGETHER) /* else boxes end faster than this thread works */
            background_yield(YIELD_MS);
        reaper_second(&batch[i]);
    }
    pthread_mutex_lock(&reaper->lock);
    for (unsigned i = 0; i < count && reaper->late_count < LATE_MAX; i++)
        if (!gone[i])
            reaper->late[reaper->late_count++] = batch[i].pid;
    reaper_late_locked(reaper);
    reaper->untidy = true;
}

static void *reaper_main(void *arg) {
    struct reaper *reaper = arg;
    if (reaper->pair[1] > 2 && unshare(CLONE_FILES) == 0) { /* and no connection is kept open by the copies */
        if (reaper->pair[1] > 3)
            close_range(3, (unsigned)reaper->pair[1] - 1, 0);
        close_range((unsigned)reaper->pair[1] + 1, ~0u, 0);
    }
    autolock(&reaper->lock);
    for (;;) {
        reaper_wait_locked(reaper);
        if (reaper->count == 0 && reaper->stop)
            break;
        reaper_batch_locked(reaper);
    }
    return NULL;
}

void reaper_run(struct backend *backend, struct reaper_job *job) {
    reaper_first(backend, job);
    reaper_second(job);
}

void reaper_put(struct reaper *reaper, const struct reaper_job *given) {
    struct reaper_job job = *given;
    pthread_mutex_lock(&reaper->lock);
    while (reaper->thread_count < (reaper->count < QUEUE_MAX / 2 ? THREADS : THREADS_MAX) &&
           pthread_create(&reaper->threads[reaper->thread_count], NULL, reaper_main, reaper) == 0)
        reaper->thread_count++;
    while (reaper->thread_count > 0 && reaper->count == QUEUE_MAX)
        pthread_cond_wait(&reaper->less, &reaper->lock);
    bool queued = reaper->thread_count > 0;
    if (queued && job.mounts_fd >= 0) { /* where it cannot be sent, the namespace ends here and now: slow, but gone */
        job.mounts_sent = fd_send(reaper->pair[0], "", 1, job.mounts_fd, MSG_DONTWAIT) == 1;
        fd_close(&job.mounts_fd);
    }
    if (queued) {
        reaper->queue[(reaper->first + reaper->count++) % QUEUE_MAX] = job;
        pthread_cond_signal(&reaper->more);
    }
    pthread_mutex_unlock(&reaper->lock);
    if (!queued)
        reaper_run(reaper->backend, &job);
}
