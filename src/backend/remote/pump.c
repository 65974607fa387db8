/* The pump of one session (pump.h): one thread polls the connection and the sockets of all channels, and moves what can be
 * moved. Called by backend/remote/machine_link.c and cli/join/join.c. Invariant:
 *
 * 1. `lock` guards everything. It is let go for poll and for events, and after either only what is found anew counts:
 *    other threads may have put things in, shut channels, or ended the session.
 * 2. The connection is always read: nothing that comes can make this thread wait (channel.h). Sockets are read only while
 *    the link has room. */
#include "backend/remote/pump.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/remote/channel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sync.h"
#include "base/text.h"
#include "http/websocket.h"

enum {
    ACK_DELAY_MS = 40,    /* an answer that is on its way soon goes first */
    MESSAGES_AT_ONCE = 64 /* taken from the connection before the channels' turn */
};

struct ask {
    struct ask *next;
    uint32_t number;
    bool answered, given_up;
    struct buf answer;
};

struct pump {
    const struct pump_events *events;
    void *user;
    pthread_mutex_t lock;
    pthread_cond_t answered;
    int wake_fd;
    struct link *link;
    struct channels channels;
    struct ask *asks;
    unsigned late;
    bool running, ended, leaving;
    char why[LIMIT_LINK_WHY_BYTES]; /* of ended and leaving */
    struct pollfd *fds;
    size_t fds_max;
    struct buf text; /* a record as text, out or in; free while nothing moves */
};

/* One connection. */
struct ride {
    const struct pump_socket *socket;
    bool blocked; /* it takes nothing until POLLOUT */
    uint64_t ticked_ms;
    uint64_t owed_ms; /* when the oldest record came that no ACK told; 0: none */
};

/* ---- life ---- */

static void pump_wake(struct pump *pump) {
    uint64_t one = 1;
    ssize_t n = pump->running ? write(pump->wake_fd, &one, sizeof one) : 0;
    (void)n; /* fails only when it is set beyond counting */
}

struct pump *pump_new(const struct pump_events *events, void *user) {
    struct pump *pump = xcalloc(1, sizeof *pump);
    pump->events = events;
    pump->user = user;
    pump->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pump->link = link_new();
    pump->channels = (struct channels){.link = pump->link, .server = !events->ask};
    pthread_mutex_init(&pump->lock, NULL);
    cond_init(&pump->answered);
    buf_init(&pump->text, 2u * LIMIT_LINK_TALK_BYTES);
    return pump;
}

static void ask_free(struct pump *pump, struct ask *ask) {
    struct ask **at = &pump->asks;
    while (*at != ask)
        at = &(*at)->next;
    *at = ask->next;
    pump->late -= ask->given_up;
    buf_done(&ask->answer);
    free(ask);
}

void pump_free(struct pump *pump) {
    if (!pump)
        return;
    assert(!pump->running);
    channels_free(&pump->channels);
    while (pump->asks)
        ask_free(pump, pump->asks);
    link_free(pump->link);
    fd_close(&pump->wake_fd);
    free(pump->fds);
    buf_done(&pump->text);
    pthread_cond_destroy(&pump->answered);
    pthread_mutex_destroy(&pump->lock);
    free(pump);
}

/* An answer that nobody waits for any more may have opened a channel. */
static void ask_answered_late(struct pump *pump, struct ask *ask) {
    channels_shut(&pump->channels, ask->number, "the answer came too late");
    ask_free(pump, ask);
}

static int take_tell(struct pump *pump, const struct link_record *record, struct err *err) {
    struct ask *ask = pump->asks;
    while (ask && ask->number != record->channel)
        ask = ask->next;
    if (!ask || ask->answered)
        return err_set(err, ERR_PROTOCOL, "an answer to %u, which was not asked", record->channel);
    if (ask->given_up) {
        ask_answered_late(pump, ask);
        return 0;
    }
    buf_put(&ask->answer, record->data, record->len);
    ask->answered = true;
    pthread_cond_broadcast(&pump->answered);
    return 0;
}

static int take_ask(struct pump *pump, const struct link_record *record, struct err *err) {
    if (!pump->events->ask)
        return err_set(err, ERR_PROTOCOL, "a question from a machine");
    pthread_mutex_unlock(&pump->lock);
    pump->events->ask(pump->user, record->channel, record->data, record->len);
    pthread_mutex_lock(&pump->lock);
    return 0;
}

