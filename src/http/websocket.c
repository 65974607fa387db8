/* WebSocket messages, both ends: frames are parsed in the buffer they were read into, and built in the buffer they are
 * sent from. Called by ws.c, client_ws.c and, through backend/remote/pump.h, by the servers of machines. Invariants:
 * the rules of websocket.h; a length from the other end is checked against max_message before use. */
#include <stdatomic.h>

#include "base/base.h"
#include "http/websocket.h"

enum {
    FIRST_BYTES = 4096,      /* buffer of an idle socket, for pings and short calls */
    READ_BYTES = 256 << 10,  /* buffer of a busy socket; more only for a larger message */
    AHEAD_BYTES = 4 << 20,   /* read ahead while a send waits */
    OUT_BYTES = 128 << 10,   /* messages are gathered up to this size */
    DIRECT_BYTES = 16 << 10, /* larger messages are written without copying */
    HEAD_BYTES = 14,
    CONTROL_BYTES = 125,
    LIGHT_BYTES = 128, /* a smaller fragment does not count as progress */
    LIGHT_FRAMES = 10000,
    LIGHT_MS = 10000,
    SLOW_MS = 60000, /* plus a millisecond per byte: time for a message to be complete */
    GAP_MS = 15000,  /* longer gaps are ours: we did not read */
    IDLE_MS = 1000,  /* after this, buffers are freed */
};

enum opcode {
    OPCODE_MORE = 0,
    OPCODE_TEXT = 1,
    OPCODE_BINARY = 2,
    OPCODE_CLOSE = 8,
    OPCODE_PING = 9,
    OPCODE_PONG = 10
};

enum close_code {
    CLOSE_NORMAL = 1000,
    CLOSE_PROTOCOL = 1002,
    CLOSE_NO_CODE = 1005, /* never sent: a close frame without a code */
    CLOSE_NOT_UTF8 = 1007,
    CLOSE_POLICY = 1008,
    CLOSE_TOO_LARGE = 1009
};

struct websocket {
    struct websocket_io io;
    void *user;
    size_t max_message;

    uint8_t *in; /* [in_at, in_end) is not parsed yet */
    size_t in_at, in_end, in_cap;
    struct buf message;                        /* fragments so far */
    uint8_t opcode;                            /* of their message; 0: none */
    bool given;                                /* message was handed out */
    bool more;                                 /* the last read returned bytes */
    atomic_uint_fast64_t heard_ms, latency_us; /* read by other threads */
    uint64_t moved_ms, read_ms;
    uint64_t slow_ms; /* time spent on the incomplete message */
    uint64_t light_ms;
    unsigned light; /* nearly empty frames since then */

    struct buf out; /* [out_at, end) waits */
    size_t out_at;
    bool stuck; /* the last write was not accepted: rule 3 */
    bool pong_due, ping_due, close_due, close_sent;
    uint8_t pong_len, close_len;
    uint8_t pong[CONTROL_BYTES], close[CONTROL_BYTES];
    uint64_t ping_count, ping_us;

    unsigned closed;
    struct err failure; /* code 0: none */
};

struct websocket_frame {
    uint8_t opcode;
    bool last;
    const uint8_t *mask; /* NULL: none */
    uint8_t *data;
    size_t len, size; /* size: with its head */
};

struct websocket *websocket_new(const struct websocket_io *io, void *user, size_t max_message) {
    struct websocket *websocket = xcalloc(1, sizeof *websocket);
    uint64_t now_ms = clock_ms();
    *websocket = (struct websocket){.io = *io,
                                    .user = user,
                                    .max_message = max_message,
                                    .heard_ms = now_ms,
                                    .moved_ms = now_ms,
                                    .read_ms = now_ms,
                                    .light_ms = now_ms};
    buf_init(&websocket->message, max_message);
    buf_init(&websocket->out, SIZE_MAX / 2); /* its sender bounds it, and waits for OUT_BYTES */
    return websocket;
}

