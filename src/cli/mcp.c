/* `cubby mcp`: the agent tools for an MCP host that starts us, over standard input and output, without a daemon. A
 * directory of the host is /workspace in one box, which is made at the first call that needs it and ends with us.
 *
 * Rules:
 * 1. Only messages reach the host's end of standard output: that is moved away, and 1 is standard error.
 * 2. The main thread reads and never waits for a box: long work has its own thread, so that a cancellation is always
 *    read.
 * 3. `lock` guards the box, its users and the count of threads. A box that died is started again when no call uses it.
 * 4. A terminating signal is never consumed: while it is pending, no write to a host that does not read blocks.
 * 5. However we end, requests end first, then the box, then the files of tools (the next run sweeps after a kill). */
#include <jansson.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "base/sync.h"
#include "cli/cli.h"
#include "cli/standalone.h"
#include "cli/terminal.h"
#include "skill/catalog/catalog.h"
#include "tool/mcp/mcp.h"
#include "tool/servers/servers.h"
#include "tool/store.h"

enum {
    STDIO_STACK = 512 << 10, /* of the threads of requests */
    STDIO_GRACE_MS = 5000,   /* for running requests at the end of standard input */
    STDIO_READ_BYTES = 64 << 10,
    STDIO_SERVERS_BYTES = 1 << 20, /* the file of --servers */
};
#define STDIO_HOME "/tmp/home" /* HOME in the box, so that caches do not end up in the user's files */

struct stdio_values {
    struct box_options box;
    const char *workspace, *servers;
    struct row_texts allow_weaker;
};

const struct row mcp_options[] = {
    OPTION("workspace", 'w', TEXT, struct stdio_values, workspace, "DIR",
           "directory that is /workspace in the box (default: the current one)"),
    OPTION("servers", 0, TEXT, struct stdio_values, servers, "FILE",
           "MCP servers to start in the box: JSON with mcpServers"),
    OPTION_OF("allow-weaker", 0, TEXTS, struct stdio_values, allow_weaker, "landlock",
              "accept a box without it where the kernel lacks it"),
    BOX_OPTIONS,
};

struct stdio {
    struct cli *cli;
    struct stdio_values values;
    int out, signal_fd, ended; /* ended: signals the end of a thread */
    pthread_mutex_t out_lock;  /* one message at a time */
    struct tool_host host;
    struct mcp *mcp;
    struct mcp_session *session;
    struct buf line;   /* the next message so far */
    bool line_skipped; /* it is too long: the rest is read and dropped */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct standalone standalone;
    unsigned users;    /* calls that hold the box */
    unsigned requests; /* threads */
};

struct stdio_request {
    struct stdio *stdio;
    struct arena arena;
    struct mcp_message message;
    struct mcp_exchange exchange;
};

static void mcp_stdio_plan(struct stdio *stdio);
static int mcp_stdio_open(struct stdio *stdio, struct err *err);
static void mcp_stdio_loop(struct stdio *stdio);
static void mcp_stdio_close(struct stdio *stdio);

int command_mcp(struct cli *cli, int argc, char **argv) {
    struct stdio stdio = {.cli = cli,
                          .standalone = STANDALONE_EMPTY,
                          .out = -1,
                          .signal_fd = -1,
                          .ended = -1,
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .out_lock = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER};
    struct err err = {0};
    argc = option_parse(cli, argc, argv, &stdio.values);
    if (argc > 0)
        option_fail(cli, "unexpected argument '%s'", argv[0]);
    mcp_stdio_plan(&stdio);
    int code = mcp_stdio_open(&stdio, &err);
    if (code == 0)
        mcp_stdio_loop(&stdio);
    mcp_stdio_close(&stdio);
    return code < 0 ? cli_fail(&err) : 0;
}

/* ---- starting ---- */

