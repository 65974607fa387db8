/* The pump of one session (pump.h): one thread polls the connection and the sockets of all channels, and moves bytes
 * between them. Called by backend/remote/machine_link.c and cli/join/join.c. Invariants:
 *
 * 1. `lock` guards everything. It is released for poll and for events, and afterwards all state is read again: other
 *    threads may have added records, shut channels, or ended the session.
 * 2. The connection is always read: no input can make this thread wait (channel.h). Sockets are read only while the
 *    link has space. */
#include "backend/remote/pump.h"

#include <assert.h>
#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "backend/remote/channel.h"
#include "base/json.h"
#include "base/sync.h"
#include "http/websocket.h"

enum {
    ACK_DELAY_MS = 40,      /* an answer that is on its way soon goes first */
    MESSAGES_AT_ONCE = 64,  /* taken from the connection before the channels' turn */
    QUEUED_BYTES = 8 << 20, /* pump_say waits above */
};

struct pump_question {
    struct pump_question *next;
    uint32_t number;
    bool answered, given_up;
    struct buf answer;
};

struct pump_message {
    struct pump_message *next;
    struct buf bytes;
};

struct pump {
    const struct pump_events *events;
    void *user;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* answers, room in the queue, a sign of life */
    int wake_fd;
    struct link *link;
    struct channels channels;
    struct pump_question *questions;
    unsigned late;
    struct pump_message *first, **last; /* pump_say */
    size_t queued_bytes;
    bool running, ended, leaving;
    char why[LIMIT_LINK_WHY_BYTES]; /* of ended and leaving */
    struct pollfd *fds;
    size_t fds_max;
    struct buf text; /* a record as text, out or in; free while nothing moves */
    /* The connection that is served: */
    const struct pump_socket *socket;
    bool blocked; /* it takes nothing until POLLOUT */
    uint64_t heard_ms, ticked_ms;
    uint64_t owed_ms; /* when the oldest record came that no ACK reported; 0: none */
};

/* ---- life ---- */

static void pump_wake(struct pump *pump) {
    if (pump->running)
        eventfd_write(pump->wake_fd, 1); /* fails only when it is set beyond counting */
}

struct pump *pump_new(const struct pump_events *events, void *user) {
    struct pump *pump = xcalloc(1, sizeof *pump);
    pump->events = events;
    pump->user = user;
    pump->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pump->link = link_new();
    pump->channels = (struct channels){.link = pump->link, .server = !events->ask};
    pump->last = &pump->first;
    pthread_mutex_init(&pump->lock, NULL);
    cond_init(&pump->changed);
    buf_init(&pump->text, 2u * LIMIT_LINK_TALK_BYTES);
    return pump;
}

static void pump_question_free(struct pump *pump, struct pump_question *question) {
    list_remove(pump->questions, question);
    pump->late -= question->given_up;
    buf_done(&question->answer);
    free(question);
}

static void pump_message_drop(struct pump *pump) {
    struct pump_message *message = pump->first;
    pump->first = message->next;
    if (!pump->first)
        pump->last = &pump->first;
    pump->queued_bytes -= message->bytes.len;
    buf_done(&message->bytes);
    free(message);
}

void pump_free(struct pump *pump) {
    if (!pump)
        return;
    assert(!pump->running);
    channels_free(&pump->channels);
    while (pump->questions)
        pump_question_free(pump, pump->questions);
    while (pump->first)
        pump_message_drop(pump);
    link_free(pump->link);
    fd_close(&pump->wake_fd);
    free(pump->fds);
    buf_done(&pump->text);
    pthread_cond_destroy(&pump->changed);
    pthread_mutex_destroy(&pump->lock);
    free(pump);
}

static int pump_take_answer(struct pump *pump, const struct link_record *record, struct err *err) {
    struct pump_question *question = list_find(pump->questions, asked, asked->number == record->channel);
    if (!question || question->answered)
        return err_set(err, ERR_PROTOCOL, "an answer to %u, which was not asked", record->channel);
    if (question->given_up) { /* its answer may have opened a channel */
        channels_shut(&pump->channels, question->number, "the answer came too late");
        pump_question_free(pump, question);
        return 0;
    }
    buf_put(&question->answer, record->data, record->len);
    question->answered = true;
    pthread_cond_broadcast(&pump->changed);
    return 0;
}

