/* One connection to a machine of the text form: requests, answers, wires, and the rows of machine_ops. Called by
 * machine.c and front/join/join.c. Invariant: an answer counts only for a request that was made and not yet answered,
 * and the end of the connection wakes every thread that waits; input is bounded in length, depth and number of values
 * before it is parsed (fuzzed). */
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/base.h"
#include "backend/remote/machine_conn.h"
#include "backend/remote/text/call.h"
#include "base/sync.h"
#include "http/client/foreign.h"

enum {
    REQUESTS_MAX = 1024,
    UNASKED_MAX = 1000, /* pushes for streams that ended, answers to requests that were given up */
    HELLO_MS = 30000,
    DEPTH_MAX = 32,
    VALUES_MAX = 262144,
    TYPE_BYTES = 64,
    MESSAGE_BYTES = 300,
};
#define HELD_BYTES (64u << 20) /* answers that wait for their callers */

struct text_request {
    struct text_request *next;
    char id[TEXT_ID_BYTES];
    bool answered, given_up;
    struct text_answer answer;
};

/* ---- messages ---- */

int text_encode(const struct machine_text *text, const char *id, const char *type, const struct buf *members,
                struct buf *out, struct err *err) {
    struct json json = json_begin(out);
    json_put_some(&json, "id", id);
    json_put_str(&json, "type", type);
    json_put_str(&json, "user_id", text->user);
    if (text->options.nested)
        json_put_open(&json, "body", '{');
    if (members && members->len)
        json_raw(&json, (const char *)members->data, members->len);
    if (text->options.nested)
        json_close(&json, '}');
    json_close(&json, '}');
    if (out->failed || (members && members->failed))
        return err_set(err, ERR_TOO_LARGE, "the request is larger than the %u bytes that one message holds",
                       LIMIT_TEXT_MESSAGE_BYTES);
    return 0;
}

int text_decode(const void *data, size_t len, struct text_answer *ret_answer, struct err *err) {
    if (len > LIMIT_TEXT_MESSAGE_BYTES)
        return err_set(err, ERR_PROTOCOL, "a message of %zu bytes: at most %u", len, LIMIT_TEXT_MESSAGE_BYTES);
    if (json_measure(data, len, DEPTH_MAX, VALUES_MAX) != JSON_FITS)
        return err_set(err, ERR_PROTOCOL, "a message is deeper than %d or has more than %d values", DEPTH_MAX,
                       VALUES_MAX);
    json_error_t why;
    json_t *root = json_loadb(data, len, JSON_ALLOW_NUL, &why);
    if (!root)
        return err_set(err, ERR_PROTOCOL, "a message is not JSON: %.100s", why.text);
    const char *type = json_is_object(root) ? json_string_value(json_object_get(root, "type")) : NULL;
    if (!type || strlen(type) > TYPE_BYTES) {
        json_decref(root);
        return err_set(err, ERR_PROTOCOL, "a message is not an object with a type");
    }
    json_t *body = json_object_get(root, "body");
    const char *id = json_string_value(json_object_get(root, "id"));
    *ret_answer = (struct text_answer){.root = root,
                                       .body = json_is_object(body) ? body : root,
                                       .type = type,
                                       .id = id && *id ? id : NULL,
                                       .cost = len};
    return 0;
}

const char *text_member(const struct text_answer *answer, const char *key, size_t *ret_len) {
    json_t *value = json_object_get(answer->body, key);
    if (!json_is_string(value))
        return NULL;
    if (ret_len)
        *ret_len = json_string_length(value);
    return json_string_value(value);
}

int64_t text_number(const struct text_answer *answer, const char *key) {
    double value = json_number_value(json_object_get(answer->body, key));
    return value > -9e15 && value < 9e15 ? (int64_t)value : 0;
}

int text_output(const struct text_answer *answer, const char *key, struct buf *out, struct err *err) {
    size_t len = 0;
    const char *data = text_member(answer, key, &len), *encoding = text_member(answer, "encoding", NULL);
    if (!data)
        return 0;
    if (!encoding || strcmp(encoding, "base64") != 0)
        buf_put(out, data, len);
    else if (!text_unbase64(out, data, len))
        return err_set(err, ERR_PROTOCOL, "the machine's '%s' is not base64, as it says", key);
    return out->failed ? err_set(err, ERR_TOO_LARGE, "the machine's '%s' is too long", key) : 0;
}

