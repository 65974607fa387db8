/* The HTTP server's behaviour over raw sockets: connections, bodies, answers, files, limits, drain. */
#include "http_lab.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define H "Host: localhost\r\n"

static atomic_int running, finished_count, last_status, body_result;
static int gate[2]; /* /wait goes on when a byte comes here */

/* ---- handlers ---- */

static void handle_hello(struct http_request *request) {
    http_reply(request, 200, "text/plain", "hello", 5);
}

static void handle_echo(struct http_request *request) {
    char *data;
    size_t len;
    struct err err;
    if (http_body_all(request, 64 << 20, &data, &len, &err) < 0)
        http_reply_error(request, &err);
    else
        http_reply(request, 200, "application/octet-stream", data, len);
}

static void handle_stream(struct http_request *request) { /* the body back, chunked, in small reads */
    char data[777];
    struct err err;
    ssize_t n = http_body_read(request, data, sizeof data, &err);
    http_reply_begin(request, 200, "application/octet-stream", -1);
    for (; n > 0; n = http_body_read(request, data, sizeof data, &err))
        http_reply_write(request, data, (size_t)n);
    http_reply_end(request);
}

static void handle_read(struct http_request *request) {
    char data[1000];
    struct err err;
    ssize_t n;
    while ((n = http_body_read(request, data, sizeof data, &err)) > 0)
        ;
    body_result = (int)n;
    if (n < 0)
        http_reply_error(request, &err);
    else
        http_reply(request, 200, NULL, NULL, 0);
}

static void handle_unread(struct http_request *request) {
    http_reply(request, 200, "text/plain", "unread", 6);
}

static void handle_file(struct http_request *request) { /* ?size=&from=: a file of that size, sent from there */
    uint64_t size = strtoull(http_query(request, "size", NULL), NULL, 10);
    uint64_t from = strtoull(http_query(request, "from", NULL), NULL, 10);
    uint64_t real = http_query(request, "real", NULL) ? strtoull(http_query(request, "real", NULL), NULL, 10) : size;
    int fd = memfd_create("file", MFD_CLOEXEC);
    char *data = malloc(real + 1);
    for (uint64_t i = 0; i < real; i++)
        data[i] = (char)(i * 7 + i / 251);
    if (write(fd, data, real) < 0)
        abort();
    free(data);
    http_reply_begin(request, 206, "application/octet-stream", (int64_t)(size - from));
    http_reply_file(request, fd, from, size - from);
    http_reply_end(request);
    close(fd);
}

static void handle_splice(struct http_request *request) { /* the body into a file and back from there */
    int fd = memfd_create("file", MFD_CLOEXEC);
    if (http_query(request, "append", NULL))
        fcntl(fd, F_SETFL, O_APPEND);
    struct err err;
    ssize_t n, total = 0;
    while ((n = http_body_splice(request, fd, 1 << 20, &err)) > 0)
        total += n;
    if (n < 0) {
        http_reply_error(request, &err);
    } else {
        http_reply_begin(request, 200, "application/octet-stream", total);
        http_reply_file(request, fd, 0, (uint64_t)total);
        http_reply_end(request);
    }
    close(fd);
}

static void handle_events(struct http_request *request) {
    http_reply_events(request);
    http_reply_event(request, "first", "one", 3);
    http_reply_event(request, NULL, "two\nlines", 9);
    http_reply_end(request);
}

static void handle_none(struct http_request *request) {
    (void)request;
}

static void handle_no_end(struct http_request *request) {
    http_reply_begin(request, 200, "text/plain", -1);
    http_reply_write(request, "part", 4);
}

static void handle_abort(struct http_request *request) {
    http_reply_begin(request, 200, "text/plain", 100);
    http_reply_write(request, "part", 4);
    http_reply_abort(request);
}

static void handle_late_error(struct http_request *request) {
    struct err err;
    http_reply_begin(request, 200, "text/plain", -1);
    http_reply_write(request, "part", 4);
    err_set(&err, ERR_IO, "broke in the middle");
    http_reply_error(request, &err);
}

