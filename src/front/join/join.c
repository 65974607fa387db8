/* The endpoint at which machines join: a WebSocket and a first message; then the thread of the request serves the
 * machine until its connection ends. Called through join_routes. Rules:
 *
 * 1. A machine's user and name come from its token. Its first message may only agree with them.
 * 2. Until its token is verified a client is unregistered: few of them at once, a small message, a short time. They
 *    keep no machine out: if there are too many, the oldest one of the address with the most is displaced.
 * 3. A refusal is sent twice: as a message {"type":"error"} and as the code of the close frame. 4401 and 4403 mean that
 *    a retry is useless.
 * 4. table->lock guards the list of served connections and their `leaving`. It is taken with the server's lock held
 *    (http_lasting), and machines_leave is called with it held: neither may call back into this file. */
#include "front/join/join.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/sync.h"
#include "front/events.h"
#include "http/websocket.h"

#define LINK_MESSAGE_BYTES (LIMIT_LINK_TALK_BYTES / 3 * 4 + 256) /* the largest record, as base64 in an object */

enum runner_leaving { STAYS, REVOKED, STOPPING, SENT_AWAY };

struct runner { /* one connection */
    struct runner *next;
    struct http_request *request;
    struct front *front;
    struct ws *ws;
    const char *user, *name;
    struct runner_hello hello;
    char why[200];               /* for SENT_AWAY */
    enum runner_leaving leaving; /* under table->lock */
    const char *host;            /* of an unregistered client: its address without the port */
    int wake;                    /* eventfd: check displaced */
    bool displaced;              /* it was displaced; under table->lock */
};

/* Connections that are being served, and those not registered yet. */
struct runner_table {
    pthread_mutex_t lock;
    struct runner *runners;
    struct runner *strangers[LIMIT_REGISTER_WAITING]; /* oldest first */
    size_t stranger_count;
};

static int join_open(const char *, void **ret_state, struct err *) {
    struct runner_table *table = *ret_state = xcalloc(1, sizeof *table);
    pthread_mutex_init(&table->lock, NULL);
    return 0;
}

static struct runner_table *join_state(const struct front *front) {
    return front_state(front, &join_dialect);
}

static void join_close(void *state) {
    struct runner_table *table = state;
    if (!table)
        return;
    pthread_mutex_destroy(&table->lock);
    free(table);
}

/* ---- connections ---- */

static void join_runner_stranger_remove_locked(struct runner_table *table, const struct runner *runner) {
    size_t i = 0;
    while (table->strangers[i] != runner)
        i++;
    memmove(&table->strangers[i], &table->strangers[i + 1], (--table->stranger_count - i) * sizeof *table->strangers);
}

static void join_runner_stranger_leave(struct runner *runner) {
    struct runner_table *table = join_state(runner->front);
    autolock(&table->lock);
    if (!runner->displaced)
        join_runner_stranger_remove_locked(table, runner);
    fd_close(&runner->wake);
}

static const char *join_runner_leaving_why(const struct runner *runner, enum runner_leaving leaving) {
    return leaving == REVOKED    ? "its token was revoked or has expired"
           : leaving == STOPPING ? "the server is stopping"
                                 : runner->why;
}

static void join_runner_leave_locked(struct runner *runner, enum runner_leaving leaving) {
    if (runner->leaving != STAYS)
        return;
    runner->leaving = leaving;
    machines_leave(runner->front->env->machines, runner->user, runner->name, leaving != STOPPING,
                   join_runner_leaving_why(runner, leaving));
}

/* Ends this connection, for http_lasting. */
static void join_runner_cut(void *user) {
    struct runner *runner = user;
    struct runner_table *table = join_state(runner->front);
    bool stopping = http_server_stopping(runner->front->server);
    autolock(&table->lock);
    join_runner_leave_locked(runner, stopping ? STOPPING : REVOKED);
}

int runner_send_away(struct front *front, const char *user, const char *name, const char *why, struct err *err) {
    struct runner_table *table = join_state(front);
    bool found = false;
    autolock(&table->lock);
    for (struct runner *runner = table->runners; runner; runner = runner->next)
        if (!strcmp(runner->user, user) && !strcmp(runner->name, name)) {
            snprintf(runner->why, sizeof runner->why, "%s", why);
            join_runner_leave_locked(runner, SENT_AWAY);
            found = true;
        }
    return found ? 0 : err_set(err, ERR_NOT_FOUND, "no machine '%.64s' is online", name);
}