int text_error(const struct text_answer *answer, struct err *err) {
    const char *word = text_member(answer, "code", NULL), *message = text_member(answer, "message", NULL);
    int number = word ? 133 : 0; /* the last errno of Linux; 0: not a word of that kind */
    while (number && strcmp(word, strerrorname_np(number) ?: "") != 0)
        number--;
    enum err_code code = word && !strcmp(word, "ENOTSUP") ? ERR_UNSUPPORTED : err_from_errno(number);
    message = message && *message ? message : word ? word : "it did not say why";
    int judged = foreign_judge(FOREIGN_RUNNER, (int)code, message, NULL, NULL);
    if (judged)
        code = (enum err_code)judged;
    autobuf shown = buf_max(4 * MESSAGE_BYTES + 8);
    text_shown(&shown, message, strnlen(message, MESSAGE_BYTES));
    return err_set(err, code, "the machine says: %s", buf_cstr(&shown));
}

/* ---- life ---- */

static int text_tick(void *user, struct err *err) {
    struct machine_text *text = user;
    return text->tick ? text->tick(text->tick_user, err) : 0;
}

static const struct pump_events text_events = {.plain = true, .text = machine_text_take, .tick = text_tick};

struct machine_text *machine_text_new(const struct machine_hello *hello, const struct machine_text_options *options) {
    struct machine_text *text = xcalloc(1, sizeof *text);
    atomic_init(&text->refs, 1);
    pthread_mutex_init(&text->lock, NULL);
    cond_init(&text->changed);
    arena_init(&text->arena);
    text->user = arena_strdup(&text->arena, hello->user);
    text->name = arena_strdup(&text->arena, hello->name);
    text->workspace = arena_strdup(&text->arena, hello->workspace);
    text->shell = arena_strdup(&text->arena, hello->shell && *hello->shell ? hello->shell : "/bin/sh");
    text->options = *options;
    if (options->runner_path)
        text->options.runner_path = arena_strdup(&text->arena, options->runner_path);
    text->pump = pump_new(&text_events, text);
    uint64_t first_id;
    xrandom(&first_id, sizeof first_id);
    atomic_init(&text->next_id, first_id);
    return text;
}

static struct text_request *text_request_find(struct machine_text *text, const char *id) {
    return list_find(text->requests, request, strcmp(request->id, id) == 0);
}

static void text_request_drop(struct machine_text *text, struct text_request *request) {
    list_remove(text->requests, request);
    text->request_count--;
    free(request);
}

struct machine_text *machine_text_ref(struct machine_text *text) {
    atomic_fetch_add(&text->refs, 1);
    return text;
}

void machine_text_unref(struct machine_text *text) {
    if (!text || atomic_fetch_sub(&text->refs, 1) != 1)
        return;
    while (text->requests) {
        json_decref(text->requests->answer.root);
        text_request_drop(text, text->requests);
    }
    pump_free(text->pump);
    pthread_cond_destroy(&text->changed);
    pthread_mutex_destroy(&text->lock);
    arena_done(&text->arena);
    free(text->runner);
    free(text);
}

static void text_end(void *connection, const char *why) {
    struct machine_text *text = connection;
    pthread_mutex_lock(&text->lock);
    if (!text->dead) {
        text->dead = true;
        snprintf(text->why, sizeof text->why, "%s", why);
        struct err gone;
        text_gone_locked(text, &gone);
        for (struct text_wire *wire = text->wires; wire; wire = wire->next)
            text_wire_over_locked(wire, gone.text);
        pthread_cond_broadcast(&text->changed);
    }
    pthread_mutex_unlock(&text->lock);
    pump_end(text->pump, why);
}

void text_few_locked(struct machine_text *text, const struct err *why) {
    text->runs = false;
    snprintf(text->few_why, sizeof text->few_why, "cubby-runner cannot run there: %.250s", why->text);
}

int text_gone_locked(struct machine_text *text, struct err *err) {
    return err_set(err, ERR_GONE, "the connection to machine %s ended: %s", text->name, text->why);
}

/* ---- requests ---- */

void text_answer_done(struct machine_text *text, struct text_answer *answer) {
    if (!answer->root)
        return;
    json_decref(answer->root);
    autolock(&text->lock);
    text->held_bytes -= answer->cost;
    *answer = (struct text_answer){0};
}

