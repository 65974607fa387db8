/* `cubby run`: one box, one command, gone, without a daemon unless it has a policy or secrets. Invariant: whatever way it ends, the box ends with it
 * (the wire closes, the backend's stop runs, the next run sweeps after a kill), and nothing here costs a millisecond.
 */
#include "http/client/client.h"

#include <sys/pidfd.h>
#include <sys/sysmacros.h>

#include "base/base.h"
#include "base/sync.h"
#include "box/policy.h"
#include "cli/cli.h"
#include "cli/standalone.h"
#include "cli/streams.h"
#include "cli/terminal.h"

struct run_values {
    struct box_options box;
    const char *user, *workdir;
    struct row_texts allow_weaker;
    bool terminal;
    double timeout_s;
};

const struct row run_options[] = {
    OPTION_OF("user", 'u', TEXT, struct run_values, user, "agent|root",
              "run the command as this user (default: agent)"),
    OPTION("workdir", 'w', TEXT, struct run_values, workdir, "DIR", "run it in DIR (default: /workspace)"),
    OPTION("terminal", 't', BOOL, struct run_values, terminal, NULL, "give the command a terminal"),
    OPTION_OF("allow-weaker", 0, TEXTS, struct run_values, allow_weaker, "landlock",
              "accept a box without it where the kernel lacks it"),
    OPTION("timeout", 0, REAL, struct run_values, timeout_s, "S", "end the command after S seconds"),
    BOX_OPTIONS,
};

struct run {
    struct cli *cli;
    struct run_values values;
    char **argv;
    struct standalone standalone;
    int signal_fd, ended_by;
    bool terminal, input;
    struct exec_result result;
};

static void run_signals(sigset_t *ret_signals) {
    sigemptyset(ret_signals);
    sigaddset(ret_signals, SIGINT);
    sigaddset(ret_signals, SIGTERM);
    sigaddset(ret_signals, SIGHUP);
}

static int run_open(struct run *run, struct err *err) {
    struct box_request request;
    box_options_request(run->cli, &run->values.box, &request);
    int code = standalone_plan(&run->standalone, &request, (const char *const *)run->values.allow_weaker.items,
                               &run->cli->arena, err);
    if (code == -ERR_INVALID)
        option_fail(run->cli, "%s", err->text);
    TRY(code);
    TRY(run->signal_fd = terminal_signals(err)); /* from here on a signal must not end us before the box */
    return standalone_start(&run->standalone, err);
}

static int run_exec(struct run *run, struct err *err) {
    struct exec_request request = {
        .argv = (const char *const *)run->argv,
        .cwd = run->values.workdir,
        .root = run->values.user && strcmp(run->values.user, "root") == 0,
        .pty = run->terminal,
        .timeout_ms = (uint64_t)(run->values.timeout_s * 1000),
    };
    const char *env[2] = {arena_printf(&run->cli->arena, "TERM=%s", terminal_name()), NULL};
    if (run->terminal) {
        terminal_size(STDOUT_FILENO, &request.cols, &request.rows);
        request.env = env;
    }
    struct streams streams = {.box = &run->standalone.box, .terminal = run->terminal};
    streams.duplex = (struct box_duplex){
        .fd = run->input ? STDIN_FILENO : -1, .wake_fd = run->signal_fd, .held = buf_max(LIMIT_FRAME_PAYLOAD_BYTES)};
    int code = box_exec_open(&run->standalone.box, &request, run->input, &streams.duplex, err);
    if (code == 0 && run->terminal && isatty(STDIN_FILENO))
        code = terminal_raw(STDIN_FILENO, err);
    if (code == 0)
        code = streams_run(&streams, err);
    run->result = streams.result;
    run->ended_by = streams.ended_by;
    box_duplex_close(&streams.duplex);
    return code;
}

static void run_close(struct run *run) {
    standalone_stop(&run->standalone);
    fd_close(&run->signal_fd);
}

/* The box ends now. The kernel takes milliseconds to remove its namespaces, and only then can its cgroup and files be
 * removed. A child waits for that and holds the claim. Returns only if there is nothing to wait for, or no child could
 * be made. */
static void run_leave(struct run *run, int status) {
    if (run->standalone.box.pidfd >= 0)
        pidfd_send_signal(run->standalone.box.pidfd, SIGKILL, NULL, 0);
    pid_t child = run->standalone.box.wire ? fork() : -1;
    if (child < 0) {
        run_close(run);
    } else if (child == 0) {
        /* The reader of our output must not wait for the child. */
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int fd = 0; fd <= 2; fd++)
            dup2(null, fd);
        run_close(run);
        _exit(0);
    } else {
        fflush(NULL);
        _exit(status); /* the child frees the rest */
    }
}

