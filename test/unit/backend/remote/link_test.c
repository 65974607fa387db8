/* Records of a link: a connection that breaks at any byte loses nothing and repeats nothing; what no end may send is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/remote/link.h"
#include "base/buf.h"
#include "base/limits.h"
#include "tap.h"

/* ---- a connection of bytes: messages with their length in front, cut anywhere ---- */

enum { RECORDS = 12 };

static void expect_name(unsigned number, char name[32]) {
    snprintf(name, 32, "record %u of the session", number);
}

static void put_numbered(struct link *link, unsigned number) {
    char name[32];
    expect_name(number, name);
    link_put(link, number % 3 ? LINK_DATA : LINK_TELL, 1 + number % 2, name, strlen(name));
}

static void carry_out(struct link *link, struct buf *bytes) {
    const uint8_t *data;
    size_t len;
    while (link_out(link, &data, &len)) {
        buf_u32(bytes, (uint32_t)len);
        buf_put(bytes, data, len);
        link_out_done(link);
    }
}

/* Whole messages of the first `limit` bytes reach the other end. *seen counts records, which must come in order. */
static bool carry_in(struct link *link, const struct buf *bytes, size_t limit, unsigned *seen) {
    struct view view = view_of(bytes->data, limit < bytes->len ? limit : bytes->len);
    while (view.len >= 4) {
        struct view look = view;
        size_t len = view_u32(&look);
        if (len > look.len)
            break;
        view_u32(&view);
        struct link_record record;
        struct err err;
        int r = link_in(link, view_take(&view, len), len, &record, &err);
        if (r < 0)
            return false;
        char name[32];
        if (r > 0)
            expect_name(++*seen, name);
        if (r > 0 && (record.len != strlen(name) || memcmp(record.data, name, record.len) != 0))
            return false;
    }
    return true;
}

struct pair {
    struct link *a, *b;
    unsigned put_a, put_b, seen_a, seen_b; /* put by a, and what a saw of b */
};

/* One connection: both say what they have, send all, and it breaks after so many bytes each way. ACKs go the same way. */
static bool connect_once(struct pair *pair, size_t cut_a, size_t cut_b) {
    struct err err;
    uint64_t a_has = link_received(pair->a), b_has = link_received(pair->b);
    if (link_resume(pair->a, b_has, &err) < 0 || link_resume(pair->b, a_has, &err) < 0)
        return false;
    autobuf from_a = buf_max(1 << 20);
    autobuf from_b = buf_max(1 << 20);
    carry_out(pair->a, &from_a);
    carry_out(pair->b, &from_b);
    bool good = carry_in(pair->b, &from_a, cut_a, &pair->seen_b) && carry_in(pair->a, &from_b, cut_b, &pair->seen_a);
    size_t read_a = from_a.len, read_b = from_b.len;
    if (good && cut_a > read_a && cut_b > read_b) { /* it lives on: ACKs */
        link_idle(pair->a);
        link_idle(pair->b);
        buf_clear(&from_a);
        buf_clear(&from_b);
        carry_out(pair->a, &from_a);
        carry_out(pair->b, &from_b);
        good = carry_in(pair->b, &from_a, cut_a - read_a, &pair->seen_b) &&
               carry_in(pair->a, &from_b, cut_b - read_b, &pair->seen_a);
    }
    return good;
}

static struct pair pair_new(void) {
    return (struct pair){.a = link_new(), .b = link_new()};
}

static void pair_free(struct pair *pair) {
    link_free(pair->a);
    link_free(pair->b);
}

static void cuts_everywhere(void) {
    bool good = true, cut_late = false;
    for (size_t cut = 0; cut < 900 && good; cut++) {
        struct pair pair = pair_new();
        while (pair.put_a < RECORDS)
            put_numbered(pair.a, ++pair.put_a);
        while (pair.put_b < RECORDS)
            put_numbered(pair.b, ++pair.put_b);
        good = connect_once(&pair, cut, 899 - cut);
        cut_late |= pair.seen_b == RECORDS && pair.seen_a < RECORDS;
        put_numbered(pair.a, ++pair.put_a);
        good = good && connect_once(&pair, 899 - cut, cut) && connect_once(&pair, 1 << 20, 1 << 20);
        good = good && pair.seen_b == pair.put_a && pair.seen_a == pair.put_b;
        if (!good)
            printf("# cut at %zu: %u of %u, %u of %u\n", cut, pair.seen_b, pair.put_a, pair.seen_a, pair.put_b);
        pair_free(&pair);
    }
    ok(good && cut_late, "a connection cut at any byte, both ways, loses nothing and repeats nothing");
}