static int pump_take(struct pump *pump, const void *data, size_t len, struct err *err) {
    struct link_record record;
    int r = link_in(pump->link, data, len, &record, err);
    if (r <= 0)
        return r;
    if (record.kind == LINK_TELL)
        return pump_take_answer(pump, &record, err);
    if (record.kind != LINK_ASK)
        return channels_take(&pump->channels, &record, err);
    if (!pump->events->ask)
        return err_set(err, ERR_PROTOCOL, "a question from a machine");
    pthread_mutex_unlock(&pump->lock);
    pump->events->ask(pump->user, record.channel, record.data, record.len);
    pthread_mutex_lock(&pump->lock);
    return 0;
}

/* ---- records as text ---- */

enum { TEXT_DEPTH = 8, TEXT_VALUES = 256 }; /* more than any such message has */
static const char text_begin[] = "{\"type\":\"link\",\"data\":\"", text_end[] = "\"}";

/* Ours exactly, and whatever else is the same JSON. 1: the record is in pump->text; 0: it is another message. */
static int pump_text_decode(struct pump *pump, const uint8_t *data, size_t len, struct err *err) {
    size_t begin = sizeof text_begin - 1, end = sizeof text_end - 1;
    buf_clear(&pump->text);
    if (len >= begin + end && memcmp(data, text_begin, begin) == 0 && memcmp(data + len - end, text_end, end) == 0 &&
        text_unbase64(&pump->text, (const char *)data + begin, len - begin - end))
        return 1;
    buf_clear(&pump->text);
    pump->text.failed = false;
    json_t *message = json_measure((const char *)data, len, TEXT_DEPTH, TEXT_VALUES) == JSON_FITS
                          ? json_loadb((const char *)data, len, 0, NULL)
                          : NULL;
    const char *type = json_string_value(json_object_get(message, "type"));
    json_t *base64 = json_object_get(message, "data");
    int r = type && strcmp(type, "link") == 0;
    if (r &&
        (!json_is_string(base64) || !text_unbase64(&pump->text, json_string_value(base64), json_string_length(base64))))
        r = err_set(err, ERR_PROTOCOL, "a link message without base64 data");
    json_decref(message);
    return r;
}

static int pump_take_text(struct pump *pump, const uint8_t *data, size_t len, struct err *err) {
    int r = pump->events->plain ? 0 : pump_text_decode(pump, data, len, err);
    if (r > 0)
        return pump_take(pump, pump->text.data, pump->text.len, err);
    if (r == 0 && !pump->events->text)
        return err_set(err, ERR_PROTOCOL, "a text message that is not a record");
    if (r < 0)
        return r;
    pthread_mutex_unlock(&pump->lock);
    r = pump->events->text(pump->user, data, len, err);
    pthread_mutex_lock(&pump->lock);
    return r;
}

/* ---- one round ---- */

static int pump_receive(struct pump *pump, struct err *err) {
    int r = 0;
    for (int i = 0; i < MESSAGES_AT_ONCE && r >= 0 && !pump->ended; i++) {
        bool text;
        const uint8_t *data;
        size_t len;
        r = pump->socket->recv(pump->socket->user, &text, &data, &len, err);
        if (r <= 0)
            break;
        if (!text && pump->events->plain)
            r = err_set(err, ERR_PROTOCOL, "a binary message: the machine registered for text");
        else
            r = text ? pump_take_text(pump, data, len, err) : pump_take(pump, data, len, err);
    }
    if (!pump->owed_ms && link_owes(pump->link))
        pump->owed_ms = clock_ms();
    return r < 0 ? r : 0;
}

