/* TLS, WebSocket and many idle connections: each with a real client on the other side. */
#include "http_cert.h"
#include "http_lab.h"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <sys/resource.h>

#define H "Host: localhost\r\n"
#define UPGRADE                                                                                                        \
    H "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n"                         \
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

enum { MAX_MESSAGE = 100000 };

static atomic_int ws_result, ws_ended;

static void handle_hello(struct http_request *request) {
    http_reply(request, 200, "text/plain", "hello", 5);
}

static void handle_big(struct http_request *request) {
    static char data[3000000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7 + i / 251);
    http_reply(request, 200, "application/octet-stream", data, sizeof data);
}

/* The same bytes from a file: over TLS they are copied, piece by piece. */
static void handle_big_file(struct http_request *request) {
    FILE *file = tmpfile();
    for (size_t i = 0; i < 3000000; i++)
        fputc((int)(char)(i * 7 + i / 251), file);
    fflush(file);
    http_reply_begin(request, 200, "application/octet-stream", 3000000);
    http_reply_file(request, fileno(file), 0, 3000000);
    http_reply_end(request);
    fclose(file);
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

/* Sends every message back; "ping" is answered with a ping, "bye" with a close. */
static void handle_ws(struct http_request *request) {
    struct ws *ws;
    struct err err;
    if (ws_accept(request, MAX_MESSAGE, &ws, &err) < 0) {
        http_reply_error(request, &err);
        return;
    }
    int result;
    for (;;) {
        enum ws_kind kind;
        const uint8_t *data;
        size_t len;
        result = ws_recv(ws, &kind, &data, &len, &err);
        if (result < 0)
            break;
        if (result == 0) {
            struct pollfd ready = {.fd = http_fd(request), .events = POLLIN};
            poll(&ready, 1, 5000);
        } else if (len == 4 && memcmp(data, "ping", 4) == 0) {
            ws_ping(ws, &err);
        } else if (len == 3 && memcmp(data, "bye", 3) == 0) {
            break;
        } else if (ws_send(ws, kind, data, len, &err) < 0) {
            break;
        }
    }
    ws_result = result;
    ws_close(ws, 1000, "done");
    ws_ended++;
}

static const struct route routes[] = {
    {"GET", "/hello", handle_hello, ROUTE_QUICK, "hello", "", NULL},
    {"GET", "/big", handle_big, 0, "big", "", NULL},
    {"GET", "/big-file", handle_big_file, 0, "big_file", "", NULL},
    {"POST", "/echo", handle_echo, 0, "echo", "", NULL},
    {"GET", "/ws", handle_ws, 0, "ws", "", NULL},
    {NULL, NULL, NULL, 0, NULL, NULL, NULL},
};

static struct answer answer;

/* ---- WebSocket ---- */

static bool frame_send(int fd, uint8_t first, const void *data, size_t len, bool mask) {
    uint8_t *frame = malloc(len + 14), key[4] = {1, 2, 3, 4};
    size_t at = 2;
    frame[0] = first;
    frame[1] = (uint8_t)((mask ? 0x80 : 0) | (len < 126 ? len : len < 65536 ? 126 : 127));
    for (int shift = len < 126 ? -1 : len < 65536 ? 8 : 56; shift >= 0; shift -= 8)
        frame[at++] = (uint8_t)((uint64_t)len >> shift);
    if (mask) {
        memcpy(frame + at, key, 4);
        at += 4;
    }
    for (size_t i = 0; i < len; i++)
        frame[at + i] = ((const uint8_t *)data)[i] ^ (mask ? key[i & 3] : 0);
    bool good = lab_send(fd, frame, at + len);
    free(frame);
    return good;
}

struct frame {
    int opcode; /* -1: closed */
    uint8_t data[200000];
    size_t len;
};

static void frame_recv(int fd, struct frame *frame) {
    uint8_t head[10];
    frame->opcode = -1;
    if (recv(fd, head, 2, MSG_WAITALL) != 2)
        return;
    size_t extra = (head[1] & 127) < 126 ? 0 : (head[1] & 127) == 126 ? 2 : 8, len = head[1] & 127;
    if (extra && recv(fd, head + 2, extra, MSG_WAITALL) != (ssize_t)extra)
        return;
    for (size_t i = 0; i < extra; i++)
        len = (i ? len << 8 : 0) | head[2 + i];
    if (len > sizeof frame->data || (len && recv(fd, frame->data, len, MSG_WAITALL) != (ssize_t)len))
        return;
    frame->opcode = head[0];
    frame->len = len;
}

static int ws_open(struct lab *lab) {
    int fd = lab_connect(lab);
    lab_say(fd, "GET /ws HTTP/1.1\r\n" UPGRADE "\r\n");
    lab_answer(fd, &answer, false);
    return fd;
}

static bool ws_says(int fd, int opcode, const void *data, size_t len) {
    static struct frame frame;
    frame_recv(fd, &frame);
    return frame.opcode == opcode && frame.len == len && memcmp(frame.data, data, len) == 0;
}

static void test_shake(struct lab *lab) {
    int fd = ws_open(lab);
    ok(answer.status == 101 &&
           strcmp(answer_header(&answer, "sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") == 0,
       "the handshake of RFC 6455");
    close(fd);
    const char *const bad[] = {
        "GET /ws HTTP/1.1\r\n" H "\r\n",
        "GET /ws HTTP/1.1\r\n" H "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "GET /ws HTTP/1.1\r\n" H "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: short\r\n\r\n",
        "GET /ws HTTP/1.1\r\n" H "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "GET /ws HTTP/1.1\r\n" H "Upgrade: h2c\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    };
    bool good = true;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        good = good && lab_ask_text(lab, bad[i], &answer) == 400;
    ok(good, "what is no handshake gets 400");
}

static void test_messages(struct lab *lab) {
    static uint8_t big[MAX_MESSAGE];
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (uint8_t)(i * 31);
    int fd = ws_open(lab);
    frame_send(fd, 0x81, "hello", 5, true);
    ok(ws_says(fd, 0x81, "hello", 5), "a text message comes back");
    frame_send(fd, 0x82, big, 70000, true);
    ok(ws_says(fd, 0x82, big, 70000), "a binary one of 70 KB");
    frame_send(fd, 0x82, big, sizeof big, true);
    ok(ws_says(fd, 0x82, big, sizeof big), "one of just the limit");
    frame_send(fd, 0x82, big, 0, true);
    ok(ws_says(fd, 0x82, big, 0), "an empty one");
    frame_send(fd, 0x01, "fr", 2, true);
    frame_send(fd, 0x89, "p", 1, true);
    frame_send(fd, 0x80, "agments", 7, true);
    bool pong = ws_says(fd, 0x8a, "p", 1);
    ok(pong && ws_says(fd, 0x81, "fragments", 9), "fragments with a ping between them");
    for (int i = 0; i < 200; i++)
        frame_send(fd, 0x81, "many", 4, true);
    bool good = true;
    for (int i = 0; i < 200; i++)
        good = good && ws_says(fd, 0x81, "many", 4);
    ok(good, "200 messages in a row");
    for (int i = 0; i < 500; i++)
        frame_send(fd, 0x89, "p", 1, true);
    frame_send(fd, 0x81, "end", 3, true);
    for (int i = 0; i < 500; i++)
        good = good && ws_says(fd, 0x8a, "p", 1);
    ok(good && ws_says(fd, 0x81, "end", 3), "500 pings in a row, then a message");
    frame_send(fd, 0x81, "ping", 4, true);
    ok(ws_says(fd, 0x89, "\1\0\0\0\0\0\0", 8), "a ping from the server");
    frame_send(fd, 0x88, "\x03\xe8", 2, true);
    ok(ws_says(fd, 0x88, "\x03\xe8", 2) && lab_closed(fd), "a close is answered");
    close(fd);
    fd = ws_open(lab);
    frame_send(fd, 0x81, "bye", 3, true);
    bool said = ws_says(fd, 0x88,
                        "\x03\xe8"
                        "done",
                        6);
    frame_send(fd, 0x88, "\x03\xe8", 2, true);
    ok(said && lab_closed(fd), "a close from the server");
    close(fd);
    fd = lab_connect(lab);
    lab_say(fd, "GET /ws HTTP/1.1\r\n" UPGRADE
                "\r\n\x81\x85\x01\x02\x03\x04\x69\x67\x6f\x68\x6e"); /* "hello" in the same segment */
    lab_answer(fd, &answer, false);
    ok(answer.status == 101 && ws_says(fd, 0x81, "hello", 5), "a frame that comes with the handshake");
    close(fd);
}

static void test_bad_frames(struct lab *lab) {
    static uint8_t big[MAX_MESSAGE + 1];
    const struct {
        const char *name;
        uint8_t first;
        size_t len;
        bool mask;
        const char *code;
    } bad[] = {
        {"an unmasked frame", 0x81, 5, false, "\x03\xea"},
        {"a message over the limit", 0x82, sizeof big, true, "\x03\xf1"},
        {"a reserved bit", 0xc1, 5, true, "\x03\xea"},
        {"a continuation of nothing", 0x80, 5, true, "\x03\xea"},
        {"a long ping", 0x89, 126, true, "\x03\xea"},
        {"an unknown opcode", 0x83, 5, true, "\x03\xea"},
        {"a ping in fragments", 0x09, 1, true, "\x03\xea"},
    };
    static struct frame frame;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int fd = ws_open(lab);
        frame_send(fd, bad[i].first, big, bad[i].len, bad[i].mask);
        frame_recv(fd, &frame);
        bool coded = frame.opcode == 0x88 && frame.len > 2 && memcmp(frame.data, bad[i].code, 2) == 0;
        if (frame.opcode != -1)
            frame_recv(fd, &frame);
        if (!ok(frame.opcode == -1 && coded, bad[i].name))
            printf("# opcode %d, length %zu, code %d\n", frame.opcode, frame.len, frame.data[0] << 8 | frame.data[1]);
        close(fd);
    }
    int fd = ws_open(lab);
    frame_send(fd, 0x81, "\xff\xfe", 2, true);
    frame_recv(fd, &frame);
    ok(frame.opcode == 0x88 && memcmp(frame.data, "\x03\xef", 2) == 0, "text that is not UTF-8");
    close(fd);
    int before = ws_ended;
    fd = ws_open(lab);
    close(fd);
    uint64_t end_ms = clock_ms() + 60000;
    while (ws_ended == before && clock_ms() < end_ms)
        usleep(2000);
    ok(ws_ended > before, "a hang-up ends the handler");
}

/* ---- TLS ---- */

static bool tls_say(SSL *tls, const void *data, size_t len) {
    size_t sent;
    for (size_t at = 0; at < len; at += sent)
        if (SSL_write_ex(tls, (const char *)data + at, len - at, &sent) != 1)
            return false;
    return true;
}

/* Reads until `want` bytes behind the head are there. */
static size_t tls_answer(SSL *tls, char *data, size_t size, size_t want) {
    size_t len = 0, n;
    for (;;) {
        char *end = memmem(data, len, "\r\n\r\n", 4);
        if (end && len - (size_t)(end + 4 - data) >= want) {
            memmove(data, end + 4, want);
            return want;
        }
        if (len == size || SSL_read_ex(tls, data + len, size - len, &n) != 1)
            return 0;
        len += n;
    }
}

static void test_tls_requests(SSL *tls) {
    static char data[4000000], body[3000000];
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)(i * 7 + i / 251);
    const char *hello = "GET /hello HTTP/1.1\r\n" H "\r\n";
    bool good = true;
    for (int i = 0; i < 5; i++)
        good = good && tls_say(tls, hello, strlen(hello)) && tls_answer(tls, data, sizeof data, 5) &&
               memcmp(data, "hello", 5) == 0;
    ok(good, "requests over TLS, kept alive");
    const char *big = "GET /big HTTP/1.1\r\n" H "\r\n";
    ok_all("3 MB down over TLS", tls_say(tls, big, strlen(big)), tls_answer(tls, data, sizeof data, sizeof body),
           memcmp(data, body, sizeof body) == 0);
    big = "GET /big-file HTTP/1.1\r\n" H "\r\n";
    ok_all("a 3 MB file over TLS is that file", tls_say(tls, big, strlen(big)),
           tls_answer(tls, data, sizeof data, sizeof body), memcmp(data, body, sizeof body) == 0);
    char head[100];
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n", 1000000);
    ok_all("1 MB up and down over TLS", tls_say(tls, head, strlen(head)), tls_say(tls, body, 1000000),
           tls_answer(tls, data, sizeof data, 1000000), memcmp(data, body, 1000000) == 0);
    char two[200];
    snprintf(two, sizeof two, "%s%s", hello, hello);
    ok(tls_say(tls, two, strlen(two)) && tls_answer(tls, data, sizeof data, 5), "two in one record");
}

