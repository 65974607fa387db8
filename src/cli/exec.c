/* `cubby exec`: runs a command in a box of the daemon and streams its output as events. Invariant: the exit status is
 * the command's; if this process ends, so does the connection, which ends the command. */
#include "http/client/client.h"

#include <jansson.h>
#include <sys/sysmacros.h>

#include "base/base.h"
#include "base/sync.h"
#include "cli/cli.h"
#include "cli/rest/event.h"

struct exec_values {
    struct row_texts env;
    const char *user, *workdir, *line, *session;
    bool background, json, tty, interactive;
    double timeout_s;
};

const struct row exec_options[] = {
    OPTION("command", 'c', TEXT, struct exec_values, line, "STRING", "run this line in the shell of the box"),
    OPTION("env", 'e', TEXTS, struct exec_values, env, "K=V",
           "set an environment variable (K alone: to its value here)"),
    OPTION("user", 'u', TEXT, struct exec_values, user, "agent|root", "run it as this user (default: agent)"),
    OPTION("workdir", 'w', TEXT, struct exec_values, workdir, "DIR", "run it in DIR (default: the workspace)"),
    OPTION("session", 's', TEXT, struct exec_values, session, "NAME",
           "run it in the session of this name; one is made when none exists"),
    OPTION("timeout", 0, REAL, struct exec_values, timeout_s, "S", "end it after S seconds"),
    OPTION("background", 'd', BOOL, struct exec_values, background, NULL,
           "print its pid and leave it running; it keeps the box from being idle, for a day at most"),
    OPTION("tty", 't', BOOL, struct exec_values, tty, NULL, "give it a terminal, as `cubby shell` does"),
    OPTION("interactive", 'i', BOOL, struct exec_values, interactive, NULL,
           "pass standard input on, which is done anyway unless it is a terminal"),
    OPTION("json", 0, BOOL, struct exec_values, json, NULL, "print the daemon's answer instead of the output"),
    {.name = NULL},
};

struct exec {
    struct cli *cli;
    const char *id, *path;
    struct exec_values values;
    char **argv;
    bool feed;        /* standard input is streamed to the command */
    struct buf input; /* standard input sent with the request */
    bool fed;         /* the feeder thread was started */
    uint64_t pid;
    bool ended;
    int number; /* errno of writing our output */
    int status;
    struct event_reader reader;
};

static bool exec_wants_input(void) {
    struct stat status;
    if (fstat(STDIN_FILENO, &status) < 0 || isatty(STDIN_FILENO))
        return false;
    return !(S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3));
}

/* A person who waits decides how long. The API's default of five minutes is for programs. */
static void exec_timeout(const struct exec_values *values, struct json *json) {
    if (values->background && values->timeout_s <= 0)
        return;
    json_put_uint(json, "timeout_ms",
                  values->timeout_s > 0 ? (uint64_t)(values->timeout_s * 1000) : LIMIT_EXEC_TIMEOUT_MS);
}

static void exec_body(const struct exec *exec, struct buf *body) {
    const struct exec_values *values = &exec->values;
    struct json json = json_begin(body);
    json_put_some(&json, "command", values->line);
    if (!values->line)
        json_put_texts(&json, "argv", (const char *const *)exec->argv);
    json_put_some(&json, "cwd", values->workdir);
    json_put_some(&json, "user", values->user);
    box_options_env_json(exec->cli, &exec->values.env, &json);
    if (exec->feed)
        json_put_bool(&json, "stdin_open", true);
    if (exec->input.len)
        json_put_bytes(&json, "stdin_base64", exec->input.data, exec->input.len, false);
    exec_timeout(values, &json);
    json_close(&json, '}');
}

/* ---- in a session ---- */

/* Finds or makes the session, then makes the body and path of the command. */
static int exec_session(struct exec *exec, struct buf *body, struct err *err) {
    const struct exec_values *values = &exec->values;
    struct json json;
    if (!session_named(values->session))
        option_fail(exec->cli, "'%s' is not a session name: letters, digits and _.:@-", values->session);
    json_init(&json, body);
    json_open(&json, '{');
    json_put_some(&json, "name", values->session);
    json_put_some(&json, "user", values->user);
    box_options_env_json(exec->cli, &exec->values.env, &json);
    json_close(&json, '}');
    TRY(remote_call(exec->cli, "POST", remote_path(exec->cli, exec->id, "/sessions", NULL), body, NULL, err));
    buf_clear(body);
    json_init(&json, body);
    json_open(&json, '{');
    json_put_some(&json, "command", values->line ? values->line : option_line(exec->cli, exec->argv));
    json_put_some(&json, "cwd", values->workdir);
    if (values->background)
        json_put_bool(&json, "background", true);
    exec_timeout(values, &json);
    json_close(&json, '}');
    const char *rest = arena_printf(&exec->cli->arena, "/sessions/%s/exec", values->session);
    exec->path = remote_path(exec->cli, exec->id, rest, NULL);
    return 0;
}

