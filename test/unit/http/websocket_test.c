/* Both ends of a WebSocket against each other over a connection that takes and gives any number of bytes at a time, and one
 * end against bytes that no end may send. */
#include "http/websocket.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "tap.h"

static uint64_t seed = 88172645463325252ull;
static size_t chance(size_t below) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (size_t)(seed % below);
}

/* Time is the test's. */
static uint64_t now_us = 1000000;
uint64_t clock_us(void) {
    return now_us;
}
uint64_t clock_ms(void) {
    return now_us / 1000;
}

/* ---- a connection ---- */

struct line { /* one direction: bytes on their way, and how it treats them */
    struct buf bytes;
    size_t most, room; /* a write or read moves at most this; as much may wait */
    bool closed;
    const void *offered; /* what was not taken: must come again from there */
    size_t offered_len;
    bool moved; /* and did not */
};

struct end {
    struct line *in, *out;
    struct websocket *websocket;
};

static ssize_t end_read(void *user, void *data, size_t len, struct err *err) {
    const struct end *end = user;
    struct line *line = end->in;
    if (!line->bytes.len)
        return line->closed ? err_set(err, ERR_GONE, "hung up") : 0;
    size_t n = 1 + chance(line->most);
    n = n < len ? n : len;
    n = n < line->bytes.len ? n : line->bytes.len;
    memcpy(data, line->bytes.data, n);
    buf_consume(&line->bytes, n);
    return (ssize_t)n;
}

static ssize_t end_write(void *user, const struct iovec *parts, int parts_count, struct err *err) {
    const struct end *end = user;
    struct line *line = end->out;
    size_t left = line->bytes.len < line->room ? line->room - line->bytes.len : 0, done = 0;
    if (line->closed)
        return err_set(err, ERR_GONE, "hung up");
    if (line->offered && (parts_count != 1 || parts->iov_base != line->offered || parts->iov_len != line->offered_len))
        line->moved = true;
    line->offered = NULL;
    size_t most = 1 + chance(line->most);
    most = most < left ? most : left;
    for (int i = 0; i < parts_count && done < most; i++) {
        size_t n = parts[i].iov_len < most - done ? parts[i].iov_len : most - done;
        buf_put(&line->bytes, parts[i].iov_base, n);
        done += n;
    }
    if (!done && parts_count == 1) {
        line->offered = parts->iov_base;
        line->offered_len = parts->iov_len;
    }
    return (ssize_t)done;
}

struct pair {
    struct line up, down;
    struct end client, server;
};

static void pair_open(struct pair *pair, size_t most, size_t room, bool gathers) {
    *pair = (struct pair){.up = {.most = most, .room = room}, .down = {.most = most, .room = room}};
    buf_init(&pair->up.bytes, 64 << 20);
    buf_init(&pair->down.bytes, 64 << 20);
    pair->client = (struct end){.in = &pair->down, .out = &pair->up};
    pair->server = (struct end){.in = &pair->up, .out = &pair->down};
    struct websocket_io io = {end_read, end_write, true, true, "the daemon"};
    pair->client.websocket = websocket_new(&io, &pair->client, 4 << 20);
    io = (struct websocket_io){end_read, end_write, false, gathers, "the client"};
    pair->server.websocket = websocket_new(&io, &pair->server, 4 << 20);
}

static void pair_close(struct pair *pair) {
    websocket_free(pair->client.websocket);
    websocket_free(pair->server.websocket);
    buf_done(&pair->up.bytes);
    buf_done(&pair->down.bytes);
}

/* ---- messages both ways ---- */

enum { KINDS = 13 };
/* The n-th message of one direction: any size, mostly small; its bytes follow from n. */
static size_t message_make(unsigned n, unsigned kinds, uint8_t *data, bool *ret_text) {
    static const size_t sizes[KINDS] = {0, 1, 5, 125, 126, 127, 1000, 16383, 16384, 65535, 65536, 70000, 300000};
    size_t len = sizes[(n * 7919u) % kinds] + n % 3;
    *ret_text = n % 4 == 1;
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)((i * 131 + n * 17 + (i >> 8)) & (*ret_text ? 0x7f : 0xff));
    return len;
}

struct talk {
    unsigned kinds, total, sent, got;
    bool wrong;
};