static void test_tls(void) {
    char cert[100], key[100];
    snprintf(cert, sizeof cert, "/tmp/http-test-%d.cert", (int)getpid());
    snprintf(key, sizeof key, "/tmp/http-test-%d.key", (int)getpid());
    cert_make(cert, key, "DNS:localhost", 3600);
    struct http_config config = {.routes = routes, .tls_cert = cert, .tls_key = key, .head_timeout_ms = 300};
    struct lab lab;
    lab_start(&lab, "127.0.0.1:0", &config);
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *tls = SSL_new(context);
    int fd = lab_connect(&lab);
    SSL_set_fd(tls, fd);
    ok(SSL_connect(tls) == 1, "the TLS handshake");
    test_tls_requests(tls);
    SSL_free(tls);
    close(fd);
    fd = lab_connect(&lab);
    lab_say(fd, "GET /hello HTTP/1.1\r\n" H "\r\n");
    lab_answer(fd, &answer, false);
    ok(answer.status == 0, "plain text to a TLS port gets no answer");
    close(fd);
    fd = lab_connect(&lab);
    lab_send(fd, "\x16\x03\x01\x02", 4);
    ok(lab_closed(fd), "half a handshake is given up");
    close(fd);
    ok(lab_stop(&lab, 1000) == 0, "stops");
    struct http_server *server;
    struct err err;
    chmod(key, 0644);
    ok(http_server_new("127.0.0.1:0", &config, &server, &err) == -ERR_DENIED && strstr(err.text, "chmod 600"),
       "a key that everybody can read is refused");
    config.tls_key = "/nonexistent";
    ok(http_server_new("127.0.0.1:0", &config, &server, &err) < 0 && strstr(err.text, "/nonexistent"),
       "a missing key is an error that names it");
    SSL_CTX_free(context);
    unlink(cert);
    unlink(key);
}

