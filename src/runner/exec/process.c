/* Commands of a box from start to end. Called by op_exec and op_process (begin), by the loop (reaping, timers).
 *
 * 1. Every change of phase goes through one function below: process_started, process_main_ended, process_tree_gone,
 *    process_done.
 * 2. A command is answered when its main process has ended and its tree and pipes are empty: END is last.
 * 3. Waiting for a tree to die is bounded (STUCK_MS): a process that hangs in the kernel does not delay the answer.
 * 4. Frees go through later_free: events of the same iteration may still refer to a process. */
#include <sys/epoll.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "base/base.h"
#include "runner/exec/process.h"

enum {
    STUCK_MS = 5000,
    SOON_MS = 2,
    SPARE_PIPES = 3,
    RAISE_PASSES = 16,
    KEPT_BYTES = 16 << 20, /* kept output of ended commands, since the runner's memory is the box's */
    START_BYTES = 4 << 10, /* the usual size of a child's request */
    ROOM_BYTES = START_BYTES + SPAWN_STACK_BYTES,
};
#define OOM_SCORE_OF_COMMANDS "500"

struct process_table {
    struct process *first;
    struct leaf_pool *leaves;
    bool leaves_work;          /* false: keepers from now on */
    struct process *tidy;      /* ended in this turn; freed after the answers are sent */
    int spare[SPARE_PIPES][2]; /* made in advance for the next command */
    int null_fd;
    struct spawn_slot *slots; /* LIMIT_PROCESSES of them, shared with children */
    uint8_t *rooms;           /* ROOM_BYTES per slot, for children until they exec */
    bool slot_used[LIMIT_PROCESSES];
    unsigned count;
    int oom_score_fd;
    char oom_score[16]; /* the runner's own */
};

static void process_tree_gone(struct process *process, bool empty);

char *process_command_text(const char *text, size_t len) {
    return xstrndup(text, text_cut(text, len, PROCESS_COMMAND_BYTES));
}

/* ---- the table ---- */

