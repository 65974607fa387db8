/* The pump of a session with a machine, both ends of it, over connections that break, stall and lie. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/remote/pump.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/text.h"
#include "tap.h"

/* ---- a connection of messages: u8 kind ('b', 't', 'p'ing, 'o' for pong), u32 length, bytes ---- */

enum { CARRY_MAX = 4 << 20 };

struct carrier {
    int fd;
    struct buf in, out;
    size_t used; /* bytes of in that the last message had */
    uint64_t heard_ms;
    bool deaf;         /* nothing ever comes, as far as it can tell */
    long breaks_after; /* bytes sent, then it is cut in the middle; -1: never */
    atomic_uint pings, text_messages, binary_messages;
};

static int carrier_flush(void *user, struct err *err) {
    struct carrier *carrier = user;
    while (carrier->out.len) {
        size_t len = carrier->out.len;
        if (carrier->breaks_after >= 0 && len > (size_t)carrier->breaks_after)
            len = (size_t)carrier->breaks_after;
        ssize_t n = len ? send(carrier->fd, carrier->out.data, len, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0) {
            shutdown(carrier->fd, SHUT_RDWR);
            return err_set(err, ERR_GONE, "the connection broke");
        }
        carrier->breaks_after -= carrier->breaks_after >= 0 ? n : 0;
        buf_consume(&carrier->out, (size_t)n);
    }
    return 1;
}

static int carrier_put(struct carrier *carrier, char kind, const void *data, size_t len, struct err *err) {
    buf_byte(&carrier->out, (uint8_t)kind);
    buf_u32(&carrier->out, (uint32_t)len);
    buf_put(&carrier->out, data, len);
    int r = carrier_flush(carrier, err);
    return r < 0 ? r : 1;
}

static int carrier_send(void *user, bool text, const void *data, size_t len, struct err *err) {
    struct carrier *carrier = user;
    carrier->text_messages += text;
    carrier->binary_messages += !text;
    return carrier->out.len ? 0 : carrier_put(carrier, text ? 't' : 'b', data, len, err);
}

static int carrier_ping(void *user, struct err *err) {
    struct carrier *carrier = user;
    carrier->pings++;
    int r = carrier_put(carrier, 'p', NULL, 0, err);
    return r < 0 ? r : 0;
}

static int carrier_whole(struct carrier *carrier, bool *ret_text, const uint8_t **ret_data, size_t *ret_len) {
    while (carrier->in.len >= 5) {
        struct view view = view_of(carrier->in.data, carrier->in.len);
        char kind = (char)view_u8(&view);
        size_t len = view_u32(&view);
        if (view.len < len)
            break;
        if (kind == 'p' || kind == 'o') {
            struct err ignored;
            if (kind == 'p')
                carrier_put(carrier, 'o', NULL, 0, &ignored);
            buf_consume(&carrier->in, 5);
            continue;
        }
        *ret_text = kind == 't';
        *ret_data = view.data;
        *ret_len = len;
        carrier->used = 5 + len;
        return 1;
    }
    return 0;
}