void websocket_free(struct websocket *websocket) {
    if (!websocket)
        return;
    free(websocket->in);
    buf_done(&websocket->message);
    buf_done(&websocket->out);
    free(websocket);
}

void websocket_limit(struct websocket *websocket, size_t max_message) {
    websocket->max_message = websocket->message.max = max_message;
}

uint64_t websocket_heard_ms(void *user) {
    struct websocket *websocket = user;
    return atomic_load_explicit(&websocket->heard_ms, memory_order_relaxed);
}

uint64_t websocket_latency_us(void *user) {
    struct websocket *websocket = user;
    return atomic_load_explicit(&websocket->latency_us, memory_order_relaxed);
}

unsigned websocket_closed(const struct websocket *websocket) {
    return websocket->closed;
}

/* ---- closing ---- */

void websocket_close(struct websocket *websocket, unsigned code, const char *reason) {
    if (websocket->close_due || websocket->close_sent)
        return;
    size_t len = reason ? strlen(reason) : 0;
    if (len > CONTROL_BYTES - 2)
        len = CONTROL_BYTES - 2;
    while (len && !text_utf8(reason, len)) /* not inside a character */
        len--;
    websocket->close[0] = (uint8_t)(code >> 8);
    websocket->close[1] = (uint8_t)code;
    if (len)
        memcpy(websocket->close + 2, reason, len);
    websocket->close_len = (uint8_t)(len + 2);
    websocket->close_due = true;
}

/* Ends the socket: the reason is returned by every later call. */
static int websocket_end(struct websocket *websocket, struct err *err) {
    if (!websocket->failure.code)
        websocket->failure = *err;
    *err = websocket->failure;
    return -err->code;
}

/* Rule 2: the reason is sent to the other end. */
static int websocket_refuse(struct websocket *websocket, enum err_code code, enum close_code number, const char *what,
                            struct err *err) {
    websocket_close(websocket, number, what);
    err_set(err, code, "%s violated the WebSocket protocol (%d): %s", websocket->io.peer, number, what);
    websocket_end(websocket, err);
    websocket_flush(websocket, ERR_IGNORED);
    return -(int)code;
}

/* ---- receiving ---- */

/* Returns the length of the frame at in_at with its head, as far as its first bytes show. */
static size_t websocket_need(const struct websocket *websocket) {
    struct view view = view_of(websocket->in + websocket->in_at, websocket->in_end - websocket->in_at);
    size_t mask = websocket->io.client ? 0 : 4;
    if (view.len < 2)
        return 2;
    size_t len = view.data[1] & 0x7f;
    if (len < 126)
        return 2 + mask + len;
    size_t bytes = len == 126 ? 2 : 8;
    if (view.len < 2 + bytes)
        return 2 + bytes;
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | view.data[2 + i];
    return value > SIZE_MAX / 2 ? SIZE_MAX / 2 : 2 + bytes + mask + (size_t)value;
}

/* Returns why the first two bytes are invalid, or NULL. */
static const char *websocket_frame_wrong(const struct websocket *websocket, const uint8_t *head) {
    uint8_t opcode = head[0] & 15, len = head[1] & 0x7f;
    bool control = opcode & 8, last = head[0] & 0x80, masked = head[1] & 0x80;
    if (head[0] & 0x70)
        return "reserved bits; compression was not agreed on";
    if (masked == websocket->io.client)
        return masked ? "a mask on what a server sends" : "no mask on what a client sends";
    if (opcode > OPCODE_PONG || (opcode > OPCODE_BINARY && !control))
        return "an unknown kind of frame";
    if (control && (len > CONTROL_BYTES || !last))
        return "a control frame that is long or in fragments";
    if (!control && (opcode == OPCODE_MORE) != (websocket->opcode != 0))
        return opcode == OPCODE_MORE ? "a continuation of nothing" : "a message inside a message";
    return NULL;
}

