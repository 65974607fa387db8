/* A running MCP server: its process, and the requests that wait for it. Called by server_talk.c and servers.c.
 *
 * Rules:
 * 1. The thread that set `leading` owns the call and all input: one thread at a time, set and cleared under the
 *    lock, used without it. No thread waits for a box with the lock held.
 * 2. A leader continues until it has its own answer; then it wakes a follower. A new request pokes the leader, which
 *    sends it.
 * 3. Dead is final: the reason is set once, and all waiting and later callers get it.
 * 4. Whatever a server sends, the worst effect is that it is stopped. */
#include <poll.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "tool/servers/server.h"
#include "base/sync.h"
#include "tool/servers/server_core.h"

enum { LOOK_TURNS = 64 };

/* ---- ending ---- */

static void server_vdie_locked(struct server *server, const char *format, va_list args) {
    if (server->dead)
        return;
    vsnprintf(server->why, sizeof server->why, format, args);
    server->dead = true;
    for (struct ask *ask = server->asks; ask; ask = ask->next)
        ask_wake(ask);
    eventfd_write(server->poke, 1);
}

void server_die_locked(struct server *server, const char *format, ...) {
    va_list args;
    va_start(args, format);
    server_vdie_locked(server, format, args);
    va_end(args);
}

void server_die(struct server *server, const char *format, ...) {
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&server->lock);
    server_vdie_locked(server, format, args);
    pthread_mutex_unlock(&server->lock);
    va_end(args);
}

/* Gets the last lines of its standard error, made printable; "" if there are none. */
static void server_errors(const struct server *server, char *text, size_t size) {
    size_t end = server->errors_len, begin = 0;
    const char *errors = server->errors;
    autobuf shown = buf_max(8 * sizeof server->errors);
    while (end && strchr(" \t\r\n", errors[end - 1]))
        end--;
    if (end > 200)
        begin = end - 200;
    while (begin && begin < end && ((unsigned char)errors[begin] & 0xc0) == 0x80)
        begin++;
    text_shown(&shown, errors + begin, end - begin);
    text[0] = 0;
    if (end > begin && buf_cstr(&shown))
        snprintf(text, size, "; its standard error ends with: %.240s", (const char *)shown.data);
}

static int server_exited(void *user, const struct exec_result *result, struct err *) {
    struct server *server = user;
    char errors[300];
    server_errors(server, errors, sizeof errors);
    if (result->exited)
        server_die(server, "it exited with code %d%s", result->exit_code, errors);
    else
        server_die(server, "it was killed by signal %d%s%s", result->signal,
                   result->oom_killed ? " (out of memory)" : "", errors);
    return 1;
}

/* Closes the call of a dead server, which ends its process. */
void server_settle(struct server *server) {
    struct box_duplex duplex = {0};
    pthread_mutex_lock(&server->lock);
    if (server->dead && !server->leading) {
        duplex = server->duplex;
        server->duplex = (struct box_duplex){0};
    }
    pthread_mutex_unlock(&server->lock);
    if (!duplex.call)
        return;
    buf_clear(&duplex.held);
    duplex.eof = true;
    box_duplex_flush(&duplex, ERR_IGNORED);
    box_duplex_close(&duplex);
}

void server_end(struct server *server, const char *why) {
    server_die(server, "%s", why);
    server_settle(server);
}

/* ---- the leader ---- */

/* Sends pending messages, as far as they are accepted. */
static int server_lead_send(struct server *server, struct err *err) {
    struct buf *held = &server->duplex.held;
    if (!held->len) {
        buf_done(held); /* frees the memory of a large message */
        pthread_mutex_lock(&server->lock);
        *held = server->out;
        server->out = buf_max(held->max);
        pthread_mutex_unlock(&server->lock);
    }
    return box_duplex_flush(&server->duplex, err);
}

static int server_lead_data(void *user, int stream, const uint8_t *data, size_t len, struct err *) {
    struct server *server = user;
    if (stream != STREAM_STDERR) {
        server_take(server, data, len);
        return 0;
    }
    size_t room = sizeof server->errors, n = len < room ? len : room, keep = room - n;
    if (server->errors_len > keep) {
        memmove(server->errors, server->errors + server->errors_len - keep, keep);
        server->errors_len = keep;
    }
    memcpy(server->errors + server->errors_len, data + (len - n), n);
    server->errors_len += n;
    return 0;
}

static int server_lead_poked(void *user, struct err *) {
    const struct server *server = user;
    eventfd_t ignored;
    eventfd_read(server->poke, &ignored);
    return 0;
}

static int server_lead_late(void *, struct err *) {
    return 1;
}

/* Takes one turn: sends pending messages and handles input. Returns false if nothing arrived until the deadline, or the
 * server is dead. watch: ends the turn when it hangs up; -1: none. */
