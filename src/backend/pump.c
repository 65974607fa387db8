/* The pump of one session (pump.h): one thread polls the connection and the sockets of all channels, and moves what can be
 * moved. Called by backend/machine_link.c and cli/join.c. Not to break:
 *
 * 1. `lock` guards everything. It is let go for poll and for events, and after either only what is found anew counts:
 *    other threads may have put things in, shut channels, or ended the session.
 * 2. Bytes for a channel's socket that it does not take are kept, bounded by the channel's window; a window is given back
 *    only for what the socket took. So whoever reads slowly stops its own channel, and the connection is always read.
 * 3. A channel is forgotten when a SHUT was sent and one came. Until then its number means this channel and no other. */
#include "backend/pump.h"

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

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "wire/proto.h"

enum {
    RECORD_BYTES = LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES,
    ACK_DELAY_MS = 40,    /* an answer that is on its way soon goes first */
    MESSAGES_AT_ONCE = 64 /* taken from the connection before the channels' turn */
};

struct channel {
    struct channel *next;
    uint32_t number;
    int fd;      /* -1: not open here, not yet or no more */
    bool opened; /* pump_open was called */
    bool shut_sent, shut_came;
    size_t slot;           /* in fds, this round; 0: none */
    uint32_t send_window;  /* bytes we may send */
    uint32_t receive_left; /* bytes they may send */
    uint32_t window;       /* of theirs, as a whole: what is left, what is pending and what was taken */
    uint32_t taken;        /* by the socket, and not given back yet */
    struct buf pending;    /* came, and the socket has not taken it */
    size_t pending_at;
    char *why; /* theirs */
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
    struct channel *channels, *over; /* over: shut by the other end, the owner is to be told */
    unsigned channel_count;
    struct ask *asks;
    unsigned late;
    uint32_t last_number;
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
    struct pump *pump = calloc(1, sizeof *pump);
    if (!pump)
        abort();
    pump->events = events;
    pump->user = user;
    pump->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pump->link = link_new();
    pthread_mutex_init(&pump->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pump->answered, &attributes);
    pthread_condattr_destroy(&attributes);
    buf_init(&pump->text, 2u * LIMIT_LINK_TALK_BYTES);
    return pump;
}

static void channel_free(struct channel *channel) {
    fd_close(&channel->fd);
    buf_done(&channel->pending);
    free(channel->why);
    free(channel);
}