static void talk_step(struct end *end, struct talk *mine, struct talk *theirs, uint8_t *scratch) {
    struct err err;
    bool text, is_text;
    const uint8_t *data;
    size_t len;
    now_us += 10;
    while (mine->sent < mine->total && chance(4)) {
        size_t want = message_make(mine->sent, mine->kinds, scratch, &is_text);
        int code = websocket_send(end->websocket, is_text, scratch, want, &err);
        mine->wrong |= code < 0;
        memset(scratch, 0xee, want); /* what was taken is taken */
        if (code <= 0)
            break;
        mine->sent++;
    }
    if (!chance(20))
        mine->wrong |= websocket_ping(end->websocket, &err) < 0;
    mine->wrong |= websocket_flush(end->websocket, &err) < 0;
    while (chance(4)) {
        int code = websocket_recv(end->websocket, &text, &data, &len, &err);
        theirs->wrong |= code < 0;
        if (code <= 0) {
            theirs->wrong |= websocket_pending(end->websocket);
            break;
        }
        size_t want = message_make(theirs->got++, theirs->kinds, scratch, &is_text);
        theirs->wrong |= text != is_text || len != want || (len && memcmp(data, scratch, len) != 0);
    }
}

static void test_talk(size_t most, size_t room, bool gathers, struct talk up, const char *name) {
    struct pair pair;
    struct talk down = up;
    uint8_t *scratch = malloc(400000);
    pair_open(&pair, most, room, gathers);
    for (unsigned step = 0; step < 30000000 && (up.got < up.total || down.got < up.total) && !up.wrong && !down.wrong;
         step++) {
        talk_step(&pair.client, &up, &down, scratch);
        talk_step(&pair.server, &down, &up, scratch);
    }
    ok_all(name, up.got == up.total, down.got == up.total, !up.wrong, !down.wrong);
    ok(!pair.up.moved, "what was not taken is offered again from the same place");
    ok(websocket_latency_us(pair.client.websocket) > 0 && websocket_latency_us(pair.server.websocket) > 0,
       "pings were answered among them");
    pair_close(&pair);
    free(scratch);
}

/* ---- what no end may send ---- */

struct alone { /* the server's end; the test plays the client, byte by byte */
    struct pair pair;
    struct err err;
    int code; /* of the last recv */
    char got[200];
};

static void alone_open(struct alone *alone, size_t max) {
    *alone = (struct alone){0};
    pair_open(&alone->pair, 1 << 20, 1 << 20, true);
    websocket_limit(alone->pair.server.websocket, max);
}

static void alone_recv(struct alone *alone) {
    bool text;
    const uint8_t *data;
    size_t len;
    while ((alone->code = websocket_recv(alone->pair.server.websocket, &text, &data, &len, &alone->err)) > 0) {
        size_t at = strlen(alone->got);
        snprintf(alone->got + at, sizeof alone->got - at, text ? "[%.*s]" : "(%.*s)", (int)len, (const char *)data);
    }
}

/* A frame as a client sends it, masked with zeros. */
static void alone_frame(struct alone *alone, uint8_t first, const char *data, size_t len) {
    uint8_t head[8] = {first, (uint8_t)(0x80 | len)};
    size_t size = 2;
    if (len >= 126) {
        head[1] = 0x80 | 126, head[2] = (uint8_t)(len >> 8), head[3] = (uint8_t)len;
        size = 4;
    }
    buf_put(&alone->pair.up.bytes, head, size);
    buf_put(&alone->pair.up.bytes, "\0\0\0\0", 4);
    buf_put(&alone->pair.up.bytes, data, len);
}

/* The last frame that the server sent is a close with this code, and a reason. */
static bool alone_told(const struct alone *alone, unsigned code, const char *reason) {
    const struct buf *sent = &alone->pair.down.bytes;
    size_t want = strlen(reason) + 4;
    return sent->len >= want && sent->data[sent->len - want] == 0x88 &&
           sent->data[sent->len - want + 1] == strlen(reason) + 2 &&
           (unsigned)(sent->data[sent->len - want + 2] << 8 | sent->data[sent->len - want + 3]) == code &&
           memcmp(sent->data + sent->len - strlen(reason), reason, strlen(reason)) == 0;
}

