/* Clients that mean harm: slow, endless, greedy, gone. Run against a daemon from outside by test/hostile/client_*.sh, daemon_*.sh.
 * ADDRESS: a path is a unix socket, a number a port of 127.0.0.1. REQUEST: text with \r \n escapes. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 20000 };

static _Noreturn void die(const char *what) {
    printf("error %s: %s\n", what, strerror(errno));
    exit(1);
}

static long number(const char *text) {
    return strtol(text, NULL, 10);
}

static uint64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int dial_with(const char *address, int receive_bytes) {
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool local = address[0] == '/';
    int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (receive_bytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    snprintf(path.sun_path, sizeof path.sun_path, "%s", address);
    port.sin_port = htons((uint16_t)number(address));
    int failed =
        local ? connect(fd, (struct sockaddr *)&path, sizeof path) : connect(fd, (struct sockaddr *)&port, sizeof port);
    if (failed == 0)
        return fd;
    close(fd);
    return -1;
}

static int dial(const char *address) {
    int fd = dial_with(address, 0);
    if (fd < 0)
        die("connect");
    return fd;
}

static size_t unescape(char *text) {
    char *to = text;
    for (char *at = text; *at; at++) {
        if (at[0] == '\\' && (at[1] == 'r' || at[1] == 'n'))
            *to++ = *++at == 'r' ? '\r' : '\n';
        else
            *to++ = *at;
    }
    *to = 0;
    return (size_t)(to - text);
}

static bool send_all(int fd, const void *data, size_t len) {
    for (const char *at = data; len;) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

/* The status of the answer that comes within the time; 0: none, -1: hung up. */
static int status_of(int fd, int timeout_ms) {
    char answer[4096];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, timeout_ms) <= 0)
        return 0;
    ssize_t n = recv(fd, answer, sizeof answer - 1, 0);
    if (n <= 0)
        return -1;
    answer[n] = 0;
    return n > 12 ? (int)number(answer + 9) : -1;
}

static void hold(const char *word) {
    char byte;
    puts(word);
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
}

