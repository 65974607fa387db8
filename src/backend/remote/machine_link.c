/* A machine with a link (`cubby join`): boxes of its own backend, asked for by LINK_ASK, and their wires as channels. The
 * row machine_link_ops for the backend `remote`; machine_serve_link for the door. Invariant:
 *
 * 1. A channel is open here before the machine is asked for it: what its runner says first may come with the answer.
 * 2. A wire belongs to the box; the peer keeps only the reason that its calls shall hear, and tells it before the socket
 *    is closed.
 * 3. What a machine answers is bounded and checked by its kind; an answer that makes no sense is PROTOCOL for that
 *    question, and nothing is ever taken from it but what was asked. */
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/remote/machine_conn.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"

enum {
    START_MS = 60000,
    HELLO_MS = 30000,
    STOP_MS = 60000,
    PAUSE_MS = 15000,
    USAGE_MS = 5000,
    ANSWER_BYTES = 65536,
    QUESTION_BYTES = 4 << 20
};

struct channel {
    struct channel *next;
    uint32_t number;
    struct wire_reason *reason;
};

struct link_peer {
    struct pump *pump;
    int (*tick)(void *user, struct err *err); /* of the connection that is served; its thread's alone */
    void *tick_user;
    char name[LIMIT_USER_BYTES + 1];
    pthread_mutex_t lock; /* what follows */
    struct channel *channels;
    bool ended;
    char why[200];
};

/* ---- channels ---- */

static void channel_drop_locked(struct channel **at) {
    struct channel *channel = *at;
    *at = channel->next;
    wire_reason_unref(channel->reason);
    free(channel);
}

/* A new one; those whose wires are gone are forgotten. GONE: the session is over. */
static int channel_add(struct link_peer *peer, uint32_t number, struct wire_reason *reason, struct err *err) {
    unsigned count = 0;
    pthread_mutex_lock(&peer->lock);
    for (struct channel **at = &peer->channels; *at;)
        if (wire_reason_shared((*at)->reason)) {
            at = &(*at)->next;
            count++;
        } else {
            channel_drop_locked(at);
        }
    int r = peer->ended ? err_set(err, ERR_GONE, "%s", peer->why) : 0;
    if (r == 0 && count >= LIMIT_CHANNELS)
        r = err_set(err, ERR_LIMIT, "machine '%s' has %u running boxes, which is the limit", peer->name, count);
    if (r == 0) {
        struct channel *channel = xcalloc(1, sizeof *channel);
        *channel = (struct channel){.next = peer->channels, .number = number, .reason = reason};
        peer->channels = channel;
    }
    pthread_mutex_unlock(&peer->lock);
    return r;
}

static void peer_shut(void *user, uint32_t number, const char *why) {
    struct link_peer *peer = user;
    pthread_mutex_lock(&peer->lock);
    for (struct channel **at = &peer->channels; *at; at = &(*at)->next)
        if ((*at)->number == number) {
            if (why && *why)
                wire_reason_set((*at)->reason, why);
            channel_drop_locked(at);
            break;
        }
    pthread_mutex_unlock(&peer->lock);
}

/* ---- questions ---- */

enum { ANSWER_DEPTH = 8, ANSWER_VALUES = 256 }; /* more than any answer has */

static int code_of(const char *name) {
    for (int code = ERR_INVALID; code <= ERR_TIMEOUT; code++)
        if (strcmp(err_name(code), name) == 0)
            return code;
    return ERR_PROTOCOL;
}

/* What it answered: an object that says ok, for the caller to json_decref; or its error as ours. */
static int answer_read(const struct link_peer *peer, const struct buf *answer, json_t **ret_json, struct err *err) {
    json_error_t ignored;
    const char *code = NULL, *message = NULL;
    bool fits = !answer->failed &&
                json_measure((const char *)answer->data, answer->len, ANSWER_DEPTH, ANSWER_VALUES) == JSON_FITS;
    json_t *json = fits ? json_loadb((const char *)answer->data, answer->len, 0, &ignored) : NULL;
    if (json_is_true(json_object_get(json, "ok"))) {
        *ret_json = json;
        return 0;
    }
    int r;
    if (json && json_unpack(json, "{s:{s:s,s:s}}", "error", "code", &code, "message", &message) == 0)
        r = err_set(err, (enum err_code)code_of(code), "machine '%s': %.400s", peer->name, message);
    else
        r = err_set(err, ERR_PROTOCOL, "machine '%s' gave an answer that is none", peer->name);
    json_decref(json);
    return r;
}