static int pump_send(struct pump *pump, struct err *err) {
    const struct pump_socket *socket = pump->socket;
    if (pump->owed_ms && clock_ms() >= pump->owed_ms + ACK_DELAY_MS)
        link_idle(pump->link);
    const uint8_t *data;
    size_t len;
    int r = 1;
    while (!pump->blocked && r > 0 && link_out(pump->link, &data, &len)) {
        if (socket->text_only) {
            buf_clear(&pump->text);
            buf_puts(&pump->text, text_begin);
            text_base64(&pump->text, data, len);
            buf_puts(&pump->text, text_end);
            assert(!pump->text.failed);
            data = pump->text.data;
            len = pump->text.len;
        }
        r = socket->send(socket->user, socket->text_only, data, len, err);
        if (r > 0)
            link_out_done(pump->link);
    }
    while (!pump->blocked && r > 0 && pump->first) {
        r = socket->send(socket->user, true, pump->first->bytes.data, pump->first->bytes.len, err);
        if (r > 0)
            pump_message_drop(pump);
        pthread_cond_broadcast(&pump->changed);
    }
    if (r < 0)
        return r;
    if (!link_owes(pump->link))
        pump->owed_ms = 0;
    pump->blocked |= r == 0;
    r = socket->flush(socket->user, err);
    pump->blocked |= r == 0;
    buf_done(&pump->text);
    return r < 0 ? r : 0;
}

/* Pings, asks whether the connection may stay, and notices silence. */
static int pump_beat(struct pump *pump, struct err *err) {
    uint64_t now = clock_ms(), heard = pump->socket->heard_ms(pump->socket->user);
    if (heard != pump->heard_ms)
        pthread_cond_broadcast(&pump->changed);
    pump->heard_ms = heard;
    if (now >= heard + PUMP_SILENT_MS)
        return err_set(err, ERR_GONE, "nothing came for %u seconds", PUMP_SILENT_MS / 1000);
    if (pump->ticked_ms && now < pump->ticked_ms + PUMP_PING_MS)
        return 0;
    pump->ticked_ms = now;
    int r = pump->socket->ping(pump->socket->user, err);
    if (r < 0 || !pump->events->tick)
        return r < 0 ? r : 0;
    pthread_mutex_unlock(&pump->lock);
    r = pump->events->tick(pump->user, err);
    pthread_mutex_lock(&pump->lock);
    return r < 0 ? r : 0;
}

static int pump_timeout(const struct pump *pump) {
    if (pump->socket->pending(pump->socket->user))
        return 0;
    if (pump->wake_fd < 0)
        return 10; /* no descriptors were left: look now and then instead of being woken */
    uint64_t now = clock_ms(), until = pump->ticked_ms + PUMP_PING_MS;
    uint64_t silent = pump->heard_ms + PUMP_SILENT_MS;
    until = silent < until ? silent : until;
    if (pump->owed_ms && pump->owed_ms + ACK_DELAY_MS < until)
        until = pump->owed_ms + ACK_DELAY_MS;
    return until > now ? (int)(until - now) : 0;
}

enum { SLOT_SOCKET, SLOT_WAKE, SLOT_CHANNELS };

/* Which descriptors are polled, for what. */
static size_t pump_slots(struct pump *pump) {
    if (pump->fds_max < SLOT_CHANNELS + pump->channels.count) {
        pump->fds_max = SLOT_CHANNELS + pump->channels.count + 4;
        free(pump->fds);
        pump->fds = xcalloc(pump->fds_max, sizeof *pump->fds);
    }
    size_t count = SLOT_CHANNELS;
    pump->fds[SLOT_SOCKET] =
        (struct pollfd){.fd = pump->socket->fd, .events = (short)(POLLIN | (pump->blocked ? POLLOUT : 0))};
    pump->fds[SLOT_WAKE] = (struct pollfd){.fd = pump->wake_fd, .events = POLLIN};
    bool full = link_full(pump->link);
    for (struct channel *channel = pump->channels.list; channel; channel = channel->next) {
        bool in = !full && channel->send_window > 0 && !channel->shut_came;
        short events = (short)((in ? POLLIN : 0) | (channel->pending.len ? POLLOUT : 0));
        bool look = channel->fd >= 0 && events;
        channel->slot = look ? count : 0;
        if (look)
            pump->fds[count++] = (struct pollfd){.fd = channel->fd, .events = events};
    }
    return count;
}