/* heads ADDRESS COUNT: so many connections with half a head each, kept until standard input ends */
static void heads(char **argv) {
    static const char half[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    long count = number(argv[1]), made = 0;
    for (long i = 0; i < count; i++) {
        int fd = dial_with(argv[0], 0);
        made += fd >= 0 && send_all(fd, half, sizeof half - 1);
    }
    char word[64];
    snprintf(word, sizeof word, "holding %ld", made);
    hold(word);
}

/* body ADDRESS MS REQUEST: the request, then a byte every MS; prints "STATUS SECONDS" when there is an answer or an end */
static void body(char **argv) {
    int fd = dial(argv[0]), status;
    uint64_t start = now_ms();
    send_all(fd, argv[2], unescape(argv[2]));
    while ((status = status_of(fd, (int)number(argv[1]))) == 0)
        if (send(fd, "x", 1, MSG_NOSIGNAL) < 0)
            pause_ms(1);
    printf("%d %llu\n", status, (unsigned long long)(now_ms() - start) / 1000);
}

/* drops ADDRESS BYTES MS REQUEST: reads BYTES of the answer every MS; prints "BYTES SECONDS" at its end */
static void drops(char **argv) {
    static char data[1 << 20];
    int fd = dial_with(argv[0], 4096);
    size_t step = (size_t)number(argv[1]);
    uint64_t start = now_ms(), total = 0;
    send_all(fd, argv[3], unescape(argv[3]));
    for (ssize_t n; (n = recv(fd, data, step, 0)) > 0; total += (uint64_t)n)
        pause_ms(number(argv[2]));
    printf("%llu %llu\n", (unsigned long long)total, (unsigned long long)(now_ms() - start) / 1000);
}

/* pipeline ADDRESS COUNT: requests one behind the other, answers read at the same time; prints how many were 200 */
static void pipeline(char **argv) {
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static char data[1 << 16];
    int fd = dial(argv[0]);
    long count = number(argv[1]), sent = 0, good = 0, at = 0, match = 0;
    while (good < count) {
        struct pollfd ready = {.fd = fd, .events = (short)(sent < count ? POLLIN | POLLOUT : POLLIN)};
        if (poll(&ready, 1, 30000) <= 0)
            break;
        if (ready.revents & POLLOUT) {
            ssize_t n = send(fd, request + at, sizeof request - 1 - (size_t)at, MSG_NOSIGNAL | MSG_DONTWAIT);
            at += n > 0 ? n : 0;
            if (at == (long)sizeof request - 1)
                at = 0, sent++;
        }
        if (!(ready.revents & (POLLIN | POLLHUP)))
            continue;
        ssize_t n = recv(fd, data, sizeof data, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        for (ssize_t i = 0; i < n; i++) { /* "HTTP/1.1 200", also when it comes in two pieces */
            match = data[i] == "HTTP/1.1 200"[match] ? match + 1 : data[i] == 'H';
            if (match == 12)
                good++, match = 0;
        }
    }
    printf("%ld\n", good);
}

/* endless ADDRESS REQUEST: the request, then bytes until the server has had enough; prints "STATUS MEGABYTES" */
static void endless(char **argv) {
    static char data[1 << 16];
    int fd = dial(argv[0]), status = 0;
    uint64_t total = 0;
    memset(data, 'x', sizeof data);
    send_all(fd, argv[1], unescape(argv[1]));
    while (!status && total < 10000000000u) {
        ssize_t n = send(fd, data, sizeof data, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        total += (uint64_t)n;
        status = status_of(fd, 0);
    }
    printf("%d %llu\n", status ? status : status_of(fd, 5000), (unsigned long long)total >> 20);
}

/* bodies ADDRESS COUNT BYTES PATH: so many JSON bodies of that size, all but the last byte of each; prints how many were
 * answered (with what), and keeps the rest until standard input ends */
static void bodies(char **argv) {
    static int fds[CONNECTIONS];
    static char data[1 << 16];
    long count = number(argv[1]), size = number(argv[2]), answered = 0, held = 0;
    int status = 0;
    char head[512];
    memset(data, 'x', sizeof data);
    int len =
        snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %ld\r\n\r\n{\"command\":\"",
                 argv[3], size);
    for (long i = 0; i < count && i < CONNECTIONS; i++) {
        fds[i] = dial(argv[0]);
        bool whole = send_all(fds[i], head, (size_t)len);
        for (long left = size - 13; whole && left > 0; left -= (long)sizeof data)
            whole = send_all(fds[i], data, (size_t)(left < (long)sizeof data ? left : (long)sizeof data));
        int now = status_of(fds[i], whole ? 50 : 1000);
        answered += now != 0;
        held += now == 0;
        status = now > 0 ? now : status;
    }
    char word[96];
    snprintf(word, sizeof word, "held %ld answered %ld %d", held, answered, status);
    hold(word);
}

/* vanish ADDRESS HOW BYTES REQUEST: reads BYTES of the answer (0: waits for none), then goes: reset, close or half */
static void vanish(char **argv) {
    static char data[1 << 16];
    int fd = dial(argv[0]);
    long left = number(argv[2]);
    send_all(fd, argv[3], unescape(argv[3]));
    while (left > 0) {
        ssize_t n = recv(fd, data, (size_t)left < sizeof data ? (size_t)left : sizeof data, 0);
        if (n <= 0)
            die("the answer ended");
        left -= n;
    }
    hold("ready");
    struct linger now = {.l_onoff = 1};
    if (strcmp(argv[1], "half") == 0)
        shutdown(fd, SHUT_WR);
    else if (strcmp(argv[1], "reset") == 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    if (strcmp(argv[1], "half") == 0) {
        ssize_t n;
        while ((n = recv(fd, data, sizeof data, 0)) > 0)
            ;
    }
    close(fd);
    puts("gone");
}

static const struct {
    const char *name;
    void (*run)(char **argv);
    int arguments;
} commands[] = {{"heads", heads, 2},     {"body", body, 3},     {"drops", drops, 4},  {"pipeline", pipeline, 2},
                {"endless", endless, 2}, {"bodies", bodies, 4}, {"vanish", vanish, 4}};

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0 && argc == 2 + commands[i].arguments) {
            commands[i].run(argv + 2);
            return 0;
        }
    fprintf(stderr, "usage: see the source\n");
    return 2;
}