static int exec_background(struct exec *exec, const struct buf *body, struct err *err) {
    json_auto_t *answer = NULL;
    TRY(remote_json(exec->cli, "POST", exec->path, body, &answer, err));
    const json_t *pid = json_object_get(answer, "pid");
    if (!exec->values.session && !json_is_integer(pid))
        return err_set(err, ERR_PROTOCOL, "%s started the command but did not report its pid", remote_url());
    if (exec->values.json)
        remote_print(answer);
    else if (!exec->values.session)
        printf("%lld\n", (long long)json_integer_value(pid));
    exec->status = 0;
    return 0;
}

/* Exit status as in a shell: 127 for a program that is not found, 126 for one that may not be executed. The same errors
 * may concern the box or the working directory instead. */
static int exec_failed_status(struct exec *exec, int code) {
    struct err ignored;
    if (exec->values.session || (code != -ERR_NOT_FOUND && code != -ERR_DENIED))
        return EXIT_OURS;
    /* A request without a command is INVALID, unless the token may not run commands. */
    autobuf empty = buf_max(16);
    buf_puts(&empty, "{}");
    if (code == -ERR_DENIED && remote_call(exec->cli, "POST", exec->path, &empty, NULL, &ignored) == -ERR_DENIED)
        return EXIT_OURS;
    const char *workdir = exec->values.workdir ? arena_printf(&exec->cli->arena, "%s/.", exec->values.workdir) : ".";
    if (remote_call(exec->cli, "GET", remote_path(exec->cli, exec->id, "/stat", workdir), NULL, NULL, &ignored) < 0)
        return EXIT_OURS;
    return code == -ERR_NOT_FOUND ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* Gets one answer with exit status and output. Standard input is sent with the request. */
static int exec_whole(struct exec *exec, const struct buf *body, struct err *err) {
    json_auto_t *json = NULL;
    int code = remote_json(exec->cli, "POST", exec->path, body, &json, err);
    if (code < 0) {
        exec->status = exec_failed_status(exec, code);
        return code;
    }
    remote_print(json);
    exec->status = remote_exit(json);
    return 0;
}

/* ---- standard input, fed by a second connection while the first carries the output ---- */

/* Sends each piece as a separate request: a body that is silent for long would be taken for a dead client. */
static int exec_feed_piece(struct http_client *client, const char *path, const void *data, size_t len) {
    static const char *const headers[] = {"Content-Type: application/octet-stream", "Expect:", NULL};
    struct http_call call = {.method = "POST", .path = path, .headers = headers, .body = data, .body_len = len};
    struct err err;
    int status = 0;
    autobuf out = buf_max(64 << 10);
    int code = http_client_call(client, &call, &status, &out, &err);
    return code < 0 || status >= 300 ? -1 : 0;
}

/* If the command has ended or closed its input, the rest is not wanted. So failures just end this thread. */
static void *exec_feed(void *user) {
    const struct exec *exec = user;
    struct http_client *client = NULL;
    struct err err;
    char path[128];
    static uint8_t data[256 << 10];
    int n = snprintf(path, sizeof path, "/v1/boxes/%s/processes/%llu/stdin", exec->id, (unsigned long long)exec->pid);
    if (remote_connect(&client, &err) < 0)
        return NULL;
    ssize_t got;
    while ((got = read(STDIN_FILENO, data, sizeof data)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0 && exec_feed_piece(client, path, data, (size_t)got) < 0)
            break;
    snprintf(path + n, sizeof path - (size_t)n, "?eof=1");
    if (got <= 0)
        exec_feed_piece(client, path, "", 0);
    http_client_free(client);
    return NULL;
}

/* ---- events ---- */

static int exec_event(void *user, const char *name, const char *data, size_t len) {
    struct exec *exec = user;
    int code = 0;
    bool output = strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0;
    autobuf bytes = buf_max(len + 1);
    bool plain = output && event_data(data, len, &bytes);
    json_auto_t *json = plain ? NULL : json_loadb(data, len, JSON_ALLOW_NUL, NULL);
    if (output) {
        if (!plain)
            buf_clear(&bytes);
        if (!plain && !remote_bytes(json, "data", &bytes))
            return -1;
        code = fd_write_all(name[3] == 'o' ? STDOUT_FILENO : STDERR_FILENO, bytes.data, bytes.len);
        exec->number = code < 0 ? -code : 0;
        return code;
    }
    if (strcmp(name, "started") == 0) {
        exec->pid = (uint64_t)json_integer_value(json_object_get(json, "pid"));
        if (exec->feed && !exec->fed)
            exec->fed = thread_detached(exec_feed, exec, 0) == 0;
    } else if (strcmp(name, "exit") == 0) {
        exec->ended = true;
        exec->status = remote_exit(json);
    } else if (strcmp(name, "error") == 0) {
        event_error(json, &exec->reader.error);
        code = -1;
    }
    return code;
}

static int exec_write(void *user, const void *data, size_t len) {
    struct exec *exec = user;
    return event_feed(&exec->reader, data, len);
}

static int exec_stream(struct exec *exec, const struct buf *body, struct err *err) {
    static const char *const headers[] = {"Content-Type: application/json", "Accept: text/event-stream", NULL};
    struct http_call call = {.method = "POST",
                             .path = exec->path,
                             .headers = headers,
                             .body = body->data,
                             .body_len = body->len,
                             .write_body = exec_write,
                             .header = remote_header,
                             .user = exec};
    if (body->failed)
        return err_set(err, ERR_TOO_LARGE, "the command is larger than %u bytes", LIMIT_JSON_BYTES);
    event_init(&exec->reader, exec_event, exec);
    int code = remote_send(exec->cli, &call, NULL, err);
    if (exec->reader.error.code) {
        *err = exec->reader.error;
        code = -err->code;
    }
    event_done(&exec->reader);
    if (!exec->ended && exec->pid && !exec->reader.error.code && !exec->number &&
        (code == 0 || code == -ERR_GONE || code == -ERR_IO))
        code = err_set(err, ERR_GONE,
                       "the daemon stopped, or the connection to it broke, while the command was running; whether it "
                       "finished is unknown");
    else if (code == 0 && !exec->ended)
        code = err_set(err, ERR_PROTOCOL, "%s ended the stream before the command started", remote_url());
    if (!exec->ended)
        exec->status = exec_failed_status(exec, code);
    return exec->ended ? 0 : code;
}

static int exec_perform(struct exec *exec) {
    struct cli *cli = exec->cli;
    struct err err = {0};
    bool whole = exec->values.json && !exec->values.background;
    exec->feed = !whole && !exec->values.background && !exec->values.session && exec_wants_input();
    exec->path = remote_path(cli, exec->id, exec->values.background ? "/processes" : "/exec", NULL);
    autobuf body = buf_max(LIMIT_JSON_BYTES);
    int code = 0;
    buf_init(&exec->input, LIMIT_STDIN_BYTES);
    if (whole && !exec->values.session && exec_wants_input()) { /* it goes with the request */
        char data[64 << 10];
        ssize_t got = 0;
        while (!exec->input.failed && (got = fd_read_full(STDIN_FILENO, data, sizeof data)) > 0)
            buf_put(&exec->input, data, (size_t)got);
        if (got < 0)
            code = err_errno(&err, (int)-got, "standard input");
        else if (exec->input.failed)
            code = err_set(&err, ERR_TOO_LARGE, "with --json, standard input is at most %u bytes", LIMIT_STDIN_BYTES);
    }
    if (code == 0 && exec->values.session)
        code = exec_session(exec, &body, &err);
    else if (code == 0)
        exec_body(exec, &body);
    buf_done(&exec->input);
    if (code == 0)
        code = exec->values.background ? exec_background(exec, &body, &err)
               : whole                 ? exec_whole(exec, &body, &err)
                                       : exec_stream(exec, &body, &err);
    if (exec->number == EPIPE)
        exec->status = 128 + SIGPIPE; /* the reader is gone: end silently, like any program in a pipe */
    else if (exec->number)
        err_errno(&err, exec->number, "standard output");
    if (code < 0 && exec->number != EPIPE)
        cli_fail(&err);
    return exec->status;
}

int exec_in_box(struct cli *cli, const char *id, char **argv, const char *user, const char *workdir, double timeout_s) {
    static struct exec exec; /* the thread that feeds it may outlive this call */
    exec = (struct exec){.cli = cli,
                         .status = EXIT_OURS,
                         .id = id,
                         .argv = argv,
                         .values = {.user = user, .workdir = workdir, .timeout_s = timeout_s}};
    return exec_perform(&exec);
}

int command_exec(struct cli *cli, int argc, char **argv) {
    struct exec exec = {.cli = cli, .status = EXIT_OURS};
    argc = option_parse(cli, argc, argv, &exec.values);
    if (argc == 0)
        option_fail(cli, "%s", BOX_MISSING);
    if ((argc < 2) == !exec.values.line)
        option_fail(cli, exec.values.line ? "-c STRING is the command; remove the words after ID" : "missing COMMAND");
    exec.id = remote_box(cli, argv[0]);
    exec.argv = argv + 1;
    if (exec.values.tty && (exec.values.env.count || exec.values.session || exec.values.background || exec.values.json))
        option_fail(cli, "--tty does not go with --env, --session, --background or --json");
    if (exec.values.tty)
        return shell_in_box(cli, exec.id, exec.values.line ? exec.values.line : option_line(cli, argv + 1),
                            exec.values.user, exec.values.workdir);
    exec_perform(&exec);
    if (exec.fed) {
        fflush(NULL);
        _exit(exec.status); /* the feeder may still wait for standard input and cannot be joined */
    }
    return exec.status;
}