static int carrier_recv(void *user, bool *ret_text, const uint8_t **ret_data, size_t *ret_len, struct err *err) {
    struct carrier *carrier = user;
    buf_consume(&carrier->in, carrier->used);
    carrier->used = 0;
    while (!carrier_whole(carrier, ret_text, ret_data, ret_len)) {
        uint8_t *at = buf_reserve(&carrier->in, 65536);
        must(at != NULL, "the carrier's buffer is full");
        ssize_t n = recv(carrier->fd, at, 65536, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return err_set(err, ERR_GONE, "the connection ended");
        carrier->in.len += (size_t)n;
        if (!carrier->deaf)
            carrier->heard_ms = clock_ms();
    }
    return 1;
}

static bool carrier_pending(void *user) {
    struct carrier *carrier = user;
    struct view view = view_of(carrier->in.data + carrier->used, carrier->in.len - carrier->used);
    view_u8(&view);
    size_t len = view_u32(&view);
    return !view.bad && view.len >= len;
}

static uint64_t carrier_heard(void *user) {
    return ((struct carrier *)user)->heard_ms;
}

static uint64_t carrier_latency(void *user) {
    (void)user;
    return 0;
}

static struct pump_socket carrier_socket(struct carrier *carrier, bool text_only) {
    return (struct pump_socket){
        .user = carrier,
        .fd = carrier->fd,
        .text_only = text_only,
        .recv = carrier_recv,
        .pending = carrier_pending,
        .send = carrier_send,
        .flush = carrier_flush,
        .ping = carrier_ping,
        .heard_ms = carrier_heard,
        .latency_us = carrier_latency,
    };
}

static void carrier_init(struct carrier *carrier, int fd) {
    *carrier = (struct carrier){.fd = fd, .breaks_after = -1, .heard_ms = clock_ms()};
    buf_init(&carrier->in, CARRY_MAX);
    buf_init(&carrier->out, CARRY_MAX);
}

static void carrier_done(struct carrier *carrier) {
    close(carrier->fd);
    buf_done(&carrier->in);
    buf_done(&carrier->out);
}

/* ---- two ends, and what connects them again whenever it breaks ---- */

struct end {
    struct pump *pump;
    struct carrier carrier;
    bool text_only;
    uint64_t resume;
    struct err err;
};

struct lab {
    struct end server, machine;
    pthread_t thread;
    bool text_only;
    unsigned seed;        /* 0: it never breaks */
    unsigned breaks_left; /* so many connections break */
    atomic_uint connections;
    atomic_bool over;
    pthread_mutex_t lock;
    char asked[256], shut_why[700];
    atomic_uint shuts, asks;
    int opened_fd[4]; /* the machine's other halves, in the order of its "open" questions */
    atomic_uint opened;
};

static void *end_main(void *arg) {
    struct end *end = arg;
    struct pump_socket socket = carrier_socket(&end->carrier, end->text_only);
    pump_run(end->pump, &socket, end->resume, &end->err);
    shutdown(end->carrier.fd, SHUT_RDWR);
    return NULL;
}

static void lab_connect(struct lab *lab) {
    int fds[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    carrier_init(&lab->server.carrier, fds[0]);
    carrier_init(&lab->machine.carrier, fds[1]);
    lab->server.text_only = lab->machine.text_only = lab->text_only;
    if (lab->breaks_left) {
        lab->breaks_left--;
        struct carrier *breaks = rand_r(&lab->seed) % 2 ? &lab->server.carrier : &lab->machine.carrier;
        breaks->breaks_after = (long)(rand_r(&lab->seed) % 400000);
    }
    lab->server.resume = pump_received(lab->machine.pump);
    lab->machine.resume = pump_received(lab->server.pump);
    lab->connections++;
    pthread_t threads[2];
    must(pthread_create(&threads[0], NULL, end_main, &lab->server) == 0, "a thread");
    must(pthread_create(&threads[1], NULL, end_main, &lab->machine) == 0, "a thread");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    carrier_done(&lab->server.carrier);
    carrier_done(&lab->machine.carrier);
}

static void *lab_main(void *arg) {
    struct lab *lab = arg;
    while (!lab->over)
        lab_connect(lab);
    return NULL;
}

/* The machine's side: what questions do. */
static void lab_ask(void *user, uint32_t number, const void *json, size_t len) {
    struct lab *lab = user;
    char text[64] = "";
    memcpy(text, json, len < 63 ? len : 63);
    lab->asks++;
    if (strcmp(text, "\"hold\"") == 0)
        return; /* not answered */
    static char answer[200000];
    if (strcmp(text, "\"long\"") == 0) {
        pump_answer(lab->machine.pump, number, answer, sizeof answer);
        return;
    }
    int fds[2];
    if (strcmp(text, "\"open\"") == 0) {
        must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
        lab->opened_fd[lab->opened] = fds[0];
        pump_open(lab->machine.pump, number, fds[1]);
        lab->opened++;
    }
    pump_answer(lab->machine.pump, number, "{\"ok\":true}", 11);
}

static void lab_shut(void *user, uint32_t channel, const char *why) {
    struct lab *lab = user;
    (void)channel;
    pthread_mutex_lock(&lab->lock);
    snprintf(lab->shut_why, sizeof lab->shut_why, "%s", why);
    pthread_mutex_unlock(&lab->lock);
    lab->shuts++;
}

static const struct pump_events machine_events = {.ask = lab_ask, .shut = lab_shut};
static const struct pump_events server_events = {.shut = lab_shut};

static struct lab *lab_new(bool text_only, unsigned seed, unsigned breaks) {
    struct lab *lab = calloc(1, sizeof *lab);
    lab->text_only = text_only;
    lab->seed = seed;
    lab->breaks_left = breaks;
    pthread_mutex_init(&lab->lock, NULL);
    lab->server.pump = pump_new(&server_events, lab);
    lab->machine.pump = pump_new(&machine_events, lab);
    must(pthread_create(&lab->thread, NULL, lab_main, lab) == 0, "a thread");
    return lab;
}

static void lab_free(struct lab *lab) {
    lab->over = true;
    pump_end(lab->server.pump, "the test is over");
    pump_end(lab->machine.pump, "the test is over");
    pthread_join(lab->thread, NULL);
    pump_free(lab->server.pump);
    pump_free(lab->machine.pump);
    for (unsigned i = 0; i < lab->opened; i++)
        fd_close(&lab->opened_fd[i]);
    pthread_mutex_destroy(&lab->lock);
    free(lab);
}

/* A channel; its two halves: the server's is returned, the machine's is lab->opened_fd of that index. */
static int lab_open(struct lab *lab, uint32_t *ret_number) {
    autobuf answer = buf_max(1000);
    struct err err = {0};
    uint32_t number = pump_number(lab->server.pump);
    int r = pump_ask(lab->server.pump, number, "\"open\"", 6, 20000, &answer, &err);
    must(r == 0 && answer.len == 11, "the machine opens a channel");
    int fds[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    pump_open(lab->server.pump, number, fds[1]);
    if (ret_number)
        *ret_number = number;
    return fds[0];
}

static bool eventually(bool (*holds)(struct lab *), struct lab *lab) {
    uint64_t until = clock_ms() + 60000;
    while (!holds(lab) && clock_ms() < until)
        poll(NULL, 0, 2);
    return holds(lab);
}

/* ---- streams with a pattern that shows any byte lost, doubled or moved ---- */

struct stream {
    int fd;
    size_t bytes;
    unsigned salt;
    bool good;
};

static uint8_t pattern(size_t at, unsigned salt) {
    uint64_t mixed = (at / 8 + salt * 1000003ull) * 0x9e3779b97f4a7c15ull;
    return (uint8_t)(mixed >> (at % 8 * 8));
}

static void *stream_write(void *arg) {
    struct stream *stream = arg;
    static const size_t piece = 50000;
    uint8_t *data = malloc(piece);
    stream->good = true;
    for (size_t at = 0; at < stream->bytes && stream->good;) {
        size_t n = stream->bytes - at < piece ? stream->bytes - at : piece;
        for (size_t i = 0; i < n; i++)
            data[i] = pattern(at + i, stream->salt);
        stream->good = fd_write_all(stream->fd, data, n) == 0;
        at += n;
    }
    free(data);
    return NULL;
}

static void *stream_read(void *arg) {
    struct stream *stream = arg;
    uint8_t *data = malloc(65536);
    stream->good = true;
    for (size_t at = 0; at < stream->bytes && stream->good;) {
        ssize_t n = read(stream->fd, data, 65536);
        stream->good = n > 0;
        for (ssize_t i = 0; i < n; i++)
            stream->good &= data[i] == pattern(at + (size_t)i, stream->salt);
        at += n > 0 ? (size_t)n : 0;
    }
    free(data);
    return NULL;
}

/* Both ways on one channel at the same time. */
static bool streams_both_ways(int server, int machine, size_t bytes, unsigned salt) {
    struct stream streams[4] = {
        {server, bytes, salt, false},
        {machine, bytes, salt, false},
        {machine, bytes, salt + 1, false},
        {server, bytes, salt + 1, false},
    };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, i % 2 ? stream_read : stream_write, &streams[i]) == 0, "a thread");
    bool good = true;
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        good &= streams[i].good;
    }
    return good;
}