int text_ask(struct machine_text *text, const bool *cancelled, const char *type, const char *good,
             const struct buf *members, uint64_t timeout_ms, struct text_answer *ret_answer, struct err *err) {
    struct text_request *request = xcalloc(1, sizeof *request);
    snprintf(request->id, sizeof request->id, "req_%016llx", (unsigned long long)atomic_fetch_add(&text->next_id, 1));
    autobuf bytes = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    struct text_answer answer = {0};
    int r = text_encode(text, request->id, type, members, &bytes, err);
    pthread_mutex_lock(&text->lock);
    if (r == 0 && text->request_count >= REQUESTS_MAX)
        r = err_set(err, ERR_LIMIT, "machine %s has %d requests to answer already", text->name, REQUESTS_MAX);
    list_push(text->requests, request);
    text->request_count++;
    pthread_mutex_unlock(&text->lock);
    if (r == 0)
        r = pump_say(text->pump, &bytes, err);
    uint64_t deadline_ms = clock_ms() + timeout_ms;
    bool in_time = true;
    pthread_mutex_lock(&text->lock);
    while (r == 0 && !request->answered && !text->dead && in_time && !(cancelled && *cancelled))
        in_time = cond_wait_until(&text->changed, &text->lock, deadline_ms);
    request->given_up = r == 0 && !request->answered; /* it stays in the list: its answer still comes, and is dropped */
    if (text->dead && !request->answered)
        r = text_gone_locked(text, err);
    else if (request->given_up && cancelled && *cancelled)
        r = err_set(err, ERR_GONE, "the call was cancelled");
    else if (request->given_up)
        r = err_set(err, ERR_TIMEOUT, "machine %s did not answer %s within %llu s", text->name, type,
                    (unsigned long long)timeout_ms / 1000);
    answer = request->answer;
    if (!request->given_up)
        text_request_drop(text, request);
    pthread_mutex_unlock(&text->lock);
    if (r == 0 && strcmp(answer.type, "error") == 0)
        r = text_error(&answer, err);
    else if (r == 0 && strcmp(answer.type, good) != 0)
        r = err_set(err, ERR_PROTOCOL, "machine %s answered %s with '%.40s' instead of '%s'", text->name, type,
                    answer.type, good);
    if (r == 0 && ret_answer)
        *ret_answer = answer;
    else
        text_answer_done(text, &answer);
    return r;
}

int text_ask_exec(struct machine_text *text, const bool *cancelled, const char *command, const char *const *env,
                  const struct buf *input, uint64_t timeout_s, struct text_answer *ret_answer, struct err *err) {
    autobuf members = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    struct json json = {.out = &members};
    json_put_str(&json, "command", command);
    json_put_bool(&json, "shell", true);
    json_put_texts(&json, "env", env);
    json_put_strn(&json, "stdin", input && input->len ? (const char *)input->data : "", input ? input->len : 0);
    json_put_uint(&json, "timeout", timeout_s);
    json_put_str(&json, "encoding", "base64");
    return text_ask(text, cancelled, "exec", "exec_result", &members, (timeout_s + 10) * 1000, ret_answer, err);
}

/* ---- messages of the machine ---- */

static int text_answer_locked(struct machine_text *text, struct text_answer *answer, struct err *err) {
    struct text_request *request = text_request_find(text, answer->id);
    if (!request || request->answered)
        return err_set(err, ERR_PROTOCOL, "an answer to '%.40s', which was not asked", answer->id);
    if (request->given_up) {
        text_request_drop(text, request);
        return 0;
    }
    if (text->held_bytes + answer->cost > HELD_BYTES) {
        json_decref(answer->root);
        answer->root = json_pack("{s:s,s:s,s:s}", "type", "error", "code", "EMFILE", "message",
                                 "too many large answers of this machine wait to be read");
        answer->body = answer->root;
        answer->type = "error";
        answer->cost = 0;
    }
    text->held_bytes += answer->cost;
    request->answer = *answer;
    request->answered = true;
    answer->root = NULL;
    pthread_cond_broadcast(&text->changed);
    return 0;
}