static int ask(struct link_peer *peer, uint32_t number, const struct buf *question, uint64_t timeout_ms,
               json_t **ret_json, struct err *err) {
    if (question->failed)
        return err_set(err, ERR_TOO_LARGE, "what the box should be is too long to tell a machine");
    autobuf answer = buf_max(ANSWER_BYTES);
    int r = pump_ask(peer->pump, number, question->data, question->len, timeout_ms, &answer, err);
    return r < 0 ? err_wrap(err, "machine '%s'", peer->name) : answer_read(peer, &answer, ret_json, err);
}

static void question_open(struct json *json, struct buf *out, const char *op, const char *id) {
    buf_init(out, QUESTION_BYTES);
    json_init(json, out);
    json_open(json, '{');
    json_put_str(json, "op", op);
    if (!id)
        return;
    json_put_str(json, "id", id);
}

/* A question whose answer is only ok. */
static int ask_plain(struct link_peer *peer, const char *op, const char *id, int keep_files, uint64_t timeout_ms,
                     struct err *err) {
    autobuf out;
    struct json json;
    json_t *answer = NULL;
    question_open(&json, &out, op, id);
    if (keep_files >= 0)
        json_put_bool(&json, "keep_files", keep_files);
    json_close(&json, '}');
    int r = ask(peer, pump_number(peer->pump), &out, timeout_ms, &answer, err);
    json_decref(answer);
    return r;
}

/* ---- a box ---- */

static void limits_json(struct json *json, const struct limits *limits) {
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {{"memory_mb", limits->memory_mb},
                {"pids", limits->pids},
                {"disk_mb", limits->disk_mb},
                {"open_files", limits->open_files},
                {"output_bytes", limits->output_bytes}};
    json_put_open(json, "limits", '{');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        json_put_uint(json, rows[i].name, rows[i].value);
    json_put_double(json, "cpus", limits->cpus);
    json_close(json, '}');
}

static void spec_json(struct json *json, const struct spec *spec) {
    const char *const texts[][2] = {
        {"user", spec->user},
        {"thread", spec->thread},
        {"agent", spec->agent},
        {"shell", spec->shell},
        {"network", !spec->network_asked            ? NULL
                    : spec->network == NETWORK_OPEN ? "open"
                                                    : "none"},
    };
    json_put_open(json, "spec", '{');
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i][1])
            json_put_str(json, texts[i][0], texts[i][1]);
    json_put_open(json, "env", '[');
    for (size_t i = 0; i < spec->env_count; i++)
        json_str(json, spec->env[i]);
    json_close(json, ']');
    limits_json(json, &spec->limits);
    json_close(json, '}');
}

/* The machine has put a runner at the other end of this socket. */
static int wire_begin(struct link_peer *peer, int fd, struct wire_reason *reason, struct wire **ret_wire,
                      struct err *err) {
    struct wire *wire;
    int r = wire_new(fd, WIRE_PASS_NOTHING, HELLO_MS, &wire, err);
    if (r < 0)
        return err_wrap(err, "machine '%s': the runner did not start", peer->name);
    wire_set_reason(wire, reason);
    *ret_wire = wire;
    return 0;
}

static int peer_start(void *user, const struct spec *spec, bool fresh, struct wire **ret_wire, struct err *err) {
    struct link_peer *peer = user;
    int pair[2];
    autobuf out;
    struct json json;
    json_t *answer = NULL;
    question_open(&json, &out, fresh ? "start" : "discover", spec->id);
    if (fresh)
        spec_json(&json, spec);
    json_close(&json, '}');
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "a socket pair");
    autofd ours = pair[0], theirs = pair[1];
    struct wire_reason *reason = wire_reason_new(), *kept = wire_reason_ref(reason);
    uint32_t number = pump_number(peer->pump);
    int r = channel_add(peer, number, reason, err);
    if (r < 0)
        wire_reason_unref(reason);
    if (r == 0) {
        pump_open(peer->pump, number, fd_take(&theirs));
        r = ask(peer, number, &out, START_MS, &answer, err);
        if (r == 0)
            r = wire_begin(peer, fd_take(&ours), kept, ret_wire, err);
        if (r < 0)
            pump_shut(peer->pump, number, "not wanted any more");
    }
    wire_reason_unref(kept);
    json_decref(answer);
    return r;
}

static int peer_stop(void *user, const char *id, bool keep_files, struct err *err) {
    return ask_plain(user, "stop", id, keep_files, STOP_MS, err);
}

static int peer_pause(void *user, const char *id, bool pause, struct err *err) {
    return ask_plain(user, pause ? "pause" : "resume", id, -1, PAUSE_MS, err);
}

