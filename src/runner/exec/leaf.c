/* Leaves: one cgroup v2 directory for the tree of one command, below the box's own cgroup. Called by process.c and
 * spawn.c. cgroup.kill empties a leaf whatever is in it; cgroup.events reports when it is empty. Making and removing
 * directories costs more than a short command, so empty leaves are reused. Invariant: a leaf returns to the pool only
 * when it is empty and was never killed. */
#include <sys/epoll.h>

#include "base/base.h"
#include "runner/exec/process.h"

enum { LEAVES_IDLE_MAX = 16 };

struct leaf_pool {
    struct runner *runner;
    struct leaf *idle;
    unsigned idle_count, made;
};

static void leaf_free(struct leaf_pool *pool, struct leaf *leaf) {
    fd_close(&leaf->dir_fd);
    fd_close(&leaf->kill_fd);
    fd_close(&leaf->events.fd);
    unlinkat(pool->runner->config->cgroup_fd, text_make(32, "leaf%u", leaf->number), AT_REMOVEDIR);
    later_free(pool->runner, leaf);
}

static struct leaf *leaf_make(struct leaf_pool *pool, struct err *err) {
    int cgroup_fd = pool->runner->config->cgroup_fd;
    char name[32];
    int r;
    do { /* an existing one may have been killed and is not used */
        snprintf(name, sizeof name, "leaf%u", pool->made);
        r = mkdirat(cgroup_fd, name, 0755);
    } while (r < 0 && errno == EEXIST && ++pool->made);
    if (r < 0) {
        err_errno(err, errno, "cannot make a cgroup for the command");
        return NULL;
    }
    struct leaf *leaf = xcalloc(1, sizeof *leaf);
    leaf->number = pool->made++;
    leaf->dir_fd = openat(cgroup_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    leaf->kill_fd = openat(leaf->dir_fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    leaf->events.fd = openat(leaf->dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (leaf->dir_fd >= 0 && fstat(leaf->dir_fd, &status) == 0)
        leaf->inode = status.st_ino;
    if (leaf->dir_fd < 0 || leaf->kill_fd < 0 || leaf->events.fd < 0) {
        err_errno(err, errno, "the command's cgroup lacks cgroup.kill or cgroup.events");
        leaf_free(pool, leaf);
        return NULL;
    }
    return leaf;
}

struct leaf_pool *leaf_pool_new(struct runner *runner) {
    if (runner->config->cgroup_fd < 0)
        return NULL;
    struct leaf_pool *pool = xcalloc(1, sizeof *pool);
    pool->runner = runner;
    struct leaf *leaf = leaf_make(pool, ERR_IGNORED);
    /* clone3 requires the right to write to the list of the common ancestor and of the leaf. */
    if (leaf && (faccessat(runner->config->cgroup_fd, "cgroup.procs", W_OK, AT_EACCESS) < 0 ||
                 faccessat(leaf->dir_fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)) {
        leaf_free(pool, leaf);
        leaf = NULL;
    }
    if (!leaf) {
        free(pool);
        return NULL;
    }
    leaf_give(pool, leaf, true);
    return pool;
}

struct leaf *leaf_take(struct leaf_pool *pool, struct err *err) {
    struct leaf *leaf = pool->idle;
    if (!leaf)
        return leaf_make(pool, err);
    pool->idle = leaf->next;
    pool->idle_count--;
    return leaf;
}

static void leaf_emptied(struct source *source, uint32_t) {
    struct leaf *leaf = (struct leaf *)source;
    if (leaf_populated(leaf))
        return;
    struct leaf_pool *pool = (struct leaf_pool *)leaf->process; /* set by leaf_give */
    source_set(pool->runner, source, 0);
    leaf->process = NULL;
    leaf_give(pool, leaf, true);
}

void leaf_give(struct leaf_pool *pool, struct leaf *leaf, bool empty) {
    source_set(pool->runner, &leaf->events, 0);
    if (!empty && leaf_populated(leaf)) { /* a process hangs in the kernel; the leaf is free when it ends */
        leaf->process = (struct process *)pool;
        leaf->events.ready = leaf_emptied;
        source_set(pool->runner, &leaf->events, EPOLLPRI);
        return;
    }
    /* Since 6.14 the kernel compares the leaf's counter of kills with that of the parent's cgroup when a child is
     * cloned into it: in a leaf that was ever killed every new child would be killed too. */
    if (leaf->killed || pool->idle_count >= LEAVES_IDLE_MAX) {
        leaf_free(pool, leaf);
        return;
    }
    leaf->process = NULL;
    leaf->next = pool->idle;
    pool->idle = leaf;
    pool->idle_count++;
}

bool leaf_populated(struct leaf *leaf) {
    char text[128];
    ssize_t n = pread(leaf->events.fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return false; /* the directory is gone, with its content */
    text[n] = 0;
    const char *at = strstr(text, "populated ");
    return at && at[10] == '1';
}

void leaf_kill(struct leaf *leaf) {
    leaf->killed = true;
    (void)!write(leaf->kill_fd, "1", 1);
}

static void leaf_signal_one(pid_t pid, void *number) {
    kill(pid, *(int *)number);
}

void leaf_signal(struct leaf *leaf, int number) {
    leaf_each(leaf, leaf_signal_one, &number);
}

void leaf_each(struct leaf *leaf, void (*each)(pid_t pid, void *argument), void *argument) {
    char text[4096];
    autofd fd = openat(leaf->dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    for (ssize_t n; fd >= 0 && (n = read(fd, text + have, sizeof text - 1 - have)) > 0;) {
        have += (size_t)n;
        text[have] = 0;
        char *line = text;
        for (char *end; (end = strchr(line, '\n')); line = end + 1) {
            pid_t pid = (int)strtol(line, NULL, 10);
            if (pid > 1)
                each(pid, argument);
        }
        have = strlen(line);
        memmove(text, line, have);
    }
}
