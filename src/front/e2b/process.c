/* process.Process: commands and terminals of a sandbox over Connect. Called through e2b_process_routes.
 *
 * A started command belongs to the sandbox: a client that hangs up ends its stream and nothing else. While somebody
 * reads, the command waits for them and no byte is lost (box_attach). Invariant: a stream sends `start` first and `end`
 * last; what ends with the sandbox has no `end`. */

#include "base/clock.h"
#include "base/text.h"
#include "box/duplex.h"
#include "box/signame.h"
#include "front/e2b/connect.h"
#include "front/e2b/e2b.h"
#include "front/trail.h"

enum {
    PROCESS_PIECE_BYTES = 32 << 10,
    PROCESS_PTY_PIECE_BYTES = 16 << 10,
    PROCESS_TICK_MS = 1000,        /* how often an idle stream looks whether the daemon stops */
    PROCESS_REAP_MS = 1000,        /* how long an answer waits for a signalled command to be gone */
    PROCESS_OVERTIME_MS = 1000,    /* after its deadline the runner ends a command that nobody reads any more */
    PROCESS_ARG_BYTES = 128 << 10, /* of one argument: MAX_ARG_STRLEN */
    PROCESS_PTY_MOST = 4096,
};

/* ---- requests ---- */

struct process_size {
    struct row_number cols, rows;
};
struct process_pty {
    struct process_size size;
};
struct process_config {
    struct row_text cmd, cwd;
    const char **args, **envs;
};
struct process_start {
    struct process_config process;
    struct process_pty pty;
    struct row_text tag;
    bool input;
};
struct process_selector {
    struct row_number pid;
    struct row_text tag;
};
struct process_bytes {
    struct row_text input, pty;
};
struct process_call { /* of all others */
    struct process_selector process;
    struct process_bytes input;
    struct process_pty pty;
    struct row_text signal;
};
struct process_piece { /* of StreamInput */
    struct process_call start, data;
};

#define PROCESS_ROW(label, kind, args, member)                                                                         \
    .name = (label), .type = ROW_##kind, .offset = offsetof(struct args, member)
#define PROCESS_OBJECT(label, args, member, rows, meaning)                                                             \
    { PROCESS_ROW(label, OBJECT, args, member), .fields = (rows), .text = (meaning) }
#define PROCESS_END                                                                                                    \
    { .name = NULL, .flags = ROW_LENIENT }

static const struct row process_size_rows[] = {
    {PROCESS_ROW("cols", INT, process_size, cols), .max = PROCESS_PTY_MOST, .text = "columns"},
    {PROCESS_ROW("rows", INT, process_size, rows), .max = PROCESS_PTY_MOST, .text = "lines"},
    PROCESS_END,
};
static const struct row process_pty_rows[] = {
    PROCESS_OBJECT("size", process_pty, size, process_size_rows, "of the terminal"),
    PROCESS_END,
};
static const struct row process_config_rows[] = {
    {PROCESS_ROW("cmd", TEXT, process_config, cmd), .flags = ROW_REQUIRED | ROW_AUDITED, .min = 1,
     .max = LIMIT_PATH_BYTES, .text = "the program"},
    {PROCESS_ROW("args", TEXTS, process_config, args), .flags = ROW_AUDITED, .max = LIMIT_ARGV_COUNT - 1,
     .text = "its arguments"},
    {PROCESS_ROW("envs", MAP, process_config, envs), .flags = ROW_SECRET, .max = LIMIT_ENV_COUNT / 2,
     .text = "its environment"},
    {PROCESS_ROW("cwd", TEXT, process_config, cwd), .flags = ROW_AUDITED, .max = LIMIT_PATH_BYTES,
     .text = "its directory; default: the user's home"},
    PROCESS_END,
};
static const struct row process_start_rows[] = {
    {PROCESS_ROW("process", OBJECT, process_start, process), .flags = ROW_REQUIRED | ROW_AUDITED,
     .fields = process_config_rows, .text = "what to run"},
    PROCESS_OBJECT("pty", process_start, pty, process_pty_rows, "with a terminal"),
    {PROCESS_ROW("tag", TEXT, process_start, tag), .flags = ROW_AUDITED, .max = LIMIT_PROCESS_TAG_BYTES,
     .text = "a name for it"},
    {PROCESS_ROW("stdin", BOOL, process_start, input), .text = "its standard input stays open (default)"},
    PROCESS_END,
};
static const struct row process_selector_rows[] = {
    {PROCESS_ROW("pid", INT, process_selector, pid), .max = UINT32_MAX, .text = "the process; or"},
    {PROCESS_ROW("tag", TEXT, process_selector, tag), .max = LIMIT_PROCESS_TAG_BYTES, .text = "its tag"},
    PROCESS_END,
};
#define PROCESS_SELECTOR                                                                                               \
    {                                                                                                                  \
        PROCESS_ROW("process", OBJECT, process_call, process), .flags = ROW_REQUIRED, .fields = process_selector_rows, \
                                                               .text = "which one"                                     \
    }