/* Parses the first complete frame. Returns 1, 0 if more bytes are needed, negative if invalid. */
static int websocket_parse(struct websocket *websocket, struct websocket_frame *ret_frame, struct err *err) {
    uint8_t *head = websocket->in + websocket->in_at;
    size_t have = websocket->in_end - websocket->in_at;
    if (have < 2)
        return 0;
    const char *wrong = websocket_frame_wrong(websocket, head);
    if (wrong)
        return websocket_refuse(websocket, ERR_PROTOCOL, CLOSE_PROTOCOL, wrong, err);
    size_t len = head[1] & 0x7f, extra = len < 126 ? 0 : len == 126 ? 2 : 8;
    if (have < 2 + extra)
        return 0;
    size_t size = websocket_need(websocket), mask = websocket->io.client ? 0 : 4, data = 2 + extra + mask;
    len = size - data;
    if ((extra == 2 && len < 126) || (extra == 8 && len < 65536))
        return websocket_refuse(websocket, ERR_PROTOCOL, CLOSE_PROTOCOL, "a length that is longer than it needs", err);
    if (!(head[0] & 8) && len > websocket->max_message - websocket->message.len)
        return websocket_refuse(websocket, ERR_TOO_LARGE, CLOSE_TOO_LARGE, "a message that is too large", err);
    if (have < size)
        return 0;
    *ret_frame = (struct websocket_frame){.opcode = head[0] & 15,
                                          .last = head[0] & 0x80,
                                          .mask = mask ? head + data - mask : NULL,
                                          .data = head + data,
                                          .len = len,
                                          .size = size};
    return 1;
}

/* Masks eight bytes at a time; to and from may be the same. */
static void websocket_frame_mask(uint8_t *to, const uint8_t *from, size_t len, const uint8_t mask[4]) {
    uint32_t four;
    memcpy(&four, mask, sizeof four);
    uint64_t eight = (uint64_t)four << 32 | four, word;
    size_t at = 0;
    for (; len - at >= sizeof word; at += sizeof word) {
        memcpy(&word, from + at, sizeof word);
        word ^= eight;
        memcpy(to + at, &word, sizeof word);
    }
    for (; at < len; at++)
        to[at] = from[at] ^ mask[at & 3];
}

static int websocket_take_close(struct websocket *websocket, const struct websocket_frame *frame, struct err *err) {
    unsigned number = frame->len >= 2 ? (unsigned)frame->data[0] << 8 | frame->data[1] : CLOSE_NO_CODE;
    size_t len = frame->len > 2 ? frame->len - 2 : 0;
    bool wrong = number < 1000 || number == 1004 || (number == CLOSE_NO_CODE && frame->len) || number == 1006 ||
                 (number >= 1015 && number < 3000) || number >= 5000;
    websocket->closed = number;
    if (frame->len == 1 || wrong)
        return websocket_refuse(websocket, ERR_PROTOCOL, CLOSE_PROTOCOL, "a close with an invalid code", err);
    if (len && !text_utf8(frame->data + 2, len))
        return websocket_refuse(websocket, ERR_PROTOCOL, CLOSE_NOT_UTF8, "a reason that is not UTF-8", err);
    websocket_close(websocket, frame->len ? number : CLOSE_NORMAL, NULL);
    websocket_flush(websocket, ERR_IGNORED);
    err_set(err, ERR_GONE, "%s closed the WebSocket (%u%s%.*s)", websocket->io.peer, number, len ? ": " : "", (int)len,
            len ? (const char *)frame->data + 2 : "");
    return websocket_end(websocket, err);
}

static void websocket_take_pong(struct websocket *websocket, const struct websocket_frame *frame) {
    uint64_t count = htole64(websocket->ping_count);
    if (!websocket->ping_us || frame->len != sizeof count || memcmp(frame->data, &count, sizeof count) != 0)
        return; /* an answer to an older ping, or unsolicited */
    uint64_t took_us = clock_us() - websocket->ping_us;
    atomic_store_explicit(&websocket->latency_us, took_us ? took_us : 1, memory_order_relaxed);
    websocket->ping_us = 0;
}

