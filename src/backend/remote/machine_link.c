/* A machine with a link (`cubby join`): boxes of its own backend, asked for by LINK_ASK, and their wires as channels.
 * The row machine_link_ops for the backend `remote`; machine_serve_link for front/join. Invariant:
 *
 * 1. A channel is open here before the machine is asked for it: the first bytes of its runner may come with the
 *    answer.
 * 2. A wire belongs to the box; the link keeps only the reason for its end, and sets it before the socket is closed.
 * 3. Answers of a machine are bounded and checked by their kind; an invalid one is PROTOCOL for that question. */
#include <sys/socket.h>

#include "base/base.h"
#include "backend/remote/machine_conn.h"
#include "base/json.h"
#include "base/sync.h"

enum {
    START_MS = 60000,
    HELLO_MS = 30000,
    STOP_MS = 60000,
    PAUSE_MS = 15000,
    USAGE_MS = 5000,
    GATE_MS = 10000,
    ANSWER_BYTES = 65536,
    LOAD_BYTES = 4096,
    ANSWER_DEPTH = 8, /* these two: more than any answer has */
    ANSWER_VALUES = 256,
    QUESTION_BYTES = 4 << 20
};

#define GATE_ID "0000000000000000" /* the machine's gate is of no box */

struct link_channel {
    struct link_channel *next;
    uint32_t number;
    struct wire_reason *reason;
};

struct link_session {
    struct pump *pump;
    int (*tick)(void *user, struct err *err); /* of the connection that is served; its thread's alone */
    void *tick_user;
    char name[LIMIT_USER_BYTES + 1];
    bool worker;
    struct machines *machines;
    pthread_mutex_t lock; /* what follows */
    struct link_channel *channels;
    bool ended;
    char why[200];
};

/* ---- channels ---- */

static void link_channel_drop_locked(struct link_channel **at) {
    struct link_channel *channel = *at;
    *at = channel->next;
    wire_reason_unref(channel->reason);
    free(channel);
}

/* A new one; those whose wires are gone are forgotten. GONE: the session is over. */
static int link_channel_add(struct link_session *link, uint32_t number, struct wire_reason *reason, struct err *err) {
    unsigned count = 0;
    autolock(&link->lock);
    for (struct link_channel **at = &link->channels; *at;)
        if (wire_reason_shared((*at)->reason)) {
            at = &(*at)->next;
            count++;
        } else {
            link_channel_drop_locked(at);
        }
    int r = link->ended ? err_set(err, ERR_GONE, "%s", link->why) : 0;
    if (r == 0 && count >= LIMIT_CHANNELS)
        r = err_set(err, ERR_LIMIT, "machine '%s' has %u running boxes, which is the limit", link->name, count);
    if (r == 0) {
        struct link_channel *channel = xcalloc(1, sizeof *channel);
        *channel = (struct link_channel){.next = link->channels, .number = number, .reason = reason};
        link->channels = channel;
    }
    return r;
}

static void machine_link_shut(void *user, uint32_t number, const char *why) {
    struct link_session *link = user;
    autolock(&link->lock);
    for (struct link_channel **at = &link->channels; *at; at = &(*at)->next)
        if ((*at)->number == number) {
            if (why && *why)
                wire_reason_set((*at)->reason, why);
            link_channel_drop_locked(at);
            break;
        }
}

/* ---- questions ---- */