/* ---- messages to a machine ---- */

static unsigned join_runner_close_code(int code) {
    static const struct {
        int code;
        unsigned close;
    } codes[] = {{ERR_UNAUTHORIZED, 4401}, {ERR_DENIED, 4403},      {ERR_EXISTS, 4409},   {ERR_LIMIT, 4429},
                 {ERR_INVALID, 4400},      {ERR_UNSUPPORTED, 4400}, {ERR_PROTOCOL, 4400}, {ERR_TOO_LARGE, 4400},
                 {ERR_TIMEOUT, 4408},      {ERR_BUSY, 1013},        {ERR_GONE, 1000}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code)
            return codes[i].close;
    return 1011;
}

/* Sends both forms: a machine that was not understood has not said which one it reads. */
static void join_runner_error(struct runner *runner, const struct err *err) {
    autobuf out = buf_max(16384);
    struct json json = json_begin(&out);
    bool text = runner->hello.workspace && !runner->hello.link; /* such runners know two codes of their own */
    const char *word = text && err->code == ERR_UNAUTHORIZED ? "AUTH_FAILED"
                       : text && err->code == ERR_DENIED     ? "FORBIDDEN"
                                                             : err_name(err->code);
    json_put_str(&json, "type", "error");
    for (int i = 0; i < 2; i++) {
        if (i)
            json_put_open(&json, "body", '{');
        json_put_str(&json, "code", word);
        json_put_str(&json, "message", err->text);
    }
    json_close(&json, '}');
    json_close(&json, '}');
    ws_send(runner->ws, WS_TEXT, out.data, out.len, ERR_IGNORED);
}

static int join_runner_welcome(struct runner *runner, const char *session, bool resumed, uint64_t received,
                               struct err *err) {
    autobuf out = buf_max(16384);
    struct json json = json_begin(&out);
    json_put_str(&json, "type", "register_ok");
    if (runner->hello.nested)
        json_put_open(&json, "body", '{');
    json_put_str(&json, "status", "ok");
    json_put_str(&json, "user", runner->user);
    json_put_str(&json, "name", runner->name);
    json_put_str(&json, "version", CUBBY_VERSION);
    if (runner->hello.link) {
        json_put_str(&json, "session", session);
        json_put_bool(&json, "resumed", resumed);
        json_put_uint(&json, "received", received);
        json_put_uint(&json, "grace_ms", machines_grace_ms(runner->front->env->machines));
        json_put_bool(&json, "loads", true);
        json_put_uint(&json, "epoch", machines_epoch(runner->front->env->machines));
    }
    if (runner->hello.nested)
        json_close(&json, '}');
    json_close(&json, '}');
    return ws_send(runner->ws, WS_TEXT, out.data, out.len, err);
}

/* ---- registering ---- */

/* Reads the first message, within a time limit. */
static int join_runner_first(struct runner *runner, struct err *err) {
    struct runner_table *table = join_state(runner->front);
    uint64_t end_ms = clock_ms() + LIMIT_REGISTER_MS;
    for (;;) {
        enum ws_kind kind;
        const uint8_t *data;
        size_t len;
        int got = ws_recv(runner->ws, &kind, &data, &len, err);
        if (got < 0)
            return got;
        if (got && kind != WS_TEXT)
            return err_set(err, ERR_INVALID, "the first message must be text: {\"type\":\"register\", ...}");
        if (got)
            return runner_hello_parse(data, len, http_arena(runner->request), &runner->hello, err);
        uint64_t now_ms = clock_ms();
        struct pollfd wait[] = {{.fd = http_fd(runner->request), .events = POLLIN},
                                {.fd = runner->wake, .events = POLLIN}};
        pthread_mutex_lock(&table->lock);
        bool displaced = runner->displaced;
        pthread_mutex_unlock(&table->lock);
        if (displaced)
            return err_set(err, ERR_BUSY, "too many machines are registering at once; try again in a moment");
        if (now_ms >= end_ms || http_server_stopping(runner->front->server))
            return err_set(err, ERR_TIMEOUT, "no register message arrived within %u s", LIMIT_REGISTER_MS / 1000);
        if (poll(wait, 2, end_ms - now_ms < 1000 ? (int)(end_ms - now_ms) : 1000) < 0 && errno != EINTR)
            return err_errno(err, errno, "poll");
    }
}