/* Frames that carry nothing cost as much as others, so their number is limited. */
static bool websocket_floods(struct websocket *websocket, const struct websocket_frame *frame) {
    if (!(frame->opcode & 8) && (frame->last || frame->len >= LIGHT_BYTES))
        return false;
    uint64_t now_ms = clock_ms();
    if (now_ms - websocket->light_ms >= LIGHT_MS) {
        websocket->light_ms = now_ms;
        websocket->light = 0;
    }
    return ++websocket->light > LIGHT_FRAMES;
}

/* Writes the head of a frame without its mask. Returns its size. */
static size_t websocket_frame_head(uint8_t head[HEAD_BYTES], enum opcode opcode, size_t len, bool masked) {
    size_t bytes = len < 126 ? 0 : len < 65536 ? 2 : 8;
    head[0] = (uint8_t)(0x80 | opcode);
    head[1] = (uint8_t)((masked ? 0x80 : 0) | (bytes == 0 ? len : bytes == 2 ? 126 : 127));
    for (size_t i = 0; i < bytes; i++)
        head[2 + i] = (uint8_t)((uint64_t)len >> (8 * (bytes - 1 - i)));
    return 2 + bytes;
}

static void websocket_put(struct websocket *websocket, enum opcode opcode, const void *data, size_t len) {
    uint8_t head[HEAD_BYTES];
    size_t size = websocket_frame_head(head, opcode, len, websocket->io.client);
    struct buf *out = &websocket->out;
    if (websocket->io.client) {
        xrandom(head + size, 4);
        size += 4;
    }
    uint8_t *to = buf_reserve(out, size + len);
    memcpy(to, head, size);
    if (websocket->io.client)
        websocket_frame_mask(to + size, data, len, head + size - 4);
    else if (len)
        memcpy(to + size, data, len);
    out->len += size + len;
}

/* Sends owed answers between messages, but not while a write is stuck: the buffer might move. */
static void websocket_put_owed(struct websocket *websocket) {
    if (websocket->stuck || websocket->close_sent)
        return;
    if (websocket->pong_due)
        websocket_put(websocket, OPCODE_PONG, websocket->pong, websocket->pong_len);
    if (websocket->ping_due) {
        uint64_t count = htole64(++websocket->ping_count);
        websocket->ping_us = clock_us();
        websocket_put(websocket, OPCODE_PING, &count, sizeof count);
    }
    if (websocket->close_due)
        websocket_put(websocket, OPCODE_CLOSE, websocket->close, websocket->close_len);
    websocket->close_sent = websocket->close_due;
    websocket->pong_due = websocket->ping_due = websocket->close_due = false;
}

/* Consumes the frame. Returns 1 if it completed a message, else 0. */
static int websocket_take(struct websocket *websocket, const struct websocket_frame *frame, bool *ret_text,
                          const uint8_t **ret_data, size_t *ret_len, struct err *err) {
    websocket->in_at += frame->size;
    if (frame->mask)
        websocket_frame_mask(frame->data, frame->data, frame->len, frame->mask);
    if (websocket_floods(websocket, frame))
        return websocket_refuse(websocket, ERR_LIMIT, CLOSE_POLICY, "a flood of frames that carry nothing", err);
    if (frame->opcode & 8) {
        if (frame->opcode == OPCODE_CLOSE)
            return websocket_take_close(websocket, frame, err);
        if (frame->opcode == OPCODE_PONG) {
            websocket_take_pong(websocket, frame);
            return 0;
        }
        if (websocket->pong_due && websocket->out.len < OUT_BYTES)
            websocket_put_owed(websocket);
        memcpy(websocket->pong, frame->data, frame->len); /* the newest counts: RFC 6455, 5.5.3 */
        websocket->pong_len = (uint8_t)frame->len;
        websocket->pong_due = true;
        return 0;
    }
    uint8_t opcode = websocket->opcode ? websocket->opcode : frame->opcode;
    const uint8_t *data = frame->data;
    size_t len = frame->len;
    if (websocket->opcode || !frame->last) {
        buf_put(&websocket->message, data, len);
        data = websocket->message.data;
        len = websocket->message.len;
    }
    websocket->opcode = frame->last ? 0 : opcode;
    if (!frame->last)
        return 0;
    websocket->given = true;
    websocket->slow_ms = 0;
    websocket->moved_ms = websocket_heard_ms(websocket);
    if (opcode == OPCODE_TEXT && !text_utf8(data, len))
        return websocket_refuse(websocket, ERR_PROTOCOL, CLOSE_NOT_UTF8, "text that is not UTF-8", err);
    *ret_text = opcode == OPCODE_TEXT;
    *ret_data = data;
    *ret_len = len;
    return 1;
}