static const struct row process_bytes_rows[] = {
    {PROCESS_ROW("stdin", TEXT, process_bytes, input), .max = LIMIT_JSON_BYTES, .text = "base64"},
    {PROCESS_ROW("pty", TEXT, process_bytes, pty), .max = LIMIT_JSON_BYTES, .text = "base64"},
    PROCESS_END,
};
static const struct row process_list_rows[] = {PROCESS_END};
static const struct row process_one_rows[] = {PROCESS_SELECTOR, PROCESS_END};
static const struct row process_input_rows[] = {
    PROCESS_SELECTOR, PROCESS_OBJECT("input", process_call, input, process_bytes_rows, "what it reads"), PROCESS_END};
static const struct row process_update_rows[] = {
    PROCESS_SELECTOR, PROCESS_OBJECT("pty", process_call, pty, process_pty_rows, "its new size"), PROCESS_END};
static const struct row process_signal_rows[] = {
    PROCESS_SELECTOR,
    {PROCESS_ROW("signal", TEXT_OR_INT, process_call, signal), .flags = ROW_REQUIRED, .max = 64,
     .text = "SIGNAL_SIGKILL (9) or SIGNAL_SIGTERM (15)"},
    PROCESS_END,
};
static const struct row process_data_rows[] = {
    PROCESS_OBJECT("input", process_call, input, process_bytes_rows, "what it reads"), PROCESS_END};
static const struct row process_piece_rows[] = {
    PROCESS_OBJECT("start", process_piece, start, process_one_rows, "the first message: which one"),
    PROCESS_OBJECT("data", process_piece, data, process_data_rows, "the others"), PROCESS_END};

/* ---- which one ---- */

struct process_find {
    const struct process_selector *wanted;
    bool found, running, pty, input;
    uint64_t pid;
};

static void process_find_each(void *user, const struct process *process) {
    struct process_find *find = user;
    const struct process_selector *wanted = find->wanted;
    if (wanted->pid.has ? process->pid != wanted->pid.value
                        : !process->tag || strcmp(process->tag, wanted->tag.data) != 0)
        return;
    if (find->running && !process->running)
        return;
    *find = (struct process_find){.wanted = wanted,
                                  .found = true,
                                  .running = process->running,
                                  .pty = process->pty,
                                  .input = process->input,
                                  .pid = process->pid};
}

/* The newest of that pid or tag, one that runs before one that ended. */
static int process_find(struct box *box, const struct process_selector *wanted, bool ended, struct process_find *ret,
                        struct err *err) {
    *ret = (struct process_find){.wanted = wanted};
    if (!wanted->pid.has && !wanted->tag.data)
        return err_set(err, ERR_INVALID, "'process' must have a pid or a tag");
    int failed = box_processes(box, wanted->pid.has ? wanted->pid.value : 0, process_find_each, ret, err);
    if (failed && failed != -ERR_NOT_FOUND)
        return failed;
    if (!failed && ret->found && (ret->running || ended))
        return 0;
    if (wanted->pid.has)
        return err_set(err, ERR_NOT_FOUND, "process with pid %llu not found", (unsigned long long)wanted->pid.value);
    return err_set(err, ERR_NOT_FOUND, "process with tag '%s' not found", wanted->tag.data);
}

/* ---- streams ---- */

struct process_stream {
    struct connect *connect;
    struct box_duplex duplex;
    uint64_t pid;
    bool pty;
    bool owner; /* Start: its deadline is the command's */
};

static int process_send_start(struct process_stream *stream) {
    struct json *json = connect_open(stream->connect);
    json_put_open(json, "event", '{');
    json_put_open(json, "start", '{');
    json_put_uint(json, "pid", stream->pid);
    json_close(json, '}');
    json_close(json, '}');
    return connect_send(stream->connect);
}

