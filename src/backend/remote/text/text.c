/* One connection to a machine of the text form: requests, answers, and the rows of machine_ops. Called by machine.c and
 * front/join/join.c. Invariant: an answer counts only for a request that was made and not yet answered, and the end of the
 * connection wakes everybody who waits. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "backend/remote/machine_conn.h"
#include "backend/remote/text/call.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/sync.h"
#include "base/text.h"

enum {
    REQUESTS_MAX = 1024,
    UNASKED_MAX = 1000,     /* pushes for what is over, answers to what was given up */
    TURN_MESSAGES = 64,     /* taken before anything is sent again */
    QUEUED_BYTES = 8 << 20, /* senders wait above */
    THREAD_STACK = 256 << 10,
};
#define HELD_BYTES (64u << 20) /* answers that wait for their callers */

struct text_request {
    struct text_request *next;
    uint64_t number;
    enum text_type type;
    bool answered, given_up;
    struct text_answer answer;
};

struct text_message {
    struct text_message *next;
    struct buf bytes;
};

/* ---- life ---- */

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
    text->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (text->wake < 0 || getrandom(&text->next_id, sizeof text->next_id, 0) != sizeof text->next_id)
        abort();
    text->last = &text->first;
    text->heard_ms = clock_ms();
    return text;
}

struct machine_text *machine_text_ref(struct machine_text *text) {
    atomic_fetch_add(&text->refs, 1);
    return text;
}

static void request_free(struct text_request *request) {
    json_decref(request->answer.root);
    free(request);
}

static void message_free(struct text_message *message) {
    buf_done(&message->bytes);
    free(message);
}

void machine_text_unref(struct machine_text *text) {
    if (!text || atomic_fetch_sub(&text->refs, 1) != 1)
        return;
    for (size_t i = 0; i < sizeof text->requests / sizeof *text->requests; i++)
        for (struct text_request *request = text->requests[i], *next; request; request = next) {
            next = request->next;
            request_free(request);
        }
    for (struct text_message *message = text->first, *next; message; message = next) {
        next = message->next;
        message_free(message);
    }
    fd_close(&text->wake);
    pthread_cond_destroy(&text->changed);
    pthread_mutex_destroy(&text->lock);
    arena_done(&text->arena);
    free(text->runner);
    free(text);
}

static void kick_locked(struct machine_text *text) {
    uint64_t one = 1;
    ssize_t written = write(text->wake, &one, sizeof one);
    (void)written; /* full: it is awake already */
}

bool text_wait_locked(struct machine_text *text, uint64_t deadline_ms) {
    if (deadline_ms == 0)
        return pthread_cond_wait(&text->changed, &text->lock) == 0;
    return cond_wait_until(&text->changed, &text->lock, deadline_ms);
}

static void die_locked(struct machine_text *text, const char *why) {
    if (text->dead)
        return;
    text->dead = true;
    snprintf(text->why, sizeof text->why, "%s", why);
    char whole[300];
    snprintf(whole, sizeof whole, "the connection to machine %s ended: %s", text->name, text->why);
    text_carry_end_locked(text, whole);
    text_few_end_locked(text, whole);
    pthread_cond_broadcast(&text->changed);
    kick_locked(text);
}

static void text_die(struct machine_text *text, const char *why) {
    pthread_mutex_lock(&text->lock);
    die_locked(text, why);
    pthread_mutex_unlock(&text->lock);
}

int text_gone_locked(struct machine_text *text, struct err *err) {
    return err_set(err, ERR_GONE, "the connection to machine %s ended: %s", text->name, text->why);
}

/* ---- requests ---- */