/* Makes space for the frame at in_at, as far as it is known, and for what may follow. Memory grows with the bytes that
 * arrived, not with what a head claims. */
static void websocket_room(struct websocket *websocket, size_t need) {
    size_t have = websocket->in_end - websocket->in_at;
    if (websocket->in_cap - websocket->in_end >= DIRECT_BYTES ||
        (websocket->in_cap > websocket->in_end && websocket->in_cap - websocket->in_at >= need))
        return;
    if (have && websocket->in_at)
        memmove(websocket->in, websocket->in + websocket->in_at, have);
    websocket->in_at = 0;
    websocket->in_end = have;
    size_t most = need > READ_BYTES ? need : READ_BYTES;
    size_t want = have * 2 < FIRST_BYTES ? FIRST_BYTES : have * 2 < most ? have * 2 : most;
    if (want <= websocket->in_cap)
        return;
    websocket->in = xrealloc(websocket->in, want);
    websocket->in_cap = want;
}

/* Returns 1 if bytes arrived, 0 if there are none now. */
static int websocket_fill(struct websocket *websocket, struct err *err) {
    if (websocket->in_at == websocket->in_end)
        websocket->in_at = websocket->in_end = 0;
    websocket_room(websocket, websocket->in_end ? websocket_need(websocket) : 2);
    ssize_t got = websocket->io.read(websocket->user, websocket->in + websocket->in_end,
                                     websocket->in_cap - websocket->in_end, err);
    websocket->more = got > 0;
    if (got < 0)
        return websocket_end(websocket, err);
    if (got == 0)
        return 0;
    atomic_store_explicit(&websocket->heard_ms, clock_ms(), memory_order_relaxed);
    websocket->in_end += (size_t)got;
    return 1;
}

/* Frees buffers of an idle socket: hundreds of machines are silent most of the time. */
static void websocket_idle(struct websocket *websocket) {
    if (websocket->in_at != websocket->in_end || clock_ms() - websocket->moved_ms < IDLE_MS)
        return;
    free(websocket->in);
    websocket->in = NULL;
    websocket->in_at = websocket->in_end = websocket->in_cap = 0;
    if (!websocket->opcode && websocket->message.cap)
        buf_done(&websocket->message);
    if (!websocket->out.len && websocket->out.cap)
        buf_done(&websocket->out);
}

/* Refuses a message that trickles in, which would keep its connection alive forever without being complete. */
static int websocket_slow(struct websocket *websocket, struct err *err) {
    uint64_t now_ms = clock_ms(), gap_ms = now_ms - websocket->read_ms;
    size_t have = websocket->in_end - websocket->in_at + websocket->message.len;
    websocket->read_ms = now_ms;
    if (!have && !websocket->opcode) {
        websocket->slow_ms = 0;
        return 0;
    }
    websocket->slow_ms += gap_ms < GAP_MS ? gap_ms : GAP_MS;
    if (websocket->slow_ms <= SLOW_MS + have)
        return 0;
    return websocket_refuse(websocket, ERR_TIMEOUT, CLOSE_POLICY, "a message that is never complete", err);
}