static int process_started(void *user, uint64_t pid, struct err *) {
    struct process_stream *stream = user;
    stream->pid = pid;
    return process_send_start(stream);
}

static int process_data(void *user, int number, const uint8_t *data, size_t len, struct err *) {
    struct process_stream *stream = user;
    size_t most = stream->pty ? PROCESS_PTY_PIECE_BYTES : PROCESS_PIECE_BYTES;
    const char *name = stream->pty ? "pty" : number == STREAM_STDERR ? "stderr" : "stdout";
    int failed = 0;
    while (!failed && len) {
        size_t n = len < most ? len : most;
        struct json *json = connect_open(stream->connect);
        json_put_open(json, "event", '{');
        json_put_open(json, "data", '{');
        connect_put_bytes(json, name, data, n);
        json_close(json, '}');
        json_close(json, '}');
        failed = connect_send(stream->connect);
        data += n;
        len -= n;
    }
    return failed;
}

/* As Go names signals, which clients compare with. */
static const char *process_signal_text(int number, char text[32]) {
    static const char *const names[] = {"signal 0",
                                        "hangup",
                                        "interrupt",
                                        "quit",
                                        "illegal instruction",
                                        "trace/breakpoint trap",
                                        "aborted",
                                        "bus error",
                                        "floating point exception",
                                        "killed",
                                        "user defined signal 1",
                                        "segmentation fault",
                                        "user defined signal 2",
                                        "broken pipe",
                                        "alarm clock",
                                        "terminated"};
    if (number >= 0 && (size_t)number < sizeof names / sizeof *names)
        return names[number];
    snprintf(text, 32, "signal %d", number);
    return text;
}

static int process_ended(void *user, const struct exec_result *result, struct err *err) {
    struct process_stream *stream = user;
    char name[32], status[64], why[128];
    if (stream->owner)
        trail_result(stream->connect->request, result);
    if (result->timed_out && stream->owner)
        return err_set(err, ERR_TIMEOUT, "the time of this command is over");
    if (result->exited)
        snprintf(status, sizeof status, "exit status %d", result->exit_code);
    else
        snprintf(status, sizeof status, "signal: %s", process_signal_text(result->signal, name));
    snprintf(why, sizeof why, "%s", status);
    if (result->oom_killed && result->memory_limit_bytes)
        snprintf(why, sizeof why, "%s: out of memory (%llu MiB)", status,
                 (unsigned long long)(result->memory_limit_bytes >> 20));
    struct json *json = connect_open(stream->connect);
    json_put_open(json, "event", '{');
    json_put_open(json, "end", '{');
    json_put_int(json, "exitCode", result->exited ? result->exit_code : -1);
    json_put_bool(json, "exited", result->exited);
    json_put_str(json, "status", status);
    if (!result->exited || result->exit_code)
        json_put_str(json, "error", why);
    json_close(json, '}');
    json_close(json, '}');
    return connect_send(stream->connect) ?: 1;
}

static void process_tick_next(struct process_stream *stream) {
    uint64_t wait_ms = connect_wait_ms(stream->connect);
    stream->duplex.tick_ms = clock_ms() + (wait_ms < PROCESS_TICK_MS ? wait_ms : PROCESS_TICK_MS);
}

static int process_tick(void *user, struct err *err) {
    struct process_stream *stream = user;
    if (http_server_stopping(front_of(stream->connect->request)->server))
        return err_set(err, ERR_BUSY, "the daemon is stopping and the process continues: connect to it again");
    int failed = connect_idle(stream->connect, true, err);
    process_tick_next(stream);
    return failed;
}

static int process_hangup(void *user, struct err *err) {
    struct process_stream *stream = user;
    stream->connect->lost = true;
    return err_set(err, ERR_GONE, "the client hung up");
}

static void process_stream_init(struct process_stream *stream, struct connect *connect) {
    *stream = (struct process_stream){
        .connect = connect, .duplex = {.fd = http_fd(connect->request), .client = true, .deaf = true, .wake_fd = -1}};
    process_tick_next(stream);
}

static int process_stream_run(struct process_stream *stream, struct err *err) {
    static const struct box_stream hooks = {.started = process_started,
                                            .data = process_data,
                                            .hangup = process_hangup,
                                            .tick = process_tick,
                                            .end = process_ended};
    int failed = box_duplex_run(&stream->duplex, &hooks, stream, err);
    box_duplex_close(&stream->duplex);
    return failed;
}

