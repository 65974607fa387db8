/* The shell of a session. Called by op_session.c and, by events, by the loop.
 *
 * The shell is interactive, but neither reads its commands from its terminal nor prints to it. It reads lines from a
 * pipe: one that runs the text of the command (a memory file) with the terminal as its standard streams, and one that
 * reports its status. If anything throws the shell back to its top level (an interrupt, an unset variable), it reads
 * the next line, which is the report. The output of a command is never parsed: there is no prompt to find or to forge.
 * Invariants:
 * 1. A report counts only with the mark of the running command: random, and in lines that its children never see.
 * 2. The end of the output is known because the terminal is read until it is empty after the report: earlier output is
 *    there by then (the kernel delivers it before it reports an empty terminal).
 * 3. A command's changes to its terminal are undone before the next.
 * 4. No signal is sent to a shell before it has reported that it is ready: without its traps it would die. */
#include <sys/epoll.h>
#include <sys/mman.h>
#include <termios.h>

#include "base/base.h"
#include "base/conceal.h"
#include "runner/exec/session.h"

/* ---- the report of a command's end ----
 *
 * It is found among whatever else is written to the pipe, since every process of the command has that pipe. Invariant:
 * however much is written, the buffer has space for the next read. A report with the right mark counts, however long
 * its directory is. */

enum { STATUS_BYTES = 16 };

/* Parses "MARK\0STATUS\0DIRECTORY\0" at text. Returns 1, 0 if the rest is missing, -1 if it is not a report. */
static int shell_report_parse(const char *text, size_t len, unsigned *ret_status, char ret_cwd[LIMIT_PATH_BYTES + 1]) {
    if (len <= SESSION_MARK_BYTES)
        return 0;
    if (text[SESSION_MARK_BYTES])
        return -1;
    const char *status = text + SESSION_MARK_BYTES + 1, *end = text + len;
    const char *cwd = memchr(status, 0, (size_t)(end - status));
    if ((cwd ? cwd : end) - status > STATUS_BYTES)
        return -1;
    if (!cwd)
        return 0;
    cwd++;
    bool whole = memchr(cwd, 0, (size_t)(end - cwd));
    if (!whole && end - cwd <= LIMIT_PATH_BYTES)
        return 0;
    *ret_status = (unsigned)strtoul(status, NULL, 10);
    /* PWD is an ordinary variable: a value that is not a directory's path is ignored. */
    bool fits = whole && strlen(cwd) <= LIMIT_PATH_BYTES;
    memcpy(ret_cwd, fits ? cwd : "", fits ? strlen(cwd) + 1 : 1);
    return 1;
}

bool report_find(struct buf *reports, const char mark[SESSION_MARK_BYTES], unsigned *ret_status,
                 char ret_cwd[LIMIT_PATH_BYTES + 1]) {
    for (;;) {
        const uint8_t *at = reports->len ? memmem(reports->data, reports->len, mark, SESSION_MARK_BYTES) : NULL;
        size_t before = at ? (size_t)(at - reports->data)
                        : reports->len >= SESSION_MARK_BYTES
                            ? reports->len - SESSION_MARK_BYTES + 1 /* a part of it may be here */
                            : 0;
        buf_consume(reports, before);
        int r = at ? shell_report_parse((const char *)reports->data, reports->len, ret_status, ret_cwd) : 0;
        if (r >= 0)
            return r;
        buf_consume(reports, 1);
    }
}

enum {
    FDS_BASH = 231,           /* rarely used by scripts, and below bash's own */
    FDS_OTHER = 7,            /* other shells only know one digit */
    START_MS = 30000,         /* for a shell to become ready; other programs never do */
    SOON_MS = 2,              /* most commands end by then: only their report is awaited */
    ASK_MS = 10,              /* other shells forget read lines when thrown back */
    SETTLE_BYTES = 128 << 10, /* more than a terminal holds: the rest is later output */
    LINE_BYTES = 4 * LIMIT_PATH_BYTES + 512,
};

static void shell_started(struct process *process);
static void shell_report_ready(struct source *source, uint32_t events);