int websocket_recv(void *user, bool *ret_text, const uint8_t **ret_data, size_t *ret_len, struct err *err) {
    struct websocket *websocket = user;
    if (websocket->given) {
        buf_clear(&websocket->message);
        websocket->given = false;
    }
    for (;;) { /* ends: incomplete messages are bounded by size, and empty frames are a flood */
        struct websocket_frame frame;
        int code = websocket->failure.code ? websocket_end(websocket, err) : websocket_parse(websocket, &frame, err);
        if (code > 0) {
            code = websocket_take(websocket, &frame, ret_text, ret_data, ret_len, err);
            if (code)
                return code;
            continue;
        }
        if (code == 0 && (code = websocket_fill(websocket, err)) > 0)
            continue;
        if (code == 0)
            code = websocket_flush(websocket, err) < 0 ? -err->code : websocket_slow(websocket, err);
        if (code == 0)
            websocket_idle(websocket);
        return code;
    }
}

bool websocket_pending(void *user) {
    struct websocket *websocket = user;
    struct websocket_frame frame;
    return websocket->more || websocket->failure.code ||
           (websocket->in_end - websocket->in_at >= 2 && websocket_parse(websocket, &frame, ERR_IGNORED) != 0);
}

void websocket_begin(struct websocket *websocket, const void *data, size_t len) {
    if (!len)
        return;
    websocket->in = xmalloc(len);
    memcpy(websocket->in, data, len);
    websocket->in_end = websocket->in_cap = len;
    websocket->more = true;
}

int websocket_ahead(struct websocket *websocket, struct err *err) {
    size_t have = websocket->in_end - websocket->in_at;
    if (have >= AHEAD_BYTES)
        return 0;
    if (websocket->in_cap - websocket->in_end < FIRST_BYTES) {
        if (have)
            memmove(websocket->in, websocket->in + websocket->in_at, have);
        websocket->in_at = 0;
        websocket->in_end = have;
        websocket->in_cap = have * 2 < READ_BYTES ? READ_BYTES : have * 2;
        websocket->in = xrealloc(websocket->in, websocket->in_cap);
    }
    int code = websocket->failure.code ? websocket_end(websocket, err) : websocket_fill(websocket, err);
    websocket->more = true; /* poll does not see bytes in this buffer */
    return code;
}

/* ---- sending ---- */

/* Tries once to send what waits. Returns 1 if everything was sent. */
static int websocket_push(struct websocket *websocket, struct err *err) {
    struct buf *out = &websocket->out;
    while (websocket->out_at < out->len) {
        struct iovec part = {out->data + websocket->out_at, out->len - websocket->out_at};
        ssize_t sent = websocket->io.write(websocket->user, &part, 1, err);
        websocket->stuck = sent <= 0;
        if (sent < 0)
            return websocket_end(websocket, err);
        if (sent == 0)
            return 0;
        websocket->out_at += (size_t)sent;
    }
    buf_clear(out);
    websocket->out_at = 0;
    return 1;
}

int websocket_flush(void *user, struct err *err) {
    struct websocket *websocket = user;
    for (;;) {
        websocket_put_owed(websocket);
        if (!websocket->out.len)
            return 1;
        int code = websocket_push(websocket, err);
        if (code <= 0)
            return code;
    }
}

/* Sends a large message without a copy, if possible. Returns 1 if it was accepted, 0 if not tried. */
static int websocket_direct(struct websocket *websocket, enum opcode opcode, const void *data, size_t len,
                            struct err *err) {
    uint8_t head[HEAD_BYTES];
    if (websocket->io.client || websocket->io.gathers || len < DIRECT_BYTES)
        return 0;
    int code = websocket_flush(websocket, err);
    if (code <= 0)
        return code;
    size_t size = websocket_frame_head(head, opcode, len, false);
    struct iovec parts[2] = {{head, size}, {(void *)(uintptr_t)data, len}};
    ssize_t sent = websocket->io.write(websocket->user, parts, 2, err);
    if (sent < 0)
        return websocket_end(websocket, err);
    size_t done = (size_t)sent;
    if (done < size)
        buf_put(&websocket->out, head + done, size - done);
    done = done < size ? 0 : done - size;
    buf_put(&websocket->out, (const uint8_t *)data + done, len - done);
    return 1;
}