int machine_text_take(void *user, const void *data, size_t len, struct err *err) {
    struct machine_text *text = user;
    struct text_answer answer;
    int r = text_decode(data, len, &answer, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&text->lock);
    /* Runners that do not know a message without an answer send an error all the same. */
    bool error = answer.id && strcmp(answer.type, "error") == 0 && strncmp(answer.id, "req_", 4) == 0 &&
                 !text_request_find(text, answer.id);
    if (answer.id && !error)
        r = text_answer_locked(text, &answer, err);
    else if ((error || text_carry_take_locked(text, &answer) > 0) && ++text->unasked > UNASKED_MAX)
        r = err_set(err, ERR_PROTOCOL, "more than %d unrequested messages, the last one %.60s", UNASKED_MAX,
                    answer.type);
    pthread_mutex_unlock(&text->lock);
    json_decref(answer.root);
    return r;
}

int machine_text_serve(struct machine_text *text, const struct pump_socket *socket,
                       int (*tick)(void *user, struct err *err), void *tick_user, struct err *err) {
    text->tick = tick;
    text->tick_user = tick_user;
    int r = pump_run(text->pump, socket, 0, err);
    text_end(text, err->text);
    return r;
}

void machine_text_leave(void *connection, const char *why) {
    struct machine_text *text = connection;
    pump_leave(text->pump, why);
}

/* ---- a machine registers ---- */

struct text_coming {
    struct machine_text *text;
    struct machine_conn *conn;
    const struct pump_socket *socket;
};

static void *text_coming_main(void *argument) {
    struct text_coming *coming = argument;
    struct machine_text *text = coming->text;
    struct text_answer answer = {0};
    struct err err;
    autobuf out = buf_max(2 * LIMIT_PATH_BYTES);
    /* A runner that did not name its workspace runs commands in it. */
    if (text->options.no_workspace && text_ask_exec(text, NULL, "pwd -P", NULL, NULL, 20, &answer, &err) == 0 &&
        text_output(&answer, "stdout", &out, &err) == 0) {
        out.len -= out.len && out.data[out.len - 1] == '\n';
        const char *path = buf_cstr(&out);
        if (out.len <= LIMIT_PATH_BYTES && !memchr(path, 0, out.len) && path_normal(path) && text_utf8(path, out.len))
            text->workspace = arena_strdup(&text->arena, path); /* no other thread has it yet */
    }
    text_answer_done(text, &answer);
    if (text->options.no_workspace)
        machine_conn_move(coming->conn, text->workspace);
    if (machine_conn_begin(coming->conn, &machine_text_ops, machine_text_ref(text), coming->socket, &err) < 0)
        machine_text_leave(text, err.text);
    return NULL;
}

int machine_serve_text(struct machine_conn *conn, const struct pump_socket *socket,
                       const struct machine_text_options *options, int (*tick)(void *user, struct err *err),
                       void *tick_user, struct err *err) {
    struct machine_text_options own = *options;
    own.runner_path = conn->runner_path;
    struct machine_text *text = machine_text_new(conn->hello, &own);
    struct text_coming coming = {.text = text, .conn = conn, .socket = socket};
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, text_coming_main, &coming);
    if (failed) {
        err_errno(err, failed, "a thread for a machine");
    } else {
        machine_text_serve(text, socket, tick, tick_user, err);
        pthread_join(thread, NULL); /* its requests ended with the connection */
    }
    machine_text_unref(text);
    return machine_conn_end(conn, false, err);
}

/* ---- wires ---- */

void text_wire_over_locked(struct text_wire *wire, const char *why) {
    wire_reason_set(wire->reason, why);
    wire->over = true;
    eventfd_write(wire->wake, 1);
    if (!wire->carried)
        shutdown(wire->fd, SHUT_RD); /* answers of its calls are still sent */
}

void text_wire_free(struct text_wire *wire) {
    struct machine_text *text = wire->text;
    pthread_mutex_lock(&text->lock);
    list_remove(text->wires, wire);
    pthread_cond_broadcast(&text->changed);
    pthread_mutex_unlock(&text->lock);
    pieces_done(&wire->pieces);
    wire_reason_unref(wire->reason);
    arena_done(&wire->arena);
    fd_close(&wire->fd);
    fd_close(&wire->wake);
    free(wire);
    machine_text_unref(text);
}