static void shell_ended(struct process *process) {
    struct session *session = process->owner;
    struct err err;
    bool starting = session->phase == SHELL_STARTING;
    process->owner = NULL;
    process->hooks = NULL;
    session->phase = SHELL_ENDED;
    if (starting) {
        if (process->slot->stage)
            spawn_error(&process->spawn, &err);
        else
            err_set(&err, ERR_UNSUPPORTED,
                    "'%.200s' cannot be the shell of a session: it exited, or was not ready within %u s",
                    process->program, START_MS / 1000);
        session_started(session, &err);
        session_drop(session);
        return;
    }
    struct outcome *outcome = &session->outcome;
    if (outcome->started_ms) { /* a command was running */
        int status = process->status;
        outcome->exited = true;
        outcome->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        outcome->state = session->stopping ? session->stopping : SESSION_COMPLETED;
        outcome->to = process->streams[0].total;
        outcome->oom = process->oom;
        outcome->duration_ms = clock_ms() - outcome->started_ms;
    }
    outcome->gone = true;
    session_over(session);
    session_gone(session);
    session_drop(session);
}

static const struct process_hooks hooks = {.started = shell_started, .ended = shell_ended};

static int shell_fds_at(const struct session *session) {
    return session->bash ? FDS_BASH : FDS_OTHER;
}

/* ---- start ---- */