static void mcp_stdio_plan(struct stdio *stdio) {
    struct cli *cli = stdio->cli;
    struct box_request request;
    struct err err;
    if (box_options_daemon(cli, &stdio->values.box))
        option_fail(cli, "a network policy and --secret need the daemon: start `cubbyd` and use its /mcp");
    box_options_request(cli, &stdio->values.box, &request);
    if (!request.backend || strcmp(request.backend, "local") != 0) { /* not there: its /tmp is shared by all users */
        struct row_texts env = {0};                                  /* HOME comes first, so that options override it */
        rows_texts_add(&cli->arena, &env, "HOME=" STDIO_HOME);
        for (const char *const *asked = request.env; asked && *asked; asked++)
            rows_texts_add(&cli->arena, &env, *asked);
        request.env = env.items;
    }
    struct mount *mounts = arena_alloc(&cli->arena, (request.mount_count + 1) * sizeof *mounts);
    for (size_t i = 0; i < request.mount_count; i++) {
        mounts[i + 1] = request.mounts[i];
        if (strcmp(mounts[i + 1].target, WORKSPACE_PATH) == 0)
            option_fail(cli, "--mount: " WORKSPACE_PATH " is the workspace; say --workspace instead");
    }
    const char *given = stdio->values.workspace; /* without the option, a host may have started us anywhere */
    mounts[0] = (struct mount){.source = box_options_directory(cli, "the workspace", given ? given : ".", given),
                               .target = WORKSPACE_PATH};
    request.mounts = mounts;
    request.mount_count++;
    if (standalone_plan(&stdio->standalone, &request, (const char *const *)stdio->values.allow_weaker.items,
                        &cli->arena, &err) < 0)
        option_fail(cli, "%s", err.text);
    stdio->standalone.box.user = arena_strdup(&cli->arena, "default");
}

/* Reads a file in the format of many hosts: {"mcpServers":{NAME:{command, args, env, ...}}}. */
static int mcp_stdio_servers(struct stdio *stdio, const char *path, struct err *err) {
    struct servers_row rows[LIMIT_SERVERS_PER_USER];
    char *text = arena_alloc(&stdio->cli->arena, STDIO_SERVERS_BYTES + 1);
    const char *name;
    json_t *root = NULL, *body;
    size_t count = 0;
    ssize_t len = fd_read_file(AT_FDCWD, path, text, STDIO_SERVERS_BYTES);
    if (len < 0)
        return err_errno(err, (int)-len, "--servers %s", path);
    int code = rows_load(text, (size_t)len, &root, err);
    const json_t *servers = json_object_get(root, "mcpServers");
    if (code == 0 && !json_is_object(servers))
        code = err_set(err, ERR_INVALID, "the file has no object 'mcpServers'");
    if (code == 0 && json_object_size(servers) > LIMIT_SERVERS_PER_USER)
        code = err_set(err, ERR_INVALID, "more than %u servers", LIMIT_SERVERS_PER_USER);
    if (code == 0)
        json_object_foreach((json_t *)(uintptr_t)servers, name, body) {
            struct server_spec spec;
            code = server_spec_take(body, name, &stdio->cli->arena, &spec, err);
            if (code < 0) {
                err_wrap(err, "MCP server '%.64s'", name);
                break;
            }
            rows[count++] = (struct servers_row){.name = spec.name, .text = spec.text};
        }
    json_decref(root);
    if (code < 0)
        return err_wrap(err, "--servers %s", path);
    stdio->host.servers = servers_new(NULL);
    servers_configure(stdio->host.servers, rows, count);
    return 0;
}

static int mcp_stdio_acquire(void *endpoint, const char *user, const char *thread, struct box **ret_box,
                             struct err *err);
static void mcp_stdio_release(void *endpoint, struct box *box);

static int mcp_stdio_open(struct stdio *stdio, struct err *err) {
    stdio->out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (stdio->out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return err_errno(err, errno, "standard output");
    int code = stdio->signal_fd = terminal_signals(err);
    if (code < 0)
        return code;
    stdio->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stdio->ended < 0)
        return err_errno(err, errno, "eventfd");
    buf_init(&stdio->line, LIMIT_JSON_BYTES + 4096); /* space for the largest arguments and their message */
    stdio->host = (struct tool_host){.acquire = mcp_stdio_acquire,
                                     .find = mcp_stdio_acquire,
                                     .release = mcp_stdio_release,
                                     .only = &stdio->standalone.box};
    if (stdio->values.servers && (code = mcp_stdio_servers(stdio, stdio->values.servers, err)) < 0)
        return code;
    stdio->mcp = mcp_new();
    stdio->session = mcp_session_only(stdio->mcp);
    if (isatty(STDIN_FILENO))
        fprintf(stderr,
                "cubby mcp is for an MCP host to start: it speaks the Model Context Protocol on standard input and\n"
                "output. `man cubby-tools` has the lines for common hosts. Ctrl-D ends it.\n");
    return 0;
}

/* ---- the box, and the store of tools ---- */