static int pump_round(struct pump *pump, struct err *err) {
    /* Those that the other end shut: reported to their owner, then closed. */
    while (pump->channels.over) {
        struct channel *channel = pump->channels.over;
        pump->channels.over = channel->next;
        pthread_mutex_unlock(&pump->lock);
        if (pump->events->shut)
            pump->events->shut(pump->user, channel->number, channel->why);
        channel_free(channel);
        pthread_mutex_lock(&pump->lock);
    }
    if (pump->ended || pump->leaving)
        return err_set(err, ERR_GONE, "%s", pump->why);
    if (link_overdue(pump->link) || pump->late > LIMIT_LINK_LATE)
        return err_set(err, ERR_PROTOCOL, "the other end does not answer or acknowledge what it gets");
    int r = pump_beat(pump, err);
    TRY(r < 0 ? r : pump_send(pump, err));
    size_t count = pump_slots(pump);
    int timeout_ms = pump_timeout(pump);
    struct pollfd *fds = pump->fds;
    pthread_mutex_unlock(&pump->lock);
    int ready = poll(fds, count, timeout_ms);
    pthread_mutex_lock(&pump->lock);
    eventfd_t drained;
    if (ready > 0 && fds[SLOT_WAKE].revents && eventfd_read(pump->wake_fd, &drained) < 0)
        assert(errno == EAGAIN);
    if (ready > 0 && (fds[SLOT_SOCKET].revents & (POLLOUT | POLLERR | POLLHUP)))
        pump->blocked = false;
    if (ready > 0) {
        struct channel *next;
        for (struct channel *channel = pump->channels.list; channel; channel = next) {
            next = channel->next;
            if (channel->slot == 0 || pump->fds[channel->slot].fd != channel->fd)
                continue;
            short asked = pump->fds[channel->slot].events, has = pump->fds[channel->slot].revents;
            if ((asked & POLLOUT) && has && !channel_flush(&pump->channels, channel))
                continue;
            if ((asked & POLLIN) && (has & (POLLIN | POLLHUP | POLLERR)))
                channel_read(&pump->channels, channel);
        }
    }
    if ((ready > 0 && (fds[SLOT_SOCKET].revents & ~POLLOUT)) || pump->socket->pending(pump->socket->user))
        return pump_receive(pump, err);
    return 0;
}