/* ---- Start ---- */

/* The user's own variables, those of the sandbox, those of the request; a later one replaces an earlier one. */
static size_t process_env_base(const struct connect *connect, const char **env) {
    const struct spec *spec = &connect->box->spec;
    size_t n = 0;
    for (size_t i = 0; i < E2B_OWN_ENV; i++)
        env[n++] = connect->account.env[i];
    for (size_t i = 0; i < spec->env_count; i++) {
        bool default_user = false;
        for (size_t k = 0; k < E2B_OWN_ENV; k++)
            default_user = default_user || !strcmp(spec->env[i], e2b_account_user.env[k]);
        if (!default_user)
            env[n++] = spec->env[i];
    }
    return n;
}

static const char *const *process_env(const struct connect *connect, const char *const *envs) {
    size_t more = text_list_count(envs), most = E2B_OWN_ENV + connect->box->spec.env_count + more + 1;
    const char **env = arena_alloc(http_arena(connect->request), most * sizeof *env);
    size_t n = process_env_base(connect, env);
    if (more)
        memcpy(env + n, envs, more * sizeof *env);
    return env;
}

/* shell: through /bin/sh, which says that there is no such program, and exits with 127. */
static int process_argv(const struct connect *connect, const struct process_config *config, bool shell,
                        const char *const **ret_argv, struct err *err) {
    static const char *const prefix[] = {"/bin/sh", "-c", "exec \"$@\"", "sh"};
    size_t count = text_list_count(config->args), n = 0;
    const char **argv =
        arena_alloc(http_arena(connect->request), (count + sizeof prefix / sizeof *prefix + 2) * sizeof *argv);
    for (size_t i = 0; shell && i < sizeof prefix / sizeof *prefix; i++)
        argv[n++] = prefix[i];
    argv[n++] = config->cmd.data;
    for (size_t i = 0; i < count; i++) {
        if (strlen(config->args[i]) >= PROCESS_ARG_BYTES)
            return err_set(err, ERR_INVALID, "argument list too long");
        argv[n++] = config->args[i];
    }
    *ret_argv = argv;
    return 0;
}

static int process_start_once(struct connect *connect, struct process_start *start, bool shell, struct err *err) {
    struct exec_request exec = {
        .env = process_env(connect, start->process.envs),
        .pty = start->pty.size.cols.has || start->pty.size.rows.has,
        .cols = (unsigned)start->pty.size.cols.value,
        .rows = (unsigned)start->pty.size.rows.value,
        .timeout_ms = connect->timeout_ms ? connect->timeout_ms + PROCESS_OVERTIME_MS : 0,
        .leave = true,
        .detach = true,
        .sudo = true,
        .tag = start->tag.data,
    };
    struct process_stream stream;
    e2b_account_exec(&connect->account, &exec);
    process_stream_init(&stream, connect);
    stream.pty = exec.pty;
    stream.owner = true;
    const char *cwd = start->process.cwd.data;
    if (!cwd || !*cwd)
        cwd = e2b_default(connect->box, E2B_WORKDIR);
    int failed = connect_path(http_arena(connect->request), connect->account.home, cwd, &exec.cwd, err)
                     ?: process_argv(connect, &start->process, shell, &exec.argv, err)
                     ?: box_exec_open(connect->box, &exec, start->input, &stream.duplex, err)
                     ?: process_stream_run(&stream, err);
    if (failed == -ERR_NOT_FOUND && !stream.pid && err->why == WHY_NONE)
        return err_set(err, ERR_INVALID, "cwd '%s' does not exist", exec.cwd);
    if (failed == -ERR_TIMEOUT && stream.pid && connect->deadline_ms) {
        struct err ignored = {0};
        box_signal_wait(connect->box, stream.pid, SIGKILL, true, PROCESS_REAP_MS, &ignored);
    }
    return failed;
}

static int process_start(struct connect *connect, void *, struct err *err) {
    struct process_start start = {.input = true};
    STEP(connect_take(connect, process_start_rows, &start, err));
    trail_fields(connect->request, process_start_rows, &start);
    int failed = process_start_once(connect, &start, false, err);
    if (failed == -ERR_NOT_FOUND && err->why == WHY_NO_COMMAND && !connect->begun)
        failed = process_start_once(connect, &start, true, err);
    return failed;
}

/* ---- Connect ---- */

