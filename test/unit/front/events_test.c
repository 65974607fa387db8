/* The ring of events: overflow, ids, filters, readers that come and go while events come in. */
#include "front/events.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "tap.h"

static void put(struct events *events, const char *verb, const char *id, const char *user) {
    events_put(events, &(struct box_event){.verb = verb, .id = id, .user = user, .backend = "jail"});
}

static unsigned count(const struct buf *text, const char *what) {
    unsigned n = 0;
    const char *at = (const char *)text->data, *end = at + text->len;
    while (at && (at = memmem(at, (size_t)(end - at), what, strlen(what)))) {
        n++;
        at += strlen(what);
    }
    return n;
}

/* All there is, in as many turns as it takes. */
static void drain(struct events_reader *reader, const struct events_filter *filter, struct events_place *place,
                  struct buf *out) {
    size_t before;
    do {
        before = out->len;
        autobuf piece = buf_max(1 << 20);
        events_take(reader, filter, place, &piece);
        buf_put(out, piece.data, piece.len);
    } while (out->len > before);
}

static void test_overflow(void) {
    struct events *events = events_new();
    struct events_reader *reader;
    struct events_place place;
    struct err err;
    const struct events_filter any = {0};
    events_find(events, NULL, &place, &err);
    ok(events_listen(events, NULL, &reader, &err) == 0, "a reader");
    for (unsigned i = 0; i < LIMIT_EVENTS_HELD + 100; i++)
        put(events, "box_warm", "0123456789abcdef", "ann");
    put(events, "daemon_started", NULL, NULL);
    put(events, "box_unknown", NULL, NULL);
    autobuf out = buf_max(16 << 20);
    drain(reader, &any, &place, &out);
    ok(count(&out, "event: lost\ndata: {\"type\":\"lost\",\"count\":100}\n\n") == 1, "what fell out is counted");
    ok(count(&out, "event: warm\n") == LIMIT_EVENTS_HELD, "what is held is told, and nothing that is no box's life");
    buf_clear(&out);
    drain(reader, &any, &place, &out);
    ok(out.len == 0, "once");
    static char thread[LIMIT_THREAD_BYTES];
    memset(thread, 'x', sizeof thread - 1);
    for (unsigned i = 0; i < 1000; i++)
        events_put(events, &(struct box_event){.verb = "box_ready", .thread = thread});
    drain(reader, &any, &place, &out);
    unsigned told = count(&out, "event: ready\n");
    ok_all("large ones are held by their bytes", told<1000, told> 100, out.len < LIMIT_EVENTS_BYTES + (1u << 20));
    ok(count(&out, "event: lost\n") == 1, "and the rest is counted");
    events_leave(reader);
    events_free(events);
}

static void test_shares(void) {
    struct events *events = events_new();
    struct events_reader *reader;
    struct events_place place;
    struct err err;
    const struct events_filter anns = {.owner = "ann"};
    for (unsigned i = 0; i < 20; i++)
        put(events, "box_ready", "0123456789abcdef", "ann");
    for (unsigned i = 0; i < 3 * LIMIT_EVENTS_HELD; i++)
        put(events, "box_warm", "fedcba9876543210", "mallory");
    events_find(events, "0", &place, &err);
    ok(events_listen(events, "ann", &reader, &err) == 0, "a reader who comes late");
    autobuf out = buf_max(16 << 20);
    drain(reader, &anns, &place, &out);
    ok(count(&out, "event: ready\n") == 20, "one user's events do not push out another's");
    ok(count(&out, "event: lost\n") == 0, "and what went before it came is not missing");
    events_leave(reader);
    events_free(events);
}

static void test_ids(void) {
    struct events *events = events_new(), *other = events_new();
    struct events_place place;
    struct err err;
    autobuf id = buf_max(64);
    autobuf foreign = buf_max(64);
    autobuf future = buf_max(64);
    put(events, "box_warm", "a", "ann");
    put(events, "box_ready", "a", "ann");
    events_id(events, 1, &id);
    events_id(events, 99, &future);
    events_id(other, 1, &foreign);
    ok_all("an id", events_find(events, buf_cstr(&id), &place, &err) == 0, place.number == 1, !place.unknown);
    ok(events_find(events, NULL, &place, &err) == 0 && place.number == 2, "none is the newest");
    ok_all("0 is the oldest", events_find(events, "0", &place, &err) == 0, place.number == 0, !place.unknown);
    ok_all("one of another daemon is known as such", events_find(events, buf_cstr(&foreign), &place, &err) == 0,
           place.number == 0, place.unknown);
    ok_all("so is one that has not come yet", events_find(events, buf_cstr(&future), &place, &err) == 0,
           place.number == 0, place.unknown);
    static const char *const bad[] = {"",
                                      "1",
                                      "x",
                                      "0123456789ab",
                                      "0123456789ab-",
                                      "0123456789ab--1",
                                      "0123456789ab-99999999999999999999",
                                      "0123456789AB-1"};
    bool refused = true;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused = refused && events_find(events, bad[i], &place, &err) == -ERR_INVALID;
    ok(refused, "what is no id is refused");
    events_free(events);
    events_free(other);
}

