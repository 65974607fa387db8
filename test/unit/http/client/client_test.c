/* The HTTP client against servers that answer well, badly and hostilely: a thread plays the server on a unix socket and
 * sends exactly the bytes a case names. */
#include "http/client/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/sha.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "tap.h"

static char server_path[] = "/tmp/cubby-client-XXXXXX/s";

/* ---- the server ---- */

struct answer {
    const char *bytes;
    size_t len;
    bool websocket;  /* a right handshake first */
    bool wrong_key;  /* ... with a wrong answer to the key */
    char got[65536]; /* what the client sent, head and all */
    size_t got_len;
};

struct server {
    int fd;
    struct answer *answer;
};

static void server_accept_key(const struct answer *answer, char *ret_text, size_t size) {
    char text[100] = "";
    uint8_t digest[20];
    const char *key = strstr(answer->got, "Sec-WebSocket-Key: ");
    if (key)
        snprintf(text, sizeof text, "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key + 19);
    SHA1((const uint8_t *)text, strlen(text), digest);
    autobuf out = buf_max(64);
    text_base64(&out, digest, sizeof digest);
    snprintf(ret_text, size, "%.*s", (int)out.len, (const char *)out.data);
}

static void server_read(int fd, struct answer *answer, const char *until) {
    while (!until || !strstr(answer->got, until)) {
        ssize_t n = read(fd, answer->got + answer->got_len, sizeof answer->got - 1 - answer->got_len);
        if (n <= 0)
            return;
        answer->got_len += (size_t)n;
        answer->got[answer->got_len] = 0;
    }
}

static void *server_run(void *user) {
    struct server *server = user;
    struct answer *answer = server->answer;
    autofd fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
    server_read(fd, answer, "\r\n\r\n");
    if (answer->websocket) {
        char key[64], head[256];
        server_accept_key(answer, key, sizeof key);
        int n = snprintf(head, sizeof head,
                         "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         "Sec-WebSocket-Accept: %s\r\n\r\n",
                         answer->wrong_key ? "AAAAAAAAAAAAAAAAAAAAAAAAAAA=" : key);
        fd_write_all(fd, head, (size_t)n);
    }
    fd_write_all(fd, answer->bytes, answer->len);
    shutdown(fd, SHUT_WR);
    server_read(fd, answer, NULL);
    return NULL;
}

static pthread_t server_start(struct server *server, struct answer *answer) {
    pthread_t thread;
    server->answer = answer;
    pthread_create(&thread, NULL, server_run, server);
    return thread;
}

static int server_listen(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *strrchr(server_path, '/') = 0;
    if (!mkdtemp(server_path))
        exit(1);
    server_path[strlen(server_path)] = '/';
    snprintf(address.sun_path, sizeof address.sun_path, "%s", server_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4) < 0)
        exit(1);
    return fd;
}