/* Rule 1. */
static int join_runner_agrees(struct runner *runner, struct err *err) {
    const struct who *who = front_who(runner->request);
    const char *path_user = http_param(runner->request, "user");
    const struct runner_hello *hello = &runner->hello;
    if (!scope_joins(who->scope))
        return err_set(err, ERR_DENIED,
                       "this is not a runner's token: make one with `cubby token create --runner NAME --user USER`");
    if (hello->worker && who->scope != SCOPE_WORKER)
        return err_set(err, ERR_DENIED,
                       "this is not a worker's token: make one with `cubby token create --worker NAME`");
    if (!hello->worker && who->scope == SCOPE_WORKER)
        return err_set(err, ERR_DENIED, "this is a worker's token: it joins with `cubby join --worker`");
    runner->user = hello->worker ? MACHINE_WORKERS : who->user ? who->user : RUNNER_USER;
    runner->name = who->runner;
    if (path_user && strcmp(path_user, runner->user) != 0)
        return err_set(err, ERR_DENIED, "this token does not belong to user '%.128s', whom the path names", path_user);
    if (*hello->user && strcmp(hello->user, runner->user) != 0)
        return err_set(err, ERR_DENIED, "this token does not belong to user '%.128s', whom the message names",
                       hello->user);
    if (*hello->name && strcmp(hello->name, runner->name) != 0)
        return err_set(err, ERR_DENIED, "this token is for a machine with the name '%s', not '%.64s'", runner->name,
                       hello->name);
    return 0;
}

/* A token of a cluster's identities, not of ours: three parts with dots between. NULL: it is not one. */
static const char *join_runner_foreign(const struct runner *runner) {
    const char *header = http_header(runner->request, "authorization");
    const char *token = header && strncasecmp(header, "Bearer ", 7) == 0 ? header + 7 : runner->hello.token;
    const char *dot = token ? strchr(token, '.') : NULL;
    return runner->front->env->identify && dot && strchr(dot + 1, '.') ? token : NULL;
}

/* While identities cannot be asked for, a worker that was identified before comes back by its session's id, which no
 * other party knows. */
static int join_runner_identify(struct runner *runner, const char *token, struct err *err) {
    const struct backend_env *env = runner->front->env;
    char name[LIMIT_RUNNER_BYTES + 1];
    const char *session = runner->hello.session;
    int failed = env->identify(env->identify_user, token, name, err);
    if (failed == -ERR_BUSY && *session && machine_of_session(env->machines, MACHINE_WORKERS, session, name))
        failed = 0;
    return failed
               ?: auth_admit_worker(runner->front->auth, runner->request, name, &trail_of(runner->request)->who, err);
}

static int join_runner_admit(struct runner *runner, bool by_header, struct err *err) {
    struct http_request *request = runner->request;
    struct auth *auth = runner->front->auth;
    const char *token = runner->hello.token;
    if (by_header)
        return auth_admit(auth, request, AUTH_RUNNER | AUTH_WRITES, &trail_of(request)->who, err);
    if (!*token)
        return err_set(
            err, ERR_UNAUTHORIZED,
            "a token is needed: 'Authorization: Bearer TOKEN' with the upgrade, or auth_token in the message");
    return auth_admit_token(auth, request, token, AUTH_RUNNER | AUTH_WRITES, &trail_of(request)->who, err);
}

/* no: what is wrong with the token that came with the upgrade. The message is still read, because its form decides the
 * form of the refusal. */