static void cuts_at_random(void) {
    bool good = true;
    unsigned cuts = 0;
    for (unsigned seed = 1; seed <= 300 && good; seed++) {
        srandom(seed);
        struct pair pair = pair_new();
        for (int i = 0; i < 40 && good; i++) {
            for (long n = random() % 4; n > 0; n--)
                put_numbered(pair.a, ++pair.put_a);
            for (long n = random() % 4; n > 0; n--)
                put_numbered(pair.b, ++pair.put_b);
            good = connect_once(&pair, (size_t)random() % 400, (size_t)random() % 400);
            cuts++;
        }
        good = good && connect_once(&pair, 1 << 20, 1 << 20) && pair.seen_b == pair.put_a && pair.seen_a == pair.put_b;
        pair_free(&pair);
    }
    ok(good && cuts == 12000, "twelve thousand connections, each cut somewhere, lose nothing and repeat nothing");
}

/* ---- bounds ---- */

static void held_until_acknowledged(void) {
    struct link *a = link_new(), *b = link_new();
    static uint8_t piece[65536];
    unsigned pieces = 0;
    const uint8_t *data;
    size_t len;
    while (pieces < 1000) { /* given to a connection at once, never acknowledged */
        if (link_full(a))
            break;
        link_put(a, LINK_DATA, 1, piece, sizeof piece);
        pieces++;
        while (link_out(a, &data, &len))
            link_out_done(a);
    }
    ok(pieces * sizeof piece <= LIMIT_LINK_HELD_BYTES + sizeof piece && pieces > 100, "held bytes have a bound");
    ok(!link_overdue(a), "an end that stops at the bound is not overdue");
    struct err err;
    ok(link_resume(a, 100, &err) == 0, "what the other end has is forgotten when it comes back");
    struct link_record record;
    unsigned came = 0;
    bool acks = false;
    while (link_out(a, &data, &len)) {
        came += link_in(b, data, len, &record, &err) == 1;
        link_out_done(a);
        while (link_out(b, &data, &len)) {
            acks |= data[0] == LINK_ACK;
            link_out_done(b);
        }
    }
    ok(came == pieces - 100 && acks, "the rest is sent again, and long streams are acknowledged without waiting");
    link_free(a);
    link_free(b);
    a = link_new();
    for (pieces = 0; pieces < 100 && !link_full(a); pieces++)
        link_put(a, LINK_DATA, 1, piece, sizeof piece);
    ok(pieces * sizeof piece <= 2 * LIMIT_LINK_UNSENT_BYTES, "little waits for a connection that takes nothing");
    for (pieces = 0; pieces < 2000000 && !link_overdue(a); pieces++)
        link_put_window(a, 1, 5);
    ok(pieces < 1600000, "small records count with what they cost");
    link_free(a);
}

static void reserved_and_released(void) {
    struct link *a = link_new();
    const uint8_t *data;
    size_t len;
    memcpy(link_reserve(a, 1000), "hello", 5);
    link_release(a);
    ok(!link_out(a, &data, &len), "room that was given up is no record");
    memcpy(link_reserve(a, 1000), "hello", 5);
    link_commit(a, LINK_DATA, 7, 5);
    ok_all("a record in place", link_out(a, &data, &len), len == 13, memcmp(data, "\1\0\0\0\7\0\0\0hello", 13) == 0);
    link_put(a, LINK_SHUT, 8, "", 0);
    const uint8_t *again;
    ok(link_out(a, &again, &len) && again == data, "what is offered stays the same until it is taken");
    link_out_done(a);
    ok_all("then comes the next", link_out(a, &data, &len), len == 8, data[0] == LINK_SHUT);
    link_free(a);
}

/* ---- lies ---- */

