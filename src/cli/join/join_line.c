/* The connection of `cubby join`: made, registered, served, made again. One thread runs it. Invariant: a session
 * that the server still has is resumed; one that it has forgotten ends with its channels, while the boxes keep
 * running; a refused token is not tried twice. */
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/utsname.h>

#include "base/base.h"
#include "base/sync.h"
#include "cli/join/join.h"
#include "http/client/client.h"
#include "http/websocket.h"

#define JOIN_ENDPOINT "/runner/ws"
#define LINE_MESSAGE_BYTES (2u << 20) /* the longest record, as text */

enum {
    WAIT_MIN_MS = 1000,
    WAIT_MAX_MS = 60000,
    WAIT_GRACE_MS = 5000, /* calls at the server wait this long for us */
    GOOD_MS = 10000,      /* a connection that lasted this long was good */
    ANSWER_MS = 20000,    /* for the answer to the registration: the server may first check the old connection */
    SILENT_MS = 8000,     /* without a record after registering: the server asks for its box at once */
    GOODBYE_MS = 1000,
    TEXT_TRIES = 2, /* connections that registered and then carried no record */
};

struct join_line { /* state kept between connections */
    struct join *join;
    char session[33];
    uint64_t grace_ms, lost_at_ms;
    unsigned wait_ms;
    unsigned silent; /* consecutive connections that registered and carried nothing */
    bool text;
    size_t at; /* of the servers */
    /* of this connection */
    struct http_client *client;
    struct http_socket *socket;
    struct websocket *websocket; /* of socket */
    bool registered, fatal;
    uint64_t since_ms;
};

void join_line_leave(struct join *join, const char *why) {
    pthread_mutex_lock(&join->lock);
    join->ending = true;
    snprintf(join->why, sizeof join->why, "%s", why);
    if (join->session)
        pump_leave(join->session->pump, why);
    pthread_mutex_unlock(&join->lock);
    eventfd_write(join->wake_line, 1);
}

const char *join_address(struct arena *arena, const char *server) {
    static const char *const schemes[][2] = {{"ws://", "http://"},
                                             {"wss://", "https://"},
                                             {"http://", "http://"},
                                             {"https://", "https://"},
                                             {"unix:", "unix:"}};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t len = strlen(schemes[i][0]);
        if (strncasecmp(server, schemes[i][0], len) != 0 || !server[len])
            continue;
        char *address = arena_printf(arena, "%s%s", schemes[i][1], server + len);
        for (len = strlen(address); len && address[len - 1] == '/'; len--)
            address[len - 1] = 0;
        size_t endpoint = strlen(JOIN_ENDPOINT);
        if (len > endpoint && strcmp(address + len - endpoint, JOIN_ENDPOINT) == 0)
            address[len - endpoint] = 0;
        return address;
    }
    return NULL;
}

/* ---- between connections ---- */

static bool line_ending(struct join *join) {
    autolock(&join->lock);
    return join->ending;
}

static void line_state(struct join *join, enum join_state state, const char *why, bool over, uint64_t next_try_ms) {
    pthread_mutex_lock(&join->lock);
    if (!join->ending) {
        join->state = state;
        join->over = over;
        join->next_try_ms = next_try_ms;
        if (why) {
            /* The reason may come from the server or a proxy: make it one harmless line. */
            autobuf shown = buf_max(4 * sizeof join->why);
            size_t len = strlen(why);
            while (len && (unsigned char)why[len - 1] <= ' ')
                len--;
            text_shown(&shown, why, len);
            const char *text = buf_cstr(&shown);
            snprintf(join->why, sizeof join->why, "%s", text ? text : "");
        }
        join->changes++;
    }
    pthread_mutex_unlock(&join->lock);
    eventfd_write(join->wake_main, 1);
}