static int peer_usage(void *user, const char *id, struct usage *ret_usage, struct err *err) {
    struct link_peer *peer = user;
    struct usage usage = {0};
    autobuf out;
    struct json json;
    json_t *answer = NULL;
    question_open(&json, &out, "usage", id);
    json_close(&json, '}');
    int r = ask(peer, pump_number(peer->pump), &out, USAGE_MS, &answer, err);
    if (r < 0)
        return r;
    const struct {
        const char *name;
        uint64_t *value;
        bool *has;
    } rows[] = {{"memory_bytes", &usage.memory_bytes, &usage.has_memory},
                {"cpu_ms", &usage.cpu_ms, &usage.has_cpu},
                {"pids", &usage.pids, &usage.has_pids},
                {"disk_bytes", &usage.disk_bytes, &usage.has_disk},
                {"oom_kills", &usage.oom_kills, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *value = json_object_get(answer, rows[i].name);
        bool has = json_is_integer(value) && json_integer_value(value) >= 0;
        *rows[i].value = has ? (uint64_t)json_integer_value(value) : 0;
        if (rows[i].has)
            *rows[i].has = has;
    }
    json_decref(answer);
    *ret_usage = usage;
    return 0;
}

/* ---- the connection ---- */

/* Any answer to that number is one: a machine that does not know the question is there. */
static bool peer_answers(void *user, uint64_t timeout_ms) {
    struct link_peer *peer = user;
    struct err ignored;
    autobuf out, answer;
    struct json json;
    question_open(&json, &out, "ping", NULL);
    json_close(&json, '}');
    buf_init(&answer, ANSWER_BYTES);
    return pump_ask(peer->pump, pump_number(peer->pump), out.data, out.len, timeout_ms, &answer, &ignored) == 0;
}

static void peer_leave(void *user, const char *why) {
    struct link_peer *peer = user;
    pump_leave(peer->pump, why);
}

static void peer_lost(void *user) {
    (void)user; /* what is under way waits in the pump */
}

static void peer_end(void *user, const char *why) {
    struct link_peer *peer = user;
    pthread_mutex_lock(&peer->lock);
    if (!peer->ended)
        snprintf(peer->why, sizeof peer->why, "%s", why);
    peer->ended = true;
    for (struct channel *channel = peer->channels; channel; channel = channel->next)
        wire_reason_set(channel->reason, peer->why);
    while (peer->channels)
        channel_drop_locked(&peer->channels);
    pthread_mutex_unlock(&peer->lock);
    pump_end(peer->pump, why);
}

static void peer_free(void *user) {
    struct link_peer *peer = user;
    while (peer->channels)
        channel_drop_locked(&peer->channels);
    pump_free(peer->pump);
    pthread_mutex_destroy(&peer->lock);
    free(peer);
}

static int peer_tick(void *user, struct err *err) {
    struct link_peer *peer = user;
    return peer->tick ? peer->tick(peer->tick_user, err) : 0;
}

static const struct pump_events peer_events = {.shut = peer_shut, .tick = peer_tick};

void *machine_link_new(const char *name) {
    struct link_peer *peer = xcalloc(1, sizeof *peer);
    snprintf(peer->name, sizeof peer->name, "%s", name);
    pthread_mutex_init(&peer->lock, NULL);
    peer->pump = pump_new(&peer_events, peer);
    return peer;
}

uint64_t machine_link_received(void *user) {
    struct link_peer *peer = user;
    return pump_received(peer->pump);
}

const struct machine_ops machine_link_ops = {
    .start = peer_start,
    .stop = peer_stop,
    .usage = peer_usage,
    .pause = peer_pause,
    .answers = peer_answers,
    .leave = peer_leave,
    .lost = peer_lost,
    .end = peer_end,
    .free = peer_free,
};

/* A broken rule or a lost right ends the session; a broken connection does not. */
static bool session_lives(int code) {
    return code == ERR_GONE || code == ERR_TIMEOUT || code == ERR_IO;
}

int machine_serve_link(struct machine_conn *conn, const struct pump_socket *socket,
                       int (*tick)(void *user, struct err *err), void *tick_user, struct err *err) {
    struct link_peer *peer = machine_conn_peer(conn), *made = NULL;
    if (!peer)
        peer = made = machine_link_new(machine_conn_name(conn));
    peer->tick = tick;
    peer->tick_user = tick_user;
    int r = machine_conn_begin(conn, &machine_link_ops, made, socket, err);
    if (r == 0)
        pump_run(peer->pump, socket, machine_conn_received(conn), err);
    bool goodbye = socket->closed && socket->closed(socket->user) == 1000; /* it will not come back to this session */
    return machine_conn_end(conn, session_lives(err->code) && !goodbye, err);
}