static void
handle_wait(struct http_request *request) { /* until the gate opens, the client hangs up or the server stops */
    const char *word = "gate";
    running++;
    for (;;) {
        struct pollfd waits[2] = {{.fd = gate[0], .events = POLLIN}, {.fd = http_fd(request), .events = POLLRDHUP}};
        char byte;
        if (poll(waits, 2, 20) > 0 && waits[0].revents && read(gate[0], &byte, 1) == 1)
            break;
        if (waits[1].revents) {
            word = "hang-up";
            break;
        }
        if (http_query(request, "stop", NULL) && http_server_stopping(*(struct http_server **)http_context(request))) {
            word = "stopping";
            break;
        }
    }
    last_status = word[0];
    running--;
    http_reply(request, 200, "text/plain", word, strlen(word));
}

static void handle_live(struct http_request *request) {
    http_body_live(request);
    handle_read(request);
}

static void handle_all(struct http_request *request) {
    char *data;
    size_t len;
    struct err err;
    if (http_body_all(request, 8 << 20, &data, &len, &err) < 0)
        http_reply_error(request, &err);
    else
        http_reply(request, 200, "text/plain", "fine", 4);
}

static void handle_flood(struct http_request *request) {
    static char data[65536];
    http_reply_begin(request, 200, "text/plain", -1);
    running++;
    int result = 0;
    for (int i = 0; i < 10000 && result == 0; i++)
        result = http_reply_write(request, data, sizeof data);
    last_status = result;
    running--;
    http_reply_end(request);
}

static void handle_peer(struct http_request *request) {
    struct http_peer peer;
    http_peer(request, &peer);
    char *text =
        arena_printf(http_arena(request), "%d %d %d", peer.unix_socket, peer.loopback, (int)http_peer_uid(request));
    http_reply(request, 200, "text/plain", text, strlen(text));
}

static void handle_denied(struct http_request *request) {
    http_reply(request, 200, "text/plain", http_user_data(request), 5);
}

static int admit(struct http_request *request, struct err *err) {
    http_set_user_data(request, arena_strdup(http_arena(request), "agent"));
    const char *token = http_header(request, "authorization");
    if (strcmp(http_route(request)->name, "denied") == 0 && !token)
        return err_set(err, ERR_UNAUTHORIZED, "no token");
    return 0;
}

static void finished(struct http_request *request, int status, uint64_t bytes_in, uint64_t bytes_out, uint64_t us) {
    (void)us, (void)bytes_out;
    if (http_method(request) && http_path(request) && status && bytes_in)
        finished_count++;
}