/* Asks the machine: an object that says ok, for the caller to json_decref; or its error as ours. */
static int link_ask(struct link_session *link, uint32_t number, const struct buf *question, uint64_t timeout_ms,
                    json_t **ret_json, struct err *err) {
    if (question->failed)
        return err_set(err, ERR_TOO_LARGE, "the description of the box is too long for a machine");
    autobuf answer = buf_max(ANSWER_BYTES);
    int r = pump_ask(link->pump, number, question->data, question->len, timeout_ms, &answer, err);
    if (r < 0)
        return err_wrap(err, "machine '%s'", link->name);
    const char *code = NULL, *message = NULL;
    bool fits = json_measure((const char *)answer.data, answer.len, ANSWER_DEPTH, ANSWER_VALUES) == JSON_FITS;
    json_t *json = fits ? json_loadb((const char *)answer.data, answer.len, 0, NULL) : NULL;
    if (json_is_true(json_object_get(json, "ok"))) {
        *ret_json = json;
        return 0;
    }
    enum err_code ours = ERR_PROTOCOL;
    if (json && json_unpack(json, "{s:{s:s,s:s}}", "error", "code", &code, "message", &message) == 0) {
        for (int known = ERR_INVALID; known <= ERR_TIMEOUT; known++)
            if (strcmp(err_name(known), code) == 0)
                ours = (enum err_code)known;
        r = err_set(err, ours, "machine '%s': %.400s", link->name, message);
    } else {
        r = err_set(err, ERR_PROTOCOL, "machine '%s' sent an invalid answer", link->name);
    }
    json_decref(json);
    return r;
}

static void link_question(struct json *json, struct buf *out, const char *op, const char *id) {
    buf_init(out, QUESTION_BYTES);
    json_init(json, out);
    json_open(json, '{');
    json_put_str(json, "op", op);
    json_put_some(json, "id", id);
}

static void link_members(struct buf *out, const struct buf *members) {
    if (members && members->len) {
        buf_puts(out, ",");
        buf_put(out, members->data, members->len);
    }
}

/* A question whose answer is only ok. */
static int link_ask_plain(struct link_session *link, const char *op, const char *id, int keep_files,
                          uint64_t timeout_ms, struct err *err) {
    autobuf out;
    struct json json;
    json_auto_t *answer = NULL;
    link_question(&json, &out, op, id);
    if (keep_files >= 0)
        json_put_bool(&json, "keep_files", keep_files);
    json_close(&json, '}');
    return link_ask(link, pump_number(link->pump), &out, timeout_ms, &answer, err);
}

/* ---- a box ---- */

/* A worker is this server's and gets the whole spec; a user's machine has its own defaults. */
static void link_spec(struct json *json, const struct spec *spec, bool worker) {
    bool asked = spec->network_asked || worker || spec->network == NETWORK_POLICY; /* which begins with none */
    const char *network = !asked ? NULL : spec->network == NETWORK_OPEN ? "open" : "none";
    const char *const texts[][2] = {{"user", spec->user},   {"thread", spec->thread},
                                    {"agent", spec->agent}, {"shell", spec->shell},
                                    {"network", network},   {"template", worker ? spec->template_name : NULL}};
    json_put_open(json, "spec", '{');
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        json_put_some(json, texts[i][0], texts[i][1]);
    json_put_texts(json, "env", spec->env);
    if (worker)
        json_put_texts(json, "layers", spec->layers);
    json_put_open(json, "limits", '{');
    json_put_uint(json, "memory_mb", spec->limits.memory_mb);
    json_put_uint(json, "pids", spec->limits.pids);
    json_put_uint(json, "disk_mb", spec->limits.disk_mb);
    json_put_uint(json, "open_files", spec->limits.open_files);
    json_put_uint(json, "output_bytes", spec->limits.output_bytes);
    json_put_double(json, "cpus", spec->limits.cpus);
    json_close(json, '}');
    json_close(json, '}');
}

/* A question whose answer comes with a channel: our end of it. */
static int link_ask_channel(struct link_session *link, const struct buf *question, struct wire_reason *reason,
                            uint64_t timeout_ms, uint32_t *ret_number, int *ret_fd, struct err *err) {
    int pair[2];
    json_auto_t *answer = NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        wire_reason_unref(reason);
        return err_errno(err, errno, "a socket pair");
    }
    autofd ours = pair[0], theirs = pair[1];
    uint32_t number = pump_number(link->pump);
    int r = link_channel_add(link, number, reason, err);
    if (r < 0) {
        wire_reason_unref(reason);
        return r;
    }
    pump_open(link->pump, number, fd_take(&theirs));
    r = link_ask(link, number, question, timeout_ms, &answer, err);
    if (r < 0)
        pump_shut(link->pump, number, "not wanted any more");
    else
        *ret_fd = fd_take(&ours);
    *ret_number = number;
    return r;
}