static void line_after(struct join_line *line, int code, const struct err *err) {
    struct join *join = line->join;
    uint64_t now = clock_ms();
    bool good = line->registered && now - line->since_ms >= GOOD_MS;
    if (line->registered)
        line->lost_at_ms = now;
    if (line->fatal) {
        line_state(join, JOIN_OFFLINE, err->text, true, 0);
        return;
    }
    if (good)
        line->wait_ms = WAIT_MIN_MS;
    bool waited_for = line->lost_at_ms && now - line->lost_at_ms < line->grace_ms;
    unsigned wait_ms = waited_for && line->wait_ms > WAIT_GRACE_MS ? WAIT_GRACE_MS : line->wait_ms;
    uint32_t random = 0; /* up to a quarter more, so that machines do not all reconnect at once */
    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    bool next = join->servers[line->at + 1]; /* the other heads at once, then a pause */
    line->at = line->registered ? line->at : next ? line->at + 1 : 0;
    wait_ms = code == 0 || (!line->registered && next) ? 0 : wait_ms + random % (wait_ms / 4);
    line_state(join, JOIN_OFFLINE, err->text, false, now + wait_ms);
    struct pollfd wake = {.fd = join->wake_line, .events = POLLIN};
    poll(&wake, 1, (int)wait_ms);
    uint64_t most_ms = join->servers[1] ? WAIT_MIN_MS : WAIT_MAX_MS; /* one of several heads is back soon */
    if (line->at == 0 || line->registered)
        line->wait_ms = line->wait_ms * 2 > most_ms ? (unsigned)most_ms : line->wait_ms * 2;
}

/* ---- registration ---- */

static void line_register(struct join_line *line, uint64_t received, struct buf *out) {
    struct join *join = line->join;
    struct utsname machine = {0};
    uname(&machine);
    const char *rows[][2] = {
        {"name", join->values.name},
        {"workspace", join->workspace},
        {"shell", join->values.shell},
        {"version", CUBBY_VERSION},
        {"isolation", join->isolated ? "jail" : "none"},
        {"platform", arena_printf(&join->cli->arena, "%s %s", machine.sysname, machine.machine)},
        {"can", join->can},
        {"session", line->session},
        {"kind", join->values.worker ? "worker" : NULL},
        {"templates", join->templates},
    };
    struct json json = json_begin(out);
    json_put_str(&json, "type", "register");
    json_put_open(&json, "body", '{');
    json_put_uint(&json, "link", LINK_VERSION);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        json_put_some(&json, rows[i][0], rows[i][1]);
    json_put_uint(&json, "received", received);
    if (join->values.worker) {
        json_put_uint(&json, "boxes_max", join->values.boxes);
        json_put_uint(&json, "memory_mb", join->values.memory_mb);
    }
    json_put_bool(&json, "text", line->text);
    json_close(&json, '}');
    json_close(&json, '}');
}

/* Returns whether a retry is useless. Before there is a WebSocket a proxy may have refused, or shown its own
 * certificate. For a machine that was already joined that may pass, since networks change. */
static bool line_final(const struct join_line *line, int code) {
    static const int codes[] = {ERR_UNAUTHORIZED, ERR_DENIED, ERR_INVALID, ERR_UNSUPPORTED};
    if (code == -ERR_DENIED && !line->websocket && line->lost_at_ms)
        return false;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (code == -codes[i])
            return true;
    return false;
}

/* Returns why the server closed, as a code; err already has the text. */
static int line_gone(struct join_line *line, struct err *err) {
    static const struct {
        unsigned close;
        enum err_code code;
    } rows[] = {
        {4400, ERR_PROTOCOL}, {4401, ERR_UNAUTHORIZED}, {4403, ERR_DENIED}, {4409, ERR_EXISTS}, {4429, ERR_LIMIT}};
    unsigned close = line->websocket ? websocket_closed(line->websocket) : 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (close == rows[i].close)
            err->code = rows[i].code;
    return -err->code;
}