static int run_status(struct run *run, int code, bool started, const struct err *err) {
    if (run->ended_by)
        return 128 + run->ended_by;
    if (code < 0) {
        cli_fail(err);
        /* The command was not found or may not be executed, unless its directory is the reason. */
        const char *inside = arena_printf(&run->cli->arena, "%s/.", run->values.workdir ?: "");
        struct file_stat stat;
        started =
            started && (code == -ERR_NOT_FOUND || code == -ERR_DENIED) &&
            (!run->values.workdir || box_stat(&run->standalone.box, inside, &run->cli->arena, &stat, ERR_IGNORED) == 0);
        return !started ? EXIT_OURS : code == -ERR_NOT_FOUND ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
    }
    const struct exec_result *result = &run->result;
    if (result->oom_killed)
        fprintf(stderr, "cubby: a process of the box was killed: out of memory (--memory %llu)\n",
                (unsigned long long)(result->memory_limit_bytes >> 20));
    if (result->timed_out) {
        fprintf(stderr, "cubby: the command was ended after %g s (--timeout)\n", run->values.timeout_s);
        return EXIT_TIMED_OUT;
    }
    return result->exited ? result->exit_code & 0xff : 128 + result->signal;
}

/* ---- on the daemon ---- */

/* A signal ends the box, and us. */
static atomic_bool run_ending;
static void *run_remote_signal(void *user) {
    const char *path = user;
    struct http_client *client = NULL;
    struct http_call call = {.method = "DELETE", .path = path};
    sigset_t signals;
    int number = 0, status;
    run_signals(&signals);
    sigwait(&signals, &number);
    atomic_store(&run_ending, true);
    autofd null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDERR_FILENO); /* that the box is gone is no news */
    autobuf out = buf_max(64 << 10);
    if (remote_connect(&client, ERR_IGNORED) == 0)
        http_client_call(client, &call, &status, &out, ERR_IGNORED);
    _exit(128 + number);
}

/* A box with a policy or secrets is one of the daemon's, which has the gate and the values. It is temporary: if we are
 * killed, the daemon deletes it. */
static int run_remote(struct run *run) {
    struct cli *cli = run->cli;
    struct run_values *values = &run->values;
    struct err err = {0};
    sigset_t signals;
    char id[17];
    if (values->allow_weaker.count)
        option_fail(cli, "--allow-weaker is for boxes without a daemon; this one needs it for its policy or secrets");
    if (run->terminal)
        return shell_in_new_box(cli, &values->box, run->argv, values->user, values->workdir);
    values->box.temporary = true;
    values->box.idle_timeout = REMOTE_IDLE_SECONDS;
    autobuf answer = buf_max(1 << 20);
    run_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (remote_create(cli, &values->box, NULL, NULL, &answer, id, &err) < 0) {
        cli_fail(&err);
        if (err.code == ERR_GONE)
            fprintf(stderr, "cubby: --allow, --network and --secret need the daemon\n");
        return EXIT_OURS;
    }
    const char *path = remote_path(cli, id, "", NULL);
    thread_detached(run_remote_signal, (void *)(uintptr_t)path, 0);
    int status = exec_in_box(cli, id, run->argv, values->user, values->workdir, values->timeout_s);
    while (atomic_load(&run_ending))
        pause();
    if (remote_call(cli, "DELETE", path, NULL, NULL, &err) < 0)
        cli_fail(&err);
    fflush(NULL);
    _exit(status); /* the threads may still wait for signals and for standard input */
}

int command_run(struct cli *cli, int argc, char **argv) {
    struct run run = {.cli = cli, .signal_fd = -1, .standalone = STANDALONE_EMPTY};
    struct err err = {0};
    argc = option_parse(cli, argc, argv, &run.values);
    if (argc == 0)
        option_fail(cli, "missing COMMAND");
    if ((unsigned)argc > LIMIT_ARGV_COUNT)
        option_fail(cli, "at most %u words", LIMIT_ARGV_COUNT);
    if (run.values.timeout_s * 1000 > LIMIT_EXEC_TIMEOUT_MS)
        option_fail(cli, "--timeout is at most %u seconds", LIMIT_EXEC_TIMEOUT_MS / 1000);
    run.argv = argv;
    /* A pipe or a file is passed on; /dev/null needs no stream; a terminal is only passed on as a terminal. */
    struct stat status;
    bool in = isatty(STDIN_FILENO);
    bool null = fstat(STDIN_FILENO, &status) < 0 || (S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3));
    run.terminal = run.values.terminal || (in && isatty(STDOUT_FILENO));
    run.input = run.terminal || (!in && !null);
    if (box_options_daemon(cli, &run.values.box))
        return run_remote(&run);
    int code = run_open(&run, &err);
    bool started = code == 0;
    if (started)
        code = run_exec(&run, &err);
    terminal_restore();
    int result = run_status(&run, code, started, &err);
    run_leave(&run, result);
    return result;
}