static int machine_link_start(void *user, const struct spec *spec, bool fresh, struct wire **ret_wire,
                              struct err *err) {
    struct link_session *link = user;
    int fd;
    uint32_t number;
    autobuf out;
    struct json json;
    link_question(&json, &out, fresh ? "start" : "discover", spec->id);
    if (fresh)
        link_spec(&json, spec, link->worker);
    json_close(&json, '}');
    struct wire_reason *reason = wire_reason_new(), *kept = wire_reason_ref(reason);
    int r = link_ask_channel(link, &out, reason, START_MS, &number, &fd, err);
    if (r == 0 && (r = wire_new(fd, WIRE_PASS_NOTHING, HELLO_MS, ret_wire, err)) < 0) {
        err_wrap(err, "machine '%s': the runner did not start", link->name);
        pump_shut(link->pump, number, "not wanted any more");
    } else if (r == 0) {
        wire_set_reason(*ret_wire, kept);
    }
    wire_reason_unref(kept);
    return r;
}

/* The channel lasts as long as its socket. */
static int machine_link_gate(void *user, struct err *err) {
    struct link_session *link = user;
    int fd;
    uint32_t number;
    autobuf out;
    struct json json;
    link_question(&json, &out, "gate", GATE_ID);
    json_close(&json, '}');
    TRY(link_ask_channel(link, &out, wire_reason_new(), GATE_MS, &number, &fd, err));
    return fd;
}

static int machine_link_stop(void *user, const char *id, bool keep_files, struct err *err) {
    return link_ask_plain(user, "stop", id, keep_files, STOP_MS, err);
}

static int machine_link_pause(void *user, const char *id, bool pause, struct err *err) {
    return link_ask_plain(user, pause ? "pause" : "resume", id, -1, PAUSE_MS, err);
}