/* ---- many idle connections ---- */

static long resident_bytes(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1)
        abort();
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void test_idle(struct lab *lab) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int count = limit.rlim_cur > 18500 ? 9000 : (int)(limit.rlim_cur - 300) / 2;
    int *fds = calloc((size_t)count, sizeof *fds);
    memset(fds, 0, (size_t)count * sizeof *fds);
    for (int i = 0; i < 20; i++) /* first touches of buffers are not the connections' */
        lab_ask_text(lab, "GET /hello HTTP/1.1\r\n" H "\r\n", &answer);
    long before = resident_bytes();
    bool good = true;
    for (int i = 0; i < count; i++) {
        fds[i] = lab_connect(lab);
        lab_say(fds[i], "GET /hello HTTP/1.1\r\n" H "\r\n");
        lab_answer(fds[i], &answer, false);
        good = good && answer.status == 200;
    }
    struct http_counts counts;
    http_server_count(lab->server, &counts);
    long each = (resident_bytes() - before) / count;
    ok(good && counts.parked + 30 >= (unsigned)count, "thousands of connections, each served and parked");
    ok(each <= 2048, "an idle connection costs at most 2 KB");
    printf("# %d connections, %ld bytes each, %u threads\n", count, each, counts.threads);
    uint64_t start_us = clock_us();
    for (int i = 0; i < 100; i++) {
        lab_say(fds[i * 7], "GET /hello HTTP/1.1\r\n" H "\r\n");
        lab_answer(fds[i * 7], &answer, false);
    }
    printf("# %.0f us a request meanwhile\n", (double)(clock_us() - start_us) / 100);
    ok(answer.status == 200, "requests go on among them");
    for (int i = 0; i < count; i++)
        close(fds[i]);
    free(fds);
}