static int mcp_stdio_acquire(void *endpoint, const char *user, const char *thread, struct box **ret_box,
                             struct err *err) {
    struct stdio *stdio = endpoint;
    struct box *box = &stdio->standalone.box;
    int code = 0;
    (void)user, (void)thread; /* there is only one box */
    pthread_mutex_lock(&stdio->lock);
    while (box->wire && !box_alive(box) && stdio->users)
        pthread_cond_wait(&stdio->changed, &stdio->lock);
    if (!box_alive(box)) {
        struct err ignored;
        code = standalone_start(&stdio->standalone, err);
        if (code == 0 && box->spec.env_count && strcmp(box->spec.env[0], "HOME=" STDIO_HOME) == 0)
            box_mkdir(box, STDIO_HOME, 0700, false, &ignored); /* it exists already, or programs do without it */
    }
    stdio->users += code == 0;
    pthread_mutex_unlock(&stdio->lock);
    if (code == 0)
        *ret_box = box;
    return code;
}

static void mcp_stdio_release(void *endpoint, struct box *) {
    struct stdio *stdio = endpoint;
    autolock(&stdio->lock);
    stdio->users--;
    pthread_cond_broadcast(&stdio->changed);
}

/* Opened before the first call of a tool, not at start. */
static int mcp_stdio_store(struct stdio *stdio, struct err *err) {
    const char *directory;
    autolock(&stdio->lock);
    if (stdio->host.store)
        return 0;
    TRY(standalone_directory(&stdio->standalone, &directory, err));
    TRY(tool_store_open(directory, &stdio->host.store, err));
    stdio->host.catalogs = catalogs_new();
    return 0;
}

/* ---- one message ---- */

static int mcp_stdio_send(struct mcp_exchange *exchange, const char *text, size_t len, bool) {
    struct stdio *stdio = exchange->endpoint;
    autolock(&stdio->out_lock);
    int code = terminal_write(stdio->out, stdio->signal_fd, text, len);
    if (code == 0)
        code = terminal_write(stdio->out, stdio->signal_fd, "\n", 1);
    return code < 0 ? -ERR_GONE : 0;
}

static void mcp_stdio_begin(struct mcp_exchange *exchange, struct tool_call *call) {
    call->endpoint = exchange->endpoint;
}

static void mcp_stdio_serve(struct stdio_request *request) {
    mcp_serve(&request->exchange, &request->message);
    mcp_message_done(&request->message);
    arena_done(&request->arena);
    free(request);
}

static void *mcp_stdio_thread(void *user) {
    struct stdio_request *request = user;
    struct stdio *stdio = request->stdio;
    struct err err;
    if (mcp_stdio_store(stdio, &err) < 0)
        mcp_refuse(&request->message, MCP_INTERNAL, 0, "%s", err.text);
    mcp_stdio_serve(request);
    autolock(&stdio->lock);
    stdio->requests--;
    eventfd_write(stdio->ended, 1);
    pthread_cond_broadcast(&stdio->changed);
    return NULL;
}

static void mcp_stdio_message(struct stdio *stdio, const char *data, size_t len, bool too_long) {
    struct stdio_request *request = xcalloc(1, sizeof *request);
    request->stdio = stdio;
    arena_init(&request->arena);
    mcp_read(&request->message, data, len);
    request->exchange = (struct mcp_exchange){.mcp = stdio->mcp,
                                              .send = mcp_stdio_send,
                                              .begin = mcp_stdio_begin,
                                              .endpoint = stdio,
                                              .arena = &request->arena,
                                              .host = &stdio->host,
                                              .settings = &tool_defaults,
                                              .session = stdio->session,
                                              .watch = -1};
    request->message.slow |= request->message.asks && stdio->host.servers;
    pthread_mutex_lock(&stdio->lock);
    bool full = stdio->requests >= LIMIT_MCP_REQUESTS;
    pthread_mutex_unlock(&stdio->lock);
    if (too_long)
        mcp_refuse(&request->message, MCP_REQUEST, 0, "a message may have at most %zu bytes", stdio->line.max);
    else if (full && request->message.slow)
        mcp_refuse(&request->message, MCP_INTERNAL, 0,
                   "%u requests are under way, which is the limit; wait for one to end", LIMIT_MCP_REQUESTS);
    mcp_enter(&request->exchange, &request->message);
    if (request->message.kind == MCP_CALL && request->message.slow) {
        pthread_mutex_lock(&stdio->lock);
        stdio->requests++;
        pthread_mutex_unlock(&stdio->lock);
        if (thread_detached(mcp_stdio_thread, request, STDIO_STACK) == 0)
            return;
        pthread_mutex_lock(&stdio->lock);
        stdio->requests--;
        pthread_mutex_unlock(&stdio->lock);
        mcp_refuse(&request->message, MCP_INTERNAL, 0, "no thread is available for the request");
    }
    mcp_stdio_serve(request);
}