static struct http_client *client_for(const char *token) {
    char url[100];
    struct http_client *client = NULL;
    struct err err = {0};
    snprintf(url, sizeof url, "unix:%s", server_path);
    if (http_client_new(url, token, &client, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return client;
}

/* ---- calls ---- */

static void call_is(struct server *server, const char *bytes, int code, int status, const char *body,
                    const char *name) {
    struct answer answer = {.bytes = bytes, .len = strlen(bytes)};
    pthread_t thread = server_start(server, &answer);
    struct http_client *client = client_for("secret");
    struct http_call call = {.method = "GET", .path = "/x?path=a%20b"};
    struct err err = {0};
    int got_status = 0;
    autobuf out = buf_max(100);
    int got = http_client_call(client, &call, &got_status, &out, &err);
    http_client_free(client);
    pthread_join(thread, NULL);
    ok_all(name, got == code, got_status == status, out.len == strlen(body),
           (!out.len || memcmp(out.data, body, out.len) == 0), strstr(answer.got, "GET /x?path=a%20b HTTP/1.1\r\n"),
           strstr(answer.got, "Authorization: Bearer secret\r\n"));
    if (got != code || got_status != status)
        printf("# got %d, status %d: %s\n", got, got_status, err.text);
}

static void test_calls(struct server *server) {
    call_is(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 0, 200, "hi", "an answer");
    call_is(server, "HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx", 0, 404, "x", "a refusal is an answer");
    call_is(server, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 0, 200, "hi",
            "chunks");
    call_is(server, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", -ERR_IO, 0, "hi", "a cut answer is an error");
    call_is(server, "", -ERR_IO, 0, "", "no answer is an error");
    call_is(server, "SSH-2.0-x\r\n", -ERR_IO, 0, "", "something else is an error");
    char large[400] = "HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n";
    size_t head = strlen(large);
    memset(large + head, 'x', 200);
    struct answer answer = {.bytes = large, .len = head + 200};
    pthread_t thread = server_start(server, &answer);
    struct http_client *client = client_for(NULL);
    struct http_call call = {.method = "GET", .path = "/"};
    struct err err = {0};
    int status = 0;
    autobuf out = buf_max(100);
    ok(http_client_call(client, &call, &status, &out, &err) == -ERR_TOO_LARGE,
       "an answer beyond its bound is an error");
    http_client_free(client);
    pthread_join(thread, NULL);
    ok(!strstr(answer.got, "Authorization"), "no token, no header");
}

static void test_addresses(void) {
    static const char *const bad[] = {"",           "ftp://x",          "unix:relative",
                                      "http://a b", "http://a\r\nX: y", "127.0.0.1:7070"};
    struct http_client *client = NULL;
    struct err err = {0};
    bool all = true;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        all = all && http_client_new(bad[i], NULL, &client, &err) == -ERR_INVALID;
    ok(all, "addresses that are none are refused");
    ok(http_client_new("http://localhost:1", "a\r\nX: y", &client, &err) == -ERR_INVALID,
       "so is a token with a line break");
}

/* ---- WebSocket ---- */

struct expected {
    int open, receive; /* codes; receive: of the call after the last message */
    const char *text;  /* messages one after the other, text ones in brackets */
    unsigned close;    /* what the server is told; 0: it is not looked at */
};

/* The code of the close frame that the client sent, behind pongs and others; 0: none. */
static unsigned sent_close(const struct answer *answer) {
    const char *head = strstr(answer->got, "\r\n\r\n");
    size_t at = head ? (size_t)(head + 4 - answer->got) : answer->got_len;
    while (at + 6 <= answer->got_len) {
        const uint8_t *frame = (const uint8_t *)answer->got + at;
        if ((frame[0] & 15) == 8)
            return (frame[1] & 127) >= 2 ? (unsigned)(frame[6] ^ frame[2]) << 8 | (frame[7] ^ frame[3]) : 1005;
        at += 6u + (frame[1] & 127);
    }
    return 0;
}

static int receive(struct http_socket *socket, char *out, size_t size, struct err *err) {
    for (;;) {
        bool text;
        const uint8_t *data;
        size_t len;
        int code = http_socket_recv(socket, &text, &data, &len, err);
        if (code < 0)
            return code;
        if (code == 0) {
            struct pollfd wait = {.fd = http_socket_fd(socket), .events = POLLIN};
            if (poll(&wait, 1, 60000) <= 0)
                return -ERR_TIMEOUT;
            continue;
        }
        size_t at = strlen(out);
        snprintf(out + at, size - at, text ? "[%.*s]" : "%.*s", (int)len, (const char *)data);
    }
}

static void socket_is(struct server *server, struct answer *answer, struct expected expected, const char *name) {
    pthread_t thread = server_start(server, answer);
    struct http_client *client = client_for("secret");
    struct http_socket *socket = NULL;
    struct err err = {0};
    char text[1000] = "";
    int opened = http_client_ws(client, "/pty", &socket, &err), received = 0;
    if (opened == 0)
        received = receive(socket, text, sizeof text, &err);
    http_socket_close(socket);
    http_client_free(client);
    pthread_join(thread, NULL);
    bool good = opened == expected.open && received == expected.receive && strcmp(text, expected.text) == 0 &&
                (!expected.close || sent_close(answer) == expected.close);
    ok(good, name);
    if (!good)
        printf("# opened %d, received %d, close %u, text '%s': %s\n", opened, received, sent_close(answer), text,
               err.text);
}

#define FRAMES(bytes_)                                                                                                 \
    &(struct answer) {                                                                                                 \
        .bytes = bytes_, .len = sizeof bytes_ - 1, .websocket = true                                                   \
    }

static void test_frames(struct server *server) {
    const struct expected gone = {0, -ERR_GONE, "", 0}, wrong = {0, -ERR_PROTOCOL, "", 1002};
    const struct expected large = {0, -ERR_TOO_LARGE, "", 1009};
    socket_is(server, FRAMES("\x82\x02hi\x81\x02{}\x88\x02\x03\xe8"), (struct expected){0, -ERR_GONE, "hi[{}]", 1000},
              "messages");
    socket_is(server,
              FRAMES("\x02\x01"
                     "a\x89\x01p\x00\x01"
                     "b\x80\x01"
                     "c\x88\x00"),
              (struct expected){0, -ERR_GONE, "abc", 1000}, "fragments with a ping between");
    socket_is(server, FRAMES(""), gone, "a hang-up");
    socket_is(server,
              FRAMES("\x82\x05"
                     "ab"),
              gone, "half a frame");
    socket_is(server, FRAMES("\x82\x82mask12"), wrong, "a masked frame is refused");
    socket_is(server, FRAMES("\xc2\x01x"), wrong, "reserved bits are refused");
    socket_is(server, FRAMES("\x83\x01x"), wrong, "an unknown frame is refused");
    socket_is(server, FRAMES("\x80\x01x"), wrong, "a continuation of nothing is refused");
    socket_is(server,
              FRAMES("\x02\x01"
                     "a\x82\x01"
                     "b"),
              wrong, "a message inside a message is refused");
    socket_is(server, FRAMES("\x09\x01x"), wrong, "a ping in fragments is refused");
    socket_is(server, FRAMES("\x89\x7e\x00\x80"), wrong, "a long ping is refused");
    socket_is(server, FRAMES("\x81\x01\xff"), (struct expected){0, -ERR_PROTOCOL, "", 1007},
              "text that is not UTF-8 is refused");
    socket_is(server, FRAMES("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"), large, "a huge frame is refused");
    socket_is(server, FRAMES("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff"), large, "a negative length is refused");
    struct answer wrong_key = {.bytes = "", .websocket = true, .wrong_key = true};
    socket_is(server, &wrong_key, (struct expected){-ERR_PROTOCOL, 0, "", 0}, "an answer to another key is refused");
}

static void test_floods(struct server *server) {
    const struct expected flood = {0, -ERR_LIMIT, "", 1008};
    enum { FRAMES_ = 10100 };
    static char pings[FRAMES_ * 2], fragments[FRAMES_ * 2];
    for (int i = 0; i < FRAMES_; i++) {
        memcpy(pings + 2 * i, "\x8a\0", 2);
        memcpy(fragments + 2 * i, i ? "\0\0" : "\x02\0", 2);
    }
    struct answer answer = {.bytes = pings, .len = sizeof pings, .websocket = true};
    socket_is(server, &answer, flood, "a flood of pongs is the end");
    answer = (struct answer){.bytes = fragments, .len = sizeof fragments, .websocket = true};
    socket_is(server, &answer, flood, "so are fragments without end");
    static char large[70000 * 16];
    for (int i = 0; i < 16; i++)
        memcpy(large + i * 70000, i ? "\0\x7f\0\0\0\0\0\x01\x11\x66" : "\x02\x7f\0\0\0\0\0\x01\x11\x66", 10);
    answer = (struct answer){.bytes = large, .len = sizeof large, .websocket = true};
    socket_is(server, &answer, (struct expected){0, -ERR_TOO_LARGE, "", 1009}, "and ones that are too large together");
}

static void test_refusals(struct server *server) {
    static const char not_found[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}";
    struct answer answer = {.bytes = not_found, .len = sizeof not_found - 1};
    socket_is(server, &answer, (struct expected){-ERR_NOT_FOUND, 0, "", 0}, "no upgrade: not found");
    char *head = malloc(100000);
    memset(head, 'x', 100000);
    struct answer huge = {.bytes = head, .len = 100000};
    socket_is(server, &huge, (struct expected){-ERR_TOO_LARGE, 0, "", 0}, "a head without an end is given up");
    free(head);
}

/* What we send arrives masked and whole. */
static void test_send(struct server *server) {
    struct answer answer = {.bytes = "", .websocket = true};
    pthread_t thread = server_start(server, &answer);
    struct http_client *client = client_for(NULL);
    struct http_socket *socket = NULL;
    struct err err = {0};
    char data[300];
    memset(data, 'd', sizeof data);
    bool sent = http_client_ws(client, "/pty", &socket, &err) == 0 &&
                http_socket_send(socket, false, data, sizeof data, &err) == 0;
    http_socket_close(socket);
    http_client_free(client);
    pthread_join(thread, NULL);
    const uint8_t *frame = (const uint8_t *)strstr(answer.got, "\r\n\r\n") + 4;
    bool right = sent && frame[0] == 0x82 && frame[1] == (0x80 | 126) && frame[2] == 1 && frame[3] == 44;
    for (size_t i = 0; right && i < sizeof data; i++)
        right = (frame[8 + i] ^ frame[4 + (i & 3)]) == 'd';
    ok(right, "what is sent is masked and whole");
    ok(right && frame[8 + 300] == 0x88, "and a close frame ends it");
}

/* Where a name may lead. */
static void test_reach(void) {
    static const struct {
        const char *address;
        bool named, everybody;
    } cases[] = {
        {"1.1.1.1", true, true},
        {"8.8.8.8", true, true},
        {"127.0.0.1", true, false},
        {"10.1.2.3", true, false},
        {"172.16.0.1", true, false},
        {"172.31.255.255", true, false},
        {"172.32.0.1", true, true},
        {"192.168.1.1", true, false},
        {"100.64.0.1", true, false},
        {"100.100.100.200", true, false},
        {"198.19.0.1", true, false},
        {"169.254.169.254", false, false},
        {"0.0.0.0", false, false},
        {"224.0.0.1", false, false},
        {"255.255.255.255", false, false},
        {"2606:4700::1111", true, true},
        {"::1", true, false},
        {"::", false, false},
        {"fe80::1", false, false},
        {"fd00:ec2::254", true, false},
        {"ff02::1", false, false},
        {"64:ff9b::7f00:1", true, false},
        {"2002:7f00:1::", true, false},
        {"2001::1", true, false},
        {"::ffff:10.0.0.1", true, false},
        {"::ffff:169.254.1.1", false, false},
        {"::ffff:1.1.1.1", true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        const struct sockaddr *address = (const struct sockaddr *)&v4;
        if (inet_pton(AF_INET, cases[i].address, &v4.sin_addr) != 1) {
            inet_pton(AF_INET6, cases[i].address, &v6.sin6_addr);
            address = (const struct sockaddr *)&v6;
        }
        ok(http_reaches(HTTP_ANYWHERE, address) && http_reaches(HTTP_NAMED, address) == cases[i].named &&
               http_reaches(HTTP_PUBLIC, address) == cases[i].everybody,
           "who may connect to %s", cases[i].address);
    }
    struct http_client *client;
    struct err err = {0};
    int status;
    autobuf out = buf_max(1024);
    const struct http_call call = {.method = "GET", .path = "/", .timeout_ms = 1000};
    ok(http_client_new("http://localhost:1", NULL, &client, &err) == 0, "a client for a name");
    http_client_reach(client, HTTP_PUBLIC);
    int failed = http_client_call(client, &call, &status, &out, &err);
    ok(failed == -ERR_DENIED && strstr(err.text, "leads to an address of this machine"), "refused: %s", err.text);
    http_client_free(client);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN); /* of the servers played here: clients hang up on them */
    struct server server = {.fd = server_listen()};
    test_addresses();
    test_reach();
    test_calls(&server);
    test_frames(&server);
    test_floods(&server);
    test_refusals(&server);
    test_send(&server);
    close(server.fd);
    unlink(server_path);
    *strrchr(server_path, '/') = 0;
    rmdir(server_path);
    return tap_end();
}