/* The clients' sockets exist already; then the process has no descriptor left for the server to accept with. */
static void test_no_descriptors(struct lab *lab) {
    enum { CLIENTS = 20 };
    struct rlimit before, none;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)strtoul(strrchr(http_server_address(lab->server), ':') + 1, NULL, 10));
    int fds[CLIENTS];
    struct timeval limit = {.tv_sec = 60};
    struct http_counts counts;
    uint64_t end_ms = clock_ms() + 60000;
    do /* numbers that the server still gives back would be found by accept */
        http_server_count(lab->server, &counts);
    while (counts.connections && clock_ms() < end_ms && usleep(2000) == 0);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    }
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    int free_fd = dup(0); /* the lowest free number: nothing at or above it may be opened */
    none.rlim_cur = (rlim_t)free_fd;
    close(free_fd);
    setrlimit(RLIMIT_NOFILE, &none);
    bool good = true;
    for (int i = 0; i < CLIENTS; i++)
        good = connect(fds[i], (struct sockaddr *)&to, sizeof to) == 0 && lab_closed(fds[i]) && good;
    setrlimit(RLIMIT_NOFILE, &before);
    ok(good, "without descriptors newcomers are turned away, not left waiting");
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    ok(lab_ask_text(lab, "GET /hello HTTP/1.1\r\n" H "\r\n", &answer) == 200, "and served when there are some again");
}

int main(void) {
    struct http_config config = {.routes = routes};
    struct lab lab;
    signal(SIGPIPE, SIG_IGN);
    lab_start(&lab, "127.0.0.1:0", &config);
    test_shake(&lab);
    test_messages(&lab);
    test_bad_frames(&lab);
    test_idle(&lab);
    test_no_descriptors(&lab);
    ok(lab_stop(&lab, 3000) == 0, "stops");
    test_tls();
    free(answer.body);
    return tap_end();
}
