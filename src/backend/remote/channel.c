/* Channels of a link (channel.h). Called by backend/remote/pump.c alone, with its lock held. */
#include "backend/remote/channel.h"

#include <assert.h>
#include <sys/socket.h>

#include "base/base.h"
#include "wire/proto.h"

enum { RECORD_BYTES = LIMIT_FRAME_PAYLOAD_BYTES + FRAME_HEAD_BYTES };

void channel_free(struct channel *channel) {
    fd_close(&channel->fd);
    buf_done(&channel->pending);
    free(channel->why);
    free(channel);
}

void channels_free(struct channels *channels) {
    for (int i = 0; i < 2; i++) {
        struct channel **list = i ? &channels->over : &channels->list;
        while (*list) {
            struct channel *channel = *list;
            *list = channel->next;
            channel_free(channel);
        }
    }
    channels->count = 0;
}

static struct channel *channel_find(struct channels *channels, uint32_t number) {
    return list_find(channels->list, channel, channel->number == number);
}

static struct channel *channel_new(struct channels *channels, uint32_t number) {
    struct channel *channel = xcalloc(1, sizeof *channel);
    channel->number = number;
    channel->fd = -1;
    channel->send_window = channel->receive_left = channel->window = LIMIT_CHANNEL_BYTES;
    buf_init(&channel->pending, 2 * (LIMIT_CHANNEL_MOST_BYTES + LIMIT_CHANNEL_BYTES));
    list_push(channels->list, channel);
    channels->count++;
    return channel;
}

static void channel_unlink(struct channels *channels, struct channel *channel) {
    list_remove(channels->list, channel);
    channels->count--;
}

/* This end is through with it. */
static void channel_shut(struct channels *channels, struct channel *channel, const char *why) {
    if (channel->shut_sent)
        return;
    size_t len = strnlen(why, LIMIT_LINK_WHY_BYTES);
    link_put(channels->link, LINK_SHUT, channel->number, why, len);
    channel->shut_sent = true;
    fd_close(&channel->fd);
    buf_done(&channel->pending);
    if (channel->shut_came) {
        channel_unlink(channels, channel);
        channel_free(channel);
    }
}

/* The other end is through with it, and its last bytes are delivered. Its owner is notified at the end of the round,
 * and its socket closes after that. */
static void channel_over(struct channels *channels, struct channel *channel) {
    channel_unlink(channels, channel);
    list_push(channels->over, channel);
}

/* How large a window may be: fewer channels, larger windows. Their sum stays bounded, since each step up is measured
 * against the number of channels there are then. */
static uint32_t channel_window_target(const struct channels *channels) {
    uint32_t share = LIMIT_CHANNEL_POOL_BYTES / (channels->count ? channels->count : 1);
    uint32_t most = LIMIT_CHANNEL_MOST_BYTES - LIMIT_CHANNEL_BYTES;
    return LIMIT_CHANNEL_BYTES + (share < most ? share : most);
}