static int join_runner_register(struct runner *runner, const struct err *no, struct err *err) {
    bool by_header = http_header(runner->request, "authorization");
    int failed = join_runner_first(runner, err);
    if (no->code && err->code != ERR_GONE)
        *err = *no;
    if (no->code)
        return -err->code;
    const char *foreign = failed ? NULL : join_runner_foreign(runner);
    if (foreign)
        failed = join_runner_identify(runner, foreign, err);
    else if (!failed && !by_header)
        failed = join_runner_admit(runner, false, err);
    return failed ? failed : join_runner_agrees(runner, err);
}

/* Rule 2. A token that came with the upgrade was checked before. */
static int join_runner_open(struct runner *runner, struct err *err) {
    struct err no = {0};
    bool known = http_header(runner->request, "authorization") && !join_runner_foreign(runner) &&
                 join_runner_admit(runner, true, &no) == 0;
    if (!known) {
        struct runner_table *table = join_state(runner->front);
        /* "10.0.0.7:4711 uid:0" without the port; a unix socket, " uid:0", only has the user. */
        const char *peer = http_peer_text(runner->request);
        size_t len = strcspn(peer, " ");
        while (len && peer[len - 1] != ':')
            len--;
        runner->host = arena_copy(http_arena(runner->request), peer, len ? len - 1 : strlen(peer));
        runner->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        pthread_mutex_lock(&table->lock);
        if (table->stranger_count == LIMIT_REGISTER_WAITING) {
            struct runner *oldest = table->strangers[0];
            size_t most = 0;
            for (size_t i = 0; i < table->stranger_count; i++) {
                size_t same = 0;
                for (size_t k = i; k < table->stranger_count; k++)
                    same += strcmp(table->strangers[i]->host, table->strangers[k]->host) == 0;
                if (same > most) {
                    most = same;
                    oldest = table->strangers[i];
                }
            }
            join_runner_stranger_remove_locked(table, oldest);
            oldest->displaced = true;
            eventfd_write(oldest->wake, 1); /* -1: it checks every second */
        }
        table->strangers[table->stranger_count++] = runner;
        pthread_mutex_unlock(&table->lock);
    }
    int failed = ws_accept(runner->request, LIMIT_REGISTER_BYTES, &runner->ws, err);
    if (!failed)
        failed = join_runner_register(runner, &no, err);
    if (!known)
        join_runner_stranger_leave(runner);
    return failed;
}

/* ---- serving ---- */

static int join_runner_tick(void *user, struct err *err) {
    struct runner *runner = user;
    struct runner_table *table = join_state(runner->front);
    autolock(&table->lock);
    enum runner_leaving leaving = runner->leaving;
    return leaving == STAYS ? 0 : err_set(err, ERR_GONE, "%s", join_runner_leaving_why(runner, leaving));
}

static unsigned join_runner_closed(void *websocket) {
    return websocket_closed(websocket);
}

static int join_runner_serve(struct runner *runner, struct machine_conn *conn, struct err *err) {
    const struct runner_hello *hello = &runner->hello;
    struct websocket *websocket = ws_websocket(runner->ws);
    struct pump_socket socket = pump_websocket(websocket, http_fd(runner->request), hello->text || !hello->link);
    socket.closed = join_runner_closed;
    if (hello->link)
        return machine_serve_link(conn, &socket, join_runner_tick, runner, err);
    const struct machine_text_options options = {.nested = hello->nested, .no_workspace = hello->no_workspace};
    return machine_serve_text(conn, &socket, &options, join_runner_tick, runner, err);
}