/* Waits for the next message, which must be text. */
static int line_message(struct join_line *line, const char **ret_text, size_t *ret_len, struct err *err) {
    uint64_t until_ms = clock_ms() + ANSWER_MS;
    for (;;) {
        bool text;
        const uint8_t *data;
        size_t len;
        int code = http_socket_recv(line->socket, &text, &data, &len, err);
        if (code < 0)
            return line_gone(line, err);
        if (code > 0 && !text)
            return err_set(err, ERR_PROTOCOL, "the server answered the registration with bytes");
        if (code > 0) {
            *ret_text = (const char *)data;
            *ret_len = len;
            return 0;
        }
        uint64_t now = clock_ms();
        struct pollfd wait[2] = {{.fd = http_socket_fd(line->socket), .events = POLLIN},
                                 {.fd = line->join->wake_line, .events = POLLIN}};
        if (now >= until_ms)
            return err_set(err, ERR_TIMEOUT, "the server does not answer the registration");
        if (poll(wait, 2, (int)(until_ms - now)) > 0 && wait[1].revents)
            return err_set(err, ERR_GONE, "%s", "ended while connecting");
    }
}

struct line_welcome {
    bool resumed, loads;
    uint64_t received;
};

static void line_copy_text(char *out, size_t size, const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    autobuf shown = buf_max(4096);
    if (text)
        text_shown(&shown, text, strnlen(text, 512));
    const char *safe = buf_cstr(&shown);
    snprintf(out, size, "%s", safe ? safe : "");
}

/* A head with a lower epoch was replaced by another one, and must not change anything here. */
static int line_epoch(struct join *join, const json_t *body, struct err *err) {
    json_int_t said = json_integer_value(json_object_get(body, "epoch"));
    uint64_t epoch = said > 0 ? (uint64_t)said : 0;
    if (!join->values.worker || epoch == join->epoch)
        return 0;
    if (epoch < join->epoch)
        return err_set(err, ERR_EXISTS, "%s is a head of epoch %llu, and this worker has served epoch %llu",
                       join->server, (unsigned long long)epoch, (unsigned long long)join->epoch);
    const char *text = text_make(24, "%llu", (unsigned long long)epoch);
    int r = fd_replace_file(AT_FDCWD, text_make(4300, "%s/epoch", join->env.state_dir), text, strlen(text));
    if (r < 0)
        return err_errno(err, -r, "noting the epoch of %s", join->server);
    join->epoch = epoch;
    return 0;
}

static int line_welcomed(struct join_line *line, const char *text, size_t len, struct line_welcome *ret,
                         struct err *err) {
    struct join *join = line->join;
    json_error_t bad;
    json_auto_t *answer = json_loadb(text, len, 0, &bad);
    const json_t *body = json_object_get(answer, "body");
    const char *type = json_string_value(json_object_get(answer, "type")), *session;
    json_int_t received = 0, grace_ms = 0;
    int resumed = 0, code = 0;
    if (type && strcmp(type, "error") == 0) {
        char message[sizeof err->text];
        const char *name = json_string_value(json_object_get(body, "code"));
        line_copy_text(message, sizeof message, body, "message");
        code = err_set(err, (enum err_code)remote_code(name ? name : ""), "%s", message);
    } else if (!type || strcmp(type, "register_ok") != 0 ||
               json_unpack((json_t *)body, "{s:s,s:b,s:I,s:I}", "session", &session, "resumed", &resumed, "received",
                           &received, "grace_ms", &grace_ms) < 0 ||
               strlen(session) != 32 || received < 0 || grace_ms < 0) {
        code = err_set(err, ERR_PROTOCOL, "the server sent an invalid answer to the registration");
    } else if ((code = line_epoch(join, body, err)) == 0) {
        memcpy(line->session, session, 33);
        line->grace_ms = (uint64_t)grace_ms;
        *ret = (struct line_welcome){.resumed = resumed,
                                     .received = (uint64_t)received,
                                     .loads = join->values.worker && json_is_true(json_object_get(body, "loads"))};
        pthread_mutex_lock(&join->lock);
        line_copy_text(join->user, sizeof join->user, body, "user");
        line_copy_text(join->name, sizeof join->name, body, "name");
        pthread_mutex_unlock(&join->lock);
    }
    return code;
}