static bool server_lead_turn(struct server *server, int watch, uint64_t deadline_ms) {
    static const struct box_stream hooks = {
        .data = server_lead_data, .wake = server_lead_poked, .tick = server_lead_late, .end = server_exited};
    struct err err;
    server->duplex.fd = watch;
    server->duplex.tick_ms = deadline_ms;
    int r = server_lead_send(server, &err) ?: box_duplex_turn(&server->duplex, &hooks, server, &err);
    if (r < 0)
        server_die(server, "%.380s", err.text);
    return r == 0;
}

bool server_look(struct server *server, struct err *err) {
    pthread_mutex_lock(&server->lock);
    if (!server->leading && !server->dead) {
        server->leading = true;
        pthread_mutex_unlock(&server->lock);
        for (unsigned i = 0; i < LOOK_TURNS && server_lead_turn(server, -1, clock_ms() + 1); i++)
            ;
        pthread_mutex_lock(&server->lock);
        server->leading = false;
        if (server->asks)
            ask_wake(server->asks);
    }
    bool alive = !server->dead;
    if (!alive)
        err_set(err, ERR_IO, "%s", server->why);
    pthread_mutex_unlock(&server->lock);
    server_settle(server);
    return alive;
}

/* ---- waiting threads ---- */

void ask_wake(struct ask *ask) {
    if (ask->wake >= 0)
        eventfd_write(ask->wake, 1);
}

void ask_enter_locked(struct server *server, struct ask *ask) {
    ask->next = server->asks;
    server->asks = ask;
}

/* Makes another waiting thread the leader. */
void ask_leave_locked(struct server *server, struct ask *ask) {
    struct ask **at = &server->asks;
    while (*at != ask)
        at = &(*at)->next;
    *at = ask->next;
    for (struct ask *other = server->asks; other && !server->leading; other = other->next)
        if (other->wake >= 0) {
            ask_wake(other);
            break;
        }
    fd_close(&ask->wake);
}

static bool server_hung_up(int watch) {
    struct pollfd look = {.fd = watch, .events = POLLRDHUP};
    return watch >= 0 && poll(&look, 1, 0) > 0;
}