static struct text_request **request_slot(struct machine_text *text, uint64_t number) {
    struct text_request **at = &text->requests[number % (sizeof text->requests / sizeof *text->requests)];
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static void request_remove_locked(struct machine_text *text, struct text_request *request) {
    struct text_request **at = request_slot(text, request->number);
    *at = request->next;
    text->request_count--;
    request_free(request);
}

static void id_of(uint64_t number, char id[TEXT_ID_BYTES]) {
    snprintf(id, TEXT_ID_BYTES, "req_%016llx", (unsigned long long)number);
}

/* Waits for room in the queue, then takes the message over. */
static int queue_locked(struct machine_text *text, struct buf *bytes, struct err *err) {
    while (!text->dead && text->queued_bytes > QUEUED_BYTES)
        text_wait_locked(text, 0);
    if (text->dead)
        return text_gone_locked(text, err);
    struct text_message *message = xcalloc(1, sizeof *message);
    message->bytes = *bytes;
    buf_init(bytes, bytes->max);
    text->queued_bytes += message->bytes.len;
    *text->last = message;
    text->last = &message->next;
    kick_locked(text);
    return 0;
}

static int encode(struct machine_text *text, const char *id, enum text_type type, const struct buf *members,
                  struct buf *out, struct err *err) {
    text_encode(out, text->options.nested, id, text_type_name(type), text->user, members);
    if (out->failed || (members && members->failed))
        return err_set(err, ERR_TOO_LARGE, "the request is larger than the %u bytes that one message holds",
                       LIMIT_TEXT_MESSAGE_BYTES);
    return 0;
}

static int request_new_locked(struct machine_text *text, enum text_type type, struct text_request **ret_request,
                              struct err *err) {
    if (text->dead)
        return text_gone_locked(text, err);
    if (text->request_count >= REQUESTS_MAX)
        return err_set(err, ERR_LIMIT, "machine %s has %d requests to answer already", text->name, REQUESTS_MAX);
    struct text_request *request = xcalloc(1, sizeof *request);
    request->number = text->next_id++;
    request->type = type;
    *request_slot(text, request->number) = request;
    text->request_count++;
    *ret_request = request;
    return 0;
}

int text_send(struct machine_text *text, enum text_type type, const struct buf *members, struct err *err) {
    autobuf bytes = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    int r = encode(text, NULL, type, members, &bytes, err);
    pthread_mutex_lock(&text->lock);
    if (r == 0)
        r = queue_locked(text, &bytes, err);
    pthread_mutex_unlock(&text->lock);
    return r;
}

/* Takes the request away, or leaves it to the answer that nobody waits for. */
static int request_wait_locked(struct machine_text *text, struct text_request *request, const bool *cancelled,
                               uint64_t timeout_ms, struct text_answer *ret_answer, struct err *err) {
    uint64_t deadline_ms = clock_ms() + timeout_ms;
    bool in_time = true;
    while (!request->answered && !text->dead && in_time && !(cancelled && *cancelled))
        in_time = text_wait_locked(text, deadline_ms);
    if (request->answered) {
        *ret_answer = request->answer;
        request->answer.root = NULL;
        request_remove_locked(text, request);
        return 0;
    }
    request->given_up = true;
    if (text->dead)
        return text_gone_locked(text, err);
    if (cancelled && *cancelled)
        return err_set(err, ERR_GONE, "the call was cancelled");
    return err_set(err, ERR_TIMEOUT, "machine %s did not answer %s within %llu s", text->name,
                   text_type_name(request->type), (unsigned long long)timeout_ms / 1000);
}

void text_answer_done(struct machine_text *text, struct text_answer *answer) {
    if (!answer->root)
        return;
    json_decref(answer->root);
    pthread_mutex_lock(&text->lock);
    text->held_bytes -= answer->cost;
    pthread_mutex_unlock(&text->lock);
    *answer = (struct text_answer){0};
}

static int answer_check(const struct machine_text *text, enum text_type type, const struct text_answer *answer,
                        struct err *err) {
    if (strcmp(answer->type, "error") == 0)
        return text_error(answer, err);
    const char *want = text_type_answer(type);
    if (strcmp(answer->type, want) != 0)
        return err_set(err, ERR_PROTOCOL, "machine %s answered %s with '%.40s' instead of '%s'", text->name,
                       text_type_name(type), answer->type, want);
    return 0;
}

int text_ask(struct machine_text *text, const bool *cancelled, enum text_type type, const struct buf *members,
             uint64_t timeout_ms, struct text_answer *ret_answer, struct err *err) {
    struct text_request *request = NULL;
    struct text_answer answer = {0};
    char id[TEXT_ID_BYTES];
    autobuf bytes = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    pthread_mutex_lock(&text->lock);
    int r = request_new_locked(text, type, &request, err);
    if (r == 0) {
        id_of(request->number, id);
        pthread_mutex_unlock(&text->lock);
        r = encode(text, id, type, members, &bytes, err);
        pthread_mutex_lock(&text->lock);
        if (r == 0)
            r = queue_locked(text, &bytes, err);
        if (r < 0)
            request_remove_locked(text, request);
        else
            r = request_wait_locked(text, request, cancelled, timeout_ms, &answer, err);
    }
    pthread_mutex_unlock(&text->lock);
    if (r == 0)
        r = answer_check(text, type, &answer, err);
    if (r == 0 && ret_answer)
        *ret_answer = answer;
    else
        text_answer_done(text, &answer);
    return r;
}

int text_ask_exec(struct machine_text *text, const bool *cancelled, const char *command, const char *const *env,
                  const struct buf *input, uint64_t timeout_s, struct text_answer *ret_answer, struct err *err) {
    autobuf members = buf_max(LIMIT_TEXT_MESSAGE_BYTES);
    struct json json;
    json_init(&json, &members);
    json_put_str(&json, "command", command);
    json_put_bool(&json, "shell", true);
    json_put_open(&json, "env", '[');
    for (; env && *env; env++)
        json_str(&json, *env);
    json_close(&json, ']');
    json_put_strn(&json, "stdin", input && input->len ? (const char *)input->data : "", input ? input->len : 0);
    json_put_uint(&json, "timeout", timeout_s);
    json_put_str(&json, "encoding", "base64");
    return text_ask(text, cancelled, TEXT_EXEC, &members, (timeout_s + 10) * 1000, ret_answer, err);
}

/* ---- what comes ---- */

static bool number_of(const char *id, uint64_t *ret_number) {
    uint64_t number = 0;
    if (strncmp(id, "req_", 4) != 0 || strlen(id) != TEXT_ID_BYTES - 4)
        return false;
    for (const char *c = id + 4; *c; c++) {
        const char *digit = memchr("0123456789abcdef", *c, 16);
        if (!digit)
            return false;
        number = number << 4 | (uint64_t)(strchr("0123456789abcdef", *c) - "0123456789abcdef");
    }
    *ret_number = number;
    return true;
}

static int unasked_locked(struct machine_text *text, const char *what, struct err *err) {
    if (++text->unasked <= UNASKED_MAX)
        return 0;
    return err_set(err, ERR_PROTOCOL, "more than %d messages that nobody asked for, the last one %.60s", UNASKED_MAX,
                   what);
}

static int answer_take_locked(struct machine_text *text, struct text_answer *answer, struct err *err) {
    uint64_t number;
    struct text_request *request = number_of(answer->id, &number) ? *request_slot(text, number) : NULL;
    /* What was only told has no answer; runners that do not know it answer all the same. */
    bool told = strcmp(answer->type, "error") == 0 && number_of(answer->id, &number);
    if (!request && told)
        return unasked_locked(text, "an error", err);
    if (!request || request->answered)
        return err_set(err, ERR_PROTOCOL, "an answer to '%.40s', which was not asked", answer->id);
    if (request->given_up) {
        request_remove_locked(text, request);
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

int machine_text_take(struct machine_text *text, const void *data, size_t len, struct err *err) {
    struct text_answer answer;
    int r = text_decode(data, len, &answer, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&text->lock);
    if (answer.id) {
        r = answer_take_locked(text, &answer, err);
    } else if (text_carry_take_locked(text, &answer) > 0) {
        r = unasked_locked(text, answer.type, err);
    }
    pthread_mutex_unlock(&text->lock);
    json_decref(answer.root);
    return r;
}

/* ---- serving ---- */

/* 1: nothing is left to send; 0: the socket takes no more now. */
static int serve_send(struct machine_text *text, const struct pump_socket *socket, struct err *err) {
    for (;;) {
        pthread_mutex_lock(&text->lock);
        struct text_message *message = text->first;
        pthread_mutex_unlock(&text->lock);
        if (!message)
            return socket->flush(socket->user, err);
        int r = socket->send(socket->user, true, message->bytes.data, message->bytes.len, err);
        if (r <= 0)
            return r;
        pthread_mutex_lock(&text->lock); /* this thread alone takes from the front */
        text->first = message->next;
        if (!text->first)
            text->last = &text->first;
        text->queued_bytes -= message->bytes.len;
        pthread_cond_broadcast(&text->changed);
        pthread_mutex_unlock(&text->lock);
        message_free(message);
    }
}

/* 1: there may be more at once. */
static int serve_receive(struct machine_text *text, const struct pump_socket *socket, struct err *err) {
    for (int i = 0; i < TURN_MESSAGES; i++) {
        bool is_text;
        const uint8_t *data;
        size_t len;
        int r = socket->recv(socket->user, &is_text, &data, &len, err);
        if (r <= 0)
            return r;
        if (!is_text)
            return err_set(err, ERR_PROTOCOL, "a binary message: the machine registered for text");
        r = machine_text_take(text, data, len, err);
        if (r < 0)
            return r;
    }
    return 1;
}

struct serving {
    uint64_t pinged_ms, ticked_ms;
    int (*tick)(void *user, struct err *err);
    void *tick_user;
};

static int serve_clock(struct machine_text *text, const struct pump_socket *socket, struct serving *serving,
                       struct err *err) {
    uint64_t now_ms = clock_ms(), heard_ms = socket->heard_ms(socket->user);
    pthread_mutex_lock(&text->lock);
    text->heard_ms = heard_ms;
    bool asked = text->ping;
    text->ping = false;
    pthread_cond_broadcast(&text->changed);
    pthread_mutex_unlock(&text->lock);
    if (now_ms >= heard_ms + PUMP_SILENT_MS)
        return err_set(err, ERR_GONE, "nothing came from it for %u s", PUMP_SILENT_MS / 1000);
    int r = 0;
    if (asked || (now_ms >= heard_ms + PUMP_PING_MS && now_ms >= serving->pinged_ms + PUMP_PING_MS)) {
        serving->pinged_ms = now_ms;
        r = socket->ping(socket->user, err);
    }
    if (r >= 0 && serving->tick && now_ms >= serving->ticked_ms + PUMP_PING_MS) {
        serving->ticked_ms = now_ms;
        r = serving->tick(serving->tick_user, err);
    }
    return r < 0 ? r : 0;
}

static int serve_leaving(struct machine_text *text, struct err *err) {
    pthread_mutex_lock(&text->lock);
    bool leave = text->leave || text->dead;
    int r = leave ? err_set(err, ERR_GONE, "%s", text->why) : 0;
    pthread_mutex_unlock(&text->lock);
    return r;
}

int machine_text_serve(struct machine_text *text, const struct pump_socket *socket,
                       int (*tick)(void *user, struct err *err), void *tick_user, struct err *err) {
    struct serving serving = {.pinged_ms = 0, .ticked_ms = clock_ms(), .tick = tick, .tick_user = tick_user};
    int r = 0;
    while (r >= 0) {
        r = serve_leaving(text, err);
        int sent = r < 0 ? r : serve_send(text, socket, err);
        int more = sent < 0 ? sent : serve_receive(text, socket, err);
        r = more < 0 ? more : serve_clock(text, socket, &serving, err);
        if (r < 0)
            break;
        pthread_mutex_lock(&text->lock);
        bool work = text->first && sent > 0;
        pthread_mutex_unlock(&text->lock);
        struct pollfd polls[] = {
            {.fd = socket->fd, .events = (short)(POLLIN | (sent == 0 ? POLLOUT : 0))},
            {.fd = text->wake, .events = POLLIN},
        };
        bool at_once = more > 0 || work || (socket->pending && socket->pending(socket->user));
        poll(polls, 2, at_once ? 0 : (int)PUMP_PING_MS / 4);
        uint64_t count;
        ssize_t taken = read(text->wake, &count, sizeof count);
        (void)taken;
    }
    text_die(text, err->text);
    return r;
}

void machine_text_leave(struct machine_text *text, const char *why) {
    pthread_mutex_lock(&text->lock);
    if (!text->leave && !text->dead) {
        text->leave = true;
        snprintf(text->why, sizeof text->why, "%s", why);
    }
    kick_locked(text);
    pthread_mutex_unlock(&text->lock);
}

/* ---- a machine comes ---- */

struct coming {
    struct machine_text *text;
    struct machine_conn *conn;
    const struct pump_socket *socket;
};

/* A runner that did not say where its workspace is runs commands in it. */
static void workspace_find(struct machine_text *text) {
    struct text_answer answer = {0};
    struct err ignored;
    autobuf out = buf_max(2 * LIMIT_PATH_BYTES);
    if (text_ask_exec(text, NULL, "pwd -P", NULL, NULL, 20, &answer, &ignored) == 0 &&
        text_output(&answer, "stdout", &out, &ignored) == 0) {
        out.len -= out.len && out.data[out.len - 1] == '\n';
        const char *path = buf_cstr(&out);
        if (out.len <= LIMIT_PATH_BYTES && !memchr(path, 0, out.len) && path_normal(path) && text_utf8(path, out.len))
            text->workspace = arena_strdup(&text->arena, path); /* nobody else has it yet */
    }
    text_answer_done(text, &answer);
}

static void *coming_main(void *argument) {
    struct coming *coming = argument;
    struct machine_text *text = coming->text;
    struct err err;
    if (text->options.no_workspace) {
        workspace_find(text);
        machine_conn_move(coming->conn, text->workspace);
    }
    if (machine_conn_begin(coming->conn, &machine_text_ops, machine_text_ref(text), coming->socket, &err) < 0)
        machine_text_leave(text, err.text);
    return NULL;
}

int machine_serve_text(struct machine_conn *conn, const struct pump_socket *socket,
                       const struct machine_text_options *options, int (*tick)(void *user, struct err *err),
                       void *tick_user, struct err *err) {
    struct machine_hello hello = {.user = machine_conn_user(conn),
                                  .name = machine_conn_name(conn),
                                  .workspace = machine_conn_workspace(conn),
                                  .shell = machine_conn_shell(conn)};
    struct machine_text_options own = *options;
    own.runner_path = machine_conn_runner(conn);
    struct machine_text *text = machine_text_new(&hello, &own);
    struct coming coming = {.text = text, .conn = conn, .socket = socket};
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, coming_main, &coming);
    if (failed)
        err_errno(err, failed, "a thread for a machine");
    else
        machine_text_serve(text, socket, tick, tick_user, err);
    if (!failed)
        pthread_join(thread, NULL); /* what it waits for ended with the connection */
    machine_text_unref(text);
    return machine_conn_end(conn, false, err);
}

/* ---- machine_ops ---- */

int text_thread(void *(*main)(void *argument), void *argument, struct err *err) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, THREAD_STACK);
    pthread_t thread;
    int failed = pthread_create(&thread, &attr, main, argument);
    pthread_attr_destroy(&attr);
    return failed ? err_errno(err, failed, "a thread for a box on a machine") : 0;
}