static void test_filters(void) {
    struct events *events = events_new();
    struct events_reader *reader;
    struct err err;
    static const char *const users[] = {"ann", "bob", "an", "anna"};
    for (int i = 0; i < 4; i++) {
        put(events, "box_created", users[i], users[i]);
        put(events, "box_died", users[i], users[i]);
    }
    put(events, "box_cleaned", NULL, NULL);
    events_listen(events, "ann", &reader, &err);
    const struct {
        struct events_filter filter;
        unsigned want;
    } rows[] = {{{.owner = "ann"}, 2},
                {{.owner = "ann", .user = "bob"}, 0},
                {{.user = "bob"}, 2},
                {{.boxes = "an"}, 2},
                {{.types = "died"}, 4},
                {{.types = "die"}, 0},
                {{.types = "created,died"}, 8},
                {{.types = "cleaned,died", .boxes = "bob"}, 1},
                {{0}, 9}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct events_place place = {0};
        autobuf out = buf_max(1 << 20);
        drain(reader, &rows[i].filter, &place, &out);
        ok(count(&out, "data: ") == rows[i].want, "a filter");
    }
    events_leave(reader);
    events_free(events);
}

static void test_limits(void) {
    struct events *events = events_new();
    struct events_reader *readers[LIMIT_EVENT_STREAMS + 1] = {NULL};
    struct err err;
    unsigned made = 0;
    while (made <= LIMIT_EVENT_STREAMS_PER_USER && events_listen(events, "ann", &readers[made], &err) == 0)
        made++;
    ok(made == LIMIT_EVENT_STREAMS_PER_USER && err.code == ERR_LIMIT, "a user's streams are bounded");
    while (made <= LIMIT_EVENT_STREAMS && events_listen(events, NULL, &readers[made], &err) == 0)
        made++;
    ok(made == LIMIT_EVENT_STREAMS && err.code == ERR_LIMIT, "and all together");
    for (unsigned i = 0; i < made; i++)
        events_leave(readers[i]);
    ok(events_listen(events, "ann", &readers[0], &err) == 0, "who leaves makes room");
    events_leave(readers[0]);
    events_free(events);
}

static atomic_bool over;

static void *writer_main(void *argument) {
    for (unsigned i = 0; i < 20000; i++)
        put(argument, "box_warm", "0123456789abcdef", "ann");
    return NULL;
}

static void *reader_main(void *argument) {
    const struct events_filter any = {0};
    uint64_t told = 0, lost = 0;
    struct events_place place = {0};
    struct err err;
    for (bool last = false; !last;) {
        struct events_reader *reader;
        last = atomic_load(&over);
        if (events_listen(argument, NULL, &reader, &err) < 0)
            break;
        autobuf out = buf_max(32 << 20);
        drain(reader, &any, &place, &out);
        told += count(&out, "event: warm\n");
        for (const char *at = buf_cstr(&out); at && (at = strstr(at, "\"count\":")); at++)
            lost += strtoull(at + 8, NULL, 10);
        events_leave(reader);
    }
    return (void *)(uintptr_t)(told + lost);
}

static void test_threads(void) {
    struct events *events = events_new();
    pthread_t writers[3], readers[3];
    for (int i = 0; i < 3; i++) {
        pthread_create(&readers[i], NULL, reader_main, events);
        pthread_create(&writers[i], NULL, writer_main, events);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(writers[i], NULL);
    atomic_store(&over, true);
    bool whole = true;
    for (int i = 0; i < 3; i++) {
        void *sum;
        pthread_join(readers[i], &sum);
        whole = whole && (uintptr_t)sum == 60000;
    }
    ok(whole, "every event is told or counted as lost, to readers that come and go");
    events_free(events);
}

int main(void) {
    test_overflow();
    test_shares();
    test_ids();
    test_filters();
    test_limits();
    test_threads();
    return tap_end();
}