static const struct route routes[] = {
    {"GET", "/hello", handle_hello, ROUTE_QUICK, "hello", "", NULL},
    {"POST", "/echo", handle_echo, 0, "echo", "", NULL},
    {"POST", "/stream", handle_stream, ROUTE_QUICK, "stream", "", NULL},
    {"POST", "/read", handle_read, ROUTE_QUICK, "read", "", NULL},
    {"POST", "/unread", handle_unread, ROUTE_QUICK, "unread", "", NULL},
    {"GET", "/file", handle_file, ROUTE_QUICK, "file", "", NULL},
    {"PUT", "/splice", handle_splice, 0, "splice", "", NULL},
    {"GET", "/events", handle_events, 0, "events", "", NULL},
    {"GET", "/none", handle_none, 0, "none", "", NULL},
    {"GET", "/no-end", handle_no_end, 0, "no_end", "", NULL},
    {"GET", "/abort", handle_abort, 0, "abort", "", NULL},
    {"GET", "/late", handle_late_error, 0, "late", "", NULL},
    {"GET", "/wait", handle_wait, 0, "wait", "", NULL},
    {"POST", "/live", handle_live, 0, "live", "", NULL},
    {"POST", "/all", handle_all, 0, "all", "", NULL},
    {"GET", "/flood", handle_flood, ROUTE_QUICK, "flood", "", NULL},
    {"GET", "/peer", handle_peer, ROUTE_QUICK, "peer", "", NULL},
    {"GET", "/denied", handle_denied, ROUTE_QUICK, "denied", "", NULL},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

static struct answer answer;

/* Waits for an event of another thread without guessing its time. */
#define wait_for(condition)                                                                                            \
    ({                                                                                                                 \
        uint64_t end_ms = clock_ms() + 60000;                                                                          \
        while (!(condition) && clock_ms() < end_ms)                                                                    \
            usleep(2000);                                                                                              \
        (condition);                                                                                                   \
    })

/* ---- connections ---- */

static void test_connections(struct lab *lab) {
    int fd = lab_connect(lab);
    bool good = true;
    for (int i = 0; i < 50; i++) {
        lab_say(fd, "GET /hello HTTP/1.1\r\n" H "\r\n");
        lab_answer(fd, &answer, false);
        good = good && answer.status == 200 && strcmp(answer.body, "hello") == 0;
    }
    ok(good && !answer_header(&answer, "connection"), "50 requests on one connection");
    char first[100];
    snprintf(first, sizeof first, "%s", answer_header(&answer, "x-request-id"));
    lab_say(fd, "GET /hello HTTP/1.1\r\n" H "X-Request-Id: my.own-id_1\r\n\r\n");
    lab_answer(fd, &answer, false);
    ok(strcmp(answer_header(&answer, "x-request-id"), "my.own-id_1") == 0 && strcmp(first, "my.own-id_1") != 0,
       "a caller's request id is kept");
    lab_say(fd, "HEAD /hello HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n");
    lab_answer(fd, &answer, true);
    good = answer.status == 200 && strcmp(answer_header(&answer, "content-length"), "5") == 0;
    lab_answer(fd, &answer, false);
    ok(good && strcmp(answer.body, "hello") == 0, "HEAD has the length and no body");
    lab_say(fd, "GET /hello HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
    lab_answer(fd, &answer, false);
    ok_all("Connection: close is honoured", answer.status == 200,
           strcmp(answer_header(&answer, "connection"), "close") == 0, lab_closed(fd));
    close(fd);
    fd = lab_connect(lab);
    lab_say(fd, "GET /hello HTTP/1.0\r\n\r\n");
    lab_answer(fd, &answer, false);
    ok(answer.status == 200 && lab_closed(fd), "HTTP/1.0 closes");
    close(fd);
    fd = lab_connect(lab);
    lab_say(fd, "POST /stream HTTP/1.0\r\nContent-Length: 5\r\n\r\nabcde");
    lab_answer(fd, &answer, false);
    ok(answer.closed && strcmp(answer.body, "abcde") == 0, "a stream for HTTP/1.0 ends with the connection");
    close(fd);
}

static void test_pipelining(struct lab *lab) {
    int fd = lab_connect(lab);
    const char *three = "GET /hello HTTP/1.1\r\n" H "\r\n"
                        "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc"
                        "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"
                        "POST /unread HTTP/1.1\r\n" H "Content-Length: 4\r\n\r\nGET "
                        "GET /hello HTTP/1.1\r\n" H "\r\n";
    const char *const bodies[] = {"hello", "abc", "def", "unread", "hello"};
    bool good = true;
    lab_say(fd, three);
    for (int i = 0; i < 5; i++) {
        lab_answer(fd, &answer, false);
        good = good && answer.status == 200 && strcmp(answer.body, bodies[i]) == 0;
    }
    ok(good, "five pipelined requests in one segment");
    for (const char *at = three; *at; at++)
        lab_send(fd, at, 1);
    good = true;
    for (int i = 0; i < 5; i++) {
        lab_answer(fd, &answer, false);
        good = good && answer.status == 200 && strcmp(answer.body, bodies[i]) == 0;
    }
    ok(good, "the same byte by byte");
    close(fd);
}

/* ---- bodies ---- */

static char *pattern(size_t len) {
    char *data = malloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (char)(i * 7 + i / 251);
    return data;
}

struct sender {
    int fd;
    const char *data;
    size_t len, chunk; /* chunk 0: as it is */
    pthread_t thread;
};

static void *send_thread(void *argument) {
    struct sender *sender = argument;
    if (!sender->chunk) {
        lab_send(sender->fd, sender->data, sender->len);
        return NULL;
    }
    for (size_t at = 0; at < sender->len; at += sender->chunk) {
        char size[32];
        size_t n = sender->len - at < sender->chunk ? sender->len - at : sender->chunk;
        lab_send(sender->fd, size, (size_t)snprintf(size, sizeof size, "%zX\r\n", n));
        lab_send(sender->fd, sender->data + at, n);
        lab_say(sender->fd, "\r\n");
    }
    lab_say(sender->fd, "0\r\n\r\n");
    return NULL;
}

/* A body of len bytes to a path that gives it back. */
static bool round_trip(struct lab *lab, const char *line, size_t len, size_t chunk) {
    char *data = pattern(len), head[200], framing[60];
    int fd = lab_connect(lab);
    snprintf(framing, sizeof framing, chunk ? "Transfer-Encoding: chunked" : "Content-Length: %zu", len);
    snprintf(head, sizeof head, "%s HTTP/1.1\r\n" H "%s\r\n\r\n", line, framing);
    lab_say(fd, head);
    struct sender sender = {.fd = fd, .data = data, .len = len, .chunk = chunk};
    pthread_create(&sender.thread, NULL, send_thread, &sender);
    lab_answer(fd, &answer, false);
    pthread_join(sender.thread, NULL);
    close(fd);
    bool good = answer.status == 200 && answer.len == len && memcmp(answer.body, data, len) == 0 && !answer.cut;
    free(data);
    return good;
}

static void test_bodies(struct lab *lab) {
    ok(round_trip(lab, "POST /echo", 3000000, 0), "3 MB with a length, whole in memory");
    ok(round_trip(lab, "POST /echo", 300000, 1000), "300 KB chunked, whole in memory");
    ok(round_trip(lab, "POST /stream", 200000, 0), "200 KB with a length, streamed back chunked");
    ok(round_trip(lab, "POST /stream", 200000, 13), "200 KB in chunks of 13 bytes, streamed back");
    ok(round_trip(lab, "POST /stream", 500000, 100000), "500 KB in large chunks, streamed back");
    ok(round_trip(lab, "PUT /splice", 7000000, 0), "7 MB spliced into a file and sent from it");
    ok(round_trip(lab, "PUT /splice?append=1", 3000000, 0), "the same into a file open for append");
    ok(round_trip(lab, "PUT /splice", 300000, 5000), "a chunked body into a file");
    ok(round_trip(lab, "PUT /splice", 10, 0), "ten bytes into a file");
}

static void test_continue(struct lab *lab) {
    int fd = lab_connect(lab);
    lab_say(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    lab_answer(fd, &answer, false);
    bool good = answer.status == 100;
    lab_say(fd, "hello");
    lab_answer(fd, &answer, false);
    ok_all("100-continue is sent when the body is read", good, answer.status == 200, strcmp(answer.body, "hello") == 0);
    lab_say(fd, "POST /unread HTTP/1.1\r\n" H "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    lab_answer(fd, &answer, false);
    ok(answer.status == 200 && lab_closed(fd), "a body never asked for ends the connection");
    close(fd);
}

static void test_unread(struct lab *lab) {
    int fd = lab_connect(lab);
    char *data = pattern(100000);
    lab_say(fd, "POST /unread HTTP/1.1\r\n" H "Content-Length: 100000\r\n\r\n");
    lab_send(fd, data, 100000);
    lab_answer(fd, &answer, false);
    bool good = answer.status == 200 && !answer_header(&answer, "connection");
    lab_say(fd, "GET /hello HTTP/1.1\r\n" H "\r\n");
    lab_answer(fd, &answer, false);
    ok(good && strcmp(answer.body, "hello") == 0, "a small unread body is dropped, the connection stays");
    lab_say(fd, "POST /unread HTTP/1.1\r\n" H "Content-Length: 9000000\r\n\r\n");
    lab_send(fd, data, 100000);
    lab_answer(fd, &answer, false);
    ok_all("a large unread body ends it, and the answer arrives", answer.status == 200,
           strcmp(answer_header(&answer, "connection"), "close") == 0, lab_closed(fd));
    close(fd);
    free(data);
}

/* ---- answers ---- */

static void test_answers(struct lab *lab) {
    int fd = lab_connect(lab);
    lab_say(fd, "GET /events HTTP/1.1\r\n" H "\r\n");
    lab_answer(fd, &answer, false);
    ok(strcmp(answer.body, "event: first\ndata: one\n\ndata: two\ndata: lines\n\n") == 0 &&
           strcmp(answer_header(&answer, "content-type"), "text/event-stream") == 0,
       "an event stream");
    lab_say(fd, "GET /none HTTP/1.1\r\n" H "\r\n");
    lab_answer(fd, &answer, false);
    ok(answer.status == 500 && strstr(answer.body, "INTERNAL"), "a handler without an answer is a 500");
    lab_say(fd, "GET /denied HTTP/1.1\r\n" H "\r\n");
    lab_answer(fd, &answer, false);
    ok(answer.status == 401 && answer_header(&answer, "www-authenticate"), "admit refuses");
    lab_say(fd, "GET /denied HTTP/1.1\r\n" H "Authorization: x\r\n\r\n");
    lab_answer(fd, &answer, false);
    ok(answer.status == 200 && strcmp(answer.body, "agent") == 0, "admit lets pass and hands its data on");
    close(fd);
    const char *const broken[] = {"/no-end", "/abort", "/late"};
    for (int i = 0; i < 3; i++) {
        char text[100];
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" H "\r\n", broken[i]);
        lab_ask_text(lab, text, &answer);
        ok(answer.cut, broken[i]);
    }
}

static bool file_round(struct lab *lab, size_t size, size_t from) {
    char text[200], *data = pattern(size);
    snprintf(text, sizeof text, "GET /file?size=%zu&from=%zu HTTP/1.1\r\n" H "\r\n", size, from);
    lab_ask_text(lab, text, &answer);
    bool good = answer.status == 206 && answer.len == size - from && memcmp(answer.body, data + from, answer.len) == 0;
    free(data);
    return good;
}

static void test_files(struct lab *lab) {
    ok(file_round(lab, 0, 0), "an empty file");
    ok(file_round(lab, 4096, 0), "4 KB from a file");
    ok(file_round(lab, 4096, 4000), "a range of it");
    ok(file_round(lab, 65536, 0) && file_round(lab, 65537, 0), "files around the size of one send");
    ok(file_round(lab, 9000000, 0), "9 MB by sendfile");
    ok(file_round(lab, 9000000, 8999999), "its last byte");
    lab_ask_text(lab, "GET /file?size=100000&from=0&real=70000 HTTP/1.1\r\n" H "\r\n", &answer);
    ok(answer.cut, "a file that became shorter is not passed for whole");
    lab_ask_text(lab, "GET /file?size=1000&from=0&real=700 HTTP/1.1\r\n" H "\r\n", &answer);
    ok(answer.status == 0 || answer.cut, "a small one neither");
}

/* ---- clients that misbehave in time ---- */

static void test_slow(void) {
    struct http_config config = {.routes = routes,
                                 .head_timeout_ms = 200,
                                 .body_timeout_ms = 200,
                                 .write_timeout_ms = 200,
                                 .idle_timeout_ms = 400};
    struct lab lab;
    lab_start(&lab, "127.0.0.1:0", &config);
    int fd = lab_connect(&lab);
    lab_say(fd, "GET /hello HTT");
    lab_answer(fd, &answer, false);
    ok(answer.status == 408 && lab_closed(fd), "half a head gets 408");
    close(fd);
    fd = lab_connect(&lab);
    bool sent = true;
    for (int i = 0; i < 1000 && sent; i++) { /* trickling does not buy time */
        sent = lab_say(fd, "G");
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, 10) > 0)
            break;
    }
    lab_answer(fd, &answer, false);
    ok(answer.status == 408 || answer.status == 501, "a head that trickles gets 408");
    close(fd);
    fd = lab_connect(&lab);
    ok(lab_closed(fd), "an idle connection is closed");
    close(fd);
    fd = lab_connect(&lab);
    lab_say(fd, "POST /read HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\nabc");
    lab_answer(fd, &answer, false);
    ok_all("half a body is a time-out", answer.status == 408, body_result == -ERR_TIMEOUT, lab_closed(fd));
    close(fd);
    fd = lab_connect(&lab);
    lab_say(fd, "POST /read HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\nabc");
    shutdown(fd, SHUT_WR);
    lab_answer(fd, &answer, false);
    ok(answer.status == 410 && body_result == -ERR_GONE, "a body cut by the client's end is known");
    close(fd);
    fd = lab_connect(&lab);
    last_status = 0;
    lab_say(fd, "GET /flood HTTP/1.1\r\n" H "\r\n");
    ok(wait_for(last_status == -ERR_TIMEOUT), "a client that reads nothing ends the answer");
    close(fd);
    fd = lab_connect(&lab);
    last_status = 0;
    lab_say(fd, "GET /flood HTTP/1.1\r\n" H "\r\n");
    wait_for(running == 1);
    close(fd);
    ok(wait_for(last_status == -ERR_GONE), "a client that hangs up ends the answer");
    ok(lab_stop(&lab, 1000) == 0, "stops");
}

/* Sends a byte every 20 ms until there is an answer; how many it took. */
static int trickle(int fd, int most) {
    int sent = 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (sent < most && poll(&ready, 1, 20) == 0 && lab_say(fd, "x"))
        sent++;
    return sent;
}

static void test_drops(void) {
    struct http_config config = {
        .routes = routes, .body_timeout_ms = 300, .write_timeout_ms = 300, .min_rate_bytes = 1000};
    struct lab lab;
    lab_start(&lab, "127.0.0.1:0", &config);
    int fd = lab_connect(&lab);
    lab_say(fd, "POST /read HTTP/1.1\r\n" H "Content-Length: 1000\r\n\r\n");
    int sent = trickle(fd, 200); /* 50 bytes a second, never silent */
    lab_answer(fd, &answer, false);
    ok(answer.status == 408 && sent < 100, "a body below the rate is a time-out");
    close(fd);
    fd = lab_connect(&lab);
    lab_say(fd, "POST /live HTTP/1.1\r\n" H "Content-Length: 60\r\n\r\n");
    sent = trickle(fd, 60);
    lab_answer(fd, &answer, false);
    ok(answer.status == 200 && sent == 60, "one that may be slow is not");
    close(fd);
    fd = lab_connect(&lab);
    int small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    last_status = 0;
    lab_say(fd, "GET /flood HTTP/1.1\r\n" H "\r\n");
    char byte[4];
    for (int i = 0; i < 6000 && !last_status; i++) {
        (void)!recv(fd, byte, sizeof byte, MSG_DONTWAIT);
        poll(NULL, 0, 10);
    }
    ok(last_status == -ERR_TIMEOUT, "an answer read below the rate is a time-out");
    close(fd);
    ok(lab_stop(&lab, 1000) == 0, "stops");
}

static void test_budget(void) {
    enum { BODY = 1 << 20 };
    struct http_config config = {.routes = routes, .max_held_bytes = 7 << 20};
    struct lab lab;
    struct http_counts counts;
    static char data[BODY];
    lab_start(&lab, "127.0.0.1:0", &config);
    memset(data, 'x', sizeof data);
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = lab_connect(&lab);
        lab_say(fds[i], "POST /all HTTP/1.1\r\n" H "Content-Length: 1048576\r\n\r\n");
        for (size_t at = 0; at < BODY - 1;) {
            ssize_t n = send(fds[i], data + at, BODY - 1 - at, MSG_NOSIGNAL);
            if (n <= 0)
                break;
            at += (size_t)n;
        }
        /* the first has all it needs before the second comes: six times its size, but what is free */
        if (i == 0)
            ok(wait_for((http_server_count(lab.server, &counts), counts.held_bytes >= 6 * BODY - (64 << 10))),
               "a body counts as it comes");
    }
    lab_answer(fds[1], &answer, false);
    ok(answer.status == 503, "a body beyond the budget of all is 503");
    close(fds[1]);
    lab_say(fds[0], "x");
    lab_answer(fds[0], &answer, false);
    ok(answer.status == 200, "the one before it is served");
    ok(wait_for((http_server_count(lab.server, &counts), counts.held_bytes == 0)), "and gives back what it held");
    close(fds[0]);
    ok(lab_stop(&lab, 1000) == 0, "stops");
}

static void test_crowd(void) {
    enum { MOST = 20, CLIENTS = 60 };
    struct http_config config = {.routes = routes, .max_connections = MOST, .head_timeout_ms = 60000};
    struct lab lab;
    struct http_counts counts;
    int fds[CLIENTS];
    lab_start(&lab, "127.0.0.1:0", &config);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = lab_connect(&lab);
        lab_say(fds[i], "GET /hello HT");
    }
    lab_ask_text(&lab, "GET /hello HTTP/1.1\r\n" H "\r\n", &answer);
    ok(answer.status == 200, "half heads do not keep a newcomer out");
    ok(wait_for((http_server_count(lab.server, &counts), counts.connections <= MOST)), "the oldest of them went");
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    ok(lab_stop(&lab, 1000) == 0, "stops");
}