void process_table_open(struct runner *runner) {
    struct process_table *table = xcalloc(1, sizeof *table);
    runner->processes = table;
    table->slots =
        mmap(NULL, LIMIT_PROCESSES * sizeof *table->slots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    table->rooms = mmap(NULL, (size_t)LIMIT_PROCESSES * ROOM_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    xensure(table->slots != MAP_FAILED && table->rooms != MAP_FAILED);
    table->leaves = leaf_pool_new(runner);
    table->leaves_work = table->leaves != NULL;
    memset(table->spare, -1, sizeof table->spare);
    table->null_fd = path_open(runner->config->root_fd, "/dev/null", O_RDWR, 0);
    /* Children inherit the score. A process that is not dumpable may not open its own, so it is opened now. */
    int uid = setfsuid(geteuid()); /* first: it makes us not dumpable */
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    table->oom_score_fd = path_open(runner->config->root_fd, "/proc/self/oom_score_adj", O_RDWR, 0);
    setfsuid((uid_t)uid);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    ssize_t n = 0;
    if (table->oom_score_fd >= 0)
        n = pread(table->oom_score_fd, table->oom_score, sizeof table->oom_score - 1, 0);
    if (n <= 0 || (int)strtol(table->oom_score, NULL, 10) >= (int)strtol(OOM_SCORE_OF_COMMANDS, NULL, 10))
        fd_close(&table->oom_score_fd);
}

void process_oom_score(struct runner *runner, bool raised) {
    const struct process_table *table = runner->processes;
    const char *text = raised ? OOM_SCORE_OF_COMMANDS : table->oom_score;
    if (table->oom_score_fd >= 0)
        (void)!pwrite(table->oom_score_fd, text, strlen(text), 0);
}

bool process_has_leaves(const struct runner *runner) {
    return runner->processes->leaves_work;
}

struct process *process_first(struct runner *runner) {
    return runner->processes->first;
}

bool process_is_child(const struct runner *runner, pid_t pid) {
    return list_find(runner->processes->first, process, process->child == pid);
}

int process_lookup(struct runner *runner, uint64_t pid, struct process **ret_process, struct err *err) {
    struct process *found = NULL;
    for (struct process *p = runner->processes->first; p; p = p->next)
        if (p->phase != PHASE_STARTING && (uint64_t)p->pid == pid)
            found = p;
    if (!found)
        return err_set(err, ERR_NOT_FOUND, "no process %llu", (unsigned long long)pid);
    *ret_process = found;
    return 0;
}

int process_fork_error(const struct runner_config *config, int number, const char *what, struct err *err) {
    if (number == EAGAIN && config->pids)
        return err_set(err, ERR_LIMIT,
                       "the box cannot %s: its limit of %llu processes and threads is reached (limits.pids)", what,
                       (unsigned long long)config->pids);
    if (number == EAGAIN || number == ENOMEM)
        return err_set(err, ERR_LIMIT, "the box cannot %s: it has no more %s", what,
                       number == EAGAIN ? "processes" : "memory (limits.memory_mb)");
    return err_errno(err, number, "the box cannot %s", what);
}

/* Removes ended commands that are no longer used, oldest first, until at most `keep` are left and their output is
 * within its share of the box's memory. Returns whether at least one was removed. */
static bool process_ended_drop_oldest(struct runner *runner, unsigned keep) {
    unsigned ended = 0;
    size_t kept_bytes = 0;
    bool dropped = false;
    for (struct process *p = runner->processes->first; p; p = p->next)
        if (p->phase == PHASE_ENDED && p->background && !p->lives) {
            ended++;
            kept_bytes += stream_kept(&p->streams[0]) + stream_kept(&p->streams[1]);
        }
    for (struct process *p = runner->processes->first, *next; p && (ended > keep || kept_bytes > KEPT_BYTES);
         p = next) {
        next = p->next;
        if (p->phase == PHASE_ENDED && p->background && !p->lives && !p->watchers) {
            kept_bytes -= stream_kept(&p->streams[0]) + stream_kept(&p->streams[1]);
            process_drop(p);
            ended--;
            dropped = true;
            if (keep == 0)
                break;
        }
    }
    return dropped;
}

int process_new(struct runner *runner, struct process **ret_process, struct err *err) {
    struct process_table *table = runner->processes;
    if (table->count >= LIMIT_PROCESSES && !process_ended_drop_oldest(runner, 0))
        return err_set(
            err, ERR_LIMIT,
            "%u commands are running in this box or have left processes, which is its limit; end some of them",
            LIMIT_PROCESSES);
    struct process *process = xcalloc(1, sizeof *process);
    process->runner = runner;
    unsigned at = 0;
    while (table->slot_used[at])
        at++;
    table->slot_used[at] = true;
    process->slot = &table->slots[at];
    arena_init_in(&process->start, table->rooms + (size_t)at * ROOM_BYTES, START_BYTES);
    memset(process->slot, 0, sizeof *process->slot);
    process->ready.fd = process->input.fd = -1;
    for (int i = 0; i < 2; i++)
        process->streams[i] = (struct stream){.source.fd = -1, .process = process, .id = (uint8_t)(STREAM_STDOUT + i)};
    list_append(table->first, process);
    table->count++;
    *ret_process = process;
    return 0;
}

void process_drop(struct process *process) {
    struct runner *runner = process->runner;
    struct process_table *table = runner->processes;
    list_remove(table->first, process);
    table->count--;
    table->slot_used[process->slot - table->slots] = false;
    timer_set(runner, &process->timer, 0);
    timer_set(runner, &process->soon, 0);
    timer_set(runner, &process->wait, 0);
    source_close(runner, &process->ready);
    input_close(process);
    feeder_drop(&process->own);
    for (int i = 0; i < 2; i++)
        stream_free(&process->streams[i]);
    process_stdio_free(process);
    if (process->leaf)
        leaf_give(table->leaves, process->leaf, false);
    arena_done(&process->start);
    arena_done(&process->about);
    free(process->command);
    free(process->program);
    free(process->cwd);
    free(process->session);
    later_free(runner, process);
}

/* ---- made in advance or freed later: work that is not done while a caller waits ---- */

void process_tidy(struct runner *runner) {
    struct process_table *table = runner->processes;
    if (!table->tidy)
        return;
    for (struct process *next; table->tidy; table->tidy = next) {
        next = table->tidy->tidy_next;
        process_drop(table->tidy);
    }
    for (int i = 0; i < SPARE_PIPES; i++)
        if (table->spare[i][0] < 0 && pipe2(table->spare[i], O_CLOEXEC) == 0)
            fcntl(table->spare[i][0], F_SETFL, O_NONBLOCK);
}

int process_pipe(struct runner *runner, int pair[2]) {
    struct process_table *table = runner->processes;
    for (int i = 0; i < SPARE_PIPES; i++)
        if (table->spare[i][0] >= 0) {
            memcpy(pair, table->spare[i], sizeof table->spare[i]);
            table->spare[i][0] = table->spare[i][1] = -1;
            return 0;
        }
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    return 0;
}

int process_null(const struct runner *runner) {
    return runner->processes->null_fd;
}

/* ---- start ---- */

static void process_ready_event(struct source *source, uint32_t) {
    process_started(container_of(source, struct process, ready));
}

/* Starts the command itself, or its keeper. If cloning into a leaf is not allowed, keepers are used from then on. */
static pid_t process_start_below(struct process *process) {
    struct process_table *table = process->runner->processes;
    process->leaf = table->leaves_work ? leaf_take(table->leaves, ERR_IGNORED) : NULL;
    process->group = process->leaf ? process->leaf->inode : 0;
    process->spawn.stack = table->rooms + (size_t)(process->slot - table->slots) * ROOM_BYTES + START_BYTES;
    pid_t pid = process->leaf ? spawn_clone(&process->spawn, process->leaf) : -ENOSYS;
    if (pid >= 0 || pid == -EAGAIN || pid == -ENOMEM)
        return pid; /* its score is raised when it has its own memory: process_started */
    if (process->leaf) {
        leaf_give(table->leaves, process->leaf, true);
        process->leaf = NULL;
        process->group = 0;
        table->leaves_work = false;
    }
    process_oom_score(process->runner, true);
    pid = spawn_clone(&process->spawn, NULL);
    process_oom_score(process->runner, false);
    return pid;
}

static pid_t process_start_child(struct process *process, struct err *err) {
    int ready[2], r = process_pipe(process->runner, ready);
    if (r < 0)
        return err_errno(err, -r, "cannot start a process in the box");
    process->spawn.slot = process->slot;
    process->spawn.ready_fd = ready[1];
    pid_t pid = process_start_below(process);
    fd_close(&ready[1]);
    if (pid < 0) {
        fd_close(&ready[0]);
        return process_fork_error(process->runner->config, -pid, "start the command", err);
    }
    process->ready = (struct source){.fd = ready[0], .ready = process_ready_event};
    return pid;
}

static void process_timer_soon(struct timer *timer) {
    struct process *process = container_of(timer, struct process, soon);
    source_set(process->runner, &process->ready, EPOLLIN);
}

int process_launch(struct process *process, struct err *err) {
    struct runner *runner = process->runner;
    process->oom_before = process_oom_count(runner);
    process->started_ms = clock_ms();
    process->started_wall_ms = clock_wall_ms();
    pid_t pid = process_start_child(process, err);
    if (pid < 0)
        return pid;
    process->child = pid;
    if (process->background) {
        source_set(runner, &process->ready, EPOLLIN);
        return 0;
    }
    /* A short command ends before its pid or output could be used: only its end is watched until SOON_MS have passed.
     * Its output waits in its pipes. */
    process->soon.fire = process_timer_soon;
    timer_set(runner, &process->soon, clock_ms() + SOON_MS);
    return 0;
}

struct raise {
    const struct runner *runner;
    uint64_t sum, count; /* the processes at that time, roughly */
};

static void process_raise_score(pid_t pid, void *argument) {
    struct raise *raise = argument;
    char path[64];
    raise->sum += (uint64_t)pid;
    raise->count++;
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", pid);
    autofd fd = path_open(raise->runner->config->root_fd, path, O_WRONLY, 0);
    if (fd >= 0)
        (void)!write(fd, OOM_SCORE_OF_COMMANDS, strlen(OOM_SCORE_OF_COMMANDS));
}

/* It exec'ed or failed: the child's end of `ready` is closed, or it wrote, or it ended. */
void process_started(struct process *process) {
    struct runner *runner = process->runner;
    if (process->phase != PHASE_STARTING)
        return;
    process->phase = PHASE_RUNNING;
    arena_done(&process->start);
    process->pid = process->leaf ? process->child : process->slot->pid;
    if (process->leaf && runner->processes->oom_score_fd >= 0 && !process->reaped) {
        /* Repeats until no new one is seen: a process forked by a parent that was not raised yet would keep the
         * runner's oom score. */
        struct raise before = {0}, now;
        for (int pass = 0; pass < RAISE_PASSES; pass++, before = now) {
            now = (struct raise){.runner = process->runner};
            leaf_each(process->leaf, process_raise_score, &now);
            if (now.count <= 1 && pass > 0)
                break;
            if (now.sum == before.sum && now.count == before.count)
                break;
        }
    }
    timer_set(runner, &process->soon, 0);
    source_close(runner, &process->ready);
    for (int i = 0; i < 2; i++) /* not before: STAT goes first */
        if (process->streams[i].source.fd >= 0 && !process->reaped)
            source_set(runner, &process->streams[i].source, EPOLLIN);
    if (process->hooks && !process->slot->stage)
        process->hooks->started(process);
    if (process->slot->stage || !process->call)
        return; /* answered at its end */
    autobuf fields = buf_max(64);
    field_number(&fields, FIELD_PID, (uint64_t)process->pid);
    if (process->group)
        field_number(&fields, FIELD_INODE, process->group);
    struct rcall *call = process->call;
    if (process->attend) {
        process_detach(process);
        reply_stat(call, &fields, -1);
        reply_now(call); /* its client gets the pid before any output */
        process->attend(process, call);
    } else if (process->background) {
        process_detach(process);
        field_number(&fields, FIELD_STARTED_MS, process->started_wall_ms);
        reply_end(call, &fields);
    } else {
        reply_stat(call, &fields, -1);
    }
}

/* ---- timeout, kill ---- */

static struct process *timer_process(struct timer *timer) {
    return container_of(timer, struct process, timer);
}

static void process_timer_grace(struct timer *timer) {
    process_kill(timer_process(timer));
}

static void process_timer_timeout(struct timer *timer) {
    struct process *process = timer_process(timer);
    process->timed_out = true;
    if (process->leaf)
        leaf_signal(process->leaf, SIGTERM);
    else
        kill(process->child, KEEPER_TERM);
    timer->fire = process_timer_grace;
    timer_set(process->runner, timer, clock_ms() + KILL_GRACE_MS);
}

void process_timeout_ms(struct process *process, uint64_t timeout_ms) {
    if (timeout_ms == 0 || process->phase > PHASE_RUNNING)
        return;
    process->timer.fire = process_timer_timeout;
    timer_set(process->runner, &process->timer, timer_after(timeout_ms));
}

/* Killed but still there: it hangs in the kernel. The answer does not wait for it. */
static void process_timer_stuck(struct timer *timer) {
    struct process *process = timer_process(timer);
    process->stuck = true;
    if (process->phase == PHASE_ENDING) {
        process_tree_gone(process, false);
        return;
    }
    process->status = SIGKILL;
    process->discard = true;
    process->duration_ms = clock_ms() - process->started_ms;
    struct rcall *call = process->call;
    if (!call)
        return;
    process_detach(process);
    autobuf fields = buf_max(512);
    process_put_result(process, &fields);
    reply_end(call, &fields);
}

void process_kill(struct process *process) {
    if (process->lives)
        leaf_kill(process->leaf);
    if (process->phase > PHASE_ENDING || process->killed)
        return;
    process->killed = true;
    if (process->leaf)
        leaf_kill(process->leaf);
    else if (process->child)
        kill(process->child, KEEPER_KILL);
    process->timer.fire = process_timer_stuck;
    timer_set(process->runner, &process->timer, clock_ms() + STUCK_MS);
}

void process_signal(struct process *process, int number) {
    if (number == SIGKILL)
        process_kill(process);
    else if (process->leaf)
        leaf_signal(process->leaf, number);
    else if (process->child)
        tree_signal(process->child, number);
}

void process_detach(struct process *process) {
    if (process->call)
        process->call->state = NULL;
    process->own.call = NULL;
    process->call = NULL;
}

/* Its output is in its rings, where a reader continues. */
static void process_timer_wait(struct timer *timer) {
    struct process *process = container_of(timer, struct process, wait);
    struct rcall *call = process->call;
    if (process->phase == PHASE_STARTING) {
        timer_set(process->runner, timer, clock_ms() + SOON_MS);
        return;
    }
    if (!call || process->discard || process->phase > PHASE_ENDING)
        return; /* it is ending */
    process->background = true;
    process_detach(process);
    autobuf fields = buf_max(128);
    field_number(&fields, FIELD_STATE, PROCESS_RUNNING);
    field_number(&fields, FIELD_BYTES_OUT, process->streams[0].total);
    field_number(&fields, FIELD_BYTES_ERR, process->streams[1].total);
    field_number(&fields, FIELD_DURATION_MS, clock_ms() - process->started_ms);
    reply_end(call, &fields);
    for (int i = 0; i < 2; i++) /* one may have been waiting for credit */
        stream_pump(&process->streams[i]);
}

void process_wait_ms(struct process *process, uint64_t wait_ms) {
    if (!wait_ms)
        return;
    process->wait.fire = process_timer_wait;
    timer_set(process->runner, &process->wait, timer_after(wait_ms));
}

/* ---- the end ---- */

static void process_leaf_changed(struct source *source, uint32_t) {
    struct leaf *leaf = (struct leaf *)source;
    if (!leaf_populated(leaf))
        process_tree_gone(leaf->process, true);
}

static void process_main_ended(struct process *process, int status) {
    process->status = status;
    process->duration_ms = clock_ms() - process->started_ms;
    process->phase = PHASE_ENDING;
    timer_set(process->runner, &process->timer, 0);
    watchers_notify(process); /* some only wait for this */
    struct leaf *leaf = process->leaf;
    if (!leaf || !leaf_populated(leaf)) {
        process_tree_gone(process, true);
        return;
    }
    bool alone = !process->killed && !process->timed_out;
    if (alone && process->leave) {
        process->lives = true;
        process_tree_gone(process, false);
        return;
    }
    process->left = alone;
    leaf_kill(leaf);
    leaf->process = process;
    leaf->events.ready = process_leaf_changed;
    source_set(process->runner, &leaf->events, EPOLLPRI);
    process->timer.fire = process_timer_stuck;
    timer_set(process->runner, &process->timer, clock_ms() + STUCK_MS);
}

bool process_reap(struct runner *runner, pid_t pid, int status) {
    struct process *process = list_find(runner->processes->first, item, item->child == pid);
    if (!process)
        return false;
    process->reaped = true;
    process_started(process); /* before child is reset: it may be the pid */
    process->child = 0;
    if (!process->leaf && process->slot->done) {
        status = process->slot->status;
        process->left = process->slot->left && !process->killed && !process->timed_out;
    } else if (!process->leaf && !process->slot->stage) {
        status = SIGKILL; /* the keeper itself was killed; we have adopted its children */
        keeper_sweep(runner);
    }
    process_main_ended(process, status);
    return true;
}

/* The processes that a command had left have ended too: now it counts as ended. */
static void process_leaf_left(struct source *source, uint32_t) {
    struct leaf *leaf = (struct leaf *)source;
    struct process *process = leaf->process;
    if (leaf_populated(leaf))
        return;
    process->lives = false;
    process->leaf = NULL;
    leaf_give(process->runner->processes->leaves, leaf, true);
    process_ended_drop_oldest(process->runner, LIMIT_PROCESSES_ENDED);
}

/* cgroup.events is up to 10 ms late; the orphans themselves are reaped at once. */
void process_orphan(struct runner *runner) {
    if (!runner->processes->leaves_work)
        keeper_sweep(runner);
    for (struct process *p = runner->processes->first, *next; p; p = next) {
        next = p->next;
        if (p->phase == PHASE_ENDING && p->leaf && !leaf_populated(p->leaf))
            process_tree_gone(p, true);
    }
}

static void process_tree_gone(struct process *process, bool empty) {
    struct runner *runner = process->runner;
    timer_set(runner, &process->timer, 0);
    process->phase = PHASE_DRAINING;
    process->oom = process_oom_count(runner) != process->oom_before;
    if (process->lives) {
        process->leaf->process = process;
        process->leaf->events.ready = process_leaf_left;
        source_set(runner, &process->leaf->events, EPOLLPRI);
    } else {
        if (process->leaf)
            leaf_give(runner->processes->leaves, process->leaf, empty);
        process->leaf = NULL;
    }
    if (process->background || process->keep)
        process_stdio_free(process);
    for (int i = 0; i < 2; i++)
        stream_pump(&process->streams[i]);
    process_done(process);
}

void process_done(struct process *process) {
    if (process->phase != PHASE_DRAINING || !stdio_done(&process->streams[0]) || !stdio_done(&process->streams[1]))
        return;
    process->phase = PHASE_ENDED;
    process->background |= process->keep || process->lives;
    timer_set(process->runner, &process->wait, 0);
    input_close(process);
    struct rcall *call = process->call;
    process_detach(process);
    if (process->hooks)
        process->hooks->ended(process);
    struct err err;
    autobuf fields = buf_max(512);
    if (call && process->slot->stage) {
        spawn_error(&process->spawn, &err);
        reply_fail(call, &err);
    } else if (call) {
        process_put_result(process, &fields);
        reply_end(call, &fields);
    }
    if (!process->background || process->slot->stage) {
        process->tidy_next = process->runner->processes->tidy;
        process->runner->processes->tidy = process;
        return;
    }
    watchers_notify(process);
    process_ended_drop_oldest(process->runner, LIMIT_PROCESSES_ENDED);
}

void process_put_result(const struct process *process, struct buf *out) {
    if (WIFEXITED(process->status))
        field_number(out, FIELD_EXIT, (uint64_t)WEXITSTATUS(process->status));
    else
        field_number(out, FIELD_SIGNALLED, (uint64_t)WTERMSIG(process->status));
    if (process->timed_out)
        field_number(out, FIELD_TIMED_OUT, 1);
    if (process->oom)
        field_number(out, FIELD_OOM, 1);
    if (process->stuck)
        field_number(out, FIELD_STUCK, 1);
    if (process->left)
        field_number(out, FIELD_LEFT, 1);
    if (process->group)
        field_number(out, FIELD_INODE, process->group);
    field_number(out, FIELD_BYTES_OUT, process->streams[0].total);
    field_number(out, FIELD_BYTES_ERR, process->streams[1].total);
    field_number(out, FIELD_DURATION_MS, process->duration_ms);
}

/* Reads "oom_kill N", a line of memory.events (v2) and memory.oom_control (v1). */
uint64_t process_oom_count(const struct runner *runner) {
    char text[512];
    if (runner->config->oom_fd < 0)
        return 0;
    ssize_t n = pread(runner->config->oom_fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = 0;
    const char *at = strstr(text, "oom_kill ");
    return at ? strtoull(at + 9, NULL, 10) : 0;
}

void process_end_all(struct runner *runner) {
    for (struct process *p = runner->processes->first; p; p = p->next)
        process_kill(p);
    uint64_t until_ms = clock_ms() + STUCK_MS;
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0 && clock_ms() < until_ms) {
        struct timespec pause = {.tv_nsec = 1000000};
        if (pid == 0)
            nanosleep(&pause, NULL);
    }
}