/* ---- the tests ---- */

static void moves_bytes(void) {
    struct lab *lab = lab_new(false, 0, 0);
    int one = lab_open(lab, NULL), two = lab_open(lab, NULL);
    ok(streams_both_ways(one, lab->opened_fd[0], 20 << 20, 1), "twenty megabytes both ways");
    ok(streams_both_ways(two, lab->opened_fd[1], 1 << 20, 5), "and on another channel");
    ok(lab->connections == 1, "over one connection");
    close(one);
    close(two);
    lab_free(lab);
}

static void survives_cuts(void) {
    bool good = true;
    unsigned connections = 0;
    for (unsigned seed = 1; seed <= 4 && good; seed++) {
        struct lab *lab = lab_new(false, seed, 40);
        int fd = lab_open(lab, NULL);
        good = streams_both_ways(fd, lab->opened_fd[0], 6 << 20, seed);
        connections += lab->connections;
        close(fd);
        lab_free(lab);
    }
    ok(good && connections > 80, "a connection that breaks every few hundred kilobytes loses and repeats nothing");
}

/* A carrier counts from its last connection on, which may be just made. */
static bool text_sent(struct lab *lab) {
    return lab->machine.carrier.text_messages > 0;
}

static void carries_text(void) {
    struct lab *lab = lab_new(true, 7, 10);
    int fd = lab_open(lab, NULL);
    ok(streams_both_ways(fd, lab->opened_fd[0], 3 << 20, 9), "records as text, over connections that break");
    ok_all("and no binary message among them", eventually(text_sent, lab), lab->machine.carrier.binary_messages == 0,
           lab->server.carrier.binary_messages == 0);
    close(fd);
    lab_free(lab);
}