static void test_hang_up(struct lab *lab) {
    int fd = lab_connect(lab);
    last_status = 0;
    lab_say(fd, "GET /wait HTTP/1.1\r\n" H "\r\n");
    wait_for(running == 1);
    close(fd);
    ok(wait_for(last_status == 'h'), "a handler sees the hang-up");
}

/* ---- threads, drain, listeners ---- */

static void test_threads(void) {
    enum { CLIENTS = 100 };
    struct http_config config = {.routes = routes};
    struct lab lab;
    struct http_counts counts;
    int fds[CLIENTS];
    lab_start(&lab, "127.0.0.1:0", &config);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = lab_connect(&lab);
        lab_say(fds[i], "GET /wait HTTP/1.1\r\n" H "\r\n");
    }
    ok(wait_for(running == CLIENTS), "a hundred blocked handlers at once");
    ok(lab_ask_text(&lab, "GET /hello HTTP/1.1\r\n" H "\r\n", &answer) == 200, "and the next request is served");
    bool good = true;
    for (int i = 0; i < CLIENTS; i++)
        good = good && write(gate[1], "x", 1) == 1;
    for (int i = 0; i < CLIENTS; i++) {
        lab_answer(fds[i], &answer, false);
        good = good && answer.status == 200;
        close(fds[i]);
    }
    ok(good, "all of them are answered");
    ok(wait_for((http_server_count(lab.server, &counts), counts.threads <= 4)), "the threads go away again");
    ok(counts.requests == CLIENTS + 1, "requests are counted");
    ok(lab_stop(&lab, 1000) == 0, "stops");
}

