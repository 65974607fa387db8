/* Keepers: without cgroups, every command runs below a small process of ours that adopts and ends all processes that
 * the command leaves. Called by spawn.c (keeper_main, in the child) and init/process (the sweep). Invariant: a keeper
 * exits only when its tree is empty, so its exit means the same as an empty leaf. */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/base.h"
#include "runner/exec/process.h"
#include "runner/raw.h"
#include "runner/runner.h"

struct relation {
    pid_t pid, parent;
    bool below;
};

static void keeper_fork(struct spawn *spawn);

/* Reaps ended children. Returns false if no children are left. */
static bool keeper_collect(struct spawn_slot *slot) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == slot->pid) {
            slot->status = status;
            slot->done = 1;
        }
    return pid == 0;
}

/* Stops them first, so that nothing forks away while the list is read; then kills them. */
static void keeper_empty(struct spawn_slot *slot) {
    while (keeper_collect(slot)) {
        tree_signal(getpid(), SIGSTOP);
        tree_signal(getpid(), SIGKILL);
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid == slot->pid && pid > 0) {
            slot->status = status;
            slot->done = 1;
        }
    }
}

_Noreturn void keeper_main(struct spawn *spawn) {
    struct spawn_slot *slot = spawn->slot;
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, KEEPER_TERM);
    sigaddset(&wanted, KEEPER_KILL);
    pid_t runner = getppid();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, KEEPER_KILL, 0, 0, 0);
    keeper_fork(spawn);
    if (getppid() != runner)
        keeper_empty(slot);
    while (keeper_collect(slot)) {
        if (slot->done) { /* the command has ended: its remaining processes end with it */
            slot->left = 1;
            keeper_empty(slot);
        }
        siginfo_t info;
        int number = sigwaitinfo(&wanted, &info);
        if (number == KEEPER_TERM)
            tree_signal(getpid(), SIGTERM);
        else if (number == KEEPER_KILL)
            keeper_empty(slot);
    }
    _exit(0);
}

/* Shares the keeper's memory until it execs, as below a leaf the runner's: no page tables are copied. */
static int keeper_child(void *argument) {
    struct spawn *spawn = argument;
    spawn->slot->pid = (int)raw(SYS_getpid); /* a client may ask for it before the keeper runs again */
    spawn_child(spawn);
}

static void keeper_fork(struct spawn *spawn) {
    struct spawn_slot *slot = spawn->slot;
    pid_t pid = clone(keeper_child, (char *)spawn->stack + SPAWN_STACK_BYTES, CLONE_VM | SIGCHLD, spawn);
    if (pid < 0) {
        slot->number = errno;
        slot->stage = SPAWN_FORK;
        _exit(1);
    }
    slot->pid = pid;
    /* Pipes kept open here would keep the command's readers waiting. */
    syscall(SYS_close_range, 0, ~0u, 0);
}

/* ---- the tree, from /proc ---- */

static pid_t keeper_parent_of(int proc_fd, const char *name) {
    char text[512];
    ssize_t n = fd_read_file(proc_fd, text_make(64, "%.32s/stat", name), text, sizeof text);
    char *end = n > 0 ? strrchr(text, ')') : NULL; /* the name before it may contain anything */
    int parent = 0;
    char state;
    return end && sscanf(end + 1, " %c %d", &state, &parent) == 2 && state != 'Z' ? parent : -1;
}

static size_t keeper_relations_read(struct relation **ret_list) {
    struct relation *list = NULL;
    size_t count = 0, cap = 0;
    autodir *dir = fd_opendir(AT_FDCWD, "/proc", 0);
    for (struct dirent *entry; (entry = fd_readdir(dir));) {
        pid_t pid = (int)strtol(entry->d_name, NULL, 10);
        if (pid > 0)
            vec_add(list, count, cap) =
                (struct relation){.pid = pid, .parent = keeper_parent_of(dirfd(dir), entry->d_name)};
    }
    *ret_list = list;
    return count;
}

static bool keeper_below(const struct relation *list, size_t count, pid_t pid, pid_t root_pid) {
    if (pid == root_pid)
        return true;
    for (size_t i = 0; i < count; i++)
        if (list[i].pid == pid)
            return list[i].below;
    return false;
}

void tree_each(pid_t root_pid, void (*each)(pid_t pid, void *argument), void *argument) {
    struct relation *list;
    size_t count = keeper_relations_read(&list);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < count; i++)
            if (!list[i].below && list[i].parent > 0 && keeper_below(list, count, list[i].parent, root_pid)) {
                list[i].below = more = true;
                each(list[i].pid, argument);
            }
    }
    free(list);
}

struct tree_kill {
    int number;
    size_t found;
};

static void keeper_tree_kill(pid_t pid, void *argument) {
    struct tree_kill *all = argument;
    kill(pid, all->number);
    all->found++;
}

size_t tree_signal(pid_t root_pid, int number) {
    struct tree_kill all = {.number = number};
    tree_each(root_pid, keeper_tree_kill, &all);
    return all.found;
}

void keeper_sweep(struct runner *runner) {
    struct relation *list;
    size_t count = keeper_relations_read(&list);
    pid_t self = getpid();
    for (size_t i = 0; i < count; i++)
        if (list[i].parent == self && list[i].pid != runner->config->relay_pid &&
            !process_is_child(runner, list[i].pid) && !worker_is_child(runner, list[i].pid))
            kill(list[i].pid, SIGKILL);
    free(list);
}