/* ---- the session ---- */

static void line_session_latency(struct join_session *session) {
    atomic_store(&session->join->latency_us, websocket_latency_us(session->websocket));
}

/* What boxes here may still take: memory of the machine that is available, within what this worker was given. */
static void line_session_load(struct join_session *session) {
    uint64_t most_mb = session->join->values.memory_mb, free_kb = 0;
    char text[4096];
    const char *at =
        fd_read_file(AT_FDCWD, "/proc/meminfo", text, sizeof text) > 0 ? strstr(text, "MemAvailable:") : NULL;
    if (!at || sscanf(at, "MemAvailable: %" SCNu64, &free_kb) != 1)
        return;
    struct buf out = buf_max(256);
    buf_printf(&out, "{\"type\":\"load\",\"free_mb\":%llu}",
               (unsigned long long)(free_kb >> 10 < most_mb ? free_kb >> 10 : most_mb));
    pump_say(session->pump, &out, ERR_IGNORED);
    buf_done(&out);
}

/* If the connection is alive but nothing binary arrives, a proxy drops it. */
static int line_session_tick(void *user, struct err *err) {
    struct join_session *session = user;
    line_session_latency(session);
    if (session->loads)
        line_session_load(session);
    bool silent = session->binary && pump_received(session->pump) == 0;
    if (silent && clock_ms() - session->since_ms >= SILENT_MS)
        return err_set(err, ERR_GONE, "no binary message comes through; continuing with text");
    return 0;
}

static void line_session_ask(void *user, uint32_t number, const void *json, size_t len) {
    line_session_latency(user);
    join_ask(user, number, json, len);
}

static const struct pump_events session_events = {.ask = line_session_ask, .tick = line_session_tick};

/* Returns the resumed session, or a new one; then ends the rest of one that the server has forgotten. */
static struct join_session *line_session(struct join_line *line, bool resumed) {
    struct join *join = line->join;
    pthread_mutex_lock(&join->lock);
    struct join_session *old = join->session, *session = old;
    if (!resumed || !old) {
        session = xcalloc(1, sizeof *session);
        *session = (struct join_session){.join = join, .refs = 1, .pump = pump_new(&session_events, session)};
        join->session = session;
    } else {
        old = NULL;
    }
    pthread_mutex_unlock(&join->lock);
    if (old) {
        pump_end(old->pump, "the server has forgotten the session");
        join_session_unref(old);
    }
    return session;
}

static int line_serve(struct join_line *line, const struct line_welcome *welcome, struct err *err) {
    struct join *join = line->join;
    struct join_session *session = line_session(line, welcome->resumed);
    struct pump_socket socket = pump_websocket(line->websocket, http_socket_fd(line->socket), line->text);
    session->websocket = line->websocket;
    session->binary = !line->text;
    session->loads = welcome->loads;
    session->since_ms = clock_ms();
    line->registered = true;
    line->since_ms = clock_ms();
    line_state(join, JOIN_ONLINE, NULL, false, 0);
    if (line_ending(join))
        return err_set(err, ERR_GONE, "this machine is leaving");
    pump_run(session->pump, &socket, welcome->received, err);
    /* A proxy that drops or refuses binary messages passes the registration and then nothing. The server asks for its
     * box as soon as a machine has registered. So if nothing ever arrived, over several connections, a proxy is the
     * reason. */
    bool dropped = clock_ms() - session->since_ms >= SILENT_MS;
    line->silent = pump_received(session->pump) == 0 ? line->silent + (dropped ? TEXT_TRIES : 1) : 0;
    line->text = line->text || line->silent >= TEXT_TRIES;
    return line_gone(line, err);
}

/* ---- one connection ---- */