static void test_full(void) {
    struct http_config config = {.routes = routes, .max_threads = 3, .max_connections = 6};
    struct lab lab;
    int fds[6];
    lab_start(&lab, "127.0.0.1:0", &config);
    for (int i = 0; i < 2; i++) {
        fds[i] = lab_connect(&lab);
        lab_say(fds[i], "GET /wait HTTP/1.1\r\n" H "\r\n");
    }
    wait_for(running == 2);
    ok(lab_ask_text(&lab, "GET /hello HTTP/1.1\r\n" H "\r\n", &answer) == 200,
       "a quick request runs on the last thread");
    fds[2] = lab_connect(&lab);
    lab_say(fds[2], "GET /wait HTTP/1.1\r\n" H "\r\n");
    lab_answer(fds[2], &answer, false);
    ok(answer.status == 503 && answer_header(&answer, "retry-after"), "a slow one waits, then 503");
    for (int i = 3; i < 6; i++)
        fds[i] = lab_connect(&lab);
    struct http_counts counts;
    ok(wait_for((http_server_count(lab.server, &counts), counts.connections == 6)), "connections are counted");
    int fd = lab_connect(&lab);
    lab_say(fd, "GET /hello HTTP/1.1\r\n" H "\r\n");
    lab_answer(fd, &answer, false);
    ok(answer.status == 200 && lab_closed(fds[2]), "for one connection too many the one idle longest goes");
    close(fd);
    ok(write(gate[1], "xx", 2) == 2 && wait_for(running == 0), "the blocked ones go on");
    for (int i = 0; i < 6; i++)
        close(fds[i]);
    ok(lab_stop(&lab, 1000) == 0, "stops");
    config.max_connections = 2;
    lab_start(&lab, "127.0.0.1:0", &config);
    for (int i = 0; i < 2; i++) {
        fds[i] = lab_connect(&lab);
        lab_say(fds[i], "GET /wait HTTP/1.1\r\n" H "\r\n");
    }
    wait_for(running == 2);
    fd = lab_connect(&lab);
    lab_answer(fd, &answer, false);
    ok_all("where all are busy it gets 503", answer.status == 503, !answer.cut, lab_closed(fd));
    close(fd);
    ok(write(gate[1], "xx", 2) == 2 && wait_for(running == 0), "these go on too");
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    ok(lab_stop(&lab, 1000) == 0, "stops");
}

