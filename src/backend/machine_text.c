/* One connection to a machine of the text form: what it is sent, what it answers, and the rows of machine_ops. Called by
 * machine.c and the door; the calls themselves are in machine_text_*.c. Not to break: an answer counts only for a request
 * that was made and not yet answered, and the end of the connection is told to everybody who waits. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "backend/machine_seat.h"
#include "backend/machine_text_call.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"

enum {
    REQUESTS_MAX = 1024,
    UNASKED_MAX = 1000,     /* pushes for what is over, answers to what was given up */
    TURN_MESSAGES = 64,     /* taken before anything is sent again */
    QUEUED_BYTES = 8 << 20, /* senders wait above */
};
#define HELD_BYTES (64u << 20) /* answers that wait for their callers */

struct text_request {
    struct text_request *next;
    uint64_t number;
    enum text_type type;
    bool answered, given_up;
    struct text_call *call; /* who waits; NULL: nobody, or nobody who can be told */
    struct text_answer answer;
};

struct text_message {
    struct text_message *next;
    struct buf bytes;
};

/* ---- life ---- */

struct machine_text *machine_text_new(const struct machine_hello *hello, const struct machine_text_options *options) {
    struct machine_text *text = calloc(1, sizeof *text);
    if (!text)
        abort();
    atomic_init(&text->refs, 1);
    pthread_mutex_init(&text->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&text->changed, &attr);
    pthread_condattr_destroy(&attr);
    arena_init(&text->arena);
    text->user = arena_strdup(&text->arena, hello->user);
    text->name = arena_strdup(&text->arena, hello->name);
    text->workspace = arena_strdup(&text->arena, hello->workspace);
    text->shell = arena_strdup(&text->arena, hello->shell && *hello->shell ? hello->shell : "/bin/sh");
    text->options = *options;
    if (options->http_address)
        text->options.http_address = arena_strdup(&text->arena, options->http_address);
    if (options->token)
        text->options.token = arena_strdup(&text->arena, options->token);
    if (text->options.max_file_bytes == 0)
        text->options.max_file_bytes = LIMIT_UPLOAD_BYTES;
    text->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (text->wake < 0 || getrandom(&text->next_id, sizeof text->next_id, 0) != sizeof text->next_id)
        abort();
    text->next_pid = 1u << 30; /* of what has no number there; above those that kernels give */
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
    for (struct text_box *box = text->boxes, *next; box; box = next) {
        next = box->next;
        arena_done(&box->arena);
        free(box);
    }
    text_streams_free(text);
    text_authors_free(text);
    fd_close(&text->wake);
    pthread_cond_destroy(&text->changed);
    pthread_mutex_destroy(&text->lock);
    arena_done(&text->arena);
    free(text);
}

void text_kick_locked(struct machine_text *text) {
    uint64_t one = 1;
    ssize_t written = write(text->wake, &one, sizeof one);
    (void)written; /* full: it is awake already */
}

bool text_wait_locked(struct machine_text *text, uint64_t deadline_ms) {
    if (deadline_ms == 0)
        return pthread_cond_wait(&text->changed, &text->lock) == 0;
    struct timespec until = {.tv_sec = (time_t)(deadline_ms / 1000), .tv_nsec = (long)(deadline_ms % 1000) * 1000000};
    return pthread_cond_timedwait(&text->changed, &text->lock, &until) != ETIMEDOUT;
}

static void die_locked(struct machine_text *text, const char *why) {
    if (text->dead)
        return;
    text->dead = true;
    snprintf(text->why, sizeof text->why, "%s", why);
    text_streams_end_locked(text);
    text_wires_end_locked(text);
    pthread_cond_broadcast(&text->changed);
    text_kick_locked(text);
}

void machine_text_die(struct machine_text *text, const char *why) {
    pthread_mutex_lock(&text->lock);
    die_locked(text, why);
    pthread_mutex_unlock(&text->lock);
}