int websocket_send(void *user, bool text, const void *data, size_t len, struct err *err) {
    struct websocket *websocket = user;
    enum opcode opcode = text ? OPCODE_TEXT : OPCODE_BINARY;
    if (websocket->failure.code)
        return websocket_end(websocket, err);
    if (websocket->close_due || websocket->close_sent)
        return err_set(err, ERR_GONE, "the WebSocket is being closed");
    if (websocket->stuck || websocket->out.len - websocket->out_at >= OUT_BYTES) {
        int code = websocket_push(websocket, err);
        if (code <= 0)
            return code;
    }
    websocket->moved_ms = clock_ms();
    websocket_put_owed(websocket);
    int code = websocket_direct(websocket, opcode, data, len, err);
    if (code != 0)
        return code;
    if (websocket->stuck)
        return 0;
    websocket_put(websocket, opcode, data, len);
    return 1;
}

int websocket_send_all(struct websocket *websocket, bool text, const void *data, size_t len,
                       int (*wait)(void *user, struct err *err), void *user, struct err *err) {
    int taken;
    while ((taken = websocket_send(websocket, text, data, len, err)) == 0)
        TRY(wait(user, err));
    while (taken > 0 && (taken = websocket_flush(websocket, err)) == 0) {
        TRY(wait(user, err));
        taken = 1;
    }
    return taken < 0 ? taken : 0;
}

int websocket_ping(void *user, struct err *err) {
    struct websocket *websocket = user;
    if (websocket->failure.code)
        return websocket_end(websocket, err);
    websocket->ping_due = true;
    return websocket_flush(websocket, err) < 0 ? -err->code : 0;
}

/* ---- the answer to a handshake (RFC 6455 1.3) ---- */

/* SHA-1, because the protocol requires it and the command line has no cryptographic library. Invariant: nothing secret
 * may depend on it. */
static uint32_t websocket_sha1_left(uint32_t value, unsigned n) {
    return value << n | value >> (32 - n);
}

static void websocket_sha1_block(uint32_t state[5], const uint8_t *block) {
    uint32_t w[80], v[5];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = websocket_sha1_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 80; i++) {
        static const uint32_t constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
        uint32_t choose = (v[1] & v[2]) | (~v[1] & v[3]), parity = v[1] ^ v[2] ^ v[3];
        uint32_t majority = (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]);
        uint32_t mix = i < 20 ? choose : i >= 40 && i < 60 ? majority : parity;
        uint32_t next = websocket_sha1_left(v[0], 5) + mix + v[4] + constants[i / 20] + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = websocket_sha1_left(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (int i = 0; i < 5; i++)
        state[i] += v[i];
}

void websocket_accept(const char *key, char ret_accept[32]) {
    char text[64];
    uint8_t digest[20];
    snprintf(text, sizeof text, "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    /* SHA-1 of a text of at most 119 bytes, which is all that the handshake needs. */
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t blocks[128] = {0};
    size_t len = strlen(text), total = len < 56 ? 64 : 128;
    memcpy(blocks, text, len);
    blocks[len] = 0x80;
    blocks[total - 2] = (uint8_t)(len * 8 >> 8);
    blocks[total - 1] = (uint8_t)(len * 8);
    for (size_t i = 0; i < total; i += 64)
        websocket_sha1_block(state, blocks + i);
    for (int i = 0; i < 20; i++)
        digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
    autobuf out = buf_max(31);
    text_base64(&out, digest, sizeof digest);
    snprintf(ret_accept, 32, "%.*s", (int)out.len, (const char *)out.data);
}