static bool machine_stuck(struct lab *lab) {
    char byte;
    return recv(lab->opened_fd[0], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

static void slow_reader_alone(void) {
    struct lab *lab = lab_new(false, 0, 0);
    int slow = lab_open(lab, NULL), quick = lab_open(lab, NULL);
    static uint8_t piece[65536];
    size_t sent = 0;
    uint64_t quiet_since = clock_ms();
    while (clock_ms() < quiet_since + 200) { /* nobody reads at the machine */
        ssize_t n = send(slow, piece, sizeof piece, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            sent += (size_t)n;
            quiet_since = clock_ms();
        } else {
            poll(NULL, 0, 5);
        }
    }
    ok(eventually(machine_stuck, lab) && sent < LIMIT_CHANNEL_BYTES + (4u << 20), "a reader that stops has a bound");
    ok(streams_both_ways(quick, lab->opened_fd[1], 4 << 20, 3), "and holds up no other channel");
    close(slow);
    close(quick);
    lab_free(lab);
}

static bool shut_came(struct lab *lab) {
    return lab->shuts > 0;
}

static bool server_quiet(struct lab *lab) {
    return pump_quiet(lab->server.pump) && pump_quiet(lab->machine.pump);
}

static void shuts_after_the_last_byte(void) {
    struct lab *lab = lab_new(false, 0, 0);
    int fd = lab_open(lab, NULL);
    struct stream out = {lab->opened_fd[0], 400000, 4, false}, in = {fd, 400000, 4, false};
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, stream_write, &out);
    pthread_join(threads[0], NULL); /* what does not fit into sockets lies in the pumps, if anywhere */
    fd_close(&lab->opened_fd[0]);
    pthread_create(&threads[1], NULL, stream_read, &in);
    pthread_join(threads[1], NULL);
    char byte;
    ok(in.good && read(fd, &byte, 1) == 0, "all bytes come before the end of a channel");
    ok(eventually(shut_came, lab) && eventually(server_quiet, lab), "then both ends have forgotten it");
    close(fd);

    uint32_t number;
    fd = lab_open(lab, &number);
    lab->shuts = 0;
    pump_shut(lab->machine.pump, number, "the runner\n died");
    ok_all("a reason comes along, as text that harms no terminal", read(fd, &byte, 1) == 0, eventually(shut_came, lab),
           strcmp(lab->shut_why, "the runner\\n died") == 0);
    close(fd);
    ok(eventually(server_quiet, lab), "a channel shut by the machine is forgotten");
    fd = lab_open(lab, &number);
    pump_shut(lab->server.pump, number, "");
    ok(read(fd, &byte, 1) == 0 && eventually(server_quiet, lab), "a channel shut by the server is forgotten");
    close(fd);
    lab_free(lab);
}

static void questions(void) {
    struct lab *lab = lab_new(false, 0, 0);
    autobuf answer = buf_max(1000);
    struct err err = {0};
    uint32_t number = pump_number(lab->server.pump);
    ok(pump_ask(lab->server.pump, number, "\"hold\"", 6, 30, &answer, &err) == -ERR_TIMEOUT,
       "a machine that is silent");
    ok(pump_quiet(lab->server.pump), "nobody waits for it any more");
    int fds[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    pump_open(lab->machine.pump, number, fds[1]);
    must(fd_write_all(fds[0], "HELLO", 5) == 0, "a hello");
    pump_answer(lab->machine.pump, number, "{}", 2);
    char byte;
    ok(read(fds[0], &byte, 1) == 0 && eventually(server_quiet, lab),
       "an answer that comes too late opens nothing: its channel is shut");
    close(fds[0]);
    struct err small_err = {0};
    autobuf small = buf_max(4);
    ok(pump_ask(lab->server.pump, pump_number(lab->server.pump), "{}", 2, 5000, &small, &small_err) == -ERR_TOO_LARGE,
       "an answer that is longer than the one who asks takes");
    lab_free(lab);
}

static bool ask_held(struct lab *lab) {
    return lab->asks > 0;
}

struct asker {
    struct lab *lab;
    int result;
    struct err err;
};

static void *ask_hold(void *arg) {
    struct asker *asker = arg;
    autobuf answer = buf_max(1000);
    struct pump *pump = asker->lab->server.pump;
    asker->result = pump_ask(pump, pump_number(pump), "\"hold\"", 6, 60000, &answer, &asker->err);
    return NULL;
}

static void ends(void) {
    struct lab *lab = lab_new(false, 0, 0);
    int fd = lab_open(lab, NULL);
    lab->asks = 0;
    struct asker asker = {.lab = lab};
    pthread_t thread;
    pthread_create(&thread, NULL, ask_hold, &asker);
    eventually(ask_held, lab);
    unsigned before = lab->connections;
    pump_leave(lab->server.pump, "its token was revoked");
    uint64_t until = clock_ms() + 60000;
    while (lab->connections == before && clock_ms() < until)
        poll(NULL, 0, 2);
    ok(lab->connections > before, "a connection can be ended, and the session goes on");
    ok(fd_write_all(fd, "x", 1) == 0 && read(lab->opened_fd[0], &(char){0}, 1) == 1, "with its channels");
    lab->over = true;
    pump_end(lab->server.pump, "its grace is over");
    pthread_join(thread, NULL);
    ok(asker.result == -ERR_GONE && strstr(asker.err.text, "grace is over"),
       "the end of a session is told to who waits");
    char byte;
    ok(read(fd, &byte, 1) == 0, "and closes its channels");
    struct err err = {0};
    autobuf answer = buf_max(10);
    ok(pump_ask(lab->server.pump, 1000, "{}", 2, 1000, &answer, &err) == -ERR_GONE, "later questions hear it too");
    close(fd);
    lab_free(lab);
}

/* ---- one end against a peer that says what it likes ---- */

struct liar {
    struct end end;
    int fd;
    pthread_t thread;
};

static void liar_init(struct liar *liar, const struct pump_events *events, void *user) {
    int fds[2];
    memset(liar, 0, sizeof *liar);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    liar->end.pump = pump_new(events, user);
    carrier_init(&liar->end.carrier, fds[0]);
    liar->fd = fds[1];
    pump_number(liar->end.pump);
    pump_number(liar->end.pump); /* 1 and 2 may be spoken of */
}

static void liar_start(struct liar *liar) {
    must(pthread_create(&liar->thread, NULL, end_main, &liar->end) == 0, "a thread");
}

static void liar_say(struct liar *liar, char kind, const void *data, size_t len) {
    autobuf out = buf_max(CARRY_MAX);
    buf_byte(&out, (uint8_t)kind);
    buf_u32(&out, (uint32_t)len);
    buf_put(&out, data, len);
    fd_write_all(liar->fd, out.data, out.len); /* fails where it was found out already */
}

static void liar_done(struct liar *liar) {
    pthread_join(liar->thread, NULL);
    close(liar->fd);
    carrier_done(&liar->end.carrier);
    pump_free(liar->end.pump);
}

static void lies_one_by_one(void) {
    static const struct {
        const char *name, *says;
        char kind;
        const char *bytes;
        size_t len;
        int times;
    } table[] = {
        {"a record that is none", "unknown kind", 'b', "\7\0\0\0\1\0\0\0", 8, 1},
        {"a question from a machine", "a question from a machine", 'b', "\3\0\0\0\1\0\0\0{}", 10, 1},
        {"an answer to nothing", "which was not asked", 'b', "\4\0\0\0\1\0\0\0{}", 10, 1},
        {"bytes on a channel that was never asked for", "never asked for", 'b', "\1\0\0\0\3\0\0\0x", 9, 1},
        {"the end of a channel that was never asked for", "never asked for", 'b', "\5\0\0\0\3\0\0\0", 8, 1},
        {"a channel shut twice", "shut twice", 'b', "\5\0\0\0\1\0\0\0", 8, 2},
        {"a window for a channel that is not there", "a window of", 'b', "\2\0\0\0\1\0\0\0\1\0\0\0", 12, 1},
        {"bytes upon bytes before a channel is used", "before it is used", 'b', "\1\0\0\0\1\0\0\0xxxxxxxxxxxxxxxx", 24,
         1000},
        {"an acknowledgement of what was never sent", "an ACK of", 'b', "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 16, 1},
        {"text that is no JSON", "not a record", 't', "hello", 5, 1},
        {"text that is no record", "not a record", 't', "{\"type\":\"exec\"}", 15, 1},
        {"text whose base64 is none", "base64", 't', "{\"type\":\"link\",\"data\":\"AQ*A\"}", 29, 1},
        {"text without data", "base64", 't', "{\"type\":\"link\"}", 15, 1},
        {"text with half a record", "cut off", 't', "{\"type\":\"link\",\"data\":\"AQAA\"}", 29, 1},
        {"text in other words, and an answer to nothing", "not asked", 't',
         "{ \"data\": \"BAAAAAEAAAB7fQ==\", \"type\" : \"link\" }", 47, 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct liar liar;
        liar_init(&liar, &server_events, NULL);
        liar_start(&liar);
        for (int n = 0; n < table[i].times; n++)
            liar_say(&liar, table[i].kind, table[i].bytes, table[i].len);
        pthread_join(liar.thread, NULL);
        char name[128];
        snprintf(name, sizeof name, "ended: %s", table[i].name);
        ok(liar.end.err.code == ERR_PROTOCOL && strstr(liar.end.err.text, table[i].says), name);
        if (liar.end.err.code != ERR_PROTOCOL || !strstr(liar.end.err.text, table[i].says))
            printf("# %s\n", liar.end.err.text);
        close(liar.fd);
        carrier_done(&liar.end.carrier);
        pump_free(liar.end.pump);
    }
}

static void beyond_the_window(void) {
    struct liar liar;
    liar_init(&liar, &server_events, NULL);
    int fds[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    pump_open(liar.end.pump, 1, fds[0]); /* nobody reads fds[1] */
    liar_start(&liar);
    static uint8_t record[8 + 65536] = {LINK_DATA, 0, 0, 0, 1};
    for (int i = 0; i < 100; i++)
        liar_say(&liar, 'b', record, sizeof record);
    liar_done(&liar);
    ok(liar.end.err.code == ERR_PROTOCOL && strstr(liar.end.err.text, "window"), "ended: more than the window lets");
    close(fds[1]);
}

static void window_too_large(void) {
    struct liar liar;
    liar_init(&liar, &server_events, NULL);
    int fds[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    pump_open(liar.end.pump, 1, fds[0]);
    liar_start(&liar);
    for (int i = 0; i < 5; i++)
        liar_say(&liar, 'b', "\2\0\0\0\1\0\0\0\377\377\377\177", 12);
    liar_done(&liar);
    ok(liar.end.err.code == ERR_PROTOCOL && strstr(liar.end.err.text, "a window of"),
       "ended: a window beyond counting");
    close(fds[1]);
}

/* It sends and sends, and never says that it has what it is answered. */
static void never_acknowledges(void) {
    struct liar liar;
    struct lab *lab = calloc(1, sizeof *lab);
    liar_init(&liar, &machine_events, lab);
    lab->machine.pump = liar.end.pump;
    liar_start(&liar);
    static char sink[65536];
    unsigned asked = 0;
    bool up = true;
    while (up && asked++ < 1000) {
        liar_say(&liar, 'b', "\3\0\0\0\1\0\0\0\"long\"", 14);
        struct pollfd look = {.fd = liar.fd, .events = POLLIN};
        poll(&look, 1, 1000);
        ssize_t n;
        while ((n = recv(liar.fd, sink, sizeof sink, MSG_DONTWAIT)) > 0)
            ;
        up = n < 0 && errno == EAGAIN;
    }
    liar_done(&liar);
    free(lab);
    ok_all("ended: an end that never acknowledges has a bound", !up, liar.end.err.code == ERR_PROTOCOL,
           strstr(liar.end.err.text, "does not answer or acknowledge"));
}

static void silence(void) {
    struct liar liar;
    liar_init(&liar, &server_events, NULL);
    liar.end.carrier.deaf = true;
    liar.end.carrier.heard_ms = clock_ms() - PUMP_SILENT_MS + 60;
    uint64_t began = clock_ms();
    liar_start(&liar);
    liar_done(&liar);
    ok_all("a connection on which nothing comes is lost", liar.end.err.code == ERR_GONE,
           strstr(liar.end.err.text, "nothing came"), clock_ms() >= began + 50);
    ok(liar.end.carrier.pings == 1, "after it was pinged");
}

static int tick_refuses(void *user, struct err *err) {
    (void)user;
    return err_set(err, ERR_UNAUTHORIZED, "the token was revoked");
}

static void tick(void) {
    static const struct pump_events events = {.tick = tick_refuses};
    struct liar liar;
    liar_init(&liar, &events, NULL);
    liar_start(&liar);
    liar_done(&liar);
    ok(liar.end.err.code == ERR_UNAUTHORIZED, "a tick ends the connection with its reason");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    moves_bytes();
    survives_cuts();
    carries_text();
    slow_reader_alone();
    shuts_after_the_last_byte();
    questions();
    ends();
    lies_one_by_one();
    beyond_the_window();
    window_too_large();
    never_acknowledges();
    silence();
    tick();
    return tap_end();
}