static int process_connect(struct connect *connect, void *args, struct err *err) {
    const struct process_call *call = args;
    struct process_find find;
    struct process_stream stream;
    STEP(process_find(connect->box, &call->process, true, &find, err));
    process_stream_init(&stream, connect);
    stream.pid = find.pid;
    stream.pty = find.pty;
    return box_attach_from(connect->box, find.pid, NULL, &stream.duplex, err)
               ?: process_send_start(&stream)
               ?: process_stream_run(&stream, err);
}

/* ---- List ---- */

struct process_pids {
    uint64_t pids[LIMIT_PROCESSES];
    unsigned count;
};

static void process_pids_each(void *user, const struct process *process) {
    struct process_pids *all = user;
    if (process->running && all->count < LIMIT_PROCESSES)
        all->pids[all->count++] = process->pid;
}

struct process_show {
    struct json *json;
    const char *const *base; /* variables that the request did not name */
};

static void process_show_env(struct process_show *show, const char *const *env) {
    json_put_open(show->json, "envs", '{');
    for (; env && *env; env++) {
        size_t len = strcspn(*env, "=");
        bool replaced = false;
        for (const char *const *later = env + 1; *later && !replaced; later++)
            replaced = !strncmp(*env, *later, len + 1);
        if (!replaced && (*env)[len] && !text_list_has(show->base, *env)) {
            json_keyn(show->json, *env, len);
            json_str(show->json, *env + len + 1);
        }
    }
    json_close(show->json, '}');
}

static void process_show_each(void *user, const struct process *process) {
    struct process_show *show = user;
    struct json *json = show->json;
    const char *const line[] = {"/bin/sh", "-c", process->command, NULL};
    const char *const *argv = process->argv && process->argv[0] ? process->argv : line;
    if (!process->running)
        return;
    json_open(json, '{');
    json_put_open(json, "config", '{');
    json_put_str(json, "cmd", argv[0]);
    json_put_open(json, "args", '[');
    for (size_t i = 1; argv[i]; i++)
        json_str(json, argv[i]);
    json_close(json, ']');
    process_show_env(show, process->env);
    json_put_some(json, "cwd", process->cwd);
    json_close(json, '}');
    json_put_uint(json, "pid", process->pid);
    json_put_some(json, "tag", process->tag);
    json_close(json, '}');
}

static int process_list(struct connect *connect, void *, struct err *err) {
    struct process_pids all = {.count = 0};
    struct process_show show = {.base = process_env(connect, NULL)};
    STEP(box_processes(connect->box, 0, process_pids_each, &all, err));
    show.json = connect_open(connect);
    json_put_open(show.json, "processes", '[');
    int failed = 0;
    for (unsigned i = 0; !failed && i < all.count; i++) {
        failed = box_processes(connect->box, all.pids[i], process_show_each, &show, err);
        if (failed == -ERR_NOT_FOUND) /* it ended meanwhile */
            failed = 0;
    }
    json_close(show.json, ']');
    return failed ?: connect_send(connect);
}

/* ---- input ---- */

static int process_feed(struct connect *connect, const struct process_find *find, const struct process_bytes *bytes,
                        struct err *err) {
    const struct row_text *text = bytes->pty.data ? &bytes->pty : &bytes->input;
    if (!text->data)
        return 0;
    if (find->pty == (text == &bytes->input)) {
        connect->code = "internal";
        return err_set(err, ERR_INTERNAL, "process %llu %s", (unsigned long long)find->pid,
                       find->pty ? "has a terminal: its input is 'pty'" : "has no terminal: its input is 'stdin'");
    }
    autobuf data = buf_max(LIMIT_JSON_BYTES);
    int failed = connect_bytes(text, find->pty ? "pty" : "stdin", &data, err);
    struct view view = view_of(data.data, data.len);
    if (!failed)
        failed = box_input(connect->box, find->pid, false, box_read_view, &view, http_fd(connect->request), err);
    if (failed == -ERR_GONE)
        connect->code = "internal"; /* it has no input, or closed it */
    return failed;
}

static int process_input(struct connect *connect, void *args, struct err *err) {
    const struct process_call *call = args;
    struct process_find find;
    return process_find(connect->box, &call->process, false, &find, err)
               ?: process_feed(connect, &find, &call->input, err);
}

