/* Ending the command of a session without its shell: everything the command started gets SIGTERM, then SIGKILL; the
 * shell is thrown back to its top level and reports. Called by op_session.c and session_shell.c. Invariant: background
 * processes of earlier commands stay (stop_remember); a shell that does not report is killed, so that a stop always
 * ends. */
#include "base/base.h"
#include "runner/exec/session.h"

enum {
    POLL_MS = 5,
    PATIENCE_MS = 2000,   /* for the shell, when it has nothing left to wait for */
    ANCESTORS_MAX = 1000, /* a longer chain changed while it was read */
    THROW_SIGNAL = 64,    /* session_shell.c */
};

/* ---- processes of a command ---- */

struct relative {
    pid_t parent, session;
    uint64_t started; /* in the kernel's ticks: distinguishes two processes with one pid */
};

/* Reads the beginning of /proc/PID/NAME. Returns false if it has ended. */
static bool stop_proc_read(const struct session *session, pid_t pid, const char *name, char *text, size_t size) {
    const char *path = text_make(64, "/proc/%d/%s", pid, name);
    autofd fd = path_open(session->runner->config->root_fd, path, O_RDONLY, 0);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

static bool stop_relative_read(const struct session *session, pid_t pid, struct relative *ret) {
    char text[1024];
    if (!stop_proc_read(session, pid, "stat", text, sizeof text))
        return false;
    const char *end = strrchr(text, ')'); /* the name before it may contain anything */
    unsigned long long started = 0;
    int parent = 0, group = 0;
    if (!end || sscanf(end + 1, " %*c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                       &parent, &group, &started) != 3)
        return false;
    *ret = (struct relative){.parent = parent, .session = group, .started = started};
    return true;
}

struct members {
    pid_t *pids;
    size_t count, cap;
};

static void stop_members_add(pid_t pid, void *argument) {
    struct members *members = argument;
    vec_add(members->pids, members->count, members->cap) = pid;
}

static void stop_members_read(const struct session *session, struct members *members) {
    const struct process *process = session->process;
    if (process->leaf)
        leaf_each(process->leaf, stop_members_add, members);
    else if (process->child)
        tree_each(process->child, stop_members_add, members);
}

static bool stop_among(const struct kept *list, size_t count, pid_t pid, uint64_t started) {
    for (size_t i = 0; i < count; i++)
        if (list[i].pid == pid && list[i].started == started)
            return true;
    return false;
}

/* Returns whether it, or an ancestor, existed before the command. */
static bool stop_belongs_before(const struct session *session, pid_t pid) {
    struct relative relative;
    for (int i = 0; session->kept_count && i < ANCESTORS_MAX && pid > 1; i++, pid = relative.parent) {
        if (pid == session->process->pid || !stop_relative_read(session, pid, &relative))
            return false;
        if (stop_among(session->kept, session->kept_count, pid, relative.started))
            return true;
    }
    return false;
}

static bool stop_ignores(const struct session *session, pid_t pid, int number) {
    char text[4096];
    if (!stop_proc_read(session, pid, "status", text, sizeof text))
        return false;
    const char *line = strstr(text, "\nSigIgn:");
    return line && strtoull(line + 8, NULL, 16) & 1ull << (number - 1);
}

/* Sends SIGTERM once to each, as soon as it can react: a process that was just forked cannot yet. */
static void stop_member_term(struct session *session, pid_t pid) {
    struct relative relative;
    if (!stop_relative_read(session, pid, &relative) ||
        stop_among(session->termed, session->termed_count, pid, relative.started))
        return;
    bool deaf = stop_ignores(session, pid, SIGTERM); /* or a fork of the shell that has not exec'ed yet */
    kill(pid, SIGTERM);
    if (deaf)
        return;
    vec_add(session->termed, session->termed_count, session->termed_cap) =
        (struct kept){.pid = pid, .started = relative.started};
}

/* Signals the command's processes (0: only counts them). */
static size_t stop_members_signal(struct session *session, int number) {
    struct members members = {0};
    size_t count = 0;
    stop_members_read(session, &members);
    for (size_t i = 0; i < members.count; i++) {
        pid_t pid = members.pids[i];
        if (pid == session->process->pid || stop_belongs_before(session, pid))
            continue;
        count++;
        if (number == SIGTERM)
            stop_member_term(session, pid);
        else if (number)
            kill(pid, number);
    }
    free(members.pids);
    return count;
}

void stop_remember(struct session *session) {
    struct members members = {0};
    struct relative relative;
    session->kept_stale = false;
    session->kept_count = 0;
    stop_members_read(session, &members);
    free(session->kept);
    session->kept = members.count > 1 ? calloc(members.count, sizeof *session->kept) : NULL;
    for (size_t i = 0; session->kept && i < members.count; i++)
        if (members.pids[i] != session->process->pid && stop_relative_read(session, members.pids[i], &relative))
            session->kept[session->kept_count++] = (struct kept){.pid = members.pids[i], .started = relative.started};
    free(members.pids);
}

/* ---- stopping ---- */

/* While frozen, nothing forks away while the list is read. */
static void stop_leaf_freeze(const struct session *session, const char *how) {
    if (!session->process->leaf)
        return;
    autofd fd = openat(session->process->leaf->dir_fd, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, how, 1);
}

void stop_begin(struct session *session, enum session_state why) {
    if (session->stopping || session->phase < SHELL_MOVING || session->phase > SHELL_SETTLING)
        return;
    session->stopping = why;
    session->killing = false;
    session->alone_ms = 0;
    session->termed_count = 0;
    session->stop_ms = clock_ms();
    if (!shell_forget(session))
        kill(session->process->pid,
             THROW_SIGNAL); /* before its child dies, or it would continue with the next command */
    stop_members_signal(session, SIGTERM);
    timer_set(session->runner, &session->poll, clock_ms() + POLL_MS);
}

bool stop_over(struct session *session) {
    return !session->stopping || stop_members_signal(session, 0) == 0;
}

void stop_poll(struct session *session) {
    uint64_t now_ms = clock_ms();
    size_t left = stop_members_signal(session, session->killing ? SIGKILL : SIGTERM);
    timer_set(session->runner, &session->poll, now_ms + POLL_MS);
    if (left == 0) {
        /* The shell has nothing left to wait for, and is asked again and again; then it is killed too. */
        if (session->killing)
            stop_leaf_freeze(session, "0");
        if (session->alone_ms == 0)
            session->alone_ms = now_ms;
        if (session->phase == SHELL_SETTLING) {
            shell_settle(session);
        } else if (now_ms >= session->alone_ms + PATIENCE_MS) {
            process_kill(session->process);
        } else if (!shell_forget(session)) {
            kill(session->process->pid, SIGINT); /* for a process that neither reads nor waits */
            shell_ask(session);
        }
        return;
    }
    session->alone_ms = 0; /* it may have forked once more */
    if (now_ms >= session->stop_ms + KILL_GRACE_MS + PATIENCE_MS) {
        process_kill(session->process); /* they fork faster than they can be identified */
    } else if (!session->killing && now_ms >= session->stop_ms + KILL_GRACE_MS) {
        session->killing = true;
        stop_leaf_freeze(session, "1");
        stop_members_signal(session, SIGKILL);
    }
}

/* ---- ending only the shell ---- */

/* As when a terminal hangs up: processes that earlier commands detached (setsid, nohup) stay. */
static bool stop_outlives(const struct session *session, pid_t pid) {
    struct relative relative;
    return stop_belongs_before(session, pid) && stop_relative_read(session, pid, &relative) &&
           (relative.session != session->process->pid || stop_ignores(session, pid, SIGHUP));
}

void stop_hang_up(struct session *session) {
    struct members members = {0};
    if (!session->process->leaf || session->phase == SHELL_STARTING) {
        process_kill(session->process);
        return;
    }
    if (session->phase == SHELL_IDLE)
        stop_remember(session); /* nothing runs: all processes were left by earlier commands */
    stop_leaf_freeze(session, "1");
    stop_members_read(session, &members);
    for (size_t i = 0; i < members.count; i++)
        if (members.pids[i] == session->process->pid || !stop_outlives(session, members.pids[i]))
            kill(members.pids[i], SIGKILL);
    stop_leaf_freeze(session, "0");
    free(members.pids);
}