static struct http_server *drained; /* for handle_wait */

static void test_drain(void) {
    struct http_config config = {.routes = routes, .context = &drained};
    struct lab lab;
    lab_start(&lab, "127.0.0.1:0", &config);
    drained = lab.server;
    char address[100];
    snprintf(address, sizeof address, "%s", http_server_address(lab.server));
    int idle = lab_connect(&lab), busy = lab_connect(&lab), stream = lab_connect(&lab), half = lab_connect(&lab);
    lab_say(busy, "GET /wait HTTP/1.1\r\n" H "\r\n");
    lab_say(stream, "GET /wait?stop=1 HTTP/1.1\r\n" H "\r\n");
    lab_say(half, "GET /wa");
    wait_for(running == 2);
    http_server_stop(lab.server, 10000);
    ok(lab_closed(idle), "stop closes an idle connection");
    ok(lab_closed(half), "and one with half a head");
    lab_answer(stream, &answer, false);
    ok(strcmp(answer.body, "stopping") == 0, "a stream sees that the server stops");
    ok(wait_for(lab_connect_to(address) < 0), "nobody new is taken");
    ok(write(gate[1], "x", 1) == 1, "the running request may go on");
    lab_answer(busy, &answer, false);
    ok_all("and is answered to its end", answer.status == 200,
           strcmp(answer_header(&answer, "connection"), "close") == 0, lab_closed(busy));
    pthread_join(lab.thread, NULL);
    ok(lab.result == 0, "drained");
    http_server_free(lab.server);
    close(idle), close(busy), close(stream), close(half);

    lab_start(&lab, "127.0.0.1:0", &config);
    busy = lab_connect(&lab);
    last_status = 0;
    lab_say(busy, "GET /wait HTTP/1.1\r\n" H "\r\n");
    wait_for(running == 1);
    uint64_t start_ms = clock_ms();
    ok_all("after the drain time a running request is cut off", lab_stop(&lab, 50) == 0, last_status == 'h',
           clock_ms() - start_ms < 20000);
    close(busy);
}