int pump_run(struct pump *pump, const struct pump_socket *socket, uint64_t resume, struct err *err) {
    /* Bytes wait here, where channels take turns, rather than in the kernel, which has one queue for all. */
    int most = LIMIT_LINK_UNSENT_BYTES;
    setsockopt(socket->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
    autolock(&pump->lock);
    assert(!pump->running);
    pump->running = true;
    pump->socket = socket;
    pump->blocked = false;
    pump->ticked_ms = pump->owed_ms = 0;
    int r = link_resume(pump->link, resume, err);
    while (r >= 0)
        r = pump_round(pump, err);
    pump->running = false;
    pump->leaving = false;
    buf_done(&pump->text);
    return r;
}

uint64_t pump_received(struct pump *pump) {
    autolock(&pump->lock);
    return link_received(pump->link);
}

/* ---- from any thread ---- */

void pump_leave(struct pump *pump, const char *why) {
    autolock(&pump->lock);
    /* A plain pump has one connection: it is asked to leave even before it runs. */
    if ((pump->running || pump->events->plain) && !pump->ended && !pump->leaving) {
        pump->leaving = true;
        strncpy(pump->why, why, sizeof pump->why - 1);
    }
    pump_wake(pump);
}

void pump_open(struct pump *pump, uint32_t channel, int fd) {
    autolock(&pump->lock);
    if (pump->ended)
        close(fd);
    else
        channels_open(&pump->channels, channel, fd);
    pump_wake(pump);
}

void pump_shut(struct pump *pump, uint32_t channel, const char *why) {
    autolock(&pump->lock);
    if (!pump->ended)
        channels_shut(&pump->channels, channel, why);
    pump_wake(pump);
}

void pump_answer(struct pump *pump, uint32_t number, const void *json, size_t len) {
    assert(len >= 2 && len <= LIMIT_LINK_TALK_BYTES);
    autolock(&pump->lock);
    if (!pump->ended)
        link_put(pump->link, LINK_TELL, number, json, len);
    pump_wake(pump);
}

uint32_t pump_number(struct pump *pump) {
    autolock(&pump->lock);
    uint32_t number = ++pump->channels.last_number;
    assert(number != 0);
    return number;
}

int pump_ask(struct pump *pump, uint32_t number, const void *json, size_t len, uint64_t timeout_ms, struct buf *out,
             struct err *err) {
    if (len > LIMIT_LINK_TALK_BYTES)
        return err_set(err, ERR_TOO_LARGE, "a question of %zu bytes, at most %u go to a machine", len,
                       LIMIT_LINK_TALK_BYTES);
    struct pump_question *question = xcalloc(1, sizeof *question);
    question->number = number;
    buf_init(&question->answer, LIMIT_LINK_TALK_BYTES);
    uint64_t until = clock_ms() + timeout_ms;
    bool in_time = true;
    int r = 0;
    autolock(&pump->lock);
    list_push(pump->questions, question);
    if (!pump->ended) {
        link_put(pump->link, LINK_ASK, number, json, len);
        pump_wake(pump);
    }
    while (!question->answered && !pump->ended && in_time)
        in_time = cond_wait_until(&pump->changed, &pump->lock, until);
    if (!question->answered && !pump->ended) {
        question->given_up = true;
        pump->late++;
        r = err_set(err, ERR_TIMEOUT, "the machine did not answer within %llu ms", (unsigned long long)timeout_ms);
    } else if (!question->answered) {
        r = err_set(err, ERR_GONE, "%s", pump->why);
    } else {
        buf_put(out, question->answer.data, question->answer.len);
        if (out->failed)
            r = err_set(err, ERR_TOO_LARGE, "the machine's answer has %zu bytes", question->answer.len);
    }
    if (!question->given_up)
        pump_question_free(pump, question);
    return r;
}

int pump_say(struct pump *pump, struct buf *message, struct err *err) {
    autolock(&pump->lock);
    while (!pump->ended && pump->queued_bytes > QUEUED_BYTES)
        cond_wait_until(&pump->changed, &pump->lock, 0);
    int r = pump->ended ? err_set(err, ERR_GONE, "%s", pump->why) : 0;
    if (r == 0) {
        struct pump_message *new = xcalloc(1, sizeof *new);
        new->bytes = *message;
        buf_init(message, message->max);
        pump->queued_bytes += new->bytes.len;
        *pump->last = new;
        pump->last = &new->next;
        pump_wake(pump);
    }
    return r;
}

bool pump_hears(struct pump *pump, uint64_t timeout_ms) {
    uint64_t asked_ms = clock_ms();
    autolock(&pump->lock);
    pump->ticked_ms = 0; /* the next round pings */
    pump_wake(pump);
    while (!pump->ended && pump->heard_ms <= asked_ms &&
           cond_wait_until(&pump->changed, &pump->lock, asked_ms + timeout_ms))
        ;
    return !pump->ended && pump->heard_ms > asked_ms;
}

void pump_end(struct pump *pump, const char *why) {
    autolock(&pump->lock);
    if (!pump->ended) {
        pump->ended = true;
        strncpy(pump->why, why, sizeof pump->why - 1);
        channels_free(&pump->channels);
        pthread_cond_broadcast(&pump->changed);
    }
    pump_wake(pump);
}

bool pump_quiet(struct pump *pump) {
    autolock(&pump->lock);
    bool quiet = !pump->channels.list;
    for (struct pump_question *question = pump->questions; question; question = question->next)
        quiet &= question->given_up;
    return quiet;
}

struct pump_socket pump_websocket(struct websocket *websocket, int fd, bool text_only) {
    return (struct pump_socket){.user = websocket,
                                .fd = fd,
                                .text_only = text_only,
                                .recv = websocket_recv,
                                .pending = websocket_pending,
                                .send = websocket_send,
                                .flush = websocket_flush,
                                .ping = websocket_ping,
                                .heard_ms = websocket_heard_ms,
                                .latency_us = websocket_latency_us};
}
