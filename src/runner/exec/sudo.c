/* `sudo` in a box: commands of the agent that ask for root of the box. Called by op_exec (CALL_SUDO opens the socket)
 * and by the loop. The other end is sudo_main.c, a program of the box: hostile.
 *
 * Nothing here raises the rights of a process. The program sends its streams and its words; the runner starts a command
 * of root as it does for a client of the daemon (spawn.c, confine.c), and reports how it ended. Invariants:
 * 1. Received descriptors are only passed on to the command; they are never read, written or waited for here.
 * 2. A command ends with the program that asked for it, and counts as a command of the box. */
#include <sys/epoll.h>

#include "base/fd.h"
#include "base/mem.h"
#include "runner/exec/process.h"
#include "runner/sudo.h"

struct sudo {
    struct source source; /* the program that asked */
    struct runner *runner;
    struct process *process; /* NULL: not started yet, or ended */
};

struct sudo_table {
    struct source listener;
    struct runner *runner;
    unsigned count;
};

static void sudo_close(struct sudo *sudo) {
    struct runner *runner = sudo->runner;
    if (sudo->process) {
        sudo->process->hooks = NULL;
        process_kill(sudo->process);
    }
    runner->sudo->count--;
    source_set(runner, &sudo->source, 0);
    fd_close(&sudo->source.fd);
    later_free(runner, sudo);
}

/* Sends "s STATUS" as in wait(2), "n TEXT" for a missing program, or "e TEXT"; one message, the last. */
static void sudo_answer(struct sudo *sudo, const char *text) {
    (void)!send(sudo->source.fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
    sudo_close(sudo);
}

static void sudo_started(struct process *process) {
    process_stdio_free(process); /* it has its own now, so that its readers see its end */
}

static void sudo_refuse(struct sudo *sudo, const struct err *err) {
    char text[sizeof err->text + 8];
    snprintf(text, sizeof text, "%c %s", err->why == WHY_NO_COMMAND ? 'n' : 'e', err->text);
    sudo_answer(sudo, text);
}

static void sudo_ended(struct process *process) {
    struct sudo *sudo = process->owner;
    struct err err;
    process->hooks = NULL;
    sudo->process = NULL;
    if (process->slot->stage) {
        spawn_error(&process->spawn, &err);
        sudo_refuse(sudo, &err);
        return;
    }
    char text[16];
    snprintf(text, sizeof text, "s %d", process->status);
    sudo_answer(sudo, text);
}

/* Parses DIRECTORY, number of arguments, arguments, variables; each ends with a NUL. */
static int sudo_parse(const char *data, size_t len, struct fields *args, struct arena *arena, struct err *err) {
    const char *texts[SUDO_TEXTS];
    size_t count = 0, argc;
    bool ends = len && !data[len - 1];
    for (size_t at = 0; ends && at < len && count < SUDO_TEXTS; at += strlen(data + at) + 1)
        texts[count++] = arena_strdup(arena, data + at);
    argc = count > 1 ? strtoul(texts[1], NULL, 10) : 0;
    if (count == SUDO_TEXTS || argc < 1 || argc > count - 2)
        return err_set(err, ERR_INVALID, "not a request of sudo, or one with too many words");
    args->has[FIELD_CWD] = args->has[FIELD_USER] = true;
    args->text[FIELD_CWD] = texts[0];
    args->text[FIELD_USER] = "root";
    args->argc = argc;
    args->argv = arena_alloc(arena, (argc + 1) * sizeof *args->argv);
    memcpy(args->argv, texts + 2, argc * sizeof *args->argv);
    args->env_count = count - 2 - argc;
    args->env = arena_alloc(arena, (args->env_count + 1) * sizeof *args->env);
    memcpy(args->env, texts + 2 + argc, args->env_count * sizeof *args->env);
    return 0;
}

static int sudo_launch(struct sudo *sudo, const struct fields *args, int streams[3], struct err *err) {
    static const struct process_hooks hooks = {.started = sudo_started, .ended = sudo_ended};
    struct process *process;
    TRY(process_new(sudo->runner, &process, err));
    int r = spawn_prepare(&process->spawn, sudo->runner->config, args, &process->start, err);
    if (r == 0) {
        process->program = xstrdup(process->spawn.program);
        process->cwd = xstrdup(process->spawn.cwd);
        process->command = process_command_text(args->argv[0], strlen(args->argv[0]));
        process->spawn.program = process->program;
        process->spawn.cwd = process->cwd;
        process->leave = true;
        for (int i = 0; i < 3; i++)
            process->spawn.stdio[i] = fd_take(&streams[i]);
        process->hooks = &hooks;
        process->owner = sudo;
        r = process_launch(process, err);
    }
    if (r < 0)
        process_drop(process);
    else
        sudo->process = process;
    return r;
}

static int sudo_start(struct sudo *sudo, const char *data, size_t len, int streams[3], struct err *err) {
    struct fields args = {0};
    struct arena arena;
    arena_init(&arena);
    int r = sudo_parse(data, len, &args, &arena, err) ?: sudo_launch(sudo, &args, streams, err);
    arena_done(&arena);
    return r;
}

/* Reads one request with three descriptors; then single bytes, each the number of a signal for the command. */
static void sudo_ready(struct source *source, uint32_t events) {
    struct sudo *sudo = container_of(source, struct sudo, source);
    static char data[SUDO_BYTES]; /* of the loop, one at a time */
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(3 * sizeof(int))];
    } control;
    struct iovec part = {data, sizeof data};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(source->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int streams[3] = {-1, -1, -1};
    struct err err;
    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    const struct cmsghdr *head = n < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_type == SCM_RIGHTS) /* the kernel closes those that did not fit */
        memcpy(streams, CMSG_DATA(head),
               head->cmsg_len - CMSG_LEN(0) < sizeof streams ? head->cmsg_len - CMSG_LEN(0) : sizeof streams);
    bool whole = streams[2] >= 0 && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    if (n <= 0) {
        sudo_close(sudo);
    } else if (sudo->process) {
        static const unsigned char passed[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
        if (n == 1 && memchr(passed, (unsigned char)data[0], sizeof passed))
            process_signal(sudo->process, data[0]);
    } else if (!whole) {
        sudo_answer(sudo, "e the request has too many words, or not three streams");
    } else if (sudo_start(sudo, data, (size_t)n, streams, &err) < 0) {
        sudo_refuse(sudo, &err);
    }
    for (int i = 0; i < 3; i++)
        fd_close(&streams[i]);
}

static void sudo_accept(struct source *source, uint32_t events) {
    struct sudo_table *table = container_of(source, struct sudo_table, listener);
    (void)events;
    autofd fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || table->count >= SUDO_MOST)
        return;
    struct sudo *sudo = xcalloc(1, sizeof *sudo);
    sudo->runner = table->runner;
    sudo->source = (struct source){.fd = fd_take(&fd), .ready = sudo_ready};
    table->count++;
    source_set(table->runner, &sudo->source, EPOLLIN);
}

void sudo_open(struct runner *runner) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (runner->sudo || !runner->config->jail || !runner->config->can_root)
        return;
    autofd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sudo_address(&address)) < 0 || listen(fd, 64) < 0)
        return; /* a process of this box has taken the name, and so disabled sudo for this box */
    runner->sudo = xcalloc(1, sizeof *runner->sudo);
    *runner->sudo = (struct sudo_table){.listener = {.fd = fd_take(&fd), .ready = sudo_accept}, .runner = runner};
    source_set(runner, &runner->sudo->listener, EPOLLIN);
}