static void test_unix(void) {
    char path[60], text[110], expected[40];
    struct stat status;
    struct http_config config = {.routes = routes, .check_host = true};
    struct lab lab;
    snprintf(path, sizeof path, "/tmp/http-test-%d.sock", (int)getpid());
    snprintf(text, sizeof text, "unix:%s", path);
    lab_start(&lab, text, &config);
    lab_ask_text(&lab, "GET /peer HTTP/1.1\r\nHost: anything\r\n\r\n", &answer);
    snprintf(expected, sizeof expected, "1 0 %d", (int)getuid());
    ok(answer.status == 200 && strcmp(answer.body, expected) == 0, "a unix socket tells who asks");
    ok(stat(path, &status) == 0 && (status.st_mode & 0777) == 0600, "it is its owner's alone");
    ok(file_round(&lab, 9000000, 0) && round_trip(&lab, "PUT /splice", 2000000, 0), "files both ways over it");
    struct http_server *other;
    struct err err;
    ok(http_server_new(text, &config, &other, &err) == -ERR_BUSY, "a second server does not take it over");
    ok(http_server_new("127.0.0.1:99999", &config, &other, &err) == -ERR_INVALID && strstr(err.text, "99999"),
       "a port beyond 65535 is refused by name");
    lab_stop(&lab, 1000);
    ok(stat(path, &status) < 0, "it is gone after stop");
    int stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    if (bind(stale, (struct sockaddr *)&at, sizeof at) < 0)
        abort();
    close(stale);
    snprintf(text, sizeof text, "127.0.0.1:0,unix:%s", path);
    lab_start(&lab, text, &config);
    ok(strncmp(http_server_address(lab.server), "127.0.0.1:", 10) == 0, "two listeners, the first is the address");
    lab_ask_text(&lab, "GET /peer HTTP/1.1\r\n" H "\r\n", &answer);
    snprintf(expected, sizeof expected, "0 1 %d", (int)getuid());
    ok(strcmp(answer.body, expected) == 0, "TCP knows loopback, and whose socket is at the other end");
    snprintf(text, sizeof text, "unix:%s", path);
    int fd = lab_connect_to(text);
    lab_say(fd, "GET /hello HTTP/1.1\r\n" H "\r\n");
    lab_answer(fd, &answer, false);
    ok(answer.status == 200, "a stale socket was replaced");
    close(fd);
    lab_stop(&lab, 1000);
}

int main(void) {
    struct http_config config = {.routes = routes, .admit = admit, .finished = finished};
    struct lab lab;
    signal(SIGPIPE, SIG_IGN);
    if (pipe2(gate, O_CLOEXEC | O_NONBLOCK) < 0)
        return 1;
    lab_start(&lab, "127.0.0.1:0", &config);
    test_connections(&lab);
    test_pipelining(&lab);
    test_bodies(&lab);
    test_continue(&lab);
    test_unread(&lab);
    test_answers(&lab);
    test_files(&lab);
    test_hang_up(&lab);
    struct http_counts counts;
    http_server_count(lab.server, &counts);
    ok(lab_stop(&lab, 1000) == 0 && (uint64_t)finished_count == counts.requests,
       "every request was reported as finished");
    test_slow();
    test_drops();
    test_budget();
    test_crowd();
    test_threads();
    test_full();
    test_drain();
    test_unix();
    free(answer.body);
    return tap_end();
}