static int runner_join(struct runner *runner, struct err *err) {
    struct runner_table *table = join_state(runner->front);
    const char *peer = http_peer_text(runner->request); /* "10.0.0.7:4711 uid:0"; a unix socket only has the user */
    size_t peer_len = strcspn(peer, " ");
    const struct runner_hello *said = &runner->hello;
    const struct machine_hello hello = {
        .user = runner->user,
        .name = runner->name,
        .workspace = said->workspace,
        .shell = said->shell,
        .version = said->version,
        .isolation = said->isolation,
        .platform = said->platform,
        .address = peer_len ? arena_copy(http_arena(runner->request), peer, peer_len) : "local",
        .can = said->can,
        .templates = said->templates,
        .boxes_max = said->boxes_max,
        .memory_mb = said->memory_mb,
    };
    char session[33];
    bool resumed;
    uint64_t received;
    struct machine_conn *conn;
    STEP(machine_enter(runner->front->env->machines, &hello, !said->link, said->session, said->received, session,
                       &resumed, &received, &conn, err));
    trail_note(runner->request,
               arena_printf(http_arena(runner->request), "machine=%s%s", runner->name, resumed ? " again" : ""));
    trail_running(runner->request);
    ws_limit(runner->ws, said->link ? LINK_MESSAGE_BYTES : LIMIT_TEXT_MESSAGE_BYTES);
    pthread_mutex_lock(&table->lock);
    runner->next = table->runners;
    table->runners = runner;
    pthread_mutex_unlock(&table->lock);
    http_lasting(runner->request, join_runner_cut, runner);
    if (http_is_cut(runner->request) || http_server_stopping(runner->front->server))
        join_runner_cut(runner); /* the end came before join_runner_cut was registered */
    int failed = join_runner_welcome(runner, session, resumed, received, err);
    if (failed)
        machine_leave(conn);
    else
        failed = join_runner_serve(runner, conn, err);
    http_lasting(runner->request, NULL, NULL);
    pthread_mutex_lock(&table->lock);
    struct runner **at = &table->runners;
    while (*at != runner)
        at = &(*at)->next;
    *at = runner->next;
    pthread_mutex_unlock(&table->lock);
    return failed;
}

static int join_runner_run(struct http_request *request, struct box *, struct err *err) {
    struct runner runner = {.request = request, .front = front_of(request), .wake = -1};
    if (!runner.front->env->machines)
        return err_set(err, ERR_UNSUPPORTED, "machines cannot join this daemon: it has no machine backend");
    int failed = join_runner_open(&runner, err);
    if (!runner.ws)
        return failed;
    if (!failed)
        failed = runner_join(&runner, err);
    if (runner.leaving == REVOKED || runner.leaving == SENT_AWAY)
        failed = err_set(err, runner.leaving == REVOKED ? ERR_UNAUTHORIZED : ERR_DENIED, "%s",
                         join_runner_leaving_why(&runner, runner.leaving));
    if (err->code != ERR_GONE)
        join_runner_error(&runner, err);
    trail_quote(request, err->text);
    log_info("%s machine %s of %s: %s", http_request_id(request), runner.name ? runner.name : "-",
             runner.user ? runner.user : "-", err->text);
    ws_close(runner.ws, runner.leaving == STOPPING ? 1001 : join_runner_close_code(err->code), err->text);
    return failed == -ERR_GONE ? 0 : -failed;
}

/* ---- the audit log and events ---- */

static void join_runner_report(struct front *front, const char *verb, const char *user, const char *name,
                               const char *why) {
    char detail[900];
    snprintf(detail, sizeof detail, "machine=%s%s%s", name, why ? ": " : "", why ? why : "");
    audit_event(front->audit, verb, NULL, user, detail);
    const struct box_event event = {.verb = verb, .user = user, .backend = "remote", .machine = name, .detail = why};
    events_put(front->events, &event);
}

void runner_online(struct front *front, const char *user, const char *name, bool again) {
    join_runner_report(front, "machine_joined", user, name, again ? "again" : NULL);
}

void runner_offline(struct front *front, const char *user, const char *name, const char *why) {
    join_runner_report(front, "machine_left", user, name, why);
}

/* ---- routes ---- */

#define JOIN ENDPOINT(.run = join_runner_run, .flags = ENDPOINT_OPEN | ENDPOINT_RUNNER | ENDPOINT_WRITES, .status = 101)

static const struct route join_routes[] = {
    {"GET", "/runner/ws", front_handle, 0, "runner",
     "A machine joins, over a WebSocket: its first message registers it. For tokens of scope runner.", JOIN},
    {"GET", "/ws", front_handle, 0, "runner_bare", "The same, at the path that other runners use.", JOIN},
    {"GET", "/ws/{user}", front_handle, 0, "runner_user", "The same; the user must be that of the token.", JOIN},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

static const struct route *const join_tables[] = {join_routes, machine_routes, worker_routes, NULL};
const struct dialect join_dialect = {
    .name = "join", .routes = join_tables, .open = join_open, .close = join_close, .measure = join_measure};