static int text_start(void *peer, const struct spec *spec, bool fresh, struct wire **ret_wire, struct err *err) {
    struct machine_text *text = peer;
    const struct limits *limits = &spec->limits;
    if (limits->memory_mb || limits->cpus > 0 || limits->pids || limits->disk_mb)
        return err_set(err, ERR_UNSUPPORTED,
                       "the runner of machine %s cannot hold limits: ask for none, or join it with `cubby join`",
                       text->name);
    if (spec->network_asked && spec->network == NETWORK_NONE)
        return err_set(err, ERR_UNSUPPORTED,
                       "the runner of machine %s cannot keep commands from the network: join it with `cubby join`",
                       text->name);
    if (!fresh) /* its runner ended with its wire */
        return err_set(err, ERR_NOT_FOUND, "box %s is not on machine %s", spec->id, text->name);
    bool runs = false;
    int r = text_carry(text, &runs, err);
    if (r == 0 && runs)
        r = text_carry_open(text, spec, ret_wire, err);
    if ((r == 0 && !runs) || r == -ERR_UNSUPPORTED) {
        if (runs)
            text_carry_lacks(text, err->text);
        r = text_few_open(text, spec, ret_wire, err);
    }
    return r;
}

static int text_stop(void *peer, const char *id, bool keep_files, struct err *err) {
    (void)keep_files; /* they are the user's, in every case */
    return text_carry_stop(peer, id, err);
}