/* ---- reading ---- */

static void mcp_stdio_line(struct stdio *stdio) {
    struct buf *line = &stdio->line;
    size_t blank = 0;
    while (blank < line->len && strchr(" \t\r", line->data[blank]) && line->data[blank])
        blank++;
    if (stdio->line_skipped)
        mcp_stdio_message(stdio, "", 0, true);
    else if (blank < line->len)
        mcp_stdio_message(stdio, (const char *)line->data, line->len, false);
    stdio->line_skipped = false;
    buf_clear(line);
}

static void mcp_stdio_bytes(struct stdio *stdio, const char *data, size_t len) {
    while (len) {
        const char *end = memchr(data, '\n', len);
        size_t piece = end ? (size_t)(end - data) : len;
        if (stdio->line.len + piece > stdio->line.max) {
            stdio->line_skipped = true;
            buf_done(&stdio->line);
            buf_init(&stdio->line, stdio->line.max);
        }
        if (!stdio->line_skipped)
            buf_put(&stdio->line, data, piece);
        if (end)
            mcp_stdio_line(stdio);
        data += piece + (end != NULL);
        len -= piece + (end != NULL);
    }
}

/* Returns true if the host has gone or a signal came: running requests are not waited for then. */
static bool mcp_stdio_ended(struct stdio *stdio, const struct pollfd *wait) {
    if (wait[1].revents) {
        if (terminal_ending())
            return true;
        terminal_signal(stdio->signal_fd);
    }
    return wait[2].revents & (POLLERR | POLLHUP | POLLNVAL);
}

/* Waits a short time for running requests after the end of standard input. */
static void mcp_stdio_finish(struct stdio *stdio) {
    uint64_t deadline = clock_ms() + STDIO_GRACE_MS, now;
    while ((now = clock_ms()) < deadline) {
        struct pollfd wait[3] = {
            {.fd = stdio->ended, .events = POLLIN}, {.fd = stdio->signal_fd, .events = POLLIN}, {.fd = stdio->out}};
        eventfd_t ignored;
        eventfd_read(stdio->ended, &ignored);
        pthread_mutex_lock(&stdio->lock);
        unsigned requests = stdio->requests;
        pthread_mutex_unlock(&stdio->lock);
        if (!requests || (poll(wait, 3, (int)(deadline - now)) > 0 && mcp_stdio_ended(stdio, wait)))
            return;
    }
}

static void mcp_stdio_loop(struct stdio *stdio) {
    char data[STDIO_READ_BYTES];
    for (;;) {
        struct pollfd wait[3] = {
            {.fd = STDIN_FILENO, .events = POLLIN}, {.fd = stdio->signal_fd, .events = POLLIN}, {.fd = stdio->out}};
        if (poll(wait, 3, -1) < 0 && errno != EINTR)
            return;
        if (mcp_stdio_ended(stdio, wait))
            return;
        if (!wait[0].revents)
            continue;
        ssize_t len = read(STDIN_FILENO, data, sizeof data);
        if (len > 0)
            mcp_stdio_bytes(stdio, data, (size_t)len);
        else if (len == 0 || (errno != EINTR && errno != EAGAIN))
            break;
    }
    mcp_stdio_line(stdio); /* the last line may lack its newline */
    mcp_stdio_finish(stdio);
}

/* ---- ending ---- */

static void mcp_stdio_close(struct stdio *stdio) {
    if (stdio->session) {
        mcp_session_end(stdio->session);
        kill(getpid(), SIGTERM); /* stays pending; a thread that writes to a host that does not read sees it (rule 4) */
    }
    pthread_mutex_lock(&stdio->lock);
    while (stdio->requests)
        pthread_cond_wait(&stdio->changed, &stdio->lock);
    pthread_mutex_unlock(&stdio->lock);
    if (stdio->session)
        mcp_session_put(stdio->session);
    servers_free(stdio->host.servers);
    mcp_free(stdio->mcp);
    tool_store_close(stdio->host.store);
    catalogs_free(stdio->host.catalogs);
    standalone_stop(&stdio->standalone);
    buf_done(&stdio->line);
    fd_close(&stdio->ended);
    fd_close(&stdio->signal_fd);
    fd_close(&stdio->out);
}