static void test_wrong(void) {
#define BYTES(text) text, sizeof text - 1
    static const struct {
        const char *name, *bytes;
        size_t len;
        enum err_code code;
        unsigned close;
        const char *reason;
    } rows[] = {
        {"no mask", BYTES("\x82\x02hi"), ERR_PROTOCOL, 1002, "no mask on what a client sends"},
        {"compressed", BYTES("\xc2\x80\0\0\0\0"), ERR_PROTOCOL, 1002, "reserved bits; compression was not agreed on"},
        {"an opcode of data that is none", BYTES("\x83\x80\0\0\0\0"), ERR_PROTOCOL, 1002, "an unknown kind of frame"},
        {"one of control", BYTES("\x8b\x80\0\0\0\0"), ERR_PROTOCOL, 1002, "an unknown kind of frame"},
        {"a ping in fragments", BYTES("\x09\x80\0\0\0\0"), ERR_PROTOCOL, 1002,
         "a control frame that is long or in fragments"},
        {"a long ping", BYTES("\x89\xfe"), ERR_PROTOCOL, 1002, "a control frame that is long or in fragments"},
        {"a continuation of nothing", BYTES("\x80\x80\0\0\0\0"), ERR_PROTOCOL, 1002, "a continuation of nothing"},
        {"a message inside a message",
         BYTES("\x01\x81\0\0\0\0"
               "a\x81\x80"),
         ERR_PROTOCOL, 1002, "a message inside a message"},
        {"a length written too long", BYTES("\x82\xfe\0\x01\0\0\0\0"), ERR_PROTOCOL, 1002,
         "a length that is longer than it needs"},
        {"the same in eight bytes", BYTES("\x82\xff\0\0\0\0\0\0\xff\xff\0\0\0\0"), ERR_PROTOCOL, 1002,
         "a length that is longer than it needs"},
        {"a message that is too large", BYTES("\x82\xfe\x03\xe9\0\0\0\0"), ERR_TOO_LARGE, 1009,
         "a message that is too large"},
        {"one that claims everything", BYTES("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff"), ERR_TOO_LARGE, 1009,
         "a message that is too large"},
        {"one below zero", BYTES("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff"), ERR_TOO_LARGE, 1009,
         "a message that is too large"},
        {"text that is not UTF-8", BYTES("\x81\x81\0\0\0\0\xff"), ERR_PROTOCOL, 1007, "text that is not UTF-8"},
        {"a close of one byte", BYTES("\x88\x81\0\0\0\0\x03"), ERR_PROTOCOL, 1002, "a close with an invalid code"},
        {"a close with 1005", BYTES("\x88\x82\0\0\0\0\x03\xed"), ERR_PROTOCOL, 1002, "a close with an invalid code"},
        {"a close with 999", BYTES("\x88\x82\0\0\0\0\x03\xe7"), ERR_PROTOCOL, 1002, "a close with an invalid code"},
        {"a reason that is not UTF-8", BYTES("\x88\x83\0\0\0\0\x03\xe8\xff"), ERR_PROTOCOL, 1007,
         "a reason that is not UTF-8"},
        {"a close",
         BYTES("\x88\x85\0\0\0\0\x03\xe8"
               "bye"),
         ERR_GONE, 1000, ""},
        {"a close without a word", BYTES("\x88\x80\0\0\0\0"), ERR_GONE, 1000, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct alone alone;
        alone_open(&alone, 1000);
        alone_frame(&alone, 0x82, "before", 6);
        buf_put(&alone.pair.up.bytes, rows[i].bytes, rows[i].len);
        alone_recv(&alone);
        bool told = alone_told(&alone, rows[i].close, rows[i].reason);
        if (!ok(alone.code == -(int)rows[i].code && told && strcmp(alone.got, "(before)") == 0, rows[i].name))
            printf("# %d: %s; got %s, told %d\n", alone.code, alone.err.text, alone.got, told);
        size_t sent = alone.pair.down.bytes.len;
        alone_frame(&alone, 0x82, "after", 5);
        alone_recv(&alone);
        if (alone.code != -(int)rows[i].code || alone.pair.down.bytes.len != sent || strstr(alone.got, "after"))
            ok(false, "nothing is taken or said after that");
        pair_close(&alone.pair);
    }
}

static void test_fragments(void) {
    struct alone alone;
    alone_open(&alone, 1000);
    alone_frame(&alone, 0x01, "on", 2);
    alone_frame(&alone, 0x00, "", 0);
    alone_frame(&alone, 0x89, "p", 1);
    alone_frame(&alone, 0x80, "e", 1);
    alone_frame(&alone, 0x82, "two", 3);
    alone_recv(&alone);
    ok_all("fragments with a ping among them, answered", alone.code == 0, strcmp(alone.got, "[one](two)") == 0,
           memcmp(alone.pair.down.bytes.data, "\x8a\x01p", 3) == 0);
    char part[600] = {0};
    alone_frame(&alone, 0x02, part, sizeof part);
    alone_frame(&alone, 0x80, part, sizeof part);
    alone_recv(&alone);
    ok(alone.code == -ERR_TOO_LARGE && alone_told(&alone, 1009, "a message that is too large"),
       "fragments that are too large together");
    pair_close(&alone.pair);
    alone_open(&alone, 1000);
    alone_frame(&alone, 0x02, "", 0);
    for (int i = 0; i < 11000; i++)
        alone_frame(&alone, 0x00, "", 0);
    alone_recv(&alone);
    ok(alone.code == -ERR_LIMIT && alone_told(&alone, 1008, "a flood of frames that carry nothing"),
       "a message of fragments without end and content");
    pair_close(&alone.pair);
}

static void test_pings(void) {
    struct alone alone;
    alone_open(&alone, 1000);
    alone.pair.down.room = 0; /* it reads nothing */
    for (int i = 0; i < 9000; i++)
        alone_frame(&alone, 0x89, i == 8999 ? "last" : "ping", 4);
    alone_frame(&alone, 0x81, "word", 4);
    alone_recv(&alone);
    ok(alone.code == 0 && strcmp(alone.got, "[word]") == 0, "pings whose answers nobody takes do not stop messages");
    alone.pair.down.room = 1 << 20;
    ok_all("they are answered within bounds, the last of them for sure",
           websocket_flush(alone.pair.server.websocket, &alone.err) == 1, alone.pair.down.bytes.len >= 6,
           alone.pair.down.bytes.len <= 256 << 10,
           memcmp(alone.pair.down.bytes.data + alone.pair.down.bytes.len - 6, "\x8a\x04last", 6) == 0);
    for (int i = 0; i < 2000; i++)
        alone_frame(&alone, 0x89, "ping", 4);
    alone_recv(&alone);
    ok(alone.code == -ERR_LIMIT && alone_told(&alone, 1008, "a flood of frames that carry nothing"),
       "a flood of pings is the end");
    pair_close(&alone.pair);
    alone_open(&alone, 1000);
    websocket_ping(alone.pair.server.websocket, &alone.err);
    ok(alone.pair.down.bytes.len == 10 && memcmp(alone.pair.down.bytes.data, "\x89\x08\1\0\0\0\0\0\0", 10) == 0,
       "a ping carries its number");
    alone_frame(&alone, 0x8a, "\2\0\0\0\0\0\0", 8);
    alone_frame(&alone, 0x8a, "", 0);
    alone_recv(&alone);
    ok(websocket_latency_us(alone.pair.server.websocket) == 0, "a pong to nothing tells no latency");
    alone_frame(&alone, 0x8a, "\1\0\0\0\0\0\0", 8);
    alone_recv(&alone);
    ok(websocket_latency_us(alone.pair.server.websocket) > 0, "the pong to it does");
    pair_close(&alone.pair);
}

/* A message in pieces of one byte, each of them in time for the connection to look alive. */
static void test_slow(void) {
    struct alone alone;
    alone_open(&alone, 1000);
    char part[600] = {0};
    alone_frame(&alone, 0x82, part, sizeof part);
    struct buf whole = alone.pair.up.bytes;
    buf_init(&alone.pair.up.bytes, 1 << 20);
    size_t at = 0;
    for (; at < 100 && alone.code == 0; at++) {
        buf_put(&alone.pair.up.bytes, whole.data + at, 1);
        now_us += 10000000;
        alone_recv(&alone);
    }
    ok_all("a message that trickles in is the end, after a minute", alone.code == -ERR_TIMEOUT, at == 7,
           alone_told(&alone, 1008, "a message that is never complete"));
    pair_close(&alone.pair);
    alone_open(&alone, 1000);
    buf_put(&alone.pair.up.bytes, whole.data, 300);
    alone_recv(&alone);
    now_us += 600000000; /* nobody looked for ten minutes */
    buf_put(&alone.pair.up.bytes, whole.data + 300, 100);
    alone_recv(&alone);
    buf_put(&alone.pair.up.bytes, whole.data + 400, whole.len - 400);
    bool text;
    const uint8_t *data;
    size_t len = 0;
    ok_all("one that waited for us is not", alone.code == 0,
           websocket_recv(alone.pair.server.websocket, &text, &data, &len, &alone.err) == 1, len == sizeof part);
    pair_close(&alone.pair);
    buf_done(&whole);
}

static void test_close(void) {
    struct alone alone;
    char reason[200];
    alone_open(&alone, 1000);
    memset(reason, 'x', 120);
    memcpy(reason + 120, "\xc3\xbc\xc3\xbc", 5);
    struct websocket *websocket = alone.pair.server.websocket;
    websocket_close(websocket, 4401, reason);
    websocket_close(websocket, 1000, "later");
    ok_all("a close once, its reason cut between characters", websocket_flush(websocket, &alone.err) == 1,
           alone.pair.down.bytes.len == 2 + 2 + 122, alone_told(&alone, 4401, (reason[122] = 0, reason)));
    ok(websocket_send(websocket, true, "x", 1, &alone.err) == -ERR_GONE, "nothing is sent after it");
    alone_frame(&alone, 0x81, "still", 5);
    alone_frame(&alone, 0x88, "\x0f\xa1why", 5);
    alone_recv(&alone);
    ok_all("the other end's close comes with code and reason", alone.code == -ERR_GONE,
           websocket_closed(websocket) == 4001, strcmp(alone.got, "[still]") == 0, strstr(alone.err.text, "4001: why"));
    pair_close(&alone.pair);
    alone_open(&alone, 1000);
    alone_frame(&alone, 0x82, "abc", 3);
    alone.pair.up.bytes.len--;
    alone.pair.up.closed = true;
    alone_recv(&alone);
    ok(alone.code == -ERR_GONE && strcmp(alone.got, "") == 0, "half a frame and a hang-up is no message");
    pair_close(&alone.pair);
}

#ifdef __has_feature /* clang's way to say it */
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void);
static size_t allocated(void) {
    return __sanitizer_get_current_allocated_bytes();
}
#else
static size_t allocated(void) {
    return mallinfo2().uordblks + mallinfo2().hblkhd;
}
#endif