struct lie {
    const char *name, *bytes;
    size_t len;
};

static void lies(void) {
    static const struct lie table[] = {
        {"nothing at all", "", 0},
        {"half a head", "\1\0\0\0", 4},
        {"an unknown kind", "\6\0\0\0\1\0\0\0x", 9},
        {"reserved bits", "\1\1\0\0\1\0\0\0x", 9},
        {"reserved bits further on", "\1\0\0\1\1\0\0\0x", 9},
        {"channel 0", "\1\0\0\0\0\0\0\0x", 9},
        {"DATA without bytes", "\1\0\0\0\1\0\0\0", 8},
        {"WINDOW of three bytes", "\2\0\0\0\1\0\0\0abc", 11},
        {"WINDOW of five bytes", "\2\0\0\0\1\0\0\0abcde", 13},
        {"ASK without JSON", "\3\0\0\0\1\0\0\0", 8},
        {"TELL without JSON", "\4\0\0\0\1\0\0\0", 8},
        {"ACK of a channel", "\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0", 16},
        {"ACK that is too short", "\0\0\0\0\0\0\0\0\0\0\0\0", 12},
        {"ACK of what was never sent", "\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16},
        {"ACK of everything there ever will be", "\0\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377", 16},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct link *link = link_new();
        link_put(link, LINK_DATA, 1, "x", 1);
        link_put(link, LINK_DATA, 1, "y", 1);
        const uint8_t *data;
        size_t len;
        link_out(link, &data, &len);
        link_out_done(link); /* one of two was given to the connection */
        struct link_record record;
        struct err err = {0};
        char *exact = malloc(table[i].len ? table[i].len : 1);
        memcpy(exact, table[i].bytes, table[i].len);
        int r = link_in(link, exact, table[i].len, &record, &err);
        free(exact);
        char name[96];
        snprintf(name, sizeof name, "refused: %s", table[i].name);
        ok(r == -ERR_PROTOCOL && err.text[0], name);
        link_free(link);
    }
}

static void large_lies(void) {
    static uint8_t big[LIMIT_LINK_TALK_BYTES + LINK_HEAD_BYTES + 1];
    static const struct {
        uint8_t kind;
        size_t most;
    } table[] = {{LINK_DATA, 65548}, {LINK_ASK, 1 << 20}, {LINK_TELL, 1 << 20}, {LINK_SHUT, LIMIT_LINK_WHY_BYTES}};
    struct link *link = link_new();
    struct link_record record;
    struct err err;
    bool most = true, more = true;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        big[0] = table[i].kind;
        big[4] = 1;
        most &= link_in(link, big, LINK_HEAD_BYTES + table[i].most, &record, &err) == 1;
        more &= link_in(link, big, LINK_HEAD_BYTES + table[i].most + 1, &record, &err) == -ERR_PROTOCOL;
    }
    ok(most, "the largest record of each kind is taken");
    ok(more, "one byte more is refused");
    link_free(link);
}

static void lies_when_it_comes_back(void) {
    struct link *link = link_new();
    struct link_record record;
    struct err err;
    const uint8_t *data;
    size_t len;
    for (int i = 0; i < 3; i++)
        link_put(link, LINK_DATA, 1, "x", 1);
    link_out(link, &data, &len);
    link_out_done(link);
    link_out(link, &data, &len);
    link_out_done(link);
    ok(link_resume(link, 3, &err) == -ERR_PROTOCOL, "it cannot have what was never sent");
    ok(link_in(link, "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 16, &record, &err) == 0, "it has one");
    ok(link_resume(link, 0, &err) == -ERR_PROTOCOL, "it cannot have lost what it acknowledged");
    ok(link_resume(link, 1, &err) == 0, "what it acknowledged it has");
    ok(link_in(link, "\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16, &record, &err) == -ERR_PROTOCOL,
       "an ACK on a new connection is of what went over it");
    ok(link_resume(link, 2, &err) == 0, "but it may say so when it comes back");
    link_free(link);
}

int main(void) {
    cuts_everywhere();
    cuts_at_random();
    held_until_acknowledged();
    reserved_and_released();
    lies();
    large_lies();
    lies_when_it_comes_back();
    return tap_end();
}