int ask_wait_locked(struct server *server, struct ask *ask, const struct server_wait *wait, struct err *err) {
    int code = 0;
    while (code == 0) {
        if (ask->news_due) {
            char news[sizeof ask->news];
            size_t len = ask->news_len;
            memcpy(news, ask->news, len);
            ask->news_due = false;
            pthread_mutex_unlock(&server->lock);
            if (wait->progress)
                wait->progress(wait->user, news, len);
            pthread_mutex_lock(&server->lock);
        } else if (ask->done)
            break;
        else if (server->dead)
            code = err_set(err, ERR_IO, "%s", server->why);
        else if (server_hung_up(wait->watch))
            code = err_set(err, ERR_GONE, "the client went away");
        else if (clock_ms() >= wait->deadline_ms)
            code = err_set(err, ERR_TIMEOUT, "it did not answer in time");
        else if (!server->leading) {
            server->leading = true;
            pthread_mutex_unlock(&server->lock);
            server_lead_turn(server, wait->watch, wait->deadline_ms);
            pthread_mutex_lock(&server->lock);
            server->leading = false;
        } else {
            uint64_t now_ms = clock_ms();
            eventfd_t ignored;
            if (ask->wake < 0)
                ask->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
            struct pollfd look[2] = {{.fd = ask->wake, .events = POLLIN}, {.fd = wait->watch, .events = POLLRDHUP}};
            uint64_t left_ms = wait->deadline_ms > now_ms ? wait->deadline_ms - now_ms : 0;
            if (ask->wake < 0 && left_ms > 100)
                left_ms = 100; /* without a descriptor it cannot be woken, so it polls */
            pthread_mutex_unlock(&server->lock);
            poll(look, 2, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
            if (ask->wake >= 0)
                eventfd_read(ask->wake, &ignored);
            pthread_mutex_lock(&server->lock);
        }
    }
    return code;
}

/* ---- sending ---- */

static int server_put_bytes(const char *data, size_t len, void *user) {
    buf_put(user, data, len);
    return 0;
}

bool server_put_locked(struct server *server, json_t *message) {
    bool fits = server->out.len <= LIMIT_SERVER_UNREAD_BYTES;
    size_t before = server->out.len;
    json_object_set_new(message, "jsonrpc", json_string("2.0"));
    if (fits) {
        json_dump_callback(message, server_put_bytes, &server->out, JSON_COMPACT);
        buf_byte(&server->out, '\n');
        fits = !server->out.failed;
        if (!fits)
            server->out.len = before;
        server->out.failed = false;
    }
    json_decref(message);
    if (server->leading)
        eventfd_write(server->poke, 1);
    return fits;
}

int server_ask(struct server *server, const char *method, json_t *params, const struct server_wait *wait,
               json_t **ret_answer, struct err *err) {
    struct ask ask = {.wake = -1};
    json_t *message = json_pack("{s:s}", "method", method);
    int code = 0;
    pthread_mutex_lock(&server->lock);
    ask.id = ++server->last_id;
    json_object_set_new(message, "id", json_integer((json_int_t)ask.id));
    if (params && wait->progress) {
        json_t *meta = json_object_get(params, "_meta");
        if (!meta)
            json_object_set_new(params, "_meta", meta = json_object());
        json_object_set_new(meta, "progressToken", json_integer((json_int_t)ask.id));
    }
    if (params)
        json_object_set_new(message, "params", params);
    ask_enter_locked(server, &ask);
    if (!server_put_locked(server, message))
        code = err_set(err, ERR_BUSY, "it does not read its input");
    if (code == 0)
        code = ask_wait_locked(server, &ask, wait, err);
    if (code == -ERR_GONE || code == -ERR_TIMEOUT) {
        /* The client has gone: notify the server, at once if no other thread leads. */
        const char *why = code == -ERR_GONE ? "cancelled" : "timed out";
        server_put_locked(server, json_pack("{s:s,s:{s:I,s:s}}", "method", "notifications/cancelled", "params",
                                            "requestId", (json_int_t)ask.id, "reason", why));
        if (!server->leading && !server->dead) {
            server->leading = true;
            pthread_mutex_unlock(&server->lock);
            server_lead_send(server, ERR_IGNORED);
            pthread_mutex_lock(&server->lock);
            server->leading = false;
        }
    }
    ask_leave_locked(server, &ask);
    pthread_mutex_unlock(&server->lock);
    server_settle(server);
    if (code == 0)
        *ret_answer = ask.answer;
    else
        json_decref(ask.answer);
    return code;
}

/* ---- starting and stopping ---- */

int server_start(struct box *box, const struct server_spec *spec, const char *const *drops, struct server **ret_server,
                 struct err *err) {
    struct server *server = xcalloc(1, sizeof *server);
    atomic_init(&server->refs, 1);
    pthread_mutex_init(&server->lock, NULL);
    snprintf(server->name, sizeof server->name, "%s", spec->name);
    server->wire = wire_ref(box->wire);
    server->started_ms = clock_ms();
    server->start_timeout_ms = spec->start_timeout_ms;
    server->flood = (struct server_flood){
        .at_ms = server->started_ms, .messages = LIMIT_SERVER_FLOOD, .bytes = LIMIT_SERVER_FLOOD_BYTES};
    buf_init(&server->line, LIMIT_SERVER_MESSAGE_BYTES);
    buf_init(&server->out, LIMIT_SERVER_UNREAD_BYTES + LIMIT_JSON_BYTES + 4096);
    server->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server->duplex = (struct box_duplex){
        .fd = -1, .client = true, .deaf = true, .wake_fd = server->poke, .held = buf_max(server->out.max)};
    int code = server->poke < 0 ? err_errno(err, errno, "the daemon has no free file descriptor") : 0;
    if (code == 0) {
        const char *argv[LIMIT_SERVER_ARGS + 2] = {spec->command};
        for (size_t i = 0; spec->args && spec->args[i] && i < LIMIT_SERVER_ARGS; i++)
            argv[i + 1] = spec->args[i];
        const struct exec_request request = {
            .argv = argv, .env = (const char *const *)spec->env, .drops = drops, .cwd = spec->cwd};
        code = box_exec_open(box, &request, true, &server->duplex, err);
    }
    if (code == 0)
        *ret_server = server;
    else
        server_unref(server);
    return code;
}

struct server *server_ref(struct server *server) {
    atomic_fetch_add(&server->refs, 1);
    return server;
}

void server_unref(struct server *server) {
    if (!server || atomic_fetch_sub(&server->refs, 1) != 1)
        return;
    server_end(server, "it is no longer used");
    wire_unref(server->wire);
    fd_close(&server->poke);
    buf_done(&server->line);
    buf_done(&server->out);
    server_tools_unref(server->tools);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

bool server_box_alive(const struct server *server) {
    return wire_alive(server->wire);
}

uint64_t server_started_ms(const struct server *server) {
    return server->started_ms;
}

bool server_ready(struct server *server) {
    autolock(&server->lock);
    return server->ready && !server->dead;
}

void server_listed(struct server *server) {
    autolock(&server->lock);
    server->listed = server->changes;
}

bool server_relisted(struct server *server) {
    autolock(&server->lock);
    bool changed = server->listed != server->changes;
    server->listed = server->changes;
    return changed;
}