static int line_open(struct join_line *line, struct line_welcome *ret_welcome, struct err *err) {
    struct join *join = line->join;
    autobuf message = buf_max(LIMIT_REGISTER_BYTES);
    const char *text = NULL;
    size_t len = 0;
    pthread_mutex_lock(&join->lock);
    join->server = join->servers[line->at];
    pthread_mutex_unlock(&join->lock);
    char fresh[4096]; /* a token in a file may have been renewed: a pod's is, every hour */
    ssize_t read = join->values.token_file ? fd_read_file(AT_FDCWD, join->values.token_file, fresh, sizeof fresh) : 0;
    if (read > 0)
        fresh[strcspn(fresh, "\r\n")] = 0;
    TRY(http_client_new(join->server, read > 0 && *fresh ? fresh : join->token, &line->client, err));
    if (join->values.authority)
        TRY(http_client_ca(line->client, join->values.authority, err));
    TRY(http_client_ws(line->client, JOIN_ENDPOINT, &line->socket, err));
    line->websocket = http_socket_websocket(line->socket);
    websocket_limit(line->websocket, LINE_MESSAGE_BYTES);
    pthread_mutex_lock(&join->lock);
    uint64_t received = join->session ? pump_received(join->session->pump) : 0;
    pthread_mutex_unlock(&join->lock);
    line_register(line, received, &message);
    if (message.failed)
        return err_set(err, ERR_INVALID, "the description of this machine is too long to register it");
    TRY(http_socket_send(line->socket, true, message.data, message.len, err));
    TRY(line_message(line, &text, &len, err));
    return line_welcomed(line, text, len, ret_welcome, err);
}

/* Waits for the server to close: closing a connection with unread data may lose our last message. */
static void line_goodbye(struct join_line *line, const char *reason) {
    struct err gone;
    bool text;
    const uint8_t *data;
    size_t len;
    uint64_t end_ms = clock_ms() + GOODBYE_MS, now_ms;
    websocket_close(line->websocket, 1000, reason);
    while ((now_ms = clock_ms()) < end_ms) {
        int sent = websocket_flush(line->websocket, &gone), came;
        while ((came = websocket_recv(line->websocket, &text, &data, &len, &gone)) > 0)
            ;
        if (sent < 0 || came < 0)
            return;
        struct pollfd wait = {.fd = http_socket_fd(line->socket), .events = sent ? POLLIN : POLLIN | POLLOUT};
        poll(&wait, 1, (int)(end_ms - now_ms));
    }
}

static int line_once(struct join_line *line, struct err *err) {
    struct line_welcome welcome = {0};
    int code = line_open(line, &welcome, err) ?: line_serve(line, &welcome, err);
    line->fatal = line_final(line, code);
    if (line->socket) {
        bool ending = line_ending(line->join);
        if (ending && line->registered)
            line_goodbye(line, err->text);
        http_socket_end(line->socket, ending ? 1000 : 1001, err->text);
    }
    if (line->client)
        http_client_free(line->client);
    line->socket = NULL;
    line->websocket = NULL;
    line->client = NULL;
    return code;
}

void *join_line(void *user) {
    struct join *join = user;
    struct join_line line = {.join = join, .wait_ms = WAIT_MIN_MS, .text = join->values.text};
    struct err err;
    bool on = true;
    while (on) {
        line.registered = line.fatal = false;
        int code = line_once(&line, &err);
        line_after(&line, code, &err);
        pthread_mutex_lock(&join->lock);
        on = !join->ending && !join->over;
        pthread_mutex_unlock(&join->lock);
    }
    pthread_mutex_lock(&join->lock);
    struct join_session *session = join->session;
    join->session = NULL;
    join->line_done = true;
    pthread_cond_broadcast(&join->changed);
    pthread_mutex_unlock(&join->lock);
    if (session) {
        pump_end(session->pump, "this machine is leaving");
        join_session_unref(session);
    }
    eventfd_write(join->wake_main, 1);
    return NULL;
}