static int text_usage(void *peer, const char *id, struct usage *ret_usage, struct err *err) {
    (void)peer;
    (void)id;
    (void)err;
    *ret_usage = (struct usage){0}; /* nothing is known */
    return 0;
}

static bool text_answers(void *peer, uint64_t timeout_ms) {
    struct machine_text *text = peer;
    uint64_t asked_ms = clock_ms(), deadline_ms = asked_ms + timeout_ms;
    pthread_mutex_lock(&text->lock);
    text->ping = true;
    kick_locked(text);
    while (!text->dead && text->heard_ms <= asked_ms && text_wait_locked(text, deadline_ms))
        ;
    bool answers = !text->dead && text->heard_ms > asked_ms;
    pthread_mutex_unlock(&text->lock);
    return answers;
}

static void text_leave(void *peer, const char *why) {
    machine_text_leave(peer, why);
}

static void text_lost(void *peer) {
    text_die(peer, "the connection was lost");
}

static void text_end(void *peer, const char *why) {
    text_die(peer, why);
}

static void text_free(void *peer) {
    text_die(peer, "the session is over");
    machine_text_unref(peer);
}

const struct machine_ops machine_text_ops = {
    .start = text_start,
    .stop = text_stop,
    .usage = text_usage,
    .answers = text_answers,
    .leave = text_leave,
    .lost = text_lost,
    .end = text_end,
    .free = text_free,
};