static int process_stream_input(struct connect *connect, void *, struct err *err) {
    struct process_find find = {0};
    STEP(connect_take_head(connect, err));
    http_body_live(connect->request); /* it may be typed */
    for (;;) {
        autoarena arena = ARENA_EMPTY;
        struct process_piece piece = {0};
        int r = connect_next(connect, process_piece_rows, &arena, &piece, err);
        if (r < 0)
            return r;
        if (r == 0) {
            connect_open(connect);
            return connect_send(connect);
        }
        const struct process_selector *wanted = &piece.start.process;
        bool names = wanted->pid.has || wanted->tag.data;
        if (names == find.found)
            return err_set(err, ERR_INVALID, "the first message, and no other, must name the process");
        r = names ? process_find(connect->box, wanted, false, &find, err)
                  : process_feed(connect, &find, &piece.data.input, err);
        if (r < 0)
            return r;
    }
}

static int process_close(struct connect *connect, void *args, struct err *err) {
    const struct process_call *call = args;
    struct process_find find;
    STEP(process_find(connect->box, &call->process, false, &find, err));
    if (find.pty) {
        connect->code = "unknown";
        return err_set(err, ERR_INVALID, "cannot close stdin for PTY process");
    }
    if (!find.input)
        return 0;
    struct view nothing = view_of(NULL, 0);
    int failed = box_input(connect->box, find.pid, true, box_read_view, &nothing, http_fd(connect->request), err);
    return failed == -ERR_GONE && box_alive(connect->box) ? 0 : failed; /* closed meanwhile */
}

/* ---- signals, size ---- */

static int process_signal(struct connect *connect, void *args, struct err *err) {
    const struct process_call *call = args;
    static const char prefix[] = "SIGNAL_";
    struct process_find find;
    const char *name = call->signal.data;
    int number = signame_number(strncmp(name, prefix, sizeof prefix - 1) ? name : name + sizeof prefix - 1);
    if (number != SIGKILL && number != SIGTERM)
        return err_set(err, ERR_INVALID, "invalid signal: %s", name);
    int failed = process_find(connect->box, &call->process, false, &find, err)
                     ?: box_signal_wait(connect->box, find.pid, number, number == SIGKILL, PROCESS_REAP_MS, err);
    if (failed == -ERR_GONE && box_alive(connect->box)) /* it ended meanwhile */
        return err_set(err, ERR_NOT_FOUND, "process with pid %llu not found", (unsigned long long)find.pid);
    return failed;
}

static int process_update(struct connect *connect, void *args, struct err *err) {
    const struct process_call *call = args;
    const struct process_size *size = &call->pty.size;
    struct process_find find;
    STEP(process_find(connect->box, &call->process, false, &find, err));
    return size->cols.has || size->rows.has
               ? box_resize(connect->box, find.pid, (unsigned)size->cols.value, (unsigned)size->rows.value, err)
               : 0;
}

#define PROCESS_RPC(path, label, summary, function, rows, ...)                                                         \
    CONNECT_RPC("/process.Process/" path, label, "E2B: " summary, ENDPOINT_WRITES, rows, .call = (function),           \
                __VA_ARGS__)
#define PROCESS_CALL(path, label, summary, function, rows, ...)                                                        \
    PROCESS_RPC(path, label, summary, function, rows, .args = sizeof(struct process_call), __VA_ARGS__)

const struct route e2b_process_routes[] = {
    PROCESS_RPC("Start", "e2b_process_start", "start a process and stream its output", process_start,
                process_start_rows, .kind = CONNECT_STREAM),
    PROCESS_CALL("Connect", "e2b_process_connect", "stream the output of a running process", process_connect,
                 process_one_rows, .kind = CONNECT_STREAM),
    PROCESS_CALL("List", "e2b_process_list", "the processes that run", process_list, process_list_rows),
    PROCESS_CALL("SendInput", "e2b_process_input", "write to a process's input", process_input, process_input_rows),
    PROCESS_RPC("StreamInput", "e2b_process_stream_input", "write to a process's input, piece by piece",
                process_stream_input, process_piece_rows, .kind = CONNECT_STREAM),
    PROCESS_CALL("CloseStdin", "e2b_process_close_stdin", "close a process's input", process_close, process_one_rows),
    PROCESS_CALL("SendSignal", "e2b_process_signal", "end a process", process_signal, process_signal_rows),
    PROCESS_CALL("Update", "e2b_process_update", "change the size of a terminal", process_update, process_update_rows),
    {0},
};