static const char *find_shell(const struct session *session, const struct fields *args) {
    static const char *const bashes[] = {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"};
    const struct runner_config *config = session->runner->config;
    if (args->has[FIELD_SHELL])
        return args->text[FIELD_SHELL];
    for (size_t i = 0; i < sizeof bashes / sizeof *bashes; i++) {
        autofd fd = path_open(config->root_fd, bashes[i], O_PATH, 0);
        if (fd >= 0)
            return bashes[i];
    }
    return config->shell;
}

static int shell_prepare(struct session *session, const struct fields *call_args, struct err *err) {
    struct process *process = session->process;
    const char *path = find_shell(session, call_args), *name = strrchr(path, '/');
    if (path[0] != '/')
        return err_set(err, ERR_INVALID, "shell '%s' is not an absolute path", path);
    session->bash = strcmp(name + 1, "bash") == 0;
    const char *bash[] = {name + 1, "--noprofile", "--norc", "--noediting", "+H", "-i", NULL};
    const char *other[] = {name + 1, "+m", "-i", NULL};
    struct fields args = *call_args;
    args.has[FIELD_COMMAND] = false;
    args.argv = session->bash ? bash : other;
    args.argc = session->bash ? 6 : 3;
    /* So that no pager waits for a key, and there are no colors. */
    static const char *const defaults[] = {"TERM=dumb", "PAGER=cat", "GIT_PAGER=cat"};
    static const char *const fixed[] = {"PS1=", "PS2=", "HISTFILE="};
    size_t count = 0;
    const char **env = arena_alloc(&process->start, (args.env_count + 7) * sizeof *env);
    for (size_t i = 0; i < 3; i++)
        if (!spawn_env_has(session->runner->config->env, defaults[i]))
            env[count++] = defaults[i];
    for (size_t i = 0; i < args.env_count; i++)
        env[count++] = args.env[i];
    for (size_t i = 0; i < 3; i++)
        env[count++] = fixed[i];
    args.env = env;
    args.env_count = count;
    TRY(spawn_prepare(&process->spawn, session->runner->config, &args, &process->start, err));
    process->program = xstrdup(path);
    process->cwd = xstrdup(process->spawn.cwd);
    process->spawn.shell = true;
    process->spawn.program = process->program;
    process->spawn.cwd = process->cwd;
    return 0;
}

static void shell_terminal_calm(int fd) {
    struct termios modes;
    if (tcgetattr(fd, &modes) < 0)
        return;
    struct termios wanted = modes;
    wanted.c_iflag = ICRNL | IUTF8;
    wanted.c_oflag &= (tcflag_t)~OPOST;
    wanted.c_lflag = ISIG | ICANON | IEXTEN;
    wanted.c_cc[VINTR] = 3;
    wanted.c_cc[VEOF] = 4;
    if (memcmp(&modes, &wanted, sizeof modes) != 0)
        tcsetattr(fd, TCSANOW, &wanted);
}

/* The command gets the terminal; what the shell itself prints, including prompts, is dropped. */
static int shell_streams(struct session *session, const struct fields *args, struct err *err) {
    struct process *process = session->process;
    struct spawn *spawn = &process->spawn;
    process->pty = process->background = process->leave = true;
    for (int i = 0; i < 2; i++)
        process->streams[i].conceal = conceal_new(args->secrets);
    TRY(process_stdio(process, false, args, err));
    int terminal = spawn->stdio[0], null = process_null(session->runner), commands[2] = {-1, -1}, report[2] = {-1, -1};
    shell_terminal_calm(terminal);
    fd_close(&spawn->stdio[1]);
    fd_close(&spawn->stdio[2]);
    spawn->stdio[0] = spawn->stdio[1] = spawn->stdio[2] = null;
    session->text_fd = memfd_create("command", MFD_CLOEXEC);
    bool good = null >= 0 && session->text_fd >= 0 && pipe2(commands, O_CLOEXEC) == 0 && pipe2(report, O_CLOEXEC) == 0;
    int r = good ? 0 : err_errno(err, errno, "cannot make a session in the box");
    session->command_fd = commands[1];
    session->report = (struct source){.fd = report[0], .ready = shell_report_ready};
    fcntl(commands[1], F_SETFL, O_NONBLOCK);
    fcntl(report[0], F_SETFL, O_NONBLOCK);
    spawn->stdio[0] = commands[0];
    spawn->passed_at = shell_fds_at(session);
    spawn->passed[0] = terminal;
    spawn->passed[1] = session->text_fd;
    spawn->passed[2] = report[1];
    return r;
}

static void shell_streams_given(struct session *session) {
    struct spawn *spawn = &session->process->spawn;
    process_stdio_free(session->process);
    if (!spawn->passed_at)
        return;
    fd_close(&spawn->passed[0]);
    fd_close(&spawn->passed[2]);
}

static void shell_poll_fire(struct timer *timer) {
    struct session *session = container_of(timer, struct session, poll);
    if (session->phase == SHELL_ENDED)
        return;
    if (session->phase == SHELL_STARTING) {
        process_kill(session->process);
        return;
    }
    stream_resume(session->process);
    if (session->stopping)
        stop_poll(session);
    else if (session->phase == SHELL_IDLE && session->kept_stale)
        stop_remember(session);
    else if (session->phase == SHELL_RUNNING && !session->bash) {
        if (clock_ms() >= session->outcome.started_ms + ASK_MS)
            shell_ask(session);
        else
            timer_set(session->runner, timer, session->outcome.started_ms + ASK_MS);
    }
}

static void shell_hard_fire(struct timer *timer) {
    stop_begin(container_of(timer, struct session, hard), SESSION_HARD_TIMEOUT);
}

int shell_start(struct session *session, const struct fields *args, struct err *err) {
    TRY(process_new(session->runner, &session->process, err));
    struct process *process = session->process;
    process->command = xasprintf("session %s", session->name);
    buf_init(&session->reports, SESSION_REPORTS_BYTES);
    session->hard.fire = shell_hard_fire;
    session->poll.fire = shell_poll_fire;
    int r = shell_prepare(session, args, err) ?: shell_streams(session, args, err) ?: process_launch(process, err);
    shell_streams_given(session);
    if (r < 0) {
        process_drop(process);
        session->process = NULL;
        return r;
    }
    process->hooks = &hooks;
    process->owner = session;
    return 0;
}

/* The line is short, and the shell has read what came before: the pipe is never full. */
static void shell_send(struct session *session, const char *line) {
    size_t len = strlen(line);
    if (write(session->command_fd, line, len) != (ssize_t)len)
        process_kill(session->process); /* it has closed its input */
}

/* Installs a signal that throws the shell back even while it waits for a child that does not die of an interrupt:
 * session_stop.c. */
static void shell_started(struct process *process) {
    struct session *session = process->owner;
    source_set(session->runner, &session->report, EPOLLIN);
    timer_set(session->runner, &session->poll, clock_ms() + START_MS);
    if (session->bash)
        shell_send(session, "set +m +o history\n");
    shell_send(session, "trap '\\command trap - INT; \\command kill -INT $$' 64\n"); /* even if it is ignored */
    shell_send(session, text_make(64, "\\command printf r >&%d\n", shell_fds_at(session) + 2));
}

void shell_free(struct session *session) {
    struct runner *runner = session->runner;
    timer_set(runner, &session->hard, 0);
    timer_set(runner, &session->poll, 0);
    source_close(runner, &session->report);
    fd_close(&session->command_fd);
    fd_close(&session->text_fd);
    buf_done(&session->reports);
    free(session->command_text);
    free(session->kept);
    free(session->termed);
}

/* ---- lines ---- */

static void shell_mark(struct session *session) {
    uint8_t bytes[SESSION_MARK_BYTES / 2];
    xrandom(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(session->mark + 2 * i, 3, "%02x", bytes[i]);
    buf_clear(&session->reports);
}

static void shell_put_report(const struct session *session, struct buf *line) {
    buf_printf(line, "\\command printf '%%s\\0' %s \"$?\" \"${PWD-}\" >&%d\n", session->mark,
               shell_fds_at(session) + 2);
}

static void shell_send_line(struct session *session, struct buf *line) {
    const char *text = buf_cstr(line);
    if (text)
        shell_send(session, text);
}

void shell_ask(struct session *session) {
    int unread = 0;
    if (ioctl(session->command_fd, FIONREAD, &unread) < 0 || unread > 0)
        return;
    autobuf line = buf_max(LINE_BYTES);
    shell_put_report(session, &line);
    shell_send_line(session, &line);
}

/* ---- a command ---- */

static void shell_begin(struct session *session) {
    int at = shell_fds_at(session);
    session->phase = SHELL_RUNNING;
    shell_mark(session);
    const char *text = session->command_text;
    size_t len = strlen(text);
    bool good = ftruncate(session->text_fd, 0) == 0 && pwrite(session->text_fd, text, len, 0) == (ssize_t)len;
    free(session->command_text);
    session->command_text = NULL;
    if (!good) {
        process_kill(session->process);
        return;
    }
    autobuf line = buf_max(LINE_BYTES);
    buf_printf(&line, "\\. /proc/self/fd/%d <&%d >&%d 2>&%d\n", at + 1, at, at, at);
    size_t first = line.len;
    shell_put_report(session, &line);
    session->report_len = line.len - first;
    shell_send_line(session, &line);
    source_set(session->runner, &session->process->streams[0].source, 0);
    timer_set(session->runner, &session->poll, clock_ms() + SOON_MS);
    session_began(session);
}

void session_shell_run(struct session *session, char *text, const char *cwd, uint64_t hard_until_ms) {
    struct stream *stream = &session->process->streams[0];
    session->command_text = maps_command(session->runner->config, text);
    free(text);
    if (session->kept_stale)
        stop_remember(session);
    enum stream_step step = STREAM_TOOK;
    for (int i = 0; i < 4 && step == STREAM_TOOK; i++) /* drops output since the last command */
        step = stream_step(stream);
    session->outcome = (struct outcome){
        .state = SESSION_RUNNING, .from = stream->total, .to = stream->total, .started_ms = clock_ms()};
    session->settled = 0;
    if (hard_until_ms)
        timer_set(session->runner, &session->hard, hard_until_ms);
    if (!cwd) {
        shell_begin(session);
        return;
    }
    char joined[LIMIT_PATH_BYTES + 1];
    autobuf line = buf_max(LINE_BYTES);
    if (!path_join(joined, sizeof joined, session->runner->config->workspace, cwd))
        joined[0] = 0;
    char *real = maps_command(session->runner->config, joined);
    buf_puts(&line, "\\command cd -- '");
    for (const char *at = real; *at; at++)
        if (*at == '\'')
            buf_puts(&line, "'\\''");
        else
            buf_byte(&line, (uint8_t)*at);
    free(real);
    buf_puts(&line, "'\n");
    session->phase = SHELL_MOVING;
    shell_mark(session);
    shell_put_report(session, &line);
    shell_send_line(session, &line);
}

bool shell_forget(struct session *session) {
    int unread = 0;
    if (session->phase != SHELL_RUNNING || ioctl(session->command_fd, FIONREAD, &unread) < 0 ||
        (size_t)unread <= session->report_len)
        return false;
    (void)!ftruncate(session->text_fd, 0);
    return true;
}

/* ---- the end of a command ---- */

void shell_settle(struct session *session) {
    struct stream *stream = &session->process->streams[0];
    if (session->phase != SHELL_SETTLING)
        return;
    enum stream_step step = STREAM_TOOK;
    uint64_t before = stream->total - session->settled;
    while (session->phase == SHELL_SETTLING && step == STREAM_TOOK && session->settled < SETTLE_BYTES) {
        step = stream_step(stream);
        session->settled = stream->total - before;
    }
    if (session->phase != SHELL_SETTLING || step == STREAM_FULL || step == STREAM_OVER || !stop_over(session))
        return;
    struct outcome *outcome = &session->outcome;
    struct process *process = session->process;
    stream_settle(&process->streams[0]);
    outcome->to = process->streams[0].total;
    outcome->duration_ms = clock_ms() - outcome->started_ms;
    outcome->started_ms = 0;
    outcome->state = session->stopping ? session->stopping : SESSION_COMPLETED;
    if (outcome->exit_code == 128 + SIGKILL) {
        uint64_t now = process_oom_count(session->runner);
        outcome->oom = now != session->oom_before;
        session->oom_before = now;
    }
    session->stopping = 0;
    session->phase = SHELL_IDLE;
    session->kept_stale = true;
    shell_terminal_calm(process->streams[0].source.fd);
    source_set(session->runner, &process->streams[0].source, EPOLLIN);
    timer_set(session->runner, &session->hard, 0);
    timer_set(session->runner, &session->poll, clock_ms() + 1);
    session_over(session);
    session_idle(session);
}

static void shell_reported(struct session *session, unsigned status, const char *cwd) {
    struct err err;
    if (cwd[0] == '/' && strlen(cwd) <= LIMIT_PATH_BYTES)
        session_set_cwd(session, cwd);
    if (session->phase == SHELL_MOVING && status == 0 && !session->stopping) {
        shell_begin(session);
        return;
    }
    session->outcome.exited = true;
    session->outcome.exit_code = (int)(status & 255);
    bool moving = session->phase == SHELL_MOVING;
    session->phase = SHELL_SETTLING;
    if (moving && !session->stopping) {
        err_set(&err, ERR_NOT_FOUND, "session '%s' cannot change to the directory of the command", session->name);
        session->phase = SHELL_IDLE;
        session->outcome = (struct outcome){.state = SESSION_COMPLETED};
        timer_set(session->runner, &session->hard, 0);
        session_failed(session, &err);
        session_idle(session);
        return;
    }
    shell_settle(session);
}

static void shell_report_ready(struct source *source, uint32_t) {
    struct session *session = container_of(source, struct session, report);
    uint8_t *at = buf_reserve(&session->reports, SESSION_REPORTS_READ_BYTES);
    ssize_t n = at ? read(source->fd, at, SESSION_REPORTS_READ_BYTES) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) { /* closed by every writer: the shell is exiting, or can no longer report */
        source_set(session->runner, source, 0);
        if (session->phase < SHELL_SETTLING && session->phase > SHELL_IDLE)
            process_kill(session->process);
        return;
    }
    session->reports.len += (size_t)n;
    if (session->phase == SHELL_STARTING) {
        /* The first byte on the pipe of reports: nothing of a client has run yet. */
        session->phase = SHELL_IDLE;
        session->oom_before = process_oom_count(session->runner);
        timer_set(session->runner, &session->poll, 0);
        buf_clear(&session->reports);
        session_set_cwd(session, session->cwd);
        session_started(session, NULL);
        session_idle(session);
        return;
    }
    unsigned status;
    char cwd[LIMIT_PATH_BYTES + 1];
    bool wanted = session->phase == SHELL_RUNNING || session->phase == SHELL_MOVING;
    if (wanted && !report_find(&session->reports, session->mark, &status, cwd))
        return;
    buf_clear(&session->reports);
    if (wanted)
        shell_reported(session, status, cwd);
}