static void channels_free(struct channel **list) {
    while (*list) {
        struct channel *channel = *list;
        *list = channel->next;
        channel_free(channel);
    }
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
    channels_free(&pump->over);
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

/* ---- channels ---- */

static struct channel *channel_find(struct pump *pump, uint32_t number) {
    struct channel *channel = pump->channels;
    while (channel && channel->number != number)
        channel = channel->next;
    return channel;
}

static struct channel *channel_new(struct pump *pump, uint32_t number) {
    struct channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        abort();
    channel->number = number;
    channel->fd = -1;
    channel->send_window = channel->receive_left = channel->window = LIMIT_CHANNEL_BYTES;
    buf_init(&channel->pending, 2 * (LIMIT_CHANNEL_MOST_BYTES + LIMIT_CHANNEL_BYTES));
    channel->next = pump->channels;
    pump->channels = channel;
    pump->channel_count++;
    return channel;
}

static void channel_unlink(struct pump *pump, struct channel *channel) {
    struct channel **at = &pump->channels;
    while (*at != channel)
        at = &(*at)->next;
    *at = channel->next;
    pump->channel_count--;
}

/* This end is through with it. */
static void channel_shut(struct pump *pump, struct channel *channel, const char *why) {
    if (channel->shut_sent)
        return;
    size_t len = strnlen(why, LIMIT_LINK_WHY_BYTES);
    link_put(pump->link, LINK_SHUT, channel->number, why, len);
    channel->shut_sent = true;
    fd_close(&channel->fd);
    buf_done(&channel->pending);
    if (channel->shut_came) {
        channel_unlink(pump, channel);
        channel_free(channel);
    }
}

/* The other end is through with it, and its last bytes are delivered. Its owner is told at the end of the round, and
 * its socket closes after that. */
static void channel_over(struct pump *pump, struct channel *channel) {
    channel_unlink(pump, channel);
    channel->next = pump->over;
    pump->over = channel;
}

/* How large a window may be: fewer channels, larger windows. Their sum stays bounded, since each step up is measured
 * against the number of channels there are then. */
static uint32_t window_target(const struct pump *pump) {
    uint32_t share = LIMIT_CHANNEL_POOL_BYTES / (pump->channel_count ? pump->channel_count : 1);
    uint32_t most = LIMIT_CHANNEL_MOST_BYTES - LIMIT_CHANNEL_BYTES;
    return LIMIT_CHANNEL_BYTES + (share < most ? share : most);
}

/* The socket took n bytes: the other end may send as many again, and more or less as the window grows or shrinks. */
static void channel_give_back(struct pump *pump, struct channel *channel, size_t n) {
    channel->taken += (uint32_t)n;
    if (channel->taken < channel->window / 2 || channel->shut_came || channel->shut_sent)
        return;
    uint32_t more = channel->taken, target = window_target(pump);
    if (channel->window < target) {
        uint32_t grow = target - channel->window < more ? target - channel->window : more;
        channel->window += grow;
        more += grow;
    } else {
        uint32_t shrink = channel->window - target < more ? channel->window - target : more;
        channel->window -= shrink;
        more -= shrink;
    }
    channel->taken = 0;
    channel->receive_left += more;
    if (more)
        link_put_window(pump->link, channel->number, more);
}

/* Bytes that the socket takes now, 0 when it is full, or -1: its reader has gone. */
static ssize_t channel_write(const struct channel *channel, const uint8_t *data, size_t len) {
    size_t done = 0;
    while (done < len) {
        ssize_t n = send(channel->fd, data + done, len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            done += (size_t)n;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            return -1;
    }
    return (ssize_t)done;
}

/* False: the channel is no more. */
static bool channel_flush(struct pump *pump, struct channel *channel) {
    size_t left = channel->pending.len - channel->pending_at;
    ssize_t n = channel_write(channel, channel->pending.data + channel->pending_at, left);
    if (n < 0 && !channel->shut_came) {
        channel_shut(pump, channel, "");
        return false;
    }
    channel->pending_at += n < 0 ? left : (size_t)n;
    if (channel->pending_at == channel->pending.len) {
        buf_done(&channel->pending);
        channel->pending_at = 0;
    }
    if (n > 0)
        channel_give_back(pump, channel, (size_t)n);
    bool over = channel->shut_came && channel->pending.len == 0;
    if (over)
        channel_over(pump, channel);
    return !over;
}

static void channel_deliver(struct pump *pump, struct channel *channel, const uint8_t *data, size_t len) {
    if (channel->pending.len == 0) {
        ssize_t n = channel_write(channel, data, len);
        if (n < 0) {
            channel_shut(pump, channel, "");
            return;
        }
        data += n;
        len -= (size_t)n;
        channel_give_back(pump, channel, (size_t)n);
    }
    if (len == 0)
        return;
    if (channel->pending_at > channel->pending.len / 2) {
        buf_consume(&channel->pending, channel->pending_at);
        channel->pending_at = 0;
    }
    buf_put(&channel->pending, data, len);
    assert(!channel->pending.failed);
}

/* What its socket has becomes records, as far as the window and the link let it. May free the channel. */
static void channel_read(struct pump *pump, struct channel *channel) {
    while (!link_full(pump->link) && channel->send_window > 0) {
        size_t max = channel->send_window < RECORD_BYTES ? channel->send_window : RECORD_BYTES;
        uint8_t *at = link_reserve(pump->link, max);
        ssize_t n = recv(channel->fd, at, max, MSG_DONTWAIT);
        if (n <= 0) {
            bool over = n == 0 || (errno != EAGAIN && errno != EINTR);
            link_release(pump->link);
            if (over)
                channel_shut(pump, channel, "");
            return;
        }
        channel->send_window -= (uint32_t)n;
        link_commit(pump->link, LINK_DATA, channel->number, (size_t)n);
        if ((size_t)n < max / 2)
            return; /* most likely there is no more: poll says */
    }
}

/* ---- records that come ---- */

/* The other end speaks of a channel that is not open here yet. Its number must be one that we gave out. */
static int channel_early(struct pump *pump, uint32_t number, struct channel **ret_channel, struct err *err) {
    bool server = !pump->events->ask;
    if (server && number > pump->last_number)
        return err_set(err, ERR_PROTOCOL, "channel %u was never asked for", number);
    if (pump->channel_count >= LIMIT_CHANNELS)
        return err_set(err, ERR_PROTOCOL, "more than %u channels", LIMIT_CHANNELS);
    *ret_channel = channel_new(pump, number);
    return 0;
}

static int take_data(struct pump *pump, const struct link_record *record, struct err *err) {
    struct channel *channel = channel_find(pump, record->channel);
    int r = channel ? 0 : channel_early(pump, record->channel, &channel, err);
    if (r < 0)
        return r;
    if (channel->shut_came)
        return err_set(err, ERR_PROTOCOL, "bytes on channel %u, which it has shut", record->channel);
    if (record->len > channel->receive_left)
        return err_set(err, ERR_PROTOCOL, "%zu bytes on channel %u, whose window has %u left", record->len,
                       record->channel, channel->receive_left);
    channel->receive_left -= (uint32_t)record->len;
    if (channel->shut_sent)
        return 0; /* it crossed our SHUT */
    if (channel->opened) {
        channel_deliver(pump, channel, record->data, record->len);
        return 0;
    }
    if (channel->pending.len + record->len > LIMIT_CHANNEL_EARLY_BYTES)
        return err_set(err, ERR_PROTOCOL, "more than %u bytes on channel %u before it is used",
                       LIMIT_CHANNEL_EARLY_BYTES, record->channel);
    buf_put(&channel->pending, record->data, record->len);
    return 0;
}

static int take_window(struct pump *pump, const struct link_record *record, struct err *err) {
    struct view view = view_of(record->data, record->len);
    uint32_t more = view_u32(&view);
    struct channel *channel = channel_find(pump, record->channel);
    if (!channel || channel->shut_came || more == 0 || more > INT32_MAX || channel->send_window > INT32_MAX)
        return err_set(err, ERR_PROTOCOL, "a window of %u bytes for channel %u", more, record->channel);
    channel->send_window += more;
    return 0;
}

static int take_shut(struct pump *pump, const struct link_record *record, struct err *err) {
    struct channel *channel = channel_find(pump, record->channel);
    if (!channel && pump->events->ask) { /* a question that opened nothing, given up by the server */
        link_put(pump->link, LINK_SHUT, record->channel, "", 0);
        return 0;
    }
    int r = channel ? 0 : channel_early(pump, record->channel, &channel, err);
    if (r < 0)
        return r;
    if (channel->shut_came)
        return err_set(err, ERR_PROTOCOL, "channel %u is shut twice", record->channel);
    channel->shut_came = true;
    if (channel->shut_sent) {
        channel_unlink(pump, channel);
        channel_free(channel);
        return 0;
    }
    autobuf why;
    buf_init(&why, 4 * LIMIT_LINK_WHY_BYTES + 1);
    text_shown(&why, (const char *)record->data, record->len);
    channel->why = strdup(buf_cstr(&why));
    if (!channel->why)
        abort();
    if (!channel->opened)
        return 0; /* pump_open hears of it */
    link_put(pump->link, LINK_SHUT, record->channel, "", 0);
    channel->shut_sent = true;
    if (channel->pending.len == 0)
        channel_over(pump, channel);
    return 0;
}

/* An answer that nobody waits for any more may have opened a channel. */
static void ask_answered_late(struct pump *pump, struct ask *ask) {
    struct channel *channel = channel_find(pump, ask->number);
    channel = channel ? channel : channel_new(pump, ask->number);
    ask_free(pump, ask);
    channel_shut(pump, channel, "the answer came too late");
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
    static int (*const takes[])(struct pump *, const struct link_record *, struct err *) = {
        [LINK_DATA] = take_data, [LINK_WINDOW] = take_window, [LINK_ASK] = take_ask,
        [LINK_TELL] = take_tell, [LINK_SHUT] = take_shut,
    };
    struct link_record record;
    int r = link_in(pump->link, data, len, &record, err);
    return r <= 0 ? r : takes[record.kind](pump, &record, err);
}

/* ---- records as text ---- */

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
    json_t *message = json_loadb((const char *)data, len, 0, NULL);
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
    if (pump->fds_max < SLOT_CHANNELS + pump->channel_count) {
        pump->fds_max = SLOT_CHANNELS + pump->channel_count + 4;
        free(pump->fds);
        pump->fds = calloc(pump->fds_max, sizeof *pump->fds);
        if (!pump->fds)
            abort();
    }
    size_t count = SLOT_CHANNELS;
    pump->fds[SLOT_SOCKET] =
        (struct pollfd){.fd = ride->socket->fd, .events = (short)(POLLIN | (ride->blocked ? POLLOUT : 0))};
    pump->fds[SLOT_WAKE] = (struct pollfd){.fd = pump->wake_fd, .events = POLLIN};
    bool full = link_full(pump->link);
    for (struct channel *channel = pump->channels; channel; channel = channel->next) {
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
    for (struct channel *channel = pump->channels; channel; channel = next) {
        next = channel->next;
        if (channel->slot == 0 || pump->fds[channel->slot].fd != channel->fd)
            continue;
        short asked = pump->fds[channel->slot].events, has = pump->fds[channel->slot].revents;
        if ((asked & POLLOUT) && has && !channel_flush(pump, channel))
            continue;
        if ((asked & POLLIN) && (has & (POLLIN | POLLHUP | POLLERR)))
            channel_read(pump, channel);
    }
}

/* Those that the other end shut: told to their owner, then closed. */
static void pump_tell_over(struct pump *pump) {
    while (pump->over) {
        struct channel *channel = pump->over;
        pump->over = channel->next;
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

void pump_open(struct pump *pump, uint32_t channel_number, int fd) {
    pthread_mutex_lock(&pump->lock);
    struct channel *channel = channel_find(pump, channel_number);
    if (pump->ended) {
        close(fd);
    } else {
        bool many = !channel && pump->channel_count >= LIMIT_CHANNELS;
        channel = channel ? channel : channel_new(pump, channel_number);
        assert(!channel->opened);
        channel->opened = true;
        channel->fd = fd;
        if (many) {
            channel_shut(pump, channel, "too many boxes are in use on this machine");
        } else if (channel->shut_came) {
            link_put(pump->link, LINK_SHUT, channel_number, "", 0);
            channel->shut_sent = true;
            channel_flush(pump, channel);
        } else if (channel->pending.len) {
            channel_flush(pump, channel);
        }
    }
    pump_wake(pump);
    pthread_mutex_unlock(&pump->lock);
}

void pump_shut(struct pump *pump, uint32_t channel_number, const char *why) {
    pthread_mutex_lock(&pump->lock);
    struct channel *channel = channel_find(pump, channel_number);
    if (!channel && !pump->events->ask && channel_number <= pump->last_number && !pump->ended)
        channel = channel_new(pump, channel_number);
    if (channel)
        channel_shut(pump, channel, why);
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
    uint32_t number = ++pump->last_number;
    assert(number != 0);
    pthread_mutex_unlock(&pump->lock);
    return number;
}

static struct ask *ask_new(struct pump *pump, uint32_t number) {
    struct ask *ask = calloc(1, sizeof *ask);
    if (!ask)
        abort();
    ask->number = number;
    buf_init(&ask->answer, LIMIT_LINK_TALK_BYTES);
    ask->next = pump->asks;
    pump->asks = ask;
    return ask;
}

static int ask_wait(struct pump *pump, struct ask *ask, uint64_t timeout_ms, struct buf *out, struct err *err) {
    uint64_t until = clock_ms() + timeout_ms;
    struct timespec at = {.tv_sec = (time_t)(until / 1000), .tv_nsec = (long)(until % 1000) * 1000000};
    int late = 0;
    while (!ask->answered && !pump->ended && late != ETIMEDOUT)
        late = pthread_cond_timedwait(&pump->answered, &pump->lock, &at);
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
        pump->channel_count = 0;
        pthread_cond_broadcast(&pump->answered);
    }
    pump_wake(pump);
    pthread_mutex_unlock(&pump->lock);
}

bool pump_quiet(struct pump *pump) {
    pthread_mutex_lock(&pump->lock);
    bool quiet = !pump->channels;
    for (struct ask *ask = pump->asks; ask; ask = ask->next)
        quiet &= ask->given_up;
    pthread_mutex_unlock(&pump->lock);
    return quiet;
}