static int text_wire_open(struct machine_text *text, const struct spec *spec, bool carried, struct wire **ret_wire,
                          struct err *err) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "a wire to machine %s", text->name);
    struct text_wire *wire = xcalloc(1, sizeof *wire);
    struct wire_reason *reason = wire_reason_new();
    *wire = (struct text_wire){
        .text = machine_text_ref(text), .fd = pair[0], .carried = carried, .reason = wire_reason_ref(reason)};
    wire->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    xensure(wire->wake >= 0);
    pieces_init(&wire->pieces);
    arena_init(&wire->arena);
    wire->shell = arena_strdup(&wire->arena, spec->shell ? spec->shell : text->shell);
    wire->env = arena_list(&wire->arena, spec->env, &wire->env_count);
    text_id_copy(wire->box, spec->id);
    snprintf(wire->id, sizeof wire->id, "cubby-%016llx", (unsigned long long)atomic_fetch_add(&text->next_id, 1));
    pthread_mutex_lock(&text->lock);
    list_push(text->wires, wire);
    if (text->dead)
        text_wire_over_locked(wire, text->why);
    pthread_mutex_unlock(&text->lock);
    int r = carried ? text_carry_start(wire, spec, err) : 0;
    int failed = r < 0 ? 0 : thread_detached(carried ? text_carry_main : text_few_main, wire, TEXT_STACK_BYTES);
    if (failed)
        r = err_errno(err, failed, "a thread for a box on a machine");
    if (r < 0) {
        close(pair[1]);
        (carried ? text_carry_main : text_few_main)(wire); /* ends at once; it may have started there all the same */
    } else {
        r = wire_new(pair[1], WIRE_PASS_NOTHING, HELLO_MS, ret_wire, err);
        if (r == 0)
            wire_set_reason(*ret_wire, reason);
        else
            err_wrap(err, "machine %s: the box's runner did not start", text->name);
    }
    wire_reason_unref(reason);
    return r;
}

/* ---- machine_ops ---- */

static int text_start(void *connection, const struct spec *spec, bool fresh, struct wire **ret_wire, struct err *err) {
    struct machine_text *text = connection;
    const struct limits *limits = &spec->limits;
    const char *cannot = limits->memory_mb || limits->cpus > 0 || limits->pids || limits->disk_mb
                             ? "hold limits: ask for none, or join it with `cubby join`"
                         : spec->network_asked && spec->network == NETWORK_NONE
                             ? "keep commands from the network: join it with `cubby join`"
                             : NULL;
    if (cannot)
        return err_set(err, ERR_UNSUPPORTED, "the runner of machine %s cannot %s", text->name, cannot);
    if (!fresh) /* its runner ended with its wire */
        return err_set(err, ERR_NOT_FOUND, "box %s is not on machine %s", spec->id, text->name);
    bool runs = false;
    int r = text_carry(text, &runs, err);
    if (r == 0 && runs)
        r = text_wire_open(text, spec, true, ret_wire, err);
    if (runs && r == -ERR_UNSUPPORTED) {
        autolock(&text->lock);
        text_few_locked(text, err);
    }
    if ((r == 0 && !runs) || r == -ERR_UNSUPPORTED)
        r = text_wire_open(text, spec, false, ret_wire, err);
    return r;
}

static int text_stop(void *connection, const char *id, bool keep_files, struct err *err) {
    (void)keep_files; /* they are the user's, in every case */
    struct machine_text *text = connection;
    uint64_t deadline_ms = clock_ms() + TEXT_STOP_MS;
    int r = 0;
    autolock(&text->lock);
    for (bool in_time = true; r == 0;) {
        struct text_wire *wire = list_find(text->wires, open, strcmp(open->box, id) == 0);
        if (!wire)
            break;
        if (wire->fd >= 0)
            shutdown(wire->fd, SHUT_RDWR);
        if (!in_time)
            r = err_set(err, ERR_TIMEOUT, "machine %s did not end box %s", text->name, id);
        else
            in_time = cond_wait_until(&text->changed, &text->lock, deadline_ms);
    }
    return r;
}

static bool text_answers(void *connection, uint64_t timeout_ms) {
    struct machine_text *text = connection;
    return pump_hears(text->pump, timeout_ms);
}

static void text_free(void *connection) {
    text_end(connection, "the session is over");
    machine_text_unref(connection);
}

const struct machine_ops machine_text_ops = {
    .start = text_start,
    .stop = text_stop,
    .answers = text_answers,
    .leave = machine_text_leave,
    .end = text_end,
    .free = text_free,
};
