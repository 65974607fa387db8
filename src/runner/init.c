/* The loop: sources, timers, children. Called by main (local, container) and enter (jail), once, as PID 1 of a jail.
 * Invariant: signals are blocked before anything else, and after start only the orderly end exits. */
#include <assert.h>
#include <sys/resource.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/base.h"
#include "base/log.h"
#include "runner/exec/process.h"
#include "runner/runner.h"
#include "runner/exec/session.h"

enum { EVENTS_AT_ONCE = 64, SIGNALS_MAX = 64 };

static void init_children_ready(struct source *source, uint32_t) {
    struct runner *runner = container_of(source, struct runner, children);
    struct signalfd_siginfo info[4];
    ssize_t n = read(source->fd, info, sizeof info);
    for (ssize_t i = 0; i < n / (ssize_t)sizeof *info; i++)
        /* In a container any process could send it; a sender outside of it has no pid here. */
        runner->ending |= info[i].ssi_signo == SIGTERM && (!runner->config->container || info[i].ssi_pid == 0);
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (!process_reap(runner, pid, status) && !worker_reap(runner, pid, status))
            process_orphan(runner);
}

static int init_turn_timeout_ms(struct runner *runner, uint64_t now_ms) {
    uint64_t at_ms = serve_flush_at_ms(runner);
    if (runner->timers && (at_ms == 0 || runner->timers->at_ms < at_ms))
        at_ms = runner->timers->at_ms;
    if (at_ms == 0)
        return -1;
    if (at_ms <= now_ms)
        return 0;
    return at_ms - now_ms > 3600000 ? 3600000 : (int)(at_ms - now_ms);
}

_Noreturn void init_main(struct runner_config *config) {
    /* Attributes that commands inherit are set once, not in every child: dispositions, umask, no core files. */
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int number = 1; number <= SIGNALS_MAX; number++)
        signal(number, SIG_DFL);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    umask(022);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (!config->jail)
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    int fd; /* dup2 in a child must not overwrite a descriptor of ours below 3 */
    do
        fd = path_open(config->root_fd, "/dev/null", O_RDWR, 0);
    while (fd >= 0 && fd < 3);
    if (fd >= 0)
        close(fd);
    struct runner runner = {.config = config, .children = {.fd = -1}, .listener = {.fd = -1}};
    runner.changes = clock_wall_ms() << 20; /* larger than any number of an earlier runner of this box */
    runner.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    xensure(runner.epoll_fd >= 0);
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    if (!runner.config->jail) /* in a jail any process could send it */
        sigaddset(&wanted, SIGTERM);
    runner.children.fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    xensure(runner.children.fd >= 0);
    runner.children.ready = init_children_ready;
    source_set(&runner, &runner.children, EPOLLIN);
    process_table_open(&runner);
    session_table_open(&runner);
    worker_table_open(&runner);
    serve_open(&runner);
    serve_flush(&runner); /* HELLO: whoever started the container waits for it before sending its own */
    while (!runner.ending) {
        struct epoll_event events[EVENTS_AT_ONCE];
        int n = epoll_wait(runner.epoll_fd, events, EVENTS_AT_ONCE, init_turn_timeout_ms(&runner, clock_ms()));
        for (int i = 0; i < n; i++) {
            struct source *source = events[i].data.ptr;
            if (source->events) /* an earlier event of this turn may have ended it */
                source->ready(source, events[i].events);
        }
        uint64_t now_ms = runner.timers ? clock_ms() : 0;
        while (runner.timers && runner.timers->at_ms <= now_ms) {
            struct timer *timer = runner.timers;
            timer_set(&runner, timer, 0);
            timer->fire(timer);
        }
        serve_flush(&runner);
        process_tidy(&runner);
        for (size_t i = 0; i < runner.grave_count; i++)
            free(runner.graves[i]);
        runner.grave_count = 0;
    }
    if (!config->jail) /* in a jail our death ends every process */
        process_end_all(&runner);
    _exit(0);
}

void runner_close_others(int *keep, size_t count) {
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && keep[j] < keep[j - 1]; j--) {
            int swap = keep[j];
            keep[j] = keep[j - 1];
            keep[j - 1] = swap;
        }
    unsigned next = 3;
    for (size_t i = 0; i < count; i++) {
        if (keep[i] < (int)next)
            continue;
        if ((unsigned)keep[i] > next)
            syscall(SYS_close_range, next, (unsigned)keep[i] - 1, 0);
        next = (unsigned)keep[i] + 1;
    }
    syscall(SYS_close_range, next, ~0u, 0);
}

uint64_t init_open_files(uint64_t wanted) {
    struct rlimit own;
    return getrlimit(RLIMIT_NOFILE, &own) == 0 && own.rlim_max < wanted ? own.rlim_max : wanted;
}

void source_set(struct runner *runner, struct source *source, uint32_t events) {
    if (source->events == events)
        return;
    struct epoll_event event = {.events = events, .data.ptr = source};
    int how = events == 0 ? EPOLL_CTL_DEL : source->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    int r = epoll_ctl(runner->epoll_fd, how, source->fd, &event);
    if (r < 0 && how != EPOLL_CTL_DEL) {
        log_error("cannot watch descriptor %d (errno %d)", source->fd, errno);
        return;
    }
    source->events = events;
}

void source_close(struct runner *runner, struct source *source) {
    if (source->fd >= 0)
        source_set(runner, source, 0);
    fd_close(&source->fd);
}

uint64_t timer_after(uint64_t wait_ms) {
    return clock_ms() + (wait_ms < LIMIT_EXEC_TIMEOUT_MS ? wait_ms : LIMIT_EXEC_TIMEOUT_MS);
}

void timer_set(struct runner *runner, struct timer *timer, uint64_t at_ms) {
    if (timer->at_ms) {
        bool armed = list_remove(runner->timers, timer);
        assert(armed);
    }
    timer->at_ms = at_ms;
    if (at_ms == 0)
        return;
    struct timer **link = &runner->timers;
    while (*link && (*link)->at_ms <= at_ms)
        link = &(*link)->next;
    timer->next = *link;
    *link = timer;
}

void later_free(struct runner *runner, void *memory) {
    vec_add(runner->graves, runner->grave_count, runner->grave_cap) = memory;
}