static int gone_locked(struct machine_text *text, struct err *err) {
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
        return gone_locked(text, err);
    struct text_message *message = calloc(1, sizeof *message);
    if (!message)
        abort();
    message->bytes = *bytes;
    buf_init(bytes, bytes->max);
    text->queued_bytes += message->bytes.len;
    *text->last = message;
    text->last = &message->next;
    text_kick_locked(text);
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

static int request_new_locked(struct machine_text *text, struct text_call *call, enum text_type type,
                              struct text_request **ret_request, struct err *err) {
    if (text->dead)
        return gone_locked(text, err);
    if (text->request_count >= REQUESTS_MAX)
        return err_set(err, ERR_LIMIT, "machine %s has %d requests to answer already", text->name, REQUESTS_MAX);
    struct text_request *request = calloc(1, sizeof *request);
    if (!request)
        abort();
    request->number = text->next_id++;
    request->type = type;
    request->call = call;
    *request_slot(text, request->number) = request;
    text->request_count++;
    *ret_request = request;
    return 0;
}

int text_tell(struct machine_text *text, enum text_type type, const struct buf *members, struct err *err) {
    autobuf bytes;
    buf_init(&bytes, LIMIT_TEXT_MESSAGE_BYTES);
    char id[TEXT_ID_BYTES];
    struct text_request *request = NULL;
    int r = 0;
    pthread_mutex_lock(&text->lock);
    if (text_type_answer(type)) { /* nobody waits for it */
        r = request_new_locked(text, NULL, type, &request, err);
        if (r == 0)
            request->given_up = true;
    }
    id_of(request ? request->number : text->next_id++, id);
    pthread_mutex_unlock(&text->lock);
    if (r == 0)
        r = encode(text, id, type, members, &bytes, err);
    pthread_mutex_lock(&text->lock);
    if (r == 0)
        r = queue_locked(text, &bytes, err);
    if (r < 0 && request)
        request_remove_locked(text, request);
    pthread_mutex_unlock(&text->lock);
    return r;
}

/* The machine is told that nobody waits any more, so that it can end what it does. */
static void request_give_up(struct machine_text *text, uint64_t number, enum text_type type) {
    if (type != TEXT_EXEC || text_lacks(text, TEXT_CANCEL))
        return;
    autobuf members;
    buf_init(&members, 256);
    struct json json;
    json_init(&json, &members);
    char id[TEXT_ID_BYTES];
    id_of(number, id);
    json_key(&json, "request");
    json_str(&json, id);
    struct err unheard;
    text_tell(text, TEXT_CANCEL, &members, &unheard);
}

static int request_wait(struct machine_text *text, struct text_request *request, uint64_t timeout_ms,
                        struct text_answer *ret_answer, struct err *err) {
    const struct text_call *call = request->call;
    uint64_t deadline_ms = clock_ms() + timeout_ms;
    pthread_mutex_lock(&text->lock);
    bool in_time = true;
    while (!request->answered && !text->dead && in_time && !(call && call->cancelled))
        in_time = text_wait_locked(text, deadline_ms);
    int r = 0;
    if (request->answered) {
        *ret_answer = request->answer;
        request->answer.root = NULL;
        request_remove_locked(text, request);
        pthread_mutex_unlock(&text->lock);
        return 0;
    }
    if (text->dead)
        r = gone_locked(text, err);
    else if (call && call->cancelled)
        r = err_set(err, ERR_GONE, "the call was cancelled");
    else
        r = err_set(err, ERR_TIMEOUT, "machine %s did not answer %s within %llu s", text->name,
                    text_type_name(request->type), (unsigned long long)timeout_ms / 1000);
    uint64_t number = request->number;
    enum text_type type = request->type;
    request->given_up = true;
    request->call = NULL;
    pthread_mutex_unlock(&text->lock);
    request_give_up(text, number, type);
    return r;
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

static int answer_check(struct machine_text *text, enum text_type type, const struct text_answer *answer,
                        struct err *err) {
    if (strcmp(answer->type, "error") == 0) {
        bool lacks;
        int r = text_error(answer, &lacks, err);
        pthread_mutex_lock(&text->lock);
        text->lacks |= lacks ? 1ull << type : 0;
        pthread_mutex_unlock(&text->lock);
        return r;
    }
    const char *want = text_type_answer(type);
    if (strcmp(answer->type, want) != 0)
        return err_set(err, ERR_PROTOCOL, "machine %s answered %s with '%.40s' instead of '%s'", text->name,
                       text_type_name(type), answer->type, want);
    return 0;
}

int text_ask_begin(struct machine_text *text, struct text_call *call, enum text_type type, const struct buf *members,
                   struct text_request **ret_request, struct err *err) {
    if (text_lacks(text, type))
        return err_set(err, ERR_UNSUPPORTED, "the runner of machine %s does not know '%s'", text->name,
                       text_type_name(type));
    struct text_request *request = NULL;
    pthread_mutex_lock(&text->lock);
    int r = request_new_locked(text, call, type, &request, err);
    pthread_mutex_unlock(&text->lock);
    if (r < 0)
        return r;
    char id[TEXT_ID_BYTES];
    id_of(request->number, id);
    autobuf bytes;
    buf_init(&bytes, LIMIT_TEXT_MESSAGE_BYTES);
    r = encode(text, id, type, members, &bytes, err);
    pthread_mutex_lock(&text->lock);
    if (r == 0)
        r = queue_locked(text, &bytes, err);
    if (r < 0)
        request_remove_locked(text, request);
    pthread_mutex_unlock(&text->lock);
    if (r == 0)
        *ret_request = request;
    return r;
}

int text_ask_end(struct machine_text *text, struct text_request *request, uint64_t timeout_ms,
                 struct text_answer *ret_answer, struct err *err) {
    struct text_answer answer = {0};
    enum text_type type = request->type;
    int r = request_wait(text, request, timeout_ms, &answer, err);
    if (r == 0)
        r = answer_check(text, type, &answer, err);
    if (r == 0 && ret_answer)
        *ret_answer = answer;
    else
        text_answer_done(text, &answer);
    return r;
}

int text_ask(struct machine_text *text, struct text_call *call, enum text_type type, const struct buf *members,
             uint64_t timeout_ms, struct text_answer *ret_answer, struct err *err) {
    struct text_request *request = NULL;
    int r = text_ask_begin(text, call, type, members, &request, err);
    return r < 0 ? r : text_ask_end(text, request, timeout_ms, ret_answer, err);
}

bool text_lacks(struct machine_text *text, enum text_type type) {
    pthread_mutex_lock(&text->lock);
    bool lacks = text->lacks & 1ull << type;
    pthread_mutex_unlock(&text->lock);
    return lacks;
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
    /* Who moves the file's bytes meanwhile waits at the transfer, not here. */
    if (strcmp(answer->type, "error") == 0 && request->call && request->call->transfer)
        machine_transfer_fail(request->call->transfer, "the machine refused it");
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
    } else {
        r = text_stream_take_locked(text, &answer, err);
        if (r > 0)
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
    text->latency_us = socket->latency_us ? socket->latency_us(socket->user) : 0;
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
    machine_text_die(text, err->text);
    return r;
}

void machine_text_leave(struct machine_text *text, const char *why) {
    pthread_mutex_lock(&text->lock);
    if (!text->leave && !text->dead) {
        text->leave = true;
        snprintf(text->why, sizeof text->why, "%s", why);
    }
    text_kick_locked(text);
    pthread_mutex_unlock(&text->lock);
}

int machine_serve_text(struct machine_seat *seat, const struct pump_socket *socket,
                       const struct machine_text_options *options, int (*tick)(void *user, struct err *err),
                       void *tick_user, struct err *err) {
    struct machine_hello hello = {.user = machine_seat_user(seat),
                                  .name = machine_seat_name(seat),
                                  .workspace = machine_seat_workspace(seat),
                                  .shell = machine_seat_shell(seat)};
    struct machine_text *text = machine_text_new(&hello, options);
    machine_text_ref(text); /* the session's; this thread has one too */
    int r = machine_seat_begin(seat, &machine_text_ops, text, socket, err);
    if (r == 0)
        machine_text_serve(text, socket, tick, tick_user, err);
    machine_text_unref(text);
    return machine_seat_end(seat, false, err);
}

/* ---- machine_ops ---- */

static struct text_box *box_find_locked(struct machine_text *text, const char *id) {
    struct text_box *box = text->boxes;
    while (box && (box->ended || strcmp(box->id, id) != 0))
        box = box->next;
    return box;
}

static struct text_box *box_new(const struct machine_text *text, const struct spec *spec) {
    struct text_box *box = calloc(1, sizeof *box);
    if (!box)
        abort();
    arena_init(&box->arena);
    memcpy(box->id, spec->id, sizeof box->id);
    box->shell = arena_strdup(&box->arena, spec->shell ? spec->shell : text->shell);
    box->env = arena_alloc(&box->arena, (spec->env_count + 1) * sizeof *box->env);
    for (size_t i = 0; i < spec->env_count; i++)
        box->env[i] = arena_strdup(&box->arena, spec->env[i]);
    return box;
}

static int text_start(void *peer, const struct spec *spec, bool fresh, struct wire **ret_wire, struct err *err) {
    struct machine_text *text = peer;
    const struct limits *limits = &spec->limits;
    if (limits->memory_mb || limits->cpus > 0 || limits->pids || limits->disk_mb)
        return err_set(err, ERR_UNSUPPORTED,
                       "the runner of machine %s holds no limits: ask for none, or join it with `cubby join`",
                       text->name);
    if (spec->network_asked && spec->network == NETWORK_NONE)
        return err_set(err, ERR_UNSUPPORTED,
                       "the runner of machine %s cannot keep commands from the network: join it with `cubby join`",
                       text->name);
    pthread_mutex_lock(&text->lock);
    struct text_box *box = box_find_locked(text, spec->id);
    if (!box && fresh) {
        box = box_new(text, spec);
        box->next = text->boxes;
        text->boxes = box;
    }
    int r = text->dead ? gone_locked(text, err) : 0;
    pthread_mutex_unlock(&text->lock);
    if (r == 0 && !box)
        r = err_set(err, ERR_NOT_FOUND, "box %s is not on machine %s", spec->id, text->name);
    return r < 0 ? r : text_wire_open(text, box, ret_wire, err);
}

static int text_stop(void *peer, const char *id, bool keep_files, struct err *err) {
    (void)keep_files; /* they are the user's, in every case */
    struct machine_text *text = peer;
    pthread_mutex_lock(&text->lock);
    struct text_box *box = box_find_locked(text, id);
    if (box)
        box->ended = true; /* wires may still name it: it goes with the connection */
    pthread_mutex_unlock(&text->lock);
    text_streams_close(text, id);
    return text_process_end(text, id, err);
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
    text_kick_locked(text);
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
    machine_text_die(peer, "the connection was lost");
}

static void text_end(void *peer, const char *why) {
    machine_text_die(peer, why);
}

static void text_free(void *peer) {
    machine_text_die(peer, "the session is over");
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