static int machine_link_usage(void *user, const char *id, struct usage *ret_usage, struct err *err) {
    struct link_session *link = user;
    struct usage usage = {0};
    autobuf out;
    struct json json;
    json_t *answer = NULL;
    link_question(&json, &out, "usage", id);
    json_close(&json, '}');
    TRY(link_ask(link, pump_number(link->pump), &out, USAGE_MS, &answer, err));
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

static int machine_link_channel(void *user, const char *op, const char *id, const struct buf *members,
                                uint64_t timeout_ms, int *ret_fd, struct err *err) {
    struct link_session *link = user;
    autobuf out;
    struct json json;
    uint32_t number;
    link_question(&json, &out, op, id);
    link_members(&out, members);
    json_close(&json, '}');
    return link_ask_channel(link, &out, wire_reason_new(), timeout_ms, &number, ret_fd, err);
}

static int machine_link_ask(void *user, const char *op, const char *id, const struct buf *members,
                            const struct spec *spec, uint64_t timeout_ms, json_t **ret_answer, struct err *err) {
    struct link_session *link = user;
    autobuf out;
    struct json json;
    link_question(&json, &out, op, id);
    link_members(&out, members);
    if (spec)
        link_spec(&json, spec, link->worker);
    json_close(&json, '}');
    return link_ask(link, pump_number(link->pump), &out, timeout_ms, ret_answer, err);
}

/* ---- the connection ---- */

/* Any answer to that number is one: a machine that does not know the question is there. */
static bool machine_link_answers(void *user, uint64_t timeout_ms) {
    struct link_session *link = user;
    struct err ignored;
    autobuf out, answer;
    struct json json;
    link_question(&json, &out, "ping", NULL);
    json_close(&json, '}');
    buf_init(&answer, ANSWER_BYTES);
    return pump_ask(link->pump, pump_number(link->pump), out.data, out.len, timeout_ms, &answer, &ignored) == 0;
}

static void machine_link_leave(void *user, const char *why) {
    struct link_session *link = user;
    pump_leave(link->pump, why);
}

static void machine_link_end(void *user, const char *why) {
    struct link_session *link = user;
    pthread_mutex_lock(&link->lock);
    if (!link->ended)
        snprintf(link->why, sizeof link->why, "%s", why);
    link->ended = true;
    for (struct link_channel *channel = link->channels; channel; channel = channel->next)
        wire_reason_set(channel->reason, link->why);
    while (link->channels)
        link_channel_drop_locked(&link->channels);
    pthread_mutex_unlock(&link->lock);
    pump_end(link->pump, why);
}

static void machine_link_free(void *user) {
    struct link_session *link = user;
    while (link->channels)
        link_channel_drop_locked(&link->channels);
    pump_free(link->pump);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

static int machine_link_tick(void *user, struct err *err) {
    struct link_session *link = user;
    return link->tick ? link->tick(link->tick_user, err) : 0;
}

/* {"type":"load","free_mb":N} of a worker. */
static int machine_link_text(void *user, const void *data, size_t len, struct err *err) {
    struct link_session *link = user;
    json_int_t free_mb = -1;
    const char *type = "";
    bool fits = link->worker && len <= LOAD_BYTES && json_measure(data, len, ANSWER_DEPTH, ANSWER_VALUES) == JSON_FITS;
    json_auto_t *json = fits ? json_loadb(data, len, 0, NULL) : NULL;
    if (!json || json_unpack(json, "{s:s,s:I}", "type", &type, "free_mb", &free_mb) < 0 || strcmp(type, "load") != 0 ||
        free_mb < 0)
        return err_set(err, ERR_PROTOCOL, "a text message that is neither a record nor a report of a worker's load");
    machine_load_set(link->machines, MACHINE_WORKERS, link->name, (uint64_t)free_mb);
    return 0;
}

static const struct pump_events machine_link_events = {
    .shut = machine_link_shut, .tick = machine_link_tick, .text = machine_link_text};

static void *machine_link_new(struct machines *machines, const char *name, bool worker) {
    struct link_session *link = xcalloc(1, sizeof *link);
    link->machines = machines;
    link->worker = worker;
    snprintf(link->name, sizeof link->name, "%s", name);
    pthread_mutex_init(&link->lock, NULL);
    link->pump = pump_new(&machine_link_events, link);
    return link;
}

uint64_t machine_link_received(void *user) {
    struct link_session *link = user;
    return pump_received(link->pump);
}

static const struct machine_ops machine_link_ops = {
    .start = machine_link_start,
    .stop = machine_link_stop,
    .usage = machine_link_usage,
    .pause = machine_link_pause,
    .ask = machine_link_ask,
    .gate = machine_link_gate,
    .open = machine_link_channel,
    .answers = machine_link_answers,
    .leave = machine_link_leave,
    .end = machine_link_end,
    .free = machine_link_free,
};

int machine_serve_link(struct machine_conn *conn, const struct pump_socket *socket,
                       int (*tick)(void *user, struct err *err), void *tick_user, struct err *err) {
    struct link_session *link = conn->session->connection, *made = NULL;
    if (!link)
        link = made =
            machine_link_new(conn->machines, conn->hello->name, strcmp(conn->hello->user, MACHINE_WORKERS) == 0);
    link->tick = tick;
    link->tick_user = tick_user;
    int r = machine_conn_begin(conn, &machine_link_ops, made, socket, err);
    if (r == 0)
        pump_run(link->pump, socket, conn->received, err);
    bool goodbye = socket->closed && socket->closed(socket->user) == 1000; /* it will not come back to this session */
    if (goodbye)
        err->why = WHY_LEFT;
    /* A broken rule or a lost right ends the session; a broken connection does not. */
    bool lives = err->code == ERR_GONE || err->code == ERR_TIMEOUT || err->code == ERR_IO;
    return machine_conn_end(conn, lives && !goodbye, err);
}