/* A head that claims a large message costs nothing before it comes; buffers of bursts are given back. */
static void test_memory(void) {
    struct alone alone;
    enum { LARGE = 8 << 20 };
    alone_open(&alone, LARGE);
    size_t before = allocated();
    buf_put(&alone.pair.up.bytes, "\x82\xff\0\0\0\0\0\x7f\xff\xff\0\0\0\0abc", 17);
    alone_recv(&alone);
    ok(alone.code == 0 && allocated() < before + (16 << 10), "eight megabytes that are only claimed take no memory");
    static uint8_t zeros[LARGE];
    buf_put(&alone.pair.up.bytes, zeros, (8 << 20) - 1 - 3);
    bool text;
    const uint8_t *data;
    size_t len = 0;
    int code;
    while ((code = websocket_recv(alone.pair.server.websocket, &text, &data, &len, &alone.err)) == 0 &&
           alone.pair.up.bytes.len)
        ;
    ok_all("a message of just the limit", code == 1, len == (8 << 20) - 1, memcmp(data, "abc", 3) == 0);
    buf_done(&alone.pair.up.bytes);
    buf_init(&alone.pair.up.bytes, 1 << 20);
    now_us += 1010000;
    alone_frame(&alone, 0x89, "", 0);
    alone_recv(&alone);
    ok(alone.code == 0 && allocated() < before + (16 << 10), "an idle end gives its buffers back");
    pair_close(&alone.pair);
}

int main(void) {
    test_talk(5, 40, false, (struct talk){.kinds = 7, .total = 200}, "messages both ways, a few bytes at a time");
    test_talk(5000, 9000, false, (struct talk){.kinds = KINDS, .total = 200}, "some thousand bytes at a time");
    test_talk(200000, 400000, true, (struct talk){.kinds = KINDS, .total = 200}, "and many");
    test_wrong();
    test_fragments();
    test_pings();
    test_slow();
    test_close();
    test_memory();
    char accept[32];
    websocket_accept("dGhlIHNhbXBsZSBub25jZQ==", accept);
    ok(strcmp(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") == 0, "the answer to the key of RFC 6455");
    return tap_end();
}