/* The socket took n bytes: the other end may send as many again, and more or less as the window grows or shrinks. */
static void channel_give_back(struct channels *channels, struct channel *channel, size_t n) {
    channel->taken += (uint32_t)n;
    if (channel->taken < channel->window / 2 || channel->shut_came || channel->shut_sent)
        return;
    uint32_t more = channel->taken, target = channel_window_target(channels);
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
        link_put_window(channels->link, channel->number, more);
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

/* False: the channel was freed. */
bool channel_flush(struct channels *channels, struct channel *channel) {
    size_t left = channel->pending.len - channel->pending_at;
    ssize_t n = channel_write(channel, channel->pending.data + channel->pending_at, left);
    if (n < 0 && !channel->shut_came) {
        channel_shut(channels, channel, "");
        return false;
    }
    channel->pending_at += n < 0 ? left : (size_t)n;
    if (channel->pending_at == channel->pending.len) {
        buf_done(&channel->pending);
        channel->pending_at = 0;
    }
    if (n > 0)
        channel_give_back(channels, channel, (size_t)n);
    bool over = channel->shut_came && channel->pending.len == 0;
    if (over)
        channel_over(channels, channel);
    return !over;
}

static void channel_deliver(struct channels *channels, struct channel *channel, const uint8_t *data, size_t len) {
    if (channel->pending.len == 0) {
        ssize_t n = channel_write(channel, data, len);
        if (n < 0) {
            channel_shut(channels, channel, "");
            return;
        }
        data += n;
        len -= (size_t)n;
        channel_give_back(channels, channel, (size_t)n);
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

/* Reads its socket into records, as far as the window and the link allow. May free the channel. */
void channel_read(struct channels *channels, struct channel *channel) {
    while (!link_full(channels->link) && channel->send_window > 0) {
        size_t max = channel->send_window < RECORD_BYTES ? channel->send_window : RECORD_BYTES;
        uint8_t *at = link_reserve(channels->link, max);
        ssize_t n = recv(channel->fd, at, max, MSG_DONTWAIT);
        if (n <= 0) {
            bool over = n == 0 || (errno != EAGAIN && errno != EINTR);
            link_release(channels->link);
            if (over)
                channel_shut(channels, channel, "");
            return;
        }
        channel->send_window -= (uint32_t)n;
        link_commit(channels->link, LINK_DATA, channel->number, (size_t)n);
        if ((size_t)n < max / 2)
            return; /* most likely there is no more: poll says */
    }
}

void channels_open(struct channels *channels, uint32_t number, int fd) {
    struct channel *channel = channel_find(channels, number);
    bool many = !channel && channels->count >= LIMIT_CHANNELS;
    if (channel && (channel->opened || channel->shut_sent)) {
        close(fd); /* a server that asks for the same number twice has the first channel only */
        return;
    }
    channel = channel ? channel : channel_new(channels, number);
    channel->opened = true;
    channel->fd = fd;
    if (many) {
        channel_shut(channels, channel, "too many boxes are in use on this machine");
        return;
    }
    if (channel->shut_came) {
        link_put(channels->link, LINK_SHUT, number, "", 0);
        channel->shut_sent = true;
    }
    if (channel->pending.len || channel->shut_came)
        channel_flush(channels, channel);
}

void channels_shut(struct channels *channels, uint32_t number, const char *why) {
    struct channel *channel = channel_find(channels, number);
    if (!channel && channels->server && number <= channels->last_number)
        channel = channel_new(channels, number);
    if (channel)
        channel_shut(channels, channel, why);
}

/* ---- records that come ---- */

/* The other end names a channel that is not open here yet. Its number must be one that we gave out. */
static int channel_early(struct channels *channels, uint32_t number, struct channel **ret_channel, struct err *err) {
    bool server = channels->server;
    if (server && number > channels->last_number)
        return err_set(err, ERR_PROTOCOL, "channel %u was never asked for", number);
    if (channels->count >= LIMIT_CHANNELS)
        return err_set(err, ERR_PROTOCOL, "more than %u channels", LIMIT_CHANNELS);
    *ret_channel = channel_new(channels, number);
    return 0;
}

static int channel_take_data(struct channels *channels, const struct link_record *record, struct err *err) {
    struct channel *channel = channel_find(channels, record->channel);
    TRY(channel ? 0 : channel_early(channels, record->channel, &channel, err));
    if (channel->shut_came)
        return err_set(err, ERR_PROTOCOL, "bytes on channel %u, which it has shut", record->channel);
    if (record->len > channel->receive_left)
        return err_set(err, ERR_PROTOCOL, "%zu bytes on channel %u, whose window has %u left", record->len,
                       record->channel, channel->receive_left);
    channel->receive_left -= (uint32_t)record->len;
    if (channel->shut_sent)
        return 0; /* it crossed our SHUT */
    if (channel->opened) {
        channel_deliver(channels, channel, record->data, record->len);
        return 0;
    }
    if (channel->pending.len + record->len > LIMIT_CHANNEL_EARLY_BYTES)
        return err_set(err, ERR_PROTOCOL, "more than %u bytes on channel %u before it is used",
                       LIMIT_CHANNEL_EARLY_BYTES, record->channel);
    buf_put(&channel->pending, record->data, record->len);
    return 0;
}

static int channel_take_window(struct channels *channels, const struct link_record *record, struct err *err) {
    struct view view = view_of(record->data, record->len);
    uint32_t more = view_u32(&view);
    struct channel *channel = channel_find(channels, record->channel);
    if (!channel || channel->shut_came || more == 0 || more > INT32_MAX || channel->send_window > INT32_MAX)
        return err_set(err, ERR_PROTOCOL, "a window of %u bytes for channel %u", more, record->channel);
    channel->send_window += more;
    return 0;
}

/* Theirs, as text that harms no terminal. */
static char *channel_why_shown(const struct link_record *record) {
    autobuf why = buf_max(4 * LIMIT_LINK_WHY_BYTES + 1);
    text_shown(&why, (const char *)record->data, record->len);
    char *text = xstrdup(buf_cstr(&why));
    return text;
}

static int channel_take_shut(struct channels *channels, const struct link_record *record, struct err *err) {
    struct channel *channel = channel_find(channels, record->channel);
    TRY(channel || !channels->server ? 0 : channel_early(channels, record->channel, &channel, err));
    if (channel && channel->shut_came)
        return err_set(err, ERR_PROTOCOL, "channel %u is shut twice", record->channel);
    bool answer = !channel || !channel->shut_sent;
    bool opened = channel && channel->opened, here = channels->server || opened;
    if (answer && here && !opened) { /* channels_open reports it */
        channel->shut_came = true;
        channel->why = channel_why_shown(record);
        return 0;
    }
    if (answer)
        link_put(channels->link, LINK_SHUT, record->channel, "", 0);
    if (answer && opened) {
        channel->shut_came = channel->shut_sent = true;
        channel->why = channel_why_shown(record);
        if (channel->pending.len == 0)
            channel_over(channels, channel);
    } else if (channel) { /* it crossed or answered ours; or a machine has not opened it: its question was given up */
        channel_unlink(channels, channel);
        channel_free(channel);
    }
    return 0;
}

int channels_take(struct channels *channels, const struct link_record *record, struct err *err) {
    switch (record->kind) {
    case LINK_DATA:
        return channel_take_data(channels, record, err);
    case LINK_WINDOW:
        return channel_take_window(channels, record, err);
    default:
        assert(record->kind == LINK_SHUT);
        return channel_take_shut(channels, record, err);
    }
}