static int pump_take(struct pump *pump, const void *data, size_t len, struct err *err) {
    struct link_record record;
    int r = link_in(pump->link, data, len, &record, err);
    if (r <= 0)
        return r;
    if (record.kind == LINK_ASK)
        return take_ask(pump, &record, err);
    return record.kind == LINK_TELL ? take_tell(pump, &record, err) : channels_take(&pump->channels, &record, err);
}

/* ---- records as text ---- */

enum { TEXT_DEPTH = 8, TEXT_VALUES = 256 }; /* more than any such message has */
static const char text_begin[] = "{\"type\":\"link\",\"data\":\"", text_end[] = "\"}";

/* Ours exactly, and whatever else is the same JSON. 1: the record is in pump->text; 0: it is another message. */
static int text_decode(struct pump *pump, const uint8_t *data, size_t len, struct err *err) {
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

static void text_encode(struct pump *pump, const uint8_t *data, size_t len) {
    buf_clear(&pump->text);
    buf_puts(&pump->text, text_begin);
    text_base64(&pump->text, data, len);
    buf_puts(&pump->text, text_end);
    assert(!pump->text.failed);
}

static int pump_take_text(struct pump *pump, const uint8_t *data, size_t len, struct err *err) {
    int r = text_decode(pump, data, len, err);
    if (r > 0)
        return pump_take(pump, pump->text.data, pump->text.len, err);
    if (r == 0 && !pump->events->text)
        return err_set(err, ERR_PROTOCOL, "a text message that is no record");
    if (r < 0)
        return r;
    pthread_mutex_unlock(&pump->lock);
    r = pump->events->text(pump->user, data, len, err);
    pthread_mutex_lock(&pump->lock);
    return r;
}

/* ---- one round ---- */

static int pump_receive(struct pump *pump, struct ride *ride, struct err *err) {
    int r = 0;
    for (int i = 0; i < MESSAGES_AT_ONCE && r >= 0 && !pump->ended; i++) {
        bool text;
        const uint8_t *data;
        size_t len;
        r = ride->socket->recv(ride->socket->user, &text, &data, &len, err);
        if (r <= 0)
            break;
        r = text ? pump_take_text(pump, data, len, err) : pump_take(pump, data, len, err);
    }
    if (!ride->owed_ms && link_owes(pump->link))
        ride->owed_ms = clock_ms();
    return r < 0 ? r : 0;
}

static int pump_send(struct pump *pump, struct ride *ride, struct err *err) {
    const struct pump_socket *socket = ride->socket;
    if (ride->owed_ms && clock_ms() >= ride->owed_ms + ACK_DELAY_MS)
        link_idle(pump->link);
    const uint8_t *data;
    size_t len;
    int r = 1;
    while (!ride->blocked && link_out(pump->link, &data, &len)) {
        if (socket->text_only) {
            text_encode(pump, data, len);
            data = pump->text.data;
            len = pump->text.len;
        }
        r = socket->send(socket->user, socket->text_only, data, len, err);
        if (r < 0)
            return r;
        if (r > 0)
            link_out_done(pump->link);
        ride->blocked = r == 0;
    }
    if (!link_owes(pump->link))
        ride->owed_ms = 0;
    r = socket->flush(socket->user, err);
    ride->blocked |= r == 0;
    buf_done(&pump->text);
    return r < 0 ? r : 0;
}

static int pump_beat(struct pump *pump, struct ride *ride, struct err *err) {
    uint64_t now = clock_ms(), heard = ride->socket->heard_ms(ride->socket->user);
    if (now >= heard + PUMP_SILENT_MS)
        return err_set(err, ERR_GONE, "nothing came for %u seconds", PUMP_SILENT_MS / 1000);
    if (ride->ticked_ms && now < ride->ticked_ms + PUMP_PING_MS)
        return 0;
    ride->ticked_ms = now;
    int r = ride->socket->ping(ride->socket->user, err);
    if (r < 0 || !pump->events->tick)
        return r;
    pthread_mutex_unlock(&pump->lock);
    r = pump->events->tick(pump->user, err);
    pthread_mutex_lock(&pump->lock);
    return r < 0 ? r : 0;
}

static int pump_timeout(const struct pump *pump, const struct ride *ride) {
    if (ride->socket->pending(ride->socket->user))
        return 0;
    if (pump->wake_fd < 0)
        return 10; /* no descriptors were left: look now and then instead of being woken */
    uint64_t now = clock_ms(), until = ride->ticked_ms + PUMP_PING_MS;
    uint64_t silent = ride->socket->heard_ms(ride->socket->user) + PUMP_SILENT_MS;
    until = silent < until ? silent : until;
    if (ride->owed_ms && ride->owed_ms + ACK_DELAY_MS < until)
        until = ride->owed_ms + ACK_DELAY_MS;
    return until > now ? (int)(until - now) : 0;
}

enum { SLOT_SOCKET, SLOT_WAKE, SLOT_CHANNELS };

/* Which descriptors are looked at, for what. */
static size_t pump_slots(struct pump *pump, const struct ride *ride) {
    if (pump->fds_max < SLOT_CHANNELS + pump->channels.count) {
        pump->fds_max = SLOT_CHANNELS + pump->channels.count + 4;
        free(pump->fds);
        pump->fds = xcalloc(pump->fds_max, sizeof *pump->fds);
    }
    size_t count = SLOT_CHANNELS;
    pump->fds[SLOT_SOCKET] =
        (struct pollfd){.fd = ride->socket->fd, .events = (short)(POLLIN | (ride->blocked ? POLLOUT : 0))};
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

static void pump_move(struct pump *pump) {
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

/* Those that the other end shut: told to their owner, then closed. */
static void pump_tell_over(struct pump *pump) {
    while (pump->channels.over) {
        struct channel *channel = pump->channels.over;
        pump->channels.over = channel->next;
        pthread_mutex_unlock(&pump->lock);
        if (pump->events->shut)
            pump->events->shut(pump->user, channel->number, channel->why);
        channel_free(channel);
        pthread_mutex_lock(&pump->lock);
    }
}

static int pump_round(struct pump *pump, struct ride *ride, struct err *err) {
    pump_tell_over(pump);
    if (pump->ended || pump->leaving)
        return err_set(err, ERR_GONE, "%s", pump->why);
    if (link_overdue(pump->link) || pump->late > LIMIT_LINK_LATE)
        return err_set(err, ERR_PROTOCOL, "the other end does not answer or acknowledge what it gets");
    int r = pump_beat(pump, ride, err);
    r = r < 0 ? r : pump_send(pump, ride, err);
    if (r < 0)
        return r;
    size_t count = pump_slots(pump, ride);
    int timeout_ms = pump_timeout(pump, ride);
    struct pollfd *fds = pump->fds;
    pthread_mutex_unlock(&pump->lock);
    int ready = poll(fds, count, timeout_ms);
    pthread_mutex_lock(&pump->lock);
    uint64_t drained;
    if (ready > 0 && fds[SLOT_WAKE].revents && read(pump->wake_fd, &drained, sizeof drained) < 0)
        assert(errno == EAGAIN);
    if (ready > 0 && (fds[SLOT_SOCKET].revents & (POLLOUT | POLLERR | POLLHUP)))
        ride->blocked = false;
    if (ready > 0)
        pump_move(pump);
    if ((ready > 0 && (fds[SLOT_SOCKET].revents & ~POLLOUT)) || ride->socket->pending(ride->socket->user))
        return pump_receive(pump, ride, err);
    return 0;
}

int pump_run(struct pump *pump, const struct pump_socket *socket, uint64_t resume, struct err *err) {
    struct ride ride = {.socket = socket};
    /* Bytes wait here, where channels take turns, rather than in the kernel, where they stand in one line. */
    int most = LIMIT_LINK_UNSENT_BYTES;
    setsockopt(socket->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
    pthread_mutex_lock(&pump->lock);
    assert(!pump->running);
    pump->running = true;
    int r = link_resume(pump->link, resume, err);
    while (r >= 0)
        r = pump_round(pump, &ride, err);
    pump->running = false;
    pump->leaving = false;
    buf_done(&pump->text);
    pthread_mutex_unlock(&pump->lock);
    return r;
}

uint64_t pump_received(struct pump *pump) {
    pthread_mutex_lock(&pump->lock);
    uint64_t received = link_received(pump->link);
    pthread_mutex_unlock(&pump->lock);
    return received;
}

/* ---- from any thread ---- */

static void pump_say_why(struct pump *pump, const char *why) {
    strncpy(pump->why, why, sizeof pump->why - 1);
}

void pump_leave(struct pump *pump, const char *why) {
    pthread_mutex_lock(&pump->lock);
    if (pump->running && !pump->ended) {
        pump->leaving = true;
        pump_say_why(pump, why);
    }
    pump_wake(pump);
    pthread_mutex_unlock(&pump->lock);
}

void pump_open(struct pump *pump, uint32_t channel, int fd) {
    pthread_mutex_lock(&pump->lock);
    if (pump->ended)
        close(fd);
    else
        channels_open(&pump->channels, channel, fd);
    pump_wake(pump);
    pthread_mutex_unlock(&pump->lock);
}

void pump_shut(struct pump *pump, uint32_t channel, const char *why) {
    pthread_mutex_lock(&pump->lock);
    if (!pump->ended)
        channels_shut(&pump->channels, channel, why);
    pump_wake(pump);
    pthread_mutex_unlock(&pump->lock);
}

void pump_tell(struct pump *pump, uint32_t number, const void *json, size_t len) {
    assert(len >= 2 && len <= LIMIT_LINK_TALK_BYTES);
    pthread_mutex_lock(&pump->lock);
    if (!pump->ended)
        link_put(pump->link, LINK_TELL, number, json, len);
    pump_wake(pump);
    pthread_mutex_unlock(&pump->lock);
}

uint32_t pump_number(struct pump *pump) {
    pthread_mutex_lock(&pump->lock);
    uint32_t number = ++pump->channels.last_number;
    assert(number != 0);
    pthread_mutex_unlock(&pump->lock);
    return number;
}

static struct ask *ask_new(struct pump *pump, uint32_t number) {
    struct ask *ask = xcalloc(1, sizeof *ask);
    ask->number = number;
    buf_init(&ask->answer, LIMIT_LINK_TALK_BYTES);
    ask->next = pump->asks;
    pump->asks = ask;
    return ask;
}

static int ask_wait(struct pump *pump, struct ask *ask, uint64_t timeout_ms, struct buf *out, struct err *err) {
    uint64_t until = clock_ms() + timeout_ms;
    bool in_time = true;
    while (!ask->answered && !pump->ended && in_time)
        in_time = cond_wait_until(&pump->answered, &pump->lock, until);
    if (!ask->answered && !pump->ended) {
        ask->given_up = true;
        pump->late++;
        return err_set(err, ERR_TIMEOUT, "the machine did not answer within %llu ms", (unsigned long long)timeout_ms);
    }
    int r = 0;
    if (!ask->answered)
        r = err_set(err, ERR_GONE, "%s", pump->why);
    else
        buf_put(out, ask->answer.data, ask->answer.len);
    if (r == 0 && out->failed)
        r = err_set(err, ERR_TOO_LARGE, "the machine's answer has %zu bytes", ask->answer.len);
    ask_free(pump, ask);
    return r;
}

int pump_ask(struct pump *pump, uint32_t number, const void *json, size_t len, uint64_t timeout_ms, struct buf *out,
             struct err *err) {
    if (len > LIMIT_LINK_TALK_BYTES)
        return err_set(err, ERR_TOO_LARGE, "a question of %zu bytes, at most %u go to a machine", len,
                       LIMIT_LINK_TALK_BYTES);
    int r;
    pthread_mutex_lock(&pump->lock);
    if (pump->ended) {
        r = err_set(err, ERR_GONE, "%s", pump->why);
    } else {
        link_put(pump->link, LINK_ASK, number, json, len);
        pump_wake(pump);
        r = ask_wait(pump, ask_new(pump, number), timeout_ms, out, err);
    }
    pthread_mutex_unlock(&pump->lock);
    return r;
}

void pump_end(struct pump *pump, const char *why) {
    pthread_mutex_lock(&pump->lock);
    if (!pump->ended) {
        pump->ended = true;
        pump_say_why(pump, why);
        channels_free(&pump->channels);
        pthread_cond_broadcast(&pump->answered);
    }
    pump_wake(pump);
    pthread_mutex_unlock(&pump->lock);
}

bool pump_quiet(struct pump *pump) {
    pthread_mutex_lock(&pump->lock);
    bool quiet = !pump->channels.list;
    for (struct ask *ask = pump->asks; ask; ask = ask->next)
        quiet &= ask->given_up;
    pthread_mutex_unlock(&pump->lock);
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
