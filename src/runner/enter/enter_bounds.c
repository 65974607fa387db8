/* What the kernel counts for the whole machine, or does not free with the processes that took it. Called by stage one in
 * PID 1, when the plan is known.
 *
 * Memory that outlives its processes: files in /dev/shm, System V segments, queues and semaphores. A box full of it would
 * leave the kernel only PID 1 to kill. Each gets a part of the box's memory; together they leave it a quarter.
 *
 * Terminals: all boxes share kernel.pty.max, so that each has as many as it was dealt. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "runner/enter/enter.h"
#include "wire/spec.h"

enum {
    PAGE_BYTES = 4096,
    FILES_PART = 2,      /* /dev/shm: a half, as a tmpfs has of a machine */
    INODE_BYTES = 16384, /* one file for so many bytes: what the kernel keeps of an empty one is not counted by size= */
    SEGMENTS_PART = 8,
    QUEUES_PART = 32,
    QUEUE_BYTES = 16384, /* kernel.msgmnb, a queue's default size */
    SEMAPHORES_PART = 32,
    SEMAPHORE_BYTES = 128,
};

static void set(const struct enter *enter, const char *name, const char *text) {
    fd_write_file(enter->sysctl_fd, name, text); /* refused: the box can only run itself out of memory */
}

int enter_pts(const struct enter *enter, const char *path, unsigned long flags, uint64_t terminals, struct err *err) {
    char options[96];
    snprintf(options, sizeof options, "newinstance,ptmxmode=0666,mode=0620,max=%llu%s", (unsigned long long)terminals,
             enter->ranged ? ",gid=5" : "");
    if (mount("devpts", path, "devpts", flags | MS_NOSUID | MS_NOEXEC, options) < 0)
        return err_errno(err, errno, "devpts");
    return 0;
}

/* max=0 would mean no limit: a box without terminals has no such file system. */
static int bound_terminals(const struct enter *enter, struct err *err) {
    uint64_t terminals = enter->terminals;
    if (terminals == TERMINALS_NONE)
        return umount2("/dev/pts", MNT_DETACH) < 0 ? err_errno(err, errno, "/dev/pts") : 0;
    bool dealt = terminals && terminals != DEFAULT_TERMINALS;
    return dealt ? enter_pts(enter, "/dev/pts", MS_REMOUNT, terminals, err) : 0;
}

int enter_bounds(struct enter *enter, struct err *err) {
    unsigned long long memory = enter->memory_bytes, files = memory / FILES_PART;
    char text[128];
    int r = bound_terminals(enter, err);
    if (r < 0 || memory == 0)
        return r;
    snprintf(text, sizeof text, "size=%llu,nr_inodes=%llu", files, files / INODE_BYTES);
    if (mount(NULL, "/dev/shm", NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, text) < 0)
        return err_errno(err, errno, "/dev/shm");
    if (enter->sysctl_fd < 0)
        return 0;
    snprintf(text, sizeof text, "%llu", memory / SEGMENTS_PART / PAGE_BYTES);
    set(enter, "shmall", text);
    snprintf(text, sizeof text, "%llu", memory / QUEUES_PART / QUEUE_BYTES);
    set(enter, "msgmni", text);
    snprintf(text, sizeof text, "250 %llu 100 %llu", memory / SEMAPHORES_PART / SEMAPHORE_BYTES,
             memory / SEMAPHORES_PART / PAGE_BYTES);
    set(enter, "sem", text);
    return 0;
}
